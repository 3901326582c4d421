/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slab: very many objects of one size, named by 32-bit numbers so that a table
 * of them is small. They never move. Threads take objects in lanes of their
 * own, without a lock; what they find out about an object's number otherwise
 * (by a lock, a thread's end) orders its content too.
 */
#ifndef TRACK_SLAB_H
#define TRACK_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SLAB_LANES 16

struct slab {
	size_t size;	 /* bytes of an object */
	unsigned shift;	 /* log2 of the objects in a chunk */
	uint32_t chunks; /* in use, the reserved one too (atomic) */
	void **chunk;	 /* owned; the first is for number 0 and never there */
	struct {
		uint32_t next, end; /* the lane's chunk */
		uint32_t freed;	    /* 0, or a list through the objects */
		uint32_t live;	    /* taken less given back here (wraps) */
	} lane[SLAB_LANES];
};

/* Objects of `size` bytes (4 at least), 2^shift in a chunk. 0 or E_NOMEM. */
int slab_init(struct slab *s, size_t size, unsigned shift, struct err *e);
/* Also after a failed slab_init. */
void slab_fini(struct slab *s);

/* A new object, zeroed; its number, never 0, in `*no`. Lanes are used by one
 * thread at a time. NULL with E_NOMEM or E_LIMIT. */
void *slab_take(struct slab *s, unsigned lane, uint32_t *no, struct err *e);
/* Give one back, in any lane. */
void slab_give(struct slab *s, unsigned lane, uint32_t no);

static inline void *
slab_at(const struct slab *s, uint32_t no)
{
	return (char *)s->chunk[no >> s->shift] +
	       (size_t)(no & ((1u << s->shift) - 1)) * s->size;
}

/* Objects in use, and bytes of memory. No lane may be active. */
uint64_t slab_count(const struct slab *s);
uint64_t slab_bytes(const struct slab *s);

#endif
