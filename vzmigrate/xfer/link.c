/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * link: one stream to an agent.
 *
 * One thread owns the byte channel: it takes requests from the link's own
 * queue, content from the connection's feed, writes them, and gets called back
 * with what the agent sends. What others see is under one mutex; waiters sleep
 * on one condition variable. The first fatal error is kept in `fatal` and ends
 * the thread.
 *
 * A data stream keeps what it has written until it is acknowledged: when it
 * dies, the agent tells how much has arrived, and the rest goes back to the
 * feed. The control stream keeps nothing: it is not outlived by anything.
 */
#include "config.h"

#include "xfer/link.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "wire/frame.h"

#define CLOSE_WAIT_MS 3000
/* A REPLY may be as large as a full message and its head. */
#define IN_MAX (FRAME_HEADER + FRAME_PAYLOAD_MAX)

/* What was under way on a dead stream. */
struct legacy {
	int slot;	  /* in the feed */
	uint64_t acked;	  /* frames */
	unsigned unacked; /* written, or begun */
	unsigned arrived; /* of them, as the agent tells: out */
};

/* A call that waits for its REPLY; lives on the caller's stack. */
struct call {
	uint32_t id;
	struct buf *reply; /* body goes here; NULL: must be empty */
	struct legacy *legacy; /* STREAM_END: what a dead stream leaves */
	int rc;		   /* 1 while waiting */
	struct err e;
	struct call *next;
};

struct link {
	struct bytechan *c; /* owned; used by the thread alone once it runs */
	const char *host;   /* borrowed, for messages */
	uint32_t keepalive_ms;
	void (*died)(void *arg); /* or NULL */
	void *arg;
	struct feed *feed; /* owned by the control link */
	bool control;
	uint32_t number; /* of the stream; 0 is control */
	uint32_t caps;	 /* of the greeting */
	struct buf in;	 /* bytes not yet parsed; thread only */
	int64_t last_rx_ms; /* when a whole frame last came; thread only */
	int64_t last_tx_ms; /* when a frame was last written; thread only */
	size_t log_left;    /* bytes of the other host's lines still taken into
			       our log; thread only */
	uint64_t sent, acked;	 /* content frames taken from the feed, and
				    finished by the agent; thread only */
	uint32_t lens[FEED_MAX]; /* of those between, ring by their number */
	struct pool_frame *kept; /* data stream: those frames, oldest first */
	struct pool_frame **kept_tail;

	pthread_t thread;
	bool joined; /* the thread is gone; who buries or closes */
	pthread_mutex_t lock;
	pthread_cond_t changed;	  /* anything below changed */
	int slot;		  /* in the feed, -1: none */
	struct pool_frame *queue; /* requests to send */
	struct pool_frame **queue_tail;
	struct call *calls; /* waiting for a REPLY */
	uint32_t next_id;
	bool idle;     /* the thread sleeps in service: wake it */
	bool stopping; /* link_close was called */
	bool cancelled;
	struct err fatal; /* code != 0: the stream is dead */
};

/* ---- the greeting, before the thread runs ---- */

static int
on_early_data(const void *data, size_t len, void *arg, struct err *e)
{
	struct link *l = arg;

	return buf_append(&l->in, data, len, e);
}

/* Whether `len` bytes more from the other host go into our log: it must not
 * fill our disk. */
static bool
may_log(struct link *l, size_t len)
{
	if (len <= l->log_left) {
		l->log_left -= len;
		return true;
	}
	if (l->log_left) {
		l->log_left = 0;
		log_warn("%s: its log is not taken any more: over %u bytes",
			 l->host, LINK_LOG_MAX);
	}
	return false;
}

static void
on_stderr(const void *data, size_t len, void *arg)
{
	const char *p = data;
	struct link *l = arg;

	if (!may_log(l, len)) {
		return;
	}
	while (len) {
		const char *nl = memchr(p, '\n', len);
		size_t n = nl ? (size_t)(nl - p) : len;
		char line[512];

		if (n) {
			log_info("%s: stderr: %s", l->host,
				 escape_bytes(line, sizeof(line), p, n));
		}
		n += nl ? 1 : 0;
		p += n;
		len -= n;
	}
}

