/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsprobe: tries what the tree may need on scratch files. State: a scratch
 * directory on that file system for the time of the call.
 */
#include "fs/fsprobe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "fs/remove.h"

#define XFS_MAGIC 0x58465342 /* statfs(2); not in linux/magic.h */

static const struct {
	uint32_t cap;
	const char *name;
} cap_names[] = {
	{ FSPROBE_XATTR_USER, "user.* attributes" },
	{ FSPROBE_XATTR_TRUSTED, "trusted.* attributes" },
	{ FSPROBE_XATTR_SECURITY, "security.* attributes" },
	{ FSPROBE_CAPABILITY, "file capabilities" },
	{ FSPROBE_ACL, "ACLs" },
	{ FSPROBE_MKNOD, "device nodes" },
	{ FSPROBE_SPARSE, "holes" },
	{ FSPROBE_FLAG_IA, "immutable and append-only" },
	{ FSPROBE_FLAG_C, "the inode flag C (no copy on write)" },
	{ FSPROBE_NSEC, "nanosecond times" },
	{ FSPROBE_OWNER, "any owner" },
	{ FSPROBE_NAME_BYTES, "names of any bytes" },
	{ FSPROBE_PROJID, "project ids" },
	{ FSPROBE_TIMES, "times before 1970 or after 2038" },
	{ FSPROBE_FLAG_S, "synchronous files" },
	{ FSPROBE_FLAG_COMPR, "the inode flag c (compressed)" },
	{ FSPROBE_FLAG_D, "synchronous directories" },
	{ FSPROBE_FLAG_T, "the inode flag T" },
	{ FSPROBE_FLAG_SU, "the inode flags s and u" },
	{ FSPROBE_FLAG_J, "the inode flag j" },
	{ FSPROBE_FLAG_NOTAIL, "the inode flag t" },
	{ FSPROBE_FLAG_P, "inherited project ids" },
	{ FSPROBE_FLAG_NODUMP, "the inode flag d" },
	{ FSPROBE_FLAG_NOATIME, "the inode flag A" },
	{ FSPROBE_LONG_LINK, "symbolic links of more than 1023 bytes" },
	{ FSPROBE_TIMES_FAR, "times before 1901 or after 2486" },
	{ FSPROBE_WIDE_DEV, "device numbers this large" },
};

/* Inode flags by the capability to have them; `dir`: on directories only. */
static const struct {
	uint32_t flags;
	uint32_t cap;
	bool dir;
} flag_caps[] = {
	{ FS_NOCOW_FL, FSPROBE_FLAG_C, false },
	{ FS_SYNC_FL, FSPROBE_FLAG_S, false },
	{ FS_COMPR_FL, FSPROBE_FLAG_COMPR, false },
	{ FS_DIRSYNC_FL, FSPROBE_FLAG_D, true },
	{ FS_TOPDIR_FL, FSPROBE_FLAG_T, true },
	{ FS_SECRM_FL, FSPROBE_FLAG_SU, false },
	{ FS_UNRM_FL, FSPROBE_FLAG_SU, false },
	{ FS_JOURNAL_DATA_FL, FSPROBE_FLAG_J, false },
	{ FS_NOTAIL_FL, FSPROBE_FLAG_NOTAIL, false },
	{ FS_PROJINHERIT_FL, FSPROBE_FLAG_P, true },
	{ FS_NODUMP_FL, FSPROBE_FLAG_NODUMP, false },
	{ FS_NOATIME_FL, FSPROBE_FLAG_NOATIME, false },
	{ FS_IMMUTABLE_FL, FSPROBE_FLAG_IA, false },
	{ FS_APPEND_FL, FSPROBE_FLAG_IA, false },
};

#define FLAG_CAPS (sizeof(flag_caps) / sizeof(flag_caps[0]))

/* Types by statfs f_type, with the most links that an inode may have
 * (ext4: EXT4_LINK_MAX; xfs: XFS_MAXLINK; btrfs: BTRFS_LINK_MAX is u32 but a
 * directory's names of one inode are limited by its leaf, and extended refs
 * lift that to 65535 in one directory), and what its inodes' flags can be (the
 * file systems' fileattr_set in Linux 6.18). */
