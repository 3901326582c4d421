/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stats: median, its interval, the exact rank sum test, rankings. Input: the
 * caller's arrays, never changed. No state.
 */
#include "cipher/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Two p values that differ by rounding alone are equal. */
#define EPSILON 1e-9

double
stats_mean(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += v[i];
	}
	return sum / (double)n;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* A sorted copy in `s`, which has room for STATS_MAX. */
static void
sort_into(double *s, const double *v, size_t n)
{
	memcpy(s, v, n * sizeof(*s));
	qsort(s, n, sizeof(*s), by_value);
}

double
stats_median(const double *v, size_t n)
{
	double s[STATS_MAX];

	if (!n || n > STATS_MAX) {
		return NAN;
	}
	sort_into(s, v, n);
	return n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

int
stats_median_interval(const double *v, size_t n, double level,
		      struct stats_interval *out, struct err *e)
{
	double s[STATS_MAX];
	/* P(X <= k - 1) for X binomial (n, 1/2), and its newest term, by
	 * logarithms since 2^-n underflows. The interval of the k-th from
	 * either end misses with twice that. */
	double log_term, below;
	size_t k = 1;

	if (!n || n > STATS_MAX) {
		return err_set(e, E_LIMIT, "%zu values, not 1 to %d", n,
			       STATS_MAX);
	}
	sort_into(s, v, n);
	log_term = -(double)n * log(2.0);
	below = exp(log_term);
	out->coverage = 1 - 2 * below;
	for (; 2 * (k + 1) <= n; k++) {
		double wider;

		log_term += log((double)(n - k + 1) / (double)k);
		wider = below + exp(log_term);
		if (1 - 2 * wider < level) {
			break;
		}
		below = wider;
		out->coverage = 1 - 2 * below;
	}
	out->lo = s[k - 1];
	out->hi = s[n - k];
	return 0;
}

/* Distribution of a deviation: chance[i] is that of the value i - half. */
struct dist {
	double *chance; /* owned, 2 * half + 1 */
	size_t half;
};

/* One value, its sample, its midrank doubled (so that it is whole). */
struct ranked {
	double v;
	bool a;
	unsigned rank2;
};

static int
by_ranked(const void *x, const void *y)
{
	return by_value(&((const struct ranked *)x)->v,
			&((const struct ranked *)y)->v);
}

/* Rank both samples together into `r` (na + nb places). */
static void
rank_pair(const struct stats_pair *p, struct ranked *r)
{
	size_t n = p->na + p->nb;

	for (size_t i = 0; i < n; i++) {
		r[i].a = i < p->na;
		r[i].v = r[i].a ? p->a[i] : p->b[i - p->na];
	}
	qsort(r, n, sizeof(*r), by_ranked);
	for (size_t i = 0; i < n;) {
		size_t k = i;

		while (k < n && r[k].v <= r[i].v) {
			k++;
		}
		/* ranks i + 1 to k, their mean doubled */
		for (size_t m = i; m < k; m++) {
			r[m].rank2 = (unsigned)(i + 1 + k);
		}
		i = k;
	}
}

/* Doubled rank sum of a, less what is expected. */
static double
deviation(const struct stats_pair *p, const struct ranked *r)
{
	size_t n = p->na + p->nb;
	double w = 0;

	for (size_t i = 0; i < n; i++) {
		w += r[i].a ? r[i].rank2 : 0;
	}
	return w - (double)(p->na * (n + 1));
}

/* Its variance under permutation, ties included. */
static double
variance(const struct stats_pair *p, const struct ranked *r)
{
	size_t n = p->na + p->nb;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		double d = (double)r[i].rank2 - (double)(n + 1);

		sum += d * d;
	}
	return (double)(p->na * p->nb) * sum / ((double)n * (double)(n - 1));
}

/*
 * The exact distribution of that deviation: all ways to choose na of the
 * ranks, counted by their sum. ways[k][s] is built up rank by rank. The
 * deviation is at most na * nb in size, since each of the na * nb pairs moves
 * the doubled sum by 2 between its two orders.
 */
static int
exact(const struct stats_pair *p, const struct ranked *r, struct dist *d,
      struct err *e)
{
	size_t n = p->na + p->nb, sums = n * (n + 1) + 1;
	size_t mean = p->na * (n + 1);
	cleanup(free_ptr) double *ways =
		calloc((p->na + 1) * sums, sizeof(*ways));
	double total = 0;

	d->half = p->na * p->nb;
	d->chance = calloc(2 * d->half + 1, sizeof(*d->chance));
	if (!ways || !d->chance) {
		return err_nomem(e);
	}
	ways[0] = 1;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = p->na; k > 0; k--) {
			double *to = ways + k * sums;
			const double *from = ways + (k - 1) * sums;

			for (size_t s = r[i].rank2; s < sums; s++) {
				to[s] += from[s - r[i].rank2];
			}
		}
	}
	for (size_t i = 0; i <= 2 * d->half; i++) {
		d->chance[i] = ways[p->na * sums + mean - d->half + i];
		total += d->chance[i];
	}
	for (size_t i = 0; i <= 2 * d->half; i++) {
		d->chance[i] /= total;
	}
	return 0;
}

