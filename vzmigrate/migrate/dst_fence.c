/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_fence: sees to it that one process acts for a session (design.md
 * section 7, "Fencing"). An agent whose link died may still have an order in
 * its socket; so who opens the session takes its lock, raises its epoch on
 * disk, and ends the old agent before anything else. An order that was being
 * carried out holds the lock and is waited for; one that comes later finds
 * the epoch raised.
 *
 * State: the files lock, epoch and agent of the session's directory. `agent`
 * names who serves the session; `lock`, who opened it last, since that one has
 * the lock before it is the agent.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "base/procid.h"
#include "migrate/dst_int.h"
#include "migrate/hostid.h"

#define TERM_GRACE_MS 2000
#define LOCK_RETRY_MS 20
#define AGENT_TEXT 256

/* A process that cannot be mistaken for a later one with the same pid. */
struct agent {
	long pid;
	unsigned long long start; /* field 22 of /proc/PID/stat, clock ticks */
	char boot[HOSTID_BOOT_MAX];
	char pidns[64]; /* "pid:[4026531836]" */
};

static int64_t
fence_ms(const struct dst *d)
{
#ifdef FAULT_HOOKS
	const char *ms = getenv("VZMIGRATE_FENCE_MS"); /* tests are hasty */

	if (ms) {
		return atoll(ms);
	}
#endif
	return d->opts.fence_ms > 0 ? d->opts.fence_ms : DST_FENCE_MS;
}

/* ---- the lock ---- */

/* flock has no deadline of its own, and a lock that a thread waits for could
 * not be given up; so it is tried in intervals. */
static int
flock_until(int fd, int64_t deadline)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int left = io_left_ms(deadline);

		if (errno != EWOULDBLOCK && errno != EINTR) {
			return -1;
		}
		if (left == 0) {
			errno = EWOULDBLOCK;
			return -1;
		}
		poll(NULL, 0, left < LOCK_RETRY_MS ? left : LOCK_RETRY_MS);
	}
	return 0;
}

/* 1: locked; 0: the file was removed meanwhile (dst_clean_old). */
static int
lock_once(struct dst *d, int64_t deadline, int *out, struct err *e)
{
	struct stat st;
	cleanup(close_fd) int fd = openat(
		d->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0) {
		return err_sys(e, errno, "cannot open the lock of session %s",
			       d->hex);
	}
	if (flock_until(fd, deadline) < 0) {
		return errno == EWOULDBLOCK
			       ? err_set(e, E_BUSY,
					 "session %s is locked: its agent is "
					 "still carrying out an order; try "
					 "again later",
					 d->hex)
			       : err_sys(e, errno, "cannot lock session %s",
					 d->hex);
	}
	if (fstat(fd, &st) < 0) {
		return err_sys(e, errno, "cannot stat the session's lock");
	}
	if (st.st_nlink == 0) {
		return 0;
	}
	*out = steal_fd(&fd);
	return 1;
}

static int
lock_within(struct dst *d, int64_t ms, int *fd, struct err *e)
{
	int64_t deadline = io_deadline(ms);

	for (int i = 0; i < 3; i++) {
		int rc = lock_once(d, deadline, fd, e);

		if (rc != 0) {
			return rc < 0 ? rc : 0;
		}
	}
	return err_set(e, E_BUSY, "session %s is being removed", d->hex);
}

int
dst_lock(struct dst *d, int *fd, struct err *e)
{
	return lock_within(d, fence_ms(d), fd, e);
}

/* ---- the epoch ---- */

static int
read_epoch(struct dst *d, uint32_t *epoch, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	struct err why = { 0 };
	unsigned long long n;
	char *end;

	if (io_read_file(d->fd, "epoch", 64, &text, NULL, &why) < 0) {
		if (why.sys != ENOENT) {
			if (e) {
				*e = why;
			}
			return err_wrap(e, "session %s", d->hex);
		}
		*epoch = 0;
		return 0;
	}
	n = strtoull(text, &end, 10);
	if (end == text || *end != '\n' || n == 0 || n >= UINT32_MAX) {
		return err_set(e, E_CORRUPT, "%s/epoch is damaged", d->path);
	}
	*epoch = (uint32_t)n;
	return 0;
}

