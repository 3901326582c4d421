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

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "fs/beneath.h"
#include "fs/content.h"
#include "wire/tree.h"
#include "xfer/blocktab.h"
#include "xfer/dirtab.h"
#include "xfer/inomap.h"
#include "xfer/losses.h"
#include "xfer/proof.h"
#include "xfer/recv_file.h"
#include "xfer/recv_late.h"
#include "xfer/recv_proof.h"
#include "xfer/zframe.h"

#define WORKERS_MAX 8
#define PATH_SHOWN_MAX (1u << 20)

struct worker {
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
	int64_t aside_until; /* when that is a fault */
	int64_t patience_ms; /* -1: at once, there is one stream */
	int64_t pass_patience_ms; /* the same when a pass begins */
	uint64_t defined;    /* frames with definitions taken in */
	unsigned busy;	     /* workers at work */
	bool stop;
	struct err failed; /* the first fault; code 0: none */
	uint64_t bytes;	   /* content written */
	unsigned nworkers;
	struct worker workers[WORKERS_MAX];
};

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

/* Put "PATH: " in front of an error. */
static int
name_error(struct receiver *r, uint32_t dir, const char *name, size_t name_len,
	   struct err *e)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(PATH_SHOWN_MAX);
	char shown[4096];

	if (dirtab_path(r->dirs, dir, name, name_len, &b, NULL) < 0) {
		return e->code;
	}
	return err_wrap(e, "%s",
			escape_bytes(shown, sizeof(shown), b.data, b.len));
}

/* ---- one entry ---- */

static int
stat_of(int dirfd, const char *name, int fd, struct stat *st, struct err *e)
{
	int rc = fd >= 0 ? fstat(fd, st)
			 : fstatat(dirfd, name, st, AT_SYMLINK_NOFOLLOW);

	return rc < 0 ? err_sys(e, errno, "cannot stat what was written") : 0;
}

/* v->blocks is taken over, also on error. */
static int
note_inode(struct receiver *r, int dirfd, const char *name, int fd,
	   const struct inomap_value *v, struct err *e)
{
	struct stat st;
	int rc = stat_of(dirfd, name, fd, &st, e);

	if (rc == 0) {
		rc = r->update ? inomap_put(r->inodes, st.st_ino, v, e)
			       : inomap_add(r->inodes, st.st_ino, v, NULL, e);
	}
	if (rc < 0) {
		blocktab_free(v->blocks);
	}
	return rc;
}

/* Remember what was not applied. */
static int
note_loss(struct receiver *r, int dirfd, uint32_t dir, const char *name, int fd,
	  const struct meta *m, const struct meta_loss *loss, struct err *e)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(PATH_SHOWN_MAX);
	struct stat st;
	int rc = stat_of(dirfd, name, fd, &st, e);

	/* A path that is too long to be shown is shown as far as it goes. */
	if (rc == 0) {
		dirtab_path(r->dirs, dir, name, strlen(name), &b, NULL);
		rc = losses_add(r->losses, st.st_ino, (char *)b.data, b.len, m,
				loss, e);
	}
	return rc;
}

/* Apply metadata, but for what must wait: i and a on an inode that is still
 * to be linked. */
static int
apply(struct receiver *r, int dirfd, uint32_t dir, const char *name, int fd,
      const struct meta *m, bool linked, struct err *e)
{
	uint32_t later = m->flags & (FS_IMMUTABLE_FL | FS_APPEND_FL);
	struct meta now = *m;
	struct meta_loss loss;
	int rc;

	if (linked && later) {
		now.flags &= ~later;
		rc = recv_late_flags(r->late, dir, name, m->flags, e);
		if (rc < 0) {
			return rc;
		}
	}
	if (r->policy == META_STRICT) {
		return meta_apply(dirfd, name, fd, &now, NULL, e);
	}
	if (losses_any(r->losses)) {
		struct stat st;

		rc = stat_of(dirfd, name, fd, &st, e);
		if (rc < 0) {
			return rc;
		}
		losses_forget(r->losses, st.st_ino);
	}
	meta_loss_init(&loss);
	rc = meta_apply(dirfd, name, fd, &now, &loss, e);
	if (rc == 0 && meta_loss_any(&loss)) {
		rc = note_loss(r, dirfd, dir, name, fd, m, &loss, e);
	}
	meta_loss_fini(&loss);
	return rc;
}

