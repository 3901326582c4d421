/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of xfer/recv: passes after the first, from records made by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "fs/iflags.h"
#include "fs/remove.h"
#include "wire/tree.h"
#include "xfer/blocktab.h"
#include "xfer/dirmeta.h"
#include "xfer/proofcache.h"
#include "xfer/recv.h"
#include "xfer/recv_late.h"
#include "needroot.h"

#define BLOCK TREE_BLOCK
#define BIG (5 * BLOCK + 1000)

/* Two destinations: one is brought up to date, one is copied afresh. */
struct dirs {
	char top[64];
	int old, new;
	struct digest_key key;
	uint8_t data[8 * BLOCK];
};

/* A batch being composed. */
struct batch {
	uint8_t body_bytes[256 << 10], defs_bytes[64 << 10];
	struct tree_out body, defs;
};

static int
setup(void **state)
{
	struct dirs *d = calloc(1, sizeof(*d));
	char p[128];

	snprintf(d->top, sizeof(d->top), "/tmp/vzm-recv-XXXXXX");
	assert_non_null(mkdtemp(d->top));
	snprintf(p, sizeof(p), "%s/old", d->top);
	assert_int_equal(mkdir(p, 0700), 0);
	d->old = open(p, O_RDONLY | O_DIRECTORY);
	snprintf(p, sizeof(p), "%s/new", d->top);
	assert_int_equal(mkdir(p, 0700), 0);
	d->new = open(p, O_RDONLY | O_DIRECTORY);
	assert_int_equal(digest_key_new(&d->key, NULL), 0);
	for (size_t i = 0; i < sizeof(d->data); i++) {
		d->data[i] = (uint8_t)(i * 2654435761u >> 13);
	}
	*state = d;
	return 0;
}

static int
teardown(void **state)
{
	struct dirs *d = *state;
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);

	close(d->old);
	close(d->new);
	assert_int_equal(remove_tree(tmp, strrchr(d->top, '/') + 1, NULL, NULL),
			 0);
	close(tmp);
	free(d);
	return 0;
}

/* ---- composing ---- */

static struct meta
meta_of(enum fs_type type, uint64_t size)
{
	return (struct meta){ .type = type,
			      .perm = 0640,
			      .uid = 1000,
			      .gid = 1001,
			      .size = size,
			      .atime = { 1000000000, 1 },
			      .mtime = { 1234567890, 5 } };
}

static struct batch *
batch_new(void)
{
	struct batch *b = calloc(1, sizeof(*b));

	b->body = (struct tree_out){ b->body_bytes, 4, sizeof(b->body_bytes) };
	b->defs = (struct tree_out){ b->defs_bytes, 0, sizeof(b->defs_bytes) };
	return b;
}

/* Frees it. */
static int
batch_send(struct batch *b, struct receiver *r, struct err *e)
{
	size_t len = b->body.len + b->defs.len;
	struct pool_frame *f = pool_large((uint32_t)len);

	tree_set_u32(b->body_bytes, (uint32_t)b->body.len - 4);
	f->type = FRAME_BATCH;
	f->flags = 0;
	f->len = (uint32_t)len;
	memcpy(pool_payload(f), b->body_bytes, b->body.len);
	memcpy(pool_payload(f) + b->body.len, b->defs_bytes, b->defs.len);
	free(b);
	return recv_frame(r, f, e);
}

static int
chunk(struct receiver *r, uint32_t id, uint64_t off, const void *data,
      size_t len)
{
	struct pool_frame *f = pool_large((uint32_t)len + TREE_CHUNK_HEAD);
	uint8_t *p = pool_payload(f);

	f->type = FRAME_CHUNK;
	f->flags = 0;
	f->len = (uint32_t)len + TREE_CHUNK_HEAD;
	for (int i = 0; i < 4; i++) {
		p[i] = (uint8_t)(id >> (8 * i));
	}
	for (int i = 0; i < 8; i++) {
		p[4 + i] = (uint8_t)(off >> (8 * i));
	}
	memcpy(p + TREE_CHUNK_HEAD, data, len);
	return recv_frame(r, f, NULL);
}

static void
dir(struct batch *b, uint32_t id, uint32_t parent, const char *name)
{
	assert_true(tree_put_dir(&b->defs, id, parent, name, strlen(name)));
}

static void
entry(struct batch *b, uint32_t id, bool linked, uint32_t in, const char *name,
      const struct meta *m, const void *data)
{
	assert_true(tree_put_entry(&b->body, id, linked, in, name, strlen(name),
				   m));
	if (m->type == FS_REG) {
		assert_true(tree_put_u32(&b->body, m->size > 0));
		if (m->size) {
			assert_true(
				tree_put_piece(&b->body, 0, (uint32_t)m->size));
			memcpy(b->body.p + b->body.len, data, m->size);
			b->body.len += m->size;
		}
	}
}

static void
dir_entry(struct batch *b, uint32_t id, uint32_t in, const char *name,
	  uint32_t flags)
{
	struct meta m = meta_of(FS_DIR, 0);

	m.perm = 0755;
	m.flags = flags;
	entry(b, id, false, in, name, &m, NULL);
}

static void
text(struct batch *b, uint32_t in, const char *name, const char *content)
{
	struct meta m = meta_of(FS_REG, strlen(content));

	entry(b, 0, false, in, name, &m, content);
}

static void
file_end(struct batch *b, uint32_t id, bool linked, uint64_t chunks,
	 uint64_t size)
{
	struct meta m = meta_of(FS_REG, size);

	assert_true(tree_put_file_end(&b->body, id, linked, chunks, &m));
}

/* A whole large file. */
static void
large(struct dirs *d, struct receiver *r, uint32_t id, bool linked, uint32_t in,
      const char *name, uint64_t size)
{
	struct batch *b = batch_new();
	struct meta m = meta_of(FS_REG, size);
	uint64_t n = 0;

	assert_true(tree_put_file(&b->defs, id, in, name, strlen(name), &m));
	assert_int_equal(batch_send(b, r, NULL), 0);
	for (uint64_t at = 0; at < size; at += TREE_PIECE) {
		uint64_t len = size - at < TREE_PIECE ? size - at : TREE_PIECE;

		assert_int_equal(chunk(r, id, at, d->data + at, len), 0);
		n++;
	}
	b = batch_new();
	file_end(b, id, linked, n, size);
	assert_int_equal(batch_send(b, r, NULL), 0);
}

