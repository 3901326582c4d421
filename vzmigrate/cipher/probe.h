/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probe: which cipher is the best on this link, by measuring. The order of
 * connections and rounds, the budget, giving up and the end; how a round is
 * made is the caller's (probelink.h, or a test's).
 *
 * - All connections are opened before anything is measured, one after another;
 *   they have a bound of their own.
 * - Each candidate is warmed by rounds that do not count: they grow until two
 *   last PROBE_WARM_US, and tell how large the real ones are to be.
 * - Then interleaved rounds (A B C, B C A, ...), so that a machine that drifts
 *   treats all alike and nobody is always the first. All rounds last about the
 *   same time, and each ends with the other side's word that it has all.
 * - decide() is asked PROBE_LOOKS times in all; it ends early when the pick
 *   leads all others beyond the noise.
 * - A candidate far behind (its best round PROBE_BEHIND below the leader's
 *   worst, over PROBE_BEHIND_ROUNDS) is not measured on: its samples stay, its
 *   time goes to the others.
 * - A candidate whose connection is refused, breaks or stalls is given up, and
 *   the reason kept.
 */
#ifndef CIPHER_PROBE_H
#define CIPHER_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cipher/decide.h"

#define PROBE_BUDGET_MS 4000
#define PROBE_SETUP_MS 20000 /* all connections together */
#define PROBE_EACH_MS 5000   /* one of them */

#define PROBE_LOOKS 3
#define PROBE_ROUNDS_MAX 256
#define PROBE_WARM_US 25000
#define PROBE_ROUND_MIN_US 40000 /* shorter ones measure the scheduler */
#define PROBE_ROUND_MAX_US 250000
#define PROBE_BEHIND 0.75
#define PROBE_BEHIND_ROUNDS 4

/* What one round came to. */
struct probe_sample {
	uint64_t bytes;
	int64_t us;	  /* from the first byte to the word that all arrived */
	double cpu_here;  /* seconds on this host; < 0: unknown */
	double cpu_there; /* on the other one; < 0: unknown */
};

enum probe_state {
	PROBE_WAITING,	/* not opened yet */
	PROBE_OPEN,	/* measured to the end */
	PROBE_LEFT,	/* measured, then left as far behind */
	PROBE_GIVEN_UP, /* refused, broken, stalled; `why` says it */
};

struct probe_cand {
	char *name;	/* "aes256-ctr+hmac-sha2-256"; owned */
	char *cipher;	/* owned */
	char *mac;	/* owned; NULL: the cipher needs none */
	bool plain_mac; /* the MAC is not encrypt-then-MAC */
	enum probe_state state;
	char why[512];
	struct probe_sample *samples; /* owned; the rounds that count */
	size_t rounds;
	double *rate, *cpu_here, *cpu_there; /* owned: as decide_cand wants */
	double guess; /* bytes per microsecond, of the last rounds */
};

enum probe_end {
	PROBE_END_BUDGET,  /* the time was used */
	PROBE_END_DECIDED, /* the decision could no longer change */
	PROBE_END_ALONE,   /* nothing was left to compare with */
	PROBE_END_ROUNDS,  /* PROBE_ROUNDS_MAX */
};

/* Zero-initialise; probe_add fills, probe_fini frees. */
struct probe {
	struct probe_cand cands[DECIDE_MAX]; /* in the order of negotiation */
	size_t n;
	struct decision decision; /* valid after 0 of probe_run */
	enum probe_end end;
	int64_t setup_ms;   /* what the connections took */
	int64_t measure_ms; /* what measuring took, warm-up included */
	size_t cycles;	    /* times that everyone had a round */
};

struct probe_ops {
	/* Open the connection of candidate `i`, for at most `ms`. Errors of
	 * E_CANCELLED, E_HOSTKEY, E_AUTH, E_CONFIG, E_USAGE and E_NOMEM end
	 * the probe, others give the candidate up. */
	int (*open)(size_t i, int64_t ms, void *arg, struct err *e);
	/* Send `bytes` and wait for the word that they arrived, for at most
	 * `ms`. E_TIMEOUT: not in time, and the connection is of no use any
	 * more; E_CANCELLED ends the probe. */
	int (*round)(size_t i, uint64_t bytes, int64_t ms,
		     struct probe_sample *out, void *arg, struct err *e);
	/* The candidate is not measured any more. `broken`: quickly, without
	 * waiting for the other side. */
	void (*close)(size_t i, bool broken, void *arg);
	/* A monotonic clock in microseconds. */
	int64_t (*now_us)(void *arg);
	/* Bytes of a round are a multiple of this. */
	uint64_t unit;
};

struct probe_opts {
	int64_t budget_ms; /* measuring, warm-up included; never exceeded but
			    * by what the clock's grain and a close cost */
	int64_t setup_ms;
	int64_t each_ms;
};

/* Append a candidate; `mac` may be NULL. E_LIMIT, E_NOMEM. */
int probe_add(struct probe *p, const char *cipher, const char *mac,
	      bool plain_mac, struct err *e);

/*
 * Open, measure, decide, close. 0 with p->decision; E_NOT_FOUND where nothing
 * could be measured (each candidate's `why` tells, or the budget was too short
 * for one round); E_CANCELLED and the errors of `open` that end a probe. Blocks
 * for setup_ms and budget_ms at most.
 */
int probe_run(struct probe *p, const struct probe_opts *o,
	      const struct probe_ops *ops, void *arg, struct err *e);

/* The candidates as decide() takes them, borrowed from `p`. */
void probe_cands(const struct probe *p, struct decide_cand out[DECIDE_MAX]);

/* Medians, by candidate; NAN where there is none. */
double probe_rate(const struct probe *p, size_t i);	 /* MB/s */
double probe_cpu_here(const struct probe *p, size_t i);	 /* s per GB */
double probe_cpu_there(const struct probe *p, size_t i); /* likewise */

void probe_fini(struct probe *p);

#endif
