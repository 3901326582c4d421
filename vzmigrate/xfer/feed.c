/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * feed: a list and some counters under one mutex. A frame is queued, then
 * under way on one stream (the stream's link holds it, if anybody does), then
 * acknowledged; queued and under way together are bounded, so that whoever
 * takes buffers from the pool never waits there but here, where a wait can be
 * cancelled.
 */
#include "xfer/feed.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/io.h"

struct part {
	bool attached;
	bool idle;	    /* asleep: wake it when there is work */
	unsigned under_way; /* taken and not acknowledged */
	void (*wake)(void *arg);
	void *arg;
};

struct feed {
	const char *host; /* borrowed */
	struct pool *pool;
	pthread_mutex_t lock;
	pthread_cond_t room;  /* feed_put may go on */
	pthread_cond_t still; /* feed_drain may look again */
	struct pool_frame *queue;
	struct pool_frame **tail;
	unsigned queued, under_way;
	unsigned limit;	  /* slots that take part */
	unsigned waiting; /* in feed_put */
	uint64_t acked_bytes, puts, waits;
	bool cancelled, hurry, discard;
	struct err fatal, fault; /* code 0: none */
	struct part parts[FEED_STREAMS_MAX];
};

struct feed *
feed_new(const char *host, struct err *e)
{
	struct feed *f = calloc(1, sizeof(*f));
	pthread_condattr_t attr;

	if (!f || !(f->pool = pool_new(FEED_POOL_FRAMES, e))) {
		free(f);
		err_nomem(e);
		return NULL;
	}
	f->host = host;
	f->tail = &f->queue;
	f->limit = FEED_STREAMS_MAX;
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->room, &attr);
	pthread_cond_init(&f->still, &attr);
	pthread_condattr_destroy(&attr);
	return f;
}

/* With the lock held, or nobody else there. */
static void
drop_queue(struct feed *f)
{
	while (f->queue) {
		struct pool_frame *next = f->queue->next;

		pool_put(f->queue);
		f->queue = next;
	}
	f->tail = &f->queue;
	f->queued = 0;
}

