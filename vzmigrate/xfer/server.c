/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server: the agent's connection.
 *
 * Three threads: the caller's reads frames and sorts them; `worker` runs
 * requests one after another; `writer` sends replies, acknowledgements, logs
 * and keepalives. What they share is under one mutex. The reader takes
 * buffers from a pool as large as the client's window, so it never waits.
 */
#include "config.h"

#include "xfer/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "xfer/link.h"
#include "xfer/recv.h"

#define IN_SIZE 65536
#define REQUESTS_MAX 16		 /* the client sends one and waits */
#define OUT_BYTES_MAX (4u << 20) /* of LOG frames waiting */
#define FLUSH_WAIT_MS 5000	 /* for the last frames at the end */
/* Before HELLO says otherwise. */
#define FIRST_KEEPALIVE_MS 2000

struct request {
	struct request *next;
	struct pool_frame *f; /* owned; the REQUEST's payload */
};

struct server {
	int in, out;		      /* borrowed */
	const struct server_ops *ops; /* borrowed */
	void *arg;
	struct pool *pool;     /* content frames */
	struct digest_key key; /* from HELLO */
	bool greeted;	       /* HELLO was answered; reader only */
	uint32_t caps;	       /* what we have, then what was agreed on */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	int wakefd;		  /* eventfd: the writer has work */
	uint32_t keepalive_ms;	  /* from HELLO */
	struct request *requests; /* to run, oldest first */
	struct request **req_tail;
	unsigned nrequests;
	bool busy;		 /* a request runs */
	struct pool_frame *outq; /* to write */
	struct pool_frame **out_tail;
	size_t out_bytes;
	uint64_t done_frames;	   /* content frames finished */
	uint64_t acked_frames;	   /* and told */
	struct receiver *receiver; /* borrowed; NULL: no pass */
	uint64_t sink_bytes;	   /* of SINK frames */
	bool parent_is_sshd;	   /* by its name in /proc */
	bool peer_gone;		   /* nobody will read what we write */
	bool stop;		   /* writer and worker end when idle */

	uint8_t inbuf[IN_SIZE]; /* reader only: read but not parsed */
	size_t in_at, in_len;
};

/* ---- the writer ---- */

static void
wake_writer(struct server *s)
{
	uint64_t one = 1;

	if (write(s->wakefd, &one, sizeof(one)) < 0) {
		return; /* full: it is awake */
	}
}

/* Write everything, waiting in poll; false when the peer is gone or takes
 * nothing for the dead interval. */
static bool
write_all(struct server *s, const uint8_t *p, size_t len)
{
	int64_t wait = (int64_t)s->keepalive_ms * LINK_DEAD_FACTOR;
	int64_t deadline = io_deadline(wait);

	while (len) {
		ssize_t n = write(s->out, p, len);
		struct pollfd pf = { s->out, POLLOUT, 0 };

		if (n > 0) {
			p += n;
			len -= (size_t)n;
			deadline = io_deadline(wait);
		} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
			return false;
		} else if (poll(&pf, 1, io_left_ms(deadline)) == 0) {
			return false;
		}
	}
	return true;
}

static bool
write_frame(struct server *s, uint8_t *bytes, uint8_t type, uint32_t len)
{
	struct frame_header h = { .len = len, .type = type };

	frame_put_header(bytes, &h);
	return write_all(s, bytes, FRAME_HEADER + (size_t)len);
}

static bool
write_ack(struct server *s, uint64_t done)
{
	uint8_t bytes[FRAME_HEADER + 8];

	for (int i = 0; i < 8; i++) {
		bytes[FRAME_HEADER + i] = (uint8_t)(done >> (8 * i));
	}
	return write_frame(s, bytes, FRAME_ACK, 8);
}

/* Take what is to be written: a frame, or an acknowledgement in *ack (else
 * 0). False when nothing is. */
