/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * authstep: one exchange of authentication each, for auth.c: with a key, an
 * agent's key, a password, or the server's own questions.
 */
#ifndef SSH_AUTHSTEP_H
#define SSH_AUTHSTEP_H

#include "base/err.h"
#include "ssh/auth.h"
#include "ssh/sshlist.h"

/* What the server said. Errors are negative. */
enum authstep_result {
	AUTHSTEP_DENIED = 0,
	AUTHSTEP_SUCCESS,
	AUTHSTEP_PARTIAL, /* right, and it wants one more method */
};

/* The first exchange: learns the methods. */
int authstep_none(const struct auth_params *p, struct err *e);

/* Sign with `key` (private, perhaps with its certificate). */
int authstep_key(const struct auth_params *p, ssh_key key, struct err *e);

/* Ask whether the public `key` would do. */
int authstep_try(const struct auth_params *p, ssh_key key, struct err *e);

struct keyagent_filter;

/* With the agent at `path`: show `shown`, sign with `real`. `*filter` is NULL
 * at first and stays for the session's later calls (libssh cannot be given a
 * second socket without losing the first); the caller ends it when it has
 * done with authentication. */
int authstep_agent(const struct auth_params *p, struct keyagent_filter **filter,
		   const char *path, const uint8_t *shown, size_t shown_len,
		   const uint8_t *real, size_t real_len, struct err *e);

int authstep_password(const struct auth_params *p, const char *password,
		      struct err *e);

/* keyboard-interactive. With `replay` the answers are taken from `answers`;
 * else the person is asked and the answers are added to it. `*asked` counts
 * the hidden questions that were put. */
int authstep_kbdint(const struct auth_params *p, bool replay,
		    struct sshlist *answers, int *asked, struct err *e);

/* Ask one hidden question. 0 or prompt.h's errors. */
int authstep_ask(const struct auth_params *p, enum prompt_kind kind,
		 const char *question, bool echo, char *answer, size_t len,
		 struct err *e);

#endif
