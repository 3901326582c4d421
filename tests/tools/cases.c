/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cases: looks a case up in a tool's table, or prints all. No state.
 */
#include "cases.h"

#include <stdio.h>
#include <string.h>

static const char *
name_of(const struct cases *c, size_t i)
{
	const char *name;

	memcpy(&name, (const char *)c->rows + i * c->size, sizeof(name));
	return name;
}

bool
cases_list(const struct cases *c, int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], "list") != 0) {
		return false;
	}
	for (size_t i = 0; i < c->n; i++) {
		puts(name_of(c, i));
	}
	return true;
}

const void *
cases_find(const struct cases *c, const char *word, size_t len)
{
	for (size_t i = 0; i < c->n; i++) {
		if (strlen(name_of(c, i)) == len &&
		    memcmp(name_of(c, i), word, len) == 0) {
			return (const char *)c->rows + i * c->size;
		}
	}
	fprintf(stderr, "%s: no case '%s'\n", c->tool, word);
	return NULL;
}
