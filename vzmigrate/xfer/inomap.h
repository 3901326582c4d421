/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inomap: inode number -> what must be known of it when its names are met
 * again: its group's id and its content's digest. Thread-safe.
 */
#ifndef XFER_INOMAP_H
#define XFER_INOMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"

struct blocktab;
struct inomap;

struct inomap_value {
	uint32_t group; /* hard-link group id, 0: a single name */
	bool split;	/* the group has more inodes than this one */
	struct digest content;
	/* Of a file that came in chunks, where later passes may change it in
	 * place; else NULL. The map owns it. */
	struct blocktab *blocks;
	/* When its ctime was this (meta_ctime), it was read back through the
	 * descriptor that made it: no flags, no project id, no extended
	 * attributes. 0: it was not, or had some. */
	int64_t plain;
};

struct inomap *inomap_new(struct err *e);
void inomap_free(struct inomap *m);

/* Insert. 0; E_EXISTS where the inode is known (`*old` gets its value, may
 * be NULL); E_NOMEM. Inode number 0 does not exist. */
int inomap_add(struct inomap *m, uint64_t ino, const struct inomap_value *v,
	       struct inomap_value *old, struct err *e);

/* Insert or replace: whoever makes an inode does this, since its number may
 * have been another's before. On success v->blocks belongs to the map. */
int inomap_put(struct inomap *m, uint64_t ino, const struct inomap_value *v,
	       struct err *e);

/* v->blocks is only to be compared with NULL. */
bool inomap_get(struct inomap *m, uint64_t ino, struct inomap_value *v);

/* As inomap_get, but v->blocks goes to the caller, and the map has none until
 * the next inomap_put. */
bool inomap_take(struct inomap *m, uint64_t ino, struct inomap_value *v);

/* Its metadata was changed: v->plain becomes 0. */
void inomap_changed(struct inomap *m, uint64_t ino);

size_t inomap_count(struct inomap *m);

#endif
