/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshline: one line of ssh_config taken apart, and pattern lists
 * (ssh_config(5), PATTERNS).
 */
#ifndef SSH_SSHLINE_H
#define SSH_SSHLINE_H

#include <stdbool.h>

#include "base/err.h"
#include "ssh/sshlist.h"

/* Cut `line` in place (also at a CR or LF) into keyword and the rest after
 * blanks or one '='. Both point into it; an empty or comment line gives false.
 */
bool sshline_split(char *line, char **key, char **rest);

/* The words of `rest`; quotes keep blanks, a '#' in front of a word ends.
 * E_CONFIG for an open quote. */
int sshline_words(const char *rest, struct sshlist *words, struct err *e);

/* `text` against one pattern with * and ?; `fold` ignores case. */
bool sshline_match(const char *pattern, const char *text, bool fold);

/* Against a list of patterns separated by `sep`: 1 match, -1 a negated (!)
 * pattern matches, 0 neither. */
int sshline_match_list(const char *patterns, char sep, const char *text,
		       bool fold);

#endif
