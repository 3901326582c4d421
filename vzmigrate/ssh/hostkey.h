/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hostkey: which host keys to ask for, and whether the one shown is right
 * (design.md section 10).
 */
#ifndef SSH_HOSTKEY_H
#define SSH_HOSTKEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ssh/knownhosts.h"
#include "ssh/prompt.h"
#include "ssh/sshconf.h"

/* What is known of a host. hostkey_fini frees. */
struct hostkey {
	char *name; /* as it is looked up: alias, host, [host]:port */
	struct knownhosts known;
	char *algorithms; /* to offer, the known types first */
};

/* Read the files of `c` (borrowed while `h` lives). 0, E_HOSTKEY for a file
 * that cannot be read, E_CONFIG, E_NOMEM. */
int hostkey_init(struct hostkey *h, const struct sshconf *c, struct err *e);

/*
 * Decide on the key a server showed. An unknown one is asked about, recorded
 * or refused as StrictHostKeyChecking says; a changed or revoked one is
 * refused always, also under "no", naming file, line and fingerprints.
 * 0 or E_HOSTKEY, E_CANCELLED, E_TIMEOUT. May block on the person.
 */
int hostkey_check(const struct hostkey *h, const struct sshconf *c,
		  const struct prompt *prompt, const uint8_t *blob, size_t len,
		  struct err *e);

void hostkey_fini(struct hostkey *h);

#endif
