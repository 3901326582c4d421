/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A property of passes: whatever happens to a tree between and during them,
 * after the last one, during which nothing happens, the destination is equal
 * to it in every attribute (tests/tools/treecmp), and both sides' proofs are
 * the same.
 *
 * Each seed is one run: tests/run says which failed. Environment:
 *	VZ_PASSES_SEED	the first seed (default 1)
 *	VZ_PASSES_COUNT	how many (default 24, but none is begun after 6 s)
 *	VZ_PASSES_DIR	where the trees are made (default /tmp): its file
 *			system is what is tested
 *	VZ_PASSES_TEST	this test alone
 *	VZ_PASSES_DST	where the copies are made (default: there): what that
 *			file system refuses is left out, as with
 *			--metadata=warn, and not looked for by treecmp
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/beneath.h"
#include "fs/iflags.h"
#include "fs/remove.h"
#include "track/ledger.h"
#include "xfer/compress.h"
#include "xfer/send.h"
#include "mutate.h"
#include "xferfix.h"
#include "needroot.h"

#define TIME_DEFAULT_S 6
#define PASSES_MAX 5

struct bed {
	char top[256], dst_top[256];
	int src, dst;
	struct mutate *m;
	uint64_t seed;
	/* What carries it must make no difference: */
	struct compress *compress; /* NULL: not compressed */
	int view;		   /* a tame view of src, -1: as it is */
	/* the mutator's thread */
	int stop;	 /* atomic */
	unsigned during; /* steps it may take */
};

static uint64_t
number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 10) : otherwise;
}

static void
empty(int fd)
{
	struct err e = { 0 };

	iflags_unlock(fd, NULL, NULL);
	if (remove_content(fd, NULL, &e) < 0) {
		fail_msg("cannot empty a tree: %s", e.text);
	}
}

static int
made_dir(const char *top, const char *name)
{
	char p[300];
	int fd;

	snprintf(p, sizeof(p), "%s/%s", top, name);
	assert_int_equal(mkdir(p, 0700), 0);
	fd = open(p, O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	return fd;
}

static void
bed_open(struct bed *b, uint64_t seed)
{
	const char *dir = getenv("VZ_PASSES_DIR");
	const char *dst = getenv("VZ_PASSES_DST");

	memset(b, 0, sizeof(*b));
	b->seed = seed;
	snprintf(b->top, sizeof(b->top), "%s/vzm-passes-XXXXXX",
		 dir ? dir : "/tmp");
	assert_non_null(mkdtemp(b->top));
	snprintf(b->dst_top, sizeof(b->dst_top), "%s", b->top);
	if (dst) {
		snprintf(b->dst_top, sizeof(b->dst_top), "%s/vzm-passes-XXXXXX",
			 dst);
		assert_non_null(mkdtemp(b->dst_top));
	}
	b->src = made_dir(b->top, "src");
	b->dst = made_dir(b->dst_top, "dst");
	b->m = mutate_new(b->src, seed);
	assert_non_null(b->m);
}

static void
bed_close(struct bed *b)
{
	char p[300];

	mutate_free(b->m);
	empty(b->src);
	empty(b->dst);
	close(b->src);
	close(b->dst);
	snprintf(p, sizeof(p), "%s/src", b->top);
	assert_int_equal(rmdir(p), 0);
	snprintf(p, sizeof(p), "%s/dst", b->dst_top);
	assert_int_equal(rmdir(p), 0);
	assert_int_equal(rmdir(b->top), 0);
	if (strcmp(b->top, b->dst_top) != 0) {
		assert_int_equal(rmdir(b->dst_top), 0);
	}
}

static void *
mutator(void *arg)
{
	struct bed *b = arg;

	for (unsigned i = 0;
	     i < b->during && !__atomic_load_n(&b->stop, __ATOMIC_RELAXED);
	     i++) {
		mutate_step(b->m);
		sched_yield();
	}
	return NULL;
}

static void __attribute__((format(printf, 2, 3), noreturn))
failed(struct bed *b, const char *fmt, ...)
{
	char text[2000];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mutate_tell(b->m);
	fprintf(stderr, "# the trees are in %s and %s\n", b->top, b->dst_top);
	fail_msg("seed %llu: %s", (unsigned long long)b->seed, text);
	abort();
}

/* One pass, with changes during it where it is not the final one. */
static void
pass(struct bed *b, struct xferfix *x, struct ledger *l, uint32_t no,
     bool final)
{
	struct send_opts o = { .ledger = l,
			       .live = !final,
			       .pass = no,
			       .final = final,
			       .compress = b->compress,
			       .tame = b->view >= 0 };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };
	pthread_t t;
	char why[1000];
	int rc = xferfix_begin_pass(x, no, final, &e);

	b->stop = 0;
	if (rc == 0 && b->during) {
		assert_int_equal(pthread_create(&t, NULL, mutator, b), 0);
	}
	rc = rc < 0 ? rc
		    : send_tree(o.tame ? b->view : b->src, x->l, &x->key, &o,
				&r, &e);
	if (b->during) {
		__atomic_store_n(&b->stop, 1, __ATOMIC_RELAXED);
		pthread_join(t, NULL);
	}
	rc = rc < 0 ? rc : xferfix_end_pass(x, no, final, &p, &e);
	if (rc < 0) {
		/* Where the other side has ended, it says why. */
		if (e.code == E_CLOSED) {
			poll(NULL, 0, 500);
		}
		failed(b, "pass %u: %s; the agent: %s", no, e.text,
		       x->served_err.text);
	}
	if (l) {
		ledger_commit(l);
	}
	if (!final) {
		assert_int_equal(p.entries, 0);
	} else if (p.entries != r.proof.entries || p.bytes != r.proof.bytes ||
		   !digest_eq(&p.sum, &r.proof.sum)) {
		send_explain(b->src, x->l, &x->key, 0, why, sizeof(why), &e);
		failed(b,
		       "the proofs differ: %llu and %llu entries, %llu and "
		       "%llu bytes: %s",
		       (unsigned long long)r.proof.entries,
		       (unsigned long long)p.entries,
		       (unsigned long long)r.proof.bytes,
		       (unsigned long long)p.bytes, why);
	}
	send_result_fini(&r);
}

