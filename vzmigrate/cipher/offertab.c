/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * offertab: joins table.h, our offer and a server's lists (hostile) to rows.
 * State: the caller's struct offertab.
 */
#include "cipher/offertab.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "cipher/namelist.h"

#define SHOWN_MAX 72
#define TEXT_MAX (4 * NAMELIST_MAX * 1024)

/* What all rows are judged by. */
struct judge {
	const struct offer_ask *ask;
	enum alg_kind kind;
	const char *ours;
	struct namelist theirs;
};

/* Grows by one row; those after an error are never looked at. */
static int
add(struct offertab *t, const struct judge *j, const char *name, struct err *e)
{
	struct offertab_row *r =
		realloc(t->rows, (t->n + 1) * sizeof(*t->rows));
	char why[512], shown[SHOWN_MAX];

	if (!r) {
		return err_nomem(e);
	}
	t->rows = r;
	r = &t->rows[t->n];
	*r = (struct offertab_row){ .kind = j->kind,
				    .alg = table_find(j->kind, name) };
	r->server = namelist_has(&j->theirs, name);
	r->here = r->alg && j->ask->lib_has(name, j->ask->lib_arg);
	r->verdict =
		offer_judge(j->ask, j->kind, j->ours, name, why, sizeof(why));
	r->name =
		strdup(escape_bytes(shown, sizeof(shown), name, strlen(name)));
	r->why = strdup(why);
	t->n++;
	return r->name && r->why ? 0 : err_nomem(e);
}

/* Rows of our table that somebody has or once had, then what else the server
 * has. */
static int
add_kind(struct offertab *t, const struct judge *j, struct err *e)
{
	const struct alg *a;
	int rc = 0;

	for (size_t i = 0; rc == 0 && (a = table_at(i)); i++) {
		if (a->kind == j->kind) {
			rc = add(t, j, a->name, e);
		}
	}
	for (size_t i = 0; rc == 0 && i < j->theirs.n; i++) {
		if (!table_find(j->kind, j->theirs.names[i])) {
			rc = add(t, j, j->theirs.names[i], e);
		}
	}
	return rc;
}

int
offertab_fill(struct offertab *t, const struct offer_ask *ask,
	      const struct offer *o, const char *srv_ciphers,
	      const char *srv_macs, struct err *e)
{
	const char *lists[] = { srv_ciphers, srv_macs };
	int rc = 0;

	*t = (struct offertab){ 0 };
	for (int k = 0; rc == 0 && k < 2; k++) {
		struct judge j = { .ask = ask,
				   .kind = k ? ALG_MAC : ALG_CIPHER,
				   .ours = k ? o->macs_out : o->ciphers_out };
		struct err ignored = { 0 };

		if (lists[k] &&
		    namelist_parse(&j.theirs, lists[k], &ignored) == E_NOMEM) {
			rc = err_nomem(e);
		}
		rc = rc < 0 ? rc : add_kind(t, &j, e);
		namelist_fini(&j.theirs);
	}
	if (rc < 0) {
		offertab_fini(t);
	}
	return rc;
}

const char *
offertab_verdict(enum offer_verdict v)
{
	static const char *const names[] = {
		[OFFER_YES] = "offered",
		[OFFER_NOT_LISTED] = "not listed",
		[OFFER_NEEDS_ALLOW] = "needs --allow-cipher",
		[OFFER_NO_LIBRARY] = "no library",
		[OFFER_REMOVED] = "removed",
		[OFFER_UNKNOWN] = "unknown",
	};

	return names[v];
}

static const char *
mark(bool yes)
{
	return yes ? "yes" : "-";
}

char *
offertab_text(const struct offertab *t, struct err *e)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(TEXT_MAX);
	int kind = -1, rc = 0;
	char *text;

	for (size_t i = 0; rc == 0 && i < t->n; i++) {
		const struct offertab_row *r = &t->rows[i];

		if ((int)r->kind != kind) {
			kind = (int)r->kind;
			rc = buf_printf(&b, e, "%-30s %-6s %-4s %s\n",
					kind == ALG_MAC ? "MAC" : "cipher",
					"server", "here", "policy");
		}
		rc = rc < 0 ? rc
			    : buf_printf(&b, e, "%-30s %-6s %-4s %s%s%s\n",
					 r->name, mark(r->server),
					 mark(r->here),
					 offertab_verdict(r->verdict),
					 *r->why ? ": " : "", r->why);
	}
	text = rc < 0 ? NULL : buf_cstr(&b, e);
	text = text ? strdup(text) : NULL;
	if (!text) {
		err_nomem(e);
	}
	return text;
}

void
offertab_fini(struct offertab *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->rows[i].name);
		free(t->rows[i].why);
	}
	free(t->rows);
	*t = (struct offertab){ 0 };
}
