/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * logfile: one new file for each migration, written line by line, and two
 * lines for syslog. State: struct logfile, owned by its opener; the log calls
 * the sink under its own lock.
 */
#include "report/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/io.h"

#define TRIES 1000 /* names with the same second and CT */
#define CT_MAX 64  /* of its name in the file's */
#define NAME_LEN 128

struct logfile {
	int fd;
	char *path;
	int failed; /* errno of the first failed write, 0 for none */
};

/* The directory, made if missing, ours and closed to others. */
static int
open_dir(const char *dir, struct err *e)
{
	cleanup(close_fd) int fd = -1;
	struct stat st;

	if (mkdir(dir, 0700) && errno != EEXIST) {
		return err_sys(e, errno, "cannot make %s", dir);
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
		return err_set(e, E_DENIED,
			       "%s is not a directory (a symlink is not "
			       "followed)",
			       dir);
	}
	if (fd < 0 || fstat(fd, &st)) {
		return err_sys(e, errno, "cannot open %s", dir);
	}
	if (st.st_uid != geteuid()) {
		return err_set(e, E_DENIED, "%s belongs to uid %lu, not to us",
			       dir, (unsigned long)st.st_uid);
	}
	if ((st.st_mode & 07777) != 0700 && fchmod(fd, 0700)) {
		return err_sys(e, errno, "cannot make %s private", dir);
	}
	return steal_fd(&fd);
}

static void
safe_name(char out[CT_MAX + 1], const char *ct)
{
	size_t n = 0;

	for (; ct[n] && n < CT_MAX; n++) {
		char c = ct[n];
		bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			  (c >= '0' && c <= '9') || c == '.' || c == '_' ||
			  c == '-';

		out[n] = c;
		if (!ok) {
			out[n] = '_';
		}
	}
	out[n] = '\0';
}

/* A name that nobody has yet. Returns the descriptor. */
static int
create(int dirfd, const char *dir, const char *ct, char name[NAME_LEN],
       struct err *e)
{
	char safe[CT_MAX + 1], when[32];
	time_t now = time(NULL);
	struct tm tm;

	safe_name(safe, ct);
	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%S", &tm);
	for (int i = 1; i <= TRIES; i++) {
		int fd;

		if (i == 1) {
			snprintf(name, NAME_LEN, "%s-%s.log", when, safe);
		} else {
			snprintf(name, NAME_LEN, "%s-%s-%d.log", when, safe, i);
		}
		fd = openat(dirfd, name,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
				    O_APPEND | O_CLOEXEC,
			    0600);
		if (fd >= 0) {
			return fd;
		}
		if (errno != EEXIST) {
			return err_sys(e, errno, "cannot create %s/%s", dir,
				       name);
		}
	}
	return err_set(e, E_EXISTS, "all names like %s/%s are taken", dir,
		       name);
}

int
logfile_open(const char *dir, const char *ct, struct logfile **out,
	     struct err *e)
{
	cleanup(close_fd) int dirfd = open_dir(dir, e);
	cleanup(close_fd) int fd = -1;
	char name[NAME_LEN];
	struct logfile *f;

	*out = NULL;
	if (dirfd < 0) {
		return dirfd;
	}
	fd = create(dirfd, dir, ct, name, e);
	if (fd < 0) {
		return fd;
	}
	/* whatever the umask was */
	if (fchmod(fd, 0600)) {
		return err_sys(e, errno, "cannot make %s/%s private", dir,
			       name);
	}
	f = calloc(1, sizeof(*f));
	if (!f) {
		return err_nomem(e);
	}
	f->path = io_asprintf(e, "%s/%s", dir, name);
	if (!f->path) {
		free(f);
		return E_NOMEM;
	}
	f->fd = steal_fd(&fd);
	*out = f;
	return 0;
}

/* ISO 8601 with milliseconds and the offset as +hh:mm. */
static void
stamp(char out[64])
{
	struct timespec now;
	struct tm tm;
	char head[32], zone[8];

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &tm);
	strftime(head, sizeof(head), "%Y-%m-%dT%H:%M:%S", &tm);
	strftime(zone, sizeof(zone), "%z", &tm);
	snprintf(out, 64, "%s.%03ld%.3s:%s", head, now.tv_nsec / 1000000, zone,
		 zone + 3);
}

void
logfile_sink(enum log_level level, const char *line, void *arg)
{
	struct logfile *f = arg;
	char text[LOG_LINE_MAX + 128], when[64];
	int n;
	ssize_t r;

	stamp(when);
	n = snprintf(text, sizeof(text), "%s %s: %s\n", when,
		     log_level_name(level), line);
	if (n >= (int)sizeof(text)) {
		n = (int)sizeof(text) - 1;
		text[n - 1] = '\n';
	}
	do {
		r = write(f->fd, text, (size_t)n);
	} while (r < 0 && errno == EINTR);
	if (r != n && !f->failed) {
		f->failed = r < 0 ? errno : ENOSPC;
	}
}

const char *
logfile_path(const struct logfile *f)
{
	return f->path;
}

int
logfile_close(struct logfile *f, struct err *e)
{
	int r = 0;

	if (!f) {
		return 0;
	}
	if (!f->failed && fsync(f->fd)) {
		f->failed = errno;
	}
	if (close(f->fd) && !f->failed) {
		f->failed = errno;
	}
	if (f->failed) {
		r = err_sys(e, f->failed, "cannot write %s", f->path);
	}
	free(f->path);
	free(f);
	return r;
}

#define SYSLOG_TEXT 1024

static void
say(int priority, const char *what, const char *ct, const char *destination,
    const char *session, const char *tail)
{
	char raw[SYSLOG_TEXT], text[SYSLOG_TEXT];

	snprintf(raw, sizeof(raw), "%s CT %s to %s session %s%s", what, ct,
		 destination, session ? session : "-", tail);
	escape_text(text, sizeof(text), raw);
	openlog("vzmigrate", LOG_PID, LOG_DAEMON);
	syslog(priority, "%s", text);
	closelog();
}

void
logfile_syslog_start(const char *ct, const char *destination,
		     const char *session)
{
	say(LOG_INFO, "start", ct, destination, session, "");
}

void
logfile_syslog_end(const char *ct, const char *destination, const char *session,
		   bool ok, const char *text)
{
	char tail[SYSLOG_TEXT];

	snprintf(tail, sizeof(tail), ": %s%s%s", ok ? "moved" : "failed",
		 text ? ": " : "", text ? text : "");
	say(ok ? LOG_INFO : LOG_ERR, "end", ct, destination, session, tail);
}
