/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv: the receiver.
 *
 * The connection's reader gives frames to recv_frame, which takes in their
 * definitions (memory only) and queues them; workers write files in any
 * order. What needs an order waits for recv_finish: hard links (their first
 * name must exist), flags that would forbid them, and directories' metadata
 * (everything made in a directory changes its times). State: one struct, the
 * queue and lists under `lock`; tables have their own locks.
 *
 * A later pass has new directories' ids, so a new table of them; the map of
 * inodes and the losses stay. Both are by inode number, and a file system
 * gives a number out again when its inode is gone. So whoever makes an inode
 * puts its entry in place of what may be there; what is there of an inode that
 * is gone is never asked for.
 */
#include "xfer/recv.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "fs/beneath.h"
#include "wire/tree.h"
#include "xfer/recv_int.h"
#include "xfer/recv_proof.h"

static bool
has_failed(struct receiver *r)
{
	bool failed;

	pthread_mutex_lock(&r->lock);
	failed = r->failed.code != 0;
	pthread_mutex_unlock(&r->lock);
	return failed;
}

static void
set_failed(struct receiver *r, const struct err *e)
{
	bool first;

	pthread_mutex_lock(&r->lock);
	first = r->failed.code == 0;
	if (first) {
		r->failed = *e;
	}
	pthread_mutex_unlock(&r->lock);
	if (first && r->fault) {
		r->fault(e, r->arg);
	}
}

/* ---- what waits for a definition ---- */

/* With the lock held: what was put aside is tried again, first. */
static void
bring_back(struct receiver *r)
{
	if (!r->aside) {
		return;
	}
	*r->aside_tail = r->queue;
	if (!r->queue) {
		r->queue_tail = r->aside_tail;
	}
	r->queue = r->aside;
	r->aside = NULL;
	r->aside_tail = &r->aside;
	pthread_cond_broadcast(&r->work);
}

/* Whether a frame that failed is only early. `defined` was counted before it
 * was tried: if more has come since, it is tried again at once, also when
 * nothing is waited for any more. */
static bool
put_aside(struct recv_worker *w, struct pool_frame *f, uint64_t defined)
{
	struct receiver *r = w->r;
	bool early;

	if (!w->dirs.unknown && !w->no_file) {
		return false;
	}
	pthread_mutex_lock(&r->lock);
	early = r->patience_ms >= 0 || defined != r->defined;
	if (early) {
		if (!r->aside) {
			r->aside_until = io_deadline(r->patience_ms);
		}
		f->next = NULL;
		*r->aside_tail = f;
		r->aside_tail = &f->next;
		if (defined != r->defined) {
			bring_back(r);
		}
	}
	pthread_mutex_unlock(&r->lock);
	return early;
}

static void
work_on(struct recv_worker *w, struct pool_frame *f, uint64_t defined)
{
	struct receiver *r = w->r;
	struct err e = { 0 };
	void *from = f->from;
	int rc = 0;

	w->dirs.unknown = w->no_file = false;
	/* After a fault the rest of the pass is dropped, and acknowledged so
	 * that the sender is not kept waiting. */
	if (!has_failed(r)) {
		rc = fault_point(f->type == FRAME_BATCH ? "recv.batch"
							: "recv.chunk",
				 &e);
	}
	if (rc == 0 && !has_failed(r)) {
		rc = recv_do_frame(w, f, &e);
		if (rc < 0 && put_aside(w, f, defined)) {
			return;
		}
	}
	/* Written, and not acknowledged yet. */
	if (rc == 0) {
		rc = fault_point("recv.ack", &e);
	}
	if (rc < 0) {
		set_failed(r, &e);
	}
	pool_put(f);
	if (r->done) {
		r->done(r->arg, from);
	}
}

/* With the lock held. What waits for something that does not come is a fault
 * in the end. */
static void
wait_for_work(struct receiver *r)
{
	struct timespec t;

	if (!r->aside) {
		pthread_cond_wait(&r->work, &r->lock);
		return;
	}
	if (io_left_ms(r->aside_until) == 0) {
		r->patience_ms = -1;
		bring_back(r);
		return;
	}
	t.tv_sec = r->aside_until / 1000;
	t.tv_nsec = r->aside_until % 1000 * 1000000;
	pthread_cond_timedwait(&r->work, &r->lock, &t);
}

