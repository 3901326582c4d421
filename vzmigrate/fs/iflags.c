/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * iflags: FS_IOC_GETFLAGS and its kin. No state.
 */
#include "fs/iflags.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define LOCKS (FS_IMMUTABLE_FL | FS_APPEND_FL)
#define EARLY (FS_NOCOW_FL | FS_COMPR_FL)
#define LETTERS_MAX 34

/* The letters of chattr(1). */
static const struct {
	uint32_t bit;
	char letter;
} letters[] = {
	{ FS_SECRM_FL, 's' },	  { FS_UNRM_FL, 'u' },
	{ FS_SYNC_FL, 'S' },	  { FS_DIRSYNC_FL, 'D' },
	{ FS_IMMUTABLE_FL, 'i' }, { FS_APPEND_FL, 'a' },
	{ FS_NODUMP_FL, 'd' },	  { FS_NOATIME_FL, 'A' },
	{ FS_COMPR_FL, 'c' },	  { FS_JOURNAL_DATA_FL, 'j' },
	{ FS_NOTAIL_FL, 't' },	  { FS_TOPDIR_FL, 'T' },
	{ FS_NOCOW_FL, 'C' },	  { FS_PROJINHERIT_FL, 'P' },
};

static bool
unsupported(int errnum)
{
	return errnum == ENOTTY || errnum == EOPNOTSUPP || errnum == ENOSYS ||
	       errnum == EINVAL;
}

/* The kernel moves an int, whatever the type in the ioctl's number says. */
static int
get_flags(int fd, uint32_t *flags)
{
	int v = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &v) < 0) {
		return -1;
	}
	*flags = (uint32_t)v;
	return 0;
}

static int
set_flags(int fd, uint32_t flags)
{
	int v = (int)flags;

	return ioctl(fd, FS_IOC_SETFLAGS, &v);
}

int
iflags_read(int fd, uint32_t *flags, uint32_t *projid, struct err *e)
{
	struct fsxattr x;

	*flags = *projid = 0;
	if (get_flags(fd, flags) < 0) {
		if (!unsupported(errno)) {
			return err_sys(e, errno, "cannot read inode flags");
		}
		*flags = 0;
	}
	*flags &= META_FLAGS;
	memset(&x, 0, sizeof(x));
	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0) {
		if (!unsupported(errno)) {
			return err_sys(e, errno, "cannot read the project id");
		}
		return 0;
	}
	*projid = x.fsx_projid;
	return 0;
}

static char *
names(uint32_t bits, char out[LETTERS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (bits & letters[i].bit) {
			out[n++] = letters[i].letter;
		}
	}
	out[n] = '\0';
	return out;
}

static int
refused(int errnum, const char *what, struct meta_loss *loss, struct err *e)
{
	if (errnum == EIO || errnum == EROFS || errnum == ENOMEM ||
	    errnum == ENOSPC || errnum == EDQUOT) {
		return err_sys(e, errnum, "cannot set %s", what);
	}
	return meta_refuse(loss, e, "this file system refuses %s: %s", what,
			   errnum ? strerror(errnum) : "it has no effect");
}

/* Make the bits of `mask` as in `want`. All at once; where that is refused
 * and it is not an error, one by one, to have at least the others. */
static int
change_flags(int fd, uint32_t mask, uint32_t want,
	     const struct iflags_now *known, struct meta_loss *loss,
	     struct err *e)
{
	char what[64], list[LETTERS_MAX];
	uint32_t now = 0, after = 0;
	int errnum = 0;

	want &= mask;
	if (known && known->known) {
		now = known->flags;
	} else if (get_flags(fd, &now) < 0) {
		if (!unsupported(errno)) {
			return err_sys(e, errno, "cannot read inode flags");
		}
		if (want == 0) {
			return 0;
		}
		if (loss) {
			loss->flags |= want;
		}
		snprintf(what, sizeof(what), "the inode flags \"%s\"",
			 names(want, list));
		return refused(EOPNOTSUPP, what, loss, e);
	}
	if ((now & mask) == want) {
		return 0;
	}
	if (set_flags(fd, (now & ~mask) | want) < 0) {
		errnum = errno;
		for (size_t i = 0; loss && i < 32; i++) {
			uint32_t bit = 1u << i;

			if ((now ^ want) & mask & bit &&
			    set_flags(fd, now ^ bit) == 0) {
				now ^= bit;
			}
		}
	}
	if (get_flags(fd, &after) < 0) {
		return err_sys(e, errno, "cannot read inode flags");
	}
	if ((after & mask) == want) {
		return 0;
	}
	if (loss) {
		loss->flags |= (after ^ want) & mask;
	}
	snprintf(what, sizeof(what), "to change the inode flags \"%s\"",
		 names((after ^ want) & mask, list));
	return refused(errnum, what, loss, e);
}

