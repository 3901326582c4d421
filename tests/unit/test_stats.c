/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unit tests of cipher/stats and cipher/decide. The published timings are in
 * tests/data/seed-timings.json; all expected figures were computed by hand,
 * with the arithmetic beside them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cipher/decide.h"
#include "cipher/stats.h"
#include "cipher/table.h"

#define RUNS_MAX 16

static json_t *seed;

static int
load_seed(void **state)
{
	const char *dir = getenv("srcdir");
	char path[4096];

	(void)state;
	snprintf(path, sizeof(path), "%s/tests/data/seed-timings.json",
		 dir ? dir : ".");
	seed = json_load_file(path, 0, NULL);
	return seed ? 0 : -1;
}

static int
drop_seed(void **state)
{
	(void)state;
	json_decref(seed);
	return 0;
}

/* The figures `key` of an array of runs. */
static size_t
figures(const json_t *runs, const char *key, double *v)
{
	size_t n = json_array_size(runs);

	assert_true(n > 0 && n <= RUNS_MAX);
	for (size_t i = 0; i < n; i++) {
		json_t *x = json_object_get(json_array_get(runs, i), key);

		assert_true(json_is_number(x));
		v[i] = json_number_value(x);
	}
	return n;
}

static void
near(double got, double want)
{
	if (fabs(got - want) > 1e-9) {
		fail_msg("%.12f is not %.12f", got, want);
	}
}

static void
mean_of(const char *set, const char *key, double want)
{
	double v[RUNS_MAX];
	size_t n = figures(json_object_get(json_object_get(seed, "set1"), set),
			   key, v);

	assert_int_equal(n, 10);
	near(stats_mean(v, n), want);
}

/*
 * The first set, wall seconds, ten runs:
 * blowfish 2.757 + 2.655 + 2.635 + 2.702 + 2.595 + 2.614 + 2.483 + 2.441 +
 *          2.715 + 2.702 = 26.299
 * default  2.557 + 2.409 + 2.412 + 2.403 + 2.421 + 2.343 + 2.367 + 2.424 +
 *          2.427 + 2.449 = 24.212
 * user:    blowfish 1.45 + 1.48 + 1.48 + 1.42 + 1.46 + 1.52 + 1.46 + 1.50 +
 *          1.50 + 1.49 = 14.76; default 1.48 + 1.48 + 1.44 + 1.45 + 1.44 +
 *          1.46 + 1.47 + 1.41 + 1.45 + 1.43 = 14.51
 * system:  blowfish .20 + .16 + .16 + .21 + .18 + .11 + .17 + .14 + .13 + .15
 *          = 1.61; default .13 + .14 + .17 + .18 + .17 + .17 + .15 + .21 +
 *          .17 + .18 = 1.67
 * percent: blowfish 59 + 62 + 62 + 60 + 63 + 62 + 65 + 67 + 60 + 60 = 620;
 *          default 62 + 66 + 66 + 67 + 66 + 69 + 68 + 66 + 66 + 65 = 661
 */
static void
test_set1_means(void **state)
{
	(void)state;
	mean_of("blowfish", "wall_s", 2.6299);
	mean_of("default", "wall_s", 2.4212);
	mean_of("blowfish", "user_s", 1.476);
	mean_of("default", "user_s", 1.451);
	mean_of("blowfish", "system_s", 0.161);
	mean_of("default", "system_s", 0.167);
	mean_of("blowfish", "cpu_percent", 62.0);
	mean_of("default", "cpu_percent", 66.1);
}

