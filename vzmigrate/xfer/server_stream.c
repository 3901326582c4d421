/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server_stream: the data streams of a connection: their numbers and tokens,
 * the joining, a reader for each, the end. Input: STREAM_OPEN and STREAM_END
 * from the request thread, and what other agents hand over (streamsock.c).
 *
 * State: struct data_stream, and the part of struct server that server_int.h
 * gives to this file. A stream that has ended, or was fenced, stays in the
 * list with its count of frames until the client asks for it or the connection
 * ends.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "xfer/server_int.h"

/* Data streams of one connection, those that have ended too: each keeps a
 * little memory. */
#define STREAMS_MAX 1024

/* A data stream. */
struct data_stream {
	struct data_stream *next;
	struct server *s;
	struct sstream *st;
	pthread_t reader;
	bool reading;	   /* the thread is to be joined */
	int in, out, sock; /* owned by the reader, which closes them */
};

/* ---- a stream's reader ---- */

/* What breaks a rule ends the connection; what only ends, the stream. */
static void
stream_over(struct server *s, struct data_stream *d, int rc,
	    const struct err *why)
{
	bool rule = rc == E_PROTOCOL || rc == E_NOMEM;

	if (rc < 0) {
		log_debug("stream %u: %s", sstream_number(d->st), why->text);
		sstream_fence(d->st);
	}
	pthread_mutex_lock(&s->lock);
	if (rule && !s->broken.code) {
		s->broken = *why;
	}
	pthread_mutex_unlock(&s->lock);
	if (rule) {
		sstream_fence(s->control);
	}
}

static void *
stream_thread(void *arg)
{
	struct data_stream *d = arg;
	struct err e = { 0 };
	int rc;

	while ((rc = server_take_frame(d->s, d->st, &e)) == 0) {
	}
	stream_over(d->s, d, rc, &e);
	sstream_stop(d->st);
	close(d->in);
	close(d->out);
	if (d->sock >= 0) {
		close(d->sock);
	}
	return NULL;
}

/* No frame of it will be taken any more when this returns. Its reader waits
 * for nothing but the fence. */
static void
end_stream(struct data_stream *d)
{
	sstream_fence(d->st);
	if (d->reading) {
		pthread_join(d->reader, NULL);
		d->reading = false;
	}
}

/* ---- joining ---- */

int
server_stream_open(struct server *s, struct buf *reply, struct err *e)
{
	struct msg_join m = { 0 }, *slot = NULL;
	struct enc n;
	int rc;

	if (!s->ops->join_dir) {
		return err_set(e, E_UNSUPPORTED, "no further streams");
	}
	if (!s->sock) {
		if (s->join_dir < 0) {
			s->join_dir = s->ops->join_dir(s, s->arg, e);
		}
		rc = s->join_dir < 0 ? s->join_dir
				     : streamsock_open(s->join_dir, server_join,
						       s, &s->sock, e);
		if (rc < 0) {
			return rc;
		}
	}
	rc = digest_random(m.token, sizeof(m.token), e);
	if (rc < 0) {
		return rc;
	}
	memcpy(m.id, streamsock_id(s->sock), MSG_ID_LEN);
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < SERVER_TOKENS_MAX && !slot; i++) {
		slot = s->tokens[i].number ? NULL : &s->tokens[i];
	}
	if (s->nstreams >= STREAMS_MAX) {
		rc = err_set(e, E_LIMIT, "more than %d streams", STREAMS_MAX);
	} else {
		m.number = ++s->nstreams;
		/* The oldest was forgotten by the client. */
		*(slot ? slot : &s->tokens[m.number % SERVER_TOKENS_MAX]) = m;
	}
	pthread_mutex_unlock(&s->lock);
	if (rc == 0) {
		enc_init(&n, reply, e);
		msg_put_join(&n, &m);
		rc = n.rc;
	}
	explicit_bzero(&m, sizeof(m));
	return rc;
}

/* Both are compared whole, whatever they are: time tells nothing. */
static bool
same_token(const struct msg_join *a, const struct msg_join *b)
{
	volatile uint8_t differ = 0;

	for (int i = 0; i < MSG_TOKEN_LEN; i++) {
		differ |= (uint8_t)(a->token[i] ^ b->token[i]);
	}
	return a->number == b->number && differ == 0;
}

