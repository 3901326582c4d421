/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send: the sender.
 *
 * The threads of one parallel scan also read: each composes a BATCH of its
 * own in a pooled buffer, small files' content being read straight into it,
 * and gives it to the link when it is full; a large file goes in CHUNKs, read
 * straight into their frames. The pool bounds memory; the link's window makes
 * everybody wait for the agent. State: a struct for the pass (shared, with
 * its own locks where needed), one for each thread.
 *
 * The container is stopped, so whatever changes while it is looked at is a
 * fault: files are looked at again after their reading, directories after
 * their last entry.
 */
#include "xfer/send.h"

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
#include "base/log.h"
#include "fs/beneath.h"
#include "fs/content.h"
#include "fs/meta.h"
#include "fs/scan.h"
#include "wire/tree.h"
#include "xfer/inomap.h"
#include "xfer/proof.h"
#include "xfer/send_dirs.h"
#include "xfer/send_ship.h"

#define THREADS_MAX COMPRESS_LANES
/* Files up to this size travel inside a batch. */
#define INLINE_MAX (128u << 10)
#define DEFS_MAX (12u << 10)
/* Definitions of one record at most: its directory and a deep chain above
 * are flushed in several batches, see define_dirs. */
#define DEF_SIZE 270
#define READ_TRIES 3
#define SETTLE_NS 20000000

/* One thread's batch in the making and its part of the sum. */
struct lane {
	struct pool_frame *f; /* NULL: none begun */
	struct tree_out body; /* within f, behind the length */
	uint8_t defs_bytes[DEFS_MAX];
	struct tree_out defs; /* within defs_bytes */
	struct buf defined;   /* u32 ids whose definition is in `defs` */
	struct buf path;      /* of the entry at hand */
	struct digest_state *scratch; /* owned */
	struct send_result part;
	struct statx dir_stx; /* of the directory being listed */
	bool link_failed;     /* so the entry at hand is not to blame */
};

struct pass {
	struct link *l;
	const struct digest_key *key;
	const struct send_opts *o;
	struct pool *pool;	/* the link's */
	struct send_dirs *dirs; /* names of directories, for definitions */
	struct inomap *groups;	/* source inode -> group id, nlink > 1 */
	uint32_t next_group;	/* atomic; ids of groups and large files */
	pthread_mutex_t lock;	/* mounts */
	char **mounts;
	size_t nmounts;
	struct lane lane[THREADS_MAX];
};

/* ---- batches ---- */

static int
begin(struct pass *p, struct lane *n, uint32_t room, struct err *e)
{
	if (n->f) {
		return 0;
	}
	n->f = room > POOL_ROOM ? pool_large(room) : pool_get(p->pool);
	if (!n->f) {
		return err_nomem(e);
	}
	n->body = (struct tree_out){ pool_payload(n->f) + 4, 0,
				     n->f->room - 4 - DEFS_MAX };
	n->defs = (struct tree_out){ n->defs_bytes, 0, DEFS_MAX };
	buf_clear(&n->defined);
	return 0;
}

static int
flush(struct pass *p, struct lane *n, struct err *e)
{
	struct pool_frame *f = n->f;
	int rc;

	if (!f || (!n->body.len && !n->defs.len)) {
		return 0;
	}
	n->f = NULL;
	f->type = FRAME_BATCH;
	tree_set_u32(pool_payload(f), (uint32_t)n->body.len);
	memcpy(pool_payload(f) + 4 + n->body.len, n->defs.p, n->defs.len);
	f->len = (uint32_t)(4 + n->body.len + n->defs.len);
	rc = fault_point("send.batch", e);
	if (rc < 0) {
		pool_put(f);
		return rc;
	}
	rc = send_ship(p->o->compress, (unsigned)(n - p->lane), p->l, f, e);
	n->link_failed = rc < 0;
	if (rc == 0) {
		/* Queued behind this frame, others may rely on them. */
		send_dirs_sent(p->dirs, (uint32_t *)n->defined.data,
			       n->defined.len / sizeof(uint32_t));
	}
	return rc;
}

