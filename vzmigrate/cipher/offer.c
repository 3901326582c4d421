/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * offer: turns options, configuration, library and hardware into four lists.
 * Input: struct offer_ask, borrowed. Output: struct offer, the caller's.
 */
#include "cipher/offer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/io.h"
#include "cipher/namelist.h"
#include "cipher/offer_int.h"

/* One list being made. */
struct job {
	const struct offer_ask *ask;
	struct offer *o; /* takes the warnings */
	enum alg_kind kind;
	const char *text; /* the user's list, NULL for none */
	const char *from; /* where it is from, for messages */
	int code;	  /* error where nothing is left of it */
	enum offer_by by;
	struct namelist dflt; /* what would be offered without it */
	struct namelist list; /* the result */
	char first_why[512];  /* why the first name was left out */
	char needs_allow[NAMELIST_NAME_MAX + 1]; /* first such name, or "" */
};

static void
job_fini(struct job *j)
{
	namelist_fini(&j->dflt);
	namelist_fini(&j->list);
}

static int
warn(struct offer *o, struct err *e, const char *from, const char *name,
     const char *why)
{
	char shown[4 * NAMELIST_NAME_MAX];
	char **grown =
		realloc(o->warnings, (o->nwarnings + 1) * sizeof(*grown));
	char *text;

	if (!grown) {
		return err_nomem(e);
	}
	o->warnings = grown;
	escape_bytes(shown, sizeof(shown), name, strlen(name));
	text = io_asprintf(e, "%s: %s is left out: %s", from, shown, why);
	if (!text) {
		return E_NOMEM;
	}
	o->warnings[o->nwarnings++] = text;
	return 0;
}

static bool
allowed(const struct offer_ask *ask, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < ask->nallow; i++) {
		const char *p = ask->allow[i];

		while (*p) {
			size_t n = strcspn(p, ",");

			if (n == len && !memcmp(p, name, n)) {
				return true;
			}
			p += n + (p[n] == ',');
		}
	}
	return false;
}

enum offer_verdict
offer_policy(const struct offer_ask *ask, enum alg_kind kind, const char *name,
	     char *why, size_t whylen)
{
	const struct alg *a;

	if (strpbrk(name, "*?!")) {
		snprintf(why, whylen, "wildcards only work after '-'");
		return OFFER_UNKNOWN;
	}
	a = namelist_valid(name) ? table_find(kind, name) : NULL;
	if (!a) {
		snprintf(why, whylen, "no %s of this name is known",
			 kind == ALG_CIPHER ? "cipher" : "MAC");
		return OFFER_UNKNOWN;
	}
	if (a->status == ALG_REMOVED) {
		snprintf(why, whylen, "%s", a->note);
		return OFFER_REMOVED;
	}
	if (!ask->lib_has(name, ask->lib_arg)) {
		snprintf(why, whylen, "the SSH library here does not have it");
		return OFFER_NO_LIBRARY;
	}
	if (a->status == ALG_BY_NAME && kind == ALG_CIPHER &&
	    !allowed(ask, name)) {
		snprintf(why, whylen, "%s; --allow-cipher=%s would offer it",
			 a->note, name);
		return OFFER_NEEDS_ALLOW;
	}
	snprintf(why, whylen, "%s", "");
	return OFFER_YES;
}

/* Add the safe rows of a family to the default list; for AEAD only those with
 * `aes`, so that the caller orders them by hardware. */
static int
add_safe(struct job *j, enum alg_family family, bool aes, struct err *e)
{
	const struct alg *a;

	for (size_t i = 0; (a = table_at(i)); i++) {
		int r = 0;

		if (a->kind == j->kind && a->status == ALG_SAFE &&
		    a->family == family && a->aes == aes &&
		    j->ask->lib_has(a->name, j->ask->lib_arg)) {
			r = namelist_add(&j->dflt, a->name, e);
		}
		if (r) {
			return r;
		}
	}
	return 0;
}

/* Check --allow-cipher and add its names at the end. */
static int
add_allowed(struct job *j, struct err *e)
{
	cleanup(namelist_fini) struct namelist l = { 0 };
	char why[512], shown[4 * NAMELIST_NAME_MAX];
	int r = 0;

	for (size_t i = 0; !r && i < j->ask->nallow; i++) {
		r = namelist_parse(&l, j->ask->allow[i], e);
	}
	for (size_t i = 0; !r && i < l.n; i++) {
		if (offer_policy(j->ask, ALG_CIPHER, l.names[i], why,
				 sizeof(why)) != OFFER_YES) {
			escape_bytes(shown, sizeof(shown), l.names[i],
				     strlen(l.names[i]));
			return err_set(e, E_USAGE, "--allow-cipher=%s: %s",
				       shown,
				       strpbrk(l.names[i], "*?!")
					       ? "ciphers must be named one by "
						 "one"
					       : why);
		}
		r = namelist_add(&j->dflt, l.names[i], e);
	}
	return r;
}

