/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzconf: where OpenVZ keeps things on this host: vz.conf, CTID.conf and the
 * names; and what both halves of the kind share. For ct/ alone.
 */
#ifndef CT_VZCONF_H
#define CT_VZCONF_H

#include "ct/ct.h"

/* CTIDs are 1 to this (vzctl's VEID_MAX). */
#define VZCONF_CTID_MAX 2147483644u

/* The names of a configuration beside CTID.conf. */
#define VZCONF_BLOCKED ".vzmigrate-blocked"
#define VZCONF_MIGRATED ".migrated"
#define VZCONF_SESSION ".migrated.session"

/* "", VZCONF_BLOCKED, VZCONF_MIGRATED: behind CTID.conf, by enum ct_mark. */
extern const char *const vzconf_suffixes[3];

extern const char *const vzconf_actions[]; /* "start", ...; NULL at the end */

/* The directories of this host, and the values for one container. Owned. */
struct vzconf {
	char *file;    /* vz.conf */
	char *dir;     /* directory of CTID.conf */
	char *names;   /* directory of the names */
	char *private; /* VE_PRIVATE, cleaned; NULL: not set */
	char *root;    /* VE_ROOT */
	char *lockdir; /* LOCKDIR */
	char *dumpdir; /* DUMPDIR */
	char *layout;  /* VE_LAYOUT of the container's own file, or NULL */
};

/*
 * Read vz.conf for the container `ctid` (decimal), and over it the text of
 * its own configuration where `own` is not NULL. E_CONFIG where there is no
 * vz.conf or a value cannot be used. `v` is to be given to fini in every
 * case.
 */
int vzconf_load(const struct ct_host *h, const char *ctid, const char *own,
		size_t own_len, struct vzconf *v, struct err *e);
void vzconf_fini(struct vzconf *v);

/* Whether there is a vz.conf. */
bool vzconf_here(const struct ct_host *h);

/* Whether `word` is a CTID by its form: a number, or (OpenVZ 7) a UUID, in
 * braces or not. */
bool vzconf_is_ctid(const char *word);

/* The canonical CTID of `word`, decimal or in lower case without braces; NULL
 * where it is none. Heap. E_USAGE for 0 and what is out of range. */
char *vzconf_ctid(const char *word, struct err *e);

/* The CTID that the name points to (names/NAME is a symlink to CTID.conf, or
 * with OpenVZ 7 to the ve.conf that has it); NULL where there is no such link.
 * Heap. */
char *vzconf_by_name(const struct ct_host *h, const char *name);

/* Whether vzctl would take it as a name. */
bool vzconf_name_ok(const char *name);

/* The value of `key` in the container's own configuration (may be NULL), else
 * in vz.conf. As shconf_get. */
int vzconf_value(const struct vzconf *v, const char *ctid, const char *own,
		 size_t own_len, const char *key, char **value, struct err *e);

/* "DIR/CTID.conf" + suffix; heap. */
char *vzconf_path(const struct vzconf *v, const char *ctid, const char *suffix,
		  struct err *e);

/*
 * The classic's lock, DIR/CTID.lck, which vzctl honours: a file with the pid
 * and an empty state line, made by link(2). `*fd` identifies it. E_BUSY names
 * the holder; E_DENIED, E_CONFIG for the directory. A lock whose process is
 * gone is taken over. Never waits.
 */
int vzlock_take(const struct ct_host *h, const struct vzconf *v,
		const char *ctid, int *fd, struct err *e);
/* Whether vzlock_take would succeed now, for a check: 0 or its error. Makes no
 * directory. */
int vzlock_try(const struct ct_host *h, const struct vzconf *v,
	       const char *ctid, struct err *e);
/* Remove the lock if it still is this one. */
void vzlock_release(const struct ct_host *h, const struct vzconf *v,
		    const char *ctid, int fd);

/* The kind's rows for the source's marks (openvzmark.c). */
int openvzmark_block(const struct ct_host *h, const struct ct *c,
		     struct err *e);
int openvzmark_unblock(const struct ct_host *h, const struct ct *c,
		       struct err *e);
int openvzmark_retire(const struct ct_host *h, const struct ct *c,
		      const char *tag, struct err *e);
int openvzmark_unretire(const struct ct_host *h, const struct ct *c,
			const char *tag, struct err *e);
int openvzmark_destroy(const struct ct_host *h, const struct ct *c,
		       struct err *e);
int openvzmark_remains(const struct ct_host *h, const struct ct *c,
		       ct_remains_fn *fn, void *arg, struct err *e);
/* Whether the private area is mounted on VE_ROOT, which vzctl cannot tell
 * once the configuration has another name. */
bool openvzmark_mounted(const struct ct *c);

/* The kind's rows for one that is up (openvzrun.c). */
int openvzrun_life(const struct ct_host *h, const struct ct *c,
		   struct ct_life *l, struct err *e);
int openvzrun_stop(const struct ct_host *h, const struct ct *c, int64_t ms,
		   struct err *e);
int openvzrun_start(const struct ct_host *h, const struct ct *c,
		    enum ct_state to, struct err *e);

/* The kind's row for its image (openvzprep.c). */
int openvzprep_image(const struct ct_host *h, const struct ct *c, bool compact,
		     bool snapshot, struct err *e);

/* The kind's rows for the destination (openvzdst.c). */
int openvzdst_wish(const struct ct_want *w, struct err *e);
int openvzdst_place(const struct ct_host *h, const struct ct_want *w,
		    struct ct_place *p, struct err *e);
int openvzdst_check(const struct ct_host *h, const struct ct_want *w,
		    const struct ct_place *p, struct ct_findings *f,
		    struct err *e);
int openvzdst_commit(const struct ct_host *h, const struct ct_want *w,
		     const struct ct_place *p, const char *staged,
		     struct err *e);
int openvzdst_uncommit(const struct ct_host *h, const struct ct_want *w,
		       const struct ct_place *p, const char *staged,
		       struct err *e);
int openvzdst_registered(const struct ct_host *h, const struct ct_place *p,
			 struct err *e);

#endif
