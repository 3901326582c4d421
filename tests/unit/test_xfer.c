/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of xfer/: a tree through sender, link, server and receiver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.h"
#include "fs/remove.h"
#include "wire/tree.h"
#include "xfer/inomap.h"
#include "xfer/proof.h"
#include "xfer/send.h"
#include "xferfix.h"
#include "needroot.h"

static void
put(int dirfd, const char *name, const void *data, size_t len)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(io_write_full(fd, data, len, name, NULL), 0);
	close(fd);
}

static int
setup(void **state)
{
	*state = xferfix_dirs_new();
	return 0;
}

/* A tree with one of each that /tmp can hold. */
static void
make_tree(int s)
{
	struct timespec t[2] = { { 1000000000, 1 }, { 1234567890, 123456789 } };
	char *big = malloc(3000000);
	int fd;

	for (size_t i = 0; i < 3000000; i++) {
		big[i] = (char)(i * 2654435761u >> 13);
	}
	assert_int_equal(mkdirat(s, "d", 0750), 0);
	assert_int_equal(mkdirat(s, "d/e", 0700), 0);
	assert_int_equal(mkdirat(s, "d/empty", 0777), 0);
	assert_int_equal(fchmodat(s, "d/empty", 01777, 0), 0);
	put(s, "zero", "", 0);
	put(s, "one", "1", 1);
	put(s, "d/e/-rf\n\xff", "abc", 3);
	put(s, "exact", big, 131072);
	put(s, "over", big, 131073);
	put(s, "big", big, 3000000);
	free(big);
	assert_int_equal(linkat(s, "big", s, "d/big2", 0), 0);
	assert_int_equal(linkat(s, "one", s, "d/e/one2", 0), 0);
	assert_int_equal(symlinkat("one/../\xfe", s, "sym"), 0);
	assert_int_equal(mkfifoat(s, "fifo", 0601), 0);
	assert_int_equal(mknodat(s, "sock", S_IFSOCK | 0777, 0), 0);
	if (geteuid() == 0) {
		assert_int_equal(
			mknodat(s, "null", S_IFCHR | 0666, makedev(1, 3)), 0);
		assert_int_equal(fchownat(s, "one", 1000, 1234567, 0), 0);
	}
	fd = openat(s, "sparse", O_WRONLY | O_CREAT, 04755);
	assert_int_equal(ftruncate(fd, (off_t)1 << 33), 0);
	assert_int_equal(pwrite(fd, "x", 1, (off_t)1 << 32), 1);
	fsetxattr(fd, "user.k", "a\0b", 3, 0);
	fsetxattr(fd, "user.empty", "", 0, 0);
	close(fd);
	assert_int_equal(utimensat(s, "sym", t, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(utimensat(s, "d/e", t, 0), 0);
}

static int
copy(struct xferfix *x, int src, struct send_result *r, struct msg_proof *p,
     struct err *e)
{
	struct send_opts o = { 0 };
	int rc = xferfix_begin(x, e);

	if (rc == 0) {
		rc = send_tree(src, x->l, &x->key, &o, r, e);
	}
	return rc < 0 ? rc : xferfix_end(x, p, e);
}

static void
test_whole_tree(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { 0 };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };
	struct stat a, b;
	char v[8];

	make_tree(d->src);
	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	if (copy(&x, d->src, &r, &p, &e) < 0) {
		fail_msg("%s", e.text);
	}
	assert_int_equal(p.entries, r.proof.entries);
	assert_int_equal(p.bytes, r.proof.bytes);
	if (!digest_eq(&p.sum, &r.proof.sum)) {
		send_explain(d->src, x.l, &x.key, 0, e.text, sizeof(e.text),
			     &e);
		fail_msg("sums differ: %s", e.text);
	}
	/* Not only the sums: a look of our own. */
	assert_int_equal(fstatat(d->dst, "one", &a, 0), 0);
	assert_int_equal(fstatat(d->dst, "d/e/one2", &b, 0), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(fstatat(d->dst, "big", &a, 0), 0);
	assert_int_equal(fstatat(d->dst, "d/big2", &b, 0), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(fstatat(d->dst, "sparse", &a, 0), 0);
	assert_int_equal(a.st_size, (off_t)1 << 33);
	assert_true(a.st_blocks * 512 <= 1 << 20);
	assert_int_equal(a.st_mode & 07777, 04755);
	assert_int_equal(fstatat(d->dst, "d/e", &a, 0), 0);
	assert_int_equal(a.st_mtim.tv_sec, 1234567890);
	assert_int_equal(a.st_mtim.tv_nsec, 123456789);
	assert_int_equal(readlinkat(d->dst, "sym", v, sizeof(v)), 8);
	assert_int_equal(fstatat(d->dst, "d/empty", &a, 0), 0);
	assert_int_equal(a.st_mode & 07777, 01777);
	send_result_fini(&r);
	xferfix_close(&x);
	assert_int_equal(x.served, 0);
}

/* Design.md section 7: flip one written byte, and one xattr. */
static void
flip_byte(int rootfd)
{
	struct stat st;
	struct timespec t[2];
	int fd = openat(rootfd, "exact", O_WRONLY);

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pwrite(fd, "!", 1, 777), 1);
	t[0] = st.st_atim;
	t[1] = st.st_mtim;
	assert_int_equal(futimens(fd, t), 0);
	close(fd);
}

static void
flip_mode(int rootfd)
{
	assert_int_equal(fchmodat(rootfd, "one", 0600, 0), 0);
}

static void
add_name(int rootfd)
{
	put(rootfd, "d/e/extra", "", 0);
}

static void
check_flip(struct xferfix_dirs *d, void (*flip)(int), bool content_only,
	   const char *named)
{
	struct xferfix x = { .before_proof = flip };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };
	char why[1000];

	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(copy(&x, d->src, &r, &p, &e), 0);
	if (!content_only) {
		assert_false(digest_eq(&p.sum, &r.proof.sum));
		assert_int_equal(send_explain(d->src, x.l, &x.key, 0, why,
					      sizeof(why), &e),
				 0);
		assert_non_null(strstr(why, named));
	} else {
		assert_true(digest_eq(&p.sum, &r.proof.sum));
	}
	send_result_fini(&r);
	xferfix_close(&x);
	assert_int_equal(remove_content(d->dst, NULL, &e), 0);
}

static void
test_proof_notices(void **state)
{
	struct xferfix_dirs *d = *state;

	make_tree(d->src);
	check_flip(d, flip_mode, false, "one");
	check_flip(d, add_name, false, "extra");
	/* A byte changed behind the file system's back after it was written
	 * is not read again: the proof is of what was written. */
	check_flip(d, flip_byte, true, "");
}

/* A channel that changes one byte in the middle of the first large write, as
 * bad memory would. */
struct flipper {
	struct bytechan base;
	struct bytechan *under;
	bool done;
};

static int
flip_write(struct bytechan *c, const void *data, size_t len, int64_t ms,
	   struct err *e)
{
	struct flipper *f = (struct flipper *)c;
	uint8_t *copy_of;
	int rc;

	if (f->done || len < TREE_PIECE) {
		return bytechan_write(f->under, data, len, ms, e);
	}
	f->done = true;
	copy_of = malloc(len);
	memcpy(copy_of, data, len);
	copy_of[len / 2] ^= 1;
	rc = bytechan_write(f->under, copy_of, len, ms, e);
	free(copy_of);
	return rc;
}

static int
flip_service(struct bytechan *c, int64_t ms, struct err *e)
{
	struct flipper *f = (struct flipper *)c;

	f->under->on_data = c->on_data;
	f->under->on_stderr = c->on_stderr;
	f->under->arg = c->arg;
	return bytechan_service(f->under, ms, e);
}

static void
flip_wake(struct bytechan *c)
{
	bytechan_wake(((struct flipper *)c)->under);
}

static int
flip_eof(struct bytechan *c, struct err *e)
{
	return bytechan_send_eof(((struct flipper *)c)->under, e);
}

static void
flip_free(struct bytechan *c)
{
	bytechan_free(((struct flipper *)c)->under);
	free(c);
}

static struct bytechan *
flip_wrap(struct bytechan *under)
{
	static const struct bytechan_ops ops = { flip_write, flip_service,
						 flip_wake,  flip_eof,
						 flip_free,  NULL };
	struct flipper *f = calloc(1, sizeof(*f));

	f->base.ops = &ops;
	f->under = under;
	return &f->base;
}

static void
test_flipped_on_the_way(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .wrap = flip_wrap };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };
	char why[1000];

	make_tree(d->src);
	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(copy(&x, d->src, &r, &p, &e), 0);
	assert_int_equal(p.entries, r.proof.entries);
	assert_false(digest_eq(&p.sum, &r.proof.sum));
	assert_int_equal(
		send_explain(d->src, x.l, &x.key, 0, why, sizeof(why), &e), 0);
	assert_non_null(strstr(why, "big: differs"));
	send_result_fini(&r);
	xferfix_close(&x);
}

