/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * beneath: open things below a root and never outside it, whatever the
 * container's own root user does to the tree meanwhile (design.md section 10).
 */
#ifndef FS_BENEATH_H
#define FS_BENEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Open the operator's path `path` (absolute) as a root directory, following
 * symlinks in it once, with this host's view. O_PATH is not used: the result
 * can be read, fsynced and passed to *at calls. Returns the descriptor
 * (caller closes), E_NOT_FOUND where nothing is there, E_SYSTEM.
 */
int beneath_open_root(const char *path, struct err *e);

/*
 * As beneath_open_root, but through a view of the file system of our own: in
 * it no device can be opened, nothing can be written, and no access time
 * changes; so `*tame` is true, and beneath_open_own may be used in it for a
 * tree that others change. Mounts below are not in that view: what they cover
 * is seen instead (mounts_below tells them). Where the kernel gives none
 * (before Linux 5.12, or without CAP_SYS_ADMIN) `*tame` is false and it is
 * beneath_open_root.
 */
int beneath_open_tame(const char *path, bool *tame, struct err *e);

/* Whether `name` of `len` bytes may be one path component: 1 to 255 bytes, no
 * '/', no NUL, not "." or "..". */
bool beneath_name_ok(const char *name, size_t len);

/*
 * Open the single component `name` in `dirfd` with `flags` (O_NOFOLLOW and
 * O_CLOEXEC are added; O_NONBLOCK is added unless O_DIRECTORY is set) and
 * `mode`, never leaving the directory and never crossing a mount. Without
 * O_DIRECTORY, O_PATH or O_CREAT | O_EXCL an existing file is opened as
 * beneath_open_reg does: anything but a regular file is refused without
 * touching it. O_NOATIME is dropped where it is not permitted. Returns a
 * descriptor, E_NOT_FOUND, E_EXISTS (O_EXCL), E_DENIED for a symlink or mount
 * in the way (err.sys then tells: ELOOP, EXDEV), E_CHANGED where it is another
 * type, E_PROTOCOL where `name` is not a name, E_SYSTEM. The error text names
 * `name`.
 */
int beneath_open(int dirfd, const char *name, int flags, mode_t mode,
		 struct err *e);

/*
 * As beneath_open_reg, for a `name` that the caller has seen to be a regular
 * file, in a directory where nobody but this program makes names or which is
 * tame: its type is not looked at again first, which saves three system calls.
 * In a tame one something else may be opened (a fifo; no device), so the
 * caller looks at the inode before it believes what it read.
 */
int beneath_open_own(int dirfd, const char *name, int flags, struct err *e);

/*
 * Open the existing regular file `name` (as beneath_open, without O_CREAT)
 * and give its STATX_BASIC_STATS and STATX_BTIME, taken from the same inode,
 * in `*stx` (may be NULL): saves the caller a system call. May block for as
 * long as the kernel lets somebody keep a lease on the file (45 s).
 */
int beneath_open_reg(int dirfd, const char *name, int flags, struct statx *stx,
		     struct err *e);

/*
 * Open what the O_PATH descriptor `pathfd` refers to (a regular file or a
 * directory, as the caller has seen with statx) with `flags`. Returns a
 * descriptor; E_SYSTEM, E_UNSUPPORTED without /proc; the text names nothing.
 */
int beneath_reopen(int pathfd, int flags, struct err *e);

/*
 * Open the directory at `rel` ('/'-joined components, `len` bytes, any depth,
 * also beyond PATH_MAX; "" is the root itself) below `rootfd`. Each component
 * must be a directory on the root's own mount and no symlink. Opened with
 * O_RDONLY and O_NOATIME. Returns a descriptor or an error as beneath_open.
 */
int beneath_open_dir(int rootfd, const char *rel, size_t len, struct err *e);

#endif
