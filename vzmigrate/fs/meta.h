/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * meta: everything about an inode but its content: read it, apply it, hash
 * it. One struct serves the sender, the wire and the receiver.
 */
#ifndef FS_META_H
#define FS_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"

/* Values are those on the wire (PROTOCOL.md). */
enum fs_type {
	FS_REG = 1,
	FS_DIR = 2,
	FS_LNK = 3,
	FS_CHR = 4,
	FS_BLK = 5,
	FS_FIFO = 6,
	FS_SOCK = 7,
};

struct meta_time {
	int64_t sec;   /* seconds since 1970, may be negative */
	uint32_t nsec; /* 0 to 999999999 */
};

/* The bits of FS_IOC_GETFLAGS (linux/fs.h) that are carried. NOCOW is set
 * while the file is empty, IMMUTABLE and APPEND last of all. */
#define META_FLAGS                                                    \
	(FS_SYNC_FL | FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | \
	 FS_NOATIME_FL | FS_COMPR_FL | FS_DIRSYNC_FL | FS_TOPDIR_FL | \
	 FS_NOCOW_FL | FS_PROJINHERIT_FL | FS_UNRM_FL | FS_SECRM_FL | \
	 FS_JOURNAL_DATA_FL | FS_NOTAIL_FL)

#define META_XATTRS_MAX                                      \
	(960u << 10) /* packed bytes on one inode; what fits \
			into one frame */
#define META_WHY_MAX 512
#define META_TARGET_MAX 4095 /* symlink target, bytes (PATH_MAX - 1) */

struct meta {
	enum fs_type type;
	uint16_t perm; /* 07777 */
	uint32_t uid, gid;
	uint32_t major, minor; /* FS_CHR, FS_BLK; else 0 */
	uint64_t size;	       /* FS_REG: bytes; FS_LNK: target's; else 0 */
	struct meta_time atime, mtime;
	uint32_t flags;	 /* META_FLAGS subset */
	uint32_t projid; /* project id (FS_IOC_FSGETXATTR), 0: none */
	/* Packed xattrs sorted by name, no name twice: u16 name length, name,
	 * u32 value length, value, all little-endian. Owned. */
	uint8_t *xattrs;
	size_t xattrs_len;
	char *target; /* FS_LNK: owned, NUL-terminated, target_len bytes */
	size_t target_len;
};

/* What identifies the inode on the source; not carried over. */
struct meta_ident {
	uint64_t dev, ino;
	uint64_t nlink;
	uint64_t blocks; /* 512-byte units allocated */
	struct meta_time ctime;
};

/* The ctime of `stx` in nanoseconds, as it is told. */
int64_t meta_ctime(const struct statx *stx);

/* The latest moment, in nanoseconds, that the ctime of `stx` may stand for:
 * some file systems keep whole seconds (ext4 with inodes of 128 bytes, as old
 * ones have). INT64_MAX where there is no such number. */
int64_t meta_ctime_latest(const struct statx *stx);

void meta_fini(struct meta *m);

/* A copy with xattrs of its own; the link target is not copied (NULL). 0 or
 * E_NOMEM, `to` being empty then. */
int meta_copy(struct meta *to, const struct meta *from, struct err *e);

/*
 * Read all metadata of `name` in `dirfd` without following it; with fd >= 0
 * that is the opened object (regular file or directory) and is used where
 * that saves a look-up. `stx` (from statx with STATX_BASIC_STATS of the same
 * object) is used if not NULL, else it is asked. `id` may be NULL. Inode
 * flags and project id need a descriptor and are read for regular files and
 * directories only (opened here when fd is -1; O_NOATIME where allowed).
 * 0, E_NOT_FOUND when it vanished, E_CHANGED when it is no longer the inode
 * of `stx`, E_UNSUPPORTED where another inode has the flag "immutable" or
 * "append-only" (which some file systems can hold), E_LIMIT, E_SYSTEM. The
 * text does not name the object.
 */
int meta_read(int dirfd, const char *name, int fd, const struct statx *stx,
	      struct meta *m, struct meta_ident *id, struct err *e);

/*
 * What `stx` alone tells: flags, project id and extended attributes stay
 * empty, and of a link only the target's length is known (target is NULL).
 * Nothing to be freed. 0, or E_UNSUPPORTED as meta_read.
 */