static int
write_pieces(struct receiver *r, int fd, const struct tree_record *rec,
	     struct tree_in *in, struct digest *content, struct err *e)
{
	uint64_t written = 0, bytes = 0;

	for (uint32_t i = 0; i < rec->pieces; i++) {
		const uint8_t *data;
		uint64_t off;
		uint32_t len;
		int rc = tree_get_piece(in, &off, &data, &len, e);

		if (rc == 0 && off + len > rec->meta.size) {
			rc = err_set(e, E_PROTOCOL,
				     "a piece beyond the end of its file");
		}
		if (rc == 0) {
			rc = content_write(fd, data, len, off, rec->name, e);
		}
		if (rc < 0) {
			return rc;
		}
		proof_piece(&r->key, off, data, len, content);
		written = off + len > written ? off + len : written;
		bytes += len;
	}
	if (written < rec->meta.size &&
	    ftruncate(fd, (off_t)rec->meta.size) < 0) {
		return err_sys(e, errno, "cannot set the size");
	}
	__atomic_add_fetch(&r->bytes, bytes, __ATOMIC_RELAXED);
	return 0;
}

static int
do_regular(struct receiver *r, int dirfd, const char *name,
	   const struct tree_record *rec, struct tree_in *in, struct err *e)
{
	struct inomap_value v = { .group = rec->linked ? rec->id : 0 };
	cleanup(close_fd) int fd = recv_file_create(
		dirfd, name, r->update, meta_fresh_mode(&rec->meta), e);
	int rc = fd < 0 ? fd : 0;

	/* In an update the directory may pass flags on. */
	if (rc == 0 && (rec->meta.flags || rec->meta.projid || r->update)) {
		rc = recv_file_early(fd, &rec->meta, r->policy, e);
	}
	if (rc == 0) {
		rc = write_pieces(r, fd, rec, in, &v.content, e);
	}
	/* In pass 1 nothing is inherited yet. */
	if (rc == 0 && r->policy == META_STRICT && !r->update &&
	    !rec->meta.flags) {
		rc = meta_apply_fresh(fd, &rec->meta, &r->fresh, e);
	} else if (rc == 0) {
		rc = apply(r, dirfd, rec->dir, name, fd, &rec->meta,
			   rec->linked, e);
	}
	if (rc >= 0) {
		rc = note_inode(r, dirfd, name, fd, &v, e);
	}
	/* A delayed write's ENOSPC or EIO may come only now (D4). */
	if (rc == 0 && close(steal_fd(&fd)) < 0) {
		rc = err_sys(e, errno, "cannot close");
	}
	return rc < 0 ? rc : recv_late_touched(r->late, rec->dir, name, e);
}

static int
do_special(struct receiver *r, int dirfd, const char *name,
	   const struct tree_record *rec, struct err *e)
{
	struct inomap_value v = { .group = rec->linked ? rec->id : 0 };
	int rc = meta_mknod(dirfd, name, &rec->meta, e);

	if (rc == E_EXISTS && r->update) {
		rc = dirtab_displace(dirfd, name, e);
		rc = rc < 0 ? rc : meta_mknod(dirfd, name, &rec->meta, e);
	}
	if (rc == 0) {
		rc = apply(r, dirfd, rec->dir, name, -1, &rec->meta,
			   rec->linked, e);
	}
	if (rc >= 0 && (rec->linked || r->update)) {
		rc = note_inode(r, dirfd, name, -1, &v, e);
	}
	recv_late_touched_special(r->late);
	return rc < 0 ? rc : 0;
}

static int
do_entry(struct worker *w, struct tree_record *rec, struct tree_in *in,
	 struct err *e)
{
	struct receiver *r = w->r;
	char name[256], target[META_TARGET_MAX + 1];
	int dirfd, rc;

	if (rec->meta.type == FS_DIR) {
		/* Made even when it stays empty. */
		rc = dirtab_open(r->dirs, &w->dirs, rec->id, 1, e);
		return rc < 0 ? rc
			      : recv_late_dir(r->late, rec->id, &rec->meta, e);
	}
	dirfd = dirtab_open(r->dirs, &w->dirs, rec->dir, 1, e);
	if (dirfd < 0) {
		return dirfd;
	}
	memcpy(name, rec->name, rec->name_len);
	name[rec->name_len] = '\0';
	if (rec->meta.type == FS_LNK) {
		memcpy(target, rec->meta.target, rec->meta.target_len);
		target[rec->meta.target_len] = '\0';
		rec->meta.target = target;
	}
	rc = rec->meta.type == FS_REG ? do_regular(r, dirfd, name, rec, in, e)
				      : do_special(r, dirfd, name, rec, e);
	if (rc == 0 && rec->linked) {
		rc = recv_late_first(r->late, rec->id, rec->dir, name, e);
	}
	return rc;
}

