/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * link: one stream to an agent: how it begins and ends, and what others ask
 * of it.
 *
 * One thread (link_out.c) owns the byte channel: it takes requests from the
 * link's own queue, content from the connection's feed, writes them, and gets
 * called back with what the agent sends (link_in.c). What others see is under
 * one mutex; waiters sleep on one condition variable. The first fatal error is
 * kept in `fatal` and ends the thread.
 *
 * A data stream keeps what it has written until it is acknowledged: when it
 * dies, the agent tells how much has arrived, and the rest goes back to the
 * feed (link_join.c). The control stream keeps nothing: it is not outlived by
 * anything.
 */
#include "config.h"

#include "xfer/link_priv.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "wire/frame.h"

/* ---- life ---- */

struct link *
link_new(struct bytechan *c, const struct link_opts *o, struct feed *feed)
{
	pthread_condattr_t attr;
	struct link *l = calloc(1, sizeof(*l));

	if (!l) {
		return NULL;
	}
	l->control = !feed;
	l->feed = feed ? feed : feed_new(o->host, NULL);
	if (!l->feed) {
		free(l);
		return NULL;
	}
	l->c = c;
	l->host = o->host;
	l->caps = o->caps | FRAME_CAP_STREAMS;
	l->limit = o->limit;
	l->died = o->died;
	l->arg = o->arg;
	l->keepalive_ms = o->keepalive_ms ? o->keepalive_ms : LINK_KEEPALIVE_MS;
	l->slot = -1;
	l->queue_tail = &l->queue;
	l->kept_tail = &l->kept;
	l->next_id = 1;
	l->log_left = LINK_LOG_MAX;
	buf_init(&l->in, LINK_IN_MAX + (1 << 17));
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &attr);
	pthread_condattr_destroy(&attr);
	return l;
}