static struct receiver *
start(struct dirs *d, int rootfd)
{
	struct recv_opts o = { .track = true };
	struct receiver *r;

	assert_int_equal(recv_new(rootfd, &d->key, &o, &r, NULL), 0);
	return r;
}

static void
finish(struct receiver *r)
{
	struct err e = { 0 };

	if (recv_finish(r, &e) < 0) {
		fail_msg("%s", e.text);
	}
}

static void
same(struct receiver *a, struct receiver *b)
{
	struct msg_proof p, q;

	assert_int_equal(recv_proof(a, &p, NULL), 0);
	assert_int_equal(recv_proof(b, &q, NULL), 0);
	assert_int_equal(p.entries, q.entries);
	assert_true(digest_eq(&p.sum, &q.sum));
}

/* ---- pass 1 ----
 * ./f ./a = d/b (group 1) ./big (file 2) ./d/e/x ./sym ./sub/y */
static void
first_pass(struct dirs *d, struct receiver *r)
{
	struct batch *b = batch_new();
	struct meta m = meta_of(FS_REG, 3), l = meta_of(FS_LNK, 0);

	l.target = (char *)"there";
	l.target_len = 5;
	dir(b, 1, 0, "d");
	dir(b, 2, 1, "e");
	dir(b, 3, 0, "sub");
	dir_entry(b, 0, 0, "", 0);
	dir_entry(b, 1, 0, "d", 0);
	dir_entry(b, 2, 1, "e", FS_IMMUTABLE_FL);
	dir_entry(b, 3, 0, "sub", FS_APPEND_FL);
	text(b, 0, "f", "first");
	text(b, 2, "x", "x");
	text(b, 3, "y", "y");
	entry(b, 0, false, 0, "sym", &l, NULL);
	m.flags = FS_IMMUTABLE_FL;
	entry(b, 1, true, 0, "a", &m, "abc");
	assert_true(tree_put_link(&b->body, 1, 1, "b", 1));
	assert_int_equal(batch_send(b, r, NULL), 0);
	large(d, r, 2, false, 0, "big", BIG);
	finish(r);
}

/* What a fresh copy of the changed tree is sent as, given the same number for
 * the group. */
static void
fresh_pass(struct dirs *d, struct receiver *r)
{
	struct batch *b = batch_new();
	struct meta m = meta_of(FS_REG, 4), meta = meta_of(FS_LNK, 0);

	meta.target = (char *)"there";
	meta.target_len = 5;
	meta.uid = 7;
	dir(b, 1, 0, "d");
	dir(b, 2, 1, "e");
	dir(b, 4, 0, "f");
	dir_entry(b, 0, 0, "", 0);
	dir_entry(b, 1, 0, "d", 0);
	dir_entry(b, 2, 1, "e", FS_IMMUTABLE_FL);
	dir_entry(b, 4, 0, "f", 0);
	text(b, 0, "sub", "now a file");
	text(b, 2, "z", "z");
	text(b, 4, "in", "in it");
	entry(b, 0, false, 0, "sym", &meta, NULL);
	m.flags = FS_APPEND_FL;
	entry(b, 5, true, 0, "a", &m, "abcd");
	assert_true(tree_put_link(&b->body, 5, 1, "b", 1));
	assert_true(tree_put_link(&b->body, 5, 2, "c", 1));
	assert_int_equal(batch_send(b, r, NULL), 0);
	large(d, r, 6, false, 0, "big", BIG);
	finish(r);
}

/* A file becomes a directory, a directory (append-only, with something in it)
 * a file; names go from and come to an immutable directory; a group whose
 * inode is immutable gets a name and content. */
static void
test_types_and_groups(void **state)
{
	struct dirs *d = *state;
	struct receiver *a = start(d, d->old), *f = start(d, d->new);
	struct batch *b;
	struct meta m = meta_of(FS_REG, 4), l = meta_of(FS_LNK, 0);
	struct stat x, y;

	first_pass(d, a);
	assert_int_equal(recv_sync(a, NULL), 0);
	assert_int_equal(recv_update(a, NULL), 0);
	b = batch_new();
	dir(b, 1, 0, "d");
	dir(b, 7, 1, "e");
	dir(b, 9, 0, "f");
	dir_entry(b, 0, 0, "", 0);
	dir_entry(b, 1, 0, "d", 0);
	dir_entry(b, 7, 1, "e", FS_IMMUTABLE_FL);
	dir_entry(b, 9, 0, "f", 0);
	text(b, 9, "in", "in it");
	text(b, 0, "sub", "now a file");
	text(b, 7, "z", "z");
	assert_true(tree_put_remove(&b->body, 7, "x", 1));
	assert_true(tree_put_remove(&b->body, 7, "never was", 9));
	l.target = (char *)"there";
	l.target_len = 5;
	l.uid = 7;
	assert_true(tree_put_meta(&b->body, 0, false, 0, "sym", 3, &l));
	m.flags = FS_APPEND_FL;
	entry(b, 5, true, 0, "a", &m, "abcd");
	assert_true(tree_put_link(&b->body, 5, 1, "b", 1));
	assert_true(tree_put_link(&b->body, 5, 7, "c", 1));
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	assert_int_equal(recv_sync(a, NULL), 0);
	fresh_pass(d, f);
	same(a, f);
	assert_int_equal(fstatat(d->old, "a", &x, 0), 0);
	assert_int_equal(fstatat(d->old, "d/e/c", &y, 0), 0);
	assert_int_equal(x.st_ino, y.st_ino);
	assert_int_equal(x.st_nlink, 3);
	recv_free(a);
	recv_free(f);
}

/* ---- in place ---- */

static void
update(struct batch *b, uint32_t id, uint32_t in, const char *name,
       uint64_t size)
{
	assert_true(
		tree_put_update(&b->defs, id, in, name, strlen(name), size));
}

