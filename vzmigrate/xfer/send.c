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
 * Here are the batches, the pass, and the callbacks of a pass without a
 * ledger: the container is stopped, so whatever changes while it is looked at
 * is a fault: files are looked at again after their reading, directories after
 * their last entry.
 */
#include "xfer/send.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fault.h"
#include "base/log.h"
#include "fs/devno.h"
#include "xfer/proof.h"
#include "xfer/send_int.h"
#include "xfer/send_ship.h"

/* Definitions of one record at most: its directory and a deep chain above
 * are flushed in several batches, see define_dirs. */
#define DEF_SIZE 270
#define LISTS_MAX ((size_t)1 << 40) /* as memory allows */

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
				     n->f->room - 4 - SEND_DEFS_MAX };
	n->defs = (struct tree_out){ n->defs_bytes, 0, SEND_DEFS_MAX };
	buf_clear(&n->defined);
	return 0;
}

int
send_flush(struct pass *p, struct lane *n, struct err *e)
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
	n->flushed++;
	if (rc == 0) {
		/* Queued behind this frame, others may rely on them. */
		send_dirs_sent(p->dirs, (uint32_t *)n->defined.data,
			       n->defined.len / sizeof(uint32_t));
	}
	return rc;
}

int
send_reserve(struct pass *p, struct lane *n, size_t need, size_t defs,
	     struct err *e)
{
	int rc = 0;

	if (n->f && (need > n->body.cap - n->body.len ||
		     defs > n->defs.cap - n->defs.len)) {
		rc = send_flush(p, n, e);
	}
	if (rc == 0) {
		rc = begin(p, n, (uint32_t)need + 4 + SEND_DEFS_MAX, e);
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
		rc = send_reserve(p, n, 0, DEF_SIZE, e);
		if (rc == 0) {
			tree_put_dir(&n->defs, d.wire, d.parent, d.name,
				     d.name_len);
			rc = buf_append(&n->defined, &id, sizeof(id), e);
		}
	}
	return rc;
}

int
send_prepare(struct pass *p, struct lane *n, uint32_t dir, size_t need,
	     uint32_t *wire, struct err *e)
{
	int rc = send_reserve(p, n, need, DEF_SIZE, e);

	if (rc == 0) {
		rc = define_dirs(p, n, dir, e);
	}
	if (rc < 0) {
		return rc;
	}
	*wire = send_dirs_wire(p->dirs, dir);
	/* A long chain may have filled batches of definitions only; what was
	 * flushed is known, so at most this second round is needed. */
	return send_reserve(p, n, need, DEF_SIZE, e);
}

int
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
	rc = send_file_read(p, it, &it->ahead, to + TREE_CHUNK_HEAD, off, len,
			    e);
	rc = rc < 0 ? rc : fault_point("send.chunk", e);
	rc = rc < 0 ? rc
		    : send_file_hash(p, it, off, to + TREE_CHUNK_HEAD, len, e);
	if (rc < 0) {
		pool_put(f);
		return rc;
	}
	f->len = (uint32_t)(TREE_CHUNK_HEAD + len);
	rc = send_ship(p->o->compress, (unsigned)(n - p->lane), p->l, f, e);
	n->link_failed = rc < 0;
	it->bytes += len;
	if (p->o->progress) {
		__atomic_add_fetch(&p->o->progress->bytes, len,
				   __ATOMIC_RELAXED);
	}
	return rc;
}

/* ---- sums and names ---- */

int
send_stopped(struct pass *p, struct err *e)
{
	return p->o->stop && __atomic_load_n(p->o->stop, __ATOMIC_RELAXED)
		       ? err_set(e, E_CANCELLED, "stopped as asked")
		       : 0;
}

uint32_t
send_new_id(struct pass *p)
{
	return __atomic_add_fetch(p->next_id, 1, __ATOMIC_RELAXED);
}

void
send_count(struct pass *p, struct lane *n, uint64_t bytes)
{
	n->part.bytes += bytes;
	n->part.sent_entries++;
	if (p->o->progress) {
		__atomic_add_fetch(&p->o->progress->files, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&p->o->progress->bytes, bytes,
				   __ATOMIC_RELAXED);
	}
}

void
send_add(struct lane *n, const struct digest *d)
{
	digest_sum(&n->part.proof.sum, d);
}

int
send_path(struct lane *n, const char *dir, size_t dir_len, const char *name,
	  size_t name_len, struct err *e)
{
	int rc;

	buf_clear(&n->path);
	rc = buf_append(&n->path, dir, dir_len, e);
	if (rc == 0 && dir_len && name_len) {
		rc = buf_append(&n->path, "/", 1, e);
	}
	return rc < 0 ? rc : buf_append(&n->path, name, name_len, e);
}

int
send_name_error(struct lane *n, struct err *e)
{
	char shown[2048];

	if (n->link_failed || e->code == E_CANCELLED) {
		return e->code;
	}
	return err_wrap(e, "%s",
			escape_bytes(shown, sizeof(shown), n->path.data,
				     n->path.len));
}

