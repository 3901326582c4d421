/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nastytree DIR [--seed N] [--small] [--many-links]: fill DIR (made if it is
 * not there) with everything that has broken a copying program: inode types,
 * names, ids, times, modes, attributes, flags, holes, links.
 * nastytree --remove DIR: take it away, immutable or not.
 *
 * What the file system at hand refuses is left out and named on stdout
 * ("left out: ..."). Exit status 0, or 2 with a message.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool small, many_links;
static uint64_t rng = 1;
static int top; /* DIR; also the working directory */

static void __attribute__((noreturn, format(printf, 1, 2)))
die(const char *fmt, ...)
{
	int errnum = errno;
	va_list ap;

	fprintf(stderr, "nastytree: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, ": %s\n", strerror(errnum));
	exit(2);
}

/* Report what could not be made, unless rc is 0. */
static int
may(int rc, const char *what)
{
	if (rc < 0) {
		printf("left out: %s: %s\n", what, strerror(errno));
	}
	return rc;
}

/* xorshift64 */
static uint64_t
rnd(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % below;
}

static void
dir(const char *name)
{
	if (mkdir(name, 0755) < 0) {
		die("mkdir %s", name);
	}
}

static void
fill(int fd, uint64_t len)
{
	static char buf[65536];

	while (len) {
		size_t n = len < sizeof(buf) ? (size_t)len : sizeof(buf);

		for (size_t i = 0; i < n; i += 8) {
			uint64_t r = rnd(UINT64_MAX);

			memcpy(buf + i, &r, 8);
		}
		if (write(fd, buf, n) != (ssize_t)n) {
			die("write");
		}
		len -= n;
	}
}

static void
file(const char *name, uint64_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);

	if (fd < 0) {
		die("create %s", name);
	}
	fill(fd, len);
	close(fd);
}

static void
link_to(const char *target, const char *name)
{
	if (symlink(target, name) < 0) {
		die("symlink %s", name);
	}
}

static void
node(const char *name, mode_t mode, unsigned maj, unsigned min)
{
	if (mknod(name, mode, makedev(maj, min)) < 0) {
		die("mknod %s", name);
	}
}

static int
xattr(const char *name, const char *key, const void *v, size_t n)
{
	char what[600];

	snprintf(what, sizeof(what), "%s on %s (%zu bytes)", key, name, n);
	return may(lsetxattr(name, key, v, n, 0), what);
}

static void
owner(const char *name, uid_t uid, gid_t gid)
{
	if (lchown(name, uid, gid) < 0) {
		die("chown %s", name);
	}
}

static void
mode(const char *name, mode_t m)
{
	if (chmod(name, m) < 0) {
		die("chmod %s", name);
	}
}

static void
times(const char *name, int64_t sec, long nsec)
{
	struct timespec ts[2] = { { sec - 77, (nsec + 1) % 1000000000 },
				  { sec, nsec } };

	if (utimensat(AT_FDCWD, name, ts, AT_SYMLINK_NOFOLLOW) < 0) {
		die("utimensat %s", name);
	}
}

/* --- the sections --------------------------------------------------------*/

static void
make_types(void)
{
	char target[4096];

	dir("types");
	file("types/reg", 100);
	dir("types/empty-dir");
	link_to("reg", "types/link");
	link_to("/etc/passwd", "types/link-out");
	link_to("../../../../../../etc", "types/link-up");
	link_to("nothing\n\x1b[31m\xff", "types/link-dangling");
	memset(target, 'l', sizeof(target));
	target[4095] = 0;
	if (symlink(target, "types/link-4095") < 0) {
		target[1000] = 0; /* xfs: 1023 at most */
		link_to(target, "types/link-1000");
		printf("left out: a link of 4095 bytes\n");
	}
	link_to(".", "types/link-self");
	node("types/fifo", S_IFIFO | 0640, 0, 0);
	node("types/sock", S_IFSOCK | 0755, 0, 0);
	node("types/whiteout", S_IFCHR, 0, 0);
	node("types/null", S_IFCHR | 0666, 1, 3);
	node("types/blk", S_IFBLK | 0660, 7, 200);
	/* xfs: majors up to 511, minors up to 2^18 - 1 */
	may(mknod("types/blk-large", S_IFBLK | 0600, makedev(259, 1048575)),
	    "device 259:1048575");
	may(mknod("types/chr-large", S_IFCHR | 0600, makedev(4095, 255)),
	    "device 4095:255");
}

