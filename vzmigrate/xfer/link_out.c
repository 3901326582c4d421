/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * link_out: the thread of a link, and what it writes: requests from the link's
 * own queue, content from the connection's feed, a KEEPALIVE where neither is
 * there. It owns the byte channel, whose callbacks bring what the agent sends
 * (link_in.c), and ends with the first fatal error, or GOODBYE. State: struct
 * link.
 */
#include "config.h"

#include <pthread.h>

#include "base/io.h"
#include "base/log.h"
#include "wire/frame.h"
#include "xfer/link_priv.h"

#define CLOSE_WAIT_MS 3000

/* ---- waiting ---- */

static int
write_frame(struct link *l, uint8_t *bytes, uint8_t type, uint8_t flags,
	    uint32_t len, struct err *e)
{
	struct frame_header h = { .len = len, .type = type, .flags = flags };

	frame_put_header(bytes, &h);
	l->last_tx_ms = io_now_ms();
	return bytechan_write(l->c, bytes, FRAME_HEADER + (size_t)len,
			      (int64_t)l->keepalive_ms * LINK_DEAD_FACTOR, e);
}

/* Serve the connection for at most `most_ms`, or until woken. */
static int
serve_idle(struct link *l, int64_t most_ms, struct err *e)
{
	int64_t now = io_now_ms();
	int64_t dead =
		l->last_rx_ms + (int64_t)l->keepalive_ms * LINK_DEAD_FACTOR;
	int64_t due = l->last_tx_ms + l->keepalive_ms;
	uint8_t bytes[FRAME_HEADER];
	int rc;

	if (now >= dead) {
		return err_set(e, E_TIMEOUT, "no sign of life for %lld s",
			       (long long)((now - l->last_rx_ms) / 1000));
	}
	if (now >= due) {
		return write_frame(l, bytes, FRAME_KEEPALIVE, 0, 0, e);
	}
	due = due < dead ? due : dead;
	rc = bytechan_service(l->c, due - now < most_ms ? due - now : most_ms,
			      e);
	return rc < 0 ? rc : 0;
}

static bool
is_stopping(struct link *l)
{
	bool stop;

	pthread_mutex_lock(&l->lock);
	stop = l->stopping;
	pthread_mutex_unlock(&l->lock);
	return stop;
}

static bool
in_hurry(struct link *l)
{
	return is_stopping(l) || feed_in_hurry(l->feed);
}

/* ---- requests ---- */

static struct pool_frame *
next_request(struct link *l, int *slot)
{
	struct pool_frame *f;

	pthread_mutex_lock(&l->lock);
	*slot = l->slot;
	f = l->queue;
	if (f) {
		l->queue = f->next;
		if (!l->queue) {
			l->queue_tail = &l->queue;
		}
	}
	l->idle = !f;
	pthread_mutex_unlock(&l->lock);
	return f;
}

static int
write_request(struct link *l, struct pool_frame *f, struct err *e)
{
	int rc = write_frame(l, f->bytes, f->type, f->flags, f->len, e);

	pool_put(f);
	return rc;
}

/* STREAM_OPEN and STREAM_END stay behind no content: under a small limit they
 * would come too late. */
static bool
is_urgent(struct pool_frame *request)
{
	const uint8_t *p = pool_payload(request);
	unsigned method = p[4] | (unsigned)p[5] << 8;

	return method == MSG_STREAM_OPEN || method == MSG_STREAM_END;
}

static struct pool_frame *
next_urgent(struct link *l)
{
	struct pool_frame **at, *f;

	pthread_mutex_lock(&l->lock);
	for (at = &l->queue; (f = *at) && !is_urgent(f);) {
		at = &f->next;
	}
	if (f) {
		*at = f->next;
		if (!*at) {
			l->queue_tail = at;
		}
	}
	l->idle = !f;
	pthread_mutex_unlock(&l->lock);
	return f;
}

/* ---- content ---- */

static bool
is_content(const struct pool_frame *f)
{
	return f->type == FRAME_BATCH || f->type == FRAME_CHUNK;
}

