/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probecand: lists of names to candidates and back. No state.
 */
#include "cipher/probecand.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cipher/namelist.h"
#include "cipher/table.h"

static bool
is_etm(const char *mac)
{
	const struct alg *a = table_find(ALG_MAC, mac);

	return a && a->etm;
}

/* What of our list the server has, in our order. */
static int
common(const char *ours, const char *theirs, struct namelist *out,
       struct err *e)
{
	cleanup(namelist_fini) struct namelist mine = { 0 };
	cleanup(namelist_fini) struct namelist other = { 0 };
	int rc = namelist_parse(&mine, ours, e);

	if (rc == 0 && theirs) {
		rc = namelist_parse(&other, theirs, e);
	}
	for (size_t i = 0; rc == 0 && i < mine.n; i++) {
		if (!theirs || namelist_has(&other, mine.names[i])) {
			rc = namelist_add(out, mine.names[i], e);
		}
	}
	return rc;
}

static int
add_with_macs(struct probe *p, const char *cipher, const struct namelist *macs,
	      bool etm_only, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < macs->n; i++) {
		bool etm = is_etm(macs->names[i]);

		if (etm || !etm_only) {
			rc = probe_add(p, cipher, macs->names[i], !etm, e);
		}
	}
	return rc;
}

int
probecand_fill(const struct offer *o, const char *srv_ciphers,
	       const char *srv_macs, struct probe *p, struct err *e)
{
	cleanup(namelist_fini) struct namelist ciphers = { 0 };
	cleanup(namelist_fini) struct namelist macs = { 0 };
	bool etm = false;
	int rc = common(o->ciphers_out, srv_ciphers, &ciphers, e);

	rc = rc < 0 ? rc : common(o->macs_out, srv_macs, &macs, e);
	for (size_t i = 0; i < macs.n; i++) {
		etm |= is_etm(macs.names[i]);
	}
	etm &= o->macs_by == OFFER_BY_DEFAULT;
	for (size_t i = 0; rc == 0 && i < ciphers.n; i++) {
		const char *name = ciphers.names[i];
		const struct alg *a = table_find(ALG_CIPHER, name);

		rc = a && a->needs_mac ? add_with_macs(p, name, &macs, etm, e)
				       : probe_add(p, name, NULL, false, e);
	}
	return rc;
}

static char *
put_first(const char *first, const char *list, struct err *e)
{
	cleanup(namelist_fini) struct namelist l = { 0 };

	if (namelist_add(&l, first, e) || namelist_parse(&l, list, e)) {
		return NULL;
	}
	return namelist_join(&l, e);
}

int
probecand_prefer(const struct offer *o, const struct probe_cand *c,
		 char **ciphers, char **macs, struct err *e)
{
	*ciphers = put_first(c->cipher, o->ciphers_out, e);
	*macs = !*ciphers ? NULL
		: c->mac  ? put_first(c->mac, o->macs_out, e)
			  : strdup(o->macs_out);
	if (!*macs) {
		free(*ciphers);
		*ciphers = NULL;
		return err_nomem(e);
	}
	return 0;
}

char *
probecand_config(const struct probe_cand *c, struct err *e)
{
	return c->mac ? io_asprintf(e, "Ciphers ^%s\nMACs ^%s", c->cipher,
				    c->mac)
		      : io_asprintf(e, "Ciphers ^%s", c->cipher);
}
