/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zframe: a BATCH's body or a CHUNK's bytes as one zstd frame and back
 * (PROTOCOL.md, "Compression"). Contexts and buffers are made once and used
 * for every frame.
 */
#ifndef XFER_ZFRAME_H
#define XFER_ZFRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "xfer/pool.h"

/* Most bytes that a compressed frame may declare: what fits a pooled buffer.
 * Larger frames (an inode with very many xattrs) are sent as they are. */
#define ZFRAME_MAX POOL_ROOM
#define ZFRAME_LEVEL_MAX 19

/* One thread's compressor. */
struct zpack;

/* NULL with E_NOMEM. zpack_free(NULL) is allowed. */
struct zpack *zpack_new(struct err *e);
void zpack_free(struct zpack *z);

/*
 * Compress the content of `f` (BATCH or CHUNK, flags 0) at `level` (1 to
 * ZFRAME_LEVEL_MAX). 1: `f` is compressed now, with FRAME_F_ZSTD, and at most
 * `most` bytes long; 0: it would be longer, or is not one that can be
 * compressed, and is as it was. Never fails: without memory it is 0.
 */
int zpack_frame(struct zpack *z, struct pool_frame *f, int level,
		uint32_t most);

/* One thread's decompressor. */
struct zunpack;

/* NULL with E_NOMEM. zunpack_free(NULL) is allowed. */
struct zunpack *zunpack_new(struct err *e);
void zunpack_free(struct zunpack *z);

/*
 * Decompress `len` bytes at `p`, which must be exactly one zstd frame that
 * declares its size, 1 to ZFRAME_MAX bytes. `*out` is the buffer of `z` with
 * `*out_len` bytes, good until the next call. 0 or E_PROTOCOL.
 */
int zunpack_bytes(struct zunpack *z, const uint8_t *p, size_t len,
		  const uint8_t **out, size_t *out_len, struct err *e);

#endif
