/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * codec: little-endian numbers and counted bytes, to a buf and from memory.
 */
#include "wire/codec.h"

#include <stdlib.h>
#include <string.h>

#define STR_NULL 0xffffffffu

void
enc_init(struct enc *n, struct buf *b, struct err *e)
{
	*n = (struct enc){ b, 0, e };
}

void
enc_raw(struct enc *n, const void *p, size_t len)
{
	if (n->rc == 0) {
		n->rc = buf_append(n->b, p, len, n->e);
	}
}

static void
enc_le(struct enc *n, uint64_t v, size_t len)
{
	uint8_t b[8];

	for (size_t i = 0; i < len; i++) {
		b[i] = (uint8_t)(v >> (8 * i));
	}
	enc_raw(n, b, len);
}

void
enc_u8(struct enc *n, uint8_t v)
{
	enc_le(n, v, 1);
}

void
enc_u16(struct enc *n, uint16_t v)
{
	enc_le(n, v, 2);
}

void
enc_u32(struct enc *n, uint32_t v)
{
	enc_le(n, v, 4);
}

void
enc_u64(struct enc *n, uint64_t v)
{
	enc_le(n, v, 8);
}

void
enc_i64(struct enc *n, int64_t v)
{
	enc_le(n, (uint64_t)v, 8);
}

void
enc_bytes(struct enc *n, const void *p, size_t len)
{
	if (len >= STR_NULL) {
		n->rc = err_set(n->e, E_LIMIT, "field of %zu bytes", len);
		return;
	}
	enc_u32(n, (uint32_t)len);
	enc_raw(n, p, len);
}

void
enc_str(struct enc *n, const char *s)
{
	if (!s) {
		enc_u32(n, STR_NULL);
		return;
	}
	enc_bytes(n, s, strlen(s));
}

void
dec_init(struct dec *d, const void *p, size_t len)
{
	*d = (struct dec){ p, len, 0 };
}

const uint8_t *
dec_raw(struct dec *d, size_t len)
{
	const uint8_t *p = d->p;

	if (d->rc < 0 || len > d->left) {
		d->rc = d->rc < 0 ? d->rc : E_PROTOCOL;
		return NULL;
	}
	d->p += len;
	d->left -= len;
	return p;
}

static uint64_t
dec_le(struct dec *d, size_t len)
{
	const uint8_t *p = dec_raw(d, len);
	uint64_t v = 0;

	for (size_t i = 0; p && i < len; i++) {
		v |= (uint64_t)p[i] << (8 * i);
	}
	return v;
}

uint8_t
dec_u8(struct dec *d)
{
	return (uint8_t)dec_le(d, 1);
}

uint16_t
dec_u16(struct dec *d)
{
	return (uint16_t)dec_le(d, 2);
}

uint32_t
dec_u32(struct dec *d)
{
	return (uint32_t)dec_le(d, 4);
}

uint64_t
dec_u64(struct dec *d)
{
	return dec_le(d, 8);
}

int64_t
dec_i64(struct dec *d)
{
	return (int64_t)dec_le(d, 8);
}

const uint8_t *
dec_bytes(struct dec *d, size_t max, size_t *len)
{
	uint32_t n = dec_u32(d);

	*len = 0;
	if (d->rc == 0 && n > max) {
		d->rc = E_PROTOCOL;
	}
	if (d->rc < 0) {
		return NULL;
	}
	*len = n;
	return dec_raw(d, n);
}

char *
dec_str(struct dec *d, size_t max)
{
	const uint8_t *p;
	uint32_t n = dec_u32(d);
	char *s;

	if (d->rc < 0 || n == STR_NULL) {
		return NULL;
	}
	if (n > max) {
		d->rc = E_PROTOCOL;
		return NULL;
	}
	p = dec_raw(d, n);
	if (!p) {
		return NULL;
	}
	if (memchr(p, '\0', n)) {
		d->rc = E_PROTOCOL;
		return NULL;
	}
	s = malloc((size_t)n + 1);
	if (!s) {
		d->rc = E_NOMEM;
		return NULL;
	}
	memcpy(s, p, n);
	s[n] = '\0';
	return s;
}

char *
dec_str_needed(struct dec *d, size_t max)
{
	char *s = dec_str(d, max);

	if (!s && d->rc == 0) {
		d->rc = E_PROTOCOL;
	}
	return s;
}

int
dec_end(struct dec *d, const char *what, struct err *e)
{
	if (d->rc == E_NOMEM) {
		return err_nomem(e);
	}
	if (d->rc < 0) {
		return err_set(e, E_PROTOCOL, "malformed %s", what);
	}
	if (d->left) {
		return err_set(e, E_PROTOCOL,
			       "malformed %s: %zu bytes too many", what,
			       d->left);
	}
	return 0;
}
