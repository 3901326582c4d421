/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * authkey: which keys to try, in ssh's order: keys of the configuration that
 * the agent holds, the agent's other keys (not under IdentitiesOnly), then the
 * files, each followed by its certificate.
 */
#ifndef SSH_AUTHKEY_H
#define SSH_AUTHKEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ssh/sshconf.h"

/* A key to try. Strings and blobs are owned. */
struct authkey {
	char *file;    /* private key; NULL: the agent's alone */
	char *cert;    /* certificate file that goes with it; NULL */
	bool agent;    /* sign through the agent */
	uint8_t *blob; /* what the server is shown; NULL: not known */
	size_t len;
	uint8_t *plain; /* the key inside; the same without a certificate */
	size_t plain_len;
	char *what; /* for messages: a path, or the agent's comment */
};

/* Zero-initialise; authkey_fini frees. */
struct authkeys {
	struct authkey *v;
	size_t n;
	char *agent_path; /* of the agent that was asked; NULL: none */
};

/* Collect. A missing agent or file is no error (debug line). Blocks up to
 * 10 s on an agent. E_NOMEM, E_LIMIT. */
int authkey_collect(const struct sshconf *c, struct authkeys *keys,
		    struct err *e);

void authkey_fini(struct authkeys *keys);

/* The public half of a private key file in OpenSSH's format, without its
 * passphrase; `*encrypted` tells whether it has one. 0, E_NOT_FOUND (missing),
 * E_UNSUPPORTED (another format). */
int authkey_peek(const char *file, uint8_t **blob, size_t *len, bool *encrypted,
		 struct err *e);

/* The plain key inside a certificate's blob; owned. E_PROTOCOL. */
int authkey_plain(const uint8_t *cert, size_t len, uint8_t **plain,
		  size_t *plain_len, struct err *e);

#endif