/*
 * Wall seconds in order:
 * default  2.343 2.367 2.403 2.409 2.412 2.421 2.424 2.427 2.449 2.557
 * blowfish 2.441 2.483 2.595 2.614 2.635 2.655 2.702 2.702 2.715 2.757
 * Medians (2.412 + 2.421) / 2 = 2.4165 and (2.635 + 2.655) / 2 = 2.645.
 * Interval: the k-th from either end misses with 2 P(X < k), X binomial
 * (10, 1/2). k = 2: 2 (1 + 10) / 1024 = 22 / 1024, so 97.85 %; k = 3 has
 * 2 (1 + 10 + 45) / 1024 = 112 / 1024, only 89 %.
 * Separation: only 3 of the 100 pairs are the other way round (2.557 above
 * 2.483 and 2.441, 2.449 above 2.441). Of the C(20, 10) = 184756 arrangements
 * those with at most 3 such pairs number 1 + 1 + 2 + 3 = 7 (partitions of 0,
 * 1, 2, 3), and as many on the other side: p = 14 / 184756 = 0.0000758. The
 * tie 2.702 2.702 has ranks 17 and 18, where it cannot touch these.
 */
static void
test_set1_verdict(void **state)
{
	const json_t *set1 = json_object_get(seed, "set1");
	double b[RUNS_MAX], d[RUNS_MAX];
	size_t nb = figures(json_object_get(set1, "blowfish"), "wall_s", b);
	size_t nd = figures(json_object_get(set1, "default"), "wall_s", d);
	struct stats_pair p = { d, nd, b, nb };
	struct stats_interval i;
	struct stats_test t;
	struct err e = { 0 };

	(void)state;
	near(stats_median(d, nd), 2.4165);
	near(stats_median(b, nb), 2.645);
	assert_int_equal(stats_median_interval(d, nd, 0.95, &i, &e), 0);
	near(i.lo, 2.367);
	near(i.hi, 2.449);
	near(i.coverage, 1 - 22.0 / 1024);
	assert_int_equal(stats_median_interval(b, nb, 0.95, &i, &e), 0);
	near(i.lo, 2.483);
	near(i.hi, 2.715);
	assert_int_equal(stats_separate(&p, 1, 0.05, &t, &e), 0);
	assert_int_equal(t.verdict, STATS_A_LOWER);
	near(t.p, 14.0 / 184756);
	near(t.p_min, 2.0 / 184756);
}

/* Every name of both servers, with its mean seconds on each or NAN. */
struct table2 {
	const char *name[32];
	double mean[32][2];
	double runs[32][2][RUNS_MAX];
	size_t n;
};

static void
load_table2(struct table2 *t)
{
	static const char *const servers[] = { "server1", "server2" };

	*t = (struct table2){ 0 };
	for (size_t s = 0; s < 2; s++) {
		json_t *set = json_object_get(json_object_get(seed, "set2"),
					      servers[s]);
		const char *name;
		json_t *runs;

		json_object_foreach(set, name, runs)
		{
			size_t i = 0;

			while (i < t->n && strcmp(t->name[i], name) != 0) {
				i++;
			}
			if (i == t->n) {
				t->mean[i][0] = t->mean[i][1] = NAN;
				t->name[t->n++] = name;
			}
			assert_int_equal(figures(runs, "real_s", t->runs[i][s]),
					 2);
			t->mean[i][s] = stats_mean(t->runs[i][s], 2);
		}
	}
}

static void
want_order(const struct table2 *t, enum stats_rank_by by,
	   const char *const *want, size_t n)
{
	size_t order[32];

	assert_int_equal(stats_rank(t->mean[0], t->n, 2, by, order), n);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(t->name[order[i]], want[i]);
	}
}

/*
 * The second set, means of two runs, real seconds, of the six ciphers that
 * both servers have:
 *              server 1               server 2              worst  sum
 * aes128-ctr  (3.60 + 3.25)/2 = 3.425 ( .90 + 1.06)/2 =  .980 3.425 4.405
 * aes192-ctr  (3.08 + 3.86)/2 = 3.470 ( .93 +  .93)/2 =  .930 3.470 4.400
 * aes256-ctr  (2.92 + 3.24)/2 = 3.080 ( .95 +  .95)/2 =  .950 3.080 4.030
 * aes128-cbc  (2.76 + 2.38)/2 = 2.570 (1.31 + 1.30)/2 = 1.305 2.570 3.875
 * aes192-cbc  (2.86 + 2.53)/2 = 2.695 (1.40 + 1.40)/2 = 1.400 2.695 4.095
 * aes256-cbc  (3.05 + 2.74)/2 = 2.895 (1.69 + 1.50)/2 = 1.595 2.895 4.490
 */
