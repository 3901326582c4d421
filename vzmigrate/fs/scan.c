/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: several threads take directories from one stack, read them, and put
 * what subdirectories they find back on it.
 *
 * In: a root descriptor. Out: callbacks. State: struct scan on the caller's
 * stack frame, everything in it under the pool's lock but the threads' own
 * buffers.
 *
 * Which directories there are, and their descriptors, is dirpool's.
 */
#include "fs/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "fs/beneath.h"
#include "fs/devno.h"
#include "fs/dirpool.h"

#define DENTS (128u << 10) /* bytes read from a directory at once */
#define DENT_MIN 24	   /* smallest linux_dirent64 */
#define THREADS_MAX 64

struct scan {
	const struct scan_ops *ops;
	void *arg;
	unsigned mask;
	int rootfd; /* borrowed */
	int bare;   /* the root's file system without the mounts on it,
		       made when first needed; -1 none, -2 cannot */
	struct dirpool pool;
	pthread_cond_t more; /* the stack has work, or all is done */
	struct dirnode *stack;
	unsigned busy;	 /* threads that visit */
	bool stop;	 /* failed: everybody goes home */
	struct err *err; /* the first failure */
	int rc;
	uint64_t next_id;
};

/* One thread's own things. */
struct worker {
	struct scan *s;
	unsigned number;
	char *dents;	  /* DENTS bytes */
	struct ent *ents; /* one per entry in it */
	char *path;	  /* of the directory visited */
	size_t path_len, path_cap;
	struct err err;
};

/* An entry in the buffer. */
struct ent {
	uint64_t ino;
	uint32_t at; /* of the name */
	uint32_t len;
};

static void
fail(struct scan *s, int rc, const struct err *e)
{
	pthread_mutex_lock(&s->pool.lock);
	if (!s->stop) {
		s->stop = true;
		s->rc = rc;
		if (s->err && e) {
			*s->err = *e;
		}
	}
	pthread_cond_broadcast(&s->more);
	pthread_mutex_unlock(&s->pool.lock);
}

static bool
stopped(struct scan *s)
{
	bool b;

	pthread_mutex_lock(&s->pool.lock);
	b = s->stop;
	pthread_mutex_unlock(&s->pool.lock);
	return b;
}

/* --- mounts --------------------------------------------------------------*/

/* A view of the root's file system without what is mounted over it. */
static int
bare_root(struct scan *s)
{
	int fd;

	pthread_mutex_lock(&s->pool.lock);
	if (s->bare == -1) {
		fd = (int)syscall(SYS_open_tree, s->rootfd, "",
				  1 /* OPEN_TREE_CLONE */ | O_CLOEXEC |
					  AT_EMPTY_PATH);
		s->bare = fd >= 0 ? fd : -2;
	}
	fd = s->bare;
	pthread_mutex_unlock(&s->pool.lock);
	return fd;
}

static bool
is_mount(const struct dirnode *dir, const struct statx *stx)
{
	if (stx->stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) {
		return stx->stx_attributes & STATX_ATTR_MOUNT_ROOT;
	}
	/* Before Linux 5.8. A directory that is a mount is found on opening;
	 * another device may also be a subvolume. */
	return !S_ISDIR(stx->stx_mode) && devno_of(stx) != dir->dev;
}

/* --- one entry -----------------------------------------------------------*/

/* Report that path/name cannot be read. 0: go on. */
static int
fault(struct worker *w, const char *name, size_t len, struct err *why)
{
	struct scan *s = w->s;
	size_t old = w->path_len;
	char shown[1024];
	int rc;

	if (len) {
		if (w->path_len) {
			w->path[w->path_len++] = '/';
		}
		memcpy(w->path + w->path_len, name, len);
		w->path_len += len;
	}
	if (s->ops->on_fault) {
		rc = s->ops->on_fault(w->path, w->path_len, why, s->arg);
		rc = rc > 0 ? 0 : rc;
	} else {
		escape_bytes(shown, sizeof(shown), w->path, w->path_len);
		rc = err_wrap(why, "%s", shown);
	}
	w->path_len = old;
	return rc;
}

/* Call on_mount for path/name. */
static int
tell_mount(struct worker *w, const char *name, size_t len)
{
	struct scan *s = w->s;
	size_t old = w->path_len;
	int rc = 0;

	if (s->ops->on_mount) {
		if (w->path_len) {
			w->path[w->path_len++] = '/';
		}
		memcpy(w->path + w->path_len, name, len);
		w->path_len += len;
		rc = s->ops->on_mount(w->path, w->path_len, s->arg, &w->err);
		w->path_len = old;
	}
	return rc;
}

