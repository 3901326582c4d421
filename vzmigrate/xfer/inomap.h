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

struct inomap;

struct inomap_value {
	uint32_t group; /* hard-link group id, 0: a single name */
	struct digest content;
};

struct inomap *inomap_new(struct err *e);
void inomap_free(struct inomap *m);

/* Insert. 0; E_EXISTS where the inode is known (`*old` gets its value, may
 * be NULL); E_NOMEM. Inode number 0 does not exist. */
int inomap_add(struct inomap *m, uint64_t ino, const struct inomap_value *v,
	       struct inomap_value *old, struct err *e);

bool inomap_get(struct inomap *m, uint64_t ino, struct inomap_value *v);

size_t inomap_count(struct inomap *m);

#endif
