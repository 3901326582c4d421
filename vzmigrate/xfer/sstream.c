/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sstream: bytes in, frames out. The reader's state is its own thread's; what
 * the writer and the rest share is under one mutex.
 */
#include "xfer/sstream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "xfer/feed.h"
#include "xfer/link.h"

#define IN_SIZE 65536
/* Before HELLO says otherwise. */
#define PIPE_SIZE (1 << 20)
#define FIRST_KEEPALIVE_MS 2000

struct sstream {
	int in, out; /* borrowed */
	uint32_t number;
	int wakefd;	       /* eventfd: the writer has work */
	int fencefd;	       /* eventfd: the reader is to end */
	bool fenced;	       /* atomic */
	uint32_t keepalive_ms; /* atomic */

	pthread_t writer;
	bool started;

	pthread_mutex_t lock;
	struct pool_frame *outq; /* to write */
	struct pool_frame **out_tail;
	size_t out_bytes;
	uint64_t arrived;     /* content frames read whole */
	uint64_t done;	      /* finished with, those inherited too */
	uint64_t acked;	      /* and told */
	struct sstream *heir; /* who tells of the rest; or NULL */
	bool gone;	      /* writing failed */
	bool stop;	      /* the writer ends when idle */

	bool ahead; /* reader only: inbuf may be filled */
	size_t in_at, in_len;
	uint8_t inbuf[IN_SIZE]; /* reader only: read but not parsed */
};

struct sstream *
sstream_new(int in, int out, uint32_t number, struct err *e)
{
	struct sstream *s = calloc(1, sizeof(*s));

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	s->in = in;
	s->out = out;
	s->number = number;
	s->keepalive_ms = FIRST_KEEPALIVE_MS;
	s->out_tail = &s->outq;
	pthread_mutex_init(&s->lock, NULL);
	s->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->fencefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wakefd < 0 || s->fencefd < 0) {
		err_sys(e, errno, "cannot make an eventfd");
		sstream_free(s);
		return NULL;
	}
	if (io_set_nonblock(in, true, e) < 0 ||
	    io_set_nonblock(out, true, e) < 0) {
		sstream_free(s);
		return NULL;
	}
	/* sshd's pipe: with the usual 64 KiB each of its writes wakes us. A
	 * socket, or a host with a smaller limit, stays as it is. */
	(void)fcntl(in, F_SETPIPE_SZ, PIPE_SIZE);
	return s;
}

void
sstream_free(struct sstream *s)
{
	if (!s) {
		return;
	}
	while (s->outq) {
		struct pool_frame *f = s->outq;

		s->outq = f->next;
		pool_put(f);
	}
	close_fd(&s->wakefd);
	close_fd(&s->fencefd);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

uint32_t
sstream_number(const struct sstream *s)
{
	return s->number;
}

void
sstream_set_keepalive(struct sstream *s, uint32_t ms)
{
	__atomic_store_n(&s->keepalive_ms, ms, __ATOMIC_RELAXED);
}

static int64_t
keepalive(const struct sstream *s)
{
	return __atomic_load_n(&s->keepalive_ms, __ATOMIC_RELAXED);
}

/* An eventfd that is full has been seen to anyway. */
static void
raise_event(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0) {
		return;
	}
}

/* ---- reading ---- */

void
sstream_read_ahead(struct sstream *s)
{
	s->ahead = true;
}

void
sstream_fence(struct sstream *s)
{
	__atomic_store_n(&s->fenced, true, __ATOMIC_RELEASE);
	raise_event(s->fencefd);
}

/* Wait for bytes. */
static int
wait_readable(struct sstream *s, struct err *e)
{
	int64_t wait = keepalive(s) * LINK_DEAD_FACTOR;
	struct pollfd pf[2] = { { s->in, POLLIN, 0 },
				{ s->fencefd, POLLIN, 0 } };

	if (poll(pf, 2, (int)wait) == 0) {
		return err_set(e, E_TIMEOUT,
			       "no sign of life from the client for %lld s",
			       (long long)(wait / 1000));
	}
	return 0;
}

/* Fill a frame's payload, and inbuf with what is behind it. */
static int
read_more(struct sstream *s, uint8_t *payload, size_t want, size_t *got,
	  struct err *e)
{
	struct iovec v[2] = { { payload, want }, { s->inbuf, IN_SIZE } };
	ssize_t n;

