/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ledger: entries, directories, files and groups in slabs, names in an arena
 * of chunks, one open-addressed table of entry numbers for each directory.
 *
 * State: struct ledger. Tables belong to the thread that lists the directory;
 * the slabs have a lane for each thread.
 */
#include "track/ledger.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "track/slab.h"

#define NAMES_SHIFT 16 /* bytes in a chunk of names: 64 KiB */
#define PATH_MAX_BYTES (2u << 20)
/* A step of the wall clock that is more than reading two clocks one after
 * the other can make. */
#define CLOCK_SLACK_NS 5000000

_Static_assert(sizeof(struct ledger_entry) == 64, "a name costs a cache line");
_Static_assert(SLAB_LANES >= LEDGER_LANES, "lanes");

struct ledger {
	struct digest_key key;
	struct slab entries, dirs, files, groups, names;
	/* The lane's chunk of names, and where its next one goes. */
	struct {
		uint32_t chunk, used;
	} lane[LEDGER_LANES];
	struct ledger_dir *root;
	unsigned pass;	  /* begun last */
	bool open;	  /* and not committed */
	uint32_t ids;	  /* last one given on the wire */
	uint64_t sent;	  /* content bytes */
	uint64_t tables;  /* bytes of directories' tables (atomic) */
	int64_t distance; /* of the clocks; see ledger_clock */
	bool have_distance, doubts;
};

static struct ledger_entry *
entry_at(const struct ledger *l, uint32_t no)
{
	return slab_at(&l->entries, no);
}

static struct ledger_dir *
dir_at(const struct ledger *l, uint32_t no)
{
	return slab_at(&l->dirs, no);
}

/* ---- names ---- */

static const uint8_t *
name_at(const struct ledger *l, uint32_t at)
{
	return (const uint8_t *)slab_at(&l->names, at >> NAMES_SHIFT) +
	       (at & ((1u << NAMES_SHIFT) - 1));
}

static int
name_new(struct ledger *l, unsigned lane, const char *name, size_t len,
	 uint32_t *at, struct err *e)
{
	uint32_t used = l->lane[lane].used;
	uint8_t *p;

	if (!l->lane[lane].chunk || used + 1 + len > 1u << NAMES_SHIFT) {
		uint32_t no;

		if (!slab_take(&l->names, lane, &no, e)) {
			return e ? e->code : E_NOMEM;
		}
		if (no >= 1u << (32 - NAMES_SHIFT)) {
			return err_set(e, E_LIMIT, "too many names");
		}
		l->lane[lane].chunk = no;
		used = 0;
	}
	p = (uint8_t *)slab_at(&l->names, l->lane[lane].chunk) + used;
	p[0] = (uint8_t)len;
	memcpy(p + 1, name, len);
	*at = l->lane[lane].chunk << NAMES_SHIFT | used;
	l->lane[lane].used = used + 1 + (uint32_t)len;
	return 0;
}

const char *
ledger_name(const struct ledger *l, const struct ledger_entry *en, size_t *len)
{
	const uint8_t *p = name_at(l, en->name);

	*len = p[0];
	return (const char *)p + 1;
}

int
ledger_path(struct ledger *l, const struct ledger_dir *d, struct buf *b,
	    struct err *e)
{
	const struct ledger_dir *a;
	size_t total = 0, len;
	uint8_t *p;

	for (a = d; a != l->root; a = dir_at(l, a->parent)) {
		ledger_name(l, entry_at(l, a->entry), &len);
		total += len + (a->parent != l->root->no);
		if (total > PATH_MAX_BYTES) {
			return err_set(e, E_LIMIT, "a path is too long");
		}
	}
	p = buf_reserve(b, total, e);
	if (!p) {
		return e ? e->code : E_NOMEM;
	}
	b->len += total;
	for (a = d; a != l->root; a = dir_at(l, a->parent)) {
		const char *name = ledger_name(l, entry_at(l, a->entry), &len);

		total -= len;
		memcpy(p + total, name, len);
		if (total) {
			p[--total] = '/';
		}
	}
	return 0;
}

/* ---- life ---- */

static struct ledger_dir *
dir_new(struct ledger *l, unsigned lane, uint32_t parent, uint32_t entry,
	struct err *e)
{
	uint32_t no;
	struct ledger_dir *d = slab_take(&l->dirs, lane, &no, e);

	if (d) {
		d->slot = d->few;
		d->cap = sizeof(d->few) / sizeof(d->few[0]);
		d->no = no;
		d->parent = parent ? parent : no;
		d->entry = entry;
	}
	return d;
}

