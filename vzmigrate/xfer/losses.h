/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * losses: the inodes whose metadata the destination's file system could not
 * hold whole (--metadata=warn): what was sent and what of it was refused. So
 * the proof can expect of these exactly what was sent less what was refused,
 * and of all others everything. Thread-safe.
 */
#ifndef XFER_LOSSES_H
#define XFER_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fs/meta.h"

struct losses;

struct losses *losses_new(struct err *e);
void losses_free(struct losses *t);

/* Remember what meta_apply could not do for `ino` (nothing, where `loss` is
 * empty), and warn, naming `path`: each of the first few, then only how many.
 * Once more for the same inode adds to it; `sent` is that of the first. */
int losses_add(struct losses *t, uint64_t ino, const char *path,
	       size_t path_len, const struct meta *sent,
	       const struct meta_loss *loss, struct err *e);

/* The inode `ino` is a new one, or is given metadata anew: what was refused
 * before is of no account. Nearly nothing where there are no losses. */
void losses_forget(struct losses *t, uint64_t ino);

/* Whether there is any. */
bool losses_any(struct losses *t);

/* `to` is a copy of the inode `from`, made from what is there of it. */
int losses_copy(struct losses *t, uint64_t from, uint64_t to, struct err *e);

/*
 * `m` was read back from `ino`. Where it is what was sent less what was
 * refused, it becomes what was sent; anything else is left as it is, so that
 * the proof fails.
 */
int losses_restore(struct losses *t, uint64_t ino, struct meta *m,
		   struct err *e);

/* Log how many there were beyond those that were named. */
void losses_report(struct losses *t);

#endif