/* Expect of `big` in the updated tree what is in `want`, and the proof of a
 * fresh copy of it: pieces of `data` where `holes` has no '1'. */
static void
check_big(struct dirs *d, struct receiver *a, const uint8_t *want,
	  uint64_t size, const char *holes)
{
	struct receiver *f;
	uint8_t *got = malloc(size + 1);
	int fd = openat(d->old, "big", O_RDONLY);
	struct batch *b = batch_new();
	struct meta m = meta_of(FS_REG, size);
	struct stat st;
	uint64_t n = 0;

	assert_int_equal(pread(fd, got, size + 1, 0), size);
	assert_memory_equal(got, want, size);
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	free(got);
	assert_int_equal(remove_content(d->new, NULL, NULL), 0);
	f = start(d, d->new);
	dir_entry(b, 0, 0, "", 0);
	assert_true(tree_put_file(&b->defs, 3, 0, "big", 3, &m));
	assert_int_equal(batch_send(b, f, NULL), 0);
	for (uint64_t at = 0; at < size; at += BLOCK) {
		uint64_t len = size - at < BLOCK ? size - at : BLOCK;

		if (holes[at / BLOCK] != '1') {
			assert_int_equal(chunk(f, 3, at, want + at, len), 0);
			n++;
		}
	}
	/* Data blocks and no more, with some slack for the file system. */
	assert_true((uint64_t)st.st_blocks * 512 <= n * BLOCK + BLOCK);
	b = batch_new();
	file_end(b, 3, false, n, size);
	assert_int_equal(batch_send(b, f, NULL), 0);
	finish(f);
	same(a, f);
	recv_free(f);
}

static void
test_in_place(void **state)
{
	struct dirs *d = *state;
	struct receiver *a = start(d, d->old);
	struct batch *b = batch_new();
	uint8_t *now = malloc(sizeof(d->data));
	struct stat before, after;

	memcpy(now, d->data, sizeof(d->data));
	dir_entry(b, 0, 0, "", 0);
	assert_int_equal(batch_send(b, a, NULL), 0);
	large(d, a, 2, false, 0, "big", BIG);
	finish(a);
	assert_int_equal(fstatat(d->old, "big", &before, 0), 0);

	/* Blocks are exchanged, a hole is punched, another gets data again
	 * in two pieces. */
	assert_int_equal(recv_update(a, NULL), 0);
	now[BLOCK] ^= 1;
	memset(now + 2 * BLOCK, 0, 2 * BLOCK);
	memset(now + 3 * BLOCK, 'p', 4096);
	b = batch_new();
	update(b, 9, 0, "big", BIG);
	assert_true(tree_put_hole(&b->defs, 9, 2 * BLOCK, BLOCK));
	assert_true(tree_put_hole(&b->defs, 9, 3 * BLOCK, BLOCK));
	assert_true(tree_put_hole(&b->defs, 9, 2 * BLOCK, BLOCK));
	assert_int_equal(batch_send(b, a, NULL), 0);
	assert_int_equal(chunk(a, 9, BLOCK, now + BLOCK, BLOCK), 0);
	b = batch_new();
	file_end(b, 9, false, 1, BIG);
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	memset(now + 3 * BLOCK, 0, BLOCK);
	check_big(d, a, now, BIG, "001100");

	/* Grown: what was the last block comes again, whole. */
	assert_int_equal(recv_update(a, NULL), 0);
	b = batch_new();
	update(b, 10, 0, "big", 7 * BLOCK);
	assert_int_equal(batch_send(b, a, NULL), 0);
	assert_int_equal(chunk(a, 10, 5 * BLOCK, now + 5 * BLOCK, BLOCK), 0);
	assert_int_equal(chunk(a, 10, 3 * BLOCK, d->data, BLOCK), 0);
	memcpy(now + 3 * BLOCK, d->data, BLOCK);
	memset(now + 6 * BLOCK, 0, BLOCK);
	b = batch_new();
	file_end(b, 10, false, 2, 7 * BLOCK);
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	check_big(d, a, now, 7 * BLOCK, "0010001");

	/* Cut in the middle of a block, which comes again; then its end is a
	 * hole. */
	assert_int_equal(recv_update(a, NULL), 0);
	b = batch_new();
	update(b, 11, 0, "big", 4 * BLOCK + 500);
	assert_int_equal(batch_send(b, a, NULL), 0);
	assert_int_equal(chunk(a, 11, 4 * BLOCK, now + 4 * BLOCK, 500), 0);
	b = batch_new();
	file_end(b, 11, false, 1, 4 * BLOCK + 500);
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	check_big(d, a, now, 4 * BLOCK + 500, "00100");
	assert_int_equal(recv_update(a, NULL), 0);
	b = batch_new();
	update(b, 12, 0, "big", 4 * BLOCK + 500);
	assert_true(tree_put_hole(&b->defs, 12, 4 * BLOCK, 500));
	file_end(b, 12, false, 0, 4 * BLOCK + 500);
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	memset(now + 4 * BLOCK, 0, 500);
	check_big(d, a, now, 4 * BLOCK + 500, "00101");

	assert_int_equal(fstatat(d->old, "big", &after, 0), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	recv_free(a);
	free(now);
}

/* A group keeps its number where it is changed in place; its flags that
 * forbid writing are no obstacle, and come again. */
static void
test_group_in_place(void **state)
{
	struct dirs *d = *state;
	struct receiver *a = start(d, d->old);
	struct batch *b = batch_new();
	struct meta m = meta_of(FS_REG, BIG);
	uint32_t flags, projid;
	struct msg_proof p, q;
	int fd;

	dir_entry(b, 0, 0, "", 0);
	assert_true(tree_put_link(&b->body, 2, 0, "other", 5));
	assert_int_equal(batch_send(b, a, NULL), 0);
	large(d, a, 2, true, 0, "big", BIG);
	finish(a);
	assert_int_equal(recv_proof(a, &p, NULL), 0);
	assert_int_equal(recv_update(a, NULL), 0);
	m.flags = FS_IMMUTABLE_FL;
	b = batch_new();
	assert_true(tree_put_meta(&b->body, 2, true, 0, "other", 5, &m));
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	assert_int_equal(recv_proof(a, &q, NULL), 0);
	assert_false(digest_eq(&p.sum, &q.sum));
	assert_int_equal(recv_update(a, NULL), 0);
	b = batch_new();
	update(b, 2, 0, "other", BIG);
	assert_int_equal(batch_send(b, a, NULL), 0);
	assert_int_equal(chunk(a, 2, 0, d->data, BLOCK), 0);
	b = batch_new();
	assert_true(tree_put_file_end(&b->body, 2, true, 1, &m));
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	assert_int_equal(recv_proof(a, &p, NULL), 0);
	assert_true(digest_eq(&p.sum, &q.sum));
	fd = openat(d->old, "big", O_RDONLY);
	assert_int_equal(iflags_read(fd, &flags, &projid, NULL), 0);
	assert_int_equal(flags & FS_IMMUTABLE_FL, FS_IMMUTABLE_FL);
	close(fd);
	recv_free(a);
}

/* Attributes, ACLs, a capability and flags that were there and are not sent
 * again go; and what was sent is there after the owner changed. */
static void
test_meta_exact(void **state)
{
	static const uint8_t cap[20] = { 1, 0, 0, 2, 0, 4 };
	struct dirs *d = *state;
	struct receiver *a = start(d, d->old);
	struct batch *b = batch_new();
	struct meta m = meta_of(FS_REG, 4);
	uint8_t x[] = "\x13\0security.capability\x14\0\0\0"
		      "....................";
	uint8_t got[64];
	uint32_t flags, projid;
	struct stat st;
	int fd;

	memcpy(x + sizeof(x) - 21, cap, 20);
	dir_entry(b, 0, 0, "", 0);
	text(b, 0, "f", "text");
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	fd = openat(d->old, "f", O_RDWR);
	assert_int_equal(fsetxattr(fd, "user.gone", "1", 1, 0), 0);
	assert_int_equal(fsetxattr(fd, "trusted.gone", "1", 1, 0), 0);
	assert_int_equal(
		fsetxattr(fd, "system.posix_acl_access",
			  "\2\0\0\0\1\0\6\0\xff\xff\xff\xff\2\0\7\0\5\0\0\0"
			  "\4\0\4\0\xff\xff\xff\xff\x10\0\7\0\xff\xff\xff\xff"
			  "\x20\0\0\0\xff\xff\xff\xff",
			  44, 0),
		0);
	assert_int_equal(iflags_add(fd, FS_NODUMP_FL | FS_APPEND_FL, NULL), 0);
	assert_int_equal(recv_update(a, NULL), 0);
	m.xattrs = x;
	m.xattrs_len = sizeof(x) - 1;
	m.uid = 12;
	m.perm = 04711;
	b = batch_new();
	assert_true(tree_put_meta(&b->body, 0, false, 0, "f", 1, &m));
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	assert_int_equal(flistxattr(fd, (char *)got, sizeof(got)), 20);
	assert_int_equal(fgetxattr(fd, "security.capability", got, sizeof(got)),
			 20);
	assert_memory_equal(got, cap, 20);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 04711);
	assert_int_equal(st.st_uid, 12);
	assert_int_equal(st.st_mtim.tv_nsec, 5);
	assert_int_equal(iflags_read(fd, &flags, &projid, NULL), 0);
	assert_int_equal(flags, 0);
	close(fd);
	recv_free(a);
}

