/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * target: the destination as a person writes it.
 */
#ifndef SSH_TARGET_H
#define SSH_TARGET_H

#include <stdbool.h>

#include "base/err.h"

/* Zero-initialise; target_fini frees. */
struct target {
	char *user; /* owned; NULL: not said */
	char *host; /* owned; a name, or an address without brackets */
	int port;   /* 1..65535; 0: not said */
};

/*
 * Take `text` apart: [user@]host, a bare IPv6 literal with or without a zone
 * (::1, fe80::1%eth0), [literal] and [literal]:port, ssh://[user@]host[:port].
 * The last '@' ends the user. A name may be any Host of ssh_config, so nothing
 * is looked up here. 0 and `t` filled, or E_USAGE, E_NOMEM with `t` empty.
 */
int target_parse(const char *text, struct target *t, struct err *e);

void target_fini(struct target *t);

/*
 * Refuse what ssh refuses in a host or user name, since both may end in the
 * command line of a ProxyCommand: a leading '-', control characters, white
 * space in a host, quotes and the shell's metacharacters. 0 or E_USAGE.
 */
int target_check_host(const char *host, struct err *e);
int target_check_user(const char *user, struct err *e);

/* Whether `host` is an IPv4 or IPv6 literal (a zone is allowed). */
bool target_is_address(const char *host);

#endif
