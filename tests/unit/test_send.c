/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unit tests of xfer/send*: what a pass sends, record by record, and the rule
 * against lost stores.
 *
 * With VZ_SEND_BENCH=DIR it measures instead: a pass over the tree DIR in
 * which nothing changed, and one after 200 blocks of DIR/big did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "fs/beneath.h"
#include "fs/remove.h"
#include "track/ledger.h"
#include "wire/tree.h"
#include "xfer/send.h"
#include "needroot.h"
#include "sendfix.h"

#define BIG (4u << 20)
#define TMPFS_MAGIC_ 0x01021994

struct bed {
	char top[64];
	int src;
	struct sendfix x;
	struct ledger *l;
	struct images images;
	unsigned pass;
	struct send_result r; /* of the last pass */
	struct err e;
};

static int
bed_at(void **state, const char *dir)
{
	struct bed *b = calloc(1, sizeof(*b));

	snprintf(b->top, sizeof(b->top), "%s/vzm-send-XXXXXX", dir);
	assert_non_null(mkdtemp(b->top));
	b->src = open(b->top, O_RDONLY | O_DIRECTORY);
	assert_true(b->src >= 0);
	sendfix_open(&b->x);
	b->l = ledger_new(&b->x.key, &b->e);
	assert_non_null(b->l);
	*state = b;
	return 0;
}

static int
setup(void **state)
{
	return bed_at(state, "/tmp");
}

static int
teardown(void **state)
{
	struct bed *b = *state;

	send_result_fini(&b->r);
	ledger_free(b->l);
	images_fini(&b->images);
	sendfix_close(&b->x);
	assert_int_equal(remove_content(b->src, NULL, NULL), 0);
	close(b->src);
	rmdir(b->top);
	free(b);
	return 0;
}

/* ---- changing the tree ---- */