static void
compare(struct bed *b)
{
	const char *builddir = getenv("builddir");
	const char *ignore = getenv("VZ_PASSES_DST")
				     ? "--ignore=xattr,flags,projid,holes,"
				       "blocks"
				     : "--ignore=atime";
	char prog[300], src[300], dst[300], opt[100];
	char *argv[] = { prog, opt, src, dst, NULL };
	extern char **environ;
	posix_spawn_file_actions_t fa;
	int status;
	pid_t pid;

	snprintf(prog, sizeof(prog), "%s/tests/tools/treecmp",
		 builddir ? builddir : ".");
	snprintf(src, sizeof(src), "%s/src", b->top);
	snprintf(dst, sizeof(dst), "%s/dst", b->dst_top);
	snprintf(opt, sizeof(opt), "%s", ignore);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, 2, 1);
	assert_int_equal(posix_spawn(&pid, prog, &fa, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&fa);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		failed(b, "treecmp finds differences");
	}
}

static void
steps(struct bed *b, unsigned n)
{
	while (n-- > 0) {
		mutate_step(b->m);
	}
}

/* Many names more, so that a pass takes a while and much happens in
 * it. */
static void
fill(struct bed *b)
{
	char p[64], text[512];
	int fd;

	memset(text, 'f', sizeof(text));
	for (unsigned i = 0; i < 1500; i++) {
		snprintf(p, sizeof(p), "n%u", i % 6);
		(void)mkdirat(b->src, p, 0755);
		snprintf(p, sizeof(p), "n%u/f%u", i % 6, i);
		fd = openat(b->src, p, O_WRONLY | O_CREAT | O_EXCL, 0644);
		assert_true(fd >= 0);
		assert_true(write(fd, text, i % 512) >= 0);
		close(fd);
	}
}

/* One to three streams, compressed or not, through a view of its own or not. */
static void
carry(struct bed *b, struct xferfix *x)
{
	struct err e = { 0 };
	char src[300];
	bool tame;

	b->view = -1;
	if (b->seed / 2 % 2) {
		snprintf(src, sizeof(src), "%s/src", b->top);
		b->view = beneath_open_tame(src, &tame, &e);
		assert_true(b->view >= 0);
		assert_true(tame);
	}
	if (b->seed % 2) {
		x->agent_caps = x->caps = FRAME_CAP_ZSTD;
		b->compress = compress_new(3, &e);
		assert_non_null(b->compress);
	}
	assert_int_equal(xferfix_open(x, b->dst, 2000, &e), 0);
	if (b->seed % 3) {
		x->streams = 1 + (unsigned)(b->seed % 3);
		assert_int_equal(xferfix_streams(x, &e), 0);
	}
}