static void
make_names(void)
{
	static const char *const names[] = {
		"foo\xff\xfe",
		"a\nb",
		"-rf",
		"--help",
		"\x1b[2J\x1b[H",
		" ",
		" lead",
		"trail ",
		"...",
		"..x",
		".x",
		"\\",
		"*",
		"?[a-z]",
		"$(id)",
		"`id`",
		"a;b|c&d",
		"\"'",
		"\x01",
		"\x7f",
		"\r",
		"\t",
		"\xc3\xa9",
		"e\xcc\x81",
		"\xed\xa0\x80",
		"CON",
		"%s%n",
		"~",
		"#x#",
		"a=b",
		"c:d",
		"x -> y",
		".migrated",
		".vzmigrate-x",
		"lost+found",
	};
	char long_name[256], path[300];

	dir("names");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "names/%s", names[i]);
		if (i % 3 == 2) {
			dir(path);
			strcat(path, "/in");
		}
		file(path, i);
	}
	memset(long_name, 'n', 255);
	long_name[255] = 0;
	snprintf(path, sizeof(path), "names/%s", long_name);
	file(path, 1);
	memset(long_name, 0xe9, 255);
	snprintf(path, sizeof(path), "names/%s", long_name);
	dir(path);
}

/* Longer than PATH_MAX: 200 bytes a level. */
static void
make_deep(void)
{
	int levels = small ? 25 : 60, at = dup(top);
	char name[201];

	dir("deep");
	memset(name, 'd', 200);
	name[200] = 0;
	if (at < 0 || fchdir(at) < 0 || chdir("deep") < 0) {
		die("deep");
	}
	for (int i = 0; i < levels; i++) {
		name[0] = i % 7 ? 'd' : '\n';
		dir(name);
		if (i % 5 == 4) {
			link_to("..", "up");
			file("file", (uint64_t)i);
		}
		if (chdir(name) < 0) {
			die("chdir");
		}
	}
	file("bottom", 5000);
	times(".", 1000000007, 7);
	if (fchdir(at) < 0) {
		die("fchdir");
	}
	close(at);
}

static void
make_ids(void)
{
	static const uid_t ids[] = { 0,	     106,	  1000,
				     65534,  65535,	  100000,
				     165535, 2147483648u, 4294967294u };
	char path[64];

	dir("ids");
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		uid_t g = ids[(i + 3) % (sizeof(ids) / sizeof(ids[0]))];

		snprintf(path, sizeof(path), "ids/f%u", ids[i]);
		file(path, 3);
		owner(path, ids[i], g);
		snprintf(path, sizeof(path), "ids/l%u", ids[i]);
		link_to("x", path);
		owner(path, ids[i], g);
		snprintf(path, sizeof(path), "ids/d%u", ids[i]);
		dir(path);
		owner(path, g, ids[i]);
	}
}

static void
make_times(void)
{
	static const struct {
		int64_t sec;
		long nsec;
	} t[] = {
		{ 0, 0 },
		{ 0, 1 },
		{ -1, 999999999 },
		{ -86400 * 365, 5 },
		{ -2147483648, 0 },
		{ 1, 999999999 },
		{ 951782400, 0 },
		{ 2147483647, 999999999 },
		{ 2147483648, 1 },
		{ 4294967295, 0 },
		{ 4294967296, 123 },
		{ 4400000000, 1 },
		{ 15032385535, 999999999 },
		{ 253402300799, 5 },
	};
	char path[64];

	dir("times");
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		snprintf(path, sizeof(path), "times/f%zu", i);
		file(path, i);
		times(path, t[i].sec, t[i].nsec);
		snprintf(path, sizeof(path), "times/d%zu", i);
		dir(path);
		strcat(path, "/child");
		node(path, S_IFIFO | 0600, 0, 0);
		times(path, t[i].sec, t[i].nsec);
		*strrchr(path, '/') = 0;
		times(path, t[i].sec, t[i].nsec);
		snprintf(path, sizeof(path), "times/l%zu", i);
		link_to("f0", path);
		times(path, t[i].sec, t[i].nsec);
	}
}

static void
make_modes(void)
{
	static const mode_t modes[] = { 0,     0111,  0400,  0644,  0777,
					01777, 02755, 04755, 06755, 07777,
					07000, 04000, 02000, 02644, 01000 };
	char path[64];

	dir("modes");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		snprintf(path, sizeof(path), "modes/f%04o", modes[i]);
		file(path, 4);
		owner(path, 1000, 1000);
		mode(path, modes[i]);
		snprintf(path, sizeof(path), "modes/d%04o", modes[i]);
		dir(path);
		strcat(path, "/in");
		file(path, 1);
		*strrchr(path, '/') = 0;
		owner(path, 0, 1000);
		mode(path, modes[i]);
		snprintf(path, sizeof(path), "modes/p%04o", modes[i]);
		node(path, S_IFIFO, 0, 0);
		mode(path, modes[i]);
	}
}

