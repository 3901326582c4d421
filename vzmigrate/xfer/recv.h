/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv: the receiver's half of the pump: unframes tree records, writes files
 * with a pool of workers, applies directories' metadata last, and reads all
 * back for the proof. One receiver serves all passes over a tree.
 */
#ifndef XFER_RECV_H
#define XFER_RECV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "fs/meta.h"
#include "wire/msg.h"
#include "xfer/pool.h"

struct receiver;

struct recv_opts {
	unsigned workers; /* 0: as many as processors, 2 to 8 */
	enum meta_policy policy;
	bool track; /* more passes may follow: keep what they need */
};

/* A receiver for the first pass, into the empty directory `rootfd` (borrowed
 * until free). */
int recv_new(int rootfd, const struct digest_key *key,
	     const struct recv_opts *o, struct receiver **r, struct err *e);

/* Called by the receiver from its workers: a frame is finished with (its
 * buffer is back in its pool; `from` is its `from`); the first thing that went
 * wrong. */
typedef void recv_done_fn(void *arg, void *from);
typedef void recv_fault_fn(const struct err *why, void *arg);
void recv_bind(struct receiver *r, recv_done_fn *done, recv_fault_fn *fault,
	       void *arg);

/* A BATCH or CHUNK frame; taken over, also on error. Reads definitions,
 * queues the rest: never blocks on the disk. Any thread. E_PROTOCOL,
 * E_NOMEM end the connection. */
int recv_frame(struct receiver *r, struct pool_frame *f, struct err *e);

/*
 * From now on frames come on several streams, so that a definition may come
 * after what needs it: such a frame is put aside until then. For `patience_ms`
 * at most, or until recv_drain: then it is a fault. Any thread.
 */
void recv_streams(struct receiver *r, int64_t patience_ms);

/* Wait until every frame taken is finished with. */
void recv_drain(struct receiver *r);

/*
 * After the last content frame: wait for the workers, make the hard links,
 * apply directories' metadata (the root's immutable and append-only flags
 * excepted: recv_root_flags). 0, or the first fault of the pass. Blocks.
 */
int recv_finish(struct receiver *r, struct err *e);

/*
 * Begin another pass, an update of what the passes before made: after a
 * recv_finish that succeeded, of a receiver made with `track`. E_STATE, the
 * fault of an earlier pass, E_NOMEM, E_SYSTEM.
 */
int recv_update(struct receiver *r, struct err *e);

/*
 * After recv_finish: have on disk what the passes since the last recv_sync
 * wrote. After one update of modest size that is done file by file, so that
 * nobody else's dirty pages are waited for; else by syncfs. Nothing is done
 * twice. Blocks. E_SYSTEM, E_NOSPACE.
 */
int recv_sync(struct receiver *r, struct err *e);

/*
 * After recv_finish: read all back and remember it, so that the recv_proof of
 * a later pass need not open again what that pass leaves alone. Blocks.
 */
int recv_read_back(struct receiver *r, struct err *e);

/* Walk what was written, read its metadata back, join it with the content
 * digests of what was written. Blocks. */
int recv_proof(struct receiver *r, struct msg_proof *p, struct err *e);

/* recv_sync and recv_proof at the same time: one waits for the disk, the other
 * for the processor. 0 when both succeeded. */
int recv_prove(struct receiver *r, struct msg_proof *p, struct err *e);

/* The root directory's inode flags that must wait for the commit. */
uint32_t recv_root_flags(const struct receiver *r);

/* A page of (path, digest) of a second walk, for MSG_PROOF_LIST: entries from
 * number `from` on, into `reply` as msg.h says. */
int recv_proof_list(struct receiver *r, uint64_t from, struct buf *reply,
		    struct err *e);

/* Stops the workers. NULL is allowed. */
void recv_free(struct receiver *r);

#endif
