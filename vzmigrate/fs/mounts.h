/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mounts: what is mounted, as this process sees it.
 */
#ifndef FS_MOUNTS_H
#define FS_MOUNTS_H

#include <stddef.h>

#include "base/err.h"

/* Called for one mount; `point` is unescaped. Positive ends the walk. */
typedef int mounts_fn(const char *point, const char *fstype, void *arg);
/* All mounts of this namespace (/proc/self/mountinfo). What fn returned, or
 * an error. */
int mounts_each(mounts_fn *fn, void *arg, struct err *e);

/*
 * The mount points strictly below the directory `path` (absolute; symlinks in
 * it are resolved), relative to it, each once, as bytes, from
 * /proc/self/mountinfo. `*list` is owned by the caller (mounts_free). 0,
 * E_SYSTEM, E_NOMEM. Blocks for the read of that file.
 */
int mounts_below(const char *path, char ***list, size_t *n, struct err *e);
void mounts_free(char **list, size_t n);

#endif