/* The largest value that goes in, of those that the others take too or not.*/
static void
make_big_xattrs(void)
{
	static const size_t sizes[] = { 65536, 65535, 32768, 8192, 3500, 1024 };
	static char v[65536];
	char path[64], key[260];

	for (size_t i = 0; i < sizeof(v); i++) {
		v[i] = (char)rnd(256);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(path, sizeof(path), "xattrs/big-%zu", sizes[i]);
		file(path, 10);
		xattr(path, "user.big", v, sizes[i]);
	}
	file("xattrs/many", 10);
	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "user.key-%d-\n\xff", i);
		if (xattr("xattrs/many", key, v, (size_t)i * 3) < 0) {
			break;
		}
	}
	file("xattrs/long-name", 10);
	memset(key, 'k', 255);
	memcpy(key, "user.", 5);
	key[255] = 0;
	xattr("xattrs/long-name", key, "v", 1);
}

static void
make_xattrs(void)
{
	/* cap_net_raw=ep, revision 2; the same for root of a user namespace
	 * that starts at 100000, revision 3 (linux/capability.h) */
	static const uint8_t cap2[20] = { 1, 0, 0, 2, 0, 0x20 };
	static const uint8_t cap3[24] = { 1, 0, 0, 3, 0,    0x20, 0, 0,
					  0, 0, 0, 0, 0,    0,	  0, 0,
					  0, 0, 0, 0, 0xa0, 0x86, 1, 0 };

	dir("xattrs");
	make_big_xattrs();
	file("xattrs/kinds", 10);
	xattr("xattrs/kinds", "user.empty", "", 0);
	xattr("xattrs/kinds", "user.nul", "a\0b\0", 4);
	xattr("xattrs/kinds", "trusted.t", "t", 1);
	xattr("xattrs/kinds", "trusted.overlay.origin", "\0\xfb\0", 3);
	xattr("xattrs/kinds", "security.test", "s", 1);
	dir("xattrs/opaque");
	xattr("xattrs/opaque", "trusted.overlay.opaque", "y", 1);
	xattr("xattrs/opaque", "user.on.dir", "d", 1);
	link_to("kinds", "xattrs/link");
	xattr("xattrs/link", "trusted.on-link", "l", 1);
	xattr("xattrs/link", "security.on-link", "l", 1);
	node("xattrs/fifo", S_IFIFO | 0600, 0, 0);
	xattr("xattrs/fifo", "trusted.on-fifo", "p", 1);
	node("xattrs/whiteout", S_IFCHR, 0, 0);
	xattr("xattrs/whiteout", "trusted.on-chr", "c", 1);
	/* F1: owner, setuid and a capability at once */
	file("xattrs/cap", 3);
	owner("xattrs/cap", 1000, 1000);
	mode("xattrs/cap", 06755);
	xattr("xattrs/cap", "security.capability", cap2, sizeof(cap2));
	file("xattrs/cap3", 3);
	owner("xattrs/cap3", 101000, 101000);
	mode("xattrs/cap3", 0755);
	xattr("xattrs/cap3", "security.capability", cap3, sizeof(cap3));
}

static void
make_acls(void)
{
	/* user::rwx user:1000:r-x user:4294967294:--x group::r-- group:7:rw-
	 * mask::rwx other::--- (linux/posix_acl_xattr.h) */
	static const uint8_t acl[] = {
		2,    0,    0,	  0,	1,    0, 7, 0, 0xff, 0xff, 0xff, 0xff,
		2,    0,    5,	  0,	0xe8, 3, 0, 0, 2,    0,	   1,	 0,
		0xfe, 0xff, 0xff, 0xff, 4,    0, 4, 0, 0xff, 0xff, 0xff, 0xff,
		8,    0,    6,	  0,	7,    0, 0, 0, 16,   0,	   7,	 0,
		0xff, 0xff, 0xff, 0xff, 32,   0, 0, 0, 0xff, 0xff, 0xff, 0xff,
	};

	dir("acl");
	file("acl/f", 3);
	xattr("acl/f", "system.posix_acl_access", acl, sizeof(acl));
	file("acl/suid", 3);
	owner("acl/suid", 1000, 7);
	xattr("acl/suid", "system.posix_acl_access", acl, sizeof(acl));
	mode("acl/suid", 06750);
	dir("acl/d");
	file("acl/d/before", 3); /* has none; its copy must not inherit */
	dir("acl/d/dir-before");
	node("acl/d/fifo-before", S_IFIFO | 0644, 0, 0);
	xattr("acl/d", "system.posix_acl_default", acl, sizeof(acl));
	xattr("acl/d", "system.posix_acl_access", acl, sizeof(acl));
	mode("acl/d", 03775);
	file("acl/d/inherited", 3);
	dir("acl/d/dir-inherited");
	node("acl/fifo", S_IFIFO | 0600, 0, 0);
	xattr("acl/fifo", "system.posix_acl_access", acl, sizeof(acl));
}

