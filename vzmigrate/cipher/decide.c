/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decide: the rule that turns samples into a pick. Input: the caller's arrays.
 * State: one struct trial for the time of a call.
 */
#include "cipher/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cipher/stats.h"

struct trial {
	const struct decide_cand *c;
	size_t n;
	double alpha;		     /* of one comparison */
	size_t dflt;		     /* first that was measured */
	size_t measured;	     /* how many were */
	bool cpu_known;		     /* of this host, for all measured */
	bool there_known;	     /* of the other one */
	double rate[DECIDE_MAX];     /* medians */
	double cpu[DECIDE_MAX];	     /* medians of both hosts together */
	double *cpu_all[DECIDE_MAX]; /* owned: both hosts, one a round */
	bool in[DECIDE_MAX];	     /* still a possible pick */
};

static void
trial_fini(struct trial *t)
{
	for (size_t i = 0; i < DECIDE_MAX; i++) {
		free(t->cpu_all[i]);
	}
}

static int
sum_cpu(struct trial *t, size_t i, struct err *e)
{
	const struct decide_cand *c = &t->c[i];

	t->cpu_all[i] = calloc(c->rounds, sizeof(double));
	if (!t->cpu_all[i]) {
		return err_nomem(e);
	}
	for (size_t k = 0; k < c->rounds; k++) {
		t->cpu_all[i][k] =
			c->cpu_here[k] + (t->there_known ? c->cpu_there[k] : 0);
	}
	t->cpu[i] = stats_median(t->cpu_all[i], c->rounds);
	return 0;
}

static int
load(struct trial *t, const struct decide_cand *cands, size_t n, size_t looks,
     struct err *e)
{
	int r = 0;

	if (!n || n > DECIDE_MAX) {
		return err_set(e, E_LIMIT, "%zu candidates, not 1 to %d", n,
			       DECIDE_MAX);
	}
	t->c = cands;
	t->n = n;
	t->cpu_known = t->there_known = true;
	for (size_t i = n; i-- > 0;) {
		if (!cands[i].rounds) {
			continue;
		}
		t->dflt = i;
		t->measured++;
		t->in[i] = true;
		t->rate[i] = stats_median(cands[i].rate, cands[i].rounds);
		t->cpu_known &= !!cands[i].cpu_here;
		t->there_known &= !!cands[i].cpu_there;
	}
	if (!t->measured) {
		return err_set(e, E_NOT_FOUND, "no cipher could be measured");
	}
	t->alpha = DECIDE_ALPHA / (double)(looks ? looks : 1) /
		   (double)(t->measured > 1 ? t->measured - 1 : 1);
	for (size_t i = 0; !r && t->cpu_known && i < n; i++) {
		r = cands[i].rounds ? sum_cpu(t, i, e) : 0;
	}
	return r;
}

enum metric {
	RATE,
	CPU,
};

static double
value(const struct trial *t, size_t i, enum metric m)
{
	/* so that lower is better for both */
	return m == CPU ? t->cpu[i] : -t->rate[i];
}

/* Whether a leads b beyond the noise. */
static int
leads(const struct trial *t, size_t a, size_t b, enum metric m, bool *yes,
      struct err *e)
{
	struct stats_pair p = { m == CPU ? t->cpu_all[a] : t->c[a].rate,
				t->c[a].rounds,
				m == CPU ? t->cpu_all[b] : t->c[b].rate,
				t->c[b].rounds };
	struct stats_test test;
	int r;

	*yes = false;
	if (a == b) {
		return 0;
	}
	r = stats_separate(&p, 1, t->alpha, &test, e);
	if (r) {
		return r;
	}
	*yes = m == CPU ? test.verdict == STATS_A_LOWER &&
				  t->cpu[a] * (1 + DECIDE_MIN_LEAD) <= t->cpu[b]
			: test.verdict == STATS_A_HIGHER &&
				  t->rate[a] >=
					  t->rate[b] * (1 + DECIDE_MIN_LEAD);
	return 0;
}

/* "Not led by the best" is not transitive. So nothing replaces the default
 * that does not lead it, and nothing stays beside it that it leads. */
static int
against_default(struct trial *t, enum metric m, struct err *e)
{
	bool stays = t->in[t->dflt];
	int r = 0;

	for (size_t i = 0; !r && i < t->n; i++) {
		bool led;

		if (!t->in[i] || i == t->dflt) {
			continue;
		}
		r = stays ? leads(t, t->dflt, i, m, &led, e)
			  : leads(t, i, t->dflt, m, &led, e);
		t->in[i] = led != stays;
	}
	return r;
}

