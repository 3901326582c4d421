/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_grow: streams are doubled while that clearly pays. Each level is
 * measured for a while once its streams are there; what has gained less than
 * GAIN over the level before is the last one, and what has gained nothing is
 * not used. A second stream is asked for at once, since nearly every link is
 * better with two. Where neither the processors nor the streams' threads are
 * busy the streams wait for the network, and the next ones are asked for while
 * the level is still being measured: connections take time, most of all on the
 * links that need many.
 */
#include "xfer/send_grow.h"

#define SETTLE_MS 100  /* the first bytes fill buffers */
#define MEASURE_MS 300 /* of each level */
#define GAIN 1.2       /* twice the streams must bring that much */
#define LOSS                                                                   \
	0.85	       /* with less than that the level before was better:     \
			  machines are noisy, and a stream too many costs less \
			  than one too few */
#define BUSY_IDLE 0.08 /* with less, this host's processors are the limit */
#define BACKLOG 0.4    /* else the reading is the bottleneck */
#define WORTH 6	       /* what is left must take that many openings */
#define QUIET_CPU 0.5  /* of a stream's thread */
#define QUIET_IDLE 0.3 /* of this host */

static bool
tiny(const struct send_grow *g)
{
	return g->bytes < SEND_GROW_TINY_BYTES &&
	       g->files < SEND_GROW_TINY_FILES;
}

void
send_grow_begin(struct send_grow *g, unsigned max, uint64_t bytes,
		uint64_t files)
{
	unsigned had = g->wish.use;

	*g = (struct send_grow){ .max = max, .bytes = bytes, .files = files };
	/* A later pass begins with what the one before found best. */
	g->wish.use = g->wish.open = had ? had : tiny(g) || max < 2 ? 1 : 2;
	g->level = 1;
	if (had > 1) {
		g->level = had;
	}
}

void
send_grow_stop(struct send_grow *g)
{
	g->settled = true;
	g->wish.open = 0;
}

static double
rate_since(const struct send_grow_sample *from,
	   const struct send_grow_sample *to)
{
	int64_t ms = to->ms - from->ms;

	return ms > 0 ? (double)(to->acked - from->acked) / (double)ms : 0;
}

/* Milliseconds that are left at `rate`. */
static double
left(const struct send_grow *g, double rate)
{
	uint64_t sent = g->last.acked - g->first.acked;

	if (!g->bytes) {
		return 1e12; /* not known: long */
	}
	return sent >= g->bytes || rate <= 0 ? 0
					     : (double)(g->bytes - sent) / rate;
}

static bool
worth(const struct send_grow *g, double rate)
{
	double cost = (double)(g->open_ms ? g->open_ms : 200);

	return left(g, rate) > cost * WORTH;
}

static bool
quiet(const struct send_grow *g, const struct send_grow_sample *s)
{
	double ms = (double)(s->ms - g->from.ms);

	return ms > 0 && g->known && g->idle / g->known > QUIET_IDLE &&
	       (s->cpu - g->from.cpu) * 1000 < QUIET_CPU * ms * g->level;
}

static bool
busy(const struct send_grow *g)
{
	return g->known && g->idle / g->known < BUSY_IDLE;
}

static void
window_begin(struct send_grow *g, const struct send_grow_sample *s)
{
	g->measuring = true;
	g->from = *s;
	g->ticks = g->backlogs = g->known = 0;
	g->idle = 0;
}

/* The level is reached: note how long that took, and let it settle. */
static void
reached(struct send_grow *g, const struct send_grow_sample *s)
{
	if (g->joined_ms == 0) {
		g->joined_ms = s->ms;
		g->measuring = false;
	}
	if (!g->measuring && s->ms - g->joined_ms >= SETTLE_MS) {
		window_begin(g, s);
	}
}

static unsigned
next_level(const struct send_grow *g)
{
	return g->level * 2 < g->max ? g->level * 2 : g->max;
}

/* The level is measured. */
static void
judge(struct send_grow *g, const struct send_grow_sample *s, double rate)
{
	bool gained = g->rate <= 0 || rate >= g->rate * GAIN;

	if (g->level > 1 && g->rate > 0 && rate < g->rate * LOSS) {
		g->wish.use = g->level / 2;
		g->wish.open = g->wish.use;
		g->settled = true;
		return;
	}
	g->wish.use = g->level;
	/* What is not worth it may only come too late. */
	if (!gained || g->level >= g->max || busy(g) || !worth(g, rate)) {
		g->wish.open = g->level;
		g->settled = true;
		return;
	}
	g->rate = rate;
	g->level = next_level(g);
	g->wish.open = g->level;
	g->wish.use = g->level;
	g->joined_ms = 0;
	g->measuring = false;
	if (!g->asked_ms) {
		g->asked_ms = s->ms;
	}
}

static void
count(struct send_grow *g, const struct send_grow_sample *s)
{
	g->ticks++;
	g->backlogs += s->backlog;
	g->known += s->idle >= 0;
	g->idle += s->idle > 0 ? s->idle : 0;
}

/* With one stream: until the second is there. */
static void
first_level(struct send_grow *g, const struct send_grow_sample *s)
{
	double rate;

	if (s->acked == g->first.acked) {
		return;
	}
	if (!g->measuring) {
		window_begin(g, s);
		return;
	}
	rate = rate_since(&g->from, s);
	if (g->wish.open < 2 && s->ms - g->from.ms >= MEASURE_MS &&
	    left(g, rate) > 1000) {
		/* Small, but slow. */
		g->wish.open = g->wish.use = 2;
	}
	if (s->streams < 2) {
		return;
	}
	g->open_ms = s->ms - g->first.ms;
	g->rate = s->ms - g->from.ms >= SETTLE_MS ? rate : 0;
	g->level = 2;
	g->joined_ms = 0;
	g->measuring = false;
}

struct send_grow_wish
send_grow_step(struct send_grow *g, const struct send_grow_sample *s)
{
	if (!g->first.ms) {
		g->first = *s;
	}
	g->last = *s;
	count(g, s);
	if (g->settled || g->max < 2) {
		return g->wish;
	}
	if (g->level == 1) {
		first_level(g, s);
		return g->wish;
	}
	if (s->streams < g->level) {
		return g->wish;
	}
	if (g->joined_ms == 0 && g->asked_ms) {
		g->open_ms = (s->ms - g->asked_ms) /
			     (int64_t)(g->level - g->level / 2);
		g->asked_ms = 0;
	}
	reached(g, s);
	if (!g->measuring) {
		return g->wish;
	}
	if (s->ms - g->from.ms >= SETTLE_MS && g->wish.open == g->level &&
	    g->level < g->max && quiet(g, s) &&
	    worth(g, rate_since(&g->from, s))) {
		g->wish.open = g->level + 1; /* a guess; it is used if right */
		g->asked_ms = s->ms;
	}
	if (s->ms - g->from.ms < MEASURE_MS) {
		return g->wish;
	}
	if (g->backlogs < g->ticks * BACKLOG) {
		/* The reading is slower than the streams: look again, in case
		 * that changes. */
		window_begin(g, s);
		return g->wish;
	}
	judge(g, s, rate_since(&g->from, s));
	return g->wish;
}