static bool
next_out(struct server *s, struct pool_frame **f, uint64_t *ack)
{
	bool any;

	pthread_mutex_lock(&s->lock);
	*f = s->outq;
	*ack = 0;
	if (*f) {
		s->outq = (*f)->next;
		s->out_bytes -= (*f)->len;
		if (!s->outq) {
			s->out_tail = &s->outq;
		}
	} else if (s->done_frames != s->acked_frames) {
		*ack = s->acked_frames = s->done_frames;
	}
	any = *f || *ack;
	pthread_mutex_unlock(&s->lock);
	return any;
}

static bool
writer_should_end(struct server *s)
{
	bool end;

	pthread_mutex_lock(&s->lock);
	end = s->stop && !s->outq;
	pthread_mutex_unlock(&s->lock);
	return end;
}

static void *
writer_thread(void *arg)
{
	struct server *s = arg;
	bool ok = true;

	while (ok && !writer_should_end(s)) {
		struct pollfd pf = { s->wakefd, POLLIN, 0 };
		uint8_t bytes[FRAME_HEADER];
		struct pool_frame *f;
		uint64_t ack, count;

		if (next_out(s, &f, &ack)) {
			ok = f ? write_frame(s, f->bytes, f->type, f->len)
			       : write_ack(s, ack);
			pool_put(f);
			continue;
		}
		if (poll(&pf, 1, (int)s->keepalive_ms) == 0) {
			ok = write_frame(s, bytes, FRAME_KEEPALIVE, 0);
		} else if (read(s->wakefd, &count, sizeof(count)) < 0) {
			continue; /* EAGAIN, EINTR: look again */
		}
	}
	pthread_mutex_lock(&s->lock);
	s->peer_gone = s->peer_gone || !ok;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void
queue_out(struct server *s, struct pool_frame *f)
{
	pthread_mutex_lock(&s->lock);
	f->next = NULL;
	*s->out_tail = f;
	s->out_tail = &f->next;
	s->out_bytes += f->len;
	pthread_mutex_unlock(&s->lock);
	wake_writer(s);
}

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
send_coded(struct server *s, uint8_t type, const uint32_t *id, uint32_t code,
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
		queue_out(s, f);
	}
}

static void
send_reply(struct server *s, uint32_t id, int rc, const struct err *e,
	   const struct buf *body)
{
	if (rc < 0) {
		send_coded(s, FRAME_REPLY, &id, (uint32_t)rc, e->text, NULL);
	} else {
		send_coded(s, FRAME_REPLY, &id, 0, NULL, body);
	}
}

void
server_log(struct server *s, enum log_level level, const char *text)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(FRAME_PAYLOAD_MAX);
	struct pool_frame *f;
	struct enc n;
	bool full;

	pthread_mutex_lock(&s->lock);
	full = s->out_bytes > OUT_BYTES_MAX || s->peer_gone;
	pthread_mutex_unlock(&s->lock);
	if (full) {
		return;
	}
	enc_init(&n, &b, NULL);
	enc_u8(&n, (uint8_t)level);
	enc_bytes(&n, text, strnlen(text, MSG_TEXT_MAX));
	f = n.rc == 0 ? make_frame(FRAME_LOG, &b) : NULL;
	if (f) {
		queue_out(s, f);
	}
}

/* ---- content ---- */

static void
on_done(void *arg)
{
	struct server *s = arg;
	bool tell;

	/* Not for each frame: when a good part of the window is finished, or
	 * when nothing else is under way, so that the end is never held up. */
	pthread_mutex_lock(&s->lock);
	s->done_frames++;
	tell = s->done_frames - s->acked_frames == 1 ||
	       s->done_frames - s->acked_frames >= LINK_WINDOW / 8;
	pthread_mutex_unlock(&s->lock);
	if (tell) {
		wake_writer(s);
	}
}

static void
on_fault(const struct err *why, void *arg)
{
	send_coded(arg, FRAME_FAULT, NULL, (uint32_t)why->code, why->text,
		   NULL);
}

