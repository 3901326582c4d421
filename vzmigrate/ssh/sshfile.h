/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshfile: our own reader of ssh_config, for machines without the OpenSSH
 * client. libssh's parser would not do: it applies `Match final` always, loses
 * what follows a HostName, tries the last IdentityFile first, and cannot be
 * asked for Ciphers (measured on 0.10.6 and 0.11.5).
 */
#ifndef SSH_SSHFILE_H
#define SSH_SSHFILE_H

#include "base/buf.h"
#include "base/err.h"

/* What Host and Match are compared with; all borrowed. */
struct sshfile_query {
	const char *config;	/* -F FILE; "none"; NULL: the usual two */
	const char *alias;	/* as the person wrote it */
	const char *user;	/* -l or user@; NULL */
	const char *local_user; /* never NULL */
	const char *home;	/* never NULL */
	const struct sshlist *options; /* "Key=Value" that come first */
};

struct sshlist;

/*
 * Evaluate into lines "keyword value" as `ssh -G` prints them (lower case,
 * only what was said, the first value wins; identityfile and certificatefile
 * add up). `Match exec` and keywords of Match that are not known are E_CONFIG.
 * A missing file is no error.
 */
int sshfile_resolve(const struct sshfile_query *q, struct buf *out,
		    struct err *e);

#endif
