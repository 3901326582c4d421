/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * namelist: comma-separated names in and out. Lists are short (tens), so the
 * search is linear. State: the caller's struct.
 */
#include "cipher/namelist.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

bool
namelist_has(const struct namelist *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++) {
		if (!strcmp(l->names[i], name)) {
			return true;
		}
	}
	return false;
}

int
namelist_add(struct namelist *l, const char *name, struct err *e)
{
	char *copy, **grown;

	if (namelist_has(l, name)) {
		return 0;
	}
	if (l->n == NAMELIST_MAX) {
		return err_set(e, E_LIMIT,
			       "a list of algorithms has more than %d names",
			       NAMELIST_MAX);
	}
	grown = realloc(l->names, (l->n + 1) * sizeof(*grown));
	if (!grown) {
		return err_nomem(e);
	}
	l->names = grown;
	copy = strdup(name);
	if (!copy) {
		return err_nomem(e);
	}
	l->names[l->n++] = copy;
	return 0;
}

int
namelist_parse(struct namelist *l, const char *text, struct err *e)
{
	cleanup(free_ptr) char *copy = NULL;
	char *rest, *name;

	if (strnlen(text, NAMELIST_BYTES_MAX + 1) > NAMELIST_BYTES_MAX) {
		return err_set(e, E_LIMIT,
			       "a list of algorithms is longer than %d bytes",
			       NAMELIST_BYTES_MAX);
	}
	copy = strdup(text);
	if (!copy) {
		return err_nomem(e);
	}
	rest = copy;
	while ((name = strsep(&rest, ","))) {
		int r = *name ? namelist_add(l, name, e) : 0;

		if (r) {
			return r;
		}
	}
	return 0;
}

char *
namelist_join(const struct namelist *l, struct err *e)
{
	size_t len = 1;
	char *out, *p;

	for (size_t i = 0; i < l->n; i++) {
		len += strlen(l->names[i]) + 1;
	}
	p = out = malloc(len);
	if (!out) {
		err_nomem(e);
		return NULL;
	}
	*p = '\0';
	for (size_t i = 0; i < l->n; i++) {
		if (i) {
			*p++ = ',';
		}
		p = stpcpy(p, l->names[i]);
	}
	return out;
}

void
namelist_fini(struct namelist *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->names[i]);
	}
	free(l->names);
	*l = (struct namelist){ 0 };
}

bool
namelist_valid(const char *name)
{
	size_t n = 0;

	for (; name[n]; n++) {
		if (n == NAMELIST_NAME_MAX || name[n] <= ' ' || name[n] > '~' ||
		    name[n] == ',') {
			return false;
		}
	}
	return n > 0;
}

bool
namelist_glob(const char *pattern, const char *name)
{
	/* Where to go on after a mismatch: behind the last star, with one more
	 * byte given to it. Earlier stars need no second try. */
	const char *star = NULL, *from = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			from = name;
		} else if (*pattern == '?' || *pattern == *name) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*') {
		pattern++;
	}
	return !*pattern;
}
