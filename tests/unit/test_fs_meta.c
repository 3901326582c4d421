/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of fs/meta (with xattr and iflags). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/err.h"
#include "fs/meta.h"
#include "fsfix.h"
#include "needroot.h"

#define EACH_FS(fsname, fd, path)                           \
	for (size_t each_ = 0; fsfix_names[each_]; each_++) \
		for (int fd = (fsname = fsfix_names[each_], \
			      fsfix_open(fsname, path));    \
		     fd >= 0; close(fd), fsfix_remove(path), fd = -1)

/* cap_net_raw=ep, VFS_CAP_REVISION_2 */
static const uint8_t cap_net_raw[20] = { 0x01, 0, 0, 0x02, 0, 0x20 };

/* user::rwx user:1000:r-x group::r-x mask::r-x other::--- */
static const uint8_t acl[] = {
	2,  0, 0, 0,			     /* version */
	1,  0, 7, 0, 0xff, 0xff, 0xff, 0xff, /* user:: */
	2,  0, 5, 0, 0xe8, 3,	 0,    0,    /* user:1000 */
	4,  0, 5, 0, 0xff, 0xff, 0xff, 0xff, /* group:: */
	16, 0, 5, 0, 0xff, 0xff, 0xff, 0xff, /* mask:: */
	32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, /* other:: */
};

static void
read_ok(int fd, const char *name, struct meta *m, struct meta_ident *id)
{
	struct err e = { 0 };
	int rc = meta_read(fd, name, -1, NULL, m, id, &e);

	if (rc) {
		print_error("%s\n", e.text);
	}
	assert_int_equal(rc, 0);
}

static void
apply_ok(int fd, const char *name, const struct meta *m)
{
	struct err e = { 0 };
	int rc = meta_apply(fd, name, -1, m, NULL, &e);

	if (rc) {
		print_error("%s\n", e.text);
	}
	assert_int_equal(rc, 0);
}

static void
assert_same(const struct meta *a, const struct meta *b)
{
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->perm, b->perm);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_int_equal(a->major, b->major);
	assert_int_equal(a->minor, b->minor);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->atime.sec, b->atime.sec);
	assert_int_equal(a->atime.nsec, b->atime.nsec);
	assert_int_equal(a->mtime.sec, b->mtime.sec);
	assert_int_equal(a->mtime.nsec, b->mtime.nsec);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->projid, b->projid);
	assert_int_equal(a->xattrs_len, b->xattrs_len);
	if (a->xattrs_len) {
		assert_memory_equal(a->xattrs, b->xattrs, a->xattrs_len);
	}
	assert_int_equal(a->target_len, b->target_len);
	if (a->target_len) {
		assert_string_equal(a->target, b->target);
	}
}

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

static void
set_x(int dirfd, const char *name, const char *xattr, const void *v, size_t n)
{
	char p[600];

	snprintf(p, sizeof(p), "/proc/self/fd/%d/%s", dirfd, name);
	assert_int_equal(lsetxattr(p, xattr, v, n, 0), 0);
}

static int
has_x(int dirfd, const char *name, const char *xattr)
{
	char p[600];

	snprintf(p, sizeof(p), "/proc/self/fd/%d/%s", dirfd, name);
	return lgetxattr(p, xattr, NULL, 0) >= 0;
}

static void
set_times(int dirfd, const char *name, int64_t sec, long nsec)
{
	struct timespec ts[2] = { { sec - 5, 7 }, { sec, nsec } };

	assert_int_equal(utimensat(dirfd, name, ts, AT_SYMLINK_NOFOLLOW), 0);
}

/* Copy the metadata of `from` onto the new object `to` of its type, twice,
 * and expect to read the same. */
static void
copy(int fd, const char *from, const char *to)
{
	struct meta a, b;
	struct err e = { 0 };

	read_ok(fd, from, &a, NULL);
	switch (a.type) {
	case FS_REG:
		fsfix_file(fd, to, 'x', a.size);
		break;
	case FS_DIR:
		assert_int_equal(mkdirat(fd, to, 0700), 0);
		break;
	default:
		assert_int_equal(meta_mknod(fd, to, &a, &e), 0);
		assert_int_equal(meta_mknod(fd, to, &a, &e), E_EXISTS);
	}
	for (int i = 0; i < 2; i++) {
		apply_ok(fd, to, &a);
		read_ok(fd, to, &b, NULL);
		assert_same(&a, &b);
		meta_fini(&b);
	}
	meta_fini(&a);
}

