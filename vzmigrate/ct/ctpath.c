/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctpath: resolving, moving and looking at the operator's paths. No state.
 */
#include "ct/ctpath.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "fs/remove.h"

bool
ctpath_inside(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (strcmp(dir, "/") == 0) {
		return path[0] == '/';
	}
	return strncmp(path, dir, n) == 0 &&
	       (path[n] == '\0' || path[n] == '/');
}

static bool
has_control(const char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f) {
			return true;
		}
	}
	return false;
}

/* Append the component [p, p + n) to out. */
static char *
add_component(char *o, const char *p, size_t n)
{
	*o++ = '/';
	memcpy(o, p, n);
	return o + n;
}

char *
ctpath_clean(const char *path, const char *what, struct err *e)
{
	cleanup(free_ptr) char *out = NULL;
	const char *p = path;
	char *o;

	if (!*path) {
		err_set(e, E_USAGE, "%s is empty", what);
		return NULL;
	}
	if (*path != '/') {
		err_set(e, E_USAGE, "%s must be an absolute path: %s", what,
			path);
		return NULL;
	}
	if (has_control(path) || strlen(path) >= PATH_MAX) {
		err_set(e, E_USAGE, "%s is not a usable path: %s", what, path);
		return NULL;
	}
	o = out = malloc(strlen(path) + 1);
	if (!out) {
		err_nomem(e);
		return NULL;
	}
	while (*p) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			err_set(e, E_USAGE, "%s must not contain '..': %s",
				what, path);
			return NULL;
		}
		if (n && !(n == 1 && *p == '.')) {
			o = add_component(o, p, n);
		}
		p += n + (p[n] == '/');
	}
	*o = '\0';
	if (o == out) {
		err_set(e, E_USAGE, "%s cannot be the root directory", what);
		return NULL;
	}
	return steal_ptr(&out);
}

char *
ctpath_real(const char *path, struct err *e)
{
	char *r = realpath(path, NULL);

	if (!r) {
		err_sys(e, errno, "%s", path);
		if (e && (e->sys == ENOENT || e->sys == ENOTDIR)) {
			e->code = E_NOT_FOUND;
		}
	}
	return r;
}

/* The nearest thing over `path` that exists, by name: cuts `path` there.
 * Returns what was cut, within the same memory. */
static char *
cut_to_existing(char *path)
{
	char *slash = strrchr(path, '/');

	for (;;) {
		char *up;

		*slash = '\0';
		if (slash == path || ctpath_type(path)) {
			return slash + 1;
		}
		up = strrchr(path, '/');
		*slash = '/';
		slash = up;
	}
}

int
ctpath_place(const char *path, char **out, char **above, struct err *e)
{
	cleanup(free_ptr) char *head = strdup(path), *real = NULL;
	const char *rest, *up;

	if (!head) {
		return err_nomem(e);
	}
	rest = cut_to_existing(head);
	up = *head ? head : "/";
	real = realpath(up, NULL);
	if (!real) {
		return errno == ENOENT
			       ? err_set(e, E_CONFIG,
					 "%s is a symlink to nothing: make "
					 "what it points to, or choose "
					 "another place than %s",
					 up, path)
			       : err_sys(e, errno, "%s", up);
	}
	if (!ctpath_is_dir(real)) {
		return err_set(e, E_CONFIG,
			       "%s is not a directory, so %s cannot be made",
			       up, path);
	}
	for (const char *p = rest; *p; p += strspn(p, "/")) {
		size_t n = strcspn(p, "/");

		if (n > NAME_MAX) {
			return err_set(e, E_USAGE,
				       "a name of more than %d bytes is in %s",
				       NAME_MAX, path);
		}
		p += n;
	}
	*out = io_asprintf(e, "%s/%s", strcmp(real, "/") == 0 ? "" : real,
			   rest);
	if (!*out) {
		return E_NOMEM;
	}
	*above = steal_ptr(&real);
	return 0;
}

int
ctpath_open_dir(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) {
		int no = errno;

		err_sys(e, no, "cannot open directory %s", path);
		if (no == ENOENT) {
			if (e) {
				e->code = E_NOT_FOUND;
			}
			return E_NOT_FOUND;
		}
		return E_SYSTEM;
	}
	return fd;
}