/* An inode's number is used again for another file: neither its group nor its
 * content may be taken for that one's. */
static void
test_number_used_again(void **state)
{
	struct dirs *d = *state;
	struct receiver *a = start(d, d->old), *f = start(d, d->new);
	struct meta m = meta_of(FS_REG, 3), p = meta_of(FS_FIFO, 0);
	struct batch *b = batch_new();
	char name[16];

	dir_entry(b, 0, 0, "", 0);
	for (unsigned i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		entry(b, i + 1, true, 0, name, &m, "abc");
		name[0] = 'l';
		assert_true(
			tree_put_link(&b->body, i + 1, 0, name, strlen(name)));
	}
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	assert_int_equal(recv_update(a, NULL), 0);
	b = batch_new();
	dir_entry(b, 0, 0, "", 0);
	for (unsigned i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		assert_true(tree_put_remove(&b->body, 0, name, strlen(name)));
		name[0] = 'n';
		entry(b, 0, false, 0, name, i % 2 ? &m : &p, "xyz");
	}
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	b = batch_new();
	dir_entry(b, 0, 0, "", 0);
	for (unsigned i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		entry(b, 0, false, 0, name, i % 2 ? &m : &p, "xyz");
	}
	assert_int_equal(batch_send(b, f, NULL), 0);
	finish(f);
	same(a, f);
	recv_free(a);
	recv_free(f);
}

/* A group of more names than the file system can give to one inode has several
 * there: metadata that comes for one of them would miss the others. Sent anew
 * it is fine. */
static void
test_split_group(void **state)
{
	struct dirs *d = *state;
	long max = fpathconf(d->old, _PC_LINK_MAX);
	struct meta m = meta_of(FS_REG, 3);
	struct receiver *a;
	struct batch *b;
	struct err e = { 0 };
	char name[32];

	if (max < 2 || max > 100000) {
		print_message("SKIP test_split_group: this file system has no "
			      "limit of links that is near\n");
		skip();
	}
	a = start(d, d->old);
	b = batch_new();
	dir_entry(b, 0, 0, "", 0);
	entry(b, 1, true, 0, "first", &m, "abc");
	for (long i = 0; i < max; i++) {
		snprintf(name, sizeof(name), "l%ld", i);
		if (!tree_put_link(&b->body, 1, 0, name, strlen(name))) {
			assert_int_equal(batch_send(b, a, NULL), 0);
			b = batch_new();
			tree_put_link(&b->body, 1, 0, name, strlen(name));
		}
	}
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	assert_int_equal(recv_update(a, NULL), 0);
	b = batch_new();
	dir_entry(b, 0, 0, "", 0);
	entry(b, 2, true, 0, "first", &m, "abd");
	assert_true(tree_put_link(&b->body, 2, 0, "l0", 2));
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	assert_int_equal(recv_update(a, NULL), 0);
	b = batch_new();
	assert_true(tree_put_meta(&b->body, 2, true, 0, "l0", 2, &m));
	assert_int_equal(batch_send(b, a, NULL), 0);
	finish(a);
	assert_int_equal(recv_update(a, NULL), 0);
	b = batch_new();
	assert_true(tree_put_meta(&b->body, 1, true, 0, "l1", 2, &m));
	assert_int_equal(batch_send(b, a, NULL), 0);
	assert_int_equal(recv_finish(a, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "l1: has more hard links"));
	recv_free(a);
}

