/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_proof: the read-back. Each scan thread has its own sum; they are
 * joined at the end. Groups are counted once through a table of their ids.
 *
 * All names are looked at each time; what was read back before, and has the
 * same ctime still, is not opened again: a file without flags and attributes
 * when it was made, and everything before the container was stopped.
 */
#include "xfer/recv_proof.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "fs/beneath.h"
#include "fs/meta.h"
#include "fs/scan.h"
#include "wire/tree.h"
#include "xfer/proof.h"

#define THREADS_MAX 8
#define PAGE_BYTES (384u << 10)

struct part {
	struct digest sum;
	uint64_t entries;
	struct digest_state *scratch; /* owned */
	struct buf path;	      /* of the entry at hand */
};

/* The name at hand; borrowed. */
struct at {
	unsigned thread;
	const char *path;
	size_t path_len;
	const struct statx *stx;
	bool known; /* in the map of inodes, as v */
	struct inomap_value v;
};

struct walk {
	const struct recv_proof_in *in;
	struct inomap *groups;	      /* group id -> digest of what was seen */
	struct recv_proof_page *page; /* or NULL */
	uint32_t listed;	      /* entries in the page */
	uint64_t number;	      /* entries met, for the page */
	struct part part[THREADS_MAX];
};

/* Ends a walk whose page is full; no error for anybody outside. */
#define PAGE_FULL E_LIMIT

static int
list_entry(struct walk *w, struct part *p, const char *path, size_t path_len,
	   const struct meta *m, const struct digest *content, struct err *e)
{
	struct digest d;
	struct enc n;

	if (w->number++ < w->page->from) {
		return 0;
	}
	if (w->page->reply->len + path_len > PAGE_BYTES && w->listed) {
		return err_set(e, PAGE_FULL, "page is full");
	}
	d = proof_name(w->in->key, path, path_len, m, content, p->scratch);
	enc_init(&n, w->page->reply, e);
	enc_bytes(&n, path, path_len);
	enc_raw(&n, d.b, DIGEST_LEN);
	w->listed++;
	return n.rc;
}

static int
sum_group(struct walk *w, struct part *p, uint32_t group,
	  const struct digest *d, struct err *e)
{
	struct inomap_value v = { .content = *d }, old;
	int rc = inomap_add(w->groups, group, &v, &old, e);

	/* A group split over several inodes: all must be alike. One that is
	 * not spoils the sum, as it should. */
	if (rc == 0 || (rc == E_EXISTS && !digest_eq(&old.content, d))) {
		digest_sum(&p->sum, d);
	}
	return rc == E_EXISTS ? 0 : rc;
}

/* What the inode at hand adds: with the path in it, or for a group without. */
static int
sum_inode(struct walk *w, struct part *p, const char *path, size_t path_len,
	  uint32_t group, const struct digest *d, struct err *e)
{
	struct digest link;

	p->entries++;
	if (!group) {
		digest_sum(&p->sum, d);
		return 0;
	}
	link = proof_link(w->in->key, path, path_len, group, p->scratch);
	digest_sum(&p->sum, &link);
	return sum_group(w, p, group, d, e);
}

static int
sum_entry(struct walk *w, const struct at *a, const struct meta *m,
	  struct err *e)
{
	struct part *p = &w->part[a->thread];
	const struct digest *content =
		m->type == FS_REG && a->known ? &a->v.content : NULL;
	struct digest d;
	int rc = 0;

	if (w->page) {
		return list_entry(w, p, a->path, a->path_len, m, content, e);
	}
	d = a->v.group ? proof_group(w->in->key, a->v.group, m, content,
				     p->scratch)
		       : proof_name(w->in->key, a->path, a->path_len, m,
				    content, p->scratch);
	if (w->in->fill) {
		rc = proofcache_note(w->in->fill, a->thread, a->stx, &d, e);
	}
	return rc < 0 ? rc
		      : sum_inode(w, p, a->path, a->path_len, a->v.group, &d,
				  e);
}

/* An inode that was read back before and is as it was then: 1. */
static int
sum_again(struct walk *w, const struct at *a, struct err *e)
{
	struct digest d;
	int rc = 0;

	if (w->page || !w->in->cache ||
	    !proofcache_get(w->in->cache, a->stx, &d)) {
		return 0;
	}
	if (w->in->fill) {
		rc = proofcache_note(w->in->fill, a->thread, a->stx, &d, e);
	}
	if (rc == 0) {
		rc = sum_inode(w, &w->part[a->thread], a->path, a->path_len,
			       a->v.group, &d, e);
	}
	return rc < 0 ? rc : 1;
}

static int
name_error(int rc, const struct scan_dir *d, const char *name, struct err *e)
{
	char dir[1024], shown[1024];

	if (rc == PAGE_FULL) {
		return rc;
	}
	escape_bytes(dir, sizeof(dir), d->path, d->path_len);
	escape_bytes(shown, sizeof(shown), name, strlen(name));
	return err_wrap(e, "%s%s%s", dir, d->path_len && *name ? "/" : "",
			shown);
}

