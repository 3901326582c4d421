/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsprobe: what a file system can hold, found with a scratch directory before
 * anything is sent (field case F4), and how much room it has.
 */
#ifndef FS_FSPROBE_H
#define FS_FSPROBE_H

#include <stdint.h>

#include "base/err.h"

enum fsprobe_cap {
	FSPROBE_XATTR_USER = 1 << 0,
	FSPROBE_XATTR_TRUSTED = 1 << 1,
	FSPROBE_XATTR_SECURITY = 1 << 2, /* security.* other than capability */
	FSPROBE_CAPABILITY = 1 << 3,	 /* security.capability */
	FSPROBE_ACL = 1 << 4,		 /* system.posix_acl_* */
	FSPROBE_MKNOD = 1 << 5,		 /* devices, whiteout c 0 0 */
	FSPROBE_SPARSE = 1 << 6,
	FSPROBE_FLAG_IA = 1 << 7,     /* chattr +i +a */
	FSPROBE_FLAG_C = 1 << 8,      /* chattr +C (btrfs) */
	FSPROBE_NSEC = 1 << 9,	      /* nanosecond times */
	FSPROBE_OWNER = 1 << 10,      /* chown to any id */
	FSPROBE_NAME_BYTES = 1 << 11, /* names that are not UTF-8 */
	FSPROBE_PROJID = 1 << 12,
	FSPROBE_TIMES = 1 << 13, /* before 1970, after 2106 */
};

struct fsprobe {
	uint32_t caps;	      /* enum fsprobe_cap bits */
	uint32_t xattr_max;   /* largest user.* value accepted of the sizes
				 1 KiB, 3 KiB, 8 KiB, 32 KiB, 64 KiB; 0 none */
	uint64_t bytes_free;  /* for root */
	uint64_t inodes_free; /* UINT64_MAX: no limit */
	uint64_t link_max;    /* by file system type; UINT64_MAX unknown */
	char type[16];	      /* "ext4", "xfs", "btrfs", "tmpfs", ... or hex */
};

/* Try everything in a scratch directory made in `dirfd` and removed again. 0
 * also when most things are refused; E_SYSTEM when nothing can be created
 * there (read-only, full), E_NOSPACE. */
int fsprobe_run(int dirfd, struct fsprobe *p, struct err *e);

/* Names of the bits in `caps`, joined by ", ", into out. Returns out. */
char *fsprobe_names(uint32_t caps, char *out, unsigned long outlen);

#endif
