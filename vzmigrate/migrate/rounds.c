/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rounds: the rule for another pass. What a pass has to do is what changed
 * during the one before it; so the work of a pass, divided by the time of the
 * one before, is the rate at which work comes up, and with that the next
 * pass can be told from this one's length.
 */
#include "migrate/rounds.h"

/* A pass more has to spare so much of the last one. */
#define GAIN_PERCENT 10
#define GAIN_MS 20
/* Passes after the first take at most this much longer than the first. */
#define SPEND_FACTOR 2
#define SPEND_MS 60000

/* Milliseconds of a pass that follows one of `ms`. */
static int64_t
next_ms(const struct rounds_pass *p, unsigned n, int64_t ms)
{
	const struct rounds_pass *last = &p[n - 1];
	int64_t work = last->ms > last->walk_ms ? last->ms - last->walk_ms : 0;
	int64_t before = n > 1 && p[n - 2].ms > 0 ? p[n - 2].ms : 1;

	return last->walk_ms + work * ms / before;
}

static bool
spent(const struct rounds_pass *p, unsigned n)
{
	int64_t sum = 0;

	for (unsigned i = 1; i < n; i++) {
		sum += p[i].ms;
	}
	return sum > SPEND_FACTOR * p[0].ms + SPEND_MS;
}

bool
rounds_another(const struct rounds_pass *p, unsigned n,
	       const struct rounds_limits *l, int64_t *expect_ms)
{
	int64_t gain;

	if (n == 1) {
		/* It was the whole tree, which tells nothing of what changes,
		 * but a bound of it. */
		*expect_ms = p[0].ms;
		return n < l->passes && p[0].ms > l->target_ms;
	}
	*expect_ms = next_ms(p, n, p[n - 1].ms);
	if (n >= l->passes || *expect_ms <= l->target_ms || spent(p, n)) {
		return false;
	}
	gain = *expect_ms - next_ms(p, n, *expect_ms);
	return gain >= GAIN_MS && gain * 100 >= *expect_ms * GAIN_PERCENT;
}
