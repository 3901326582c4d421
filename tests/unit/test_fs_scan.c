/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of fs/scan and fs/beneath. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "fs/beneath.h"
#include "fs/mounts.h"
#include "fs/scan.h"
#include "fsfix.h"
#include "needroot.h"

#define DIRS_MAX 70000

/* What a scan delivered. */
struct seen {
	pthread_mutex_t lock;
	unsigned dirs, entries, ends, faults, mounts;
	int last_fault;
	uint64_t names;		 /* sum over a hash of each entry's path */
	unsigned bad;		 /* broken promises */
	uint8_t known[DIRS_MAX]; /* ids that had their on_dir */
	size_t max_path;
	const char *forbidden; /* a name that must never be seen */
	/* called in on_entry */
	void (*hook)(struct seen *s, struct scan_dir *d, const char *name);
	int hook_rc;
	int hook_fd;
	char mount_path[256];
	unsigned fds_max; /* highest descriptor number seen */
};

static uint64_t
hash(const char *path, size_t path_len, const char *name, size_t len)
{
	uint64_t h = 1469598103934665603u;

	for (size_t i = 0; i < path_len; i++) {
		h = (h ^ (uint8_t)path[i]) * 1099511628211u;
	}
	h = (h ^ '/') * 1099511628211u;
	for (size_t i = 0; i < len; i++) {
		h = (h ^ (uint8_t)name[i]) * 1099511628211u;
	}
	return h;
}

static int
on_dir(struct scan_dir *d, const struct statx *stx, void *arg, struct err *e)
{
	struct seen *s = arg;

	(void)e;
	pthread_mutex_lock(&s->lock);
	s->dirs++;
	s->bad += !S_ISDIR(stx->stx_mode);
	s->bad += d->id >= DIRS_MAX || s->known[d->id];
	s->bad += d->id ? d->parent >= d->id || !s->known[d->parent]
			: d->parent != 0;
	s->bad += d->path_len < d->name_len ||
		  memcmp(d->path + d->path_len - d->name_len, d->name,
			 d->name_len) != 0;
	s->known[d->id] = 1;
	if (d->path_len > s->max_path) {
		s->max_path = d->path_len;
	}
	if ((unsigned)d->fd > s->fds_max) {
		s->fds_max = (unsigned)d->fd;
	}
	pthread_mutex_unlock(&s->lock);
	d->user = s;
	return 0;
}

static int
on_entry(struct scan_dir *d, const char *name, size_t len,
	 const struct statx *stx, void *arg, struct err *e)
{
	struct seen *s = arg;

	pthread_mutex_lock(&s->lock);
	s->entries++;
	s->names += hash(d->path, d->path_len, name, len) * (stx->stx_mode | 1);
	s->bad += d->user != s || strlen(name) != len;
	s->bad += s->forbidden && strcmp(name, s->forbidden) == 0;
	pthread_mutex_unlock(&s->lock);
	if (s->hook) {
		s->hook(s, d, name);
		if (s->hook_rc < 0) {
			return err_set(e, s->hook_rc, "hook");
		}
		return s->hook_rc;
	}
	return 0;
}