static int
sync_parent(const char *path, struct err *e)
{
	cleanup(free_ptr) char *dir = strdup(path);
	cleanup(close_fd) int fd = -1;
	char *slash;

	if (!dir) {
		return err_nomem(e);
	}
	slash = strrchr(dir, '/');
	slash[slash == dir] = '\0';
	fd = ctpath_open_dir(dir, e);
	return fd < 0 ? fd : atomicfile_sync_dir(fd, dir, e);
}

int
ctpath_move(const char *from, const char *to, struct err *e)
{
	int rc;

	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) < 0) {
		int no = errno;
		bool there = ctpath_type(to) != 0;

		if (no == EEXIST) {
			return err_set(e, E_EXISTS, "%s exists", to);
		}
		if (no != ENOENT || ctpath_type(from)) {
			return err_sys(e, no, "cannot move %s to %s", from, to);
		}
		if (!there) {
			return err_set(e, E_NOT_FOUND,
				       "neither %s nor %s is there", from, to);
		}
	}
	rc = sync_parent(to, e);
	/* Done before, the parent of `from` may be gone as well. */
	if (rc == 0 && sync_parent(from, e) == E_SYSTEM) {
		rc = E_SYSTEM;
	}
	return rc;
}

int
ctpath_rename(const char *dir, const char *from, const char *to, bool noreplace,
	      struct err *e)
{
	cleanup(close_fd) int fd = ctpath_open_dir(dir, e);

	if (fd < 0) {
		return fd;
	}
	if (renameat2(fd, from, fd, to, noreplace ? RENAME_NOREPLACE : 0) < 0) {
		int no = errno;

		return no == EEXIST
			       ? err_set(e, E_EXISTS, "%s/%s exists", dir, to)
			       : err_sys(e, no, "cannot rename %s/%s to %s",
					 dir, from, to);
	}
	return atomicfile_sync_dir(fd, dir, e);
}

int
ctpath_unlink(const char *dir, const char *name, struct err *e)
{
	cleanup(close_fd) int fd = ctpath_open_dir(dir, e);

	if (fd < 0) {
		return fd;
	}
	if (unlinkat(fd, name, 0) < 0 && errno != ENOENT) {
		return err_sys(e, errno, "cannot remove %s/%s", dir, name);
	}
	return atomicfile_sync_dir(fd, dir, e);
}

int
ctpath_remove_tree(const char *path, struct err *e)
{
	cleanup(free_ptr) char *up = strdup(path);
	cleanup(close_fd) int fd = -1;
	char *slash;
	int rc;

	if (!up) {
		return err_nomem(e);
	}
	slash = strrchr(up, '/');
	*slash = '\0';
	fd = ctpath_open_dir(*up ? up : "/", e);
	if (fd == E_NOT_FOUND) {
		return 0;
	}
	if (fd < 0) {
		return fd;
	}
	rc = remove_tree(fd, slash + 1, NULL, e);
	if (rc < 0 && rc != E_NOT_FOUND) {
		return err_wrap(e, "cannot delete %s", path);
	}
	return atomicfile_sync_dir(fd, up, e);
}

mode_t
ctpath_type(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 ? 0 : st.st_mode & S_IFMT;
}

bool
ctpath_is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool
ctpath_is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool
ctpath_program(const char *name)
{
	const char *p = getenv("PATH");
	char buf[PATH_MAX];

	for (p = p ? p : "/usr/sbin:/usr/bin:/sbin:/bin"; *p;) {
		size_t n = strcspn(p, ":");
		struct stat st;

		if (n &&
		    (size_t)snprintf(buf, sizeof(buf), "%.*s/%s", (int)n, p,
				     name) < sizeof(buf) &&
		    stat(buf, &st) == 0 && S_ISREG(st.st_mode) &&
		    access(buf, X_OK) == 0) {
			return true;
		}
		p += n + (p[n] == ':');
	}
	return false;
}

char *
ctpath_hash(const char *s, char out[17])
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *s; s++) {
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	}
	snprintf(out, 17, "%016" PRIx64, h);
	return out;
}