static void
test_set2_rankings(void **state)
{
	static const char *const worst[] = { "aes128-cbc", "aes192-cbc",
					     "aes256-cbc", "aes256-ctr",
					     "aes128-ctr", "aes192-ctr" };
	static const char *const sum[] = { "aes128-cbc", "aes256-ctr",
					   "aes192-cbc", "aes192-ctr",
					   "aes128-ctr", "aes256-cbc" };
	static const char *const safe_worst[] = { "aes256-ctr", "aes128-ctr",
						  "aes192-ctr" };
	static const char *const safe_sum[] = { "aes256-ctr", "aes192-ctr",
						"aes128-ctr" };
	struct table2 t;

	(void)state;
	load_table2(&t);
	/* 12 of the one, and of the other chacha20 and two gcm beside */
	assert_int_equal(t.n, 15);
	want_order(&t, STATS_WORST, worst, 6);
	want_order(&t, STATS_SUM, sum, 6);
	for (size_t i = 0; i < t.n; i++) {
		const struct alg *a = table_find(ALG_CIPHER, t.name[i]);

		assert_non_null(a);
		if (a->status != ALG_SAFE) {
			t.mean[i][0] = NAN;
		}
	}
	want_order(&t, STATS_WORST, safe_worst, 3);
	want_order(&t, STATS_SUM, safe_sum, 3);
}

static size_t
index_of(const struct table2 *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++) {
		if (!strcmp(t->name[i], name)) {
			return i;
		}
	}
	fail_msg("%s is missing", name);
	return 0;
}

/* p of a against b on `n` servers from `first` on. */
static void
want_p(const struct table2 *t, const char *a, const char *b, size_t first,
       size_t n, double p)
{
	size_t ia = index_of(t, a), ib = index_of(t, b);
	struct stats_pair pairs[2];
	struct stats_test test;

	for (size_t s = 0; s < n; s++) {
		pairs[s] = (struct stats_pair){ t->runs[ia][first + s], 2,
						t->runs[ib][first + s], 2 };
	}
	assert_int_equal(stats_separate(pairs, n, 0.05, &test, NULL), 0);
	assert_int_equal(test.verdict, STATS_NOT_SEPARABLE);
	near(test.p, p);
}

/*
 * Two against two have 6 arrangements with rank sums 3 4 5 5 6 7 of a, 5 in
 * the middle.
 * - worst, all allowed: aes128-cbc {2.38 2.76} before aes192-cbc {2.53 2.86},
 *   ranks 1 + 3 = 4, 1 from the middle: all but the two 5, p = 4/6.
 * - worst, safe: aes256-ctr {2.92 3.24} before aes128-ctr {3.25 3.60}, ranks
 *   1 + 2 = 3, p = 2/6, the least that two runs can have.
 * - sum, all allowed: aes128-cbc before aes256-ctr. Server 1 {2.38 2.76}
 *   {2.92 3.24}: 3, that is -2. Server 2 {1.30 1.31} {.95 .95}: 7, +2.
 *   Together 0, p = 1.
 * - sum, safe: aes256-ctr before aes192-ctr. Server 1 {2.92 3.24} {3.08 3.86}:
 *   1 + 3 = 4, -1. Server 2 {.95 .95} {.93 .93}: 3.5 + 3.5 = 7, +2; of its 6
 *   arrangements 1 gives -2, 4 give 0, 1 gives +2. Together +1. Of the 36, 0
 *   comes about in 2 x 4 (0 and 0) + 1 (-2 and +2) + 1 (+2 and -2) = 10 ways,
 *   so p = 26/36.
 * - server 2 alone, the same two: no spread at all, which a test with a
 *   variance would take for certainty: p = 2/6.
 */
