/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * content: data runs and holes of an open regular file, read through the page
 * cache or past it. No state.
 */
#include "fs/content.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ZEROS                                                          \
	(64u << 10) /* bytes written at once where holes cannot be had \
		     */

/* What any disk wants of a direct read: offset, length and memory. */
#define DIRECT_ALIGN 4096u
/* Read directly at once; less is slower, more is not faster. */
#define AHEAD (2u << 20)

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

/* For a file system that has no direct reading, or a disk that wants more of
 * it: read through the cache, which is emptied. */
static int
drop_cache(int fd, const char *path, struct err *e)
{
	int flags = fcntl(fd, F_GETFL), no;

	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_DIRECT) < 0 ||
	    fdatasync(fd) < 0) {
		return err_sys(e, errno, "cannot read %s from the disk", path);
	}
	no = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return no ? err_sys(e, no, "cannot read %s from the disk", path) : 0;
}

int
content_direct(int fd, const char *path, struct err *e)
{
	int flags = fcntl(fd, F_GETFL);

	/* The kernel writes out what a direct read is about to pass by. */
	return flags >= 0 && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0
		       ? 0
		       : drop_cache(fd, path, e);
}

/* Read [off, off + len), all multiples of DIRECT_ALIGN, but for the file's
 * end. */
static ssize_t
read_aligned(int fd, uint8_t *data, size_t len, uint64_t off, const char *path,
	     struct err *e)
{
	bool retried = false;
	size_t done = 0;

	while (done < len && done % DIRECT_ALIGN == 0) {
		ssize_t n =
			pread(fd, data + done, len - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0 && errno == EINVAL && !retried) {
			int rc = drop_cache(fd, path, e);

			if (rc < 0) {
				return rc;
			}
			retried = true;
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

void
content_ahead_fini(struct content_ahead *a)
{
	free(a->data);
	*a = (struct content_ahead){ 0 };
}

/* Read from `at` on, at least up to `need` or as much as there is room for. */
static int
read_ahead(int fd, struct content_ahead *a, uint64_t at, uint64_t need,
	   const char *path, struct err *e)
{
	uint64_t from = at - at % DIRECT_ALIGN, end;
	ssize_t n;

	a->len = 0;
	if (!a->data) {
		a->data = aligned_alloc(DIRECT_ALIGN, AHEAD);
	}
	if (!a->data) {
		return err_nomem(e);
	}
	end = a->end > need ? a->end : need;
	end = end - from < AHEAD ? end - from : AHEAD;
	n = read_aligned(fd, a->data,
			 (end + DIRECT_ALIGN - 1) / DIRECT_ALIGN * DIRECT_ALIGN,
			 from, path, e);
	if (n < 0) {
		return (int)n;
	}
	a->off = from;
	a->len = (size_t)n;
	return 0;
}

ssize_t
content_read_direct(int fd, struct content_ahead *a, void *data, size_t len,
		    uint64_t off, const char *path, struct err *e)
{
	size_t done = 0;

	while (done < len) {
		uint64_t at = off + done;
		size_t n;

		if (at < a->off || at - a->off >= a->len) {
			int rc = read_ahead(fd, a, at, off + len, path, e);

			if (rc < 0) {
				return rc;
			}
		}
		if (at - a->off >= a->len) {
			break; /* the end */
		}
		n = a->len - (size_t)(at - a->off);
		n = n < len - done ? n : len - done;
		memcpy((char *)data + done, a->data + (at - a->off), n);
		done += n;
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
