/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server: the agent's connection.
 *
 * The caller's thread reads the control stream and sorts its frames; `worker`
 * runs requests one after another; each data stream has a reader of its own
 * (sstream.c has the writers). What they share is under one mutex. Readers
 * take buffers from a pool as large as the client's credit, so they never
 * wait for the disk.
 *
 * A data stream that has ended, or was fenced, stays in the list with its
 * count of frames until the client asks for it or the connection ends.
 */
#include "config.h"

#include "xfer/server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "xfer/feed.h"
#include "xfer/link.h"
#include "xfer/recv.h"
#include "xfer/sstream.h"

#define REQUESTS_MAX 16		 /* the client sends one and waits */
#define OUT_BYTES_MAX (4u << 20) /* of LOG frames waiting */
/* Data streams of one connection, those that have ended too: each keeps a
 * little memory. */
#define STREAMS_MAX 1024
#define TOKENS_MAX 16 /* given out and not used */

struct request {
	struct request *next;
	struct pool_frame *f; /* owned; the REQUEST's payload */
};

/* A data stream. */
struct data_stream {
	struct data_stream *next;
	struct server *s;
	struct sstream *st;
	pthread_t reader;
	bool reading;	   /* the thread is to be joined */
	int in, out, sock; /* owned by the reader, which closes them */
};

struct server {
	const struct server_ops *ops; /* borrowed */
	void *arg;
	struct sstream *control;
	struct pool *pool;     /* content frames */
	struct digest_key key; /* from HELLO */
	bool greeted;	       /* HELLO was answered; reader only */
	uint32_t caps;	       /* what we have, then what was agreed on */
	bool joined;	       /* we are another agent's stream; reader only */
	int join_dir;	       /* owned; request thread */
	struct streamsock *sock; /* request thread; NULL: not yet */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t keepalive_ms;	  /* from HELLO; 0: not yet */
	struct request *requests; /* to run, oldest first */
	struct request **req_tail;
	unsigned nrequests;
	bool busy;		   /* a request runs */
	struct receiver *receiver; /* borrowed; NULL: no pass */
	unsigned giving;	   /* readers that use it just now */
	uint64_t sink_bytes;	   /* of SINK frames */
	bool parent_is_sshd;	   /* by its name in /proc */
	bool peer_gone;		   /* nobody will read what we write */
	bool stop;		   /* worker ends when idle */
	struct data_stream *streams;
	uint32_t nstreams; /* numbers given out */
	bool ending;	   /* none may join any more */
	struct err broken; /* a data stream broke a rule; code 0: none */
	struct msg_join tokens[TOKENS_MAX]; /* number 0: free */
};

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

static void
send_reply(struct sstream *st, uint32_t id, int rc, const struct err *e,
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

/* With the lock held: definitions may come on one stream after what needs
 * them has come on another. Where theirs stalls, they come again once it was
 * given up, which takes as long as LINK_DEAD_FACTOR says and some more. */
static void
tell_streams(struct server *s)
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
	tell_streams(s);
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

/* ---- requests ---- */

/* Processor time of process `pid` in microseconds, 0 where it is not known.
 * Not from /proc/PID/stat, whose ticks of 10 ms are coarse beside a round of
 * the probe. */
static uint64_t
cpu_of(pid_t pid)
{
	struct timespec t;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &t) < 0) {
		return 0;
	}
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* "sshd", or "sshd-session" since OpenSSH 9.8. */
static bool
parent_is_sshd(void)
{
	cleanup(free_ptr) char *name = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)getppid());
	return io_read_file(AT_FDCWD, path, 64, &name, NULL, NULL) == 0 &&
	       strncmp(name, "sshd", 4) == 0;
}

