/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * journal: the append-only record of a migration's steps, one on each host.
 *
 * A text file, one record a line, made to be read by a person in trouble:
 *
 *	SEQ TIME EVENT KEY=VALUE ... #CHECKSUM
 *
 * SEQ counts from 1; TIME is UTC, 2024-05-06T07:08:09Z; values are
 * percent-encoded (%XX for all but [A-Za-z0-9._/:@+,-]); CHECKSUM is 16 hex
 * digits of XXH3-64 over everything in front of " #". It finds torn and
 * damaged lines; it is no defence against someone who may write there.
 */
#ifndef MIGRATE_JOURNAL_H
#define MIGRATE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define JOURNAL_LINE_MAX (256u << 10) /* bytes of one record's line */
#define JOURNAL_FILE_MAX (64u << 20)  /* bytes; more is E_CORRUPT or E_LIMIT */
#define JOURNAL_FIELDS_MAX 64	      /* in one record */

struct journal;

/* One decoded record; all of it borrowed, valid during the callback. */
struct journal_field {
	const char *key;   /* [a-z0-9_-]+ */
	const char *value; /* decoded, no NUL inside */
};
struct journal_record {
	uint64_t seq;
	int64_t time_s;	   /* seconds since 1970 */
	const char *event; /* [a-z0-9_.-]+ */
	struct journal_field fields[JOURNAL_FIELDS_MAX];
	size_t nfields;
};

/* The value of `key`, NULL where there is none. */
const char *journal_get(const struct journal_record *r, const char *key);
/* The same as a number; `fallback` where there is none or it is not one. */
uint64_t journal_get_u64(const struct journal_record *r, const char *key,
			 uint64_t fallback);

/* Called for each record in order. Negative (with `e` set) ends the open or
 * read with that error. */
typedef int journal_replay_fn(const struct journal_record *r, void *arg,
			      struct err *e);

enum journal_flag {
	JOURNAL_CREATE = 1 << 0, /* make it where it is missing */
	JOURNAL_EXCL = 1 << 1,	 /* with CREATE: E_EXISTS where it is there */
};

/*
 * Open the journal `name` (a plain name) in `dirfd` (borrowed during the
 * call) for appending, take its exclusive lock, and give every record to `fn`
 * (may be NULL). `what` names it in messages (a path; copied). A torn last
 * line is cut off, durably, with a warning in the log. The lock lasts until
 * journal_close or the process's end; it is not inherited by programs that
 * are executed.
 *
 * 0; E_BUSY naming the holder's pid; E_NOT_FOUND; E_EXISTS; E_CORRUPT naming
 * file and line; E_SYSTEM, E_NOSPACE; an error of `fn`. Blocks on the disk,
 * never on the lock.
 */
int journal_open(int dirfd, const char *name, const char *what, unsigned flags,
		 journal_replay_fn *fn, void *arg, struct journal **j,
		 struct err *e);

/*
 * Read a journal that may be in use, without its lock and without changing
 * it; a torn last line is passed over. Errors as journal_open, but E_BUSY.
 */
int journal_read(int dirfd, const char *name, const char *what,
		 journal_replay_fn *fn, void *arg, struct err *e);

/*
 * The parser alone, for journal_open and the fuzz target: give each record in
 * `data` (changed in place) to `fn`. `*sound` is the length of the records
 * that are whole; less than `len` where the last line is torn (no newline, or
 * a wrong checksum at the very end). `*last` is the last record's number. 0,
 * E_CORRUPT naming `what` and the line, or an error of `fn`.
 */
int journal_replay(char *data, size_t len, const char *what,
		   journal_replay_fn *fn, void *arg, size_t *sound,
		   uint64_t *last, struct err *e);

/*
 * Append a record: event word, then pairs of key and value (const char *),
 * then (char *)NULL as the last key. A pair whose value is NULL is left out.
 * On disk when it returns 0. After a failed write the record is not there
 * and one may try again; after a failed fsync every further append fails with
 * the same error, and only opening the journal again tells what is in it.
 * Fault points: "journal.EVENT.before", ".torn" and ".after". Blocks on the
 * disk.
 */
int journal_append(struct journal *j, struct err *e, const char *event, ...)
	__attribute__((sentinel));

/* The same from an array. */
int journal_append_fields(struct journal *j, const char *event,
			  const struct journal_field *fields, size_t nfields,
			  struct err *e);

/* 0, or the error by which a failed fsync ended it: what is on disk then is
 * not known here, so nothing may be done in its place. */
int journal_sound(const struct journal *j, struct err *e);

/* Sequence number of the last record, 0 while it is empty. */
uint64_t journal_seq(const struct journal *j);

/* Lets the lock go. NULL is allowed. */
void journal_close(struct journal *j);

#endif
