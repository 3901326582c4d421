/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dirtab: the directories a receiver was told of, by id, and how to open one,
 * making it where it does not exist yet. Thread-safe but for a dircache,
 * which belongs to one thread.
 */
#ifndef XFER_DIRTAB_H
#define XFER_DIRTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct dirtab;

/* Ids may run this far ahead of the number of directories defined: several
 * threads define them, but a peer must not make us allocate for gaps. */
#define DIRTAB_SLACK (1u << 20)

/* Some open directories of one thread, the most recent ones. */
#define DIRCACHE_SLOTS 16
struct dircache {
	struct {
		uint32_t id;
		int fd;	   /* owned; -1: the slot is free */
		bool open; /* to changes, see dirtab_open */
	} slot[DIRCACHE_SLOTS];
	unsigned next; /* which one is replaced next */
	bool unknown;  /* the last dirtab_open failed for want of a
			  definition */
};

void dircache_init(struct dircache *c);
void dircache_fini(struct dircache *c);

/* An empty table over `rootfd` (borrowed), which has id TREE_ROOT. With
 * `update` the tree is not empty. */
struct dirtab *dirtab_new(int rootfd, bool update, struct err *e);
void dirtab_free(struct dirtab *t);

/* From now on a directory may be defined before its parent: definitions come
 * on several streams. */
void dirtab_loosen(struct dirtab *t);

/* Define a directory; the parent must be defined. The same definition again
 * is allowed, another one for the same id is E_PROTOCOL. */
int dirtab_define(struct dirtab *t, uint32_t id, uint32_t parent,
		  const char *name, size_t name_len, struct err *e);

/*
 * A descriptor of directory `id`, borrowed from `c` until its next use. With
 * `make` it is to be changed: missing directories on the way are made (0700);
 * in an update, what stands in their place goes first, and flags of `id` that
 * forbid or bend what is made in it (immutable, append-only, the inheritance
 * of project ids) are cleared and remembered. E_PROTOCOL with c->unknown for an
 * id that is not defined, or one above it; else the system's errors.
 */
int dirtab_open(struct dirtab *t, struct dircache *c, uint32_t id, int make,
		struct err *e);

/* Append the path of `name` in directory `id` (name_len 0: of the directory)
 * to `b`, '/'-joined, without a leading slash. */
int dirtab_path(struct dirtab *t, uint32_t id, const char *name,
		size_t name_len, struct buf *b, struct err *e);

/* Whether directory `id` was made through this table, and so needs its
 * metadata; and which of its flags were cleared, for being set again. */
bool dirtab_made(struct dirtab *t, uint32_t id);
uint32_t dirtab_cleared(struct dirtab *t, uint32_t id);

/* Whether `id` is defined. */
bool dirtab_defined(struct dirtab *t, uint32_t id);

/* Make `name` in `dirfd` free, whatever is there, directories with all that is
 * below. Nothing there is right, too. The text names `name` where it is a
 * system's error. */
int dirtab_displace(int dirfd, const char *name, struct err *e);

/* One more than the largest id defined. */
uint32_t dirtab_end(struct dirtab *t);

#endif
