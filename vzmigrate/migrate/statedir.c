/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * statedir: finds and makes the state directory. No state of its own.
 */
#include "migrate/statedir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/io.h"

#define STATEDIR_DEFAULT "/var/lib/vzmigrate"

const char *
statedir_path(void)
{
	const char *s = secure_getenv("VZMIGRATE_STATE_DIR");

	return s && s[0] == '/' ? s : STATEDIR_DEFAULT;
}

static int
sys_error(struct err *e, int errnum, const char *what)
{
	int rc = err_sys(e, errnum, "state directory %s", what);

	if (errnum == EACCES && geteuid() != 0) {
		return err_set(e, E_DENIED,
			       "state directory %s: %s; run vzmigrate as root",
			       what, strerror(errnum));
	}
	if (errnum == EACCES || errnum == EPERM || errnum == EROFS) {
		if (e) {
			e->code = E_DENIED;
		}
		return E_DENIED;
	}
	return rc;
}

/* What is kept there decides who owns a container, so nobody else may be
 * able to write it. */
static int
check_owner(int fd, const char *what, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		return sys_error(e, errno, what);
	}
	if (st.st_uid != geteuid() || (st.st_mode & 022)) {
		return err_set(e, E_DENIED,
			       "state directory %s must belong to uid %u and "
			       "not be writable for others",
			       what, (unsigned)geteuid());
	}
	return 0;
}

int
statedir_open_in(int dirfd, const char *name, const char *what, struct err *e)
{
	cleanup(close_fd) int fd = -1;
	int rc;

	if (mkdirat(dirfd, name, 0700) == 0) {
		rc = atomicfile_sync_dir(dirfd, what, e);
		if (rc < 0) {
			return rc;
		}
	} else if (errno != EEXIST) {
		return sys_error(e, errno, what);
	}
	fd = openat(dirfd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return sys_error(e, errno, what);
	}
	rc = check_owner(fd, what, e);
	return rc < 0 ? rc : steal_fd(&fd);
}

/* The state directory itself: its parents are the operator's and may be
 * symlinks. */
static int
open_top(const char *path, struct err *e)
{
	cleanup(free_ptr) char *parent = strdup(path);
	cleanup(close_fd) int fd = -1;
	cleanup(close_fd) int up = -1;
	char *slash;
	int rc;

	if (!parent) {
		return err_nomem(e);
	}
	slash = strrchr(parent, '/');
	*slash = '\0';
	if (*parent && io_mkdirs(parent, 0755, e) < 0) {
		return e && e->sys ? sys_error(e, e->sys, path) : E_SYSTEM;
	}
	if (mkdir(path, 0700) == 0) {
		up = open(*parent ? parent : "/",
			  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (up < 0) {
			return sys_error(e, errno, path);
		}
		rc = atomicfile_sync_dir(up, path, e);
		if (rc < 0) {
			return rc;
		}
	} else if (errno != EEXIST) {
		return sys_error(e, errno, path);
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		return sys_error(e, errno, path);
	}
	rc = check_owner(fd, path, e);
	return rc < 0 ? rc : steal_fd(&fd);
}

int
statedir_open(const char *sub, struct err *e)
{
	const char *path = statedir_path();
	cleanup(free_ptr) char *what = NULL;
	cleanup(close_fd) int top = open_top(path, e);

	if (top < 0 || *sub == '\0') {
		return steal_fd(&top);
	}
	what = io_asprintf(e, "%s/%s", path, sub);
	if (!what) {
		return E_NOMEM;
	}
	return statedir_open_in(top, sub, what, e);
}
