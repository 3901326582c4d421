/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshtoken: ~, %x and ${NAME} in values of ssh_config (ssh_config(5), TOKENS).
 */
#ifndef SSH_SSHTOKEN_H
#define SSH_SSHTOKEN_H

#include "base/err.h"

/* What the tokens stand for; all borrowed. */
struct sshtoken {
	const char *alias;	/* %n */
	const char *host;	/* %h */
	int port;		/* %p */
	const char *user;	/* %r */
	const char *key_alias;	/* %k; NULL: alias */
	const char *jump;	/* %j; NULL: "" */
	const char *home;	/* %d; never NULL */
	const char *local_user; /* %u */
};

/* The local user's entry in the passwd file, as ssh asks it ($HOME is not
 * looked at). Owned strings into *home and *user. */
int sshtoken_local(char **home, char **user, struct err *e);

/* A file name: ~, %x, ${NAME}. Owned, or NULL with E_CONFIG, E_NOMEM. */
char *sshtoken_path(const char *text, const struct sshtoken *t, struct err *e);

/* A command or a host name: %x alone; `tokens` are the letters allowed, '%'
 * always is. Owned, or NULL. */
char *sshtoken_percent(const char *text, const char *tokens,
		       const struct sshtoken *t, struct err *e);

#endif