static const struct {
	uint32_t magic;
	const char *name;
	uint64_t link_max;
	uint32_t flags; /* of FSPROBE_FLAGS */
} types[] = {
	{ EXT4_SUPER_MAGIC, "ext4", 65000, FSPROBE_FLAGS & ~FSPROBE_FLAG_C },
	{ XFS_MAGIC, "xfs", INT32_MAX,
	  FSPROBE_FLAG_IA | FSPROBE_FLAG_S | FSPROBE_FLAG_NODUMP |
		  FSPROBE_FLAG_NOATIME | FSPROBE_FLAG_P | FSPROBE_PROJID },
	{ BTRFS_SUPER_MAGIC, "btrfs", 65535,
	  FSPROBE_FLAG_IA | FSPROBE_FLAG_S | FSPROBE_FLAG_NODUMP |
		  FSPROBE_FLAG_NOATIME | FSPROBE_FLAG_D | FSPROBE_FLAG_COMPR |
		  FSPROBE_FLAG_C },
	{ TMPFS_MAGIC, "tmpfs", UINT64_MAX,
	  FSPROBE_FLAG_IA | FSPROBE_FLAG_NODUMP | FSPROBE_FLAG_NOATIME },
	{ OVERLAYFS_SUPER_MAGIC, "overlay", UINT64_MAX, FSPROBE_FLAGS },
	{ 0x2fc12fc1, "zfs", UINT64_MAX, FSPROBE_FLAGS },
	{ NFS_SUPER_MAGIC, "nfs", UINT64_MAX, FSPROBE_FLAGS },
	{ F2FS_SUPER_MAGIC, "f2fs", UINT64_MAX, FSPROBE_FLAGS },
	{ 0x65735546, "fuse", UINT64_MAX, FSPROBE_FLAGS },
	{ 0x858458f6, "ramfs", UINT64_MAX, FSPROBE_FLAGS },
};

#define TYPES (sizeof(types) / sizeof(types[0]))

static bool
try_xattr(int fd, const char *name, const void *v, size_t len)
{
	char back[64];

	return fsetxattr(fd, name, v, len, 0) == 0 &&
	       fgetxattr(fd, name, back, sizeof(back)) == (ssize_t)len &&
	       memcmp(v, back, len) == 0;
}

static uint32_t
try_xattrs(int fd, uint32_t *max)
{
	static const uint32_t sizes[] = { 64 << 10, 32 << 10, 8 << 10, 3 << 10,
					  1 << 10 };
	/* cap_net_raw=ep in VFS_CAP_REVISION_2 (linux/capability.h) */
	static const uint8_t capability[20] = { 1, 0, 0, 2, 0, 0x20 };
	/* user::rw- user:1:r-- group::r-- mask::r-- other::---
	 * (linux/posix_acl_xattr.h) */
	static const uint8_t acl[] = {
		2,  0, 0, 0,			     /* version */
		1,  0, 6, 0, 0xff, 0xff, 0xff, 0xff, /* user:: */
		2,  0, 4, 0, 1,	   0,	 0,    0,    /* user:1: */
		4,  0, 4, 0, 0xff, 0xff, 0xff, 0xff, /* group:: */
		16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, /* mask:: */
		32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, /* other:: */
	};
	cleanup(free_ptr) char *big = calloc(1, sizes[0]);
	uint32_t caps = 0;

	if (try_xattr(fd, "trusted.vzmigrate", "t", 1)) {
		caps |= FSPROBE_XATTR_TRUSTED;
	}
	if (try_xattr(fd, "security.vzmigrate", "s", 1)) {
		caps |= FSPROBE_XATTR_SECURITY;
	}
	if (try_xattr(fd, "security.capability", capability,
		      sizeof(capability))) {
		caps |= FSPROBE_CAPABILITY;
	}
	if (try_xattr(fd, "system.posix_acl_access", acl, sizeof(acl))) {
		caps |= FSPROBE_ACL;
	}
	if (try_xattr(fd, "user.vzmigrate", "", 0)) {
		caps |= FSPROBE_XATTR_USER;
	}
	for (size_t i = 0; big && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (fsetxattr(fd, "user.vzmigrate", big, sizes[i], 0) == 0) {
			*max = sizes[i];
			break;
		}
	}
	return caps;
}

static bool
try_flags(int fd, int flags)
{
	int now = 0, set, back = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &now) < 0) {
		return false;
	}
	set = now | flags;
	if (ioctl(fd, FS_IOC_SETFLAGS, &set) < 0 ||
	    ioctl(fd, FS_IOC_GETFLAGS, &back) < 0) {
		return false;
	}
	(void)ioctl(fd, FS_IOC_SETFLAGS, &now);
	return (back & flags) == flags;
}

