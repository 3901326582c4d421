/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probetell: a probe's outcome for people and for programs.
 *
 * JSON, one object on one line:
 *   event        "probe"
 *   destination  "root@host"
 *   sink         where the bytes went
 *   no_agent     why not into the agent; absent where it was the agent
 *   server       {"version", "kex", "hostkeys", "strict_kex"}
 *   algorithms   [{"name", "kind": "cipher" or "mac", "server", "here",
 *                "policy", "why"}]
 *   setup_seconds, measure_seconds, budget_seconds
 *   end          budget, decided, alone, rounds
 *   candidates   [{"cipher", "mac", "plain_mac", "state": measured, behind,
 *                given-up or waiting, "why", "rounds", "mb_s", "mb_s_low",
 *                "mb_s_high", "coverage", "cpu_here", "cpu_there" (seconds
 *                per GB), "samples": [{"bytes", "seconds", "mb_s",
 *                "cpu_here", "cpu_there"}]}], in the order of negotiation
 * and where a decision was made
 *   default, pick  names of candidates
 *   why          only, throughput, cpu, default, noise, link
 *   gain, cpu_gain   of the pick over the default
 *   text         the sentence for people
 *   ssh_config   the lines that would make it permanent
 * or else
 *   error        why there is none
 */
#ifndef CIPHER_PROBETELL_H
#define CIPHER_PROBETELL_H

#include <stdbool.h>

#include "base/err.h"
#include "cipher/offertab.h"
#include "cipher/probe.h"

/* What is told. Borrowed; NULL where it is not known. */
struct probetell {
	const struct probe *probe;
	const char *error; /* why there is no decision; NULL: there is one */
	const char *destination;
	const char *sink;
	const char *no_agent;
	const char *version, *kex, *hostkeys; /* the server's */
	bool strict_kex;
	const struct offertab *table; /* shown where not NULL */
	int64_t budget_ms;
};

/* For a terminal: one line for each candidate with a bar to scale, then the
 * sentence. `utf8`: bars of block elements instead of ASCII. Owned; NULL with
 * E_NOMEM. */
char *probetell_text(const struct probetell *t, bool utf8, struct err *e);

/* Owned, with a newline; NULL with E_NOMEM. */
char *probetell_json(const struct probetell *t, struct err *e);

/* Whether the environment's locale (LC_ALL, LC_CTYPE, LANG) is UTF-8. */
bool probetell_utf8(void);

#endif