static int
no_greeting(struct link *l, struct err *e)
{
	char shown[256];
	int code = e && e->code == E_CLOSED ? E_CLOSED : E_PROTOCOL;

	if (!l->in.len) {
		return err_recode(e, code, "%s: the agent did not answer",
				  l->host);
	}
	return err_recode(e, code, "%s: no agent there, but: \"%s\"", l->host,
			  escape_bytes(shown, sizeof(shown), l->in.data,
				       l->in.len));
}

static int
check_greeting(struct link *l, uint32_t proto, size_t noise, struct err *e)
{
	char shown[256];

	if (noise) {
		log_warn("%s: the login shell printed %zu bytes before the "
			 "agent started, beginning: \"%s\"",
			 l->host, noise,
			 escape_bytes(shown, sizeof(shown), l->in.data, noise));
	}
	if (proto != FRAME_PROTO) {
		return err_set(e, E_VERSION,
			       "%s: the agent speaks protocol %u, this program "
			       "%u: install the same version on both hosts",
			       l->host, proto, FRAME_PROTO);
	}
	return 0;
}

static int
wait_greeting(struct link *l, int64_t timeout_ms, struct err *e)
{
	int64_t deadline = io_deadline(timeout_ms);
	uint32_t proto;
	size_t noise, used;
	int rc;

	for (;;) {
		rc = frame_find_greeting(l->in.data, l->in.len, &noise, &used,
					 &proto, &l->caps, e);
		if (rc < 0) {
			return no_greeting(l, e);
		}
		if (rc == 1) {
			break;
		}
		if (io_left_ms(deadline) == 0) {
			err_set(e, E_TIMEOUT, "no greeting in %lld s",
				(long long)(timeout_ms / 1000));
			return no_greeting(l, e);
		}
		rc = bytechan_service(l->c, io_left_ms(deadline), e);
		if (rc < 0) {
			return no_greeting(l, e);
		}
	}
	rc = check_greeting(l, proto, noise, e);
	buf_consume(&l->in, used);
	return rc;
}

/* ---- incoming frames, in the thread ---- */

static void
set_fatal_locked(struct link *l, const struct err *e)
{
	if (l->fatal.code == 0) {
		l->fatal = *e;
		log_debug("connection lost: %s", e->text);
	}
	pthread_cond_broadcast(&l->changed);
}

static int
in_log(struct link *l, const uint8_t *p, size_t len, struct err *e)
{
	struct dec d;
	cleanup(free_ptr) char *text = NULL;
	uint8_t level;
	int rc;

	dec_init(&d, p, len);
	level = dec_u8(&d);
	text = dec_str_needed(&d, MSG_TEXT_MAX);
	rc = dec_end(&d, "log frame", e);
	if (rc < 0) {
		return rc;
	}
	if (!may_log(l, len)) {
		return 0;
	}
	if (level > LOGL_TRACE) {
		level = LOGL_TRACE;
	}
	/* A remote error is what the reply says; here it is only a line. */
	log_msg(level == LOGL_ERROR ? LOGL_WARN : level, "%s: %s", l->host,
		text);
	return 0;
}

/* Codes from the peer: anything unknown is E_REMOTE. */
static int
remote_code(uint32_t raw)
{
	int32_t code = (int32_t)raw;

	return code <= E_NOMEM && code >= E_STOP ? code : E_REMOTE;
}

static void
finish_call(struct link *l, struct call *c, int code, const char *text,
	    struct dec *d)
{
	if (code < 0) {
		c->rc = err_set(&c->e, code, "%s: %s", l->host,
				text ? text : "failed");
	} else if (!c->reply && d->left) {
		c->rc = err_set(&c->e, E_PROTOCOL,
				"%s: unexpected reply of %zu bytes", l->host,
				d->left);
	} else if (c->reply && d->left > c->reply->max - c->reply->len) {
		c->rc = err_set(&c->e, E_PROTOCOL,
				"%s: a reply of %zu bytes is too long", l->host,
				d->left);
	} else {
		c->rc = c->reply ? buf_append(c->reply, d->p, d->left, &c->e)
				 : 0;
	}
	pthread_cond_broadcast(&l->changed);
}

/* The reply to STREAM_END: from here on this stream's acknowledgements count
 * what the dead one has brought there, so the books change before the next
 * frame is looked at. With the lock held. */