static void
put(struct bed *b, const char *name, const char *text)
{
	int fd = openat(b->src, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(io_write_full(fd, text, strlen(text), name, NULL), 0);
	close(fd);
}

static void
fill(struct bed *b, const char *name, uint64_t off, uint64_t len, int byte)
{
	int fd = openat(b->src, name, O_WRONLY | O_CREAT, 0644);
	uint8_t data[4096];

	assert_true(fd >= 0);
	memset(data, byte, sizeof(data));
	for (uint64_t at = 0; at < len; at += sizeof(data)) {
		size_t n = len - at < sizeof(data) ? len - at : sizeof(data);

		assert_int_equal(pwrite(fd, data, n, (off_t)(off + at)), n);
	}
	close(fd);
}

static void
get_times(struct bed *b, const char *name, struct timespec ts[2])
{
	struct stat st;

	assert_int_equal(fstatat(b->src, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	ts[0] = st.st_atim;
	ts[1] = st.st_mtim;
}

static void
set_times(struct bed *b, const char *name, const struct timespec ts[2])
{
	assert_int_equal(utimensat(b->src, name, ts, AT_SYMLINK_NOFOLLOW), 0);
}

static int
open_rw(struct bed *b, const char *name)
{
	int fd = openat(b->src, name, O_RDWR);

	assert_true(fd >= 0);
	return fd;
}

/* ---- passes ---- */

static int
try_pass(struct bed *b, bool live, bool final)
{
	struct send_opts o = { .threads = 2,
			       .ledger = b->l,
			       .pass = ++b->pass,
			       .live = live,
			       .final = final,
			       .images = &b->images };
	int rc;

	send_result_fini(&b->r);
	rc = send_tree(b->src, b->x.l, &b->x.key, &o, &b->r, &b->e);
	if (rc == 0) {
		ledger_commit(b->l);
	}
	return rc;
}

/* One more pass while nothing runs; what was sent. */
static const char *
pass(struct bed *b)
{
	if (try_pass(b, false, false) < 0) {
		fail_msg("pass %u: %s", b->pass, b->e.text);
	}
	return sendfix_lines(&b->x);
}

/* What is suspect only since the test is fast is looked at again, and found to
 * be the same. */
static void
quiet(struct bed *b)
{
	assert_string_equal(pass(b), "");
	assert_int_equal(b->r.sent_entries, 0);
}

static void
make_tree(struct bed *b)
{
	put(b, "f", "some text");
	put(b, "g", "other");
	mkdirat(b->src, "d", 0755);
	put(b, "d/h", "in d");
	mkdirat(b->src, "d/deep", 0700);
	symlinkat("to where", b->src, "s");
	assert_int_equal(mknodat(b->src, "dev", S_IFCHR | 0600, makedev(1, 3)),
			 0);
	assert_int_equal(mknodat(b->src, "fifo", S_IFIFO | 0600, 0), 0);
	fill(b, "big", 0, BIG, 'x');
}

static void
test_first_and_none(void **state)
{
	struct bed *b = *state;
	struct send_opts plain = { .threads = 2 };
	struct send_result r;
	struct msg_proof first;

	make_tree(b);
	assert_string_equal(pass(b), "CHUNK 0 262144\n"
				     "CHUNK 1048576 262144\n"
				     "CHUNK 1310720 262144\n"
				     "CHUNK 1572864 262144\n"
				     "CHUNK 1835008 262144\n"
				     "CHUNK 2097152 262144\n"
				     "CHUNK 2359296 262144\n"
				     "CHUNK 262144 262144\n"
				     "CHUNK 2621440 262144\n"
				     "CHUNK 2883584 262144\n"
				     "CHUNK 3145728 262144\n"
				     "CHUNK 3407872 262144\n"
				     "CHUNK 3670016 262144\n"
				     "CHUNK 3932160 262144\n"
				     "CHUNK 524288 262144\n"
				     "CHUNK 786432 262144\n"
				     "END 16\n"
				     "ENTRY . 0\n"
				     "ENTRY d 0\n"
				     "ENTRY d/deep 0\n"
				     "ENTRY d/h 4\n"
				     "ENTRY dev 0\n"
				     "ENTRY f 9\n"
				     "ENTRY fifo 0\n"
				     "ENTRY g 5\n"
				     "ENTRY s 0\n"
				     "FILE big 4194304\n");
	first = b->r.proof;
	assert_int_equal(first.entries, 10);
	assert_int_equal(first.bytes, BIG + 18);
	quiet(b);
	assert_true(digest_eq(&b->r.proof.sum, &first.sum));
	assert_int_equal(b->r.proof.bytes, first.bytes);
	assert_int_equal(b->r.proof.entries, 10);
	/* The same sum as of a pass that has no ledger. */
	assert_int_equal(
		send_tree(b->src, b->x.l, &b->x.key, &plain, &r, &b->e), 0);
	assert_true(digest_eq(&r.proof.sum, &first.sum));
	assert_int_equal(r.proof.entries, 10);
	assert_int_equal(r.proof.bytes, first.bytes);
	send_result_fini(&r);
}

/* Field case D1. */
static void
test_small_changes(void **state)
{
	struct bed *b = *state;
	struct timespec ts[2], old[2] = { { 5, 6 }, { 7, 8 } };

	make_tree(b);
	pass(b);
	/* The same size, and the time set back: ctime tells. */
	get_times(b, "f", ts);
	put(b, "f", "SOME TEXT");
	set_times(b, "f", ts);
	assert_string_equal(pass(b), "ENTRY . 0\nENTRY f 9\n");
	/* A time alone. */
	set_times(b, "g", old);
	assert_string_equal(pass(b), "ENTRY . 0\nMETA g\n");
	assert_int_equal(fchmodat(b->src, "d/h", 0600, 0), 0);
	assert_string_equal(pass(b), "ENTRY d 0\nMETA d/h\n");
	/* Changed and changed back: ctime alone. */
	assert_int_equal(fchmodat(b->src, "d/h", 0644, 0), 0);
	assert_int_equal(fchmodat(b->src, "d/h", 0600, 0), 0);
	quiet(b);
	assert_int_equal(b->r.reread_bytes > 0, 1);
	assert_int_equal(fchownat(b->src, "s", 5, 6, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(fchownat(b->src, "dev", 5, 6, 0), 0);
	assert_string_equal(pass(b), "ENTRY . 0\nMETA dev\nMETA s\n");
	/* A directory's own metadata. */
	assert_int_equal(fchmodat(b->src, "d", 0711, 0), 0);
	assert_string_equal(pass(b), "ENTRY d 0\n");
	/* Another inode with the same size and mtime: its content counts. */
	put(b, "new", "tExt text");
	get_times(b, "f", ts);
	set_times(b, "new", ts);
	assert_int_equal(renameat(b->src, "new", b->src, "f"), 0);
	assert_string_equal(pass(b), "ENTRY . 0\nENTRY f 9\n");
	/* A longer hole at the end is not the same content. */
	assert_int_equal(
		truncate((snprintf(b->e.text, 200, "%s/f", b->top), b->e.text),
			 5000),
		0);
	assert_non_null(strstr(pass(b), "ENTRY f "));
	quiet(b);
}

static void
test_names_and_types(void **state)
{
	struct bed *b = *state;

	make_tree(b);
	pass(b);
	assert_int_equal(unlinkat(b->src, "f", 0), 0);
	assert_string_equal(pass(b), "ENTRY . 0\nREMOVE f\n");
	/* To another directory. */
	assert_int_equal(renameat(b->src, "g", b->src, "d/g"), 0);
	assert_string_equal(pass(b), "ENTRY . 0\nENTRY d 0\nENTRY d/g 5\n"
				     "REMOVE g\n");
	/* Swapped names. */
	assert_int_equal(
		renameat2(b->src, "d/g", b->src, "d/h", RENAME_EXCHANGE), 0);
	assert_string_equal(pass(b), "ENTRY d 0\nENTRY d/g 4\nENTRY d/h 5\n");
	/* A file where a directory was, and the reverse. */
	assert_int_equal(unlinkat(b->src, "d/deep", AT_REMOVEDIR), 0);
	put(b, "d/deep", "now a file");
	assert_int_equal(unlinkat(b->src, "s", 0), 0);
	assert_int_equal(mkdirat(b->src, "s", 0755), 0);
	put(b, "s/in", "it");
	assert_string_equal(pass(b), "ENTRY . 0\nENTRY d 0\nENTRY d/deep 10\n"
				     "ENTRY s 0\nENTRY s/in 2\n");
	/* A directory moves with all that is in it. */
	assert_int_equal(renameat(b->src, "d", b->src, "s/d"), 0);
	assert_string_equal(pass(b),
			    "ENTRY . 0\nENTRY s 0\nENTRY s/d 0\n"
			    "ENTRY s/d/deep 10\nENTRY s/d/g 4\nENTRY s/d/h 5\n"
			    "REMOVE d\n");
	quiet(b);
}

/* ---- large files ---- */

static void
test_blocks(void **state)
{
	struct bed *b = *state;
	struct timespec ts[2];
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "%s/big", b->top);
	fill(b, "big", 0, BIG, 'x');
	pass(b);
	/* Two bytes in one block, one in another; mtime set back. */
	get_times(b, "big", ts);
	fill(b, "big", 70000, 2, 'y');
	fill(b, "big", BIG - 1, 1, 'y');
	set_times(b, "big", ts);
	assert_string_equal(pass(b), "CHUNK 4128768 65536\nCHUNK 65536 65536\n"
				     "END 2\nENTRY . 0\nUPDATE big 4194304\n");
	assert_int_equal(b->r.sent_bytes, 2 * 65536);
	assert_int_equal(b->r.reread_bytes, BIG);
	/* Neighbours go together, up to what a frame holds. */
	fill(b, "big", 65536, 6 * 65536, 'z');
	assert_string_equal(pass(b), "CHUNK 262144 196608\nCHUNK 65536 196608\n"
				     "END 2\nENTRY . 0\nUPDATE big 4194304\n");
	/* Metadata alone. */
	assert_int_equal(fchmodat(b->src, "big", 0600, 0), 0);
	assert_string_equal(pass(b), "ENTRY . 0\nMETA big\n");
	/* Written to, with the same bytes. */
	get_times(b, "big", ts);
	fill(b, "big", 1000000, 4096, 'x');
	set_times(b, "big", ts);
	quiet(b);
	assert_int_equal(b->r.reread_bytes, BIG);
	/* Another file with nearly the same content takes its place. */
	snprintf(b->e.text, sizeof(b->e.text), "cp --sparse=never %s %s.new",
		 path, path);
	assert_int_equal(system(b->e.text), 0);
	fill(b, "big.new", 0, 1, 'n');
	assert_int_equal(renameat(b->src, "big.new", b->src, "big"), 0);
	assert_string_equal(pass(b), "CHUNK 0 65536\nEND 1\nENTRY . 0\n"
				     "UPDATE big 4194304\n");
	/* Holes: one whole block and a part of the next. */
	fd = open_rw(b, "big");
	assert_int_equal(fallocate(fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   10 * 65536, 65536 + 4096),
			 0);
	assert_string_equal(pass(b), "CHUNK 724992 61440\nEND 1\nENTRY . 0\n"
				     "HOLE 655360 131072\n"
				     "UPDATE big 4194304\n");
	quiet(b);
	/* Data where nothing was needs no hole first. */
	fill(b, "big", 10 * 65536 + 8192, 4096, 'q');
	assert_string_equal(pass(b), "CHUNK 663552 4096\nEND 1\nENTRY . 0\n"
				     "UPDATE big 4194304\n");
	close(fd);
	quiet(b);
}

static void
test_sizes(void **state)
{
	struct bed *b = *state;
	char path[100];

	snprintf(path, sizeof(path), "%s/big", b->top);
	fill(b, "big", 0, BIG, 'x');
	pass(b);
	/* The block that the new end cuts comes again. */
	assert_int_equal(truncate(path, 2 * 1048576 + 100), 0);
	assert_string_equal(pass(b), "CHUNK 2097152 100\nEND 1\nENTRY . 0\n"
				     "UPDATE big 2097252\n");
	/* Longer, by a hole: the one that the old end cut does. */
	assert_int_equal(truncate(path, BIG), 0);
	assert_string_equal(pass(b),
			    "CHUNK 2097152 4096\nEND 1\nENTRY . 0\n"
			    "HOLE 2097152 65536\nUPDATE big 4194304\n");
	/* Cut within the hole. */
	assert_int_equal(truncate(path, 3 * 1048576 + 5), 0);
	assert_string_equal(pass(b), "END 0\nENTRY . 0\nUPDATE big 3145733\n");
	fill(b, "big", 3 * 1048576, 10, 'y');
	assert_string_equal(pass(b), "CHUNK 3145728 10\nEND 1\nENTRY . 0\n"
				     "UPDATE big 3145738\n");
	/* Small now: it travels whole. */
	assert_int_equal(truncate(path, 1000), 0);
	assert_string_equal(pass(b), "ENTRY . 0\nENTRY big 1000\n");
	fill(b, "big", 1000, 200000, 'x');
	assert_string_equal(pass(b), "CHUNK 0 201000\nEND 1\nENTRY . 0\n"
				     "FILE big 201000\n");
	quiet(b);
}

/* Size does not matter where nothing is (F6), nor does reading by several
 * threads change anything. */
static void
test_sparse(void **state)
{
	struct bed *b = *state;
	struct msg_proof sum;

	fill(b, "big", (1ull << 42), 4096, 'x');
	fill(b, "big", (1ull << 30), 4096, 'x');
	fill(b, "many", 0, 65u << 20, 'x');
	pass(b);
	fill(b, "big", (1ull << 42) + 100, 1, 'y');
	fill(b, "big", (1ull << 41), 4096, 'z');
	for (unsigned i = 0; i < 65; i++) {
		fill(b, "many", (uint64_t)i << 20, 1, 'z');
	}
	pass(b);
	assert_int_equal(b->r.sent_bytes, 2 * 4096 + 65 * 65536);
	sum = b->r.proof;
	quiet(b);
	assert_true(digest_eq(&sum.sum, &b->r.proof.sum));
}

/* ---- hard links ---- */

static void
test_groups(void **state)
{
	struct bed *b = *state;

	make_tree(b);
	assert_int_equal(linkat(b->src, "f", b->src, "d/f2", 0), 0);
	assert_int_equal(linkat(b->src, "big", b->src, "d/big2", 0), 0);
	assert_int_equal(linkat(b->src, "fifo", b->src, "fifo2", 0), 0);
	pass(b);
	assert_int_equal(b->r.links, 3);
	quiet(b);
	/* Metadata of the inode: one record, its number stays. */
	assert_int_equal(fchmodat(b->src, "d/f2", 0600, 0), 0);
	assert_non_null(strstr(pass(b), "META "));
	assert_int_equal(b->r.sent_entries, 2);
	/* A block of a large one. */
	fill(b, "d/big2", 0, 1, 'y');
	assert_non_null(strstr(pass(b), "CHUNK 0 65536\nEND 1 ="));
	assert_int_equal(b->r.sent_bytes, 65536);
	/* Content of a small one: the whole group. */
	put(b, "f", "now other");
	pass(b);
	assert_int_equal(b->r.links, 1);
	assert_int_equal(b->r.sent_bytes, 9);
	quiet(b);
	/* A name more, a name less. */
	assert_int_equal(linkat(b->src, "f", b->src, "f3", 0), 0);
	pass(b);
	assert_int_equal(b->r.links, 2);
	assert_int_equal(unlinkat(b->src, "d/f2", 0), 0);
	assert_non_null(strstr(pass(b), "REMOVE d/f2\n"));
	assert_int_equal(b->r.links, 1);
	/* The last one is a file like others. */
	assert_int_equal(unlinkat(b->src, "f3", 0), 0);
	assert_string_equal(pass(b), "ENTRY . 0\nENTRY f 9\nREMOVE f3\n");
	/* Names move from one inode to another. */
	assert_int_equal(unlinkat(b->src, "fifo2", 0), 0);
	assert_int_equal(linkat(b->src, "f", b->src, "fifo2", 0), 0);
	assert_non_null(strstr(pass(b), "ENTRY fifo 0\n"));
	assert_int_equal(b->r.links, 1);
	quiet(b);
}

/* ---- a running container ---- */

struct storer {
	uint8_t *at;
	bool stop, running; /* atomic */
};

static void *
storing(void *arg)
{
	struct storer *s = arg;

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		s->at[0]++;
		__atomic_store_n(&s->running, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

static bool
same_ctime(struct bed *b, const char *name, const struct stat *was)
{
	struct stat now;

	assert_int_equal(fstatat(b->src, name, &now, 0), 0);
	return now.st_ctim.tv_sec == was->st_ctim.tv_sec &&
	       now.st_ctim.tv_nsec == was->st_ctim.tv_nsec;
}

/* One try: 1 when a store after the reading left no trace; 0: the system wrote
 * the page back in between. */
static int
trackless_store(struct bed *b, const char *name, int attempt)
{
	int fd = open_rw(b, name);
	struct storer s = { .at = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				       MAP_SHARED, fd, 0) };
	struct stat was;
	pthread_t t;
	bool same;

	assert_ptr_not_equal(s.at, MAP_FAILED);
	/* Dirty from the pass's first moments on, whenever it syncs. */
	assert_int_equal(pthread_create(&t, NULL, storing, &s), 0);
	while (!__atomic_load_n(&s.running, __ATOMIC_RELAXED)) {
		sched_yield();
	}
	assert_int_equal(try_pass(b, true, false), 0);
	__atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	sendfix_lines(&b->x);
	assert_int_equal(fstat(fd, &was), 0);
	/* Other bytes each time, so that they differ from all that was read. */
	memset(s.at + 1, '0' + attempt, 20);
	same = same_ctime(b, name, &was);
	munmap(s.at, 4096);
	close(fd);
	return same && same_ctime(b, name, &was);
}

/* A store through a shared mapping that changes no time at all arrives. */
static void
stores_arrive(struct bed *b, const char *name)
{
	uint32_t sum;
	bool done = false;

	for (int i = 0; i < 5 && !done; i++) {
		done = trackless_store(b, name, i);
		if (done) {
			assert_true(b->r.suspects >= 1);
		}
	}
	if (!done) {
		print_message("the page was written back each time\n");
		skip();
	}
	sum = b->x.crc;
	assert_int_equal(try_pass(b, false, true), 0);
	sendfix_lines(&b->x);
	assert_int_not_equal(b->x.crc, sum);
	/* What is there now is what was sent: another pass has nothing. */
	quiet(b);
}

static void
test_store_small(void **state)
{
	put(*state, "m", "a mapped file of some bytes");
	stores_arrive(*state, "m");
}

static void
test_store_large(void **state)
{
	fill(*state, "m", 0, BIG, 'x');
	stores_arrive(*state, "m");
}

/* Where nothing is ever written back, times never tell. */
static void
test_store_tmpfs(void **state)
{
	struct statfs fs;

	if (statfs("/dev/shm", &fs) < 0 || fs.f_type != TMPFS_MAGIC_) {
		print_message("/dev/shm is no tmpfs\n");
		skip();
	}
	assert_int_equal(teardown(state), 0);
	assert_int_equal(bed_at(state, "/dev/shm"), 0);
	put(*state, "other", "nobody maps it");
	put(*state, "m", "a mapped file of some bytes");
	stores_arrive(*state, "m");
}

/* ---- images ---- */

static uint64_t
ino_of(struct bed *b, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(b->src, name, &st, 0), 0);
	return st.st_ino;
}

/* A mapping whose first store was made: on tmpfs none moves a time again. */
static uint8_t *
mapped(struct bed *b, const char *name)
{
	int fd = open_rw(b, name);
	uint8_t *at =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	close(fd);
	for (size_t i = 0; i < 1 << 20; i += 4096) {
		((volatile uint8_t *)at)[i] = at[i];
	}
	return at;
}

static void
store(struct bed *b, const char *name, uint8_t *at, uint8_t byte)
{
	struct stat was;

	assert_int_equal(fstatat(b->src, name, &was, 0), 0);
	*at = byte;
	assert_true(same_ctime(b, name, &was));
}

/* Images that are written to are read in each pass, final or not; others, and
 * images that are not, only when their times say so. */
static void
test_images(void **state)
{
	struct images none = { 0 };
	uint8_t *base, *top, *linked;
	struct bed *b;

	assert_int_equal(teardown(state), 0);
	assert_int_equal(bed_at(state, "/dev/shm"), 0);
	b = *state;
	fill(b, "base", 0, 1 << 20, 'b');
	fill(b, "top", 0, 1 << 20, 't');
	fill(b, "linked", 0, 1 << 20, 'l');
	assert_int_equal(linkat(b->src, "linked", b->src, "twice", 0), 0);
	base = mapped(b, "base");
	top = mapped(b, "top");
	linked = mapped(b, "linked");
	images_init(&b->images);
	assert_int_equal(images_add(&b->images, ino_of(b, "top"), true, &b->e),
			 0);
	assert_int_equal(
		images_add(&b->images, ino_of(b, "linked"), true, &b->e), 0);
	assert_int_equal(
		images_add(&b->images, ino_of(b, "base"), false, &b->e), 0);
	/* Until they are older than a second, so that the clock makes nothing
	 * suspect. */
	do {
		struct timespec tick = { 0, 100000000 };

		nanosleep(&tick, NULL);
		assert_int_equal(try_pass(b, true, false), 0);
	} while (b->pass == 1 || b->r.reread_bytes > 2 << 20);
	sendfix_lines(&b->x);
	store(b, "top", top + 70000, '1');
	store(b, "linked", linked + 200000, '2');
	store(b, "base", base + 1000, '3');
	assert_int_equal(try_pass(b, true, false), 0);
	assert_int_equal(b->r.reread_bytes, 2 << 20);
	assert_int_equal(b->r.sent_bytes, 2 << 16);
	sendfix_lines(&b->x);
	/* Nothing has changed, and they are looked at all the same. */
	assert_int_equal(try_pass(b, true, false), 0);
	assert_int_equal(b->r.reread_bytes, 2 << 20);
	assert_string_equal(sendfix_lines(&b->x), "");
	/* A snapshot was made or merged: all of them are. */
	assert_int_equal(buf_append(&b->images.from, "x", 1, &b->e), 0);
	images_follow(&b->images, &b->images);
	assert_false(images_moving(&b->images, ino_of(b, "base")));
	images_follow(&b->images, &none);
	assert_false(images_moving(&b->images, ino_of(b, "base")));
	none = (struct images){ .n = 1 };
	images_follow(&b->images, &none);
	assert_true(images_moving(&b->images, ino_of(b, "base")));
	assert_int_equal(try_pass(b, true, false), 0);
	assert_int_equal(b->r.reread_bytes, 3 << 20);
	assert_int_equal(b->r.sent_bytes, 1 << 16);
	sendfix_lines(&b->x);
	/* The last pass, too; and what was moving in the pass before is read
	 * once more by one that knows nothing of images. */
	store(b, "top", top + 70000, '4');
	images_fini(&b->images);
	assert_int_equal(try_pass(b, true, false), 0);
	assert_int_equal(b->r.sent_bytes, 1 << 16);
	munmap(base, 1 << 20);
	munmap(top, 1 << 20);
	munmap(linked, 1 << 20);
}

/* Until nothing in the tree was changed for that long. */
static void
wait_age(struct bed *b, int64_t ms)
{
	struct timespec now;
	struct stat st;
	int64_t age;

	assert_int_equal(fstatat(b->src, "big", &st, 0), 0);
	do {
		struct timespec tick = { 0, 10000000 };

		nanosleep(&tick, NULL);
		clock_gettime(CLOCK_REALTIME, &now);
		age = (now.tv_sec - st.st_ctim.tv_sec) * 1000 +
		      (now.tv_nsec - st.st_ctim.tv_nsec) / 1000000;
	} while (age < ms);
}

/* Nothing is suspect that was at rest before the pass began. */
static void
test_at_rest(void **state)
{
	struct bed *b = *state;

	make_tree(b);
	wait_age(b, 1100);
	assert_int_equal(try_pass(b, true, false), 0);
	assert_int_equal(b->r.suspects, 0);
	assert_int_equal(try_pass(b, true, false), 0);
	assert_int_equal(b->r.reread_bytes, 0);
	assert_int_equal(b->r.changed_entries, 0);
	wait_age(b, 1100);
	put(b, "f", "just now");
	assert_int_equal(try_pass(b, true, false), 0);
	assert_int_equal(b->r.suspects, 1);
	assert_int_equal(b->r.suspect_bytes, 8);
	sendfix_lines(&b->x);
}

static void *
live_pass(void *arg)
{
	return (void *)(intptr_t)try_pass(arg, true, false);
}

/* A file that stands where a directory was vanishes before it is sent, and a
 * directory comes again: what was in the first one must go. (Field case D3:
 * that it vanishes is no error.) */
static void
test_vanished(void **state)
{
	struct bed *b = *state;
	pthread_t t;
	void *rc;

	mkdirat(b->src, "x", 0755);
	put(b, "x/in", "the old one");
	pass(b);
	assert_int_equal(unlinkat(b->src, "x/in", 0), 0);
	assert_int_equal(unlinkat(b->src, "x", AT_REMOVEDIR), 0);
	put(b, "x", "a file");
	assert_int_equal(linkat(b->src, "x", b->src, "y", 0), 0);
	/* More than the link takes without a reply. Hard links come after. */
	fill(b, "zz", 0, 40u << 20, 'x');
	b->x.hold = true;
	assert_int_equal(pthread_create(&t, NULL, live_pass, b), 0);
	sendfix_held(&b->x);
	assert_int_equal(unlinkat(b->src, "x", 0), 0);
	assert_int_equal(unlinkat(b->src, "y", 0), 0);
	sendfix_release(&b->x);
	pthread_join(t, &rc);
	assert_int_equal((intptr_t)rc, 0);
	assert_true(b->r.suspects >= 2);
	sendfix_lines(&b->x);
	mkdirat(b->src, "x", 0755);
	assert_string_equal(pass(b), "ENTRY . 0\nENTRY x 0\nREMOVE x/in\n"
				     "REMOVE y\n");
	quiet(b);
}

/* The same is an error once the container is stopped. */
static void *
stopped_pass(void *arg)
{
	return (void *)(intptr_t)try_pass(arg, false, true);
}

static void
test_vanished_stopped(void **state)
{
	struct bed *b = *state;
	pthread_t t;
	void *rc;

	put(b, "x", "a file");
	assert_int_equal(linkat(b->src, "x", b->src, "y", 0), 0);
	fill(b, "zz", 0, 40u << 20, 'x');
	b->x.hold = true;
	assert_int_equal(pthread_create(&t, NULL, stopped_pass, b), 0);
	sendfix_held(&b->x);
	assert_int_equal(unlinkat(b->src, "x", 0), 0);
	assert_int_equal(unlinkat(b->src, "y", 0), 0);
	sendfix_release(&b->x);
	pthread_join(t, &rc);
	assert_int_equal((intptr_t)rc, E_CHANGED);
	sendfix_lines(&b->x);
}

/* A failed pass ends the ledger; a bad file does so by name (D4). */
static void
test_failed_pass(void **state)
{
	struct bed *b = *state;
	struct send_opts o = { .ledger = b->l, .pass = 2 };
	volatile int stop = 1;

	put(b, "f", "x");
	pass(b);
	put(b, "f", "y");
	o.stop = &stop;
	assert_int_equal(send_tree(b->src, b->x.l, &b->x.key, &o, &b->r, &b->e),
			 E_CANCELLED);
	o.stop = NULL;
	o.pass = 3;
	assert_int_equal(send_tree(b->src, b->x.l, &b->x.key, &o, &b->r, &b->e),
			 E_STATE);
}

/* ---- measuring ---- */

static double
cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static void
measured(struct bed *b, const char *what)
{
	double cpu = cpu_ms();
	int64_t from = io_now_ms();

	if (try_pass(b, true, false) < 0) {
		fail_msg("%s", b->e.text);
	}
	printf("%-20s %5lld ms, cpu %6.1f ms, walk %4lld ms; sent %llu "
	       "records, %llu bytes; read again %llu; suspect %llu, %llu "
	       "bytes\n",
	       what, (long long)(io_now_ms() - from), cpu_ms() - cpu,
	       (long long)b->r.walk_ms, (unsigned long long)b->r.sent_entries,
	       (unsigned long long)b->r.sent_bytes,
	       (unsigned long long)b->r.reread_bytes,
	       (unsigned long long)b->r.suspects,
	       (unsigned long long)b->r.suspect_bytes);
	sendfix_settle(&b->x);
}

static int
bench(const char *dir)
{
	struct bed b = { .x = { .quiet = true } };
	struct ledger_stats s;
	int64_t now = io_now_ms(); /* other bytes in each run */

	b.src = open(dir, O_RDONLY | O_DIRECTORY);
	if (b.src < 0) {
		perror(dir);
		return 1;
	}
	sendfix_open(&b.x);
	b.l = ledger_new(&b.x.key, &b.e);
	measured(&b, "pass 1");
	measured(&b, "pass 2");
	for (int i = 0; i < 5; i++) {
		measured(&b, "nothing changed");
	}
	for (int i = 0; i < 5 && faccessat(b.src, "big", R_OK, 0) == 0; i++) {
		for (uint64_t k = 0; k < 200; k++) {
			fill(&b, "big", k * 10002432 + 4096 * (uint64_t)i, 4096,
			     (int)(now + i) & 0xff);
		}
		measured(&b, "200 blocks of big");
	}
	ledger_stats(b.l, &s);
	printf("%llu entries, %.1f MB\n", (unsigned long long)s.entries,
	       (double)s.bytes / 1e6);
	ledger_free(b.l);
	send_result_fini(&b.r);
	sendfix_close(&b.x);
	close(b.src);
	return 0;
}

#define BED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		BED(test_first_and_none),  BED(test_small_changes),
		BED(test_names_and_types), BED(test_blocks),
		BED(test_sizes),	   BED(test_sparse),
		BED(test_groups),	   BED(test_store_small),
		BED(test_store_large),	   BED(test_store_tmpfs),
		BED(test_vanished),	   BED(test_vanished_stopped),
		BED(test_at_rest),	   BED(test_failed_pass),
		BED(test_images),
	};

	need_root();
	signal(SIGPIPE, SIG_IGN); /* as both programs do */
	if (getenv("VZ_SEND_BENCH")) {
		return bench(getenv("VZ_SEND_BENCH"));
	}
	return cmocka_run_group_tests_name("send", tests, NULL, NULL);
}
