/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lxcread: what the configuration of one LXC container says, with the files
 * that it includes. What lies in the container's own directory or tree is
 * carried; what it shares with others is named in the origin file, for the
 * destination to look for, and told in notes (field case S10). State: struct
 * lxcread, the caller's.
 */
#include "ct/lxcread.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctfile.h"
#include "ct/ctpath.h"
#include "ct/lxc.h"
#include "ct/origin.h"

#define INCLUDE_DEPTH 16
#define INCLUDE_FILES 128
#define NEEDS_MAX 256

static int read_file(struct lxcread *l, const char *path, struct err *e);

/* ---- what is shared ---- */

/* Whether `path` belongs to the container: in its directory or its tree. */
static bool
is_owned(const struct lxcread *l, const char *path)
{
	return ctpath_inside(path, l->dir) || ctpath_inside(path, l->dir_real);
}

/* Something shared: looked for on the destination, and told unless every host
 * has its own of it. */
static int
need(struct lxcread *l, const char *key, const char *what, const char *path,
     struct err *e)
{
	int rc;

	if (!l->owned || is_owned(l, path)) {
		return 0;
	}
	if (l->needs++ >= NEEDS_MAX) {
		return err_set(e, E_LIMIT,
			       "the configuration of %s names more than %d "
			       "shared files",
			       l->c->id, NEEDS_MAX);
	}
	rc = origin_put(l->origin, key, what, path, e);
	if (rc < 0 || strcmp(what, "bridge") == 0 || lxc_is_systems(path)) {
		return rc;
	}
	return ctfile_note(l->c, e,
			   "it uses %s of this host (%s), which is not "
			   "carried: what the destination has there is used "
			   "instead",
			   path, what);
}

/* "source target type options ..." of lxc.mount.entry or an fstab line. */
static int
mount_entry(struct lxcread *l, const char *value, struct err *e)
{
	cleanup(free_ptr) char *copy = strdup(value);
	char *save = NULL, *field[4] = { NULL };

	if (!copy) {
		return err_nomem(e);
	}
	for (int i = 0; i < 4; i++) {
		field[i] = strtok_r(i ? NULL : copy, " \t", &save);
	}
	if (!field[0] || field[0][0] != '/' || strcmp(field[0], "/") == 0 ||
	    ctpath_inside(field[0], "/proc") ||
	    ctpath_inside(field[0], "/sys")) {
		return 0;
	}
	return need(l,
		    field[3] && strstr(field[3], "optional") ? "want" : "need",
		    "mount", field[0], e);
}

static int
mount_table(struct lxcread *l, const char *path, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	char *save = NULL;
	int rc;

	rc = need(l, "need", "mount-table", path, e);
	if (rc < 0 || !ctpath_is_file(path)) {
		return rc;
	}
	rc = io_read_file(AT_FDCWD, path, CT_FILE_MAX, &text, NULL, e);
	for (char *line = rc < 0 ? NULL : strtok_r(text, "\n", &save);
	     line && rc == 0; line = strtok_r(NULL, "\n", &save)) {
		rc = *line == '#' ? 0 : mount_entry(l, line, e);
	}
	return rc;
}

/* A hook's first word is a program. */
static int
hook(struct lxcread *l, const char *value, struct err *e)
{
	cleanup(free_ptr) char *path = strndup(value, strcspn(value, " \t"));

	if (!path) {
		return err_nomem(e);
	}
	return *path == '/' ? need(l, "need", "hook", path, e) : 0;
}

/* ---- what is included ---- */

/* An included file of the container's own is a configuration too, so the
 * paths in it are rewritten. */
static int
remember(struct lxcread *l, const char *path, struct err *e)
{
	char *more;

	if (l->depth == 0 || !l->owned) {
		return 0;
	}
	more = io_asprintf(e, "%s%s\n", l->included ? l->included : "\n", path);
	if (!more) {
		return E_NOMEM;
	}
	free(l->included);
	l->included = more;
	return 0;
}

static int
include(struct lxcread *l, const char *value, struct err *e)
{
	bool owned = l->owned;
	DIR *d;
	int rc;

	rc = need(l, "need", "include", value, e);
	if (rc < 0) {
		return rc;
	}
	l->owned = owned && is_owned(l, value);
	d = opendir(value);
	if (!d) {
		rc = read_file(l, value, e);
		l->owned = owned;
		return rc;
	}
	for (struct dirent *de; rc == 0 && (de = readdir(d));) {
		size_t n = strlen(de->d_name);
		cleanup(free_ptr) char *path = NULL;

		if (n < 5 || strcmp(de->d_name + n - 5, ".conf") != 0) {
			continue;
		}
		path = io_asprintf(e, "%s/%s", value, de->d_name);
		rc = path ? read_file(l, path, e) : E_NOMEM;
	}
	/* The directory itself counts, empty or not. */
	rc = rc < 0 ? rc : remember(l, value, e);
	closedir(d);
	l->owned = owned;
	return rc;
}

