/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shconf: files of shell assignments (vz.conf, CTID.conf), read without a
 * shell. Only $VEID and ${VEID} are expanded; a value that would need
 * anything else of a shell is known as such and refused where it is used.
 */
#ifndef CT_SHCONF_H
#define CT_SHCONF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/*
 * The value of `key`, unquoted, $VEID replaced by `veid` (NULL: left as it
 * is). Returns 1 with a heap string, 0 where it is not set, E_CONFIG where it
 * is set twice to different values (vzctl takes the first, shell scripts the
 * last), is followed by text that vzctl takes for a part of it, needs a
 * shell, lacks a quote, goes on in the next line for a shell alone, or the
 * text has a NUL byte. `name` is
 * for errors.
 */
int shconf_get(const char *text, size_t len, const char *name, const char *key,
	       const char *veid, char **value, struct err *e);

/* One change of shconf_edit: every assignment of `key` goes; with a `value`
 * it is set in the place of the first, or at the end. */
struct shconf_edit {
	const char *key;
	const char *value; /* NULL: remove; else free of " \ $ ` and controls */
};

/* Append the edited text to `out`; all other lines stay bytewise. */
int shconf_edit(const char *text, size_t len, const struct shconf_edit *edits,
		size_t n, struct buf *out, struct err *e);

/* Whether `s` may be written between double quotes as it is. */
bool shconf_plain(const char *s);

#endif
