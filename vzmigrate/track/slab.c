/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slab: chunks of objects, found through one array of pointers that is
 * reserved whole (untouched pages of it cost nothing), so that nothing is
 * moved while others look at it.
 */
#include "track/slab.h"

#include <stdlib.h>
#include <string.h>

#define CHUNKS_MAX (1u << 21)
#define NUMBERS_MAX (1u << 31)

int
slab_init(struct slab *s, size_t size, unsigned shift, struct err *e)
{
	memset(s, 0, sizeof(*s));
	s->size = size;
	s->shift = shift;
	s->chunks = 1;
	s->chunk = calloc(CHUNKS_MAX, sizeof(*s->chunk));
	return s->chunk ? 0 : err_nomem(e);
}

void
slab_fini(struct slab *s)
{
	for (uint32_t i = 1; s->chunk && i < s->chunks; i++) {
		free(s->chunk[i]);
	}
	free(s->chunk);
	s->chunk = NULL;
}

static int
new_chunk(struct slab *s, unsigned lane, struct err *e)
{
	uint32_t no = __atomic_fetch_add(&s->chunks, 1, __ATOMIC_RELAXED);

	if (no >= CHUNKS_MAX || no >= NUMBERS_MAX >> s->shift) {
		__atomic_fetch_sub(&s->chunks, 1, __ATOMIC_RELAXED);
		return err_set(e, E_LIMIT, "too many entries to remember");
	}
	s->chunk[no] = malloc(s->size << s->shift);
	if (!s->chunk[no]) {
		return err_nomem(e);
	}
	s->lane[lane].next = no << s->shift;
	s->lane[lane].end = (no + 1) << s->shift;
	return 0;
}

void *
slab_take(struct slab *s, unsigned lane, uint32_t *no, struct err *e)
{
	uint32_t got = s->lane[lane].freed;
	void *p;

	if (got) {
		p = slab_at(s, got);
		memcpy(&s->lane[lane].freed, p, sizeof(got));
	} else {
		if (s->lane[lane].next == s->lane[lane].end &&
		    new_chunk(s, lane, e) < 0) {
			return NULL;
		}
		got = s->lane[lane].next++;
		p = slab_at(s, got);
	}
	s->lane[lane].live++;
	memset(p, 0, s->size);
	*no = got;
	return p;
}

void
slab_give(struct slab *s, unsigned lane, uint32_t no)
{
	memcpy(slab_at(s, no), &s->lane[lane].freed, sizeof(no));
	s->lane[lane].freed = no;
	s->lane[lane].live--;
}

uint64_t
slab_count(const struct slab *s)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < SLAB_LANES; i++) {
		n += s->lane[i].live;
	}
	return n;
}

uint64_t
slab_bytes(const struct slab *s)
{
	return (uint64_t)(s->chunks - 1) * (s->size << s->shift) +
	       s->chunks * sizeof(*s->chunk);
}
