/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * frame: the envelope of everything on a stream after the greeting
 * (PROTOCOL.md, "Frames").
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What this program speaks. A peer with another number is refused. */
#define FRAME_PROTO 1

/* The greeting: a line feed, this word, and the rest of the line (version and
 * capability bits). The \x01 keeps a shell's chatter from imitating it. */
#define FRAME_MAGIC "\n\001VZMIGRATE-AGENT\001 "
#define FRAME_GREETING_MAX 128	  /* bytes of the line after the magic */
#define FRAME_NOISE_MAX (1 << 16) /* bytes skipped in front of it */

/* Capability bits in the greeting and in HELLO. */
enum frame_cap {
	FRAME_CAP_ZSTD = 1 << 0,    /* content may be compressed */
	FRAME_CAP_STREAMS = 1 << 1, /* JOIN works */
	FRAME_CAP_SINK = 1 << 2,    /* SINK frames are counted and dropped */
};

#define FRAME_HEADER 8
#define FRAME_PAYLOAD_MAX (1u << 20)

enum frame_type {
	FRAME_KEEPALIVE = 1, /* both: empty; the other end is alive */
	FRAME_LOG = 2,	     /* agent: u8 level, text */
	FRAME_REQUEST = 3,   /* client: u32 id, u16 method, body */
	FRAME_REPLY = 4,     /* agent: u32 id, u32 code, text, body */
	FRAME_BATCH = 5,     /* client: tree records */
	FRAME_CHUNK = 6,     /* client: a piece of a large file */
	FRAME_ACK = 7,	     /* agent: u64 content frames finished */
	FRAME_FAULT = 8,     /* agent: u32 code, text: the copy failed there */
	FRAME_GOODBYE = 9,   /* client: the end is wanted */
	FRAME_SINK = 10,     /* client: bytes to count and drop */
};

/* Content is compressed: a BATCH's body, a CHUNK's bytes (xfer/zframe.h). */
#define FRAME_F_ZSTD 1

struct frame_header {
	uint32_t len; /* payload bytes, at most FRAME_PAYLOAD_MAX */
	uint8_t type; /* enum frame_type */
	uint8_t flags;
};

void frame_put_header(uint8_t out[FRAME_HEADER], const struct frame_header *h);

/* 0, or E_PROTOCOL for an unknown type, flag, or too long a payload. */
int frame_get_header(const uint8_t in[FRAME_HEADER], struct frame_header *h,
		     struct err *e);

/*
 * Look for the greeting in the first bytes of a stream. 1: found, *used bytes
 * are to be dropped, of which the first *noise were in front of the greeting,
 * and *proto, *caps are filled; 0: incomplete, more bytes are needed;
 * E_PROTOCOL: FRAME_NOISE_MAX bytes without it, or a malformed line.
 */
int frame_find_greeting(const uint8_t *data, size_t len, size_t *noise,
			size_t *used, uint32_t *proto, uint32_t *caps,
			struct err *e);

/* The greeting line into `out`; returns its length. */
size_t frame_put_greeting(char out[FRAME_GREETING_MAX], uint32_t caps);

#endif
