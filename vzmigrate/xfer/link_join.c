/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * link_join: how a link becomes a data stream of a connection, and what is
 * done when one has died.
 */
#include "config.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "xfer/link_priv.h"

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
	l->limit = control->limit; /* one for all */
	rc = link_start(l, o->greeting_ms, e);
	if (rc < 0) {
		link_free(l);
		return rc;
	}
	rc = show_token(control, l, e);
	rc = rc < 0 ? rc : link_attach(l, e);
	if (rc < 0) {
		link_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

static int
ask_arrived(struct link *control, struct link *l, struct link_legacy *g,
	    struct err *e)
{
	const struct msg_stream_end m = { .number = l->number,
					  .acked = l->acked };
	cleanup(buf_finip) struct buf body = BUF_MAX(MSG_BODY_MAX);
	cleanup(buf_finip) struct buf reply = BUF_MAX(MSG_BODY_MAX);
	struct link_call_wait c = { .reply = &reply, .legacy = g };
	struct enc n;

	enc_init(&n, &body, e);
	msg_put_stream_end(&n, &m);
	return n.rc < 0 ? n.rc
			: link_call_now(control, MSG_STREAM_END, &body, &c,
					dead_ms(control),
					io_deadline(dead_ms(control)), e);
}

int
link_bury(struct link *control, struct link *l, struct err *e)
{
	struct link_legacy g = { .slot = l->slot };
	int rc;

	link_join_thread(l);
	g.acked = l->acked;
	g.unacked = (unsigned)(l->sent - l->acked);
	rc = ask_arrived(control, l, &g, e);
	if (rc == E_PROTOCOL || rc == E_NOT_FOUND) {
		/* It contradicts itself, and asking again does not help: what
		 * has arrived cannot be learned, so the pass has failed. With
		 * nothing under way that is not missed: an answer may have
		 * come too late to be taken. */
		if (g.unacked) {
			err_recode(e, E_PROTOCOL, "a dead stream");
			feed_fault(l->feed, e);
			feed_acked(l->feed, l->slot, g.unacked, 0);
		}
		link_free(l);
		return 0;
	}
	if (rc < 0) {
		return rc;
	}
	for (unsigned i = 0; i < g.arrived; i++) {
		link_in_forget(l);
	}
	feed_back(l->feed, l->slot, l->kept);
	l->kept = NULL;
	link_free(l);
	return 0;
}
