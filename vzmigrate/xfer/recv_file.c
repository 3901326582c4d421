/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_file: a short list of files under one mutex; each file has a mutex of
 * its own for its opening, its counts and digests. Where both are held, the
 * table's is taken first. Chunks are written under neither, but one at a time:
 * the kernel lets only one thread write to a file in any case, and has the
 * others spin for it, on processors that sshd could use.
 */
#include "xfer/recv_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "fs/beneath.h"
#include "fs/content.h"
#include "fs/iflags.h"
#include "xfer/blocktab.h"
#include "xfer/dirtab.h"
#include "xfer/proof.h"

/* Of an UPDATE; they come in order. */
struct hole {
	uint64_t off, len;
};

struct recv_file {
	struct recv_file *next; /* in the table */
	uint32_t id, dir;
	char name[256];
	bool in_place;	/* TREE_UPDATE */
	uint64_t size;	/* as defined; the end may not differ */
	uint32_t flags; /* to be set while it is empty */
	uint32_t projid;
	unsigned refs; /* under the table's lock */
	bool finished; /* out of the table; freed with the last reference */

	pthread_mutex_t writing; /* taken for each write alone */
	pthread_mutex_t lock;
	int fd;		  /* -1: not opened yet */
	struct buf holes; /* of struct hole; done with once it is open */
	bool ended;	  /* the end record came */
	bool claimed;
	uint64_t begun, got;   /* chunks */
	uint64_t want;	       /* as the end says */
	struct meta meta;      /* from the end record; owned */
	struct inomap_value v; /* v.blocks: owned, NULL where not kept */
};

struct recv_files {
	pthread_mutex_t lock;
	struct inomap *inodes; /* borrowed */
	enum meta_policy policy;
	bool track;  /* keep tables of blocks */
	bool update; /* the tree is not empty */
	struct recv_file *first;
	size_t count;
	size_t holes; /* of all of them */
};

struct recv_files *
recv_files_new(struct inomap *inodes, enum meta_policy policy, bool track,
	       struct err *e)
{
	struct recv_files *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	t->inodes = inodes;
	t->policy = policy;
	t->track = track;
	return t;
}

void
recv_files_update(struct recv_files *t)
{
	pthread_mutex_lock(&t->lock);
	t->update = true;
	t->track = true;
	pthread_mutex_unlock(&t->lock);
}

