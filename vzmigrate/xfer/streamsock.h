/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * streamsock: how one agent hands its two descriptors to another on the same
 * host, which serves them as a data stream: a Unix socket in a directory that
 * only this user may enter, named by an id that the client has been told.
 */
#ifndef XFER_STREAMSOCK_H
#define XFER_STREAMSOCK_H

#include <stdint.h>

#include "base/err.h"
#include "wire/msg.h"

struct streamsock;

/* What is handed over; whoever takes it closes the descriptors. */
struct streamsock_peer {
	uint32_t request; /* the JOIN's id, for its reply */
	struct msg_join m;
	int in, out; /* of the stream */
	int sock;    /* closed: the other agent may end */
};

/* Takes all or nothing: 0, or an error which the other agent tells its
 * client. From a thread of streamsock; must not block for long. */
typedef int streamsock_fn(const struct streamsock_peer *p, void *arg,
			  struct err *e);

/* Listen in `dirfd` (borrowed until close). Sockets that others left there
 * when they died are removed. `fn` is called for whoever comes. */
int streamsock_open(int dirfd, streamsock_fn *fn, void *arg,
		    struct streamsock **s, struct err *e);
/* MSG_ID_LEN random bytes; borrowed. */
const uint8_t *streamsock_id(const struct streamsock *s);
/* Stop listening; `fn` is not called any more. NULL is allowed. */
void streamsock_close(struct streamsock *s);

/*
 * The other side: give `in` and `out` (borrowed; to be closed then) to the
 * agent that m->id names. Returns a descriptor that ends when that agent is
 * done with them; E_DENIED where it refuses or there is none. Blocks for some
 * seconds at most.
 */
int streamsock_hand_over(int dirfd, uint32_t request, const struct msg_join *m,
			 int in, int out, struct err *e);

#endif
