/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sysfault: a fault point before and after every call that changes a file
 * system, whoever makes it: linked with -Wl,--wrap, so that a test can kill
 * the program between any two of its effects.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

#define WRAP(name, params, args)                                 \
	int __real_##name params;                                \
	int __wrap_##name params;                                \
	int __wrap_##name params                                 \
	{                                                        \
		int rc, saved;                                   \
                                                                 \
		if (fault_point("sys." #name ".before", NULL)) { \
			errno = EIO;                             \
			return -1;                               \
		}                                                \
		rc = __real_##name args;                         \
		saved = errno;                                   \
		fault_point("sys." #name ".after", NULL);        \
		errno = saved;                                   \
		return rc;                                       \
	}

WRAP(renameat2, (int od, const char *o, int nd, const char *n, unsigned flags),
     (od, o, nd, n, flags))
WRAP(rename, (const char *o, const char *n), (o, n))
WRAP(unlinkat, (int d, const char *n, int flags), (d, n, flags))
WRAP(unlink, (const char *n), (n))
WRAP(rmdir, (const char *n), (n))
WRAP(mkdir, (const char *n, mode_t m), (n, m))
WRAP(mkdirat, (int d, const char *n, mode_t m), (d, n, m))
WRAP(symlinkat, (const char *t, int d, const char *n), (t, d, n))
WRAP(fsync, (int fd), (fd))
WRAP(syncfs, (int fd), (fd))
WRAP(ftruncate, (int fd, off_t len), (fd, len))