/* Make room for `need` bytes of body and `defs` of definitions. */
static int
reserve(struct pass *p, struct lane *n, size_t need, size_t defs, struct err *e)
{
	int rc = 0;

	if (n->f && (need > n->body.cap - n->body.len ||
		     defs > n->defs.cap - n->defs.len)) {
		rc = flush(p, n, e);
	}
	if (rc == 0) {
		rc = begin(p, n, (uint32_t)need + 4 + DEFS_MAX, e);
	}
	return rc;
}

/* See to it that the agent knows directory `id` before it meets the record
 * that follows: definitions go with this batch unless one that was sent holds
 * them. */
static int
define_dirs(struct pass *p, struct lane *n, uint32_t id, struct err *e)
{
	cleanup(buf_finip) struct buf chain = BUF_MAX(1 << 26);
	struct send_dirs_def d;
	int rc;

	rc = send_dirs_unsent(p->dirs, id, &n->defined, &chain, e);
	for (size_t i = chain.len / sizeof(id); rc == 0 && i-- > 0;) {
		memcpy(&id, chain.data + i * sizeof(id), sizeof(id));
		send_dirs_get(p->dirs, id, &d);
		rc = reserve(p, n, 0, DEF_SIZE, e);
		if (rc == 0) {
			tree_put_dir(&n->defs, id, d.parent, d.name,
				     d.name_len);
			rc = buf_append(&n->defined, &id, sizeof(id), e);
		}
	}
	return rc;
}

/* Room for a record of `need` bytes in directory `dir`, with the directory
 * defined in this batch or before. */
static int
prepare(struct pass *p, struct lane *n, uint32_t dir, size_t need,
	struct err *e)
{
	int rc = reserve(p, n, need, DEF_SIZE, e);

	if (rc == 0) {
		rc = define_dirs(p, n, dir, e);
	}
	/* A long chain may have filled batches of definitions only; what was
	 * flushed is known, so at most this second round is needed. */
	return rc < 0 ? rc : reserve(p, n, need, DEF_SIZE, e);
}

/* ---- sums ---- */

static void
count(struct pass *p, struct lane *n, uint64_t bytes)
{
	n->part.bytes += bytes;
	if (p->o->progress) {
		__atomic_add_fetch(&p->o->progress->files, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&p->o->progress->bytes, bytes,
				   __ATOMIC_RELAXED);
	}
}

static void
add(struct lane *n, struct digest d)
{
	digest_sum(&n->part.proof.sum, &d);
}

static void
sum_name(struct pass *p, struct lane *n, uint32_t group, const struct meta *m,
	 const struct digest *content)
{
	const char *path = (char *)n->path.data;

	n->part.proof.entries++;
	if (!group) {
		add(n, proof_name(p->key, path, n->path.len, m, content,
				  n->scratch));
		return;
	}
	add(n, proof_link(p->key, path, n->path.len, group, n->scratch));
	if (m) {
		add(n, proof_group(p->key, group, m, content, n->scratch));
	}
}

static int
set_path(struct lane *n, const struct scan_dir *d, const char *name,
	 size_t name_len, struct err *e)
{
	int rc;

	buf_clear(&n->path);
	rc = buf_append(&n->path, d->path, d->path_len, e);
	if (rc == 0 && d->path_len) {
		rc = buf_append(&n->path, "/", 1, e);
	}
	return rc < 0 ? rc : buf_append(&n->path, name, name_len, e);
}

static int
name_error(struct lane *n, struct err *e)
{
	char shown[2048];

	if (n->link_failed) {
		return e->code;
	}
	return err_wrap(e, "%s",
			escape_bytes(shown, sizeof(shown), n->path.data,
				     n->path.len));
}

/* ---- one file ---- */

/* An entry being sent. */
struct item {
	struct scan_dir *d;
	const char *name;
	size_t name_len;
	uint32_t group; /* 0: no other names */
	int fd;		/* regular files */
	struct statx stx;
	struct meta m;
	struct digest content;
	uint64_t bytes; /* of content, without holes */
};

