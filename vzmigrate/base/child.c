/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * child: fork and exec with pipes, deadlines and process groups.
 */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define KILL_GRACE_MS 2000

/* The pipes of one child_run, parent's ends; -1 when closed. */
struct pipes {
	int in;	 /* we write the child's stdin */
	int out; /* we read its stdout */
	int err; /* we read its stderr */
	int exe; /* exec's errno, or closed by the exec */
};

static void
pipes_fini(struct pipes *p)
{
	close_fd(&p->in);
	close_fd(&p->out);
	close_fd(&p->err);
	close_fd(&p->exe);
}

/* In the child between fork and exec: only async-signal-safe calls. */
static void
child_signals(void)
{
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A signal to a child that is not yet the other program must not run a handler
 * of ours there: it would write to the pipe that it shares with us, and we
 * would take it for our own. child_signals() ends that in the child. */
static pid_t
fork_blocked(void)
{
	sigset_t all, before;
	pid_t pid;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid != 0) {
		int saved = errno;

		pthread_sigmask(SIG_SETMASK, &before, NULL);
		errno = saved;
	}
	return pid;
}

/* Our environment with LC_ALL=C and c->setenv put in front (the first of a
 * name wins in glibc, and execvpe passes all on). Made before the fork: a
 * forked child of a threaded program must not allocate. Caller frees the
 * array alone. */
static char **
make_env(const struct child_cmd *c, struct err *e)
{
	size_t n = 0, extra = 0, o = 0;
	char **env;

	while (environ[n]) {
		n++;
	}
	while (c->setenv && c->setenv[extra]) {
		extra++;
	}
	env = calloc(n + extra + 2, sizeof(*env));
	if (!env) {
		err_nomem(e);
		return NULL;
	}
	for (size_t i = 0; i < extra; i++) {
		env[o++] = (char *)c->setenv[i];
	}
	env[o++] = (char *)"LC_ALL=C";
	for (size_t i = 0; i < n; i++) {
		if (strncmp(environ[i], "LC_ALL=", 7) != 0) {
			env[o++] = environ[i];
		}
	}
	return env;
}

static void
exec_child(const struct child_cmd *c, char **envp, const int fds[3], int exe)
{
	int err;

	setpgid(0, 0);
	for (int i = 0; i < 3; i++) {
		if (dup2(fds[i], i) < 0) {
			goto fail;
		}
	}
	child_signals();
	execvpe(c->argv[0], (char *const *)c->argv, envp);
fail:
	err = errno;
	if (write(exe, &err, sizeof(err)) < 0) {
		_exit(126);
	}
	_exit(127);
}

static int
open_stdin(const struct child_cmd *c, int pair[2], struct err *e)
{
	if (c->input) {
		if (pipe2(pair, O_CLOEXEC) < 0) {
			return err_sys(e, errno, "cannot make a pipe");
		}
		return io_set_nonblock(pair[1], true, e);
	}
	pair[1] = -1;
	pair[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (pair[0] < 0) {
		return err_sys(e, errno, "cannot open /dev/null");
	}
	return 0;
}

/* dup2 onto 0..2 must not meet its own source: keep pipe ends above 2. */
static int
raise_fd(int *fd, struct err *e)
{
	int n;

	if (*fd > 2 || *fd < 0) {
		return 0;
	}
	n = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
	if (n < 0) {
		return err_sys(e, errno, "cannot move a descriptor");
	}
	close(*fd);
	*fd = n;
	return 0;
}

static int
start(const struct child_cmd *c, struct pipes *p, pid_t *pid, struct err *e)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, er[2] = { -1, -1 };
	int ex[2] = { -1, -1 }, rc;
	cleanup(free_ptr) char **envp = make_env(c, e);
	int *all[] = { &in[0], &in[1], &out[0], &out[1],
		       &er[0], &er[1], &ex[0],	&ex[1] };

	rc = envp ? open_stdin(c, in, e) : E_NOMEM;
	if (rc == 0 && (pipe2(out, O_CLOEXEC) < 0 || pipe2(er, O_CLOEXEC) < 0 ||
			pipe2(ex, O_CLOEXEC) < 0)) {
		rc = err_sys(e, errno, "cannot make a pipe");
	}
	for (size_t i = 0; rc == 0 && i < 8; i++) {
		rc = raise_fd(all[i], e);
	}
	if (rc == 0) {
		*pid = fork_blocked();
		if (*pid == 0) {
			exec_child(c, envp, (int[]){ in[0], out[1], er[1] },
				   ex[1]);
		}
		if (*pid < 0) {
			rc = err_sys(e, errno, "cannot fork");
		}
	}
	if (rc == 0) {
		setpgid(*pid, *pid);
		*p = (struct pipes){ steal_fd(&in[1]), steal_fd(&out[0]),
				     steal_fd(&er[0]), steal_fd(&ex[0]) };
	}
	for (size_t i = 0; i < 8; i++) {
		close_fd(all[i]);
	}
	return rc;
}

/* Take what is there; past the limit it is read and dropped, so that the
 * child does not block. */
static void
drain(int *fd, struct buf *b)
{
	char tmp[16384];
	ssize_t n = read(*fd, tmp, sizeof(tmp));
	size_t room = b->max - 1 - b->len;

	if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	if (n <= 0) {
		close(steal_fd(fd));
		return;
	}
	buf_append(b, tmp, (size_t)n < room ? (size_t)n : room, NULL);
}