/* Put a subdirectory into the batch. `fd` is -1, or an early opened
 * descriptor that is taken over. */
static int
add_dir(struct worker *w, struct scan_dir *d, struct dirnode *dir,
	const char *name, size_t len, int fd, struct dirnode **batch)
{
	struct dirnode *n = dirpool_node(dir, name, len, &w->err);

	if (!n) {
		close_fd(&fd);
		return E_NOMEM;
	}
	n->user = d->child;
	n->fd = fd;
	n->covered = fd >= 0;
	n->below = *batch;
	*batch = n;
	return 0;
}

/* Deliver what lies under a mount, where the kernel lets us look there. */
static int
covered(struct worker *w, struct scan_dir *d, struct dirnode *dir,
	const char *name, size_t len, struct dirnode **batch)
{
	struct scan *s = w->s;
	cleanup(close_fd) int at = -1;
	int rc = tell_mount(w, name, len), root, fd = -1, old = d->fd;
	struct statx stx;

	root = rc < 0 ? -1 : bare_root(s);
	if (root < 0) {
		return rc < 0 ? rc : 0;
	}
	at = beneath_open_dir(root, d->path, d->path_len, &w->err);
	if (at < 0) {
		return fault(w, name, len, &w->err);
	}
	if (statx(at, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, s->mask,
		  &stx) < 0) {
		err_sys(&w->err, errno, "cannot stat under the mount");
		return fault(w, name, len, &w->err);
	}
	d->fd = at;
	d->child = NULL;
	rc = s->ops->on_entry(d, name, len, &stx, s->arg, &w->err);
	d->fd = old;
	if (rc != 0 || !S_ISDIR(stx.stx_mode)) {
		return rc < 0 ? rc : 0;
	}
	fd = dirpool_step(&s->pool, at, name, &w->err);
	if (fd < 0) {
		return fault(w, name, len, &w->err);
	}
	return add_dir(w, d, dir, name, len, fd, batch);
}

static int
entry(struct worker *w, struct scan_dir *d, struct dirnode *dir,
      const char *name, size_t len, struct dirnode **batch)
{
	struct scan *s = w->s;
	struct statx stx;
	int rc;

	if (statx(d->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, s->mask,
		  &stx) < 0) {
		if (errno == ENOENT) {
			err_set(&w->err, E_NOT_FOUND, "vanished");
		} else {
			err_sys(&w->err, errno, "cannot stat");
		}
		return fault(w, name, len, &w->err);
	}
	if (is_mount(dir, &stx)) {
		return covered(w, d, dir, name, len, batch);
	}
	d->child = NULL;
	rc = s->ops->on_entry(d, name, len, &stx, s->arg, &w->err);
	if (rc != 0 || !S_ISDIR(stx.stx_mode)) {
		return rc < 0 ? rc : 0;
	}
	return add_dir(w, d, dir, name, len, -1, batch);
}

/* --- one directory -------------------------------------------------------*/

static int
by_ino(const void *a, const void *b)
{
	uint64_t x = ((const struct ent *)a)->ino;
	uint64_t y = ((const struct ent *)b)->ino;

	return x < y ? -1 : x > y;
}

/* Cut the buffer into entries; in the order of inodes, which on disks is that
 * of the inode table. */
static size_t
split(struct worker *w, size_t got)
{
	size_t n = 0;

	for (size_t at = 0; at < got;) {
		const struct dirent64 *de = (void *)(w->dents + at);
		size_t len = strlen(de->d_name);

		if (beneath_name_ok(de->d_name, len)) {
			w->ents[n].ino = de->d_ino;
			w->ents[n].at = (uint32_t)(de->d_name - w->dents);
			w->ents[n++].len = (uint32_t)len;
		}
		at += de->d_reclen;
	}
	qsort(w->ents, n, sizeof(*w->ents), by_ino);
	return n;
}

/* Put the batch on the stack, so that the first found is visited first. */
static void
push(struct scan *s, struct dirnode *dir, struct dirnode *batch)
{
	struct dirnode *n;

	if (!batch) {
		return;
	}
	pthread_mutex_lock(&s->pool.lock);
	while ((n = batch) != NULL) {
		batch = n->below;
		dir->refs++;
		dir->unopened++;
		n->below = s->stack;
		s->stack = n;
	}
	pthread_cond_broadcast(&s->more);
	pthread_mutex_unlock(&s->pool.lock);
}

