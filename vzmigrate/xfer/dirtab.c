/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dirtab: id -> (parent, name) in two growing arrays under one mutex, names
 * one after another in an arena. A parent's id is smaller than its child's,
 * so walking upwards ends. In an update a second mutex is held while something
 * is looked at and replaced by a directory: else two threads could take turns
 * in removing what the other has made.
 */
#include "xfer/dirtab.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/beneath.h"
#include "fs/iflags.h"
#include "fs/remove.h"
#include "wire/tree.h"

#define NAMES_MAX ((size_t)3 << 30)
#define PATH_BYTES_MAX (64u << 20)
#define OBSTACLES (FS_IMMUTABLE_FL | FS_APPEND_FL | FS_PROJINHERIT_FL)

struct dir {
	uint32_t parent;
	uint32_t name;	  /* offset in the arena: length byte, then the name */
	uint32_t cleared; /* of OBSTACLES */
	bool defined;
	bool made;
};

struct dirtab {
	pthread_mutex_t lock;
	pthread_mutex_t making; /* taken before the other */
	int rootfd;		/* borrowed */
	bool update;
	struct dir *dirs;
	size_t cap;	/* of dirs */
	uint32_t end;	/* largest id + 1 */
	uint32_t count; /* defined */
	bool loose;	/* parents may be defined later */
	struct buf names;
};

void
dircache_init(struct dircache *c)
{
	c->next = 0;
	c->unknown = false;
	for (unsigned i = 0; i < DIRCACHE_SLOTS; i++) {
		c->slot[i].id = 0;
		c->slot[i].fd = -1;
		c->slot[i].open = false;
	}
}

void
dircache_fini(struct dircache *c)
{
	for (unsigned i = 0; i < DIRCACHE_SLOTS; i++) {
		close_fd(&c->slot[i].fd);
	}
	dircache_init(c);
}

/* The slot's number, or -1. */
static int
cache_slot(const struct dircache *c, uint32_t id)
{
	for (int i = 0; i < DIRCACHE_SLOTS; i++) {
		if (c->slot[i].fd >= 0 && c->slot[i].id == id) {
			return i;
		}
	}
	return -1;
}

static int
cache_find(const struct dircache *c, uint32_t id)
{
	int i = cache_slot(c, id);

	return i < 0 ? -1 : c->slot[i].fd;
}

/* Takes `fd` over. */
static int
cache_put(struct dircache *c, uint32_t id, int fd, bool open)
{
	unsigned i = c->next;

	close_fd(&c->slot[i].fd);
	c->slot[i].id = id;
	c->slot[i].fd = fd;
	c->slot[i].open = open;
	c->next = (i + 1) % DIRCACHE_SLOTS;
	return fd;
}

/* Let names be made and removed in the directory. */
static int
open_up(struct dirtab *t, uint32_t id, int fd, struct err *e)
{
	uint32_t had;
	int rc = iflags_clear(fd, OBSTACLES, &had, e);

	if (rc == 0 && had) {
		pthread_mutex_lock(&t->lock);
		t->dirs[id].cleared |= had;
		pthread_mutex_unlock(&t->lock);
	}
	return rc;
}

struct dirtab *
dirtab_new(int rootfd, bool update, struct err *e)
{
	struct dirtab *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->making, NULL);
	t->rootfd = rootfd;
	t->update = update;
	buf_init(&t->names, NAMES_MAX);
	t->dirs = calloc(256, sizeof(*t->dirs));
	if (!t->dirs || buf_append(&t->names, "", 1, e) < 0) {
		dirtab_free(t);
		err_nomem(e);
		return NULL;
	}
	t->cap = 256;
	t->dirs[TREE_ROOT] =
		(struct dir){ .parent = TREE_ROOT, .defined = true };
	t->end = 1;
	t->count = 1;
	if (update && open_up(t, TREE_ROOT, rootfd, e) < 0) {
		dirtab_free(t);
		return NULL;
	}
	return t;
}

