/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_late: what a receiver does after the last content: hard links, the
 * flags that would forbid them, directories' metadata; and what of it is to
 * be on disk. One for each pass. Thread-safe until recv_late_run.
 */
#ifndef XFER_RECV_LATE_H
#define XFER_RECV_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fs/meta.h"
#include "xfer/dirtab.h"
#include "xfer/inomap.h"
#include "xfer/losses.h"

struct recv_late;

/* Beyond so many files and directories one sync of the file system is the
 * cheaper way. */
#define RECV_SYNC_MAX 2000

/* All tables are borrowed until free. With `update` the tree was not empty
 * when the pass began. */
struct recv_late *recv_late_new(struct dirtab *dirs, struct inomap *inodes,
				struct losses *losses, bool update,
				struct err *e);
void recv_late_free(struct recv_late *l);

/* Each records one thing to do; names and metadata are copied. */

/* The metadata of directory `id`. Once for each. */
int recv_late_dir(struct recv_late *l, uint32_t id, const struct meta *m,
		  struct err *e);
/* The name under which group `id` was made. */
int recv_late_first(struct recv_late *l, uint32_t id, uint32_t dir,
		    const char *name, struct err *e);
/* A further name of group `id`. */
int recv_late_link(struct recv_late *l, uint32_t id, uint32_t dir,
		   const char *name, size_t name_len, struct err *e);
/* Inode flags to set on a name once links are made. */
int recv_late_flags(struct recv_late *l, uint32_t dir, const char *name,
		    uint32_t flags, struct err *e);

/* For recv_late_sync: the content or metadata of a regular file changed, or
 * that of an inode which cannot be opened. Only in an update. */
int recv_late_touched(struct recv_late *l, uint32_t dir, const char *name,
		      struct err *e);
void recv_late_touched_special(struct recv_late *l);

/*
 * Do it all: links (on EMLINK a copy becomes a new inode of the group, with a
 * warning), flags, directories. The root keeps off immutable and append-only.
 * 0, E_PROTOCOL where something was never sent, or the system's error naming
 * the path. Blocks.
 */
int recv_late_run(struct recv_late *l, enum meta_policy policy, struct err *e);

/* The root's immutable and append-only bits, for after the commit. False where
 * the pass did not say. */
bool recv_late_root_flags(const struct recv_late *l, uint32_t *flags);

/*
 * After recv_late_run: have on disk what this pass changed, and no more than
 * that. False where it cannot be told or is so much that syncfs is better;
 * else *rc is 0 or the system's error. Blocks.
 */
bool recv_late_sync(struct recv_late *l, int *rc, struct err *e);

#endif