struct ledger *
ledger_new(const struct digest_key *k, struct err *e)
{
	struct ledger *l = calloc(1, sizeof(*l));
	struct ledger_entry *en;
	uint32_t no;

	if (!l) {
		err_nomem(e);
		return NULL;
	}
	l->key = *k;
	if (slab_init(&l->entries, sizeof(*en), 10, e) < 0 ||
	    slab_init(&l->dirs, sizeof(struct ledger_dir), 8, e) < 0 ||
	    slab_init(&l->files, sizeof(struct ledger_file), 8, e) < 0 ||
	    slab_init(&l->groups, sizeof(struct ledger_group), 8, e) < 0 ||
	    slab_init(&l->names, 1u << NAMES_SHIFT, 0, e) < 0 ||
	    !(en = slab_take(&l->entries, 0, &no, e)) ||
	    name_new(l, 0, "", 0, &en->name, e) < 0 ||
	    !(l->root = dir_new(l, 0, 0, no, e))) {
		ledger_free(l);
		return NULL;
	}
	en->flags = LEDGER_DIR;
	en->sub = l->root->no;
	return l;
}

static void
table_free(struct ledger *l, struct ledger_dir *d)
{
	if (d->slot != d->few) {
		__atomic_fetch_sub(&l->tables, d->cap * sizeof(*d->slot),
				   __ATOMIC_RELAXED);
		free(d->slot);
	}
}

/* Forget what an entry is; if it is a directory, that one is returned, and
 * still to be dropped. */
static struct ledger_dir *
clear(struct ledger *l, unsigned lane, struct ledger_entry *en)
{
	struct ledger_dir *d = NULL;

	if (en->flags & LEDGER_DIR) {
		d = dir_at(l, en->sub);
	} else if (en->flags & LEDGER_LARGE) {
		ledger_file_drop(l, lane, en->sub);
	} else if (en->flags & LEDGER_LINK) {
		struct ledger_group *g = ledger_group(l, en->sub);

		if (!__atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL)) {
			ledger_file_drop(l, lane, g->file);
			slab_give(&l->groups, lane, en->sub);
		}
	}
	en->flags = 0;
	en->sub = 0;
	return d;
}

/* Drop directories in a list through `parent`, with all below them: however
 * deep that is, nothing recurses. Their own entries are the caller's. */
static void
dirs_drop(struct ledger *l, unsigned lane, struct ledger_dir *list)
{
	struct ledger_dir *d, *below;

	while ((d = list) != NULL) {
		list = d->parent ? dir_at(l, d->parent) : NULL;
		for (uint32_t i = 0; i < d->cap; i++) {
			if (!d->slot[i]) {
				continue;
			}
			below = clear(l, lane, entry_at(l, d->slot[i]));
			if (below) {
				below->parent = list ? list->no : 0;
				list = below;
			}
			slab_give(&l->entries, lane, d->slot[i]);
		}
		table_free(l, d);
		slab_give(&l->dirs, lane, d->no);
	}
}

void
ledger_free(struct ledger *l)
{
	if (!l) {
		return;
	}
	if (l->root) {
		l->root->parent = 0;
		dirs_drop(l, 0, l->root);
	}
	slab_fini(&l->entries);
	slab_fini(&l->dirs);
	slab_fini(&l->files);
	slab_fini(&l->groups);
	slab_fini(&l->names);
	free(l);
}

int
ledger_begin(struct ledger *l, unsigned pass, struct err *e)
{
	if (l->open || pass != l->pass + 1) {
		return err_set(e, E_STATE,
			       "pass %u cannot follow pass %u, which %s", pass,
			       l->pass,
			       l->open ? "was not finished" : "is the last");
	}
	l->pass = pass;
	l->open = true;
	return 0;
}

void
ledger_commit(struct ledger *l)
{
	l->open = false;
}

uint32_t *
ledger_ids(struct ledger *l)
{
	return &l->ids;
}

uint64_t
ledger_add_bytes(struct ledger *l, uint64_t sent)
{
	l->sent += sent;
	return l->sent;
}

void
ledger_clock(struct ledger *l, int64_t distance)
{
	if (l->have_distance && distance < l->distance - CLOCK_SLACK_NS) {
		l->doubts = true;
	}
	l->have_distance = true;
	l->distance = distance;
}

bool
ledger_doubts(const struct ledger *l)
{
	return l->doubts;
}

/* ---- identity ---- */

