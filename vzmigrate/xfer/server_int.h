/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server_int: what the files of the agent's end of a connection share; for
 * server*.c alone.
 *
 *	server.c         the connection's life, and what a reader does with a
 *	                 frame
 *	server_req.c     the requests and their thread
 *	server_stream.c  the data streams
 */
#ifndef XFER_SERVER_INT_H
#define XFER_SERVER_INT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "xfer/pool.h"
#include "xfer/server.h"
#include "xfer/sstream.h"

#define SERVER_TOKENS_MAX 16 /* given out and not used */

struct server_req;
struct data_stream;

struct server {
	const struct server_ops *ops; /* borrowed */
	void *arg;
	struct sstream *control;
	struct pool *pool;     /* content frames */
	struct digest_key key; /* from HELLO */
	bool greeted;	       /* HELLO was answered; reader only */
	uint32_t caps;	       /* what we have, then what was agreed on */

	pthread_mutex_t lock;
	pthread_cond_t changed;	   /* requests and readers wait on it */
	uint32_t keepalive_ms;	   /* from HELLO; 0: not yet */
	struct receiver *receiver; /* borrowed; NULL: no pass */
	unsigned giving;	   /* readers that use it just now */
	uint64_t sink_bytes;	   /* of SINK frames */
	bool peer_gone;		   /* nobody will read what we write */
	bool ending;		   /* none may join any more */
	struct err broken; /* a data stream broke a rule; code 0: none */

	/* ---- server_req.c; the queue under the lock ---- */
	pthread_t worker;	     /* the request thread */
	struct server_req *requests; /* to run, oldest first */
	struct server_req **req_tail;
	unsigned nrequests;
	bool busy;	     /* a request runs */
	bool stop;	     /* the thread ends when idle */
	bool parent_is_sshd; /* by its name in /proc */

	/* ---- server_stream.c; list, numbers and tokens under the lock ---- */
	int join_dir;		 /* owned; request thread */
	struct streamsock *sock; /* request thread; NULL: not yet */
	struct data_stream *streams;
	uint32_t nstreams;			   /* numbers given out */
	struct msg_join tokens[SERVER_TOKENS_MAX]; /* number 0: free */
};

/* ---- server.c ---- */

/* Read and sort one frame of `st`, in that stream's reader. 1 after GOODBYE,
 * or JOIN. E_PROTOCOL where a rule is broken, and E_NOMEM, which both are the
 * connection's end; an error of sstream_read. Blocks until the frame is there.
 */
int server_take_frame(struct server *s, struct sstream *st, struct err *e);

/* Queue the REPLY to request `id` on `st`: `body` (NULL: none) where `rc` is
 * 0, else `rc` and the text of `e`. Lost without memory: the client's deadline
 * tells. Any thread. */
void server_reply(struct sstream *st, uint32_t id, int rc, const struct err *e,
		  const struct buf *body);

/* With the lock held: tell the receiver, where there is one, whether frames
 * come on several streams. */
void server_tell_streams(struct server *s);

/* ---- server_req.c ---- */

/* Once, before all else here. */
void server_req_init(struct server *s);

/* In the control stream's reader: answer HELLO or JOIN, queue any other
 * REQUEST `f`, which is taken over, also on error. 1: this is another agent's
 * stream from now on. E_PROTOCOL where it must not come, or too many do; why
 * HELLO or JOIN failed, which the client was told. */
int server_req_take(struct server *s, struct pool_frame *f, struct err *e);

/* The thread that runs them. End: waits for what runs and what is queued. */
int server_req_start(struct server *s, struct err *e);
void server_req_end(struct server *s);

/* Free what is queued; no thread is left. */
void server_req_drop(struct server *s);

/* ---- server_stream.c (and server_join) ---- */

/* STREAM_OPEN, in the request thread: a number, a place and a token for one
 * more stream, into `reply`. E_UNSUPPORTED, E_LIMIT. */
int server_stream_open(struct server *s, struct buf *reply, struct err *e);

/* STREAM_END, in the request thread: fence the stream, reply to `id` with
 * what has arrived on it, and acknowledge that on the control stream. Waits
 * for the stream's reader. */
void server_stream_end(struct server *s, uint32_t id, const uint8_t *body,
		       size_t len);

/* Nothing joins from now on, and no stream has a reader any more. After the
 * request thread's end. */
void server_stream_end_all(struct server *s);

/* Free the streams and forget the tokens; no thread is left. */
void server_stream_free_all(struct server *s);

#endif
