/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cases: the table of cases of a tool, one of which is named on its command
 * line: a name as the first member of each row, behind it what the tool likes.
 */
#ifndef TOOLS_CASES_H
#define TOOLS_CASES_H

#include <stdbool.h>
#include <stddef.h>

struct cases {
	const char *tool; /* for messages */
	const void *rows; /* borrowed */
	size_t n, size;	  /* how many, and bytes of one */
};

/* For an array of rows. */
#define CASES(tool, rows)                                     \
	{                                                     \
		tool, rows, sizeof(rows) / sizeof((rows)[0]), \
			sizeof((rows)[0])                     \
	}

/* Whether all that was asked for is "list"; then the names are printed. */
bool cases_list(const struct cases *c, int argc, char **argv);

/* The row of the case whose name the first `len` bytes of `word` are; NULL
 * where there is none, which is told on stderr. */
const void *cases_find(const struct cases *c, const char *word, size_t len);

#endif
