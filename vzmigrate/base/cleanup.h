/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup: scoped release of memory and descriptors.
 *
 *	cleanup(free_ptr) char *p = ...;
 *	cleanup(close_fd) int fd = -1;
 *	return steal_ptr(&p);
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define cleanup(fn) __attribute__((cleanup(fn)))

static inline void
free_ptr(void *pp)
{
	free(*(void **)pp);
}

/* errno survives, so that it may stand after the failing call. */
static inline void
close_fd(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;

		close(*fd);
		errno = saved;
	}
}

static inline void
close_file(FILE **f)
{
	if (*f) {
		int saved = errno;

		fclose(*f);
		errno = saved;
	}
}

/* Give a value away and forget it, so that the scope does not release it. */
#define steal_ptr(pp)                         \
	({                                    \
		__typeof__(*(pp)) t_ = *(pp); \
		*(pp) = NULL;                 \
		t_;                           \
	})

static inline int
steal_fd(int *fd)
{
	int t = *fd;

	*fd = -1;
	return t;
}

#endif