static void
test_set2_not_separable(void **state)
{
	struct table2 t;

	(void)state;
	load_table2(&t);
	want_p(&t, "aes128-cbc", "aes192-cbc", 0, 1, 4.0 / 6);
	want_p(&t, "aes256-ctr", "aes128-ctr", 0, 1, 2.0 / 6);
	want_p(&t, "aes128-cbc", "aes256-ctr", 0, 2, 1);
	want_p(&t, "aes256-ctr", "aes192-ctr", 0, 2, 26.0 / 36);
	want_p(&t, "aes256-ctr", "aes192-ctr", 1, 1, 2.0 / 6);
}

/* No pair at all can be separated by two runs, on one server or on both. */
static void
test_set2_none_separable(void **state)
{
	struct table2 t;
	struct stats_test test;
	size_t pairs = 0;

	(void)state;
	load_table2(&t);
	for (size_t a = 0; a < t.n; a++) {
		for (size_t b = 0; b < t.n; b++) {
			struct stats_pair p[2] = {
				{ t.runs[a][0], 2, t.runs[b][0], 2 },
				{ t.runs[a][1], 2, t.runs[b][1], 2 }
			};

			if (isnan(t.mean[a][0] + t.mean[b][0] + t.mean[a][1] +
				  t.mean[b][1])) {
				continue;
			}
			pairs++;
			assert_int_equal(
				stats_separate(p, 1, 0.05, &test, NULL), 0);
			assert_int_equal(test.verdict, STATS_NOT_SEPARABLE);
			assert_int_equal(
				stats_separate(p, 2, 0.05, &test, NULL), 0);
			assert_int_equal(test.verdict, STATS_NOT_SEPARABLE);
		}
	}
	assert_int_equal(pairs, 36);
}

/* p by trying every arrangement. */
static double
brute_p(const double *a, size_t na, const double *b, size_t nb)
{
	double v[16], rank[16], mean, seen = 0;
	size_t n = na + nb, hits = 0, all = 0;

	memcpy(v, a, na * sizeof(*v));
	memcpy(v + na, b, nb * sizeof(*v));
	for (size_t i = 0; i < n; i++) {
		double less = 0, same = 0;

		for (size_t k = 0; k < n; k++) {
			less += v[k] < v[i];
			same += fabs(v[k] - v[i]) < 1e-12;
		}
		rank[i] = less + (same + 1) / 2;
		seen += i < na ? rank[i] : 0;
	}
	mean = (double)na * (double)(n + 1) / 2;
	for (unsigned set = 0; set < 1U << n; set++) {
		double w = 0;

		if ((size_t)__builtin_popcount(set) != na) {
			continue;
		}
		for (size_t i = 0; i < n; i++) {
			w += set >> i & 1 ? rank[i] : 0;
		}
		all++;
		hits += fabs(w - mean) >= fabs(seen - mean) - 1e-9;
	}
	return (double)hits / (double)all;
}

static void
test_separate_brute(void **state)
{
	unsigned x = 12345;

	(void)state;
	for (int round = 0; round < 200; round++) {
		double a[6], b[6];
		size_t na = 1 + (size_t)round % 6,
		       nb = 1 + (size_t)round / 6 % 6;
		struct stats_pair p = { a, na, b, nb };
		struct stats_test t;

		for (size_t i = 0; i < na + nb; i++) {
			x = x * 1103515245 + 12345;
			/* few values, so that there are ties */
			*(i < na ? &a[i] : &b[i - na]) = x >> 16 & 7;
		}
		assert_int_equal(stats_separate(&p, 1, 0.05, &t, NULL), 0);
		near(t.p, brute_p(a, na, b, nb));
		assert_true(t.p_min <= t.p + 1e-9);
		assert_int_equal(t.verdict == STATS_NOT_SEPARABLE,
				 t.p > 0.05 + 1e-9);
	}
}

/*
 * Above STATS_EXACT values. 30 against 30, all of a below: W = 465 against
 * 915 expected, variance 30 x 30 x 61 / 12 = 4575, z = 449.5 / 67.639 = 6.646.
 */
