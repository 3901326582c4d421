/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault: looks up each passed point in the rules of VZMIGRATE_FAULT.
 * State: how often each rule matched, guarded by a mutex. Empty in an
 * ordinary build.
 */
#include "base/fault.h"

#ifdef FAULT_HOOKS

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAULT_RULES_MAX 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long hits[FAULT_RULES_MAX];

/* Whether `name` is meant by the first `len` bytes of `rule`. */
static int
name_matches(const char *rule, size_t len, const char *name)
{
	if (len > 0 && rule[len - 1] == '*') {
		return strncmp(rule, name, len - 1) == 0;
	}
	return strlen(name) == len && memcmp(rule, name, len) == 0;
}

/* The action word of the rule numbered `i` at `rule` where it acts now. */
static const char *
rule_acts(const char *rule, size_t i, const char *name)
{
	size_t len = strcspn(rule, ":=,");
	const char *p = rule + len;
	unsigned long n = 1;
	char *end;

	if (*p == ':') {
		n = strtoul(p + 1, &end, 10);
		p = end;
	}
	if (*p != '=' || !name_matches(rule, len, name) || ++hits[i] != n) {
		return NULL;
	}
	return p + 1;
}

/* One write, so that lines of several processes do not mix. */
static void
trace(const char *name)
{
	const char *path = getenv("VZMIGRATE_FAULT_TRACE");
	char line[256];
	int fd, n;

	if (!path) {
		return;
	}
	n = snprintf(line, sizeof(line), "%s\n", name);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0) {
		return;
	}
	if (write(fd, line, (size_t)n) < 0) {
		/* The test misses the name and says so. */
	}
	close(fd);
}

static void
hold(void)
{
	const char *path = getenv("VZMIGRATE_FAULT_HOLD");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;

	if (fd < 0) {
		return;
	}
	close(fd);
	while (access(path, F_OK) == 0) {
		poll(NULL, 0, 10);
	}
}

static int
act(const char *action, const char *name, struct err *e)
{
	if (strncmp(action, "kill", 4) == 0) {
		kill(getpid(), SIGKILL);
		/* Not reached: a signal to oneself is taken at once. */
	} else if (strncmp(action, "stop", 4) == 0) {
		raise(SIGSTOP);
	} else if (strncmp(action, "hold", 4) == 0) {
		hold();
	} else if (strncmp(action, "fail", 4) == 0) {
		return err_sys(e, EIO, "injected fault at %s", name);
	}
	return 0;
}

int
fault_point(const char *name, struct err *e)
{
	const char *rule = getenv("VZMIGRATE_FAULT");
	const char *todo = NULL;

	trace(name);
	if (!rule) {
		return 0;
	}
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < FAULT_RULES_MAX && *rule; i++) {
		const char *a = rule_acts(rule, i, name);

		if (a && !todo) {
			todo = a;
		}
		rule += strcspn(rule, ",");
		rule += *rule == ',';
	}
	pthread_mutex_unlock(&lock);
	return todo ? act(todo, name, e) : 0;
}

void
fault_reset(void)
{
	pthread_mutex_lock(&lock);
	memset(hits, 0, sizeof(hits));
	pthread_mutex_unlock(&lock);
}

#endif
