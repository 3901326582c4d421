/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcpriv: what the files of the source's half share. Only for src*.c.
 */
#ifndef MIGRATE_SRCPRIV_H
#define MIGRATE_SRCPRIV_H

#include <stdio.h>
#include <unistd.h>

#include "migrate/hostid.h"
#include "migrate/src.h"
#include "migrate/srccontrol.h"
#include "report/logfile.h"

/* One migration at work; lives on src_migrate's stack. */
struct src {
	const struct src_env *env;
	const struct plan_ct *want;
	struct src_result *r;
	const struct ct_kind *kind;
	struct ct ct; /* as loaded, or made from the session's facts */
	bool loaded;  /* it is from the host, with files and state */
	int lockfd;   /* the runtime's lock, -1: not held */
	bool locked;  /* kind->lock succeeded */
	struct srcsession *s;
	const char *take_back; /* src_take_back's session; or NULL */
	bool give_up;	       /* --abort */
	bool taken_up;	       /* the session is an earlier run's */
	bool hands_off;	       /* refused: not even undone */
	bool want_back;	       /* the commit failed: do not order it again */
	bool opened;	/* the agent has this session on this connection */
	uint32_t epoch; /* of the last OPEN */
	enum msg_dst_state dst;	     /* the agent's last word on the session */
	struct msg_open_reply place; /* of the last OPEN; owned */
	uint32_t drop_flags;	     /* inode flags that mean nothing there */
	bool tame;		     /* the tree is read through a tame view */
	struct ledger *ledger; /* of the passes while it runs; NULL: none */
	struct images images;  /* of the last pass */
	bool stop_ordered;     /* by this process */
	int64_t down_ms;       /* when the stop was ordered; 0: it was not */
	uint64_t total_files, total_bytes; /* as surveyed, for the display */
	unsigned pass;			   /* the one under way, or the last */
	struct srccontrol *control; /* NULL: not made yet, or not possible */
	enum steps_step step;
	int64_t step_from_ms;
	struct logfile *log; /* or NULL */
	int log_sink;	     /* -1: none */
};

/* Begin a step: times, log, progress, and whether a signal asks to stop
 * (E_CANCELLED). */
int src_enter(struct src *m, enum steps_step step, struct err *e);

/* For src_current_undo; a constant string. */
void src_set_undo(const char *what);

/* For --status, from outside: where it stands. One thread at a time. */
void src_note(const struct src *m, uint64_t files, uint64_t bytes);

/* E_CANCELLED where a signal came, else 0. */
int src_stopped(const struct src *m, struct err *e);

/* srcopen.c: step 1. Session and container are known then, and locked. */
int src_lock(struct src *m, struct err *e);

/* srcopen.c: the part of step 1 that takes up an unfinished session: 1 taken
 * up, 0 there is none. */
int src_lock_open(struct src *m, struct err *e);

/* srcopen.c: it is locked: replace `e` by who is at work on it and what to do.
 * E_BUSY. */
int src_explain_busy(const struct src *m, struct err *e);

/* srchand.c: what src_take_back and src_give_up do, the container being
 * locked and its session open here. */
int src_un_retire(struct src *m, struct err *e);
int src_end_session(struct src *m, struct err *e);

/* srcopen.c: step 2. The session is open on both hosts then; `dst` is known.
 */
int src_connect(struct src *m, struct err *e);

/* E_STATE where a container in state `s` cannot be moved. */
int src_may_move(const struct src *m, enum ct_state s, struct err *e);

/* srcstop.c: the state now, and which life it is. */
int src_life(const struct src *m, struct ct_life *l, struct err *e);

/* srcstop.c: step 6: block a start here, and stop it; seen stopped. */
int src_stop(struct src *m, struct err *e);

/* srcstop.c: bring it to what it was before that. Idempotent. */
int src_start_again(struct src *m, struct err *e);

/* What it is to be on the destination: a state to bring it into, or 0 to
 * leave it stopped. */
uint8_t src_wanted_there(const struct src *m);

/* Load the container `word` into m->ct, replacing what is there. */
int src_load(struct src *m, const char *word, struct err *e);

/* The plan's facts; `host` is the destination's host id. All borrowed. */
void src_facts(const struct src *m, const char *host,
	       struct srcsession_facts *f);

/* Begin the session with the plan's facts: state "open". */
int src_begin(struct src *m, struct err *e);

/* OPEN the session on a live connection; fills epoch, dst, place. */
int src_open(struct src *m, struct err *e);

/* Both, and the record again with what was learned of the place. */
int src_begin_open(struct src *m, struct err *e);

/* Give up what the destination has of the session: ABORT. */
int src_abort(struct src *m, bool keep, struct err *e);

/* srcback.c: bring the source back to what it was, and record it: everything
 * that steps_undo owes, newest first. */
int src_restore(struct src *m, struct err *e);

/* srcback.c: after an error while the source owns the container: restore,
 * tell the destination, close. `e` keeps the first error; what became of the
 * source is added to it. Returns e->code. */
int src_roll_back(struct src *m, struct err *e);

/* srcback.c: from "retired" on: find out, and go forward or back until one
 * host owns the container for certain. 1: the destination (state
 * "committed"); 0: the source again (state "restored", `e` says why);
 * E_UNKNOWN; other errors: not undone. */
int src_settle(struct src *m, struct err *e);

/* srcback.c: act on what the journals of both hosts say at the beginning. 0:
 * go on with the checks; 1: the destination has it; errors. */
int src_resume(struct src *m, struct err *e);

/* srcpass.c: step 5 of one that is up: the passes while it runs. */
int src_rounds(struct src *m, struct err *e);

/* srcpass.c: the last pass, or the only one, and its proof; state "proven".
 */
int src_pass(struct src *m, struct err *e);

/* Keep what the checks found, for the result. */
void src_found(struct src *m, const struct send_survey *s,
	       const struct fsprobe *fs);

/* srccheck.c: step 3, all findings reported. */
int src_check(struct src *m, struct err *e);

#endif
