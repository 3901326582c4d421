/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * frame: header and greeting, to and from bytes. No state, no I/O.
 */
#include "wire/frame.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
frame_put_header(uint8_t out[FRAME_HEADER], const struct frame_header *h)
{
	uint32_t len = htole32(h->len);

	memcpy(out, &len, 4);
	out[4] = h->type;
	out[5] = h->flags;
	out[6] = 0;
	out[7] = 0;
}

int
frame_get_header(const uint8_t in[FRAME_HEADER], struct frame_header *h,
		 struct err *e)
{
	uint32_t len;

	memcpy(&len, in, 4);
	h->len = le32toh(len);
	h->type = in[4];
	h->flags = in[5];
	if (h->type < FRAME_KEEPALIVE || h->type > FRAME_SINK) {
		return err_set(e, E_PROTOCOL, "frame of unknown type %u",
			       h->type);
	}
	if ((h->flags & ~FRAME_F_ZSTD) || in[6] || in[7]) {
		return err_set(e, E_PROTOCOL,
			       "frame of type %u with unknown flags", h->type);
	}
	if (h->len > FRAME_PAYLOAD_MAX) {
		return err_set(e, E_PROTOCOL,
			       "frame of type %u with %u bytes, limit %u",
			       h->type, h->len, FRAME_PAYLOAD_MAX);
	}
	return 0;
}

static int
parse_greeting(const char *line, uint32_t *proto, uint32_t *caps)
{
	unsigned p, c;
	int end = 0;

	if (sscanf(line, "proto=%u caps=%x%n", &p, &c, &end) != 2 || !end ||
	    line[end] != '\0') {
		return -1;
	}
	*proto = p;
	*caps = c;
	return 0;
}

int
frame_find_greeting(const uint8_t *data, size_t len, size_t *noise,
		    size_t *used, uint32_t *proto, uint32_t *caps,
		    struct err *e)
{
	size_t mlen = sizeof(FRAME_MAGIC) - 1;
	const uint8_t *at = len ? memmem(data, len, FRAME_MAGIC, mlen) : NULL;
	const uint8_t *nl;
	char line[FRAME_GREETING_MAX + 1];
	size_t left, n;

	if (!at) {
		if (len > FRAME_NOISE_MAX) {
			return err_set(e, E_PROTOCOL,
				       "no greeting in the first %zu bytes",
				       len);
		}
		return 0;
	}
	*noise = (size_t)(at - data);
	left = len - *noise - mlen;
	nl = memchr(at + mlen, '\n',
		    left < FRAME_GREETING_MAX ? left : FRAME_GREETING_MAX);
	if (!nl) {
		if (left >= FRAME_GREETING_MAX) {
			return err_set(e, E_PROTOCOL, "malformed greeting");
		}
		return 0;
	}
	n = (size_t)(nl - at) - mlen;
	memcpy(line, at + mlen, n);
	line[n] = '\0';
	if (memchr(line, '\0', n) || parse_greeting(line, proto, caps) < 0) {
		return err_set(e, E_PROTOCOL, "malformed greeting");
	}
	*used = (size_t)(nl - data) + 1;
	return 1;
}

size_t
frame_put_greeting(char out[FRAME_GREETING_MAX], uint32_t caps)
{
	return (size_t)snprintf(out, FRAME_GREETING_MAX,
				FRAME_MAGIC "proto=%u caps=%x\n", FRAME_PROTO,
				caps);
}
