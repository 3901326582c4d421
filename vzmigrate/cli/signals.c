/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * signals: the handler sets the flag and writes the signal's number into a
 * pipe; the thread reads it and calls back. State: this file's statics, one
 * set a process.
 */
#include "config.h"

#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int signals_stop;

static int pipe_fds[2] = { -1, -1 };
static pthread_t thread;
static signals_fn *on_signal;
static void *on_signal_arg;

static const int stops[] = { SIGINT, SIGTERM, SIGHUP };
#define STOPS (sizeof(stops) / sizeof(stops[0]))

static void
handler(int signo)
{
	int saved = errno;
	unsigned char c = (unsigned char)signo;

	__atomic_store_n(&signals_stop, 1, __ATOMIC_RELAXED);
	if (write(pipe_fds[1], &c, 1) < 0) {
		/* The pipe is full of signals: none is missed by that. */
	}
	errno = saved;
}

static void *
run(void *arg)
{
	unsigned char signo;
	int count = 0;

	(void)arg;
	for (;;) {
		ssize_t n = read(pipe_fds[0], &signo, 1);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n != 1 || signo == 0) {
			return NULL;
		}
		on_signal(signo, ++count, on_signal_arg);
	}
}

static void
set_mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < STOPS; i++) {
		sigaddset(&set, stops[i]);
	}
	pthread_sigmask(how, &set, NULL);
}

int
signals_init(signals_fn *fn, void *arg, struct err *e)
{
	/* No SA_RESTART: a wait is to end. */
	struct sigaction sa = { .sa_handler = handler };
	int rc;

	on_signal = fn;
	on_signal_arg = arg;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
		return err_sys(e, errno, "cannot make a pipe");
	}
	if (fcntl(pipe_fds[1], F_SETFL, O_NONBLOCK) < 0) {
		return err_sys(e, errno, "cannot set up a pipe");
	}
	set_mask(SIG_BLOCK);
	rc = pthread_create(&thread, NULL, run, NULL);
	if (rc != 0) {
		set_mask(SIG_UNBLOCK);
		return err_sys(e, rc, "cannot start a thread");
	}
	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < STOPS; i++) {
		struct sigaction was;

		/* nohup and a background job's shell mean what they say. */
		if (sigaction(stops[i], NULL, &was) == 0 &&
		    was.sa_handler == SIG_IGN) {
			continue;
		}
		sigaction(stops[i], &sa, NULL);
	}
	signal(SIGPIPE, SIG_IGN);
	/* Under `ulimit -f` a write fails, as on a full disk. */
	signal(SIGXFSZ, SIG_IGN);
	set_mask(SIG_UNBLOCK);
	return 0;
}

void
signals_fini(void)
{
	unsigned char end = 0;
	ssize_t n;

	if (pipe_fds[1] < 0) {
		return;
	}
	do {
		n = write(pipe_fds[1], &end, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 1) {
		pthread_join(thread, NULL);
	}
}
