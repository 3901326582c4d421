/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srccontrol: see the header. It has a thread of its own, since frames that
 * are queued leave long after the last file was read. State: one struct; what
 * is written there by a person is told by the file's inode and times, so it is
 * read only after a change.
 */
#include "migrate/srccontrol.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "report/human.h"

#define NAME "control"
#define KEY "limit-speed"
#define SIZE_MAX_BYTES 4096
#define LOOK_MS 1000
#define LOOK_EARLY_MS 50 /* a timer is not exact */

struct srccontrol {
	int dirfd;	     /* borrowed */
	char *path;	     /* for messages; owned */
	struct limit *limit; /* borrowed */
	struct stat seen;    /* of the version that was read last */
	int64_t next_ms;     /* when to look again */

	struct progress *progress; /* borrowed; or NULL */
	pthread_t thread;
	pthread_mutex_t lock; /* of `end` */
	pthread_cond_t changed;
	bool end;
	bool started;
};

int
srccontrol_rate(const char *text, const char *what, uint64_t *rate,
		struct err *e)
{
	int rc;

	if (strcmp(text, "none") == 0) {
		*rate = 0;
		return 0;
	}
	rc = human_parse_size(text, what, rate, e);
	if (rc == 0 && *rate && *rate < LIMIT_MIN) {
		rc = err_set(e, E_USAGE,
			     "%s: '%s' is less than %d bytes per second", what,
			     text, LIMIT_MIN);
	}
	return rc;
}

/* Without the blanks around it; in place. */
static char *
trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	n = strlen(s);
	while (n && strchr(" \t\r", s[n - 1])) {
		s[--n] = '\0';
	}
	return s;
}

static int
parse_line(char *line, uint64_t *rate, struct err *e)
{
	char *eq = strchr(line, '=');

	if (!*line || *line == '#') {
		return 0;
	}
	if (eq) {
		*eq = '\0';
	}
	if (!eq || strcmp(trim(line), KEY) != 0) {
		return err_set(e, E_USAGE,
			       "'%.40s' is not a setting (" KEY " = RATE is)",
			       line);
	}
	return srccontrol_rate(trim(eq + 1), KEY, rate, e) < 0 ? E_USAGE : 1;
}

int
srccontrol_parse(char *text, uint64_t *rate, struct err *e)
{
	int found = 0;

	while (text) {
		char *line = strsep(&text, "\n");
		int rc = parse_line(trim(line), rate, e);

		if (rc < 0) {
			return rc;
		}
		found = found || rc;
	}
	return found;
}

static bool
same_version(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
	       a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Root's own file, or nothing: a rate is no secret, but a link here would make
 * us read what somebody else chose. */
static int
read_text(struct srccontrol *c, char text[SIZE_MAX_BYTES + 1], struct err *e)
{
	cleanup(close_fd) int fd = openat(
		c->dirfd, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0) {
		return errno == ELOOP
			       ? err_set(e, E_DENIED, "is a symbolic link")
			       : err_sys(e, errno, "cannot open");
	}
	if (fstat(fd, &st) < 0) {
		return err_sys(e, errno, "cannot stat");
	}
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022)) {
		return err_set(e, E_DENIED,
			       "is no file that its owner alone may write");
	}
	n = io_read_full(fd, text, SIZE_MAX_BYTES + 1, NAME, e);
	if (n < 0) {
		return (int)n;
	}
	if (n > SIZE_MAX_BYTES || memchr(text, '\0', (size_t)n)) {
		return err_set(e, E_USAGE, "is no short text");
	}
	text[n] = '\0';
	return 0;
}

static void
take_in(struct srccontrol *c)
{
	char text[SIZE_MAX_BYTES + 1], shown[HUMAN_MAX];
	struct err e = { 0 };
	uint64_t rate = 0;
	int rc = read_text(c, text, &e);

	rc = rc < 0 ? rc : srccontrol_parse(text, &rate, &e);
	if (rc < 0) {
		log_warn("%s: %s; the limit stays as it is", c->path, e.text);
	} else if (rc == 1 && rate != limit_rate(c->limit)) {
		limit_set(c->limit, rate);
		log_info("%s: limit-speed is %s now", c->path,
			 rate ? human_rate(shown, rate) : "none");
	}
}

void
srccontrol_poll(struct srccontrol *c, int64_t now_ms)
{
	struct stat st;

	if (now_ms < c->next_ms) {
		return;
	}
	c->next_ms = now_ms + LOOK_MS - LOOK_EARLY_MS;
	if (fstatat(c->dirfd, NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    same_version(&st, &c->seen)) {
		return;
	}
	c->seen = st;
	take_in(c);
}

static void *
look_thread(void *arg)
{
	struct srccontrol *c = arg;

	pthread_mutex_lock(&c->lock);
	while (!c->end) {
		int64_t at = io_now_ms() + LOOK_MS;
		struct timespec t = { .tv_sec = at / 1000,
				      .tv_nsec = at % 1000 * 1000000 };

		pthread_mutex_unlock(&c->lock);
		srccontrol_poll(c, io_now_ms());
		if (c->progress) {
			progress_limit(c->progress, limit_rate(c->limit));
		}
		pthread_mutex_lock(&c->lock);
		if (!c->end) {
			pthread_cond_timedwait(&c->changed, &c->lock, &t);
		}
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int
srccontrol_start(struct srccontrol *c, struct progress *p, struct err *e)
{
	pthread_condattr_t attr;
	sigset_t all, old;
	int rc;

	c->progress = p;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &attr);
	pthread_condattr_destroy(&attr);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&c->thread, NULL, look_thread, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	c->started = rc == 0;
	return rc ? err_sys(e, rc, "cannot start a thread") : 0;
}

struct srccontrol *
srccontrol_open(int dirfd, const char *path, struct limit *l, struct err *e)
{
	struct srccontrol *c = calloc(1, sizeof(*c));
	uint64_t rate = limit_rate(l);
	char text[256];
	int n;

	if (c) {
		c->path = strdup(path);
	}
	if (!c || !c->path) {
		free(c);
		err_nomem(e);
		return NULL;
	}
	c->dirfd = dirfd;
	c->limit = l;
	n = rate ? snprintf(text, sizeof(text),
			    "# bytes per second, with K, M or G; or none\n" KEY
			    " = %" PRIu64 "\n",
			    rate)
		 : snprintf(text, sizeof(text),
			    "# bytes per second, with K, M or G; or none\n" KEY
			    " = none\n");
	if (atomicfile_write(dirfd, NAME, text, (size_t)n, 0600, 0, e) < 0 ||
	    fstatat(dirfd, NAME, &c->seen, AT_SYMLINK_NOFOLLOW) < 0) {
		free(c->path);
		free(c);
		return NULL;
	}
	log_info("the limit can be changed in %s", path);
	return c;
}

void
srccontrol_close(struct srccontrol *c)
{
	if (c && c->started) {
		pthread_mutex_lock(&c->lock);
		c->end = true;
		pthread_cond_signal(&c->changed);
		pthread_mutex_unlock(&c->lock);
		pthread_join(c->thread, NULL);
	}
	if (c) {
		unlinkat(c->dirfd, NAME, 0);
		free(c->path);
		free(c);
	}
}