static void
file_free(struct recv_file *f)
{
	close_fd(&f->fd);
	blocktab_free(f->v.blocks);
	buf_fini(&f->holes);
	meta_fini(&f->meta);
	pthread_mutex_destroy(&f->writing);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

void
recv_files_free(struct recv_files *t)
{
	if (!t) {
		return;
	}
	while (t->first) {
		struct recv_file *f = t->first;

		t->first = f->next;
		file_free(f);
	}
	pthread_mutex_destroy(&t->lock);
	free(t);
}

size_t
recv_files_count(struct recv_files *t)
{
	size_t n;

	pthread_mutex_lock(&t->lock);
	n = t->count;
	pthread_mutex_unlock(&t->lock);
	return n;
}

void
recv_files_lock(struct recv_files *t)
{
	pthread_mutex_lock(&t->lock);
}

void
recv_files_unlock(struct recv_files *t)
{
	pthread_mutex_unlock(&t->lock);
}

static struct recv_file *
find(struct recv_files *t, uint32_t id)
{
	struct recv_file *f = t->first;

	while (f && f->id != id) {
		f = f->next;
	}
	return f;
}

static bool
same(const struct recv_file *f, const struct tree_record *r)
{
	return f->in_place == (r->kind == TREE_UPDATE) && f->dir == r->dir &&
	       f->size == r->size && strlen(f->name) == r->name_len &&
	       memcmp(f->name, r->name, r->name_len) == 0;
}

static struct recv_file *
file_new(const struct tree_record *r)
{
	struct recv_file *f = calloc(1, sizeof(*f));

	if (!f) {
		return NULL;
	}
	pthread_mutex_init(&f->writing, NULL);
	pthread_mutex_init(&f->lock, NULL);
	buf_init(&f->holes, RECV_HOLES_MAX * sizeof(struct hole));
	f->id = r->id;
	f->dir = r->dir;
	f->in_place = r->kind == TREE_UPDATE;
	f->size = r->size;
	f->flags = r->flags;
	f->projid = r->projid;
	f->fd = -1;
	memcpy(f->name, r->name, r->name_len);
	return f;
}

int
recv_file_define(struct recv_files *t, const struct tree_record *r,
		 struct err *e)
{
	struct recv_file *f = find(t, r->id);
	int rc = 0;

	if (r->kind == TREE_UPDATE && !t->update) {
		rc = err_set(e, E_PROTOCOL, "an update in the first pass");
	} else if (f) {
		rc = same(f, r) ? 0
				: err_set(e, E_PROTOCOL,
					  "file %u defined twice", r->id);
	} else if (t->count >= RECV_FILES_MAX) {
		rc = err_set(e, E_PROTOCOL, "more than %d large files at once",
			     RECV_FILES_MAX);
	} else if (!(f = file_new(r))) {
		rc = err_nomem(e);
	} else {
		f->next = t->first;
		t->first = f;
		t->count++;
	}
	return rc;
}

int
recv_file_get(struct recv_files *t, uint32_t id, struct recv_file **out,
	      struct err *e)
{
	struct recv_file *f;

	pthread_mutex_lock(&t->lock);
	f = find(t, id);
	if (f) {
		f->refs++;
	}
	pthread_mutex_unlock(&t->lock);
	*out = f;
	return f ? 0 : err_set(e, E_PROTOCOL, "file %u is not defined", id);
}

uint32_t
recv_file_dir(const struct recv_file *f)
{
	return f->dir;
}

const char *
recv_file_name(const struct recv_file *f)
{
	return f->name;
}

int
recv_file_early(int fd, const struct meta *m, enum meta_policy policy,
		struct err *e)
{
	struct meta_loss loss;
	int rc;

	if (policy == META_STRICT) {
		return meta_apply_early(fd, m, NULL, e);
	}
	meta_loss_init(&loss);
	rc = meta_apply_early(fd, m, &loss, e);
	meta_loss_fini(&loss);
	return rc;
}

bool
recv_file_in_place(const struct recv_file *f)
{
	return f->in_place;
}

int
recv_file_create(int dirfd, const char *name, bool update, mode_t mode,
		 struct err *e)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL;
	int fd = beneath_open(dirfd, name, flags, mode, e);
	int rc;

	if (fd != E_EXISTS || !update) {
		return fd;
	}
	/* What stands there goes first, rather than being renamed over: nobody
	 * reads this tree before its proof, and the disk need not hold both. */
	rc = dirtab_displace(dirfd, name, e);
	return rc < 0 ? rc : beneath_open(dirfd, name, flags, mode, e);
}

static int
create(const struct recv_files *t, struct recv_file *f, int dirfd,
       struct err *e)
{
	struct meta early = { .type = FS_REG,
			      .flags = f->flags,
			      .projid = f->projid };
	cleanup(close_fd) int fd =
		recv_file_create(dirfd, f->name, t->update, 0600, e);
	int rc;

	if (fd < 0) {
		return fd;
	}
	if (f->flags || f->projid || t->update) {
		rc = recv_file_early(fd, &early, t->policy, e);
		if (rc < 0) {
			return rc;
		}
	}
	if (t->track) {
		f->v.blocks = blocktab_new(e);
		if (!f->v.blocks) {
			return e ? e->code : E_NOMEM;
		}
	}
	if (ftruncate(fd, (off_t)f->size) < 0) {
		return err_sys(e, errno, "cannot set the size of %s", f->name);
	}
	return steal_fd(&fd);
}

/* ---- in place ---- */

static int
add_hole(struct recv_files *t, struct recv_file *f, const struct tree_record *r,
	 struct err *e)
{
	const struct hole *h = (const struct hole *)f->holes.data;
	size_t n = f->holes.len / sizeof(*h);
	struct hole new = { r->off, r->len };
	uint64_t end;

	if (!f->in_place || __builtin_add_overflow(r->off, r->len, &end) ||
	    end > f->size || r->off % TREE_BLOCK ||
	    (r->len % TREE_BLOCK && end != f->size)) {
		return err_set(e, E_PROTOCOL, "a hole that file %u cannot have",
			       f->id);
	}
	for (size_t i = n; i-- > 0 && h[i].off >= r->off;) {
		if (h[i].off == r->off && h[i].len == r->len) {
			return 0; /* said before */
		}
	}
	if (f->fd >= 0 || (n && r->off < h[n - 1].off + h[n - 1].len)) {
		return err_set(e, E_PROTOCOL,
			       "a hole of file %u comes late or overlaps",
			       f->id);
	}
	if (t->holes >= RECV_HOLES_MAX) {
		return err_set(e, E_LIMIT, "more than %u holes wait",
			       RECV_HOLES_MAX);
	}
	t->holes++;
	return buf_append(&f->holes, &new, sizeof(new), e);
}

