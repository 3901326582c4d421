/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of data streams: several at once, dying, stalling, late; who may
 * join. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/io.h"
#include "fs/remove.h"
#include "wire/tree.h"
#include "xfer/feed.h"
#include "xfer/send.h"
#include "xfer/streamsock.h"
#include "xferfix.h"
#include "needroot.h"

static int
setup(void **state)
{
	*state = xferfix_dirs_new();
	return 0;
}

static uint8_t noise[1 << 20];

static void
put(int dirfd, const char *name, size_t len, size_t from)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	while (len) {
		size_t n =
			len < sizeof(noise) - from ? len : sizeof(noise) - from;

		assert_int_equal(io_write_full(fd, noise + from, n, name, NULL),
				 0);
		len -= n;
		from = 0;
	}
	close(fd);
}

/* Deep directories full of small files, and large files between them: records
 * that depend on what other frames define. */
static void
make_tree(int s, unsigned dirs, size_t large)
{
	char name[256];

	assert_int_equal(digest_random(noise, sizeof(noise), NULL), 0);
	for (unsigned i = 0; i < dirs; i++) {
		int n = snprintf(name, sizeof(name), "d%u", i);

		assert_int_equal(mkdirat(s, name, 0755), 0);
		for (unsigned k = 0; k < 4; k++) {
			n += snprintf(name + n, sizeof(name) - (size_t)n,
				      "/s%u", k);
			assert_int_equal(mkdirat(s, name, 0755), 0);
			for (unsigned f = 0; f < 6; f++) {
				snprintf(name + n, sizeof(name) - (size_t)n,
					 "/f%u", f);
				put(s, name, 1000 + 9000 * f, i + k + f);
			}
			name[n] = '\0';
		}
		snprintf(name, sizeof(name), "d%u/large", i);
		put(s, name, large, i);
	}
}

static int
copy(struct xferfix *x, int src, struct send_result *r, struct msg_proof *p,
     struct err *e)
{
	struct send_opts o = { .threads = 3 };
	int rc = xferfix_begin(x, e);

	rc = rc < 0 || !x->streams ? rc : xferfix_streams(x, e);
	rc = rc < 0 ? rc : send_tree(src, x->l, &x->key, &o, r, e);
	return rc < 0 ? rc : xferfix_end(x, p, e);
}

/* Copy and compare; the streams are as wished. */
static void
copy_whole(struct xferfix *x, struct xferfix_dirs *d, uint32_t keepalive_ms)
{
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };
	char why[1000] = "";

	assert_int_equal(xferfix_open(x, d->dst, keepalive_ms, &e), 0);
	if (copy(x, d->src, &r, &p, &e) < 0) {
		fail_msg("%s", e.text);
	}
	assert_int_equal(p.entries, r.proof.entries);
	assert_int_equal(p.bytes, r.proof.bytes);
	if (!digest_eq(&p.sum, &r.proof.sum)) {
		send_explain(d->src, x->l, &x->key, 0, why, sizeof(why), &e);
		fail_msg("sums differ: %s", why);
	}
	send_result_fini(&r);
}

/* ---- a channel with a temper ---- */

/* What is done to one stream. */
struct temper {
	struct bytechan base;
	struct bytechan *under;
	unsigned n;	/* of the stream */
	uint64_t bytes; /* written so far */
	uint64_t limit; /* where it happens; 0: never */
	uint8_t *held;	/* late: bytes not written yet */
	size_t nheld;
};

static uint64_t limits[XFERFIX_AGENTS_MAX]; /* by the stream's number */
static unsigned happened;		    /* how often; atomic */
static struct xferfix *fix;

static void
pass_on(struct temper *t)
{
	t->under->on_data = t->base.on_data;
	t->under->on_stderr = t->base.on_stderr;
	t->under->arg = t->base.arg;
}

static int
temper_service(struct bytechan *c, int64_t ms, struct err *e)
{
	struct temper *t = (struct temper *)c;

	pass_on(t);
	return bytechan_service(t->under, ms, e);
}

static void
temper_wake(struct bytechan *c)
{
	bytechan_wake(((struct temper *)c)->under);
}

