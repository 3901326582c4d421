/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcconn: holds the link, makes it anew, and turns requests into bodies and
 * replies back. One thread uses it; srcconn_interrupt alone comes from
 * another, so `link`, `shield` and `interrupted` are under a mutex.
 */
#include "config.h"

#include "migrate/srcconn.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "xfer/send_streams.h"

/* A dead peer is noticed by the link's keepalive; these only bound what an
 * agent that lives may take. */
#define SHORT_MS (2 * 60 * 1000)
#define LONG_MS (60 * 60 * 1000) /* emptying a staging area, a commit */
#define PASS_MS (-1)		 /* reading a whole tree back */

struct srcconn {
	struct srcconn_opts o;
	pthread_mutex_t lock;	      /* of the next three */
	struct link *link;	      /* NULL: not connected */
	bool shield;		      /* srcconn_interrupt has no effect */
	bool interrupted;	      /* it came */
	struct send_streams *streams; /* NULL: not connected */
	unsigned most;		      /* streams of earlier connections */
	struct digest_key key;	      /* of this connection */
	struct msg_hello_reply hello; /* of the last one; owned */
	bool greeted;		      /* hello is filled */
	int64_t ahead_s;	      /* its clock before ours, then */
	bool remote;		      /* see srcconn_remote */
};

