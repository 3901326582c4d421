/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan: takes the words of the command line apart. State: none; the caller
 * owns each struct.
 */
#include "migrate/plan.h"

#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 4

void
plan_ct_fini(struct plan_ct *c)
{
	free(c->word);
	free(c->new_id);
	free(c->new_name);
	free(c->new_private);
	free(c->new_root);
	*c = (struct plan_ct){ 0 };
}

/* The text up to the next bare colon, backslashes removed; `*text` moves past
 * that colon, or becomes NULL at the end. NULL: no memory. */
static char *
next_part(const char **text)
{
	const char *s = *text;
	char *out = malloc(strlen(s) + 1);
	size_t n = 0;

	if (!out) {
		return NULL;
	}
	while (*s && *s != ':') {
		if (*s == '\\' && (s[1] == ':' || s[1] == '\\')) {
			s++;
		}
		out[n++] = *s++;
	}
	out[n] = '\0';
	*text = *s ? s + 1 : NULL;
	return out;
}

static int
split(const char *text, char *part[PARTS_MAX], int *n, struct err *e)
{
	for (*n = 0; text && *n < PARTS_MAX; (*n)++) {
		part[*n] = next_part(&text);
		if (!part[*n]) {
			return err_nomem(e);
		}
	}
	return text ? PARTS_MAX + 1 : *n;
}

static bool
is_path(const char *word, const struct ct_kind *kind)
{
	return kind ? kind->by_path : *word == '/' || *word == '.';
}

/* A part that was given, or NULL. Takes it over. */
static char *
given(char *part)
{
	if (part && !*part) {
		free(part);
		return NULL;
	}
	return part;
}

int
plan_ct_parse(struct plan_ct *c, const char *text, const struct ct_kind *kind,
	      struct err *e)
{
	char *part[PARTS_MAX] = { NULL };
	int n, rc = 0;

	*c = (struct plan_ct){ 0 };
	rc = split(text, part, &n, e);
	if (rc >= 0 && !*part[0]) {
		rc = err_set(e, E_USAGE, "'%s': the container's name is empty",
			     text);
	} else if (rc > 2 && is_path(part[0], kind)) {
		rc = err_set(e, E_USAGE,
			     "'%s': a directory is given as SRC_DIR[:DST_DIR]; "
			     "write \\: for a colon in a name",
			     text);
	} else if (rc > PARTS_MAX) {
		rc = err_set(e, E_USAGE,
			     "'%s': a container is given as "
			     "CT[:NEWCT[:NEWPRIVATE[:NEWROOT]]]",
			     text);
	} else if (rc == 2 && is_path(part[0], kind) && !*part[1]) {
		rc = err_set(e, E_USAGE,
			     "'%s': the directory on the destination is empty",
			     text);
	}
	if (rc < 0) {
		for (int i = 0; i < PARTS_MAX; i++) {
			free(part[i]);
		}
		return rc;
	}
	c->word = part[0];
	if (is_path(c->word, kind)) {
		c->new_private = given(part[1]);
	} else {
		c->new_id = given(part[1]);
		c->new_private = given(part[2]);
		c->new_root = given(part[3]);
	}
	return 0;
}

bool
plan_removes(const struct plan *p, const struct ct_kind *kind)
{
	if (p->remove == PLAN_REMOVE_DEFAULT) {
		return kind->remove_default;
	}
	return p->remove == PLAN_REMOVE_YES;
}
