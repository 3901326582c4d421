/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * content: a regular file's bytes and holes.
 */
#ifndef FS_CONTENT_H
#define FS_CONTENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * The next run of data at or after `pos` in a file of `size` bytes as known
 * (SEEK_DATA, SEEK_HOLE; a file system without them gives one run). Returns 1
 * and [*off, *off + *len), cut at `size`; 0 when only hole follows; E_SYSTEM.
 */
int content_next(int fd, uint64_t pos, uint64_t size, uint64_t *off,
		 uint64_t *len, struct err *e);

/*
 * Read exactly `len` bytes at `off`. Returns the count read; less than `len`
 * means the file ended there (it shrank: the caller decides). E_SYSTEM with
 * errno for EIO and others.
 */
ssize_t content_read(int fd, void *data, size_t len, uint64_t off,
		     const char *path, struct err *e);

/*
 * From now on content_read_direct finds in `fd` (a regular file, open for
 * reading) what is on the disk, whatever the page cache says. What others wrote
 * through the cache is written out first. 0, E_SYSTEM.
 */
int content_direct(int fd, const char *path, struct err *e);

/*
 * What one thread has of one file that it reads directly: each request goes to
 * the disk, so it asks for more at once. Zero is an empty one.
 */
struct content_ahead {
	uint64_t end;  /* set by the caller: up to there more is wanted soon */
	uint8_t *data; /* owned */
	uint64_t off;  /* of data */
	size_t len;
};
void content_ahead_fini(struct content_ahead *a);

/* As content_read, after content_direct, through `a`. Several threads may read
 * one `fd`, each with its own. */
ssize_t content_read_direct(int fd, struct content_ahead *a, void *data,
			    size_t len, uint64_t off, const char *path,
			    struct err *e);

/* Write all of it at `off`. 0, E_NOSPACE, E_SYSTEM. */
int content_write(int fd, const void *data, size_t len, uint64_t off,
		  const char *path, struct err *e);

/* Make [off, off + len) a hole (or zeros where holes cannot be had), without
 * changing the size. */
int content_punch(int fd, uint64_t off, uint64_t len, const char *path,
		  struct err *e);

#endif
