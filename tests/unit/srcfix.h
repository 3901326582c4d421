/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcfix: a world for the source's half: a kind of container that is a few
 * files, a sender that sends nothing, and an agent in a process of its own
 * that keeps its sessions in files and does as it is told.
 */
#ifndef TESTS_SRCFIX_H
#define TESTS_SRCFIX_H

#include <stdbool.h>

#include "migrate/src.h"

/* What the agent does, once, when the request comes. Kept in a file, so that
 * it holds for all agents of the test until it was done. */
enum srcfix_trick {
	TRICK_NONE = 0,
	TRICK_DIE_BEFORE, /* end without acting */
	TRICK_DIE_AFTER,  /* act, then end without an answer */
	TRICK_REFUSE,	  /* answer with an error */
	TRICK_DIFFER,	  /* PASS_END: another proof */
	TRICK_FINDINGS,	  /* CHECK: two errors and a warning */
	TRICK_FINDING,	  /* CHECK: one error */
	TRICK_HANG,	  /* no answer, no sign of life */
};

extern const struct ct_kind srcfix_kind;

/* The container is of a kind that can be stopped and started; it runs while
 * the file "running" is there. "no-stop": it cannot be stopped, "no-start": it
 * does not start on the destination. */
extern bool srcfix_up;
bool srcfix_running(void);

/* A directory of the test's own, a container "ct1" in it, and the state
 * directory in it too. */
int srcfix_setup(void **state);
int srcfix_teardown(void **state);

/* Have the agent play `trick` at `method`, answering with `code` where it
 * refuses. With SRCFIX_CUT as the code an agent that dies cannot be started
 * again until srcfix_unreachable(false). */
#define SRCFIX_CUT 1
void srcfix_trick(enum srcfix_trick trick, enum msg_method method, int code);

/* No agent can be started from now on, or again. */
void srcfix_unreachable(bool on);

/* Another host answers from now on. */
void srcfix_host(int n);

/* One migration of "ct1". The result is kept until the next. */
extern struct src_result srcfix_result;
extern struct err srcfix_err;
extern bool srcfix_check_only, srcfix_keep_dst;
extern enum plan_remove srcfix_remove;
extern const char *srcfix_new_id;
extern volatile int srcfix_stop;
extern unsigned srcfix_keepalive_ms; /* who is silent is given up after 15 */
int srcfix_run(void);

/* src_take_back with this session. */
int srcfix_take_back(const char *session);

/* srcfix_run in a process of its own with VZMIGRATE_FAULT set to `fault`. 0: it
 * ended with that result (in `*rc`), 1: it was killed. */
int srcfix_run_apart(const char *fault, int *rc);

/* The world: whether the container is startable here, marked as moved, still
 * has its tree; whether the destination owns it, and how many sessions are
 * unfinished there. */
bool srcfix_startable(void);
bool srcfix_retired(void);
bool srcfix_tree(void);
bool srcfix_dst_owns(void);
int srcfix_dst_leftovers(void);
/* Set the state of every session there. */
void srcfix_dst_set(enum msg_dst_state s);
/* The state in the source's journal, NEW where there is none, and how many
 * closed ones lie beside it. */
enum steps_state srcfix_state(void);
void srcfix_history(int *closed);

/* Files that make the kind or the sender behave: "running", "raced",
 * "locked", "no-retire", "no-destroy", "interrupt", "vanished"; and the
 * agent: "no-commit". */
void srcfix_mark(const char *name, bool on);

#endif