	for (;;) {
		int rc;

		if (__atomic_load_n(&s->fenced, __ATOMIC_ACQUIRE)) {
			return err_set(e, E_CANCELLED, "the stream is closed");
		}
		n = readv(s->in, v, s->ahead ? 2 : 1);
		if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
			break;
		}
		rc = wait_readable(s, e);
		if (rc < 0) {
			return rc;
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

int
sstream_read(struct sstream *s, void *to, size_t len, struct err *e)
{
	uint8_t *p = to;

	while (len) {
		size_t n = s->in_len - s->in_at;
		int rc;

		if (n) {
			n = n < len ? n : len;
			memcpy(p, s->inbuf + s->in_at, n);
			s->in_at += n;
		} else {
			rc = read_more(s, p, len, &n, e);
			if (rc < 0) {
				return rc;
			}
		}
		p += n;
		len -= n;
	}
	return 0;
}

/* ---- writing ---- */

/* False when the peer is gone or takes nothing for the dead interval. */
bool
sstream_write(struct sstream *s, const void *data, size_t len)
{
	int64_t wait = keepalive(s) * LINK_DEAD_FACTOR;
	int64_t deadline = io_deadline(wait);
	const uint8_t *p = data;

	while (len) {
		ssize_t n = write(s->out, p, len);
		/* The control stream's last words go out in any case. */
		struct pollfd pf[2] = { { s->out, POLLOUT, 0 },
					{ s->number ? s->fencefd : -1, POLLIN,
					  0 } };

		if (n > 0) {
			p += n;
			len -= (size_t)n;
			deadline = io_deadline(wait);
		} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
			return false;
		} else if (poll(pf, 2, io_left_ms(deadline)) == 0 ||
			   pf[1].revents) {
			return false;
		}
	}
	return true;
}

static bool
write_frame(struct sstream *s, uint8_t *bytes, uint8_t type, uint32_t len)
{
	struct frame_header h = { .len = len, .type = type };

	frame_put_header(bytes, &h);
	return sstream_write(s, bytes, FRAME_HEADER + (size_t)len);
}

static bool
write_ack(struct sstream *s, uint64_t done)
{
	uint8_t bytes[FRAME_HEADER + 8];

	for (int i = 0; i < 8; i++) {
		bytes[FRAME_HEADER + i] = (uint8_t)(done >> (8 * i));
	}
	return write_frame(s, bytes, FRAME_ACK, 8);
}

/* Take what is to be written: a frame, or an acknowledgement in *ack (else
 * 0). False when nothing is. A reply that was queued before frames were
 * inherited goes before the acknowledgement that counts them. */
static bool
next_out(struct sstream *s, struct pool_frame **f, uint64_t *ack)
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
	} else if (s->done != s->acked && !s->heir) {
		*ack = s->acked = s->done;
	}
	any = *f || *ack;
	pthread_mutex_unlock(&s->lock);
	return any;
}

static bool
writer_should_end(struct sstream *s)
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
	struct sstream *s = arg;
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
		if (poll(&pf, 1, (int)keepalive(s)) == 0) {
			ok = write_frame(s, bytes, FRAME_KEEPALIVE, 0);
		} else if (read(s->wakefd, &count, sizeof(count)) < 0) {
			continue; /* EAGAIN, EINTR: look again */
		}
	}
	pthread_mutex_lock(&s->lock);
	s->gone = s->gone || !ok;
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int
sstream_start(struct sstream *s, struct err *e)
{
	int rc;

	s->stop = false;
	rc = pthread_create(&s->writer, NULL, writer_thread, s);
	if (rc != 0) {
		return err_sys(e, rc, "cannot start a thread");
	}
	s->started = true;
	return 0;
}

void
sstream_stop(struct sstream *s)
{
	if (!s->started) {
		return;
	}
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_mutex_unlock(&s->lock);
	raise_event(s->wakefd);
	pthread_join(s->writer, NULL);
	s->started = false;
}

void
sstream_queue(struct sstream *s, struct pool_frame *f)
{
	pthread_mutex_lock(&s->lock);
	f->next = NULL;
	*s->out_tail = f;
	s->out_tail = &f->next;
	s->out_bytes += f->len;
	pthread_mutex_unlock(&s->lock);
	raise_event(s->wakefd);
}

size_t
sstream_queued(struct sstream *s)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = s->out_bytes;
	pthread_mutex_unlock(&s->lock);
	return n;
}

bool
sstream_gone(struct sstream *s)
{
	bool gone;

	pthread_mutex_lock(&s->lock);
	gone = s->gone;
	pthread_mutex_unlock(&s->lock);
	return gone;
}

/* ---- credit ---- */

int
sstream_arrived(struct sstream *s, struct err *e)
{
	bool credit;

	/* What was inherited counts in `done`, but never arrived here: only
	 * the control stream inherits, and the buffers bound it too. */
	pthread_mutex_lock(&s->lock);
	credit = s->arrived < s->done + FEED_WINDOW;
	s->arrived += credit;
	pthread_mutex_unlock(&s->lock);
	return credit ? 0
		      : err_set(e, E_PROTOCOL,
				"more than %d frames without credit",
				FEED_WINDOW);
}

/* Count, and tell not for each frame: when a good part of the window is
 * finished, or when nothing else is told, so that the end is never held up. */
static void
add_done(struct sstream *s, uint64_t n)
{
	struct sstream *heir;
	bool tell = false;

	pthread_mutex_lock(&s->lock);
	heir = s->heir;
	if (!heir) {
		tell = s->done == s->acked ||
		       s->done - s->acked + n >= FEED_WINDOW / 8;
		s->done += n;
	}
	pthread_mutex_unlock(&s->lock);
	if (heir) {
		add_done(heir, n);
	} else if (tell) {
		raise_event(s->wakefd);
	}
}

void
sstream_done(struct sstream *s)
{
	add_done(s, 1);
}

uint64_t
sstream_frames(struct sstream *s, uint64_t *done)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = s->arrived;
	*done = s->done;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void
sstream_inherit(struct sstream *s, struct sstream *heir, uint64_t acked)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	s->heir = heir;
	n = s->done - acked;
	pthread_mutex_unlock(&s->lock);
	if (n) {
		add_done(heir, n);
	}
}