static void
test_types(void **state)
{
	const char *fs;
	char path[512];

	(void)state;
	EACH_FS(fs, fd, path)
	{
		mode_t old = umask(077);
		const char *const names[] = { "f",    "d",    "wh", "blk",
					      "fifo", "sock", "l" };

		fsfix_file(fd, "f", 'x', 7);
		assert_int_equal(mkdirat(fd, "d", 0700), 0);
		assert_int_equal(mknodat(fd, "wh", S_IFCHR, 0), 0);
		assert_int_equal(
			mknodat(fd, "blk", S_IFBLK, makedev(259, 70000)), 0);
		assert_int_equal(mkfifoat(fd, "fifo", 0600), 0);
		assert_int_equal(mknodat(fd, "sock", S_IFSOCK, 0), 0);
		assert_int_equal(symlinkat("a\nb\xff/../..", fd, "l"), 0);
		for (size_t i = 0; i < 7; i++) {
			const char *n = names[i];
			char to[32];

			assert_int_equal(fchownat(fd, n, 4294967294u, 65534,
						  AT_SYMLINK_NOFOLLOW),
					 0);
			if (strcmp(n, "l") != 0) {
				assert_int_equal(fchmodat(fd, n, 07531, 0), 0);
			}
			set_x(fd, n, "trusted.overlay.opaque", "y", 1);
			set_x(fd, n, "security.empty", "", 0);
			set_times(fd, n, -3, 123456789);
			snprintf(to, sizeof(to), "%s2", n);
			copy(fd, n, to);
		}
		umask(old);
	}
}

static void
test_times(void **state)
{
	static const struct {
		int64_t sec;
		long nsec;
	} t[] = { { 0, 0 },
		  { -1, 999999999 },
		  { 4294967296 + 1000, 1 }, /* 2106 */
		  { 2147483648, 500 } };
	const char *fs;
	char path[512], name[16], to[16];

	(void)state;
	EACH_FS(fs, fd, path)
	{
		for (size_t i = 0; i < 4; i++) {
			struct meta m;

			snprintf(name, sizeof(name), "t%zu", i);
			snprintf(to, sizeof(to), "T%zu", i);
			assert_int_equal(mkdirat(fd, name, 0700), 0);
			set_times(fd, name, t[i].sec, t[i].nsec);
			read_ok(fd, name, &m, NULL);
			assert_int_equal(m.mtime.sec, t[i].sec);
			assert_int_equal(m.mtime.nsec, t[i].nsec);
			meta_fini(&m);
			copy(fd, name, to);
		}
	}
}

/* What a file system would cut silently. */
static void
test_beyond(void **state)
{
	const char *fs;
	char path[512], target[1500];

	(void)state;
	memset(target, 't', sizeof(target));
	target[sizeof(target) - 1] = '\0';
	EACH_FS(fs, fd, path)
	{
		struct meta m = { .type = FS_FIFO, .perm = 0600 };
		struct meta_loss loss;
		struct err e = { 0 };
		int cuts = strcmp(fs, "ext4") == 0 || strcmp(fs, "xfs") == 0;

		m.mtime.sec = 253402300799; /* year 9999 */
		assert_int_equal(meta_mknod(fd, "p", &m, &e), 0);
		if (strcmp(fs, "here") != 0) {
			assert_int_equal(meta_apply(fd, "p", -1, &m, NULL, &e),
					 cuts ? E_UNSUPPORTED : 0);
			assert_true(!cuts || strstr(e.text, "253402300799"));
			meta_loss_init(&loss);
			assert_int_equal(meta_apply(fd, "p", -1, &m, &loss, &e),
					 0);
			assert_int_equal(loss.times, cuts);
			assert_true(!cuts || loss.mtime.sec < m.mtime.sec);
			meta_loss_fini(&loss);
		}
		if (strcmp(fs, "xfs") != 0) {
			continue;
		}
		m.type = FS_BLK;
		m.major = 259;
		m.minor = 1048575;
		assert_int_equal(meta_mknod(fd, "b", &m, &e), E_UNSUPPORTED);
		assert_non_null(strstr(e.text, "259:1048575"));
		m.type = FS_LNK;
		m.target = target;
		m.target_len = sizeof(target) - 1;
		assert_int_equal(meta_mknod(fd, "l", &m, &e), E_UNSUPPORTED);
		assert_non_null(strstr(e.text, "1499 bytes"));
	}
}

