/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * remove: deletes depth first, with descriptors only.
 *
 * State: a stack of directories on the heap, one level per depth. Only the
 * WINDOW deepest levels keep their descriptors; on the way back up a closed
 * one is opened again from the nearest open level above, step by step, and
 * must be the same directory still. `..` is never used, since a directory
 * may be moved while we are in it.
 *
 * A directory is read to its end before its subdirectories are entered: what
 * is no directory is unlinked at once, the names of the others are kept. One
 * that is not empty then, since somebody is at work in it, is read again, a
 * bounded number of times.
 */
#include "fs/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "fs/beneath.h"
#include "fs/iflags.h"

#define WINDOW 64	     /* levels that keep their descriptors */
#define DENTS (64u << 10)    /* bytes read from a directory at once */
#define NAMES_MAX (1u << 30) /* bytes of subdirectories' names, one level */
#define TRIES 16	     /* passes over a directory that fills up again */
#define SHOWN_MAX 1024

struct level {
	int fd; /* -1: closed for a while */
	uint64_t dev, ino;
	struct buf todo; /* names of subdirectories, each with its NUL */
	size_t at;	 /* of the next in todo; the one being removed ends
			    before it */
	unsigned tries;
	bool failed; /* something in it stays */
};

struct removal {
	struct level *levels;
	size_t depth, cap;
	char *dents;
	uint64_t removed;
	struct err *err; /* the first failure */
	int rc;
};

static int
open_dir(int dirfd, const char *name, struct err *e)
{
	return beneath_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOATIME, 0,
			    e);
}

/* The name by which level `i` is known in level i - 1. */
static const char *
name_of(const struct removal *r, size_t i)
{
	const struct level *up = &r->levels[i - 1];
	size_t start = up->at - 1;

	while (start > 0 && up->todo.data[start - 1]) {
		start--;
	}
	return (const char *)up->todo.data + start;
}

/* Keep the first error, with where it was: as much of the path as fits. */
static void
note(struct removal *r, int rc, const char *name, const struct err *why)
{
	char shown[SHOWN_MAX];
	cleanup(buf_finip) struct buf path;

	buf_init(&path, 1u << 20);
	if (r->depth) {
		r->levels[r->depth - 1].failed = true;
	}
	if (r->rc) {
		return;
	}
	r->rc = rc;
	for (size_t i = 1; i < r->depth; i++) {
		const char *dir = name_of(r, i);

		(void)buf_append(&path, dir, strlen(dir), NULL);
		(void)buf_append(&path, "/", 1, NULL);
	}
	(void)buf_append(&path, name, strlen(name), NULL);
	escape_bytes(shown, sizeof(shown), path.data, path.len);
	if (r->err) {
		*r->err = *why;
		err_wrap(r->err, "%s", shown);
	}
}

static void
note_errno(struct removal *r, int errnum, const char *name)
{
	struct err e = { 0 };
	int rc = errnum == EBUSY ? err_set(&e, E_BUSY, "a mount is on it")
				 : err_sys(&e, errnum, "cannot remove");

	note(r, rc, name, &e);
}

/* --- the stack -----------------------------------------------------------*/

/* `fd` is taken over. */
static int
push(struct removal *r, int fd, struct err *e)
{
	cleanup(close_fd) int own = fd;
	struct statx stx;
	struct level *l;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO, &stx) < 0) {
		return err_sys(e, errno, "cannot stat");
	}
	if (r->depth == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 32;

		l = realloc(r->levels, cap * sizeof(*l));
		if (!l) {
			return err_nomem(e);
		}
		r->levels = l;
		r->cap = cap;
	}
	l = &r->levels[r->depth++];
	memset(l, 0, sizeof(*l));
	buf_init(&l->todo, NAMES_MAX);
	l->fd = steal_fd(&own);
	l->dev = (uint64_t)stx.stx_dev_major << 32 | stx.stx_dev_minor;
	l->ino = stx.stx_ino;
	if (r->depth > WINDOW + 1) {
		l = &r->levels[r->depth - 1 - WINDOW];
		close_fd(&l->fd);
		l->fd = -1;
	}
	return 0;
}

static void
pop(struct removal *r)
{
	struct level *l = &r->levels[--r->depth];

	close_fd(&l->fd);
	buf_fini(&l->todo);
}

