/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshconf_int: what sshconf_parse.c takes from sshconf_fields.c; for
 * sshconf*.c alone.
 */
#ifndef SSH_SSHCONF_INT_H
#define SSH_SSHCONF_INT_H

#include <stdbool.h>

#include "base/err.h"
#include "ssh/sshconf.h"
#include "ssh/sshtoken.h"

/*
 * Read the lines of `text` into `c`; of a keyword's lines the first counts, or
 * all for a list of files. `plain`: what ssh prints without a configuration
 * (see sshconf_parse), or NULL. With `names` NULL: all but the keywords whose
 * one line has several file names; else these alone, expanded with `names`,
 * which takes what the first reading brought. Other values are left
 * unexpanded. E_CONFIG naming the keyword, E_NOMEM.
 */
int sshconf_fields_read(struct sshconf *c, const char *text, const char *plain,
			const struct sshtoken *names, struct err *e);

/* Whether `text` (may be NULL) has the line "key value". */
bool sshconf_fields_said(const char *text, const char *key, const char *value);

/* Free the strings of the fields. */
void sshconf_fields_fini(struct sshconf *c);

#endif