/* Where one of a capability's flags is refused it is not there. */
static uint32_t
try_flag_caps(int fd, bool dir)
{
	uint32_t got = 0, lacking = 0;

	for (size_t i = 0; i < FLAG_CAPS; i++) {
		if (flag_caps[i].dir != dir) {
			continue;
		}
		if (try_flags(fd, (int)flag_caps[i].flags)) {
			got |= flag_caps[i].cap;
		} else {
			lacking |= flag_caps[i].cap;
		}
	}
	return got & ~lacking;
}

static bool
try_projid(int fd)
{
	struct fsxattr x;

	memset(&x, 0, sizeof(x));
	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0) {
		return false;
	}
	x.fsx_projid = 70000;
	if (ioctl(fd, FS_IOC_FSSETXATTR, &x) < 0 ||
	    ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0) {
		return false;
	}
	return x.fsx_projid == 70000;
}

static bool
try_time(int fd, int64_t sec, uint32_t nsec)
{
	struct timespec ts[2] = { { sec, nsec }, { sec, nsec } };
	struct statx stx;

	return futimens(fd, ts) == 0 &&
	       statx(fd, "", AT_EMPTY_PATH, STATX_MTIME, &stx) == 0 &&
	       stx.stx_mtime.tv_sec == sec && stx.stx_mtime.tv_nsec == nsec;
}

/* A hole of 8 MiB takes (almost) no room. */
static bool
try_sparse(int fd)
{
	struct stat st;

	return ftruncate(fd, 8 << 20) == 0 && fstat(fd, &st) == 0 &&
	       st.st_blocks < (1 << 20) / 512;
}

static uint32_t
try_file(int fd)
{
	uint32_t caps = 0;

	/* NOCOW before the first byte. */
	caps |= try_flag_caps(fd, false);
	caps |= try_projid(fd) ? FSPROBE_PROJID : 0;
	caps |= try_sparse(fd) ? FSPROBE_SPARSE : 0;
	caps |= fchown(fd, 4294967294u, 100000) == 0 ? FSPROBE_OWNER : 0;
	caps |= try_time(fd, 1000000000, 123456789) ? FSPROBE_NSEC : 0;
	/* 1969 and 2107; the nanoseconds are another question */
	caps |= try_time(fd, -2, 0) && try_time(fd, 4323369600, 0)
			? FSPROBE_TIMES
			: 0;
	/* 1900 and 2487 */
	caps |= try_time(fd, -2208988800, 0) && try_time(fd, 16320000000, 0)
			? FSPROBE_TIMES_FAR
			: 0;
	return caps;
}

static uint32_t
try_dir(int dir)
{
	uint32_t caps = try_flag_caps(dir, true);
	char target[FSPROBE_LINK_LEN + 1];

	memset(target, 'l', FSPROBE_LINK_LEN);
	target[FSPROBE_LINK_LEN] = '\0';
	caps |= symlinkat(target, dir, "l") == 0 ? FSPROBE_LONG_LINK : 0;
	caps |= mknodat(dir, "wh", S_IFCHR, 0) == 0 ? FSPROBE_MKNOD : 0;
	/* major and minor as wide as Linux has them */
	caps |= mknodat(dir, "wd", S_IFCHR, makedev(4095, 1048575)) == 0
			? FSPROBE_WIDE_DEV
			: 0;
	caps |= mkdirat(dir, "\xff\xfe\n\x1b", 0700) == 0 ? FSPROBE_NAME_BYTES
							  : 0;
	return caps;
}

/* Its row in `types`, or TYPES. */
static size_t
type_of(const struct statfs *sf)
{
	size_t i = 0;

	while (i < TYPES && types[i].magic != (uint32_t)sf->f_type) {
		i++;
	}
	return i;
}

static void
fill_sizes(int fd, struct fsprobe *p)
{
	struct statfs sf;
	size_t i;

	p->link_max = UINT64_MAX;
	if (fstatfs(fd, &sf) < 0) {
		return;
	}
	/* One that keeps no count, as ramfs, says 0 of 0. */
	p->bytes_free = sf.f_blocks
				? (uint64_t)sf.f_bfree * (uint64_t)sf.f_bsize
				: UINT64_MAX;
	p->inodes_free = sf.f_files ? (uint64_t)sf.f_ffree : UINT64_MAX;
	i = type_of(&sf);
	if (i < TYPES) {
		snprintf(p->type, sizeof(p->type), "%s", types[i].name);
		p->link_max = types[i].link_max;
	} else {
		snprintf(p->type, sizeof(p->type), "0x%x", (unsigned)sf.f_type);
	}
}

