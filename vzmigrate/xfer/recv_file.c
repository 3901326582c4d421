/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_file: a short list of files under one mutex; each file has a mutex of
 * its own for its opening and its counts. Chunks are written without it.
 */
#include "xfer/recv_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/beneath.h"
#include "fs/content.h"
#include "xfer/proof.h"

struct recv_file {
	struct recv_file *next; /* in the table */
	uint32_t id, dir;
	char name[256];
	uint64_t size;	/* as defined; the end may not differ */
	uint32_t flags; /* to be set while it is empty */
	uint32_t projid;
	unsigned refs; /* under the table's lock */
	bool finished; /* out of the table; freed with the last reference */

	pthread_mutex_t lock;
	int fd;	    /* -1: not opened yet */
	bool ended; /* the end record came */
	bool claimed;
	bool linked;
	uint64_t got, want;    /* chunks */
	struct meta meta;      /* from the end record; owned */
	struct digest content; /* sum of pieces */
};

struct recv_files {
	pthread_mutex_t lock;
	struct recv_file *first;
	size_t count;
};

struct recv_files *
recv_files_new(struct err *e)
{
	struct recv_files *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

static void
file_free(struct recv_file *f)
{
	close_fd(&f->fd);
	meta_fini(&f->meta);
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
	return f->dir == r->dir && f->size == r->size &&
	       strlen(f->name) == r->name_len &&
	       memcmp(f->name, r->name, r->name_len) == 0;
}

static struct recv_file *
file_new(const struct tree_record *r)
{
	struct recv_file *f = calloc(1, sizeof(*f));

	if (!f) {
		return NULL;
	}
	pthread_mutex_init(&f->lock, NULL);
	f->id = r->id;
	f->dir = r->dir;
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
	struct recv_file *f;
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	f = find(t, r->id);
	if (f) {
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
	pthread_mutex_unlock(&t->lock);
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

static int
create(struct recv_file *f, int dirfd, enum meta_policy policy, struct err *e)
{
	struct meta early = { .type = FS_REG,
			      .flags = f->flags,
			      .projid = f->projid };
	cleanup(close_fd) int fd = beneath_open(
		dirfd, f->name, O_WRONLY | O_CREAT | O_EXCL, 0600, e);
	int rc;

	if (fd < 0) {
		return fd;
	}
	if (f->flags || f->projid) {
		rc = recv_file_early(fd, &early, policy, e);
		if (rc < 0) {
			return rc;
		}
	}
	if (ftruncate(fd, (off_t)f->size) < 0) {
		return err_sys(e, errno, "cannot set the size of %s", f->name);
	}
	return steal_fd(&fd);
}

int
recv_file_open(struct recv_file *f, int dirfd, enum meta_policy policy,
	       struct err *e)
{
	int fd;

	pthread_mutex_lock(&f->lock);
	if (f->fd < 0) {
		f->fd = create(f, dirfd, policy, e);
	}
	fd = f->fd;
	if (fd < 0) {
		f->fd = -1;
	}
	pthread_mutex_unlock(&f->lock);
	return fd;
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
	rc = content_write(f->fd, data, len, off, path, e);
	if (rc < 0) {
		return rc;
	}
	proof_piece(k, off, data, len, &d);
	pthread_mutex_lock(&f->lock);
	digest_sum(&f->content, &d);
	f->got++;
	pthread_mutex_unlock(&f->lock);
	return 0;
}

int
recv_file_end(struct recv_file *f, const struct tree_record *r, struct err *e)
{
	int rc;

	pthread_mutex_lock(&f->lock);
	if (f->ended || r->meta.size != f->size) {
		rc = err_set(e, E_PROTOCOL, "file %u ended wrongly", f->id);
	} else {
		rc = meta_copy(&f->meta, &r->meta, e);
		f->want = r->chunks;
		f->linked = r->linked;
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
		*w = (struct recv_file_whole){ &f->meta, f->content, f->id,
					       f->linked, f->fd };
	}
	pthread_mutex_unlock(&f->lock);
	return mine;
}

int
recv_file_finish(struct recv_files *t, struct recv_file *f, struct err *e)
{
	/* All chunks are written and the file is claimed: nobody else uses
	 * its descriptor any more. */
	if (close(steal_fd(&f->fd)) < 0) {
		return err_sys(e, errno, "cannot close");
	}
	pthread_mutex_lock(&t->lock);
	for (struct recv_file **at = &t->first; *at; at = &(*at)->next) {
		if (*at == f) {
			*at = f->next;
			t->count--;
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
