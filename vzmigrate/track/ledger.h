/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ledger: what the sender knows the destination holds (design.md, section 9):
 * for each name what its inode looked like when it was read, and what it adds
 * to the proof; for large files a digest of each block.
 *
 * It is a tree of directories, each with a table of its names, as passes walk
 * it. During a pass a directory belongs to the one thread that lists it, so
 * nothing is locked. Memory: 64 bytes for a name, its bytes and one more, and
 * 5 to 9 for its place in the directory's table.
 */
#ifndef TRACK_LEDGER_H
#define TRACK_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "track/blocks.h"

#define LEDGER_LANES 16 /* threads at once */

struct ledger;

enum ledger_flag {
	LEDGER_KNOWN = 1,   /* the destination has what `seen`, `proof` and
			       `content` say; else it may have anything */
	LEDGER_SUSPECT = 2, /* may have changed without a trace since */
	LEDGER_DIR = 4,	    /* `sub` is a directory */
	LEDGER_LARGE = 8,   /* `sub` is a file: it came in chunks, and the
			       destination has the blocks that it says */
	LEDGER_LINK = 16,   /* `sub` is a group */
};

/* One name. */
struct ledger_entry {
	struct digest seen;  /* ledger_seen when it was read; of a LINK none */
	struct digest proof; /* what the name adds */
	struct digest content; /* of small files, links and devices: what META
				  leaves as it is */
	uint32_t name;	       /* where its bytes are */
	uint32_t sub;	       /* by flags; 0: none */
	uint32_t pass;	       /* in which it was met last */
	uint8_t flags;	       /* enum ledger_flag */
	uint8_t type;	       /* enum fs_type; 0: never sent */
};

/* What is there of a file that came in chunks. */
struct ledger_file {
	struct blocks *blocks; /* owned */
	uint64_t size;
	uint32_t flags; /* inode flags that only an empty file can be given */
};

/* The names of one inode. */
struct ledger_group {
	struct digest seen;
	struct digest proof; /* what the group adds besides its names */
	struct digest content;
	uint32_t id;	/* on the wire; 0: none yet */
	uint32_t names; /* that the destination has */
	uint32_t refs;	/* entries that point here (atomic) */
	uint32_t file;	/* with LEDGER_LARGE in flags */
	uint8_t flags;
	uint8_t type;
};

/* A directory. */
struct ledger_dir {
	uint32_t *slot;	 /* entries' numbers, 0: free; owned if cap > few */
	uint32_t few[4]; /* the table of a small directory */
	uint32_t cap;	 /* a power of two */
	uint32_t count;
	uint32_t met;	  /* of them, in this pass */
	uint32_t no;	  /* its own number */
	uint32_t parent;  /* its parent's; the root's own */
	uint32_t entry;	  /* its name's */
	uint32_t listed;  /* pass in which it was opened for listing */
	uint32_t scan_id; /* its id in that pass's scan */
	uint32_t touched; /* pass in which something in it was sent */
	uint32_t sent;	  /* pass in which its own entry was sent */
};

/* `k` is copied. NULL with E_NOMEM or E_SYSTEM. */
struct ledger *ledger_new(const struct digest_key *k, struct err *e);
void ledger_free(struct ledger *l);

/* Begin a pass. E_STATE where the one before was not committed, or the number
 * is not the next (the first is 1). */
int ledger_begin(struct ledger *l, unsigned pass, struct err *e);
/* The agent has confirmed the pass: what was noted in it holds. */
void ledger_commit(struct ledger *l);

/* What statx (STATX_BASIC_STATS, STATX_BTIME where it is there) tells of an
 * inode that changes when it or its content does: number, birth, size, mtime,
 * ctime, type. */
struct digest ledger_seen(const struct ledger *l, const struct statx *stx);

struct ledger_dir *ledger_root(struct ledger *l);

/* The thread that is going to list `d` says so. */
void ledger_list(struct ledger *l, struct ledger_dir *d, uint32_t scan_id);

/*
 * Name `name` was met in `d`. `*en` is its entry, made if it is new (all zero
 * but the name). 1: it was there in an earlier pass; 0: new; E_EXISTS (without
 * a text): met in this pass already. E_NOMEM, E_LIMIT. Of a directory whose
 * listing was begun.
 */
int ledger_meet(struct ledger *l, unsigned lane, struct ledger_dir *d,
		const char *name, size_t len, struct ledger_entry **en,
		struct err *e);

/* What ledger_sweep calls: a name that is not there any more. */
typedef int ledger_gone_fn(struct ledger_dir *d, const char *name, size_t len,
			   void *arg, struct err *e);

/* Forget all names of `d` that were not met in this pass, after `gone` was
 * called for each that an earlier pass knew. 0 or its error. */
int ledger_sweep(struct ledger *l, unsigned lane, struct ledger_dir *d,
		 ledger_gone_fn *gone, void *arg, struct err *e);

/* Forget what `en` was, with all below it; the name stays met. */
void ledger_reset(struct ledger *l, unsigned lane, struct ledger_entry *en);

/* The directory that `en`, a name in `d`, is; made where it is none yet (after
 * ledger_reset where it was something else). NULL with E_NOMEM, E_LIMIT. */
struct ledger_dir *ledger_subdir(struct ledger *l, unsigned lane,
				 struct ledger_dir *d, struct ledger_entry *en,
				 struct err *e);
/* The entry that `d` is. */
struct ledger_entry *ledger_entry_of(struct ledger *l, struct ledger_dir *d);
struct ledger_dir *ledger_parent(struct ledger *l, struct ledger_dir *d);

/* Number to object; 0 gives NULL. */
struct ledger_file *ledger_file(struct ledger *l, uint32_t no);
struct ledger_group *ledger_group(struct ledger *l, uint32_t no);
/* A new file or group; its number in `*no`. NULL with E_NOMEM, E_LIMIT. */
struct ledger_file *ledger_file_new(struct ledger *l, unsigned lane,
				    uint32_t *no, struct err *e);
struct ledger_group *ledger_group_new(struct ledger *l, unsigned lane,
				      uint32_t *no, struct err *e);
/* 0 is allowed. */
void ledger_file_drop(struct ledger *l, unsigned lane, uint32_t no);
/* Make `en` (after ledger_reset) a name of group `no`. The group goes with its
 * last name, and its file with it. */
void ledger_join(struct ledger *l, struct ledger_entry *en, uint32_t no);

/* Borrowed; not NUL-terminated. */
const char *ledger_name(const struct ledger *l, const struct ledger_entry *en,
			size_t *len);
/* Append the path of `d` below the root ('/'-joined). 0, E_NOMEM, E_LIMIT. */
int ledger_path(struct ledger *l, const struct ledger_dir *d, struct buf *b,
		struct err *e);

/* The counter of ids on the wire, which goes on from pass to pass. */
uint32_t *ledger_ids(struct ledger *l);

/* Content bytes that were sent in all committed passes and this one. */
uint64_t ledger_add_bytes(struct ledger *l, uint64_t sent);

/*
 * Tell the wall clock's distance from the monotonic one, in ns, whenever it is
 * looked at. Once it has fallen (the clock was set back), times prove nothing
 * any more: ledger_doubts is true from then on.
 */
void ledger_clock(struct ledger *l, int64_t distance);
bool ledger_doubts(const struct ledger *l);

struct ledger_stats {
	uint64_t entries, dirs, files, groups;
	uint64_t bytes; /* of memory */
};
/* Between passes. */
void ledger_stats(struct ledger *l, struct ledger_stats *s);

#endif
