/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mounts: reads /proc/self/mountinfo. No state.
 */
#include "fs/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void
unescape_octal(char *s)
{
	char *o = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' &&
		    s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
			*o++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
				      (s[3] - '0'));
			s += 4;
		} else {
			*o++ = *s++;
		}
	}
	*o = '\0';
}

int
mounts_each(mounts_fn *fn, void *arg, struct err *e)
{
	const char *const file = "/proc/self/mountinfo";
	cleanup(close_file) FILE *f = fopen(file, "re");
	cleanup(free_ptr) char *line = NULL;
	size_t cap = 0;
	int rc = 0;

	if (!f) {
		return err_sys(e, errno, "cannot open %s", file);
	}
	while (rc == 0 && getline(&line, &cap, f) > 0) {
		char *sep = strstr(line, " - "), *point = line, *type;

		for (int i = 0; point && i < 4; i++) {
			point = strchr(point, ' ');
			point = point ? point + 1 : NULL;
		}
		if (!sep || !point || point > sep) {
			continue;
		}
		type = sep + 3;
		type[strcspn(type, " \n")] = '\0';
		point[strcspn(point, " ")] = '\0';
		unescape_octal(point);
		rc = fn(point, type, arg);
	}
	return rc;
}

/* The list being made. */
struct below {
	const char *real; /* the directory */
	size_t len;	  /* of it, 0 for "/": every other one is below */
	char **list;
	size_t n;
	struct err *e;
};

static int
add(const char *point, const char *fstype, void *arg)
{
	struct below *b = arg;
	const char *rel = point + b->len + 1;
	char **more;

	(void)fstype;
	if (strncmp(point, b->real, b->len) != 0 || point[b->len] != '/' ||
	    !*rel) {
		return 0;
	}
	for (size_t i = 0; i < b->n; i++) {
		if (strcmp(b->list[i], rel) == 0) {
			return 0; /* mounted over another */
		}
	}
	more = realloc(b->list, (b->n + 1) * sizeof(*more));
	if (!more) {
		return err_nomem(b->e);
	}
	b->list = more;
	more[b->n] = strdup(rel);
	if (!more[b->n]) {
		return err_nomem(b->e);
	}
	b->n++;
	return 0;
}

int
mounts_below(const char *path, char ***list, size_t *n, struct err *e)
{
	cleanup(free_ptr) char *real = realpath(path, NULL);
	struct below b = { .real = real, .e = e };
	int rc;

	*list = NULL;
	*n = 0;
	if (!real) {
		return err_sys(e, errno, "cannot resolve %s", path);
	}
	b.len = real[1] ? strlen(real) : 0;
	rc = mounts_each(add, &b, e);
	if (rc < 0) {
		mounts_free(b.list, b.n);
		return rc;
	}
	*list = b.list;
	*n = b.n;
	return 0;
}

void
mounts_free(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i]);
	}
	free(list);
}
