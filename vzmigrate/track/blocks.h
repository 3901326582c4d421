/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blocks: the digests of a large file's blocks, as the destination holds them.
 * A block that is all hole has none (zero). Memory follows the data, not the
 * size. Readers may share a table that nobody changes.
 */
#ifndef TRACK_BLOCKS_H
#define TRACK_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"

struct blocks;

/* An empty table; NULL with E_NOMEM. */
struct blocks *blocks_new(struct err *e);
/* NULL is allowed. */
void blocks_free(struct blocks *t);

/* Set block number `no`; zero takes it away. Fast in rising order. 0 or
 * E_NOMEM. */
int blocks_put(struct blocks *t, uint64_t no, const struct digest *d,
	       struct err *e);

/* Zero where there is none; `t` may be NULL, which has none. */
struct digest blocks_get(const struct blocks *t, uint64_t no);

/* The first block at or after `from` that has a digest. */
bool blocks_next(const struct blocks *t, uint64_t from, uint64_t *no);

/* The sum of all: the content's digest. */
struct digest blocks_sum(const struct blocks *t);

/* Add all of `from`, whose blocks come after those of `t`. 0 or E_NOMEM. */
int blocks_join(struct blocks *t, const struct blocks *from, struct err *e);

/* Bytes of memory. */
uint64_t blocks_bytes(const struct blocks *t);

#endif
