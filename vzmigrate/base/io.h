/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io: whole reads and writes, time, small helpers around descriptors.
 */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t io_now_ms(void);

/* A deadline `ms` from now; IO_FOREVER for a negative `ms`. */
#define IO_FOREVER INT64_MAX
int64_t io_deadline(int64_t ms);

/* Milliseconds left until `deadline`, for poll(): -1 for ever, 0 passed. */
int io_left_ms(int64_t deadline);

/* Read until `len` bytes or the end of the file. Returns the count (less than
 * len at the end), or E_SYSTEM. Blocks. `what` names the object. */
ssize_t io_read_full(int fd, void *data, size_t len, const char *what,
		     struct err *e);

/* Write all of it. 0 or an error. Blocks. */
int io_write_full(int fd, const void *data, size_t len, const char *what,
		  struct err *e);

/* Read a whole file of at most `max` bytes below `dirfd` (AT_FDCWD is
 * allowed; symlinks are followed) into a NUL-terminated heap string the
 * caller frees. `*len` (may be NULL) is the length without the NUL. */
int io_read_file(int dirfd, const char *path, size_t max, char **data,
		 size_t *len, struct err *e);

/* Set or clear O_NONBLOCK. */
int io_set_nonblock(int fd, bool on, struct err *e);

/* mkdir -p with `mode` for what is missing. */
int io_mkdirs(const char *path, mode_t mode, struct err *e);

/* Heap string from printf; NULL with E_NOMEM. Caller frees. */
char *io_asprintf(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
