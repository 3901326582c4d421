/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probetell: text and JSON of a probe. No state.
 */
#include "cipher/probetell.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cipher/probecand.h"
#include "cipher/stats.h"

#define TEXT_MAX (1 << 20)
#define BAR_CELLS 16
#define LEVEL 0.95

/* A candidate's line, worked out. */
struct row {
	double rate; /* NAN: not measured */
	struct stats_interval i;
	double here, there;
};

static struct row
row_of(const struct probe *p, size_t i)
{
	const struct probe_cand *c = &p->cands[i];
	struct row r = { .rate = probe_rate(p, i),
			 .here = probe_cpu_here(p, i),
			 .there = probe_cpu_there(p, i) };

	if (!c->rounds || c->state == PROBE_GIVEN_UP ||
	    stats_median_interval(c->rate, c->rounds, LEVEL, &r.i, NULL) < 0) {
		r.rate = NAN;
	}
	return r;
}

/* ---- text ---- */

/* The part that tells names apart: all vendors' names end alike. */
static void
short_name(const struct probe_cand *c, char out[96])
{
	static const char tail[] = "@openssh.com";
	size_t n = 0;

	for (const char *p = c->name; *p && n < 95;) {
		if (strncmp(p, tail, sizeof(tail) - 1) == 0) {
			p += sizeof(tail) - 1;
		} else {
			out[n++] = *p++;
		}
	}
	out[n] = '\0';
}

/* `share` of BAR_CELLS, padded with blanks. */
static void
bar(char out[BAR_CELLS * 3 + 1], double share, bool utf8)
{
	static const char *const eighths[] = { "",  "▏", "▎", "▍",
					       "▌", "▋", "▊", "▉" };
	int part = (int)(share * BAR_CELLS * 8 + 0.5), cells = 0;
	char *o = out;

	part = part < 1 ? 1 : part > BAR_CELLS * 8 ? BAR_CELLS * 8 : part;
	if (!utf8) {
		part = (part + 7) / 8 * 8;
	}
	for (; part >= 8; part -= 8, cells++) {
		o = stpcpy(o, utf8 ? "█" : "#");
	}
	if (part) {
		o = stpcpy(o, eighths[part]);
		cells++;
	}
	for (; cells < BAR_CELLS; cells++) {
		*o++ = ' ';
	}
	*o = '\0';
}

/* "0.52", or "?" */
static const char *
cpu(char out[16], double v)
{
	unsigned hundredths;

	if (isnan(v) || v < 0 || v > 9999) {
		return "?";
	}
	hundredths = (unsigned)(v * 100 + 0.5);
	snprintf(out, 16, "%u.%02u", hundredths / 100, hundredths % 100);
	return out;
}

/* Widest name, highest rate, and the lowest coverage of an interval. */
static void
measure_table(const struct probe *p, int *width, double *top, double *coverage)
{
	*width = 10;
	*top = 0;
	*coverage = 1;
	for (size_t i = 0; i < p->n; i++) {
		struct row r = row_of(p, i);
		char name[96];

		short_name(&p->cands[i], name);
		*width =
			(int)strlen(name) > *width ? (int)strlen(name) : *width;
		if (!isnan(r.rate)) {
			*top = r.rate > *top ? r.rate : *top;
			*coverage = r.i.coverage < *coverage ? r.i.coverage
							     : *coverage;
		}
	}
}

static int
put_cand(struct buf *b, const struct probetell *t, size_t i, int width,
	 double top, bool utf8, struct err *e)
{
	const struct probe_cand *c = &t->probe->cands[i];
	struct row r = row_of(t->probe, i);
	char name[96], cells[BAR_CELLS * 3 + 1], here[16], there[16], iv[64];
	bool pick = !t->error && t->probe->decision.pick == i;

	short_name(c, name);
	if (isnan(r.rate)) {
		return buf_printf(b, e, "  %-*s %s%s\n", width, name,
				  c->state == PROBE_GIVEN_UP ? "given up: "
							     : "",
				  *c->why ? c->why : "not measured");
	}
	bar(cells, r.rate / top, utf8);
	snprintf(iv, sizeof(iv), "(%.*f-%.*f)", top < 20, r.i.lo, top < 20,
		 r.i.hi);
	return buf_printf(b, e, "%c %-*s %s %6.*f %-13s %5s %5s%s%s\n",
			  pick ? '*' : ' ', width, name, cells, top < 20,
			  r.rate, iv, cpu(here, r.here), cpu(there, r.there),
			  c->plain_mac ? " plain MAC" : "",
			  c->state == PROBE_LEFT ? " far behind" : "");
}

static int
put_cands(struct buf *b, const struct probetell *t, bool utf8, struct err *e)
{
	double top, coverage;
	char head[32];
	int width, rc;

	measure_table(t->probe, &width, &top, &coverage);
	snprintf(head, sizeof(head), "(%d %% sure)",
		 (int)((coverage < LEVEL ? coverage : LEVEL) * 100 + 0.5));
	rc = buf_printf(b, e, "  %-*s %-*s %6s %-13s CPU s/GB here, there\n",
			width, "candidate", BAR_CELLS, "", "MB/s", head);
	for (size_t i = 0; rc == 0 && i < t->probe->n; i++) {
		rc = put_cand(b, t, i, width, top, utf8, e);
	}
	return rc;
}

