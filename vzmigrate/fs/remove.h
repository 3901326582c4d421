/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * remove: delete a tree, staying on its mount and below it.
 */
#ifndef FS_REMOVE_H
#define FS_REMOVE_H

#include <stdint.h>

#include "base/err.h"

/*
 * Delete `name` in `dirfd` and all below it. Immutable and append-only flags
 * are cleared on the way. A mount point below is not entered: the deletion
 * then fails with E_BUSY naming it, after removing what it could. Any depth.
 * E_NOT_FOUND when there is no such name. `*removed` (may be NULL) counts
 * entries. Other failures too leave only what could not be removed; the first
 * is returned. Where somebody keeps adding files it gives up in the end, with
 * E_SYSTEM (ENOTEMPTY).
 */
int remove_tree(int dirfd, const char *name, uint64_t *removed, struct err *e);

/* As remove_tree for what is inside `dirfd`; the directory itself stays, no
 * longer immutable or append-only. */
int remove_content(int dirfd, uint64_t *removed, struct err *e);

#endif
