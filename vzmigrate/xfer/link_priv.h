/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * link_priv: what the files of the link share. Only for link*.c.
 */
#ifndef XFER_LINK_PRIV_H
#define XFER_LINK_PRIV_H

#include <pthread.h>

#include "xfer/limit.h"
#include "xfer/link.h"

/* A REPLY may be as large as a full message and its head. */
#define LINK_IN_MAX (FRAME_HEADER + FRAME_PAYLOAD_MAX)

/* What was under way on a dead stream. */
struct link_legacy {
	int slot;	  /* in the feed */
	uint64_t acked;	  /* frames */
	unsigned unacked; /* written, or begun */
	unsigned arrived; /* of them, as the agent tells: out */
};

/* A call that waits for its REPLY; lives on the caller's stack. */
struct link_call_wait {
	uint32_t id;
	struct buf *reply;	    /* body goes here; NULL: must be empty */
	struct link_legacy *legacy; /* STREAM_END: what a dead stream leaves */
	int rc;			    /* 1 while waiting */
	struct err e;
	struct link_call_wait *next;
};

struct link {
	struct bytechan *c; /* owned; used by the thread alone once it runs */
	const char *host;   /* borrowed, for messages */
	uint32_t keepalive_ms;
	void (*died)(void *arg); /* or NULL */
	void *arg;
	struct feed *feed; /* owned by the control link */
	bool control;
	uint32_t number;     /* of the stream; 0 is control */
	uint32_t caps;	     /* wanted, then agreed on */
	struct limit *limit; /* of content frames; borrowed; or NULL */
	struct buf in;	     /* bytes not yet parsed; thread only */
	int64_t last_rx_ms;  /* when a whole frame last came; thread only */
	int64_t last_tx_ms;  /* when a frame was last written; thread only */
	size_t log_left;     /* bytes of the other host's lines still taken into
				our log; thread only */
	uint64_t sent, acked;	 /* content frames taken from the feed, and
				    finished by the agent; thread only */
	uint32_t lens[FEED_MAX]; /* of those between, ring by their number */
	struct pool_frame *kept; /* data stream: those frames, oldest first */
	struct pool_frame **kept_tail;
	struct pool_frame *writing; /* content at hand; or NULL; thread only */
	bool dropped;		    /* it is not kept: free it when written */

	pthread_t thread;
	bool joined; /* the thread is gone; who buries or closes */
	pthread_mutex_t lock;
	pthread_cond_t changed;	  /* anything below changed */
	int slot;		  /* in the feed, -1: none */
	struct pool_frame *queue; /* requests to send */
	struct pool_frame **queue_tail;
	struct link_call_wait *calls; /* waiting for a REPLY */
	uint32_t next_id;
	bool idle;     /* the thread sleeps in service: wake it */
	bool stopping; /* link_close was called */
	bool cancelled;
	struct err fatal; /* code != 0: the stream is dead */
};

/* link_in.c. Wait for the greeting, before the thread runs; from then on
 * frames are taken in by the channel's callbacks. */
int link_in_greeting(struct link *l, int64_t timeout_ms, struct err *e);
/* Drop the oldest frame that is kept, if there is one; the one that is being
 * written lives until then. */
void link_in_forget(struct link *l);

/* link_out.c. Start the thread; after link_in_greeting. E_SYSTEM. */
int link_out_start(struct link *l, struct err *e);
/* Free a list of frames; NULL is allowed. */
void link_out_drop(struct pool_frame *f);

/* link.c. `feed`: a data stream of that connection; NULL: a control stream.
 * NULL without memory. */
struct link *link_new(struct bytechan *c, const struct link_opts *o,
		      struct feed *feed);
/* The greeting, and the thread. After an error link_free, else link_close. */
int link_start(struct link *l, int64_t greeting_ms, struct err *e);
/* Take content from now on. */
int link_attach(struct link *l, struct err *e);
/* Wait for the thread's end; it has, or was asked to. */
void link_join_thread(struct link *l);
/* The thread has ended, or was never started. */
void link_free(struct link *l);
/* link_call without waiting for what was sent before. */
int link_call_now(struct link *l, enum msg_method method,
		  const struct buf *body, struct link_call_wait *c,
		  int64_t timeout_ms, int64_t deadline, struct err *e);

#endif
