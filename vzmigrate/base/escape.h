/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * escape: bytes from a tenant or a peer, made safe to show.
 */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include <stddef.h>

/*
 * Write `len` bytes at `bytes` into `out` (at most outlen - 1 characters and
 * a NUL): printable ASCII and valid UTF-8 above it stay, a backslash becomes
 * two, \n \r \t get their letters, all else becomes \xNN. What does not fit
 * is cut at an escape's border and ends in "...". Returns out.
 */
char *escape_bytes(char *out, size_t outlen, const void *bytes, size_t len);

/* As escape_bytes for a C string, but a backslash stays single: for texts
 * that may have been escaped already. */
char *escape_text(char *out, size_t outlen, const char *text);

#endif
