/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dial_int: what the files of dial share; for dial.c, which changes it, and
 * dial_explain.c, which reads it.
 */
#ifndef CLI_DIAL_INT_H
#define CLI_DIAL_INT_H

#include <stdbool.h>
#include <stddef.h>

#include "cipher/offer.h"
#include "cli/dial.h"
#include "ssh/kexlog.h"
#include "ssh/prompt.h"
#include "ssh/sshconf.h"

#define DIAL_AGENT "vzmigrate-agent"
#define DIAL_SAID_MAX 2048 /* bytes kept of the remote stderr */

struct dial {
	const struct options *o;
	struct progress *progress; /* or NULL */
	const int *stop;
	struct sshconf conf;
	struct offer_ask ask; /* what the offer was built from */
	struct offer offer;
	struct conn *first; /* of a probe, for the next one; owned; or NULL */
	struct prompt prompt;
	struct bytechan *chan; /* the live one, inside its wrap; borrowed */
	struct conn *live;     /* its connection; borrowed */
	struct kexlog_mismatch mismatch; /* of the last attempt */
	char *dest;			 /* "user@host"; owned */
	char *host;			 /* owned */
	char *command;			 /* what is started there; owned */
	bool sudo;			 /* it begins with sudo */

	char said[DIAL_SAID_MAX]; /* what came on stderr, NUL-terminated */
	size_t said_len;
	int status;   /* exit status, -1 not known */
	char sig[16]; /* signal that ended it, or "" */

	/* of the last connection; owned; or NULL */
	char *cipher_c2s, *cipher_s2c, *mac_c2s, *mac_s2c;
};

#endif