static void
inherit(struct link *l, struct call *c)
{
	struct legacy *g = c->legacy;
	struct msg_stream_end_reply m;

	if (c->rc < 0) {
		return;
	}
	c->rc = msg_get_stream_end_reply(c->reply->data, c->reply->len, &m,
					 &c->e);
	if (c->rc == 0 &&
	    (m.frames < g->acked || m.frames - g->acked > g->unacked)) {
		c->rc = err_set(&c->e, E_PROTOCOL,
				"%s: %llu frames of a stream are said to have "
				"arrived",
				l->host, (unsigned long long)m.frames);
	}
	if (c->rc < 0) {
		return;
	}
	g->arrived = (unsigned)(m.frames - g->acked);
	for (unsigned i = 0; i < g->arrived; i++) {
		l->lens[l->sent++ % FEED_MAX] = 0;
	}
	feed_inherit(l->feed, g->slot, g->arrived);
}

static int
in_reply(struct link *l, const uint8_t *p, size_t len, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	struct call **at;
	struct dec d;
	uint32_t id, code;

	dec_init(&d, p, len);
	id = dec_u32(&d);
	code = dec_u32(&d);
	text = dec_str(&d, MSG_TEXT_MAX);
	if (d.rc < 0) {
		return err_set(e, E_PROTOCOL, "malformed reply");
	}
	pthread_mutex_lock(&l->lock);
	for (at = &l->calls; *at && (*at)->id != id; at = &(*at)->next) {
	}
	if (*at) {
		struct call *c = *at;

		*at = c->next;
		finish_call(l, c, code ? remote_code(code) : 0, text, &d);
		if (c->legacy) {
			inherit(l, c);
		}
	}
	pthread_mutex_unlock(&l->lock);
	/* No such call: it timed out here; its reply is of no use. */
	return 0;
}

/* So many are finished, in any order: so many have arrived, the oldest. */
static void
forget_oldest(struct link *l)
{
	struct pool_frame *f = l->kept;

	if (f) {
		l->kept = f->next;
		if (!l->kept) {
			l->kept_tail = &l->kept;
		}
		pool_put(f);
	}
}

static int
in_ack(struct link *l, const uint8_t *p, size_t len, struct err *e)
{
	struct dec d;
	uint64_t frames, bytes = 0;
	unsigned n;
	int rc;

	dec_init(&d, p, len);
	frames = dec_u64(&d);
	rc = dec_end(&d, "ack", e);
	if (rc < 0) {
		return rc;
	}
	if (frames < l->acked || frames > l->sent) {
		return err_set(e, E_PROTOCOL, "ack of frames never sent");
	}
	n = (unsigned)(frames - l->acked);
	while (l->acked < frames) {
		bytes += l->lens[l->acked++ % FEED_MAX];
		forget_oldest(l);
	}
	if (n) {
		feed_acked(l->feed, l->slot, n, bytes);
	}
	return 0;
}

static int
in_fault(struct link *l, const uint8_t *p, size_t len, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	struct err why = { 0 };
	struct dec d;
	uint32_t code;
	int rc;

	dec_init(&d, p, len);
	code = dec_u32(&d);
	text = dec_str_needed(&d, MSG_TEXT_MAX);
	rc = dec_end(&d, "fault", e);
	if (rc < 0) {
		return rc;
	}
	err_set(&why, remote_code(code), "%s: %s", l->host, text);
	feed_fault(l->feed, &why);
	return 0;
}

static int
in_frame(struct link *l, const struct frame_header *h, const uint8_t *p,
	 struct err *e)
{
	switch (h->type) {
	case FRAME_KEEPALIVE:
		return 0;
	case FRAME_LOG:
		return in_log(l, p, h->len, e);
	case FRAME_REPLY:
		return in_reply(l, p, h->len, e);
	case FRAME_ACK:
		return in_ack(l, p, h->len, e);
	case FRAME_FAULT:
		return in_fault(l, p, h->len, e);
	default:
		return err_set(e, E_PROTOCOL, "unexpected frame of type %u",
			       h->type);
	}
}

static int
parse_in(struct link *l, struct err *e)
{
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && l->in.len - at >= FRAME_HEADER) {
		struct frame_header h;

		rc = frame_get_header(l->in.data + at, &h, e);
		if (rc < 0 || l->in.len - at - FRAME_HEADER < h.len) {
			break;
		}
		rc = in_frame(l, &h, l->in.data + at + FRAME_HEADER, e);
		at += FRAME_HEADER + h.len;
	}
	/* Bytes that never make a frame are no sign of life. */
	if (at) {
		l->last_rx_ms = io_now_ms();
	}
	buf_consume(&l->in, at);
	return rc < 0 ? rc : 0;
}

