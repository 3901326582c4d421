/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mounts: reads /proc/self/mountinfo. No state.
 */
#include "fs/mounts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Undo the kernel's \ooo for blank, tab, newline and backslash. */
static void
unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' &&
		    s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
				       (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/* The fifth field, or NULL. */
static char *
mount_point(char *line)
{
	char *save = NULL, *field = strtok_r(line, " ", &save);

	for (int i = 0; field && i < 4; i++) {
		field = strtok_r(NULL, " ", &save);
	}
	if (field) {
		unescape(field);
	}
	return field;
}

static int
add(char ***list, size_t *n, const char *rel, struct err *e)
{
	char **more;

	for (size_t i = 0; i < *n; i++) {
		if (strcmp((*list)[i], rel) == 0) {
			return 0; /* mounted over another */
		}
	}
	more = realloc(*list, (*n + 1) * sizeof(*more));
	if (!more) {
		return err_nomem(e);
	}
	*list = more;
	more[*n] = strdup(rel);
	if (!more[*n]) {
		return err_nomem(e);
	}
	++*n;
	return 0;
}

static int
collect(FILE *f, const char *real, char ***list, size_t *n, struct err *e)
{
	cleanup(free_ptr) char *line = NULL;
	size_t cap = 0, len = strlen(real);
	int rc = 0;

	if (len == 1) {
		len = 0; /* "/": every other one is below */
	}
	while (rc == 0 && getline(&line, &cap, f) > 0) {
		const char *at = mount_point(line);

		if (at && strncmp(at, real, len) == 0 && at[len] == '/' &&
		    at[len + 1]) {
			rc = add(list, n, at + len + 1, e);
		}
	}
	return rc < 0		? rc
	       : ferror(f)	? err_sys(e, EIO, "cannot read mountinfo")
				: 0;
}

int
mounts_below(const char *path, char ***list, size_t *n, struct err *e)
{
	cleanup(free_ptr) char *real = realpath(path, NULL);
	FILE *f;
	int rc;

	*list = NULL;
	*n = 0;
	if (!real) {
		return err_sys(e, errno, "cannot resolve %s", path);
	}
	f = fopen("/proc/self/mountinfo", "re");
	if (!f) {
		return err_sys(e, errno, "cannot open /proc/self/mountinfo");
	}
	rc = collect(f, real, list, n, e);
	fclose(f);
	if (rc < 0) {
		mounts_free(*list, *n);
		*list = NULL;
		*n = 0;
	}
	return rc;
}

void
mounts_free(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i]);
	}
	free(list);
}
