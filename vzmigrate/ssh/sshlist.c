/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshlist: a growing array of owned strings. State: the caller's.
 */
#include "ssh/sshlist.h"

#include <stdlib.h>
#include <string.h>

int
sshlist_add(struct sshlist *l, const char *text, struct err *e)
{
	char **v, *copy;

	if (l->n >= SSHLIST_MAX) {
		return err_set(e, E_LIMIT, "more than %d names in one list",
			       SSHLIST_MAX);
	}
	v = realloc(l->v, (l->n + 1) * sizeof(*v));
	if (!v) {
		return err_nomem(e);
	}
	l->v = v;
	copy = strdup(text);
	if (!copy) {
		return err_nomem(e);
	}
	l->v[l->n++] = copy;
	return 0;
}

int
sshlist_add_all(struct sshlist *l, const struct sshlist *from, struct err *e)
{
	for (size_t i = 0; i < from->n; i++) {
		int rc = sshlist_add(l, from->v[i], e);

		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

void
sshlist_fini(struct sshlist *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i]);
	}
	free(l->v);
	*l = (struct sshlist){ NULL, 0 };
}

bool
sshlist_has_name(const char *names, const char *name)
{
	size_t len = strlen(name);

	while (names && *names) {
		size_t n = strcspn(names, ",");

		if (n == len && memcmp(names, name, len) == 0) {
			return true;
		}
		names += n + (names[n] == ',');
	}
	return false;
}
