/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of fs/content. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "fs/content.h"
#include "fsfix.h"

/* F6: time and space follow what is allocated. */
static void
test_holes(void **state)
{
	char path[512];

	(void)state;
	for (size_t i = 0; fsfix_names[i]; i++) {
		const uint64_t tera = 1ull << 40, mid = (tera / 2) + 5;
		struct err e = { 0 };
		uint64_t off, len, size = tera;
		int fd = fsfix_open(fsfix_names[i], path), f;
		int64_t start = io_now_ms();

		if (fd < 0) {
			continue;
		}
		f = openat(fd, "f", O_RDWR | O_CREAT, 0600);
		assert_true(f >= 0);
		if (ftruncate(f, (off_t)size) < 0) {
			size = 1ull << 36; /* ext4 with small blocks */
			assert_int_equal(ftruncate(f, (off_t)size), 0);
		}
		assert_int_equal(content_next(f, 0, size, &off, &len, &e), 0);
		assert_int_equal(content_write(f, "x", 1, mid % size, "f", &e),
				 0);
		assert_int_equal(content_next(f, 0, size, &off, &len, &e), 1);
		assert_true(off <= mid % size && off + len > mid % size);
		assert_true(len <= 2 << 20);
		assert_int_equal(
			content_next(f, off + len, size, &off, &len, &e), 0);
		assert_int_equal(content_next(f, size, size, &off, &len, &e),
				 0);
		assert_int_equal(
			content_next(f, size + 1, size, &off, &len, &e), 0);
		assert_int_equal(content_next(f, UINT64_MAX, UINT64_MAX, &off,
					      &len, &e),
				 0);
		assert_true(io_now_ms() - start < 2000);
		close(f);

		/* Data, hole, unwritten extent, written zeros, hole at the
		 * end; and a size that is known smaller than it is. */
		f = openat(fd, "g", O_RDWR | O_CREAT, 0600);
		fsfix_file(fd, "g", 'a', 1 << 20);
		assert_int_equal(ftruncate(f, 8 << 20), 0);
		assert_int_equal(content_next(f, 0, 8 << 20, &off, &len, &e),
				 1);
		assert_int_equal(off, 0);
		assert_int_equal(len, 1 << 20);
		assert_int_equal(content_next(f, 100, 8 << 20, &off, &len, &e),
				 1);
		assert_int_equal(off, 100);
		assert_int_equal(content_next(f, 0, 5000, &off, &len, &e), 1);
		assert_int_equal(len, 5000);
		if (fallocate(f, 0, 2 << 20, 1 << 20) == 0 &&
		    strcmp(fsfix_names[i], "tmpfs") != 0) {
			assert_int_equal(content_next(f, 1 << 20, 8 << 20, &off,
						      &len, &e),
					 0);
		}
		{
			static const char zeros[4096];

			assert_int_equal(content_write(f, zeros, 4096, 4 << 20,
						       "g", &e),
					 0);
		}
		assert_int_equal(
			content_next(f, 7 << 19, 8 << 20, &off, &len, &e), 1);
		assert_true(off <= 4 << 20 && off + len >= (4 << 20) + 4096);
		close(f);
		close(fd);
		fsfix_remove(path);
	}
}

static void
test_read(void **state)
{
	char path[512], buf[100];
	struct err e = { 0 };
	int fd = fsfix_open("here", path), f, d;

	(void)state;
	fsfix_file(fd, "f", 'q', 60);
	f = openat(fd, "f", O_RDWR);
	assert_int_equal(content_read(f, buf, 50, 10, "f", &e), 50);
	assert_int_equal(buf[49], 'q');
	assert_int_equal(content_read(f, buf, 50, 40, "f", &e), 20);
	assert_int_equal(content_read(f, buf, 50, 60, "f", &e), 0);
	assert_int_equal(content_read(f, buf, 50, 1 << 20, "f", &e), 0);
	d = openat(fd, ".", O_RDONLY | O_DIRECTORY);
	assert_int_equal(content_read(d, buf, 50, 0, "the\ndir", &e), E_SYSTEM);
	assert_int_equal(e.sys, EISDIR);
	assert_non_null(strstr(e.text, "the\\ndir at 0"));
	close(d);
	close(f);
	close(fd);
	fsfix_remove(path);
}