/* With the lock held. A token is good once. */
static bool
use_token(struct server *s, const struct msg_join *m)
{
	for (int i = 0; i < SERVER_TOKENS_MAX; i++) {
		if (s->tokens[i].number && same_token(&s->tokens[i], m)) {
			explicit_bzero(&s->tokens[i], sizeof(s->tokens[i]));
			return true;
		}
	}
	return false;
}

static int
start_stream(struct data_stream *d, uint32_t request, struct err *e)
{
	int rc;

	server_reply(d->st, request, 0, NULL, NULL);
	rc = sstream_start(d->st, e);
	if (rc < 0) {
		return rc;
	}
	rc = pthread_create(&d->reader, NULL, stream_thread, d);
	if (rc != 0) {
		sstream_stop(d->st);
		return err_sys(e, rc, "cannot start a thread");
	}
	d->reading = true;
	return 0;
}

int
server_join(const struct streamsock_peer *p, void *arg, struct err *e)
{
	struct data_stream *d = calloc(1, sizeof(*d));
	struct server *s = arg;
	int rc;

	if (!d || !(d->st = sstream_new(p->in, p->out, p->m.number, e))) {
		free(d);
		return err_nomem(e);
	}
	d->s = s;
	d->in = p->in;
	d->out = p->out;
	d->sock = p->sock;
	sstream_read_ahead(d->st);
	pthread_mutex_lock(&s->lock);
	rc = s->ending || !use_token(s, &p->m)
		     ? err_set(e, E_DENIED, "stream %u: a wrong token",
			       p->m.number)
		     : 0;
	if (rc == 0) {
		sstream_set_keepalive(d->st, s->keepalive_ms);
		rc = start_stream(d, p->request, e);
	}
	if (rc == 0) {
		d->next = s->streams;
		s->streams = d;
		server_tell_streams(s);
	}
	pthread_mutex_unlock(&s->lock);
	if (rc < 0) {
		sstream_free(d->st);
		free(d);
	}
	return rc;
}

/* ---- the end ---- */

static struct data_stream *
find_stream(struct server *s, uint32_t number)
{
	struct data_stream *d;

	pthread_mutex_lock(&s->lock);
	for (d = s->streams; d && sstream_number(d->st) != number;) {
		d = d->next;
	}
	pthread_mutex_unlock(&s->lock);
	return d;
}

void
server_stream_end(struct server *s, uint32_t id, const uint8_t *body,
		  size_t len)
{
	cleanup(buf_finip) struct buf reply = BUF_MAX(MSG_BODY_MAX);
	struct msg_stream_end_reply r;
	struct data_stream *d = NULL;
	struct msg_stream_end m;
	struct err e = { 0 };
	uint64_t done;
	struct enc n;
	int rc = msg_get_stream_end(body, len, &m, &e);

	d = rc < 0 ? NULL : find_stream(s, m.number);
	if (rc == 0 && (!d || !d->reading)) {
		rc = err_set(&e, E_NOT_FOUND, "there is no stream %u",
			     m.number);
	}
	if (rc == 0) {
		end_stream(d);
		r.frames = sstream_frames(d->st, &done);
		if (m.acked > done) {
			rc = err_set(&e, E_PROTOCOL,
				     "stream %u never acknowledged that much",
				     m.number);
		}
	}
	if (rc == 0) {
		enc_init(&n, &reply, &e);
		msg_put_stream_end_reply(&n, &r);
		rc = n.rc;
	}
	/* The reply leaves before any acknowledgement that counts them. */
	server_reply(s->control, id, rc, &e, &reply);
	if (rc == 0) {
		sstream_inherit(d->st, s->control, m.acked);
	}
}

void
server_stream_end_all(struct server *s)
{
	streamsock_close(s->sock);
	s->sock = NULL;
	/* The request thread is gone: the list is ours. */
	for (struct data_stream *d = s->streams; d; d = d->next) {
		end_stream(d);
	}
}

void
server_stream_free_all(struct server *s)
{
	while (s->streams) {
		struct data_stream *d = s->streams;

		s->streams = d->next;
		sstream_free(d->st);
		free(d);
	}
	close_fd(&s->join_dir);
	explicit_bzero(s->tokens, sizeof(s->tokens));
}
