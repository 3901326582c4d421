/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mutate: see the header. */
#include "mutate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/iflags.h"
#include "fs/remove.h"

#define NAMES 6		  /* in each directory */
#define MAPS 8		  /* mappings kept */
#define LARGE (128 << 10) /* bytes from which a file comes in chunks */
#define SIZE_MAX_ (1500 << 10)
#define TOLD 40

struct map {
	uint8_t *at; /* NULL: none */
	size_t len;
	int fd;
};

struct mutate {
	int root; /* borrowed */
	uint64_t rng;
	uint64_t steps;
	struct map maps[MAPS];
	char told[TOLD][160];
	uint8_t noise[SIZE_MAX_];
};

static uint64_t
rnd(struct mutate *m)
{
	uint64_t z = (m->rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static unsigned
below(struct mutate *m, unsigned n)
{
	return (unsigned)(rnd(m) % n);
}

struct mutate *
mutate_new(int rootfd, uint64_t seed)
{
	struct mutate *m = calloc(1, sizeof(*m));

	if (m) {
		m->root = rootfd;
		m->rng = seed;
		for (size_t i = 0; i + 8 <= sizeof(m->noise); i += 8) {
			uint64_t v = rnd(m);

			memcpy(m->noise + i, &v, 8);
		}
	}
	return m;
}

/* A path of one to three components. */
static void
pick(struct mutate *m, char path[64])
{
	unsigned depth = 1 + below(m, 3);
	size_t n = 0;

	for (unsigned i = 0; i < depth; i++) {
		n += (size_t)snprintf(path + n, 64 - n, "%sn%u", i ? "/" : "",
				      below(m, NAMES));
	}
}

/* Without following a symlink at the end; those on the way lead nowhere. */
static int
open_at(struct mutate *m, const char *path, int flags)
{
	return openat(m->root, path,
		      flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
}

/* What root does when it is told "Operation not permitted". */
static void
unlock(struct mutate *m, const char *path)
{
	char part[64];
	struct stat st;

	for (size_t i = 0;; i++) {
		int fd;

		if (path[i] != '/' && path[i]) {
			continue;
		}
		memcpy(part, path, i);
		part[i] = '\0';
		if (fstatat(m->root, part, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
			return;
		}
		fd = open_at(m, part, O_RDONLY);
		if (fd >= 0) {
			iflags_unlock(fd, NULL, NULL);
			close(fd);
		}
		if (!path[i]) {
			return;
		}
	}
}

/* Make the directories above, where nothing else is in the way. */
static void
parents(struct mutate *m, const char *path)
{
	char part[64];

	for (size_t i = 0; path[i]; i++) {
		if (path[i] == '/') {
			memcpy(part, path, i);
			part[i] = '\0';
			(void)mkdirat(m->root, part, 0755);
		}
	}
}

/* What an operation is for; where a few tries find no such thing, it falls on
 * whatever comes. */
enum target { ANY, FILE_, BIG, NODIR, DIR_ };

static bool
suits(struct mutate *m, const char *path, enum target t)
{
	struct stat st;

	if (fstatat(m->root, path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return false;
	}
	switch (t) {
	case FILE_:
		return S_ISREG(st.st_mode);
	case BIG:
		return S_ISREG(st.st_mode) && st.st_size > LARGE;
	case NODIR:
		return !S_ISDIR(st.st_mode);
	case DIR_:
		return S_ISDIR(st.st_mode);
	default:
		return true;
	}
}

/* Write noise; some of it at another offset, so that contents differ. */
static void
write_at(struct mutate *m, int fd, uint64_t off, size_t len)
{
	size_t from = below(m, sizeof(m->noise) / 2);

	if (len > sizeof(m->noise) - from) {
		len = sizeof(m->noise) - from;
	}
	if (pwrite(fd, m->noise + from, len, (off_t)off) < 0) {
		return; /* append-only, or no regular file */
	}
}

/* Mostly small, some of more than one chunk. */
static size_t
some_size(struct mutate *m)
{
	switch (below(m, 6)) {
	case 0:
		return 0;
	case 1:
	case 2:
		return LARGE + below(m, SIZE_MAX_ / 2 - LARGE);
	case 3:
		return LARGE - 2 + below(m, 5);
	default:
		return below(m, 20000);
	}
}

/* ---- operations ---- */

static void
op_create(struct mutate *m, const char *p)
{
	int fd = open_at(m, p, O_WRONLY | O_CREAT | O_TRUNC);
	size_t len = some_size(m);

	if (fd < 0) {
		return;
	}
	if (below(m, 8) == 0) {
		int f = FS_NOCOW_FL;

		(void)ioctl(fd, FS_IOC_SETFLAGS, &f); /* btrfs alone has it */
	}
	write_at(m, fd, 0, len);
	if (len > LARGE && below(m, 3) == 0) {
		write_at(m, fd, len + below(m, 1 << 20), 5000);
	}
	close(fd);
}

static void
op_write(struct mutate *m, const char *p)
{
	int fd = open_at(m, p, O_WRONLY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return;
	}
	write_at(m, fd, below(m, (unsigned)st.st_size + 1),
		 1 + below(m, below(m, 2) ? 100 : 100000));
	close(fd);
}

/* A write that leaves the times as they were. */
static void
op_touch_back(struct mutate *m, const char *p)
{
	struct timespec t[2];
	struct stat st;
	int fd = open_at(m, p, O_WRONLY);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return;
	}
	if (st.st_size) {
		write_at(m, fd, below(m, (unsigned)st.st_size),
			 1 + below(m, 10));
	}
	t[0] = st.st_atim;
	t[1] = st.st_mtim;
	(void)futimens(fd, t);
	close(fd);
}

static void
op_truncate(struct mutate *m, const char *p)
{
	int fd = open_at(m, p, O_WRONLY);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		off_t to = (off_t)below(m, (unsigned)st.st_size * 3 / 2 + 100);

		if (below(m, 3) == 0) {
			to &= ~(off_t)0xffff;
		}
		to = to > SIZE_MAX_ ? SIZE_MAX_ : to;
		if (ftruncate(fd, to) < 0) {
			errno = 0; /* append-only */
		}
	}
	close(fd);
}

static void
op_punch(struct mutate *m, const char *p)
{
	int fd = open_at(m, p, O_WRONLY);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size) {
		off_t off = (off_t)below(m, (unsigned)st.st_size);
		off_t len = 1 + (off_t)below(m, 200000);

		if (below(m, 2)) {
			off &= ~(off_t)0xfff;
			len = (len & ~(off_t)0xfff) + 4096;
		}
		(void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				off, len);
	}
	close(fd);
}

static void
drop_map(struct map *s)
{
	if (s->at) {
		munmap(s->at, s->len);
		close(s->fd);
		s->at = NULL;
	}
}

/* A file that was cut under its mapping has no place to store to, and one that
 * is immutable takes no store; nobody else changes it meanwhile. */
static void
store(struct mutate *m, struct map *s)
{
	struct stat st;
	int flags = 0;

	if (fstat(s->fd, &st) < 0 || st.st_size < (off_t)s->len) {
		drop_map(s);
		return;
	}
	if (ioctl(s->fd, FS_IOC_GETFLAGS, &flags) == 0 &&
	    flags & FS_IMMUTABLE_FL) {
		return;
	}
	for (unsigned i = 1 + below(m, 4); i-- > 0;) {
		s->at[below(m, (unsigned)s->len)] = (uint8_t)rnd(m);
	}
}

static void
op_map(struct mutate *m, const char *p)
{
	struct map *s = &m->maps[below(m, MAPS)];
	struct stat st;
	void *at = MAP_FAILED;
	int fd;

	if (s->at) {
		store(m, s);
		if (s->at && below(m, 8) == 0) {
			drop_map(s);
		}
		return;
	}
	fd = open_at(m, p, O_RDWR);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size) {
		at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	}
	if (at == MAP_FAILED) {
		close(fd);
		return;
	}
	*s = (struct map){ at, (size_t)st.st_size, fd };
	store(m, s);
}

static void
op_store(struct mutate *m, const char *p)
{
	(void)p;
	for (unsigned i = 0; i < MAPS; i++) {
		if (m->maps[i].at) {
			store(m, &m->maps[i]);
		}
	}
}

static void
op_rename(struct mutate *m, const char *p)
{
	char q[64];

	pick(m, q);
	(void)renameat2(m->root, p, m->root, q,
			below(m, 3) == 0 ? RENAME_EXCHANGE : 0);
}

static void
op_link(struct mutate *m, const char *p)
{
	char q[64];

	pick(m, q);
	parents(m, q);
	(void)linkat(m->root, p, m->root, q, 0);
}

static void
op_unlink(struct mutate *m, const char *p)
{
	(void)unlinkat(m->root, p, 0);
}

/* A whole directory goes, or what stands in the way of one. */
static void
op_remove(struct mutate *m, const char *p)
{
	char dir[64], *slash;
	int fd;

	snprintf(dir, sizeof(dir), "%s", p);
	slash = strrchr(dir, '/');
	if (slash) {
		*slash = '\0';
	}
	fd = open_at(m, slash ? dir : ".", O_RDONLY | O_DIRECTORY);
	if (fd >= 0) {
		(void)remove_tree(fd, slash ? slash + 1 : dir, NULL, NULL);
		close(fd);
	}
	if (below(m, 2)) {
		(void)mkdirat(m->root, p, 0755);
	}
}

static void
op_mkdir(struct mutate *m, const char *p)
{
	(void)mkdirat(m->root, p, below(m, 2) ? 02755 : 0700);
}

/* Where there is such a thing: inode numbers begin anew in it. */
static void
op_subvolume(struct mutate *m, const char *p)
{
	struct btrfs_ioctl_vol_args v = { 0 };
	char dir[64], *slash;
	int fd;

	snprintf(dir, sizeof(dir), "%s", p);
	slash = strrchr(dir, '/');
	if (slash) {
		*slash = '\0';
	}
	snprintf(v.name, sizeof(v.name), "%s", slash ? slash + 1 : dir);
	fd = open_at(m, slash ? dir : ".", O_RDONLY | O_DIRECTORY);
	if (fd >= 0) {
		(void)ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &v);
		close(fd);
	}
}