void
dirtab_free(struct dirtab *t)
{
	if (!t) {
		return;
	}
	free(t->dirs);
	buf_fini(&t->names);
	pthread_mutex_destroy(&t->making);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static const char *
name_of(const struct dirtab *t, const struct dir *d, size_t *len)
{
	*len = t->names.data[d->name];
	return (const char *)t->names.data + d->name + 1;
}

static int
grow(struct dirtab *t, uint32_t id, struct err *e)
{
	size_t cap = t->cap;
	struct dir *dirs;

	while (cap <= id) {
		cap *= 2;
	}
	if (cap == t->cap) {
		return 0;
	}
	dirs = realloc(t->dirs, cap * sizeof(*dirs));
	if (!dirs) {
		return err_nomem(e);
	}
	memset(dirs + t->cap, 0, (cap - t->cap) * sizeof(*dirs));
	t->dirs = dirs;
	t->cap = cap;
	return 0;
}

static int
define_again(struct dirtab *t, uint32_t id, uint32_t parent, const char *name,
	     size_t name_len, struct err *e)
{
	size_t len;
	const char *old = name_of(t, &t->dirs[id], &len);

	if (t->dirs[id].parent != parent || len != name_len ||
	    memcmp(old, name, len) != 0) {
		return err_set(e, E_PROTOCOL, "directory %u defined twice", id);
	}
	return 0;
}

static int
define_locked(struct dirtab *t, uint32_t id, uint32_t parent, const char *name,
	      size_t name_len, struct err *e)
{
	uint8_t len = (uint8_t)name_len;
	size_t at = t->names.len;
	int rc;

	if (id < t->end && t->dirs[id].defined) {
		return define_again(t, id, parent, name, name_len, e);
	}
	if (parent >= id ||
	    (!t->loose && (parent >= t->end || !t->dirs[parent].defined))) {
		return err_set(e, E_PROTOCOL,
			       "directory %u in undefined directory %u", id,
			       parent);
	}
	if (id > t->count + DIRTAB_SLACK) {
		return err_set(e, E_PROTOCOL, "directory id %u is too large",
			       id);
	}
	rc = grow(t, id, e);
	if (rc == 0) {
		rc = buf_append(&t->names, &len, 1, e);
	}
	if (rc == 0) {
		rc = buf_append(&t->names, name, name_len, e);
	}
	if (rc < 0) {
		return rc;
	}
	t->dirs[id] = (struct dir){ .parent = parent,
				    .name = (uint32_t)at,
				    .defined = true };
	t->count++;
	if (id >= t->end) {
		t->end = id + 1;
	}
	return 0;
}

void
dirtab_loosen(struct dirtab *t)
{
	pthread_mutex_lock(&t->lock);
	t->loose = true;
	pthread_mutex_unlock(&t->lock);
}

int
dirtab_define(struct dirtab *t, uint32_t id, uint32_t parent, const char *name,
	      size_t name_len, struct err *e)
{
	int rc;

	pthread_mutex_lock(&t->lock);
	rc = define_locked(t, id, parent, name, name_len, e);
	pthread_mutex_unlock(&t->lock);
	return rc;
}

/* Copy the parent and the name out; the arena may move. */
static int
get(struct dirtab *t, uint32_t id, uint32_t *parent, char name[256],
    struct err *e)
{
	const char *p;
	size_t len;
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	if (id >= t->end || !t->dirs[id].defined) {
		rc = err_set(e, E_PROTOCOL, "directory %u is not defined", id);
	} else {
		*parent = t->dirs[id].parent;
		p = name_of(t, &t->dirs[id], &len);
		memcpy(name, p, len);
		name[len] = '\0';
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

int
dirtab_displace(int dirfd, const char *name, struct err *e)
{
	int rc;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT) {
		return 0;
	}
	/* A directory, or an inode that is immutable or append-only. */
	rc = remove_tree(dirfd, name, NULL, e);
	return rc == E_NOT_FOUND ? 0 : rc;
}

static int
open_one(int parentfd, const char *name, struct err *e)
{
	return beneath_open(parentfd, name, O_RDONLY | O_DIRECTORY, 0, e);
}

static void
note_made(struct dirtab *t, uint32_t id)
{
	pthread_mutex_lock(&t->lock);
	t->dirs[id].made = true;
	pthread_mutex_unlock(&t->lock);
}

/* Under `making`, in an update. */
static int
replace_by_dir(struct dirtab *t, uint32_t id, uint32_t parent, int parentfd,
	       const char *name, struct err *e)
{
	int fd = open_one(parentfd, name, e), rc;

	if (fd >= 0) {
		return fd; /* another thread was faster */
	}
	rc = open_up(t, parent, parentfd, e);
	if (rc == 0) {
		rc = dirtab_displace(parentfd, name, e);
	}
	if (rc == 0 && mkdirat(parentfd, name, 0700) < 0) {
		rc = err_sys(e, errno, "cannot make directory %s", name);
	}
	if (rc < 0) {
		return rc;
	}
	note_made(t, id);
	return open_one(parentfd, name, e);
}

/* Open directory `id`, `name` in its open parent, making it with `make`. */
static int
open_in(struct dirtab *t, uint32_t id, uint32_t parent, int parentfd,
	const char *name, int make, struct err *e)
{
	struct err why = { 0 };
	int fd = open_one(parentfd, name, &why);
	bool other = (fd == E_SYSTEM && why.sys == ENOTDIR) ||
		     (fd == E_DENIED && why.sys == ELOOP);

	if (fd >= 0 || !make || (fd != E_NOT_FOUND && !(other && t->update))) {
		if (fd < 0 && e) {
			*e = why;
		}
		return fd;
	}
	if (t->update) {
		pthread_mutex_lock(&t->making);
		fd = replace_by_dir(t, id, parent, parentfd, name, e);
		pthread_mutex_unlock(&t->making);
		return fd;
	}
	if (mkdirat(parentfd, name, 0700) < 0 && errno != EEXIST) {
		return err_sys(e, errno, "cannot make directory %s", name);
	}
	return open_one(parentfd, name, e);
}

/* Ids from `id` upwards to the first that is cached or the root, which is
 * not put in the list. *top gets that one's descriptor. */
static int
chain_up(struct dirtab *t, const struct dircache *c, uint32_t id,
	 struct buf *chain, int *top, struct err *e)
{
	char name[256];
	uint32_t parent;
	int rc;

	for (;;) {
		*top = id == TREE_ROOT ? t->rootfd : cache_find(c, id);
		if (*top >= 0) {
			return 0;
		}
		rc = buf_append(chain, &id, sizeof(id), e);
		if (rc == 0) {
			rc = get(t, id, &parent, name, e);
		}
		if (rc < 0) {
			return rc;
		}
		id = parent;
	}
}

int
dirtab_open(struct dirtab *t, struct dircache *c, uint32_t id, int make,
	    struct err *e)
{
	cleanup(buf_finip) struct buf chain = BUF_MAX(PATH_BYTES_MAX);
	cleanup(close_fd) int held = -1;
	bool change = make && t->update;
	char name[256];
	uint32_t parent, at;
	size_t n;
	int fd, slot, rc;

	c->unknown = false;
	if (id == TREE_ROOT) {
		return t->rootfd; /* opened up from the start */
	}
	slot = cache_slot(c, id);
	if (slot >= 0) {
		fd = c->slot[slot].fd;
		if (!change || c->slot[slot].open) {
			return fd;
		}
		rc = open_up(t, id, fd, e);
		c->slot[slot].open = rc == 0;
		return rc < 0 ? rc : fd;
	}
	rc = chain_up(t, c, id, &chain, &fd, e);
	if (rc < 0) {
		c->unknown = rc == E_PROTOCOL;
		return rc;
	}
	/* Downwards, one component at a time: no depth is too deep, and each
	 * step is checked. Only the end is cached, so that `fd`, borrowed from
	 * the cache, stays open on the way. */
	for (n = chain.len / sizeof(at); n-- > 0;) {
		memcpy(&at, chain.data + n * sizeof(at), sizeof(at));
		rc = get(t, at, &parent, name, e);
		if (rc < 0) {
			return rc;
		}
		fd = open_in(t, at, parent, fd, name, make, e);
		if (fd < 0) {
			return fd;
		}
		close_fd(&held);
		held = fd;
	}
	if (change) {
		rc = open_up(t, id, held, e);
		if (rc < 0) {
			return rc;
		}
	}
	return cache_put(c, id, steal_fd(&held), change);
}

int
dirtab_path(struct dirtab *t, uint32_t id, const char *name, size_t name_len,
	    struct buf *b, struct err *e)
{
	cleanup(buf_finip) struct buf chain = BUF_MAX(PATH_BYTES_MAX);
	struct dircache none;
	uint32_t parent, at;
	char part[256];
	size_t n, start = b->len;
	int top, rc;

	dircache_init(&none);
	rc = chain_up(t, &none, id, &chain, &top, e);
	for (n = chain.len / sizeof(at); rc == 0 && n-- > 0;) {
		memcpy(&at, chain.data + n * sizeof(at), sizeof(at));
		rc = get(t, at, &parent, part, e);
		if (rc == 0) {
			rc = buf_printf(b, e, "%s%s", b->len > start ? "/" : "",
					part);
		}
	}
	if (rc == 0 && name_len) {
		rc = buf_printf(b, e, "%s%.*s", b->len > start ? "/" : "",
				(int)name_len, name);
	}
	return rc;
}

bool
dirtab_made(struct dirtab *t, uint32_t id)
{
	bool made;

	pthread_mutex_lock(&t->lock);
	made = id < t->end && t->dirs[id].made;
	pthread_mutex_unlock(&t->lock);
	return made;
}

uint32_t
dirtab_cleared(struct dirtab *t, uint32_t id)
{
	uint32_t cleared;

	pthread_mutex_lock(&t->lock);
	cleared = id < t->end ? t->dirs[id].cleared : 0;
	pthread_mutex_unlock(&t->lock);
	return cleared;
}

bool
dirtab_defined(struct dirtab *t, uint32_t id)
{
	bool defined;

	pthread_mutex_lock(&t->lock);
	defined = id < t->end && t->dirs[id].defined;
	pthread_mutex_unlock(&t->lock);
	return defined;
}

uint32_t
dirtab_end(struct dirtab *t)
{
	uint32_t end;

	pthread_mutex_lock(&t->lock);
	end = t->end;
	pthread_mutex_unlock(&t->lock);
	return end;
}
