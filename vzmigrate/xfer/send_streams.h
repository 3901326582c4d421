/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_streams: the data streams beside a control link: opens them one after
 * another, replaces those that die, and decides how many there are to be. All
 * in a thread of its own; the copy never waits for it.
 */
#ifndef XFER_SEND_STREAMS_H
#define XFER_SEND_STREAMS_H

#include <stdint.h>

#include "base/bytechan.h"
#include "base/err.h"
#include "xfer/link.h"

struct send_streams;

struct send_streams_opts {
	unsigned count; /* with the control stream; 0: as many as pay */
	/* A channel to one more agent on the same host. Blocks, but not for
	 * long once *stop is set. From one thread at a time, not the
	 * caller's. */
	int (*dial)(void *arg, const int *stop, struct bytechan **c,
		    struct err *e);
	/* That channel is in use: `stop` is not to end its waits any more.
	 * May be NULL. */
	void (*dialled)(void *arg, struct bytechan *c);
	void *arg; /* of both; borrowed */
	struct link_opts link;
};

/* Opens nothing. `control` is borrowed until free. NULL with E_NOMEM. */
struct send_streams *send_streams_new(struct link *control,
				      const struct send_streams_opts *o,
				      struct err *e);

/* A pass begins, or has ended, in which so much is expected to be sent (0:
 * not known). Streams are opened in between, and stay. Does not block. */
void send_streams_begin(struct send_streams *s, uint64_t bytes, uint64_t files);
void send_streams_end(struct send_streams *s);

/* Streams that carry now, and the most at once so far; the control stream is
 * one of them. Any thread. */
unsigned send_streams_now(struct send_streams *s);
unsigned send_streams_most(struct send_streams *s);

/* Close them. Blocks for some seconds at most. NULL is allowed. */
void send_streams_free(struct send_streams *s);

#endif