/* Until the limit lets the frame go. The peer hears from us meanwhile. */
static int
wait_turn(struct link *l, const struct pool_frame *f, struct err *e)
{
	struct pool_frame *q;
	int rc = 0;

	while (rc == 0 && l->limit && is_content(f) && !in_hurry(l)) {
		int64_t ms = limit_take(l->limit, io_now_ms(),
					FRAME_HEADER + (size_t)f->len);

		if (!ms) {
			break;
		}
		q = next_urgent(l);
		rc = q ? write_request(l, q, e) : serve_idle(l, ms, e);
	}
	return rc;
}

/* Content is written, or waits for its turn; what is taken in meanwhile may
 * acknowledge it already, where the agent lies. */
static int
write_content(struct link *l, struct pool_frame *f, struct err *e)
{
	int rc;

	l->lens[l->sent++ % FEED_MAX] = f->len;
	if (!l->control) {
		f->next = NULL;
		*l->kept_tail = f;
		l->kept_tail = &f->next;
	}
	l->writing = f;
	l->dropped = l->control;
	rc = wait_turn(l, f, e);
	rc = rc < 0 ? rc
		    : write_frame(l, f->bytes, f->type, f->flags, f->len, e);
	l->writing = NULL;
	if (l->dropped) {
		pool_put(f);
	}
	return rc;
}

/* ---- the thread ---- */

/* A request, or content. 1 written, 0 there is nothing. */
static int
write_next(struct link *l, struct err *e)
{
	int slot, rc;
	struct pool_frame *f = next_request(l, &slot);

	if (f) {
		rc = write_request(l, f, e);
		return rc < 0 ? rc : 1;
	}
	f = slot >= 0 ? feed_take(l->feed, slot) : NULL;
	if (!f) {
		return 0;
	}
	rc = write_content(l, f, e);
	return rc < 0 ? rc : 1;
}

/* After GOODBYE: let the agent end in its own way, for a bounded time. */
static void
say_goodbye(struct link *l)
{
	int64_t deadline = io_deadline(CLOSE_WAIT_MS);
	uint8_t bytes[FRAME_HEADER];
	struct err e = { 0 };

	if (write_frame(l, bytes, FRAME_GOODBYE, 0, 0, &e) < 0 ||
	    bytechan_send_eof(l->c, &e) < 0) {
		return;
	}
	while (io_left_ms(deadline) > 0 &&
	       bytechan_service(l->c, io_left_ms(deadline), &e) >= 0) {
	}
}

static void
set_fatal_locked(struct link *l, const struct err *e)
{
	if (l->fatal.code == 0) {
		l->fatal = *e;
		log_debug("connection lost: %s", e->text);
	}
	pthread_cond_broadcast(&l->changed);
}

static void *
link_thread(void *arg)
{
	struct link *l = arg;
	struct err e = { 0 };
	int rc = 0;

	while (rc >= 0) {
		rc = write_next(l, &e);
		if (rc == 0 && is_stopping(l)) {
			say_goodbye(l);
			break;
		}
		if (rc == 0) {
			rc = serve_idle(l, INT64_MAX, &e);
		}
	}
	pthread_mutex_lock(&l->lock);
	if (rc == 0) {
		err_set(&e, E_CLOSED, "the link is closed");
	}
	err_wrap(&e, "%s", l->host);
	set_fatal_locked(l, &e);
	link_out_drop(l->queue);
	l->queue = NULL;
	l->queue_tail = &l->queue;
	pthread_mutex_unlock(&l->lock);
	if (l->control) {
		feed_fail(l->feed, &e);
	} else if (rc < 0 && l->died) {
		l->died(l->arg);
	}
	return NULL;
}

int
link_out_start(struct link *l, struct err *e)
{
	int rc = pthread_create(&l->thread, NULL, link_thread, l);

	return rc != 0 ? err_sys(e, rc, "cannot start a thread") : 0;
}

void
link_out_drop(struct pool_frame *f)
{
	while (f) {
		struct pool_frame *next = f->next;

		pool_put(f);
		f = next;
	}
}
