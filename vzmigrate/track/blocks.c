/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blocks: an array of runs of 16 blocks (1 MiB of a file), sorted by number.
 */
#include "track/blocks.h"

#include <stdlib.h>
#include <string.h>

#define RUN 16

struct run {
	uint64_t no; /* of the run: block number / RUN */
	struct digest d[RUN];
};

struct blocks {
	struct run *v; /* owned */
	size_t n, cap;
};

static const struct digest none;

struct blocks *
blocks_new(struct err *e)
{
	struct blocks *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
	}
	return t;
}

void
blocks_free(struct blocks *t)
{
	if (t) {
		free(t->v);
		free(t);
	}
}

/* The first run whose number is not below `no`. */
static size_t
find(const struct blocks *t, uint64_t no)
{
	size_t lo = 0, hi = t->n;

	/* Mostly it is the last one, or comes after it. */
	if (hi && t->v[hi - 1].no <= no) {
		return t->v[hi - 1].no == no ? hi - 1 : hi;
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->v[mid].no < no) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

static int
insert(struct blocks *t, size_t at, uint64_t no, struct err *e)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap + t->cap / 2 + 1 : 4;
		struct run *v = realloc(t->v, cap * sizeof(*v));

		if (!v) {
			return err_nomem(e);
		}
		t->v = v;
		t->cap = cap;
	}
	memmove(t->v + at + 1, t->v + at, (t->n - at) * sizeof(*t->v));
	memset(t->v + at, 0, sizeof(*t->v));
	t->v[at].no = no;
	t->n++;
	return 0;
}

int
blocks_put(struct blocks *t, uint64_t no, const struct digest *d, struct err *e)
{
	size_t at = find(t, no / RUN);

	if (at == t->n || t->v[at].no != no / RUN) {
		if (digest_eq(d, &none)) {
			return 0;
		}
		if (insert(t, at, no / RUN, e) < 0) {
			return E_NOMEM;
		}
	}
	t->v[at].d[no % RUN] = *d;
	return 0;
}

struct digest
blocks_get(const struct blocks *t, uint64_t no)
{
	size_t at;

	if (!t) {
		return none;
	}
	at = find(t, no / RUN);
	return at < t->n && t->v[at].no == no / RUN ? t->v[at].d[no % RUN]
						    : none;
}

bool
blocks_next(const struct blocks *t, uint64_t from, uint64_t *no)
{
	for (size_t at = t ? find(t, from / RUN) : 0; t && at < t->n; at++) {
		for (size_t i = 0; i < RUN; i++) {
			uint64_t b = t->v[at].no * RUN + i;

			if (b >= from && !digest_eq(&t->v[at].d[i], &none)) {
				*no = b;
				return true;
			}
		}
	}
	return false;
}

struct digest
blocks_sum(const struct blocks *t)
{
	struct digest sum = { 0 };

	for (size_t at = 0; at < t->n; at++) {
		for (size_t i = 0; i < RUN; i++) {
			digest_sum(&sum, &t->v[at].d[i]);
		}
	}
	return sum;
}

int
blocks_join(struct blocks *t, const struct blocks *from, struct err *e)
{
	for (size_t at = 0; at < from->n; at++) {
		for (size_t i = 0; i < RUN; i++) {
			int rc = blocks_put(t, from->v[at].no * RUN + i,
					    &from->v[at].d[i], e);

			if (rc < 0) {
				return rc;
			}
		}
	}
	return 0;
}

uint64_t
blocks_bytes(const struct blocks *t)
{
	return sizeof(*t) + t->cap * sizeof(*t->v);
}