static bool
same_time(const struct statx_timestamp *a, const struct statx_timestamp *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Whether what `fd` shows now is what `was` showed. One statx for each file:
 * without it a file written to while we read it would arrive torn (D5). */
static int
unchanged(int fd, const struct statx *was, struct err *e)
{
	struct statx now;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &now) < 0) {
		return err_sys(e, errno, "cannot stat");
	}
	if (now.stx_ino != was->stx_ino ||
	    now.stx_dev_major != was->stx_dev_major ||
	    now.stx_dev_minor != was->stx_dev_minor ||
	    (now.stx_mode ^ was->stx_mode) & S_IFMT) {
		return err_set(e, E_CHANGED, "replaced while it was read");
	}
	if (now.stx_size != was->stx_size ||
	    !same_time(&now.stx_mtime, &was->stx_mtime) ||
	    !same_time(&now.stx_ctime, &was->stx_ctime)) {
		return err_set(e, E_CHANGED,
			       "changed while it was read: something still "
			       "writes there");
	}
	return 0;
}

/* Times come from a clock that ticks every 1 to 10 ms: a write in the tick in
 * which the file was changed last leaves no trace. So a file or directory that
 * was changed just now is left to settle; from then on every write shows. */
static int
settle(int fd, const struct statx *stx, struct err *e)
{
	struct timespec now, wait = { 0 };
	int64_t age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = ((int64_t)now.tv_sec - stx->stx_ctime.tv_sec) * 1000000000 +
	      now.tv_nsec - stx->stx_ctime.tv_nsec;
	if (age < -SETTLE_NS || age >= SETTLE_NS) {
		return 0;
	}
	wait.tv_nsec = SETTLE_NS - (age < 0 ? 0 : age);
	nanosleep(&wait, NULL);
	return unchanged(fd, stx, e);
}

/* Read [off, off + len) to `to`. */
static int
read_range(struct item *it, uint8_t *to, uint64_t off, size_t len,
	   struct err *e)
{
	ssize_t got = content_read(it->fd, to, len, off, it->name, e);

	if (got < 0) {
		/* It may not be the file that was meant. */
		return unchanged(it->fd, &it->stx, NULL) == E_CHANGED
			       ? err_recode(e, E_CHANGED, "changed")
			       : (int)got;
	}
	if ((size_t)got < len) {
		return err_set(e, E_CHANGED,
			       "became shorter while it was read");
	}
	return 0;
}

/* The bytes up to the next multiple of TREE_PIECE. */
static size_t
piece_len(uint64_t off, uint64_t end)
{
	uint64_t stop = (off / TREE_PIECE + 1) * TREE_PIECE;

	return (size_t)((stop < end ? stop : end) - off);
}

/* The next run of data. A file without holes needs no SEEK_DATA: its blocks
 * cover its size. */
static int
next_data(struct item *it, uint64_t pos, uint64_t *off, uint64_t *len,
	  struct err *e)
{
	if (it->stx.stx_blocks * 512 >= it->m.size &&
	    it->m.size <= INLINE_MAX) {
		*off = pos;
		*len = it->m.size - pos;
		return pos < it->m.size;
	}
	return content_next(it->fd, pos, it->m.size, off, len, e);
}

static int
inline_pieces(struct pass *p, struct lane *n, struct item *it, uint32_t *pieces,
	      struct err *e)
{
	uint64_t pos = 0, off, len;
	int rc;

	while ((rc = next_data(it, pos, &off, &len, e)) == 1) {
		size_t take = piece_len(off, off + len);
		uint8_t *to;

		if (n->body.cap - n->body.len < 12 + take) {
			/* Many tiny extents cost more than was reserved. */
			return err_set(e, E_LIMIT, "too many extents");
		}
		tree_put_piece(&n->body, off, (uint32_t)take);
		to = n->body.p + n->body.len;
		rc = read_range(it, to, off, take, e);
		if (rc < 0) {
			return rc;
		}
		n->body.len += take;
		proof_piece(p->key, off, to, take, &it->content);
		it->bytes += take;
		pos = off + take;
		++*pieces;
	}
	return rc;
}