/* Keep of the possible picks the best by `m` and what it does not lead. */
static int
narrow(struct trial *t, enum metric m, size_t *best, struct err *e)
{
	bool had_default = t->in[t->dflt];
	int r = 0;

	*best = t->n;
	for (size_t i = 0; i < t->n; i++) {
		if (t->in[i] &&
		    (*best == t->n || value(t, i, m) < value(t, *best, m))) {
			*best = i;
		}
	}
	for (size_t i = 0; !r && i < t->n; i++) {
		bool led = false;

		r = t->in[i] ? leads(t, *best, i, m, &led, e) : 0;
		t->in[i] &= !led;
	}
	return r || !had_default ? r : against_default(t, m, e);
}

static size_t
count_in(const struct trial *t)
{
	size_t k = 0;

	for (size_t i = 0; i < t->n; i++) {
		k += t->in[i];
	}
	return k;
}

static size_t
first_in(const struct trial *t)
{
	size_t i = 0;

	while (!t->in[i]) {
		i++;
	}
	return i;
}

/* How busy each host was at most. */
static void
find_busy(const struct trial *t, struct decision *d)
{
	d->busy_here = d->busy_there = -1;
	for (size_t i = 0; t->cpu_known && i < t->n; i++) {
		const struct decide_cand *c = &t->c[i];
		double gb_s = t->rate[i] / 1000, x;

		if (!c->rounds) {
			continue;
		}
		x = gb_s * stats_median(c->cpu_here, c->rounds);
		d->busy_here = x > d->busy_here ? x : d->busy_here;
		if (!t->there_known) {
			continue;
		}
		x = gb_s * stats_median(c->cpu_there, c->rounds);
		d->busy_there = x > d->busy_there ? x : d->busy_there;
	}
}

/* The link limits: all as fast as the fastest, and no host has much to do. */
static bool
link_limits(const struct trial *t, const struct decision *d)
{
	double lo = t->rate[t->dflt], hi = lo;

	for (size_t i = 0; i < t->n; i++) {
		if (t->c[i].rounds) {
			lo = t->rate[i] < lo ? t->rate[i] : lo;
			hi = t->rate[i] > hi ? t->rate[i] : hi;
		}
	}
	return t->measured > 1 && count_in(t) == t->measured && t->cpu_known &&
	       d->busy_here < DECIDE_BUSY && d->busy_there < DECIDE_BUSY &&
	       hi <= lo * DECIDE_LINK_SPREAD;
}

/* Counted by who has most: who has fewer was left as far behind, or broke. */
static bool
few_rounds(const struct trial *t, size_t looks)
{
	size_t need = stats_min_runs(
		t->measured, DECIDE_ALPHA / (double)(looks ? looks : 1));
	size_t most = 0;

	for (size_t i = 0; i < t->n; i++) {
		most = t->c[i].rounds > most ? t->c[i].rounds : most;
	}
	return t->measured > 1 && most < need;
}

static enum decide_why
reason(const struct trial *t, const struct decision *d, bool link, bool alone)
{
	if (t->measured == 1) {
		return DECIDE_ONLY;
	}
	if (link) {
		return DECIDE_LINK;
	}
	if (d->pick != t->dflt) {
		return d->rate_beyond ? DECIDE_THROUGHPUT : DECIDE_CPU;
	}
	return alone ? DECIDE_DEFAULT : DECIDE_NOISE;
}

int
decide(const struct decide_cand *cands, size_t n, size_t looks,
       struct decision *out, struct err *e)
{
	cleanup(trial_fini) struct trial t = { 0 };
	bool link;
	int r;

	*out = (struct decision){ 0 };
	r = load(&t, cands, n, looks, e);
	r = r ? r : narrow(&t, RATE, &out->fastest, e);
	if (r) {
		return r;
	}
	find_busy(&t, out);
	link = link_limits(&t, out);
	if (t.cpu_known) {
		r = narrow(&t, CPU, &out->cheapest, e);
	}
	if (r) {
		return r;
	}
	out->pick = first_in(&t);
	if (!t.cpu_known) {
		out->cheapest = out->pick;
	}
	r = leads(&t, out->pick, t.dflt, RATE, &out->rate_beyond, e);
	if (!r && t.cpu_known) {
		r = leads(&t, out->pick, t.dflt, CPU, &out->cpu_beyond, e);
	}
	if (r) {
		return r;
	}
	out->too_few = few_rounds(&t, looks);
	out->alone = count_in(&t) == 1;
	out->why = reason(&t, out, link, out->alone);
	if (t.dflt == 0 && t.rate[0] > 0) {
		out->gain = t.rate[out->pick] / t.rate[0];
	}
	if (t.dflt == 0 && t.cpu_known && t.cpu[out->pick] > 0) {
		out->cpu_gain = t.cpu[0] / t.cpu[out->pick];
	}
	return 0;
}

