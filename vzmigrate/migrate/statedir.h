/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * statedir: where this program keeps what must survive: /var/lib/vzmigrate
 * (hier(7), /var/lib), with source/, sessions/ and reserve/ in it, all 0700.
 *
 * Tests put it elsewhere by the environment variable VZMIGRATE_STATE_DIR (an
 * absolute path), which is not honoured in a set-user-id or otherwise
 * privileged execution (secure_getenv).
 */
#ifndef MIGRATE_STATEDIR_H
#define MIGRATE_STATEDIR_H

#include "base/err.h"

/* Its absolute path; static or from the environment, not to be freed. */
const char *statedir_path(void);

/*
 * Open the directory `sub` (a plain name, or "" for the state directory
 * itself), made with mode 0700 and fsynced parents where it is missing.
 * Returns a descriptor for the caller to close, E_DENIED where this user may
 * not, or where it belongs to somebody else or others may write to it,
 * E_SYSTEM. Blocks on the disk.
 */
int statedir_open(const char *sub, struct err *e);

/* As statedir_open for one more level: `name` (plain) in `dirfd`. `what` is
 * its path for messages. */
int statedir_open_in(int dirfd, const char *name, const char *what,
		     struct err *e);

#endif
