/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_streams: a keeper thread looks after the streams; openings, which may
 * take long, are threads of their own, one at a time, so that a stream's death
 * is seen to at once. The list of links is the keeper's alone.
 */
#include "config.h"

#include "xfer/send_streams.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "wire/frame.h"
#include "xfer/feed.h"
#include "xfer/send_grow.h"

#define AUTO_MAX 8 /* more have not been seen to help */
#define TICK_MS 50
#define PAUSE_MS 500 /* after a failed opening, doubling */
#define TRIES 4	     /* failed openings in a row */
#define DEATHS 32    /* streams that died, until no more are opened */

struct send_streams {
	struct send_streams_opts o;
	struct link *control; /* borrowed */
	struct feed *feed;    /* the control link's */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t keeper;
	bool started;
	bool passing; /* a pass is under way: grow is fed */
	bool quit;
	bool look;    /* a stream has died */
	bool opening; /* the opener is to be joined */
	bool opened;  /* it has ended, with what follows */
	struct link *fresh;
	int open_rc;
	struct err open_err;
	unsigned most;

	/* The keeper's. */
	pthread_t opener;
	int stop; /* for dial: give up; atomic */
	struct link *links[FEED_STREAMS_MAX];
	unsigned nlinks;
	unsigned wanted;
	unsigned failed; /* openings, in a row */
	unsigned deaths;
	int64_t next_ms; /* when to try again */
	bool given_up;
	bool told; /* that there are fewer */
	struct send_grow grow;
	uint64_t stat_all, stat_idle; /* of /proc/stat, the last time */
};

struct send_streams *
send_streams_new(struct link *control, const struct send_streams_opts *o,
		 struct err *e)
{
	struct send_streams *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	s->o = *o;
	s->control = control;
	s->feed = link_feed(control);
	s->most = 1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &attr);
	pthread_condattr_destroy(&attr);
	return s;
}

/* ---- opening ---- */

static void
on_died(void *arg)
{
	struct send_streams *s = arg;

	pthread_mutex_lock(&s->lock);
	s->look = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static int
open_one(struct send_streams *s, struct link **l, struct err *e)
{
	struct link_opts o = s->o.link;
	struct bytechan *c = NULL;
	int rc = s->o.dial(s->o.arg, &s->stop, &c, e);

	o.died = on_died;
	o.arg = s;
	rc = rc < 0 ? rc : link_join(s->control, c, &o, l, e);
	if (rc == 0 && s->o.dialled) {
		s->o.dialled(s->o.arg, c);
	}
	return rc;
}

static void *
opener_thread(void *arg)
{
	struct send_streams *s = arg;
	struct link *l = NULL;
	struct err e = { 0 };
	int rc = open_one(s, &l, &e);

	pthread_mutex_lock(&s->lock);
	s->fresh = l;
	s->open_rc = rc;
	s->open_err = e;
	s->opened = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void
tell_fewer(struct send_streams *s, const char *why)
{
	if (s->told) {
		return;
	}
	s->told = true;
	log_msg(s->o.count ? LOGL_WARN : LOGL_INFO,
		"%s: goes on with %u stream%s of %u: %s", s->o.link.host,
		s->nlinks + 1, s->nlinks ? "s" : "", s->wanted, why);
}

/* With the lock held: what became of an opening. */
static void
take_opened(struct send_streams *s)
{
	pthread_join(s->opener, NULL);
	s->opening = s->opened = false;
	if (s->open_rc == 0) {
		s->links[s->nlinks++] = s->fresh;
		s->fresh = NULL;
		s->failed = 0;
		if (s->nlinks + 1 > s->most) {
			s->most = s->nlinks + 1;
		}
		log_debug("%s: %u streams", s->o.link.host, s->nlinks + 1);
		return;
	}
	log_debug("%s: one more stream: %s", s->o.link.host, s->open_err.text);
	s->next_ms = io_now_ms() + ((int64_t)PAUSE_MS << s->failed);
	/* What a second try will not mend. */
	if (++s->failed >= TRIES || s->open_rc == E_HOSTKEY ||
	    s->open_rc == E_AUTH || s->open_rc == E_UNSUPPORTED ||
	    s->open_rc == E_CANCELLED) {
		s->given_up = true;
	}
	if (s->given_up && !s->quit) {
		tell_fewer(s, s->open_err.text);
	}
}

static void
begin_opening(struct send_streams *s)
{
	if (pthread_create(&s->opener, NULL, opener_thread, s) == 0) {
		s->opening = true;
	} else {
		s->given_up = true;
	}
}

/* ---- the dead ---- */

/* With the lock held, which is left meanwhile. False: it is to be tried
 * again, which is so after an interrupt, or the connection is gone. */
static bool
bury_one(struct send_streams *s, unsigned i, const struct err *why)
{
	struct link *l = s->links[i];
	struct err e = { 0 };
	int rc;

	pthread_mutex_unlock(&s->lock);
	rc = link_bury(s->control, l, &e);
	pthread_mutex_lock(&s->lock);
	if (rc < 0) {
		log_debug("a dead stream: %s", e.text);
		return false;
	}
	log_info("a data stream broke; what was under way is sent again: %s",
		 why->text);
	s->links[i] = s->links[--s->nlinks];
	if (++s->deaths >= DEATHS && !s->given_up) {
		s->given_up = true;
		tell_fewer(s, "too many broke");
	}
	return true;
}

static void
bury(struct send_streams *s)
{
	s->look = false;
	for (unsigned i = 0; i < s->nlinks;) {
		struct err why = { 0 };

		if (!link_failed(s->links[i], &why)) {
			i++;
		} else if (!bury_one(s, i, &why)) {
			s->look = true;
			i++;
		}
	}
}

/* ---- how many ---- */

/* Idle part of the processors since the last time; -1 where unknown. */
static double
idle_part(struct send_streams *s)
{
	unsigned long long v[8] = { 0 };
	cleanup(close_file) FILE *f = fopen("/proc/stat", "re");
	uint64_t all = 0, idle, d_all, d_idle;

	if (!f ||
	    fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0],
		   &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) < 5) {
		return -1;
	}
	for (int i = 0; i < 8; i++) {
		all += v[i];
	}
	idle = v[3] + v[4];
	d_all = all - s->stat_all;
	d_idle = idle - s->stat_idle;
	s->stat_all = all;
	s->stat_idle = idle;
	return d_all ? (double)d_idle / (double)d_all : -1;
}

