/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probe: schedules connections and rounds. State: the caller's struct probe;
 * struct run for the time of a call. Takes the time from the caller's clock.
 */
#include "cipher/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "cipher/stats.h"

#define WARM_GROWTH 4
#define WARM_BYTES_MAX ((uint64_t)256 << 20)
#define WANTED_CYCLES 14 /* the time of a round follows from it */
#define WARM_SHARE 3	 /* warming takes at most a third of the budget */
#define GUESS_SPREAD 2.5
#define ALONE_ROUNDS 3 /* of a single candidate, to tell its speed */
/* A round may last this many times what was expected before it is a stall. */
#define STALL_FACTOR 20
#define STALL_MIN_US 1000000

struct run {
	struct probe *p;
	const struct probe_opts *o;
	const struct probe_ops *ops;
	void *arg;
	int64_t deadline_us; /* of measuring */
	int64_t round_us;    /* what a round should last undisturbed */
	double slow;   /* how much longer rounds last than that, on average */
	size_t looked; /* looks made */
	bool late;     /* the budget ran out within a round */
};

static int64_t
now(const struct run *r)
{
	return r->ops->now_us(r->arg);
}

static size_t
count(const struct run *r, enum probe_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < r->p->n; i++) {
		n += r->p->cands[i].state == state;
	}
	return n;
}

/* What of an error of `open` concerns all candidates. */
static bool
ends_all(int code)
{
	return code == E_CANCELLED || code == E_HOSTKEY || code == E_AUTH ||
	       code == E_CONFIG || code == E_USAGE || code == E_NOMEM;
}

static void
give_up(struct run *r, size_t i, const char *why)
{
	struct probe_cand *c = &r->p->cands[i];

	snprintf(c->why, sizeof(c->why), "%s", why);
	log_debug("probe: %s is given up: %s", c->name, why);
	if (c->state == PROBE_OPEN) {
		r->ops->close(i, true, r->arg);
	}
	c->state = PROBE_GIVEN_UP;
}

/* ---- the connections ---- */

static int
open_all(struct run *r, struct err *e)
{
	int64_t from = now(r), until = from + r->o->setup_ms * 1000;
	int rc = 0;

	for (size_t i = 0; i < r->p->n; i++) {
		int64_t left = (until - now(r)) / 1000;
		struct err why = { 0 };

		if (left <= 0) {
			give_up(r, i, "no time was left to connect");
			continue;
		}
		rc = r->ops->open(i,
				  left < r->o->each_ms ? left : r->o->each_ms,
				  r->arg, &why);
		if (rc == 0) {
			r->p->cands[i].state = PROBE_OPEN;
			continue;
		}
		if (ends_all(rc)) {
			if (e) {
				*e = why;
			}
			return rc;
		}
		give_up(r, i, why.text);
	}
	r->p->setup_ms = (now(r) - from) / 1000;
	return 0;
}

/* ---- rounds ---- */

/* The guess that half of the candidates reach: no hiccup of one moves it. */
static double
common_guess(const struct run *r)
{
	double g[DECIDE_MAX];
	size_t n = 0;

	for (size_t i = 0; i < r->p->n; i++) {
		const struct probe_cand *c = &r->p->cands[i];
		size_t k = n;

		if (c->state != PROBE_OPEN || c->guess <= 0) {
			continue;
		}
		for (; k && g[k - 1] > c->guess; k--) {
			g[k] = g[k - 1];
		}
		g[k] = c->guess;
		n++;
	}
	return n ? g[n / 2] : 0;
}

/* Ciphers differ, but not by any factor: who seems to was held up, and rounds
 * made short by that would measure nothing but their ends. */
static uint64_t
bytes_for(const struct run *r, const struct probe_cand *c)
{
	double all = common_guess(r), g = c->guess;
	uint64_t unit = r->ops->unit;
	double want;

	g = g < all / GUESS_SPREAD ? all / GUESS_SPREAD : g;
	g = g > all * GUESS_SPREAD ? all * GUESS_SPREAD : g;
	want = g * (double)r->round_us;
	want = want / (double)unit + 0.5;
	return (want < 1 ? 1 : (uint64_t)want) * unit;
}

static double
expected_us(const struct run *r, const struct probe_cand *c)
{
	return c->guess > 0 ? (double)bytes_for(r, c) / c->guess : 0;
}

/* One round within the budget and the bound of a stall. 1: done; 0: the
 * candidate was given up, or the budget ran out (r->late); < 0. */
