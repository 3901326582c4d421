/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcstatus: what can be told of a migration from outside of its process: its
 * journal, and a note beside that which the process writes now and then.
 */
#ifndef MIGRATE_SRCSTATUS_H
#define MIGRATE_SRCSTATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "migrate/srcsession.h"

/* What the note holds. */
struct srcstatus_note {
	long pid;	     /* of the process at work */
	uint64_t since;	     /* its start, as /proc tells it */
	int64_t time_s;	     /* when it was written */
	enum steps_step step;
	unsigned pass;	     /* the one under way, or the last; 0: none yet */
	uint64_t files, bytes;		   /* done in this pass */
	uint64_t total_files, total_bytes; /* as surveyed */
};

/* Write the note of `s`; pid, since and time are filled in. Best effort; may
 * be called by any thread, but by one at a time. */
void srcstatus_put(const struct srcsession *s, struct srcstatus_note *n);

/* One session. All borrowed. */
struct srcstatus {
	const struct srcsession *session;
	bool alive; /* its process is at work, and `note` is of now */
	struct srcstatus_note note;
};

typedef int srcstatus_fn(const struct srcstatus *s, void *arg, struct err *e);

/* Every unfinished session of this host; with `word` those of that container
 * (as srcsession_find knows it). 0, what `fn` returned, errors of the state
 * directory. Takes no lock. */
int srcstatus_each(const char *word, srcstatus_fn *fn, void *arg,
		   struct err *e);

#endif
