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
#include "cipher/offer.h"
#include "cipher/probe.h"
#include "cli/options.h"
#include "report/progress.h"
#include "ssh/conn.h"

struct dial;

/* What the last connection came to; borrowed until dial_free. */
struct dial_info {
	const char *cipher_c2s, *cipher_s2c; /* or NULL */
	const char *mac_c2s, *mac_s2c;
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

/* The live connection of dial_open, for conn_open_more; NULL: there is none.
 * Valid as long as its channel. */
struct conn *dial_live(struct dial *d);

/*
 * For a probe: what dial_open would connect with (borrowed, until the next
 * dial_use), what the offer is and was built from, the command.
 */
void dial_params(struct dial *d, struct conn_params *p);
/* After conn_open failed with these: where nothing was in common with the
 * server, both lists are logged as errors, name by name, and `e` says what
 * would help; else nothing. dial_open does it by itself. */
void dial_explain_mismatch(const struct dial *d, struct err *e);
const struct offer *dial_offer(const struct dial *d);
const struct offer_ask *dial_ask(const struct dial *d);
const char *dial_command(const struct dial *d);

/* Put a cipher (and its MAC) that was measured as best at the head of what
 * later connections offer. E_NOMEM. */
int dial_use(struct dial *d, const struct probe_cand *c, struct err *e);

/* Take `first` over, an open connection: the next dial_open goes to the same
 * address, wants the same host key and asks no question again. */
void dial_keep(struct dial *d, struct conn *first);

void dial_get_info(const struct dial *d, struct dial_info *info);

void dial_free(struct dial *d);

#endif