static int
temper_eof(struct bytechan *c, struct err *e)
{
	return bytechan_send_eof(((struct temper *)c)->under, e);
}

static void
temper_free(struct bytechan *c)
{
	struct temper *t = (struct temper *)c;

	bytechan_free(t->under);
	free(t->held);
	free(t);
}

static struct bytechan *
temper_new(const struct bytechan_ops *ops, struct bytechan *under, unsigned n)
{
	struct temper *t = calloc(1, sizeof(*t));

	t->base.ops = ops;
	t->under = under;
	t->n = n;
	t->limit = limits[n];
	return &t->base;
}

/* ---- several ---- */

static void
test_three_streams(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 3 };

	make_tree(d->src, 12, 3000000);
	copy_whole(&x, d, 2000);
	assert_int_equal(send_streams_most(x.more), 3);
	xferfix_close(&x);
	assert_int_equal(x.served, 0);
	assert_false(x.left_over);
}

static void
test_most_streams(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = FEED_STREAMS_MAX };

	make_tree(d->src, 12, 3000000);
	copy_whole(&x, d, 2000);
	assert_int_equal(send_streams_most(x.more), FEED_STREAMS_MAX);
	xferfix_close(&x);
	assert_int_equal(x.served, 0);
}

/* Two passes over one connection: the streams stay. */
static void
test_second_pass(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 3 };
	struct send_opts o = { .threads = 2 };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };

	make_tree(d->src, 4, 1000000);
	copy_whole(&x, d, 2000);
	assert_int_equal(remove_content(d->dst, NULL, &e), 0);
	recv_free(x.r);
	x.r = NULL;
	assert_int_equal(xferfix_begin(&x, &e), 0);
	assert_int_equal(send_tree(d->src, x.l, &x.key, &o, &r, &e), 0);
	assert_int_equal(xferfix_end(&x, &p, &e), 0);
	assert_true(digest_eq(&p.sum, &r.proof.sum));
	assert_int_equal(x.dialled, 2);
	send_result_fini(&r);
	xferfix_close(&x);
}

/* Nothing to carry for twice the time after which a silent peer is given up:
 * both ends keep each stream alive. */
static void
test_idle(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 4 };
	struct err e = { 0 };

	assert_int_equal(xferfix_open(&x, d->dst, 60, &e), 0);
	assert_int_equal(xferfix_streams(&x, &e), 0);
	poll(NULL, 0, 2 * 60 * LINK_DEAD_FACTOR);
	assert_int_equal(send_streams_now(x.more), 4);
	assert_int_equal(x.dialled, 3);
	xferfix_close(&x);
	assert_int_equal(x.served, 0);
}

/* 5 GB, most of it holes, its chunks over all streams. */
static void
test_large_file(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 4 };
	off_t size = (off_t)5 << 30;
	struct stat st;
	int fd = openat(d->src, "five", O_WRONLY | O_CREAT, 0600);

	assert_int_equal(digest_random(noise, sizeof(noise), NULL), 0);
	assert_int_equal(ftruncate(fd, size), 0);
	for (off_t at = 0; at < size; at += (off_t)64 << 20) {
		assert_int_equal(pwrite(fd, noise, sizeof(noise), at),
				 sizeof(noise));
	}
	close(fd);
	copy_whole(&x, d, 2000);
	assert_int_equal(fstatat(d->dst, "five", &st, 0), 0);
	assert_int_equal(st.st_size, size);
	assert_true(st.st_blocks * 512 < (off_t)90 << 20);
	xferfix_close(&x);
}

/* ---- dying ---- */

/* Write up to the limit, then die: what is in the socket may still be read by
 * the agent. */
static int
dying_write(struct bytechan *c, const void *data, size_t len, int64_t ms,
	    struct err *e)
{
	struct temper *t = (struct temper *)c;

