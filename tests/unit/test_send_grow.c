/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of send_grow: links that are made up, against the best number of
 * streams on each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "xfer/send_grow.h"

#define TICK 50
#define MAX 8

/* A link and the hosts at its ends. */
struct world {
	double rate[MAX + 1]; /* bytes/ms with so many streams */
	int64_t open_ms;      /* a further stream takes */
	double idle;	      /* of this host's processors */
	double cpu;	      /* of a stream's thread */
	bool backlog;
	uint64_t bytes, files;
	double noise; /* of each tick, as a part */
};

/* What a copy came to. */
struct outcome {
	int64_t ms;
	unsigned opened, used; /* in the end */
	unsigned most;
};

static double
jitter(const struct world *w, unsigned tick)
{
	/* Any sequence that has no mean. */
	double x = (double)((tick * 2654435761u) >> 16 & 1023) / 511.5 - 1;

	return 1 + w->noise * x;
}

/* `fixed` streams, or as send_grow wants (0). */
static struct outcome
run(const struct world *w, unsigned fixed)
{
	struct send_grow g = { 0 };
	struct send_grow_wish wish = { fixed, fixed };
	struct outcome o = { .most = 1 };
	struct send_grow_sample s = { .ms = 1000, .streams = 1 };
	int64_t opening = 0;
	double sent = 0;

	send_grow_begin(&g, MAX, w->bytes, w->files);
	for (unsigned tick = 0; sent < (double)w->bytes; tick++) {
		unsigned n;

		s.acked = (uint64_t)sent;
		s.backlog = w->backlog;
		s.idle = w->idle;
		if (!fixed) {
			wish = send_grow_step(&g, &s);
		}
		if (!opening && s.streams < wish.open) {
			opening = s.ms + w->open_ms;
		}
		if (opening && s.ms >= opening) {
			s.streams++;
			opening = 0;
		}
		n = s.streams < wish.use ? s.streams : wish.use;
		sent += w->rate[n] * TICK * jitter(w, tick);
		s.cpu += w->cpu * n * TICK / 1000;
		s.ms += TICK;
		o.opened = s.streams;
		o.used = n;
		o.most = n > o.most ? n : o.most;
		assert_true(tick < 100000);
	}
	o.ms = s.ms - 1000;
	return o;
}

/* Within `part` of the best fixed number. */
static struct outcome
near_the_best(const struct world *w, double part)
{
	struct outcome o = run(w, 0);
	int64_t best = INT64_MAX;

	for (unsigned n = 1; n <= MAX; n++) {
		struct outcome f = run(w, n);

		best = f.ms < best ? f.ms : best;
	}
	if ((double)o.ms > (double)best * part + TICK) {
		fail_msg("%lld ms, the best is %lld ms", (long long)o.ms,
			 (long long)best);
	}
	return o;
}

/* Two processors are the limit. */
static void
test_fast_and_short(void **state)
{
	struct world w = { .rate = { 0, 6e5, 9e5, 8.8e5, 8.6e5, 8.4e5, 8.2e5,
				     8e5, 8e5 },
			   .open_ms = 150,
			   .idle = 0.02,
			   .cpu = 0.4,
			   .backlog = true,
			   .bytes = 1100000000,
			   .files = 24500 };
	struct outcome o;

	(void)state;
	o = near_the_best(&w, 1.1);
	assert_int_equal(o.most, 2);
	w.bytes = (uint64_t)20 << 30;
	w.noise = 0.3;
	o = near_the_best(&w, 1.1);
	assert_int_equal(o.most, 2);
}

/* 20 ms each way: one stream carries a window in a round trip. */
static void
test_long(void **state)
{
	struct world w = { .rate = { 0, 5e4, 1e5, 1.5e5, 2e5, 2.5e5, 3e5, 3.5e5,
				     4e5 },
			   .open_ms = 450,
			   .idle = 0.7,
			   .cpu = 0.1,
			   .backlog = true,
			   .bytes = (uint64_t)4 << 30,
			   .files = 1 };
	struct outcome o;

	(void)state;
	o = near_the_best(&w, 1.1);
	assert_int_equal(o.used, 8);
	w.noise = 0.2;
	near_the_best(&w, 1.1);
	w.bytes = 1100000000;
	w.noise = 0;
	near_the_best(&w, 1.1);
}

/* A wire that one stream fills. */
static void
test_narrow(void **state)
{
	struct world w = { .rate = { 0, 1.18e5, 1.18e5, 1.18e5, 1.18e5, 1.18e5,
				     1.18e5, 1.18e5, 1.18e5 },
			   .open_ms = 200,
			   .idle = 0.6,
			   .cpu = 0.2,
			   .backlog = true,
			   .bytes = 1100000000,
			   .files = 24500 };
	struct outcome o;

	(void)state;
	o = near_the_best(&w, 1.02);
	assert_int_equal(o.used, 2);
	assert_in_range(o.opened, 2, 3);
	w.noise = 0.1;
	o = near_the_best(&w, 1.05);
	assert_in_range(o.opened, 2, 4);
}

/* Several streams disturb one another: it goes back to one. */
static void
test_worse(void **state)
{
	struct world w = { .rate = { 0, 1e5, 7e4, 6e4, 5e4, 5e4, 5e4, 5e4,
				     5e4 },
			   .open_ms = 200,
			   .idle = 0.2,
			   .cpu = 0.6,
			   .backlog = true,
			   .bytes = (uint64_t)4 << 30,
			   .files = 24500 };
	struct outcome o;

	(void)state;
	o = near_the_best(&w, 1.05);
	assert_int_equal(o.used, 1);
}

/* Over before a second one is there; unless the link is slow. */
static void
test_tiny(void **state)
{
	struct world w = { .rate = { 0, 5e5, 5e5, 5e5, 5e5, 5e5, 5e5, 5e5,
				     5e5 },
			   .open_ms = 200,
			   .idle = 0.5,
			   .cpu = 0.4,
			   .backlog = true,
			   .bytes = 40000000,
			   .files = 100 };
	struct outcome o;

	(void)state;
	o = run(&w, 0);
	assert_int_equal(o.opened, 1);
	for (unsigned n = 1; n <= MAX; n++) {
		w.rate[n] = 4e3 * n;
	}
	o = run(&w, 0);
	assert_true(o.opened > 2);
}

/* The reading is slower than one stream: no more than the second. */
static void
test_slow_disk(void **state)
{
	struct world w = { .rate = { 0, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5,
				     1e5 },
			   .open_ms = 200,
			   .idle = 0.9,
			   .cpu = 0.7,
			   .backlog = false,
			   .bytes = (uint64_t)4 << 30,
			   .files = 100 };
	struct outcome o;

	(void)state;
	o = run(&w, 0);
	assert_int_equal(o.opened, 2);
}

static void
test_stopped(void **state)
{
	struct send_grow g = { 0 };
	struct send_grow_sample s = { .ms = 1, .streams = 1 };

	(void)state;
	send_grow_begin(&g, MAX, 1 << 30, 0);
	assert_int_equal(send_grow_step(&g, &s).open, 2);
	send_grow_stop(&g);
	s.ms = 100;
	assert_int_equal(send_grow_step(&g, &s).open, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fast_and_short),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_worse),
		cmocka_unit_test(test_tiny),
		cmocka_unit_test(test_slow_disk),
		cmocka_unit_test(test_stopped),
	};

	return cmocka_run_group_tests_name("send_grow", tests, NULL, NULL);
}
