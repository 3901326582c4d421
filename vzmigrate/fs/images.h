/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * images: regular files of a tree that block devices are made of, as of a
 * ploop image. The kernel writes to such a file past the page cache, and may
 * move none of its times. So it has to be read past the page cache, too; and
 * while its device is in use what its times say is of no account.
 */
#ifndef FS_IMAGES_H
#define FS_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define IMAGES_MAX 1024

struct images_file {
	uint64_t ino; /* on the tree's file system */
	bool moving;  /* written to while the container is up */
};

/* Zero is an empty one. */
struct images {
	struct images_file *v; /* owned */
	size_t n;
	struct buf from; /* the bytes that say which they are */
};

void images_init(struct images *im);
void images_fini(struct images *im);

/* Add a file; one that is there already is moving if either is. E_LIMIT,
 * E_NOMEM. */
int images_add(struct images *im, uint64_t ino, bool moving, struct err *e);

/* By its number; NULL where it is none, or `im` is NULL. */
const struct images_file *images_find(const struct images *im, uint64_t ino);

/* Whether it is one of those that are written to; `im` may be NULL. */
bool images_moving(const struct images *im, uint64_t ino);

/*
 * `now` was listed after `before`. Where the list was made from other bytes a
 * snapshot was made or merged in between, which may have written to any of
 * them: then all are moving.
 */
void images_follow(struct images *now, const struct images *before);

#endif
