/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inomap: shards, each an array with open addressing and linear probing under
 * a mutex of its own. Each grows by a quarter when it is 7/8 full, so with a
 * million inodes little is empty, and little is there twice while one grows.
 * Inode numbers come from a tenant's file system, so they are mixed with a
 * random odd multiplier; the upper bits of the product choose the shard and
 * the place.
 */
#include "xfer/inomap.h"

#include <pthread.h>
#include <stdlib.h>

#include "xfer/blocktab.h"

#define SHARD_BITS 6
#define SHARDS (1u << SHARD_BITS)
#define CAP_FIRST 16

struct slot {
	uint64_t ino; /* 0: free */
	struct inomap_value v;
};

struct shard {
	pthread_mutex_t lock;
	struct slot *slots; /* owned; NULL while cap is 0 */
	size_t cap;
	size_t count;
};

struct inomap {
	uint64_t mult; /* random, odd */
	struct shard shard[SHARDS];
};

struct inomap *
inomap_new(struct err *e)
{
	struct inomap *m = calloc(1, sizeof(*m));

	if (!m) {
		err_nomem(e);
		return NULL;
	}
	if (digest_random(&m->mult, sizeof(m->mult), e) < 0) {
		free(m);
		return NULL;
	}
	m->mult |= 1;
	for (unsigned i = 0; i < SHARDS; i++) {
		pthread_mutex_init(&m->shard[i].lock, NULL);
	}
	return m;
}

void
inomap_free(struct inomap *m)
{
	if (!m) {
		return;
	}
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &m->shard[i];

		for (size_t k = 0; k < s->cap; k++) {
			blocktab_free(s->slots[k].v.blocks);
		}
		pthread_mutex_destroy(&s->lock);
		free(s->slots);
	}
	free(m);
}

/* The slot of `ino`, or the free one where it belongs: `slots` is never full.
 */
static struct slot *
find(struct slot *slots, size_t cap, uint64_t mult, uint64_t ino)
{
	uint64_t h = ino * mult << SHARD_BITS >> 32;
	size_t i = (size_t)(h * cap >> 32);

	while (slots[i].ino && slots[i].ino != ino) {
		i = i + 1 < cap ? i + 1 : 0;
	}
	return &slots[i];
}

/* The shard of `ino`, locked; `*at` is its slot or the free one, NULL where
 * there is none at all. */
static struct shard *
lock_shard(struct inomap *m, uint64_t ino, struct slot **at)
{
	struct shard *s = &m->shard[ino * m->mult >> (64 - SHARD_BITS)];

	pthread_mutex_lock(&s->lock);
	*at = s->cap ? find(s->slots, s->cap, m->mult, ino) : NULL;
	return s;
}

static int
grow(struct inomap *m, struct shard *s, struct err *e)
{
	size_t cap = s->cap ? s->cap + s->cap / 4 : CAP_FIRST;
	struct slot *slots = calloc(cap, sizeof(*slots));

	if (!slots) {
		return err_nomem(e);
	}
	for (size_t i = 0; i < s->cap; i++) {
		if (s->slots[i].ino) {
			*find(slots, cap, m->mult, s->slots[i].ino) =
				s->slots[i];
		}
	}
	free(s->slots);
	s->slots = slots;
	s->cap = cap;
	return 0;
}

/* Under the lock; `at`: the free slot, or NULL. */
static int
insert(struct inomap *m, struct shard *s, struct slot *at, uint64_t ino,
       const struct inomap_value *v, struct err *e)
{
	if (s->count + 1 > s->cap / 8 * 7) {
		int rc = grow(m, s, e);

		if (rc < 0) {
			return rc;
		}
		at = find(s->slots, s->cap, m->mult, ino);
	}
	at->ino = ino;
	at->v = *v;
	s->count++;
	return 0;
}

int
inomap_add(struct inomap *m, uint64_t ino, const struct inomap_value *v,
	   struct inomap_value *old, struct err *e)
{
	struct slot *at;
	struct shard *s = lock_shard(m, ino, &at);
	int rc;

	if (at && at->ino) {
		if (old) {
			*old = at->v;
		}
		rc = err_set(e, E_EXISTS, "inode %llu is known already",
			     (unsigned long long)ino);
	} else {
		rc = insert(m, s, at, ino, v, e);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int
inomap_put(struct inomap *m, uint64_t ino, const struct inomap_value *v,
	   struct err *e)
{
	struct slot *at;
	struct shard *s = lock_shard(m, ino, &at);
	int rc = 0;

	if (at && at->ino) {
		blocktab_free(at->v.blocks);
		at->v = *v;
	} else {
		rc = insert(m, s, at, ino, v, e);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

bool
inomap_get(struct inomap *m, uint64_t ino, struct inomap_value *v)
{
	struct slot *at;
	struct shard *s = lock_shard(m, ino, &at);
	bool found = at && at->ino;

	if (found) {
		*v = at->v;
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

bool
inomap_take(struct inomap *m, uint64_t ino, struct inomap_value *v)
{
	struct slot *at;
	struct shard *s = lock_shard(m, ino, &at);
	bool found = at && at->ino;

	if (found) {
		*v = at->v;
		at->v.blocks = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

void
inomap_changed(struct inomap *m, uint64_t ino)
{
	struct slot *at;
	struct shard *s = lock_shard(m, ino, &at);

	if (at && at->ino) {
		at->v.plain = 0;
	}
	pthread_mutex_unlock(&s->lock);
}

size_t
inomap_count(struct inomap *m)
{
	size_t n = 0;

	for (unsigned i = 0; i < SHARDS; i++) {
		pthread_mutex_lock(&m->shard[i].lock);
		n += m->shard[i].count;
		pthread_mutex_unlock(&m->shard[i].lock);
	}
	return n;
}