static void
op_mknod(struct mutate *m, const char *p)
{
	static const mode_t types[] = { S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK };
	char target[64];

	if (below(m, 3) == 0) {
		if (below(m, 2)) {
			(void)unlinkat(m->root, p, 0);
		}
		snprintf(target, sizeof(target), "n%u/%u", below(m, NAMES),
			 below(m, 1000));
		(void)symlinkat(target, m->root, p);
		return;
	}
	(void)mknodat(m->root, p, types[below(m, 4)] | 0640,
		      makedev(1, below(m, 10)));
}

static void
op_chmod(struct mutate *m, const char *p)
{
	(void)fchmodat(m->root, p, below(m, 010000), 0);
}

static void
op_chown(struct mutate *m, const char *p)
{
	(void)fchownat(m->root, p, below(m, 100000), below(m, 100000),
		       AT_SYMLINK_NOFOLLOW);
}

static void
op_times(struct mutate *m, const char *p)
{
	struct timespec t[2] = {
		{ (time_t)below(m, 2000000000), (long)below(m, 1000000000) },
		{ (time_t)below(m, 2000000000), (long)below(m, 1000000000) },
	};

	(void)utimensat(m->root, p, t, AT_SYMLINK_NOFOLLOW);
}

/* Attributes of all kinds, ACLs and capabilities among them. */
static void
op_xattr(struct mutate *m, const char *p)
{
	static const char acl[] =
		"\2\0\0\0\1\0\6\0\xff\xff\xff\xff\2\0\7\0\5\0\0\0"
		"\4\0\4\0\xff\xff\xff\xff\x10\0\7\0\xff\xff\xff\xff"
		"\x20\0\0\0\xff\xff\xff\xff";
	static const char cap[20] = { 1, 0, 0, 2, 0, 4 };
	static const struct {
		const char *name, *value;
		size_t len;
	} all[] = {
		{ "user.a", NULL, 0 },
		{ "user.b", NULL, 0 },
		{ "trusted.t", NULL, 0 },
		{ "system.posix_acl_access", acl, 44 },
		{ "system.posix_acl_default", acl, 44 },
		{ "security.capability", cap, 20 },
	};
	unsigned i = below(m, sizeof(all) / sizeof(all[0]));
	int fd = open_at(m, p, O_PATH);
	char proc[32];

	if (fd < 0) {
		return;
	}
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	if (below(m, 3) == 0) {
		(void)removexattr(proc, all[i].name);
	} else {
		(void)setxattr(proc, all[i].name,
			       all[i].value ? all[i].value
					    : (const char *)m->noise +
						      below(m, 1000),
			       all[i].value ? all[i].len : below(m, 200), 0);
	}
	close(fd);
}

