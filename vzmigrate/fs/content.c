/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * content: data runs and holes of an open regular file. No state.
 */
#include "fs/content.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ZEROS                                                          \
	(64u << 10) /* bytes written at once where holes cannot be had \
		     */

int
content_next(int fd, uint64_t pos, uint64_t size, uint64_t *off, uint64_t *len,
	     struct err *e)
{
	off_t from, to;

	*off = *len = 0;
	if (pos >= size || pos > INT64_MAX) {
		return 0;
	}
	from = lseek(fd, (off_t)pos, SEEK_DATA);
	if (from < 0 && errno == ENXIO) {
		return 0; /* only hole, or the file was cut meanwhile */
	}
	if (from < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
		*off = pos;
		*len = size - pos;
		return 1;
	}
	if (from < 0) {
		return err_sys(e, errno, "cannot look for data");
	}
	if ((uint64_t)from >= size) {
		return 0;
	}
	to = lseek(fd, from, SEEK_HOLE);
	if (to < 0 && errno != ENXIO) {
		return err_sys(e, errno, "cannot look for a hole");
	}
	/* ENXIO, or a hole at or before the data: cut or punched meanwhile;
	 * the reader will see zeros or the end. */
	if (to <= from || (uint64_t)to > size) {
		to = (off_t)size;
	}
	*off = (uint64_t)from;
	*len = (uint64_t)(to - from);
	return 1;
}

ssize_t
content_read(int fd, void *data, size_t len, uint64_t off, const char *path,
	     struct err *e)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)data + done, len - done,
				  (off_t)(off + done));

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return err_sys(e, errno, "cannot read %s at %llu", path,
				       (unsigned long long)(off + done));
		}
		if (n == 0) {
			break;
		}
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int
content_write(int fd, const void *data, size_t len, uint64_t off,
	      const char *path, struct err *e)
{
	size_t done = 0;

	if (off > INT64_MAX || len > INT64_MAX - off) {
		return err_sys(e, EFBIG, "cannot write %s", path);
	}
	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)data + done, len - done,
				   (off_t)(off + done));

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return err_sys(e, n < 0 ? errno : EIO,
				       "cannot write %s at %llu", path,
				       (unsigned long long)(off + done));
		}
		done += (size_t)n;
	}
	return 0;
}

/* Overwrite the data in the range with zeros, leaving holes alone. */
static int
write_zeros(int fd, uint64_t off, uint64_t end, const char *path, struct err *e)
{
	cleanup(free_ptr) void *zeros = calloc(1, ZEROS);
	uint64_t at, n;
	int rc;

	if (!zeros) {
		return err_nomem(e);
	}
	while ((rc = content_next(fd, off, end, &at, &n, e)) > 0) {
		n = n > ZEROS ? ZEROS : n;
		rc = content_write(fd, zeros, (size_t)n, at, path, e);
		if (rc < 0) {
			return rc;
		}
		off = at + n;
	}
	return rc < 0 ? err_wrap(e, "%s", path) : 0;
}

int
content_punch(int fd, uint64_t off, uint64_t len, const char *path,
	      struct err *e)
{
	struct stat st;
	uint64_t end;

	if (off > INT64_MAX || len > INT64_MAX - off) {
		return err_sys(e, EFBIG, "cannot make a hole in %s", path);
	}
	if (len == 0) {
		return 0;
	}
	while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 (off_t)off, (off_t)len) < 0) {
		if (errno == EINTR) {
			continue;
		}
		if (errno != EOPNOTSUPP && errno != ENOSYS) {
			return err_sys(e, errno, "cannot make a hole in %s",
				       path);
		}
		if (fstat(fd, &st) < 0) {
			return err_sys(e, errno, "cannot stat %s", path);
		}
		end = off + len;
		if (end > (uint64_t)st.st_size) {
			end = (uint64_t)st.st_size;
		}
		return write_zeros(fd, off, end, path, e);
	}
	return 0;
}
