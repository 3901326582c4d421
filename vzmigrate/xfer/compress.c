/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * compress: see the header. A lane's compressor belongs to its thread; the
 * measurements of a slice are under `lock`, which is held for a few additions
 * per frame; sums are atomic.
 */
#include "xfer/compress.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "wire/tree.h"
#include "xfer/cpuidle.h"
#include "xfer/tuner.h"
#include "xfer/zframe.h"

/* After so many failures in a row so many frames are sent untried, at most. */
#define SKIP_MAX 32
#define PAUSE_US 1000000
#define PACK_NS_MIN                                                \
	10000000   /* of compressing, before its speed is believed \
		    */
#define SAMPLES 16 /* places looked at in a frame, */
#define SAMPLE 256 /* of so many bytes */

/* What failed to shrink lately: of one large file, or of a lane's batches. */
struct stubborn {
	unsigned skip; /* frames still to be sent untried */
	unsigned next; /* how many after another failure */
};

struct lane {
	struct zpack *z; /* NULL: none needed yet, or no memory for it */
	bool failed;	 /* no memory */
	unsigned turn;	 /* counts frames, for the share of them */
	uint32_t file;	 /* whose chunks `chunks` is about */
	struct stubborn chunks, batches;
	/* Under the lock: */
	bool waiting;
	bool sent;	  /* something in this slice */
	int64_t since_us; /* when it began to wait, or the slice began */
	int64_t wait_us;  /* waited in this slice */
};

struct compress {
	int want;		    /* as compress_new */
	int level;		    /* atomic; for the next frame */
	unsigned share;		    /* atomic; as tuner_share */
	struct compress_totals sum; /* atomic, each */
	/* Atomic: of what was compressed at the lowest level, since the last
	 * slice in which anything was: bytes, and the threads' own time. */
	uint64_t pack_bytes, pack_ns;

	pthread_mutex_t lock;
	struct tuner tuner;
	struct cpuidle idle;
	bool begun;	    /* slice_us is set */
	int64_t slice_us;   /* when the slice began */
	uint64_t raw, wire; /* in the slice */
	int64_t used_us;    /* of the process when it began */
	double pack;	    /* as in tuner_in */
	uint64_t frames;    /* ever sent */
	uint64_t changed;   /* `frames` when the level last changed */
	struct lane lane[COMPRESS_LANES];
};

int64_t
compress_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct compress *
compress_new(int level, struct err *e)
{
	struct compress *c = calloc(1, sizeof(*c));

	if (!c) {
		err_nomem(e);
		return NULL;
	}
	c->want = level;
	c->level = level == COMPRESS_AUTO ? 0 : level;
	c->share = TUNER_SHARES;
	pthread_mutex_init(&c->lock, NULL);
	tuner_init(&c->tuner);
	cpuidle_init(&c->idle);
	return c;
}