struct srcconn *
srcconn_new(const struct srcconn_opts *o, struct err *e)
{
	struct srcconn *c = calloc(1, sizeof(*c));

	if (!c) {
		err_nomem(e);
		return NULL;
	}
	c->o = *o;
	if (c->o.reply_ms <= 0) {
		c->o.reply_ms = SHORT_MS;
	}
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void
srcconn_free(struct srcconn *c)
{
	if (!c) {
		return;
	}
	srcconn_drop(c);
	msg_hello_reply_fini(&c->hello);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void
set_link(struct srcconn *c, struct link *l)
{
	pthread_mutex_lock(&c->lock);
	c->link = l;
	if (l && c->interrupted && !c->shield) {
		link_cancel(l);
	}
	pthread_mutex_unlock(&c->lock);
}

void
srcconn_drop(struct srcconn *c)
{
	struct link *l = c->link;

	c->most = srcconn_streams_most(c);
	send_streams_free(c->streams);
	c->streams = NULL;
	set_link(c, NULL);
	link_close(l);
}

bool
srcconn_alive(const struct srcconn *c)
{
	struct err e = { 0 };

	return c->link && !link_failed(c->link, &e);
}

struct link *
srcconn_link(struct srcconn *c)
{
	return c->link;
}

const struct digest_key *
srcconn_key(const struct srcconn *c)
{
	return &c->key;
}

const struct msg_hello_reply *
srcconn_hello(const struct srcconn *c)
{
	return c->greeted ? &c->hello : NULL;
}

int64_t
srcconn_ahead(const struct srcconn *c)
{
	return c->ahead_s;
}

bool
srcconn_remote(const struct srcconn *c)
{
	return c->remote;
}

void
srcconn_interrupt(struct srcconn *c)
{
	pthread_mutex_lock(&c->lock);
	c->interrupted = true;
	if (c->link && !c->shield) {
		link_cancel(c->link);
	}
	pthread_mutex_unlock(&c->lock);
}

void
srcconn_shield(struct srcconn *c, bool on)
{
	pthread_mutex_lock(&c->lock);
	c->shield = on;
	if (c->link && c->interrupted) {
		if (on) {
			link_uncancel(c->link);
		} else {
			link_cancel(c->link);
		}
	}
	pthread_mutex_unlock(&c->lock);
}

/* The answer of a new connection against the one before. */
static int
same_host(struct srcconn *c, struct msg_hello_reply *hello, struct err *e)
{
	int rc = 0;

	if (c->greeted &&
	    memcmp(hello->host_id, c->hello.host_id, MSG_ID_LEN) != 0) {
		rc = err_set(e, E_CONNECT,
			     "%s: another host answers than before (%s, was "
			     "%s)",
			     c->o.host, hello->hostname, c->hello.hostname);
		msg_hello_reply_fini(hello);
		return rc;
	}
	msg_hello_reply_fini(&c->hello);
	c->hello = *hello;
	c->ahead_s = hello->time_s - (int64_t)time(NULL);
	c->greeted = true;
	return rc;
}

static int
make_streams(struct srcconn *c, const struct link_opts *link, struct link *l,
	     struct err *e)
{
	const struct send_streams_opts o = { .count = c->o.more ? c->o.streams
								: 1,
					     .dial = c->o.more,
					     .dialled = c->o.more_used,
					     .arg = c->o.arg,
					     .link = *link };

	c->streams = send_streams_new(l, &o, e);
	return c->streams ? 0 : E_NOMEM;
}

void
srcconn_streams_begin(struct srcconn *c, uint64_t bytes, uint64_t files)
{
	if (c->streams) {
		send_streams_begin(c->streams, bytes, files);
	}
}

void
srcconn_streams_end(struct srcconn *c)
{
	if (c->streams) {
		send_streams_end(c->streams);
	}
}

unsigned
srcconn_streams_now(struct srcconn *c)
{
	return c->streams ? send_streams_now(c->streams) : 0;
}

unsigned
srcconn_streams_most(struct srcconn *c)
{
	unsigned n = c->streams ? send_streams_most(c->streams) : 0;

	return n > c->most ? n : c->most;
}

static int
connect_anew(struct srcconn *c, struct err *e)
{
	struct link_opts o = { .greeting_ms = c->o.greeting_ms,
			       .keepalive_ms = c->o.keepalive_ms,
			       .host = c->o.host,
			       .caps = c->o.caps,
			       .limit = c->o.limit };
	struct msg_hello_reply hello = { 0 };
	struct bytechan *chan = NULL;
	struct link *l = NULL;
	int rc;

	c->remote = false;
	rc = digest_key_new(&c->key, e);
	if (rc == 0) {
		rc = c->o.dial(c->o.arg, c->shield, &chan, e);
	}
	if (rc < 0) {
		return rc;
	}
	rc = link_open(chan, &o, &c->key, &l, &hello, e);
	if (rc < 0) {
		if (c->o.explain) {
			c->o.explain(c->o.arg, e);
		}
		return e->code;
	}
	rc = same_host(c, &hello, e);
	rc = rc < 0 ? rc : make_streams(c, &o, l, e);
	if (rc < 0) {
		link_close(l);
		return rc;
	}
	if (c->o.greeted) {
		c->o.greeted(c->o.arg);
	}
	set_link(c, l);
	log_info("%s: vzmigrate-agent %s, host %s, Linux %s %s, uid %u",
		 c->o.host, c->hello.version, c->hello.hostname,
		 c->hello.kernel, c->hello.machine, c->hello.uid);
	return 1;
}

int
srcconn_up(struct srcconn *c, struct err *e)
{
	if (c->link && srcconn_alive(c)) {
		return 0;
	}
	srcconn_drop(c);
	return connect_anew(c, e);
}

/* ---- requests ---- */

/* A request being built and its answer. */
struct exchange {
	struct buf body, reply;
	struct enc n;
};

static void
exchange_fini(struct exchange *x)
{
	buf_fini(&x->body);
	buf_fini(&x->reply);
}

static struct enc *
exchange_init(struct exchange *x, struct err *e)
{
	/* A file of the largest size and what is said of it. */
	buf_init(&x->body, CT_FILE_MAX + MSG_BODY_MAX);
	buf_init(&x->reply, MSG_BODY_MAX);
	enc_init(&x->n, &x->body, e);
	return &x->n;
}

static int
exchange_call(struct srcconn *c, struct exchange *x, enum msg_method method,
	      bool has_reply, int64_t timeout_ms, struct err *e)
{
	int64_t from = io_now_ms();
	struct err link_err = { 0 };
	int rc = x->n.rc;

	c->remote = false;
	if (rc < 0) {
		return rc;
	}
	if (!c->link) {
		return err_set(e, E_CLOSED, "%s: not connected", c->o.host);
	}
	rc = link_call(c->link, method, x->body.data, x->body.len,
		       has_reply ? &x->reply : NULL, timeout_ms, e);
	if (rc < 0) {
		c->remote = rc != E_CANCELLED && rc != E_TIMEOUT &&
			    !link_failed(c->link, &link_err);
		log_debug("%s: %s: %s", c->o.host, msg_method_name(method),
			  e ? e->text : err_name(rc));
		if (rc == E_TIMEOUT) {
			/* It may live and be stuck; nobody asks it for
			 * anything more, a new agent ends it. */
			srcconn_drop(c);
		}
	} else {
		log_debug("%s: %s: ok, %lld ms", c->o.host,
			  msg_method_name(method),
			  (long long)(io_now_ms() - from));
	}
	return rc;
}

/* What came back makes no sense: say from where. */
static int
decoded(struct srcconn *c, int rc, struct err *e)
{
	return rc < 0 ? err_recode(e, rc, "%s", c->o.host) : rc;
}

int
srcconn_open_session(struct srcconn *c, const struct msg_open *m,
		     struct msg_open_reply *r, struct err *e)
{
	cleanup(exchange_fini) struct exchange x;
	int rc;

	msg_put_open(exchange_init(&x, e), m);
	rc = exchange_call(c, &x, MSG_OPEN, true, c->o.reply_ms, e);
	return rc < 0 ? rc
		      : decoded(c,
				msg_get_open_reply(x.reply.data, x.reply.len, r,
						   e),
				e);
}

int
srcconn_put_file(struct srcconn *c, const struct ct_file *f, struct err *e)
{
	struct msg_put_file m = { .role = f->role,
				  .data = f->data,
				  .len = f->len,
				  .mode = f->mode,
				  .uid = f->uid,
				  .gid = f->gid };
	cleanup(exchange_fini) struct exchange x;

	msg_put_put_file(exchange_init(&x, e), &m);
	return exchange_call(c, &x, MSG_PUT_FILE, false, c->o.reply_ms, e);
}

static int
call_check(struct srcconn *c, struct exchange *x, enum msg_method method,
	   struct msg_check_reply *r, struct err *e)
{
	int rc = exchange_call(c, x, method, true, c->o.reply_ms, e);

	return rc < 0 ? rc
		      : decoded(c,
				msg_get_check_reply(x->reply.data, x->reply.len,
						    r, e),
				e);
}

int
srcconn_fsprobe(struct srcconn *c, struct msg_check_reply *r, struct err *e)
{
	cleanup(exchange_fini) struct exchange x;

	exchange_init(&x, e);
	return call_check(c, &x, MSG_FSPROBE, r, e);
}

int
srcconn_check(struct srcconn *c, const struct msg_check *m,
	      struct msg_check_reply *r, struct err *e)
{
	cleanup(exchange_fini) struct exchange x;

	msg_put_check(exchange_init(&x, e), m);
	return call_check(c, &x, MSG_CHECK, r, e);
}

int
srcconn_plain(struct srcconn *c, enum msg_method method, struct err *e)
{
	cleanup(exchange_fini) struct exchange x;

	exchange_init(&x, e);
	return exchange_call(c, &x, method, false, LONG_MS, e);
}

int
srcconn_pass_begin(struct srcconn *c, const struct msg_pass *m, struct err *e)
{
	cleanup(exchange_fini) struct exchange x;

	msg_put_pass(exchange_init(&x, e), m);
	return exchange_call(c, &x, MSG_PASS_BEGIN, false, LONG_MS, e);
}

int
srcconn_pass_end(struct srcconn *c, const struct msg_pass *m,
		 struct msg_proof *proof, struct err *e)
{
	cleanup(exchange_fini) struct exchange x;
	int rc;

	msg_put_pass(exchange_init(&x, e), m);
	rc = exchange_call(c, &x, MSG_PASS_END, true, PASS_MS, e);
	return rc < 0 ? rc
		      : decoded(c,
				msg_get_proof(x.reply.data, x.reply.len, proof,
					      e),
				e);
}

int
srcconn_take_over(struct srcconn *c, const struct msg_take_over *m,
		  struct msg_take_over_reply *r, struct err *e)
{
	cleanup(exchange_fini) struct exchange x;
	int rc;

	msg_put_take_over(exchange_init(&x, e), m);
	rc = exchange_call(c, &x, MSG_TAKE_OVER, true, LONG_MS, e);
	return rc < 0 ? rc
		      : decoded(c,
				msg_get_take_over_reply(x.reply.data,
							x.reply.len, r, e),
				e);
}

int
srcconn_state(struct srcconn *c, enum msg_method method, bool keep,
	      struct msg_state *r, struct err *e)
{
	struct msg_abort m = { .keep = keep };
	cleanup(exchange_fini) struct exchange x;
	int rc;

	exchange_init(&x, e);
	if (method == MSG_ABORT) {
		msg_put_abort(&x.n, &m);
	}
	rc = exchange_call(c, &x, method, true, LONG_MS, e);
	return rc < 0 ? rc
		      : decoded(c,
				msg_get_state(x.reply.data, x.reply.len, r, e),
				e);
}
