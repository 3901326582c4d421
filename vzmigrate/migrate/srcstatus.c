/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcstatus: writes and reads the note "status" in a session's directory:
 * lines of a key and a number. It is not on disk for sure and need not be:
 * what counts is in the journal. State: none.
 */
#include "config.h"

#include "migrate/srcstatus.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/procid.h"

#define NOTE "status"
#define NOTE_TMP ".status.tmp"
#define NOTE_MAX 1024

void
srcstatus_put(const struct srcsession *s, struct srcstatus_note *n)
{
	int dir = srcsession_dirfd(s), len;
	cleanup(close_fd) int fd = -1;
	char text[NOTE_MAX];

	n->pid = (long)getpid();
	n->since = procid_start(n->pid, NULL);
	n->time_s = time(NULL);
	len = snprintf(text, sizeof(text),
		       "pid %ld\nsince %" PRIu64 "\ntime %" PRId64
		       "\nstep %d\npass %u\nfiles %" PRIu64 "\nbytes %" PRIu64
		       "\ntotal-files %" PRIu64 "\ntotal-bytes %" PRIu64 "\n",
		       n->pid, n->since, n->time_s, (int)n->step, n->pass,
		       n->files, n->bytes, n->total_files, n->total_bytes);
	fd = openat(dir, NOTE_TMP,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0 || io_write_full(fd, text, (size_t)len, NOTE, NULL) < 0 ||
	    renameat(dir, NOTE_TMP, dir, NOTE) < 0) {
		unlinkat(dir, NOTE_TMP, 0);
	}
}

/* The number after "KEY " at the beginning of a line; 0 where there is none. */
static uint64_t
number(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = text; p && *p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, n) == 0 && p[n] == ' ') {
			return strtoull(p + n + 1, NULL, 10);
		}
	}
	return 0;
}

static void
read_note(struct srcstatus *st)
{
	cleanup(free_ptr) char *text = NULL;
	struct srcstatus_note *n = &st->note;

	if (io_read_file(srcsession_dirfd(st->session), NOTE, NOTE_MAX, &text,
			 NULL, NULL) < 0) {
		return;
	}
	n->pid = (long)number(text, "pid");
	n->since = number(text, "since");
	n->time_s = (int64_t)number(text, "time");
	n->step = (enum steps_step)number(text, "step");
	n->pass = (unsigned)number(text, "pass");
	n->files = number(text, "files");
	n->bytes = number(text, "bytes");
	n->total_files = number(text, "total-files");
	n->total_bytes = number(text, "total-bytes");
	st->alive = n->since != 0 && procid_start(n->pid, NULL) == n->since;
}

struct each {
	srcstatus_fn *fn;
	void *arg;
};

static int
one(const struct srcsession *s, void *arg, struct err *e)
{
	const struct each *each = arg;
	struct srcstatus st = { .session = s };

	read_note(&st);
	return each->fn(&st, each->arg, e);
}

int
srcstatus_each(const char *word, srcstatus_fn *fn, void *arg, struct err *e)
{
	struct each each = { fn, arg };

	return srcsession_each(word, one, &each, e);
}
