/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * codec: little-endian primitives for frames and messages. No I/O, no struct
 * cast onto bytes. Both halves keep a first error, so that a run of calls
 * needs one check at its end.
 */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends to a struct buf (borrowed). */
struct enc {
	struct buf *b;
	int rc;	       /* 0, or the first error */
	struct err *e; /* where that error's text goes; may be NULL */
};

void enc_init(struct enc *n, struct buf *b, struct err *e);
void enc_u8(struct enc *n, uint8_t v);
void enc_u16(struct enc *n, uint16_t v);
void enc_u32(struct enc *n, uint32_t v);
void enc_u64(struct enc *n, uint64_t v);
void enc_i64(struct enc *n, int64_t v);
void enc_raw(struct enc *n, const void *p, size_t len);
/* u32 length, then the bytes. */
void enc_bytes(struct enc *n, const void *p, size_t len);
/* As enc_bytes for a C string; NULL becomes the length 0xffffffff. */
void enc_str(struct enc *n, const char *s);

/* Reads from bytes it does not own. After a short or impossible field every
 * further call returns zeros. */
struct dec {
	const uint8_t *p;
	size_t left;
	int rc; /* 0 or E_PROTOCOL, E_NOMEM */
};

void dec_init(struct dec *d, const void *p, size_t len);
uint8_t dec_u8(struct dec *d);
uint16_t dec_u16(struct dec *d);
uint32_t dec_u32(struct dec *d);
uint64_t dec_u64(struct dec *d);
int64_t dec_i64(struct dec *d);
/* `len` bytes, borrowed from the input; NULL when they are not there. */
const uint8_t *dec_raw(struct dec *d, size_t len);
/* A u32 length of at most `max`, then bytes, borrowed. */
const uint8_t *dec_bytes(struct dec *d, size_t max, size_t *len);
/* A heap string the caller frees, at most `max` bytes and without NUL bytes;
 * NULL where the sender had NULL or on error (see rc). */
char *dec_str(struct dec *d, size_t max);
/* As dec_str, but NULL from the sender is an error too. */
char *dec_str_needed(struct dec *d, size_t max);
/* 0 when everything was read and nothing is left; else E_PROTOCOL (trailing
 * bytes are malformed) with `what` in the text. */
int dec_end(struct dec *d, const char *what, struct err *e);

#endif
