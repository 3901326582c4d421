/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tuner: see the header. State: the caller's struct; input: slices; output: a
 * level.
 *
 * Why waiting, and not the length of a queue, tells that the link is the
 * bottleneck: compressed frames fit whole into the kernel's socket buffers, so
 * the queue is empty though the link is full; but who would send waits for
 * credit all the same. A slow disk on the other side looks alike; there a
 * trial raises nothing and is taken back.
 */
#include "xfer/tuner.h"

#include <string.h>

#define BLOCKED_FULL 0.25 /* the link is the bottleneck */
#define BLOCKED_SOME 0.10 /* after a step up: still */
#define BLOCKED_NONE 0.04 /* the senders are */
#define IDLE_SPARE 0.5	  /* processors that must be idle for a step up */
#define IDLE_SOME 0.1	  /* that must be left then */
#define GAIN 1.12	  /* what turning it on must bring */
#define PACK_GUESS 3e8	  /* what a processor compresses, before it is known */
/* The part of what goes now that idle processors must be able to compress for
 * a trial. Not all of it: each byte that the link is spared sets processor time
 * free. */
#define PACK_PART 0.5
#define LOSS 1.02	/* below this times the bare link: off */
#define SHRINK_MIN 1.04 /* raw/wire below which it is useless */
#define SHRINK_MORE 1.5 /* below which a higher level would be, too */
/* Waiting below and above which the share of frames moves. */
#define SHARE_LESS 0.08
#define SHARE_MORE 0.16
/* On a host where nothing is idle: a process that takes so little and yet waits
 * is not held up by processors, and may take a little more. */
#define USED_LITTLE 0.15
/* What a link as slow as this carries is compressed on the side, at the lowest
 * level, on any host. */
#define CRAWLING_LINK 8e6
#define READY_SLICES 2
#define SLACK_SLICES 3
#define USELESS_SLICES 8
#define TRIAL_US 120000	      /* of slices that count */
#define TRIAL_MAX_US 60000000 /* even the slowest queue has moved by then */
#define BACKOFF_US 1000000
#define BACKOFF_MAX_US 30000000
#define SETTLED_US 10000000 /* a step held so long has proved itself */
#define LOOK_OFF_US                                       \
	4000000 /* without a full link, or a processor to \
		   spare: try whether off is better */

static const int levels[TUNER_STEPS + 1] = { 0, 1, 3, 5, 7, 9, 12, 15 };

void
tuner_init(struct tuner *t)
{
	memset(t, 0, sizeof(*t));
	t->share = TUNER_SHARES;
	for (unsigned i = 0; i <= TUNER_STEPS; i++) {
		t->backoff_us[i] = BACKOFF_US;
	}
	/* Here it is when to look whether off is better. */
	t->backoff_us[0] = LOOK_OFF_US;
}

int
tuner_level(const struct tuner *t)
{
	return levels[t->step];
}

unsigned
tuner_share(const struct tuner *t)
{
	return t->share;
}

int
tuner_first_level(void)
{
	return levels[1];
}

static void
go_to(struct tuner *t, unsigned step, bool trial)
{
	t->from = t->step;
	t->step = step;
	t->share = TUNER_SHARES;
	t->trial = trial;
	t->since_us = t->now_us;
	t->seen_us = 0;
	t->seen_raw = 0;
	t->seen_blocked = 0;
	t->seen_busy = false;
	t->ready = t->slack = 0;
}

/* Leave `step` alone for a while, longer each time. */
static void
avoid(struct tuner *t, unsigned step)
{
	t->retry_us[step] = t->now_us + t->backoff_us[step];
	t->backoff_us[step] *= 2;
	if (t->backoff_us[step] > BACKOFF_MAX_US) {
		t->backoff_us[step] = BACKOFF_MAX_US;
	}
}

static double
smooth(double old, double fresh)
{
	return old > 0 ? old + 0.4 * (fresh - old) : fresh;
}

/* How many processors must be idle for the next step up. */
static double
idle_wanted(const struct tuner *t, const struct tuner_in *in)
{
	double n = t->rate * PACK_PART / (in->pack > 0 ? in->pack : PACK_GUESS);

	return t->step == 0 && n > IDLE_SPARE ? n : IDLE_SPARE;
}

/* Whether processors are there for more work. */
static bool
spare(const struct tuner *t, const struct tuner_in *in, double idle)
{
	return in->idle >= idle || (in->used >= 0 && in->used < USED_LITTLE) ||
	       (t->step == 0 && t->link > 0 && t->link < CRAWLING_LINK);
}

