/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probelink: how a probe's rounds are made: a connection for each candidate,
 * bytes that no compression could shrink, through the link that content takes,
 * into the agent's SINK frames; or, where no agent answers, into `dd` started
 * by the shell there, which says after each round that it has all.
 */
#ifndef CIPHER_PROBELINK_H
#define CIPHER_PROBELINK_H

#include "base/err.h"
#include "cipher/probe.h"
#include "ssh/conn.h"

struct probelink;

/* Borrowed until probelink_free, `conn` and what it points to as well. */
struct probelink_params {
	const struct probe *probe;	/* the candidates */
	const struct conn_params *conn; /* for all; ciphers, MACs, time-out and
					 * stop of the way out are replaced */
	const struct conn *first;	/* authenticated; only read */
	const char *agent;		/* the command that starts it */
	const char *host;		/* for messages */
};

/* NULL with E_NOMEM, E_SYSTEM. */
struct probelink *probelink_new(const struct probelink_params *params,
				struct err *e);

/* For probe_run, whose `arg` is the struct probelink. */
extern const struct probe_ops probelink_ops;

/* Make all that blocks fail with E_CANCELLED, now and later. Any thread; not
 * for a signal handler. */
void probelink_interrupt(struct probelink *pl);

/* Where the bytes went: "vzmigrate-agent", or "dd, started by the shell"; and
 * why it was not the agent (NULL: it was). After the first connection. */
const char *probelink_sink(const struct probelink *pl);
const char *probelink_no_agent(const struct probelink *pl);

/* Close what is open. NULL is allowed. */
void probelink_free(struct probelink *pl);

#endif
