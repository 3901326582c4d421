/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * compress: the sender's compression: a compressor for each sending thread,
 * what is known to be incompressible, and the tuner with its measurements. It
 * knows no link; send_ship joins the two. One for a run, used over all its
 * connections.
 */
#ifndef XFER_COMPRESS_H
#define XFER_COMPRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "xfer/pool.h"

struct compress;

#define COMPRESS_AUTO (-1) /* as the link and the processors allow */
#define COMPRESS_OFF 0
#define COMPRESS_DEFAULT 3 /* of --compress without a level */
#define COMPRESS_LANES 8   /* sending threads at most */

/* `level`: COMPRESS_AUTO, COMPRESS_OFF, or 1 to ZFRAME_LEVEL_MAX. NULL with
 * E_NOMEM. compress_free(NULL) is allowed. */
struct compress *compress_new(int level, struct err *e);
void compress_free(struct compress *c);

/* Whether it may ever compress: then the agent is told so in HELLO. */
bool compress_wanted(const struct compress *c);

/* Compress the frame where that is of use now. `lane` below COMPRESS_LANES is
 * the calling thread's own number. */
void compress_pack(struct compress *c, unsigned lane, struct pool_frame *f);

/* The lane begins (`on`), ends to wait for the link. `now_us` is
 * compress_now. */
void compress_wait(struct compress *c, unsigned lane, bool on, int64_t now_us);

/* A frame with `raw` bytes before compression and `wire` after was given to
 * the link. True when it is time for compress_tick. */
bool compress_sent(struct compress *c, unsigned lane, uint32_t raw,
		   uint32_t wire, int64_t now_us);

/* Let the tuner see the slice that ends now; `in_flight`: content frames that
 * are not acknowledged (link_in_flight). */
void compress_tick(struct compress *c, uint64_t in_flight, int64_t now_us);

/* Microseconds of CLOCK_MONOTONIC. */
int64_t compress_now(void);

/* Sums since compress_new. Any thread. */
struct compress_totals {
	uint64_t frames; /* given to the link */
	uint64_t packed; /* of them compressed */
	uint64_t raw;	 /* bytes of frames before compression */
	uint64_t wire;	 /* and after, with their headers */
	int level;	 /* at work now; 0: none */
};
void compress_get_totals(const struct compress *c, struct compress_totals *t);

#endif
