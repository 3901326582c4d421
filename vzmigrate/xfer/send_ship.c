/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_ship: see the header. The time in link_send is what the tuner takes
 * for waiting; it has no state of its own.
 */
#include "xfer/send_ship.h"

int
send_ship(struct compress *c, unsigned lane, struct link *l,
	  struct pool_frame *f, struct err *e)
{
	uint32_t raw = f->len, wire;
	int64_t now;
	int rc;

	if (!c) {
		return link_send(l, f, e);
	}
	if (link_caps(l) & FRAME_CAP_ZSTD) {
		compress_pack(c, lane, f);
	}
	wire = f->len;
	compress_wait(c, lane, true, compress_now());
	rc = link_send(l, f, e);
	now = compress_now();
	compress_wait(c, lane, false, now);
	if (rc == 0 && compress_sent(c, lane, raw, wire, now)) {
		compress_tick(c, link_in_flight(l), now);
	}
	return rc;
}
