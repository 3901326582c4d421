/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_dirs: id -> (parent, name, wire, sent) in a growing array, names in an
 * arena, under one mutex.
 */
#include "xfer/send_dirs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "wire/tree.h"

#define NAMES_MAX ((size_t)3 << 30)

struct dir {
	uint32_t parent;
	uint32_t name; /* offset in the arena: length byte, then the name */
	uint32_t wire; /* 0: none yet */
	bool sent;
};

struct send_dirs {
	pthread_mutex_t lock;
	struct dir *dirs;
	size_t cap;
	uint32_t wires; /* last id given on the wire */
	struct buf names;
};

struct send_dirs *
send_dirs_new(struct err *e)
{
	struct send_dirs *t = calloc(1, sizeof(*t));

	if (t) {
		t->cap = 256;
		t->dirs = calloc(t->cap, sizeof(*t->dirs));
	}
	if (!t || !t->dirs) {
		free(t);
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	buf_init(&t->names, NAMES_MAX);
	t->dirs[TREE_ROOT].sent = true; /* everybody knows the root */
	return t;
}

void
send_dirs_free(struct send_dirs *t)
{
	if (!t) {
		return;
	}
	pthread_mutex_destroy(&t->lock);
	buf_fini(&t->names);
	free(t->dirs);
	free(t);
}

static int
add_locked(struct send_dirs *t, uint32_t id, uint32_t parent, const char *name,
	   size_t name_len, struct err *e)
{
	uint8_t len = (uint8_t)name_len;
	size_t cap = t->cap, at = t->names.len;
	int rc;

	if (id > TREE_ID_MAX) {
		return err_set(e, E_LIMIT, "too many directories");
	}
	while (cap <= id) {
		cap *= 2;
	}
	if (cap > t->cap) {
		struct dir *d = realloc(t->dirs, cap * sizeof(*d));

		if (!d) {
			return err_nomem(e);
		}
		memset(d + t->cap, 0, (cap - t->cap) * sizeof(*d));
		t->dirs = d;
		t->cap = cap;
	}
	rc = buf_append(&t->names, &len, 1, e);
	if (rc == 0) {
		rc = buf_append(&t->names, name, name_len, e);
	}
	if (rc == 0) {
		t->dirs[id] = (struct dir){ parent, (uint32_t)at, 0, false };
	}
	return rc;
}

int
send_dirs_add(struct send_dirs *t, uint32_t id, uint32_t parent,
	      const char *name, size_t name_len, struct err *e)
{
	int rc;

	pthread_mutex_lock(&t->lock);
	rc = add_locked(t, id, parent, name, name_len, e);
	pthread_mutex_unlock(&t->lock);
	return rc;
}

static bool
has(const struct buf *list, uint32_t id)
{
	const uint32_t *v = (const uint32_t *)list->data;

	/* The latest is the likeliest. */
	for (size_t i = list->len / sizeof(*v); i-- > 0;) {
		if (v[i] == id) {
			return true;
		}
	}
	return false;
}

int
send_dirs_unsent(struct send_dirs *t, uint32_t id, const struct buf *having,
		 struct buf *chain, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	while (rc == 0 && !t->dirs[id].sent && !has(having, id)) {
		rc = buf_append(chain, &id, sizeof(id), e);
		id = t->dirs[id].parent;
	}
	/* From the top: a parent's id is smaller than its child's. */
	for (size_t i = chain->len / sizeof(id); rc == 0 && i-- > 0;) {
		memcpy(&id, chain->data + i * sizeof(id), sizeof(id));
		if (!t->dirs[id].wire) {
			t->dirs[id].wire = ++t->wires;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

uint32_t
send_dirs_wire(struct send_dirs *t, uint32_t id)
{
	uint32_t wire;

	pthread_mutex_lock(&t->lock);
	wire = t->dirs[id].wire;
	pthread_mutex_unlock(&t->lock);
	return wire;
}

void
send_dirs_get(struct send_dirs *t, uint32_t id, struct send_dirs_def *d)
{
	const struct dir *p;

	pthread_mutex_lock(&t->lock);
	p = &t->dirs[id];
	d->wire = p->wire;
	d->parent = t->dirs[p->parent].wire;
	d->name_len = t->names.data[p->name];
	memcpy(d->name, t->names.data + p->name + 1, d->name_len);
	pthread_mutex_unlock(&t->lock);
}

void
send_dirs_sent(struct send_dirs *t, const uint32_t *ids, size_t n)
{
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < n; i++) {
		t->dirs[ids[i]].sent = true;
	}
	pthread_mutex_unlock(&t->lock);
}
