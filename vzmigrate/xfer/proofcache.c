/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proofcache: lanes of items, then one table of them with linear probing, four
 * fifths full. Inode numbers are mixed with a random odd multiplier.
 */
#include "xfer/proofcache.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "fs/meta.h"

#define LANE_MAX ((size_t)64 << 30)
#define YOUNG_NS 100000000 /* far more than a tick of the kernel's clock */

struct item {
	uint64_t ino;
	int64_t ctime_ns;
	struct digest d;
};

struct proofcache {
	int64_t begun_ns; /* wall clock: as ctimes are */
	struct buf lane[PROOFCACHE_LANES];
	struct item *slots; /* ino 0: free */
	size_t cap;
	uint64_t mult;
};

struct proofcache *
proofcache_new(struct err *e)
{
	struct proofcache *c = calloc(1, sizeof(*c));
	struct timespec t;

	if (!c) {
		err_nomem(e);
		return NULL;
	}
	clock_gettime(CLOCK_REALTIME, &t);
	c->begun_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	for (unsigned i = 0; i < PROOFCACHE_LANES; i++) {
		buf_init(&c->lane[i], LANE_MAX);
	}
	if (digest_random(&c->mult, sizeof(c->mult), e) < 0) {
		proofcache_free(c);
		return NULL;
	}
	c->mult |= 1;
	return c;
}

void
proofcache_free(struct proofcache *c)
{
	if (!c) {
		return;
	}
	for (unsigned i = 0; i < PROOFCACHE_LANES; i++) {
		buf_fini(&c->lane[i]);
	}
	free(c->slots);
	free(c);
}

int
proofcache_note(struct proofcache *c, unsigned lane, const struct statx *stx,
		const struct digest *d, struct err *e)
{
	struct item it = { stx->stx_ino, meta_ctime(stx), *d };

	if (meta_ctime_latest(stx) > c->begun_ns - YOUNG_NS) {
		return 0;
	}
	return buf_append(&c->lane[lane], &it, sizeof(it), e);
}

/* The slot of `ino`, or the free one where it belongs. */
static struct item *
find(const struct proofcache *c, uint64_t ino)
{
	uint64_t h = ino * c->mult >> 32;
	size_t i = (size_t)(h * c->cap >> 32);

	while (c->slots[i].ino && c->slots[i].ino != ino) {
		i = i + 1 < c->cap ? i + 1 : 0;
	}
	return &c->slots[i];
}

int
proofcache_seal(struct proofcache *c, struct err *e)
{
	size_t n = 0, cap;

	for (unsigned i = 0; i < PROOFCACHE_LANES; i++) {
		n += c->lane[i].len / sizeof(struct item);
	}
	cap = n + n / 4 + 16;
	c->slots = calloc(cap, sizeof(*c->slots));
	if (!c->slots) {
		return err_nomem(e);
	}
	c->cap = cap;
	for (unsigned i = 0; i < PROOFCACHE_LANES; i++) {
		const struct item *it = (const struct item *)c->lane[i].data;

		for (n = c->lane[i].len / sizeof(*it); n-- > 0; it++) {
			*find(c, it->ino) = *it;
		}
		buf_fini(&c->lane[i]);
		buf_init(&c->lane[i], LANE_MAX);
	}
	return 0;
}

bool
proofcache_get(const struct proofcache *c, const struct statx *stx,
	       struct digest *d)
{
	const struct item *it = c->cap ? find(c, stx->stx_ino) : NULL;

	if (!it || it->ino != stx->stx_ino || it->ctime_ns != meta_ctime(stx)) {
		return false;
	}
	*d = it->d;
	return true;
}