/* F1: owner, setuid mode and capability, whatever changed. */
static void
test_capability(void **state)
{
	const char *fs;
	char path[512];

	(void)state;
	EACH_FS(fs, fd, path)
	{
		struct meta a, b;

		fsfix_file(fd, "f", 'x', 3);
		assert_int_equal(fchownat(fd, "f", 1000, 1000, 0), 0);
		assert_int_equal(fchmodat(fd, "f", 06755, 0), 0);
		set_x(fd, "f", "security.capability", cap_net_raw,
		      sizeof(cap_net_raw));
		set_x(fd, "f", "user.zzz", "after capability", 16);
		copy(fd, "f", "g");
		read_ok(fd, "f", &a, NULL);
		/* content written again: the kernel drops all three */
		fsfix_file(fd, "g", 'y', 3);
		assert_false(has_x(fd, "g", "security.capability"));
		apply_ok(fd, "g", &a);
		read_ok(fd, "g", &b, NULL);
		assert_same(&a, &b);
		meta_fini(&b);
		/* only the owner */
		assert_int_equal(fchownat(fd, "f", 0, 5, 0), 0);
		assert_int_equal(fchmodat(fd, "f", 04711, 0), 0);
		set_x(fd, "f", "security.capability", cap_net_raw,
		      sizeof(cap_net_raw));
		meta_fini(&a);
		read_ok(fd, "f", &a, NULL);
		apply_ok(fd, "g", &a);
		read_ok(fd, "g", &b, NULL);
		assert_same(&a, &b);
		meta_fini(&a);
		meta_fini(&b);
	}
}

/* What the parent gives to new inodes goes away again; ACLs are exact. */
static void
test_inherited(void **state)
{
	const char *fs;
	char path[512];

	(void)state;
	EACH_FS(fs, fd, path)
	{
		struct meta plain, with, got;
		int p;

		assert_int_equal(mkdirat(fd, "p", 0755), 0);
		fsfix_file(fd, "plain", 'x', 1);
		assert_int_equal(fchmodat(fd, "plain", 0664, 0), 0);
		read_ok(fd, "plain", &plain, NULL);
		fsfix_file(fd, "with", 'x', 1);
		set_x(fd, "with", "system.posix_acl_access", acl, sizeof(acl));
		read_ok(fd, "with", &with, NULL);
		assert_int_equal(with.perm, 0750);
		/* xfs would list it a second time under trusted.* */
		assert_null(memmem(with.xattrs, with.xattrs_len, "SGI_ACL", 7));
		set_x(fd, "p", "system.posix_acl_default", acl, sizeof(acl));
		copy(fd, "p", "p2");
		p = openat(fd, "p", O_RDONLY | O_DIRECTORY);
		fsfix_file(p, "new", 'x', 1);
		set_x(p, "new", "user.extra", "1", 1);
		apply_ok(p, "new", &plain);
		read_ok(p, "new", &got, NULL);
		assert_same(&plain, &got);
		meta_fini(&got);
		apply_ok(p, "new", &with);
		read_ok(p, "new", &got, NULL);
		assert_same(&with, &got);
		meta_fini(&got);
		apply_ok(p, "new", &plain);
		read_ok(p, "new", &got, NULL);
		assert_same(&plain, &got);
		meta_fini(&got);
		meta_fini(&plain);
		meta_fini(&with);
		close(p);
	}
}

static void
test_xattrs(void **state)
{
	const char *fs;
	char path[512], name[300];
	uint8_t *big = malloc(65536);

	(void)state;
	memset(big, 'b', 65536);
	big[5] = 0;
	EACH_FS(fs, fd, path)
	{
		struct err e = { 0 };
		struct meta m, got;
		size_t most;

		fsfix_file(fd, "f", 'x', 1);
		set_x(fd, "f", "user.nul", "a\0b", 3);
		set_x(fd, "f", "user.empty", "", 0);
		set_x(fd, "f", "user.\xff\n", "v", 1);
		memset(name, 'n', sizeof(name));
		memcpy(name, "user.", 5);
		name[255] = '\0';
		set_x(fd, "f", name, "v", 1);
		set_x(fd, "f", "trusted.t", "v", 1);
		set_x(fd, "f", "security.s", "v", 1);
		read_ok(fd, "f", &m, NULL);
		assert_int_equal(meta_xattrs_check(m.xattrs, m.xattrs_len, &e),
				 0);
		meta_fini(&m);
		copy(fd, "f", "g");

		/* the largest that goes in here comes out again */
		fsfix_file(fd, "h", 'x', 1);
		snprintf(name, sizeof(name), "/proc/self/fd/%d/h", fd);
		for (most = 65536; most >= 1000; most /= 2) {
			if (setxattr(name, "user.big", big, most, 0) == 0) {
				break;
			}
		}
		assert_true(most >= 1000);
		copy(fd, "h", "h2");
		read_ok(fd, "h", &m, NULL);
		assert_true(m.xattrs_len > most);
		/* replaced by a smaller one of the same name */
		set_x(fd, "h2", "user.big", "small", 5);
		set_x(fd, "h2", "user.other", "small", 5);
		apply_ok(fd, "h2", &m);
		read_ok(fd, "h2", &got, NULL);
		assert_same(&m, &got);
		meta_fini(&m);
		meta_fini(&got);
	}
	free(big);
}

