/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_dirs: the directories a sender has met, and which of them the agent
 * has been told of. Ids are the scan's; a directory gets one for the wire when
 * it is first spoken of, so that those are few where little has changed.
 * Thread-safe.
 */
#ifndef XFER_SEND_DIRS_H
#define XFER_SEND_DIRS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct send_dirs;

struct send_dirs_def {
	uint32_t wire;
	uint32_t parent; /* on the wire */
	char name[256];
	size_t name_len;
};

struct send_dirs *send_dirs_new(struct err *e);
void send_dirs_free(struct send_dirs *t);

/* A directory was met; its parent was before. */
int send_dirs_add(struct send_dirs *t, uint32_t id, uint32_t parent,
		  const char *name, size_t name_len, struct err *e);

/* Append to `chain` (u32 each, child first) `id` and those above it which are
 * neither sent nor in the list `having` (u32 each) of the batch at hand. They
 * have ids on the wire from then on. */
int send_dirs_unsent(struct send_dirs *t, uint32_t id, const struct buf *having,
		     struct buf *chain, struct err *e);

/* The id on the wire of one that has been spoken of. */
uint32_t send_dirs_wire(struct send_dirs *t, uint32_t id);

/* What to put into the definition. `id` was added before. */
void send_dirs_get(struct send_dirs *t, uint32_t id, struct send_dirs_def *d);

/* The batch with these definitions is queued. */
void send_dirs_sent(struct send_dirs *t, const uint32_t *ids, size_t n);

#endif
