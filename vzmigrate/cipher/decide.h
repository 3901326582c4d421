/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decide: which cipher a probe's measurements speak for (design.md section
 * 11): a lead in throughput beyond the noise; else a lead in CPU beyond the
 * noise; else what negotiation would choose anyway. Pure arithmetic.
 *
 * A lead is beyond the noise where stats_separate finds it so, at DECIDE_ALPHA
 * shared out among all comparisons (Bonferroni), and the medians differ by at
 * least DECIDE_MIN_LEAD. In detail:
 * - S: the fastest, and all that it does not lead beyond the noise.
 * - T: of S the cheapest in CPU (both hosts together), and all of S that it
 *   does not lead beyond the noise.
 * - In both steps, since "not separable" is not transitive: what replaces the
 *   default must lead it itself, and what the default leads goes.
 * - The pick is the first of T in the order of negotiation. So it is the
 *   default unless somebody beat it.
 * - Where S is everything and no host was busy for DECIDE_BUSY of the time with
 *   any cipher, the link is slower than every cipher: it does not matter.
 */
#ifndef CIPHER_DECIDE_H
#define CIPHER_DECIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define DECIDE_ALPHA 0.05
/* Less than this is no lead, however steady: on a slow link ciphers differ by
 * a few bytes in each packet of 32 KiB, and that can be measured. */
#define DECIDE_MIN_LEAD 0.02
/* A host whose cipher thread works less than this share of the time is not
 * what limits. */
#define DECIDE_BUSY 0.75
/* "The link limits" also needs the medians this close to each other. */
#define DECIDE_LINK_SPREAD 1.10

#define DECIDE_MAX 64 /* candidates */

struct decide_cand {
	const char *name;	 /* cipher, or cipher and MAC; borrowed */
	const double *rate;	 /* MB/s (10^6 bytes), one a round */
	const double *cpu_here;	 /* CPU s per GB (10^9) on this host, one a
				  * round; NULL: unknown */
	const double *cpu_there; /* on the other; NULL: unknown */
	size_t rounds;		 /* 0: could not be measured, is left out */
};

enum decide_why {
	DECIDE_ONLY,	   /* nothing else could be measured */
	DECIDE_THROUGHPUT, /* faster than the default beyond the noise */
	DECIDE_CPU,	   /* as fast, but cheaper beyond the noise */
	DECIDE_DEFAULT,	   /* the default leads itself, beyond the noise */
	DECIDE_NOISE,	   /* not separable: the default */
	DECIDE_LINK,	   /* the link limits; cheapest or default */
};

struct decision {
	size_t pick;	 /* index */
	size_t fastest;	 /* index of the highest median */
	size_t cheapest; /* index of the lowest median CPU; = pick if unknown */
	enum decide_why why;
	bool alone;	   /* the pick leads every other that was measured,
			    * in throughput or CPU, beyond the noise */
	bool too_few;	   /* so few rounds that nothing could be separable */
	bool rate_beyond;  /* pick and default differ in throughput beyond the
			    * noise */
	bool cpu_beyond;   /* in CPU likewise */
	double gain;	   /* pick's median rate / the default's; 0 where the
			    * default was not measured */
	double cpu_gain;   /* default's CPU / the pick's; 0 where unknown */
	double busy_here;  /* highest share of time with any candidate; < 0:
			    * unknown */
	double busy_there; /* on the other host */
};

/*
 * Decide among `n` candidates in the order of negotiation: cands[0] is what
 * would be chosen anyway. `looks` >= 1 is how often in all the probe means to
 * ask while it measures (each look takes its share of alpha). CPU counts where
 * every measured candidate has it; the other host's likewise. 0; E_LIMIT for
 * n of 0 or above DECIDE_MAX, E_NOT_FOUND where no candidate was measured,
 * E_USAGE for a value that is not finite, E_NOMEM.
 */
int decide(const struct decide_cand *cands, size_t n, size_t looks,
	   struct decision *out, struct err *e);

/* One sentence for a person: the pick, its evidence and the gain over the
 * default. Returns a heap string the caller frees; NULL with E_NOMEM. */
char *decide_text(const struct decide_cand *cands, const struct decision *d,
		  struct err *e);

#endif