/* A small file within the batch. E_LIMIT: it has to go in chunks. */
static int
send_inline(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	size_t need =
		tree_entry_size(&it->m, it->name_len) + 4 + 12 + it->m.size;
	uint32_t pieces = 0;
	size_t start, at;
	int rc = prepare(p, n, it->d->id, need, e);

	if (rc < 0) {
		return rc;
	}
	start = n->body.len;
	tree_put_entry(&n->body, it->group, it->group != 0, it->d->id, it->name,
		       it->name_len, &it->m);
	at = n->body.len;
	tree_put_u32(&n->body, 0);
	it->content = (struct digest){ 0 };
	it->bytes = 0;
	rc = inline_pieces(p, n, it, &pieces, e);
	if (rc == 0) {
		tree_set_u32(n->body.p + at, pieces);
		rc = unchanged(it->fd, &it->stx, e);
	}
	if (rc < 0) {
		n->body.len = start; /* as if it had not been begun */
	}
	return rc;
}

static int
send_chunk(struct pass *p, struct lane *n, struct item *it, uint32_t id,
	   uint64_t off, size_t len, struct err *e)
{
	struct pool_frame *f = pool_get(p->pool);
	uint8_t *to;
	int rc;

	if (!f) {
		return err_nomem(e);
	}
	f->type = FRAME_CHUNK;
	to = pool_payload(f);
	for (int i = 0; i < 4; i++) {
		to[i] = (uint8_t)(id >> (8 * i));
	}
	for (int i = 0; i < 8; i++) {
		to[4 + i] = (uint8_t)(off >> (8 * i));
	}
	rc = read_range(it, to + TREE_CHUNK_HEAD, off, len, e);
	rc = rc < 0 ? rc : fault_point("send.chunk", e);
	if (rc < 0) {
		pool_put(f);
		return rc;
	}
	proof_piece(p->key, off, to + TREE_CHUNK_HEAD, len, &it->content);
	f->len = (uint32_t)(TREE_CHUNK_HEAD + len);
	rc = send_ship(p->o->compress, (unsigned)(n - p->lane), p->l, f, e);
	n->link_failed = rc < 0;
	return rc;
}

/* The run [pos, end) in chunks. */
static int
send_run(struct pass *p, struct lane *n, struct item *it, uint32_t id,
	 uint64_t pos, uint64_t end, uint64_t *chunks, struct err *e)
{
	while (pos < end) {
		size_t take = piece_len(pos, end);
		int rc;

		if (p->o->stop && *p->o->stop) {
			return err_set(e, E_CANCELLED, "stopped as asked");
		}
		rc = send_chunk(p, n, it, id, pos, take, e);
		if (rc < 0) {
			return rc;
		}
		if (p->o->progress) {
			__atomic_add_fetch(&p->o->progress->bytes, take,
					   __ATOMIC_RELAXED);
		}
		it->bytes += take;
		pos += take;
		++*chunks;
	}
	return 0;
}

/* Asked once for each run, not for each chunk: on tmpfs SEEK_HOLE looks at
 * every page up to the hole. */
static int
send_chunks(struct pass *p, struct lane *n, struct item *it, uint32_t id,
	    uint64_t *chunks, struct err *e)
{
	uint64_t pos = 0, off, len;
	int rc;

	while ((rc = next_data(it, pos, &off, &len, e)) == 1) {
		rc = send_run(p, n, it, id, off, off + len, chunks, e);
		if (rc < 0) {
			return rc;
		}
		pos = off + len;
	}
	return rc;
}

