/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_ship: the last step of a sending thread: compress a content frame
 * where that helps, and give it to the link.
 */
#ifndef XFER_SEND_SHIP_H
#define XFER_SEND_SHIP_H

#include "base/err.h"
#include "xfer/compress.h"
#include "xfer/link.h"

/* As link_send; `c` may be NULL. `lane` is the thread's own number, below
 * COMPRESS_LANES. */
int send_ship(struct compress *c, unsigned lane, struct link *l,
	      struct pool_frame *f, struct err *e);

#endif
