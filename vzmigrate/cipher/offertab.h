/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * offertab: the table of every cipher and MAC that either side knows: who has
 * it, whether policy allows it, and why not.
 */
#ifndef CIPHER_OFFERTAB_H
#define CIPHER_OFFERTAB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cipher/offer.h"

struct offertab_row {
	char *name; /* escaped where the server made it up; owned */
	enum alg_kind kind;
	const struct alg *alg; /* NULL: not in our table */
	bool server, here;     /* who has it; here: the SSH library */
	enum offer_verdict verdict;
	char *why; /* owned; "" for OFFER_YES */
};

/* Zero-initialise; offertab_fini frees. */
struct offertab {
	struct offertab_row *rows; /* owned; ciphers first */
	size_t n;
};

/*
 * From our offer, what it was built from, and the server's lists (for both
 * directions; each may be NULL). Names that only the world's scripts still
 * have (blowfish-cbc, arcfour ...) are there, too, with their sentence. What
 * the server made up is cut at NAMELIST_MAX names. 0 or E_NOMEM.
 */
int offertab_fill(struct offertab *t, const struct offer_ask *ask,
		  const struct offer *o, const char *srv_ciphers,
		  const char *srv_macs, struct err *e);

/* As text, lines with \n; owned, NULL with E_NOMEM. */
char *offertab_text(const struct offertab *t, struct err *e);

/* "offered", "not listed", "needs --allow-cipher", "no library", "removed",
 * "unknown". */
const char *offertab_verdict(enum offer_verdict v);

void offertab_fini(struct offertab *t);

#endif
