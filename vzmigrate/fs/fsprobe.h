/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsprobe: what a file system can hold, found with a scratch directory before
 * anything is sent (field case F4), and how much room it has.
 */
#ifndef FS_FSPROBE_H
#define FS_FSPROBE_H

#include <stdint.h>

#include "base/err.h"
#include "fs/meta.h"

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
	FSPROBE_TIMES = 1 << 13,	/* before 1970, after 2038 */
	FSPROBE_FLAG_S = 1 << 14,	/* chattr +S ... */
	FSPROBE_FLAG_COMPR = 1 << 15,	/* +c */
	FSPROBE_FLAG_D = 1 << 16,	/* +D */
	FSPROBE_FLAG_T = 1 << 17,	/* +T */
	FSPROBE_FLAG_SU = 1 << 18,	/* +s +u */
	FSPROBE_FLAG_J = 1 << 19,	/* +j */
	FSPROBE_FLAG_NOTAIL = 1 << 20,	/* +t */
	FSPROBE_FLAG_P = 1 << 21,	/* +P */
	FSPROBE_FLAG_NODUMP = 1 << 22,	/* +d */
	FSPROBE_FLAG_NOATIME = 1 << 23, /* +A */
	FSPROBE_LONG_LINK = 1 << 24,	/* targets of FSPROBE_LINK_LEN bytes */
	FSPROBE_TIMES_FAR = 1 << 25,	/* before 1901, after 2486 */
	FSPROBE_WIDE_DEV = 1 << 26,	/* major over 511, minor over 262143 */
};

/* Without these there is no entry at all, not only less of one. */
#define FSPROBE_HARD                                          \
	(FSPROBE_MKNOD | FSPROBE_OWNER | FSPROBE_NAME_BYTES | \
	 FSPROBE_LONG_LINK | FSPROBE_WIDE_DEV)

/* Advice to a file system how to store the file, not what the file is: where it
 * means nothing it is left out, with a warning, also when all else must be
 * exact. systemd sets +C on its journals on btrfs; such a container must be
 * able to move to ext4. */
#define FSPROBE_HINTS                                           \
	(FSPROBE_FLAG_C | FSPROBE_FLAG_COMPR | FSPROBE_FLAG_T | \
	 FSPROBE_FLAG_SU | FSPROBE_FLAG_NOTAIL)

/* What only the inode itself tells, and not its statx: extended attributes,
 * and flags with the project id. */
#define FSPROBE_XATTRS                                                         \
	(FSPROBE_XATTR_USER | FSPROBE_XATTR_TRUSTED | FSPROBE_XATTR_SECURITY | \
	 FSPROBE_CAPABILITY | FSPROBE_ACL)
#define FSPROBE_FLAGS                                                  \
	(FSPROBE_FLAG_IA | FSPROBE_FLAG_C | FSPROBE_FLAG_S |           \
	 FSPROBE_FLAG_COMPR | FSPROBE_FLAG_D | FSPROBE_FLAG_T |        \
	 FSPROBE_FLAG_SU | FSPROBE_FLAG_J | FSPROBE_FLAG_NOTAIL |      \
	 FSPROBE_FLAG_P | FSPROBE_FLAG_NODUMP | FSPROBE_FLAG_NOATIME | \
	 FSPROBE_PROJID)

/* The largest value of an extended attribute that the kernel takes, in bytes
 * (linux/limits.h). */
#define FSPROBE_XATTR_SIZE (64u << 10)

/* The FS_*_FL bits that are left out on a file system with `caps`. */
uint32_t fsprobe_hints_lost(uint32_t caps);

#define FSPROBE_LINK_LEN 1024 /* the shortest that xfs refuses */

struct fsprobe {
	uint32_t caps;	      /* enum fsprobe_cap bits */
	uint32_t xattr_max;   /* largest user.* value accepted of the sizes
				 1 KiB, 3 KiB, 8 KiB, 32 KiB, 64 KiB; 0 none */
	uint64_t bytes_free;  /* for root; UINT64_MAX: not known */
	uint64_t inodes_free; /* UINT64_MAX: no limit */
	uint64_t link_max;    /* by file system type; UINT64_MAX unknown */
	char type[16];	      /* "ext4", "xfs", "btrfs", "tmpfs", ... or hex */
};

/* Try everything in a scratch directory made in `dirfd` and removed again. 0
 * also when most things are refused; E_SYSTEM when nothing can be created
 * there (read-only, full), E_NOSPACE. */
int fsprobe_run(int dirfd, struct fsprobe *p, struct err *e);

/* Those of FSPROBE_FLAGS that an inode on the file system of `fd` can need at
 * all, by the type of that file system: all of them for one that is not known.
 */
uint32_t fsprobe_possible(int fd);

/* The bits that these inode flags (META_FLAGS) need. */
uint32_t fsprobe_flag_caps(uint32_t flags);

/* The bits that this metadata needs, but for extended attributes. */
uint32_t fsprobe_meta_caps(const struct meta *m);

/* The bits that a name of `len` bytes needs. */
uint32_t fsprobe_name_caps(const char *name, unsigned long len);

/* Names of the bits in `caps`, joined by ", ", into out. Returns out. */
char *fsprobe_names(uint32_t caps, char *out, unsigned long outlen);

#endif