	pass_on(t);
	if (t->limit && t->bytes + len > t->limit) {
		bytechan_write(t->under, data, (size_t)(t->limit - t->bytes),
			       ms, e);
		t->limit = 1;
		t->bytes = 1;
		__atomic_add_fetch(&happened, 1, __ATOMIC_RELAXED);
		return err_set(e, E_CLOSED, "died as told");
	}
	t->bytes += len;
	return bytechan_write(t->under, data, len, ms, e);
}

static const struct bytechan_ops dying_ops = { dying_write, temper_service,
					       temper_wake, temper_eof,
					       temper_free, NULL };

static struct bytechan *
dying(struct bytechan *under, unsigned n)
{
	return temper_new(&dying_ops, under, n);
}

/* Each third one dies without a word, each third stands still until it is given
 * up, the others do so for a moment, and go on. */
static int
moody_write(struct bytechan *c, const void *data, size_t len, int64_t ms,
	    struct err *e)
{
	struct temper *t = (struct temper *)c;

	if (!t->limit || t->bytes + len <= t->limit || t->n % 3 == 0) {
		return dying_write(c, data, len, ms, e);
	}
	__atomic_add_fetch(&happened, 1, __ATOMIC_RELAXED);
	t->limit = 0;
	if (t->n % 3 == 1) {
		/* A busy machine sees it late. */
		poll(NULL, 0, (int)ms + 500);
		return err_set(e, E_TIMEOUT, "takes no data");
	}
	poll(NULL, 0, 50);
	return dying_write(c, data, len, ms, e);
}

static struct bytechan *
moody(struct bytechan *under, unsigned n)
{
	static const struct bytechan_ops ops = { moody_write, temper_service,
						 temper_wake, temper_eof,
						 temper_free, NULL };

	return temper_new(&ops, under, n);
}

static void
test_killed_and_stalled_at_random(void **state)
{
	unsigned seeds = getenv("VZ_TEST_FULL") ? 200 : 4;
	struct xferfix_dirs *d = *state;
	struct err e = { 0 };

	make_tree(d->src, 16, 1500000);
	for (unsigned seed = 1; seed <= seeds; seed++) {
		/* A stall lasts until the stream is given up, 3 s. */
		struct xferfix x = { .streams = 2 + seed % 3,
				     .wrap_more = seed % 2 ? moody : dying };

		srandom(seed);
		/* The first bytes are JOIN. */
		for (unsigned i = 0; i < XFERFIX_AGENTS_MAX; i++) {
			limits[i] =
				i < 20 ? 100 + (uint64_t)random() % 4000000 : 0;
		}
		happened = 0;
		copy_whole(&x, d, seed % 2 ? 200 : 2000);
		assert_true(happened > 0);
		xferfix_close(&x);
		assert_int_equal(x.served, 0);
		assert_int_equal(remove_content(d->dst, NULL, &e), 0);
	}
}

/* All of them, again and again, until no more are opened: the control stream
 * carries the rest. */
static void
test_all_die(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 4, .wrap_more = dying };

	make_tree(d->src, 16, 4000000);
	for (unsigned i = 0; i < XFERFIX_AGENTS_MAX; i++) {
		limits[i] = 300000;
	}
	happened = 0;
	copy_whole(&x, d, 2000);
	assert_true(happened >= 3);
	xferfix_close(&x);
}

/* The hook: not before it has died, and that was seen to. */
static void
until_dead(void)
{
	int64_t deadline = io_deadline(5000);

	while (!__atomic_load_n(&happened, __ATOMIC_RELAXED) &&
	       io_left_ms(deadline) > 0) {
		poll(NULL, 0, 1);
	}
	poll(NULL, 0, 150);
}

/* A stream dies with its first frame, before anybody but its thread knows that
 * it is there. */
static void
test_dead_on_arrival(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 2,
			     .wrap_more = dying,
			     .on_dialled = until_dead };

	make_tree(d->src, 4, 3000000);
	memset(limits, 0, sizeof(limits));
	limits[1] = 200;
	happened = 0;
	copy_whole(&x, d, 2000);
	assert_int_equal(happened, 1);
	xferfix_close(&x);
	assert_int_equal(x.served, 0);
}

/* ---- stalling ---- */

static uint64_t acked_at_stall, acked_at_end;
static unsigned most_frames;