static int
send_large(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	uint32_t id = it->group ? it->group
				: __atomic_add_fetch(&p->next_group, 1,
						     __ATOMIC_RELAXED);
	uint64_t chunks = 0;
	int rc;

	it->content = (struct digest){ 0 };
	it->bytes = 0;
	rc = prepare(p, n, it->d->id, 0, e);
	if (rc == 0) {
		tree_put_file(&n->defs, id, it->d->id, it->name, it->name_len,
			      &it->m);
		/* The definition goes ahead of the chunks. */
		rc = flush(p, n, e);
	}
	if (rc == 0) {
		rc = send_chunks(p, n, it, id, &chunks, e);
	}
	if (rc == 0) {
		rc = unchanged(it->fd, &it->stx, e);
	}
	if (rc == 0) {
		rc = reserve(p, n, tree_entry_size(&it->m, 0), 0, e);
	}
	if (rc == 0) {
		tree_put_file_end(&n->body, id, it->group != 0, chunks, &it->m);
	}
	return rc;
}

/* As it will be there: less the hints that mean nothing there. */
static int
read_meta(struct pass *p, int dirfd, const char *name, int fd,
	  const struct statx *stx, struct meta *m, struct err *e)
{
	int rc = meta_read(dirfd, name, fd, stx, m, NULL, e);

	m->flags &= ~p->o->drop_flags;
	return rc;
}

/* Open, read metadata and content, send. A small file that changed meanwhile
 * is tried again, since nothing of it has left. */
static int
try_regular(struct pass *p, struct lane *n, struct item *it, bool again,
	    struct err *e)
{
	const int flags = O_RDONLY | O_NOATIME;
	uint64_t counted;
	int rc;

	/* In a tame view nothing that was renamed there meanwhile does harm:
	 * `unchanged` compares with what the scan saw. */
	it->fd = p->o->tame && !again
			 ? beneath_open_own(it->d->fd, it->name, flags, e)
			 : beneath_open_reg(it->d->fd, it->name, flags,
					    &it->stx, e);
	if (it->fd < 0) {
		return it->fd;
	}
	rc = settle(it->fd, &it->stx, e);
	if (rc == 0) {
		rc = read_meta(p, it->d->fd, it->name, it->fd, &it->stx, &it->m,
			       e);
	}
	if (rc < 0) {
		return rc;
	}
	rc = it->m.size <= INLINE_MAX ? send_inline(p, n, it, e) : E_LIMIT;
	if (rc != E_LIMIT) {
		counted = it->bytes;
	} else {
		rc = send_large(p, n, it, e);
		if (rc == E_CHANGED) {
			/* Parts have left: no second try in this pass. */
			rc = err_recode(e, E_COPY, "large file");
		}
		counted = 0;
		n->part.bytes += it->bytes;
	}
	if (rc == 0) {
		count(p, n, counted);
		n->part.files++;
		sum_name(p, n, it->group, &it->m, &it->content);
	}
	return rc;
}

static int
send_regular(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	int rc = E_CHANGED;

	for (int i = 0; i < READ_TRIES && rc == E_CHANGED; i++) {
		rc = try_regular(p, n, it, i > 0, e);
		close_fd(&it->fd);
		it->fd = -1;
		meta_fini(&it->m);
		it->m = (struct meta){ 0 };
	}
	return rc == E_COPY ? err_recode(e, E_CHANGED, "not copied") : rc;
}

static int
send_special(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	int rc = read_meta(p, it->d->fd, it->name, -1, &it->stx, &it->m, e);

	if (rc == 0) {
		rc = prepare(p, n, it->d->id,
			     tree_entry_size(&it->m, it->name_len), e);
	}
	if (rc == 0) {
		tree_put_entry(&n->body, it->group, it->group != 0, it->d->id,
			       it->name, it->name_len, &it->m);
		count(p, n, 0);
		n->part.others++;
		sum_name(p, n, it->group, &it->m, NULL);
	}
	meta_fini(&it->m);
	return rc;
}

static int
send_link(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	int rc = prepare(p, n, it->d->id, 10 + it->name_len, e);

	if (rc == 0) {
		tree_put_link(&n->body, it->group, it->d->id, it->name,
			      it->name_len);
		count(p, n, 0);
		n->part.links++;
		sum_name(p, n, it->group, NULL, NULL);
	}
	return rc;
}