/* ---- records of later passes ---- */

static int
do_remove(struct worker *w, const struct tree_record *rec, struct err *e)
{
	char name[256];
	int dirfd = dirtab_open(w->r->dirs, &w->dirs, rec->dir, 1, e);

	if (dirfd < 0) {
		return dirfd;
	}
	memcpy(name, rec->name, rec->name_len);
	name[rec->name_len] = '\0';
	return dirtab_displace(dirfd, name, e);
}

/* The inode must be of the group that the record says, or whoever sent it
 * knows another tree than this one. */
static int
check_group(struct receiver *r, int dirfd, const char *name,
	    const struct tree_record *rec, struct err *e)
{
	struct inomap_value v = { 0 };
	struct stat st;
	int rc = stat_of(dirfd, name, -1, &st, e);

	if (rc == 0) {
		inomap_get(r->inodes, st.st_ino, &v);
	}
	if (rc == 0 && v.split) {
		rc = recv_file_split_error(e);
	}
	if (rc == 0 && v.group != (rec->linked ? rec->id : 0)) {
		rc = err_set(e, E_PROTOCOL,
			     "metadata for a name of another group");
	}
	return rc;
}

static int
do_meta(struct worker *w, const struct tree_record *rec, struct err *e)
{
	struct receiver *r = w->r;
	char name[256];
	int rc, dirfd = dirtab_open(r->dirs, &w->dirs, rec->dir, 0, e);

	if (dirfd < 0) {
		return dirfd;
	}
	memcpy(name, rec->name, rec->name_len);
	name[rec->name_len] = '\0';
	rc = check_group(r, dirfd, name, rec, e);
	/* No name is going to be linked to it in this pass, so its flags need
	 * not wait. */
	if (rc == 0) {
		rc = apply(r, dirfd, rec->dir, name, -1, &rec->meta, false, e);
	}
	if (rc < 0) {
		return rc;
	}
	if (rec->meta.type == FS_REG) {
		return recv_late_touched(r->late, rec->dir, name, e);
	}
	recv_late_touched_special(r->late);
	return 0;
}

/* ---- large files ---- */

static int
finish_file(struct receiver *r, struct recv_file *f, int dirfd, struct err *e)
{
	struct recv_file_whole w;
	int rc;

	if (!recv_file_claim(f, &w)) {
		return 0;
	}
	rc = apply(r, dirfd, recv_file_dir(f), recv_file_name(f), w.fd, w.meta,
		   w.v.group && !w.in_place, e);
	if (rc < 0) {
		blocktab_free(w.v.blocks);
		return rc;
	}
	rc = note_inode(r, dirfd, recv_file_name(f), w.fd, &w.v, e);
	if (rc >= 0 && w.v.group && !w.in_place) {
		rc = recv_late_first(r->late, w.v.group, recv_file_dir(f),
				     recv_file_name(f), e);
	}
	if (rc >= 0) {
		rc = recv_late_touched(r->late, recv_file_dir(f),
				       recv_file_name(f), e);
	}
	return rc < 0 ? rc : recv_file_finish(r->files, f, e);
}

/* A chunk (data != NULL) or the end (rec != NULL) of a large file. */
static int
do_file(struct worker *w, uint32_t id, const struct tree_record *rec,
	uint64_t off, const uint8_t *data, size_t len, struct err *e)
{
	struct receiver *r = w->r;
	struct recv_file *f;
	int dirfd = -1, rc = recv_file_get(r->files, id, &f, e);

	w->no_file = !f;
	if (rc < 0) {
		return rc;
	}
	dirfd = dirtab_open(r->dirs, &w->dirs, recv_file_dir(f),
			    !recv_file_in_place(f), e);
	rc = dirfd < 0 ? dirfd : recv_file_open(r->files, f, dirfd, e);
	if (rc >= 0) {
		rc = rec ? recv_file_end(f, rec, e)
			 : recv_file_chunk(f, &r->key, off, data, len,
					   recv_file_name(f), e);
	}
	if (rc >= 0) {
		__atomic_add_fetch(&r->bytes, len, __ATOMIC_RELAXED);
		rc = finish_file(r, f, dirfd, e);
	}
	if (rc < 0) {
		name_error(r, recv_file_dir(f), recv_file_name(f),
			   strlen(recv_file_name(f)), e);
	}
	recv_file_put(r->files, f);
	return rc;
}

