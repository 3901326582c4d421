/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * namelist: comma-separated lists of algorithm names (RFC 4251 section 5), as
 * they come from options, configuration files and servers.
 */
#ifndef CIPHER_NAMELIST_H
#define CIPHER_NAMELIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define NAMELIST_MAX 256	 /* names in a list */
#define NAMELIST_BYTES_MAX 65536 /* length of a list's text */
#define NAMELIST_NAME_MAX 64	 /* RFC 4251 section 6 */

/* Owned by whoever declares it. Zero-initialise. */
struct namelist {
	char **names; /* owned, as is each name */
	size_t n;
};

/* Split `text` at commas and append what is not there yet, as ssh does: empty
 * elements and repetitions are dropped. Any other bytes are kept. 0, E_LIMIT
 * or E_NOMEM; on error the list holds what had fitted. */
int namelist_parse(struct namelist *l, const char *text, struct err *e);

/* Append a copy of `name` unless it is there. 0, E_LIMIT or E_NOMEM. */
int namelist_add(struct namelist *l, const char *name, struct err *e);

/* Whether `name` is there, byte for byte. `l` may be empty. */
bool namelist_has(const struct namelist *l, const char *name);

/* The names with commas between, a heap string the caller frees ("" for none);
 * NULL with E_NOMEM. */
char *namelist_join(const struct namelist *l, struct err *e);

/* Free everything; the list is empty again. Also for cleanup(). */
void namelist_fini(struct namelist *l);

/* Whether a name is 1 to 64 printable ASCII characters without blank and comma
 * (RFC 4251 section 6). */
bool namelist_valid(const char *name);

/* Whether `name` matches `pattern`, where * stands for any bytes and ? for
 * one, as in ssh_config(5) PATTERNS. Time is at most quadratic. */
bool namelist_glob(const char *pattern, const char *name);

#endif
