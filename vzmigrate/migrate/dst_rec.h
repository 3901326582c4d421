/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_rec: what the destination's journal says: the session's state machine.
 * Only for migrate/dst*.
 *
 * Every event passes dst_rec_apply, live and in a replay, so that a state is
 * reached only by what is on disk. An act on the world stands between two
 * events: the first says what will be done (and so what is to be undone), the
 * second that it is done. A crash leaves the first alone, and the flags below
 * say so.
 *
 *	open		epoch pid source keep-dst policy
 *	file		gen n role mode uid gid size
 *	reserve		gen nfiles, and all of enum dst_param
 *	reserved
 *	unreserved	the reservation was refused, what was made is gone
 *	pass		number
 *	proven		sum entries bytes root-flags boot synced
 *	commit		ino btime: of the staged tree
 *	commit-failed	why
 *	committed
 *	start		state: about to be started
 *	started		state init since: the runtime says so
 *	start-failed	why ran
 *	running		it was seen to live
 *	undo		a commit is being undone
 *	never
 *	abort		keep
 *	kept
 *	aborted
 *	finish
 *	finished
 *	link-lost	why
 */
#ifndef MIGRATE_DST_REC_H
#define MIGRATE_DST_REC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ct/ct.h"
#include "migrate/journal.h"
#include "wire/msg.h"

/* What decides where a container goes, and where that is. Kept as strings
 * under these numbers, so that comparing, copying and recording are loops. */
enum dst_param {
	DP_KIND, /* struct msg_open */
	DP_LXCPATH,
	DP_VZ_CONF,
	DP_ID,
	DP_NAME,
	DP_NEW_ID,
	DP_NEW_NAME,
	DP_NEW_PRIVATE,
	DP_NEW_ROOT,
	DP_WORDS,		/* how many were asked for */
	DP_PLACE_ID = DP_WORDS, /* struct ct_place */
	DP_PLACE_NAME,
	DP_PLACE_TREE,
	DP_PLACE_STAGE_DIR,
	DP_PLACE_MOUNT,
	DP_COUNT
};

struct dst_params {
	char *v[DP_COUNT]; /* owned; NULL: not given */
};

/* The key of a parameter in the journal. */
const char *dst_param_key(enum dst_param i);
int dst_params_copy(struct dst_params *to, const struct dst_params *from,
		    struct err *e);
/* Whether the first `n` are the same. */
bool dst_params_same(const struct dst_params *a, const struct dst_params *b,
		     size_t n);
void dst_params_fini(struct dst_params *p);

enum dst_event {
	EV_OPEN,
	EV_FILE,
	EV_RESERVE,
	EV_RESERVED,
	EV_UNRESERVED,
	EV_PASS,
	EV_PROVEN,
	EV_COMMIT,
	EV_COMMIT_FAILED,
	EV_COMMITTED,
	EV_START,
	EV_STARTED,
	EV_START_FAILED,
	EV_RUNNING,
	EV_UNDO,
	EV_NEVER,
	EV_ABORT,
	EV_KEPT,
	EV_ABORTED,
	EV_FINISH,
	EV_FINISHED,
	EV_LINK_LOST,
	EV_COUNT
};

/* A CT file as the journal knows it; its bytes are in files-GEN/N. */
struct dst_file {
	char *role; /* owned */
	uint16_t mode;
	uint32_t uid, gid;
	uint64_t size;
};

struct dst_files {
	uint32_t gen; /* 0: there are none */
	struct dst_file *v;
	size_t n;
};

struct dst_rec {
	enum msg_dst_state state; /* the last settled one */
	bool reserving;		  /* reserve without reserved */
	bool committing;	  /* commit without committed */
	bool undoing;		  /* undo without never */
	bool starting;		  /* start without an outcome: it may run */
	bool ran;		  /* it ran here for this session; stays */
	bool aborting;		  /* abort without aborted or kept */
	bool never;		  /* "never" was said; stays */
	uint32_t epoch;		  /* of the last open */
	int64_t last_s;		  /* time of the last record */
	bool placed;		  /* p is what was reserved */
	struct dst_params p;
	struct dst_files files; /* of the reservation */
	struct dst_files next;	/* being written, for the next reserve */
	bool synced;		/* proven came after a completed sync */
	uint32_t root_flags;	/* inode flags the tree's root gets at last */
	uint64_t tree_ino;	/* of the staged tree, since commit */
	char tree_btime[40];	/* its birth; "" where it has none */
};

void dst_rec_fini(struct dst_rec *r);

/* The event's word in the journal. */
const char *dst_event_name(enum dst_event ev);

/* 0 where the event may happen now, else E_STATE saying why not. */
int dst_rec_allows(const struct dst_rec *r, enum dst_event ev, struct err *e);

/* Take one record in. E_CORRUPT where it cannot follow what was before. A
 * journal_replay_fn with the struct dst_rec as `arg`. */
int dst_rec_apply(const struct journal_record *jr, void *arg, struct err *e);

/* What is told to the client: an unfinished reserve or abort counts as
 * reserved, since there is something to be cleaned. */
enum msg_dst_state dst_rec_state(const struct dst_rec *r);

#endif