static int
on_end(struct scan_dir *d, void *arg, struct err *e)
{
	struct seen *s = arg;

	(void)d;
	(void)e;
	pthread_mutex_lock(&s->lock);
	s->ends++;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static int
on_mount(const char *path, size_t len, void *arg, struct err *e)
{
	struct seen *s = arg;

	(void)e;
	pthread_mutex_lock(&s->lock);
	s->mounts++;
	snprintf(s->mount_path, sizeof(s->mount_path), "%.*s", (int)len, path);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static int
on_fault(const char *path, size_t len, struct err *why, void *arg)
{
	struct seen *s = arg;

	(void)path;
	(void)len;
	pthread_mutex_lock(&s->lock);
	s->faults++;
	s->last_fault = why->code;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static const struct scan_ops ops = {
	.on_dir = on_dir,
	.on_entry = on_entry,
	.on_dir_end = on_end,
	.on_mount = on_mount,
	.on_fault = on_fault,
};

static struct seen *
seen_new(void)
{
	struct seen *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

static void
scan_ok(int fd, unsigned threads, struct seen *s)
{
	struct scan_opts o = { .threads = threads };
	struct err e = { 0 };
	int rc = scan_tree(fd, &o, &ops, s, &e);

	if (rc) {
		print_error("%s\n", e.text);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(s->bad, 0);
	assert_int_equal(s->dirs, s->ends);
}

/* Every inode type; one and four threads see the same. */
static void
test_types(void **state)
{
	(void)state;
	for (size_t i = 0; fsfix_names[i]; i++) {
		struct seen *a = seen_new(), *b = seen_new();
		char path[512];
		int fd = fsfix_open(fsfix_names[i], path);

		if (fd < 0) {
			free(a);
			free(b);
			continue;
		}
		fsfix_file(fd, "f", 'x', 10);
		assert_int_equal(symlinkat("/etc", fd, "link"), 0);
		assert_int_equal(mkfifoat(fd, "fifo", 0600), 0);
		assert_int_equal(mknodat(fd, "wh", S_IFCHR, 0), 0);
		assert_int_equal(mknodat(fd, "sock", S_IFSOCK | 0600, 0), 0);
		assert_int_equal(mkdirat(fd, "a\nb", 0), 0);
		assert_int_equal(mkdirat(fd, "a\nb/\xff\xfe", 0700), 0);
		assert_int_equal(mkdirat(fd, "-rf", 0700), 0);
		fsfix_file(fd, "a\nb/\xff\xfe/\x1b[2J", 'x', 0);
		scan_ok(fd, 1, a);
		scan_ok(fd, 4, b);
		assert_int_equal(a->entries, 9);
		assert_int_equal(a->dirs, 4);
		assert_int_equal(a->faults + a->mounts, 0);
		assert_true(a->names == b->names);
		assert_int_equal(b->entries, 9);
		close(fd);
		fsfix_remove(path);
		free(a);
		free(b);
	}
}

/* A comb: `depth` levels, at each a sibling directory with one file, so that
 * every level's descriptor is wanted again on the way back. */
static void
make_comb(int fd, unsigned depth)
{
	int at = dup(fd);

	for (unsigned i = 0; i < depth; i++) {
		int next;

		assert_int_equal(mkdirat(at, "a-side", 0700), 0);
		fsfix_file(at, "a-side/f", 'x', 1);
		assert_int_equal(mkdirat(at, "down-down", 0700), 0);
		assert_int_equal(mkdirat(at, "z-side", 0700), 0);
		next = openat(at, "down-down", O_RDONLY | O_DIRECTORY);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
}

static void
test_deep_with_few_descriptors(void **state)
{
	const unsigned depth = 1500; /* 15,000 bytes of path */
	struct rlimit old, few = { 48, 48 };
	char path[512];
	int fd = fsfix_open("tmpfs", path), deep;
	struct seen *one = seen_new(), *four = seen_new();
	struct err e = { 0 };
	char *rel = malloc(10 * depth);

	(void)state;
	if (fd < 0) {
		fd = fsfix_open("here", path);
	}
	make_comb(fd, depth);
	getrlimit(RLIMIT_NOFILE, &old);
	few.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	scan_ok(fd, 1, one);
	scan_ok(fd, 4, four);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(one->dirs, 3 * depth + 1);
	assert_int_equal(one->entries, 4 * depth);
	assert_int_equal(one->faults, 0);
	assert_int_equal(one->max_path, 10 * depth - 1);
	assert_true(one->names == four->names);
	assert_int_equal(four->dirs, 3 * depth + 1);

	for (unsigned i = 0; i < depth; i++) {
		memcpy(rel + 10 * i, "down-down/", 10);
	}
	deep = beneath_open_dir(fd, rel, 10 * depth - 1, &e);
	assert_true(deep >= 0);
	close(deep);
	memcpy(rel + 9000, "down-dowm/", 10);
	assert_int_equal(beneath_open_dir(fd, rel, 10 * depth - 1, &e),
			 E_NOT_FOUND);
	free(rel);
	free(one);
	free(four);
	close(fd);
	fsfix_remove(path);
}

/* At the bottom of the comb, puts another directory in the way back up. */
static void
hook_detour(struct seen *s, struct scan_dir *d, const char *name)
{
	(void)d;
	if (strcmp(name, "bottom") == 0) {
		renameat(s->hook_fd, "down-down", s->hook_fd, "moved");
		mkdirat(s->hook_fd, "down-down", 0700);
		mkdirat(s->hook_fd, "down-down/down-down", 0700);
		mkdirat(s->hook_fd, "down-down/down-down/z-side", 0700);
	}
}

/* Directories whose descriptor was closed are not taken for others of their
 * name. */
static void
test_detour(void **state)
{
	const unsigned depth = 200;
	struct rlimit old, few = { 48, 48 };
	char path[512], rel[10 * 200 + 10];
	int fd = fsfix_open("tmpfs", path), deep;
	struct seen *s = seen_new();
	struct err e = { 0 };

	(void)state;
	if (fd < 0) {
		free(s);
		skip(); /* inode numbers grow there: z-side comes last */
	}
	make_comb(fd, depth);
	for (unsigned i = 0; i < depth; i++) {
		memcpy(rel + 10 * i, "down-down/", 10);
	}
	deep = beneath_open_dir(fd, rel, 10 * depth - 1, &e);
	assert_true(deep >= 0);
	fsfix_file(deep, "bottom", 'x', 1);
	close(deep);
	s->hook = hook_detour;
	s->hook_fd = fd;
	getrlimit(RLIMIT_NOFILE, &old);
	few.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	scan_ok(fd, 1, s);
	setrlimit(RLIMIT_NOFILE, &old);
	/* Every z-side was either still reachable or is missed. */
	assert_int_equal(s->dirs + s->faults, 3 * depth + 1);
	assert_true(s->faults > depth / 2);
	assert_int_equal(s->last_fault, E_CHANGED);
	free(s);
	close(fd);
	fsfix_remove(path);
}

static void
test_wide(void **state)
{
	struct seen *s = seen_new();
	char path[512], name[32];
	int fd = fsfix_open("tmpfs", path);

	(void)state;
	if (fd < 0) { /* slower */
		fd = fsfix_open("here", path);
	}
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		assert_int_equal(mkdirat(fd, name, 0700), 0);
	}
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "d7/some-file-%u", i);
		assert_int_equal(mknodat(fd, name, S_IFREG | 0600, 0), 0);
	}
	scan_ok(fd, 4, s);
	assert_int_equal(s->dirs, 20001);
	assert_int_equal(s->entries, 40000);
	assert_true(s->fds_max < 40); /* the root and one per thread */
	free(s);
	close(fd);
	fsfix_remove(path);
}

/* Removes, or replaces by a symlink, each directory once it is reported. */
static void
hook_vanish(struct seen *s, struct scan_dir *d, const char *name)
{
	(void)s;
	if (strncmp(name, "gone", 4) == 0) {
		unlinkat(d->fd, name, AT_REMOVEDIR);
	} else if (strncmp(name, "swap", 4) == 0) {
		unlinkat(d->fd, name, AT_REMOVEDIR);
		(void)!symlinkat("/etc", d->fd, name);
	}
}

static void
hook_nothing(struct seen *s, struct scan_dir *d, const char *name)
{
	(void)s;
	(void)d;
	(void)name;
}

static void
test_faults(void **state)
{
	struct scan_ops strict = ops;
	struct scan_opts o = { .threads = 1 };
	struct seen *s = seen_new();
	struct err e = { 0 };
	char path[512];
	int fd = fsfix_open("here", path);

	(void)state;
	s->forbidden = "passwd";
	s->hook = hook_vanish;
	assert_int_equal(mkdirat(fd, "gone", 0700), 0);
	scan_ok(fd, 2, s);
	assert_int_equal(s->faults, 1);
	assert_int_equal(s->last_fault, E_NOT_FOUND);
	assert_int_equal(mkdirat(fd, "swap", 0700), 0);
	memset(s->known, 0, sizeof(s->known));
	s->entries = 0;
	scan_ok(fd, 2, s);
	assert_int_equal(s->faults, 2);
	assert_int_equal(s->last_fault, E_CHANGED);
	assert_int_equal(s->entries, 1);

	strict.on_fault = NULL;
	assert_int_equal(mkdirat(fd, "gone", 0700), 0);
	memset(s->known, 0, sizeof(s->known));
	assert_int_equal(scan_tree(fd, &o, &strict, s, &e), E_NOT_FOUND);
	assert_non_null(strstr(e.text, "gone"));

	/* An error of a callback ends it and is handed up. */
	s->hook = hook_nothing;
	s->hook_rc = E_CANCELLED;
	memset(s->known, 0, sizeof(s->known));
	assert_int_equal(scan_tree(fd, &o, &ops, s, &e), E_CANCELLED);
	assert_string_equal(e.text, "hook");

	/* 1 from on_entry: not visited. */
	s->hook_rc = 1;
	assert_int_equal(mkdirat(fd, "d", 0700), 0);
	memset(s->known, 0, sizeof(s->known));
	s->dirs = 0;
	assert_int_equal(scan_tree(fd, &o, &ops, s, &e), 0);
	assert_int_equal(s->dirs, 1);

	close(fd);
	assert_int_equal(scan_tree(fd, &o, &ops, s, &e), E_SYSTEM);
	fsfix_remove(path);
	free(s);
}

/* Mounts are not entered; what they hide is delivered. */
static void
test_mounts(void **state)
{
	struct seen *s = seen_new();
	char path[512], m[600], src[600];
	int fd = fsfix_open("ext4", path);
	struct err e = { 0 };

	(void)state;
	if (fd < 0) {
		free(s);
		skip();
	}
	assert_int_equal(mkdirat(fd, "d", 0700), 0);
	assert_int_equal(mkdirat(fd, "d/m", 0711), 0);
	assert_int_equal(mkdirat(fd, "d/m/under", 0700), 0);
	fsfix_file(fd, "d/m/under/hidden", 'x', 1);
	snprintf(m, sizeof(m), "%s/d/m", path);
	assert_int_equal(mount("none", m, "tmpfs", 0, NULL), 0);
	fsfix_file(fd, "d/m/secret", 'x', 1);
	s->forbidden = "secret";
	scan_ok(fd, 2, s);
	assert_int_equal(s->mounts, 1);
	assert_string_equal(s->mount_path, "d/m");
	assert_int_equal(s->faults, 0);
	assert_int_equal(s->entries, 4); /* d, m, under, hidden */
	assert_int_equal(s->dirs, 4);
	assert_int_equal(beneath_open_dir(fd, "d/m", 3, &e), E_DENIED);
	assert_int_equal(e.sys, EXDEV);
	assert_int_equal(umount(m), 0);

	/* A bind mount within the same file system, on a directory and on a
	 * file: the device number does not tell. */
	assert_int_equal(mkdirat(fd, "other", 0700), 0);
	fsfix_file(fd, "other/secret", 'x', 1);
	snprintf(src, sizeof(src), "%s/other", path);
	snprintf(m, sizeof(m), "%s/d/m/under", path);
	assert_int_equal(mount(src, m, NULL, MS_BIND, NULL), 0);
	snprintf(src, sizeof(src), "%s/other/secret", path);
	snprintf(m, sizeof(m), "%s/d/file", path);
	fsfix_file(fd, "d/file", 'y', 5);
	assert_int_equal(mount(src, m, NULL, MS_BIND, NULL), 0);
	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	scan_ok(fd, 2, s);
	assert_int_equal(s->mounts, 2);
	/* d, file, m, under, hidden, other, secret */
	assert_int_equal(s->entries, 7);
	assert_int_equal(beneath_open_reg(fd, "d", O_RDONLY, NULL, &e),
			 E_CHANGED);
	assert_int_equal(umount(m), 0);
	snprintf(m, sizeof(m), "%s/d/m/under", path);
	assert_int_equal(umount(m), 0);
	close(fd);
	fsfix_remove(path);
	free(s);
}

/* --- F13: the tree is rewritten while it is walked ---------------------- */

struct swapper {
	int fd;
	atomic_int stop;
	unsigned long swaps;
};

static void *
swap_thread(void *arg)
{
	struct swapper *w = arg;

	while (!w->stop) {
		renameat2(w->fd, "x", w->fd, "y", RENAME_EXCHANGE);
		w->swaps++;
	}
	return NULL;
}

static void
test_swap_race(void **state)
{
	struct swapper w = { 0 };
	char path[512], out[512], target[600];
	int fd = fsfix_open("here", path), outfd = fsfix_open("here", out);
	int64_t until;
	unsigned scans = 0, lost = 0;
	pthread_t t;

	(void)state;
	/* the canary: outside */
	assert_int_equal(mkdirat(outfd, "sub", 0700), 0);
	fsfix_file(outfd, "canary", 'x', 1);
	fsfix_file(outfd, "sub/canary", 'x', 1);
	assert_int_equal(mkdirat(fd, "x", 0700), 0);
	assert_int_equal(mkdirat(fd, "x/sub", 0700), 0);
	fsfix_file(fd, "x/sub/mine", 'x', 1);
	snprintf(target, sizeof(target), "../%s", strrchr(out, '/') + 1);
	assert_int_equal(symlinkat(target, fd, "y"), 0);
	w.fd = fd;
	assert_int_equal(pthread_create(&t, NULL, swap_thread, &w), 0);
	until = io_deadline(1500);
	while (io_left_ms(until) > 0) {
		struct seen *s = seen_new();
		struct err e = { 0 };
		int r;

		s->forbidden = "canary";
		scan_ok(fd, 2, s);
		lost += s->faults;
		free(s);
		r = beneath_open_dir(fd, "x/sub", 5, &e);
		if (r >= 0) {
			assert_int_equal(faccessat(r, "mine", F_OK, 0), 0);
			close(r);
		} else {
			assert_true(r == E_DENIED || r == E_NOT_FOUND ||
				    (r == E_SYSTEM && e.sys == ENOTDIR));
		}
		scans++;
	}
	w.stop = 1;
	pthread_join(t, NULL);
	print_message("%u scans, %lu swaps, %u caught\n", scans, w.swaps, lost);
	assert_true(scans > 10 && w.swaps > 10);
	close(fd);
	close(outfd);
	fsfix_remove(path);
	fsfix_remove(out);
}

static void
test_beneath(void **state)
{
	char path[512], longname[300];
	int fd = fsfix_open("here", path), r;
	struct err e = { 0 };
	struct statx stx;

	(void)state;
	memset(longname, 'n', sizeof(longname));
	assert_true(beneath_name_ok("a", 1));
	assert_true(beneath_name_ok("...", 3));
	assert_true(beneath_name_ok(longname, 255));
	assert_false(beneath_name_ok(longname, 256));
	assert_false(beneath_name_ok("", 0));
	assert_false(beneath_name_ok(".", 1));
	assert_false(beneath_name_ok("..", 2));
	assert_false(beneath_name_ok("a/b", 3));
	assert_false(beneath_name_ok("a\0b", 3));

	fsfix_file(fd, "f", 'x', 3);
	assert_int_equal(symlinkat("f", fd, "l"), 0);
	assert_int_equal(symlinkat("/", fd, "root"), 0);
	assert_int_equal(mkfifoat(fd, "fifo", 0600), 0);
	assert_int_equal(mkdirat(fd, "d", 0700), 0);
	assert_int_equal(beneath_open(fd, "no", O_RDONLY, 0, &e), E_NOT_FOUND);
	assert_int_equal(beneath_open(fd, "l", O_RDONLY, 0, &e), E_DENIED);
	assert_int_equal(e.sys, ELOOP);
	assert_int_equal(beneath_open(fd, "..", O_RDONLY | O_DIRECTORY, 0, &e),
			 E_PROTOCOL);
	assert_int_equal(beneath_open(fd, "d/..", O_RDONLY, 0, &e), E_PROTOCOL);
	assert_int_equal(beneath_open(fd, "root", O_RDONLY | O_DIRECTORY, 0,
				      &e),
			 E_DENIED);
	/* would block for ever, or act on a device */
	assert_int_equal(beneath_open(fd, "fifo", O_WRONLY, 0, &e), E_CHANGED);
	assert_int_equal(beneath_open(fd, "fifo", O_WRONLY | O_CREAT, 0600, &e),
			 E_CHANGED);
	assert_int_equal(beneath_open(fd, "f", O_WRONLY | O_CREAT | O_EXCL,
				      0600, &e),
			 E_EXISTS);
	assert_int_equal(beneath_open(fd, "l", O_WRONLY | O_CREAT, 0600, &e),
			 E_DENIED);
	r = beneath_open(fd, "new", O_RDWR | O_CREAT, 0600, &e);
	assert_true(r >= 0);
	assert_true(fcntl(r, F_GETFD) & FD_CLOEXEC);
	close(r);
	r = beneath_open_reg(fd, "f", O_RDONLY | O_NOATIME, &stx, &e);
	assert_true(r >= 0);
	assert_int_equal(stx.stx_size, 3);
	close(r);
	r = beneath_open(fd, "f", O_RDWR | O_CREAT | O_TRUNC, 0600, &e);
	assert_true(r >= 0);
	close(r);
	r = beneath_open(fd, "l", O_PATH, 0, &e);
	assert_true(r >= 0);
	close(r);

	r = beneath_open_dir(fd, "", 0, &e);
	assert_true(r >= 0);
	close(r);
	assert_int_equal(beneath_open_dir(fd, "d/..", 4, &e), E_PROTOCOL);
	assert_int_equal(beneath_open_dir(fd, "/d", 2, &e), E_PROTOCOL);
	assert_int_equal(beneath_open_dir(fd, "d/", 2, &e), E_PROTOCOL);
	assert_int_equal(beneath_open_dir(fd, "d//d", 4, &e), E_PROTOCOL);
	assert_int_equal(beneath_open_dir(fd, "root/etc", 8, &e), E_DENIED);
	assert_int_equal(beneath_open_dir(fd, "f", 1, &e), E_SYSTEM);
	assert_int_equal(e.sys, ENOTDIR);

	assert_int_equal(beneath_open_root("/no/such", &e), E_NOT_FOUND);
	assert_int_equal(symlinkat("d", fd, "dl"), 0);
	strcat(path, "/dl");
	r = beneath_open_root(path, &e); /* the operator's own link */
	assert_true(r >= 0);
	close(r);
	*strrchr(path, '/') = '\0';
	close(fd);
	fsfix_remove(path);
}

/* A view in which opening a device, or writing, is refused by the kernel, and
 * what a mount covers is there. */
static void
test_tame(void **state)
{
	char path[512], sub[600], **list;
	struct err e = { 0 };
	bool tame;
	size_t n;
	int fd, view, dev;

	(void)state;
	fd = fsfix_open("tmpfs", path);
	assert_true(fd >= 0);
	fsfix_file(fd, "f", 'x', 7);
	assert_int_equal(mknodat(fd, "null", S_IFCHR | 0666, makedev(1, 3)), 0);
	assert_int_equal(mkdirat(fd, "m", 0755), 0);
	assert_int_equal(mkdirat(fd, "a b\\c", 0755), 0);
	fsfix_file(fd, "m/covered", 'y', 1);
	snprintf(sub, sizeof(sub), "%s/m", path);
	assert_int_equal(mount("t", sub, "tmpfs", 0, NULL), 0);
	snprintf(sub, sizeof(sub), "%s/a b\\c", path);
	assert_int_equal(mount("t", sub, "tmpfs", 0, NULL), 0);

	view = beneath_open_tame(path, &tame, &e);
	assert_true(view >= 0);
	assert_true(tame);
	dev = beneath_open_own(view, "f", O_RDONLY, &e);
	assert_true(dev >= 0);
	close(dev);
	errno = 0;
	assert_int_equal(openat(view, "null", O_RDONLY), -1);
	assert_int_equal(errno, EACCES);
	assert_int_equal(openat(view, "f", O_WRONLY), -1);
	assert_int_equal(errno, EROFS);
	assert_int_equal(faccessat(view, "m/covered", F_OK, 0), 0);
	close(view);
	/* What it was made of is as before. */
	dev = openat(fd, "null", O_RDWR);
	assert_true(dev >= 0);
	close(dev);

	assert_int_equal(mounts_below(path, &list, &n, &e), 0);
	assert_int_equal(n, 2);
	assert_string_equal(list[0], "m");
	assert_string_equal(list[1], "a b\\c");
	mounts_free(list, n);
	assert_int_equal(umount(sub), 0);
	snprintf(sub, sizeof(sub), "%s/m", path);
	assert_int_equal(umount(sub), 0);
	assert_int_equal(mounts_below(path, &list, &n, &e), 0);
	assert_int_equal(n, 0);
	mounts_free(list, n);
	assert_int_equal(mounts_below("/no/such", &list, &n, &e), E_SYSTEM);
	assert_int_equal(beneath_open_tame("/no/such", &tame, &e), E_NOT_FOUND);
	close(fd);
	fsfix_remove(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beneath),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_deep_with_few_descriptors),
		cmocka_unit_test(test_detour),
		cmocka_unit_test(test_wide),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_tame),
		cmocka_unit_test(test_swap_race),
	};

	need_root();
	return cmocka_run_group_tests(tests, fsfix_setup, fsfix_teardown);
}
