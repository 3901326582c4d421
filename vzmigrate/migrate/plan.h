/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan: what the person asked for, before anything is looked at.
 */
#ifndef MIGRATE_PLAN_H
#define MIGRATE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ct/ct.h"
#include "fs/meta.h"
#include "migrate/rounds.h"

/* What becomes of the source copy after success (-r). */
enum plan_remove {
	PLAN_REMOVE_DEFAULT = 0, /* the kind's own default */
	PLAN_REMOVE_YES,	 /* destroy it */
	PLAN_REMOVE_NO,		 /* keep it, retired */
};

/* The same for all containers of one run. All strings are borrowed. */
struct plan {
	const struct ct_kind *kind; /* --kind; NULL: detect */
	struct ct_host host;	    /* this host's settings */
	const char *dst_lxcpath;    /* the other host's, or NULL */
	const char *dst_vz_conf;
	const char *nodeps; /* checks that are not to end the run, or NULL */
	enum plan_remove remove;
	enum meta_policy metadata; /* what cannot be held there */
	bool nostart;		   /* leave it stopped there */
	struct rounds_opts rounds; /* of passes while it runs */
	int64_t stop_ms;	   /* to stop when asked; then by force */
	bool keep_dst;		   /* leave the staging area after a failure */
	bool check_only;	   /* stop after the checks */
	bool compact, snapshot;	   /* of a ploop image, before it is read */
	int compress;		   /* COMPRESS_AUTO, or the level; 0: none */
	uint64_t limit_speed;	   /* bytes per second; 0: no limit */
	bool limit_cutover;	   /* it holds during the cut-over, too */
};

/* One container of the command line: CT[:NEWCT[:NEWPRIVATE[:NEWROOT]]], or
 * SRC_DIR[:DST_DIR]. Zero-initialise; plan_ct_fini frees. */
struct plan_ct {
	char *word; /* id, name or path on this host; owned */
	char *new_id, *new_name, *new_private, *new_root; /* owned or NULL */
};

/*
 * Take `text` apart. `kind` decides which form it is; with NULL a word that
 * begins with '/' or '.' is a path. A backslash makes a following colon or
 * backslash part of the word; an empty part stands for "not given". 0;
 * E_USAGE; E_NOMEM; `c` is empty on error.
 */
int plan_ct_parse(struct plan_ct *c, const char *text,
		  const struct ct_kind *kind, struct err *e);

void plan_ct_fini(struct plan_ct *c);

/* Whether the source copy is destroyed after success. */
bool plan_removes(const struct plan *p, const struct ct_kind *kind);

#endif
