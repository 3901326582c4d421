/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bytechan: the implementation over plain descriptors, non-blocking with an
 * eventfd for wakes. The one over an SSH channel is in ssh/.
 */
#include "base/bytechan.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define READ_SIZE 65536

struct fdchan {
	struct bytechan base; /* first: struct bytechan * is cast to us */
	int in;		      /* owned */
	int out;	      /* owned; -1 after send_eof */
	int wakefd;	      /* eventfd, owned */
	bool eof;	      /* the peer ended */
	uint8_t data[READ_SIZE];
};

/* Deliver what is there. 1 delivered, 0 nothing, negative error. */
static int
take(struct fdchan *f, struct err *e)
{
	ssize_t n = read(f->in, f->data, sizeof(f->data));
	int rc;

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		return 0;
	}
	if (n < 0 && errno != ECONNRESET) {
		return err_sys(e, errno, "cannot read from the peer");
	}
	if (n <= 0) {
		f->eof = true;
		return err_set(e, E_CLOSED, "the peer closed the channel");
	}
	rc = f->base.on_data(f->data, (size_t)n, f->base.arg, e);
	return rc < 0 ? rc : 1;
}

static int
fds_write(struct bytechan *c, const void *data, size_t len, int64_t timeout_ms,
	  struct err *e)
{
	struct fdchan *f = (struct fdchan *)c;
	int64_t deadline = io_deadline(timeout_ms);
	const char *p = data;

	while (len) {
		ssize_t n = write(f->out, p, len);
		struct pollfd pf[2] = { { f->out, POLLOUT, 0 },
					{ f->eof ? -1 : f->in, POLLIN, 0 } };
		int rc;

		if (n > 0) {
			p += n;
			len -= (size_t)n;
			deadline = io_deadline(timeout_ms);
			continue;
		}
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
			return err_set(e, E_CLOSED, "the peer is gone");
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			return err_sys(e, errno, "cannot write to the peer");
		}
		rc = poll(pf, 2, io_left_ms(deadline));
		if (rc == 0) {
			return err_set(e, E_TIMEOUT, "the peer takes no data");
		}
		if (rc > 0 && pf[1].revents) {
			rc = take(f, e);
			if (rc < 0 && rc != E_CLOSED) {
				return rc;
			}
		}
	}
	return 0;
}

static int
fds_service(struct bytechan *c, int64_t timeout_ms, struct err *e)
{
	struct fdchan *f = (struct fdchan *)c;
	struct pollfd pf[2] = { { f->in, POLLIN, 0 },
				{ f->wakefd, POLLIN, 0 } };
	uint64_t count;

	if (f->eof) {
		return err_set(e, E_CLOSED, "the peer closed the channel");
	}
	if (poll(pf, 2, io_left_ms(io_deadline(timeout_ms))) < 0) {
		return errno == EINTR ? 0 : err_sys(e, errno, "cannot poll");
	}
	if (pf[1].revents && read(f->wakefd, &count, sizeof(count)) < 0 &&
	    errno != EAGAIN) {
		return err_sys(e, errno, "cannot read an eventfd");
	}
	return pf[0].revents ? take(f, e) : 0;
}

static void
fds_wake(struct bytechan *c)
{
	struct fdchan *f = (struct fdchan *)c;
	uint64_t one = 1;

	if (write(f->wakefd, &one, sizeof(one)) < 0) {
		return; /* the counter is full: a wake is pending anyway */
	}
}

static int
fds_send_eof(struct bytechan *c, struct err *e)
{
	struct fdchan *f = (struct fdchan *)c;

	(void)e;
	if (f->out != f->in) {
		close_fd(&f->out);
	}
	f->out = -1;
	return 0;
}

static void
fds_free(struct bytechan *c)
{
	struct fdchan *f = (struct fdchan *)c;

	if (f->out != f->in) {
		close_fd(&f->out);
	}
	close_fd(&f->in);
	close_fd(&f->wakefd);
	free(f);
}

static const struct bytechan_ops fds_ops = { fds_write, fds_service,
					     fds_wake,	fds_send_eof,
					     fds_free,	NULL };

struct bytechan *
bytechan_fds(int in, int out, struct err *e)
{
	struct fdchan *f = calloc(1, sizeof(*f));

	if (!f) {
		err_nomem(e);
		return NULL;
	}
	f->base.ops = &fds_ops;
	f->in = in;
	f->out = out;
	f->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->wakefd < 0) {
		err_sys(e, errno, "cannot make an eventfd");
		free(f);
		return NULL;
	}
	if (io_set_nonblock(in, true, e) < 0 ||
	    io_set_nonblock(out, true, e) < 0) {
		close(f->wakefd);
		free(f);
		return NULL;
	}
	return &f->base;
}