static void
test_write_fails(void **state)
{
	struct rlimit old, small = { 8192, RLIM_INFINITY };
	char path[512], buf[5000] = { 1 };
	struct err e = { 0 };
	int fd = fsfix_open("here", path), f, full;

	(void)state;
	f = openat(fd, "f", O_RDWR | O_CREAT, 0600);
	assert_int_equal(content_write(f, buf, 10, UINT64_MAX - 4, "f", &e),
			 E_SYSTEM);
	assert_int_equal(e.sys, EFBIG);
	/* A short write first, then EFBIG. */
	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(content_write(f, buf, sizeof(buf), 5000, "f", &e),
			 E_SYSTEM);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(e.sys, EFBIG);
	assert_non_null(strstr(e.text, "f at 8192"));
	close(f);
	f = openat(fd, "f", O_RDONLY);
	assert_int_equal(content_write(f, buf, 10, 0, "f", &e), E_SYSTEM);
	assert_int_equal(e.sys, EBADF);
	assert_int_equal(content_punch(f, 0, 10, "f", &e), E_SYSTEM);
	close(f);
	full = open("/dev/full", O_WRONLY);
	assert_true(full >= 0);
	assert_int_equal(content_write(full, buf, 10, 0, "full", &e),
			 E_NOSPACE);
	close(full);
	close(fd);
	fsfix_remove(path);
}

static void
check_zeros(int f, uint64_t from, uint64_t to)
{
	struct stat st;
	char c[2];
	struct err e = { 0 };

	assert_int_equal(fstat(f, &st), 0);
	assert_int_equal(st.st_size, 1 << 20);
	for (uint64_t at = from > 3 ? from - 3 : 0; at < to + 3 && at < 1 << 20;
	     at += at == from + 3 && to - from > 6 ? to - from - 6 : 1) {
		assert_int_equal(content_read(f, c, 1, at, "f", &e), 1);
		assert_int_equal(c[0], at >= from && at < to ? 0 : 'a');
	}
}

static void
test_punch(void **state)
{
	char path[512];

	(void)state;
	for (size_t i = 0; fsfix_names[i]; i++) {
		struct err e = { 0 };
		struct stat st;
		int fd = fsfix_open(fsfix_names[i], path), f;

		if (fd < 0) {
			continue;
		}
		fsfix_file(fd, "f", 'a', 1 << 20);
		f = openat(fd, "f", O_RDWR);
		assert_int_equal(content_punch(f, 5, 0, "f", &e), 0);
		assert_int_equal(content_punch(f, 10, 20, "f", &e), 0);
		check_zeros(f, 10, 30);
		assert_int_equal(content_punch(f, 5000, 500000, "f", &e), 0);
		check_zeros(f, 5000, 505000);
		/* to beyond the end: the size stays */
		assert_int_equal(content_punch(f, 1000000, 1 << 30, "f", &e),
				 0);
		check_zeros(f, 1000000, 1 << 20);
		assert_int_equal(fsync(f), 0);
		assert_int_equal(fstat(f, &st), 0);
		assert_true(st.st_blocks * 512 < 600000);
		assert_int_equal(content_punch(f, UINT64_MAX, 1, "f", &e),
				 E_SYSTEM);
		close(f);
		close(fd);
		fsfix_remove(path);
	}
}

/* Where holes cannot be had: ramfs punches nothing. */
static void
test_punch_by_zeros(void **state)
{
	char path[512];
	struct err e = { 0 };
	int fd = fsfix_open("tmpfs", path), d, f;

	(void)state;
	if (fd < 0) {
		skip();
	}
	fsfix_sh("mkdir %s/r && mount -t ramfs none %s/r", path, path);
	d = openat(fd, "r", O_RDONLY | O_DIRECTORY);
	fsfix_file(d, "f", 'a', 1 << 20);
	f = openat(d, "f", O_RDWR);
	assert_int_equal(fallocate(f,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   0, 4096),
			 -1);
	assert_int_equal(content_punch(f, 5000, 500000, "f", &e), 0);
	check_zeros(f, 5000, 505000);
	assert_int_equal(content_punch(f, 1000000, 1 << 30, "f", &e), 0);
	check_zeros(f, 1000000, 1 << 20);
	close(f);
	close(d);
	fsfix_sh("umount %s/r", path);
	close(fd);
	fsfix_remove(path);
}

/* Any offset and length, and the end of the file. */
static void
check_direct(int fd, const uint8_t *all, size_t size)
{
	static const struct {
		uint64_t off;
		size_t len;
	} t[] = { { 0, 1 },	    { 0, 4096 },    { 1, 4096 },
		  { 4095, 2 },	    { 4096, 8192 }, { 10000, 5000 },
		  { 16000, 100000 } };
	cleanup(free_ptr) uint8_t *got = malloc(100000);
	struct content_ahead a = { 0 };
	struct err e = { 0 };

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		size_t want =
			t[i].off + t[i].len > size ? size - t[i].off : t[i].len;

		assert_int_equal(content_read_direct(fd, &a, got, t[i].len,
						     t[i].off, "f", &e),
				 want);
		assert_memory_equal(got, all + t[i].off, want);
	}
	assert_int_equal(content_read_direct(fd, &a, got, 10, size, "f", &e),
			 0);
	assert_int_equal(
		content_read_direct(fd, &a, got, 10, size + 9999, "f", &e), 0);
	content_ahead_fini(&a);
}