static void
test_separate_large(void **state)
{
	double a[30], b[30];
	struct stats_pair p = { a, 30, b, 30 }, same = { a, 30, a, 30 };
	struct stats_test t;

	(void)state;
	for (int i = 0; i < 30; i++) {
		a[i] = i;
		b[i] = 100 - i;
	}
	assert_int_equal(stats_separate(&p, 1, 0.05, &t, NULL), 0);
	assert_int_equal(t.verdict, STATS_A_LOWER);
	assert_true(fabs(t.p - erfc(449.5 / sqrt(4575.0) / sqrt(2.0))) < 1e-15);
	assert_int_equal(stats_separate(&same, 1, 0.05, &t, NULL), 0);
	assert_int_equal(t.verdict, STATS_NOT_SEPARABLE);
	near(t.p, 1);
}

/*
 * One run of a is wild, below all of b: of the n x n pairs n are the wrong way
 * round. Arrangements with at most n such pairs: the partitions of 0 to n, 1 1
 * 2 3 5 7 11 15 22. n = 6: 30, p = 60/924; n = 8: 67, p = 134/12870.
 */
static void
test_outlier(void **state)
{
	double a[8] = { 1, 90, 91, 92, 93, 94, 95, 96 };
	double b[8] = { 10, 11, 12, 13, 14, 15, 16, 17 };
	struct stats_pair six = { a, 6, b, 6 }, eight = { a, 8, b, 8 };
	struct stats_test t;

	(void)state;
	assert_int_equal(stats_separate(&six, 1, 0.05, &t, NULL), 0);
	assert_int_equal(t.verdict, STATS_NOT_SEPARABLE);
	near(t.p, 60.0 / 924);
	assert_int_equal(stats_separate(&eight, 1, 0.05, &t, NULL), 0);
	assert_int_equal(t.verdict, STATS_A_HIGHER);
	near(t.p, 134.0 / 12870);
}

static void
test_limits(void **state)
{
	double v[3] = { 1, 2, 3 }, bad[2] = { 1, NAN };
	struct stats_pair none = { v, 0, v, 3 }, nan = { v, 3, bad, 2 };
	struct stats_pair ok = { v, 3, v, 3 };
	struct stats_interval i;
	struct stats_test t;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(stats_separate(&none, 1, 0.05, &t, &e), E_LIMIT);
	assert_int_equal(stats_separate(&nan, 1, 0.05, &t, &e), E_USAGE);
	assert_int_equal(stats_separate(&ok, 0, 0.05, &t, &e), E_LIMIT);
	assert_int_equal(stats_separate(&ok, STATS_STRATA_MAX + 1, 0.05, &t,
					&e),
			 E_LIMIT);
	assert_int_equal(stats_median_interval(v, 0, 0.95, &i, &e), E_LIMIT);
	assert_true(isnan(stats_median(v, 0)));
	near(stats_median(v, 1), 1);
	near(stats_median(v, 2), 1.5);
	/* Few values: smallest and largest, and what that is worth. */
	assert_int_equal(stats_median_interval(v, 1, 0.95, &i, &e), 0);
	near(i.coverage, 0);
	assert_int_equal(stats_median_interval(v, 2, 0.95, &i, &e), 0);
	near(i.lo, 1);
	near(i.hi, 2);
	near(i.coverage, 0.5);
	assert_int_equal(stats_median_interval(v, 3, 0.95, &i, &e), 0);
	near(i.coverage, 0.75);
}

/* A large sample: 2^-n underflows, the interval must not. */
static void
test_interval_large(void **state)
{
	static double v[STATS_MAX];
	struct stats_interval i;

	(void)state;
	for (size_t k = 0; k < STATS_MAX; k++) {
		v[k] = (double)k;
	}
	assert_int_equal(stats_median_interval(v, STATS_MAX, 0.95, &i, NULL),
			 0);
	/* 2047.5 -+ 1.96 x sqrt(4096) / 2 = 62.7 */
	assert_true(fabs(i.lo - (2047.5 - 62.7)) < 2);
	assert_true(fabs(i.hi - (2047.5 + 62.7)) < 2);
	assert_true(i.coverage >= 0.95 && i.coverage < 0.96);
	assert_int_equal(stats_median_interval(v, STATS_MAX + 1, 0.95, &i,
					       NULL),
			 E_LIMIT);
}

