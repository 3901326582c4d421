/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of xfer/limit, with times that are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "xfer/limit.h"

#define FRAME 270000

/* Send frames for `ms` from `*now` on as a connection does; bytes that went. */
static uint64_t
send_for(struct limit *l, int64_t *now, int64_t ms, size_t n)
{
	int64_t until = *now + ms;
	uint64_t bytes = 0;

	while (*now < until) {
		int64_t wait = limit_take(l, *now, n);

		assert_true(wait >= 0 && wait <= 1000);
		if (wait) {
			*now += wait;
		} else {
			bytes += n;
		}
	}
	return bytes;
}

static void
near(uint64_t got, uint64_t want, uint64_t slop)
{
	if (got + slop < want || got > want + slop) {
		fail_msg("%llu bytes, %llu wanted", (unsigned long long)got,
			 (unsigned long long)want);
	}
}

static void
test_rate_holds(void **state)
{
	struct limit *l = limit_new(10000000, NULL);
	int64_t now = 1000;

	(void)state;
	near(send_for(l, &now, 10000, FRAME), 100000000, 2 * FRAME + 500000);
	/* Small ones, too. */
	near(send_for(l, &now, 10000, 100), 100000000, 2 * FRAME + 500000);
	limit_free(l);
}

static void
test_slow(void **state)
{
	struct limit *l = limit_new(LIMIT_MIN, NULL);
	int64_t now = 0;

	(void)state;
	/* The first frame goes, the next one takes its minutes. */
	near(send_for(l, &now, 3600000, FRAME), 3600 * LIMIT_MIN, FRAME);
	limit_free(l);
}

/* Two connections have one rate. */
static void
test_shared(void **state)
{
	struct limit *l = limit_new(1000000, NULL);
	uint64_t bytes[2] = { 0, 0 };
	int64_t ready[2] = { 0, 0 };

	(void)state;
	for (int64_t now = 0; now < 60000; now++) {
		for (int i = 0; i < 2; i++) {
			int64_t wait;

			if (now < ready[i]) {
				continue;
			}
			wait = limit_take(l, now, 20000);
			bytes[i] += wait ? 0 : 20000;
			ready[i] = now + wait;
		}
	}
	near(bytes[0] + bytes[1], 60000000, 200000);
	limit_free(l);
}

/* An hour of silence saves up no more than a moment. */
static void
test_saves_little(void **state)
{
	struct limit *l = limit_new(1000000, NULL);
	int64_t now = 0;

	(void)state;
	send_for(l, &now, 1000, 1000);
	now += 3600000;
	near(send_for(l, &now, 1000, 1000), 1000000, 60000);
	/* A clock that stands still or goes back adds nothing. */
	near(send_for(l, &now, 1, 1000), 0, 60000);
	assert_true(limit_take(l, now - 5000, 1) >= 0);
	limit_free(l);
}

static void
test_change(void **state)
{
	struct limit *l = limit_new(LIMIT_MIN, NULL);
	int64_t now = 0;

	(void)state;
	assert_int_equal(limit_take(l, now, 10000000), 0);
	assert_true(limit_take(l, now, 1) > 0);
	/* Not the hours that the old rate would have taken. */
	limit_set(l, 1000000);
	assert_int_equal(limit_rate(l), 1000000);
	near(send_for(l, &now, 10000, 1000), 10000000, 1100000);
	limit_set(l, 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(limit_take(l, now, FRAME), 0);
	}
	limit_set(l, 2000000);
	near(send_for(l, &now, 10000, 1000), 20000000, 200000);
	/* More than can be counted is no limit. */
	limit_set(l, UINT64_MAX);
	assert_int_equal(limit_rate(l), 0);
	limit_free(l);
}

static void
test_lift(void **state)
{
	struct limit *l = limit_new(1000, NULL);
	int64_t now = 0;

	(void)state;
	assert_int_equal(limit_take(l, now, FRAME), 0);
	assert_true(limit_take(l, now, FRAME) > 0);
	limit_lift(l, true);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(limit_take(l, now, FRAME), 0);
	}
	assert_int_equal(limit_rate(l), 1000);
	limit_lift(l, false);
	assert_int_equal(limit_take(l, now, FRAME), 0);
	assert_true(limit_take(l, now, FRAME) > 0);
	limit_free(l);
}

static void
test_none(void **state)
{
	struct limit *l = limit_new(0, NULL);

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(limit_take(l, i, FRAME), 0);
		assert_int_equal(limit_take(NULL, i, FRAME), 0);
	}
	limit_free(l);
	limit_free(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate_holds),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_saves_little),
		cmocka_unit_test(test_change),
		cmocka_unit_test(test_lift),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
