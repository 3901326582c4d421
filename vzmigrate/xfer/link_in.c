/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * link_in: what comes back on a stream: the greeting, then frames, all from
 * the channel's callbacks, in the thread that owns it.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "wire/frame.h"
#include "xfer/link_priv.h"

/* ---- frames ---- */

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

	return code <= E_NOMEM && err_known(code) ? code : E_REMOTE;
}

static void
finish_call(struct link *l, struct link_call_wait *c, int code,
	    const char *text, struct dec *d)
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
inherit(struct link *l, struct link_call_wait *c)
{
	struct link_legacy *g = c->legacy;
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
	struct link_call_wait **at;
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
		struct link_call_wait *c = *at;

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
void
link_in_forget(struct link *l)
{
	struct pool_frame *f = l->kept;

	if (f) {
		l->kept = f->next;
		if (!l->kept) {
			l->kept_tail = &l->kept;
		}
		if (f == l->writing) {
			l->dropped = true;
		} else {
			pool_put(f);
		}
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
		link_in_forget(l);
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
	if (!l->control && (h->type == FRAME_LOG || h->type == FRAME_FAULT)) {
		return err_set(e, E_PROTOCOL,
			       "frame of type %u on a data stream", h->type);
	}
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

/* ---- the greeting, before the thread runs ---- */

static int
on_early_data(const void *data, size_t len, void *arg, struct err *e)
{
	struct link *l = arg;

	return buf_append(&l->in, data, len, e);
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

int
link_in_greeting(struct link *l, int64_t timeout_ms, struct err *e)
{
	int64_t deadline = io_deadline(timeout_ms);
	uint32_t proto, caps;
	size_t noise, used;
	int rc;

	l->c->arg = l;
	l->c->on_data = on_early_data;
	l->c->on_stderr = on_stderr;
	for (;;) {
		rc = frame_find_greeting(l->in.data, l->in.len, &noise, &used,
					 &proto, &caps, e);
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
	l->caps &= caps;
	rc = check_greeting(l, proto, noise, e);
	buf_consume(&l->in, used);
	if (rc < 0) {
		return rc;
	}
	l->c->on_data = on_data;
	l->last_rx_ms = l->last_tx_ms = io_now_ms();
	rc = parse_in(l, e);
	return rc < 0 ? err_wrap(e, "%s", l->host) : 0;
}
