/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_late: what a receiver does after the last content: hard links, the
 * flags that would forbid them, directories' metadata. Thread-safe until
 * recv_late_run.
 */
#ifndef XFER_RECV_LATE_H
#define XFER_RECV_LATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fs/meta.h"
#include "xfer/dirtab.h"
#include "xfer/inomap.h"
#include "xfer/losses.h"

struct recv_late;

/* All tables are borrowed until free. */
struct recv_late *recv_late_new(struct dirtab *dirs, struct inomap *inodes,
				struct losses *losses, struct err *e);
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

/*
 * Do it all: links (on EMLINK a copy becomes a new inode of the group, with a
 * warning), flags, directories. The root keeps off immutable and append-only.
 * 0, E_PROTOCOL where something was never sent, or the system's error naming
 * the path. Blocks.
 */
int recv_late_run(struct recv_late *l, enum meta_policy policy, struct err *e);

/* The root's immutable and append-only bits, for after the commit. */
uint32_t recv_late_root_flags(const struct recv_late *l);

#endif
