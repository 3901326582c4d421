/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unit tests of xfer/tuner: a model of hosts and a link is copied over, slice
 * by slice, with a clock that is made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "xfer/tuner.h"

/* What a level does: content per byte on the wire, seconds of processor per
 * byte of content. As zstd does on a system's files. */
static const struct {
	int level;
	double ratio, cost;
} levels[] = {
	{ 0, 1.0, 0 },	     { 1, 2.1, 2.4e-9 },  { 3, 2.3, 5e-9 },
	{ 5, 2.4, 9e-9 },    { 7, 2.45, 15e-9 },  { 9, 2.5, 22e-9 },
	{ 12, 2.55, 60e-9 }, { 15, 2.6, 120e-9 },
};

struct world {
	double link;	/* bytes per second */
	double cpus;	/* of both hosts together, or of this one */
	double cost;	/* of all but compression, seconds per byte */
	double pack;	/* as the tuner is told; 0: not known */
	double cap;	/* content bytes per second that the other side's
			   disk takes; 0: any */
	bool random;	/* nothing shrinks, and is not tried long */
	bool busy;	/* others take what is idle */
	double noise;	/* relative, of the rate */
	int64_t lag_us; /* how long the queue is mixed after a change */

	struct tuner t;
	int64_t now_us, changed_us;
	int level, before;
	unsigned changes;
	double raw; /* content sent in all */
	uint64_t seed;
};

static double
noise(struct world *w)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return 1 + w->noise * ((double)(w->seed >> 33) / (1u << 30) - 1);
}

static void
world(struct world *w, double link, double cpus, double cost)
{
	*w = (struct world){ .link = link,
			     .cpus = cpus,
			     .cost = cost,
			     .lag_us = 100000,
			     .seed = 1 };
	tuner_init(&w->t);
}

static unsigned
row(int level)
{
	for (unsigned i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (levels[i].level == level) {
			return i;
		}
	}
	fail_msg("level %d is none of the tuner's", level);
	return 0;
}

static double
min(double a, double b)
{
	return a < b ? a : b;
}

/* Content bytes per second at a level. */
static double
goodput(const struct world *w, int level)
{
	unsigned i = row(level);
	double ratio = w->random ? 1 : levels[i].ratio;
	double cost = w->random ? levels[i].cost / 20 : levels[i].cost;
	double r = min(w->link * ratio, w->cpus / (w->cost + cost));

	return w->cap ? min(r, w->cap) : r;
}

static void
slice(struct world *w)
{
	unsigned i = row(w->level);
	double ratio = w->random ? 1 : levels[i].ratio;
	double cost = w->random ? levels[i].cost / 20 : levels[i].cost;
	double g = goodput(w, w->level), used = g * (w->cost + cost);
	struct tuner_in in = { .us = 60000 };
	bool mixed = w->now_us - w->changed_us < w->lag_us && w->changes;
	int level;

	/* Until the queue has moved on the old frames set the pace. */
	if (mixed) {
		g = min(g, goodput(w, w->before));
	}
	g *= noise(w);
	in.raw = (uint64_t)(g * 0.06);
	in.wire = (uint64_t)(g * 0.06 / ratio);
	in.idle = w->busy ? 0 : w->cpus - used;
	in.idle = in.idle < 0.02 ? 0.02 : in.idle;
	/* Two senders: what their processors do not do they wait for. */
	in.blocked = 1 - g * (cost + w->cost / 4) / 2;
	if (goodput(w, w->level) < w->link * ratio && !w->cap && w->level > 0) {
		in.blocked = 0.01;
	}
	in.blocked = in.blocked < 0 ? 0 : in.blocked;
	in.used = used / 2;
	in.pack = w->pack;
	in.flushed = !mixed;
	w->raw += (double)in.raw;
	level = tuner_slice(&w->t, &in);
	w->now_us += in.us;
	if (level != w->level) {
		w->changes++;
		w->before = w->level;
		w->changed_us = w->now_us;
	}
	w->level = level;
}

static void
run(struct world *w, double seconds)
{
	int64_t until = w->now_us + (int64_t)(seconds * 1e6);

	while (w->now_us < until) {
		slice(w);
	}
}

