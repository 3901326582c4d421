/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * atomicfile: replace a file so that after any crash it is the old one or the
 * new one, whole.
 */
#ifndef BASE_ATOMICFILE_H
#define BASE_ATOMICFILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Write `len` bytes to `name` (a plain name, no slash) in `dirfd`: temporary
 * name, fsync, rename, fsync of the directory. `mode` is set exactly. With
 * `excl` an existing `name` is left alone and E_EXISTS returned
 * (RENAME_NOREPLACE). Blocks on the disk. On error `name` is as before.
 */
int atomicfile_write(int dirfd, const char *name, const void *data, size_t len,
		     mode_t mode, int excl, struct err *e);

/* fsync the directory `dirfd`; `what` names it in the error. */
int atomicfile_sync_dir(int dirfd, const char *what, struct err *e);

#endif
