/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tuner: decides how hard to compress while a pass runs. It knows no clock, no
 * thread and no link: it is fed what was seen in each slice of time and says
 * the level for the next, so tests drive it with numbers.
 *
 * The rule: compress only while the link is the bottleneck, as hard as spare
 * processor time allows. A step from off to on is a trial that must raise the
 * goodput (content bytes per second) clearly; it is not begun where the idle
 * processors could compress but a fraction of what the link carries. A higher
 * level must leave the threads still waiting for the link, and is tried only
 * where the content shrinks. What failed is left alone for a while, which
 * doubles each time. At the lowest level only a share of the frames is
 * compressed where the processors cannot keep the link full with all of them.
 */
#ifndef XFER_TUNER_H
#define XFER_TUNER_H

#include <stdbool.h>
#include <stdint.h>

/* Slices shorter than this say too little (the kernel counts idle time in
 * ticks of 10 ms). */
#define TUNER_SLICE_US 60000

/* The parts that the share of the frames to compress is counted in. */
#define TUNER_SHARES 8

/* The levels it chooses from, after 0 (off). */
#define TUNER_STEPS 7

/* What was seen in one slice. */
struct tuner_in {
	int64_t us;	/* its length */
	uint64_t raw;	/* content bytes given to the link */
	uint64_t wire;	/* the same after compression */
	double blocked; /* part of the senders' time that was spent waiting
			   for the link, 0 to 1 */
	double idle;	/* processors of this host that were idle, as a number
			   (1.5 of 2); < 0: not known */
	double used;	/* processors that this process took; < 0: not known */
	double pack;	/* bytes that one processor compresses in a second at
			   level 1; 0: not known yet */
	bool flushed;	/* what was queued before the last change of level is
			   acknowledged: these numbers are the new level's */
};

struct tuner {
	unsigned step;	/* into the levels; 0: off */
	unsigned share; /* of the frames, in TUNER_SHARES; below that only at
			   the lowest level */
	unsigned from;	/* during a trial: the step before */
	bool trial;
	int64_t now_us;	  /* sum of the slices */
	int64_t since_us; /* of the last change of step */
	int64_t seen_us;  /* of a trial: length of the slices that count */
	uint64_t seen_raw;
	double seen_blocked; /* time-weighted */
	bool seen_busy;	     /* no processor was spare in one of them */
	double rate;	/* bytes of content per second, smoothed; 0: none */
	double link;	/* bytes per second that the link carries; 0: not known
			 */
	unsigned ready; /* slices in a row that ask for a step up */
	unsigned slack; /* and down */
	unsigned useless;		     /* and in which nothing shrank */
	int64_t retry_us[TUNER_STEPS + 1];   /* not before */
	int64_t backoff_us[TUNER_STEPS + 1]; /* the next wait */
};

void tuner_init(struct tuner *t);

/* Take one slice in. Returns the level for the next: 0 off, or a level of
 * zstd. */
int tuner_slice(struct tuner *t, const struct tuner_in *in);

int tuner_level(const struct tuner *t);

/* How many of TUNER_SHARES frames are to be compressed at that level. */
unsigned tuner_share(const struct tuner *t);

/* The level of the first step. */
int tuner_first_level(void);

#endif
