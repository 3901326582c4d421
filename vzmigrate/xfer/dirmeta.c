/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dirmeta: slabs of packed entries, and an array of them, which is all that
 * moves when it grows.
 */
#include "xfer/dirmeta.h"

#include <stdlib.h>
#include <string.h>

/* Entries: so many bytes that malloc takes them from the kernel, and gives them
 * back. */
#define SLAB 4096u

/* Of struct meta what a directory has; sorted by alignment. */
struct packed {
	int64_t atime_s, mtime_s;
	uint8_t *xattrs; /* owned */
	uint32_t xattrs_len;
	uint32_t atime_ns, mtime_ns;
	uint32_t uid, gid;
	uint32_t flags, projid;
	uint16_t perm;
	bool there;
};

struct dirmeta {
	struct packed **slab; /* NULL: none of its ids has any */
	size_t slabs;
	size_t count;
	uint32_t end;
};

struct dirmeta *
dirmeta_new(struct err *e)
{
	struct dirmeta *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
	}
	return t;
}

void
dirmeta_clear(struct dirmeta *t)
{
	for (size_t i = 0; i < t->slabs; i++) {
		for (size_t k = 0; t->slab[i] && k < SLAB; k++) {
			free(t->slab[i][k].xattrs);
		}
		free(t->slab[i]);
	}
	free(t->slab);
	*t = (struct dirmeta){ 0 };
}

void
dirmeta_free(struct dirmeta *t)
{
	if (t) {
		dirmeta_clear(t);
		free(t);
	}
}

static struct packed *
find(const struct dirmeta *t, uint32_t id)
{
	size_t i = id / SLAB;

	return i < t->slabs && t->slab[i] ? &t->slab[i][id % SLAB] : NULL;
}

/* The entry of `id`, made where there is none; NULL: no memory. */
static struct packed *
make(struct dirmeta *t, uint32_t id)
{
	size_t i = id / SLAB, n = t->slabs ? t->slabs : 4;

	while (n <= i) {
		n *= 2;
	}
	if (n > t->slabs) {
		struct packed **p = realloc(t->slab, n * sizeof(*p));

		if (!p) {
			return NULL;
		}
		memset(p + t->slabs, 0, (n - t->slabs) * sizeof(*p));
		t->slab = p;
		t->slabs = n;
	}
	if (!t->slab[i]) {
		t->slab[i] = calloc(SLAB, sizeof(**t->slab));
	}
	return find(t, id);
}

int
dirmeta_put(struct dirmeta *t, uint32_t id, const struct meta *m, struct err *e)
{
	struct packed *p = make(t, id);
	uint8_t *xattrs = NULL;

	if (p && p->there) {
		return err_set(e, E_EXISTS, "directory %u has metadata", id);
	}
	if (p && m->xattrs_len) {
		xattrs = malloc(m->xattrs_len);
	}
	if (!p || (m->xattrs_len && !xattrs)) {
		return err_nomem(e);
	}
	if (xattrs) {
		memcpy(xattrs, m->xattrs, m->xattrs_len);
	}
	*p = (struct packed){ .atime_s = m->atime.sec,
			      .mtime_s = m->mtime.sec,
			      .xattrs = xattrs,
			      .xattrs_len = (uint32_t)m->xattrs_len,
			      .atime_ns = m->atime.nsec,
			      .mtime_ns = m->mtime.nsec,
			      .uid = m->uid,
			      .gid = m->gid,
			      .flags = m->flags,
			      .projid = m->projid,
			      .perm = m->perm,
			      .there = true };
	t->count++;
	t->end = id >= t->end ? id + 1 : t->end;
	return 0;
}

bool
dirmeta_get(const struct dirmeta *t, uint32_t id, struct meta *m)
{
	const struct packed *p = find(t, id);

	if (!p || !p->there) {
		return false;
	}
	*m = (struct meta){ .type = FS_DIR,
			    .perm = p->perm,
			    .uid = p->uid,
			    .gid = p->gid,
			    .flags = p->flags,
			    .projid = p->projid,
			    .atime = { p->atime_s, p->atime_ns },
			    .mtime = { p->mtime_s, p->mtime_ns },
			    .xattrs = p->xattrs,
			    .xattrs_len = p->xattrs_len };
	return true;
}

bool
dirmeta_has(const struct dirmeta *t, uint32_t id)
{
	const struct packed *p = find(t, id);

	return p && p->there;
}

size_t
dirmeta_count(const struct dirmeta *t)
{
	return t->count;
}

uint32_t
dirmeta_end(const struct dirmeta *t)
{
	return t->end;
}
