/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ct: the kinds of container behind one table of operations. Nothing outside
 * ct/ asks which kind it is; a new kind is a new row in ct_kinds[].
 *
 * One half of the operations serves the source (find, block, retire,
 * destroy), the other the destination (place, check, commit, disable). None
 * copies the tree and none keeps a journal: that is xfer/ and migrate/.
 */
#ifndef CT_CT_H
#define CT_CT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "fs/images.h"

enum ct_state {
	CT_STOPPED = 1,
	CT_RUNNING = 2,
	CT_FROZEN = 3,
	CT_MOUNTED = 4,	  /* openvz: mounted, not running */
	CT_SUSPENDED = 5, /* openvz: a dump file exists */
};

/* "stopped", "running", ... */
const char *ct_state_name(enum ct_state s);

/* The state of that name; CT_STOPPED for any other word and NULL. */
enum ct_state ct_state_of(const char *name);

/* Whether something of it is up, which a move has to stop first. */
bool ct_state_is_up(enum ct_state s);

/* What tells one life of a container from the next. */
struct ct_life {
	enum ct_state state;
	long init;	/* pid of its init, as this host sees it; 0: the kind
			   cannot tell */
	uint64_t since; /* when that process started, clock ticks since boot */
};

/* This host's settings; where a field is NULL the kind's default applies.
 * Borrowed strings. Environment of the command line and of the agent. */
struct ct_host {
	const char *lxcpath;   /* default: lxc-config lxc.lxcpath, else
				  /var/lib/lxc */
	const char *vz_conf;   /* default /etc/vz/vz.conf */
	const char *vz_etc;    /* default: its directory, /etc/vz */
	const char *lock_dir;  /* openvz: overrides LOCKDIR; lxc, dir: default
				  /run/vzmigrate/lock */
	const char *proc_vz;   /* OpenVZ's kernel; default /proc/vz */
	const char *state_dir; /* our own marks; default /var/lib/vzmigrate */
};

/* A file that belongs to the container beside its tree: its configuration,
 * action scripts, ... Travels in a message, so it is small. */
#define CT_FILE_MAX (480u << 10) /* fits into one request */
#define CT_FILES_MAX 256
struct ct_file {
	char *role; /* kind's own word: "config", "action.start", "extra/NAME",
		       "origin" (facts about the source, for place and check;
		       never written to disk); [a-z0-9./_-]; owned */
	uint8_t *data; /* owned */
	size_t len;
	uint16_t mode; /* 07777 */
	uint32_t uid, gid;
};

/* What an earlier run left on the source. */
enum ct_mark {
	CT_FREE = 0,	/* nothing */
	CT_BLOCKED = 1, /* block was done: a start is impossible */
	CT_RETIRED = 2, /* retire was done: it lives elsewhere, or will */
};

/* "free", "blocked", "retired" */
const char *ct_mark_name(enum ct_mark m);

/* A container as found on the source. One that is blocked or retired is
 * loaded all the same, since a rerun has to go on with it: look at `mark`. */
struct ct {
	const struct ct_kind *kind;
	char *id;	     /* canonical: CTID, lxc name, or absolute path */
	char *name;	     /* openvz NAME, else NULL */
	char *tree;	     /* absolute path of the root file system */
	char *mount_root;    /* openvz VE_ROOT, else NULL */
	enum ct_state state; /* when it was loaded */
	enum ct_mark mark;   /* dir: never CT_RETIRED, as it is only a copy */
	char *tag;	     /* the session that retired it, or NULL */
	bool autostart;	     /* starts at boot */
	struct ct_file *files;
	size_t nfiles;
	char **notes; /* what is not carried and why, for the person; owned */
	size_t nnotes;
};

/* Free what `c` holds, not `c` itself, which is zero afterwards. */
void ct_free(struct ct *c);

/* What the destination is asked to make. Borrowed strings. */
struct ct_want {
	const char *id;		 /* the CT's id on the source */
	const char *name;	 /* or NULL */
	const char *new_id;	 /* --new-id, or NULL: the same */
	const char *new_name;	 /* --new-name, or NULL: the same */
	const char *new_private; /* or NULL: by the destination's own rules */
	const char *new_root;	 /* or NULL */
	const struct ct_file *files;
	size_t nfiles;
	enum ct_state start; /* what it is to be there; 0: it stays stopped */
	const char *nodeps;  /* --nodeps: checks that do not end the run; or
				NULL */
};