/* Counted; it takes the place of the C library's. */
static unsigned syncs;

int
syncfs(int fd)
{
	syncs++;
	return (int)syscall(SYS_syncfs, fd);
}

/* A pass with `n` small files. */
static void
small_pass(struct receiver *r, unsigned n)
{
	struct batch *b = batch_new();
	char name[16];

	dir_entry(b, 0, 0, "", 0);
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		text(b, 0, name, "text");
	}
	assert_int_equal(batch_send(b, r, NULL), 0);
	finish(r);
}

/* Nobody else's dirty pages are waited for in a last pass that is small. */
static void
test_sync(void **state)
{
	struct dirs *d = *state;
	struct receiver *r = start(d, d->old);

	syncs = 0;
	small_pass(r, 10);
	assert_int_equal(recv_sync(r, NULL), 0);
	assert_int_equal(syncs, 1);
	assert_int_equal(recv_update(r, NULL), 0);
	small_pass(r, 20);
	assert_int_equal(recv_sync(r, NULL), 0);
	assert_int_equal(recv_sync(r, NULL), 0);
	assert_int_equal(syncs, 1);
	/* Too many. */
	assert_int_equal(recv_update(r, NULL), 0);
	small_pass(r, RECV_SYNC_MAX + 1);
	assert_int_equal(recv_sync(r, NULL), 0);
	assert_int_equal(syncs, 2);
	/* Two passes, of which nobody asked to sync the first. */
	assert_int_equal(recv_update(r, NULL), 0);
	small_pass(r, 1);
	assert_int_equal(recv_update(r, NULL), 0);
	small_pass(r, 1);
	assert_int_equal(recv_sync(r, NULL), 0);
	assert_int_equal(syncs, 3);
	recv_free(r);
}

/* What was read back and left alone since is not opened again; what was
 * changed is, whoever changed it. */
static void
test_read_back(void **state)
{
	struct dirs *d = *state;
	struct receiver *r = start(d, d->old);
	struct msg_proof p, q;
	struct timespec old[2] = { { 1, 0 }, { 1, 0 } }, was[2];
	struct stat st;

	small_pass(r, 50);
	assert_int_equal(recv_proof(r, &p, NULL), 0);
	assert_int_equal(recv_read_back(r, NULL), 0);
	assert_int_equal(recv_proof(r, &q, NULL), 0);
	assert_true(digest_eq(&p.sum, &q.sum));
	assert_int_equal(p.entries, q.entries);
	assert_int_equal(fstatat(d->old, "f7", &st, 0), 0);
	assert_int_equal(utimensat(d->old, "f7", old, 0), 0);
	assert_int_equal(recv_proof(r, &q, NULL), 0);
	assert_false(digest_eq(&p.sum, &q.sum));
	was[0] = st.st_atim;
	was[1] = st.st_mtim;
	assert_int_equal(utimensat(d->old, "f7", was, 0), 0);
	assert_int_equal(recv_read_back(r, NULL), 0);
	assert_int_equal(recv_proof(r, &q, NULL), 0);
	assert_true(digest_eq(&p.sum, &q.sum));
	/* A name that is gone, and one more. */
	assert_int_equal(unlinkat(d->old, "f8", 0), 0);
	assert_int_equal(recv_proof(r, &q, NULL), 0);
	assert_int_equal(q.entries, p.entries - 1);
	assert_false(digest_eq(&p.sum, &q.sum));
	recv_free(r);
}

static void
set_attr(int dirfd, const char *name, const char *attr)
{
	int fd = openat(dirfd, name, O_RDONLY);

	assert_int_equal(fsetxattr(fd, attr, "1", 1, 0), 0);
	close(fd);
}

static void
remove_attr(int dirfd, const char *name, const char *attr)
{
	int fd = openat(dirfd, name, O_RDONLY);

	assert_int_equal(fremovexattr(fd, attr), 0);
	close(fd);
}

/* The name in the text is the file's, and ends where it ends. */
static void
test_cannot_write(void **state)
{
	struct dirs *d = *state;
	struct receiver *r = start(d, d->old);
	struct batch *b = batch_new();
	struct rlimit was, small;
	struct err e = { 0 };

	dir_entry(b, 0, 0, "", 0);
	text(b, 0, "name", "more than two");
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	small = was;
	small.rlim_cur = 2;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(batch_send(b, r, NULL), 0);
	assert_int_equal(recv_finish(r, &e), E_SYSTEM);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_string_equal(e.text,
			    "name: cannot write name at 2: File too large");
	recv_free(r);
}

/* Counted as syncs are. */
static unsigned lists;

ssize_t
flistxattr(int fd, char *list, size_t size)
{
	__atomic_add_fetch(&lists, 1, __ATOMIC_RELAXED);
	return syscall(SYS_flistxattr, fd, list, size);
}

/* A file that is made is read back at once, and the proof opens it no more;
 * but if anything has become of it since, it does. */