static void
op_chattr(struct mutate *m, const char *p)
{
	static const int bits[] = {
		FS_IMMUTABLE_FL, FS_APPEND_FL, FS_NODUMP_FL,
		FS_NOATIME_FL,	 FS_SYNC_FL,   FS_DIRSYNC_FL
	};
	struct fsxattr x;
	int fd, v = 0;

	/* xfs gives flags to fifos and devices, too; nobody carries those. */
	if (!suits(m, p, FILE_) && !suits(m, p, DIR_)) {
		return;
	}
	fd = open_at(m, p, O_RDONLY);
	if (fd < 0) {
		return;
	}
	if (below(m, 5) == 0) {
		memset(&x, 0, sizeof(x));
		if (ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0) {
			x.fsx_projid = below(m, 3);
			x.fsx_xflags ^= below(m, 2) ? FS_XFLAG_PROJINHERIT : 0;
			(void)ioctl(fd, FS_IOC_FSSETXATTR, &x);
		}
	} else if (ioctl(fd, FS_IOC_GETFLAGS, &v) == 0) {
		v ^= bits[below(m, 6)];
		(void)ioctl(fd, FS_IOC_SETFLAGS, &v);
	}
	close(fd);
}

static void
pick_for(struct mutate *m, char path[64], enum target t)
{
	unsigned tries = t == ANY ? 1 : 12;

	do {
		pick(m, path);
	} while (--tries && !suits(m, path, t));
}

