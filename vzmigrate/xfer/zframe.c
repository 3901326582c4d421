/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zframe: compresses in place by exchanging the frame's buffer for a spare
 * one of the same size, so the pool's count of buffers stays what it is.
 * Decompresses into a buffer of its own: the declared size is checked before
 * a byte of it is written, so a bomb costs nothing. State: one struct for each
 * thread, no locks.
 */
#include "xfer/zframe.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "wire/tree.h"

/* 2^18 bytes: nearly all of a frame. A larger window only costs memory. */
#define WINDOW_LOG 18

struct zpack {
	ZSTD_CCtx *c;
	int level;	/* that `c` is set to; 0: none */
	uint8_t *spare; /* of the size of a pooled buffer */
};

struct zpack *
zpack_new(struct err *e)
{
	struct zpack *z = calloc(1, sizeof(*z));

	if (z) {
		z->c = ZSTD_createCCtx();
		z->spare = malloc(FRAME_HEADER + POOL_ROOM);
	}
	if (!z || !z->c || !z->spare) {
		zpack_free(z);
		err_nomem(e);
		return NULL;
	}
	return z;
}

void
zpack_free(struct zpack *z)
{
	if (z) {
		ZSTD_freeCCtx(z->c);
		free(z->spare);
		free(z);
	}
}

static uint32_t
get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

static int
set_level(struct zpack *z, int level)
{
	if (z->level == level) {
		return 1;
	}
	z->level = 0;
	/* What did not fit has left it in the middle of a frame, where it takes
	 * no window. */
	ZSTD_CCtx_reset(z->c, ZSTD_reset_session_only);
	if (ZSTD_isError(ZSTD_CCtx_setParameter(z->c, ZSTD_c_compressionLevel,
						level)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(z->c, ZSTD_c_windowLog,
						WINDOW_LOG))) {
		return 0;
	}
	z->level = level;
	return 1;
}

/* What is compressed of a frame: `head` bytes in front and `tail` behind stay.
 */
struct parts {
	size_t head, body, tail;
};

static int
take_apart(const struct pool_frame *f, const uint8_t *p, struct parts *t)
{
	if (f->type == FRAME_CHUNK && f->len > TREE_CHUNK_HEAD) {
		*t = (struct parts){ TREE_CHUNK_HEAD, f->len - TREE_CHUNK_HEAD,
				     0 };
		return 1;
	}
	if (f->type == FRAME_BATCH && f->len > 4) {
		*t = (struct parts){ 4, get_u32(p), 0 };
		t->tail = f->len - 4 - t->body;
		return t->body > 0;
	}
	return 0;
}

int
zpack_frame(struct zpack *z, struct pool_frame *f, int level, uint32_t most)
{
	uint8_t *from = pool_payload(f), *to = z->spare + FRAME_HEADER;
	struct parts t;
	size_t n;

	if (!f->pool || f->flags || !take_apart(f, from, &t) ||
	    t.body > ZFRAME_MAX || most > f->len || most <= t.head + t.tail ||
	    !set_level(z, level)) {
		return 0;
	}
	/* Ends early, as an error, where it does not fit. */
	n = ZSTD_compress2(z->c, to + t.head, most - t.head - t.tail,
			   from + t.head, t.body);
	if (ZSTD_isError(n)) {
		return 0;
	}
	memcpy(to, from, t.head);
	if (f->type == FRAME_BATCH) {
		tree_set_u32(to, (uint32_t)n);
	}
	memcpy(to + t.head + n, from + t.head + t.body, t.tail);
	z->spare = f->bytes;
	f->bytes = to - FRAME_HEADER;
	f->len = (uint32_t)(t.head + n + t.tail);
	f->flags |= FRAME_F_ZSTD;
	return 1;
}

/* ---- the other side ---- */

struct zunpack {
	ZSTD_DCtx *d;
	uint8_t out[ZFRAME_MAX];
};

struct zunpack *
zunpack_new(struct err *e)
{
	struct zunpack *z = malloc(sizeof(*z));

	if (z) {
		z->d = ZSTD_createDCtx();
	}
	if (!z || !z->d) {
		free(z);
		err_nomem(e);
		return NULL;
	}
	return z;
}

void
zunpack_free(struct zunpack *z)
{
	if (z) {
		ZSTD_freeDCtx(z->d);
		free(z);
	}
}

int
zunpack_bytes(struct zunpack *z, const uint8_t *p, size_t len,
	      const uint8_t **out, size_t *out_len, struct err *e)
{
	unsigned long long size = ZSTD_getFrameContentSize(p, len);
	size_t n;

	if (size == ZSTD_CONTENTSIZE_ERROR ||
	    size == ZSTD_CONTENTSIZE_UNKNOWN || size == 0) {
		return err_set(e, E_PROTOCOL,
			       "compressed content without its size");
	}
	if (size > ZFRAME_MAX) {
		return err_set(e, E_PROTOCOL,
			       "compressed content of %llu bytes, limit %u",
			       size, ZFRAME_MAX);
	}
	/* One frame and nothing behind it. */
	n = ZSTD_findFrameCompressedSize(p, len);
	if (ZSTD_isError(n) || n != len) {
		return err_set(e, E_PROTOCOL, "malformed compressed content");
	}
	n = ZSTD_decompressDCtx(z->d, z->out, (size_t)size, p, len);
	if (ZSTD_isError(n) || n != size) {
		return err_set(e, E_PROTOCOL,
			       "compressed content cannot be read: %s",
			       ZSTD_isError(n) ? ZSTD_getErrorName(n)
					       : "not its size");
	}
	*out = z->out;
	*out_len = n;
	return 0;
}