/* The group of an inode with several names. 1: this is a further name; 0: the
 * first, or no group. */
static int
find_group(struct pass *p, struct item *it, struct err *e)
{
	struct inomap_value v = { 0 }, old;
	int rc;

	if (it->stx.stx_nlink < 2) {
		return 0;
	}
	v.group = __atomic_add_fetch(&p->next_group, 1, __ATOMIC_RELAXED);
	rc = inomap_add(p->groups, it->stx.stx_ino, &v, &old, e);
	if (rc == E_EXISTS) {
		it->group = old.group;
		return 1;
	}
	it->group = v.group;
	return rc;
}

/* ---- the scan's callbacks ---- */

static int
on_entry(struct scan_dir *d, const char *name, size_t name_len,
	 const struct statx *stx, void *arg, struct err *e)
{
	struct pass *p = arg;
	struct lane *n = &p->lane[d->thread];
	struct item it = { .d = d,
			   .name = name,
			   .name_len = name_len,
			   .fd = -1,
			   .stx = *stx };
	int rc;

	if (S_ISDIR(stx->stx_mode)) {
		return 0;
	}
	if (p->o->stop && *p->o->stop) {
		return err_set(e, E_CANCELLED, "stopped as asked");
	}
	rc = set_path(n, d, name, name_len, e);
	if (rc == 0) {
		rc = find_group(p, &it, e);
	}
	if (rc == 1) {
		rc = send_link(p, n, &it, e);
	} else if (rc == 0 && S_ISREG(stx->stx_mode)) {
		rc = send_regular(p, n, &it, e);
	} else if (rc == 0) {
		rc = send_special(p, n, &it, e);
	}
	if (rc == E_NOT_FOUND) {
		rc = err_recode(e, E_CHANGED, "vanished");
	}
	return rc < 0 ? name_error(n, e) : 0;
}

static int
on_dir(struct scan_dir *d, const struct statx *stx, void *arg, struct err *e)
{
	struct pass *p = arg;
	struct lane *n = &p->lane[d->thread];
	struct meta m = { 0 };
	int rc;

	n->dir_stx = *stx;
	rc = set_path(n, d, "", 0, e);
	if (rc == 0 && d->path_len) {
		n->path.len--; /* the '/' in front of no name */
	}
	if (rc == 0) {
		rc = settle(d->fd, stx, e);
	}
	if (rc == 0) {
		rc = read_meta(p, d->fd, "", d->fd, stx, &m, e);
	}
	if (rc == 0 && d->id != TREE_ROOT) {
		rc = send_dirs_add(p->dirs, d->id, d->parent, d->name,
				   d->name_len, e);
	}
	if (rc == 0) {
		/* Defines the directory itself, and so its parents. */
		rc = prepare(p, n, d->id, tree_entry_size(&m, d->name_len), e);
	}
	if (rc == 0) {
		tree_put_entry(&n->body, d->id, false, d->parent, d->name,
			       d->name_len, &m);
		if (d->id == TREE_ROOT) {
			m.flags &= ~PROOF_ROOT_LATE;
		}
		count(p, n, 0);
		n->part.dirs++;
		sum_name(p, n, 0, &m, NULL);
	}
	meta_fini(&m);
	return rc < 0 ? name_error(n, e) : 0;
}

/* A name made or removed while the directory was listed may have been missed:
 * then its times tell. */
static int
on_dir_end(struct scan_dir *d, void *arg, struct err *e)
{
	struct pass *p = arg;
	struct lane *n = &p->lane[d->thread];
	int rc = unchanged(d->fd, &n->dir_stx, e);
	char shown[2048];

	return rc < 0 ? err_wrap(e, "%s",
				 escape_bytes(shown, sizeof(shown), d->path,
					      d->path_len))
		      : 0;
}

