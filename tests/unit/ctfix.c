/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctfix: see the header. */
#include "ctfix.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/io.h"

char ctfix_top[64] = "";

static char strings[64][PATH_MAX];
static unsigned nstrings;
static int fuse; /* changes left until death; 0: none */

static char *
keep(const char *fmt, ...)
{
	char *s = strings[nstrings++];
	va_list ap;

	assert_true(nstrings < 64);
	va_start(ap, fmt);
	vsnprintf(s, PATH_MAX, fmt, ap);
	va_end(ap);
	return s;
}

static int
shell(bool must, const char *fmt, va_list ap)
{
	char cmd[8192];
	const char *argv[] = { "sh", "-c", cmd, NULL };
	struct child_result r;
	int n, rc;

	n = snprintf(cmd, sizeof(cmd), "cd %s && { ", ctfix_top);
	n += vsnprintf(cmd + n, sizeof(cmd) - (size_t)n, fmt, ap);
	snprintf(cmd + n, sizeof(cmd) - (size_t)n, "\n}");
	rc = child_run(&(struct child_cmd){ .argv = argv }, &r, NULL);
	assert_int_equal(rc, 0);
	rc = r.status;
	if (must && rc) {
		print_message("%s\n%s%s", cmd, buf_cstr(&r.out, NULL),
			      buf_cstr(&r.err_out, NULL));
	}
	child_result_fini(&r);
	return rc;
}

void
ctfix_sh(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	assert_int_equal(shell(true, fmt, ap), 0);
	va_end(ap);
}

bool
ctfix_ok(const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = shell(false, fmt, ap);
	va_end(ap);
	return rc == 0;
}

char *
ctfix_read(const char *fmt, ...)
{
	char path[PATH_MAX], *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	assert_int_equal(
		io_read_file(AT_FDCWD, path, 1 << 20, &text, NULL, NULL), 0);
	return text;
}

char *
ctfix_sum(const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	ctfix_sh("cd %s && { find . -printf '%%p %%y %%m %%U %%l\\n'; "
		 "find . -type f -exec md5sum {} +; } | sort >%s/sum",
		 path, ctfix_top);
	return ctfix_read("%s/sum", ctfix_top);
}

/* PATH gets a vzctl (the stand-in) and LXC tools that answer from a file. */
static void
make_tools(void)
{
	const char *src = getenv("srcdir");
	char abs[PATH_MAX], path[PATH_MAX + 16];

	assert_non_null(realpath(src ? src : ".", abs));
	ctfix_sh("mkdir bin && ln -s %s/tests/tools/vzctl-standin bin/vzctl",
		 abs);
	ctfix_sh("printf '#!/bin/sh\\ncat %s/lxc-state\\n' >bin/lxc-info; "
		 "printf '#!/bin/sh\\nexit 1\\n' >bin/lxc-start; "
		 "chmod +x bin/lxc-*",
		 ctfix_top);
	snprintf(path, sizeof(path), "%s/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		 ctfix_top);
	setenv("PATH", path, 1);
}

int
ctfix_setup(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("these tests mount and change owners: run them "
			      "as root\n");
		return -1;
	}
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		print_message("a mount namespace cannot be made\n");
		return -1;
	}
	strcpy(ctfix_top, "/tmp/ctfix.XXXXXX");
	assert_non_null(mkdtemp(ctfix_top));
	assert_int_equal(mount("ctfix", ctfix_top, "tmpfs", 0, "mode=755"), 0);
	assert_int_equal(mount("ctfix", "/run", "tmpfs", 0, "mode=755"), 0);
	assert_int_equal(mount("ctfix", "/var/lib", "tmpfs", 0, "mode=755"), 0);
	make_tools();
	ctfix_lxc_says("STOPPED");
	return 0;
}

int
ctfix_teardown(void **state)
{
	(void)state;
	assert_int_equal(chdir("/"), 0);
	umount2(ctfix_top, MNT_DETACH);
	return rmdir(ctfix_top);
}