static void *
worker_thread(void *arg)
{
	struct recv_worker *w = arg;
	struct receiver *r = w->r;

	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		struct pool_frame *f = r->queue;
		uint64_t defined = r->defined;

		if (!f) {
			wait_for_work(r);
			continue;
		}
		r->queue = f->next;
		if (!r->queue) {
			r->queue_tail = &r->queue;
		}
		r->busy++;
		pthread_mutex_unlock(&r->lock);
		work_on(w, f, defined);
		pthread_mutex_lock(&r->lock);
		r->busy--;
		if (!r->busy && !r->queue) {
			pthread_cond_broadcast(&r->idle);
		}
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

void
recv_streams(struct receiver *r, int64_t patience_ms)
{
	dirtab_loosen(r->dirs);
	pthread_mutex_lock(&r->lock);
	r->patience_ms = r->pass_patience_ms = patience_ms;
	pthread_mutex_unlock(&r->lock);
}

void
recv_drain(struct receiver *r)
{
	pthread_mutex_lock(&r->lock);
	/* Nothing more will come that anything could wait for. */
	r->patience_ms = -1;
	bring_back(r);
	while (r->busy || r->queue) {
		pthread_cond_wait(&r->idle, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
}

/* ---- the reader's side ---- */

static int
take_defs(struct receiver *r, struct pool_frame *f, struct err *e)
{
	struct tree_in body, defs;
	struct tree_record rec;
	int rc = tree_split(pool_payload(f), f->len, &body, &defs, e);

	if (rc < 0 || !defs.left) {
		return rc;
	}
	/* A chunk may be here before the UPDATE: it must not find the file
	 * with a part of its HOLEs. */
	recv_files_lock(r->files);
	while (rc == 0 && (rc = tree_get(&defs, &rec, e)) == 1) {
		if (rec.kind == TREE_DIR) {
			rc = dirtab_define(r->dirs, rec.id, rec.dir, rec.name,
					   rec.name_len, e);
		} else if (rec.kind == TREE_FILE || rec.kind == TREE_UPDATE) {
			rc = recv_file_define(r->files, &rec, e);
		} else if (rec.kind == TREE_HOLE) {
			rc = recv_file_hole(r->files, &rec, e);
		} else {
			rc = err_set(e, E_PROTOCOL,
				     "an entry among definitions");
		}
	}
	recv_files_unlock(r->files);
	return rc;
}

int
recv_frame(struct receiver *r, struct pool_frame *f, struct err *e)
{
	int rc = f->type == FRAME_BATCH ? take_defs(r, f, e) : 0;

	if (rc < 0) {
		pool_put(f);
		return rc;
	}
	pthread_mutex_lock(&r->lock);
	if (f->type == FRAME_BATCH) {
		r->defined++;
		bring_back(r);
	}
	f->next = NULL;
	*r->queue_tail = f;
	r->queue_tail = &f->next;
	pthread_cond_signal(&r->work);
	pthread_mutex_unlock(&r->lock);
	return 0;
}

void
recv_bind(struct receiver *r, recv_done_fn *done, recv_fault_fn *fault,
	  void *arg)
{
	r->done = done;
	r->fault = fault;
	r->arg = arg;
}

/* ---- life ---- */

static unsigned
worker_count(const struct recv_opts *o)
{
	long n = o->workers ? (long)o->workers : sysconf(_SC_NPROCESSORS_ONLN);

	return n < 2		      ? 2
	       : n > RECV_WORKERS_MAX ? RECV_WORKERS_MAX
				      : (unsigned)n;
}

static int
start_workers(struct receiver *r, unsigned n, struct err *e)
{
	for (unsigned i = 0; i < n; i++) {
		struct recv_worker *w = &r->workers[i];
		int rc;

		w->r = r;
		dircache_init(&w->dirs);
		rc = pthread_create(&w->thread, NULL, worker_thread, w);
		if (rc != 0) {
			return err_sys(e, rc, "cannot start a thread");
		}
		r->nworkers++;
	}
	return 0;
}

int
recv_new(int rootfd, const struct digest_key *key, const struct recv_opts *o,
	 struct receiver **out, struct err *e)
{
	struct receiver *r = calloc(1, sizeof(*r));
	pthread_condattr_t attr;
	int rc = 0;

	if (!r) {
		return err_nomem(e);
	}
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->work, &attr);
	pthread_condattr_destroy(&attr);
	pthread_cond_init(&r->idle, NULL);
	r->rootfd = rootfd;
	r->key = *key;
	r->policy = o->policy;
	meta_fresh_probe(rootfd, &r->fresh);
	r->track = o->track;
	r->queue_tail = &r->queue;
	r->aside_tail = &r->aside;
	r->patience_ms = r->pass_patience_ms = -1;
	r->dirs = dirtab_new(rootfd, false, e);
	r->inodes = r->dirs ? inomap_new(e) : NULL;
	r->files = r->inodes ? recv_files_new(r->inodes, o->policy, o->track, e)
			     : NULL;
	r->losses = r->files ? losses_new(e) : NULL;
	r->late = r->losses ? recv_late_new(r->dirs, r->inodes, r->losses,
					    false, e)
			    : NULL;
	rc = r->late ? start_workers(r, worker_count(o), e) : E_NOMEM;
	if (rc < 0) {
		recv_free(r);
		return rc;
	}
	*out = r;
	return 0;
}

void
recv_free(struct receiver *r)
{
	if (!r) {
		return;
	}
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_broadcast(&r->work);
	pthread_mutex_unlock(&r->lock);
	for (unsigned i = 0; i < r->nworkers; i++) {
		pthread_join(r->workers[i].thread, NULL);
		dircache_fini(&r->workers[i].dirs);
		zunpack_free(r->workers[i].z);
	}
	bring_back(r);
	while (r->queue) {
		struct pool_frame *f = r->queue;

		r->queue = f->next;
		pool_put(f);
	}
	proofcache_free(r->seen);
	recv_late_free(r->late);
	losses_free(r->losses);
	recv_files_free(r->files);
	inomap_free(r->inodes);
	dirtab_free(r->dirs);
	pthread_cond_destroy(&r->idle);
	pthread_cond_destroy(&r->work);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

int
recv_finish(struct receiver *r, struct err *e)
{
	size_t open;
	int rc;

	recv_drain(r);
	if (r->failed.code) {
		if (e) {
			*e = r->failed;
		}
		return r->failed.code;
	}
	open = recv_files_count(r->files);
	if (open) {
		return err_set(e, E_PROTOCOL, "%zu files are not whole", open);
	}
	rc = recv_late_run(r->late, r->policy, e);
	losses_report(r->losses);
	recv_late_root_flags(r->late, &r->root_flags);
	r->finished = rc == 0;
	return rc;
}

int
recv_update(struct receiver *r, struct err *e)
{
	struct recv_late *late;
	struct dirtab *dirs;

	recv_drain(r);
	if (r->failed.code) {
		if (e) {
			*e = r->failed;
		}
		return r->failed.code;
	}
	if (!r->finished || !r->track) {
		return err_set(e, E_STATE, "no pass may follow");
	}
	dirs = dirtab_new(r->rootfd, true, e);
	late = dirs ? recv_late_new(dirs, r->inodes, r->losses, true, e) : NULL;
	if (!late) {
		dirtab_free(dirs);
		return e ? e->code : E_NOMEM;
	}
	/* The workers are idle, and look at nothing of this before they are
	 * given a frame, under the lock. */
	pthread_mutex_lock(&r->lock);
	r->patience_ms = r->pass_patience_ms;
	if (r->patience_ms >= 0) {
		dirtab_loosen(dirs);
	}
	for (unsigned i = 0; i < r->nworkers; i++) {
		dircache_fini(&r->workers[i].dirs);
	}
	recv_late_free(r->late);
	dirtab_free(r->dirs);
	r->late = late;
	r->dirs = dirs;
	r->update = true;
	r->finished = false;
	r->older_dirty = r->older_dirty || !r->synced;
	r->synced = false;
	pthread_mutex_unlock(&r->lock);
	recv_files_update(r->files);
	return 0;
}

int
recv_sync(struct receiver *r, struct err *e)
{
	int rc = 0;

	if (r->synced && !r->older_dirty) {
		return 0;
	}
	if (r->older_dirty || !recv_late_sync(r->late, &rc, e)) {
		rc = syncfs(r->rootfd) < 0 ? err_sys(e, errno, "cannot sync")
					   : 0;
	}
	r->synced = r->synced || rc == 0;
	r->older_dirty = r->older_dirty && rc < 0;
	return rc;
}

uint32_t
recv_root_flags(const struct receiver *r)
{
	return r->root_flags;
}

int
recv_read_back(struct receiver *r, struct err *e)
{
	struct proofcache *fill = proofcache_new(e);
	struct recv_proof_in in = { r->rootfd, &r->key, r->inodes,
				    r->losses, r->seen, fill };
	struct msg_proof p;
	int rc = fill ? recv_proof_walk(&in, &p, NULL, e) : E_NOMEM;

	if (rc < 0) {
		proofcache_free(fill);
		return rc;
	}
	proofcache_free(r->seen);
	r->seen = fill;
	return 0;
}

int
recv_proof(struct receiver *r, struct msg_proof *p, struct err *e)
{
	struct recv_proof_in in = { r->rootfd, &r->key, r->inodes,
				    r->losses, r->seen, NULL };
	int rc = recv_proof_walk(&in, p, NULL, e);

	p->bytes = __atomic_load_n(&r->bytes, __ATOMIC_RELAXED);
	return rc;
}

/* A recv_sync in a thread of its own. */
struct syncing {
	struct receiver *r;
	int rc;
	struct err e;
};

static void *
sync_thread(void *arg)
{
	struct syncing *s = arg;

	s->rc = recv_sync(s->r, &s->e);
	return NULL;
}

int
recv_prove(struct receiver *r, struct msg_proof *p, struct err *e)
{
	struct syncing s = { .r = r };
	pthread_t thread;
	int rc;

	if (pthread_create(&thread, NULL, sync_thread, &s) != 0) {
		rc = recv_sync(r, e);
		return rc < 0 ? rc : recv_proof(r, p, e);
	}
	rc = recv_proof(r, p, e);
	pthread_join(thread, NULL);
	if (rc == 0 && s.rc < 0) {
		if (e) {
			*e = s.e;
		}
		rc = s.rc;
	}
	return rc;
}

int
recv_proof_list(struct receiver *r, uint64_t from, struct buf *reply,
		struct err *e)
{
	struct recv_proof_in in = { r->rootfd, &r->key, r->inodes,
				    r->losses, NULL,	NULL };
	struct recv_proof_page page = { from, reply };
	struct msg_proof p;

	return recv_proof_walk(&in, &p, &page, e);
}
