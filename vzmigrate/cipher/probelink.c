/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probelink: connections and sinks of a probe. State: struct probelink, used
 * by the thread that probes. Two others look in: a watchdog, which ends a
 * connection that takes too long to open (libssh's waits are bounded one by
 * one, not all together), and whoever interrupts; `lock` is for them.
 */
#include "config.h"

#include "cipher/probelink.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytechan.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/io.h"
#include "base/log.h"
#include "wire/frame.h"
#include "wire/msg.h"
#include "xfer/link.h"

#define UNIT 8192
#define FRAME_BYTES (128u << 10)
#define KEEPALIVE_MS 400 /* a link is dead after 15 of them */
#define GREETING_MS 2500
#define FILL_FIRST (64 << 10)
#define FILL_RATE 15 /* MB/s */
#define FILL_BYTES (4 << 20)
#define WATCH_GRACE_MS 200 /* what has a deadline says more */
#define BLOCK 65536	   /* of dd, for the bulk */
#define SHELL_RANDOM                                          \
	(4 << 20) /* sent over and over; far beyond what zlib \
		     looks back (32 KiB) */

/* A number of small blocks, one of large ones, the bytes; an answer. */
#define SHELL_SINK                                                         \
	"sh -c 'while read a b; do "                                       \
	"dd bs=8192 count=$a iflag=fullblock of=/dev/null 2>/dev/null && " \
	"dd bs=65536 count=$b iflag=fullblock of=/dev/null 2>/dev/null; "  \
	"echo $?; done'"

/* One candidate's connection. */
struct line {
	struct conn *conn;     /* owned; NULL: not open */
	struct link *link;     /* owned; into the agent */
	struct bytechan *chan; /* owned; into the shell */
	int stop;	       /* given to ssh/: 1 ends its waits */
	uint64_t sunk;	       /* bytes the agent must have counted */
	uint64_t there_us;     /* its and its sshd's time at the last answer */
	bool there_known;
	char answer[16]; /* of the shell, up to its newline */
	size_t answered;
	bool answer_ended;
};

struct probelink {
	struct probelink_params o;
	struct line lines[DECIDE_MAX];
	bool shell;	 /* no agent there */
	bool sink_known; /* `shell` is decided */
	char no_agent[512];
	struct digest_key key; /* HELLO wants one; of no use here */
	uint8_t *random;       /* owned; for the shell's sink */

	pthread_mutex_t lock; /* of lines[].link and .stop, and what follows */
	pthread_cond_t changed;
	pthread_t watchdog;
	int64_t deadline; /* IO_FOREVER: nothing is watched */
	size_t watched;	  /* whose */
	bool bitten;	  /* it was too late */
	bool interrupted;
	bool quit;
};