static int
make_default(struct job *j, struct err *e)
{
	bool aes_first = j->ask->here != HW_NO && j->ask->there != HW_NO;
	int r;

	if (j->kind == ALG_MAC) {
		/* The table's order has all -etm first. */
		r = add_safe(j, ALG_HMAC, false, e);
	} else {
		r = add_safe(j, ALG_AEAD, aes_first, e);
		r = r ? r : add_safe(j, ALG_AEAD, !aes_first, e);
		r = r ? r : add_safe(j, ALG_CTR, true, e);
		r = r ? r : add_allowed(j, e);
	}
	if (!r && !j->dflt.n) {
		r = err_set(e, E_UNSUPPORTED,
			    "the SSH library here has no safe %s",
			    j->kind == ALG_CIPHER ? "cipher" : "MAC");
	}
	return r;
}

/* Put the usable names of `text` into `kept`; warn about the others. */
static int
sift(struct job *j, const char *text, struct namelist *kept, struct err *e)
{
	cleanup(namelist_fini) struct namelist asked = { 0 };
	char why[512];
	int r = namelist_parse(&asked, text, e);

	for (size_t i = 0; !r && i < asked.n; i++) {
		const char *name = asked.names[i];
		enum offer_verdict v =
			offer_policy(j->ask, j->kind, name, why, sizeof(why));

		if (v == OFFER_YES) {
			r = namelist_add(kept, name, e);
			continue;
		}
		if (!j->first_why[0]) {
			char shown[4 * NAMELIST_NAME_MAX];

			escape_bytes(shown, sizeof(shown), name, strlen(name));
			snprintf(j->first_why, sizeof(j->first_why),
				 "%.80s: %.400s", shown, why);
		}
		if (v == OFFER_NEEDS_ALLOW && !j->needs_allow[0]) {
			snprintf(j->needs_allow, sizeof(j->needs_allow), "%s",
				 name);
		}
		r = warn(j->o, e, j->from, name, why);
	}
	return r;
}

static int
append_all(struct namelist *to, const struct namelist *from, struct err *e)
{
	int r = 0;

	for (size_t i = 0; !r && i < from->n; i++) {
		r = namelist_add(to, from->names[i], e);
	}
	return r;
}

/* The default list without what matches; `!pattern` protects, as in
 * ssh_config(5) PATTERNS. */
static int
subtract(struct job *j, const char *text, struct err *e)
{
	cleanup(namelist_fini) struct namelist pats = { 0 };
	int r = namelist_parse(&pats, text, e);

	for (size_t i = 0; !r && i < j->dflt.n; i++) {
		const char *name = j->dflt.names[i];
		bool hit = false, spared = false;

		for (size_t k = 0; k < pats.n; k++) {
			const char *p = pats.names[k];

			if (*p == '!') {
				spared |= namelist_glob(p + 1, name);
			} else {
				hit |= namelist_glob(p, name);
			}
		}
		if (!hit || spared) {
			r = namelist_add(&j->list, name, e);
		}
	}
	return r;
}

static int
apply(struct job *j, struct err *e)
{
	int r;

	if (!j->text) {
		return append_all(&j->list, &j->dflt, e);
	}
	switch (j->text[0]) {
	case '-':
		return subtract(j, j->text + 1, e);
	case '+':
		r = append_all(&j->list, &j->dflt, e);
		return r ? r : sift(j, j->text + 1, &j->list, e);
	case '^':
		r = sift(j, j->text + 1, &j->list, e);
		return r ? r : append_all(&j->list, &j->dflt, e);
	default:
		return sift(j, j->text, &j->list, e);
	}
}

static int
nothing_left(struct job *j, struct err *e)
{
	const char *what = j->kind == ALG_CIPHER ? "cipher" : "MAC";
	cleanup(free_ptr) char *can = namelist_join(&j->dflt, e);
	char shown[512];

	if (!can) {
		return E_NOMEM;
	}
	escape_bytes(shown, sizeof(shown), j->text, strlen(j->text));
	if (j->needs_allow[0]) {
		return err_set(e, j->code,
			       "%s (%s) leaves no cipher to offer: %s needs "
			       "--allow-cipher=%s; without it --cipher could "
			       "name any of %s",
			       j->from, shown, j->needs_allow, j->needs_allow,
			       can);
	}
	return err_set(e, j->code,
		       "%s (%s) leaves no %s to offer%s%s; --%s could name "
		       "any of %s",
		       j->from, shown, what, j->first_why[0] ? ": " : "",
		       j->first_why, j->kind == ALG_CIPHER ? "cipher" : "mac",
		       can);
}

