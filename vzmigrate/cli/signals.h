/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * signals: SIGINT, SIGTERM and SIGHUP ask the run to stop. The handler sets a
 * flag; a thread of its own does what a handler may not.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include "base/err.h"

/* Set once a signal came; atomic. For src_env and conn_params. */
extern int signals_stop;

/* Called in the thread for each signal: `count` is 1 for the first. */
typedef void signals_fn(int signo, int count, void *arg);

/*
 * Install the handlers, ignore SIGPIPE and SIGXFSZ, start the thread. To be
 * called before any other thread is started, so that a signal while a question
 * is asked interrupts the caller. `arg` is borrowed until signals_fini.
 * E_SYSTEM.
 */
int signals_init(signals_fn *fn, void *arg, struct err *e);

/* End the thread; the flag goes on working. */
void signals_fini(void);

#endif