/* F4: ext4 says ENOSPC for a value that is too large. */
static void
test_xattr_too_large(void **state)
{
	size_t len = 65536, n = 2 + 8 + 4 + len;
	uint8_t *x = calloc(1, n);
	char path[512], name[16];
	struct err e = { 0 };
	struct meta m, got;
	struct meta_loss loss;
	int fd = fsfix_open("ext4", path), rc;

	(void)state;
	if (fd < 0) {
		free(x);
		skip();
	}
	fsfix_file(fd, "f", 'x', 1);
	read_ok(fd, "f", &m, NULL);
	x[0] = 8;
	memcpy(x + 2, "user.big", 8);
	x[12] = 1; /* 65536, little-endian */
	assert_int_equal(meta_xattrs_check(x, n, &e), 0);
	m.xattrs = x;
	m.xattrs_len = n;
	m.mtime.sec = 12345;
	assert_int_equal(meta_apply(fd, "f", -1, &m, NULL, &e), E_UNSUPPORTED);
	assert_string_equal(e.text, "the extended attribute user.big of 65536 "
				    "bytes is too large for this file system");
	meta_loss_init(&loss);
	assert_int_equal(meta_apply(fd, "f", -1, &m, &loss, &e), 0);
	assert_true(meta_loss_any(&loss));
	assert_int_equal(loss.xattrs.len, 9);
	assert_string_equal(loss.xattrs.data, "user.big");
	assert_int_equal(loss.flags, 0);
	assert_false(loss.projid);
	assert_false(loss.times);
	read_ok(fd, "f", &got, NULL);
	assert_int_equal(got.mtime.sec, 12345);
	assert_int_equal(got.xattrs_len, 0);
	meta_fini(&got);
	/* A really full disk is another thing. ext4 shares blocks of equal
	 * attributes and has a few left, hence many files. */
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		fsfix_file(fd, name, 'x', 0);
	}
	fsfix_try("(cat /dev/zero >%s/fill; sync -f %s; "
		  "for i in 1 2 3; do cat /dev/zero >%s/fill$i; done) 2>&1",
		  path, path, path);
	memcpy(x + 10, "\x00\x08\x00\x00", 4); /* 2048: wants a block */
	m.xattrs_len = 14 + 2048;
	for (int i = rc = 0; i < 100 && rc == 0; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		x[14] = (uint8_t)i;
		rc = meta_apply(fd, name, -1, &m, &loss, &e);
	}
	assert_int_equal(rc, E_NOSPACE);
	meta_loss_fini(&loss);
	meta_fini(&m);
	close(fd);
	fsfix_remove(path);
}

/* A destination that holds no ACLs. */
static void
test_no_acl(void **state)
{
	char path[512], m1[600];
	struct err e = { 0 };
	struct meta m, got;
	struct meta_loss loss;
	int fd = fsfix_open("ext4", path), d;

	(void)state;
	if (fd < 0) {
		skip();
	}
	fsfix_file(fd, "f", 'x', 1);
	set_x(fd, "f", "system.posix_acl_access", acl, sizeof(acl));
	read_ok(fd, "f", &m, NULL);
	snprintf(m1, sizeof(m1), "%s/ram", path);
	assert_int_equal(mkdir(m1, 0700), 0);
	assert_int_equal(mount("none", m1, "ramfs", 0, NULL), 0);
	d = openat(fd, "ram", O_RDONLY | O_DIRECTORY);
	fsfix_file(d, "g", 'x', 1);
	assert_int_equal(meta_apply(d, "g", -1, &m, NULL, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "system.posix_acl_access"));
	meta_loss_init(&loss);
	assert_int_equal(meta_apply(d, "g", -1, &m, &loss, &e), 0);
	assert_string_equal(loss.xattrs.data, "system.posix_acl_access");
	meta_loss_fini(&loss);
	meta_read(d, "g", -1, NULL, &got, NULL, &e);
	assert_int_equal(got.perm, m.perm);
	assert_int_equal(got.xattrs_len, 0);
	/* flags: the same */
	m.xattrs_len = 0;
	m.flags = FS_NODUMP_FL;
	assert_int_equal(meta_apply(d, "g", -1, &m, NULL, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "\"d\""));
	meta_loss_init(&loss);
	assert_int_equal(meta_apply(d, "g", -1, &m, &loss, &e), 0);
	assert_int_equal(loss.flags, FS_NODUMP_FL);
	assert_int_equal(loss.xattrs.len, 0);
	meta_loss_fini(&loss);
	m.flags = 0;
	m.projid = 7;
	assert_int_equal(meta_apply(d, "g", -1, &m, NULL, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "project id 7"));
	close(d);
	umount(m1);
	meta_fini(&m);
	meta_fini(&got);
	close(fd);
	fsfix_remove(path);
}