/* As a peer that reads nothing more: no progress until the time is up. */
static int
stall(struct temper *t, int64_t ms, struct err *e)
{
	int64_t deadline = io_deadline(ms);
	struct feed_stats st;

	__atomic_add_fetch(&happened, 1, __ATOMIC_RELAXED);
	feed_get_stats(link_feed(fix->l), &st);
	acked_at_stall = st.acked_bytes;
	while (io_left_ms(deadline) > 0) {
		/* Its end does not answer either. */
		poll(NULL, 0, 5);
		feed_get_stats(link_feed(fix->l), &st);
		if (st.queued + st.under_way > most_frames) {
			most_frames = st.queued + st.under_way;
		}
	}
	acked_at_end = st.acked_bytes;
	t->limit = 0;
	return err_set(e, E_TIMEOUT, "takes no data");
}

static int
stalling_write(struct bytechan *c, const void *data, size_t len, int64_t ms,
	       struct err *e)
{
	struct temper *t = (struct temper *)c;

	pass_on(t);
	if (t->limit && t->bytes + len > t->limit) {
		return stall(t, ms, e);
	}
	t->bytes += len;
	return bytechan_write(t->under, data, len, ms, e);
}

static struct bytechan *
stalling(struct bytechan *under, unsigned n)
{
	static const struct bytechan_ops ops = { stalling_write, temper_service,
						 temper_wake,	 temper_eof,
						 temper_free,	 NULL };

	return temper_new(&ops, under, n);
}

static void
test_stalled(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 3, .wrap_more = stalling };

	memset(limits, 0, sizeof(limits));
	limits[1] = 2000000;
	happened = most_frames = 0;
	fix = &x;
	make_tree(d->src, 32, 3000000);
	/* Given up after 15 times that. */
	copy_whole(&x, d, 100);
	assert_int_equal(happened, 1);
	/* The others went on, and nobody piled up anything. */
	assert_true(acked_at_end > acked_at_stall + 20000000);
	assert_in_range(most_frames, 1, FEED_MAX);
	xferfix_close(&x);
}

/* ---- late ---- */

#define HELD_MAX (3u << 20)

/* Everything comes later than what the other streams carry: in lumps, or when
 * there is nothing else to do. */
static int
let_go(struct temper *t, int64_t ms, struct err *e)
{
	size_t n = t->nheld;

	t->nheld = 0;
	return n ? bytechan_write(t->under, t->held, n, ms, e) : 0;
}

static int
late_write(struct bytechan *c, const void *data, size_t len, int64_t ms,
	   struct err *e)
{
	struct temper *t = (struct temper *)c;
	int rc;

	pass_on(t);
	if (!t->held) {
		t->held = malloc(HELD_MAX);
	}
	if (t->nheld + len > HELD_MAX || len > HELD_MAX) {
		rc = let_go(t, ms, e);
		if (rc < 0) {
			return rc;
		}
	}
	memcpy(t->held + t->nheld, data, len);
	t->nheld += len;
	return 0;
}

static int
late_service(struct bytechan *c, int64_t ms, struct err *e)
{
	struct temper *t = (struct temper *)c;
	int rc;

	pass_on(t);
	if (t->nheld) {
		rc = bytechan_service(t->under, ms < 15 ? ms : 15, e);
		if (rc != 0) {
			return rc;
		}
		rc = let_go(t, 10000, e);
		if (rc < 0) {
			return rc;
		}
		__atomic_add_fetch(&happened, 1, __ATOMIC_RELAXED);
	}
	return bytechan_service(t->under, ms, e);
}

static int
late_eof(struct bytechan *c, struct err *e)
{
	struct temper *t = (struct temper *)c;
	int rc = let_go(t, 10000, e);

	return rc < 0 ? rc : bytechan_send_eof(t->under, e);
}

static struct bytechan *
late(struct bytechan *under, unsigned n)
{
	static const struct bytechan_ops ops = { late_write,  late_service,
						 temper_wake, late_eof,
						 temper_free, NULL };

	return temper_new(&ops, under, n);
}