static int
on_data(const void *data, size_t len, void *arg, struct err *e)
{
	struct link *l = arg;
	int rc;

	rc = buf_append(&l->in, data, len, e);
	return rc < 0 ? rc : parse_in(l, e);
}

/* ---- the thread ---- */

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
write_frame(struct link *l, uint8_t *bytes, uint8_t type, uint8_t flags,
	    uint32_t len, struct err *e)
{
	struct frame_header h = { .len = len, .type = type, .flags = flags };

	frame_put_header(bytes, &h);
	l->last_tx_ms = io_now_ms();
	return bytechan_write(l->c, bytes, FRAME_HEADER + (size_t)len,
			      (int64_t)l->keepalive_ms * LINK_DEAD_FACTOR, e);
}

static int
serve_idle(struct link *l, struct err *e)
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
	rc = bytechan_service(l->c, (due < dead ? due : dead) - now, e);
	return rc < 0 ? rc : 0;
}

/* A request, or content. 1 written, 0 there is nothing. */
static int
write_next(struct link *l, struct err *e)
{
	int slot, rc;
	struct pool_frame *f = next_request(l, &slot);

	if (!f && slot >= 0) {
		f = feed_take(l->feed, slot);
		if (f) {
			l->lens[l->sent++ % FEED_MAX] = f->len;
		}
		if (f && !l->control) {
			*l->kept_tail = f;
			l->kept_tail = &f->next;
			rc = write_frame(l, f->bytes, f->type, f->flags, f->len,
					 e);
			return rc < 0 ? rc : 1;
		}
	}
	if (!f) {
		return 0;
	}
	rc = write_frame(l, f->bytes, f->type, f->flags, f->len, e);
	pool_put(f);
	return rc < 0 ? rc : 1;
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
drop_queue(struct pool_frame *f)
{
	while (f) {
		struct pool_frame *next = f->next;

		pool_put(f);
		f = next;
	}
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
			rc = serve_idle(l, &e);
		}
	}
	pthread_mutex_lock(&l->lock);
	if (rc == 0) {
		err_set(&e, E_CLOSED, "the link is closed");
	}
	err_wrap(&e, "%s", l->host);
	set_fatal_locked(l, &e);
	drop_queue(l->queue);
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

/* ---- the interface ---- */

/* `feed`: a data stream of that connection; NULL: a control stream. */
static struct link *
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
	l->died = o->died;
	l->arg = o->arg;
	l->keepalive_ms = o->keepalive_ms ? o->keepalive_ms : LINK_KEEPALIVE_MS;
	l->slot = -1;
	l->queue_tail = &l->queue;
	l->kept_tail = &l->kept;
	l->next_id = 1;
	l->log_left = LINK_LOG_MAX;
	buf_init(&l->in, IN_MAX + (1 << 17));
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &attr);
	pthread_condattr_destroy(&attr);
	return l;
}