static int
on_mount(const char *path, size_t path_len, void *arg, struct err *e)
{
	struct pass *p = arg;
	char shown[4096];
	char **more, *copy;
	int rc = 0;

	copy = strdup(escape_bytes(shown, sizeof(shown), path, path_len));
	pthread_mutex_lock(&p->lock);
	more = realloc(p->mounts, (p->nmounts + 1) * sizeof(*more));
	if (more) {
		p->mounts = more;
	}
	if (copy && more) {
		p->mounts[p->nmounts++] = copy;
	} else {
		free(copy);
		rc = err_nomem(e);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* ---- the pass ---- */

static unsigned
thread_count(const struct send_opts *o)
{
	long n = o->threads ? (long)o->threads : sysconf(_SC_NPROCESSORS_ONLN);

	if (!o->threads) {
		n = n < 2 ? 2 : n > 4 ? 4 : n;
	}
	return n > THREADS_MAX ? THREADS_MAX : (unsigned)n;
}

static void
pass_fini(struct pass *p)
{
	for (unsigned i = 0; i < THREADS_MAX; i++) {
		pool_put(p->lane[i].f);
		digest_free(p->lane[i].scratch);
		buf_fini(&p->lane[i].defined);
		buf_fini(&p->lane[i].path);
	}
	for (size_t i = 0; i < p->nmounts; i++) {
		free(p->mounts[i]);
	}
	free(p->mounts);
	inomap_free(p->groups);
	send_dirs_free(p->dirs);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static struct pass *
pass_new(struct link *l, const struct digest_key *key,
	 const struct send_opts *o, struct err *e)
{
	struct pass *p = calloc(1, sizeof(*p));
	bool ok;

	if (!p) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	p->l = l;
	p->key = key;
	p->o = o;
	p->pool = link_pool(l);
	p->dirs = send_dirs_new(e);
	p->groups = inomap_new(e);
	ok = p->dirs && p->groups;
	for (unsigned i = 0; i < THREADS_MAX; i++) {
		buf_init(&p->lane[i].path, SCAN_PATH_MAX + 512);
		buf_init(&p->lane[i].defined, 1 << 20);
		if (ok) {
			p->lane[i].scratch = digest_new(key, e);
			ok = p->lane[i].scratch != NULL;
		}
	}
	if (!ok) {
		pass_fini(p);
		return NULL;
	}
	return p;
}

static void
collect(struct pass *p, struct send_result *r)
{
	for (unsigned i = 0; i < THREADS_MAX; i++) {
		struct send_result *s = &p->lane[i].part;

		digest_sum(&r->proof.sum, &s->proof.sum);
		r->proof.entries += s->proof.entries;
		r->files += s->files;
		r->dirs += s->dirs;
		r->links += s->links;
		r->others += s->others;
		r->bytes += s->bytes;
	}
	r->proof.bytes = r->bytes;
	r->mounts = steal_ptr(&p->mounts);
	r->nmounts = p->nmounts;
	p->nmounts = 0;
}

int
send_tree(int rootfd, struct link *l, const struct digest_key *key,
	  const struct send_opts *o, struct send_result *r, struct err *e)
{
	static const struct scan_ops ops = { .on_dir = on_dir,
					     .on_entry = on_entry,
					     .on_dir_end = on_dir_end,
					     .on_mount = on_mount };
	struct scan_opts so = { .threads = thread_count(o) };
	struct pass *p = pass_new(l, key, o, e);
	int rc;

	*r = (struct send_result){ 0 };
	if (!p) {
		return e ? e->code : E_NOMEM;
	}
	rc = scan_tree(rootfd, &so, &ops, p, e);
	for (unsigned i = 0; i < THREADS_MAX && rc == 0; i++) {
		rc = flush(p, &p->lane[i], e);
	}
	if (rc == 0) {
		collect(p, r);
	}
	pass_fini(p);
	return rc;
}

void
send_result_fini(struct send_result *r)
{
	for (size_t i = 0; i < r->nmounts; i++) {
		free(r->mounts[i]);
	}
	free(r->mounts);
	*r = (struct send_result){ 0 };
}