/* Have the descriptor of level `top` open. */
static int
reopen(struct removal *r, size_t top, struct err *e)
{
	size_t i = top;

	while (r->levels[i].fd < 0) {
		i--; /* level 0 always is open */
	}
	for (; i < top; i++) {
		struct level *l = &r->levels[i + 1];
		struct statx stx;

		l->fd = open_dir(r->levels[i].fd, name_of(r, i + 1), e);
		if (i && top - i > WINDOW) {
			close_fd(&r->levels[i].fd);
			r->levels[i].fd = -1;
		}
		if (l->fd < 0) {
			int rc = l->fd;

			l->fd = -1;
			return rc;
		}
		if (statx(l->fd, "", AT_EMPTY_PATH, STATX_INO, &stx) < 0) {
			return err_sys(e, errno, "cannot stat");
		}
		if (l->ino != stx.stx_ino ||
		    l->dev != ((uint64_t)stx.stx_dev_major << 32 |
			       stx.stx_dev_minor)) {
			close_fd(&l->fd);
			l->fd = -1;
			return err_set(e, E_CHANGED,
				       "replaced while it was removed");
		}
	}
	return 0;
}

/* --- one directory -------------------------------------------------------*/

/* Unlink what is not a directory. 0: it is gone; 1: it is a directory; -1 with
 * errno. Of a device and its like no ioctl clears "immutable": meta_read
 * refuses such a tree. */
static int
unlink_one(int dirfd, const char *name)
{
	struct stat st;
	int fd, rc;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT) {
		return 0;
	}
	if (errno == EISDIR) {
		return 1;
	}
	if (errno != EPERM) {
		return -1;
	}
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode)) {
		return 1; /* an immutable one is EPERM before it is EISDIR */
	}
	fd = beneath_open_reg(dirfd, name, O_RDONLY | O_NOATIME, NULL, NULL);
	rc = fd < 0 ? fd : iflags_unlock(fd, NULL, NULL);
	close_fd(&fd);
	if (rc < 0) {
		errno = EPERM;
		return -1;
	}
	return unlinkat(dirfd, name, 0) == 0 || errno == ENOENT ? 0 : -1;
}

/* One buffer of entries. 1, 0 at the end, or an error. */
static int
read_some(struct removal *r, struct level *l, struct err *e)
{
	ssize_t got = syscall(SYS_getdents64, l->fd, r->dents, DENTS);

	if (got < 0 && errno != ENOENT) {
		return err_sys(e, errno, "cannot read the directory");
	}
	for (ssize_t at = 0; at < got;) {
		const struct dirent64 *de = (void *)(r->dents + at);
		size_t len = strlen(de->d_name);
		int rc;

		at += de->d_reclen;
		if (!beneath_name_ok(de->d_name, len)) {
			continue; /* "." and ".." */
		}
		rc = de->d_type == DT_DIR ? 1 : unlink_one(l->fd, de->d_name);
		if (rc < 0) {
			note_errno(r, errno, de->d_name);
		} else if (rc == 0) {
			r->removed++;
		} else {
			rc = buf_append(&l->todo, de->d_name, len + 1, e);
			if (rc < 0) {
				return rc;
			}
		}
	}
	return got > 0;
}

/* Unlink in the deepest level all that can be, and list its subdirectories. */
static int
sweep(struct removal *r, struct err *e)
{
	struct level *l = &r->levels[r->depth - 1];
	int rc;

	buf_clear(&l->todo);
	l->at = 0;
	l->tries++;
	/* Nothing can be taken out of an immutable or append-only directory.
	 * Where this fails, unlinking will tell. */
	(void)iflags_unlock(l->fd, NULL, NULL);
	if (lseek(l->fd, 0, SEEK_SET) < 0) {
		return err_sys(e, errno, "cannot read the directory");
	}
	do {
		rc = read_some(r, l, e);
	} while (rc > 0);
	return rc;
}

/* Enter the next subdirectory of the deepest level. One that is no directory
 * any more is left to the next sweep. */
static void
enter(struct removal *r)
{
	struct level *l = &r->levels[r->depth - 1];
	const char *name = (const char *)l->todo.data + l->at;
	struct err e = { 0 };
	int rc = open_dir(l->fd, name, &e);

	l->at += strlen(name) + 1;
	if (rc == E_NOT_FOUND || (rc == E_DENIED && e.sys == ELOOP) ||
	    (rc == E_SYSTEM && e.sys == ENOTDIR)) {
		return;
	}
	if (rc == E_DENIED && e.sys == EXDEV) {
		note_errno(r, EBUSY, name);
		return;
	}
	if (rc >= 0) {
		rc = push(r, rc, &e);
	}
	if (rc < 0) {
		note(r, rc, name, &e);
		return;
	}
	rc = sweep(r, &e);
	if (rc < 0) {
		note(r, rc, "", &e);
	}
}

