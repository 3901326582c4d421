/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xattr: all extended attributes of one inode, ACLs and file capabilities
 * among them, as one packed block (its form: struct meta in meta.h).
 */
#ifndef FS_XATTR_H
#define FS_XATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fs/meta.h"

/*
 * Read all of them. `fd` is an opened file or directory, or, with `is_path`,
 * an O_PATH descriptor of any object. `*packed` (owned by the caller) is NULL
 * and `*len` 0 where there are none or the file system has none. E_LIMIT
 * beyond META_XATTRS_MAX, E_SYSTEM; the text names the attribute only.
 */
int xattr_read(int fd, int is_path, uint8_t **packed, size_t *len,
	       struct err *e);

/*
 * Whether xattr_read of `name` in `dirfd` (not followed) may find any, without
 * opening it: false only where the kernel says that there are none. Needs
 * /proc; without it says true.
 */
bool xattr_some(int dirfd, const char *name);

/*
 * Make the inode have exactly these: others are removed, those that differ
 * are set, security.capability last. What the file system refuses goes to
 * `loss`, or is E_UNSUPPORTED where that is NULL; a full disk is E_NOSPACE
 * with both. The text names the attribute only.
 */
int xattr_apply(int fd, int is_path, const uint8_t *packed, size_t len,
		struct meta_loss *loss, struct err *e);

/* Is meta_xattrs_check. */
int xattr_check(const uint8_t *p, size_t len, struct err *e);

#endif
