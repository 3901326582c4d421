/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * journal: opens, locks, reads and appends to the record of a migration's
 * steps; what is in a line is journal_rec.c's. State: one open file with the
 * length of its sound part, and a lock file beside it that holds the owner's
 * pid; both belong to struct journal.
 */
#include "migrate/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "migrate/journal_int.h"

struct journal {
	int fd;		   /* the file, O_APPEND */
	int lockfd;	   /* NAME.lock, flocked */
	char *what;	   /* its path for messages */
	uint64_t seq;	   /* of the last record */
	uint64_t size;	   /* bytes of sound records */
	struct err broken; /* why nothing can be appended any more */
};

/* ---- opening ---- */

static int
open_error(int errnum, const char *what, struct err *e)
{
	if (errnum == ENOENT) {
		return err_set(e, E_NOT_FOUND, "there is no journal %s", what);
	}
	if (errnum == EEXIST) {
		return err_set(e, E_EXISTS, "journal %s exists", what);
	}
	return err_sys(e, errnum, "cannot open journal %s", what);
}

static int
read_all(int fd, const char *what, char **data, size_t *len, struct err *e)
{
	cleanup(free_ptr) char *p = NULL;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0) {
		return err_sys(e, errno, "cannot stat journal %s", what);
	}
	if (!S_ISREG(st.st_mode) || st.st_size > JOURNAL_FILE_MAX) {
		return err_set(e, E_CORRUPT,
			       "journal %s is no file of at most %u bytes",
			       what, JOURNAL_FILE_MAX);
	}
	p = malloc((size_t)st.st_size + 1);
	if (!p) {
		return err_nomem(e);
	}
	n = io_read_full(fd, p, (size_t)st.st_size, what, e);
	if (n < 0) {
		return (int)n;
	}
	*len = (size_t)n;
	*data = steal_ptr(&p);
	return 0;
}

/* The pid is only told to people, so a torn one does no harm. */
static int
busy(int lockfd, const char *what, struct err *e)
{
	char pid[24] = "";
	ssize_t n = pread(lockfd, pid, sizeof(pid) - 1, 0);
	size_t len = n < 0 ? 0 : strspn(pid, "0123456789");

	pid[len] = '\0';
	return err_set(e, E_BUSY, "journal %s is in use by process %s", what,
		       len ? pid : "(unknown)");
}