/* 1 Gbit/s and two processors that both hosts share. */
static void
test_link_bound(void **state)
{
	struct world w;

	(void)state;
	world(&w, 117e6, 2, 3e-9);
	run(&w, 0.2);
	assert_true(w.level >= 1);
	run(&w, 3);
	/* No less than nine tenths of what the best level would have done. */
	assert_true(w.raw > 3.2 * 0.9 * 117e6 * 2.1);
	assert_true(w.level >= 1);
}

/* The slower the link, the higher the level; step by step. */
static void
test_level_follows_spare_cpu(void **state)
{
	struct world w;

	(void)state;
	world(&w, 1e6, 4, 3e-9);
	run(&w, 10);
	assert_int_equal(w.level, 15);
	world(&w, 12e6, 2, 3e-9);
	run(&w, 10);
	assert_true(w.level >= 9);
	world(&w, 117e6, 2, 3e-9);
	run(&w, 10);
	assert_true(w.level >= 1 && w.level <= 7);
}

/* Nothing idle: never on, so never slower than without. */
static void
test_cpu_bound(void **state)
{
	struct world w;

	(void)state;
	world(&w, 10e9, 2, 3e-9);
	w.noise = 0.2;
	run(&w, 60);
	assert_int_equal(w.level, 0);
	assert_int_equal(w.changes, 0);
}

/* A host that is so busy that the copy looks like one over a slow link. */
static void
test_busy(void **state)
{
	struct world w;

	(void)state;
	world(&w, 10e9, 2, 60e-9);
	w.busy = true;
	w.noise = 0.3;
	run(&w, 60);
	assert_int_equal(w.changes, 0);
}

/* A slow link is one on a busy host, too; but what is not idle is not taken.
 */
static void
test_busy_and_slow(void **state)
{
	struct world w;

	(void)state;
	world(&w, 12e6, 2, 3e-9);
	w.busy = true;
	run(&w, 10);
	assert_true(w.level >= 1 && w.level <= 7);
	world(&w, 2e6, 2, 3e-9);
	w.busy = true;
	run(&w, 10);
	assert_true(w.level >= 1);
}

/* What is idle could compress but a little of what goes: not tried, once more
 * when the compressor is known to be fast enough. */
static void
test_hopeless(void **state)
{
	struct world w;

	(void)state;
	world(&w, 400e6, 2, 3.5e-9);
	run(&w, 60);
	assert_int_equal(w.changes, 0);
	world(&w, 150e6, 2, 9e-9);
	w.pack = 100e6;
	run(&w, 60);
	assert_int_equal(w.changes, 0);
	w.pack = 500e6;
	run(&w, 1);
	assert_true(w.changes > 0);
}

/* Idle, waiting, and yet nothing to be had: the other side's disk. Looks are
 * ever rarer. */
static void
test_slow_disk_there(void **state)
{
	struct world w;
	unsigned early;

	(void)state;
	world(&w, 1e9, 8, 3e-9);
	w.cap = 50e6;
	run(&w, 30);
	early = w.changes;
	assert_true(early >= 2 && early <= 14);
	run(&w, 300);
	assert_true(w.changes - early <= 2 * 300 / 30 + 2);
	assert_int_equal(w.level, 0);
}

static void
test_incompressible(void **state)
{
	struct world w;
	unsigned early;

	(void)state;
	world(&w, 117e6, 4, 3e-9);
	w.random = true;
	run(&w, 2);
	early = w.changes;
	run(&w, 300);
	assert_int_equal(w.level, 0);
	assert_true(early <= 6);
	assert_true(w.changes - early <= 2 * (300 / 30 + 6));
}

/* It was on when the content changed to what does not shrink, and back. */
static void
test_content_changes(void **state)
{
	struct world w;

	(void)state;
	world(&w, 117e6, 4, 3e-9);
	run(&w, 5);
	assert_true(w.level >= 1);
	w.random = true;
	run(&w, 3);
	assert_int_equal(w.level, 0);
	w.random = false;
	run(&w, 10);
	assert_true(w.level >= 1);
}

/* The link becomes fast: off again, within the time of a look. */
static void
test_link_becomes_fast(void **state)
{
	struct world w;

	(void)state;
	world(&w, 12e6, 2, 3e-9);
	run(&w, 10);
	assert_true(w.level >= 1);
	w.link = 10e9;
	run(&w, 20);
	assert_int_equal(w.level, 0);
	w.link = 117e6;
	run(&w, 35);
	assert_true(w.level >= 1);
}