int
dst_enter(struct dst *d, int *fd, struct err *e)
{
	cleanup(close_fd) int lock = -1;
	uint32_t now;
	int rc = dst_lock(d, &lock, e);

	if (rc == 0) {
		rc = read_epoch(d, &now, e);
	}
	if (rc < 0) {
		return rc;
	}
	if (now != d->epoch) {
		return err_set(e, E_FENCED,
			       "session %s belongs to a newer connection "
			       "(epoch %u, this one has %u)",
			       d->hex, now, d->epoch);
	}
	*fd = steal_fd(&lock);
	return 0;
}

static int
raise_epoch(struct dst *d, struct err *e)
{
	char text[32];
	uint32_t now;
	int rc = read_epoch(d, &now, e);

	if (rc < 0) {
		return rc;
	}
	d->epoch = now + 1;
	snprintf(text, sizeof(text), "%u\n", d->epoch);
	rc = atomicfile_write(d->fd, "epoch", text, strlen(text), 0600, 0, e);
	return rc < 0 ? err_wrap(e, "session %s", d->hex) : 0;
}

/* ---- the old agent ---- */

static int
self(struct agent *a, struct err *e)
{
	ssize_t n =
		readlink("/proc/self/ns/pid", a->pidns, sizeof(a->pidns) - 1);

	if (n < 0) {
		return err_sys(e, errno, "cannot read /proc/self/ns/pid");
	}
	a->pidns[n] = '\0';
	a->pid = (long)getpid();
	a->start = procid_start(a->pid, NULL);
	if (a->start == 0) {
		return err_set(e, E_SYSTEM, "cannot read /proc/self/stat");
	}
	return hostid_boot(a->boot, e);
}

static int
agent_text(char text[AGENT_TEXT], const struct agent *a)
{
	return snprintf(text, AGENT_TEXT, "%ld %llu %s %s\n", a->pid, a->start,
			a->boot, a->pidns);
}

static bool
parse_agent(const char *text, struct agent *a)
{
	return sscanf(text, "%ld %llu %63s %63s", &a->pid, &a->start, a->boot,
		      a->pidns) == 4 &&
	       a->pid > 1;
}

/* 1 with the agent noted, 0 where none is. */
static int
read_agent(struct dst *d, struct agent *a, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	struct err why = { 0 };

	if (io_read_file(d->fd, "agent", AGENT_TEXT, &text, NULL, &why) < 0) {
		if (why.sys == ENOENT) {
			return 0;
		}
		if (e) {
			*e = why;
		}
		return err_wrap(e, "session %s", d->hex);
	}
	if (!parse_agent(text, a)) {
		return err_set(e, E_CORRUPT, "%s/agent is damaged", d->path);
	}
	return 1;
}