static int
one_round(struct run *r, size_t i, uint64_t bytes, struct probe_sample *s,
	  struct err *e)
{
	struct probe_cand *c = &r->p->cands[i];
	int64_t left = r->deadline_us - now(r), limit = left;
	double stall = expected_us(r, c) * STALL_FACTOR;
	struct err why = { 0 };
	int rc;

	if (left < 1000) {
		r->late = true;
		return 0;
	}
	stall = stall < STALL_MIN_US ? STALL_MIN_US : stall;
	if (stall < (double)limit) {
		limit = (int64_t)stall;
	}
	rc = r->ops->round(i, bytes, limit / 1000, s, r->arg, &why);
	if (rc == 0 && s->us > 0) {
		return 1;
	}
	if (rc == E_CANCELLED) {
		if (e) {
			*e = why;
		}
		return rc;
	}
	if (rc == E_TIMEOUT && limit == left) {
		/* Not its fault; but what it had under way is in the way. */
		r->late = true;
		return 0;
	}
	give_up(r, i,
		rc == E_TIMEOUT ? "it stalled: no answer in time"
		: rc < 0	? why.text
				: "a round that took no time");
	return 0;
}

/* Of the last rounds: one that the machine held up counts for half. */
static void
note_guess(struct probe_cand *c, const struct probe_sample *s)
{
	double rate = (double)s->bytes / (double)s->us;

	c->guess = c->guess > 0 ? (c->guess + rate) / 2 : rate;
}

static int
grow(struct probe_cand *c, struct err *e)
{
	size_t n = c->rounds + 1;
	struct probe_sample *s = realloc(c->samples, n * sizeof(*s));
	double *v;

	c->samples = s ? s : c->samples;
	for (int k = 0; s && k < 3; k++) {
		double **at = k == 0   ? &c->rate
			      : k == 1 ? &c->cpu_here
				       : &c->cpu_there;

		v = realloc(*at, n * sizeof(*v));
		if (!v) {
			return err_nomem(e);
		}
		*at = v;
	}
	return s ? 0 : err_nomem(e);
}

static int
keep(struct probe_cand *c, const struct probe_sample *s, struct err *e)
{
	double gb = (double)s->bytes / 1e9;
	int rc = grow(c, e);

	if (rc < 0) {
		return rc;
	}
	c->samples[c->rounds] = *s;
	c->rate[c->rounds] = (double)s->bytes / (double)s->us;
	c->cpu_here[c->rounds] = s->cpu_here < 0 ? NAN : s->cpu_here / gb;
	c->cpu_there[c->rounds] = s->cpu_there < 0 ? NAN : s->cpu_there / gb;
	c->rounds++;
	return 0;
}

/* ---- warming ---- */

/* The next warming round: larger, but of no more than twice PROBE_WARM_US. */
static uint64_t
warm_bytes(const struct run *r, const struct probe_cand *c, uint64_t bytes)
{
	uint64_t most = (uint64_t)(c->guess * 2 * PROBE_WARM_US);

	bytes *= WARM_GROWTH;
	most -= most % r->ops->unit;
	bytes = bytes > most ? most : bytes;
	return bytes < r->ops->unit ? r->ops->unit : bytes;
}

/* Rounds that grow until two in turn last long enough, as one may be a hiccup,
 * or until their share of the budget is used. */
static int
warm(struct run *r, size_t i, struct err *e)
{
	struct probe_cand *c = &r->p->cands[i];
	int64_t until =
		now(r) + r->o->budget_ms * 1000 / WARM_SHARE / (int64_t)r->p->n;
	uint64_t bytes = r->ops->unit;
	int enough = 0;

	while (enough < 2 && bytes <= WARM_BYTES_MAX &&
	       (now(r) < until || c->guess == 0)) {
		struct probe_sample s = { 0 };
		int rc = one_round(r, i, bytes, &s, e);

		if (rc <= 0) {
			return rc;
		}
		note_guess(c, &s);
		enough = s.us < PROBE_WARM_US ? 0 : enough + 1;
		bytes = enough ? bytes : warm_bytes(r, c, bytes);
	}
	return 0;
}

