/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server: the agent's end of a connection. One thread for each stream reads
 * frames and never blocks on the disk; requests run one after another in a
 * thread; content goes to the receiver's workers; each stream has a thread
 * that writes. The control stream is there from the start; data streams join.
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
#include "xfer/streamsock.h"

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
	/* STREAM_OPEN came: a directory of this user alone, where the socket
	 * goes through which streams join (a descriptor, taken over). Request
	 * thread. NULL: there are no data streams. */
	int (*join_dir)(struct server *s, void *arg, struct err *e);
	/* JOIN came instead of HELLO: hand the descriptors over
	 * (streamsock_hand_over) and see to the end of it; nothing more is
	 * read or written by the server. An error goes to the client. NULL:
	 * JOIN breaks a rule. */
	int (*join)(uint32_t request, const struct msg_join *m, void *arg,
		    struct err *e);
};

/*
 * Serve frames from `in` to `out` (borrowed) until GOODBYE or the peer's
 * death. Sends the greeting first. Returns 0 after GOODBYE, E_CLOSED or
 * E_TIMEOUT when the client went without one, E_PROTOCOL. A running request
 * and all queued content are finished before it returns.
 */
int server_run(int in, int out, uint32_t caps, const struct server_ops *ops,
	       void *arg, struct err *e);

/* A data stream joins (streamsock_fn; `arg` is the server): `p`'s descriptors
 * are taken over, and its JOIN answered. E_DENIED where the token is not, or
 * no longer, good. */
int server_join(const struct streamsock_peer *p, void *arg, struct err *e);

/* From here on content frames go to `r`; NULL: none are expected. The
 * receiver is borrowed; it must be unset before it is freed. Request thread
 * only; waits for readers that are just giving it a frame. */
void server_set_receiver(struct server *s, struct receiver *r);

/* Send a LOG frame. Any thread; dropped where too many are queued. */
void server_log(struct server *s, enum log_level level, const char *text);

/* The client's key of HELLO. */
const struct digest_key *server_key(const struct server *s);

/* Whether the client is gone (for long requests that should give up). */
bool server_peer_gone(struct server *s);

#endif
