/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sesswait: waiting for a libssh session that is in non-blocking mode. All our
 * sessions are: libssh's own waits hang for ever in several places (a server
 * that disconnects during authentication, a request on a closed channel), so
 * every call that says "again" comes back here, to a deadline.
 */
#ifndef SSH_SESSWAIT_H
#define SSH_SESSWAIT_H

#include <libssh/libssh.h>
#include <stdint.h>

#include "base/err.h"

/* A session and how patient we are. */
struct sesswait {
	ssh_session s;
	int64_t timeout_ms; /* for one exchange */
	const int *stop;    /* a signal wants an end; or NULL */
	const char *what;   /* what is being done, for the error */
};

/* Wait until libssh may get on, at most a fraction of a second, or until
 * `deadline` (io_deadline). 0: call libssh again. E_TIMEOUT, E_CLOSED with
 * libssh's text, E_CANCELLED. */
int sesswait_poll(const struct sesswait *w, int64_t deadline, struct err *e);

/* libssh's last error, without line ends, into `out`. Returns out. */
char *sesswait_error(ssh_session s, char *out, size_t len);

/* E_CLOSED with libssh's text. */
int sesswait_closed(const struct sesswait *w, struct err *e);

#endif
