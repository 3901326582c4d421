/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * algo: which algorithms this libssh has, and lists of them.
 */
#ifndef SSH_ALGO_H
#define SSH_ALGO_H

#include <stdbool.h>

#include "base/err.h"

/* The kinds of lists that are offered. */
enum algo_kind {
	ALGO_KEX = 0,
	ALGO_HOSTKEY,
	ALGO_CIPHER,
	ALGO_MAC,
	ALGO_PUBKEY, /* for authentication */
	ALGO_KINDS,
};

/* Whether this libssh has it. Thread-safe; asks a session without a peer. */
bool algo_known(enum algo_kind kind, const char *name);

/*
 * A user's list with ssh's prefixes (+ adds, - takes away, ^ puts in front of
 * the default) as a plain list of what libssh has, owned. `def` is the default
 * list. Names not known are dropped with a debug line (some of what ssh has,
 * libssh has not); E_CONFIG where none is left.
 */
int algo_resolve(enum algo_kind kind, const char *list, const char *def,
		 char **out, struct err *e);

/* The safe lists offered where nobody said otherwise. */
const char *algo_default(enum algo_kind kind);

/* The return direction's ciphers: GCM last, since libssh before 0.11.5 does
 * not check the tag of what it receives (CVE-2026-59847). */
const char *algo_default_s2c(void);

#endif
