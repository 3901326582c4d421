/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * src: the source's half of a migration: moves one container, or finishes or
 * takes back a move that was broken off (design.md section 7).
 */
#ifndef MIGRATE_SRC_H
#define MIGRATE_SRC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ct/ct.h"
#include "migrate/plan.h"
#include "migrate/srcconn.h"
#include "migrate/srcsession.h"
#include "migrate/steps.h"
#include "report/progress.h"
#include "xfer/send.h"

/* The same for all containers of a run. Borrowed. */
struct src_env {
	const struct plan *plan;
	struct srcconn *conn;
	const char *dest;    /* "root@host", for messages and records */
	const char *log_dir; /* where each migration's log goes; NULL:
				none */
	struct progress
		*progress; /* paused; shown during the passes. Or NULL */
	struct compress *compress; /* or NULL: nothing is compressed */
	struct limit *limit;	   /* of the connection's rate; or NULL */
	const volatile int *stop;  /* set by a signal; or NULL */
	/* In doubt about the destination: so many attempts to reach it, the
	 * first pause in ms; it doubles each time. */
	unsigned tries;
	unsigned pause_ms;
};

/* What the checks found. */
struct src_found {
	/* What it is here, and would be there; 0: the kind has no states. */
	enum ct_state state, state_there;
	bool removes; /* the source copy would be destroyed */
	uint64_t entries;
	uint64_t bytes;			  /* of content */
	uint64_t disk_bytes;		  /* that they take here */
	uint64_t free_bytes, free_inodes; /* there; UINT64_MAX: not known, no
					     limit */
	char fs[16];			  /* type of the file system there */
};

/* What became of it, also after an error. src_result_fini frees. */
struct src_result {
	enum steps_step step;	/* the last one begun */
	enum steps_owner owner; /* who has the container now */
	bool remote;		/* the error is the other host's */
	bool moved;		/* the destination has it */
	bool copied;		/* moved, and the source is of use still */
	bool checked;		/* --dry-run: only checked, all well */
	bool clean_up_failed;	/* moved, but something was left undone */
	bool not_undone;	/* the source could not be restored */
	char session[SRCSESSION_HEX];
	char *kind, *id; /* owned; NULL before it was found */
	char *new_id;	 /* on the destination; owned; NULL: not known */
	char *dst_tree;	 /* owned; NULL: not known */
	char *kept;	 /* where the source copy is; owned; NULL: gone */
	/* All that is to be removed to be rid of it (ct_kind.remains),
	 * absolute paths; owned; none where that cannot be said. */
	char **remains;
	size_t nremains;
	char *log_path; /* owned; or NULL */
	struct src_found found;
	struct send_result sent; /* of the last pass */
	unsigned passes;
	uint64_t sent_bytes;  /* content, in all passes */
	uint64_t resent;      /* of it after the first */
	uint64_t final_bytes; /* sent, or read to compare, in the last */
	/* Of its content frames: before compression, after it, and how many
	 * were compressed. */
	uint64_t raw_bytes, wire_bytes, packed;
	unsigned streams;    /* the most that carried it; 0: nothing was sent */
	bool verified;	     /* the proof was compared in this run */
	int64_t ms;	     /* of the whole */
	int64_t downtime_ms; /* from the order to stop until it was up there;
				-1: not known, or it was not up */
	int64_t step_ms[STEP_LAST + 1];
};

/*
 * Move `ct`. 0: moved, or checked; else why not, with the source restored
 * unless `not_undone` or the owner is in doubt (E_UNKNOWN). `r` is filled in
 * every case. Blocks for as long as it takes.
 */
int src_migrate(const struct src_env *env, const struct plan_ct *ct,
		struct src_result *r, struct err *e);

/*
 * Without asking the destination, which is gone for good: bring the source of
 * an unfinished migration of `ct` back. `session` must be its id in hex, as a
 * confirmation (E_USAGE). E_NOT_FOUND where there is none; E_STATE where the
 * destination is known to own the container. `r` as above. Uses no connection
 * of `env`. Blocks on the disk.
 */
int src_take_back(const struct src_env *env, const struct plan_ct *ct,
		  const char *session, struct src_result *r, struct err *e);

/*
 * End the unfinished migration of `ct`: the source as it was, nothing left on
 * the destination. E_NOT_FOUND where there is none; E_STATE where the
 * destination has the container; E_UNKNOWN as src_migrate. Where only the
 * destination cannot be reached the source is as it was, and the error says
 * so. Blocks.
 */
int src_give_up(const struct src_env *env, const struct plan_ct *ct,
		struct src_result *r, struct err *e);

/* Whether this host has what `word` says, or is in a migration of it: so that
 * a wrong name is told before the first of several containers goes. 0,
 * E_NOT_FOUND, E_USAGE where it is ambiguous. */
int src_known(const struct plan *p, const char *word, struct err *e);

void src_result_fini(struct src_result *r);

/* The step that is at work in this process, for a second signal; any thread.
 */
enum steps_step src_current_step(void);

/* What is being undone in this process, for the same: borrowed until the
 * process ends; NULL: nothing. */
const char *src_current_undo(void);

#endif
