/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * steps: the machine of a migration's source half, as tables without any
 * effect: its steps and states, which state may follow which, what is to be
 * undone in each, and what a rerun does when it finds a state here and
 * another one there (design.md section 7).
 */
#ifndef MIGRATE_STEPS_H
#define MIGRATE_STEPS_H

#include <stdbool.h>

#include "base/err.h"
#include "wire/msg.h"

/* The steps of design.md section 7, for messages, -t and exit codes. */
enum steps_step {
	STEP_NONE = 0,
	STEP_LOCK = 1,
	STEP_CONNECT = 2,
	STEP_CHECK = 3,
	STEP_RESERVE = 4,
	STEP_PASSES = 5,
	STEP_STOP = 6, /* block a start here, and stop it where it is up */
	STEP_FINAL = 7,
	STEP_RETIRE = 8,
	STEP_TAKE_OVER = 9,
	STEP_CLEAN_UP = 10,
	STEP_LAST = STEP_CLEAN_UP,
};

/* "lock", "connect", ... "clean up". */
const char *steps_name(enum steps_step step);

/*
 * Where the source stands. The last record of its journal names the state;
 * those in -ING are written before the act, so that what may have happened is
 * undone after a crash in it.
 */
enum steps_state {
	STEPS_NEW = 0,	 /* no journal */
	STEPS_OPEN,	 /* session and destination known; no effect */
	STEPS_STOPPING,	 /* about to stop it, or stopping */
	STEPS_BLOCKING,	 /* about to make a start here impossible */
	STEPS_BLOCKED,	 /* a start here is impossible */
	STEPS_PROVEN,	 /* and the copy there is whole, on its disk */
	STEPS_RETIRING,	 /* about to mark the source moved-away */
	STEPS_RETIRED,	 /* the source is moved-away, and a commit may have
			    been ordered: in doubt from here */
	STEPS_COMMITTED, /* the destination owns it, and we know */
	STEPS_NEVER,	 /* it will never run there: going back */
	STEPS_RESTORED,	 /* the source is as it was; a staging area may be
			    left there, which a rerun takes up */
	STEPS_DONE,	 /* moved and cleaned up; journal closed */
	STEPS_GIVEN_UP,	 /* restored, nothing left there; journal closed */
	STEPS_COUNT,
};

/* The word in the journal: "open", "blocking", ... */
const char *steps_state_name(enum steps_state s);

/* The state of that name, or -1. */
int steps_state_of(const char *name);

/* Whether `to` may follow `from`. */
bool steps_allowed(enum steps_state from, enum steps_state to);

/* Which host owns the container in this state. */
enum steps_owner {
	STEPS_SOURCE,	   /* this one */
	STEPS_DESTINATION, /* the other one */
	STEPS_DOUBT,	   /* the destination's journal says */
};
enum steps_owner steps_owner(enum steps_state s);
const char *steps_owner_name(enum steps_owner o);

/* What is owed to bring the source back, newest first. */
#define STEPS_UNDO_UNRETIRE 1
#define STEPS_UNDO_UNBLOCK 2
#define STEPS_UNDO_START 4 /* bring it to the state that it had */
unsigned steps_undo(enum steps_state s);

/* Whether a session in this state binds the container to its destination. */
bool steps_is_open(enum steps_state s);

/* Whether anything of it is left to be done on either host. */
bool steps_is_unfinished(enum steps_state s);

/* What a rerun does next. `start`: the container is to be up there, so that
 * a committed one is not yet all. */
enum steps_action {
	STEPS_GO_ON = 1, /* restore the source's state, begin again in the same
			    session: the destination adopts what it has */
	STEPS_AFRESH,	 /* the session is dead there: restore, new session */
	STEPS_TAKE_OVER, /* order the commit (again) */
	STEPS_ASK_NEVER, /* have it journalled there that it never runs */
	STEPS_GO_BACK,	 /* it never runs there: un-retire */
	STEPS_FORWARD,	 /* the destination owns it: clean up */
	STEPS_REFUSE,	 /* the journals contradict each other: touch nothing */
};
enum steps_action steps_rerun(enum steps_state src, enum msg_dst_state dst,
			      bool start);
const char *steps_action_name(enum steps_action a);

#endif
