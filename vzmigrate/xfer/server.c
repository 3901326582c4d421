/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server: the agent's connection: its life, what its readers do with a frame,
 * and what it sends by itself.
 *
 * The caller's thread reads the control stream and sorts its frames; requests
 * go to a thread of their own (server_req.c); each data stream has a reader
 * of its own (server_stream.c) that comes in here, too, and a writer
 * (sstream.c). What they share is struct server, under one mutex. Readers take
 * buffers from a pool as large as the client's credit, so they never wait for
 * the disk.
 */
#include "config.h"

#include "xfer/server.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "xfer/feed.h"
#include "xfer/link.h"
#include "xfer/recv.h"
#include "xfer/server_int.h"

#define OUT_BYTES_MAX (4u << 20) /* of LOG frames waiting */

/* ---- what is sent ---- */

/* Compose a frame of a body; NULL without memory (the reply is then lost and
 * the client's deadline tells). */
static struct pool_frame *
make_frame(uint8_t type, const struct buf *b)
{
	struct pool_frame *f;

	if (b->len > FRAME_PAYLOAD_MAX) {
		return NULL;
	}
	f = pool_large((uint32_t)b->len);
	if (f) {
		f->type = type;
		f->len = (uint32_t)b->len;
		if (b->len) {
			memcpy(pool_payload(f), b->data, b->len);
		}
	}
	return f;
}

static void
send_coded(struct sstream *st, uint8_t type, const uint32_t *id, uint32_t code,
	   const char *text, const struct buf *body)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(FRAME_PAYLOAD_MAX);
	struct pool_frame *f = NULL;
	struct enc n;

	enc_init(&n, &b, NULL);
	if (id) {
		enc_u32(&n, *id);
	}
	enc_u32(&n, code);
	enc_str(&n, text);
	if (body) {
		enc_raw(&n, body->data, body->len);
	}
	if (n.rc == 0) {
		f = make_frame(type, &b);
	}
	if (f) {
		sstream_queue(st, f);
	}
}

void
server_reply(struct sstream *st, uint32_t id, int rc, const struct err *e,
	     const struct buf *body)
{
	if (rc < 0) {
		send_coded(st, FRAME_REPLY, &id, (uint32_t)rc, e->text, NULL);
	} else {
		send_coded(st, FRAME_REPLY, &id, 0, NULL, body);
	}
}

void
server_log(struct server *s, enum log_level level, const char *text)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(FRAME_PAYLOAD_MAX);
	struct pool_frame *f;
	struct enc n;

	if (sstream_queued(s->control) > OUT_BYTES_MAX || server_peer_gone(s)) {
		return;
	}
	enc_init(&n, &b, NULL);
	enc_u8(&n, (uint8_t)level);
	enc_bytes(&n, text, strnlen(text, MSG_TEXT_MAX));
	f = n.rc == 0 ? make_frame(FRAME_LOG, &b) : NULL;
	if (f) {
		sstream_queue(s->control, f);
	}
}

/* ---- content ---- */

static void
on_done(void *arg, void *from)
{
	(void)arg;
	sstream_done(from);
}

static void
on_fault(const struct err *why, void *arg)
{
	send_coded(((struct server *)arg)->control, FRAME_FAULT, NULL,
		   (uint32_t)why->code, why->text, NULL);
}

/* Definitions may come on one stream after what needs them has come on
 * another. Where theirs stalls, they come again once it was given up, which
 * takes as long as LINK_DEAD_FACTOR says and some more. */
void
server_tell_streams(struct server *s)
{
	if (s->receiver && s->streams) {
		recv_streams(s->receiver,
			     (int64_t)s->keepalive_ms * LINK_DEAD_FACTOR * 2);
	}
}