struct ct_host
ctfix_host(const char *name)
{
	struct ct_host h = { 0 };
	char *d = keep("%s/%s", ctfix_top, name);

	ctfix_sh("mkdir -p %s/lxc %s/lock %s/etc/vz/conf %s/etc/vz/names "
		 "%s/vz/private %s/vz/root %s/vz/dump %s/state",
		 name, name, name, name, name, name, name, name);
	ctfix_sh("cat >%s/etc/vz/vz.conf <<'END'\n"
		 "## Global parameters\n"
		 "VIRTUOZZO=yes\n"
		 "LOCKDIR=\"%s/lock\" # for vzctl\n"
		 "DUMPDIR=%s/vz/dump\n"
		 "VE_ROOT=%s/vz/root/$VEID\n"
		 "VE_PRIVATE=\"%s/vz/private/${VEID}\"\n"
		 "VE_LAYOUT=ploop\n"
		 "END",
		 name, d, d, d, d);
	h.lxcpath = keep("%s/lxc", d);
	h.vz_conf = keep("%s/etc/vz/vz.conf", d);
	h.state_dir = keep("%s/state", d);
	setenv("VZCTL_CONF", h.vz_conf, 1);
	return h;
}

void
ctfix_lxc_says(const char *word)
{
	ctfix_sh("echo %s >lxc-state", word);
}

struct ct_want
ctfix_want(const struct ct *c)
{
	return (struct ct_want){ .id = c->id,
				 .name = c->name,
				 .files = c->files,
				 .nfiles = c->nfiles };
}

bool
ctfix_die_at(int n, int (*fn)(void *arg), void *arg, int *rc)
{
	int st;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		fuse = n;
		st = -fn(arg);
		_exit(st < 90 ? st : 90);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFEXITED(st));
	*rc = -WEXITSTATUS(st);
	return WEXITSTATUS(st) == 99;
}

/* Before each change made by libcore: the linker sends it here (--wrap). */
static void
change(void)
{
	if (fuse > 0 && --fuse == 0) {
		_exit(99);
	}
}

int __real_renameat2(int a, const char *b, int c, const char *d, unsigned f);
int __wrap_renameat2(int a, const char *b, int c, const char *d, unsigned f);
int
__wrap_renameat2(int a, const char *b, int c, const char *d, unsigned f)
{
	change();
	return __real_renameat2(a, b, c, d, f);
}

int __real_unlinkat(int a, const char *b, int f);
int __wrap_unlinkat(int a, const char *b, int f);
int
__wrap_unlinkat(int a, const char *b, int f)
{
	change();
	return __real_unlinkat(a, b, f);
}

int __real_mkdir(const char *a, mode_t m);
int __wrap_mkdir(const char *a, mode_t m);
int
__wrap_mkdir(const char *a, mode_t m)
{
	change();
	return __real_mkdir(a, m);
}

int __real_rmdir(const char *a);
int __wrap_rmdir(const char *a);
int
__wrap_rmdir(const char *a)
{
	change();
	return __real_rmdir(a);
}

int __real_symlinkat(const char *a, int b, const char *c);
int __wrap_symlinkat(const char *a, int b, const char *c);
int
__wrap_symlinkat(const char *a, int b, const char *c)
{
	change();
	return __real_symlinkat(a, b, c);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int
__wrap_fsync(int fd)
{
	change();
	return __real_fsync(fd);
}

int
ctfix_setup_hosts(void **state, struct ct_host *a, struct ct_host *b)
{
	if (ctfix_setup(state) < 0) {
		return -1;
	}
	*a = ctfix_host("a");
	*b = ctfix_host("b");
	return 0;
}

void
ctfix_vzctl(const struct ct_host *h)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/run", h->state_dir);
	setenv("VZCTL_RUN", path, 1);
	snprintf(path, sizeof(path), "%s/quota", h->state_dir);
	setenv("VZQUOTA_DIR", path, 1);
	setenv("VZCTL_CONF", h->vz_conf, 1);
}

int
ctfix_commit(void *move)
{
	struct ctfix_move *m = move;

	return m->kind->commit(m->to, &m->w, &m->p, m->staged, NULL);
}

int
ctfix_uncommit(void *move)
{
	struct ctfix_move *m = move;

	return m->kind->uncommit(m->to, &m->w, &m->p, m->staged, NULL);
}