struct digest
ledger_seen(const struct ledger *l, const struct statx *stx)
{
	/* Times modulo 2^64 ns: only ctime counts here, and nobody sets it. */
	uint64_t v[6] = {
		stx->stx_ino,
		stx->stx_size,
		(uint64_t)stx->stx_mtime.tv_sec * 1000000000u +
			stx->stx_mtime.tv_nsec,
		(uint64_t)stx->stx_ctime.tv_sec * 1000000000u +
			stx->stx_ctime.tv_nsec,
		0,
		stx->stx_mode & S_IFMT,
	};

	if (stx->stx_mask & STATX_BTIME) {
		v[4] = (uint64_t)stx->stx_btime.tv_sec * 1000000000u +
		       stx->stx_btime.tv_nsec;
	}
	return digest_of(&l->key, v, sizeof(v));
}

/* ---- directories ---- */

struct ledger_dir *
ledger_root(struct ledger *l)
{
	return l->root;
}

struct ledger_entry *
ledger_entry_of(struct ledger *l, struct ledger_dir *d)
{
	return entry_at(l, d->entry);
}

struct ledger_dir *
ledger_parent(struct ledger *l, struct ledger_dir *d)
{
	return dir_at(l, d->parent);
}

void
ledger_list(struct ledger *l, struct ledger_dir *d, uint32_t scan_id)
{
	d->listed = l->pass;
	d->scan_id = scan_id;
	d->met = 0;
}

/* The slot of a name, or the free one where it would go. */
static uint32_t *
slot_of(struct ledger *l, struct ledger_dir *d, const char *name, size_t len)
{
	uint64_t at = digest_hash64(&l->key, name, len);

	for (;; at++) {
		uint32_t *s = &d->slot[at & (d->cap - 1)];
		const uint8_t *have;

		if (!*s) {
			return s;
		}
		have = name_at(l, entry_at(l, *s)->name);
		if (have[0] == len && memcmp(have + 1, name, len) == 0) {
			return s;
		}
	}
}

static void
place(struct ledger *l, struct ledger_dir *d, uint32_t no)
{
	size_t len;
	const char *name = ledger_name(l, entry_at(l, no), &len);

	*slot_of(l, d, name, len) = no;
}

/* A table of `cap` slots in place of the one there, with what is in that. */
static int
retable(struct ledger *l, struct ledger_dir *d, uint32_t cap, struct err *e)
{
	uint32_t *old = d->slot, n = d->cap;
	uint32_t *t = calloc(cap, sizeof(*t));

	if (!t) {
		return err_nomem(e);
	}
	__atomic_fetch_add(&l->tables, cap * sizeof(*t), __ATOMIC_RELAXED);
	d->slot = t;
	d->cap = cap;
	for (uint32_t i = 0; i < n; i++) {
		if (old[i]) {
			place(l, d, old[i]);
		}
	}
	if (old != d->few) {
		__atomic_fetch_sub(&l->tables, n * sizeof(*old),
				   __ATOMIC_RELAXED);
		free(old);
	}
	return 0;
}

/* One slot stays free, so that searches end. */
static bool
full(const struct ledger_dir *d)
{
	return d->count + 1 > d->cap - d->cap / 8 - (d->cap < 8);
}

static int
add(struct ledger *l, unsigned lane, struct ledger_dir *d, const char *name,
    size_t len, struct ledger_entry **en, struct err *e)
{
	uint32_t no;
	int rc;

	if (full(d)) {
		if (d->cap >= 1u << 31) {
			return err_set(e, E_LIMIT, "too many names");
		}
		rc = retable(l, d, d->cap * 2, e);
		if (rc < 0) {
			return rc;
		}
	}
	*en = slab_take(&l->entries, lane, &no, e);
	if (!*en) {
		return e ? e->code : E_NOMEM;
	}
	rc = name_new(l, lane, name, len, &(*en)->name, e);
	if (rc < 0) {
		slab_give(&l->entries, lane, no);
		return rc;
	}
	*slot_of(l, d, name, len) = no;
	d->count++;
	d->met++;
	(*en)->pass = l->pass;
	return 0;
}

int
ledger_meet(struct ledger *l, unsigned lane, struct ledger_dir *d,
	    const char *name, size_t len, struct ledger_entry **en,
	    struct err *e)
{
	uint32_t no = *slot_of(l, d, name, len);

	if (!no) {
		return add(l, lane, d, name, len, en, e);
	}
	*en = entry_at(l, no);
	if ((*en)->pass == l->pass) {
		return E_EXISTS;
	}
	(*en)->pass = l->pass;
	d->met++;
	return 1;
}

