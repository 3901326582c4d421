/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sendfix: an agent in a thread of the test that takes what the sender sends,
 * confirms it, and writes it down as lines of text:
 *
 *	DIR PATH, FILE ID PATH SIZE, UPDATE ID PATH SIZE, HOLE ID OFF LEN,
 *	ENTRY PATH PIECES BYTES, LINK PATH, END ID CHUNKS, REMOVE PATH,
 *	META PATH, CHUNK ID OFF LEN
 *
 * Ids are those on the wire; the root's path is ".". Where an inode has
 * several names, its group follows as " =ID".
 */
#ifndef TESTS_SENDFIX_H
#define TESTS_SENDFIX_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/digest.h"
#include "xfer/link.h"

struct sendfix {
	struct digest_key key;
	bool quiet; /* count only */
	bool hold;  /* take nothing more after the first content frame */
	int fds[2]; /* client, agent */
	pthread_t thread;
	struct link *l;
	pthread_mutex_t lock; /* the rest, and `hold` */
	pthread_cond_t changed;
	bool holding; /* as `hold` says, it waits */
	struct buf log;
	uint64_t frames, bytes; /* content frames, their payloads */
	char *dirs[4096];	/* paths of this pass's ids */
	uint32_t crc;		/* bytes of content, added up */
};

void sendfix_open(struct sendfix *x);
/* Wait until all that was sent is written down. */
void sendfix_settle(struct sendfix *x);
/* The lines since the last call, in the order of their text (borrowed until
 * the next call); for a pass, whose ids end. */
const char *sendfix_lines(struct sendfix *x);
/* Wait until the agent holds; let it go on. */
void sendfix_held(struct sendfix *x);
void sendfix_release(struct sendfix *x);
void sendfix_close(struct sendfix *x);

#endif
