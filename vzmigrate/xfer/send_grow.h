/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_grow: decides how many streams a copy is worth, from what was measured
 * so far in this run. Knows neither clock nor network.
 */
#ifndef XFER_SEND_GROW_H
#define XFER_SEND_GROW_H

#include <stdbool.h>
#include <stdint.h>

/* A tree below both is copied before a second stream is there. */
#define SEND_GROW_TINY_BYTES (64u << 20)
#define SEND_GROW_TINY_FILES 5000

/* What is seen now. */
struct send_grow_sample {
	int64_t ms;	  /* any clock that only goes forward */
	uint64_t acked;	  /* bytes of content, since the beginning */
	bool backlog;	  /* frames wait for a stream */
	unsigned streams; /* there are now */
	double cpu;	  /* processor seconds of all streams' threads so far */
	double idle;	  /* idle part of this host's processors since the last
			     sample, 0 to 1; < 0: not known */
};

/* What is wanted. */
struct send_grow_wish {
	unsigned open; /* so many streams are to be there */
	unsigned use;  /* and so many of them to carry */
};

/* In the caller's storage; private. */
struct send_grow {
	unsigned max;
	uint64_t bytes, files;	       /* expected; 0: not known */
	struct send_grow_sample first; /* of the pass */
	struct send_grow_sample from;  /* of the window being measured */
	struct send_grow_sample last;
	unsigned level;	   /* streams whose worth is being measured */
	bool measuring;	   /* `from` is set */
	int64_t joined_ms; /* when the level was reached; 0: not yet */
	int64_t asked_ms;  /* when one more was asked for; 0: none was */
	int64_t open_ms;   /* how long that took, the last time; 0: unknown */
	double rate;	   /* bytes/ms of the level before; 0: unknown */
	unsigned ticks,
		backlogs; /* samples in the window, those with backlog */
	double idle;	  /* sum over those where it was known: */
	unsigned known;
	bool settled; /* no more growing in this pass */
	struct send_grow_wish wish;
};

/* A pass begins: up to `max` streams, so much to carry (0: not known). What
 * was learnt in the pass before holds. Zero-initialise before the first. */
void send_grow_begin(struct send_grow *g, unsigned max, uint64_t bytes,
		     uint64_t files);

/* The samples of a pass, every 50 ms or so. */
struct send_grow_wish send_grow_step(struct send_grow *g,
				     const struct send_grow_sample *s);

/* No more streams can be had. */
void send_grow_stop(struct send_grow *g);

#endif
