/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * needroot: for test programs about what only root can do: owners, devices,
 * trusted attributes, mounts. `make check` by another user skips them.
 */
#ifndef TESTS_NEEDROOT_H
#define TESTS_NEEDROOT_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* First in main: ends the program as skipped where this is not root. */
static inline void
need_root(void)
{
	if (geteuid() != 0) {
		puts("it needs root");
		exit(77); /* what automake and tests/run take for a skip */
	}
}

#endif
