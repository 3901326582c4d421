/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcconn: the control connection to the destination's agent, used for all
 * containers of a run, made when first needed and again when it was lost; and
 * the requests over it.
 */
#ifndef MIGRATE_SRCCONN_H
#define MIGRATE_SRCCONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytechan.h"
#include "base/digest.h"
#include "base/err.h"
#include "ct/ct.h"
#include "wire/msg.h"
#include "xfer/link.h"

struct srcconn;

struct srcconn_opts {
	/* Start an agent on the destination and give its channel; blocks.
	 * `must`: something is owed, a signal is not to stop it. */
	int (*dial)(void *arg, bool must, struct bytechan **c, struct err *e);
	/* The greeting did not come: replace `e` by what is known of the
	 * reason (no such program, sudo refused). May be NULL. */
	void (*explain)(void *arg, struct err *e);
	/* The agent has greeted: from now on srcconn_interrupt is the way to
	 * end a wait, and the connection outlives it. May be NULL. */
	void (*greeted)(void *arg);
	/* Data streams beside it, see struct send_streams_opts; their channels
	 * come from `more` (NULL: there are none). */
	unsigned streams;
	int (*more)(void *arg, const int *stop, struct bytechan **c,
		    struct err *e);
	void (*more_used)(void *arg, struct bytechan *c); /* or NULL */
	void *arg;	       /* for all; borrowed */
	const char *host;      /* for messages; borrowed */
	int64_t greeting_ms;   /* see link_opts */
	uint32_t keepalive_ms; /* see link_opts */
	uint32_t caps;	       /* see link_opts */
	struct limit *limit;   /* see link_opts */
	int64_t reply_ms;      /* longest wait for the reply to a request that
				  takes no long work; 0: 2 minutes */
};

/* Connects nothing. `o` is copied. NULL with E_NOMEM. */
struct srcconn *srcconn_new(const struct srcconn_opts *o, struct err *e);
void srcconn_free(struct srcconn *c);

/*
 * Make sure that there is a live connection. 1: a new one was made, sessions
 * must be opened again; 0: it was there; E_CONNECT also where another host
 * than the first time answers; errors of dial and link_open. Blocks.
 */
int srcconn_up(struct srcconn *c, struct err *e);

/* Whether a connection is there and works, as far as is known. */
bool srcconn_alive(const struct srcconn *c);

/* Close it. */
void srcconn_drop(struct srcconn *c);

/* Valid while the connection is. */
struct link *srcconn_link(struct srcconn *c);
const struct digest_key *srcconn_key(const struct srcconn *c);
/* The last answer, also after the connection is gone; NULL before the first.
 */
const struct msg_hello_reply *srcconn_hello(const struct srcconn *c);

/* Seconds that its clock was before ours at the greeting. */
int64_t srcconn_ahead(const struct srcconn *c);

/* Whether the last failed request was answered by the agent (true), or the
 * connection or we failed (false). */
bool srcconn_remote(const struct srcconn *c);

/* Content is about to be sent, so much of it (0: not known); it was sent. In
 * between data streams are opened; they stay as long as the connection. */
void srcconn_streams_begin(struct srcconn *c, uint64_t bytes, uint64_t files);
void srcconn_streams_end(struct srcconn *c);
/* Streams that carry now, and the most there ever were at once, the control
 * stream among them; 0 before the first connection. */
unsigned srcconn_streams_now(struct srcconn *c);
unsigned srcconn_streams_most(struct srcconn *c);

/* Make blocked and later requests fail with E_CANCELLED. Any thread; not for
 * a signal handler. */
void srcconn_interrupt(struct srcconn *c);
/* From here on (`on`) srcconn_interrupt has no effect, and one that had is
 * taken back: what is owed is done to its end. */
void srcconn_shield(struct srcconn *c, bool on);

/* Requests, as wire/msg.h says. Replies are finished by the caller. All block;
 * errors are the agent's or the link's. */
int srcconn_open_session(struct srcconn *c, const struct msg_open *m,
			 struct msg_open_reply *r, struct err *e);
int srcconn_put_file(struct srcconn *c, const struct ct_file *f, struct err *e);
int srcconn_fsprobe(struct srcconn *c, struct msg_check_reply *r,
		    struct err *e);
int srcconn_check(struct srcconn *c, const struct msg_check *m,
		  struct msg_check_reply *r, struct err *e);
/* RESERVE, SYNC: nothing in either direction. */
int srcconn_plain(struct srcconn *c, enum msg_method method, struct err *e);
int srcconn_pass_begin(struct srcconn *c, const struct msg_pass *m,
		       struct err *e);
int srcconn_pass_end(struct srcconn *c, const struct msg_pass *m,
		     struct msg_proof *proof, struct err *e);
int srcconn_take_over(struct srcconn *c, const struct msg_take_over *m,
		      struct msg_take_over_reply *r, struct err *e);
/* NEVER, FINISH, and ABORT with `keep`. */
int srcconn_state(struct srcconn *c, enum msg_method method, bool keep,
		  struct msg_state *r, struct err *e);

#endif