int
recv_file_hole(struct recv_files *t, const struct tree_record *r, struct err *e)
{
	struct recv_file *f = find(t, r->id);
	int rc;

	if (!f) {
		return err_set(e, E_PROTOCOL,
			       "a hole of file %u, which is not under way",
			       r->id);
	}
	pthread_mutex_lock(&f->lock);
	rc = add_hole(t, f, r, e);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

/* For writing, also where it is immutable or append-only. */
static int
open_there(int dirfd, const char *name, struct statx *stx, struct err *e)
{
	cleanup(close_fd) int fd = -1;
	struct err why = { 0 };
	int rc = beneath_open_reg(dirfd, name, O_WRONLY, stx, &why);

	if (rc != E_SYSTEM || why.sys != EPERM) {
		if (rc < 0 && e) {
			*e = why;
		}
		return rc;
	}
	fd = beneath_open_reg(dirfd, name, O_RDONLY | O_NOATIME, NULL, e);
	rc = fd < 0 ? fd : iflags_unlock(fd, NULL, e);
	return rc < 0 ? rc : beneath_open_reg(dirfd, name, O_WRONLY, stx, e);
}

int
recv_file_split_error(struct err *e)
{
	return err_set(e, E_UNSUPPORTED,
		       "has more hard links than this file system can give "
		       "to one file, so it cannot be changed in a later pass; "
		       "move the container while it is stopped");
}

static int
resize(struct recv_file *f, int fd, uint64_t old, struct err *e)
{
	if (f->size == old) {
		return 0;
	}
	/* The block that the new end cuts comes again. */
	blocktab_drop(f->v.blocks, f->size / TREE_BLOCK, UINT64_MAX,
		      &f->v.content);
	if (ftruncate(fd, (off_t)f->size) < 0) {
		return err_sys(e, errno, "cannot set the size of %s", f->name);
	}
	return 0;
}

static int
punch(struct recv_file *f, int fd, struct err *e)
{
	const struct hole *h = (const struct hole *)f->holes.data;
	size_t n = f->holes.len / sizeof(*h);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		/* Beyond the end too, so that nothing stays of the last
		 * block. */
		uint64_t blocks = (h[i].len + TREE_BLOCK - 1) / TREE_BLOCK;
		uint64_t first = h[i].off / TREE_BLOCK;

		blocktab_drop(f->v.blocks, first, first + blocks,
			      &f->v.content);
		rc = content_punch(fd, h[i].off, blocks * TREE_BLOCK, f->name,
				   e);
	}
	return rc;
}

static int
reopen(const struct recv_files *t, struct recv_file *f, int dirfd,
       struct err *e)
{
	struct statx stx;
	cleanup(close_fd) int fd = open_there(dirfd, f->name, &stx, e);
	int rc;

	if (fd < 0) {
		return fd;
	}
	if (!inomap_take(t->inodes, stx.stx_ino, &f->v)) {
		f->v = (struct inomap_value){ 0 };
	}
	if (f->v.split) {
		return recv_file_split_error(e);
	}
	if (!f->v.blocks) {
		return err_set(e, E_PROTOCOL,
			       "an update of what did not come in chunks");
	}
	rc = resize(f, fd, stx.stx_size, e);
	if (rc == 0) {
		rc = punch(f, fd, e);
	}
	return rc < 0 ? rc : steal_fd(&fd);
}

static int
surplus(const struct recv_file *f, struct err *e)
{
	return err_set(e, E_PROTOCOL, "more chunks of file %u than it has",
		       f->id);
}

int
recv_file_open(struct recv_files *t, struct recv_file *f, int dirfd,
	       struct err *e)
{
	int fd;

	pthread_mutex_lock(&f->lock);
	if (f->claimed) {
		f->fd = f->fd >= 0 ? f->fd : surplus(f, e);
	} else if (f->fd < 0) {
		f->fd = f->in_place ? reopen(t, f, dirfd, e)
				    : create(t, f, dirfd, e);
	}
	fd = f->fd;
	if (fd < 0) {
		f->fd = -1;
	}
	pthread_mutex_unlock(&f->lock);
	return fd;
}

/* ---- content ---- */

/* Nobody may still write when the last chunk is counted and the file closed,
 * whatever a peer sends. */