int meta_of_stat(const struct statx *stx, struct meta *m, struct err *e);

/* How strict a run is with what the file system cannot hold. */
enum meta_policy {
	META_STRICT = 0, /* an xattr, ACL, flag or time that it refuses is
			    E_UNSUPPORTED */
	META_WARN = 1,	 /* a warning is logged, the rest is applied */
};

/*
 * What an inode's file system would not hold of the metadata given to it. A
 * function with a `struct meta_loss *` argument adds to it and goes on where
 * something is refused; with NULL it ends with E_UNSUPPORTED then. Other
 * failures (disk full, EIO) are errors with both.
 */
struct meta_loss {
	uint32_t flags; /* META_FLAGS bits that are not as wanted */
	bool projid;
	bool times; /* mtime is `mtime` instead */
	struct meta_time mtime;
	struct buf xattrs;	/* names not as wanted, each with its NUL */
	char why[META_WHY_MAX]; /* the first refusal; "": there is none */
};

void meta_loss_init(struct meta_loss *l);
void meta_loss_fini(struct meta_loss *l);

/* Whether there is any. */
bool meta_loss_any(const struct meta_loss *l);

/* Note or refuse: with `l` NULL sets E_UNSUPPORTED and that text, else keeps
 * the first one and returns 0. For the fs folder. */
int meta_refuse(struct meta_loss *l, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Create an object of m's type other than regular file and directory (device,
 * fifo, socket, symlink) under `name` in `dirfd`, with no access for others
 * until meta_apply. E_EXISTS where the name is taken, E_UNSUPPORTED where the
 * file system holds no such device number or length of target.
 */
int meta_mknod(int dirfd, const char *name, const struct meta *m,
	       struct err *e);

/* For a just created, empty regular file or a new directory: flags that must
 * be set before content (NOCOW, COMPR, project id and its inheritance). */
int meta_apply_early(int fd, const struct meta *m, struct meta_loss *loss,
		     struct err *e);

/*
 * Make the object carry `m`: owner, mode, xattrs (extra ones are removed,
 * security.capability last), times, then the inode flags, immutable and
 * append-only last. fd as in meta_read. Works on an object that was already
 * given flags (clears i and a first). Devices and others without a descriptor
 * are reached through dirfd and name, never following a symlink. The text of
 * an error does not name the object.
 */
int meta_apply(int dirfd, const char *name, int fd, const struct meta *m,
	       struct meta_loss *loss, struct err *e);

/*
 * What a regular file that is made in a directory comes with: found once, so
 * that it need not be asked of each.
 */
struct meta_fresh {
	bool plain;   /* no META_FLAGS, no project, no xattrs, mode as asked */
	uint32_t uid; /* its owner */
	uint32_t gid;
};

/* Look at a file without a name in `dirfd`. Where that cannot be had, `plain`
 * is false. Holds for directories below as long as nothing that is inherited
 * (flags, project, default ACL, setgid) was set on them. */
void meta_fresh_probe(int dirfd, struct meta_fresh *f);

/* The mode to make a file with that meta_apply_fresh need not change, for most
 * modes. */
mode_t meta_fresh_mode(const struct meta *m);

/* meta_apply for the just made regular file `fd` (with meta_fresh_mode), which
 * has nothing but what `f` says. */
int meta_apply_fresh(int fd, const struct meta *m, const struct meta_fresh *f,
		     struct err *e);

/*
 * The digest of one name in the tree: path (bytes, '/'-joined, relative to
 * the root; "" is the root), all of `m` but atime, the content digest
 * (FS_REG; NULL else) and the hard-link group (0 when the inode has a single
 * name). Both hosts must come to the same value.
 */
struct digest meta_digest(const struct digest_key *k, const char *path,
			  size_t path_len, const struct meta *m,
			  const struct digest *content, uint32_t link_group,
			  struct digest_state *scratch);

/* Check a packed xattr block from a peer: well-formed, sorted, unique, names
 * in a known namespace shape, within limits. 0 or E_PROTOCOL. */
int meta_xattrs_check(const uint8_t *p, size_t len, struct err *e);

#endif