static void
feed(int *fd, const char **input)
{
	size_t len = strlen(*input);
	ssize_t n = len ? write(*fd, *input, len) : 0;

	if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	if (n > 0) {
		*input += n;
	}
	if (n < 0 || !**input) {
		close(steal_fd(fd));
	}
}

static int
pump(const struct child_cmd *c, struct pipes *p, struct child_result *r,
     int64_t deadline)
{
	const char *input = c->input;

	while (p->out >= 0 || p->err >= 0) {
		struct pollfd pf[3] = { { p->out, POLLIN, 0 },
					{ p->err, POLLIN, 0 },
					{ p->in, POLLOUT, 0 } };
		int n = poll(pf, 3, io_left_ms(deadline));

		if (n == 0) {
			return E_TIMEOUT;
		}
		if (n < 0) {
			continue;
		}
		if (pf[0].revents) {
			drain(&p->out, &r->out);
		}
		if (pf[1].revents) {
			drain(&p->err, &r->err_out);
		}
		if (pf[2].revents) {
			feed(&p->in, &input);
		}
	}
	return 0;
}

/* Wait with a deadline; false when it is still running then. */
static bool
reap(pid_t pid, int64_t deadline, int *wstatus)
{
	cleanup(close_fd) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	for (;;) {
		pid_t got = waitpid(pid, wstatus, WNOHANG);
		struct pollfd pf = { pidfd, POLLIN, 0 };

		if (got == pid || (got < 0 && errno == ECHILD)) {
			return true;
		}
		if (io_left_ms(deadline) == 0) {
			return false;
		}
		/* Without a pidfd (old kernel) look again every 20 ms. */
		if (poll(&pf, 1, pidfd < 0 ? 20 : io_left_ms(deadline)) < 0 &&
		    errno != EINTR) {
			return false;
		}
	}
}

static void
kill_group(pid_t pid, int *wstatus)
{
	kill(-pid, SIGTERM);
	if (!reap(pid, io_deadline(KILL_GRACE_MS), wstatus)) {
		kill(-pid, SIGKILL);
		reap(pid, IO_FOREVER, wstatus);
	}
	kill(-pid, SIGKILL);
}

int
child_run(const struct child_cmd *c, struct child_result *r, struct err *e)
{
	cleanup(pipes_fini) struct pipes p = { -1, -1, -1, -1 };
	size_t max = c->max_output ? c->max_output : 1 << 20;
	int64_t deadline = io_deadline(c->timeout_ms ? c->timeout_ms : 60000);
	int wstatus = 0, xerr = 0, rc;
	pid_t pid = -1;

	*r = (struct child_result){ .status = -1 };
	buf_init(&r->out, max + 1);
	buf_init(&r->err_out, max + 1);
	rc = start(c, &p, &pid, e);
	if (rc < 0) {
		return rc;
	}
	if (read(p.exe, &xerr, sizeof(xerr)) == sizeof(xerr)) {
		reap(pid, IO_FOREVER, &wstatus);
		err_sys(e, xerr, "cannot run %s", c->argv[0]);
		if (e && xerr == ENOENT) {
			e->code = E_NOT_FOUND;
		}
		return xerr == ENOENT ? E_NOT_FOUND : E_SYSTEM;
	}
	rc = pump(c, &p, r, deadline);
	if (rc < 0 || !reap(pid, deadline, &wstatus)) {
		kill_group(pid, &wstatus);
		return err_set(e, E_TIMEOUT, "%s did not end in time",
			       c->argv[0]);
	}
	r->status = WIFEXITED(wstatus) ? WEXITSTATUS(wstatus)
				       : 128 + WTERMSIG(wstatus);
	if (!buf_cstr(&r->out, e) || !buf_cstr(&r->err_out, e)) {
		return E_NOMEM;
	}
	return 0;
}

void
child_result_fini(struct child_result *r)
{
	buf_fini(&r->out);
	buf_fini(&r->err_out);
}

static void
exec_spawned(const char *const *argv, int fd, int err_fd)
{
	setpgid(0, 0);
	if (dup2(fd, 0) < 0 || dup2(fd, 1) < 0 ||
	    (err_fd >= 0 && dup2(err_fd, 2) < 0)) {
		_exit(126);
	}
	child_signals();
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

int
child_spawn(struct child *c, const char *const *argv, int fd, int err_fd,
	    int use_shell, struct err *e)
{
	cleanup(free_ptr) char *line = NULL;
	const char *shell = getenv("SHELL");
	const char *sh_argv[4] = { NULL };
	pid_t pid;

	*c = (struct child){ -1, -1 };
	if (use_shell) {
		line = io_asprintf(e, "exec %s", argv[0]);
		if (!line) {
			return E_NOMEM;
		}
		sh_argv[0] = shell && *shell ? shell : "/bin/sh";
		sh_argv[1] = "-c";
		sh_argv[2] = line;
		argv = sh_argv;
	}
	pid = fork_blocked();
	if (pid < 0) {
		return err_sys(e, errno, "cannot fork");
	}
	if (pid == 0) {
		exec_spawned(argv, fd, err_fd);
	}
	c->pid = pid;
	c->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

void
child_end(struct child *c, int64_t ms)
{
	int wstatus;

	if (c->pid < 0) {
		return;
	}
	kill(-c->pid, SIGTERM);
	kill(c->pid, SIGTERM);
	if (!reap(c->pid, io_deadline(ms), &wstatus)) {
		kill(-c->pid, SIGKILL);
		kill(c->pid, SIGKILL);
		reap(c->pid, IO_FOREVER, &wstatus);
	}
	close_fd(&c->pidfd);
	*c = (struct child){ -1, -1 };
}