static void
one_seed(uint64_t seed)
{
	struct bed b;
	struct xferfix x = { .policy = getenv("VZ_PASSES_DST") ? META_WARN
							       : META_STRICT };
	struct ledger *l;
	struct err e = { 0 };
	unsigned live = 1 + (unsigned)(seed % PASSES_MAX), no = 1;

	bed_open(&b, seed);
	carry(&b, &x);
	l = ledger_new(&x.key, &e);
	assert_non_null(l);
	if (seed % 8 == 5) {
		fill(&b);
	}
	steps(&b, 400);
	for (; no <= live; no++) {
		b.during = seed % 3 ? 3000 : 0;
		pass(&b, &x, l, no, false);
		if (seed % 2) {
			assert_int_equal(xferfix_sync(&x, &e), 0);
		}
		steps(&b, (unsigned)(seed / 7 % 60));
	}
	mutate_stop(b.m);
	b.during = 0;
	pass(&b, &x, l, no, true);
	ledger_free(l);
	xferfix_close(&x);
	assert_int_equal(x.served, 0);
	compress_free(b.compress);
	if (b.view >= 0) {
		close(b.view);
	}
	/* The root's own wait for the commit. */
	iflags_unlock(b.src, NULL, NULL);
	compare(&b);
	bed_close(&b);
}

static void
test_any_change(void **state)
{
	uint64_t first = number("VZ_PASSES_SEED", 1);
	uint64_t count = number("VZ_PASSES_COUNT", 24), done = 0;
	bool timed = !getenv("VZ_PASSES_COUNT");
	time_t until = time(NULL) + TIME_DEFAULT_S;

	(void)state;
	for (; done < count && (!timed || time(NULL) < until); done++) {
		one_seed(first + done);
	}
	printf("# %llu seeds from %llu on\n", (unsigned long long)done,
	       (unsigned long long)first);
}

/* ---- cases that chance seldom finds ---- */

/* A pass is begun on an empty destination, over one stream. */
static void
plain_open(struct bed *b, struct xferfix *x)
{
	struct err e = { 0 };

	bed_open(b, 1);
	b->view = -1;
	assert_int_equal(xferfix_open(x, b->dst, 2000, &e), 0);
}

static void
plain_close(struct bed *b, struct xferfix *x)
{
	xferfix_close(x);
	assert_int_equal(x->served, 0);
	compare(b);
	bed_close(b);
}

/* A subvolume where the file system has them, else a directory. */
static void
made_subvolume(struct bed *b, const char *name)
{
	struct btrfs_ioctl_vol_args v = { 0 };
	char p[64];
	int fd;

	snprintf(v.name, sizeof(v.name), "%s", name);
	if (ioctl(b->src, BTRFS_IOC_SUBVOL_CREATE, &v) < 0) {
		assert_int_equal(mkdirat(b->src, name, 0755), 0);
	}
	snprintf(p, sizeof(p), "%s/a", name);
	fd = openat(b->src, p, O_WRONLY | O_CREAT | O_EXCL, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, name, strlen(name)), strlen(name));
	close(fd);
	memcpy(v.name, p, sizeof(p));
	v.name[strlen(p) - 1] = 'b';
	assert_int_equal(linkat(b->src, p, b->src, v.name, 0), 0);
}

/* Hard links in subvolumes, whose inodes have the same numbers. */
static void
test_same_numbers(void **state)
{
	(void)state;
	for (int with_ledger = 0; with_ledger < 2; with_ledger++) {
		struct xferfix x = { .policy = META_STRICT };
		struct err e = { 0 };
		struct ledger *l = NULL;
		struct bed b;

		plain_open(&b, &x);
		made_subvolume(&b, "one");
		made_subvolume(&b, "two");
		if (with_ledger) {
			l = ledger_new(&x.key, &e);
			assert_non_null(l);
			pass(&b, &x, l, 1, false);
			made_subvolume(&b, "three");
		}
		pass(&b, &x, l, 1 + (unsigned)with_ledger, true);
		ledger_free(l);
		plain_close(&b, &x);
	}
}