bool
send_forgiven(const struct pass *p, const struct err *e)
{
	if (!p->o->live) {
		return false;
	}
	/* A symlink, a mount or a file in the place of a directory. */
	return e->code == E_NOT_FOUND || e->code == E_CHANGED ||
	       (e->code == E_DENIED && (e->sys == ELOOP || e->sys == EXDEV)) ||
	       (e->code == E_SYSTEM && e->sys == ENOTDIR);
}

/* ---- the callbacks without a ledger ---- */

static void
sum_name(struct pass *p, struct lane *n, const struct item *it, bool first)
{
	struct digest d;

	n->part.proof.entries++;
	if (it->group) {
		d = proof_link(p->key, (char *)n->path.data, n->path.len,
			       it->group, n->scratch);
		send_add(n, &d);
	}
	if (first) {
		d = send_file_proof(p, n, it, it->group);
		send_add(n, &d);
	}
}

/* One number for one inode of the tree. Each subvolume of btrfs has inode
 * numbers of its own, and a snapshot even those of what it was made from: what
 * is not on the root's device gets a number from both, under a random key. */
static uint64_t
inode_number(const struct pass *p, const struct statx *stx)
{
	uint64_t v[2] = { devno_of(stx), stx->stx_ino };

	return v[0] == p->rootdev ? v[1] : digest_hash64(p->key, v, sizeof(v));
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
	v.group = send_new_id(p);
	rc = inomap_add(p->groups, inode_number(p, &it->stx), &v, &old, e);
	if (rc == E_EXISTS) {
		it->group = old.group;
		return 1;
	}
	it->group = v.group;
	return rc;
}

static int
on_entry(struct scan_dir *d, const char *name, size_t name_len,
	 const struct statx *stx, void *arg, struct err *e)
{
	struct pass *p = arg;
	struct lane *n = &p->lane[d->thread];
	struct item it = { .dirfd = d->fd,
			   .dir = d->id,
			   .name = name,
			   .name_len = name_len,
			   .fd = -1,
			   .stx = *stx };
	int rc, further;

	if (S_ISDIR(stx->stx_mode)) {
		return 0;
	}
	rc = send_stopped(p, e);
	if (rc == 0) {
		rc = send_path(n, d->path, d->path_len, name, name_len, e);
	}
	further = rc = rc < 0 ? rc : find_group(p, &it, e);
	if (rc == 1) {
		rc = send_file_link(p, n, &it, e);
	} else if (rc == 0 && S_ISREG(stx->stx_mode)) {
		rc = send_file_regular(p, n, &it, e);
	} else if (rc == 0) {
		rc = send_file_special(p, n, &it, e);
	}
	if (rc == 0) {
		sum_name(p, n, &it, further == 0);
	}
	send_file_done(&it);
	if (rc == E_NOT_FOUND) {
		rc = err_recode(e, E_CHANGED, "vanished");
	}
	return rc < 0 ? send_name_error(n, e) : 0;
}

/* Send a directory's entry; its own definition goes ahead. */
static int
put_dir(struct pass *p, struct lane *n, const struct scan_dir *d,
	const struct meta *m, struct err *e)
{
	uint32_t wire;
	int rc = send_prepare(p, n, d->id, tree_entry_size(m, d->name_len),
			      &wire, e);

	if (rc == 0) {
		tree_put_entry(&n->body, wire, false,
			       send_dirs_wire(p->dirs, d->parent), d->name,
			       d->name_len, m);
		send_count(p, n, 0);
		n->part.dirs++;
	}
	return rc;
}

static int
on_dir(struct scan_dir *d, const struct statx *stx, void *arg, struct err *e)
{
	struct pass *p = arg;
	struct lane *n = &p->lane[d->thread];
	struct item it = { .fd = -1 };
	int rc;

	n->dir_stx = *stx;
	rc = send_path(n, d->path, d->path_len, "", 0, e);
	if (rc == 0) {
		rc = send_file_settle(d->fd, stx, e);
	}
	if (rc == 0) {
		rc = send_file_meta(p, d->fd, "", d->fd, stx, &it.m, e);
	}
	if (rc == 0 && d->id != TREE_ROOT) {
		rc = send_dirs_add(p->dirs, d->id, d->parent, d->name,
				   d->name_len, e);
	}
	if (rc == 0) {
		rc = put_dir(p, n, d, &it.m, e);
	}
	if (rc == 0) {
		if (d->id == TREE_ROOT) {
			it.m.flags &= ~PROOF_ROOT_LATE;
		}
		sum_name(p, n, &it, true);
	}
	send_file_done(&it);
	return rc < 0 ? send_name_error(n, e) : 0;
}

/* A name made or removed while the directory was listed may have been missed:
 * then its times tell. */
static int
on_dir_end(struct scan_dir *d, void *arg, struct err *e)
{
	struct pass *p = arg;
	struct lane *n = &p->lane[d->thread];
	int rc = send_file_unchanged(d->fd, &n->dir_stx, e);
	char shown[2048];

	return rc < 0 ? err_wrap(e, "%s",
				 escape_bytes(shown, sizeof(shown), d->path,
					      d->path_len))
		      : 0;
}