static void
test_cancelled(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { 0 };
	struct send_result r = { 0 };
	volatile int stop = 1;
	struct send_opts o = { .stop = &stop };
	struct err e = { 0 };

	make_tree(d->src);
	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(xferfix_begin(&x, &e), 0);
	assert_int_equal(send_tree(d->src, x.l, &x.key, &o, &r, &e),
			 E_CANCELLED);
	xferfix_close(&x);
}

/* Field case D5: something still writes to the file: here whenever a chunk is
 * on its way. The file is larger than the window, so chunks are under way
 * while it is still being read. */
static int touch_fd;
#define HUGE ((off_t)3 * FEED_MAX * TREE_PIECE)

static int
touch_write(struct bytechan *c, const void *data, size_t len, int64_t ms,
	    struct err *e)
{
	struct flipper *f = (struct flipper *)c;

	if (len >= TREE_PIECE && pwrite(touch_fd, "x", 1, 100) != 1) {
		return err_set(e, E_SYSTEM, "cannot write");
	}
	return bytechan_write(f->under, data, len, ms, e);
}

static struct bytechan *
touch_wrap(struct bytechan *under)
{
	static const struct bytechan_ops ops = { touch_write, flip_service,
						 flip_wake,   flip_eof,
						 flip_free,   NULL };
	struct bytechan *c = flip_wrap(under);

	c->ops = &ops;
	return c;
}

