/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * progress: how far the run is, for a person or a program.
 *
 * On a terminal one line is redrawn in place; elsewhere a plain line comes
 * every 10 s; with JSON one object a line every second; or nothing at all.
 * Counting is cheap (an atomic addition) and may be done from any thread. All
 * drawing is done under one lock, by progress_tick or by the thread that
 * progress_start starts. Nothing here fails: a display that cannot be written
 * is given up, the run goes on.
 */
#ifndef REPORT_PROGRESS_H
#define REPORT_PROGRESS_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

enum progress_mode {
	PROGRESS_AUTO,	   /* TERMINAL where `fd` is one that can move its
			    * cursor (TERM is set and not "dumb"), else PLAIN */
	PROGRESS_TERMINAL, /* redraw one line, 5 times a second */
	PROGRESS_PLAIN,	   /* a line every 10 s */
	PROGRESS_JSON,	   /* an object a line every second */
	PROGRESS_QUIET,	   /* nothing; the log sink still writes */
};

struct progress;

/* A new display on `fd` (stderr; stdout for JSON), log lines of the sink on
 * `log_fd` (stderr). Both are borrowed. `label` (borrowed for the call, e.g.
 * "CT 101") opens each line and is escaped. NULL with E_NOMEM. The caller ends
 * it with progress_free. Draws nothing yet. */
struct progress *progress_new(enum progress_mode mode, int fd, int log_fd,
			      const char *label, struct err *e);

/* End the thread if there is one, wipe the redrawn line, free. Remove the log
 * sink before. NULL is allowed. Also joins: may wait for one drawing. */
void progress_free(struct progress *p);

/* Start a thread that ticks until progress_free. All signals are blocked in
 * it. 0 or E_SYSTEM. Not before a fork without exec. */
int progress_start(struct progress *p, struct err *e);

/* Draw if it is time. `now_ms` is io_now_ms() (an argument for tests). For
 * programs that have a loop and no thread; both together are allowed. May
 * block on a slow terminal. */
void progress_tick(struct progress *p, int64_t now_ms);

/* Draw now, whatever the time (the end of a stage). In QUIET mode nothing. */
void progress_flush(struct progress *p);

/* Another label, of the next container; as in progress_new. */
void progress_label(struct progress *p, const char *label);

/* A new stage: `name` ("pass 1", "final pass") is copied and escaped. Counters,
 * totals and the rate start from 0. A line is drawn at the next tick. */
void progress_stage(struct progress *p, const char *name);

/* What this stage will come to, as far as is known; 0 is unknown. It may be
 * raised later while a scan finds more. */
void progress_total(struct progress *p, uint64_t files, uint64_t bytes);

/* So much more was done in this stage. Any thread, lock-free. `bytes` are of
 * file content, before compression. */
void progress_add(struct progress *p, uint64_t files, uint64_t bytes);

/* So many content bytes went as so many bytes on the wire: the compression
 * ratio over the run. Any thread, lock-free. */
void progress_wire(struct progress *p, uint64_t content, uint64_t wire);

/* Number of data streams open now. Any thread. */
void progress_streams(struct progress *p, unsigned n);

/* The rate that is not to be exceeded, bytes per second; 0: none. Any thread.
 */
void progress_limit(struct progress *p, uint64_t rate);

/* Wipe the line and draw nothing until progress_resume: somebody else writes
 * to the terminal (a password prompt). They nest. */
void progress_pause(struct progress *p);
void progress_resume(struct progress *p);

/* A log_sink_fn; `arg` is the struct progress. The redrawn line is wiped, the
 * log line is written whole ("vzmigrate: warning: ..."), the line is drawn
 * again: never half a line. */
void progress_log_sink(enum log_level level, const char *line, void *arg);

#endif