static void
batch_free(struct dirnode *batch)
{
	struct dirnode *n;

	while ((n = batch) != NULL) {
		batch = n->below;
		close_fd(&n->fd);
		free(n);
	}
}

static int
read_entries(struct worker *w, struct scan_dir *d, struct dirnode *dir)
{
	struct scan *s = w->s;

	while (!stopped(s)) {
		ssize_t got = syscall(SYS_getdents64, d->fd, w->dents, DENTS);
		struct dirnode *batch = NULL;
		size_t n;
		int rc = 0;

		if (got < 0 && errno == ENOENT) {
			return 0; /* removed while we read it: empty */
		}
		if (got < 0) {
			err_sys(&w->err, errno, "cannot read the directory");
			return fault(w, "", 0, &w->err);
		}
		if (got == 0) {
			break;
		}
		n = split(w, (size_t)got);
		for (size_t i = 0; i < n && rc == 0; i++) {
			rc = entry(w, d, dir, w->dents + w->ents[i].at,
				   w->ents[i].len, &batch);
		}
		if (rc < 0) {
			batch_free(batch);
			return rc;
		}
		push(s, dir, batch);
	}
	return 0;
}

/* The path of `n` into w->path, with room for one more name. */
static int
make_path(struct worker *w, const struct dirnode *n)
{
	char shown[4 * 255 + 1], *p;
	size_t len = 0;

	for (const struct dirnode *a = n; a->parent; a = a->parent) {
		len += a->name_len + (size_t)(a->parent->parent != NULL);
	}
	if (len > SCAN_PATH_MAX) {
		w->path_len = 0;
		escape_bytes(shown, sizeof(shown), n->name, n->name_len);
		return err_set(&w->err, E_LIMIT,
			       "the path of a directory %s is longer than "
			       "%u bytes",
			       shown, SCAN_PATH_MAX);
	}
	if (len + 512 > w->path_cap) {
		p = realloc(w->path, 2 * len + 512);
		if (!p) {
			return err_nomem(&w->err);
		}
		w->path = p;
		w->path_cap = 2 * len + 512;
	}
	w->path_len = len;
	for (const struct dirnode *a = n; a->parent; a = a->parent) {
		len -= a->name_len;
		memcpy(w->path + len, a->name, a->name_len);
		if (len) {
			w->path[--len] = '/';
		}
	}
	return 0;
}

/* It could not be opened; tell whom it concerns. */
static int
not_opened(struct worker *w, struct dirnode *n, int rc)
{
	size_t cut = w->path_len;
	int r;

	if (rc == E_DENIED && w->err.sys == EXDEV && n->parent) {
		cut -= n->name_len + (size_t)(cut > n->name_len);
		w->path_len = cut;
		r = tell_mount(w, n->name, n->name_len);
		return r < 0 ? r : 0;
	}
	return fault(w, "", 0, &w->err);
}

static int
take_id(struct worker *w, struct dirnode *n)
{
	struct scan *s = w->s;
	uint64_t id;

	pthread_mutex_lock(&s->pool.lock);
	id = s->next_id++;
	pthread_mutex_unlock(&s->pool.lock);
	if (id > UINT32_MAX) {
		return err_set(&w->err, E_LIMIT, "more than 2^32 directories");
	}
	n->id = (uint32_t)id;
	return 0;
}

static int
visit(struct worker *w, struct dirnode *n)
{
	struct scan *s = w->s;
	struct scan_dir d = { .name = n->name,
			      .name_len = n->name_len,
			      .thread = w->number };
	struct statx stx;
	int rc = dirpool_open(&s->pool, n, &w->err), prc = make_path(w, n);

	if (prc < 0) {
		return prc;
	}
	if (rc < 0) {
		return not_opened(w, n, rc);
	}
	if (statx(n->fd, "", AT_EMPTY_PATH, s->mask, &stx) < 0) {
		err_sys(&w->err, errno, "cannot stat");
		return fault(w, "", 0, &w->err);
	}
	n->dev = devno_of(&stx);
	n->ino = stx.stx_ino;
	rc = take_id(w, n);
	if (rc < 0) {
		return rc;
	}
	d.fd = n->fd;
	d.user = n->user;
	d.id = n->id;
	d.parent = n->parent ? n->parent->id : n->id;
	d.path = w->path;
	d.path_len = w->path_len;
	rc = s->ops->on_dir(&d, &stx, s->arg, &w->err);
	if (rc == 0) {
		rc = read_entries(w, &d, n);
	}
	if (rc == 0 && s->ops->on_dir_end && !stopped(s)) {
		rc = s->ops->on_dir_end(&d, s->arg, &w->err);
	}
	return rc < 0 ? rc : 0;
}

