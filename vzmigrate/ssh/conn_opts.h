/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conn_opts: what libssh is told before it connects; for conn.c alone.
 */
#ifndef SSH_CONN_OPTS_H
#define SSH_CONN_OPTS_H

#include <stdint.h>

#include <libssh/libssh.h>

#include "base/err.h"
#include "ssh/conn.h"

/*
 * Set all options of the new session `s` from `p` and its configuration.
 * `hostkeys`: the host key algorithms to ask for, comma-separated; `fd`: the
 * connected socket, which stays the caller's until ssh_connect; `timeout_ms`:
 * of each wait. All borrowed for the call. E_USAGE where an offer has a name
 * that libssh has not, E_UNSUPPORTED where libssh refuses a value, E_CONFIG,
 * E_NOMEM. Does not block.
 */
int conn_opts_set(ssh_session s, const struct conn_params *p,
		  const char *hostkeys, int fd, int64_t timeout_ms,
		  struct err *e);

#endif
