/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * offer_explain: says to a person why a negotiation found nothing. Input: our
 * list and what the server sent (hostile). Output: a heap text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "cipher/namelist.h"
#include "cipher/offer_int.h"

/* Shown length of a foreign name; a longer one is cut. */
#define SHOWN_MAX 80
/* NAMELIST_MAX names in both lists, with a reason of a line for each. */
#define TEXT_MAX (NAMELIST_MAX * 1024)

static bool
listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (*list) {
		size_t n = strcspn(list, ",");

		if (n == len && !memcmp(list, name, n)) {
			return true;
		}
		list += n + (list[n] == ',');
	}
	return false;
}

enum offer_verdict
offer_judge(const struct offer_ask *ask, enum alg_kind kind, const char *ours,
	    const char *name, char *why, size_t whylen)
{
	enum offer_verdict v;

	if (listed(ours, name)) {
		snprintf(why, whylen, "%s", "");
		return OFFER_YES;
	}
	v = offer_policy(ask, kind, name, why, whylen);
	if (v != OFFER_YES) {
		return v;
	}
	snprintf(why, whylen, "not in the list that was asked for");
	return OFFER_NOT_LISTED;
}

static int
put_list(struct buf *b, const char *head, const struct namelist *l,
	 struct err *e)
{
	char shown[SHOWN_MAX];
	int r = buf_printf(b, e, "\n  %s", head);

	for (size_t i = 0; !r && i < l->n; i++) {
		escape_bytes(shown, sizeof(shown), l->names[i],
			     strlen(l->names[i]));
		r = buf_printf(b, e, "%s%s", i ? ", " : " ", shown);
	}
	return r || l->n ? r : buf_printf(b, e, " nothing");
}

/* What would let us talk to this server, gathered while judging its list. */
struct remedy {
	struct namelist list;  /* could be listed */
	struct namelist allow; /* could be allowed */
};

/* A line for each name of the server that we leave out, and why. */
static int
put_verdicts(struct buf *b, const struct offer_ask *ask, enum alg_kind kind,
	     const char *ours, const struct namelist *theirs, struct remedy *m,
	     struct err *e)
{
	char why[512], shown[SHOWN_MAX];
	int r = 0;

	for (size_t i = 0; !r && i < theirs->n; i++) {
		const char *name = theirs->names[i];
		enum offer_verdict v =
			offer_judge(ask, kind, ours, name, why, sizeof(why));

		if (v == OFFER_YES) {
			continue; /* in common, so this is not what failed */
		}
		escape_bytes(shown, sizeof(shown), name, strlen(name));
		r = buf_printf(b, e, "\n  we leave out %s: %s", shown, why);
		if (!r && v == OFFER_NOT_LISTED) {
			r = namelist_add(&m->list, name, e);
		} else if (!r && v == OFFER_NEEDS_ALLOW) {
			r = namelist_add(&m->allow, name, e);
		}
	}
	return r;
}

/* AES rather than 3DES, else the server's first. */
static const char *
best_allowed(const struct namelist *l)
{
	for (size_t i = 0; i < l->n; i++) {
		if (table_find(ALG_CIPHER, l->names[i])->aes) {
			return l->names[i];
		}
	}
	return l->names[0];
}

static int
put_remedy(struct buf *b, const struct offer_ask *ask, enum alg_kind kind,
	   const struct namelist *ours, const struct remedy *m, struct err *e)
{
	const char *opt = kind == ALG_CIPHER ? "cipher" : "mac";
	bool own_list = ask->cipher || ask->ssh_cipher || ask->cfg_ciphers;

	if (m->list.n) {
		cleanup(free_ptr) char *names = namelist_join(&m->list, e);

		return names ? buf_printf(b, e,
					  "\n  to widen our list: --%s=%s", opt,
					  names)
			     : E_NOMEM;
	}
	if (m->allow.n) {
		const char *name = best_allowed(&m->allow);

		/* With a list of the user's, allowing is not yet naming. */
		return own_list
			       ? buf_printf(b, e,
					    "\n  to widen our list: --cipher=%s"
					    " --allow-cipher=%s",
					    name, name)
			       : buf_printf(b, e,
					    "\n  to widen our list: "
					    "--allow-cipher=%s",
					    name);
	}
	return buf_printf(b, e,
			  "\n  no option of ours helps; the server could be "
			  "made to offer one of ours with `%s +%s' in its "
			  "sshd_config",
			  kind == ALG_CIPHER ? "Ciphers" : "MACs",
			  ours->n ? ours->names[0] : "NAME");
}

/* Names of a list that may be too long: what fits. */
static int
parse_cut(struct namelist *l, const char *text, struct err *e)
{
	cleanup(free_ptr) char *cut = strndup(text, NAMELIST_BYTES_MAX);
	struct err ignored = { 0 };

	if (!cut) {
		return err_nomem(e);
	}
	if (namelist_parse(l, cut, &ignored) == E_NOMEM) {
		return err_nomem(e);
	}
	return 0;
}

static const char *
method_name(enum offer_method m)
{
	static const char *const names[] = {
		[OFFER_CIPHER_OUT] = "cipher (to the server)",
		[OFFER_CIPHER_IN] = "cipher (from the server)",
		[OFFER_MAC_OUT] = "MAC (to the server)",
		[OFFER_MAC_IN] = "MAC (from the server)",
		[OFFER_KEX] = "key exchange method",
		[OFFER_HOST_KEY] = "host key algorithm",
	};

	return names[m];
}

static int
explain(struct buf *b, const struct offer_ask *ask, enum offer_method method,
	const char *ours, const struct namelist *mine,
	const struct namelist *theirs, struct err *e)
{
	struct remedy m = { 0 };
	enum alg_kind kind = method <= OFFER_CIPHER_IN ? ALG_CIPHER : ALG_MAC;
	int r = buf_printf(b, e, "no %s in common", method_name(method));

	r = r ? r : put_list(b, "we offer, and the server lacks:", mine, e);
	r = r ? r : put_list(b, "the server offers:", theirs, e);
	if (!r && method < OFFER_KEX) {
		r = put_verdicts(b, ask, kind, ours, theirs, &m, e);
		r = r ? r : put_remedy(b, ask, kind, mine, &m, e);
	}
	namelist_fini(&m.list);
	namelist_fini(&m.allow);
	return r;
}

char *
offer_explain_no_match(const struct offer_ask *ask, enum offer_method method,
		       const char *ours, const char *theirs, struct err *e)
{
	cleanup(namelist_fini) struct namelist mine = { 0 };
	cleanup(namelist_fini) struct namelist other = { 0 };
	cleanup(buf_finip) struct buf b;
	char *text;

	buf_init(&b, TEXT_MAX);
	if (parse_cut(&mine, ours, e) || parse_cut(&other, theirs, e) ||
	    explain(&b, ask, method, ours, &mine, &other, e)) {
		return NULL;
	}
	text = buf_cstr(&b, e);
	text = text ? strdup(text) : NULL;
	if (!text) {
		err_nomem(e);
	}
	return text;
}
