/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sock: the byte stream below an SSH connection: our own TCP socket, or a
 * proxy's socketpair.
 */
#ifndef SSH_SOCK_H
#define SSH_SOCK_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/child.h"
#include "base/err.h"
#include "ssh/sshconf.h"

/* A connected stream. */
struct sock {
	int fd;		    /* close-on-exec; given to libssh, see conn.c */
	struct child proxy; /* pid -1: none */
	struct sockaddr_storage addr; /* of the peer; length 0 with a proxy */
	socklen_t addr_len;
	char peer[256]; /* numeric address, "" with a proxy */
	int peer_port;
};

/* How long one send() may sleep: libssh makes the socket blocking again, so a
 * peer that takes nothing would hold us there for ever. */
#define SOCK_SEND_S 1

/* Less would end a connection to a host whose disk is merely slow: it fires at
 * a closed window too. */
#define SOCK_USER_TIMEOUT_MIN_MS 60000

/*
 * Connect as `c` says: ProxyCommand, ProxyJump, or TCP to every address of the
 * name in turn, `timeout_ms` for each. `silence_ms` sets TCP_USER_TIMEOUT (at
 * least SOCK_USER_TIMEOUT_MIN_MS). `stop` (or NULL) ends it early. 0,
 * E_CONNECT, E_CANCELLED, E_NOMEM, E_SYSTEM. Blocks; the look-up of the name is
 * bounded by resolv.conf alone.
 */
int sock_open(const struct sshconf *c, int64_t timeout_ms, int64_t silence_ms,
	      const int *stop, struct sock *s, struct err *e);

/* As sock_open to the address that `like` reached, no name is looked up. */
int sock_open_like(const struct sshconf *c, const struct sock *like,
		   int64_t timeout_ms, int64_t silence_ms, const int *stop,
		   struct sock *s, struct err *e);

/* End the proxy, if any, and close fd where it is >= 0. */
void sock_close(struct sock *s);

#endif