/* A trial is on: count, and judge when enough was seen. */
static void
try_on(struct tuner *t, const struct tuner_in *in, double rate)
{
	int64_t age = t->now_us - t->since_us;
	bool good;

	if (!in->flushed && age < TRIAL_MAX_US) {
		return;
	}
	t->seen_us += in->us;
	t->seen_raw += in->raw;
	t->seen_blocked += in->blocked * (double)in->us;
	t->seen_busy = t->seen_busy || !spare(t, in, IDLE_SOME);
	if (t->seen_us < TRIAL_US) {
		return;
	}
	rate = (double)t->seen_raw * 1e6 / (double)t->seen_us;
	if (t->step == 0) {
		good = rate > t->rate * GAIN;
	} else if (t->from == 0) {
		good = rate > t->rate * GAIN;
	} else {
		/* A higher level never makes more bytes, so where senders
		 * still wait it cannot have lost; and its gain is smaller than
		 * what differs from one file to the next. */
		good = t->seen_blocked >= BLOCKED_SOME * (double)t->seen_us &&
		       !t->seen_busy;
	}
	if (good) {
		t->rate = rate;
		t->trial = false;
		t->since_us = t->now_us;
		return;
	}
	avoid(t, t->step);
	go_to(t, t->from, false);
}

/* Whether the step at hand is too high. */
static bool
too_much(struct tuner *t, const struct tuner_in *in, double rate)
{
	bool slack;

	/* At the lowest level the choice is against the bare link. */
	slack = t->step > 1 ? in->blocked < BLOCKED_NONE
			    : in->blocked < BLOCKED_FULL && t->link > 0 &&
				      rate < t->link * LOSS;
	t->slack = slack ? t->slack + 1 : 0;
	/* Nobody waits, and the processors are full: no doubt. */
	return t->slack >= SLACK_SLICES ||
	       (slack && t->step > 1 && in->idle >= 0 && in->idle < IDLE_SPARE);
}

/*
 * At the lowest level: where nobody waits for the link, the processors are what
 * is full, and a frame that goes as it is costs them less; where somebody does,
 * more of the frames can be compressed.
 */
static void
set_share(struct tuner *t, const struct tuner_in *in)
{
	if (t->step != 1) {
		return; /* all of them, since go_to */
	}
	if (in->blocked < SHARE_LESS && in->idle < IDLE_SPARE && t->share > 1) {
		t->share--;
	} else if (in->blocked > SHARE_MORE && t->share < TUNER_SHARES) {
		t->share++;
	}
}

/* Whether a step up could bring anything. */
static bool
may_rise(const struct tuner *t, const struct tuner_in *in)
{
	unsigned up = t->step + 1;

	if (up > TUNER_STEPS || t->now_us < t->retry_us[up] ||
	    in->blocked < BLOCKED_FULL || !spare(t, in, idle_wanted(t, in))) {
		return false;
	}
	return t->step == 0 ||
	       (t->share == TUNER_SHARES &&
		(double)in->raw >= SHRINK_MORE * (double)in->wire);
}

static void
hold(struct tuner *t, const struct tuner_in *in, double rate)
{
	bool more = spare(t, in, IDLE_SPARE);

	if (t->step && t->now_us - t->since_us > SETTLED_US) {
		t->backoff_us[t->step] = BACKOFF_US;
	}
	if (t->step && too_much(t, in, rate)) {
		avoid(t, t->step);
		go_to(t, t->step - 1, false);
		return;
	}
	set_share(t, in);
	t->ready = may_rise(t, in) ? t->ready + 1 : 0;
	if (t->ready >= READY_SLICES) {
		go_to(t, t->step + 1, true);
	} else if (t->step == 1 && (in->blocked < BLOCKED_NONE || !more) &&
		   t->now_us - t->since_us > LOOK_OFF_US &&
		   t->now_us >= t->retry_us[0]) {
		go_to(t, 0, true);
	}
}

int
tuner_slice(struct tuner *t, const struct tuner_in *in)
{
	double rate, wire;
	bool first;

	if (in->us <= 0) {
		return tuner_level(t);
	}
	first = t->now_us == 0;
	t->now_us += in->us;
	if (first) {
		/* It filled buffers, which are faster than the link. */
		return tuner_level(t);
	}
	rate = (double)in->raw * 1e6 / (double)in->us;
	wire = (double)in->wire * 1e6 / (double)in->us;
	if (in->flushed) {
		t->useless =
			t->step && (double)in->raw <
						SHRINK_MIN * (double)in->wire
				? t->useless + 1
				: 0;
	}
	if (t->useless >= USELESS_SLICES) {
		avoid(t, 1);
		go_to(t, 0, false);
		t->useless = 0;
		return 0;
	}
	if (t->trial) {
		try_on(t, in, rate);
		return tuner_level(t);
	}
	if (in->flushed) {
		/* Frames leave at the pace of those ahead of them: before
		 * that the numbers are a mixture. */
		t->rate = smooth(t->rate, rate);
		if (in->blocked >= BLOCKED_FULL) {
			t->link = smooth(t->link, wire);
		} else if (wire > t->link) {
			t->link = wire;
		}
	}
	hold(t, in, rate);
	return tuner_level(t);
}