static int64_t
now_us(void *arg)
{
	struct timespec t;

	(void)arg;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static double
own_cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the watchdog ---- */

static void *
watch(void *arg)
{
	struct probelink *pl = arg;

	pthread_mutex_lock(&pl->lock);
	while (!pl->quit) {
		struct timespec t;

		if (pl->deadline == IO_FOREVER) {
			pthread_cond_wait(&pl->changed, &pl->lock);
			continue;
		}
		t.tv_sec = pl->deadline / 1000;
		t.tv_nsec = pl->deadline % 1000 * 1000000;
		pthread_cond_timedwait(&pl->changed, &pl->lock, &t);
		if (pl->deadline != IO_FOREVER &&
		    io_left_ms(pl->deadline) == 0) {
			pl->lines[pl->watched].stop = 1;
			pl->bitten = true;
			pl->deadline = IO_FOREVER;
		}
	}
	pthread_mutex_unlock(&pl->lock);
	return NULL;
}

static void
watch_begin(struct probelink *pl, size_t i, int64_t deadline)
{
	pthread_mutex_lock(&pl->lock);
	pl->watched = i;
	pl->deadline = deadline;
	pl->bitten = false;
	pl->lines[i].stop = pl->interrupted;
	pthread_cond_signal(&pl->changed);
	pthread_mutex_unlock(&pl->lock);
}

/* What an opening came to, with the watchdog's part in it. */
static int
watch_end(struct probelink *pl, int rc, struct err *e)
{
	bool bitten;

	pthread_mutex_lock(&pl->lock);
	pl->deadline = IO_FOREVER;
	bitten = pl->bitten && !pl->interrupted;
	pthread_mutex_unlock(&pl->lock);
	if (rc == E_CANCELLED && bitten) {
		return err_set(e, E_TIMEOUT,
			       "it stalled: no connection in "
			       "time");
	}
	return rc;
}

void
probelink_interrupt(struct probelink *pl)
{
	pthread_mutex_lock(&pl->lock);
	pl->interrupted = true;
	for (size_t i = 0; i < DECIDE_MAX; i++) {
		pl->lines[i].stop = 1;
		if (pl->lines[i].link) {
			link_cancel(pl->lines[i].link);
		}
	}
	pthread_mutex_unlock(&pl->lock);
}

static void
set_link(struct probelink *pl, struct line *l, struct link *link)
{
	pthread_mutex_lock(&pl->lock);
	l->link = link;
	if (link && pl->interrupted) {
		link_cancel(link);
	}
	pthread_mutex_unlock(&pl->lock);
}

/* ---- closing ---- */

static void
close_line(struct probelink *pl, size_t i, bool broken)
{
	struct line *l = &pl->lines[i];
	struct link *link = l->link;

	if (broken) {
		pthread_mutex_lock(&pl->lock);
		l->stop = 1;
		pthread_mutex_unlock(&pl->lock);
	} else if (l->chan) {
		bytechan_send_eof(l->chan, NULL);
	}
	set_link(pl, l, NULL);
	link_close(link);
	bytechan_free(l->chan);
	l->chan = NULL;
	conn_close(l->conn);
	l->conn = NULL;
}

static void
op_close(size_t i, bool broken, void *arg)
{
	close_line(arg, i, broken);
}

/* ---- opening ---- */

static int
connect_line(struct probelink *pl, size_t i, int64_t deadline, struct err *e)
{
	const struct probe_cand *c = &pl->o.probe->cands[i];
	struct conn_params p = *pl->o.conn;

	p.ciphers_c2s = c->cipher;
	if (c->mac) {
		p.macs_c2s = c->mac;
	}
	p.timeout_ms = io_left_ms(deadline) + 1;
	p.stop = &pl->lines[i].stop;
	return conn_open_more(pl->o.first, &p, &pl->lines[i].conn, e);
}

/* Random bytes into all buffers, once: they come back to be used again. */
static int
fill_pool(struct pool *pool, struct err *e)
{
	struct pool_frame *f, *all = NULL;
	int rc = 0;

	while (rc == 0 && (f = pool_try_get(pool))) {
		rc = digest_random(pool_payload(f), FRAME_BYTES, e);
		f->next = all;
		all = f;
	}
	while (all) {
		f = all;
		all = f->next;
		pool_put(f);
	}
	return rc;
}

static int
start_agent(struct probelink *pl, size_t i, int64_t deadline, struct err *e)
{
	struct link_opts o = { .greeting_ms = io_left_ms(deadline),
			       .keepalive_ms = KEEPALIVE_MS,
			       .host = pl->o.host };
	struct msg_hello_reply hello = { 0 };
	struct line *l = &pl->lines[i];
	struct bytechan *chan;
	struct link *link;
	int rc = conn_exec(l->conn, pl->o.agent, &chan, e);

	if (o.greeting_ms > GREETING_MS) {
		o.greeting_ms = GREETING_MS;
	}
	rc = rc < 0 ? rc : link_open(chan, &o, &pl->key, &link, &hello, e);
	if (rc < 0) {
		return rc;
	}
	msg_hello_reply_fini(&hello);
	set_link(pl, l, link);
	return fill_pool(link_pool(link), e);
}

static int
on_answer(const void *data, size_t len, void *arg, struct err *e)
{
	struct line *l = arg;

	for (size_t k = 0; k < len; k++) {
		char c = ((const char *)data)[k];

		if (l->answered == sizeof(l->answer) - 1 || l->answer_ended) {
			return err_set(e, E_PROTOCOL,
				       "the shell there says too much");
		}
		if (c == '\n') {
			l->answer_ended = true;
		} else {
			l->answer[l->answered++] = c;
		}
	}
	return 0;
}

static int shell_round(struct probelink *pl, struct line *l, uint64_t bytes,
		       int64_t deadline, struct err *e);

static int
start_shell(struct probelink *pl, size_t i, int64_t deadline, struct err *e)
{
	struct line *l = &pl->lines[i];
	int rc = 0;

	if (!pl->random) {
		pl->random = malloc(SHELL_RANDOM);
		rc = pl->random ? digest_random(pl->random, SHELL_RANDOM, e)
				: err_nomem(e);
	}
	rc = rc < 0 ? rc : conn_exec(l->conn, SHELL_SINK, &l->chan, e);
	if (rc < 0) {
		return rc;
	}
	l->chan->on_data = on_answer;
	l->chan->arg = l;
	/* Whether there is a dd that can count. */
	return shell_round(pl, l, UNIT, deadline, e);
}

/* What says that something else than an agent answered. */
static bool
no_agent(int rc)
{
	return rc == E_PROTOCOL || rc == E_CLOSED || rc == E_TIMEOUT ||
	       rc == E_VERSION || rc == E_REMOTE;
}

static int
open_sink(struct probelink *pl, size_t i, int64_t deadline, struct err *e)
{
	int rc = connect_line(pl, i, deadline, e);

	if (rc < 0 || pl->shell) {
		return rc < 0 ? rc : start_shell(pl, i, deadline, e);
	}
	rc = start_agent(pl, i, deadline, e);
	if (rc == 0) {
		pl->sink_known = true;
	}
	if (!no_agent(rc) || pl->sink_known || io_left_ms(deadline) == 0) {
		return rc;
	}
	/* A connection has one command only. */
	snprintf(pl->no_agent, sizeof(pl->no_agent), "%.500s", e->text);
	close_line(pl, i, false);
	err_clear(e);
	rc = connect_line(pl, i, deadline, e);
	rc = rc < 0 ? rc : start_shell(pl, i, deadline, e);
	if (rc == 0) {
		pl->shell = pl->sink_known = true;
	} else if (rc != E_CANCELLED) {
		err_wrap(e, "no agent there (%.300s), and no other sink",
			 pl->no_agent);
	}
	return rc;
}

static int op_round(size_t i, uint64_t bytes, int64_t ms,
		    struct probe_sample *s, void *arg, struct err *e);

/* sshd's buffers grow in small steps, each a copy of all, until they have once
 * held a window: that costs 50 s/GB, once, and is part of a connection's price,
 * not of a cipher's. Where the link is slow they never do. */
static int
fill_window(struct probelink *pl, size_t i, int64_t deadline, struct err *e)
{
	struct probe_sample s = { 0 };
	int rc = 0;

	for (int k = 0; rc == 0 && k < 2; k++) {
		rc = op_round(i, FILL_FIRST, io_left_ms(deadline), &s, pl, e);
	}
	if (rc == 0 && s.us > 0 && FILL_FIRST / s.us >= FILL_RATE) {
		rc = op_round(i, FILL_BYTES, io_left_ms(deadline), &s, pl, e);
	}
	return rc;
}

static int
op_open(size_t i, int64_t ms, void *arg, struct err *e)
{
	struct probelink *pl = arg;
	int64_t deadline = io_deadline(ms);
	int rc;

	watch_begin(pl, i, deadline + WATCH_GRACE_MS);
	rc = open_sink(pl, i, deadline, e);
	rc = rc < 0 ? rc : fill_window(pl, i, deadline, e);
	rc = watch_end(pl, rc, e);
	if (rc < 0) {
		close_line(pl, i, true);
		return rc;
	}
	log_debug("probe: %s is connected, into %s", pl->o.probe->cands[i].name,
		  probelink_sink(pl));
	return 0;
}

/* ---- rounds ---- */

static int
send_frames(struct line *l, uint64_t bytes, int64_t deadline, struct err *e)
{
	struct pool *pool = link_pool(l->link);

	while (bytes) {
		/* There are more buffers than credit: this does not block. */
		struct pool_frame *f = pool_get(pool);
		int rc;

		if (!f) {
			return err_nomem(e);
		}
		f->type = FRAME_SINK;
		f->len = bytes < FRAME_BYTES ? (uint32_t)bytes : FRAME_BYTES;
		bytes -= f->len;
		l->sunk += f->len;
		rc = link_send_by(l->link, f, deadline, e);
		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

static int
ask_agent(struct line *l, int64_t deadline, struct msg_sink *m, struct err *e)
{
	cleanup(buf_finip) struct buf reply = BUF_MAX(MSG_BODY_MAX);
	int rc = link_call(l->link, MSG_SINK, NULL, 0, &reply,
			   io_left_ms(deadline), e);

	rc = rc < 0 ? rc : msg_get_sink(reply.data, reply.len, m, e);
	if (rc == 0 && m->bytes != l->sunk) {
		rc = err_set(e, E_PROTOCOL,
			     "the agent counted %llu bytes of %llu",
			     (unsigned long long)m->bytes,
			     (unsigned long long)l->sunk);
	}
	return rc;
}

static int
agent_round(struct line *l, uint64_t bytes, int64_t deadline,
	    struct probe_sample *s, struct err *e)
{
	int64_t from = now_us(NULL), cpu = link_thread_cpu(l->link), cpu2;
	uint64_t before = l->there_us;
	struct msg_sink m;
	int rc = send_frames(l, bytes, deadline, e);

	rc = rc < 0 ? rc : ask_agent(l, deadline, &m, e);
	if (rc < 0) {
		return rc;
	}
	s->us = now_us(NULL) - from;
	cpu2 = link_thread_cpu(l->link);
	s->cpu_here = cpu >= 0 && cpu2 >= 0 ? (double)(cpu2 - cpu) / 1e6 : -1;
	l->there_us = m.cpu_us + m.sshd_us;
	/* Half of it, without sshd, would mislead. */
	s->cpu_there = l->there_known && m.sshd_us
			       ? (double)(l->there_us - before) / 1e6
			       : -1;
	l->there_known = m.sshd_us != 0;
	return 0;
}

static int
shell_answer(struct line *l, int64_t deadline, struct err *e)
{
	while (!l->answer_ended) {
		int rc = bytechan_service(l->chan, io_left_ms(deadline), e);

		if (rc < 0) {
			return rc;
		}
		if (!l->answer_ended && io_left_ms(deadline) == 0) {
			return err_set(e, E_TIMEOUT, "no answer of the shell");
		}
	}
	l->answer[l->answered] = '\0';
	l->answered = 0;
	l->answer_ended = false;
	return strcmp(l->answer, "0") == 0
		       ? 0
		       : err_set(e, E_UNSUPPORTED,
				 "the dd there cannot count whole blocks");
}

static int
shell_round(struct probelink *pl, struct line *l, uint64_t bytes,
	    int64_t deadline, struct err *e)
{
	uint64_t bulk = bytes / BLOCK, rest = bytes % BLOCK / UNIT;
	char line[64];
	int n = snprintf(line, sizeof(line), "%llu %llu\n",
			 (unsigned long long)rest, (unsigned long long)bulk);
	int rc = bytechan_write(l->chan, line, (size_t)n, io_left_ms(deadline),
				e);
	size_t at = 0;

	while (rc == 0 && bytes) {
		size_t k = bytes < FRAME_BYTES ? (size_t)bytes : FRAME_BYTES;

		if (io_left_ms(deadline) == 0) {
			return err_set(e, E_TIMEOUT, "takes no data");
		}
		rc = bytechan_write(l->chan, pl->random + at, k,
				    io_left_ms(deadline), e);
		at = (at + FRAME_BYTES) % SHELL_RANDOM;
		bytes -= k;
	}
	return rc < 0 ? rc : shell_answer(l, deadline, e);
}

static int
op_round(size_t i, uint64_t bytes, int64_t ms, struct probe_sample *s,
	 void *arg, struct err *e)
{
	struct probelink *pl = arg;
	struct line *l = &pl->lines[i];
	int64_t deadline = io_deadline(ms), from;
	double cpu;
	int rc;

	s->bytes = bytes;
	if (l->link) {
		return agent_round(l, bytes, deadline, s, e);
	}
	from = now_us(NULL);
	cpu = own_cpu();
	rc = shell_round(pl, l, bytes, deadline, e);
	s->us = now_us(NULL) - from;
	s->cpu_here = own_cpu() - cpu;
	s->cpu_there = -1;
	return rc;
}

const struct probe_ops probelink_ops = {
	.open = op_open,
	.round = op_round,
	.close = op_close,
	.now_us = now_us,
	.unit = UNIT,
};

/* ---- the interface ---- */

struct probelink *
probelink_new(const struct probelink_params *params, struct err *e)
{
	struct probelink *pl = calloc(1, sizeof(*pl));
	pthread_condattr_t attr;
	int rc;

	if (!pl) {
		err_nomem(e);
		return NULL;
	}
	pl->o = *params;
	pl->deadline = IO_FOREVER;
	pthread_mutex_init(&pl->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&pl->changed, &attr);
	pthread_condattr_destroy(&attr);
	rc = digest_key_new(&pl->key, e);
	if (rc == 0 &&
	    (rc = pthread_create(&pl->watchdog, NULL, watch, pl)) != 0) {
		err_sys(e, rc, "cannot start a thread");
	}
	if (rc != 0) {
		pthread_cond_destroy(&pl->changed);
		pthread_mutex_destroy(&pl->lock);
		free(pl);
		return NULL;
	}
	return pl;
}

const char *
probelink_sink(const struct probelink *pl)
{
	return pl->shell ? "dd, started by the shell there"
			 : "vzmigrate-agent there";
}

const char *
probelink_no_agent(const struct probelink *pl)
{
	return pl->shell ? pl->no_agent : NULL;
}

void
probelink_free(struct probelink *pl)
{
	if (!pl) {
		return;
	}
	for (size_t i = 0; i < DECIDE_MAX; i++) {
		if (pl->lines[i].conn) {
			close_line(pl, i, true);
		}
	}
	pthread_mutex_lock(&pl->lock);
	pl->quit = true;
	pthread_cond_signal(&pl->changed);
	pthread_mutex_unlock(&pl->lock);
	pthread_join(pl->watchdog, NULL);
	pthread_cond_destroy(&pl->changed);
	pthread_mutex_destroy(&pl->lock);
	free(pl->random);
	free(pl);
}