/* The thread has ended, or was never started. */
static void
link_free(struct link *l)
{
	if (l->slot >= 0) {
		feed_detach(l->feed, l->slot);
	}
	drop_queue(l->queue);
	drop_queue(l->kept);
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
			       .caps = 0,
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

/* The greeting, and the thread. */
static int
start(struct link *l, int64_t greeting_ms, struct err *e)
{
	int rc;

	l->c->arg = l;
	l->c->on_data = on_early_data;
	l->c->on_stderr = on_stderr;
	rc = wait_greeting(l, greeting_ms, e);
	if (rc < 0) {
		return rc;
	}
	l->c->on_data = on_data;
	l->last_rx_ms = l->last_tx_ms = io_now_ms();
	rc = parse_in(l, e);
	if (rc < 0) {
		return err_wrap(e, "%s", l->host);
	}
	rc = pthread_create(&l->thread, NULL, link_thread, l);
	return rc != 0 ? err_sys(e, rc, "cannot start a thread") : 0;
}

static void
wake(void *arg)
{
	bytechan_wake(((struct link *)arg)->c);
}

/* Take content from now on. */
static int
attach(struct link *l, struct err *e)
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
	rc = start(l, o->greeting_ms, e);
	if (rc < 0) {
		link_free(l);
		return rc;
	}
	rc = say_hello(l, key, hello, e);
	rc = rc < 0 ? rc : attach(l, e);
	if (rc < 0) {
		link_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

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
unlink_call(struct link *l, struct call *c)
{
	for (struct call **at = &l->calls; *at; at = &(*at)->next) {
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

static int
call(struct link *l, enum msg_method method, const struct buf *body,
     struct call *c, int64_t timeout_ms, int64_t deadline, struct err *e)
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
	struct call c = { .reply = reply };
	int rc = 0;

	/* PASS_END means "all of it was sent". Content that is left to the
	 * control stream itself stays in front of what follows there. */
	if (l->control && method != MSG_STREAM_OPEN) {
		rc = feed_drain(l->feed, deadline, e);
	}
	return rc < 0 ? rc : call(l, method, &b, &c, timeout_ms, deadline, e);
}

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

/* ---- data streams ---- */

static int64_t
dead_ms(const struct link *l)
{
	return (int64_t)l->keepalive_ms * LINK_DEAD_FACTOR;
}

/* A number and a token from the control stream, shown on the new one. */
static int
show_token(struct link *control, struct link *l, struct err *e)
{
	cleanup(buf_finip) struct buf body = BUF_MAX(MSG_BODY_MAX);
	cleanup(buf_finip) struct buf reply = BUF_MAX(MSG_BODY_MAX);
	struct msg_join m;
	struct enc n;
	int rc = link_call(control, MSG_STREAM_OPEN, NULL, 0, &reply,
			   dead_ms(l), e);

	rc = rc < 0 ? rc : msg_get_join(reply.data, reply.len, &m, e);
	if (rc < 0) {
		return rc;
	}
	l->number = m.number;
	enc_init(&n, &body, e);
	msg_put_join(&n, &m);
	rc = n.rc < 0 ? n.rc
		      : link_call(l, MSG_JOIN, body.data, body.len, NULL,
				  dead_ms(l), e);
	explicit_bzero(&m, sizeof(m));
	return rc;
}

int
link_join(struct link *control, struct bytechan *c, const struct link_opts *o,
	  struct link **out, struct err *e)
{
	struct link *l = link_new(c, o, control->feed);
	int rc;

	if (!l) {
		bytechan_free(c);
		return err_nomem(e);
	}
	rc = start(l, o->greeting_ms, e);
	if (rc < 0) {
		link_free(l);
		return rc;
	}
	rc = show_token(control, l, e);
	rc = rc < 0 ? rc : attach(l, e);
	if (rc < 0) {
		link_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

static int
ask_arrived(struct link *control, struct link *l, struct legacy *g,
	    struct err *e)
{
	const struct msg_stream_end m = { .number = l->number,
					  .acked = l->acked };
	cleanup(buf_finip) struct buf body = BUF_MAX(MSG_BODY_MAX);
	cleanup(buf_finip) struct buf reply = BUF_MAX(MSG_BODY_MAX);
	struct call c = { .reply = &reply, .legacy = g };
	struct enc n;

	enc_init(&n, &body, e);
	msg_put_stream_end(&n, &m);
	return n.rc < 0 ? n.rc
			: call(control, MSG_STREAM_END, &body, &c,
			       dead_ms(control), io_deadline(dead_ms(control)),
			       e);
}

static void
join_thread(struct link *l)
{
	if (!l->joined) {
		pthread_join(l->thread, NULL);
		l->joined = true;
	}
}

int
link_bury(struct link *control, struct link *l, struct err *e)
{
	struct legacy g = { .slot = l->slot };
	int rc;

	join_thread(l);
	g.acked = l->acked;
	g.unacked = (unsigned)(l->sent - l->acked);
	rc = ask_arrived(control, l, &g, e);
	if (rc < 0) {
		return rc;
	}
	for (unsigned i = 0; i < g.arrived; i++) {
		forget_oldest(l);
	}
	feed_back(l->feed, l->slot, l->kept);
	l->kept = NULL;
	link_free(l);
	return 0;
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
}

void
link_uncancel(struct link *l)
{
	set_cancelled(l, false);
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
link_close(struct link *l)
{
	if (!l) {
		return;
	}
	link_stop(l);
	join_thread(l);
	link_free(l);
}