/* First given decides, as in ssh. */
static void
choose_source(struct job *j)
{
	const struct offer_ask *a = j->ask;
	bool c = j->kind == ALG_CIPHER;
	const char *opt = c ? a->cipher : a->mac;
	const char *ssh = c ? a->ssh_cipher : a->ssh_mac;
	const char *cfg = c ? a->cfg_ciphers : a->cfg_macs;

	j->code = E_USAGE;
	if (opt) {
		j->text = opt;
		j->from = c ? "--cipher" : "--mac";
		j->by = OFFER_BY_OPTION;
	} else if (ssh) {
		j->text = ssh;
		j->from = c ? "the cipher list in --ssh"
			    : "the MAC list in --ssh";
		j->by = OFFER_BY_SSH_OPTION;
	} else if (cfg) {
		j->text = cfg;
		j->from = c ? "Ciphers in the ssh configuration"
			    : "MACs in the ssh configuration";
		j->by = OFFER_BY_CONFIG;
		j->code = E_CONFIG;
	} else {
		/* Where the processor is not known, the order follows none. */
		j->by = c && (a->here != HW_UNKNOWN || a->there != HW_UNKNOWN)
				? OFFER_BY_HARDWARE
				: OFFER_BY_DEFAULT;
	}
}

static int
job_run(struct job *j, struct err *e)
{
	int r;

	choose_source(j);
	r = make_default(j, e);
	return r ? r : apply(j, e);
}

static bool
is_gcm(const struct alg *a)
{
	return a->family == ALG_AEAD && a->aes;
}

/* The return direction: what is safe and not GCM goes first. CBC stays behind
 * GCM unless the user put it before. */
static char *
return_order(const struct namelist *l, struct err *e)
{
	cleanup(namelist_fini) struct namelist in = { 0 };

	for (int late = 0; late < 2; late++) {
		for (size_t i = 0; i < l->n; i++) {
			const struct alg *a =
				table_find(ALG_CIPHER, l->names[i]);
			int is_late = is_gcm(a) || a->status != ALG_SAFE;

			if (is_late == late &&
			    namelist_add(&in, l->names[i], e)) {
				return NULL;
			}
		}
	}
	return namelist_join(&in, e);
}

/* No MAC is left of the user's: what needs none can still be used. */
static int
without_macs(struct job *ciphers, struct job *macs, struct err *e)
{
	struct namelist aead = { 0 };
	int r = 0;

	for (size_t i = 0; !r && i < ciphers->list.n; i++) {
		const char *name = ciphers->list.names[i];

		if (!table_find(ALG_CIPHER, name)->needs_mac) {
			r = namelist_add(&aead, name, e);
			continue;
		}
		r = warn(ciphers->o, e, macs->from, name,
			 "it needs a MAC and none is left");
	}
	if (!r && !aead.n) {
		r = nothing_left(macs, e);
	}
	namelist_fini(&ciphers->list);
	ciphers->list = aead;
	/* The library wants a list; an AEAD cipher ignores it. */
	return r ? r : append_all(&macs->list, &macs->dflt, e);
}

static int
store(struct offer *o, const struct job *c, const struct job *m, struct err *e)
{
	o->ciphers_by = c->by;
	o->macs_by = m->by;
	o->ciphers_out = namelist_join(&c->list, e);
	o->ciphers_in = return_order(&c->list, e);
	o->macs_out = namelist_join(&m->list, e);
	o->macs_in = namelist_join(&m->list, e);
	return o->ciphers_out && o->ciphers_in && o->macs_out && o->macs_in
		       ? 0
		       : E_NOMEM;
}

int
offer_build(const struct offer_ask *ask, struct offer *o, struct err *e)
{
	cleanup(job_fini) struct job c = { .ask = ask,
					   .o = o,
					   .kind = ALG_CIPHER };
	cleanup(job_fini) struct job m = { .ask = ask,
					   .o = o,
					   .kind = ALG_MAC };
	int r;

	*o = (struct offer){ 0 };
	r = job_run(&c, e);
	if (!r && !c.list.n) {
		r = nothing_left(&c, e);
	}
	if (!r) {
		r = job_run(&m, e);
	}
	if (!r && !m.list.n) {
		r = without_macs(&c, &m, e);
	}
	return r ? r : store(o, &c, &m, e);
}

void
offer_fini(struct offer *o)
{
	free(o->ciphers_out);
	free(o->ciphers_in);
	free(o->macs_out);
	free(o->macs_in);
	for (size_t i = 0; i < o->nwarnings; i++) {
		free(o->warnings[i]);
	}
	free(o->warnings);
	*o = (struct offer){ 0 };
}

const char *
offer_by_name(enum offer_by by)
{
	static const char *const names[] = {
		[OFFER_BY_DEFAULT] = "default",
		[OFFER_BY_HARDWARE] = "hardware",
		[OFFER_BY_CONFIG] = "ssh configuration",
		[OFFER_BY_SSH_OPTION] = "ssh option",
		[OFFER_BY_OPTION] = "option",
		[OFFER_BY_PROBE] = "probe",
	};

	return (size_t)by < sizeof(names) / sizeof(names[0]) ? names[by]
							     : "unknown";
}
