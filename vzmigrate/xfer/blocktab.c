/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blocktab: leaves of a few neighbouring blocks, found by open addressing
 * with linear probing. Where data lies in a file is the tenant's choice, so
 * numbers are mixed with a random odd multiplier.
 */
#include "xfer/blocktab.h"

#include <stdlib.h>
#include <string.h>

#define LEAF 16 /* blocks */
#define CAP_FIRST 4

struct leaf {
	uint64_t number; /* of its first block / LEAF */
	struct digest d[LEAF];
};

struct blocktab {
	struct leaf **slots; /* NULL: free */
	size_t cap;	     /* power of two */
	size_t count;
	uint64_t mult; /* random, odd */
};

struct blocktab *
blocktab_new(struct err *e)
{
	struct blocktab *t = calloc(1, sizeof(*t));

	if (t) {
		t->cap = CAP_FIRST;
		t->slots = calloc(t->cap, sizeof(*t->slots));
	}
	if (!t || !t->slots) {
		free(t);
		err_nomem(e);
		return NULL;
	}
	if (digest_random(&t->mult, sizeof(t->mult), e) < 0) {
		blocktab_free(t);
		return NULL;
	}
	t->mult |= 1;
	return t;
}

void
blocktab_free(struct blocktab *t)
{
	if (!t) {
		return;
	}
	for (size_t i = 0; i < t->cap; i++) {
		free(t->slots[i]);
	}
	free(t->slots);
	free(t);
}

/* The slot of a leaf, or the free one where it belongs. */
static struct leaf **
find(const struct blocktab *t, uint64_t number)
{
	uint64_t h = number * t->mult;
	size_t i = (size_t)(h ^ (h >> 32)) & (t->cap - 1);

	while (t->slots[i] && t->slots[i]->number != number) {
		i = (i + 1) & (t->cap - 1);
	}
	return &t->slots[i];
}

static int
grow(struct blocktab *t, struct err *e)
{
	struct leaf **old = t->slots;
	size_t n = t->cap;

	t->slots = calloc(2 * n, sizeof(struct leaf *));
	if (!t->slots) {
		t->slots = old;
		return err_nomem(e);
	}
	t->cap = 2 * n;
	for (size_t i = 0; i < n; i++) {
		if (old[i]) {
			*find(t, old[i]->number) = old[i];
		}
	}
	free(old);
	return 0;
}

/* The leaf, made where there is none. NULL: E_NOMEM. */
static struct leaf *
need(struct blocktab *t, uint64_t number, struct err *e)
{
	struct leaf **at = find(t, number);

	if (*at) {
		return *at;
	}
	if (t->count + 1 > t->cap / 4 * 3) {
		if (grow(t, e) < 0) {
			return NULL;
		}
		at = find(t, number);
	}
	*at = calloc(1, sizeof(**at));
	if (!*at) {
		err_nomem(e);
		return NULL;
	}
	(*at)->number = number;
	t->count++;
	return *at;
}

int
blocktab_put(struct blocktab *t, uint64_t block, const struct digest *d,
	     bool whole, struct digest *sum, struct err *e)
{
	struct leaf *l = need(t, block / LEAF, e);
	struct digest *at;

	if (!l) {
		return E_NOMEM;
	}
	at = &l->d[block % LEAF];
	if (whole) {
		digest_unsum(sum, at);
		*at = *d;
	} else {
		digest_sum(at, d);
	}
	digest_sum(sum, d);
	return 0;
}

static void
drop_in(struct leaf *l, uint64_t from, uint64_t to, struct digest *sum)
{
	uint64_t first = l->number * LEAF;

	for (unsigned i = 0; i < LEAF; i++) {
		if (first + i >= from && first + i < to) {
			digest_unsum(sum, &l->d[i]);
			memset(&l->d[i], 0, sizeof(l->d[i]));
		}
	}
}

void
blocktab_drop(struct blocktab *t, uint64_t from, uint64_t to,
	      struct digest *sum)
{
	/* By numbers where they are few, else by what there is. */
	if (from < to && (to - from) / LEAF < t->cap) {
		for (uint64_t n = from / LEAF; n <= (to - 1) / LEAF; n++) {
			struct leaf *l = *find(t, n);

			if (l) {
				drop_in(l, from, to, sum);
			}
		}
		return;
	}
	for (size_t i = 0; i < t->cap; i++) {
		if (t->slots[i]) {
			drop_in(t->slots[i], from, to, sum);
		}
	}
}