/* 2/C(2n,n): 2/6, 2/20, 2/70 = .029, 2/252 = .0079, 2/924 = .0022. */
static void
test_min_runs(void **state)
{
	(void)state;
	assert_int_equal(stats_min_runs(2, 0.05), 4);
	assert_int_equal(stats_min_runs(3, 0.05), 5); /* .025 */
	assert_int_equal(stats_min_runs(7, 0.05), 5); /* .0083 */
	assert_int_equal(stats_min_runs(8, 0.05), 6); /* .0071 */
	assert_int_equal(stats_min_runs(1, 0.05), 4);
}

#define ROUNDS 6

/* Six rounds around `mid`, spread by `step`, in an order of their own. */
static void
fill(double *v, double mid, double step)
{
	static const int at[ROUNDS] = { 1, -2, 3, 0, -1, 2 };

	for (int i = 0; i < ROUNDS; i++) {
		v[i] = mid + at[i] * step;
	}
}

struct bench {
	double rate[4][ROUNDS], here[4][ROUNDS], there[4][ROUNDS];
	struct decide_cand c[4];
};

static void
bench_set(struct bench *b, size_t i, const char *name, double rate,
	  double spread, double here, double there)
{
	fill(b->rate[i], rate, spread);
	fill(b->here[i], here, here / 200);
	fill(b->there[i], there, there / 200);
	b->c[i] = (struct decide_cand){ name, b->rate[i], b->here[i],
					b->there[i], ROUNDS };
}

static void
want_decision(const struct bench *b, size_t n, size_t pick, enum decide_why why,
	      const char *text)
{
	struct decision d;
	struct err e = { 0 };
	char *s;

	assert_int_equal(decide(b->c, n, 1, &d, &e), 0);
	assert_int_equal(d.pick, pick);
	assert_int_equal(d.why, why);
	s = decide_text(b->c, &d, &e);
	assert_non_null(s);
	assert_string_equal(s, text);
	free(s);
}

static void
test_decide_throughput(void **state)
{
	struct bench b;
	struct decision d;

	(void)state;
	bench_set(&b, 0, "chacha", 390, 3, 1.0, 1.4);
	bench_set(&b, 1, "gcm", 1030, 10, 0.5, 0.5);
	/* median of mid + {-2 -1 0 1 2 3} steps is mid + half a step */
	want_decision(&b, 2, 1, DECIDE_THROUGHPUT,
		      "picked gcm: 1035 MB/s (1.00 CPU s/GB), 2.64 times the "
		      "392 MB/s of the default chacha, beyond the noise");
	assert_int_equal(decide(b.c, 2, 1, &d, NULL), 0);
	assert_true(d.rate_beyond && d.cpu_beyond && !d.too_few);
	near(d.gain, 1035 / 391.5);
	/* One wild round of six: 60/924 = .065 (see test_outlier), so CPU
	 * must decide. */
	b.rate[1][0] = 1;
	want_decision(&b, 2, 1, DECIDE_CPU,
		      "picked gcm: its 1025 MB/s and the 392 MB/s of the "
		      "default chacha are not separable, but it costs less "
		      "(1.00 CPU s/GB) than that (2.41 CPU s/GB), beyond the "
		      "noise");
}

static void
test_decide_cpu(void **state)
{
	struct bench b;

	(void)state;
	/* busy here .93 x .9 = .84, so the link does not limit */
	bench_set(&b, 0, "chacha", 930, 20, 0.90, 0.90);
	bench_set(&b, 1, "gcm", 935, 20, 0.50, 0.60);
	want_decision(&b, 2, 1, DECIDE_CPU,
		      "picked gcm: its 945 MB/s and the 940 MB/s of the "
		      "default chacha are not separable, but it costs less "
		      "(1.10 CPU s/GB) than that (1.80 CPU s/GB), beyond the "
		      "noise");
	/* Without CPU figures there is nothing to choose by. */
	b.c[1].cpu_here = NULL;
	want_decision(&b, 2, 0, DECIDE_NOISE,
		      "kept chacha, which negotiation prefers: its 940 MB/s "
		      "and the 945 MB/s of the fastest, gcm, are not "
		      "separable");
}

