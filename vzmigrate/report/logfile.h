/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * logfile: the log of one migration on the source host, and its first and last
 * line in syslog.
 */
#ifndef REPORT_LOGFILE_H
#define REPORT_LOGFILE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"

#define LOGFILE_DIR "/var/log/vzmigrate"

struct logfile;

/*
 * Create a log in `dir` (normally LOGFILE_DIR; made if missing, its parent must
 * exist). The directory must be a real one that belongs to the caller and
 * becomes 0700; the file is new, 0600, and named YYYYMMDDTHHMMSS-CT.log in
 * local time, with -2, -3 ... before .log where that exists. Bytes of `ct`
 * that are not [A-Za-z0-9._-] become "_". `*out` is owned: logfile_close. 0;
 * E_DENIED where the directory belongs to somebody else or is a symlink;
 * E_SYSTEM, E_EXISTS (1000 names taken), E_NOMEM, E_NOSPACE.
 */
int logfile_open(const char *dir, const char *ct, struct logfile **out,
		 struct err *e);

/* A log_sink_fn; `arg` is the struct logfile. One line is one write:
 * "2026-01-31T23:59:59.123+01:00 warning: text". A write that fails is
 * remembered for logfile_close, nothing else happens. */
void logfile_sink(enum log_level level, const char *line, void *arg);

/* Its path, borrowed until logfile_close. */
const char *logfile_path(const struct logfile *f);

/* fsync, close, free. Remove the sink before. 0, or E_SYSTEM or E_NOSPACE
 * where some line could not be written. NULL is allowed. May block on the
 * disk. */
int logfile_close(struct logfile *f, struct err *e);

/* One line to syslog as "vzmigrate[pid]", facility daemon, before the work:
 * "start CT 101 to root@host session ID". Texts are escaped. */
void logfile_syslog_start(const char *ct, const char *destination,
			  const char *session);

/* And after it: "end CT 101 to root@host session ID: moved" at level info, or
 * "...: failed: text" at level err. `text` may be NULL. */
void logfile_syslog_end(const char *ct, const char *destination,
			const char *session, bool ok, const char *text);

#endif