static void
hole_file(const char *name, uint64_t size)
{
	file(name, 0);
	if (truncate(name, (off_t)size) < 0) {
		die("truncate %s", name);
	}
}

static void
put_at(const char *name, const void *p, size_t n, uint64_t at)
{
	int fd = open(name, O_WRONLY);

	if (fd < 0 || pwrite(fd, p, n, (off_t)at) != (ssize_t)n) {
		die("write %s", name);
	}
	close(fd);
}

static void
make_sparse(void)
{
	static char zeros[1 << 20];
	uint64_t huge = 1ull << 40;
	int fd;

	dir("sparse");
	file("sparse/huge", 0);
	if (may(truncate("sparse/huge", (off_t)huge), "1 TB file") < 0) {
		huge = 1ull << 33;
		if (truncate("sparse/huge", (off_t)huge) < 0) {
			die("sparse/huge");
		}
	}
	put_at("sparse/huge", "x", 1, huge / 2 + 12345);
	hole_file("sparse/all-hole", 10 << 20);
	hole_file("sparse/all-hole-odd", 5000001);
	file("sparse/hole-at-end", 100000);
	if (truncate("sparse/hole-at-end", 3 << 20) < 0) {
		die("truncate");
	}
	file("sparse/zeros", 10);
	put_at("sparse/zeros", zeros, sizeof(zeros), 0);
	hole_file("sparse/hole-first", 2 << 20);
	put_at("sparse/hole-first", "end", 3, (2 << 20) - 3);
	hole_file("sparse/comb", 4 << 20);
	for (uint64_t i = 0; i < 32; i++) {
		put_at("sparse/comb", "tooth", 5, i * (128 << 10) + i);
	}
	file("sparse/unwritten", 1000);
	fd = open("sparse/unwritten", O_WRONLY);
	may(fallocate(fd, 0, 1 << 20, 2 << 20), "unwritten extents");
	close(fd);
	file("sparse/beyond-end", 1000);
	fd = open("sparse/beyond-end", O_WRONLY);
	may(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 512 << 10),
	    "allocation beyond the end");
	close(fd);
	file("sparse/punched", 1 << 20);
	fd = open("sparse/punched", O_WRONLY);
	may(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 64 << 10,
		      512 << 10),
	    "punched hole");
	close(fd);
}

static void
hard(const char *from, const char *to)
{
	if (linkat(AT_FDCWD, from, AT_FDCWD, to, 0) < 0) {
		die("link %s", to);
	}
}

static void
make_links(void)
{
	char path[64];
	int n = small ? 50 : 500;

	dir("links");
	dir("links/a\nb");
	dir("links/z");
	file("links/one", 10000);
	hard("links/one", "links/a\nb/one\n");
	hard("links/one", "links/z/one");
	hard("links/one", "types/one-elsewhere");
	link_to("one", "links/sym");
	hard("links/sym", "links/z/sym");
	node("links/chr", S_IFCHR | 0600, 1, 7);
	hard("links/chr", "links/z/chr");
	node("links/fifo", S_IFIFO | 0600, 0, 0);
	hard("links/fifo", "links/a\nb/fifo");
	node("links/sock", S_IFSOCK | 0600, 0, 0);
	hard("links/sock", "links/z/sock");
	node("links/wh", S_IFCHR, 0, 0);
	hard("links/wh", "links/z/wh");
	file("links/empty", 0);
	hard("links/empty", "links/z/empty");
	/* equal in all but being one inode */
	file("links/twin1", 0);
	file("links/twin2", 0);
	dir("links/many");
	file("links/many/0", 100);
	n = many_links ? 70000 : n;
	for (int i = 1; i < n; i++) {
		snprintf(path, sizeof(path), "links/many/%d", i);
		if (may(link("links/many/0", path), "more links") < 0) {
			printf("links/many has %d\n", i);
			break;
		}
	}
}