/* F9 and the order of flags. */
static void
test_flags(void **state)
{
	static const int sets[] = { FS_IMMUTABLE_FL,
				    FS_APPEND_FL,
				    FS_IMMUTABLE_FL | FS_APPEND_FL |
					    FS_NODUMP_FL,
				    FS_NODUMP_FL | FS_NOATIME_FL,
				    FS_SYNC_FL,
				    FS_SECRM_FL | FS_UNRM_FL,
				    FS_NOTAIL_FL,
				    FS_COMPR_FL,
				    FS_COMPR_FL | FS_IMMUTABLE_FL };
	const char *fs;
	char path[512], a[16], b[16];

	(void)state;
	EACH_FS(fs, fd, path)
	{
		unsigned tried = 0;

		for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
			for (int dir = 0; dir < 2; dir++) {
				snprintf(a, sizeof(a), "a%zu%d", i, dir);
				snprintf(b, sizeof(b), "b%zu%d", i, dir);
				if (dir) {
					mkdirat(fd, a, 0750);
				} else {
					fsfix_file(fd, a, 'x', 5);
				}
				set_x(fd, a, "trusted.x", "1", 1);
				set_times(fd, a, 1000, 1);
				if (set_flags(fd, a, sets[i]) < 0) {
					continue; /* not this one here */
				}
				tried++;
				copy(fd, a, b);
			}
		}
		print_message("%s: %u combinations of flags\n", fs, tried);
		assert_true(tried >= 2 || strcmp(fs, "here") == 0);
	}
}

