/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * iflags: inode flags (chattr) and project ids of an opened regular file or
 * directory.
 */
#ifndef FS_IFLAGS_H
#define FS_IFLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "fs/meta.h"

/* Both are 0 where the file system has no such thing. 0 or E_SYSTEM; the text
 * names nothing. */
int iflags_read(int fd, uint32_t *flags, uint32_t *projid, struct err *e);

/* Clear immutable and append-only. `*had` (may be NULL) gets which of the two
 * were set. 0 also where the file system has none. */
int iflags_unlock(int fd, uint32_t *had, struct err *e);

/* The same for the flags of `mask`. */
int iflags_clear(int fd, uint32_t mask, uint32_t *had, struct err *e);

/* While a file is empty: NOCOW and COMPR exactly, then the project id. What is
 * refused is E_UNSUPPORTED with META_STRICT and ignored with META_WARN. */
int iflags_apply_early(int fd, uint32_t flags, uint32_t projid,
		       struct meta_loss *loss, struct err *e);

/* Set those of `flags` again that iflags_clear took away. */
int iflags_add(int fd, uint32_t flags, struct err *e);

/* As iflags_unlock, and tells in `*now` the flags that are left, or that they
 * are not known: for iflags_apply, which then need not ask. */
struct iflags_now {
	uint32_t flags;
	bool known;
};
int iflags_begin(int fd, struct iflags_now *now, struct err *e);

/* Project id, and all META_FLAGS but immutable and append-only (which are
 * taken to be clear). The text names nothing, as with all of these. */
int iflags_apply(int fd, const struct iflags_now *now, uint32_t flags,
		 uint32_t projid, struct meta_loss *loss, struct err *e);

/* Set immutable and append-only as in `flags`; nothing else is touched. */
int iflags_lock(int fd, uint32_t flags, struct meta_loss *loss, struct err *e);

#endif
