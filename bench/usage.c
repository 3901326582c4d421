/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: what a command costs.
 *
 *	usage FILE COMMAND [ARGUMENT ...]
 *
 * Runs the command with our descriptors and appends one line to FILE: its
 * peak resident size in KiB (VmHWM, so that of its own program alone, not of
 * us before the exec), and its user and system time in microseconds, children
 * that it waited for among them. Exits as the command did. A TERM goes on to
 * the command.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t child;

static void
pass_on(int sig)
{
	if (child > 0) {
		kill(child, sig);
	}
}

static long long
micro(const struct timeval *t)
{
	return (long long)t->tv_sec * 1000000 + t->tv_usec;
}

int
main(int argc, char **argv)
{
	struct rusage ru;
	int status;
	FILE *f;

	if (argc < 3) {
		fputs("usage: usage FILE COMMAND [ARGUMENT ...]\n", stderr);
		return 2;
	}
	signal(SIGTERM, pass_on);
	signal(SIGINT, pass_on);
	child = fork();
	if (child == 0) {
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		execvp(argv[2], argv + 2);
		fprintf(stderr, "usage: %s: %s\n", argv[2], strerror(errno));
		_exit(127);
	}
	while (child < 0 || wait4(child, &status, 0, &ru) < 0) {
		if (child < 0 || errno != EINTR) {
			perror("usage");
			return 2;
		}
	}
	f = fopen(argv[1], "a");
	if (!f ||
	    fprintf(f, "%ld %lld %lld\n", ru.ru_maxrss, micro(&ru.ru_utime),
		    micro(&ru.ru_stime)) < 0 ||
	    fclose(f) != 0) {
		perror(argv[1]);
		return 2;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