/* chattr +C has to come while the file is empty, and is inherited. */
static void
test_nocow(void **state)
{
	char path[512];
	int fd = fsfix_open("btrfs", path), f;
	struct meta c, plain, got;
	struct err e = { 0 };

	(void)state;
	if (fd < 0) {
		skip();
	}
	fsfix_file(fd, "c", 'x', 0);
	assert_int_equal(set_flags(fd, "c", FS_NOCOW_FL), 0);
	fsfix_file(fd, "plain", 'x', 5);
	read_ok(fd, "c", &c, NULL);
	read_ok(fd, "plain", &plain, NULL);
	assert_true(c.flags & FS_NOCOW_FL);
	/* too late */
	assert_int_equal(meta_apply(fd, "plain", -1, &c, NULL, &e),
			 E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "\"C\""));
	f = openat(fd, "new", O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_int_equal(meta_apply_early(f, &c, NULL, &e), 0);
	assert_int_equal(write(f, "hello", 5), 5);
	assert_int_equal(meta_apply(fd, "new", f, &c, NULL, &e), 0);
	close(f);
	read_ok(fd, "new", &got, NULL);
	assert_int_equal(got.flags, c.flags);
	meta_fini(&got);
	/* below a directory with C a plain file stays plain */
	assert_int_equal(mkdirat(fd, "d", 0700), 0);
	assert_int_equal(set_flags(fd, "d", FS_NOCOW_FL), 0);
	f = openat(fd, "d/new", O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_int_equal(meta_apply_early(f, &plain, NULL, &e), 0);
	assert_int_equal(write(f, "hello", 5), 5);
	assert_int_equal(meta_apply(fd, "", f, &plain, NULL, &e), 0);
	assert_int_equal(meta_read(fd, "", f, NULL, &got, NULL, &e), 0);
	assert_same(&plain, &got);
	close(f);
	meta_fini(&got);
	meta_fini(&c);
	meta_fini(&plain);
	close(fd);
	fsfix_remove(path);
}

/* btrfs keeps the kind of compression in an attribute; setting flags again
 * must not turn zstd into the default. */
static void
test_compression(void **state)
{
	char path[512];
	int fd = fsfix_open("btrfs", path);
	struct meta m;

	(void)state;
	if (fd < 0) {
		skip();
	}
	fsfix_file(fd, "f", 'x', 5);
	set_x(fd, "f", "btrfs.compression", "zstd", 4);
	read_ok(fd, "f", &m, NULL);
	assert_true(m.flags & FS_COMPR_FL);
	assert_non_null(memmem(m.xattrs, m.xattrs_len, "zstd", 4));
	meta_fini(&m);
	copy(fd, "f", "g");
	assert_int_equal(set_flags(fd, "g", FS_NODUMP_FL), 0);
	set_x(fd, "g", "btrfs.compression", "lzo", 3);
	copy(fd, "g", "h");
	close(fd);
	fsfix_remove(path);
}

static void
test_projid(void **state)
{
	char path[512];
	int fd = fsfix_open("xfs", path), f;
	struct fsxattr x;
	struct meta m;

	(void)state;
	if (fd < 0) {
		skip();
	}
	assert_int_equal(mkdirat(fd, "d", 0700), 0);
	f = openat(fd, "d", O_RDONLY);
	assert_int_equal(ioctl(f, FS_IOC_FSGETXATTR, &x), 0);
	x.fsx_projid = 4242;
	x.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	assert_int_equal(ioctl(f, FS_IOC_FSSETXATTR, &x), 0);
	close(f);
	read_ok(fd, "d", &m, NULL);
	assert_int_equal(m.projid, 4242);
	meta_fini(&m);
	copy(fd, "d", "d2");
	fsfix_file(fd, "d/f", 'x', 1); /* inherits */
	f = openat(fd, "d", O_RDONLY | O_DIRECTORY);
	read_ok(f, "f", &m, NULL);
	assert_int_equal(m.projid, 4242);
	m.projid = 0;
	apply_ok(f, "f", &m);
	meta_fini(&m);
	read_ok(f, "f", &m, NULL);
	assert_int_equal(m.projid, 0);
	meta_fini(&m);
	close(f);
	close(fd);
	fsfix_remove(path);
}

static void
test_read_errors(void **state)
{
	char path[512];
	int fd = fsfix_open("here", path);
	struct meta_ident id;
	struct err e = { 0 };
	struct statx stx;
	struct meta m;

	(void)state;
	assert_int_equal(meta_read(fd, "no\n", -1, NULL, &m, NULL, &e),
			 E_NOT_FOUND);
	assert_non_null(strstr(e.text, "no\\n"));
	fsfix_file(fd, "f", 'x', 5000);
	assert_int_equal(linkat(fd, "f", fd, "g", 0), 0);
	fsfix_file(fd, "other", 'x', 5000);
	assert_int_equal(statx(fd, "f", 0, STATX_BASIC_STATS, &stx), 0);
	assert_int_equal(meta_read(fd, "other", -1, &stx, &m, NULL, &e),
			 E_CHANGED);
	assert_int_equal(meta_read(fd, "g", -1, &stx, &m, &id, &e), 0);
	assert_int_equal(id.nlink, 2);
	assert_int_equal(id.ino, stx.stx_ino);
	assert_int_equal(id.dev, makedev(stx.stx_dev_major, stx.stx_dev_minor));
	assert_int_equal(id.ctime.nsec, stx.stx_ctime.tv_nsec);
	assert_int_equal(id.blocks, stx.stx_blocks);
	assert_int_equal(m.size, 5000);
	/* other types and impossible values */
	assert_int_equal(mkdirat(fd, "d", 0700), 0);
	assert_int_equal(meta_apply(fd, "d", -1, &m, NULL, &e), E_CHANGED);
	assert_int_equal(symlinkat("f", fd, "l"), 0);
	assert_int_equal(meta_apply(fd, "l", -1, &m, NULL, &e), E_CHANGED);
	m.uid = UINT32_MAX;
	assert_int_equal(meta_apply(fd, "f", -1, &m, NULL, &e), E_PROTOCOL);
	assert_int_equal(meta_mknod(fd, "x", &m, &e), E_PROTOCOL);
	m.type = FS_LNK;
	assert_int_equal(meta_mknod(fd, "x", &m, &e), E_PROTOCOL);
	m.type = FS_FIFO;
	assert_int_equal(meta_mknod(fd, "../x", &m, &e), E_PROTOCOL);
	meta_fini(&m);
	close(fd);
	assert_int_equal(meta_read(-1, "", fd, NULL, &m, NULL, &e), E_SYSTEM);
	fsfix_remove(path);
}

/* A mode without any access until meta_apply, also under a default ACL. */
static void
test_mknod_closed(void **state)
{
	const char *fs;
	char path[512];

	(void)state;
	EACH_FS(fs, fd, path)
	{
		struct meta m = { .type = FS_FIFO, .perm = 0777 };
		struct err e = { 0 };
		struct stat st;
		mode_t old = umask(0);

		set_x(fd, ".", "system.posix_acl_default", acl, sizeof(acl));
		assert_int_equal(meta_mknod(fd, "p", &m, &e), 0);
		assert_int_equal(fstatat(fd, "p", &st, 0), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
		umask(old);
	}
}

static size_t put_x(uint8_t *p, const char *name, size_t nl, const char *v,
		    size_t vl);

/* Make `m` in `fd` the quick way, and see that it is what meta_apply makes. */
static void
check_fresh(int fd, const struct meta_fresh *f, const struct meta *m)
{
	struct err e = { 0 };
	struct meta got;
	int file = openat(fd, "f", O_WRONLY | O_CREAT | O_EXCL,
			  meta_fresh_mode(m));

	assert_true(file >= 0);
	assert_int_equal(meta_apply_fresh(file, m, f, &e), 0);
	assert_int_equal(meta_read(fd, "f", -1, NULL, &got, NULL, &e), 0);
	assert_int_equal(got.perm, m->perm);
	assert_int_equal(got.uid, m->uid);
	assert_int_equal(got.gid, m->gid);
	assert_int_equal(got.mtime.sec, m->mtime.sec);
	assert_int_equal(got.mtime.nsec, m->mtime.nsec);
	assert_int_equal(got.atime.sec, m->atime.sec);
	assert_int_equal(got.flags, m->flags);
	assert_int_equal(got.xattrs_len, m->xattrs_len);
	meta_fini(&got);
	close(file);
	assert_int_equal(unlinkat(fd, "f", 0), 0);
}

static void
test_fresh(void **state)
{
	static const uint16_t perms[] = { 0644, 0755, 0600,  0,	    0444,
					  0666, 0777, 04755, 02755, 01644 };
	const char *fs;
	char path[512];

	(void)state;
	EACH_FS(fs, fd, path)
	{
		struct meta m = { .type = FS_REG,
				  .mtime = { 1000000000, 7 },
				  .atime = { 1100000000, 8 } };
		struct meta_fresh f;
		uint8_t x[64];
		mode_t old = umask(022);

		meta_fresh_probe(fd, &f);
		assert_true(f.plain);
		assert_int_equal(f.uid, geteuid());
		for (size_t i = 0; i < sizeof(perms) / sizeof(*perms); i++) {
			m.perm = perms[i];
			m.uid = m.gid = 0;
			check_fresh(fd, &f, &m);
			m.uid = 1234;
			m.gid = 4321;
			check_fresh(fd, &f, &m);
		}
		m.xattrs_len = put_x(x, "trusted.t", 9, "v", 1);
		m.xattrs = x;
		check_fresh(fd, &f, &m);
		m.xattrs = NULL;
		m.xattrs_len = 0;
		/* Each of these is inherited, or changes what a mode becomes:
		 * then nothing is taken for granted, and all is still right. */
		set_x(fd, ".", "system.posix_acl_default", acl, sizeof(acl));
		meta_fresh_probe(fd, &f);
		assert_false(f.plain);
		m.perm = 0640;
		check_fresh(fd, &f, &m);
		umask(077);
		fsfix_sh("setfattr -x system.posix_acl_default %s", path);
		meta_fresh_probe(fd, &f);
		assert_false(f.plain);
		check_fresh(fd, &f, &m);
		umask(022);
		fsfix_sh("chgrp 77 %s; chmod g+s %s", path, path);
		meta_fresh_probe(fd, &f);
		assert_int_equal(f.gid, 77);
		check_fresh(fd, &f, &m);
		umask(old);
	}
}

static size_t
put_x(uint8_t *p, const char *name, size_t nl, const char *v, size_t vl)
{
	p[0] = (uint8_t)nl;
	p[1] = (uint8_t)(nl >> 8);
	memcpy(p + 2, name, nl);
	memset(p + 2 + nl, 0, 4);
	p[2 + nl] = (uint8_t)vl;
	memcpy(p + 6 + nl, v, vl);
	return 6 + nl + vl;
}

static void
test_xattrs_check(void **state)
{
	uint8_t p[1024];
	char name[300];
	struct err e = { 0 };
	size_t n, one;

	(void)state;
	assert_int_equal(meta_xattrs_check(NULL, 0, &e), 0);
	one = n = put_x(p, "user.a", 6, "v", 1);
	n += put_x(p + n, "user.aa", 7, "", 0);
	n += put_x(p + n, "user.b", 6, "x\0y", 3);
	assert_int_equal(meta_xattrs_check(p, n, &e), 0);
	for (size_t i = 1; i < n; i++) {
		int at_end = i == one || i == one + 13;

		assert_int_equal(meta_xattrs_check(p, i, &e),
				 at_end ? 0 : E_PROTOCOL);
	}
	n = put_x(p, "user.b", 6, "", 0);
	n += put_x(p + n, "user.a", 6, "", 0);
	assert_int_equal(meta_xattrs_check(p, n, &e), E_PROTOCOL);
	n = put_x(p, "user.a", 6, "", 0);
	n += put_x(p + n, "user.a", 6, "", 0);
	assert_int_equal(meta_xattrs_check(p, n, &e), E_PROTOCOL);
	n = put_x(p, "user", 4, "", 0);
	assert_int_equal(meta_xattrs_check(p, n, &e), E_PROTOCOL);
	n = put_x(p, "user.", 5, "", 0);
	assert_int_equal(meta_xattrs_check(p, n, &e), E_PROTOCOL);
	n = put_x(p, ".user", 5, "", 0);
	assert_int_equal(meta_xattrs_check(p, n, &e), E_PROTOCOL);
	n = put_x(p, "user.\0a", 7, "", 0);
	assert_int_equal(meta_xattrs_check(p, n, &e), E_PROTOCOL);
	memset(name, 'a', sizeof(name));
	memcpy(name, "user.", 5);
	n = put_x(p, name, 255, "", 0);
	assert_int_equal(meta_xattrs_check(p, n, &e), 0);
	n = put_x(p, name, 256, "", 0);
	assert_int_equal(meta_xattrs_check(p, n, &e), E_PROTOCOL);
	n = put_x(p, "user.a", 6, "", 0);
	memset(p + 8, 0xff, 4);
	assert_int_equal(meta_xattrs_check(p, n, &e), E_PROTOCOL);
	assert_int_equal(meta_xattrs_check(p, META_XATTRS_MAX + 1, &e),
			 E_PROTOCOL);
}

/* Each field matters, atime does not; long forms take the other way and come
 * to the same. */
static void
test_digest(void **state)
{
	struct digest_state *st;
	struct digest_key k;
	struct digest d[24], content = { { 1 } };
	char *path = calloc(1, 9000);
	struct meta m = { .type = FS_REG, .perm = 0644, .size = 3 }, v;
	uint8_t x[] = { 6, 0, 'u', 's', 'e', 'r', '.', 'a', 0, 0, 0, 0 };
	char target[] = "t";
	size_t n = 0;

	(void)state;
	assert_int_equal(digest_key_new(&k, NULL), 0);
	st = digest_new(&k, NULL);
	memset(path, 'p', 8999);
#define D(len, meta, c, group) \
	(d[n++] = meta_digest(&k, path, len, meta, c, group, st))
#define VARY(change)                   \
	do {                           \
		v = m;                 \
		change;                \
		D(4, &v, &content, 0); \
	} while (0)
	D(4, &m, &content, 0);
	D(3, &m, &content, 0);
	D(0, &m, &content, 0);
	D(8999, &m, &content, 0);
	D(8998, &m, &content, 0);
	D(4, &m, NULL, 0);
	D(4, &m, &content, 1);
	VARY(v.type = FS_FIFO);
	VARY(v.perm = 0645);
	VARY(v.uid = 1);
	VARY(v.gid = 1);
	VARY(v.major = 1);
	VARY(v.minor = 1);
	VARY(v.size = 4);
	VARY(v.mtime.sec = 1);
	VARY(v.mtime.sec = -1);
	VARY(v.mtime.nsec = 1);
	VARY(v.flags = FS_NODUMP_FL);
	VARY(v.projid = 1);
	VARY((v.xattrs = x, v.xattrs_len = sizeof(x)));
	VARY((v.target = target, v.target_len = 1));
	content.b[15] = 1;
	D(4, &m, &content, 0);
	content.b[15] = 0;
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < i; j++) {
			assert_false(digest_eq(&d[i], &d[j]));
		}
	}
	v = m;
	v.atime.sec = 99;
	d[1] = meta_digest(&k, path, 4, &v, &content, 0, st);
	assert_true(digest_eq(&d[0], &d[1]));
	/* Around the border between the two ways nothing repeats. */
	for (size_t len = 3980; len < 4020; len += 20) {
		d[0] = meta_digest(&k, path, len, &m, NULL, 0, st);
		d[1] = meta_digest(&k, path, len, &m, NULL, 0, st);
		assert_true(digest_eq(&d[0], &d[1]));
	}
	digest_free(st);
	free(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_beyond),
		cmocka_unit_test(test_capability),
		cmocka_unit_test(test_inherited),
		cmocka_unit_test(test_xattrs),
		cmocka_unit_test(test_xattr_too_large),
		cmocka_unit_test(test_no_acl),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_nocow),
		cmocka_unit_test(test_compression),
		cmocka_unit_test(test_projid),
		cmocka_unit_test(test_read_errors),
		cmocka_unit_test(test_mknod_closed),
		cmocka_unit_test(test_fresh),
		cmocka_unit_test(test_xattrs_check),
		cmocka_unit_test(test_digest),
	};

	need_root();
	return cmocka_run_group_tests(tests, fsfix_setup, fsfix_teardown);
}
