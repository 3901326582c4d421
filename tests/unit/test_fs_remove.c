/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of fs/remove and fs/fsprobe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "fs/fsprobe.h"
#include "fs/remove.h"
#include "fsfix.h"
#include "needroot.h"

static int
set_flags(int dirfd, const char *name, int flags)
{
	int fd = openat(dirfd, name, O_RDONLY | O_NONBLOCK), now = 0, rc;

	assert_true(fd >= 0);
	rc = ioctl(fd, FS_IOC_GETFLAGS, &now);
	now |= flags;
	rc = rc < 0 ? rc : ioctl(fd, FS_IOC_SETFLAGS, &now);
	close(fd);
	return rc;
}

static int
gone(int dirfd, const char *name)
{
	return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	       errno == ENOENT;
}

static void
test_remove(void **state)
{
	char path[512];

	(void)state;
	for (size_t i = 0; fsfix_names[i]; i++) {
		struct err e = { 0 };
		uint64_t n = 99;
		int fd = fsfix_open(fsfix_names[i], path), flags;

		if (fd < 0) {
			continue;
		}
		assert_int_equal(remove_tree(fd, "no", &n, &e), E_NOT_FOUND);
		assert_int_equal(n, 0);
		assert_int_equal(remove_tree(fd, "..", &n, &e), E_PROTOCOL);
		assert_int_equal(remove_tree(fd, "", &n, &e), E_PROTOCOL);
		assert_int_equal(mkdirat(fd, "keep", 0700), 0);
		fsfix_file(fd, "keep/me", 'x', 1);
		assert_int_equal(mkdirat(fd, "t", 0), 0);
		assert_int_equal(symlinkat("../keep", fd, "t/l"), 0);
		assert_int_equal(mkfifoat(fd, "t/fifo", 0), 0);
		assert_int_equal(mknodat(fd, "t/wh", S_IFCHR, 0), 0);
		assert_int_equal(mkdirat(fd, "t/a\n\xff", 0700), 0);
		assert_int_equal(mkdirat(fd, "t/a\n\xff/b", 0700), 0);
		fsfix_file(fd, "t/a\n\xff/b/i", 'x', 1);
		fsfix_file(fd, "t/a\n\xff/b/a", 'x', 1);
		flags = set_flags(fd, "t/a\n\xff/b/i", FS_IMMUTABLE_FL);
		if (flags == 0) {
			set_flags(fd, "t/a\n\xff/b/a", FS_APPEND_FL);
			set_flags(fd, "t/a\n\xff/b", FS_APPEND_FL);
			set_flags(fd, "t/a\n\xff", FS_IMMUTABLE_FL);
			set_flags(fd, "t", FS_IMMUTABLE_FL | FS_APPEND_FL);
			assert_int_equal(unlinkat(fd, "t/l", 0), -1);
		} else {
			print_message("%s: without chattr\n", fsfix_names[i]);
		}
		assert_int_equal(remove_tree(fd, "t", &n, &e), 0);
		assert_int_equal(n, 8);
		assert_true(gone(fd, "t"));
		assert_int_equal(symlinkat("keep", fd, "l"), 0);
		assert_int_equal(remove_tree(fd, "l", &n, &e), 0);
		assert_int_equal(n, 1);
		assert_false(gone(fd, "keep/me"));
		assert_int_equal(remove_content(fd, &n, &e), 0);
		assert_int_equal(n, 2);
		assert_int_equal(remove_content(fd, &n, &e), 0);
		assert_int_equal(n, 0);
		assert_int_equal(rmdir(path), 0);
		close(fd);
	}
}

/* 3000 levels, with a sibling on each, on 128 descriptors. */
static void
test_deep(void **state)
{
	struct rlimit old, few = { 128, 128 };
	char path[512];
	struct err e = { 0 };
	uint64_t n;
	int fd = fsfix_open("tmpfs", path), at;

	(void)state;
	if (fd < 0) {
		fd = fsfix_open("here", path);
	}
	at = dup(fd);
	for (int i = 0; i < 3000; i++) {
		int next;

		assert_int_equal(mkdirat(at, "a", 0700), 0);
		assert_int_equal(mkdirat(at, "d", 0700), 0);
		assert_int_equal(mkdirat(at, "z", 0700), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY);
		close(at);
		at = next;
		assert_true(at >= 0);
	}
	close(at);
	getrlimit(RLIMIT_NOFILE, &old);
	few.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(remove_content(fd, &n, &e), 0);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(n, 9000);
	close(fd);
	assert_int_equal(rmdir(path), 0);
}

