/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * procid: reads /proc/PID/stat. No state.
 */
#include "base/procid.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"

uint64_t
procid_start(long pid, char *state)
{
	cleanup(free_ptr) char *text = NULL;
	char path[64], *p;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	if (io_read_file(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0) {
		return 0;
	}
	/* The command's name may hold blanks and parentheses. */
	p = strrchr(text, ')');
	if (p && state) {
		*state = p[1] ? p[2] : '\0';
	}
	for (int field = 3; p && field <= 22; field++) {
		p = strchr(p + 1, ' ');
	}
	return p ? strtoull(p + 1, NULL, 10) : 0;
}