static void
test_late_stream(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 3, .wrap_more = late };

	make_tree(d->src, 24, 2000000);
	happened = 0;
	copy_whole(&x, d, 2000);
	assert_true(happened > 0);
	xferfix_close(&x);
}

/* ---- the receiver alone ---- */

static unsigned done_count;
static struct err fault_seen;

static void
note_done(void *arg, void *from)
{
	(void)arg;
	(void)from;
	__atomic_add_fetch(&done_count, 1, __ATOMIC_RELAXED);
}

static void
note_fault(const struct err *why, void *arg)
{
	(void)arg;
	fault_seen = *why;
}

static struct pool_frame *
batch(struct tree_out *body, struct tree_out *defs)
{
	struct pool_frame *f = pool_large(4096);

	f->type = FRAME_BATCH;
	tree_set_u32(pool_payload(f), (uint32_t)body->len);
	memcpy(pool_payload(f) + 4, body->p, body->len);
	memcpy(pool_payload(f) + 4 + body->len, defs->p, defs->len);
	f->len = (uint32_t)(4 + body->len + defs->len);
	return f;
}

static struct pool_frame *
chunk(uint32_t id, uint64_t off, const uint8_t *data, uint32_t len)
{
	struct pool_frame *f = pool_large(TREE_CHUNK_HEAD + len);

	f->type = FRAME_CHUNK;
	for (int i = 0; i < 4; i++) {
		pool_payload(f)[i] = (uint8_t)(id >> (8 * i));
	}
	for (int i = 0; i < 8; i++) {
		pool_payload(f)[4 + i] = (uint8_t)(off >> (8 * i));
	}
	memcpy(pool_payload(f) + TREE_CHUNK_HEAD, data, len);
	f->len = TREE_CHUNK_HEAD + len;
	return f;
}

#define CHUNKS 5
#define FRAMES (CHUNKS + 4)

/* Directories 1 and 2 = 1/2, file 7 in 2 with its chunks and its end; each
 * in a frame of its own, in the order in which they would be sent. */
static void
make_frames(struct pool_frame *f[FRAMES])
{
	static const struct meta dir = { .type = FS_DIR, .perm = 0750 };
	static const struct meta file = { .type = FS_REG,
					  .perm = 0640,
					  .size = CHUNKS * TREE_PIECE };
	uint8_t b[2][1024];
	struct tree_out body = { b[0], 0, sizeof(b[0]) };
	struct tree_out defs = { b[1], 0, sizeof(b[1]) };

	tree_put_dir(&defs, 1, TREE_ROOT, "one", 3);
	tree_put_entry(&body, TREE_ROOT, false, TREE_ROOT, "", 0, &dir);
	tree_put_entry(&body, 1, false, TREE_ROOT, "one", 3, &dir);
	f[0] = batch(&body, &defs);
	defs.len = body.len = 0;
	tree_put_dir(&defs, 2, 1, "two", 3);
	tree_put_entry(&body, 2, false, 1, "two", 3, &dir);
	f[1] = batch(&body, &defs);
	defs.len = body.len = 0;
	tree_put_file(&defs, 7, 2, "file", 4, &file);
	f[2] = batch(&body, &defs);
	defs.len = body.len = 0;
	for (unsigned i = 0; i < CHUNKS; i++) {
		f[3 + i] = chunk(7, (uint64_t)i * TREE_PIECE, noise + i,
				 TREE_PIECE);
	}
	tree_put_file_end(&body, 7, false, CHUNKS, &file);
	f[3 + CHUNKS] = batch(&body, &defs);
}

static void
check_file(struct xferfix_dirs *d)
{
	uint8_t *got = malloc(CHUNKS * TREE_PIECE);
	int fd = openat(d->dst, "one/two/file", O_RDONLY);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_size, CHUNKS * TREE_PIECE);
	assert_int_equal(io_read_full(fd, got, CHUNKS * TREE_PIECE, "file",
				      NULL),
			 CHUNKS * TREE_PIECE);
	for (unsigned i = 0; i < CHUNKS; i++) {
		assert_memory_equal(got + i * TREE_PIECE, noise + i,
				    TREE_PIECE);
	}
	close(fd);
	free(got);
}

