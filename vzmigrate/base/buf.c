/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * buf: bounded growable bytes. State: in the caller's struct.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void
buf_fini(struct buf *b)
{
	free(b->data);
	buf_init(b, b->max);
}

void
buf_finip(struct buf *b)
{
	buf_fini(b);
}

uint8_t *
buf_reserve(struct buf *b, size_t more, struct err *e)
{
	size_t need, cap;
	uint8_t *data;

	if (__builtin_add_overflow(b->len, more, &need) || need > b->max) {
		err_set(e, E_LIMIT, "buffer of %zu bytes is full", b->max);
		return NULL;
	}
	if (need <= b->cap && b->data) {
		return b->data + b->len;
	}
	cap = b->cap ? b->cap : 256;
	while (cap < need) {
		cap = cap > b->max / 2 ? b->max : cap * 2;
	}
	data = realloc(b->data, cap ? cap : 1);
	if (!data) {
		err_nomem(e);
		return NULL;
	}
	b->data = data;
	b->cap = cap;
	return b->data + b->len;
}

int
buf_append(struct buf *b, const void *data, size_t len, struct err *e)
{
	uint8_t *to = buf_reserve(b, len, e);

	if (!to) {
		return e ? e->code : E_NOMEM;
	}
	if (len) {
		memcpy(to, data, len);
	}
	b->len += len;
	return 0;
}

int
buf_printf(struct buf *b, struct err *e, const char *fmt, ...)
{
	va_list ap;
	uint8_t *to;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) {
		return err_set(e, E_LIMIT, "cannot format a text");
	}
	to = buf_reserve(b, (size_t)n + 1, e);
	if (!to) {
		return e ? e->code : E_NOMEM;
	}
	va_start(ap, fmt);
	vsnprintf((char *)to, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return 0;
}

void
buf_consume(struct buf *b, size_t n)
{
	if (n < b->len) {
		memmove(b->data, b->data + n, b->len - n);
	}
	b->len -= n;
}

void
buf_clear(struct buf *b)
{
	b->len = 0;
}

char *
buf_cstr(struct buf *b, struct err *e)
{
	uint8_t *to = buf_reserve(b, 1, e);

	if (!to) {
		return NULL;
	}
	*to = '\0';
	return (char *)b->data;
}
