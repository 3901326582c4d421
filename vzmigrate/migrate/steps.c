/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * steps: the tables of a migration's source half. Input: states; output: what
 * may or must come next. No state, no I/O.
 *
 * The order of things, and who owns the container if we die there:
 *
 *	open        source       nothing was done here; passes may be under way
 *	stopping    source       undo: unblock, start
 *	blocking    source       undo: unblock, start
 *	blocked     source       undo: unblock, start
 *	proven      source       undo: unblock, start
 *	retiring    source       undo: unretire, unblock, start
 *	retired     in doubt     the same, once the destination has journalled
 *	                         that it never runs
 *	never       source       undo: unretire, unblock, start
 *	restored    source       nothing left to undo here
 *	given-up    source       closed
 *	committed   destination  nothing is undone any more
 *	done        destination  closed
 *
 * Most kinds are blocked and then stopped, one whose runtime cannot stop what
 * is blocked the other way round. Only what was up is started again, and that
 * after it may be started at all: so this undo comes last.
 *
 * The commit is ordered only after "retired" is on disk, so doubt begins
 * there and not before.
 */
#include "migrate/steps.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const step_names[] = {
	[STEP_NONE] = "start",	      [STEP_LOCK] = "lock",
	[STEP_CONNECT] = "connect",   [STEP_CHECK] = "check",
	[STEP_RESERVE] = "reserve",   [STEP_PASSES] = "passes",
	[STEP_STOP] = "stop",	      [STEP_FINAL] = "final pass",
	[STEP_RETIRE] = "retire",     [STEP_TAKE_OVER] = "take over",
	[STEP_CLEAN_UP] = "clean up",
};

const char *
steps_name(enum steps_step step)
{
	return (unsigned)step < COUNT(step_names) ? step_names[step] : "?";
}

#define BIT(s) (1u << (s))
#define UNDO_ALL (STEPS_UNDO_UNRETIRE | STEPS_UNDO_UNBLOCK | STEPS_UNDO_START)

/* Everything there is to say about a state. */
static const struct row {
	const char *name;
	unsigned next; /* BITs of the states that may follow */
	unsigned undo; /* STEPS_UNDO_... */
	enum steps_owner owner;
	bool open;
} rows[STEPS_COUNT] = {
	[STEPS_NEW] = { "new", BIT(STEPS_OPEN), 0, STEPS_SOURCE, false },
	[STEPS_OPEN] = { "open",
			 /* again: with the place on the destination */
			 BIT(STEPS_OPEN) | BIT(STEPS_BLOCKING) |
				 BIT(STEPS_STOPPING) | BIT(STEPS_RESTORED) |
				 BIT(STEPS_GIVEN_UP),
			 0, STEPS_SOURCE, false },
	[STEPS_STOPPING] = { "stopping",
			     BIT(STEPS_BLOCKING) | BIT(STEPS_PROVEN) |
				     BIT(STEPS_RESTORED),
			     STEPS_UNDO_UNBLOCK | STEPS_UNDO_START,
			     STEPS_SOURCE, true },
	[STEPS_BLOCKING] = { "blocking",
			     BIT(STEPS_BLOCKED) | BIT(STEPS_RESTORED),
			     STEPS_UNDO_UNBLOCK | STEPS_UNDO_START,
			     STEPS_SOURCE, true },
	[STEPS_BLOCKED] = { "blocked",
			    BIT(STEPS_STOPPING) | BIT(STEPS_PROVEN) |
				    BIT(STEPS_RESTORED),
			    STEPS_UNDO_UNBLOCK | STEPS_UNDO_START, STEPS_SOURCE,
			    true },
	[STEPS_PROVEN] = { "proven", BIT(STEPS_RETIRING) | BIT(STEPS_RESTORED),
			   STEPS_UNDO_UNBLOCK | STEPS_UNDO_START, STEPS_SOURCE,
			   true },
	[STEPS_RETIRING] = { "retiring", BIT(STEPS_RETIRED) | BIT(STEPS_NEVER),
			     UNDO_ALL, STEPS_SOURCE, true },
	[STEPS_RETIRED] = { "retired", BIT(STEPS_COMMITTED) | BIT(STEPS_NEVER),
			    UNDO_ALL, STEPS_DOUBT, true },
	[STEPS_COMMITTED] = { "committed", BIT(STEPS_DONE), 0,
			      STEPS_DESTINATION, true },
	[STEPS_NEVER] = { "never", BIT(STEPS_RESTORED), UNDO_ALL, STEPS_SOURCE,
			  true },
	[STEPS_RESTORED] = { "restored", BIT(STEPS_OPEN) | BIT(STEPS_GIVEN_UP),
			     0, STEPS_SOURCE, false },
	[STEPS_DONE] = { "done", BIT(STEPS_NEW), 0, STEPS_DESTINATION, false },
	[STEPS_GIVEN_UP] = { "given-up", BIT(STEPS_NEW), 0, STEPS_SOURCE,
			     false },
};

const char *
steps_state_name(enum steps_state s)
{
	return (unsigned)s < STEPS_COUNT ? rows[s].name : "?";
}