static struct receiver *
receiver(struct xferfix_dirs *d)
{
	static struct digest_key key;
	struct recv_opts o = { .workers = 2 };
	struct receiver *r;
	struct err e = { 0 };

	assert_int_equal(digest_key_new(&key, &e), 0);
	assert_int_equal(recv_new(d->dst, &key, &o, &r, &e), 0);
	recv_bind(r, note_done, note_fault, NULL);
	done_count = 0;
	err_clear(&fault_seen);
	return r;
}

/* Every order of the frames that a seed gives, the reverse one first. */
static void
test_any_order(void **state)
{
	struct xferfix_dirs *d = *state;

	assert_int_equal(digest_random(noise, sizeof(noise), NULL), 0);
	for (unsigned seed = 0; seed < 40; seed++) {
		struct receiver *r = receiver(d);
		struct pool_frame *f[FRAMES];
		struct err e = { 0 };

		make_frames(f);
		srandom(seed);
		for (int i = 0; !seed && i < FRAMES / 2; i++) {
			struct pool_frame *t = f[i];

			f[i] = f[FRAMES - 1 - i];
			f[FRAMES - 1 - i] = t;
		}
		for (int i = FRAMES - 1; seed && i > 0; i--) {
			int k = (int)(random() % (i + 1));
			struct pool_frame *t = f[i];

			f[i] = f[k];
			f[k] = t;
		}
		recv_streams(r, 10000);
		for (int i = 0; i < FRAMES; i++) {
			if (recv_frame(r, f[i], &e) < 0) {
				fail_msg("%s", e.text);
			}
		}
		while (__atomic_load_n(&done_count, __ATOMIC_RELAXED) <
		       FRAMES) {
			assert_int_equal(fault_seen.code, 0);
			poll(NULL, 0, 1);
		}
		if (recv_finish(r, &e) < 0) {
			fail_msg("seed %u: %s", seed, e.text);
		}
		recv_free(r);
		check_file(d);
		assert_int_equal(remove_content(d->dst, NULL, &e), 0);
	}
}

/* With one stream, or when patience ends, or with the pass, what was never
 * defined is a fault. */
static void
test_never_defined(void **state)
{
	struct xferfix_dirs *d = *state;

	for (int how = 0; how < 3; how++) {
		struct receiver *r = receiver(d);
		struct err e = { 0 };
		int64_t deadline = io_deadline(10000);

		if (how) {
			recv_streams(r, how == 1 ? 50 : 60000);
		}
		assert_int_equal(recv_frame(r, chunk(7, 0, noise, 100), &e), 0);
		while (how < 2 && io_left_ms(deadline) > 0 &&
		       !__atomic_load_n(&done_count, __ATOMIC_RELAXED)) {
			poll(NULL, 0, 1);
		}
		assert_int_equal(__atomic_load_n(&done_count, __ATOMIC_RELAXED),
				 how < 2);
		assert_int_equal(recv_finish(r, &e), E_PROTOCOL);
		assert_non_null(strstr(e.text, "file 7 is not defined"));
		recv_free(r);
		assert_int_equal(done_count, 1);
	}
}

/* ---- who may join ---- */

static struct msg_join
ask(struct xferfix *x)
{
	struct buf reply = BUF_MAX(4096);
	struct err e = { 0 };
	struct msg_join m;

	assert_int_equal(
		link_call(x->l, MSG_STREAM_OPEN, NULL, 0, &reply, 5000, &e), 0);
	assert_int_equal(msg_get_join(reply.data, reply.len, &m, &e), 0);
	buf_fini(&reply);
	return m;
}

/* Hand a stream over; what came of it, and the socket. */
static int
hand_over(struct xferfix *x, const struct msg_join *m, int *sock, struct err *e)
{
	int fds[2], rc;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	rc = streamsock_hand_over(x->join_dir, 1, m, fds[1], fds[1], e);
	close(fds[1]);
	*sock = fds[0];
	if (rc >= 0) {
		close(rc);
	}
	return rc < 0 ? rc : 0;
}