static double
threads_cpu(struct send_streams *s)
{
	int64_t us = link_thread_cpu(s->control), sum = us > 0 ? us : 0;

	for (unsigned i = 0; i < s->nlinks; i++) {
		us = link_thread_cpu(s->links[i]);
		sum += us > 0 ? us : 0;
	}
	return (double)sum / 1e6;
}

/* With the lock held. */
static void
decide(struct send_streams *s)
{
	struct send_grow_sample now = { .ms = io_now_ms() };
	struct send_grow_wish w;
	struct feed_stats st;

	if (s->o.count) {
		s->wanted = s->o.count;
		return;
	}
	feed_get_stats(s->feed, &st);
	now.acked = st.acked_bytes;
	now.backlog = st.queued > 0;
	now.streams = s->nlinks + 1;
	now.cpu = threads_cpu(s);
	now.idle = idle_part(s);
	if (s->given_up) {
		send_grow_stop(&s->grow);
	}
	w = send_grow_step(&s->grow, &now);
	if (w.open > s->wanted || w.open < s->wanted) {
		log_debug("%s: %u streams wanted", s->o.link.host, w.open);
	}
	s->wanted = w.open;
	feed_limit(s->feed, s->given_up ? FEED_STREAMS_MAX : w.use);
}

/* ---- the keeper ---- */

static void
sleep_a_little(struct send_streams *s, int64_t ms)
{
	int64_t until = io_now_ms() + ms;
	struct timespec t = { .tv_sec = until / 1000,
			      .tv_nsec = until % 1000 * 1000000 };

	pthread_cond_timedwait(&s->changed, &s->lock, &t);
}

static void *
keeper_thread(void *arg)
{
	struct send_streams *s = arg;

	pthread_mutex_lock(&s->lock);
	while (!s->quit) {
		if (s->opened) {
			take_opened(s);
		}
		if (s->look) {
			bury(s);
			if (s->look && !s->quit) {
				sleep_a_little(s, TICK_MS);
			}
			continue;
		}
		if (!s->passing) {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		decide(s);
		if (!s->opening && !s->given_up && s->nlinks + 1 < s->wanted &&
		    io_now_ms() >= s->next_ms) {
			begin_opening(s);
		}
		if (!s->opened && !s->look && !s->quit) {
			sleep_a_little(s, TICK_MS);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- the interface ---- */

void
send_streams_begin(struct send_streams *s, uint64_t bytes, uint64_t files)
{
	if (s->o.count == 1 || !(link_caps(s->control) & FRAME_CAP_STREAMS)) {
		return;
	}
	pthread_mutex_lock(&s->lock);
	send_grow_begin(&s->grow, AUTO_MAX, bytes, files);
	s->passing = true;
	if (!s->started) {
		s->started =
			pthread_create(&s->keeper, NULL, keeper_thread, s) == 0;
	}
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void
send_streams_end(struct send_streams *s)
{
	pthread_mutex_lock(&s->lock);
	s->passing = false;
	pthread_mutex_unlock(&s->lock);
}

unsigned
send_streams_now(struct send_streams *s)
{
	struct feed_stats st;

	feed_get_stats(s->feed, &st);
	return st.streams;
}

unsigned
send_streams_most(struct send_streams *s)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = s->most;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void
send_streams_free(struct send_streams *s)
{
	if (!s) {
		return;
	}
	pthread_mutex_lock(&s->lock);
	s->quit = true;
	__atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (s->started) {
		pthread_join(s->keeper, NULL);
	}
	if (s->opening) {
		pthread_join(s->opener, NULL);
		link_close(s->fresh);
	}
	/* What is under way still is left so after a failure or an abort; a
	 * stream that is stalled with it is not waited for. */
	for (unsigned i = 0; i < s->nlinks; i++) {
		if (link_in_flight(s->control) > 0) {
			link_cut(s->links[i]);
		} else {
			link_stop(s->links[i]);
		}
	}
	for (unsigned i = 0; i < s->nlinks; i++) {
		link_close(s->links[i]);
	}
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
