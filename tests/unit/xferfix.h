/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xferfix: an agent in a thread of the test, over a socketpair, that knows
 * the requests of a pass.
 */
#ifndef TESTS_XFERFIX_H
#define TESTS_XFERFIX_H

#include <pthread.h>

#include "base/digest.h"
#include "fs/meta.h"
#include "xfer/link.h"
#include "xfer/recv.h"
#include "xfer/send_streams.h"
#include "xfer/server.h"

#define XFERFIX_AGENTS_MAX 128

struct xferfix {
	int rootfd; /* destination; borrowed */
	struct digest_key key;
	enum meta_policy policy;
	uint32_t agent_caps, caps; /* that the two sides have */
	struct limit *limit;	   /* of the client; borrowed; or NULL */
	/* Called in PASS_END between the writing and the read-back; may be
	 * NULL. */
	void (*before_proof)(int rootfd);
	/* Put something around the client's channel; may be NULL. */
	struct bytechan *(*wrap)(struct bytechan *under);
	/* Data streams: as send_streams_opts, and something around their
	 * channels (`n` counts them from 1); see xferfix_streams. */
	unsigned streams;
	struct bytechan *(*wrap_more)(struct bytechan *under, unsigned n);
	void (*on_dialled)(void); /* one was opened, from the opener; or NULL */
	int join_dir;	       /* where agents meet; made by xferfix_streams */
	struct server *server; /* since HELLO */
	struct receiver *r;
	int fds[2]; /* client, agent */
	pthread_t thread;
	int served; /* server_run's result */
	struct err served_err;
	struct link *l;
	struct send_streams *more; /* NULL: none */
	unsigned dialled;
	pthread_t agents[XFERFIX_AGENTS_MAX]; /* of data streams */
	char join_path[64];
	uint32_t keepalive_ms;
	bool joined;	/* `thread` was waited for already */
	bool left_over; /* by close: a socket was left behind */
};

/* Two empty directories in one of their own, removed with all in them. */
struct xferfix_dirs {
	char top[64];
	int src, dst;
};
struct xferfix_dirs *xferfix_dirs_new(void);
/* A cmocka teardown: frees *state. */
int xferfix_dirs_free(void **state);

/* Connect. Returns link_open's result. */
int xferfix_open(struct xferfix *x, int rootfd, uint32_t keepalive_ms,
		 struct err *e);
/* After open: see to it that there are x->streams streams; waits for them. */
int xferfix_streams(struct xferfix *x, struct err *e);
/* PASS_BEGIN, PASS_END of the only pass. */
int xferfix_begin(struct xferfix *x, struct err *e);
int xferfix_end(struct xferfix *x, struct msg_proof *p, struct err *e);
/* The same of one of several. */
int xferfix_begin_pass(struct xferfix *x, uint32_t number, bool final,
		       struct err *e);
int xferfix_end_pass(struct xferfix *x, uint32_t number, bool final,
		     struct msg_proof *p, struct err *e);
/* SYNC, as before the container is stopped. */
int xferfix_sync(struct xferfix *x, struct err *e);
void xferfix_close(struct xferfix *x);

#endif
