/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcsession_find: looks through the journals of all sessions, which may be in
 * use: nothing is locked or changed. Input: the state directory. No state.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "migrate/srcsession.h"
#include "migrate/srcsession_int.h"
#include "migrate/statedir.h"

static bool
same(const char *have, const char *word)
{
	return have && strcmp(have, word) == 0;
}

static bool
is_word(const struct srcsession_facts *f, const char *word)
{
	cleanup(free_ptr) char *real = NULL;

	if (same(f->word, word) || same(f->id, word) || same(f->name, word)) {
		return true;
	}
	real = strchr(word, '/') ? realpath(word, NULL) : NULL;
	return real && (same(f->id, real) || same(f->tree, real));
}

static void
close_dirp(DIR **d)
{
	if (*d) {
		closedir(*d);
	}
}

static int
open_source(DIR **d, struct err *e)
{
	int fd = statedir_open("source", e);

	if (fd < 0) {
		return fd;
	}
	*d = fdopendir(fd);
	if (!*d) {
		close(fd);
		return err_sys(e, errno, "cannot list %s/source",
			       statedir_path());
	}
	return 0;
}

/* The session in `name`, for srcsession_drop; NULL: none, or it cannot be
 * read. That may be another container's: not our business, but no reason to be
 * silent. */
static struct srcsession *
look(int parentfd, const char *name)
{
	struct srcsession *s = NULL;
	struct err e = { 0 };

	if (srcsession_peek(parentfd, name, &s, &e) < 0) {
		log_warn("%s", e.text);
	}
	return s;
}

/* One directory of the search. */
static int
consider(int parentfd, const char *name, const char *word,
	 const struct ct_kind *kind, bool any, char **kind_name, char **id,
	 struct err *e)
{
	cleanup(srcsession_dropp) struct srcsession *s = look(parentfd, name);
	const struct srcsession_facts *f;

	if (!s || !(any ? steps_is_unfinished(srcsession_state(s))
			: steps_is_open(srcsession_state(s)))) {
		return 0;
	}
	f = srcsession_facts(s);
	if (!f->kind || !f->id || !is_word(f, word) ||
	    (kind && strcmp(kind->name, f->kind) != 0)) {
		return 0;
	}
	if (*id) {
		return err_set(e, E_USAGE,
			       "%s is in a migration as %s %s and as %s %s: "
			       "say which with --kind",
			       word, *kind_name, *id, f->kind, f->id);
	}
	*kind_name = strdup(f->kind);
	*id = strdup(f->id);
	return *kind_name && *id ? 1 : err_nomem(e);
}

int
srcsession_find(const char *word, const struct ct_kind *kind, bool any,
		char **kind_name, char **id, struct err *e)
{
	cleanup(close_dirp) DIR *d = NULL;
	struct dirent *de;
	int rc = open_source(&d, e);

	*kind_name = *id = NULL;
	while (rc >= 0 && (de = readdir(d))) {
		if (de->d_name[0] != '.') {
			rc = consider(dirfd(d), de->d_name, word, kind, any,
				      kind_name, id, e);
		}
	}
	if (rc < 0) {
		free(*kind_name);
		free(*id);
		*kind_name = *id = NULL;
		return rc;
	}
	return *id ? 1 : 0;
}

int
srcsession_each(const char *word, srcsession_fn *fn, void *arg, struct err *e)
{
	cleanup(close_dirp) DIR *d = NULL;
	struct dirent *de;
	int rc = open_source(&d, e);

	while (rc == 0 && (de = readdir(d))) {
		cleanup(srcsession_dropp) struct srcsession *s = NULL;
		const struct srcsession_facts *f;

		if (de->d_name[0] == '.') {
			continue;
		}
		s = look(dirfd(d), de->d_name);
		if (!s || !steps_is_unfinished(srcsession_state(s))) {
			continue;
		}
		f = srcsession_facts(s);
		if (f->id && f->kind && (!word || is_word(f, word))) {
			rc = fn(s, arg, e);
		}
	}
	return rc;
}
