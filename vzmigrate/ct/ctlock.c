/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctlock: flock on a file named after kind and id. The file stays when the
 * lock is released: removing it would let two processes lock two files of
 * the same name.
 */
#include "ct/ctlock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctpath.h"

#define LOCK_DIR "/run/vzmigrate/lock"

char *
ctlock_who(int pid, char *out, size_t outlen)
{
	char path[64], cmd[256];
	cleanup(close_fd) int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, cmd, sizeof(cmd) - 1);
	while (n > 0 && cmd[n - 1] == '\0') {
		n--;
	}
	if (n <= 0) {
		snprintf(out, outlen, "pid %d", pid);
		return out;
	}
	for (ssize_t i = 0; i < n; i++) {
		if (cmd[i] == '\0') {
			cmd[i] = ' ';
		}
	}
	cmd[n] = '\0';
	snprintf(out, outlen, "pid %d (%s)", pid, cmd);
	return out;
}

int
ctlock_dir_error(int errnum, const char *dir, const char *hint, struct err *e)
{
	if (errnum == EROFS) {
		return err_set(e, E_DENIED,
			       "the lock directory %s is on a read-only file "
			       "system%s",
			       dir, hint);
	}
	if (errnum == EACCES || errnum == EPERM) {
		return err_set(e, E_DENIED,
			       "no permission to lock in %s; run as root%s",
			       dir, hint);
	}
	return err_set(e, E_CONFIG,
		       "the lock directory %s cannot be used: %s%s", dir,
		       strerror(errnum), hint);
}

/* Who holds it, from the file's text. */
static int
busy(int fd, const char *kind, const char *id, struct err *e)
{
	char text[32] = "", who[320];
	int pid = 0;

	if (pread(fd, text, sizeof(text) - 1, 0) > 0) {
		pid = atoi(text);
	}
	if (pid <= 0) {
		return err_set(e, E_BUSY,
			       "%s %s is locked by another vzmigrate", kind,
			       id);
	}
	return err_set(e, E_BUSY, "%s %s is locked by %s", kind, id,
		       ctlock_who(pid, who, sizeof(who)));
}

int
ctlock_take(const struct ct_host *h, const char *kind, const char *id, int *fd,
	    struct err *e)
{
	const char *dir = h->lock_dir ? h->lock_dir : LOCK_DIR;
	cleanup(close_fd) int f = -1;
	char path[PATH_MAX], hash[17], text[64];

	if (!ctpath_is_dir(dir) && io_mkdirs(dir, 0700, e) < 0) {
		return ctlock_dir_error(e && e->sys ? e->sys : ENOTDIR, dir, "",
					e);
	}
	snprintf(path, sizeof(path), "%s/%s-%s.lck", dir, kind,
		 ctpath_hash(id, hash));
	f = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f < 0) {
		return ctlock_dir_error(errno, dir, "", e);
	}
	if (flock(f, LOCK_EX | LOCK_NB) < 0) {
		return errno == EWOULDBLOCK
			       ? busy(f, kind, id, e)
			       : err_sys(e, errno, "cannot lock %s", path);
	}
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(f, 0) < 0 ||
	    pwrite(f, text, strlen(text), 0) != (ssize_t)strlen(text)) {
		return err_sys(e, errno, "cannot write %s", path);
	}
	*fd = steal_fd(&f);
	return 0;
}

void
ctlock_release(int fd)
{
	if (fd >= 0) {
		close(fd);
	}
}