#define NUMBER_MAX 32

/* Two digits after the point, which is a point under any locale. */
static char *
two_digits(char out[NUMBER_MAX], double v)
{
	unsigned long long h = v > 0 ? (unsigned long long)(v * 100 + 0.5) : 0;

	snprintf(out, NUMBER_MAX, "%llu.%02llu", h / 100, h % 100);
	return out;
}

static double
median_cpu(const struct decide_cand *c, bool there)
{
	double v = stats_median(c->cpu_here, c->rounds);

	return there ? v + stats_median(c->cpu_there, c->rounds) : v;
}

/* " (0.52 CPU s/GB)", or nothing where CPU is unknown. */
static char *
cpu_note(char out[64], const struct decide_cand *c, const struct decision *d)
{
	char v[NUMBER_MAX];

	out[0] = '\0';
	if (d->busy_here >= 0) {
		snprintf(out, 64, " (%s CPU s/GB)",
			 two_digits(v, median_cpu(c, d->busy_there >= 0)));
	}
	return out;
}

static double
mbs(const struct decide_cand *c)
{
	return stats_median(c->rate, c->rounds);
}

static char *
text_default(const struct decide_cand *c, const struct decision *d,
	     struct err *e)
{
	const struct decide_cand *p = &c[d->pick], *f = &c[d->fastest];
	char a[64];

	if (d->why == DECIDE_DEFAULT) {
		return io_asprintf(e,
				   "kept %s: %.0f MB/s%s; it leads all others, "
				   "in throughput or in CPU, beyond the noise",
				   p->name, mbs(p), cpu_note(a, p, d));
	}
	if (d->fastest == d->pick) {
		return io_asprintf(e,
				   "kept %s, which negotiation prefers: its "
				   "%.0f MB/s were the most, but not separable "
				   "from all others%s",
				   p->name, mbs(p),
				   d->too_few ? "; so few rounds can tell "
						"nothing"
					      : "");
	}
	return io_asprintf(e,
			   "kept %s, which negotiation prefers: its %.0f MB/s "
			   "and the %.0f MB/s of the fastest, %s, are not "
			   "separable%s",
			   p->name, mbs(p), mbs(f), f->name,
			   d->too_few ? "; so few rounds can tell nothing"
				      : "");
}

char *
decide_text(const struct decide_cand *c, const struct decision *d,
	    struct err *e)
{
	const struct decide_cand *p = &c[d->pick], *o = &c[0];
	char a[64], b[64], x[NUMBER_MAX];

	cpu_note(a, p, d);
	switch (d->why) {
	case DECIDE_ONLY:
		return io_asprintf(e,
				   "%s is all that could be measured: "
				   "%.0f MB/s%s",
				   p->name, mbs(p), a);
	case DECIDE_LINK:
		return io_asprintf(e,
				   "the cipher does not matter: the link is "
				   "slower than each of them (%.0f MB/s); %s "
				   "%s%s",
				   mbs(p), d->cpu_beyond ? "picked" : "kept",
				   p->name, a);
	case DECIDE_THROUGHPUT:
		if (!o->rounds) {
			break;
		}
		return io_asprintf(e,
				   "picked %s: %.0f MB/s%s, %s times the "
				   "%.0f MB/s of the default %s, beyond the "
				   "noise",
				   p->name, mbs(p), a, two_digits(x, d->gain),
				   mbs(o), o->name);
	case DECIDE_CPU:
		if (!o->rounds) {
			break;
		}
		return io_asprintf(e,
				   "picked %s: its %.0f MB/s and the %.0f MB/s "
				   "of the default %s are not separable, but "
				   "it costs less%s than that%s, beyond the "
				   "noise",
				   p->name, mbs(p), mbs(o), o->name, a,
				   cpu_note(b, o, d));
	default:
		return text_default(c, d, e);
	}
	return io_asprintf(e,
			   "picked %s: %.0f MB/s%s; the default %s could not "
			   "be measured",
			   p->name, mbs(p), a, o->name);
}
