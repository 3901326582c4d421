/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pool: a bounded set of frame buffers that are used over and over, so that
 * the data path neither allocates nor faults pages in per frame. Taking one
 * from an empty pool blocks: this is what bounds the pump's memory.
 */
#ifndef XFER_POOL_H
#define XFER_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/frame.h"

struct pool;

/* A buffer with room for a frame header and POOL_ROOM bytes of payload. */
#define POOL_ROOM (272u << 10)
struct pool_frame {
	struct pool *pool;	 /* where it goes back to; NULL: a large one */
	struct pool_frame *next; /* for queues */
	uint8_t type;		 /* enum frame_type */
	uint8_t flags;
	uint32_t len;	/* payload bytes in use */
	uint32_t room;	/* payload bytes there is room for */
	uint8_t *bytes; /* FRAME_HEADER bytes, then the payload */
	void *from;	/* the agent's: the stream it came on */
	uint32_t at;	/* the agent's: bytes of a batch that are done */
};

static inline uint8_t *
pool_payload(struct pool_frame *f)
{
	return f->bytes + FRAME_HEADER;
}

/* `count` buffers, allocated when first needed. NULL with E_NOMEM. */
struct pool *pool_new(size_t count, struct err *e);

/* Take a free buffer (len 0), waiting for one. NULL after pool_stop. */
struct pool_frame *pool_get(struct pool *p);
/* The same without waiting; NULL when none is free. */
struct pool_frame *pool_try_get(struct pool *p);

/* A buffer of its own for the rare frame that is larger than POOL_ROOM (an
 * inode with very many xattrs); pool_put frees it. NULL without memory. */
struct pool_frame *pool_large(uint32_t room);

/* Give it back. Any thread. NULL is allowed. */
void pool_put(struct pool_frame *f);

/* Wake all waiters of pool_get with NULL, now and later; pool_restart undoes
 * it. */
void pool_stop(struct pool *p);
void pool_restart(struct pool *p);

/* All buffers must be back. NULL is allowed. */
void pool_free(struct pool *p);

#endif
