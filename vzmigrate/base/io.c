/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io: loops around read and write, and the clock every deadline uses. No
 * state.
 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

int64_t
io_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t
io_deadline(int64_t ms)
{
	return ms < 0 ? IO_FOREVER : io_now_ms() + ms;
}

int
io_left_ms(int64_t deadline)
{
	int64_t left;

	if (deadline == IO_FOREVER) {
		return -1;
	}
	left = deadline - io_now_ms();
	return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

ssize_t
io_read_full(int fd, void *data, size_t len, const char *what, struct err *e)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = read(fd, (char *)data + got, len - got);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return err_sys(e, errno, "cannot read %s", what);
		}
		if (n == 0) {
			break;
		}
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int
io_write_full(int fd, const void *data, size_t len, const char *what,
	      struct err *e)
{
	size_t put = 0;

	while (put < len) {
		ssize_t n = write(fd, (const char *)data + put, len - put);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return err_sys(e, errno, "cannot write %s", what);
		}
		put += (size_t)n;
	}
	return 0;
}

int
io_read_file(int dirfd, const char *path, size_t max, char **data, size_t *len,
	     struct err *e)
{
	cleanup(close_fd) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	cleanup(free_ptr) char *p = NULL;
	size_t cap = 4096, got = 0;

	if (fd < 0) {
		return err_sys(e, errno, "cannot open %s", path);
	}
	for (;;) {
		ssize_t n;
		char *q = realloc(p, cap + 1);

		if (!q) {
			return err_nomem(e);
		}
		p = q;
		n = io_read_full(fd, p + got, cap - got, path, e);
		if (n < 0) {
			return (int)n;
		}
		got += (size_t)n;
		if (got > max) {
			return err_set(e, E_LIMIT,
				       "%s is larger than %zu bytes", path,
				       max);
		}
		if (got < cap) {
			break;
		}
		cap *= 2;
	}
	p[got] = '\0';
	if (len) {
		*len = got;
	}
	*data = steal_ptr(&p);
	return 0;
}

int
io_set_nonblock(int fd, bool on, struct err *e)
{
	int fl = fcntl(fd, F_GETFL);

	if (fl < 0 ||
	    fcntl(fd, F_SETFL, on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK) < 0) {
		return err_sys(e, errno, "cannot set a descriptor's flags");
	}
	return 0;
}

int
io_mkdirs(const char *path, mode_t mode, struct err *e)
{
	cleanup(free_ptr) char *p = strdup(path);

	if (!p) {
		return err_nomem(e);
	}
	for (char *s = p + 1;; s++) {
		char c = *s;

		if (c != '/' && c != '\0') {
			continue;
		}
		*s = '\0';
		if (mkdir(p, mode) < 0 && errno != EEXIST) {
			return err_sys(e, errno, "cannot make directory %s", p);
		}
		*s = c;
		if (c == '\0') {
			return 0;
		}
	}
}

char *
io_asprintf(struct err *e, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	if (n < 0) {
		err_nomem(e);
		return NULL;
	}
	return p;
}
