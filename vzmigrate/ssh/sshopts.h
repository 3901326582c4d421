/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshopts: what the command line says about the SSH connection: our own
 * options and the string of --ssh="...".
 */
#ifndef SSH_SSHOPTS_H
#define SSH_SSHOPTS_H

#include <stdbool.h>

#include "base/err.h"
#include "ssh/sshlist.h"

/*
 * Zero-initialise; the setters below fill it, sshopts_fini frees. Our own
 * options win over those in --ssh, wherever they stand; within --ssh the
 * first wins, as in ssh.
 */
struct sshopts {
	int port;	  /* -p; 0: not given */
	char *user;	  /* -l; NULL: not given */
	char *jump;	  /* -J, comma-separated; NULL */
	char *config;	  /* -F FILE or "none"; NULL: the usual files */
	int family;	  /* AF_UNSPEC, or -4, -6 */
	int verbose;	  /* how many -v stood in --ssh */
	bool compression; /* -C */
	char *ciphers;	  /* -c or -o Ciphers, as written; NULL */
	char *macs;	  /* -m or -o MACs, as written; NULL */
	struct sshlist identities;	     /* -i, in order */
	struct sshlist options;		     /* "Key=Value" of -o, in order */
	bool own_port, own_jump, own_config; /* set by our own options */
};

/* --port, --identity, --jump, --ssh-config. 0, E_USAGE, E_NOMEM. */
int sshopts_port(struct sshopts *o, const char *text, struct err *e);
int sshopts_identity(struct sshopts *o, const char *file, struct err *e);
int sshopts_jump(struct sshopts *o, const char *jumps, struct err *e);
int sshopts_config(struct sshopts *o, const char *file, struct err *e);

/*
 * The string of --ssh: split into words as a shell would (quotes and
 * backslashes, nothing is expanded), then -p -i -l -o -c -m -F -J -v -4 -6 -C
 * in any of getopt's forms. Anything else, and an -o that we cannot honour, is
 * E_USAGE naming it.
 */
int sshopts_parse(struct sshopts *o, const char *text, struct err *e);

/* One -o: "Key=Value", "Key Value". E_USAGE for what cannot be honoured. */
int sshopts_option(struct sshopts *o, const char *text, struct err *e);

/* Split `text` as above, appending to `words`. E_USAGE for an open quote. */
int sshopts_split(const char *text, struct sshlist *words, struct err *e);

void sshopts_fini(struct sshopts *o);

#endif