static void
test_decide_noise(void **state)
{
	struct bench b;
	struct decision d;

	(void)state;
	bench_set(&b, 0, "chacha", 930, 30, 0.90, 0.90);
	bench_set(&b, 1, "gcm", 940, 30, 0.90, 0.90);
	want_decision(&b, 2, 0, DECIDE_NOISE,
		      "kept chacha, which negotiation prefers: its 945 MB/s "
		      "and the 955 MB/s of the fastest, gcm, are not "
		      "separable");
	/* Two rounds can tell nothing, however large the lead. */
	bench_set(&b, 1, "gcm", 2000, 30, 0.40, 0.40);
	b.c[0].rounds = b.c[1].rounds = 2;
	want_decision(&b, 2, 0, DECIDE_NOISE,
		      "kept chacha, which negotiation prefers: its 915 MB/s "
		      "and the 1985 MB/s of the fastest, gcm, are not "
		      "separable; so few rounds can tell nothing");
	assert_int_equal(decide(b.c, 2, 1, &d, NULL), 0);
	assert_true(d.too_few);
}

static void
test_decide_default_leads(void **state)
{
	struct bench b;

	(void)state;
	bench_set(&b, 0, "gcm", 1030, 10, 0.5, 0.5);
	bench_set(&b, 1, "chacha", 390, 3, 1.0, 1.4);
	bench_set(&b, 2, "ctr", 400, 3, 1.0, 1.4);
	want_decision(&b, 3, 0, DECIDE_DEFAULT,
		      "kept gcm: 1035 MB/s (1.00 CPU s/GB); it leads all "
		      "others, in throughput or in CPU, beyond the noise");
}

/* 1 Gb/s: steady to 0.1 %, so even a lead of 0.5 % is always there. */
static void
test_decide_link(void **state)
{
	struct bench b;
	struct decision d;

	(void)state;
	bench_set(&b, 0, "chacha", 117.0, 0.02, 0.70, 0.80);
	bench_set(&b, 1, "gcm", 117.5, 0.02, 0.50, 0.50);
	bench_set(&b, 2, "ctr", 116.8, 0.02, 1.50, 1.50);
	want_decision(&b, 3, 1, DECIDE_LINK,
		      "the cipher does not matter: the link is slower than "
		      "each of them (118 MB/s); picked gcm (1.00 CPU s/GB)");
	assert_int_equal(decide(b.c, 3, 1, &d, NULL), 0);
	assert_false(d.rate_beyond);
	/* the median is mid + half a step of each */
	near(d.busy_here, 0.11681 * (1.50 + 1.50 / 400));
	/* Equal in cost as well: the default. */
	bench_set(&b, 1, "gcm", 117.5, 0.02, 0.70, 0.80);
	want_decision(&b, 3, 0, DECIDE_LINK,
		      "the cipher does not matter: the link is slower than "
		      "each of them (117 MB/s); kept chacha (1.50 CPU s/GB)");
	/* A host that is busy: it is not the link. */
	bench_set(&b, 1, "gcm", 117.5, 0.02, 0.70, 8.0);
	want_decision(&b, 3, 0, DECIDE_DEFAULT,
		      "kept chacha: 117 MB/s (1.50 CPU s/GB); it leads all "
		      "others, in throughput or in CPU, beyond the noise");
}

/* The first in order must itself lead the default to replace it. */
static void
test_decide_not_transitive(void **state)
{
	struct bench b;

	(void)state;
	bench_set(&b, 0, "slow", 400, 1, 2, 2);
	bench_set(&b, 1, "wild", 430, 60, 2, 2);
	bench_set(&b, 2, "fast", 500, 1, 2, 2);
	want_decision(&b, 3, 2, DECIDE_THROUGHPUT,
		      "picked fast: 500 MB/s (4.01 CPU s/GB), 1.25 times the "
		      "400 MB/s of the default slow, beyond the noise");
}