/* The distribution of the sum of two independent deviations, into `x`. */
static int
convolve(struct dist *x, const struct dist *y, struct err *e)
{
	struct dist z = { .half = x->half + y->half };

	z.chance = calloc(2 * z.half + 1, sizeof(*z.chance));
	if (!z.chance) {
		return err_nomem(e);
	}
	for (size_t i = 0; i <= 2 * x->half; i++) {
		for (size_t k = 0; x->chance[i] > 0 && k <= 2 * y->half; k++) {
			z.chance[i + k] += x->chance[i] * y->chance[k];
		}
	}
	free(x->chance);
	*x = z;
	return 0;
}

/* Chance of a deviation at least as large as `dev`, and of the largest. */
static void
tails(const struct dist *d, double dev, struct stats_test *out)
{
	double most = 0;

	out->p = 0;
	for (size_t i = 0; i <= 2 * d->half; i++) {
		double x = fabs((double)i - (double)d->half);

		if (d->chance[i] > 0 && x > most) {
			most = x;
		}
		out->p += x >= fabs(dev) ? d->chance[i] : 0;
	}
	out->p_min = 0;
	for (size_t i = 0; i <= 2 * d->half; i++) {
		double x = fabs((double)i - (double)d->half);

		out->p_min += x >= most ? d->chance[i] : 0;
	}
}

static int
check(const struct stats_pair *pairs, size_t n, struct err *e)
{
	if (!n || n > STATS_STRATA_MAX) {
		return err_set(e, E_LIMIT, "%zu servers, not 1 to %d", n,
			       STATS_STRATA_MAX);
	}
	for (size_t i = 0; i < n; i++) {
		const struct stats_pair *p = &pairs[i];

		if (!p->na || !p->nb || p->na > STATS_MAX ||
		    p->nb > STATS_MAX) {
			return err_set(e, E_LIMIT,
				       "%zu and %zu values, not 1 to %d", p->na,
				       p->nb, STATS_MAX);
		}
		for (size_t k = 0; k < p->na + p->nb; k++) {
			if (!isfinite(k < p->na ? p->a[k] : p->b[k - p->na])) {
				return err_set(e, E_USAGE,
					       "a measured value is not "
					       "finite");
			}
		}
	}
	return 0;
}

static bool
small(const struct stats_pair *pairs, size_t n)
{
	size_t all = 0;

	for (size_t i = 0; i < n; i++) {
		all += pairs[i].na + pairs[i].nb;
	}
	return all <= STATS_EXACT;
}

/* Normal approximation: the doubled sum moves in steps of 2 without ties, so
 * half a step is 1. */
static void
approximate(double dev, double var, struct stats_test *out)
{
	double z = fabs(dev) > 1 && var > 0 ? (fabs(dev) - 1) / sqrt(var) : 0;

	out->p = erfc(z / sqrt(2.0));
	out->p_min = 0;
}

int
stats_separate(const struct stats_pair *pairs, size_t n, double alpha,
	       struct stats_test *out, struct err *e)
{
	struct dist all = { 0 };
	double dev = 0, var = 0;
	int r = check(pairs, n, e);
	bool is_small = !r && small(pairs, n);

	for (size_t i = 0; !r && i < n; i++) {
		const struct stats_pair *p = &pairs[i];
		cleanup(free_ptr) struct ranked *ranks =
			calloc(p->na + p->nb, sizeof(*ranks));
		struct dist one = { 0 };

		if (!ranks) {
			r = err_nomem(e);
			break;
		}
		rank_pair(p, ranks);
		dev += deviation(p, ranks);
		var += variance(p, ranks);
		if (!is_small) {
			continue;
		}
		r = exact(p, ranks, i ? &one : &all, e);
		if (!r && i) {
			r = convolve(&all, &one, e);
		}
		free(one.chance);
	}
	if (!r && is_small) {
		tails(&all, dev, out);
	} else if (!r) {
		approximate(dev, var, out);
	}
	free(all.chance);
	if (r) {
		return r;
	}
	out->verdict = STATS_NOT_SEPARABLE;
	if (out->p <= alpha + EPSILON && dev < 0) {
		out->verdict = STATS_A_LOWER;
	} else if (out->p <= alpha + EPSILON && dev > 0) {
		out->verdict = STATS_A_HIGHER;
	}
	return 0;
}

size_t
stats_min_runs(size_t candidates, double alpha)
{
	double each = alpha / (double)(candidates > 1 ? candidates - 1 : 1);
	double arrangements = 1; /* C(2n, n) */
	size_t n = 0;

	do {
		n++;
		arrangements *= (double)(2 * n - 1) * 2 / (double)n;
	} while (2 / arrangements > each + EPSILON && n < STATS_MAX);
	return n;
}

/* NAN where any is. */
static double
total_cost(const double *row, size_t servers, enum stats_rank_by by)
{
	double total = by == STATS_SUM ? 0 : -INFINITY;

	for (size_t s = 0; s < servers; s++) {
		if (isnan(row[s])) {
			return NAN;
		}
		if (by == STATS_SUM) {
			total += row[s];
		} else if (row[s] > total) {
			total = row[s];
		}
	}
	return total;
}

size_t
stats_rank(const double *cost, size_t candidates, size_t servers,
	   enum stats_rank_by by, size_t *order)
{
	size_t n = 0;

	for (size_t c = 0; c < candidates; c++) {
		double t = total_cost(cost + c * servers, servers, by);
		size_t at = n;

		if (isnan(t)) {
			continue;
		}
		while (at > 0 && total_cost(cost + order[at - 1] * servers,
					    servers, by) > t) {
			order[at] = order[at - 1];
			at--;
		}
		order[at] = c;
		n++;
	}
	return n;
}