static void
make_sizes(void)
{
	static const uint64_t sizes[] = { 0,	  1,	  2,	   4095,
					  4096,	  4097,	  65535,   65536,
					  65537,  131071, 131072,  131073,
					  262143, 262145, 1048576, 1048577 };
	char path[64];

	dir("sizes");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(path, sizeof(path), "sizes/%" PRIu64, sizes[i]);
		file(path, sizes[i]);
	}
	file("sizes/large", small ? 3000001 : 20000001);
}

static void
make_crowd(void)
{
	int n = small ? 300 : 5000;
	char path[64];

	dir("crowd");
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "crowd/entry-number-%d", i);
		if (i % 50 == 0) {
			dir(path);
		} else if (i % 50 == 1) {
			link_to("x", path);
		} else {
			file(path, rnd(200));
		}
	}
	dir("dirs");
	for (int i = 0; i < n / 10; i++) {
		snprintf(path, sizeof(path), "dirs/%d", i);
		dir(path);
		strcat(path, "/f");
		file(path, 1);
	}
}

/* Names, sizes, modes and owners by the dice. */
static void
make_random(void)
{
	int n = small ? 60 : 400;
	char path[300];

	dir("random");
	for (int i = 0; i < n; i++) {
		size_t len = 1 + (size_t)rnd(30), at;

		at = (size_t)snprintf(path, sizeof(path), "random/%d-", i);
		for (size_t j = 0; j < len; j++) {
			int c = (int)(1 + rnd(255));

			path[at++] = (char)(c == '/' ? '_' : c);
		}
		path[at] = 0;
		if (rnd(8) == 0) {
			dir(path);
		} else {
			file(path, rnd(3) ? rnd(5000) : rnd(300000));
		}
		owner(path, (uid_t)rnd(200000), (gid_t)rnd(200000));
		mode(path, (mode_t)rnd(010000));
		if (rnd(4) == 0) {
			xattr(path, "user.random", path, len);
		}
		times(path, (int64_t)rnd(4000000000u), (long)rnd(1000000000));
	}
}

/* --- flags, last ---------------------------------------------------------*/

static int
flags(const char *name, int set)
{
	int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW), now = 0, rc;

	if (fd < 0) {
		die("open %s", name);
	}
	rc = ioctl(fd, FS_IOC_GETFLAGS, &now);
	now |= set;
	if (rc == 0) {
		rc = ioctl(fd, FS_IOC_SETFLAGS, &now);
	}
	close(fd);
	return rc;
}

static const struct {
	const char *name;
	int bits;
} flag_sets[] = {
	{ "i", FS_IMMUTABLE_FL },
	{ "a", FS_APPEND_FL },
	{ "ia", FS_IMMUTABLE_FL | FS_APPEND_FL },
	{ "d", FS_NODUMP_FL },
	{ "A", FS_NOATIME_FL },
	{ "dAi", FS_NODUMP_FL | FS_NOATIME_FL | FS_IMMUTABLE_FL },
	{ "S", FS_SYNC_FL },
	{ "su", FS_SECRM_FL | FS_UNRM_FL },
	{ "t", FS_NOTAIL_FL },
	{ "j", FS_JOURNAL_DATA_FL },
	{ "C", FS_NOCOW_FL },
	{ "c", FS_COMPR_FL },
	{ "D", FS_DIRSYNC_FL },
	{ "T", FS_TOPDIR_FL },
};

/* The files and directories; NOCOW while they are empty. */
static void
make_flags(void)
{
	char path[64];

	dir("flags");
	for (size_t i = 0; i < sizeof(flag_sets) / sizeof(flag_sets[0]); i++) {
		bool early = flag_sets[i].bits == FS_NOCOW_FL;

		snprintf(path, sizeof(path), "flags/f-%s", flag_sets[i].name);
		file(path, 0);
		if (early) {
			may(flags(path, FS_NOCOW_FL), path);
		}
		put_at(path, "content", 7, 0);
		xattr(path, "user.x", "y", 1);
		times(path, 1111111111, 22);
		snprintf(path, sizeof(path), "flags/d-%s", flag_sets[i].name);
		dir(path);
		if (early) {
			may(flags(path, FS_NOCOW_FL), path);
		}
		strcat(path, "/child");
		file(path, 5000);
		*strrchr(path, '/') = 0;
		times(path, 1111111112, 33);
	}
}

