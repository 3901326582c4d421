/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcsession_int: what the search through all sessions takes from
 * srcsession.c; for srcsession*.c alone.
 */
#ifndef MIGRATE_SRCSESSION_INT_H
#define MIGRATE_SRCSESSION_INT_H

#include "base/err.h"

struct srcsession;

/* Read the session in the directory `name` of `parentfd` (borrowed during the
 * call), without its lock and without changing it: state and facts are there,
 * nothing can be set. `*s` is NULL where there is no journal in it, or after an
 * error; else the caller's, for srcsession_drop. E_CORRUPT, E_SYSTEM. */
int srcsession_peek(int parentfd, const char *name, struct srcsession **s,
		    struct err *e);

/* Free without touching what is on disk, and release a lock where there is
 * one. NULL is allowed. */
void srcsession_drop(struct srcsession *s);

/* For cleanup(). */
static inline void
srcsession_dropp(struct srcsession **s)
{
	srcsession_drop(*s);
}

#endif
