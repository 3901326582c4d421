/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idlecut MS COMMAND [ARG ...]
 *
 * A middlebox, as a ProxyCommand: hands bytes through between its standard
 * streams and COMMAND's, and forgets the connection when for MS milliseconds
 * none came from either side: from then on nothing passes any more, and
 * nobody is told. It ends when its standard input does.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void
put(int fd, const char *p, ssize_t n)
{
	while (n > 0) {
		ssize_t w = write(fd, p, (size_t)n);

		if (w < 0 && errno == EINTR) {
			continue;
		}
		if (w <= 0) {
			exit(0);
		}
		p += w;
		n -= w;
	}
}

/* False at the end of the stream. */
static bool
pass(int from, int to, bool through)
{
	static char bytes[65536];
	ssize_t n = read(from, bytes, sizeof(bytes));

	if (n <= 0) {
		return n < 0 && errno == EINTR;
	}
	if (through) {
		put(to, bytes, n);
	}
	return true;
}

int
main(int argc, char **argv)
{
	int to[2], from[2], ms;
	bool cut = false;
	pid_t child;

	if (argc < 3 || (ms = atoi(argv[1])) <= 0 || pipe(to) < 0 ||
	    pipe(from) < 0 || (child = fork()) < 0) {
		fprintf(stderr, "usage: idlecut MS COMMAND [ARG ...]\n");
		return 2;
	}
	if (child == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		close(from[0]);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		struct pollfd p[2] = { { 0, POLLIN, 0 },
				       { from[0], POLLIN, 0 } };
		int n = poll(p, 2, cut ? -1 : ms);

		if (n == 0) {
			cut = true;
			fprintf(stderr, "idlecut: forgotten\n");
		}
		if (n < 0 && errno != EINTR) {
			return 2;
		}
		if ((n > 0 && p[0].revents && !pass(0, to[1], !cut)) ||
		    (n > 0 && p[1].revents && !pass(from[0], 1, !cut))) {
			/* Closing its pipes ends the child. */
			return 0;
		}
	}
}