/* Nor does what the default leads win by its price. */
static void
test_decide_no_slower(void **state)
{
	struct bench b;

	(void)state;
	bench_set(&b, 0, "dflt", 500, 1, 2, 2);
	bench_set(&b, 1, "cheap", 480, 1, 1, 1);
	bench_set(&b, 2, "wild", 510, 60, 2, 2);
	want_decision(&b, 3, 0, DECIDE_NOISE,
		      "kept dflt, which negotiation prefers: its 500 MB/s and "
		      "the 540 MB/s of the fastest, wild, are not separable");
}

/* What could not be measured is left out, be it the default. */
static void
test_decide_unmeasured(void **state)
{
	struct bench b;
	struct decision d;
	struct err e = { 0 };

	(void)state;
	bench_set(&b, 0, "gcm", 1030, 10, 0.5, 0.5);
	bench_set(&b, 1, "chacha", 390, 3, 1.0, 1.4);
	bench_set(&b, 2, "ctr", 800, 3, 0.6, 0.6);
	b.c[0].rounds = 0;
	want_decision(&b, 3, 2, DECIDE_THROUGHPUT,
		      "picked ctr: 802 MB/s (1.20 CPU s/GB); the default gcm "
		      "could not be measured");
	b.c[2].rounds = 0;
	want_decision(&b, 3, 1, DECIDE_ONLY,
		      "chacha is all that could be measured: 392 MB/s (2.41 "
		      "CPU s/GB)");
	assert_int_equal(decide(b.c, 3, 1, &d, &e), 0);
	near(d.gain, 0);
	b.c[1].rounds = 0;
	assert_int_equal(decide(b.c, 3, 1, &d, &e), E_NOT_FOUND);
	assert_int_equal(decide(b.c, 0, 1, &d, &e), E_LIMIT);
	b.c[1].rounds = ROUNDS;
	b.c[2].rounds = ROUNDS;
	b.rate[1][3] = INFINITY;
	assert_int_equal(decide(b.c, 3, 1, &d, &e), E_USAGE);
}

/* Each look takes its share: what is separable at once is not at ten looks
 * (six rounds, two candidates: .0022 against .05 and .005 is both, .00217 <
 * .05/23 no more). */
static void
test_decide_looks(void **state)
{
	struct bench b;
	struct decision d;

	(void)state;
	bench_set(&b, 0, "chacha", 390, 3, 1.0, 1.4);
	bench_set(&b, 1, "gcm", 1030, 10, 0.5, 0.5);
	assert_int_equal(decide(b.c, 2, 10, &d, NULL), 0);
	assert_int_equal(d.why, DECIDE_THROUGHPUT);
	assert_int_equal(decide(b.c, 2, 24, &d, NULL), 0);
	assert_int_equal(d.why, DECIDE_NOISE);
	assert_true(d.too_few);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set1_means),
		cmocka_unit_test(test_set1_verdict),
		cmocka_unit_test(test_set2_rankings),
		cmocka_unit_test(test_set2_not_separable),
		cmocka_unit_test(test_set2_none_separable),
		cmocka_unit_test(test_separate_brute),
		cmocka_unit_test(test_separate_large),
		cmocka_unit_test(test_outlier),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_interval_large),
		cmocka_unit_test(test_min_runs),
		cmocka_unit_test(test_decide_throughput),
		cmocka_unit_test(test_decide_cpu),
		cmocka_unit_test(test_decide_noise),
		cmocka_unit_test(test_decide_default_leads),
		cmocka_unit_test(test_decide_link),
		cmocka_unit_test(test_decide_not_transitive),
		cmocka_unit_test(test_decide_no_slower),
		cmocka_unit_test(test_decide_unmeasured),
		cmocka_unit_test(test_decide_looks),
	};

	return cmocka_run_group_tests_name("stats", tests, load_seed,
					   drop_seed);
}
