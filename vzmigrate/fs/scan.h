/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: a parallel walk of the tree below a root, streaming: memory follows
 * the number of directories still to be read, never the number of entries in
 * one directory.
 */
#ifndef FS_SCAN_H
#define FS_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

#define SCAN_PATH_MAX (1u << 20) /* bytes; a deeper tree is E_LIMIT */

/* A directory being visited; borrowed, valid during the callbacks for its
 * entries. */
struct scan_dir {
	int fd;		  /* open for reading, O_NOATIME where allowed; for
			     an entry under a mount (see on_mount) another
			     one, to its directory as it is without mounts */
	uint32_t id;	  /* 0 is the root; parents have smaller ids */
	uint32_t parent;  /* id; the root's own for the root */
	const char *name; /* within the parent; "" for the root */
	size_t name_len;
	const char *path; /* relative to the root, '/'-joined, any length */
	size_t path_len;
	unsigned thread; /* 0 to threads - 1: which one calls */
	void *user;	 /* the caller's, for the calls that follow; on_dir
			    finds what `child` was (NULL for the root) */
	void *child;	 /* set by on_entry for a subdirectory: its `user` */
};

struct scan_ops {
	/* The directory was opened; before its entries. `stx` is its own.
	 * It may be newer than what on_entry got, and of another directory put
	 * there since. Negative: the scan ends with that error. */
	int (*on_dir)(struct scan_dir *d, const struct statx *stx, void *arg,
		      struct err *e);
	/* One entry, subdirectories included (they are opened and visited
	 * later, or skipped when this returns 1). `name` is NUL-terminated.
	 * In a directory that is changed meanwhile a name may come twice or
	 * not at all, as readdir(3) allows. */
	int (*on_entry)(struct scan_dir *d, const char *name, size_t name_len,
			const struct statx *stx, void *arg, struct err *e);
	/* All entries of the directory were delivered. May be NULL. */
	int (*on_dir_end)(struct scan_dir *d, void *arg, struct err *e);
	/* A mount point below the root: not entered; told for the list of
	 * what was left out. What it hides (mostly an empty directory) follows
	 * as an ordinary entry, where the kernel lets us look under it
	 * (open_tree, CAP_SYS_ADMIN). May be NULL. */
	int (*on_mount)(const char *path, size_t path_len, void *arg,
			struct err *e);
	/* An entry that cannot be read (vanished: code E_NOT_FOUND; a
	 * directory replaced by something else meanwhile: E_CHANGED; EACCES,
	 * EIO: E_SYSTEM). 0: go on without it; negative: the scan ends with
	 * `why`. NULL means every such thing ends the scan. on_dir_end comes
	 * also for a directory whose reading failed half-way. */
	int (*on_fault)(const char *path, size_t path_len, struct err *why,
			void *arg);
};

struct scan_opts {
	unsigned threads; /* 0: as many as there are processors, at most 8 */
	unsigned mask;	  /* statx mask; 0: STATX_BASIC_STATS */
};

/*
 * Walk everything below `rootfd` (borrowed). Callbacks come from several
 * threads; those for one directory come from one thread in order on_dir,
 * on_entry..., on_dir_end; a directory's parent has had its on_entry for it
 * before. Blocks until the end. Descriptors: one per
 * thread and at most a quarter of RLIMIT_NOFILE or 256. 0, or the first
 * error.
 */
int scan_tree(int rootfd, const struct scan_opts *o, const struct scan_ops *ops,
	      void *arg, struct err *e);

#endif