static int
take_lock(struct journal *j, int dirfd, const char *name, struct err *e)
{
	char lock[NAME_MAX + 1], pid[24];
	int n;

	if (snprintf(lock, sizeof(lock), "%s.lock", name) >=
	    (int)sizeof(lock)) {
		return err_set(e, E_LIMIT, "name %s is too long", name);
	}
	j->lockfd = openat(dirfd, lock,
			   O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (j->lockfd < 0) {
		return err_sys(e, errno, "cannot open the lock of journal %s",
			       j->what);
	}
	while (flock(j->lockfd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK) {
			return busy(j->lockfd, j->what, e);
		}
		if (errno != EINTR) {
			return err_sys(e, errno, "cannot lock journal %s",
				       j->what);
		}
	}
	n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
	if (ftruncate(j->lockfd, 0) < 0 ||
	    pwrite(j->lockfd, pid, (size_t)n, 0) != n) {
		/* The lock itself holds; only its owner's name is missing. */
		log_debug("cannot note the pid beside journal %s", j->what);
	}
	return 0;
}

/* Open or create the file, telling through `made` that it is new. */
static int
open_file(struct journal *j, int dirfd, const char *name, unsigned flags,
	  struct err *e)
{
	int o = O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC;

	if (flags & JOURNAL_CREATE) {
		o |= O_CREAT | (flags & JOURNAL_EXCL ? O_EXCL : 0);
	}
	j->fd = openat(dirfd, name, o, 0600);
	if (j->fd < 0) {
		return open_error(errno, j->what, e);
	}
	if (!(flags & JOURNAL_CREATE)) {
		return 0;
	}
	/* Also where it was there: its maker may have died before this. */
	if (fsync(j->fd) < 0) {
		return err_sys(e, errno, "cannot fsync journal %s", j->what);
	}
	return atomicfile_sync_dir(dirfd, j->what, e);
}

static int
cut_torn(struct journal *j, const char *torn, size_t len, struct err *e)
{
	char show[256];

	log_warn("journal %s: cut off a torn last line: %s", j->what,
		 escape_bytes(show, sizeof(show), torn, len));
	if (ftruncate(j->fd, (off_t)j->size) < 0 || fsync(j->fd) < 0) {
		return err_sys(e, errno, "cannot cut journal %s", j->what);
	}
	return 0;
}

static int
load(struct journal *j, journal_replay_fn *fn, void *arg, struct err *e)
{
	cleanup(free_ptr) char *data = NULL;
	size_t len, sound;
	int rc = read_all(j->fd, j->what, &data, &len, e);

	if (rc == 0) {
		rc = journal_replay(data, len, j->what, fn, arg, &sound,
				    &j->seq, e);
	}
	if (rc < 0) {
		return rc;
	}
	j->size = sound;
	return sound < len ? cut_torn(j, data + sound, len - sound, e) : 0;
}

int
journal_open(int dirfd, const char *name, const char *what, unsigned flags,
	     journal_replay_fn *fn, void *arg, struct journal **out,
	     struct err *e)
{
	struct journal *j = calloc(1, sizeof(*j));
	int rc;

	if (!j) {
		return err_nomem(e);
	}
	j->fd = j->lockfd = -1;
	j->what = strdup(what);
	rc = j->what ? 0 : err_nomem(e);
	if (rc == 0 && !(flags & JOURNAL_CREATE) &&
	    faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		/* Do not leave a lock file beside nothing. */
		rc = open_error(errno, what, e);
	}
	if (rc == 0) {
		rc = take_lock(j, dirfd, name, e);
	}
	if (rc == 0) {
		rc = open_file(j, dirfd, name, flags, e);
	}
	if (rc == 0) {
		rc = load(j, fn, arg, e);
	}
	if (rc < 0) {
		journal_close(j);
		return rc;
	}
	*out = j;
	return 0;
}

int
journal_read(int dirfd, const char *name, const char *what,
	     journal_replay_fn *fn, void *arg, struct err *e)
{
	cleanup(free_ptr) char *data = NULL;
	cleanup(close_fd) int fd =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	size_t len, sound;
	uint64_t last;
	int rc;

	if (fd < 0) {
		return open_error(errno, what, e);
	}
	rc = read_all(fd, what, &data, &len, e);
	if (rc < 0) {
		return rc;
	}
	return journal_replay(data, len, what, fn, arg, &sound, &last, e);
}

/* ---- appending ---- */

static int
event_point(const char *event, const char *when, struct err *e)
{
#ifdef FAULT_HOOKS
	char name[128];

	snprintf(name, sizeof(name), "journal.%s.%s", event, when);
	return fault_point(name, e);
#else
	(void)event;
	(void)when;
	(void)e;
	return 0;
#endif
}

/* The two halves let a test cut the line. */
static int
write_line(struct journal *j, const struct buf *b, const char *event,
	   struct err *e)
{
	size_t half = b->len / 2;
	int rc = 0;

#ifdef FAULT_HOOKS
	rc = io_write_full(j->fd, b->data, half, j->what, e);
	if (rc == 0) {
		rc = event_point(event, "torn", e);
	}
#else
	half = 0;
	(void)event;
#endif
	if (rc == 0) {
		rc = io_write_full(j->fd, b->data + half, b->len - half,
				   j->what, e);
	}
	return rc;
}

/* A failed write is taken back, so that a full disk does not end the journal
 * for good; a failed fsync cannot be. */
static int
append_line(struct journal *j, const struct buf *b, const char *event,
	    struct err *e)
{
	int rc = write_line(j, b, event, e);

	if (rc < 0) {
		if (ftruncate(j->fd, (off_t)j->size) < 0) {
			err_sys(&j->broken, errno, "cannot cut journal %s",
				j->what);
		}
		return rc;
	}
	if (fdatasync(j->fd) < 0) {
		err_sys(&j->broken, errno, "cannot fsync journal %s", j->what);
		if (e) {
			*e = j->broken;
		}
		return j->broken.code;
	}
	j->size += b->len;
	j->seq++;
	return 0;
}

int
journal_append_fields(struct journal *j, const char *event,
		      const struct journal_field *fields, size_t nfields,
		      struct err *e)
{
	cleanup(buf_finip) struct buf b;
	int rc;

	buf_init(&b, JOURNAL_LINE_MAX);
	assert(journal_event_ok(event) && nfields <= JOURNAL_FIELDS_MAX);
	rc = journal_sound(j, e);
	rc = rc < 0 ? rc : event_point(event, "before", e);
	if (rc == 0) {
		rc = journal_encode(&b, j->seq + 1, event, fields, nfields, e);
	}
	if (rc == 0 && j->size + b.len > JOURNAL_FILE_MAX) {
		rc = err_set(e, E_LIMIT, "journal %s is full", j->what);
	}
	if (rc == 0) {
		rc = append_line(j, &b, event, e);
	}
	if (rc < 0) {
		return rc;
	}
	log_debug("journal %s: %.*s", j->what, (int)b.len - 1, b.data);
	rc = event_point(event, "after", e);
	if (rc < 0 && e) {
		/* Like a failed fsync: what is on disk is not known. */
		j->broken = *e;
	}
	return rc;
}

int
journal_append(struct journal *j, struct err *e, const char *event, ...)
{
	struct journal_field f[JOURNAL_FIELDS_MAX];
	const char *key;
	size_t n = 0;
	va_list ap;

	va_start(ap, event);
	while ((key = va_arg(ap, const char *))) {
		const char *value = va_arg(ap, const char *);

		if (value) {
			assert(n < JOURNAL_FIELDS_MAX);
			f[n++] = (struct journal_field){ key, value };
		}
	}
	va_end(ap);
	return journal_append_fields(j, event, f, n, e);
}

/* ---- the rest ---- */

int
journal_sound(const struct journal *j, struct err *e)
{
	if (j->broken.code && e) {
		*e = j->broken;
	}
	return j->broken.code;
}

uint64_t
journal_seq(const struct journal *j)
{
	return j->seq;
}

void
journal_close(struct journal *j)
{
	if (!j) {
		return;
	}
	if (j->fd >= 0) {
		close(j->fd);
	}
	if (j->lockfd >= 0) {
		close(j->lockfd);
	}
	free(j->what);
	free(j);
}
