/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * auth: authenticates to a server whose host key was accepted, and remembers
 * what worked, for further connections.
 */
#ifndef SSH_AUTH_H
#define SSH_AUTH_H

#include <libssh/libssh.h>
#include <stdint.h>

#include "base/err.h"
#include "ssh/prompt.h"
#include "ssh/sshconf.h"

/* What worked; shared by connections, so it is counted. Holds secrets, which
 * are wiped at the end. */
struct auth;

/* Whom to authenticate and how. All borrowed. */
struct auth_params {
	ssh_session s; /* connected, in non-blocking mode */
	const struct sshconf *c;
	const struct prompt *prompt;
	int64_t timeout_ms; /* for each exchange */
	const int *stop;    /* or NULL */
};

/*
 * Try the server's methods in the order of PreferredAuthentications (else
 * publickey, keyboard-interactive, password), several where the server wants
 * several. Each secret is asked for at most once. 0 and *out; E_AUTH with what
 * was tried and why it failed, E_TIMEOUT, E_CLOSED, E_CANCELLED, E_NOMEM.
 */
int auth_run(const struct auth_params *p, struct auth **out, struct err *e);

/* The same once more, asking nothing; p->prompt is not used. Any thread. */
int auth_again(const struct auth_params *p, struct auth *a, struct err *e);

struct auth *auth_ref(struct auth *a);
void auth_unref(struct auth *a);

/* "publickey /root/.ssh/id_ed25519"; several are joined by ", then ". */
const char *auth_text(const struct auth *a);

#endif