int
steps_state_of(const char *name)
{
	for (int i = 0; i < STEPS_COUNT; i++) {
		if (strcmp(rows[i].name, name) == 0) {
			return i;
		}
	}
	return -1;
}

bool
steps_allowed(enum steps_state from, enum steps_state to)
{
	return (unsigned)from < STEPS_COUNT && (unsigned)to < STEPS_COUNT &&
	       (rows[from].next & BIT(to));
}

enum steps_owner
steps_owner(enum steps_state s)
{
	return rows[s].owner;
}

const char *
steps_owner_name(enum steps_owner o)
{
	switch (o) {
	case STEPS_SOURCE:
		return "source";
	case STEPS_DESTINATION:
		return "destination";
	case STEPS_DOUBT:
		break;
	}
	return "unknown";
}

unsigned
steps_undo(enum steps_state s)
{
	return rows[s].undo;
}

bool
steps_is_open(enum steps_state s)
{
	return rows[s].open;
}

bool
steps_is_unfinished(enum steps_state s)
{
	return s != STEPS_NEW && s != STEPS_DONE && s != STEPS_GIVEN_UP;
}

#define DST_COUNT (MSG_DST_FINISHED + 1)

/* Short names, so that the table below can be read as one. */
#define GO STEPS_GO_ON
#define NEW STEPS_AFRESH
#define TAKE STEPS_TAKE_OVER
#define ASK STEPS_ASK_NEVER
#define BACK STEPS_GO_BACK
#define FWD STEPS_FORWARD
#define STOP STEPS_REFUSE

/*
 * What a rerun does, by the last state in the source's journal (rows) and in
 * the destination's (columns).
 *
 * - Before "retired" no commit was ever ordered: a destination that says it
 *   owns the container contradicts us, and both are left alone.
 * - From it on the destination must know the session and have proven the copy.
 *   "none" means that its journal is lost; whether the container runs there
 *   cannot be learned from it, so nothing is started.
 * - "reserved" after "retired" is a destination that lost its last record,
 *   never one that committed: it journals "never", and we go back.
 * - Once committed we do not need the destination any more.
 * - "never" here was written after the destination said so, or before any
 *   commit was ordered; one that owns the container now contradicts it.
 */
/* clang-format off */
static const uint8_t rerun[STEPS_COUNT][DST_COUNT] = {
	/*		       none  resv  prov  comm  run   never abort fin */
	[STEPS_NEW] =	     { GO,   GO,   GO,   STOP, STOP, NEW,  NEW,  NEW },
	[STEPS_OPEN] =	     { GO,   GO,   GO,   STOP, STOP, NEW,  NEW,  STOP },
	[STEPS_STOPPING] =   { GO,   GO,   GO,   STOP, STOP, NEW,  NEW,  STOP },
	[STEPS_BLOCKING] =   { GO,   GO,   GO,   STOP, STOP, NEW,  NEW,  STOP },
	[STEPS_BLOCKED] =    { GO,   GO,   GO,   STOP, STOP, NEW,  NEW,  STOP },
	[STEPS_PROVEN] =     { GO,   GO,   GO,   STOP, STOP, NEW,  NEW,  STOP },
	[STEPS_RETIRING] =   { GO,   GO,   GO,   STOP, STOP, NEW,  NEW,  STOP },
	[STEPS_RETIRED] =    { STOP, ASK,  TAKE, FWD,  FWD,  BACK, BACK, FWD },
	[STEPS_COMMITTED] =  { FWD,  FWD,  FWD,  FWD,  FWD,  FWD,  FWD,  FWD },
	[STEPS_NEVER] =	     { NEW,  NEW,  NEW,  STOP, STOP, NEW,  NEW,  STOP },
	[STEPS_RESTORED] =   { GO,   GO,   GO,   STOP, STOP, NEW,  NEW,  STOP },
	[STEPS_DONE] =	     { NEW,  NEW,  NEW,  NEW,  NEW,  NEW,  NEW,  NEW },
	[STEPS_GIVEN_UP] =   { NEW,  NEW,  NEW,  NEW,  NEW,  NEW,  NEW,  NEW },
};
/* clang-format on */

enum steps_action
steps_rerun(enum steps_state src, enum msg_dst_state dst, bool start)
{
	if ((unsigned)src >= STEPS_COUNT || (unsigned)dst >= DST_COUNT) {
		return STEPS_REFUSE;
	}
	/* It is there, but not yet seen to run: the order again ends that one
	 * way or the other. */
	if (start && src == STEPS_RETIRED && dst == MSG_DST_COMMITTED) {
		return STEPS_TAKE_OVER;
	}
	return rerun[src][dst];
}

const char *
steps_action_name(enum steps_action a)
{
	static const char *const names[] = {
		[STEPS_GO_ON] = "go on",
		[STEPS_AFRESH] = "begin afresh",
		[STEPS_TAKE_OVER] = "take over",
		[STEPS_ASK_NEVER] = "have it never run there",
		[STEPS_GO_BACK] = "go back",
		[STEPS_FORWARD] = "go forward",
		[STEPS_REFUSE] = "touch nothing",
	};

	return (unsigned)a < COUNT(names) && names[a] ? names[a] : "?";
}
