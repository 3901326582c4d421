/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stats: what a handful of timings can say, and what they cannot.
 *
 * Method. Timings on a shared machine are few, skewed to one side and have
 * outliers, so nothing here assumes a normal distribution:
 * - Centre: the median. The mean is there to compare with published figures.
 * - Interval: order statistics of the binomial distribution (H. A. David and
 *   H. N. Nagaraja, Order Statistics, 3rd ed., section 7.1). Below 6 values no
 *   such interval reaches 95 %, so its coverage is told with it: 50 % for two.
 * - Separation of two samples: the rank sum test of Wilcoxon (Biometrics
 *   Bulletin 1, 1945) and Mann and Whitney (Ann. Math. Stat. 18, 1947), two
 *   sided, by the exact permutation distribution of the midranks, ties
 *   included; over several servers the sum of their rank sums, permuted within
 *   each server (van Elteren's stratification with equal weights).
 *
 * Why ranks and not Welch's t: with two runs each Welch estimates a variance
 * from one difference, and two equal readings of a coarse clock (0.93 0.93
 * against 0.95 0.95) give it a variance of 0 and hence certainty. The exact
 * rank test cannot be fooled so: two runs against two have 6 arrangements, so
 * its smallest p is 1/3 and nothing is ever separable by them; nor three
 * against three (2/20). Four against four (2/70) is the least that can be
 * separable at 5 %, more if several comparisons share the 5 %. An outlier
 * costs ranks, not a variance: of eight runs one may be wild and a clear lead
 * still shows (134/12870), of six not (60/924). What it pays for that is small:
 * 5 % of efficiency against t if the data were normal after all.
 */
#ifndef CIPHER_STATS_H
#define CIPHER_STATS_H

#include <stddef.h>

#include "base/err.h"

#define STATS_MAX 4096 /* values in a sample */
#define STATS_EXACT                                       \
	50 /* values of both samples; above it the normal \
	    * approximation with continuity and tie       \
	    * correction (error below 0.001) */
#define STATS_STRATA_MAX 8

/* Arithmetic mean of n >= 1 values. */
double stats_mean(const double *v, size_t n);

/* Median of n >= 1 values, at most STATS_MAX of them; NAN for other n. */
double stats_median(const double *v, size_t n);

struct stats_interval {
	double lo;
	double hi;
	double coverage; /* probability that it holds the true median */
};

/* The narrowest symmetric interval for the median that has at least `level`
 * (0.95) coverage; smallest and largest value where none has. 0, or E_LIMIT
 * for n of 0 or above STATS_MAX. */
int stats_median_interval(const double *v, size_t n, double level,
			  struct stats_interval *out, struct err *e);

/* The same thing measured twice, under a and under b, on one server. */
struct stats_pair {
	const double *a; /* borrowed */
	size_t na;
	const double *b;
	size_t nb;
};

enum stats_verdict {
	STATS_NOT_SEPARABLE,
	STATS_A_LOWER,
	STATS_A_HIGHER,
};

struct stats_test {
	enum stats_verdict verdict;
	double p;     /* of a difference at least this large by chance */
	double p_min; /* the smallest p that so many values can have: above
		       * alpha there are too few to tell anything */
};

/* Test a against b over `n` servers (normally 1). Separable where p <= alpha;
 * who compares a leader with k others passes alpha / k (Bonferroni). 0;
 * E_LIMIT for an empty or too large sample or n; E_USAGE for a value that is
 * not finite; E_NOMEM. */
int stats_separate(const struct stats_pair *pairs, size_t n, double alpha,
		   struct stats_test *out, struct err *e);

/* The fewest runs of each candidate with which a leader among `candidates`
 * could be separable at `alpha` from all others: 4 for two at 0.05. */
size_t stats_min_runs(size_t candidates, double alpha);

enum stats_rank_by {
	STATS_WORST, /* cost on the server where it is dearest */
	STATS_SUM,   /* cost on all servers together */
};

/* Rank candidates by cost. `cost` is candidates x servers, row by row; NAN is
 * "not measured there", and a candidate with any is left out. `order` has room
 * for `candidates` indices, best first; equal ones keep their order. Returns
 * how many were ranked. */
size_t stats_rank(const double *cost, size_t candidates, size_t servers,
		  enum stats_rank_by by, size_t *order);

#endif