/* Whether the words of `list`, parted by commas, have `word`. */
bool ct_in_list(const char *list, const char *word);

/* Whether `check` is in w->nodeps, or "all" is. */
bool ct_nodeps(const struct ct_want *w, const char *check);

/* Where the container will live on the destination. All strings owned. */
struct ct_place {
	char *id;	  /* final id */
	char *name;	  /* final name or NULL */
	char *tree;	  /* final absolute path of the tree */
	char *stage_dir;  /* existing directory in which migrate/ makes the
			     staging area; same file system as `tree` */
	char *mount_root; /* or NULL */
};

void ct_place_fini(struct ct_place *p);

/* One finding of a check; collected so that all are shown at once. */
struct ct_finding {
	int code;     /* enum err_code that it would end the run with */
	bool warning; /* true: told, but does not end the run */
	char *text;   /* what, and what to do next; owned */
};
#define CT_FINDINGS_MAX 64
struct ct_findings {
	struct ct_finding v[CT_FINDINGS_MAX];
	size_t n;
};
/* printf form; past CT_FINDINGS_MAX it is dropped. */
void ct_finding_add(struct ct_findings *f, int code, bool warning,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void ct_findings_fini(struct ct_findings *f);

/* One path of what is left of a container; borrowed. Not 0 ends the walk. */
typedef int ct_remains_fn(const char *path, void *arg, struct err *e);

struct ct_kind {
	const char *name; /* "openvz", "lxc", "dir" */
	/* Which of the words after the host: CT id or name, or a path. */
	bool by_path;
	/* The source is destroyed after success unless told (-r). */
	bool remove_default;

	/* ---- source ---- */
	/* Whether `word` names a container of this kind here: 1, 2 where it
	 * is one that was retired, 0, or an error. Cheap; runs no program. */
	int (*probe)(const struct ct_host *h, const char *word, struct err *e);
	/* Load it all. E_NOT_FOUND; E_UNSUPPORTED for a root file system that
	 * is not a plain directory (named); E_CONFIG. */
	int (*load)(const struct ct_host *h, const char *word, struct ct *c,
		    struct err *e);
	/* Take the runtime's lock (openvz: LOCKDIR/CTID.lck as the classic
	 * tool does; lxc, dir: a lock of ours). `*lockfd` is held until
	 * unlock. E_BUSY names the holder; distinct texts for busy, no
	 * permission, no directory. A stale lock of a dead process is taken
	 * over. */
	int (*lock)(const struct ct_host *h, const struct ct *c, int *lockfd,
		    struct err *e);
	void (*unlock)(const struct ct_host *h, const struct ct *c, int lockfd);
	/* The state now. */
	int (*state)(const struct ct_host *h, const struct ct *c,
		     enum ct_state *s, struct err *e);
	/* Make a start here impossible, also after a reboot; durable when it
	 * returns; repeating it is harmless. unblock undoes it exactly. */
	int (*block)(const struct ct_host *h, const struct ct *c,
		     struct err *e);
	int (*unblock)(const struct ct_host *h, const struct ct *c,
		       struct err *e);
	/* From blocked to moved-away: configuration renamed to `.migrated`,
	 * autostart off, durable; never renames the tree. unretire goes back
	 * to blocked, and leaves alone what was unblocked since. Both are
	 * idempotent. `tag` is the session's id, noted in
	 * what is left behind. */
	int (*retire)(const struct ct_host *h, const struct ct *c,
		      const char *tag, struct err *e);
	int (*unretire)(const struct ct_host *h, const struct ct *c,
			const char *tag, struct err *e);
	/* ---- both: what is up. NULL where the kind has no runtime ---- */
	/* The state and, where it runs, its init. */
	int (*life)(const struct ct_host *h, const struct ct *c,
		    struct ct_life *l, struct err *e);
	/* Bring it down, whatever is up of it: asked nicely and given `ms`
	 * milliseconds, then as the runtime does when told to hurry; with 0 at
	 * once so. The runtime's lock is the caller's. 0: seen stopped;
	 * E_STOP. */
	int (*stop)(const struct ct_host *h, const struct ct *c, int64_t ms,
		    struct err *e);
	/* Bring a stopped one into the state `to`: CT_RUNNING, CT_FROZEN or
	 * CT_MOUNTED; one that is there already stays so. The runtime's lock
	 * is the caller's. 0: seen in that state, or (CT_RUNNING) the runtime
	 * said that it started; E_START. */
	int (*start)(const struct ct_host *h, const struct ct *c,
		     enum ct_state to, struct err *e);
	/* The runtime cannot stop one that is blocked: so it is stopped first,
	 * and its lock keeps others from a start meanwhile. */
	bool stop_first;

	/* ---- source again ---- */
	/* Before anything is read, its lock being the caller's: compact the
	 * image that its root file system is in, or make a snapshot of it. 1;
	 * 0: there is none, nothing was done; E_COPY. NULL: the kind has no
	 * images. */
	int (*prepare)(const struct ct_host *h, const struct ct *c,
		       bool compact, bool snapshot, struct err *e);
	/* Before a pass: which files of the tree block devices are made of, to
	 * be given to images_fini in every case. NULL: the kind has none. With
	 * `up` something of it is up, and what its own file systems hold back
	 * is written to them first; else no such device may be left: E_STATE.
	 */
	int (*images)(const struct ct_host *h, const struct ct *c, bool up,
		      struct images *im, struct err *e);
	/* After a retire: delete tree, configuration and what belongs to it. */
	int (*destroy)(const struct ct_host *h, const struct ct *c,
		       struct err *e);
	/* After a retire: give `fn` each path that a person removes, with all
	 * below it, to be rid of the copy that is kept here; none where the
	 * container was made anew since. NULL: the tree. What `fn` returned,
	 * or an error. */
	int (*remains)(const struct ct_host *h, const struct ct *c,
		       ct_remains_fn *fn, void *arg, struct err *e);

	/* ---- both: what is asked for, by itself ---- */
	/* E_USAGE for a wish that no host could meet; so it is told before one
	 * is connected to. */
	int (*wish)(const struct ct_want *w, struct err *e);

	/* ---- destination ---- */
	/* Decide the place from this host's configuration. E_CONFIG, E_USAGE.
	 */
	int (*place)(const struct ct_host *h, const struct ct_want *w,
		     struct ct_place *p, struct err *e);
	/* Look whether anything is in the way (S5: stopped, running, only
	 * config, only tree, dangling symlink: code E_EXISTS) or missing.
	 * Adds findings; an error only where the checks cannot run. */
	int (*check)(const struct ct_host *h, const struct ct_want *w,
		     const struct ct_place *p, struct ct_findings *f,
		     struct err *e);
	/* The staged tree is at `staged` (absolute path). Move it to its place
	 * with RENAME_NOREPLACE, write what belongs beside it, write the
	 * configuration last and exclusively, fsync parents, all under the
	 * runtime's lock. Idempotent: steps that are done already are
	 * recognised. After an error nothing of it is visible to the runtime.
	 * E_EXISTS where something took the place meanwhile. */
	int (*commit)(const struct ct_host *h, const struct ct_want *w,
		      const struct ct_place *p, const char *staged,
		      struct err *e);
	/* Undo a commit that has not started the container: configuration
	 * away first, then the tree back to `staged`. Idempotent. */
	int (*uncommit)(const struct ct_host *h, const struct ct_want *w,
			const struct ct_place *p, const char *staged,
			struct err *e);
	/* Whether the runtime knows the container at `p` now. 1, 0, error. */
	int (*registered)(const struct ct_host *h, const struct ct_place *p,
			  struct err *e);
};

/* NULL-terminated. */
extern const struct ct_kind *const ct_kinds[];

/* By its name; NULL where there is none. */
const struct ct_kind *ct_kind_find(const char *name);

/*
 * Find the kind of `word` by asking every kind's probe. E_NOT_FOUND lists
 * where it was looked for; E_USAGE when several kinds have it, listing them
 * and --kind. */
int ct_detect(const struct ct_host *h, const char *word,
	      const struct ct_kind **kind, struct err *e);

#endif