static void
test_read_back_at_once(void **state)
{
	struct dirs *d = *state;
	struct receiver *r = start(d, d->old);
	struct meta m = meta_of(FS_REG, 4);
	struct msg_proof p, q;
	struct batch *b;

	lists = 0;
	small_pass(r, 50);
	assert_in_range(lists, 50, 52);
	lists = 0;
	assert_int_equal(recv_proof(r, &p, NULL), 0);
	assert_in_range(lists, 0, 1); /* the root's */
	assert_int_equal(p.entries, 51);
	set_attr(d->old, "f7", "user.vzm");
	assert_int_equal(recv_proof(r, &q, NULL), 0);
	assert_false(digest_eq(&p.sum, &q.sum));
	remove_attr(d->old, "f7", "user.vzm");
	assert_int_equal(recv_proof(r, &q, NULL), 0);
	assert_true(digest_eq(&p.sum, &q.sum));
	/* The client's own order, however soon it comes. */
	assert_int_equal(recv_update(r, NULL), 0);
	b = batch_new();
	m.flags = FS_NODUMP_FL;
	assert_true(tree_put_meta(&b->body, 0, false, 0, "f8", 2, &m));
	assert_int_equal(batch_send(b, r, NULL), 0);
	finish(r);
	assert_int_equal(recv_proof(r, &q, NULL), 0);
	assert_false(digest_eq(&p.sum, &q.sum));
	m.flags = 0;
	assert_int_equal(recv_update(r, NULL), 0);
	b = batch_new();
	assert_true(tree_put_meta(&b->body, 0, false, 0, "f8", 2, &m));
	assert_int_equal(batch_send(b, r, NULL), 0);
	finish(r);
	assert_int_equal(recv_proof(r, &q, NULL), 0);
	assert_true(digest_eq(&p.sum, &q.sum));
	recv_free(r);
}

/* ---- what a hostile client may send ---- */

struct bad {
	const char *what;
	void (*put)(struct batch *b);
	bool first_pass;
	int code;
	const char *text;
};

static void
bad_update_small(struct batch *b)
{
	update(b, 20, 0, "f", 10);
	file_end(b, 20, false, 0, 10);
}

static void
bad_update_link(struct batch *b)
{
	update(b, 20, 0, "sym", 10);
	file_end(b, 20, false, 0, 10);
}

static void
bad_update_dir(struct batch *b)
{
	update(b, 20, 0, "d", 10);
	file_end(b, 20, false, 0, 10);
}

static void
bad_update_none(struct batch *b)
{
	update(b, 20, 0, "none", 10);
	file_end(b, 20, false, 0, 10);
}

static void
bad_update_group(struct batch *b)
{
	update(b, 1, 0, "big", BIG);
	file_end(b, 1, true, 0, BIG);
}

static void
bad_hole_beyond(struct batch *b)
{
	update(b, 20, 0, "big", BIG);
	assert_true(tree_put_hole(&b->defs, 20, 5 * BLOCK, BLOCK));
}

static void
bad_hole_odd(struct batch *b)
{
	update(b, 20, 0, "big", BIG);
	assert_true(tree_put_hole(&b->defs, 20, 0, 4096));
}

static void
bad_hole_overlap(struct batch *b)
{
	update(b, 20, 0, "big", BIG);
	assert_true(tree_put_hole(&b->defs, 20, 0, 2 * BLOCK));
	assert_true(tree_put_hole(&b->defs, 20, BLOCK, BLOCK));
}

static void
bad_hole_new_file(struct batch *b)
{
	struct meta m = meta_of(FS_REG, BIG);

	assert_true(tree_put_file(&b->defs, 20, 0, "n", 1, &m));
	assert_true(tree_put_hole(&b->defs, 20, 0, BLOCK));
}

static void
bad_hole_unknown(struct batch *b)
{
	assert_true(tree_put_hole(&b->defs, 20, 0, BLOCK));
}

static void
bad_meta_group(struct batch *b)
{
	struct meta m = meta_of(FS_REG, 3);

	assert_true(tree_put_meta(&b->body, 0, false, 0, "a", 1, &m));
}

static void
bad_meta_type(struct batch *b)
{
	struct meta m = meta_of(FS_FIFO, 0);

	assert_true(tree_put_meta(&b->body, 0, false, 0, "f", 1, &m));
}

static void
bad_meta_below_link(struct batch *b)
{
	struct meta m = meta_of(FS_REG, 3);

	dir(b, 1, 0, "sym");
	assert_true(tree_put_meta(&b->body, 0, false, 1, "hosts", 5, &m));
}

static void
bad_remove_undefined(struct batch *b)
{
	assert_true(tree_put_remove(&b->body, 77, "x", 1));
}

static void
bad_made_without_meta(struct batch *b)
{
	dir(b, 1, 0, "fresh");
	assert_true(tree_put_remove(&b->body, 1, "x", 1));
}

static void
bad_remove_first(struct batch *b)
{
	dir_entry(b, 0, 0, "", 0);
	assert_true(tree_put_remove(&b->body, 0, "x", 1));
}

static void
bad_update_first(struct batch *b)
{
	dir_entry(b, 0, 0, "", 0);
	update(b, 20, 0, "big", BIG);
}

static void
bad_meta_first(struct batch *b)
{
	struct meta m = meta_of(FS_REG, 3);

	dir_entry(b, 0, 0, "", 0);
	assert_true(tree_put_meta(&b->body, 0, false, 0, "a", 1, &m));
}

static const struct bad bads[] = {
	{ "update of a small file", bad_update_small, false, E_PROTOCOL,
	  "did not come in chunks" },
	{ "update of a symlink", bad_update_link, false, E_DENIED, "sym" },
	{ "update of a directory", bad_update_dir, false, E_CHANGED, "d" },
	{ "update of nothing", bad_update_none, false, E_NOT_FOUND, "none" },
	{ "update of another group", bad_update_group, false, E_PROTOCOL,
	  "another group" },
	{ "hole beyond the end", bad_hole_beyond, false, E_PROTOCOL,
	  "cannot have" },
	{ "hole of odd length", bad_hole_odd, false, E_PROTOCOL,
	  "cannot have" },
	{ "holes that overlap", bad_hole_overlap, false, E_PROTOCOL,
	  "overlaps" },
	{ "hole in a new file", bad_hole_new_file, false, E_PROTOCOL,
	  "cannot have" },
	{ "hole of no file", bad_hole_unknown, false, E_PROTOCOL,
	  "not under way" },
	{ "metadata for another group", bad_meta_group, false, E_PROTOCOL,
	  "another group" },
	{ "metadata of another type", bad_meta_type, false, E_CHANGED,
	  "another type" },
	{ "metadata below a symlink", bad_meta_below_link, false, E_DENIED,
	  "sym" },
	{ "removal in no directory", bad_remove_undefined, false, E_PROTOCOL,
	  "not defined" },
	{ "a directory without metadata", bad_made_without_meta, false,
	  E_PROTOCOL, "without metadata" },
	{ "removal in the first pass", bad_remove_first, true, E_PROTOCOL,
	  "first pass" },
	{ "update in the first pass", bad_update_first, true, E_PROTOCOL,
	  "first pass" },
	{ "metadata in the first pass", bad_meta_first, true, E_PROTOCOL,
	  "first pass" },
};

