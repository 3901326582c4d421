/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log: formats a line once and hands it to each sink that wants its level.
 * State: a fixed table of sinks, guarded by one mutex.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/escape.h"

struct sink {
	log_sink_fn *fn;    /* NULL: the place is free */
	void *arg;	    /* borrowed */
	enum log_level max; /* least important level wanted */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sink sinks[LOG_SINKS_MAX];
/* Highest level any sink wants; read without the lock as a quick test. */
static int top = -1;
static unsigned long counts[LOGL_TRACE + 1]; /* atomic */

static void
find_top(void)
{
	int t = -1;

	for (size_t i = 0; i < LOG_SINKS_MAX; i++) {
		if (sinks[i].fn && (int)sinks[i].max > t) {
			t = (int)sinks[i].max;
		}
	}
	__atomic_store_n(&top, t, __ATOMIC_RELAXED);
}

int
log_add_sink(enum log_level max, log_sink_fn *fn, void *arg)
{
	int got = -1;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < LOG_SINKS_MAX; i++) {
		if (!sinks[i].fn) {
			sinks[i] = (struct sink){ fn, arg, max };
			got = i;
			break;
		}
	}
	find_top();
	pthread_mutex_unlock(&lock);
	return got;
}

void
log_remove_sink(int handle)
{
	if (handle < 0 || handle >= LOG_SINKS_MAX) {
		return;
	}
	pthread_mutex_lock(&lock);
	sinks[handle].fn = NULL;
	find_top();
	pthread_mutex_unlock(&lock);
}

unsigned long
log_count(enum log_level level)
{
	return __atomic_load_n(&counts[level], __ATOMIC_RELAXED);
}

int
log_wanted(enum log_level level)
{
	return (int)level <= __atomic_load_n(&top, __ATOMIC_RELAXED);
}

void
log_msg(enum log_level level, const char *fmt, ...)
{
	char raw[LOG_LINE_MAX], line[LOG_LINE_MAX];
	va_list ap;

	__atomic_fetch_add(&counts[level], 1, __ATOMIC_RELAXED);
	if (!log_wanted(level)) {
		return;
	}
	va_start(ap, fmt);
	if (vsnprintf(raw, sizeof(raw), fmt, ap) < 0) {
		raw[0] = '\0';
	}
	va_end(ap);
	escape_text(line, sizeof(line), raw);
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < LOG_SINKS_MAX; i++) {
		if (sinks[i].fn && level <= sinks[i].max) {
			sinks[i].fn(level, line, sinks[i].arg);
		}
	}
	pthread_mutex_unlock(&lock);
}

const char *
log_level_name(enum log_level level)
{
	static const char *const names[] = { "error", "warning", "info",
					     "debug", "trace" };

	return level <= LOGL_TRACE ? names[level] : "unknown";
}
