/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the receiver's files share: recv.c (its life, its queue and workers)
 * and recv_do.c (what a worker does with a frame).
 */
#ifndef XFER_RECV_INT_H
#define XFER_RECV_INT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "xfer/dirtab.h"
#include "xfer/inomap.h"
#include "xfer/losses.h"
#include "xfer/pool.h"
#include "xfer/recv.h"
#include "xfer/recv_file.h"
#include "xfer/recv_late.h"
#include "xfer/zframe.h"

#define RECV_WORKERS_MAX 8

struct recv_worker {
	struct receiver *r;
	pthread_t thread;
	struct dircache dirs;
	struct zunpack *z; /* NULL: nothing compressed came yet */
	bool no_file; /* the last do_file failed for want of a definition */
};

struct receiver {
	int rootfd; /* borrowed */
	struct digest_key key;
	enum meta_policy policy;
	struct meta_fresh fresh; /* what a file made in the tree comes with */
	struct dirtab *dirs;
	struct inomap *inodes;	  /* what was written */
	struct recv_files *files; /* large ones under way */
	struct recv_late *late;	  /* what waits for recv_finish */
	struct losses *losses;	  /* what the file system refused */
	struct proofcache *seen;  /* what was read back before; or NULL */
	bool track;		  /* as in recv_opts */
	bool update;		  /* a pass after the first */
	bool finished;		  /* recv_finish did it all */
	bool older_dirty;	  /* passes before this are not on disk */
	bool synced;		  /* this one is */
	uint32_t root_flags;
	recv_done_fn *done;   /* may be NULL */
	recv_fault_fn *fault; /* may be NULL */
	void *arg;

	pthread_mutex_t lock;
	pthread_cond_t work;	  /* a frame is queued, or stop */
	pthread_cond_t idle;	  /* nothing queued and nobody busy */
	struct pool_frame *queue; /* for the workers */
	struct pool_frame **queue_tail;
	struct pool_frame *aside; /* frames that need a definition which has
				     not come yet */
	struct pool_frame **aside_tail;
	int64_t aside_until;	  /* when that is a fault */
	int64_t patience_ms;	  /* -1: at once, there is one stream */
	int64_t pass_patience_ms; /* the same when a pass begins */
	uint64_t defined;	  /* frames with definitions taken in */
	unsigned busy;		  /* workers at work */
	bool stop;
	struct err failed; /* the first fault; code 0: none */
	uint64_t bytes;	   /* content written */
	unsigned nworkers;
	struct recv_worker workers[RECV_WORKERS_MAX];
};

/* Write what a frame says. Where it needs a definition that has not come, it
 * fails with w->dirs.unknown or w->no_file set, and can be tried again. */
int recv_do_frame(struct recv_worker *w, struct pool_frame *f, struct err *e);

#endif