static int
warm_all(struct run *r, struct err *e)
{
	for (size_t i = 0; i < r->p->n && !r->late; i++) {
		int rc = r->p->cands[i].state == PROBE_OPEN ? warm(r, i, e) : 0;

		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

/* ---- measuring ---- */

/* How long rounds are to be: so that enough of them fit, on a machine that is
 * busy with other things as well. */
static void
set_round_time(struct run *r)
{
	size_t n = count(r, PROBE_OPEN), c = r->p->cycles;
	size_t cycles = c + 4 < WANTED_CYCLES ? WANTED_CYCLES - c : 4;
	double us = (double)(r->deadline_us - now(r)) / (double)(n ? n : 1) /
		    (double)cycles / r->slow;

	r->round_us = us < PROBE_ROUND_MIN_US	? PROBE_ROUND_MIN_US
		      : us > PROBE_ROUND_MAX_US ? PROBE_ROUND_MAX_US
						: (int64_t)us;
}

/* Whether a whole cycle fits into what is left. A single round that would not
 * is no reason to measure some candidates more often than others. But the first
 * is begun in any case. */
static bool
cycle_fits(const struct run *r)
{
	double us = 0;

	for (size_t i = 0; i < r->p->n; i++) {
		if (r->p->cands[i].state == PROBE_OPEN) {
			us += expected_us(r, &r->p->cands[i]);
		}
	}
	return r->p->cycles == 0 ||
	       (double)(r->deadline_us - now(r)) > us * r->slow;
}

static void
note_slow(struct run *r, double expected, int64_t us)
{
	double x = expected > 0 ? (double)us / expected : 1;

	x = x < 1 ? 1 : x > 10 ? 10 : x;
	r->slow = (7 * r->slow + x) / 8;
}

static int
cycle(struct run *r, struct err *e)
{
	size_t n = r->p->n, first = r->p->cycles % n;

	for (size_t k = 0; k < n && !r->late; k++) {
		size_t i = (first + k) % n;
		struct probe_cand *c = &r->p->cands[i];
		struct probe_sample s = { .cpu_here = -1, .cpu_there = -1 };
		int rc;

		if (c->state != PROBE_OPEN) {
			continue;
		}
		rc = one_round(r, i, bytes_for(r, c), &s, e);
		if (rc == 1) {
			note_slow(r, expected_us(r, c), s.us);
			note_guess(c, &s);
			rc = keep(c, &s, e);
		}
		if (rc < 0) {
			return rc;
		}
	}
	r->p->cycles += !r->late;
	return 0;
}

static double
worst(const double *v, size_t n)
{
	double x = v[0];

	for (size_t i = 1; i < n; i++) {
		x = v[i] < x ? v[i] : x;
	}
	return x;
}

static double
best(const double *v, size_t n)
{
	double x = v[0];

	for (size_t i = 1; i < n; i++) {
		x = v[i] > x ? v[i] : x;
	}
	return x;
}

/* The default stays: it is what everything is compared with. */
static void
leave_behind(struct run *r)
{
	struct probe *p = r->p;
	size_t lead = p->n;
	double floor;

	for (size_t i = 0; i < p->n; i++) {
		if (p->cands[i].state == PROBE_OPEN && p->cands[i].rounds &&
		    (lead == p->n || probe_rate(p, i) > probe_rate(p, lead))) {
			lead = i;
		}
	}
	if (lead == p->n || p->cands[lead].rounds < PROBE_BEHIND_ROUNDS) {
		return;
	}
	floor = worst(p->cands[lead].rate, p->cands[lead].rounds);
	for (size_t i = 1; i < p->n; i++) {
		struct probe_cand *c = &p->cands[i];

		if (c->state == PROBE_OPEN && i != lead &&
		    c->rounds >= PROBE_BEHIND_ROUNDS &&
		    best(c->rate, c->rounds) < floor * PROBE_BEHIND) {
			c->state = PROBE_LEFT;
			r->ops->close(i, false, r->arg);
		}
	}
}

static int
look(struct run *r, struct err *e)
{
	struct decide_cand cands[DECIDE_MAX];

	probe_cands(r->p, cands);
	return decide(cands, r->p->n, PROBE_LOOKS, &r->p->decision, e);
}

/* Ask at PROBE_LOOKS - 1 moments fixed beforehand; the last look is the end's.
 * More would find leads in noise, as whoever looks often enough does. */
static int
look_early(struct run *r, bool *done, struct err *e)
{
	size_t measured = count(r, PROBE_OPEN) + count(r, PROBE_LEFT);
	size_t need = stats_min_runs(measured, DECIDE_ALPHA / PROBE_LOOKS);
	int rc = 0;

	*done = false;
	if (r->looked + 1 >= PROBE_LOOKS || r->p->cycles < need << r->looked) {
		return 0;
	}
	r->looked++;
	rc = look(r, e);
	*done = rc == 0 && r->p->decision.alone;
	return rc;
}

/* Whether only one candidate is left that could be measured. */
static bool
alone(const struct run *r)
{
	return count(r, PROBE_OPEN) + count(r, PROBE_LEFT) == 1 &&
	       r->p->cycles >= ALONE_ROUNDS;
}

static int
measure(struct run *r, struct err *e)
{
	bool done = false;
	int rc = warm_all(r, e);

	r->p->end = PROBE_END_BUDGET;
	while (rc == 0 && !r->late && count(r, PROBE_OPEN)) {
		set_round_time(r);
		if (!cycle_fits(r)) {
			break;
		}
		rc = cycle(r, e);
		if (rc < 0 || r->late) {
			break;
		}
		if (alone(r)) {
			r->p->end = PROBE_END_ALONE;
			break;
		}
		if (r->p->cycles >= PROBE_ROUNDS_MAX) {
			r->p->end = PROBE_END_ROUNDS;
			break;
		}
		leave_behind(r);
		rc = look_early(r, &done, e);
		if (done) {
			r->p->end = PROBE_END_DECIDED;
			break;
		}
	}
	return rc;
}

static void
close_all(struct run *r, bool broken)
{
	for (size_t i = 0; i < r->p->n; i++) {
		if (r->p->cands[i].state == PROBE_OPEN) {
			r->ops->close(i, broken, r->arg);
		}
	}
}

/* ---- the interface ---- */

int
probe_add(struct probe *p, const char *cipher, const char *mac, bool plain_mac,
	  struct err *e)
{
	struct probe_cand *c = &p->cands[p->n];

	if (p->n == DECIDE_MAX) {
		return err_set(e, E_LIMIT, "more than %d ciphers to measure",
			       DECIDE_MAX);
	}
	p->n++;
	c->name = mac ? io_asprintf(e, "%s+%s", cipher, mac) : strdup(cipher);
	c->cipher = strdup(cipher);
	c->mac = mac ? strdup(mac) : NULL;
	c->plain_mac = plain_mac;
	return c->name && c->cipher && (c->mac || !mac) ? 0 : err_nomem(e);
}

int
probe_run(struct probe *p, const struct probe_opts *o,
	  const struct probe_ops *ops, void *arg, struct err *e)
{
	struct run r = { .p = p, .o = o, .ops = ops, .arg = arg, .slow = 1 };
	int64_t from;
	int rc = open_all(&r, e);

	if (rc == 0) {
		from = now(&r);
		r.deadline_us = from + o->budget_ms * 1000;
		rc = measure(&r, e);
		p->measure_ms = (now(&r) - from) / 1000;
	}
	/* What is under way after the budget is not waited for. */
	close_all(&r, r.late || rc < 0);
	if (rc == 0 && p->end != PROBE_END_DECIDED) {
		rc = look(&r, e);
	}
	return rc;
}

static bool
known(const double *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (isnan(v[i])) {
			return false;
		}
	}
	return n > 0;
}

void
probe_cands(const struct probe *p, struct decide_cand out[DECIDE_MAX])
{
	for (size_t i = 0; i < p->n; i++) {
		const struct probe_cand *c = &p->cands[i];

		out[i] = (struct decide_cand){ .name = c->name,
					       .rate = c->rate,
					       .rounds = c->rounds };
		/* One that broke is no pick, however fast it was. */
		if (c->state == PROBE_GIVEN_UP) {
			out[i].rounds = 0;
		}
		if (known(c->cpu_here, c->rounds)) {
			out[i].cpu_here = c->cpu_here;
		}
		if (known(c->cpu_there, c->rounds)) {
			out[i].cpu_there = c->cpu_there;
		}
	}
}

static double
median(const double *v, size_t n)
{
	return known(v, n) ? stats_median(v, n) : NAN;
}

double
probe_rate(const struct probe *p, size_t i)
{
	return median(p->cands[i].rate, p->cands[i].rounds);
}

double
probe_cpu_here(const struct probe *p, size_t i)
{
	return median(p->cands[i].cpu_here, p->cands[i].rounds);
}

double
probe_cpu_there(const struct probe *p, size_t i)
{
	return median(p->cands[i].cpu_there, p->cands[i].rounds);
}

void
probe_fini(struct probe *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct probe_cand *c = &p->cands[i];

		free(c->name);
		free(c->cipher);
		free(c->mac);
		free(c->samples);
		free(c->rate);
		free(c->cpu_here);
		free(c->cpu_there);
	}
	*p = (struct probe){ 0 };
}