/* --- threads -------------------------------------------------------------*/

/* The next directory, or NULL at the end. Blocks. */
static struct dirnode *
take(struct scan *s)
{
	struct dirnode *n;

	pthread_mutex_lock(&s->pool.lock);
	while (!s->stop && !s->stack && s->busy) {
		pthread_cond_wait(&s->more, &s->pool.lock);
	}
	n = s->stop ? NULL : s->stack;
	if (n) {
		s->stack = n->below;
		s->busy++;
	}
	pthread_mutex_unlock(&s->pool.lock);
	return n;
}

static void
give_back(struct scan *s, struct dirnode *n)
{
	pthread_mutex_lock(&s->pool.lock);
	dirpool_leave(&s->pool, n);
	s->busy--;
	if (!s->busy && !s->stack) {
		pthread_cond_broadcast(&s->more);
	}
	pthread_mutex_unlock(&s->pool.lock);
}

static void *
work(void *arg)
{
	struct worker *w = arg;
	struct dirnode *n;

	while ((n = take(w->s)) != NULL) {
		int rc = visit(w, n);

		give_back(w->s, n);
		if (rc < 0) {
			fail(w->s, rc, &w->err);
		}
	}
	return NULL;
}

static int
worker_init(struct worker *w, struct scan *s, unsigned number)
{
	w->s = s;
	w->number = number;
	w->dents = malloc(DENTS);
	w->ents = malloc(DENTS / DENT_MIN * sizeof(*w->ents));
	w->path_cap = 4096;
	w->path = malloc(w->path_cap);
	return w->dents && w->ents && w->path ? 0 : E_NOMEM;
}

static unsigned
thread_count(const struct scan_opts *o)
{
	long n = o && o->threads ? (long)o->threads
				 : sysconf(_SC_NPROCESSORS_ONLN);

	if (!(o && o->threads) && n > 8) {
		n = 8;
	}
	return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (unsigned)n;
}

static int
run(struct scan *s, unsigned threads, struct err *e)
{
	struct worker *w = calloc(threads, sizeof(*w));
	pthread_t tid[THREADS_MAX];
	unsigned started = 0;
	int rc = w ? 0 : err_nomem(e);

	for (unsigned i = 0; w && i < threads && rc == 0; i++) {
		rc = worker_init(&w[i], s, i) < 0 ? err_nomem(e) : 0;
	}
	if (rc == 0) {
		/* Fewer threads than wished for will do. */
		while (started + 1 < threads &&
		       pthread_create(&tid[started], NULL, work,
				      &w[started + 1]) == 0) {
			started++;
		}
		work(&w[0]);
		for (unsigned i = 0; i < started; i++) {
			pthread_join(tid[i], NULL);
		}
		rc = s->rc;
	}
	for (unsigned i = 0; w && i < threads; i++) {
		free(w[i].dents);
		free(w[i].ents);
		free(w[i].path);
	}
	free(w);
	return rc;
}

int
scan_tree(int rootfd, const struct scan_opts *o, const struct scan_ops *ops,
	  void *arg, struct err *e)
{
	struct scan s = {
		.ops = ops,
		.arg = arg,
		.mask = (o && o->mask ? o->mask : STATX_BASIC_STATS) |
			STATX_TYPE | STATX_MODE | STATX_INO,
		.rootfd = rootfd,
		.bare = -1,
		.err = e,
	};
	struct dirnode *n;
	int rc;

	s.stack = dirpool_node(NULL, "", 0, e);
	if (!s.stack) {
		return E_NOMEM;
	}
	/* Its own position, so that the caller's is left alone. */
	s.stack->fd = beneath_open_dir(rootfd, "", 0, e);
	if (s.stack->fd < 0) {
		rc = s.stack->fd;
		free(s.stack);
		return rc;
	}
	dirpool_init(&s.pool);
	pthread_cond_init(&s.more, NULL);
	rc = run(&s, thread_count(o), e);
	while ((n = s.stack) != NULL) {
		s.stack = n->below;
		dirpool_unref(&s.pool, n);
	}
	close_fd(&s.bare);
	pthread_cond_destroy(&s.more);
	dirpool_fini(&s.pool);
	return rc;
}