void
server_set_receiver(struct server *s, struct receiver *r)
{
	if (r) {
		recv_bind(r, on_done, on_fault, s);
	}
	pthread_mutex_lock(&s->lock);
	s->receiver = r;
	server_tell_streams(s);
	while (s->giving) {
		pthread_cond_wait(&s->changed, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
}

const struct digest_key *
server_key(const struct server *s)
{
	return &s->key;
}

bool
server_peer_gone(struct server *s)
{
	bool gone;

	pthread_mutex_lock(&s->lock);
	gone = s->peer_gone;
	pthread_mutex_unlock(&s->lock);
	return gone || sstream_gone(s->control);
}

static struct pool_frame *
frame_for(struct server *s, const struct frame_header *h, struct err *e)
{
	bool content = h->type == FRAME_BATCH || h->type == FRAME_CHUNK ||
		       h->type == FRAME_SINK;
	struct pool_frame *f;

	if (content && h->len <= POOL_ROOM) {
		f = pool_try_get(s->pool);
		if (!f) {
			err_set(e, E_PROTOCOL,
				"more than %d frames without credit", FEED_MAX);
			return NULL;
		}
	} else {
		f = pool_large(h->len);
		if (!f) {
			err_nomem(e);
			return NULL;
		}
	}
	f->type = h->type;
	f->flags = h->flags;
	f->len = h->len;
	return f;
}

/* Read and not wanted. */
static int
pass_over(struct sstream *st, struct err *e)
{
	int rc = sstream_arrived(st, e);

	if (rc == 0) {
		sstream_done(st);
	}
	return rc;
}

static int
take_content(struct server *s, struct sstream *st, struct pool_frame *f,
	     struct err *e)
{
	struct receiver *r;
	int rc;

	pthread_mutex_lock(&s->lock);
	r = s->receiver;
	s->giving += r != NULL;
	pthread_mutex_unlock(&s->lock);
	if (!r) {
		pool_put(f);
		/* An abort does not wait for what is under way here. */
		return st != s->control ? pass_over(st, e)
					: err_set(e, E_PROTOCOL,
						  "content outside a pass");
	}
	f->from = st;
	rc = sstream_arrived(st, e);
	if (rc < 0) {
		pool_put(f);
	} else {
		rc = recv_frame(r, f, e);
	}
	pthread_mutex_lock(&s->lock);
	if (--s->giving == 0) {
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* Compressed content only where both sides said so. */
static int
zstd_agreed(const struct server *s, const struct frame_header *h, struct err *e)
{
	if (h->type != FRAME_BATCH && h->type != FRAME_CHUNK) {
		return err_set(e, E_PROTOCOL, "compressed frame of type %u",
			       h->type);
	}
	if (!s->greeted || !(s->caps & FRAME_CAP_ZSTD)) {
		return err_set(e, E_PROTOCOL,
			       "compressed content not agreed on");
	}
	return 0;
}

static int
take_sink(struct server *s, struct sstream *st, size_t len, struct err *e)
{
	pthread_mutex_lock(&s->lock);
	s->sink_bytes += len;
	pthread_mutex_unlock(&s->lock);
	return pass_over(st, e);
}

/* ---- a reader's frame ---- */

int
server_take_frame(struct server *s, struct sstream *st, struct err *e)
{
	uint8_t head[FRAME_HEADER];
	struct frame_header h;
	struct pool_frame *f;
	int rc = sstream_read(st, head, sizeof(head), e);

	if (rc == 0) {
		rc = frame_get_header(head, &h, e);
	}
	if (rc < 0) {
		return rc;
	}
	if (h.flags & FRAME_F_ZSTD) {
		rc = zstd_agreed(s, &h, e);
		if (rc < 0) {
			return rc;
		}
	}
	if (h.type == FRAME_REQUEST && st != s->control) {
		return err_set(e, E_PROTOCOL, "a request on a data stream");
	}
	f = frame_for(s, &h, e);
	if (!f) {
		return e->code;
	}
	rc = sstream_read(st, pool_payload(f), h.len, e);
	if (rc < 0) {
		pool_put(f);
		return rc;
	}
	switch (h.type) {
	case FRAME_REQUEST:
		return server_req_take(s, f, e);
	case FRAME_BATCH:
	case FRAME_CHUNK:
		return take_content(s, st, f, e);
	case FRAME_GOODBYE:
		rc = 1;
		break;
	case FRAME_SINK:
		rc = take_sink(s, st, h.len, e);
		break;
	case FRAME_KEEPALIVE:
		break;
	default:
		rc = err_set(e, E_PROTOCOL, "unexpected frame of type %u",
			     h.type);
	}
	pool_put(f);
	return rc;
}

/* ---- life ---- */

static int
start_threads(struct server *s, struct err *e)
{
	int rc = sstream_start(s->control, e);

	if (rc < 0) {
		return rc;
	}
	rc = server_req_start(s, e);
	if (rc < 0) {
		sstream_stop(s->control);
	}
	return rc;
}

/* Let the running request and the queued ones end, then the writer. */
static void
end_threads(struct server *s, bool gone)
{
	pthread_mutex_lock(&s->lock);
	s->peer_gone = s->peer_gone || gone;
	s->ending = true;
	pthread_mutex_unlock(&s->lock);
	server_req_end(s);
	server_stream_end_all(s);
	sstream_stop(s->control);
}

static void
server_fini(struct server *s)
{
	if (s->receiver) {
		recv_drain(s->receiver);
		recv_bind(s->receiver, NULL, NULL, NULL);
	}
	server_req_drop(s);
	server_stream_free_all(s);
	sstream_free(s->control);
	pool_free(s->pool);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static struct server *
server_new(int in, int out, const struct server_ops *ops, void *arg,
	   struct err *e)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	s->ops = ops;
	s->arg = arg;
	s->join_dir = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	server_req_init(s);
	s->pool = pool_new(FEED_MAX, e);
	s->control = s->pool ? sstream_new(in, out, 0, e) : NULL;
	if (!s->control) {
		server_fini(s);
		return NULL;
	}
	return s;
}

/* Until the control stream's end, or a data stream's fault. */
static int
serve(struct server *s, struct err *e)
{
	int rc;

	while ((rc = server_take_frame(s, s->control, e)) == 0) {
	}
	pthread_mutex_lock(&s->lock);
	if (rc == E_CANCELLED && s->broken.code) {
		rc = s->broken.code;
		if (e) {
			*e = s->broken;
		}
	}
	pthread_mutex_unlock(&s->lock);
	if (rc == E_PROTOCOL) {
		server_log(s, LOGL_ERROR, e->text);
	}
	return rc;
}

int
server_run(int in, int out, uint32_t caps, const struct server_ops *ops,
	   void *arg, struct err *e)
{
	char line[FRAME_GREETING_MAX];
	struct server *s = server_new(in, out, ops, arg, e);
	size_t len;
	int rc;

	if (!s) {
		return e ? e->code : E_SYSTEM;
	}
	s->caps = caps;
	len = frame_put_greeting(line, caps);
	if (!sstream_write(s->control, line, len)) {
		rc = err_set(e, E_CLOSED, "nobody reads our output");
		server_fini(s);
		return rc;
	}
	rc = start_threads(s, e);
	if (rc < 0) {
		server_fini(s);
		return rc;
	}
	rc = serve(s, e);
	end_threads(s, rc == E_CLOSED || rc == E_TIMEOUT);
	server_fini(s);
	return rc < 0 ? rc : 0;
}