void
link_free(struct link *l)
{
	if (l->slot >= 0) {
		feed_detach(l->feed, l->slot);
	}
	link_out_drop(l->queue);
	link_out_drop(l->kept);
	bytechan_free(l->c);
	if (l->control) {
		feed_free(l->feed);
	}
	buf_fini(&l->in);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int
say_hello(struct link *l, const struct digest_key *key,
	  struct msg_hello_reply *hello, struct err *e)
{
	struct msg_hello h = { .proto = FRAME_PROTO,
			       .caps = l->caps,
			       .version = (char *)PACKAGE_VERSION,
			       .keepalive_ms = l->keepalive_ms,
			       .key = *key };
	cleanup(buf_finip) struct buf body = BUF_MAX(MSG_BODY_MAX);
	cleanup(buf_finip) struct buf reply = BUF_MAX(MSG_BODY_MAX);
	struct enc n;
	int rc;

	enc_init(&n, &body, e);
	msg_put_hello(&n, &h);
	rc = n.rc;
	if (rc == 0) {
		rc = link_call(l, MSG_HELLO, body.data, body.len, &reply,
			       (int64_t)l->keepalive_ms * LINK_DEAD_FACTOR, e);
	}
	if (rc == 0) {
		rc = msg_get_hello_reply(reply.data, reply.len, hello, e);
		if (rc < 0) {
			err_recode(e, rc, "%s", l->host);
		}
	}
	return rc;
}

int
link_start(struct link *l, int64_t greeting_ms, struct err *e)
{
	int rc = link_in_greeting(l, greeting_ms, e);

	return rc < 0 ? rc : link_out_start(l, e);
}

static void
wake(void *arg)
{
	bytechan_wake(((struct link *)arg)->c);
}

int
link_attach(struct link *l, struct err *e)
{
	int slot = feed_attach(l->feed, wake, l, e);

	if (slot < 0) {
		return slot;
	}
	pthread_mutex_lock(&l->lock);
	l->slot = slot;
	pthread_mutex_unlock(&l->lock);
	bytechan_wake(l->c);
	return 0;
}

int
link_open(struct bytechan *c, const struct link_opts *o,
	  const struct digest_key *key, struct link **out,
	  struct msg_hello_reply *hello, struct err *e)
{
	struct link *l = link_new(c, o, NULL);
	int rc;

	if (!l) {
		bytechan_free(c);
		return err_nomem(e);
	}
	rc = link_start(l, o->greeting_ms, e);
	if (rc < 0) {
		link_free(l);
		return rc;
	}
	rc = say_hello(l, key, hello, e);
	rc = rc < 0 ? rc : link_attach(l, e);
	if (rc < 0) {
		link_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

void
link_join_thread(struct link *l)
{
	if (!l->joined) {
		pthread_join(l->thread, NULL);
		l->joined = true;
	}
}

void
link_stop(struct link *l)
{
	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	bytechan_wake(l->c);
	pthread_mutex_unlock(&l->lock);
}

void
link_cut(struct link *l)
{
	link_stop(l);
	bytechan_cut(l->c);
}

void
link_close(struct link *l)
{
	if (!l) {
		return;
	}
	link_stop(l);
	link_join_thread(l);
	link_free(l);
}

/* ---- calls ---- */

static void
push(struct link *l, struct pool_frame *f)
{
	f->next = NULL;
	*l->queue_tail = f;
	l->queue_tail = &f->next;
	if (l->idle) {
		l->idle = false;
		bytechan_wake(l->c);
	}
}

static void
unlink_call(struct link *l, struct link_call_wait *c)
{
	for (struct link_call_wait **at = &l->calls; *at; at = &(*at)->next) {
		if (*at == c) {
			*at = c->next;
			return;
		}
	}
}

/* With the lock held. Returns 0, or why nothing can be sent. */
static int
blocked(struct link *l, struct err *e)
{
	const struct err *why = NULL;

	if (l->fatal.code) {
		why = &l->fatal;
	} else if (l->cancelled) {
		return err_set(e, E_CANCELLED, "stopped as asked");
	}
	if (!why) {
		return 0;
	}
	if (e) {
		*e = *why;
	}
	return why->code;
}

/* Wait on `changed` until `deadline`; false when it passed. */
static bool
wait_changed(struct link *l, int64_t deadline)
{
	struct timespec t;

	if (deadline == IO_FOREVER) {
		pthread_cond_wait(&l->changed, &l->lock);
		return true;
	}
	t.tv_sec = deadline / 1000;
	t.tv_nsec = (deadline % 1000) * 1000000;
	return pthread_cond_timedwait(&l->changed, &l->lock, &t) == 0 ||
	       io_left_ms(deadline) > 0;
}

static struct pool_frame *
request_frame(uint32_t id, enum msg_method method, const void *body, size_t len)
{
	struct pool_frame *f;

	if (len > MSG_BODY_MAX + 1024) {
		return NULL;
	}
	f = pool_large((uint32_t)len + 6);
	if (!f) {
		return NULL;
	}
	f->type = FRAME_REQUEST;
	f->len = (uint32_t)len + 6;
	for (int i = 0; i < 4; i++) {
		pool_payload(f)[i] = (uint8_t)(id >> (8 * i));
	}
	pool_payload(f)[4] = (uint8_t)method;
	pool_payload(f)[5] = (uint8_t)(method >> 8);
	if (len) {
		memcpy(pool_payload(f) + 6, body, len);
	}
	return f;
}

int
link_call_now(struct link *l, enum msg_method method, const struct buf *body,
	      struct link_call_wait *c, int64_t timeout_ms, int64_t deadline,
	      struct err *e)
{
	struct pool_frame *f;
	int rc;

	c->rc = 1;
	pthread_mutex_lock(&l->lock);
	rc = blocked(l, e);
	if (rc < 0) {
		pthread_mutex_unlock(&l->lock);
		return rc;
	}
	c->id = l->next_id++;
	f = request_frame(c->id, method, body->data, body->len);
	if (!f) {
		pthread_mutex_unlock(&l->lock);
		return err_set(e, E_LIMIT, "request %s of %zu bytes",
			       msg_method_name(method), body->len);
	}
	c->next = l->calls;
	l->calls = c;
	push(l, f);
	while (c->rc > 0) {
		rc = blocked(l, &c->e);
		if (rc < 0) {
			c->rc = rc;
		} else if (!wait_changed(l, deadline) && c->rc > 0) {
			c->rc = err_set(&c->e, E_TIMEOUT,
					"%s: no reply to %s in %lld s", l->host,
					msg_method_name(method),
					(long long)(timeout_ms / 1000));
		}
	}
	unlink_call(l, c);
	pthread_mutex_unlock(&l->lock);
	if (c->rc < 0 && e) {
		*e = c->e;
	}
	return c->rc;
}

int
link_call(struct link *l, enum msg_method method, const void *body, size_t len,
	  struct buf *reply, int64_t timeout_ms, struct err *e)
{
	const struct buf b = { .data = (uint8_t *)body, .len = len };
	int64_t deadline = io_deadline(timeout_ms);
	struct link_call_wait c = { .reply = reply };
	int rc = 0;

	/* PASS_END means "all of it was sent". Content that is left to the
	 * control stream itself stays in front of what follows there. An abort
	 * waits for no data stream, which may be stalled. */
	if (l->control && method == MSG_ABORT) {
		feed_discard(l->feed);
	} else if (l->control && method != MSG_STREAM_OPEN) {
		rc = feed_drain(l->feed, false, deadline, e);
	}
	return rc < 0 ? rc
		      : link_call_now(l, method, &b, &c, timeout_ms, deadline,
				      e);
}

/* ---- content and state ---- */

int
link_send(struct link *l, struct pool_frame *f, struct err *e)
{
	return feed_put(l->feed, f, IO_FOREVER, e);
}

int
link_send_by(struct link *l, struct pool_frame *f, int64_t deadline,
	     struct err *e)
{
	return feed_put(l->feed, f, deadline, e);
}

int64_t
link_thread_cpu(struct link *l)
{
	struct timespec t;
	clockid_t id;
	int64_t us = -1;

	/* A thread that has not yet told its end by `fatal` is there. */
	pthread_mutex_lock(&l->lock);
	if (!l->fatal.code && pthread_getcpuclockid(l->thread, &id) == 0 &&
	    clock_gettime(id, &t) == 0) {
		us = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
	}
	pthread_mutex_unlock(&l->lock);
	return us;
}

struct pool *
link_pool(struct link *l)
{
	return feed_pool(l->feed);
}

struct feed *
link_feed(struct link *l)
{
	return l->feed;
}

uint32_t
link_caps(const struct link *l)
{
	return l->caps;
}

uint64_t
link_in_flight(struct link *l)
{
	struct feed_stats s;

	feed_get_stats(l->feed, &s);
	return s.queued + s.under_way;
}

uint64_t
link_backlog(struct link *l)
{
	struct feed_stats s;

	feed_get_stats(l->feed, &s);
	return s.queued;
}

int
link_drain(struct link *l, struct err *e)
{
	return feed_drain(l->feed, true, IO_FOREVER, e);
}

void
link_clear_fault(struct link *l)
{
	feed_fault(l->feed, NULL);
}

int
link_failed(struct link *l, struct err *e)
{
	int failed;

	pthread_mutex_lock(&l->lock);
	failed = l->fatal.code != 0;
	if (failed && e) {
		*e = l->fatal;
	}
	pthread_mutex_unlock(&l->lock);
	return failed;
}

void
link_hurry(struct link *l)
{
	feed_hurry(l->feed);
}

static void
set_cancelled(struct link *l, bool on)
{
	pthread_mutex_lock(&l->lock);
	l->cancelled = on;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	if (l->control) {
		feed_cancel(l->feed, on);
	}
}

void
link_cancel(struct link *l)
{
	set_cancelled(l, true);
	link_hurry(l);
}

void
link_uncancel(struct link *l)
{
	set_cancelled(l, false);
}