static int
change_projid(int fd, uint32_t projid, struct meta_loss *loss, struct err *e)
{
	struct fsxattr x;
	char what[32];
	int errnum;

	memset(&x, 0, sizeof(x));
	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0) {
		if (!unsupported(errno)) {
			return err_sys(e, errno, "cannot read the project id");
		}
		errnum = errno;
		if (projid == 0) {
			return 0;
		}
	} else {
		if (x.fsx_projid == projid) {
			return 0;
		}
		x.fsx_projid = projid;
		if (ioctl(fd, FS_IOC_FSSETXATTR, &x) == 0) {
			return 0;
		}
		errnum = errno;
	}
	if (loss) {
		loss->projid = true;
	}
	snprintf(what, sizeof(what), "project id %u", projid);
	return refused(errnum, what, loss, e);
}

static int
begin(int fd, uint32_t mask, struct iflags_now *now, struct err *e)
{
	now->flags = 0;
	now->known = get_flags(fd, &now->flags) == 0;
	if (!(now->flags & mask)) {
		return 0;
	}
	if (set_flags(fd, now->flags & ~mask) < 0) {
		return err_sys(e, errno, "cannot clear inode flags");
	}
	now->known = false; /* what became of them is to be looked at */
	return 0;
}

int
iflags_begin(int fd, struct iflags_now *now, struct err *e)
{
	return begin(fd, LOCKS, now, e);
}

int
iflags_clear(int fd, uint32_t mask, uint32_t *had, struct err *e)
{
	struct iflags_now now;
	int rc = begin(fd, mask, &now, e);

	if (had) {
		*had = rc == 0 ? now.flags & mask : 0;
	}
	return rc;
}

int
iflags_add(int fd, uint32_t flags, struct err *e)
{
	uint32_t now;

	if (get_flags(fd, &now) < 0 || set_flags(fd, now | flags) < 0) {
		return err_sys(e, errno, "cannot set inode flags again");
	}
	return 0;
}

int
iflags_unlock(int fd, uint32_t *had, struct err *e)
{
	return iflags_clear(fd, LOCKS, had, e);
}

int
iflags_apply_early(int fd, uint32_t flags, uint32_t projid,
		   struct meta_loss *loss, struct err *e)
{
	int rc = change_flags(fd, EARLY, flags, NULL, loss, e);

	return rc < 0 ? rc : change_projid(fd, projid, loss, e);
}

int
iflags_apply(int fd, const struct iflags_now *now, uint32_t flags,
	     uint32_t projid, struct meta_loss *loss, struct err *e)
{
	int rc = change_projid(fd, projid, loss, e);

	return rc < 0 ? rc
		      : change_flags(fd, META_FLAGS & ~LOCKS, flags, now, loss,
				     e);
}

int
iflags_lock(int fd, uint32_t flags, struct meta_loss *loss, struct err *e)
{
	struct fsxattr x;

	if (!(flags & LOCKS)) {
		return 0;
	}
	/* Not through SETFLAGS where it can be had: on btrfs that would also
	 * set the compression to its default again. */
	memset(&x, 0, sizeof(x));
	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0) {
		x.fsx_xflags |=
			(flags & FS_IMMUTABLE_FL) ? FS_XFLAG_IMMUTABLE : 0;
		x.fsx_xflags |= (flags & FS_APPEND_FL) ? FS_XFLAG_APPEND : 0;
		if (ioctl(fd, FS_IOC_FSSETXATTR, &x) == 0) {
			return 0;
		}
	}
	return change_flags(fd, LOCKS, flags, NULL, loss, e);
}
