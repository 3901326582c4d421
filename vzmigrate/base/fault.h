/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault: named points at which a test makes the program die, fail or stop.
 * Only in a build with FAULT_HOOKS (configure --enable-fault-hooks, or a test
 * program's own compiler flags); elsewhere the call is the constant 0.
 *
 * The environment variable VZMIGRATE_FAULT holds rules joined by commas:
 *
 *	NAME[:N]=kill|fail|stop|hold
 *
 * NAME is a point's name, or a beginning of one followed by `*`. The rule
 * acts the N-th time (1 by default) that a point matches it: `kill` ends the
 * process with SIGKILL, `fail` makes the call return E_SYSTEM with EIO,
 * `stop` raises SIGSTOP, which stops all threads, `hold` makes this thread
 * alone wait until the file named by VZMIGRATE_FAULT_HOLD is gone (it makes
 * that file first). `VZMIGRATE_FAULT=*:7=kill` kills at the seventh point
 * passed, so that a loop over N reaches every one.
 *
 * VZMIGRATE_FAULT_TRACE names a file to which the name of each point that is
 * passed is appended, a line each.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/err.h"

#ifdef FAULT_HOOKS

/* Pass the point `name`. 0, or E_SYSTEM where a rule makes it fail. Any
 * thread. */
int fault_point(const char *name, struct err *e);

/* Count from 0 again (for tests that set VZMIGRATE_FAULT in a forked
 * child). */
void fault_reset(void);

#else

static inline int
fault_point(const char *name, struct err *e)
{
	(void)name;
	(void)e;
	return 0;
}

static inline void
fault_reset(void)
{
}

#endif
#endif