/* With noise on everything the level changes seldom, and what is lost by
 * looking is little. */
static void
test_oscillation_bounded(void **state)
{
	static const double links[] = { 2e6, 12e6, 60e6, 117e6, 300e6, 1e9 };

	(void)state;
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		struct world w;
		double off;

		world(&w, links[i], 2, 3e-9);
		w.noise = 0.25;
		run(&w, 5);
		w.changes = 0;
		w.raw = 0;
		run(&w, 115);
		off = goodput(&w, 0) * 115;
		/* Fewer than one change in a second, and never worse than off.
		 */
		if (w.changes > 115 || w.raw < off * 0.97) {
			fail_msg("link %g: %u changes, %.2f of off", links[i],
				 w.changes, w.raw / off);
		}
	}
}

/* All processors are at work on compressed content, and the link is not full:
 * a smaller share of the frames is compressed, down to one; where senders wait
 * for the link, a larger one again. */
static void
test_share(void **state)
{
	struct tuner_in in = { .us = 60000,
			       .raw = 12000000,
			       .wire = 12000000,
			       .blocked = 0.9,
			       .idle = 1,
			       .used = 0.5,
			       .flushed = true };
	struct tuner t;
	unsigned was;

	(void)state;
	tuner_init(&t);
	assert_int_equal(tuner_share(&t), TUNER_SHARES);
	for (int i = 0; i < 3; i++) {
		tuner_slice(&t, &in);
	}
	assert_true(t.trial);
	in.raw = 24000000;
	in.blocked = 0.02;
	in.idle = 0.05;
	for (int i = 0; i < 3; i++) {
		tuner_slice(&t, &in);
	}
	assert_int_equal(tuner_level(&t), 1);
	for (int i = 0; i < 20; i++) {
		was = tuner_share(&t);
		tuner_slice(&t, &in);
		assert_true(tuner_share(&t) <= was);
	}
	assert_int_equal(tuner_level(&t), 1);
	assert_int_equal(tuner_share(&t), 1);
	in.blocked = 0.3;
	for (int i = 0; i < 20; i++) {
		tuner_slice(&t, &in);
	}
	assert_int_equal(tuner_share(&t), TUNER_SHARES);
	assert_int_equal(tuner_level(&t), 1);
}

/* Where nothing shrinks much, a higher level is not tried. */
static void
test_little_to_gain(void **state)
{
	struct tuner_in in = { .us = 60000,
			       .raw = 700000,
			       .wire = 700000,
			       .blocked = 0.9,
			       .idle = 1,
			       .used = 0.5,
			       .flushed = true };
	struct tuner t;

	(void)state;
	tuner_init(&t);
	for (int i = 0; i < 3; i++) {
		tuner_slice(&t, &in);
	}
	in.raw = 800000;
	for (int i = 0; i < 100; i++) {
		assert_true(tuner_slice(&t, &in) <= 1);
	}
	assert_int_equal(tuner_level(&t), 1);
	in.raw = 1400000;
	for (int i = 0; i < 10; i++) {
		tuner_slice(&t, &in);
	}
	assert_true(tuner_level(&t) > 1);
}

static void
test_odd_slices(void **state)
{
	struct tuner t;
	struct tuner_in in = { 0 };

	(void)state;
	tuner_init(&t);
	assert_int_equal(tuner_slice(&t, &in), 0);
	in.us = -5;
	assert_int_equal(tuner_slice(&t, &in), 0);
	/* Idle and used are not known: nothing is tried. */
	in = (struct tuner_in){ .us = 60000,
				.raw = 6000000,
				.wire = 6000000,
				.blocked = 1,
				.idle = -1,
				.used = -1,
				.flushed = true };
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(tuner_slice(&t, &in), 0);
	}
	assert_int_equal(tuner_level(&t), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link_bound),
		cmocka_unit_test(test_level_follows_spare_cpu),
		cmocka_unit_test(test_cpu_bound),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_busy_and_slow),
		cmocka_unit_test(test_hopeless),
		cmocka_unit_test(test_slow_disk_there),
		cmocka_unit_test(test_incompressible),
		cmocka_unit_test(test_content_changes),
		cmocka_unit_test(test_link_becomes_fast),
		cmocka_unit_test(test_oscillation_bounded),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_little_to_gain),
		cmocka_unit_test(test_odd_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
