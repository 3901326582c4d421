/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * escape: makes foreign bytes showable on a terminal and in a log line.
 */
#include "base/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Length of the valid UTF-8 sequence at p (RFC 3629), or 0. C1 controls
 * (U+0080 to U+009F) count as invalid: some terminals act on them. */
static size_t
utf8_len(const uint8_t *p, size_t left)
{
	size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;

	if (p[0] < 0xc2 || p[0] > 0xf4 || left < n) {
		return 0;
	}
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	if ((p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xe0 && p[1] < 0xa0) ||
	    (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f)) {
		return 0;
	}
	return n;
}

/* One input position into `tmp` (at least 5 bytes). Returns input consumed,
 * *n output made. */
static size_t
escape_one(char *tmp, size_t *n, const uint8_t *p, size_t left, bool bs)
{
	static const char hex[] = "0123456789abcdef";
	size_t u;

	tmp[0] = '\\';
	*n = 2;
	if (*p == '\n' || *p == '\r' || *p == '\t') {
		tmp[1] = *p == '\n' ? 'n' : *p == '\r' ? 'r' : 't';
		return 1;
	}
	if (*p == '\\' && bs) {
		tmp[1] = '\\';
		return 1;
	}
	if (*p >= 0x20 && *p < 0x7f) {
		tmp[0] = (char)*p;
		*n = 1;
		return 1;
	}
	u = *p >= 0x80 ? utf8_len(p, left) : 0;
	if (u) {
		memcpy(tmp, p, u);
		*n = u;
		return u;
	}
	tmp[1] = 'x';
	tmp[2] = hex[*p >> 4];
	tmp[3] = hex[*p & 15];
	*n = 4;
	return 1;
}

static char *
escape(char *out, size_t outlen, const uint8_t *p, size_t len, bool bs)
{
	size_t o = 0, safe = 0;

	if (!outlen) {
		return out;
	}
	while (len) {
		char tmp[8];
		size_t n, used = escape_one(tmp, &n, p, len, bs);

		if (o + n >= outlen) {
			/* `safe` is the last border with room for "..." */
			size_t dots = outlen - 1 - safe;

			dots = dots > 3 ? 3 : dots;
			memset(out + safe, '.', dots);
			o = safe + dots;
			break;
		}
		memcpy(out + o, tmp, n);
		o += n;
		if (o + 3 < outlen) {
			safe = o;
		}
		p += used;
		len -= used;
	}
	out[o] = '\0';
	return out;
}

char *
escape_bytes(char *out, size_t outlen, const void *bytes, size_t len)
{
	return escape(out, outlen, bytes, len, true);
}

char *
escape_text(char *out, size_t outlen, const char *text)
{
	return escape(out, outlen, (const uint8_t *)text, strlen(text), false);
}