static void
test_mount(void **state)
{
	char path[512], m[600], f[600];
	struct err e = { 0 };
	uint64_t n;
	int fd = fsfix_open("tmpfs", path);

	(void)state;
	if (fd < 0) {
		skip();
	}
	assert_int_equal(mkdirat(fd, "t", 0700), 0);
	assert_int_equal(mkdirat(fd, "t/d", 0700), 0);
	assert_int_equal(mkdirat(fd, "t/d/m\n", 0700), 0);
	fsfix_file(fd, "t/d/f", 'x', 1);
	fsfix_file(fd, "t/d/bound", 'x', 1);
	fsfix_file(fd, "t/z", 'x', 1);
	assert_int_equal(mkdirat(fd, "t/zz", 0700), 0);
	snprintf(m, sizeof(m), "%s/t/d/m\n", path);
	assert_int_equal(mount("none", m, "tmpfs", 0, NULL), 0);
	fsfix_file(fd, "t/d/m\n/canary", 'x', 1);
	assert_int_equal(remove_tree(fd, "t", &n, &e), E_BUSY);
	assert_string_equal(e.text, "t/d/m\\n: a mount is on it");
	assert_false(gone(fd, "t/d/m\n/canary"));
	assert_true(gone(fd, "t/d/f"));
	assert_true(gone(fd, "t/z"));
	assert_true(gone(fd, "t/zz"));
	assert_int_equal(n, 4);
	assert_int_equal(umount(m), 0);
	/* on a file */
	fsfix_file(fd, "t/d/bound", 'x', 1);
	fsfix_file(fd, "other", 'x', 1);
	snprintf(m, sizeof(m), "%s/t/d/bound", path);
	snprintf(f, sizeof(f), "%s/other", path);
	assert_int_equal(mount(f, m, NULL, MS_BIND, NULL), 0);
	assert_int_equal(remove_tree(fd, "t", &n, &e), E_BUSY);
	assert_string_equal(e.text, "t/d/bound: a mount is on it");
	/* on the tree itself */
	assert_int_equal(umount(m), 0);
	snprintf(m, sizeof(m), "%s/t", path);
	assert_int_equal(mount("none", m, "tmpfs", 0, NULL), 0);
	assert_int_equal(remove_tree(fd, "t", &n, &e), E_BUSY);
	assert_int_equal(umount(m), 0);
	assert_int_equal(remove_tree(fd, "t", &n, &e), 0);
	close(fd);
	fsfix_remove(path);
}

struct worker {
	int fd;
	atomic_int stop;
};

/* Keeps exchanging a full directory and a symlink that leads out. */
static void *
swap_thread(void *arg)
{
	struct worker *w = arg;

	while (!w->stop) {
		mkdirat(w->fd, "t", 0700);
		mkdirat(w->fd, "t/x", 0700);
		mkdirat(w->fd, "t/x/sub", 0700);
		mkdirat(w->fd, "t/x/sub/sub", 0700);
		(void)!symlinkat("../../out", w->fd, "t/y");
		for (int i = 0; i < 20; i++) {
			renameat2(w->fd, "t/x", w->fd, "t/y", RENAME_EXCHANGE);
		}
	}
	return NULL;
}

/* F13 for deletion: nothing outside goes. */
static void
test_swap_race(void **state)
{
	struct worker w = { 0 };
	unsigned runs = 0, removed = 0;
	char path[512];
	struct err e = { 0 };
	int fd = fsfix_open("here", path), rc;
	int64_t until;
	pthread_t t;

	(void)state;
	assert_int_equal(mkdirat(fd, "out", 0700), 0);
	assert_int_equal(mkdirat(fd, "out/sub", 0700), 0);
	assert_int_equal(mkdirat(fd, "out/sub/sub", 0700), 0);
	fsfix_file(fd, "out/sub/canary", 'x', 1);
	assert_int_equal(symlinkat("x", fd, "out/link"), 0);
	w.fd = fd;
	assert_int_equal(pthread_create(&t, NULL, swap_thread, &w), 0);
	until = io_deadline(1500);
	while (io_left_ms(until) > 0) {
		rc = remove_tree(fd, "t", NULL, &e);
		assert_true(rc == 0 || rc == E_NOT_FOUND ||
			    (rc == E_SYSTEM && e.sys == ENOTEMPTY));
		removed += rc == 0;
		runs++;
	}
	w.stop = 1;
	pthread_join(t, NULL);
	print_message("%u runs, %u complete\n", runs, removed);
	assert_true(runs > 10);
	assert_false(gone(fd, "out/sub/canary"));
	assert_false(gone(fd, "out/sub/sub"));
	assert_false(gone(fd, "out/link"));
	rc = remove_tree(fd, "t", NULL, &e);
	assert_true(rc == 0 || rc == E_NOT_FOUND);
	assert_int_equal(unlinkat(fd, "t", 0), -1);
	close(fd);
	fsfix_remove(path);
}

