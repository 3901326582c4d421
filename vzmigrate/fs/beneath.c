/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * beneath: openat2 with the flags that keep a look-up inside a tree that
 * somebody else is changing. No state.
 *
 * An existing file is opened in two steps: O_PATH, which has no side effect
 * whatever the name has become, then the regular file it is found to be.
 * Opening a device that was renamed over the file a moment ago could rewind a
 * tape or arm a watchdog, whatever the flags.
 */
#include "fs/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"

#define NAME_SHOWN (4 * NAME_MAX + 1) /* each byte as \xNN */

static int
sys_openat2(int dirfd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)flags,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	int fd;

	/* EAGAIN: a rename elsewhere raced with the look-up (openat2(2)). */
	for (int i = 0; i < 16; i++) {
		fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) {
			break;
		}
	}
	if (fd < 0 && errno == EPERM && (flags & O_NOATIME)) {
		/* somebody else's file and no CAP_FOWNER */
		how.flags &= ~(uint64_t)O_NOATIME;
		fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
	}
	return fd;
}

static int
fail(struct err *e, int errnum, const char *name, size_t len)
{
	char shown[NAME_SHOWN];
	int code;

	escape_bytes(shown, sizeof(shown), name, len);
	switch (errnum) {
	case ENOENT:
		return err_set(e, E_NOT_FOUND, "%s: does not exist", shown);
	case EEXIST:
		return err_set(e, E_EXISTS, "%s: exists", shown);
	case ELOOP:
		code = err_set(e, E_DENIED, "%s: a symbolic link is in the way",
			       shown);
		break;
	case EXDEV:
		code = err_set(e, E_DENIED, "%s: a mount is in the way", shown);
		break;
	case ENOSYS:
		return err_set(e, E_UNSUPPORTED,
			       "%s: the kernel has no openat2 (Linux 5.6)",
			       shown);
	default:
		return err_sys(e, errnum, "cannot open %s", shown);
	}
	if (e) {
		e->sys = errnum;
	}
	return code;
}

int
beneath_open_root(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT) {
		return err_set(e, E_NOT_FOUND, "%s: does not exist", path);
	}
	if (fd < 0) {
		return err_sys(e, errno, "cannot open %s", path);
	}
	return fd;
}

