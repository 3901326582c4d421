/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sstream: the agent's end of one stream. Whoever owns it reads from it, in
 * one thread; a thread of its own writes replies, acknowledgements, logs and
 * keepalives.
 */
#ifndef XFER_SSTREAM_H
#define XFER_SSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "xfer/pool.h"

struct sstream;

/* A stream over two descriptors (may be the same), borrowed until free; they
 * are made non-blocking. `number` 0 is the control stream. Starts nothing.
 * NULL with an error. */
struct sstream *sstream_new(int in, int out, uint32_t number, struct err *e);

/* Nothing may be under way. The writer must have been stopped. NULL is
 * allowed. */
void sstream_free(struct sstream *s);

uint32_t sstream_number(const struct sstream *s);

/* Time without a frame after which the writer sends a KEEPALIVE; after
 * LINK_DEAD_FACTOR times that of silence the peer is given up. Any thread. */
void sstream_set_keepalive(struct sstream *s, uint32_t ms);

/* ---- reading; one thread ---- */

/*
 * Read exactly `len` bytes. E_CLOSED at the end of the stream, E_TIMEOUT,
 * E_CANCELLED once it is fenced, E_SYSTEM. More than that is read from the
 * descriptor only after sstream_read_ahead. Blocks.
 */
int sstream_read(struct sstream *s, void *to, size_t len, struct err *e);
void sstream_read_ahead(struct sstream *s);

/* Make the running sstream_read and all later ones fail. Any thread. */
void sstream_fence(struct sstream *s);

/* ---- writing; any thread ---- */

/* Write at once, before the writer is started. False: the peer is gone. */
bool sstream_write(struct sstream *s, const void *p, size_t len);

/* Start the writer, and end it when all that was queued is written, or cannot
 * be. */
int sstream_start(struct sstream *s, struct err *e);
void sstream_stop(struct sstream *s);

/* Queue a frame; taken over. */
void sstream_queue(struct sstream *s, struct pool_frame *f);
/* Bytes queued. */
size_t sstream_queued(struct sstream *s);
/* Whether writing failed. */
bool sstream_gone(struct sstream *s);

/* ---- credit; any thread ---- */

/* A content frame was read whole. E_PROTOCOL where there was no credit. */
int sstream_arrived(struct sstream *s, struct err *e);
/* One of them is finished with, which is told to the client. */
void sstream_done(struct sstream *s);
/* Frames that were read whole, and of those the ones finished with. */
uint64_t sstream_frames(struct sstream *s, uint64_t *done);
/* The stream's reader has ended for good. From here on `heir` acknowledges
 * its frames, beginning with those behind the first `acked`, of which the
 * client knows. */
void sstream_inherit(struct sstream *s, struct sstream *heir, uint64_t acked);

#endif