int
send_on_mount(const char *path, size_t path_len, void *arg, struct err *e)
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
	return n > SEND_THREADS_MAX ? SEND_THREADS_MAX : (unsigned)n;
}

static void
pass_fini(struct pass *p)
{
	for (unsigned i = 0; i < SEND_THREADS_MAX; i++) {
		pool_put(p->lane[i].f);
		digest_free(p->lane[i].scratch);
		buf_fini(&p->lane[i].defined);
		buf_fini(&p->lane[i].path);
		buf_fini(&p->lane[i].names);
	}
	for (size_t i = 0; i < p->nmounts; i++) {
		free(p->mounts[i]);
	}
	free(p->mounts);
	buf_fini(&p->late);
	inomap_free(p->groups);
	send_dirs_free(p->dirs);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static struct pass *
pass_new(int rootfd, struct link *l, const struct digest_key *key,
	 const struct send_opts *o, struct err *e)
{
	struct pass *p;
	struct stat st;
	bool ok;

	if (fstat(rootfd, &st) < 0) {
		err_sys(e, errno, "cannot stat the root");
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	p->rootfd = rootfd;
	p->rootdev = st.st_dev;
	p->l = l;
	p->key = key;
	p->o = o;
	p->led = o->ledger;
	p->next_id = p->led ? ledger_ids(p->led) : &p->own_id;
	p->threads = thread_count(o);
	p->pool = link_pool(l);
	p->dirs = send_dirs_new(e);
	p->groups = inomap_new(e);
	buf_init(&p->late, LISTS_MAX);
	ok = p->dirs && p->groups;
	for (unsigned i = 0; i < SEND_THREADS_MAX; i++) {
		p->lane[i].number = i;
		buf_init(&p->lane[i].path, SCAN_PATH_MAX + 512);
		buf_init(&p->lane[i].defined, 1 << 20);
		buf_init(&p->lane[i].names, LISTS_MAX);
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
	for (unsigned i = 0; i < SEND_THREADS_MAX; i++) {
		struct send_result *s = &p->lane[i].part;

		digest_sum(&r->proof.sum, &s->proof.sum);
		r->proof.entries += s->proof.entries;
		r->files += s->files;
		r->dirs += s->dirs;
		r->links += s->links;
		r->others += s->others;
		r->bytes += s->bytes;
		r->sent_entries += s->sent_entries;
		r->changed_entries += s->changed_entries;
		r->reread_bytes += s->reread_bytes;
		r->suspects += s->suspects;
		r->suspect_bytes += s->suspect_bytes;
	}
	r->sent_bytes = r->bytes;
	r->proof.bytes = p->led ? ledger_add_bytes(p->led, r->bytes) : r->bytes;
	r->mounts = steal_ptr(&p->mounts);
	r->nmounts = p->nmounts;
	p->nmounts = 0;
}

int64_t
send_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What the walk would have taken if nothing had differed: less what the
 * busiest thread spent on such things. */
static int64_t
walk_ms(const struct pass *p, int64_t whole_ns)
{
	int64_t busy = 0;

	for (unsigned i = 0; i < p->threads; i++) {
		busy = p->lane[i].busy_ns > busy ? p->lane[i].busy_ns : busy;
	}
	return whole_ns < busy ? 0 : (whole_ns - busy) / 1000000;
}

static int
flush_all(struct pass *p, struct err *e)
{
	int rc = 0;

	for (unsigned i = 0; i < SEND_THREADS_MAX && rc == 0; i++) {
		rc = send_flush(p, &p->lane[i], e);
	}
	return rc;
}

static int
run(struct pass *p, struct send_result *r, struct err *e)
{
	static const struct scan_ops ops = { .on_dir = on_dir,
					     .on_entry = on_entry,
					     .on_dir_end = on_dir_end,
					     .on_mount = send_on_mount };
	struct scan_opts so = { .threads = p->threads,
				.mask = STATX_BASIC_STATS | STATX_BTIME };
	int64_t from;
	int rc = p->led ? send_update_begin(p, e) : 0;

	from = send_now_ns();
	if (rc == 0) {
		rc = scan_tree(p->rootfd, &so, p->led ? &send_update_ops : &ops,
			       p, e);
	}
	r->walk_ms = walk_ms(p, send_now_ns() - from);
	if (rc == 0 && p->led) {
		p->walked = true;
		rc = send_groups(p, e);
		rc = rc < 0 ? rc : send_update_late(p, &p->lane[0], e);
		send_update_end(p);
	}
	return rc < 0 ? rc : flush_all(p, e);
}

int
send_tree(int rootfd, struct link *l, const struct digest_key *key,
	  const struct send_opts *o, struct send_result *r, struct err *e)
{
	struct err own = { 0 };
	struct pass *p;
	int rc;

	e = e ? e : &own; /* what may be forgiven is looked for in it */
	*r = (struct send_result){ 0 };
	p = pass_new(rootfd, l, key, o, e);
	if (!p) {
		return e->code;
	}
	rc = run(p, r, e);
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
