/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * limit: a token bucket whose content may go below zero. State: one struct
 * under its lock; input: bytes and times; output: waits.
 */
#include "xfer/limit.h"

#include <pthread.h>
#include <stdlib.h>

/* What an idle connection saves up: enough to ride over a busy host's
 * scheduling, too little to be seen as a burst. */
#define SAVE_MS 50
#define WAIT_MAX_MS 1000

struct limit {
	pthread_mutex_t lock;
	uint64_t rate; /* bytes per second; 0: none */
	bool lifted;
	int64_t left;  /* thousandths of bytes that may go; below 0: owed */
	int64_t at_ms; /* when `left` was true */
	bool begun;    /* at_ms is set */
};

struct limit *
limit_new(uint64_t rate, struct err *e)
{
	struct limit *l = calloc(1, sizeof(*l));

	if (!l) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&l->lock, NULL);
	limit_set(l, rate);
	return l;
}

void
limit_free(struct limit *l)
{
	if (l) {
		pthread_mutex_destroy(&l->lock);
		free(l);
	}
}

void
limit_set(struct limit *l, uint64_t rate)
{
	/* So that a thousandfold fits. */
	if (rate > INT64_MAX / 1000000) {
		rate = 0;
	}
	pthread_mutex_lock(&l->lock);
	__atomic_store_n(&l->rate, rate, __ATOMIC_RELAXED);
	/* A debt of the old rate would hold up a higher one for long. */
	if (l->left < -(int64_t)rate * 1000) {
		l->left = -(int64_t)rate * 1000;
	}
	pthread_mutex_unlock(&l->lock);
}

uint64_t
limit_rate(const struct limit *l)
{
	return __atomic_load_n(&l->rate, __ATOMIC_RELAXED);
}

void
limit_lift(struct limit *l, bool on)
{
	pthread_mutex_lock(&l->lock);
	l->lifted = on;
	pthread_mutex_unlock(&l->lock);
}

/* Fill up for the time that passed. */
static void
fill(struct limit *l, int64_t now_ms)
{
	int64_t most = (int64_t)l->rate * SAVE_MS;
	int64_t ms = l->begun ? now_ms - l->at_ms : SAVE_MS;

	l->begun = true;
	l->at_ms = now_ms;
	if (ms <= 0) {
		return;
	}
	/* Nobody owes more than an hour's worth: no overflow. */
	ms = ms > 3600000 ? 3600000 : ms;
	if (l->left >= most || (most - l->left) / (int64_t)l->rate <= ms) {
		l->left = most;
	} else {
		l->left += (int64_t)l->rate * ms;
	}
}

int64_t
limit_take(struct limit *l, int64_t now_ms, size_t n)
{
	int64_t wait = 0;

	if (!l) {
		return 0;
	}
	pthread_mutex_lock(&l->lock);
	if (l->rate && !l->lifted) {
		fill(l, now_ms);
		if (l->left > 0) {
			l->left -= (int64_t)n * 1000;
		} else {
			wait = -l->left / (int64_t)l->rate + 1;
			wait = wait > WAIT_MAX_MS ? WAIT_MAX_MS : wait;
		}
	} else {
		/* Afterwards the bucket begins anew. */
		l->begun = false;
		l->left = 0;
	}
	pthread_mutex_unlock(&l->lock);
	return wait;
}
