/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * link: the client's end of one stream to an agent: a thread that owns the
 * byte channel, sends frames, and sorts what comes back. Requests are
 * blocking calls from any other thread. The first link of a connection is the
 * control stream; further ones (link_join) carry content only, which all take
 * from one feed.
 */
#ifndef XFER_LINK_H
#define XFER_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytechan.h"
#include "base/err.h"
#include "wire/msg.h"
#include "xfer/limit.h"
#include "xfer/feed.h"
#include "xfer/pool.h"

struct link;

/* Silence of this many keepalive intervals means the peer is dead. With the
 * default of 2 s that is half a minute: longer than a busy host hiccups,
 * shorter than a person waits. */
#define LINK_DEAD_FACTOR 15
#define LINK_KEEPALIVE_MS 2000

/* Bytes of LOG frames and of the remote stderr that are taken into our log in
 * one connection; the rest is dropped. */
#define LINK_LOG_MAX (4u << 20)

struct link_opts {
	int64_t greeting_ms;   /* longest wait for the agent's greeting */
	uint32_t keepalive_ms; /* idle time before a KEEPALIVE; the peer is
				  given up after LINK_DEAD_FACTOR times that
				  in silence */
	const char *host;      /* for messages; borrowed until link_close */
	uint32_t caps;	       /* enum frame_cap that are wanted; what the agent
				  has of them is agreed on */
	struct limit *limit;   /* of content frames; borrowed; NULL: none */
	/* link_join: the stream has died; called once, from its thread, which
	 * then ends. Or NULL. */
	void (*died)(void *arg);
	void *arg;
};

/*
 * Wait for the greeting on `c` (skipping and logging bounded noise), check
 * the protocol version, start the thread and exchange HELLO. Takes `c` over,
 * also on error. `key` is sent; `*hello` gets the agent's answer (caller
 * finis). E_PROTOCOL with the noise quoted, E_VERSION, E_TIMEOUT, E_CLOSED
 * with how the remote command ended. Blocks up to greeting_ms.
 */
int link_open(struct bytechan *c, const struct link_opts *o,
	      const struct digest_key *key, struct link **l,
	      struct msg_hello_reply *hello, struct err *e);

/*
 * A request and its reply. `body`/`len` may be NULL/0. The reply's body is
 * put into `reply` (initialised by the caller; may be NULL where an empty one
 * is due). `timeout_ms`: the whole wait; the link's own deadline for a silent
 * peer applies besides. The agent's error comes back with its own code and
 * "HOST: " in front; E_TIMEOUT, E_CLOSED, E_PROTOCOL where the link failed
 * (link_failed then says so). A request stays behind content that was sent
 * before: it leaves when the data streams have nothing under way. ABORT leaves
 * at once, and no content after it.
 */
int link_call(struct link *l, enum msg_method method, const void *body,
	      size_t len, struct buf *reply, int64_t timeout_ms, struct err *e);

/* Queue a content frame. Takes `f` over, also on error. Blocks while the
 * agent gives no credit. Any thread. Fails with the link's error, or with the
 * FAULT that the agent sent. */
int link_send(struct link *l, struct pool_frame *f, struct err *e);

/* As link_send, but E_TIMEOUT where there is no credit by `deadline`
 * (io_deadline). */
int link_send_by(struct link *l, struct pool_frame *f, int64_t deadline,
		 struct err *e);

/* Processor time that the link's thread (SSH, encryption) has used, in
 * microseconds; -1 once that thread has ended. */
int64_t link_thread_cpu(struct link *l);

/* The buffers content frames come from; the link's own, so that frames may
 * outlive a pass. */
struct pool *link_pool(struct link *l);

/* What all streams of the connection take their content from; the control
 * link's own. */
struct feed *link_feed(struct link *l);

/* enum frame_cap bits: FRAME_CAP_STREAMS as in the agent's greeting, of the
 * others those that both sides agreed on. */
uint32_t link_caps(const struct link *l);

/* Content frames queued but not yet acknowledged, on all streams. */
uint64_t link_in_flight(struct link *l);

/*
 * Add a data stream to the connection of `control`: `c` leads to another agent
 * on the same host, which hands its end to the one of `control`. Takes `c`
 * over, also on error. The result takes part in carrying content; it must be
 * closed, or buried when it has died, before `control` is closed. Errors as
 * link_open, and the agent's. Blocks up to greeting_ms and a request's time.
 */
int link_join(struct link *control, struct bytechan *c,
	      const struct link_opts *o, struct link **l, struct err *e);

/*
 * A data stream has died: learn from the agent what of it has arrived (from
 * then on it takes nothing more of it), give the rest back to the feed, and
 * free the link. Where the agent's answer cannot be right the pass fails, as
 * after a FAULT. After an error it is still there, and this may be tried
 * again. Blocks for a request's time.
 */
int link_bury(struct link *control, struct link *l, struct err *e);

/* Of them those that no stream has taken yet. */
uint64_t link_backlog(struct link *l);

/* Wait until nothing is queued and nothing under way, on no stream. As
 * link_send. */
int link_drain(struct link *l, struct err *e);

/* Forget a FAULT that the agent sent (before a new pass). */
void link_clear_fault(struct link *l);

/* Whether the connection is dead (1, with its error in `e`) or alive (0). */
int link_failed(struct link *l, struct err *e);

/* What is queued leaves without regard to the limit from here on, since a
 * request waits behind it that must not wait (a pass has failed). Any thread.
 */
void link_hurry(struct link *l);

/* Make every blocked and later link_send and link_call fail with E_CANCELLED
 * until link_uncancel; and link_hurry. Async-signal-unsafe; any thread. */
void link_cancel(struct link *l);
void link_uncancel(struct link *l);

/* Begin what link_close does, without waiting. */
void link_stop(struct link *l);
/* The same, and what it still has to send is not wanted. */
void link_cut(struct link *l);

/* GOODBYE, a bounded wait for the agent's end, then free everything. NULL is
 * allowed. */
void link_close(struct link *l);

#endif