static void
test_hostile(void **state)
{
	struct dirs *d = *state;

	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		struct receiver *r = start(d, d->old);
		struct batch *b = batch_new();
		struct err e = { 0 };
		int rc;

		if (!bads[i].first_pass) {
			first_pass(d, r);
			assert_int_equal(recv_update(r, NULL), 0);
		}
		bads[i].put(b);
		rc = batch_send(b, r, &e);
		rc = rc < 0 ? rc : recv_finish(r, &e);
		if (rc != bads[i].code || !strstr(e.text, bads[i].text)) {
			fail_msg("%s: %d: %s", bads[i].what, rc, e.text);
		}
		/* Nothing may follow a fault. */
		assert_true(recv_update(r, NULL) < 0);
		recv_free(r);
		assert_int_equal(remove_content(d->old, NULL, NULL), 0);
	}
}

/* A chunk more than the end says, before or after it: never written. */
static void
test_surplus_chunk(void **state)
{
	struct dirs *d = *state;
	struct receiver *r = start(d, d->old);
	struct batch *b = batch_new();
	struct meta m = meta_of(FS_REG, BIG);
	struct err e = { 0 };

	dir_entry(b, 0, 0, "", 0);
	assert_true(tree_put_file(&b->defs, 2, 0, "big", 3, &m));
	assert_int_equal(batch_send(b, r, NULL), 0);
	assert_int_equal(chunk(r, 2, 0, d->data, BLOCK), 0);
	assert_int_equal(chunk(r, 2, BLOCK, d->data, BLOCK), 0);
	recv_drain(r);
	b = batch_new();
	file_end(b, 2, false, 1, BIG);
	assert_int_equal(batch_send(b, r, NULL), 0);
	assert_int_equal(recv_finish(r, &e), E_PROTOCOL);
	assert_non_null(strstr(e.text, "ended wrongly"));
	recv_free(r);
}

/* ---- several streams ---- */

#define BLOCKS 2000u

/* Another connection: chunks of file `id`, until the definition is there. */
struct giver {
	struct receiver *r;
	uint32_t id;
	uint64_t given; /* atomic */
	bool defined;	/* atomic */
};

static void *
give_chunks(void *arg)
{
	struct giver *g = arg;

	do {
		if (chunk(g->r, g->id, BLOCKS * BLOCK, "x", 1) < 0) {
			abort();
		}
		__atomic_add_fetch(&g->given, 1, __ATOMIC_RELAXED);
	} while (!__atomic_load_n(&g->defined, __ATOMIC_RELAXED));
	return NULL;
}

/* Chunks overtake their UPDATE, which has HOLEs or none, on another stream, and
 * soon after it there is no more to come: what was tried too early is tried
 * again all the same, and not while half of the batch is taken in. */
static void
overtaken(struct dirs *d, unsigned rounds, unsigned holes)
{
	struct receiver *r = start(d, d->old);
	const uint64_t size = BLOCKS * BLOCK + 1;
	struct batch *b = batch_new();
	struct meta m = meta_of(FS_REG, size);
	struct giver g = { .r = r };
	struct err e = { 0 };
	pthread_t t;
	int rc;

	recv_streams(r, 60000);
	dir_entry(b, 0, 0, "", 0);
	assert_true(tree_put_file(&b->defs, 2, 0, "big", 3, &m));
	file_end(b, 2, false, 0, size);
	assert_int_equal(batch_send(b, r, NULL), 0);
	finish(r);
	for (g.id = 3; g.id < 3 + rounds; g.id++) {
		assert_int_equal(recv_update(r, NULL), 0);
		g.given = 0;
		g.defined = false;
		assert_int_equal(pthread_create(&t, NULL, give_chunks, &g), 0);
		while (!__atomic_load_n(&g.given, __ATOMIC_RELAXED)) {
			sched_yield();
		}
		b = batch_new();
		update(b, g.id, 0, "big", size);
		for (uint64_t i = 0; i < holes; i++) {
			assert_true(tree_put_hole(&b->defs, g.id, 2 * i * BLOCK,
						  BLOCK));
		}
		rc = batch_send(b, r, &e);
		__atomic_store_n(&g.defined, true, __ATOMIC_RELAXED);
		pthread_join(t, NULL);
		if (rc < 0) {
			fail_msg("%s", e.text);
		}
		b = batch_new();
		file_end(b, g.id, false, g.given, size);
		assert_int_equal(batch_send(b, r, NULL), 0);
		finish(r);
	}
	recv_free(r);
}

static void
test_overtaken(void **state)
{
	overtaken(*state, 100, 0);
	assert_int_equal(
		remove_content(((struct dirs *)*state)->old, NULL, NULL), 0);
	overtaken(*state, 40, BLOCKS / 2);
}

/* ---- blocktab ---- */

