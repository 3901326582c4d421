/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzlock: vzctl's lock file. The format is vzctl's: "PID\nSTATE\n", the state
 * empty; made whole under another name and linked into place. A stale lock
 * is first renamed and looked at again, so that of two processes that find it
 * one does not remove the other's new lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "ct/ctlock.h"
#include "ct/ctpath.h"
#include "ct/vzconf.h"

#define TRIES 5

/* A process that holds a lock: there, and not a zombie. */
static bool
alive(int pid)
{
	char path[64];
	cleanup(free_ptr) char *text = NULL;
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (io_read_file(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0) {
		return false;
	}
	p = strrchr(text, ')');
	return !(p && p[1] == ' ' && (p[2] == 'Z' || p[2] == 'X'));
}

/* The pid in a lock file: 0 where it is garbage, -1 where it is gone. */
static int
read_pid(const char *path)
{
	cleanup(close_fd) int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	char text[64];
	ssize_t n;
	int pid;

	if (fd < 0) {
		return errno == ENOENT ? -1 : 0;
	}
	n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%d", &pid) == 1 && pid > 0 ? pid : 0;
}

static const char *
lock_dir(const struct ct_host *h, const struct vzconf *v)
{
	return h->lock_dir ? h->lock_dir : v->lockdir;
}

/* Move a stale lock out of the way; `aside` is a free name. */
static void
take_over(const char *lock, const char *aside, int stale)
{
	int pid;

	if (rename(lock, aside) < 0) {
		return;
	}
	pid = read_pid(aside);
	if (pid > 0 && pid != stale && alive(pid) && link(aside, lock) == 0) {
		log_debug("%s: was taken by pid %d meanwhile", lock, pid);
	} else {
		log_info("%s: removed, its process %d is gone", lock, stale);
	}
	unlink(aside);
}

static int
link_lock(const char *tmp, const char *lock, const char *ctid, struct err *e)
{
	cleanup(free_ptr) char *aside = io_asprintf(e, "%s.stale", tmp);
	char who[320];

	if (!aside) {
		return E_NOMEM;
	}
	for (int i = 0; i < TRIES; i++) {
		int pid;

		if (link(tmp, lock) == 0) {
			return 0;
		}
		if (errno != EEXIST) {
			return err_sys(e, errno, "cannot make the lock %s",
				       lock);
		}
		pid = read_pid(lock);
		if (pid > 0 && alive(pid)) {
			return err_set(e, E_BUSY,
				       "container %s is locked by %s through "
				       "%s",
				       ctid, ctlock_who(pid, who, sizeof(who)),
				       lock);
		}
		if (pid >= 0) {
			take_over(lock, aside, pid);
		}
	}
	return err_set(e, E_BUSY,
		       "container %s is locked: %s comes back again and again",
		       ctid, lock);
}

/* Make the temporary file with our pid; its name replaces the X's. */
static int
make_tmp(const struct ct_host *h, const char *dir, char *tmp, int *fd,
	 struct err *e)
{
	char text[32];

	*fd = mkostemp(tmp, O_CLOEXEC);
	if (*fd < 0) {
		return ctlock_dir_error(errno, dir,
					h->lock_dir ? ""
						    : "; it is LOCKDIR of "
						      "vz.conf",
					e);
	}
	snprintf(text, sizeof(text), "%d\n\n", (int)getpid());
	return io_write_full(*fd, text, strlen(text), tmp, e);
}

int
vzlock_take(const struct ct_host *h, const struct vzconf *v, const char *ctid,
	    int *fd, struct err *e)
{
	const char *dir = lock_dir(h, v);
	cleanup(free_ptr) char *lock = NULL;
	cleanup(free_ptr) char *tmp = NULL;
	cleanup(close_fd) int f = -1;
	int rc;

	if (!dir) {
		return err_set(e, E_CONFIG,
			       "%s does not set LOCKDIR, so container %s "
			       "cannot be locked",
			       v->file, ctid);
	}
	if (!ctpath_is_dir(dir)) {
		struct err why = { 0 };

		if (io_mkdirs(dir, 0755, &why) < 0) {
			return err_set(e,
				       why.sys == EROFS || why.sys == EACCES
					       ? E_DENIED
					       : E_CONFIG,
				       "there is no lock directory %s, and it "
				       "cannot be made: %s",
				       dir, strerror(why.sys));
		}
	}
	lock = io_asprintf(e, "%s/%s.lck", dir, ctid);
	tmp = lock ? io_asprintf(e, "%sXXXXXX", lock) : NULL;
	if (!tmp) {
		return E_NOMEM;
	}
	rc = make_tmp(h, dir, tmp, &f, e);
	rc = rc < 0 ? rc : link_lock(tmp, lock, ctid, e);
	if (f >= 0) {
		unlink(tmp);
	}
	if (rc == 0) {
		*fd = steal_fd(&f);
	}
	return rc;
}

int
vzlock_try(const struct ct_host *h, const struct vzconf *v, const char *ctid,
	   struct err *e)
{
	const char *dir = lock_dir(h, v);
	int fd = -1, rc = 0;

	/* A directory that would be made is not made by a check. */
	if (dir && !ctpath_is_dir(dir)) {
		cleanup(free_ptr) char *above = strdup(dir);
		char *slash = above ? strrchr(above, '/') : NULL;

		while (slash && slash > above && !ctpath_type(above)) {
			*slash = '\0';
			slash = strrchr(above, '/');
		}
		return !above ? err_nomem(e)
		       : faccessat(AT_FDCWD, *above ? above : "/", W_OK | X_OK,
				   AT_EACCESS) < 0
			       ? ctlock_dir_error(errno, dir, "", e)
			       : 0;
	}
	rc = vzlock_take(h, v, ctid, &fd, e);
	vzlock_release(h, v, ctid, fd);
	return rc;
}

void
vzlock_release(const struct ct_host *h, const struct vzconf *v,
	       const char *ctid, int fd)
{
	const char *dir = lock_dir(h, v);
	char lock[PATH_MAX];
	struct stat a, b;

	if (fd < 0) {
		return;
	}
	if (dir &&
	    (size_t)snprintf(lock, sizeof(lock), "%s/%s.lck", dir, ctid) <
		    sizeof(lock) &&
	    fstat(fd, &a) == 0 && lstat(lock, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
		unlink(lock);
	}
	close(fd);
}
