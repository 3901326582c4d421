/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of migrate/rounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "migrate/rounds.h"

#define GB 1000000000u

static char why[200];

static struct rounds
begun(int64_t target_ms, unsigned max_rounds, int64_t max_ms)
{
	struct rounds r = { .o = { target_ms, max_rounds, max_ms } };

	assert_int_equal(rounds_next(&r, NULL, why, sizeof(why)),
			 max_rounds > 0);
	return r;
}

static bool
next(struct rounds *r, int64_t ms, int64_t walk_ms, uint64_t suspect_bytes)
{
	struct rounds_pass p = { .ms = ms,
				 .walk_ms = walk_ms,
				 .suspect_bytes = suspect_bytes };

	return rounds_next(r, &p, why, sizeof(why));
}

/* A quiet container: pass 2 finds what pass 1's time brought; what pass 2's
 * time brings is nothing. */
static void
test_quiet(void **state)
{
	struct rounds r = begun(500, 10, 0);

	(void)state;
	assert_string_equal(why, "nothing was copied yet");
	assert_true(next(&r, 60000, 50, 0));
	assert_string_equal(why, "nothing is known of changes yet");
	/* 2,000 ms of work in 60,000 ms; so 70 ms more in 2,050. */
	assert_false(next(&r, 2050, 50, 0));
	assert_string_equal(why, "little enough is left: the final pass would "
				 "take about 118 ms, wanted are 500 ms");
	assert_int_equal(r.expected_ms, 118);
}

/* It goes on while that shrinks, and stops when it shrinks no more. */
static void
test_busy(void **state)
{
	struct rounds r = begun(100, 30, 0);
	int64_t ms[] = { 600000, 300000, 150000, 75000, 37500 };

	(void)state;
	for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++) {
		assert_true(next(&r, ms[i], 20, 0));
	}
	assert_non_null(strstr(why, "another round: "));
	assert_true(next(&r, 18750, 20, 0));
	assert_false(next(&r, 18000, 20, 0));
	assert_non_null(strstr(why, "another round would gain nothing: "));
}

/* The changes outrun the link: the first estimates grow. */
static void
test_hopeless(void **state)
{
	struct rounds r = begun(100, 30, 0);

	(void)state;
	assert_true(next(&r, 10000, 20, 0));
	assert_true(next(&r, 12000, 20, 0));
	assert_false(next(&r, 14000, 20, 0));
	assert_non_null(strstr(why, "gain nothing"));
}

static void
test_caps(void **state)
{
	struct rounds r = begun(100, 0, 0);

	(void)state;
	assert_string_equal(why, "no round before the stop is wanted");
	r = begun(100, 2, 0);
	assert_true(next(&r, 10000, 20, 0));
	assert_false(next(&r, 5000, 20, 0));
	assert_non_null(strstr(why, "that were all rounds allowed"));
	r = begun(100, 9, 12000);
	assert_true(next(&r, 10000, 20, 0));
	assert_false(next(&r, 5000, 20, 0));
	assert_non_null(strstr(why, "no time is left"));
	/* Another one would not be finished in time. */
	r = begun(100, 9, 17000);
	assert_true(next(&r, 10000, 20, 0));
	assert_false(next(&r, 5000, 20, 0));
	assert_non_null(strstr(why, "no time is left"));
}

/* What has to be read again in any case counts (1 GB/s). */
static void
test_suspects(void **state)
{
	struct rounds r = begun(500, 10, 0);

	(void)state;
	assert_true(next(&r, 60000, 50, 5ull * GB));
	assert_true(next(&r, 300, 50, 5ull * GB));
	assert_int_equal(r.expected_ms, 5050);
	/* That does not get less by another round. */
	assert_false(next(&r, 300, 50, 5ull * GB));
	assert_non_null(strstr(why, "gain nothing"));
}

/* Odd measurements break nothing. */
static void
test_limits(void **state)
{
	struct rounds r = begun(0, 10, 0);

	(void)state;
	assert_true(next(&r, 0, 0, 0));
	assert_false(next(&r, 0, 5, 0));
	assert_int_equal(r.expected_ms, 0);
	r = begun(0, 10, 0);
	assert_true(next(&r, 1, 0, 0));
	assert_true(next(&r, INT64_MAX / 4, 0, UINT64_MAX));
	assert_true(r.expected_ms > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quiet),	 cmocka_unit_test(test_busy),
		cmocka_unit_test(test_hopeless), cmocka_unit_test(test_caps),
		cmocka_unit_test(test_suspects), cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