static void
test_written_meanwhile(void **state)
{
	struct xferfix_dirs *d = *state;
	static char block[1 << 20];
	struct xferfix x = { .wrap = touch_wrap };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };

	make_tree(d->src);
	touch_fd = openat(d->src, "huge", O_RDWR | O_CREAT, 0600);
	for (off_t at = 0; at < HUGE; at += 1 << 20) {
		assert_int_equal(pwrite(touch_fd, block, sizeof(block), at),
				 sizeof(block));
	}
	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(copy(&x, d->src, &r, &p, &e), E_CHANGED);
	assert_non_null(strstr(e.text, "huge"));
	xferfix_close(&x);
	close(touch_fd);
}

/* The destination already has a name: a fault comes back, naming it, and the
 * link lives on. */
static void
test_fault_comes_back(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { 0 };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };

	make_tree(d->src);
	put(d->dst, "one", "in the way", 10);
	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(copy(&x, d->src, &r, &p, &e), E_EXISTS);
	assert_non_null(strstr(e.text, "one"));
	assert_int_equal(link_failed(x.l, NULL), 0);
	send_result_fini(&r);
	xferfix_close(&x);
}

/* Pieces cut elsewhere come to the same digest, and a block can be exchanged
 * in it. */
static void
test_digest_by_blocks(void **state)
{
	static uint8_t data[3 * TREE_BLOCK + 100];
	struct digest whole = { 0 }, parts = { 0 }, old = { 0 }, new = { 0 };
	struct digest_key k;
	size_t half = TREE_BLOCK + TREE_BLOCK / 2;

	(void)state;
	assert_int_equal(digest_key_new(&k, NULL), 0);
	assert_int_equal(digest_random(data, sizeof(data), NULL), 0);
	proof_piece(&k, 0, data, sizeof(data), &whole);
	proof_piece(&k, 2 * TREE_BLOCK, data + 2 * TREE_BLOCK, TREE_BLOCK + 100,
		    &parts);
	proof_piece(&k, 0, data, 2 * TREE_BLOCK, &parts);
	assert_true(digest_eq(&whole, &parts));
	proof_piece(&k, TREE_BLOCK, data + TREE_BLOCK, TREE_BLOCK, &old);
	data[half]++;
	proof_piece(&k, TREE_BLOCK, data + TREE_BLOCK, TREE_BLOCK, &new);
	digest_unsum(&whole, &old);
	digest_sum(&whole, &new);
	parts = (struct digest){ 0 };
	proof_piece(&k, 0, data, sizeof(data), &parts);
	assert_true(digest_eq(&whole, &parts));
	/* Where a piece lies counts. */
	old = (struct digest){ 0 };
	proof_piece(&k, 0, data + TREE_BLOCK, TREE_BLOCK, &old);
	assert_false(digest_eq(&old, &new));
}

