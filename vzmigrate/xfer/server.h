/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server: the agent's end of a connection. One thread reads frames and never
 * blocks on the disk; requests run one after another in a second thread;
 * content goes to the receiver's workers; a third thread writes.
 */
#ifndef XFER_SERVER_H
#define XFER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "wire/frame.h"
#include "wire/msg.h"

struct server;
struct receiver;

struct server_ops {
	/* A request (not HELLO, which the server answers through `hello`).
	 * Runs in the request thread and may block. `reply` gets the body. A
	 * negative return goes to the client with `e`'s text. It runs to its
	 * end also when the connection dies meanwhile. */
	int (*request)(struct server *s, enum msg_method method,
		       const uint8_t *body, size_t len, struct buf *reply,
		       void *arg, struct err *e);
	/* HELLO came; fill the answer. The strings are borrowed by the server
	 * until it was sent. */
	int (*hello)(struct server *s, const struct msg_hello *h,
		     struct msg_hello_reply *r, void *arg, struct err *e);
};

/*
 * Serve frames from `in` to `out` (borrowed) until GOODBYE or the peer's
 * death. Sends the greeting first. Returns 0 after GOODBYE, E_CLOSED or
 * E_TIMEOUT when the client went without one, E_PROTOCOL. A running request
 * and all queued content are finished before it returns.
 */
int server_run(int in, int out, uint32_t caps, const struct server_ops *ops,
	       void *arg, struct err *e);

/* From here on content frames go to `r`; NULL: none are expected. The
 * receiver is borrowed; it must be unset before it is freed. Request thread
 * only. */
void server_set_receiver(struct server *s, struct receiver *r);

/* Send a LOG frame. Any thread; dropped where too many are queued. */
void server_log(struct server *s, enum log_level level, const char *text);

/* The client's key of HELLO. */
const struct digest_key *server_key(const struct server *s);

/* Whether the client is gone (for long requests that should give up). */
bool server_peer_gone(struct server *s);

#endif