void
server_set_receiver(struct server *s, struct receiver *r)
{
	if (r) {
		recv_bind(r, on_done, on_fault, s);
	}
	pthread_mutex_lock(&s->lock);
	s->receiver = r;
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
	return gone;
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
	rc = method == MSG_SINK ? do_sink(s, &reply, &e)
				: s->ops->request(s, method, d.p, d.left,
						  &reply, s->arg, &e);
	send_reply(s, id, rc, &e, &reply);
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
do_hello(struct server *s, const struct pool_frame *f, uint32_t id,
	 const uint8_t *body, size_t len, struct err *e)
{
	struct msg_hello h;
	struct msg_hello_reply r = { 0 };
	cleanup(buf_finip) struct buf out = BUF_MAX(MSG_BODY_MAX);
	struct enc n;
	int rc = msg_get_hello(body, len, &h, e);

	(void)f;
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
		__atomic_store_n(&s->keepalive_ms, h.keepalive_ms,
				 __ATOMIC_RELAXED);
		rc = s->ops->hello(s, &h, &r, s->arg, e);
	}
	if (rc == 0) {
		enc_init(&n, &out, e);
		msg_put_hello_reply(&n, &r);
		rc = n.rc;
	}
	send_reply(s, id, rc, e, &out);
	msg_hello_fini(&h);
	s->greeted = rc == 0;
	return rc;
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
	if (d.rc < 0 || s->greeted == (method == MSG_HELLO)) {
		pool_put(f);
		return err_set(e, E_PROTOCOL, "unexpected request %u", method);
	}
	if (method == MSG_HELLO) {
		rc = do_hello(s, f, id, d.p, d.left, e);
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

/* Fill inbuf or a frame's payload. Returns bytes of payload got, with
 * anything behind it left in inbuf. */
static int
read_more(struct server *s, uint8_t *payload, size_t want, size_t *got,
	  struct err *e)
{
	int64_t wait = (int64_t)s->keepalive_ms * LINK_DEAD_FACTOR;
	struct iovec v[2] = { { payload, want }, { s->inbuf, IN_SIZE } };
	struct pollfd pf = { s->in, POLLIN, 0 };
	ssize_t n;

	for (;;) {
		n = readv(s->in, want ? v : v + 1, want ? 2 : 1);
		if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
			break;
		}
		if (poll(&pf, 1, (int)wait) == 0) {
			return err_set(e, E_TIMEOUT,
				       "no sign of life from the client for "
				       "%lld s",
				       (long long)(wait / 1000));
		}
	}
	if (n < 0 && errno != ECONNRESET) {
		return err_sys(e, errno, "cannot read from the client");
	}
	if (n <= 0) {
		return err_set(e, E_CLOSED, "the client is gone");
	}
	*got = (size_t)n < want ? (size_t)n : want;
	s->in_at = 0;
	s->in_len = (size_t)n - *got;
	return 0;
}

static int
read_exact(struct server *s, uint8_t *to, size_t len, struct err *e)
{
	while (len) {
		size_t n = s->in_len - s->in_at;
		int rc;

		if (n) {
			n = n < len ? n : len;
			memcpy(to, s->inbuf + s->in_at, n);
			s->in_at += n;
		} else {
			rc = read_more(s, to, len, &n, e);
			if (rc < 0) {
				return rc;
			}
		}
		to += n;
		len -= n;
	}
	return 0;
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
				"more than %d frames without credit",
				LINK_WINDOW);
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

static int
take_content(struct server *s, struct pool_frame *f, struct err *e)
{
	struct receiver *r;

	pthread_mutex_lock(&s->lock);
	r = s->receiver;
	pthread_mutex_unlock(&s->lock);
	if (!r) {
		pool_put(f);
		return err_set(e, E_PROTOCOL, "content outside a pass");
	}
	return recv_frame(r, f, e);
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

/* One frame. 1 after GOODBYE. */
static int
take_frame(struct server *s, struct err *e)
{
	uint8_t head[FRAME_HEADER];
	struct frame_header h;
	struct pool_frame *f;
	int rc = read_exact(s, head, sizeof(head), e);

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
	f = frame_for(s, &h, e);
	if (!f) {
		return e->code;
	}
	rc = read_exact(s, pool_payload(f), h.len, e);
	if (rc < 0) {
		pool_put(f);
		return rc;
	}
	switch (h.type) {
	case FRAME_REQUEST:
		return take_request(s, f, e);
	case FRAME_BATCH:
	case FRAME_CHUNK:
		return take_content(s, f, e);
	case FRAME_GOODBYE:
		rc = 1;
		break;
	case FRAME_SINK:
		pthread_mutex_lock(&s->lock);
		s->sink_bytes += h.len;
		pthread_mutex_unlock(&s->lock);
		on_done(s);
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

static int
start_threads(struct server *s, pthread_t *writer, pthread_t *worker,
	      struct err *e)
{
	int rc = pthread_create(writer, NULL, writer_thread, s);

	if (rc != 0) {
		return err_sys(e, rc, "cannot start a thread");
	}
	rc = pthread_create(worker, NULL, worker_thread, s);
	if (rc == 0) {
		return 0;
	}
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_mutex_unlock(&s->lock);
	wake_writer(s);
	pthread_join(*writer, NULL);
	return err_sys(e, rc, "cannot start a thread");
}

/* Let the running request and the queued ones end, then the writer. */
static void
end_threads(struct server *s, pthread_t writer, pthread_t worker, bool gone)
{
	pthread_mutex_lock(&s->lock);
	s->peer_gone = s->peer_gone || gone;
	while (s->busy || s->requests) {
		pthread_cond_wait(&s->changed, &s->lock);
	}
	s->stop = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	wake_writer(s);
	pthread_join(worker, NULL);
	pthread_join(writer, NULL);
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
	while (s->outq) {
		struct pool_frame *f = s->outq;

		s->outq = f->next;
		pool_put(f);
	}
	close_fd(&s->wakefd);
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
	s->in = in;
	s->out = out;
	s->ops = ops;
	s->arg = arg;
	s->keepalive_ms = FIRST_KEEPALIVE_MS;
	s->req_tail = &s->requests;
	s->out_tail = &s->outq;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->parent_is_sshd = parent_is_sshd();
	s->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wakefd < 0) {
		err_sys(e, errno, "cannot make an eventfd");
	} else {
		s->pool = pool_new(LINK_WINDOW, e);
	}
	if (!s->pool || io_set_nonblock(in, true, e) < 0 ||
	    io_set_nonblock(out, true, e) < 0) {
		server_fini(s);
		return NULL;
	}
	return s;
}

int
server_run(int in, int out, uint32_t caps, const struct server_ops *ops,
	   void *arg, struct err *e)
{
	char line[FRAME_GREETING_MAX];
	pthread_t writer, worker;
	struct server *s = server_new(in, out, ops, arg, e);
	size_t len;
	int rc;

	if (!s) {
		return e ? e->code : E_SYSTEM;
	}
	s->caps = caps;
	len = frame_put_greeting(line, caps);
	if (!write_all(s, (const uint8_t *)line, len)) {
		rc = err_set(e, E_CLOSED, "nobody reads our output");
		server_fini(s);
		return rc;
	}
	rc = start_threads(s, &writer, &worker, e);
	if (rc < 0) {
		server_fini(s);
		return rc;
	}
	while ((rc = take_frame(s, e)) == 0) {
	}
	if (rc == E_PROTOCOL) {
		server_log(s, LOGL_ERROR, e->text);
	}
	end_threads(s, writer, worker, rc == E_CLOSED || rc == E_TIMEOUT);
	server_fini(s);
	return rc < 0 ? rc : 0;
}
