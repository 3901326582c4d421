/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sesswait: the one place where a session is waited for outside of a running
 * channel. No state.
 */
#include "ssh/sesswait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/io.h"

/* Also covers what libssh has read but not yet looked at, and `stop`. */
#define SLICE_MS 200

char *
sesswait_error(ssh_session s, char *out, size_t len)
{
	const char *text = ssh_get_error(s);
	size_t n = 0;

	for (; text && text[n] && n < len - 1; n++) {
		out[n] = text[n] == '\n' || text[n] == '\r' ? ' ' : text[n];
	}
	out[n] = '\0';
	return out;
}

int
sesswait_closed(const struct sesswait *w, struct err *e)
{
	char text[1024];

	sesswait_error(w->s, text, sizeof(text));
	return err_set(e, E_CLOSED, "%s: %s", w->what,
		       *text ? text : "the connection was closed");
}

int
sesswait_poll(const struct sesswait *w, int64_t deadline, struct err *e)
{
	int fd = ssh_get_fd(w->s), left = io_left_ms(deadline);
	int status = ssh_get_status(w->s);
	struct pollfd pf = { fd, POLLIN, 0 };

	if (w->stop && __atomic_load_n(w->stop, __ATOMIC_RELAXED)) {
		return err_set(e, E_CANCELLED, "%s: stopped", w->what);
	}
	if (fd < 0 || (status & (SSH_CLOSED | SSH_CLOSED_ERROR))) {
		return sesswait_closed(w, e);
	}
	if (left == 0) {
		return err_set(e, E_TIMEOUT, "%s: the server does not answer",
			       w->what);
	}
	if (status & SSH_WRITE_PENDING) {
		pf.events |= POLLOUT;
	}
	if (poll(&pf, 1, left < 0 || left > SLICE_MS ? SLICE_MS : left) < 0 &&
	    errno != EINTR) {
		return err_sys(e, errno, "%s: cannot poll", w->what);
	}
	return 0;
}