/* A write of two pages that hangs between its beginning and the end. */
struct hung {
	int uffd, fd;
	uint8_t *buf; /* two pages; the second is not there yet */
	long page;
	pthread_t writer, releaser;
};

static void *
hung_writer(void *arg)
{
	struct hung *h = arg;
	ssize_t n = pwrite(h->fd, h->buf, 2 * (size_t)h->page, 0);

	return (void *)(intptr_t)(n == 2 * h->page);
}

/* False where the kernel cannot do it. */
static bool
hung_begin(struct hung *h, int fd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct pollfd pf = { .events = POLLIN };

	h->fd = fd;
	h->page = sysconf(_SC_PAGESIZE);
	h->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (h->uffd < 0) {
		return false;
	}
	h->buf = mmap(NULL, 2 * (size_t)h->page, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(h->buf != MAP_FAILED);
	memset(h->buf, 'y', (size_t)h->page);
	reg.range.start = (uintptr_t)h->buf + (uint64_t)h->page;
	reg.range.len = (uint64_t)h->page;
	assert_int_equal(ioctl(h->uffd, UFFDIO_API, &api), 0);
	assert_int_equal(ioctl(h->uffd, UFFDIO_REGISTER, &reg), 0);
	assert_int_equal(pthread_create(&h->writer, NULL, hung_writer, h), 0);
	pf.fd = h->uffd;
	assert_int_equal(poll(&pf, 1, 20000), 1);
	return true;
}

static void *
hung_releaser(void *arg)
{
	struct hung *h = arg;
	uint8_t *bytes = malloc((size_t)h->page);
	struct uffdio_copy c = { .dst = (uintptr_t)h->buf + (uint64_t)h->page,
				 .src = (uintptr_t)bytes,
				 .len = (uint64_t)h->page };
	intptr_t rc;

	memset(bytes, 'z', (size_t)h->page);
	poll(NULL, 0, 300);
	rc = ioctl(h->uffd, UFFDIO_COPY, &c);
	free(bytes);
	return (void *)rc;
}

static void
hung_end(struct hung *h)
{
	void *rc;

	pthread_join(h->releaser, &rc);
	assert_int_equal((intptr_t)rc, 0);
	pthread_join(h->writer, &rc);
	assert_int_equal((intptr_t)rc, 1);
	munmap(h->buf, 2 * (size_t)h->page);
	close(h->uffd);
}

/* A write is under way since long before the pass, and ends after the file
 * was, or would have been, read. */
static void
test_write_under_way(void **state)
{
	struct xferfix x = { .policy = META_STRICT };
	uint8_t old[8192];
	const char *why = NULL;
	struct hung h;
	struct err e = { 0 };
	struct ledger *l;
	struct bed b;
	int fd;

	(void)state;
	plain_open(&b, &x);
	l = ledger_new(&x.key, &e);
	assert_non_null(l);
	fd = openat(b.src, "f", O_RDWR | O_CREAT | O_EXCL, 0644);
	memset(old, 'x', sizeof(old));
	assert_int_equal(write(fd, old, sizeof(old)), sizeof(old));
	if (hung_begin(&h, fd)) {
		/* Its times are no longer suspect. */
		poll(NULL, 0, 1100);
		assert_int_equal(pthread_create(&h.releaser, NULL,
						hung_releaser, &h),
				 0);
		pass(&b, &x, l, 1, false);
		hung_end(&h);
		pass(&b, &x, l, 2, true);
	} else {
		why = strerror(errno);
		pass(&b, &x, l, 1, true);
	}
	close(fd);
	ledger_free(l);
	plain_close(&b, &x);
	if (why) {
		print_message("SKIP test_write_under_way: userfaultfd: %s\n",
			      why);
		skip();
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_under_way),
		cmocka_unit_test(test_same_numbers),
		cmocka_unit_test(test_any_change),
	};

	need_root();
	cmocka_set_test_filter(getenv("VZ_PASSES_TEST"));
	signal(SIGPIPE, SIG_IGN); /* as both programs do */
	return cmocka_run_group_tests_name("passes", tests, NULL, NULL);
}
