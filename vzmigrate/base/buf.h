/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * buf: a growable byte buffer with a limit, in the caller's storage.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf {
	uint8_t *data; /* owned; NULL while cap is 0 */
	size_t len;    /* bytes in use */
	size_t cap;    /* bytes allocated */
	size_t max;    /* never more than this */
};

/* The same as an initialiser: struct buf b = BUF_MAX(4096); */
#define BUF_MAX(n)         \
	{                  \
		.max = (n) \
	}

/* An empty buffer that may grow to `max` bytes. Allocates nothing. */
void buf_init(struct buf *b, size_t max);

/* Free the memory; the buffer is as after buf_init. */
void buf_fini(struct buf *b);

/* For cleanup(). */
void buf_finip(struct buf *b);

/* Make room for `more` bytes after len and return where they go, without
 * changing len. NULL with E_LIMIT or E_NOMEM. */
uint8_t *buf_reserve(struct buf *b, size_t more, struct err *e);

/* Append. 0, E_LIMIT or E_NOMEM. */
int buf_append(struct buf *b, const void *data, size_t len, struct err *e);

/* Append printf output without its NUL. */
int buf_printf(struct buf *b, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Drop the first `n` bytes (n <= len). */
void buf_consume(struct buf *b, size_t n);

/* len becomes 0; the memory is kept. */
void buf_clear(struct buf *b);

/* Make sure a NUL follows the data (not counted in len) and return the data
 * as a string; NULL with E_LIMIT or E_NOMEM. Borrowed until the next
 * change. */
char *buf_cstr(struct buf *b, struct err *e);

#endif
