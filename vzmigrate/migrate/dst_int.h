/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_int: what the files of migrate/dst* share. Not for others.
 */
#ifndef MIGRATE_DST_INT_H
#define MIGRATE_DST_INT_H

#include <stdbool.h>

#include "ct/ct.h"
#include "fs/meta.h"
#include "migrate/dst.h"
#include "migrate/dst_rec.h"
#include "migrate/journal.h"

#define DST_TREE "tree" /* within the staging area */

struct dst {
	struct dst_opts opts; /* its pointers are borrowed */
	char **roots;	      /* opts.allow_roots with symlinks followed */
	size_t nroots;	      /* 0 and no allow_roots: anywhere */
	struct {
		char boot[64], host[256], kernel[128], machine[128];
	} hello; /* what the answer to HELLO points to */

	/* ---- the open session ---- */
	bool open;
	char hex[2 * MSG_ID_LEN + 1]; /* its id */
	char *path;		      /* of its directory, for messages */
	int fd;			      /* of its directory */
	struct journal *j;	      /* its lock is ours */
	uint32_t epoch;		      /* ours */
	struct dst_rec rec;	      /* what the journal says */
	const struct ct_kind *kind;
	struct dst_params p; /* as of this OPEN; or as reserved */
	bool other_words;    /* OPEN asked for another place than reserved */
	char *source;	     /* for messages */
	bool keep;	     /* --keep-dst */
	bool told_aside;     /* where the tree that ran here is kept */
	enum meta_policy policy;

	struct ct_file *files; /* the CT's files; owned */
	size_t nfiles;
	bool files_new; /* by PUT_FILE in this connection: not on disk yet */

	int stagefd, treefd;   /* since RESERVE; else -1 */
	struct receiver *recv; /* of the passes of this connection */
	uint32_t pass;	       /* the last one that was begun */
	bool final;	       /* and whether it is the final one */
	bool receiving;	       /* between PASS_BEGIN and PASS_END */
};

/* ---- dst.c ---- */

/* Append an event and take it into d->rec: checked before, on disk after.
 * `f` are its fields (those with NULL values are left out). */
int dst_event(struct dst *d, enum dst_event ev, const struct journal_field *f,
	      size_t n, struct err *e);

/* Fill from d->p and d->files; all borrowed. */
void dst_want(struct dst *d, struct ct_want *w);
void dst_host(struct dst *d, struct ct_host *h);
void dst_place(struct dst *d, struct ct_place *p);

/* ---- dst_open.c ---- */

/* OPEN: leave the session that is open and open another. */
int dst_open(struct dst *d, struct msg_open *m, struct msg_open_reply *r,
	     struct err *e);
/* The container's files may have a word in the place, and they come after
 * OPEN: decide again where new ones came. */
int dst_place_again(struct dst *d, struct err *e);
/* Let the session go: journal, descriptors, receiver. */
void dst_close(struct dst *d);

/* ---- dst_fence.c ---- */

/* Take the session's lock, waiting for its holder. Closing the descriptor
 * releases it. E_BUSY. */
int dst_lock(struct dst *d, int *fd, struct err *e);

/* The same for OPEN, which is going to end the session's old agent anyway:
 * one that is stopped while it holds the lock is ended now. */
int dst_lock_to_open(struct dst *d, int *fd, struct err *e);

/* dst_lock, then see that no newer connection owns the session. E_FENCED. */
int dst_enter(struct dst *d, int *fd, struct err *e);

/* Under the lock: raise the epoch (into d->epoch), end the agent that served
 * the session before, and note this process as its agent. E_BUSY where it
 * will not end. */
int dst_fence(struct dst *d, struct err *e);

/* This process no longer serves the session; best effort. */
void dst_unfence(struct dst *d);

/* ---- dst_files.c ---- */

/* Take one CT file in (memory only). */
int dst_put_file(struct dst *d, struct msg_put_file *m, struct err *e);
/* Write d->files into a new files-EPOCH and its `file` events. */
int dst_store_files(struct dst *d, struct err *e);
/* Read what the reservation has. */
int dst_load_files(struct dst *d, struct err *e);
/* Remove all files-N but those of generation `keep` (0: all); best effort. */
void dst_drop_files(struct dst *d, uint32_t keep);
void dst_free_files(struct dst *d);

/* ---- dst_stage.c ---- */

/* RESERVE. */
int dst_reserve(struct dst *d, struct err *e);
/* Delete staging area and reservation; harmless where they are gone. */
int dst_unstage(struct dst *d, struct err *e);
int dst_release(struct dst *d, struct err *e);
/* Make the empty staging area's directory again or remove it where empty. */
int dst_stage_dir_make(struct dst *d, struct err *e);
void dst_stage_dir_drop(struct dst *d);
/* Absolute path of the staging area, and of the tree in it; caller frees. */
char *dst_stage_path(struct dst *d, struct err *e);
char *dst_tree_path(struct dst *d, struct err *e);
/* E_BUSY naming the other session that holds the place. Changes nothing. */
int dst_reserved_by_other(struct dst *d, struct err *e);
/* Whether everything of the place is inside the allowed roots. E_DENIED. */
int dst_allowed(struct dst *d, struct err *e);

/* ---- dst_check.c ---- */

/* What the file system can hold. Where nothing can be written that is a
 * finding, and r->fs is empty. */
void dst_fsprobe(struct dst *d, struct msg_check_reply *r);
int dst_check(struct dst *d, const struct msg_check *m,
	      struct msg_check_reply *r, struct err *e);

/* ---- dst_pass.c ---- */

int dst_pass_begin(struct dst *d, const struct msg_pass *m, struct err *e);
/* `*p` is all zeros where the pass is not the final one. */
int dst_pass_end(struct dst *d, const struct msg_pass *m, struct msg_proof *p,
		 struct err *e);
int dst_pass_list(struct dst *d, uint64_t from, struct buf *reply,
		  struct err *e);
int dst_pass_sync(struct dst *d, struct err *e);
/* No content is taken any more; the receiver is freed. */
void dst_pass_stop(struct dst *d);

/* ---- dst_commit.c ---- */

/* After a replay: finish what a crash left between two events of a commit or
 * of its undoing. */
int dst_settle(struct dst *d, struct err *e);
int dst_take_over(struct dst *d, const struct msg_take_over *m,
		  struct msg_take_over_reply *r, struct err *e);
int dst_never(struct dst *d, struct msg_state *r, struct err *e);
int dst_abort(struct dst *d, const struct msg_abort *m, struct msg_state *r,
	      struct err *e);
int dst_finish(struct dst *d, struct msg_state *r, struct err *e);

/* ---- dst_start.c ---- */

/* Under the session's lock, after `committed`: bring it into the state `want`
 * and see that it lives. `*since_ms`: how long it is up already,
 * MSG_UP_UNKNOWN where it was so before. E_START: it is stopped, as far as
 * that could be done. Blocks for the start and LIFE_MS. */
int dst_start(struct dst *d, enum ct_state want, uint64_t *since_ms,
	      struct err *e);
/* Whether it was started here by this session, or may have been. */
bool dst_was_started(const struct dst *d);
/* Stop at once what was started here. */
int dst_stop_started(struct dst *d, struct err *e);
/* The staging area, whose tree ran here, gets a name that nothing deletes.
 * Idempotent; said in the log, which the client shows. */
int dst_keep_aside(struct dst *d, struct err *e);

#endif