/* In a row, with more asked of the disk than of us. */
static void
check_ahead(int dirfd)
{
	const size_t size = (5u << 20) + 123, step = 70001;
	cleanup(free_ptr) uint8_t *got = malloc(size), *all = malloc(size);
	struct content_ahead a = { .end = size };
	struct err e = { 0 };
	int f = openat(dirfd, "g", O_RDWR | O_CREAT, 0600);

	for (size_t i = 0; i < size; i++) {
		all[i] = (uint8_t)(i % 251);
	}
	assert_int_equal(content_write(f, all, size, 0, "g", &e), 0);
	assert_int_equal(content_direct(f, "g", &e), 0);
	assert_int_equal(content_read_direct(f, &a, got, 1, 0, "g", &e), 1);
	assert_true(a.len > 1 << 20);
	for (size_t at = 0; at < size; at += step) {
		size_t want = size - at < step ? size - at : step;

		assert_int_equal(content_read_direct(f, &a, got + at, step, at,
						     "g", &e),
				 want);
	}
	assert_memory_equal(got, all, size);
	/* More than is read at once. */
	memset(got, 0, size);
	a.end = 0;
	assert_int_equal(content_read_direct(f, &a, got, size, 0, "g", &e),
			 size);
	assert_memory_equal(got, all, size);
	content_ahead_fini(&a);
	close(f);
}

static void
test_direct(void **state)
{
	uint8_t all[20001];
	char path[512];

	(void)state;
	for (size_t i = 0; i < sizeof(all); i++) {
		all[i] = (uint8_t)(i * 7 / 5);
	}
	for (size_t i = 0; fsfix_names[i]; i++) {
		struct err e = { 0 };
		int d = fsfix_open(fsfix_names[i], path), f;

		if (d < 0) {
			continue;
		}
		f = openat(d, "f", O_RDWR | O_CREAT, 0600);
		/* In the cache, and not on the disk yet. */
		assert_int_equal(content_write(f, all, sizeof(all), 0, "f", &e),
				 0);
		assert_int_equal(content_direct(f, "f", &e), 0);
		check_direct(f, all, sizeof(all));
		check_ahead(d);
		close(f);
		fsfix_remove(path);
		close(d);
	}
}

/* Where on the disk the first byte is. */
static uint64_t
physical(int fd)
{
	struct {
		struct fiemap head;
		struct fiemap_extent first;
	} m = { .head = { .fm_length = 1,
			  .fm_flags = FIEMAP_FLAG_SYNC,
			  .fm_extent_count = 1 } };

	assert_int_equal(ioctl(fd, FS_IOC_FIEMAP, &m), 0);
	assert_int_equal(m.head.fm_mapped_extents, 1);
	return m.first.fe_physical;
}

/* What somebody writes to the disk below the cache, as the kernel does for a
 * device made of the file, is what is read. */
static void
test_direct_past_cache(void **state)
{
	char path[512], img[1024], got[12] = "";
	struct content_ahead a = { 0 };
	struct err e = { 0 };
	int d = fsfix_open("ext4", path), f, raw;
	char *slash;

	(void)state;
	if (d < 0) {
		skip();
	}
	f = openat(d, "f", O_RDWR | O_CREAT, 0600);
	assert_int_equal(content_write(f, "as it was\n", 10, 0, "f", &e), 0);
	assert_int_equal(fsync(f), 0);
	slash = strrchr(path, '/');
	snprintf(img, sizeof(img), "%.*s.img", (int)(slash - path), path);
	raw = open(img, O_RDWR);
	assert_true(raw >= 0);
	assert_int_equal(content_write(raw, "as it is now", 10, physical(f),
				       "img", &e),
			 0);
	/* The cache knows nothing of it, or this test would show nothing. */
	assert_int_equal(content_read(f, got, 10, 0, "f", &e), 10);
	assert_string_equal(got, "as it was\n");
	assert_int_equal(content_direct(f, "f", &e), 0);
	assert_int_equal(content_read_direct(f, &a, got, 10, 0, "f", &e), 10);
	assert_string_equal(got, "as it is n");
	content_ahead_fini(&a);
	close(raw);
	close(f);
	fsfix_remove(path);
	close(d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_write_fails),
		cmocka_unit_test(test_punch),
		cmocka_unit_test(test_punch_by_zeros),
		cmocka_unit_test(test_direct),
		cmocka_unit_test(test_direct_past_cache),
	};

	return cmocka_run_group_tests(tests, fsfix_setup, fsfix_teardown);
}
