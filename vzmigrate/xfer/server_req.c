/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server_req: the requests of a connection: which may come, the queue, and the
 * thread that runs them one after another; and the methods that are the
 * server's own. HELLO and JOIN are answered by the reader of the control
 * stream itself, since nothing else comes before them. All others are the
 * owner's (struct server_ops), or of the data streams (server_stream.c).
 *
 * State: the part of struct server that server_int.h gives to this file.
 */
#include "config.h"

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
#include "xfer/server_int.h"

#define REQUESTS_MAX 16 /* the client sends one and waits */

struct server_req {
	struct server_req *next;
	struct pool_frame *f; /* owned; the REQUEST's payload */
};

/* ---- the server's own methods ---- */

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
	server_reply(s->control, id, rc, e, &out);
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
		server_reply(s->control, id, rc, e, NULL);
		return rc;
	}
	sstream_stop(s->control);
	rc = s->ops->join(id, &m, s->arg, e);
	explicit_bzero(&m, sizeof(m));
	if (rc < 0) {
		server_reply(s->control, id, rc, e, NULL);
		sstream_start(s->control, NULL);
		return rc;
	}
	return 1;
}

/* ---- the request thread ---- */

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
		server_stream_end(s, id, d.p, d.left);
		return;
	}
	rc = method == MSG_SINK ? do_sink(s, &reply, &e)
	     : method == MSG_STREAM_OPEN
		     ? server_stream_open(s, &reply, &e)
		     : s->ops->request(s, method, d.p, d.left, &reply, s->arg,
				       &e);
	server_reply(s->control, id, rc, &e, &reply);
}

static void *
worker_thread(void *arg)
{
	struct server *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct server_req *q = s->requests;

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

/* ---- the interface ---- */

/* First HELLO or JOIN, and neither later. */
static bool
may_come(const struct server *s, uint16_t method)
{
	if (s->greeted) {
		return method != MSG_HELLO && method != MSG_JOIN;
	}
	return method == MSG_HELLO || (method == MSG_JOIN && s->ops->join);
}

int
server_req_take(struct server *s, struct pool_frame *f, struct err *e)
{
	struct server_req *q;
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
		*q = (struct server_req){ NULL, f };
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

void
server_req_init(struct server *s)
{
	s->req_tail = &s->requests;
	s->parent_is_sshd = parent_is_sshd();
}

int
server_req_start(struct server *s, struct err *e)
{
	int rc = pthread_create(&s->worker, NULL, worker_thread, s);

	return rc != 0 ? err_sys(e, rc, "cannot start a thread") : 0;
}

void
server_req_end(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->busy || s->requests) {
		pthread_cond_wait(&s->changed, &s->lock);
	}
	s->stop = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->worker, NULL);
}

void
server_req_drop(struct server *s)
{
	while (s->requests) {
		struct server_req *q = s->requests;

		s->requests = q->next;
		pool_put(q->f);
		free(q);
	}
}
