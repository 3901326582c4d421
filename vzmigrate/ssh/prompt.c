/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prompt: asks on the terminal with echo off. State: none between calls; the
 * terminal's settings are put back before returning.
 */
#include "ssh/prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define WAIT_MS 120000

/* The line at the terminal, without its end. Signals that end the program
 * arrive as EINTR here and end the question. */
static int
read_answer(int fd, char *answer, size_t len, struct err *e)
{
	int64_t deadline = io_deadline(WAIT_MS);
	size_t n = 0;

	for (;;) {
		struct pollfd pf = { fd, POLLIN, 0 };
		int rc = poll(&pf, 1, io_left_ms(deadline));
		char c;

		if (rc < 0) {
			return err_set(e, E_CANCELLED,
				       "the question was interrupted");
		}
		if (rc == 0) {
			return err_set(e, E_TIMEOUT, "nobody answered for %d s",
				       WAIT_MS / 1000);
		}
		if (read(fd, &c, 1) != 1) {
			return err_set(e, E_CANCELLED,
				       "the terminal was closed");
		}
		if (c == '\n' || c == '\r') {
			answer[n] = '\0';
			return 0;
		}
		if (c == 4 && n == 0) {
			return err_set(e, E_CANCELLED,
				       "the question was not answered");
		}
		if (n + 1 >= len) {
			return err_set(e, E_LIMIT, "the answer is too long");
		}
		answer[n++] = c;
	}
}

static int
ask_tty(enum prompt_kind kind, const char *question, bool echo, char *answer,
	size_t len, void *arg, struct err *e)
{
	cleanup(close_fd) int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
	struct termios old, quiet;
	int rc;

	(void)kind;
	(void)arg;
	answer[0] = '\0';
	if (fd < 0) {
		return err_set(e, E_AUTH, "there is no terminal to ask on");
	}
	if (tcgetattr(fd, &old) < 0) {
		return err_sys(e, errno, "cannot use the terminal");
	}
	quiet = old;
	if (!echo) {
		quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
		if (tcsetattr(fd, TCSAFLUSH, &quiet) < 0) {
			return err_sys(e, errno, "cannot turn off the echo");
		}
	}
	rc = io_write_full(fd, question, strlen(question), "the terminal", e);
	if (rc == 0) {
		rc = read_answer(fd, answer, len, e);
	}
	if (!echo) {
		tcsetattr(fd, TCSAFLUSH, &old);
		if (write(fd, "\n", 1) < 0 && rc == 0) {
			rc = err_sys(e, errno, "cannot use the terminal");
		}
	}
	if (rc < 0) {
		explicit_bzero(answer, len);
	}
	return rc;
}

static int
ask_nobody(enum prompt_kind kind, const char *question, bool echo, char *answer,
	   size_t len, void *arg, struct err *e)
{
	(void)kind;
	(void)question;
	(void)echo;
	(void)len;
	(void)arg;
	answer[0] = '\0';
	return err_set(e, E_AUTH, "nobody may be asked in this run");
}

const struct prompt prompt_tty = { ask_tty, NULL };
const struct prompt prompt_none = { ask_nobody, NULL };