static int
begin_chunk(struct recv_file *f, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&f->lock);
	if (f->claimed || (f->ended && f->begun >= f->want)) {
		rc = surplus(f, e);
	} else {
		f->begun++;
	}
	pthread_mutex_unlock(&f->lock);
	return rc;
}

/* Under the lock: take in the digests of a chunk's parts. */
static int
note_parts(struct recv_file *f, const struct digest_key *k, uint64_t off,
	   const uint8_t *data, size_t len, struct err *e)
{
	int rc = 0;

	while (len && rc == 0) {
		size_t n = TREE_BLOCK - off % TREE_BLOCK;
		struct digest d = { 0 };
		bool whole;

		n = n < len ? n : len;
		whole = off % TREE_BLOCK == 0 &&
			(n == TREE_BLOCK || off + n == f->size);
		pthread_mutex_unlock(&f->lock);
		proof_piece(k, off, data, n, &d);
		pthread_mutex_lock(&f->lock);
		rc = blocktab_put(f->v.blocks, off / TREE_BLOCK, &d, whole,
				  &f->v.content, e);
		off += n;
		data += n;
		len -= n;
	}
	return rc;
}

int
recv_file_chunk(struct recv_file *f, const struct digest_key *k, uint64_t off,
		const void *data, size_t len, const char *path, struct err *e)
{
	struct digest d = { 0 };
	uint64_t end;
	int rc;

	if (__builtin_add_overflow(off, len, &end) || end > f->size) {
		return err_set(e, E_PROTOCOL,
			       "a chunk beyond the end of file %u", f->id);
	}
	rc = begin_chunk(f, e);
	if (rc == 0) {
		pthread_mutex_lock(&f->writing);
		rc = content_write(f->fd, data, len, off, path, e);
		pthread_mutex_unlock(&f->writing);
	}
	if (rc < 0) {
		return rc;
	}
	if (!f->v.blocks) {
		proof_piece(k, off, data, len, &d);
	}
	pthread_mutex_lock(&f->lock);
	if (f->v.blocks) {
		rc = note_parts(f, k, off, data, len, e);
	} else {
		digest_sum(&f->v.content, &d);
	}
	f->got++;
	pthread_mutex_unlock(&f->lock);
	return rc;
}

int
recv_file_end(struct recv_file *f, const struct tree_record *r, struct err *e)
{
	int rc;

	pthread_mutex_lock(&f->lock);
	if (f->ended || r->meta.size != f->size || r->chunks < f->begun) {
		rc = err_set(e, E_PROTOCOL, "file %u ended wrongly", f->id);
	} else if (f->in_place && f->v.group != (r->linked ? r->id : 0)) {
		rc = err_set(e, E_PROTOCOL,
			     "an update of a file of another group");
	} else {
		rc = meta_copy(&f->meta, &r->meta, e);
		f->want = r->chunks;
		f->v.group = r->linked ? r->id : 0;
		f->ended = rc == 0;
	}
	pthread_mutex_unlock(&f->lock);
	return rc;
}

bool
recv_file_claim(struct recv_file *f, struct recv_file_whole *w)
{
	bool mine;

	pthread_mutex_lock(&f->lock);
	mine = f->ended && !f->claimed && f->got == f->want;
	if (mine) {
		f->claimed = true;
		*w = (struct recv_file_whole){ &f->meta, f->v, f->in_place,
					       f->fd };
		f->v.blocks = NULL;
	}
	pthread_mutex_unlock(&f->lock);
	return mine;
}

int
recv_file_finish(struct recv_files *t, struct recv_file *f, struct err *e)
{
	int fd;

	/* All chunks are written and the file is claimed: nobody else uses
	 * its descriptor any more. */
	pthread_mutex_lock(&f->lock);
	fd = steal_fd(&f->fd);
	pthread_mutex_unlock(&f->lock);
	if (close(fd) < 0) {
		return err_sys(e, errno, "cannot close");
	}
	pthread_mutex_lock(&t->lock);
	for (struct recv_file **at = &t->first; *at; at = &(*at)->next) {
		if (*at == f) {
			*at = f->next;
			t->count--;
			t->holes -= f->holes.len / sizeof(struct hole);
			break;
		}
	}
	f->finished = true;
	pthread_mutex_unlock(&t->lock);
	return 0;
}

void
recv_file_put(struct recv_files *t, struct recv_file *f)
{
	bool last;

	pthread_mutex_lock(&t->lock);
	last = --f->refs == 0 && f->finished;
	pthread_mutex_unlock(&t->lock);
	if (last) {
		file_free(f);
	}
}