static void
refused(struct xferfix *x, const struct msg_join *m)
{
	struct err e = { 0 };
	int sock;

	assert_int_equal(hand_over(x, m, &sock, &e), E_DENIED);
	close(sock);
}

static void
test_tokens(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 2 };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };
	struct msg_join m, wrong;
	int sock, sock2;

	make_tree(d->src, 2, 100000);
	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(copy(&x, d->src, &r, &p, &e), 0);
	m = ask(&x);
	assert_int_equal(m.number, 2);
	wrong = m;
	wrong.token[31] ^= 1;
	refused(&x, &wrong);
	wrong = m;
	wrong.number++;
	refused(&x, &wrong);
	wrong = m;
	wrong.id[0] ^= 1;
	refused(&x, &wrong);
	memset(wrong.token, 0, sizeof(wrong.token));
	wrong.number = 0;
	memcpy(wrong.id, m.id, MSG_ID_LEN);
	refused(&x, &wrong);
	/* Good once. */
	assert_int_equal(hand_over(&x, &m, &sock, &e), 0);
	assert_int_equal(hand_over(&x, &m, &sock2, &e), E_DENIED);
	close(sock2);
	close(sock);
	send_result_fini(&r);
	xferfix_close(&x);
	assert_int_equal(x.served, 0);
}

/* Another user, even one whom the directory lets in and who knows the token. */
static void
test_other_uid(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 2 };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };
	struct msg_join m;
	char name[2 * MSG_ID_LEN + 1];
	int status, sock;
	pid_t pid;

	make_tree(d->src, 2, 100000);
	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(copy(&x, d->src, &r, &p, &e), 0);
	m = ask(&x);
	assert_int_equal(fchmod(x.join_dir, 0777), 0);
	for (int k = 0; k < MSG_ID_LEN; k++) {
		sprintf(name + 2 * k, "%02x", m.id[k]);
	}
	assert_int_equal(fchmodat(x.join_dir, name, 0777, 0), 0);
	pid = fork();
	if (pid == 0) {
		int fds[2], rc;

		if (setresuid(65534, 65534, 65534) < 0 ||
		    socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0) {
			_exit(1);
		}
		rc = streamsock_hand_over(x.join_dir, 1, &m, fds[1], fds[1],
					  &e);
		_exit(rc == E_DENIED ? 42 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	/* The token was not used up. */
	assert_int_equal(hand_over(&x, &m, &sock, &e), 0);
	close(sock);
	send_result_fini(&r);
	xferfix_close(&x);
}

/* A data stream that breaks a rule ends the connection. */
static void
test_rule_broken(void **state)
{
	static const uint8_t request[] = { 6, 0, 0, 0, FRAME_REQUEST, 0, 0, 0,
					   1, 0, 0, 0, MSG_SYNC,      0 };
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .streams = 2 };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };
	struct msg_join m;
	int sock;

	make_tree(d->src, 2, 100000);
	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(copy(&x, d->src, &r, &p, &e), 0);
	m = ask(&x);
	assert_int_equal(hand_over(&x, &m, &sock, &e), 0);
	assert_int_equal(
		io_write_full(sock, request, sizeof(request), "x", NULL), 0);
	send_result_fini(&r);
	pthread_join(x.thread, NULL);
	assert_int_equal(x.served, E_PROTOCOL);
	assert_non_null(
		strstr(x.served_err.text, "a request on a data stream"));
	x.joined = true;
	close(sock);
	xferfix_close(&x);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, xferfix_dirs_free)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_three_streams), T(test_most_streams),
		T(test_second_pass),   T(test_idle),
		T(test_large_file),    T(test_killed_and_stalled_at_random),
		T(test_all_die),       T(test_dead_on_arrival),
		T(test_stalled),       T(test_late_stream),
		T(test_any_order),     T(test_never_defined),
		T(test_tokens),	       T(test_other_uid),
		T(test_rule_broken),
	};

	need_root();
	signal(SIGPIPE, SIG_IGN); /* as both programs do */
	return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