/* The private view of `rootfd`, or -1. */
static int
tame_view(int rootfd)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV |
			    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC |
			    MOUNT_ATTR_NOATIME,
		.attr_clr = MOUNT_ATTR__ATIME,
	};
	cleanup(close_fd) int tree = (int)syscall(
		SYS_open_tree, rootfd, "",
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

	if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH,
				&attr, sizeof(attr)) < 0) {
		return -1;
	}
	/* Lives on, unmounted, for as long as something in it is open. */
	return sys_openat2(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

int
beneath_open_tame(const char *path, bool *tame, struct err *e)
{
	cleanup(close_fd) int fd = beneath_open_root(path, e);
	int view = fd < 0 ? -1 : tame_view(fd);

	*tame = view >= 0;
	return view >= 0 ? view : steal_fd(&fd);
}

bool
beneath_name_ok(const char *name, size_t len)
{
	if (len < 1 || len > NAME_MAX || memchr(name, '/', len) ||
	    memchr(name, '\0', len)) {
		return false;
	}
	return !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

int
beneath_reopen(int pathfd, int flags, struct err *e)
{
	char proc[32];
	int fd;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", pathfd);
	flags = (flags | O_CLOEXEC | O_NONBLOCK) & ~(O_NOFOLLOW | O_CREAT);
	fd = open(proc, flags);
	if (fd < 0 && errno == EPERM && (flags & O_NOATIME)) {
		flags &= ~O_NOATIME;
		fd = open(proc, flags);
	}
	if (fd < 0 && errno == EAGAIN) {
		/* A lease: the kernel takes it away from its holder within
		 * lease-break-time, if we wait. */
		fd = open(proc, flags & ~O_NONBLOCK);
	}
	if (fd < 0 && errno == ENOENT && access("/proc/self/fd", F_OK) < 0) {
		return err_set(e, E_UNSUPPORTED, "/proc is not mounted");
	}
	if (fd < 0) {
		return err_sys(e, errno, "cannot open");
	}
	return fd;
}

int
beneath_open_reg(int dirfd, const char *name, int flags, struct statx *stx,
		 struct err *e)
{
	cleanup(close_fd) int p = -1;
	char shown[NAME_SHOWN];
	struct statx own;
	size_t len = strlen(name);
	int fd;

	stx = stx ? stx : &own;
	if (!beneath_name_ok(name, len)) {
		return err_set(e, E_PROTOCOL, "not the name of a file: %s",
			       escape_bytes(shown, sizeof(shown), name, len));
	}
	p = sys_openat2(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
	if (p < 0 || statx(p, "", AT_EMPTY_PATH,
			   STATX_BASIC_STATS | STATX_BTIME, stx) < 0) {
		return fail(e, errno, name, len);
	}
	if (S_ISLNK(stx->stx_mode)) {
		return fail(e, ELOOP, name, len);
	}
	if (!S_ISREG(stx->stx_mode)) {
		return err_set(e, E_CHANGED, "%s: not a regular file",
			       escape_bytes(shown, sizeof(shown), name, len));
	}
	fd = beneath_reopen(p, flags, e);
	if (fd < 0) {
		err_wrap(e, "%s",
			 escape_bytes(shown, sizeof(shown), name, len));
	}
	return fd;
}

int
beneath_open_own(int dirfd, const char *name, int flags, struct err *e)
{
	int fd = -1;

	if (beneath_name_ok(name, strlen(name))) {
		fd = sys_openat2(dirfd, name,
				 flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
				 0);
	}
	return fd >= 0 ? fd : beneath_open_reg(dirfd, name, flags, NULL, e);
}

int
beneath_open(int dirfd, const char *name, int flags, mode_t mode, struct err *e)
{
	char shown[NAME_SHOWN];
	size_t len = strlen(name);
	int fd;

	if (!beneath_name_ok(name, len)) {
		return err_set(e, E_PROTOCOL, "not the name of a file: %s",
			       escape_bytes(shown, sizeof(shown), name, len));
	}
	if (flags & (O_DIRECTORY | O_PATH)) {
		/* With O_DIRECTORY a symlink is ELOOP by openat2's own rule;
		 * O_NOFOLLOW would make it ENOTDIR. */
		flags |= O_CLOEXEC;
		flags |= (flags & O_DIRECTORY) ? 0 : O_NOFOLLOW;
		fd = sys_openat2(dirfd, name, flags, 0);
		return fd >= 0 ? fd : fail(e, errno, name, len);
	}
	if (flags & O_CREAT) {
		fd = sys_openat2(dirfd, name,
				 flags | O_EXCL | O_NOFOLLOW | O_CLOEXEC |
					 O_NONBLOCK,
				 mode);
		if (fd >= 0 || errno != EEXIST || (flags & O_EXCL)) {
			return fd >= 0 ? fd : fail(e, errno, name, len);
		}
	}
	return beneath_open_reg(dirfd, name, flags & ~(O_CREAT | O_EXCL), NULL,
				e);
}

/* Length of the longest start of `rel` that the kernel takes as one path and
 * that ends at a component's end; 0 where a component is not a name. */
static size_t
piece(const char *rel, size_t len)
{
	size_t end = 0;

	for (size_t at = 0; at < len;) {
		const char *slash = memchr(rel + at, '/', len - at);
		size_t n = slash ? (size_t)(slash - (rel + at)) : len - at;

		if (!beneath_name_ok(rel + at, n)) {
			return 0;
		}
		if (at + n >= PATH_MAX - 1) {
			break;
		}
		end = at + n;
		at = end + 1;
	}
	return end;
}

int
beneath_open_dir(int rootfd, const char *rel, size_t len, struct err *e)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME;
	cleanup(close_fd) int fd = -1;
	char part[PATH_MAX];
	size_t at = 0;

	if (len == 0) {
		fd = sys_openat2(rootfd, ".", flags, 0);
		return fd >= 0 ? steal_fd(&fd) : fail(e, errno, ".", 1);
	}
	while (at < len) {
		size_t n = piece(rel + at, len - at);
		int next;

		if (n == 0 || (at + n + 1 == len)) {
			return err_set(
				e, E_PROTOCOL, "not a path below a root: %s",
				escape_bytes(part, sizeof(part), rel, len));
		}
		memcpy(part, rel + at, n);
		part[n] = '\0';
		next = sys_openat2(fd >= 0 ? fd : rootfd, part, flags, 0);
		if (next < 0) {
			return fail(e, errno, rel, at + n);
		}
		close_fd(&fd);
		fd = next;
		at += n + 1;
	}
	return steal_fd(&fd);
}