static const char *
end_text(const struct probe *p)
{
	switch (p->end) {
	case PROBE_END_DECIDED:
		return ", until nothing could change the decision";
	case PROBE_END_ALONE:
		return ", nothing to compare with";
	default:
		return "";
	}
}

static int
put_head(struct buf *b, const struct probetell *t, struct err *e)
{
	const struct probe *p = t->probe;
	int rc = buf_printf(b, e,
			    "ciphers to %s, into %s: %zu candidate%s, %zu "
			    "rounds\n"
			    "connecting took %lld ms, measuring %lld ms of "
			    "%lld%s\n",
			    t->destination, t->sink ? t->sink : "nothing", p->n,
			    p->n == 1 ? "" : "s", p->cycles,
			    (long long)p->setup_ms, (long long)p->measure_ms,
			    (long long)t->budget_ms, end_text(p));

	return rc < 0 || !t->no_agent
		       ? rc
		       : buf_printf(b, e, "no agent there: %s\n", t->no_agent);
}

static int
put_verdict(struct buf *b, const struct probetell *t, struct err *e)
{
	const struct decision *d = &t->probe->decision;
	struct decide_cand cands[DECIDE_MAX];
	cleanup(free_ptr) char *text = NULL, *config = NULL;

	if (t->error) {
		return buf_printf(b, e, "no decision: %s\n", t->error);
	}
	probe_cands(t->probe, cands);
	text = decide_text(cands, d, e);
	config = probecand_config(&t->probe->cands[d->pick], e);
	if (!text || !config) {
		return E_NOMEM;
	}
	/* What nothing was learned about need not be made permanent. */
	return d->too_few ? buf_printf(b, e, "%s\n", text)
			  : buf_printf(b, e,
				       "%s\nto make it permanent, in "
				       "ssh_config:\n%s\n",
				       text, config);
}

static int
put_server(struct buf *b, const struct probetell *t, struct err *e)
{
	cleanup(free_ptr) char *table = offertab_text(t->table, e);

	return !table ? E_NOMEM
		      : buf_printf(b, e,
				   "server: %s%s\n"
				   "key exchange: %s\nhost keys: %s\n\n%s\n",
				   t->version ? t->version : "?",
				   t->strict_kex ? "" : ", no strict kex",
				   t->kex ? t->kex : "?",
				   t->hostkeys ? t->hostkeys : "?", table);
}

char *
probetell_text(const struct probetell *t, bool utf8, struct err *e)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(TEXT_MAX);
	int rc = t->table ? put_server(&b, t, e) : 0;
	char *text;

	rc = rc < 0 ? rc : put_head(&b, t, e);
	rc = rc < 0 || !t->probe->n ? rc : put_cands(&b, t, utf8, e);
	rc = rc < 0 ? rc : put_verdict(&b, t, e);
	text = rc < 0 ? NULL : buf_cstr(&b, e);
	text = text ? strdup(text) : NULL;
	if (!text) {
		err_nomem(e);
	}
	return text;
}

bool
probetell_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	/* The first that is set and not empty (locale(7)). */
	for (size_t i = 0; i < 3; i++) {
		const char *v = getenv(names[i]);

		if (v && *v) {
			v = strrchr(v, '.');
			return v && (strncasecmp(v, ".utf-8", 6) == 0 ||
				     strncasecmp(v, ".utf8", 5) == 0);
		}
	}
	return false;
}

/* ---- JSON ---- */

/* What is not there, or is not UTF-8, is null. */
static json_t *
text_of(const char *s)
{
	json_t *j = s ? json_string(s) : NULL;

	return j ? j : json_null();
}

static json_t *
real_of(double v)
{
	return isnan(v) || v < 0 ? json_null() : json_real(v);
}

static json_t *
json_samples(const struct probe_cand *c)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < c->rounds; i++) {
		const struct probe_sample *s = &c->samples[i];

		json_array_append_new(
			a, json_pack("{s:I, s:f, s:f, s:o, s:o}", "bytes",
				     (json_int_t)s->bytes, "seconds",
				     (double)s->us / 1e6, "mb_s", c->rate[i],
				     "cpu_here", real_of(s->cpu_here),
				     "cpu_there", real_of(s->cpu_there)));
	}
	return a;
}

static const char *
state_name(const struct probe_cand *c)
{
	static const char *const names[] = {
		[PROBE_WAITING] = "waiting",
		[PROBE_OPEN] = "measured",
		[PROBE_LEFT] = "behind",
		[PROBE_GIVEN_UP] = "given-up",
	};

	return names[c->state];
}