static const struct {
	const char *name;
	unsigned weight;
	enum target target;
	void (*run)(struct mutate *m, const char *path);
} ops[] = {
	{ "create", 12, ANY, op_create },
	{ "write", 10, FILE_, op_write },
	{ "touch back", 5, FILE_, op_touch_back },
	{ "truncate", 5, FILE_, op_truncate },
	{ "punch", 7, BIG, op_punch },
	{ "map", 8, FILE_, op_map },
	{ "store", 4, ANY, op_store },
	{ "rename", 8, ANY, op_rename },
	{ "link", 6, NODIR, op_link },
	{ "unlink", 4, NODIR, op_unlink },
	{ "remove", 1, ANY, op_remove },
	{ "mkdir", 9, ANY, op_mkdir },
	{ "subvolume", 3, ANY, op_subvolume },
	{ "mknod", 4, ANY, op_mknod },
	{ "chmod", 4, ANY, op_chmod },
	{ "chown", 3, ANY, op_chown },
	{ "times", 4, ANY, op_times },
	{ "xattr", 6, ANY, op_xattr },
	{ "chattr", 4, FILE_, op_chattr },
	{ "chattr", 4, DIR_, op_chattr },
};

void
mutate_step(struct mutate *m)
{
	unsigned n = sizeof(ops) / sizeof(ops[0]), all = 0, i, at;
	char path[64];

	for (i = 0; i < n; i++) {
		all += ops[i].weight;
	}
	at = below(m, all);
	for (i = 0; at >= ops[i].weight; i++) {
		at -= ops[i].weight;
	}
	pick_for(m, path, ops[i].target);
	if (below(m, 30) == 0) {
		snprintf(path, sizeof(path), ".");
	}
	if (below(m, 4)) {
		unlock(m, path);
	}
	if (below(m, 3) == 0) {
		parents(m, path);
	}
	snprintf(m->told[m->steps++ % TOLD], sizeof(m->told[0]), "%s %s",
		 ops[i].name, path);
	ops[i].run(m, path);
}

void
mutate_stop(struct mutate *m)
{
	for (unsigned i = 0; i < MAPS; i++) {
		drop_map(&m->maps[i]);
	}
}

void
mutate_tell(const struct mutate *m)
{
	for (uint64_t i = m->steps > TOLD ? m->steps - TOLD : 0; i < m->steps;
	     i++) {
		fprintf(stderr, "# %s\n", m->told[i % TOLD]);
	}
}

void
mutate_free(struct mutate *m)
{
	if (m) {
		mutate_stop(m);
		free(m);
	}
}