static void
test_read_only(void **state)
{
	char path[512], m[600];
	struct err e = { 0 };
	struct fsprobe p;
	int fd = fsfix_open("tmpfs", path), d;

	(void)state;
	if (fd < 0) {
		skip();
	}
	assert_int_equal(mkdirat(fd, "m", 0700), 0);
	snprintf(m, sizeof(m), "%s/m", path);
	assert_int_equal(mount("none", m, "tmpfs", 0, "size=1M"), 0);
	d = openat(fd, "m", O_RDONLY | O_DIRECTORY);
	assert_int_equal(mkdirat(d, "t", 0700), 0);
	fsfix_file(d, "t/f", 'x', 1);
	assert_int_equal(mount("none", m, NULL, MS_REMOUNT | MS_RDONLY, NULL),
			 0);
	assert_int_equal(remove_tree(d, "t", NULL, &e), E_SYSTEM);
	assert_int_equal(e.sys, EROFS);
	assert_non_null(strstr(e.text, "t: cannot remove"));
	assert_int_equal(fsprobe_run(d, &p, &e), E_SYSTEM);
	assert_int_equal(e.sys, EROFS);
	assert_int_equal(mount("none", m, NULL, MS_REMOUNT, "nr_inodes=3"), 0);
	assert_int_equal(fsprobe_run(d, &p, &e), E_NOSPACE);
	assert_int_equal(p.inodes_free, 0);
	close(d);
	assert_int_equal(umount(m), 0);
	close(fd);
	fsfix_remove(path);
}

static void
test_probe(void **state)
{
	const uint32_t all = FSPROBE_XATTR_USER | FSPROBE_XATTR_TRUSTED |
			     FSPROBE_XATTR_SECURITY | FSPROBE_CAPABILITY |
			     FSPROBE_ACL | FSPROBE_MKNOD | FSPROBE_SPARSE |
			     FSPROBE_NSEC | FSPROBE_OWNER | FSPROBE_NAME_BYTES |
			     FSPROBE_TIMES;
	char path[512], text[600];

	(void)state;
	for (size_t i = 1; fsfix_names[i]; i++) {
		const char *fs = fsfix_names[i];
		struct err e = { 0 };
		struct fsprobe p;
		int fd = fsfix_open(fs, path);

		if (fd < 0) {
			continue;
		}
		assert_int_equal(fsprobe_run(fd, &p, &e), 0);
		fsprobe_names(p.caps, text, sizeof(text));
		print_message("%s: %s; attributes to %u\n", p.type, text,
			      p.xattr_max);
		assert_string_equal(p.type, fs);
		assert_int_equal(p.caps & all, all);
		assert_true(p.bytes_free > 1 << 20);
		assert_true(p.inodes_free > 100);
		assert_true(p.xattr_max >= 3 << 10);
		if (strcmp(fs, "ext4") == 0) {
			assert_int_equal(p.xattr_max, 3 << 10);
			assert_int_equal(p.link_max, 65000);
			assert_true(p.caps & FSPROBE_FLAG_IA);
		}
		if (strcmp(fs, "xfs") == 0) {
			assert_int_equal(p.xattr_max, 64 << 10);
			assert_true(p.caps & FSPROBE_PROJID);
		}
		assert_int_equal(!(p.caps & FSPROBE_FLAG_C),
				 strcmp(fs, "btrfs") != 0);
		close(fd);
		assert_int_equal(rmdir(path), 0); /* nothing left behind */
	}
	assert_string_equal(fsprobe_names(FSPROBE_ACL | FSPROBE_MKNOD, text,
					  sizeof(text)),
			    "ACLs, device nodes");
	assert_string_equal(fsprobe_names(UINT32_MAX, text, 8), "user.* ");
	assert_string_equal(fsprobe_names(0, text, 8), "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remove),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_mount),
		cmocka_unit_test(test_swap_race),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_probe),
	};

	need_root();
	return cmocka_run_group_tests(tests, fsfix_setup, fsfix_teardown);
}
