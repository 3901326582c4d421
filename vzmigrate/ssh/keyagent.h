/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * keyagent: the user's ssh-agent (draft-miller-ssh-agent).
 *
 * libssh offers all keys of an agent or none, in the agent's order, and has no
 * way to sign with one of them. So it talks to a filter of ours, which shows
 * it one key at a time and passes on the requests to sign.
 */
#ifndef SSH_KEYAGENT_H
#define SSH_KEYAGENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A key the agent holds. */
struct keyagent_key {
	uint8_t *blob; /* owned */
	size_t len;
	char *comment; /* owned, as the agent sent it */
};

struct keyagent_keys {
	struct keyagent_key *v;
	size_t n;
};

#define KEYAGENT_KEYS_MAX 256

/* Ask the agent at `path` for its keys. 0, or E_NOT_FOUND (no agent there),
 * E_TIMEOUT (10 s), E_PROTOCOL, E_NOMEM. */
int keyagent_list(const char *path, struct keyagent_keys *keys, struct err *e);

void keyagent_keys_fini(struct keyagent_keys *keys);

struct keyagent_filter;

/* Start a filter in front of the agent at `path`; `*fd` is for
 * ssh_set_agent_socket, which takes it over. A sign request may take a minute
 * (the agent may ask its person). */
int keyagent_filter_start(const char *path, struct keyagent_filter **out,
			  int *fd, struct err *e);

/* Show `shown` from now on, and sign for it with `real` (the same, or the
 * plain key of a certificate). Both are copied. */
int keyagent_filter_set(struct keyagent_filter *f, const uint8_t *shown,
			size_t shown_len, const uint8_t *real, size_t real_len,
			struct err *e);

/* End the thread and free. NULL is allowed. */
void keyagent_filter_end(struct keyagent_filter *f);

#endif
