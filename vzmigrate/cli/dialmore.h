/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dialmore: further agents beside the one that dial_open has started, for data
 * streams.
 */
#ifndef CLI_DIALMORE_H
#define CLI_DIALMORE_H

#include "base/bytechan.h"
#include "base/err.h"
#include "cipher/cpu.h"
#include "cli/dial.h"

/*
 * For struct srcconn_opts. A connection to the same
 * address, which must show the same host key; the credential that worked is
 * used again, and no question asked. Where the server limits connections it is
 * tried again with growing pauses. `stop`: set to end the waits soon. May run
 * in another thread than dial_open, one at a time; the channel owns its
 * connection, and must be gone before that of dial_open. `there`: what is known
 * of the other host's processor by now; where the order of ciphers follows the
 * hardware, it follows both.
 */
int dialmore_open(struct dial *d, enum hw there, const int *stop,
		  struct bytechan **c, struct err *e);

/* From here on `stop` does not end that channel's waits. */
void dialmore_used(struct bytechan *c);

#endif
