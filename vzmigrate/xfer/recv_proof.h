/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_proof: walk what was written, read its metadata back, and sum it up
 * with the content digests of what was written.
 */
#ifndef XFER_RECV_PROOF_H
#define XFER_RECV_PROOF_H

#include <stdint.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "wire/msg.h"
#include "xfer/inomap.h"
#include "xfer/losses.h"
#include "xfer/proofcache.h"

/* All borrowed. */
struct recv_proof_in {
	int rootfd;
	const struct digest_key *key;
	struct inomap *inodes; /* by inode number on this file system */
	struct losses *losses;
	const struct proofcache *cache; /* sealed; or NULL: read all */
	struct proofcache *fill;	/* to be filled and sealed; or NULL */
};

/* A page of the list for MSG_PROOF_LIST. */
struct recv_proof_page {
	uint64_t from;	   /* first entry's number */
	struct buf *reply; /* u32 count, then path bytes and digest each */
};

/* Fills p->entries and p->sum (p->bytes is left 0); with `page` one thread
 * walks, and the list is filled instead. Blocks. */
int recv_proof_walk(const struct recv_proof_in *in, struct msg_proof *p,
		    struct recv_proof_page *page, struct err *e);

#endif