static int
do_sink(struct server *s, struct buf *reply, struct err *e)
{
	struct msg_sink m = { 0 };
	struct rusage ru;
	struct enc n;

	pthread_mutex_lock(&s->lock);
	m.bytes = s->sink_bytes;
	pthread_mutex_unlock(&s->lock);
	if (getrusage(RUSAGE_SELF, &ru) == 0) {
		m.cpu_us =
			(uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) *
				1000000 +
			(uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	}
	/* With a shell or sudo between sshd and us its time is not known. */
	m.sshd_us = s->parent_is_sshd ? cpu_of(getppid()) : 0;
	enc_init(&n, reply, e);
	msg_put_sink(&n, &m);
	return n.rc;
}

/* A number, a place and a token for one more stream. */
static int
do_stream_open(struct server *s, struct buf *reply, struct err *e)
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
	for (int i = 0; i < TOKENS_MAX && !slot; i++) {
		slot = s->tokens[i].number ? NULL : &s->tokens[i];
	}
	if (s->nstreams >= STREAMS_MAX) {
		rc = err_set(e, E_LIMIT, "more than %d streams", STREAMS_MAX);
	} else {
		m.number = ++s->nstreams;
		/* The oldest was forgotten by the client. */
		*(slot ? slot : &s->tokens[m.number % TOKENS_MAX]) = m;
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

static void
do_stream_end(struct server *s, uint32_t id, const uint8_t *body, size_t len)
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
	send_reply(s->control, id, rc, &e, &reply);
	if (rc == 0) {
		sstream_inherit(d->st, s->control, m.acked);
	}
}

static void
run_request(struct server *s, struct pool_frame *f)
{
	cleanup(buf_finip) struct buf reply = BUF_MAX(MSG_BODY_MAX);
	struct err e = { 0 };
	uint32_t id;
	uint16_t method;
	struct dec d;
	int rc;

	dec_init(&d, pool_payload(f), f->len);
	id = dec_u32(&d);
	method = dec_u16(&d);
	if (method == MSG_STREAM_END) {
		do_stream_end(s, id, d.p, d.left);
		return;
	}
	rc = method == MSG_SINK ? do_sink(s, &reply, &e)
	     : method == MSG_STREAM_OPEN
		     ? do_stream_open(s, &reply, &e)
		     : s->ops->request(s, method, d.p, d.left, &reply, s->arg,
				       &e);
	send_reply(s->control, id, rc, &e, &reply);
}

static void *
worker_thread(void *arg)
{
	struct server *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct request *q = s->requests;

		if (!q) {
			if (s->stop) {
				break;
			}
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		s->requests = q->next;
		if (!s->requests) {
			s->req_tail = &s->requests;
		}
		s->nrequests--;
		s->busy = true;
		pthread_mutex_unlock(&s->lock);
		run_request(s, q->f);
		pool_put(q->f);
		free(q);
		pthread_mutex_lock(&s->lock);
		s->busy = false;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int
do_hello(struct server *s, uint32_t id, const uint8_t *body, size_t len,
	 struct err *e)
{
	struct msg_hello h;
	struct msg_hello_reply r = { 0 };
	cleanup(buf_finip) struct buf out = BUF_MAX(MSG_BODY_MAX);
	struct enc n;
	int rc = msg_get_hello(body, len, &h, e);

	if (rc < 0) {
		return rc;
	}
	if (h.proto != FRAME_PROTO) {
		rc = err_set(e, E_VERSION,
			     "the client speaks protocol %u, this agent %u",
			     h.proto, FRAME_PROTO);
	} else if (h.keepalive_ms < 10 || h.keepalive_ms > 3600000) {
		rc = err_set(e, E_PROTOCOL, "keepalive of %u ms",
			     h.keepalive_ms);
	} else {
		s->key = h.key;
		s->caps &= h.caps;
		s->keepalive_ms = h.keepalive_ms;
		sstream_set_keepalive(s->control, h.keepalive_ms);
		rc = s->ops->hello(s, &h, &r, s->arg, e);
	}
	if (rc == 0) {
		enc_init(&n, &out, e);
		msg_put_hello_reply(&n, &r);
		rc = n.rc;
	}
	send_reply(s->control, id, rc, e, &out);
	msg_hello_fini(&h);
	s->greeted = rc == 0;
	/* Nobody else will read this stream. */
	sstream_read_ahead(s->control);
	return rc;
}

/* This is another agent's stream. Not a byte of it was read that is not
 * ours. 1, or why not. */
static int
do_join(struct server *s, uint32_t id, const uint8_t *body, size_t len,
	struct err *e)
{
	struct msg_join m;
	int rc = msg_get_join(body, len, &m, e);

	if (rc < 0) {
		send_reply(s->control, id, rc, e, NULL);
		return rc;
	}
	sstream_stop(s->control);
	rc = s->ops->join(id, &m, s->arg, e);
	explicit_bzero(&m, sizeof(m));
	if (rc < 0) {
		send_reply(s->control, id, rc, e, NULL);
		sstream_start(s->control, NULL);
		return rc;
	}
	s->joined = true;
	return 1;
}

/* First HELLO or JOIN, and neither later. */
static bool
may_come(const struct server *s, uint16_t method)
{
	if (s->greeted) {
		return method != MSG_HELLO && method != MSG_JOIN;
	}
	return method == MSG_HELLO || (method == MSG_JOIN && s->ops->join);
}

/* In the reader: HELLO is answered at once, others are queued. */
static int
take_request(struct server *s, struct pool_frame *f, struct err *e)
{
	struct request *q;
	struct dec d;
	uint32_t id;
	uint16_t method;
	bool full;
	int rc;

	dec_init(&d, pool_payload(f), f->len);
	id = dec_u32(&d);
	method = dec_u16(&d);
	if (d.rc < 0 || !may_come(s, method)) {
		pool_put(f);
		return err_set(e, E_PROTOCOL, "unexpected request %u", method);
	}
	if (!s->greeted) {
		rc = method == MSG_HELLO ? do_hello(s, id, d.p, d.left, e)
					 : do_join(s, id, d.p, d.left, e);
		pool_put(f);
		return rc;
	}
	q = malloc(sizeof(*q));
	pthread_mutex_lock(&s->lock);
	full = s->nrequests >= REQUESTS_MAX;
	if (q && !full) {
		*q = (struct request){ NULL, f };
		*s->req_tail = q;
		s->req_tail = &q->next;
		s->nrequests++;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	if (q && !full) {
		return 0;
	}
	free(q);
	pool_put(f);
	return full ? err_set(e, E_PROTOCOL, "too many requests at once")
		    : err_nomem(e);
}

/* ---- the reader ---- */

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

/* One frame. 1 after GOODBYE, or JOIN. */
static int
take_frame(struct server *s, struct sstream *st, struct err *e)
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
		return take_request(s, f, e);
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

/* ---- data streams ---- */

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

	while ((rc = take_frame(d->s, d->st, &e)) == 0) {
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
	for (int i = 0; i < TOKENS_MAX; i++) {
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

	send_reply(d->st, request, 0, NULL, NULL);
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
		tell_streams(s);
	}
	pthread_mutex_unlock(&s->lock);
	if (rc < 0) {
		sstream_free(d->st);
		free(d);
	}
	return rc;
}

/* ---- life ---- */

static int
start_threads(struct server *s, pthread_t *worker, struct err *e)
{
	int rc = sstream_start(s->control, e);

	if (rc < 0) {
		return rc;
	}
	rc = pthread_create(worker, NULL, worker_thread, s);
	if (rc == 0) {
		return 0;
	}
	sstream_stop(s->control);
	return err_sys(e, rc, "cannot start a thread");
}

/* Let the running request and the queued ones end, then the writer. */
static void
end_threads(struct server *s, pthread_t worker, bool gone)
{
	pthread_mutex_lock(&s->lock);
	s->peer_gone = s->peer_gone || gone;
	s->ending = true;
	while (s->busy || s->requests) {
		pthread_cond_wait(&s->changed, &s->lock);
	}
	s->stop = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(worker, NULL);
	streamsock_close(s->sock);
	s->sock = NULL;
	/* The worker is gone: the list is ours. */
	for (struct data_stream *d = s->streams; d; d = d->next) {
		end_stream(d);
	}
	sstream_stop(s->control);
}

static void
server_fini(struct server *s)
{
	if (s->receiver) {
		recv_drain(s->receiver);
		recv_bind(s->receiver, NULL, NULL, NULL);
	}
	while (s->requests) {
		struct request *q = s->requests;

		s->requests = q->next;
		pool_put(q->f);
		free(q);
	}
	while (s->streams) {
		struct data_stream *d = s->streams;

		s->streams = d->next;
		sstream_free(d->st);
		free(d);
	}
	close_fd(&s->join_dir);
	explicit_bzero(s->tokens, sizeof(s->tokens));
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
	s->req_tail = &s->requests;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->parent_is_sshd = parent_is_sshd();
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

	while ((rc = take_frame(s, s->control, e)) == 0) {
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
	pthread_t worker;
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
	rc = start_threads(s, &worker, e);
	if (rc < 0) {
		server_fini(s);
		return rc;
	}
	rc = serve(s, e);
	end_threads(s, worker, rc == E_CLOSED || rc == E_TIMEOUT);
	server_fini(s);
	return rc < 0 ? rc : 0;
}
