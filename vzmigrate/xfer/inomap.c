/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inomap: open addressing with linear probing in an array of a power of two,
 * at most 7/8 full, under one mutex. Inode numbers come from a tenant's file
 * system, so they are mixed with a random odd multiplier.
 */
#include "xfer/inomap.h"

#include <pthread.h>
#include <stdlib.h>

#include "xfer/blocktab.h"

struct slot {
	uint64_t ino; /* 0: free */
	struct inomap_value v;
};

struct inomap {
	pthread_mutex_t lock;
	struct slot *slots;
	size_t cap; /* power of two */
	size_t count;
	uint64_t mult; /* random, odd */
};

struct inomap *
inomap_new(struct err *e)
{
	struct inomap *m = calloc(1, sizeof(*m));

	if (m) {
		m->cap = 1024;
		m->slots = calloc(m->cap, sizeof(*m->slots));
	}
	if (!m || !m->slots) {
		free(m);
		err_nomem(e);
		return NULL;
	}
	if (digest_random(&m->mult, sizeof(m->mult), e) < 0) {
		free(m->slots);
		free(m);
		return NULL;
	}
	m->mult |= 1;
	pthread_mutex_init(&m->lock, NULL);
	return m;
}

void
inomap_free(struct inomap *m)
{
	if (!m) {
		return;
	}
	for (size_t i = 0; i < m->cap; i++) {
		blocktab_free(m->slots[i].v.blocks);
	}
	pthread_mutex_destroy(&m->lock);
	free(m->slots);
	free(m);
}

/* The slot of `ino`, or the free one where it belongs. */
static struct slot *
find(struct slot *slots, size_t cap, uint64_t mult, uint64_t ino)
{
	uint64_t h = ino * mult;
	size_t i = (size_t)(h ^ (h >> 32)) & (cap - 1);

	while (slots[i].ino && slots[i].ino != ino) {
		i = (i + 1) & (cap - 1);
	}
	return &slots[i];
}

static int
grow(struct inomap *m, struct err *e)
{
	size_t cap = m->cap * 2;
	struct slot *slots = calloc(cap, sizeof(*slots));

	if (!slots) {
		return err_nomem(e);
	}
	for (size_t i = 0; i < m->cap; i++) {
		if (m->slots[i].ino) {
			*find(slots, cap, m->mult, m->slots[i].ino) =
				m->slots[i];
		}
	}
	free(m->slots);
	m->slots = slots;
	m->cap = cap;
	return 0;
}

/* Under the lock; `*at` is the free slot. */
static int
insert(struct inomap *m, struct slot *at, uint64_t ino,
       const struct inomap_value *v, struct err *e)
{
	if (m->count + 1 > m->cap / 8 * 7) {
		int rc = grow(m, e);

		if (rc < 0) {
			return rc;
		}
		at = find(m->slots, m->cap, m->mult, ino);
	}
	at->ino = ino;
	at->v = *v;
	m->count++;
	return 0;
}

int
inomap_add(struct inomap *m, uint64_t ino, const struct inomap_value *v,
	   struct inomap_value *old, struct err *e)
{
	struct slot *s;
	int rc;

	pthread_mutex_lock(&m->lock);
	s = find(m->slots, m->cap, m->mult, ino);
	if (s->ino) {
		if (old) {
			*old = s->v;
		}
		rc = err_set(e, E_EXISTS, "inode %llu is known already",
			     (unsigned long long)ino);
	} else {
		rc = insert(m, s, ino, v, e);
	}
	pthread_mutex_unlock(&m->lock);
	return rc;
}

int
inomap_put(struct inomap *m, uint64_t ino, const struct inomap_value *v,
	   struct err *e)
{
	struct slot *s;
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	s = find(m->slots, m->cap, m->mult, ino);
	if (s->ino) {
		blocktab_free(s->v.blocks);
		s->v = *v;
	} else {
		rc = insert(m, s, ino, v, e);
	}
	pthread_mutex_unlock(&m->lock);
	return rc;
}

bool
inomap_get(struct inomap *m, uint64_t ino, struct inomap_value *v)
{
	struct slot *s;
	bool found;

	pthread_mutex_lock(&m->lock);
	s = find(m->slots, m->cap, m->mult, ino);
	found = s->ino != 0;
	if (found) {
		*v = s->v;
	}
	pthread_mutex_unlock(&m->lock);
	return found;
}

bool
inomap_take(struct inomap *m, uint64_t ino, struct inomap_value *v)
{
	struct slot *s;
	bool found;

	pthread_mutex_lock(&m->lock);
	s = find(m->slots, m->cap, m->mult, ino);
	found = s->ino != 0;
	if (found) {
		*v = s->v;
		s->v.blocks = NULL;
	}
	pthread_mutex_unlock(&m->lock);
	return found;
}

size_t
inomap_count(struct inomap *m)
{
	size_t n;

	pthread_mutex_lock(&m->lock);
	n = m->count;
	pthread_mutex_unlock(&m->lock);
	return n;
}
