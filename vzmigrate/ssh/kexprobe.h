/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kexprobe: what a server offers, read by ourselves from its first packet
 * (KEXINIT, RFC 4253 section 7.1) on a connection that ends there, before any
 * authentication. libssh's log (kexlog.h) needs no connection of its own, but
 * cuts lists at 1 KB and shows nothing where nothing is in common.
 */
#ifndef SSH_KEXPROBE_H
#define SSH_KEXPROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ssh/kexlog.h"
#include "ssh/sshconf.h"

/* Bytes of a server read at most: lines before its version, and packets as
 * large as OpenSSH takes (256 KiB). */
#define KEXPROBE_INPUT_MAX ((64u << 10) + (256u << 10) + 4)

/* Zero-initialise; kexprobe_fini frees. */
struct kexprobe {
	char banner[512];	   /* its version line, escaped */
	char *lists[KEXLOG_LISTS]; /* owned; names of printable ASCII with
				    * commas between, "" for none */
	bool strict_kex;	   /* it has the Terrapin counter-measure */
};

/*
 * Take apart what a server has sent so far, from its first byte. 1: `k` is
 * filled; 0: more is needed; E_PROTOCOL, E_LIMIT; E_CLOSED where it says
 * goodbye with a reason; E_NOMEM. For all but 1 `k` is empty.
 */
int kexprobe_parse(const uint8_t *data, size_t len, struct kexprobe *k,
		   struct err *e);

/*
 * Connect as `c` says (jump host and ProxyCommand, too), send our version,
 * read until KEXINIT, hang up. `timeout_ms` is for the whole but for the
 * look-up of the name; `stop` (or NULL) ends it early. 0; E_CONNECT,
 * E_TIMEOUT, E_CLOSED, E_CANCELLED, and those of kexprobe_parse. Blocks.
 */
int kexprobe_run(const struct sshconf *c, int64_t timeout_ms, const int *stop,
		 struct kexprobe *k, struct err *e);

void kexprobe_fini(struct kexprobe *k);

#endif
