/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log: one stream of messages, any number of sinks (stderr, the migration's
 * log file, syslog, frames to the client). Thread-safe. Secrets never come
 * here.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level {
	LOGL_ERROR = 0, /* the run fails because of this */
	LOGL_WARN = 1,	/* the person should know */
	LOGL_INFO = 2,	/* -v: steps */
	LOGL_DEBUG = 3, /* -vv: what helps to understand a fault */
	LOGL_TRACE = 4, /* -vvv */
};

/* Called with one escaped line, no newline, under the log's lock: it must not
 * log, and should not block for long. */
typedef void log_sink_fn(enum log_level level, const char *line, void *arg);

#define LOG_LINE_MAX 4096
#define LOG_SINKS_MAX 8

/* Send messages up to `max` to `fn`. Returns a handle >= 0, or -1 where all
 * LOG_SINKS_MAX places are taken. `arg` is borrowed until removal. */
int log_add_sink(enum log_level max, log_sink_fn *fn, void *arg);

/* After it returns, the sink is not called again. -1 is allowed. */
void log_remove_sink(int handle);

/* How many messages of this very level there were, taken by a sink or not. */
unsigned long log_count(enum log_level level);

/* Whether any sink wants this level (to save building costly texts). */
int log_wanted(enum log_level level);

void log_msg(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_msg(LOGL_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOGL_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOGL_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOGL_DEBUG, __VA_ARGS__)
#define log_trace(...) log_msg(LOGL_TRACE, __VA_ARGS__)

/* "error", "warning", "info", "debug", "trace". */
const char *log_level_name(enum log_level level);

#endif