static void
test_blocktab(void **state)
{
	struct digest a = { { 1 } }, b = { { 2 } }, sum = { { 0 } };
	struct digest zero = { { 0 } }, three = { { 3 } };
	struct blocktab *t = blocktab_new(NULL);

	(void)state;
	assert_int_equal(blocktab_put(t, 1, &a, true, &sum, NULL), 0);
	assert_int_equal(blocktab_put(t, 1, &b, true, &sum, NULL), 0);
	assert_true(digest_eq(&sum, &b));
	assert_int_equal(blocktab_put(t, 1, &a, false, &sum, NULL), 0);
	assert_true(digest_eq(&sum, &three));
	blocktab_drop(t, 2, UINT64_MAX, &sum);
	assert_true(digest_eq(&sum, &three));
	blocktab_drop(t, 1, 2, &sum);
	assert_true(digest_eq(&sum, &zero));
	/* Far apart, and many. */
	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(blocktab_put(t, i << 37, &a, true, &sum, NULL),
				 0);
	}
	blocktab_drop(t, 1, UINT64_MAX, &sum);
	assert_true(digest_eq(&sum, &a));
	blocktab_drop(t, 0, 1, &sum);
	assert_true(digest_eq(&sum, &zero));
	blocktab_free(t);
}

/* ---- dirmeta ---- */

static void
test_dirmeta(void **state)
{
	static const uint32_t ids[] = { 7, 0, 4095, 4096, 5000000, 8 };
	struct dirmeta *t = dirmeta_new(NULL);
	struct err e = { 0 };
	struct meta m;

	(void)state;
	assert_int_equal(dirmeta_end(t), 0);
	assert_false(dirmeta_has(t, 0));
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		uint8_t x[4] = { 1, 2, 3, (uint8_t)i };

		m = meta_of(FS_DIR, 0);
		m.uid = ids[i];
		m.flags = FS_SYNC_FL;
		m.projid = 9;
		m.mtime.sec = -5;
		m.xattrs = x;
		m.xattrs_len = i % 2 ? 4 : 0;
		assert_int_equal(dirmeta_put(t, ids[i], &m, &e), 0);
		assert_int_equal(dirmeta_put(t, ids[i], &m, &e), E_EXISTS);
	}
	assert_int_equal(dirmeta_count(t), 6);
	assert_int_equal(dirmeta_end(t), 5000001);
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		struct meta want = meta_of(FS_DIR, 0);

		assert_true(dirmeta_has(t, ids[i]));
		assert_true(dirmeta_get(t, ids[i], &m));
		assert_int_equal(m.type, FS_DIR);
		assert_int_equal(m.perm, want.perm);
		assert_int_equal(m.uid, ids[i]);
		assert_int_equal(m.gid, want.gid);
		assert_int_equal(m.flags, FS_SYNC_FL);
		assert_int_equal(m.projid, 9);
		assert_int_equal(m.mtime.sec, -5);
		assert_int_equal(m.mtime.nsec, want.mtime.nsec);
		assert_int_equal(m.atime.sec, want.atime.sec);
		assert_int_equal(m.atime.nsec, want.atime.nsec);
		assert_int_equal(m.xattrs_len, i % 2 ? 4 : 0);
		assert_int_equal(m.xattrs_len ? m.xattrs[3] : i, i);
	}
	assert_false(dirmeta_get(t, 9, &m));
	assert_false(dirmeta_get(t, 9000, &m));
	assert_false(dirmeta_get(t, UINT32_MAX, &m));
	dirmeta_clear(t);
	assert_int_equal(dirmeta_count(t), 0);
	assert_int_equal(dirmeta_end(t), 0);
	assert_false(dirmeta_has(t, 7));
	assert_int_equal(dirmeta_put(t, 7, &(struct meta){ .perm = 1 }, &e), 0);
	assert_true(dirmeta_get(t, 7, &m));
	assert_int_equal(m.perm, 1);
	dirmeta_free(t);
	dirmeta_free(NULL);
}

/* ---- proofcache ---- */

static void
test_proofcache(void **state)
{
	struct proofcache *c = proofcache_new(NULL);
	struct statx stx = { .stx_ino = 5 };
	struct digest a = { { 1 } }, d = { { 0 } };
	struct timespec now;

	(void)state;
	clock_gettime(CLOCK_REALTIME, &now);
	stx.stx_ctime.tv_sec = now.tv_sec - 2;
	for (uint64_t i = 1; i <= 1000; i++) {
		stx.stx_ino = i;
		assert_int_equal(proofcache_note(c, i % PROOFCACHE_LANES, &stx,
						 &a, NULL),
				 0);
	}
	/* It could be changed again within this tick, or the clock jumped. */
	stx.stx_ino = 2000;
	stx.stx_ctime.tv_sec = now.tv_sec;
	stx.stx_ctime.tv_nsec = (uint32_t)now.tv_nsec;
	assert_int_equal(proofcache_note(c, 0, &stx, &a, NULL), 0);
	stx.stx_ino = 2001;
	stx.stx_ctime.tv_sec = now.tv_sec + 1000;
	assert_int_equal(proofcache_note(c, 0, &stx, &a, NULL), 0);
	assert_int_equal(proofcache_seal(c, NULL), 0);
	assert_false(proofcache_get(c, &stx, &d));
	stx.stx_ino = 2000;
	stx.stx_ctime.tv_sec = now.tv_sec;
	assert_false(proofcache_get(c, &stx, &d));
	stx.stx_ctime.tv_sec = now.tv_sec - 2;
	stx.stx_ctime.tv_nsec = 0;
	for (uint64_t i = 1; i <= 1000; i++) {
		stx.stx_ino = i;
		assert_true(proofcache_get(c, &stx, &d));
		assert_true(digest_eq(&a, &d));
	}
	stx.stx_ctime.tv_nsec = 1;
	assert_false(proofcache_get(c, &stx, &d));
	proofcache_free(c);
}

#define T(x) cmocka_unit_test_setup_teardown(x, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_types_and_groups),
		T(test_in_place),
		T(test_group_in_place),
		T(test_meta_exact),
		T(test_number_used_again),
		T(test_hostile),
		T(test_split_group),
		T(test_sync),
		T(test_read_back),
		T(test_read_back_at_once),
		T(test_cannot_write),
		T(test_surplus_chunk),
		T(test_overtaken),
		cmocka_unit_test(test_blocktab),
		cmocka_unit_test(test_dirmeta),
		cmocka_unit_test(test_proofcache),
	};

	need_root();
	return cmocka_run_group_tests_name("recv", tests, NULL, NULL);
}
