/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * child: run other programs with an argument vector, never through a shell.
 */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* What to run, for child_run. Zero-initialise, then set. */
struct child_cmd {
	const char *const *argv;   /* NULL-terminated; argv[0] sought in PATH */
	const char *const *setenv; /* "K=V" strings to add, NULL-terminated, or
				      NULL; LC_ALL=C is always set */
	const char *input;	   /* given on stdin; NULL: /dev/null */
	size_t max_output;	   /* bytes kept of each stream; 0: 1 MiB */
	int64_t timeout_ms; /* then SIGTERM, 2 s later SIGKILL; 0: 60 s */
};

/* What came of it. child_result_fini frees. */
struct child_result {
	int status;	    /* exit status 0..255, or 128 + signal */
	struct buf out;	    /* stdout, cut at max_output */
	struct buf err_out; /* stderr, cut at max_output */
};

/* Run to the end and collect both outputs. 0 when the program ran, whatever
 * it returned; E_NOT_FOUND when there is no such program; E_TIMEOUT;
 * E_SYSTEM. The child is in its own process group, which is killed on a
 * time-out. `r` is initialised in every case. Blocks. */
int child_run(const struct child_cmd *c, struct child_result *r, struct err *e);

void child_result_fini(struct child_result *r);

/* A process that runs beside us. */
struct child {
	pid_t pid; /* -1: none */
	int pidfd; /* -1: none; readable once it ended */
};

/* Start argv with stdin and stdout on `fd` (a socket; the caller keeps and
 * closes its own) and stderr inherited, or on `err_fd` where >= 0. With
 * `use_shell` argv[0] is given to the user's shell with -c "exec ..."; only
 * ProxyCommand may ask for that, as in ssh. */
int child_spawn(struct child *c, const char *const *argv, int fd, int err_fd,
		int use_shell, struct err *e);

/* SIGTERM, wait up to `ms`, SIGKILL, reap. Nothing where pid is -1. */
void child_end(struct child *c, int64_t ms);

#endif
