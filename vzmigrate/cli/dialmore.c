/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dialmore: a channel that owns its connection, around the one of ssh/. What
 * the remote shell says goes to the link's log.
 */
#include "config.h"

#include "cli/dialmore.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "cipher/offer.h"
#include "ssh/conn.h"

struct more {
	struct bytechan c;	/* first: what the link sees */
	struct bytechan *inner; /* of ssh/; owned */
	struct conn *conn;	/* owned */
};

static int
more_data(const void *data, size_t len, void *arg, struct err *e)
{
	struct more *m = arg;

	return m->c.on_data(data, len, m->c.arg, e);
}

static void
more_stderr(const void *data, size_t len, void *arg)
{
	struct more *m = arg;

	if (m->c.on_stderr) {
		m->c.on_stderr(data, len, m->c.arg);
	}
}

static int
more_write(struct bytechan *c, const void *data, size_t len, int64_t timeout_ms,
	   struct err *e)
{
	return bytechan_write(((struct more *)c)->inner, data, len, timeout_ms,
			      e);
}

static int
more_service(struct bytechan *c, int64_t timeout_ms, struct err *e)
{
	return bytechan_service(((struct more *)c)->inner, timeout_ms, e);
}

static void
more_wake(struct bytechan *c)
{
	bytechan_wake(((struct more *)c)->inner);
}

static void
more_cut(struct bytechan *c)
{
	bytechan_cut(((struct more *)c)->inner);
}

static int
more_send_eof(struct bytechan *c, struct err *e)
{
	return bytechan_send_eof(((struct more *)c)->inner, e);
}

static void
more_free(struct bytechan *c)
{
	struct more *m = (struct more *)c;

	bytechan_free(m->inner);
	conn_close(m->conn);
	free(m);
}

static const struct bytechan_ops more_ops = {
	.write = more_write,
	.service = more_service,
	.wake = more_wake,
	.send_eof = more_send_eof,
	.free = more_free,
	.cut = more_cut,
};

/* The offer for both processors, where nobody else has decided. */
static int
offer_for(struct dial *d, enum hw there, struct offer *o, struct conn_params *p,
	  struct err *e)
{
	struct offer_ask ask = *dial_ask(d);
	enum offer_by by = dial_offer(d)->ciphers_by;
	int rc;

	if (by != OFFER_BY_HARDWARE && by != OFFER_BY_DEFAULT) {
		return 0;
	}
	ask.there = there;
	rc = offer_build(&ask, o, e);
	if (rc == 0) {
		p->ciphers_c2s = o->ciphers_out;
	}
	return rc;
}

int
dialmore_open(struct dial *d, enum hw there, const int *stop,
	      struct bytechan **out, struct err *e)
{
	cleanup(offer_fini) struct offer o = { 0 };
	struct conn *first = dial_live(d);
	struct more *m = calloc(1, sizeof(*m));
	struct conn_params p;
	int rc;

	if (!m) {
		return err_nomem(e);
	}
	m->c.ops = &more_ops;
	dial_params(d, &p);
	p.stop = stop;
	p.mismatch = NULL;
	rc = first ? offer_for(d, there, &o, &p, e)
		   : err_set(e, E_CLOSED, "%s: not connected", dial_host(d));
	rc = rc < 0 ? rc : conn_open_more(first, &p, &m->conn, e);
	rc = rc < 0 ? rc : conn_exec(m->conn, dial_command(d), &m->inner, e);
	if (rc < 0) {
		conn_close(m->conn);
		free(m);
		return rc;
	}
	m->inner->on_data = more_data;
	m->inner->on_stderr = more_stderr;
	m->inner->arg = m;
	*out = &m->c;
	return 0;
}

void
dialmore_used(struct bytechan *c)
{
	conn_unstop(((struct more *)c)->inner);
}
