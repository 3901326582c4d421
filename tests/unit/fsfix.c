/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fsfix: see fsfix.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fsfix.h"

const char *const fsfix_names[] = { "here", "tmpfs", "ext4",
				    "xfs",  "btrfs", NULL };
static char base[256];
static int own_ns; /* mount() may be used */
static int mounted[8];
static unsigned serial;

static int
run(const char *fmt, va_list ap, int quiet)
{
	char cmd[4096];
	int st;

	vsnprintf(cmd, sizeof(cmd) - 32, fmt, ap);
	if (quiet) {
		strcat(cmd, " >/dev/null 2>&1");
	}
	st = system(cmd);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 255;
}

void
fsfix_sh(const char *fmt, ...)
{
	va_list ap;
	int st;

	va_start(ap, fmt);
	st = run(fmt, ap, 0);
	va_end(ap);
	if (st) {
		print_error("failed: %s\n", fmt);
	}
	assert_int_equal(st, 0);
}

int
fsfix_try(const char *fmt, ...)
{
	va_list ap;
	int st;

	va_start(ap, fmt);
	st = run(fmt, ap, 1);
	va_end(ap);
	return st == 0;
}

int
fsfix_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	if (unshare(CLONE_NEWNS) == 0 &&
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0) {
		own_ns = 1;
	}
	snprintf(base, sizeof(base), "%s/vzfs.XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(base) ? 0 : -1;
}

int
fsfix_teardown(void **state)
{
	(void)state;
	for (size_t i = 1; fsfix_names[i]; i++) {
		if (mounted[i] == 1) {
			fsfix_try("umount -l %s/%s", base, fsfix_names[i]);
		}
	}
	fsfix_remove(base);
	return 0;
}

void
fsfix_remove(const char *path)
{
	fsfix_try("chattr -R -f -i -a %s", path);
	fsfix_try("rm -rf --one-file-system %s", path);
}

static int __attribute__((nonnull)) mount_fs(const char *fs)
{
	char dir[512], img[512];

	snprintf(dir, sizeof(dir), "%s/%s", base, fs);
	if (mkdir(dir, 0700) < 0) {
		return -1;
	}
	if (strcmp(fs, "tmpfs") == 0) {
		return mount("none", dir, "tmpfs", 0, "size=1G") == 0 ? 1 : -1;
	}
	snprintf(img, sizeof(img), "%s/%s.img", base, fs);
	fsfix_sh("truncate -s 1G %s", img);
	if (!fsfix_try("mkfs.%s %s %s", fs,
		       strcmp(fs, "ext4") == 0
			       ? "-q -O ^has_journal -I 256 -N 200000"
			       : "-q",
		       img)) {
		print_message("no mkfs.%s\n", fs);
		return -1;
	}
	return fsfix_try("mount -o loop %s %s", img, dir) ? 1 : -1;
}

int
fsfix_open(const char *fs, char *path)
{
	size_t i = 0;
	int fd;

	while (fsfix_names[i] && strcmp(fsfix_names[i], fs) != 0) {
		i++;
	}
	assert_non_null(fsfix_names[i]);
	if (i && !own_ns) {
		print_message("skipped on %s: no mount namespace (needs "
			      "root)\n",
			      fs);
		return -1;
	}
	if (i && !mounted[i]) {
		mounted[i] = mount_fs(fs);
	}
	if (i && mounted[i] < 0) {
		print_message("skipped on %s: cannot be mounted here\n", fs);
		return -1;
	}
	snprintf(path, 512, "%s/%s/t%u", base, i > 0 ? fs : ".", serial++);
	assert_int_equal(mkdir(path, 0755), 0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

void
fsfix_file(int dirfd, const char *name, char c, uint64_t len)
{
	char buf[65536];
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0644);

	assert_true(fd >= 0);
	memset(buf, c, sizeof(buf));
	while (len) {
		size_t n = len < sizeof(buf) ? (size_t)len : sizeof(buf);

		assert_int_equal(write(fd, buf, n), (ssize_t)n);
		len -= n;
	}
	close(fd);
}
