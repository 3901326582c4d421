/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unit tests of xfer/send_survey, and of what it asks of fs/: on each file
 * system, what is found, and what is not even looked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/fsprobe.h"
#include "fs/xattr.h"
#include "xfer/send.h"
#include "fsfix.h"
#include "needroot.h"

static char path[512];

#define EACH_FS(fd)                                                          \
	for (size_t each_ = 0; fsfix_names[each_]; each_++)                  \
		for (int fd = fsfix_open(fsfix_names[each_], path); fd >= 0; \
		     close(fd), fsfix_remove(path), fd = -1)

static const struct send_opts opts = { .threads = 2 };

/* A file system that holds everything. */
static const struct fsprobe all = { .caps = UINT32_MAX,
				    .xattr_max = FSPROBE_XATTR_SIZE };

static struct send_survey
survey(int fd, const struct fsprobe *there)
{
	struct send_survey s;
	struct err e = { 0 };

	if (send_survey(fd, &opts, there, &s, &e) < 0) {
		fail_msg("%s", e.text);
	}
	return s;
}

static struct fsprobe
probe(int fd)
{
	struct fsprobe p;
	struct err e = { 0 };

	if (fsprobe_run(fd, &p, &e) < 0) {
		fail_msg("%s", e.text);
	}
	return p;
}

/* No file system takes a flag that its row says it cannot have. */
static void
test_possible(void **state)
{
	(void)state;
	EACH_FS(fd)
	{
		struct fsprobe p = probe(fd);

		assert_int_equal(p.caps & FSPROBE_FLAGS & ~fsprobe_possible(fd),
				 0);
	}
	/* One that no row is for: all of them. */
	{
		int fd = open("/proc", O_RDONLY | O_DIRECTORY);

		assert_int_equal(fsprobe_possible(fd), FSPROBE_FLAGS);
		close(fd);
	}
}

static void
make_tree(int fd)
{
	int f;

	fsfix_file(fd, "plain", 'p', 5000);
	fsfix_file(fd, "attr", 'a', 10);
	fsfix_file(fd, "noatime", 'n', 10);
	f = openat(fd, "attr", O_RDONLY);
	assert_int_equal(fsetxattr(f, "trusted.vzm", "x", 1, 0), 0);
	close(f);
	f = openat(fd, "noatime", O_RDONLY);
	assert_int_equal(ioctl(f, FS_IOC_SETFLAGS, &(int){ FS_NOATIME_FL }), 0);
	close(f);
	assert_int_equal(mkdirat(fd, "dir", 0755), 0);
	assert_int_equal(mknodat(fd, "dir/null", S_IFCHR | 0600, makedev(1, 3)),
			 0);
	assert_int_equal(symlinkat("to", fd, "link"), 0);
	assert_int_equal(fchownat(fd, "plain", 7, 7, 0), 0);
}

/* What the other file system holds is not looked for, everything else is
 * found as well as before. */
static void
test_looked_for(void **state)
{
	(void)state;
	EACH_FS(fd)
	{
		struct fsprobe less;
		struct send_survey a, s;
		uint32_t inside = FSPROBE_FLAG_NOATIME | FSPROBE_XATTR_TRUSTED;

		make_tree(fd);
		a = survey(fd, NULL);
		assert_int_equal(a.caps & inside, inside);
		assert_int_equal(a.caps & FSPROBE_MKNOD, FSPROBE_MKNOD);
		assert_int_equal(a.caps & FSPROBE_OWNER, FSPROBE_OWNER);
		assert_int_equal(a.entries, 7);
		s = survey(fd, &all);
		assert_int_equal(s.caps, a.caps & ~inside);
		assert_int_equal(s.entries, a.entries);
		assert_int_equal(s.inodes, a.inodes);
		assert_int_equal(s.bytes, a.bytes);
		assert_int_equal(s.data, a.data);
		assert_int_equal(s.largest, 5000);
		less = all;
		less.caps &= ~(uint32_t)FSPROBE_FLAG_NOATIME;
		s = survey(fd, &less);
		assert_int_equal(s.caps & FSPROBE_FLAG_NOATIME,
				 FSPROBE_FLAG_NOATIME);
		less = all;
		less.caps &= ~(uint32_t)FSPROBE_XATTR_TRUSTED;
		s = survey(fd, &less);
		assert_int_equal(s.caps & inside, FSPROBE_XATTR_TRUSTED);
		less = all;
		less.xattr_max = 1 << 10;
		s = survey(fd, &less);
		assert_int_equal(s.xattr_max, 1);
		fsfix_sh("chattr -A %s/noatime", path);
	}
}

/* Flags and project ids of directories are seen in any case. */
static void
test_directories(void **state)
{
	(void)state;
	EACH_FS(fd)
	{
		struct send_survey s;
		int f;

		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		f = openat(fd, "d", O_RDONLY);
		assert_int_equal(
			ioctl(f, FS_IOC_SETFLAGS, &(int){ FS_NODUMP_FL }), 0);
		close(f);
		s = survey(fd, &all);
		assert_int_equal(s.caps & FSPROBE_FLAG_NODUMP,
				 FSPROBE_FLAG_NODUMP);
		fsfix_sh("chattr -d %s/d", path);
	}
}

static void
test_xattr_some(void **state)
{
	(void)state;
	EACH_FS(fd)
	{
		make_tree(fd);
		assert_false(xattr_some(fd, "plain"));
		assert_false(xattr_some(fd, "dir"));
		assert_true(xattr_some(fd, "attr"));
		/* Not followed; and what cannot be told may have some. */
		assert_int_equal(symlinkat("attr", fd, "to-attr"), 0);
		assert_false(xattr_some(fd, "to-attr"));
		assert_true(xattr_some(fd, "nothing"));
		fsfix_sh("chattr -A %s/noatime", path);
	}
}

/* A device that cannot be carried is refused without being opened. */
static void
test_of_stat(void **state)
{
	struct statx stx = { .stx_mode = S_IFBLK | 0600,
			     .stx_rdev_major = 8,
			     .stx_attributes = STATX_ATTR_IMMUTABLE };
	struct err e = { 0 };
	struct meta m;

	(void)state;
	assert_int_equal(meta_of_stat(&stx, &m, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "it is immutable"));
	stx.stx_attributes = 0;
	assert_int_equal(meta_of_stat(&stx, &m, &e), 0);
	assert_int_equal(m.type, FS_BLK);
	assert_int_equal(m.major, 8);
	stx.stx_mode = S_IFLNK | 0777;
	stx.stx_size = 1024;
	assert_int_equal(meta_of_stat(&stx, &m, &e), 0);
	assert_int_equal(fsprobe_meta_caps(&m), FSPROBE_LONG_LINK);
	stx.stx_mode = S_IFREG | 0600;
	stx.stx_attributes = STATX_ATTR_IMMUTABLE;
	assert_int_equal(meta_of_stat(&stx, &m, &e), 0);
	assert_int_equal(m.size, 1024);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_possible),
		cmocka_unit_test(test_looked_for),
		cmocka_unit_test(test_directories),
		cmocka_unit_test(test_xattr_some),
		cmocka_unit_test(test_of_stat),
	};

	need_root();
	return cmocka_run_group_tests_name("survey", tests, fsfix_setup,
					   fsfix_teardown);
}