static json_t *
json_cands(const struct probe *p)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < p->n; i++) {
		const struct probe_cand *c = &p->cands[i];
		struct row r = row_of(p, i);
		bool yes = !isnan(r.rate);
		json_t *o =
			json_pack("{s:s, s:o, s:b, s:s, s:o, s:I, s:o, s:o}",
				  "cipher", c->cipher, "mac", text_of(c->mac),
				  "plain_mac", c->plain_mac, "state",
				  state_name(c), "why",
				  text_of(*c->why ? c->why : NULL), "rounds",
				  (json_int_t)c->rounds, "mb_s",
				  real_of(r.rate), "samples", json_samples(c));

		json_object_set_new(o, "mb_s_low", real_of(yes ? r.i.lo : NAN));
		json_object_set_new(o, "mb_s_high",
				    real_of(yes ? r.i.hi : NAN));
		json_object_set_new(o, "coverage",
				    real_of(yes ? r.i.coverage : NAN));
		json_object_set_new(o, "cpu_here", real_of(r.here));
		json_object_set_new(o, "cpu_there", real_of(r.there));
		json_array_append_new(a, o);
	}
	return a;
}

static json_t *
json_table(const struct offertab *t)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < t->n; i++) {
		const struct offertab_row *r = &t->rows[i];

		json_array_append_new(
			a, json_pack("{s:o, s:s, s:b, s:b, s:s, s:o}", "name",
				     text_of(r->name), "kind",
				     r->kind == ALG_MAC ? "mac" : "cipher",
				     "server", r->server, "here", r->here,
				     "policy", offertab_verdict(r->verdict),
				     "why", text_of(*r->why ? r->why : NULL)));
	}
	return a;
}

static int
add_decision(json_t *o, const struct probe *p, struct err *e)
{
	static const char *const why[] = {
		[DECIDE_ONLY] = "only",	  [DECIDE_THROUGHPUT] = "throughput",
		[DECIDE_CPU] = "cpu",	  [DECIDE_DEFAULT] = "default",
		[DECIDE_NOISE] = "noise", [DECIDE_LINK] = "link",
	};
	const struct decision *d = &p->decision;
	struct decide_cand cands[DECIDE_MAX];
	cleanup(free_ptr) char *text = NULL, *config = NULL;

	probe_cands(p, cands);
	text = decide_text(cands, d, e);
	config = probecand_config(&p->cands[d->pick], e);
	if (!text || !config) {
		return E_NOMEM;
	}
	json_object_set_new(o, "default", text_of(p->cands[0].name));
	json_object_set_new(o, "pick", text_of(p->cands[d->pick].name));
	json_object_set_new(o, "why", text_of(why[d->why]));
	json_object_set_new(o, "gain", real_of(d->gain > 0 ? d->gain : NAN));
	json_object_set_new(o, "cpu_gain",
			    real_of(d->cpu_gain > 0 ? d->cpu_gain : NAN));
	json_object_set_new(o, "text", text_of(text));
	json_object_set_new(o, "ssh_config", text_of(config));
	return 0;
}

static void
drop_json(json_t **j)
{
	json_decref(*j);
}

static int
add_server(json_t *o, const struct probetell *t)
{
	return json_object_set_new(o, "server",
				   json_pack("{s:o, s:o, s:o, s:b}", "version",
					     text_of(t->version), "kex",
					     text_of(t->kex), "hostkeys",
					     text_of(t->hostkeys), "strict_kex",
					     t->strict_kex));
}

char *
probetell_json(const struct probetell *t, struct err *e)
{
	static const char *const ends[] = {
		[PROBE_END_BUDGET] = "budget",
		[PROBE_END_DECIDED] = "decided",
		[PROBE_END_ALONE] = "alone",
		[PROBE_END_ROUNDS] = "rounds",
	};
	const struct probe *p = t->probe;
	cleanup(drop_json) json_t *o =
		json_pack("{s:s, s:o, s:o, s:f, s:f, s:f, s:s, s:o}", "event",
			  "probe", "destination", text_of(t->destination),
			  "sink", text_of(t->sink), "setup_seconds",
			  (double)p->setup_ms / 1e3, "measure_seconds",
			  (double)p->measure_ms / 1e3, "budget_seconds",
			  (double)t->budget_ms / 1e3, "end", ends[p->end],
			  "candidates", json_cands(p));
	cleanup(free_ptr) char *line = NULL;
	char *text;

	if (!o || add_server(o, t)) {
		err_nomem(e);
		return NULL;
	}
	if (t->no_agent) {
		json_object_set_new(o, "no_agent", text_of(t->no_agent));
	}
	if (t->table) {
		json_object_set_new(o, "algorithms", json_table(t->table));
	}
	if (t->error) {
		json_object_set_new(o, "error", text_of(t->error));
	} else if (add_decision(o, p, e) < 0) {
		return NULL;
	}
	line = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6));
	text = line ? malloc(strlen(line) + 2) : NULL;
	if (!text) {
		err_nomem(e);
		return NULL;
	}
	stpcpy(stpcpy(text, line), "\n");
	return text;
}