int
fsprobe_run(int dirfd, struct fsprobe *p, struct err *e)
{
	cleanup(close_fd) int dir = -1;
	cleanup(close_fd) int fd = -1;
	char name[40];
	uint64_t r;
	int rc;

	memset(p, 0, sizeof(*p));
	fill_sizes(dirfd, p);
	rc = digest_random(&r, sizeof(r), e);
	if (rc < 0) {
		return rc;
	}
	snprintf(name, sizeof(name), ".vzmigrate-probe-%016llx",
		 (unsigned long long)r);
	if (mkdirat(dirfd, name, 0700) < 0) {
		return err_sys(e, errno, "cannot create a scratch directory");
	}
	dir = openat(dirfd, name,
		     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0) {
		fd = openat(dir, "f", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			    0600);
	}
	if (fd < 0) {
		rc = err_sys(e, errno, "cannot create a scratch file");
	} else {
		p->caps = try_file(fd);
		p->caps |= try_xattrs(fd, &p->xattr_max);
		p->caps |= try_dir(dir);
		if (write(fd, "x", 1) != 1) {
			rc = err_sys(e, errno, "cannot write a scratch file");
		}
	}
	/* Where an open file is removed it only changes its name (NFS, FUSE).
	 */
	close_fd(&fd);
	fd = -1;
	if (remove_tree(dirfd, name, NULL, rc < 0 ? NULL : e) < 0 && rc == 0) {
		rc = err_wrap(e, "cannot remove the scratch directory");
	}
	return rc;
}

uint32_t
fsprobe_possible(int fd)
{
	struct statfs sf;
	size_t i = fstatfs(fd, &sf) < 0 ? TYPES : type_of(&sf);

	return i < TYPES ? types[i].flags : FSPROBE_FLAGS;
}

uint32_t
fsprobe_flag_caps(uint32_t flags)
{
	uint32_t caps = 0;

	for (size_t i = 0; i < FLAG_CAPS; i++) {
		caps |= flags & flag_caps[i].flags ? flag_caps[i].cap : 0;
	}
	return caps;
}

uint32_t
fsprobe_meta_caps(const struct meta *m)
{
	uint32_t caps = fsprobe_flag_caps(m->flags);
	int64_t t = m->mtime.sec;

	caps |= m->projid ? FSPROBE_PROJID : 0;
	caps |= m->uid || m->gid ? FSPROBE_OWNER : 0;
	caps |= m->mtime.nsec ? FSPROBE_NSEC : 0;
	caps |= t < 0 || t > INT32_MAX ? FSPROBE_TIMES : 0;
	/* ext4, xfs from 1901; xfs to 2486, ext4 to 2446: what is between is
	 * met when it is set */
	caps |= t < INT32_MIN || t > 16299260424 ? FSPROBE_TIMES_FAR : 0;
	if (m->type == FS_CHR || m->type == FS_BLK) {
		caps |= FSPROBE_MKNOD;
		caps |= m->major > 511 || m->minor > 262143 ? FSPROBE_WIDE_DEV
							    : 0;
	}
	if (m->type == FS_LNK && m->target_len >= FSPROBE_LINK_LEN) {
		caps |= FSPROBE_LONG_LINK;
	}
	return caps;
}

/* The length of the UTF-8 sequence at `p`, 0 for none (RFC 3629). */
static size_t
utf8_len(const uint8_t *p, size_t left)
{
	size_t n = p[0] < 0x80	 ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;

	if (n == 0 || n > left || (p[0] == 0xe0 && p[1] < 0xa0) ||
	    (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f)) {
		return 0;
	}
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	return n;
}

uint32_t
fsprobe_name_caps(const char *name, unsigned long len)
{
	const uint8_t *p = (const uint8_t *)name;

	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_len(p + i, len - i);
		if (n == 0 || p[i] < ' ') {
			return FSPROBE_NAME_BYTES;
		}
	}
	return 0;
}

uint32_t
fsprobe_hints_lost(uint32_t caps)
{
	uint32_t flags = 0;

	for (size_t i = 0; i < FLAG_CAPS; i++) {
		if (flag_caps[i].cap & FSPROBE_HINTS & ~caps) {
			flags |= flag_caps[i].flags;
		}
	}
	return flags;
}

char *
fsprobe_names(uint32_t caps, char *out, unsigned long outlen)
{
	size_t at = 0;

	if (outlen) {
		out[0] = '\0';
	}
	for (size_t i = 0; i < sizeof(cap_names) / sizeof(cap_names[0]); i++) {
		int n;

		if (!(caps & cap_names[i].cap) || at >= outlen) {
			continue;
		}
		n = snprintf(out + at, outlen - at, "%s%s", at ? ", " : "",
			     cap_names[i].name);
		at += n > 0 ? (size_t)n : 0;
	}
	return out;
}