/* The deepest level has no subdirectory left to enter: remove it. */
static void
leave(struct removal *r)
{
	struct level *l = &r->levels[r->depth - 1];
	bool failed = l->failed;
	unsigned tries = l->tries;
	struct err e = { 0 };
	int rc = reopen(r, r->depth - 2, &e), errnum;

	if (rc < 0) {
		/* The way back is another one now. From where it still is the
		 * same, the next sweep meets what is left. */
		do {
			pop(r);
		} while (reopen(r, r->depth - 1, &e) < 0);
		return;
	}
	if (failed) {
		pop(r);
		r->levels[r->depth - 1].failed = true;
		return;
	}
	if (unlinkat(r->levels[r->depth - 2].fd, name_of(r, r->depth - 1),
		     AT_REMOVEDIR) == 0) {
		r->removed++;
		pop(r);
		return;
	}
	errnum = errno;
	if (errnum == ENOTEMPTY && tries < TRIES) {
		rc = sweep(r, &e);
		if (rc < 0) {
			note(r, rc, "", &e);
		}
		return;
	}
	pop(r);
	if (errnum != ENOENT && errnum != ENOTDIR) {
		note_errno(r, errnum, name_of(r, r->depth));
	}
}

/* Until level 0 has nothing left to enter. */
static void
descend(struct removal *r)
{
	for (;;) {
		struct level *l = &r->levels[r->depth - 1];

		if (l->at < l->todo.len) {
			enter(r);
		} else if (r->depth > 1) {
			leave(r);
		} else {
			return;
		}
	}
}

static int
init(struct removal *r, int dirfd, struct err *e)
{
	int fd;

	memset(r, 0, sizeof(*r));
	r->err = e;
	r->dents = malloc(DENTS);
	if (!r->dents) {
		return err_nomem(e);
	}
	/* Its own position. */
	fd = beneath_open_dir(dirfd, "", 0, e);
	return fd < 0 ? fd : push(r, fd, e);
}

static int
fini(struct removal *r, int rc, uint64_t *removed)
{
	while (r->depth) {
		pop(r);
	}
	free(r->levels);
	free(r->dents);
	if (removed) {
		*removed = r->removed;
	}
	return rc < 0 ? rc : r->rc;
}

int
remove_tree(int dirfd, const char *name, uint64_t *removed, struct err *e)
{
	struct removal r;
	struct stat st;
	int rc = init(&r, dirfd, e);

	if (rc == 0 && !beneath_name_ok(name, strlen(name))) {
		rc = err_set(e, E_PROTOCOL, "not the name of a file: %s", name);
	}
	if (rc == 0 && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		rc = errno == ENOENT ? err_set(e, E_NOT_FOUND,
					       "%s: does not exist", name)
				     : err_sys(e, errno, "%s", name);
	}
	/* Once it is what it is, and once more for each time that it became
	 * another thing while we looked. */
	for (int i = 0; rc == 0 && r.rc == 0 && i < TRIES; i++) {
		int is_dir = unlink_one(dirfd, name);

		if (is_dir == 0) {
			r.removed += i == 0;
			break;
		}
		if (is_dir < 0) {
			note_errno(&r, errno, name);
			break;
		}
		buf_clear(&r.levels[0].todo);
		r.levels[0].at = 0;
		rc = buf_append(&r.levels[0].todo, name, strlen(name) + 1, e);
		if (rc == 0) {
			descend(&r);
		}
		if (i == TRIES - 1) {
			note_errno(&r, ENOTEMPTY, name);
		}
	}
	return fini(&r, rc, removed);
}

int
remove_content(int dirfd, uint64_t *removed, struct err *e)
{
	struct removal r;
	struct level *l;
	int rc = init(&r, dirfd, e);

	if (rc == 0) {
		rc = sweep(&r, e);
	}
	while (rc == 0) {
		descend(&r);
		l = &r.levels[0];
		if (l->failed) {
			break;
		}
		if (l->tries >= TRIES) {
			note_errno(&r, ENOTEMPTY, ".");
			break;
		}
		rc = sweep(&r, e);
		if (rc < 0 || l->todo.len == 0) {
			break;
		}
	}
	return fini(&r, rc, removed);
}
