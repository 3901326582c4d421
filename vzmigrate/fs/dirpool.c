/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dirpool: see dirpool.h. State: struct dirpool, owned by the scan. Static
 * functions that take no lock are called under it.
 */
#include "fs/dirpool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/beneath.h"
#include "fs/devno.h"

#define FDS_MAX 256    /* parents kept open at most */
#define REOPEN_KEEP 64 /* of a long way down, how much stays open */

static void
lru_drop(struct dirpool *p, struct dirnode *n)
{
	if (n->in_lru) {
		TAILQ_REMOVE(&p->open, n, lru);
		n->in_lru = false;
		p->n_open--;
	}
}

static void
node_close(struct dirpool *p, struct dirnode *n)
{
	lru_drop(p, n);
	close_fd(&n->fd);
	n->fd = -1;
}

/* Close it where no child of it waits. The root stays, so that there is
 * always a way down, and so does what lies under a mount, where there is no
 * other way. */
static void
node_done(struct dirpool *p, struct dirnode *n)
{
	if (n->pins == 0 && n->unopened == 0 && n->parent && !n->covered) {
		node_close(p, n);
	}
}

/* Close what is longest unused until at most `max` stay open. */
static void
evict(struct dirpool *p, unsigned max)
{
	struct dirnode *n = TAILQ_FIRST(&p->open);

	while (n && p->n_open > max) {
		struct dirnode *next = TAILQ_NEXT(n, lru);

		if (n->pins == 0) {
			node_close(p, n);
		}
		n = next;
	}
}

static void
lru_add(struct dirpool *p, struct dirnode *n)
{
	if (n->parent && !n->covered && n->fd >= 0) {
		lru_drop(p, n);
		TAILQ_INSERT_TAIL(&p->open, n, lru);
		n->in_lru = true;
		p->n_open++;
		evict(p, p->fd_max);
	}
}

void
dirpool_unref(struct dirpool *p, struct dirnode *n)
{
	while (n && --n->refs == 0) {
		struct dirnode *parent = n->parent;

		node_close(p, n);
		free(n);
		n = parent;
	}
}

struct dirnode *
dirpool_node(struct dirnode *parent, const char *name, size_t len,
	     struct err *e)
{
	struct dirnode *n = malloc(sizeof(*n) + len + 1);

	if (!n) {
		err_nomem(e);
		return NULL;
	}
	memset(n, 0, sizeof(*n));
	n->parent = parent;
	n->fd = -1;
	n->refs = 1;
	n->name_len = (uint8_t)len;
	memcpy(n->name, name, len);
	n->name[len] = '\0';
	return n;
}

int
dirpool_step(struct dirpool *p, int dirfd, const char *name, struct err *e)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOATIME;
	int fd = beneath_open(dirfd, name, flags, 0, e);

	if (fd == E_SYSTEM && (e->sys == EMFILE || e->sys == ENFILE)) {
		pthread_mutex_lock(&p->lock);
		evict(p, 0);
		pthread_mutex_unlock(&p->lock);
		fd = beneath_open(dirfd, name, flags, 0, e);
	}
	if (fd == E_SYSTEM && e->sys == ENOTDIR) {
		return err_recode(e, E_CHANGED, "was a directory");
	}
	if (fd == E_DENIED && e->sys == ELOOP) {
		return err_recode(e, E_CHANGED, "was a directory");
	}
	return fd;
}

/* Open the visited directory `n` again from its pinned and open parent and
 * pin it. */
static int
reopen_one(struct dirpool *p, struct dirnode *n, struct err *e)
{
	struct statx stx;
	int fd = dirpool_step(p, n->parent->fd, n->name, e);

	if (fd < 0) {
		return fd;
	}
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO, &stx) < 0) {
		close(fd);
		return err_sys(e, errno, "cannot stat");
	}
	if (stx.stx_ino != n->ino || devno_of(&stx) != n->dev) {
		close(fd);
		return err_set(e, E_CHANGED, "replaced while it was read");
	}
	pthread_mutex_lock(&p->lock);
	if (n->fd < 0) {
		n->fd = fd;
	} else {
		close(fd); /* another thread was faster */
	}
	n->pins++;
	lru_add(p, n);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

/* Pin the nearest ancestor of `n` that is open; count the closed ones between
 * in `*closed`. The root always is. */
static struct dirnode *
pin_open_ancestor(struct dirpool *p, struct dirnode *n, size_t *closed)
{
	struct dirnode *a = n->parent;

	*closed = 0;
	pthread_mutex_lock(&p->lock);
	while (a->fd < 0) {
		a = a->parent;
		++*closed;
	}
	a->pins++;
	lru_add(p, a);
	pthread_mutex_unlock(&p->lock);
	return a;
}

/* Make sure that the parent of `n` is open and pinned. */
static int
pin_parent(struct dirpool *p, struct dirnode *n, struct err *e)
{
	cleanup(free_ptr) struct dirnode **way = NULL;
	size_t closed, i;
	struct dirnode *a = pin_open_ancestor(p, n, &closed), *at;
	int rc = 0;

	if (closed == 0) {
		return 0;
	}
	way = malloc(closed * sizeof(struct dirnode *));
	if (!way) {
		rc = err_nomem(e);
	} else {
		for (i = closed, at = n->parent; i > 0; at = at->parent) {
			way[--i] = at;
		}
	}
	for (i = 0; rc == 0 && i < closed; i++) {
		rc = reopen_one(p, way[i], e);
		pthread_mutex_lock(&p->lock);
		a->pins--;
		/* Far from where we are going it is of no use. */
		if (a->in_lru && a->pins == 0 && closed - i > REOPEN_KEEP) {
			node_close(p, a);
		}
		pthread_mutex_unlock(&p->lock);
		a = rc == 0 ? way[i] : NULL;
	}
	if (rc < 0 && a) {
		pthread_mutex_lock(&p->lock);
		a->pins--;
		node_done(p, a);
		pthread_mutex_unlock(&p->lock);
	}
	return rc;
}

int
dirpool_open(struct dirpool *p, struct dirnode *n, struct err *e)
{
	int fd = n->fd, rc = 0;
	bool pinned = false;

	if (fd < 0) { /* else the root, or under a mount */
		rc = pin_parent(p, n, e);
		pinned = rc == 0;
	}
	if (pinned) {
		fd = dirpool_step(p, n->parent->fd, n->name, e);
		rc = fd < 0 ? fd : 0;
	}
	pthread_mutex_lock(&p->lock);
	n->fd = fd < 0 ? -1 : fd;
	n->pins = 1;
	if (n->parent) {
		n->parent->unopened--;
		n->parent->pins -= pinned;
		node_done(p, n->parent);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void
dirpool_leave(struct dirpool *p, struct dirnode *n)
{
	n->pins--;
	node_done(p, n);
	lru_add(p, n);
	dirpool_unref(p, n);
}

/* A quarter of what the process may have, within reason. */
static unsigned
fd_limit(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0 || rl.rlim_cur / 4 > FDS_MAX) {
		return FDS_MAX;
	}
	return rl.rlim_cur / 4 < 4 ? 4 : (unsigned)(rl.rlim_cur / 4);
}

void
dirpool_init(struct dirpool *p)
{
	pthread_mutex_init(&p->lock, NULL);
	TAILQ_INIT(&p->open);
	p->n_open = 0;
	p->fd_max = fd_limit();
}

void
dirpool_fini(struct dirpool *p)
{
	pthread_mutex_destroy(&p->lock);
}
