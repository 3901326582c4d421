/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When another pass over a running container is worthwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "migrate/rounds.h"

static const struct rounds_limits usual = { 10, 300 };

/* Passes of a container in which `dirty` ms of work come up each second and
 * the walk takes `walk`. How many there were; the last one in `*last`. */
static unsigned
simulate(int64_t first, int64_t walk, int64_t dirty,
	 const struct rounds_limits *l, int64_t *expect)
{
	struct rounds_pass p[32];
	unsigned n = 0;

	p[n++] = (struct rounds_pass){ first, walk };
	while (rounds_another(p, n, l, expect)) {
		assert_true(n < l->passes);
		p[n] = (struct rounds_pass){
			walk + dirty * p[n - 1].ms / 1000, walk
		};
		n++;
	}
	return n;
}

static void
test_it_converges(void **state)
{
	int64_t expect;

	(void)state;
	/* 60 s of copy, a tenth of it changes while it is copied. */
	assert_int_equal(simulate(60000, 50, 100, &usual, &expect), 3);
	assert_in_range(expect, 1, 300);
	/* A fifth: one more. */
	assert_int_equal(simulate(60000, 50, 200, &usual, &expect), 4);
	/* Nothing changes: one look, to know that. */
	assert_int_equal(simulate(60000, 50, 0, &usual, &expect), 2);
	assert_int_equal(expect, 50);
}

static void
test_it_is_of_no_use(void **state)
{
	int64_t expect;

	(void)state;
	/* As much changes as is copied. */
	assert_int_equal(simulate(60000, 50, 1000, &usual, &expect), 2);
	/* More. */
	assert_int_equal(simulate(1000, 50, 3000, &usual, &expect), 2);
	assert_true(expect > 3000);
	/* The walk alone is longer than the target: no pass makes it
	 * shorter. */
	assert_int_equal(simulate(60000, 2000, 1, &usual, &expect), 2);
}

static void
test_a_small_one(void **state)
{
	int64_t expect;

	(void)state;
	/* The whole copy is within the target. */
	assert_int_equal(simulate(250, 10, 900, &usual, &expect), 1);
	assert_int_equal(expect, 250);
	assert_int_equal(simulate(301, 10, 10, &usual, &expect), 2);
	assert_int_equal(simulate(0, 0, 0, &usual, &expect), 1);
}

static void
test_limits(void **state)
{
	struct rounds_limits l = { 1, 300 };
	int64_t expect;

	(void)state;
	/* --noiter */
	assert_int_equal(simulate(60000, 50, 100, &l, &expect), 1);
	l.passes = 3;
	assert_int_equal(simulate(60000, 50, 500, &l, &expect), 3);
	l = (struct rounds_limits){ 10, 10 };
	assert_true(simulate(60000, 5, 100, &l, &expect) > 3);
	l.target_ms = 10000;
	assert_int_equal(simulate(60000, 50, 100, &l, &expect), 2);
	/* It shrinks, but so slowly that it would go on for an hour. */
	l = (struct rounds_limits){ 1000, 1 };
	assert_in_range(simulate(20000, 10, 890, &l, &expect), 4, 12);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_converges),
		cmocka_unit_test(test_it_is_of_no_use),
		cmocka_unit_test(test_a_small_one),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
