/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshlist: a list of owned strings, and comma-separated names.
 */
#ifndef SSH_SSHLIST_H
#define SSH_SSHLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Zero-initialise; sshlist_fini frees. */
struct sshlist {
	char **v; /* owned strings */
	size_t n;
};

#define SSHLIST_MAX 1024

/* Append a copy of `text`. 0, E_NOMEM, or E_LIMIT past SSHLIST_MAX. */
int sshlist_add(struct sshlist *l, const char *text, struct err *e);

/* Append copies of all of `from`. */
int sshlist_add_all(struct sshlist *l, const struct sshlist *from,
		    struct err *e);

void sshlist_fini(struct sshlist *l);

/* Whether `name` is one of the comma-separated `names` (NULL: none). */
bool sshlist_has_name(const char *names, const char *name);

#endif
