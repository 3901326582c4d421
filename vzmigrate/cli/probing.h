/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probing: --probe-ciphers. Learns what the server offers, measures, tells,
 * and has the pick used for the connections of this run.
 */
#ifndef CLI_PROBING_H
#define CLI_PROBING_H

#include "base/err.h"
#include "cli/dial.h"
#include "cli/options.h"
#include "report/summary.h"

struct probing;

/* `o`, `d` and `stop` are borrowed until probing_free. NULL with E_NOMEM. */
struct probing *probing_new(const struct options *o, struct dial *d,
			    const int *stop, struct err *e);

/*
 * Measure, tell and, with containers to move, let `d` use the pick; later
 * calls do nothing. What only concerns the measuring is a warning then, and
 * the run goes on with what negotiation makes: 0. Alone it is the error.
 * E_CANCELLED, E_HOSTKEY, E_AUTH, E_CONFIG, E_USAGE, E_NOMEM always are.
 * Blocks.
 */
int probing_run(struct probing *g, struct err *e);

/* Make it end soon with E_CANCELLED. Any thread; not for a signal handler. */
void probing_interrupt(struct probing *g);

/* The keys of the summary that come from it; borrowed from `g`. */
void probing_fill(const struct probing *g, struct summary *s);

void probing_free(struct probing *g);

#endif
