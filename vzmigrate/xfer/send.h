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
#include "wire/msg.h"
#include "xfer/compress.h"
#include "xfer/link.h"

/* What was found while sending. send_result_fini frees. */
struct send_result {
	struct msg_proof proof; /* what the agent must come to as well */
	uint64_t files, dirs, links, others;
	uint64_t bytes; /* content read and sent */
	char **mounts;	/* mount points below the root, not crossed; paths
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
};

/*
 * One full pass over the tree at `rootfd` (borrowed) whose container is
 * stopped: everything is sent once. A file that vanishes, changes while it is
 * read, or cannot be read ends the pass (E_CHANGED, E_SYSTEM), naming it.
 * Blocks. Other errors are the link's.
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

/* Walk the tree's metadata (no content). What vanishes meanwhile is passed
 * over. Blocks. */
int send_survey(int rootfd, const struct send_opts *o, struct send_survey *s,
		struct err *e);

/*
 * After a mismatch: compare the agent's list with the tree, read again, and
 * describe the first few differing paths in `out` (one line, escaped). Blocks
 * for as long as reading everything takes.
 */
int send_explain(int rootfd, struct link *l, const struct digest_key *key,
		 uint32_t drop_flags, char *out, size_t outlen, struct err *e);

#endif