static void
set_flags(void)
{
	char path[64];

	for (size_t i = 0; i < sizeof(flag_sets) / sizeof(flag_sets[0]); i++) {
		int bits = flag_sets[i].bits;

		if (bits == FS_NOCOW_FL) {
			continue;
		}
		snprintf(path, sizeof(path), "flags/f-%s", flag_sets[i].name);
		if (!(bits & (FS_DIRSYNC_FL | FS_TOPDIR_FL))) {
			may(flags(path, bits), path);
		}
		snprintf(path, sizeof(path), "flags/d-%s", flag_sets[i].name);
		may(flags(path, bits), path);
	}
}

static void
make_projects(void)
{
	struct fsxattr x;
	int fd;

	dir("projects");
	file("projects/before", 10);
	dir("projects/d");
	fd = open("projects/d", O_RDONLY);
	memset(&x, 0, sizeof(x));
	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0) {
		x.fsx_projid = 4242;
		x.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	}
	may(ioctl(fd, FS_IOC_FSSETXATTR, &x), "project ids");
	close(fd);
	file("projects/d/inherits", 10);
	dir("projects/d/sub");
	file("projects/d/sub/inherits", 10);
}

/* Times of the directories, which all the making has changed. */
static void
settle(void)
{
	static const char *const dirs[] = { "types", "names", "links", "acl",
					    "sizes", "crowd", "deep" };

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		times(dirs[i], 1234567890 + (int64_t)i, 987654321);
	}
	owner(".", 100000, 100001);
	mode(".", 01755);
	xattr(".", "user.root", "r", 1);
	times(".", 1500000000, 1);
}

/* --- taking it away ------------------------------------------------------*/

static void
unlock(int fd)
{
	int now = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &now) == 0 &&
	    (now & (FS_IMMUTABLE_FL | FS_APPEND_FL))) {
		now &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
		if (ioctl(fd, FS_IOC_SETFLAGS, &now) < 0) {
			die("chattr -i -a");
		}
	}
}

static void
remove_in(int dirfd, const char *name)
{
	struct stat st;
	struct dirent *de;
	DIR *d;
	int fd;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		die("stat");
	}
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0) {
			die("open");
		}
		unlock(fd);
		if (S_ISREG(st.st_mode)) {
			close(fd);
		} else {
			d = fdopendir(fd);
			while (d && (de = readdir(d)) != NULL) {
				if (strcmp(de->d_name, ".") != 0 &&
				    strcmp(de->d_name, "..") != 0) {
					remove_in(fd, de->d_name);
				}
			}
			if (d) {
				closedir(d);
			}
		}
	}
	if (unlinkat(dirfd, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0) {
		die("remove %s", name);
	}
}

static int
usage(void)
{
	fprintf(stderr, "usage: nastytree DIR [--seed N] [--small] "
			"[--many-links]\n       nastytree --remove DIR\n");
	return 2;
}

static void
make_all(const char *where)
{
	if (mkdir(where, 0755) < 0 && errno != EEXIST) {
		die("mkdir %s", where);
	}
	if (chdir(where) < 0 || (top = open(".", O_RDONLY | O_DIRECTORY)) < 0) {
		die("%s", where);
	}
	umask(022);
	make_types();
	make_names();
	make_deep();
	make_ids();
	make_times();
	make_modes();
	make_xattrs();
	make_acls();
	make_sparse();
	make_links();
	make_sizes();
	make_crowd();
	make_random();
	make_projects();
	make_flags();
	settle();
	set_flags();
	times("flags", 1600000000, 5);
}

int
main(int argc, char **argv)
{
	const char *where = NULL;
	bool removing = false;
	struct rlimit rl;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--small") == 0) {
			small = true;
		} else if (strcmp(argv[i], "--many-links") == 0) {
			many_links = true;
		} else if (strcmp(argv[i], "--remove") == 0) {
			removing = true;
		} else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			rng = strtoull(argv[++i], NULL, 10) *
				      0x9e3779b97f4a7c15u +
			      1;
			rng = rng ? rng : 1;
		} else if (argv[i][0] == '-' || where) {
			return usage();
		} else {
			where = argv[i];
		}
	}
	if (!where) {
		return usage();
	}
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	if (removing) {
		remove_in(AT_FDCWD, where);
	} else {
		make_all(where);
	}
	return 0;
}
