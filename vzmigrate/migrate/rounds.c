/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rounds: an estimate of the final pass, and rules about it. State: the
 * caller's.
 */
#include "migrate/rounds.h"

#include <inttypes.h>
#include <stdio.h>

/* The next pass must take this share off what is expected, in percent; less
 * is noise, and would never end. */
#define GAIN_PERCENT 20
/* Bytes a ms that are read and hashed at least, before anything was measured
 * (1 GB/s). */
#define READ_RATE 1000000

/* What a pass costs when nothing has changed: the shortest walk seen. */
static int64_t
fixed_ms(const struct rounds_pass *p)
{
	return p->walk_ms < p->ms ? p->walk_ms : p->ms;
}

/* a * b / c without overflow; all are times. */
static int64_t
scaled(int64_t a, int64_t b, int64_t c)
{
	double v = (double)a * (double)b / (double)(c > 0 ? c : 1);

	return v > 1e15 ? (int64_t)1e15 : (int64_t)v;
}

/*
 * The final pass, if it began now. Pass 1 sent everything, so it tells nothing
 * of changes but what is suspect.
 */
static int64_t
expect(const struct rounds *r, const struct rounds_pass *p)
{
	int64_t reread = (int64_t)(p->suspect_bytes / READ_RATE);
	int64_t work;

	if (!r->done) {
		return -1;
	}
	work = scaled(p->ms - fixed_ms(p), p->ms, r->last.ms);
	return fixed_ms(p) + (work > reread ? work : reread);
}

static bool
say(bool go_on, char *why, size_t size, const char *text, int64_t expected,
    int64_t target)
{
	if (expected < 0) {
		snprintf(why, size, "%s", text);
	} else {
		snprintf(why, size,
			 "%s: the final pass would take about %" PRId64
			 " ms, wanted are %" PRId64 " ms",
			 text, expected, target);
	}
	return go_on;
}

static bool
decide(const struct rounds *r, char *why, size_t size)
{
	int64_t now = r->expected_ms, was = r->expected_was;
	int64_t target = r->o.target_ms;

	if (r->done >= r->o.max_rounds) {
		return say(false, why, size, "that were all rounds allowed",
			   now, target);
	}
	if (r->o.max_ms && r->total_ms >= r->o.max_ms) {
		return say(false, why, size, "no time is left for more rounds",
			   now, target);
	}
	if (now < 0) {
		return say(true, why, size, "nothing is known of changes yet",
			   now, target);
	}
	if (now <= target) {
		return say(false, why, size, "little enough is left", now,
			   target);
	}
	if (r->o.max_ms && r->total_ms + now > r->o.max_ms) {
		return say(false, why, size, "no time is left for more rounds",
			   now, target);
	}
	if (was >= 0 && now > was - was * GAIN_PERCENT / 100) {
		return say(false, why, size, "another round would gain nothing",
			   now, target);
	}
	return say(true, why, size, "another round", now, target);
}

bool
rounds_next(struct rounds *r, const struct rounds_pass *p, char *why,
	    size_t size)
{
	if (!p) {
		r->expected_ms = r->expected_was = -1;
		return say(r->o.max_rounds > 0, why, size,
			   r->o.max_rounds
				   ? "nothing was copied yet"
				   : "no round before the stop is wanted",
			   -1, 0);
	}
	r->expected_was = r->done ? r->expected_ms : -1;
	r->expected_ms = expect(r, p);
	r->done++;
	r->total_ms += p->ms;
	r->last = *p;
	return decide(r, why, size);
}