void
feed_free(struct feed *f)
{
	if (!f) {
		return;
	}
	drop_queue(f);
	pool_free(f->pool);
	pthread_cond_destroy(&f->still);
	pthread_cond_destroy(&f->room);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

struct pool *
feed_pool(struct feed *f)
{
	return f->pool;
}

/* ---- whoever composes ---- */

/* Why nothing can be sent; 0. With the lock held. */
static int
blocked(const struct feed *f, struct err *e)
{
	if (f->fatal.code) {
		if (e) {
			*e = f->fatal;
		}
		return f->fatal.code;
	}
	return f->cancelled ? err_set(e, E_CANCELLED, "stopped as asked") : 0;
}

/* False when `deadline` passed. */
static bool
wait_on(struct feed *f, pthread_cond_t *c, int64_t deadline)
{
	struct timespec t;

	if (deadline == IO_FOREVER) {
		pthread_cond_wait(c, &f->lock);
		return true;
	}
	t.tv_sec = deadline / 1000;
	t.tv_nsec = deadline % 1000 * 1000000;
	return pthread_cond_timedwait(c, &f->lock, &t) == 0 ||
	       io_left_ms(deadline) > 0;
}

static bool
has_room(const struct feed *f)
{
	return f->queued < FEED_QUEUE && f->queued + f->under_way < FEED_MAX;
}

static bool
may_take(const struct feed *f, unsigned slot)
{
	const struct part *p = &f->parts[slot];

	return p->attached && slot < f->limit && p->under_way < FEED_WINDOW;
}

/* One sleeper for each frame, the control stream first: what few can carry
 * needs no more to wake up. */
static void
wake_one(struct feed *f)
{
	for (unsigned i = 0; i < FEED_STREAMS_MAX; i++) {
		struct part *p = &f->parts[i];

		if (p->idle && may_take(f, i)) {
			p->idle = false;
			p->wake(p->arg);
			return;
		}
	}
}

/* Those who wait for room come back in a bunch, when there is a good part of
 * it: each wake costs more than the frame. */
static void
tell_room(struct feed *f)
{
	if (f->waiting && f->queued <= FEED_QUEUE / 2 && has_room(f)) {
		pthread_cond_broadcast(&f->room);
	}
}

int
feed_put(struct feed *f, struct pool_frame *fr, int64_t deadline, struct err *e)
{
	bool waited = false;
	int rc;

	pthread_mutex_lock(&f->lock);
	for (;;) {
		rc = blocked(f, e);
		if (rc == 0 && f->fault.code) {
			rc = f->fault.code;
			if (e) {
				*e = f->fault;
			}
		}
		if (rc < 0 || has_room(f)) {
			break;
		}
		waited = true;
		f->waiting++;
		if (!wait_on(f, &f->room, deadline)) {
			rc = err_set(e, E_TIMEOUT, "%s: takes no data",
				     f->host);
		}
		f->waiting--;
		if (rc < 0) {
			break;
		}
	}
	if (rc == 0) {
		fr->next = NULL;
		*f->tail = fr;
		f->tail = &fr->next;
		f->queued++;
		f->puts++;
		f->waits += waited;
		wake_one(f);
	}
	pthread_mutex_unlock(&f->lock);
	if (rc < 0) {
		pool_put(fr);
	}
	return rc;
}

static bool
is_still(const struct feed *f, bool all)
{
	return !f->queued && f->under_way == (all ? 0 : f->parts[0].under_way);
}

static void
tell_still(struct feed *f)
{
	if (is_still(f, false)) {
		pthread_cond_broadcast(&f->still);
	}
}

int
feed_drain(struct feed *f, bool all, int64_t deadline, struct err *e)
{
	int rc;

	pthread_mutex_lock(&f->lock);
	while ((rc = blocked(f, e)) == 0 && !is_still(f, all)) {
		if (!wait_on(f, &f->still, deadline)) {
			rc = err_set(e, E_TIMEOUT, "%s: takes no data",
				     f->host);
			break;
		}
	}
	pthread_mutex_unlock(&f->lock);
	return rc;
}

/* ---- streams ---- */

int
feed_attach(struct feed *f, void (*wake)(void *arg), void *arg, struct err *e)
{
	int slot = 0;

	pthread_mutex_lock(&f->lock);
	while (slot < FEED_STREAMS_MAX && f->parts[slot].attached) {
		slot++;
	}
	if (slot < FEED_STREAMS_MAX) {
		f->parts[slot] = (struct part){ .attached = true,
						.wake = wake,
						.arg = arg };
	}
	pthread_mutex_unlock(&f->lock);
	return slot < FEED_STREAMS_MAX
		       ? slot
		       : err_set(e, E_LIMIT, "more than %d streams",
				 FEED_STREAMS_MAX);
}

void
feed_detach(struct feed *f, int slot)
{
	pthread_mutex_lock(&f->lock);
	f->parts[slot].attached = false;
	f->parts[slot].idle = false;
	pthread_mutex_unlock(&f->lock);
}

struct pool_frame *
feed_take(struct feed *f, int slot)
{
	struct part *p = &f->parts[slot];
	struct pool_frame *fr = NULL;

	pthread_mutex_lock(&f->lock);
	if (f->queue && may_take(f, (unsigned)slot)) {
		fr = f->queue;
		f->queue = fr->next;
		if (!f->queue) {
			f->tail = &f->queue;
		}
		fr->next = NULL;
		f->queued--;
		f->under_way++;
		p->under_way++;
		p->idle = false;
		tell_room(f);
		/* The last one left for the control stream: nothing else
		 * tells a drain of it. */
		tell_still(f);
	} else {
		p->idle = true;
	}
	pthread_mutex_unlock(&f->lock);
	return fr;
}

void
feed_acked(struct feed *f, int slot, unsigned frames, uint64_t bytes)
{
	pthread_mutex_lock(&f->lock);
	assert(f->parts[slot].under_way >= frames);
	f->parts[slot].under_way -= frames;
	f->under_way -= frames;
	f->acked_bytes += bytes;
	tell_room(f);
	tell_still(f);
	pthread_mutex_unlock(&f->lock);
}

void
feed_back(struct feed *f, int slot, struct pool_frame *list)
{
	struct pool_frame *last = list;
	unsigned n = list ? 1 : 0;

	for (; last && last->next; last = last->next) {
		n++;
	}
	pthread_mutex_lock(&f->lock);
	if (n) {
		last->next = f->queue;
		if (!f->queue) {
			f->tail = &last->next;
		}
		f->queue = list;
		f->queued += n;
		f->under_way -= n;
		f->parts[slot].under_way -= n;
	}
	if (f->fatal.code || f->discard) {
		drop_queue(f);
	}
	while (n-- > 0) {
		wake_one(f);
	}
	tell_still(f);
	pthread_mutex_unlock(&f->lock);
}

void
feed_inherit(struct feed *f, int slot, unsigned frames)
{
	pthread_mutex_lock(&f->lock);
	f->parts[slot].under_way -= frames;
	f->parts[0].under_way += frames;
	tell_still(f);
	pthread_mutex_unlock(&f->lock);
}

void
feed_limit(struct feed *f, unsigned n)
{
	pthread_mutex_lock(&f->lock);
	f->limit = n;
	for (unsigned i = 0; i < f->queued && i < n; i++) {
		wake_one(f);
	}
	pthread_mutex_unlock(&f->lock);
}

/* ---- state ---- */

static void
wake_all(struct feed *f)
{
	pthread_cond_broadcast(&f->room);
	pthread_cond_broadcast(&f->still);
}

void
feed_fail(struct feed *f, const struct err *why)
{
	pthread_mutex_lock(&f->lock);
	if (!f->fatal.code) {
		f->fatal = *why;
	}
	/* Whoever waits for a buffer gets one, and then the error. */
	drop_queue(f);
	wake_all(f);
	pthread_mutex_unlock(&f->lock);
}

void
feed_cancel(struct feed *f, bool on)
{
	pthread_mutex_lock(&f->lock);
	f->cancelled = on;
	wake_all(f);
	pthread_mutex_unlock(&f->lock);
}

void
feed_hurry(struct feed *f)
{
	__atomic_store_n(&f->hurry, true, __ATOMIC_RELAXED);
}

void
feed_discard(struct feed *f)
{
	pthread_mutex_lock(&f->lock);
	drop_queue(f);
	f->discard = !is_still(f, false);
	tell_still(f);
	pthread_mutex_unlock(&f->lock);
}

bool
feed_in_hurry(struct feed *f)
{
	return __atomic_load_n(&f->hurry, __ATOMIC_RELAXED);
}

void
feed_fault(struct feed *f, const struct err *why)
{
	pthread_mutex_lock(&f->lock);
	if (!why) {
		err_clear(&f->fault);
	} else if (!f->fault.code) {
		f->fault = *why;
	}
	wake_all(f);
	pthread_mutex_unlock(&f->lock);
}

void
feed_get_stats(struct feed *f, struct feed_stats *s)
{
	pthread_mutex_lock(&f->lock);
	*s = (struct feed_stats){ .acked_bytes = f->acked_bytes,
				  .puts = f->puts,
				  .waits = f->waits,
				  .queued = f->queued,
				  .under_way = f->under_way };
	for (unsigned i = 0; i < FEED_STREAMS_MAX; i++) {
		s->streams += f->parts[i].attached;
	}
	pthread_mutex_unlock(&f->lock);
}
