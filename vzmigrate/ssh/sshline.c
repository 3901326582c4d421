/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshline: tokens and patterns of ssh_config and known_hosts. No state.
 */
#include "ssh/sshline.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define PATTERN_MAX 1024

bool
sshline_split(char *line, char **key, char **rest)
{
	char *p, *end;

	line[strcspn(line, "\r\n")] = '\0';
	line += strspn(line, " \t\f");
	if (!*line || *line == '#') {
		return false;
	}
	end = line + strlen(line);
	while (end > line && isspace((unsigned char)end[-1])) {
		*--end = '\0';
	}
	*key = line;
	p = line + strcspn(line, " \t=");
	*rest = p;
	if (*p) {
		bool eq = *p == '=';

		*p++ = '\0';
		p += strspn(p, " \t");
		if (!eq && *p == '=') {
			p++;
			p += strspn(p, " \t");
		}
		*rest = p;
	}
	return true;
}

int
sshline_words(const char *rest, struct sshlist *words, struct err *e)
{
	cleanup(free_ptr) char *word = malloc(strlen(rest) + 1);

	if (!word) {
		return err_nomem(e);
	}
	for (;;) {
		size_t n = 0;
		bool quoted = false;
		int rc;

		rest += strspn(rest, " \t");
		if (!*rest || *rest == '#') {
			return 0;
		}
		for (; *rest && (quoted || !strchr(" \t", *rest)); rest++) {
			if (*rest == '"') {
				quoted = !quoted;
			} else if (*rest == '\\' &&
				   (rest[1] == '"' || rest[1] == '\\')) {
				word[n++] = *++rest;
			} else {
				word[n++] = *rest;
			}
		}
		if (quoted) {
			return err_set(e, E_CONFIG, "a quote is not closed");
		}
		word[n] = '\0';
		rc = sshlist_add(words, word, e);
		if (rc < 0) {
			return rc;
		}
	}
}

/* Iterative with one point of return, so that "*a*a*a*b" costs no more than
 * pattern times text. */
bool
sshline_match(const char *p, const char *s, bool fold)
{
	const char *star = NULL, *from = NULL;

	while (*s) {
		int a = fold ? tolower((unsigned char)*p) : *p;
		int b = fold ? tolower((unsigned char)*s) : *s;

		if (*p == '*') {
			star = ++p;
			from = s;
		} else if (*p && (*p == '?' || a == b)) {
			p++;
			s++;
		} else if (star) {
			p = star;
			s = ++from;
		} else {
			return false;
		}
	}
	while (*p == '*') {
		p++;
	}
	return !*p;
}

int
sshline_match_list(const char *patterns, char sep, const char *text, bool fold)
{
	const char seps[2] = { sep, '\0' };
	int found = 0;

	while (*patterns) {
		size_t n = strcspn(patterns, seps);
		bool no = *patterns == '!';
		char one[PATTERN_MAX];

		if (n < sizeof(one)) {
			memcpy(one, patterns + no, n - no);
			one[n - no] = '\0';
			if (sshline_match(one, text, fold)) {
				if (no) {
					return -1;
				}
				found = 1;
			}
		}
		patterns += n + (patterns[n] == sep);
	}
	return found;
}