/* What is compressed of a frame: `*p`, `*len` are exchanged for the content. */
static int
unpack(struct worker *w, const struct pool_frame *f, const uint8_t **p,
       size_t *len, struct err *e)
{
	if (!(f->flags & FRAME_F_ZSTD)) {
		return 0;
	}
	if (!w->z) {
		w->z = zunpack_new(e);
		if (!w->z) {
			return E_NOMEM;
		}
	}
	return zunpack_bytes(w->z, *p, *len, p, len, e);
}

static int
do_chunk(struct worker *w, struct pool_frame *f, struct err *e)
{
	const uint8_t *p = pool_payload(f);
	size_t len = f->len - TREE_CHUNK_HEAD;
	uint64_t off = 0;
	uint32_t id = 0;
	int rc;

	if (f->len <= TREE_CHUNK_HEAD) {
		return err_set(e, E_PROTOCOL, "malformed chunk");
	}
	for (int i = 3; i >= 0; i--) {
		id = id << 8 | p[i];
	}
	for (int i = 11; i >= 4; i--) {
		off = off << 8 | p[i];
	}
	p += TREE_CHUNK_HEAD;
	rc = unpack(w, f, &p, &len, e);
	return rc < 0 ? rc : do_file(w, id, NULL, off, p, len, e);
}

/* ---- the workers ---- */

static int
do_record(struct worker *w, struct tree_record *rec, struct tree_in *in,
	  struct err *e)
{
	int rc;

	switch (rec->kind) {
	case TREE_ENTRY:
		rc = do_entry(w, rec, in, e);
		break;
	case TREE_LINK:
		rc = recv_late_link(w->r->late, rec->id, rec->dir, rec->name,
				    rec->name_len, e);
		break;
	case TREE_FILE_END:
		return do_file(w, rec->id, rec, 0, NULL, 0, e);
	case TREE_REMOVE:
	case TREE_META:
		if (!w->r->update) {
			return err_set(e, E_PROTOCOL,
				       "a change of something in the first "
				       "pass");
		}
		rc = rec->kind == TREE_META ? do_meta(w, rec, e)
					    : do_remove(w, rec, e);
		break;
	default:
		return err_set(e, E_PROTOCOL, "a definition in a batch's body");
	}
	if (rc < 0) {
		name_error(w->r, rec->dir, rec->name, rec->name_len, e);
	}
	return rc < 0 ? rc : 0;
}

/* The records from f->at on. Each is done or it is not: where one has to wait
 * for a definition, which is found out before it has any effect, f->at is left
 * pointing to it. */
static int
do_batch(struct worker *w, struct pool_frame *f, struct err *e)
{
	struct tree_in body, defs;
	struct tree_record rec;
	int rc = tree_split(pool_payload(f), f->len, &body, &defs, e);
	const uint8_t *start;

	rc = rc < 0 ? rc : unpack(w, f, &body.p, &body.left, e);
	start = body.p;
	if (rc == 0) {
		body.p += f->at;
		body.left -= f->at;
	}
	while (rc == 0 && (rc = tree_get(&body, &rec, e)) == 1) {
		rc = do_record(w, &rec, &body, e);
		if (rc == 0) {
			f->at = (uint32_t)(body.p - start);
		}
	}
	return rc;
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
 * was tried: if more has come since, it is tried again at once. */
static bool
put_aside(struct worker *w, struct pool_frame *f, uint64_t defined)
{
	struct receiver *r = w->r;
	bool early;

	if (!w->dirs.unknown && !w->no_file) {
		return false;
	}
	pthread_mutex_lock(&r->lock);
	early = r->patience_ms >= 0;
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
work_on(struct worker *w, struct pool_frame *f, uint64_t defined)
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
		rc = f->type == FRAME_BATCH ? do_batch(w, f, &e)
					    : do_chunk(w, f, &e);
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
	struct worker *w = arg;
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

	return n < 2 ? 2 : n > WORKERS_MAX ? WORKERS_MAX : (unsigned)n;
}

static int
start_workers(struct receiver *r, unsigned n, struct err *e)
{
	for (unsigned i = 0; i < n; i++) {
		struct worker *w = &r->workers[i];
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
