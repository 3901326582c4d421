/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send: the sender's half of the pump: walks the tree, reads it, and hands
 * frames to the link.
 */
#ifndef XFER_SEND_H
#define XFER_SEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "fs/images.h"
#include "track/ledger.h"
#include "wire/msg.h"
#include "xfer/compress.h"
#include "xfer/link.h"

/* What was found while sending. send_result_fini frees. */
struct send_result {
	/* What the agent must come to after a final pass: the sum over the
	 * whole tree; `bytes` are those sent in all passes on the ledger. */
	struct msg_proof proof;
	/* Looked at: without a ledger all; with one `dirs` are all, the others
	 * those that were read. */
	uint64_t files, dirs, links, others;
	uint64_t bytes; /* content sent in this pass */
	/* For the decision about another pass; with a ledger. */
	uint64_t sent_entries;	  /* records: entries, links, removals */
	uint64_t sent_bytes;	  /* the same as `bytes` */
	uint64_t reread_bytes;	  /* read only to compare */
	uint64_t changed_entries; /* not as the ledger knew them */
	uint64_t suspects;	  /* the next pass has to read these again, */
	uint64_t suspect_bytes;	  /* their size together, without holes */
	int64_t walk_ms; /* the walk alone, as if nothing had differed */
	char **mounts;	 /* mount points below the root, not crossed; paths
			    escaped for people; owned */
	size_t nmounts;
};

void send_result_fini(struct send_result *r);

/* Cheap counters a progress line reads while the pass runs. */
struct send_progress {
	uint64_t files; /* entries sent (atomic) */
	uint64_t bytes; /* content bytes sent (atomic) */
};

struct send_opts {
	unsigned threads; /* scanning and reading; 0: 2 to 4 by processors */
	struct send_progress *progress; /* or NULL */
	/* Set by a signal handler: stop with E_CANCELLED. Or NULL. */
	const volatile int *stop;
	struct compress *compress; /* or NULL: nothing is compressed */
	/* FS_*_FL bits to leave out: hints that the destination does not have
	 * (fsprobe_hints_lost). */
	uint32_t drop_flags;
	/* The root is a tame view (beneath_open_tame): files are opened
	 * without a look at their type first. */
	bool tame;
	/* What the destination has; borrowed. NULL: everything is sent once,
	 * and `pass`, `final` and `live` are of no account. */
	struct ledger *ledger;
	unsigned pass; /* as in PASS_BEGIN: 1, then one more each time */
	bool final;    /* as in PASS_BEGIN */
	/* Files that a block device may write to: they are read past the page
	 * cache, and those that are moving in every pass, whatever their times
	 * say. Borrowed; or NULL. */
	const struct images *images;
	/* The container runs: what vanishes is passed over, what changes while
	 * it is read is sent as it was read, and the next pass looks again. */
	bool live;
};

/*
 * One pass over the tree at `rootfd` (borrowed), between PASS_BEGIN and
 * PASS_END, which are the caller's. Without a ledger, or not live, a file that
 * vanishes or changes while it is read ends the pass (E_CHANGED); one that
 * cannot be read always does (E_SYSTEM), named in the text. Other errors are
 * the link's. Blocks.
 *
 * With a ledger, pass 1 fills it, and a later one sends what differs from it.
 * What a pass notes holds once PASS_END has succeeded: the caller then calls
 * ledger_commit. After any failure the ledger is of no use: begin with pass 1,
 * a new ledger and a new connection (another pass on it is E_STATE). The
 * ledger must have been made with `key`.
 *
 * A pass with a ledger begins with syncfs on the tree's file system, unless it
 * is final and not live.
 */
int send_tree(int rootfd, struct link *l, const struct digest_key *key,
	      const struct send_opts *o, struct send_result *r, struct err *e);

/* What a tree needs of its destination. */
struct send_survey {
	uint64_t bytes;	  /* allocated */
	uint64_t entries; /* names, the root among them */
	uint64_t inodes;
	uint64_t data;	    /* content without holes, as blocks tell: for the
			       progress line's total */
	uint64_t largest;   /* largest regular file's size */
	uint32_t caps;	    /* enum fsprobe_cap bits the tree needs */
	uint32_t xattr_max; /* largest xattr value */
};

/* Walk the tree's metadata (no content). What `there` can hold anyway is looked
 * for no further than it costs little, and may be missing in `caps` and
 * `xattr_max`; NULL: all is looked for. What vanishes meanwhile is passed over.
 * E_UNSUPPORTED as meta_read. Blocks. */
int send_survey(int rootfd, const struct send_opts *o,
		const struct fsprobe *there, struct send_survey *s,
		struct err *e);

/*
 * After a mismatch: compare the agent's list with the tree, read again, and
 * describe the first few differing paths in `out` (one line, escaped). Blocks
 * for as long as reading everything takes.
 */
int send_explain(int rootfd, struct link *l, const struct digest_key *key,
		 uint32_t drop_flags, char *out, size_t outlen, struct err *e);

#endif
