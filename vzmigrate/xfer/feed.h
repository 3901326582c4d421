/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * feed: the content frames of one connection to an agent, on their way from
 * whoever composes them to the streams that carry them. One queue for all
 * streams, so that each takes what it can carry: a slow one takes less, a
 * stalled one nothing. Thread-safe.
 */
#ifndef XFER_FEED_H
#define XFER_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "xfer/pool.h"

struct feed;

/* Content frames that may be under way on one stream without an
 * acknowledgement: enough to fill OpenSSH's channel window six times over. */
#define FEED_WINDOW 48
/* The same over all streams; the agent has as many buffers, so its readers
 * never wait for its disk. */
#define FEED_MAX 96
/* Frames that wait for a stream to take them. More would only be memory. */
#define FEED_QUEUE 16
/* Streams at once, the control stream being number 0. Sixteen of them fill
 * 600 MB/s at a round trip of 40 ms; and each costs a process of sshd. */
#define FEED_STREAMS_MAX 16

/* Buffers of a connection: those under way, and some in the making: two for
 * each of 8 threads. */
#define FEED_POOL_FRAMES (FEED_MAX + 16)

/* NULL with E_NOMEM. `host` is for messages; borrowed. */
struct feed *feed_new(const char *host, struct err *e);
/* No stream may be attached any more. NULL is allowed. */
void feed_free(struct feed *f);

/* The buffers frames come from. */
struct pool *feed_pool(struct feed *f);

/* ---- whoever composes ---- */

/* Queue a frame. Takes it over, also on error. Blocks while there is no room;
 * E_TIMEOUT at `deadline` (io_deadline). E_CANCELLED; the connection's error,
 * or the FAULT that the agent sent. */
int feed_put(struct feed *f, struct pool_frame *fr, int64_t deadline,
	     struct err *e);

/*
 * Wait until no frame is queued and none is under way on any stream; without
 * `all` on any but the control stream (where a request that follows stays
 * behind them by itself). 0, E_TIMEOUT, E_CANCELLED, the connection's error.
 */
int feed_drain(struct feed *f, bool all, int64_t deadline, struct err *e);

/* ---- streams ---- */

/* Take part: returns a slot, 0 for the first; E_LIMIT. `wake` is called, from
 * any thread and under the feed's lock, when there is something to take. */
int feed_attach(struct feed *f, void (*wake)(void *arg), void *arg,
		struct err *e);
/* Nothing of it may be under way. */
void feed_detach(struct feed *f, int slot);

/* The next frame for that stream; it is under way from now on. NULL: there is
 * none, or no credit; the stream is woken when that changes. */
struct pool_frame *feed_take(struct feed *f, int slot);

/* `frames` of that stream are finished by the agent, of `bytes` in all. */
void feed_acked(struct feed *f, int slot, unsigned frames, uint64_t bytes);

/* A dead stream's frames that never came there, oldest first: to the front of
 * the queue. */
void feed_back(struct feed *f, int slot, struct pool_frame *list);
/* A dead stream's frames that came there and are not finished: the control
 * stream will acknowledge them. */
void feed_inherit(struct feed *f, int slot, unsigned frames);

/* Slots from `n` on take nothing more, until it is raised again. */
void feed_limit(struct feed *f, unsigned n);

/* ---- state ---- */

/* The connection is dead: everybody gets this error. The first counts. */
void feed_fail(struct feed *f, const struct err *why);
void feed_cancel(struct feed *f, bool on);
/* From now on no limit of speed holds: what is left is to be got rid of. */
void feed_hurry(struct feed *f);
bool feed_in_hurry(struct feed *f);
/* Nobody wants the content any more: what is queued, or comes back from a
 * stream that dies, is dropped. What is under way on a data stream may come
 * there still. */
void feed_discard(struct feed *f);
/* The agent could not write; the first counts. NULL: forget it. */
void feed_fault(struct feed *f, const struct err *why);

/* For those who decide on the number of streams. */
struct feed_stats {
	uint64_t acked_bytes; /* since the beginning */
	uint64_t puts;	      /* frames that were queued */
	uint64_t waits;	      /* of them, those that found no room at once */
	unsigned queued, under_way;
	unsigned streams; /* attached */
};
void feed_get_stats(struct feed *f, struct feed_stats *s);

#endif
