/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcsession: the source's record of one container's migration:
 * STATE/source/KIND-ID/journal, whose last record names the state, and its
 * lock. A closed one is renamed to `journal.SESSION` beside it.
 */
#ifndef MIGRATE_SRCSESSION_H
#define MIGRATE_SRCSESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ct/ct.h"
#include "migrate/journal.h"
#include "migrate/steps.h"
#include "wire/msg.h"

#define SRCSESSION_HEX (2 * MSG_ID_LEN + 1)

/* What the "open" record holds beside the session's id: enough to go on, or
 * back, when the container itself can no longer be loaded under its name.
 * Strings borrowed where it is given, owned by the session where it is read
 * from there; NULL: not said. */
struct srcsession_facts {
	const char *word; /* as the person wrote it */
	const char *kind, *id, *name, *tree, *mount_root;
	const char *dest;     /* "root@host", for messages */
	const char *dst_host; /* the destination's host id, hex */
	const char *new_id, *new_name, *new_private, *new_root;
	const char *dst_lxcpath, *dst_vz_conf;
	/* Its id and place there, as the destination said: not in the first
	 * record, which is written before it was asked. */
	const char *dst_id, *dst_tree;
};

struct srcsession;

/*
 * Look through all journals for a session that binds the container `word`
 * (steps_is_open) of `kind` (NULL: any), by its word, id, name, or path; with
 * `any` also for one that may only have left something on its destination. 1
 * with the kind's name and the id as owned strings; 0 where there is none;
 * E_USAGE where several kinds have one; E_CORRUPT, E_SYSTEM. Takes no lock.
 */
int srcsession_find(const char *word, const struct ct_kind *kind, bool any,
		    char **kind_name, char **id, struct err *e);

/* Every unfinished session, or those of `word`; the journal is only read, as
 * it may be in use. A positive or negative return of `fn` ends the walk. */
typedef int srcsession_fn(const struct srcsession *s, void *arg, struct err *e);
int srcsession_each(const char *word, srcsession_fn *fn, void *arg,
		    struct err *e);

/*
 * Open and lock the journal of container `id` of `kind`, making an empty one
 * where there is none; a closed one found there is put away first. E_BUSY
 * where another process has it. The caller closes.
 */
int srcsession_open(const char *kind, const char *id, struct srcsession **s,
		    struct err *e);

/* The session's directory and its path for messages; borrowed until
 * srcsession_close. */
int srcsession_dirfd(const struct srcsession *s);
const char *srcsession_dir(const struct srcsession *s);

/* Borrowed until the next srcsession_begin, _put_away or _close. In state NEW
 * the id is there already, the facts are not. */
enum steps_state srcsession_state(const struct srcsession *s);
const char *srcsession_hex(const struct srcsession *s); /* the id */
const uint8_t *srcsession_id(const struct srcsession *s);
const struct srcsession_facts *srcsession_facts(const struct srcsession *s);

/* Begin in state NEW (the id is new and random), or again in OPEN or RESTORED
 * (it is the same as before): the "open" record. `f` is copied. */
int srcsession_begin(struct srcsession *s, const struct srcsession_facts *f,
		     struct err *e);

/*
 * Go to `to` and have it on disk: the one place where the state changes. A
 * transition that steps_allowed refuses is a bug of ours. `why` (may be NULL)
 * goes into the record. After an error the state on disk is not known, and
 * further calls fail.
 */
int srcsession_set(struct srcsession *s, enum steps_state to, const char *why,
		   struct err *e);

/* The same to STOPPING or BLOCKING, with what the container was, for
 * srcsession_was. The first of both counts. */
int srcsession_set_was(struct srcsession *s, enum steps_state to,
		       const struct ct_life *was, struct err *e);

/* What it was before it was stopped or blocked; CT_STOPPED before that. */
const struct ct_life *srcsession_was(const struct srcsession *s);

/* After DONE or GIVEN_UP: put the journal away, so that the session can be
 * begun anew (state NEW). The lock stays. */
int srcsession_put_away(struct srcsession *s, struct err *e);

/* Whether both strings are absent or equal in `a` and `b` for all that
 * decides the place on the destination. */
bool srcsession_same_place(const struct srcsession_facts *a,
			   const struct srcsession_facts *b);

/* Release the lock, free. A journal without any record is removed, one that
 * is closed is put away. NULL is allowed. */
void srcsession_close(struct srcsession *s);

#endif
