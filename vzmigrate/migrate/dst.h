/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst: the destination's half of a migration: answers the requests of
 * wire/msg.h, keeps the session's journal, and owns the staging area.
 *
 * What is on disk of a session, below the state directory:
 *
 *	sessions/ID/lock	who may act for the session; never removed
 *				while it lives
 *	sessions/ID/epoch	raised by every OPEN, before anything else
 *	sessions/ID/agent	the process that serves it: pid, start time,
 *				boot, pid namespace
 *	sessions/ID/journal	see dst_rec.h for its events
 *	sessions/ID/files-N/	the CT's files
 *	reserve/KIND:WHAT:NAME	holds the session's id
 *
 * and STAGE_DIR/.vzmigrate-ID/tree, the staging area.
 */
#ifndef MIGRATE_DST_H
#define MIGRATE_DST_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "wire/msg.h"

struct dst;
struct receiver;

/* All borrowed until dst_free. */
struct dst_opts {
	/* Where trees may be put; none: anywhere. Absolute paths. */
	const char *const *allow_roots;
	size_t nallow_roots;
	/* Longest wait for the session's lock, and then for the old agent's
	 * end; 0: DST_FENCE_MS. */
	int64_t fence_ms;
	/* Where content goes from now on (server_set_receiver); NULL: none
	 * is expected. */
	void (*set_receiver)(void *arg, struct receiver *r);
	/* The connection's key (server_key). */
	const struct digest_key *(*key)(void *arg);
	void *arg; /* of both */
};

/* A commit takes seconds at most; an agent that does not end after SIGKILL
 * hangs in its kernel, which is worth telling soon. */
#define DST_FENCE_MS 60000

/* E_NOMEM. Touches nothing on disk. */
int dst_new(const struct dst_opts *o, struct dst **d, struct err *e);

/* The answer to HELLO; its strings belong to `d`. Where this user may not
 * write the state directory the host id is all zeros. May block on the
 * disk. */
int dst_hello(struct dst *d, struct msg_hello_reply *r, struct err *e);

/*
 * Answer one request (any but HELLO). `reply` gets the body. Errors are those
 * of the steps; E_STATE where the request does not fit the session's state,
 * E_FENCED where a newer connection owns the session, E_PROTOCOL for a
 * malformed body or an unknown method. Blocks. One thread at a time.
 */
int dst_request(struct dst *d, enum msg_method method, const uint8_t *body,
		size_t len, struct buf *reply, struct err *e);

/* The connection ended without GOODBYE, for the reason given: noted in the
 * journal; staging area and reservation stay. */
void dst_link_lost(struct dst *d, const char *why);

/* Ends this process's part in the session. What is on disk stays. NULL is
 * allowed. */
void dst_free(struct dst *d);

/*
 * Remove the directories of sessions that ended more than DST_KEEP_DAYS ago,
 * looking at a bounded number of them. Problems are logged and pass. Blocks
 * on the disk.
 */
#define DST_KEEP_DAYS 30
void dst_clean_old(void);

#endif