/* ---- one assignment ---- */

/* lxc.net.N.link, lxc.network.link */
static bool
is_link(const char *key)
{
	size_t n = strlen(key);

	return (lxc_begins(key, "lxc.net.") ||
		lxc_begins(key, "lxc.network.")) &&
	       n > 5 && strcmp(key + n - 5, ".link") == 0;
}

/* lxc.net.N.hwaddr, .ipv4.address and the older .ipv4; an x in a MAC is a
 * digit that LXC chooses at the start. */
static int
address(struct lxcread *l, const char *key, const char *value, struct err *e)
{
	const char *last = strrchr(key, '.');
	bool ip = strcmp(last ? last : "", ".ipv4") == 0 ||
		  strcmp(last ? last : "", ".ipv6") == 0 ||
		  (last && strcmp(last, ".address") == 0);

	if (!lxc_begins(key, "lxc.net") || !l->owned) {
		return 0;
	}
	if (last && strcmp(last, ".hwaddr") == 0 && !strpbrk(value, "xX")) {
		return origin_put(l->origin, "mac", NULL, value, e);
	}
	return ip ? origin_put(l->origin, "ip", NULL, value, e) : 0;
}

static int
on_item(const char *key, const char *value, void *arg, struct err *e)
{
	struct lxcread *l = arg;

	if (strcmp(key, "lxc.rootfs.path") == 0 ||
	    strcmp(key, "lxc.rootfs") == 0) {
		free(l->rootfs);
		l->rootfs = *value ? strdup(value) : NULL;
		return l->rootfs || !*value ? 0 : err_nomem(e);
	}
	if (!*value) {
		return 0;
	}
	if (strcmp(key, "lxc.start.auto") == 0) {
		l->c->autostart = strcmp(value, "0") != 0;
	} else if (strcmp(key, "lxc.idmap") == 0 ||
		   strcmp(key, "lxc.id_map") == 0) {
		l->idmap = true;
		return origin_put(l->origin, "idmap", NULL, value, e);
	} else if (strcmp(key, "lxc.include") == 0) {
		return include(l, value, e);
	} else if (strcmp(key, "lxc.mount.entry") == 0) {
		return mount_entry(l, value, e);
	} else if (strcmp(key, "lxc.mount.fstab") == 0 ||
		   strcmp(key, "lxc.mount") == 0) {
		return mount_table(l, value, e);
	} else if (lxc_begins(key, "lxc.hook.") &&
		   strcmp(key, "lxc.hook.version") != 0) {
		return hook(l, value, e);
	} else if (strcmp(key, "lxc.seccomp.profile") == 0 ||
		   strcmp(key, "lxc.seccomp") == 0) {
		return *value == '/'
			       ? need(l, "need", "seccomp-profile", value, e)
			       : 0;
	} else if (is_link(key)) {
		return need(l, "want", "bridge", value, e);
	}
	return address(l, key, value, e);
}

/* ---- the interface ---- */

static int
read_file(struct lxcread *l, const char *path, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	size_t len;
	int rc;

	if (l->depth >= INCLUDE_DEPTH || l->files++ >= INCLUDE_FILES) {
		return err_set(e, E_CONFIG,
			       "%s: the includes go deeper than %d or are "
			       "more than %d files",
			       l->c->id, INCLUDE_DEPTH, INCLUDE_FILES);
	}
	if (!ctpath_is_file(path)) {
		return err_set(e, E_CONFIG,
			       "%s, which the configuration of %s includes, "
			       "is not there",
			       path, l->c->id);
	}
	rc = io_read_file(AT_FDCWD, path, CT_FILE_MAX, &text, &len, e);
	rc = rc < 0 ? rc : remember(l, path, e);
	if (rc < 0) {
		return rc;
	}
	l->depth++;
	rc = lxcconf_each(text, len, path, on_item, l, e);
	l->depth--;
	return rc;
}

int
lxcread_config(struct lxcread *l, const char *path, struct err *e)
{
	l->owned = true;
	return read_file(l, path, e);
}

bool
lxcread_included(const struct lxcread *l, const char *path, const char *real)
{
	cleanup(free_ptr) char *a = io_asprintf(NULL, "\n%s\n", path);
	cleanup(free_ptr) char *b = io_asprintf(NULL, "\n%s\n", real);

	return l->included && a && b &&
	       (strstr(l->included, a) || strstr(l->included, b));
}

void
lxcread_fini(struct lxcread *l)
{
	free(l->rootfs);
	free(l->included);
	l->rootfs = l->included = NULL;
}
