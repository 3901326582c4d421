/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctlock: a lock of our own for one container, for kinds whose runtime has
 * none that could be held for the length of a migration.
 */
#ifndef CT_CTLOCK_H
#define CT_CTLOCK_H

#include "ct/ct.h"

/*
 * Take it: flock on a file in h->lock_dir, which ends with the process, so
 * that no lock can be stale. `*fd` holds it until ctlock_release. E_BUSY
 * names the holder; E_DENIED where the directory cannot be written; E_CONFIG
 * where there can be none. Never waits.
 */
int ctlock_take(const struct ct_host *h, const char *kind, const char *id,
		int *fd, struct err *e);
void ctlock_release(int fd);

/* "pid N (command line)" of a process for messages; "pid N" where it cannot
 * be read. Returns out. */
char *ctlock_who(int pid, char *out, size_t outlen);

/* The error for a lock directory that cannot be used: read-only and no
 * permission are E_DENIED, the rest E_CONFIG. */
int ctlock_dir_error(int errnum, const char *dir, const char *hint,
		     struct err *e);

#endif
