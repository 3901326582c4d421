/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshchan: a bytechan over the channel of a remote command.
 */
#ifndef SSH_SSHCHAN_H
#define SSH_SSHCHAN_H

#include <libssh/libssh.h>
#include <stdint.h>

#include "base/bytechan.h"
#include "base/err.h"

/* What a channel needs of its connection. */
struct sshchan_params {
	ssh_session s;	    /* authenticated, in non-blocking mode; borrowed */
	int64_t timeout_ms; /* to open it and start the command */
	int64_t silence_ms; /* without a sign of life from the peer */
	const int *stop;    /* or NULL */
};

/* Open a channel and start `command`. 0 and *out; E_TIMEOUT, E_CLOSED,
 * E_REMOTE (refused), E_NOMEM. Blocks. */
int sshchan_open(const struct sshchan_params *p, const char *command,
		 struct bytechan **out, struct err *e);

/* See conn_unstop. */
void sshchan_unstop(struct bytechan *c);

/* See conn_exit_status. */
int sshchan_exit_status(struct bytechan *c, int *status, char sig[16],
			struct err *e);

#endif