/* Wait for the end of the process behind `pidfd`. */
static bool
ended(int pidfd, int64_t ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int64_t deadline = io_deadline(ms);
	int n;

	do {
		n = poll(&p, 1, io_left_ms(deadline));
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

static int
end_agent(struct dst *d, const struct agent *a, struct err *e)
{
	cleanup(close_fd) int pidfd =
		(int)syscall(SYS_pidfd_open, (pid_t)a->pid, 0);
	static const int signals[] = { SIGTERM, SIGKILL };
	char state = '\0';
	size_t first;

	if (pidfd < 0) {
		return errno == ESRCH
			       ? 0
			       : err_sys(e, errno, "pidfd_open(%ld)", a->pid);
	}
	/* The pidfd was there first: a process with the recorded start time
	 * that is seen now is the one it refers to. */
	if (procid_start(a->pid, &state) != a->start) {
		return 0;
	}
	log_info("ending the old agent of the session, process %ld", a->pid);
	/* One that is stopped would not take the first. */
	first = state == 'T' || state == 't' ? 1 : 0;
	for (size_t i = first; i < 2; i++) {
		if (syscall(SYS_pidfd_send_signal, pidfd, signals[i], NULL, 0) <
			    0 &&
		    errno != ESRCH) {
			return err_sys(e, errno,
				       "cannot end the old agent, process %ld",
				       a->pid);
		}
		if (ended(pidfd, i == 0 ? TERM_GRACE_MS : fence_ms(d))) {
			return 0;
		}
	}
	return err_set(e, E_BUSY,
		       "the old agent of session %s, process %ld, does not "
		       "end",
		       d->hex, a->pid);
}

static int
end_old(struct dst *d, const struct agent *me, struct err *e)
{
	struct agent old;
	int rc = read_agent(d, &old, e);

	if (rc <= 0) {
		return rc;
	}
	if (strcmp(old.boot, me->boot) != 0) {
		return 0; /* ended with that boot */
	}
	if (strcmp(old.pidns, me->pidns) != 0) {
		/* Its pid means nothing here. Where it lives, the journal's
		 * lock will tell. */
		log_warn("the session's old agent ran in another pid "
			 "namespace");
		return 0;
	}
	if (old.pid == me->pid && old.start == me->start) {
		return 0; /* we, for an earlier OPEN */
	}
	return end_agent(d, &old, e);
}

/* Into the lock that was taken to open the session. Only who is stopped with it
 * is sought by this, so without it nothing is wrong. */
static void
note_holder(int lock)
{
	char text[AGENT_TEXT];
	struct agent me;
	int n;

	if (self(&me, NULL) < 0) {
		return;
	}
	n = agent_text(text, &me);
	if (ftruncate(lock, 0) < 0 || pwrite(lock, text, (size_t)n, 0) != n) {
		log_debug("cannot note who holds the session's lock");
	}
}

/* Whether there is one; a torn note is none. */
static bool
read_holder(struct dst *d, struct agent *a)
{
	cleanup(free_ptr) char *text = NULL;

	return io_read_file(d->fd, "lock", AGENT_TEXT, &text, NULL, NULL) ==
		       0 &&
	       parse_agent(text, a);
}

static bool
is_stopped(const struct agent *a, const struct agent *me)
{
	char state = '\0';

	return strcmp(a->boot, me->boot) == 0 &&
	       strcmp(a->pidns, me->pidns) == 0 &&
	       procid_start(a->pid, &state) == a->start &&
	       (state == 'T' || state == 't');
}

/* 1 when the session's agent, or who was about to become it, is stopped
 * (SIGSTOP, a debugger): a lock that it holds it holds for ever. */
static int
stopped_agent(struct dst *d, struct agent *old, struct err *e)
{
	struct agent me;
	int rc = self(&me, e);

	rc = rc < 0 ? rc : read_agent(d, old, e);
	if (rc < 0 || (rc == 1 && is_stopped(old, &me))) {
		return rc;
	}
	return read_holder(d, old) && is_stopped(old, &me);
}

int
dst_lock_to_open(struct dst *d, int *fd, struct err *e)
{
	int64_t ms = fence_ms(d);
	struct err busy = { 0 };
	struct agent old;
	int rc = lock_within(d, ms < TERM_GRACE_MS ? ms : TERM_GRACE_MS, fd,
			     &busy);

	if (rc != E_BUSY) {
		if (rc < 0 && e) {
			*e = busy;
		} else if (rc == 0) {
			note_holder(*fd);
		}
		return rc;
	}
	/* Ending it in the middle of an order is as safe as a crash. */
	rc = stopped_agent(d, &old, e);
	if (rc == 1) {
		rc = end_agent(d, &old, e);
	}
	rc = rc < 0 ? rc : dst_lock(d, fd, e);
	if (rc == 0) {
		note_holder(*fd);
	}
	return rc;
}

int
dst_fence(struct dst *d, struct err *e)
{
	struct agent me;
	char text[AGENT_TEXT];
	int rc = self(&me, e);

	if (rc == 0) {
		rc = fault_point("dst.fence.before-epoch", e);
	}
	if (rc == 0) {
		rc = raise_epoch(d, e);
	}
	if (rc == 0) {
		rc = fault_point("dst.fence.after-epoch", e);
	}
	if (rc == 0) {
		rc = end_old(d, &me, e);
	}
	if (rc == 0) {
		rc = fault_point("dst.fence.after-end", e);
	}
	if (rc < 0) {
		return rc;
	}
	agent_text(text, &me);
	rc = atomicfile_write(d->fd, "agent", text, strlen(text), 0600, 0, e);
	return rc < 0 ? err_wrap(e, "session %s", d->hex) : 0;
}

void
dst_unfence(struct dst *d)
{
	cleanup(close_fd) int lock = -1;
	struct err e = { 0 };

	if (dst_enter(d, &lock, &e) == 0) {
		unlinkat(d->fd, "agent", 0);
	}
}