static int
on_dir(struct scan_dir *d, const struct statx *stx, void *arg, struct err *e)
{
	struct walk *w = arg;
	const struct at a = { .thread = d->thread,
			      .path = d->path,
			      .path_len = d->path_len,
			      .stx = stx };
	struct meta m = { 0 };
	int rc = sum_again(w, &a, e);

	if (rc != 0) {
		return rc < 0 ? name_error(rc, d, "", e) : 0;
	}
	rc = meta_read(d->fd, "", d->fd, stx, &m, NULL, e);
	if (rc == 0) {
		if (d->id == TREE_ROOT) {
			m.flags &= ~PROOF_ROOT_LATE;
		}
		rc = losses_restore(w->in->losses, stx->stx_ino, &m, e);
	}
	if (rc == 0) {
		rc = sum_entry(w, &a, &m, e);
	}
	meta_fini(&m);
	return rc < 0 ? name_error(rc, d, "", e) : 0;
}

static int
read_entry(struct walk *w, struct scan_dir *d, const char *name,
	   const struct at *a, struct meta *m, struct err *e)
{
	const struct statx *stx = a->stx;
	cleanup(close_fd) int fd = -1;
	int rc = 0;

	/* After a mismatch nothing is taken for granted. */
	if (a->v.plain && a->v.plain == meta_ctime(stx) && !w->page &&
	    S_ISREG(stx->stx_mode)) {
		return meta_of_stat(stx, m, e);
	}
	if (S_ISREG(stx->stx_mode)) {
		/* The staging area is ours alone. */
		fd = beneath_open_own(d->fd, name, O_RDONLY | O_NOATIME, e);
		rc = fd < 0 ? fd : 0;
	}
	if (rc == 0) {
		rc = meta_read(d->fd, name, fd, stx, m, NULL, e);
	}
	return rc < 0 ? rc : losses_restore(w->in->losses, stx->stx_ino, m, e);
}

static int
path_of(struct part *p, const struct scan_dir *d, const char *name,
	size_t name_len, struct err *e)
{
	int rc = 0;

	buf_clear(&p->path);
	if (d->path_len) {
		rc = buf_append(&p->path, d->path, d->path_len, e);
		if (rc == 0) {
			rc = buf_append(&p->path, "/", 1, e);
		}
	}
	return rc < 0 ? rc : buf_append(&p->path, name, name_len, e);
}

static int
on_entry(struct scan_dir *d, const char *name, size_t name_len,
	 const struct statx *stx, void *arg, struct err *e)
{
	struct walk *w = arg;
	struct part *p = &w->part[d->thread];
	struct at a = { .thread = d->thread, .stx = stx };
	struct meta m = { 0 };
	int rc;

	if (S_ISDIR(stx->stx_mode)) {
		return 0;
	}
	rc = path_of(p, d, name, name_len, e);
	if (rc == 0) {
		a.path = (char *)p->path.data;
		a.path_len = p->path.len;
		a.known = inomap_get(w->in->inodes, stx->stx_ino, &a.v);
		rc = sum_again(w, &a, e);
	}
	if (rc == 0) {
		rc = read_entry(w, d, name, &a, &m, e);
		if (rc == 0) {
			rc = sum_entry(w, &a, &m, e);
		}
	}
	meta_fini(&m);
	return rc < 0 ? name_error(rc, d, name, e) : 0;
}

static int
walk(struct walk *w, struct err *e)
{
	static const struct scan_ops ops = { .on_dir = on_dir,
					     .on_entry = on_entry };
	struct scan_opts o = { .threads = w->page ? 1 : 0 };
	int rc = 0;

	for (unsigned i = 0; i < THREADS_MAX && rc == 0; i++) {
		buf_init(&w->part[i].path, SCAN_PATH_MAX + 512);
		w->part[i].scratch = digest_new(w->in->key, e);
		rc = w->part[i].scratch ? 0 : E_NOMEM;
	}
	if (rc == 0) {
		rc = scan_tree(w->in->rootfd, &o, &ops, w, e);
	}
	for (unsigned i = 0; i < THREADS_MAX; i++) {
		digest_free(w->part[i].scratch);
		buf_fini(&w->part[i].path);
	}
	return rc;
}

int
recv_proof_walk(const struct recv_proof_in *in, struct msg_proof *p,
		struct recv_proof_page *page, struct err *e)
{
	struct walk w = { .in = in, .page = page };
	size_t at = page ? page->reply->len : 0;
	int rc = 0;

	*p = (struct msg_proof){ 0 };
	w.groups = inomap_new(e);
	if (!w.groups) {
		return E_NOMEM;
	}
	if (page) {
		rc = buf_append(page->reply, "\0\0\0\0", 4, e);
	}
	if (rc == 0) {
		rc = walk(&w, e);
	}
	if (rc == 0 && in->fill) {
		rc = proofcache_seal(in->fill, e);
	}
	inomap_free(w.groups);
	if (page && rc == PAGE_FULL) {
		rc = 0;
	}
	if (page && rc == 0) {
		tree_set_u32(page->reply->data + at, w.listed);
	}
	for (unsigned i = 0; i < THREADS_MAX; i++) {
		p->entries += w.part[i].entries;
		digest_sum(&p->sum, &w.part[i].sum);
	}
	return rc;
}