void
compress_free(struct compress *c)
{
	if (!c) {
		return;
	}
	for (unsigned i = 0; i < COMPRESS_LANES; i++) {
		zpack_free(c->lane[i].z);
	}
	cpuidle_fini(&c->idle);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

bool
compress_wanted(const struct compress *c)
{
	return c && c->want != COMPRESS_OFF;
}

/* ---- one frame ---- */

/* Whether the bytes look as if encrypted or compressed already: in a sample of
 * them all values are about as frequent. */
static bool
looks_random(const uint8_t *p, size_t len)
{
	uint16_t count[256] = { 0 };
	uint64_t n = (uint64_t)SAMPLES * SAMPLE, squares = 0;

	if (len < 2 * n) {
		return false;
	}
	for (unsigned i = 0; i < SAMPLES; i++) {
		const uint8_t *s = p + i * ((len - SAMPLE) / (SAMPLES - 1));

		for (unsigned k = 0; k < SAMPLE; k++) {
			count[s[k]]++;
		}
	}
	for (unsigned i = 0; i < 256; i++) {
		squares += (uint64_t)count[i] * count[i];
	}
	/* Of random bytes it is n + n * n / 256 within 1 %; text has several
	 * times that. */
	return squares * 10 < (n + n * n / 256) * 11;
}

/* Whether this frame is one of the share that is compressed; evenly spread. */
static bool
has_turn(struct compress *c, struct lane *n)
{
	unsigned share = __atomic_load_n(&c->share, __ATOMIC_RELAXED);

	n->turn = (n->turn + share) % TUNER_SHARES;
	return n->turn < share;
}

static bool
may_try(struct stubborn *s)
{
	if (!s->skip) {
		return true;
	}
	s->skip--;
	return false;
}

static void
note(struct stubborn *s, bool shrank)
{
	if (shrank) {
		*s = (struct stubborn){ 0 };
		return;
	}
	s->next = s->next ? s->next * 2 : 1;
	s->next = s->next > SKIP_MAX ? SKIP_MAX : s->next;
	s->skip = s->next;
}

static struct stubborn *
memory_of(struct lane *n, const uint8_t *p, const struct pool_frame *f)
{
	uint32_t id;

	if (f->type != FRAME_CHUNK || f->len <= TREE_CHUNK_HEAD) {
		return &n->batches;
	}
	id = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	     (uint32_t)p[3] << 24;
	if (id != n->file) {
		n->file = id;
		n->chunks = (struct stubborn){ 0 };
	}
	return &n->chunks;
}

static struct zpack *
packer(struct lane *n)
{
	struct err e = { 0 };

	if (!n->z && !n->failed) {
		n->z = zpack_new(&e);
		n->failed = !n->z;
		if (n->failed) {
			log_debug("not compressed: %s", e.text);
		}
	}
	return n->z;
}

static uint64_t
thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* zpack_frame, timed at the level that a trial begins with. */
static bool
pack(struct compress *c, struct lane *n, struct pool_frame *f, int level)
{
	uint32_t raw = f->len, most = raw - raw / 32;
	uint64_t from;
	bool shrank;

	if (level != tuner_first_level()) {
		return zpack_frame(n->z, f, level, most);
	}
	from = thread_ns();
	shrank = zpack_frame(n->z, f, level, most);
	__atomic_add_fetch(&c->pack_ns, thread_ns() - from, __ATOMIC_RELAXED);
	__atomic_add_fetch(&c->pack_bytes, raw, __ATOMIC_RELAXED);
	return shrank;
}

void
compress_pack(struct compress *c, unsigned lane, struct pool_frame *f)
{
	int level = __atomic_load_n(&c->level, __ATOMIC_RELAXED);
	struct lane *n = &c->lane[lane];
	const uint8_t *p = pool_payload(f);
	struct stubborn *s;
	bool shrank;

	if (!level || f->len < 128 || !has_turn(c, n) || !packer(n)) {
		return;
	}
	s = memory_of(n, p, f);
	if (!may_try(s)) {
		return;
	}
	/* Less than 3 % is not worth the other side's time. */
	shrank = !looks_random(p, f->len) && pack(c, n, f, level);
	note(s, shrank);
	if (shrank) {
		__atomic_add_fetch(&c->sum.packed, 1, __ATOMIC_RELAXED);
	}
}

/* ---- measuring ---- */

/* Processor time of this process, microseconds. */
static int64_t
used_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The lock is held. */
static void
begin_slice(struct compress *c, int64_t now_us)
{
	c->begun = true;
	c->slice_us = now_us;
	c->raw = c->wire = 0;
	c->used_us = used_us();
	for (unsigned i = 0; i < COMPRESS_LANES; i++) {
		c->lane[i].wait_us = 0;
		c->lane[i].sent = false;
		c->lane[i].since_us = now_us;
	}
}

void
compress_wait(struct compress *c, unsigned lane, bool on, int64_t now_us)
{
	struct lane *n = &c->lane[lane];

	if (c->want != COMPRESS_AUTO) {
		return;
	}
	pthread_mutex_lock(&c->lock);
	if (n->waiting && !on) {
		n->wait_us += now_us - n->since_us;
	}
	n->waiting = on;
	n->since_us = now_us;
	pthread_mutex_unlock(&c->lock);
}

bool
compress_sent(struct compress *c, unsigned lane, uint32_t raw, uint32_t wire,
	      int64_t now_us)
{
	struct lane *n = &c->lane[lane];
	bool due;

	__atomic_add_fetch(&c->sum.frames, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&c->sum.raw, raw, __ATOMIC_RELAXED);
	__atomic_add_fetch(&c->sum.wire, wire + FRAME_HEADER, __ATOMIC_RELAXED);
	if (c->want != COMPRESS_AUTO) {
		return false;
	}
	pthread_mutex_lock(&c->lock);
	/* A pause between passes is no slice. */
	if (!c->begun || (!c->raw && now_us - c->slice_us > PAUSE_US &&
			  n->wait_us < (now_us - c->slice_us) / 2)) {
		begin_slice(c, now_us);
		cpuidle_read(&c->idle, now_us);
	}
	c->raw += raw;
	c->wire += wire;
	c->frames++;
	n->sent = true;
	due = now_us - c->slice_us >= TUNER_SLICE_US;
	pthread_mutex_unlock(&c->lock);
	return due;
}

/* The part of their time that lanes at work waited. A lane that has nothing
 * to do counts neither way. The lock is held. */
static double
blocked(struct compress *c, int64_t now_us)
{
	int64_t wait = 0, all = 0;

	for (unsigned i = 0; i < COMPRESS_LANES; i++) {
		struct lane *n = &c->lane[i];

		if (!n->sent && !n->waiting) {
			continue;
		}
		wait += n->wait_us;
		if (n->waiting) {
			wait += now_us - n->since_us;
		}
		all += now_us - c->slice_us;
	}
	return all > 0 && wait < all ? (double)wait / (double)all
	       : wait > 0	     ? 1.0
				     : 0.0;
}

/* Bytes per second of a processor, as last seen. The lock is held. */
static double
pack_speed(struct compress *c)
{
	uint64_t ns = __atomic_load_n(&c->pack_ns, __ATOMIC_RELAXED);
	uint64_t bytes;

	if (ns > PACK_NS_MIN) {
		bytes = __atomic_exchange_n(&c->pack_bytes, 0,
					    __ATOMIC_RELAXED);
		c->pack = (double)bytes * 1e9 / (double)ns;
		__atomic_sub_fetch(&c->pack_ns, ns, __ATOMIC_RELAXED);
	}
	return c->pack;
}

void
compress_tick(struct compress *c, uint64_t in_flight, int64_t now_us)
{
	struct tuner_in in = { 0 };
	unsigned share;
	int was, level;

	pthread_mutex_lock(&c->lock);
	if (now_us - c->slice_us < TUNER_SLICE_US) {
		/* Another lane was faster. */
		pthread_mutex_unlock(&c->lock);
		return;
	}
	was = tuner_level(&c->tuner);
	in.us = now_us - c->slice_us;
	in.raw = c->raw;
	in.wire = c->wire;
	in.blocked = blocked(c, now_us);
	in.idle = cpuidle_read(&c->idle, now_us);
	in.used = (double)(used_us() - c->used_us) / (double)in.us;
	in.pack = pack_speed(c);
	in.flushed = c->frames - c->changed >= in_flight;
	level = tuner_slice(&c->tuner, &in);
	share = tuner_share(&c->tuner);
	__atomic_store_n(&c->share, share, __ATOMIC_RELAXED);
	if (level != was) {
		c->changed = c->frames;
		__atomic_store_n(&c->level, level, __ATOMIC_RELAXED);
	}
	begin_slice(c, now_us);
	pthread_mutex_unlock(&c->lock);
	log_trace("compress: %lld ms, %llu -> %llu, blocked %.2f, idle %.2f, "
		  "used %.2f, %llu under way%s, %u/%u",
		  (long long)in.us / 1000, (unsigned long long)in.raw,
		  (unsigned long long)in.wire, in.blocked, in.idle, in.used,
		  (unsigned long long)in_flight, in.flushed ? "" : ", mixed",
		  share, TUNER_SHARES);
	if (level != was) {
		log_debug("compression: level %d -> %d", was, level);
	}
}

void
compress_get_totals(const struct compress *c, struct compress_totals *t)
{
	t->frames = __atomic_load_n(&c->sum.frames, __ATOMIC_RELAXED);
	t->packed = __atomic_load_n(&c->sum.packed, __ATOMIC_RELAXED);
	t->raw = __atomic_load_n(&c->sum.raw, __ATOMIC_RELAXED);
	t->wire = __atomic_load_n(&c->sum.wire, __ATOMIC_RELAXED);
	t->level = __atomic_load_n(&c->level, __ATOMIC_RELAXED);
}