/* Take the slot's name out; the table is made again afterwards. */
static void
forget(struct ledger *l, unsigned lane, struct ledger_dir *d, uint32_t *slot)
{
	struct ledger_dir *below = clear(l, lane, entry_at(l, *slot));

	if (below) {
		below->parent = 0;
		dirs_drop(l, lane, below);
	}
	slab_give(&l->entries, lane, *slot);
	*slot = 0;
	d->count--;
}

/* Put what is left after some names went to where searches find it. */
static int
close_up(struct ledger *l, struct ledger_dir *d, struct err *e)
{
	uint32_t keep[sizeof(d->few) / sizeof(d->few[0])];

	if (d->slot != d->few) {
		return retable(l, d, d->cap, e);
	}
	memcpy(keep, d->few, sizeof(keep));
	memset(d->few, 0, sizeof(d->few));
	for (uint32_t i = 0; i < d->cap; i++) {
		if (keep[i]) {
			place(l, d, keep[i]);
		}
	}
	return 0;
}

int
ledger_sweep(struct ledger *l, unsigned lane, struct ledger_dir *d,
	     ledger_gone_fn *gone, void *arg, struct err *e)
{
	if (d->met == d->count) {
		return 0;
	}
	for (uint32_t i = 0; i < d->cap; i++) {
		struct ledger_entry *en;
		size_t len;
		const char *name;
		int rc;

		if (!d->slot[i]) {
			continue;
		}
		en = entry_at(l, d->slot[i]);
		if (en->pass == l->pass) {
			continue;
		}
		name = ledger_name(l, en, &len);
		rc = gone(d, name, len, arg, e);
		if (rc < 0) {
			return rc;
		}
		forget(l, lane, d, &d->slot[i]);
	}
	return close_up(l, d, e);
}

void
ledger_reset(struct ledger *l, unsigned lane, struct ledger_entry *en)
{
	struct ledger_dir *below = clear(l, lane, en);

	en->type = 0;
	if (below) {
		below->parent = 0;
		dirs_drop(l, lane, below);
	}
}

struct ledger_dir *
ledger_subdir(struct ledger *l, unsigned lane, struct ledger_dir *d,
	      struct ledger_entry *en, struct err *e)
{
	struct ledger_dir *sub;
	size_t len;
	const char *name;

	if (en->flags & LEDGER_DIR) {
		return dir_at(l, en->sub);
	}
	name = ledger_name(l, en, &len);
	sub = dir_new(l, lane, d->no, *slot_of(l, d, name, len), e);
	if (sub) {
		en->flags = LEDGER_DIR;
		en->sub = sub->no;
	}
	return sub;
}

/* ---- files and groups ---- */

struct ledger_file *
ledger_file(struct ledger *l, uint32_t no)
{
	return no ? slab_at(&l->files, no) : NULL;
}

struct ledger_group *
ledger_group(struct ledger *l, uint32_t no)
{
	return no ? slab_at(&l->groups, no) : NULL;
}

struct ledger_file *
ledger_file_new(struct ledger *l, unsigned lane, uint32_t *no, struct err *e)
{
	return slab_take(&l->files, lane, no, e);
}

struct ledger_group *
ledger_group_new(struct ledger *l, unsigned lane, uint32_t *no, struct err *e)
{
	return slab_take(&l->groups, lane, no, e);
}

void
ledger_file_drop(struct ledger *l, unsigned lane, uint32_t no)
{
	if (no) {
		blocks_free(ledger_file(l, no)->blocks);
		slab_give(&l->files, lane, no);
	}
}

void
ledger_join(struct ledger *l, struct ledger_entry *en, uint32_t no)
{
	__atomic_add_fetch(&ledger_group(l, no)->refs, 1, __ATOMIC_ACQ_REL);
	en->flags = LEDGER_LINK;
	en->sub = no;
}

void
ledger_stats(struct ledger *l, struct ledger_stats *s)
{
	*s = (struct ledger_stats){
		.entries = slab_count(&l->entries),
		.dirs = slab_count(&l->dirs),
		.files = slab_count(&l->files),
		.groups = slab_count(&l->groups),
		.bytes = sizeof(*l) + slab_bytes(&l->entries) +
			 slab_bytes(&l->dirs) + slab_bytes(&l->files) +
			 slab_bytes(&l->groups) + slab_bytes(&l->names) +
			 l->tables,
	};
}
