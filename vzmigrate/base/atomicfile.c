/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * atomicfile: temporary name, fsync, rename, fsync of the directory.
 */
#include "base/atomicfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/io.h"

int
atomicfile_sync_dir(int dirfd, const char *what, struct err *e)
{
	if (fsync(dirfd) < 0) {
		return err_sys(e, errno, "cannot fsync directory %s", what);
	}
	return 0;
}

static int
write_temp(int fd, const void *data, size_t len, mode_t mode, const char *tmp,
	   struct err *e)
{
	int rc = io_write_full(fd, data, len, tmp, e);

	if (rc < 0) {
		return rc;
	}
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0) {
		return err_sys(e, errno, "cannot finish %s", tmp);
	}
	return 0;
}

/* Callers know the directory by its descriptor only, the person reading the
 * error needs its name. "dir/name" into out; the bare name where there is no
 * /proc. */
static const char *
full_name(int dirfd, const char *name, char out[PATH_MAX])
{
	char proc[64], dir[PATH_MAX];
	ssize_t n;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", dirfd);
	n = readlink(proc, dir, sizeof(dir) - 1);
	if (n <= 0) {
		return name;
	}
	dir[n] = '\0';
	return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX ? out
								      : name;
}

int
atomicfile_write(int dirfd, const char *name, const void *data, size_t len,
		 mode_t mode, int excl, struct err *e)
{
	char tmp[NAME_MAX + 1], path[PATH_MAX];
	const char *shown;
	uint32_t rnd;
	int fd, rc;

	rc = digest_random(&rnd, sizeof(rnd), e);
	if (rc < 0) {
		return rc;
	}
	if (snprintf(tmp, sizeof(tmp), ".%.200s.%08x.tmp", name, rnd) >=
	    (int)sizeof(tmp)) {
		return err_set(e, E_LIMIT, "name %s is too long", name);
	}
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = errno;
		return err_sys(e, rc, "cannot create %s",
			       full_name(dirfd, tmp, path));
	}
	shown = full_name(dirfd, tmp, path);
	rc = write_temp(fd, data, len, mode, shown, e);
	if (close(fd) < 0 && rc == 0) {
		rc = err_sys(e, errno, "cannot close %s", shown);
	}
	if (rc == 0 && renameat2(dirfd, tmp, dirfd, name,
				 excl ? RENAME_NOREPLACE : 0) < 0) {
		rc = errno == EEXIST
			     ? err_set(e, E_EXISTS, "%s exists", name)
			     : err_sys(e, errno, "cannot rename to %s", name);
	}
	if (rc < 0) {
		unlinkat(dirfd, tmp, 0);
		return rc;
	}
	return atomicfile_sync_dir(dirfd, name, e);
}
