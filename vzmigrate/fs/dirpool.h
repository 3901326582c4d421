/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dirpool: the directories that a scan knows of, as a tree of nodes, and a
 * bounded number of descriptors for them. Part of scan.
 *
 * A directory is opened from its parent's descriptor, never by path, so what
 * is opened is below the root whatever is renamed meanwhile. A descriptor is
 * kept while children wait to be opened; beyond `fd_max` of them those longest
 * unused are closed, and opened again when needed by walking down from the
 * nearest ancestor that is open, checking that it is the same directory.
 */
#ifndef FS_DIRPOOL_H
#define FS_DIRPOOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"

/* A directory: waiting to be visited, or visited with children waiting. */
struct dirnode {
	struct dirnode *parent;	  /* holds a reference; NULL for the root */
	struct dirnode *below;	  /* the scan's: next on its stack */
	TAILQ_ENTRY(dirnode) lru; /* in dirpool.open while in_lru */
	uint64_t dev, ino;	  /* once visited, to know it again */
	void *user;		  /* the scan's caller's */
	uint32_t id;		  /* the scan's, once visited */
	uint32_t refs;		  /* itself while it waits or is visited, and
				     each child's node */
	uint32_t unopened;	  /* children that wait */
	uint32_t pins;		  /* threads that use fd right now */
	int fd;			  /* -1: closed */
	bool in_lru;
	bool covered; /* fd leads below a mount; was opened early */
	uint8_t name_len;
	char name[];
};

struct dirpool {
	pthread_mutex_t lock; /* guards all nodes; the scan's own
				 things, too */
	TAILQ_HEAD(dirlist, dirnode)
	open;		 /* closable descriptors, longest
			    unused first */
	unsigned n_open; /* in that list */
	unsigned fd_max; /* at most, but for pinned ones */
};

/* `fd_max` follows RLIMIT_NOFILE. */
void dirpool_init(struct dirpool *p);
void dirpool_fini(struct dirpool *p);

/* A node with one reference and no descriptor. NULL with E_NOMEM. */
struct dirnode *dirpool_node(struct dirnode *parent, const char *name,
			     size_t len, struct err *e);

/* Under the lock: drop a reference; the last one closes and frees, and drops
 * the parent's. */
void dirpool_unref(struct dirpool *p, struct dirnode *n);

/*
 * Open the waiting node `n` (which counts in its parent's `unopened` until
 * now) and pin it. Without the lock. 0; errors as beneath_open, but E_CHANGED
 * where it or a directory above it has become something else.
 */
int dirpool_open(struct dirpool *p, struct dirnode *n, struct err *e);

/* Under the lock: the visit ended. Unpin, keep the descriptor only if children
 * wait, drop the reference. */
void dirpool_leave(struct dirpool *p, struct dirnode *n);

/* Open the directory `name` in `dirfd` for reading, without the lock, closing
 * unused descriptors where there are no more. Errors as dirpool_open. */
int dirpool_step(struct dirpool *p, int dirfd, const char *name, struct err *e);

#endif
