/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dial: from the person's options to a channel with an agent at its other
 * end: the ssh configuration, the offer of ciphers, the connection, the
 * command.
 */
#ifndef CLI_DIAL_H
#define CLI_DIAL_H

#include "base/bytechan.h"
#include "base/err.h"
#include "cli/options.h"
#include "report/progress.h"

struct dial;

/* What the last connection came to; borrowed until dial_free. */
struct dial_info {
	const char *cipher_c2s, *cipher_s2c, *mac_c2s; /* or NULL */
	const char *cipher_by; /* who decided: offer_by_name */
};

/*
 * Resolve the destination's ssh configuration and build the offer. `o`,
 * `progress` (may be NULL; paused while a question is asked) and `stop` are
 * borrowed until dial_free. E_USAGE, E_CONFIG, E_TIMEOUT, E_NOMEM. May block
 * as sshconf_resolve.
 */
int dial_new(const struct options *o, struct progress *progress,
	     const int *stop, struct dial **out, struct err *e);

/* "user@host" for messages, and the host alone. */
const char *dial_dest(const struct dial *d);
const char *dial_host(const struct dial *d);

/* For struct srcconn_opts; `arg` is the struct dial. The channel owns its
 * connection and must be gone before dial_free. */
int dial_open(void *arg, bool must, struct bytechan **c, struct err *e);
void dial_explain(void *arg, struct err *e);
void dial_greeted(void *arg);

void dial_get_info(const struct dial *d, struct dial_info *info);

void dial_free(struct dial *d);

#endif