/* Inode numbers as file systems give them: in a row, in strides, anywhere. */
static uint64_t
some_ino(uint64_t i)
{
	return i % 3 == 0   ? i + 1
	       : i % 3 == 1 ? (i << 20) + 5
			    : (i * 0x9e3779b97f4a7c15u) | 1;
}

static void
test_inomap(void **state)
{
	struct inomap *m = inomap_new(NULL);
	struct inomap_value v = { 0 }, w;
	const uint64_t n = 200000;
	struct err e = { 0 };

	(void)state;
	assert_non_null(m);
	assert_false(inomap_get(m, 1, &w));
	assert_false(inomap_take(m, 1, &w));
	for (uint64_t i = 0; i < n; i++) {
		v.group = (uint32_t)i;
		memcpy(v.content.b, &i, sizeof(i));
		assert_int_equal(inomap_add(m, some_ino(i), &v, NULL, &e), 0);
	}
	assert_int_equal(inomap_count(m), n);
	for (uint64_t i = 0; i < n; i++) {
		assert_true(inomap_get(m, some_ino(i), &w));
		assert_int_equal(w.group, i);
		assert_memory_equal(w.content.b, &i, sizeof(i));
	}
	assert_false(inomap_get(m, 3, &w));
	assert_int_equal(inomap_add(m, some_ino(7), &v, &w, &e), E_EXISTS);
	assert_int_equal(w.group, 7);
	v.group = 9;
	assert_int_equal(inomap_put(m, some_ino(7), &v, &e), 0);
	assert_int_equal(inomap_put(m, 3, &v, &e), 0);
	assert_true(inomap_take(m, some_ino(7), &w));
	assert_int_equal(w.group, 9);
	assert_int_equal(inomap_count(m), n + 1);
	inomap_free(m);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_digest_by_blocks),
		cmocka_unit_test(test_inomap),
		cmocka_unit_test_setup_teardown(test_whole_tree, setup,
						xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_proof_notices, setup,
						xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_flipped_on_the_way, setup,
						xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_cancelled, setup,
						xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_written_meanwhile, setup,
						xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_fault_comes_back, setup,
						xferfix_dirs_free),
	};

	need_root();
	signal(SIGPIPE, SIG_IGN); /* as both programs do */
	return cmocka_run_group_tests_name("xfer", tests, NULL, NULL);
}
