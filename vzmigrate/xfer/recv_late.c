/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_late: lists of names and a table of directories' metadata, all under
 * one mutex; names are one after another in an arena.
 */
#include "xfer/recv_late.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "fs/beneath.h"
#include "fs/content.h"
#include "fs/iflags.h"
#include "wire/tree.h"
#include "xfer/dirmeta.h"
#include "xfer/proof.h"

#define LIST_MAX ((size_t)8 << 30)
#define NAMES_MAX ((size_t)4 << 30)
#define COPY_SIZE (256u << 10)

/* A name in one of the lists. */
struct item {
	uint32_t id; /* group; in `flags`: the flags */
	uint32_t dir;
	uint32_t name; /* offset in the arena */
};

struct recv_late {
	pthread_mutex_t lock;
	struct dirtab *dirs;   /* borrowed */
	struct inomap *inodes; /* borrowed */
	struct losses *losses; /* borrowed */
	bool update;
	struct dirmeta *metas; /* owned */
	struct buf firsts;     /* of struct item */
	struct buf links;
	struct buf flags;
	struct buf touched; /* regular files, RECV_SYNC_MAX at most */
	struct buf names;
	uint32_t ntouched; /* of them */
	bool many;	   /* more than these were touched */
	bool special;	   /* and something that cannot be opened */
	bool root_told;
	uint32_t root_flags;
};

struct recv_late *
recv_late_new(struct dirtab *dirs, struct inomap *inodes, struct losses *losses,
	      bool update, struct err *e)
{
	struct recv_late *l = calloc(1, sizeof(*l));

	if (!l) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&l->lock, NULL);
	l->dirs = dirs;
	l->inodes = inodes;
	l->losses = losses;
	l->update = update;
	l->metas = dirmeta_new(e);
	if (!l->metas) {
		recv_late_free(l);
		return NULL;
	}
	buf_init(&l->touched, LIST_MAX);
	buf_init(&l->firsts, LIST_MAX);
	buf_init(&l->links, LIST_MAX);
	buf_init(&l->flags, LIST_MAX);
	buf_init(&l->names, NAMES_MAX);
	return l;
}

void
recv_late_free(struct recv_late *l)
{
	if (!l) {
		return;
	}
	dirmeta_free(l->metas);
	buf_fini(&l->firsts);
	buf_fini(&l->links);
	buf_fini(&l->flags);
	buf_fini(&l->touched);
	buf_fini(&l->names);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int
add_item(struct recv_late *l, struct buf *list, uint32_t id, uint32_t dir,
	 const char *name, size_t name_len, struct err *e)
{
	struct item it = { id, dir, 0 };
	int rc;

	pthread_mutex_lock(&l->lock);
	it.name = (uint32_t)l->names.len;
	rc = buf_append(&l->names, name, name_len, e);
	if (rc == 0) {
		rc = buf_append(&l->names, "", 1, e);
	}
	if (rc == 0) {
		rc = buf_append(list, &it, sizeof(it), e);
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int
recv_late_first(struct recv_late *l, uint32_t id, uint32_t dir,
		const char *name, struct err *e)
{
	return add_item(l, &l->firsts, id, dir, name, strlen(name), e);
}

int
recv_late_link(struct recv_late *l, uint32_t id, uint32_t dir, const char *name,
	       size_t name_len, struct err *e)
{
	return add_item(l, &l->links, id, dir, name, name_len, e);
}

int
recv_late_flags(struct recv_late *l, uint32_t dir, const char *name,
		uint32_t flags, struct err *e)
{
	return add_item(l, &l->flags, flags, dir, name, strlen(name), e);
}

int
recv_late_touched(struct recv_late *l, uint32_t dir, const char *name,
		  struct err *e)
{
	if (!l->update || __atomic_load_n(&l->many, __ATOMIC_RELAXED)) {
		return 0;
	}
	if (__atomic_add_fetch(&l->ntouched, 1, __ATOMIC_RELAXED) >
	    RECV_SYNC_MAX) {
		__atomic_store_n(&l->many, true, __ATOMIC_RELAXED);
		return 0;
	}
	return add_item(l, &l->touched, 0, dir, name, strlen(name), e);
}

void
recv_late_touched_special(struct recv_late *l)
{
	__atomic_store_n(&l->special, true, __ATOMIC_RELAXED);
}

int
recv_late_dir(struct recv_late *l, uint32_t id, const struct meta *m,
	      struct err *e)
{
	int rc;

	/* The id was opened by its table before, so it is a sane one. */
	pthread_mutex_lock(&l->lock);
	rc = dirmeta_put(l->metas, id, m, e);
	pthread_mutex_unlock(&l->lock);
	return rc == E_EXISTS
		       ? err_set(e, E_PROTOCOL, "directory %u sent twice", id)
		       : rc;
}

/* ---- at the end: one thread, no lock ---- */

static const char *
item_name(const struct recv_late *l, const struct item *it)
{
	return (const char *)l->names.data + it->name;
}

static void
name_error(struct recv_late *l, uint32_t dir, const char *name, struct err *e)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(1 << 20);
	char shown[2048];

	if (dirtab_path(l->dirs, dir, name, strlen(name), &b, NULL) == 0) {
		err_wrap(e, "%s",
			 escape_bytes(shown, sizeof(shown), b.data, b.len));
	}
}

static int
by_id(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int
copy_content(int from, int to, uint64_t size, const char *name, struct err *e)
{
	cleanup(free_ptr) uint8_t *data = malloc(COPY_SIZE);
	uint64_t pos = 0, off, len;
	int rc;

	if (!data) {
		return err_nomem(e);
	}
	while ((rc = content_next(from, pos, size, &off, &len, e)) == 1) {
		size_t n = len < COPY_SIZE ? (size_t)len : COPY_SIZE;
		ssize_t got = content_read(from, data, n, off, name, e);

		if (got <= 0) {
			return got < 0 ? (int)got
				       : err_set(e, E_CHANGED, "%s shrank",
						 name);
		}
		rc = content_write(to, data, (size_t)got, off, name, e);
		if (rc < 0) {
			return rc;
		}
		pos = off + (uint64_t)got;
	}
	if (rc == 0 && ftruncate(to, (off_t)size) < 0) {
		return err_sys(e, errno, "cannot set the size of %s", name);
	}
	return rc;
}

static int
copy_regular(int olddir, const char *oldname, int newdir, const char *newname,
	     const struct meta *m, struct err *e)
{
	cleanup(close_fd) int from =
		beneath_open(olddir, oldname, O_RDONLY, 0, e);
	cleanup(close_fd) int to = -1;
	int rc;

	if (from < 0) {
		return from;
	}
	to = beneath_open(newdir, newname, O_WRONLY | O_CREAT | O_EXCL, 0600,
			  e);
	if (to < 0) {
		return to;
	}
	/* What is there of the first inode can be had by a second one. */
	rc = meta_apply_early(to, m, NULL, e);
	if (rc == 0) {
		rc = copy_content(from, to, m->size, newname, e);
	}
	return rc < 0 ? rc : meta_apply(newdir, newname, to, m, NULL, e);
}

/* The file system has no more links for this inode: a second inode takes the
 * further names (field case F8). */
static int
split_group(struct recv_late *l, int olddir, const char *oldname, int newdir,
	    const char *newname, struct err *e)
{
	struct inomap_value v;
	struct meta m = { 0 };
	struct stat st;
	uint64_t first;
	int rc;

	if (fstatat(olddir, oldname, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !inomap_get(l->inodes, st.st_ino, &v)) {
		return err_set(e, E_PROTOCOL, "a link to nothing");
	}
	first = st.st_ino;
	rc = meta_read(olddir, oldname, -1, NULL, &m, NULL, e);
	if (rc == 0 && m.type == FS_REG) {
		rc = copy_regular(olddir, oldname, newdir, newname, &m, e);
	} else if (rc == 0) {
		rc = meta_mknod(newdir, newname, &m, e);
		if (rc == 0) {
			rc = meta_apply(newdir, newname, -1, &m, NULL, e);
		}
	}
	meta_fini(&m);
	if (rc >= 0 && fstatat(newdir, newname, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		rc = err_sys(e, errno, "cannot stat a copy");
	}
	if (rc >= 0) {
		losses_forget(l->losses, st.st_ino);
		rc = losses_copy(l->losses, first, st.st_ino, e);
	}
	/* What comes for one of them cannot be done to the others. */
	v.blocks = NULL;
	v.split = true;
	if (rc >= 0) {
		rc = inomap_put(l->inodes, first, &v, e);
	}
	__atomic_store_n(&l->many, true, __ATOMIC_RELAXED);
	return rc < 0 ? rc : inomap_put(l->inodes, st.st_ino, &v, e);
}

/* Copies of the open directories: both stay open while both are used. */
struct pair {
	struct dircache a, b;
};

static int
make_link(struct recv_late *l, struct pair *c, struct item *first,
	  const struct item *it, struct err *e)
{
	const char *oldname = item_name(l, first), *newname = item_name(l, it);
	int olddir = dirtab_open(l->dirs, &c->a, first->dir, 0, e);
	int newdir = olddir < 0 ? olddir
				: dirtab_open(l->dirs, &c->b, it->dir, 1, e);
	int rc;

	if (newdir < 0) {
		return newdir;
	}
	if (linkat(olddir, oldname, newdir, newname, 0) == 0) {
		return 0;
	}
	if (errno == EEXIST && l->update) {
		rc = dirtab_displace(newdir, newname, e);
		if (rc < 0) {
			return rc;
		}
		if (linkat(olddir, oldname, newdir, newname, 0) == 0) {
			return 0;
		}
	}
	if (errno != EMLINK) {
		return err_sys(e, errno, "cannot make a hard link");
	}
	rc = split_group(l, olddir, oldname, newdir, newname, e);
	if (rc == 0) {
		log_warn("this file system allows no more hard links to one "
			 "inode: the names from here on have a copy of their "
			 "own");
		first->dir = it->dir;
		first->name = it->name;
	}
	return rc;
}

static int
run_links(struct recv_late *l, struct err *e)
{
	struct item *firsts = (struct item *)l->firsts.data;
	struct item *links = (struct item *)l->links.data;
	size_t nfirsts = l->firsts.len / sizeof(*firsts);
	size_t nlinks = l->links.len / sizeof(*links);
	struct pair c;
	int rc = 0;

	if (nfirsts) {
		qsort(firsts, nfirsts, sizeof(*firsts), by_id);
	}
	dircache_init(&c.a);
	dircache_init(&c.b);
	for (size_t i = 0; i < nlinks && rc == 0; i++) {
		struct item *f = nfirsts ? bsearch(&links[i], firsts, nfirsts,
						   sizeof(*firsts), by_id)
					 : NULL;

		rc = f ? make_link(l, &c, f, &links[i], e)
		       : err_set(e, E_PROTOCOL,
				 "a link to group %u, which was "
				 "never sent",
				 links[i].id);
		if (rc < 0) {
			name_error(l, links[i].dir, item_name(l, &links[i]), e);
		}
	}
	dircache_fini(&c.a);
	dircache_fini(&c.b);
	return rc;
}

/* meta_apply as that policy wants it. With `anew` it is all that counts, else
 * it adds to what was applied before. */
static int
apply(struct recv_late *l, int dirfd, uint32_t dir, const char *name, int fd,
      const struct meta *m, enum meta_policy policy, bool anew, struct err *e)
{
	cleanup(buf_finip) struct buf path = BUF_MAX(1 << 20);
	struct meta_loss loss;
	struct stat st;
	int rc;

	if (anew && losses_any(l->losses) && fstat(fd, &st) == 0) {
		losses_forget(l->losses, st.st_ino);
	}
	if (policy == META_STRICT) {
		return meta_apply(dirfd, name, fd, m, NULL, e);
	}
	meta_loss_init(&loss);
	rc = meta_apply(dirfd, name, fd, m, &loss, e);
	if (rc == 0 && meta_loss_any(&loss)) {
		if (fstatat(dirfd, name, &st,
			    AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0) {
			rc = err_sys(e, errno, "cannot stat");
		} else {
			dirtab_path(l->dirs, dir, name, strlen(name), &path,
				    NULL);
			rc = losses_add(l->losses, st.st_ino, (char *)path.data,
					path.len, m, &loss, e);
		}
	}
	meta_loss_fini(&loss);
	return rc;
}

static int
run_flags(struct recv_late *l, enum meta_policy policy, struct err *e)
{
	struct item *items = (struct item *)l->flags.data;
	size_t n = l->flags.len / sizeof(*items);
	struct dircache c;
	int rc = 0;

	dircache_init(&c);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		const char *name = item_name(l, &items[i]);
		int dirfd = dirtab_open(l->dirs, &c, items[i].dir, 0, e);
		struct meta m = { 0 };

		rc = dirfd < 0 ? dirfd
			       : meta_read(dirfd, name, -1, NULL, &m, NULL, e);
		if (rc == 0) {
			m.flags = items[i].id;
			rc = apply(l, dirfd, items[i].dir, name, -1, &m, policy,
				   false, e);
		}
		meta_fini(&m);
		if (rc < 0) {
			name_error(l, items[i].dir, name, e);
		}
	}
	dircache_fini(&c);
	return rc < 0 ? rc : 0;
}

/* A directory of which nothing was sent keeps what it has. */
static int
relock(struct recv_late *l, struct dircache *c, uint32_t id, struct err *e)
{
	uint32_t had = dirtab_cleared(l->dirs, id);
	int fd, rc;

	if (!l->update || dirtab_made(l->dirs, id)) {
		return err_set(e, E_PROTOCOL, "a directory without metadata");
	}
	if (!had) {
		return 0;
	}
	fd = dirtab_open(l->dirs, c, id, 0, e);
	rc = fd < 0 ? fd : iflags_add(fd, had, e);
	return rc;
}

static int
run_dir(struct recv_late *l, struct dircache *c, uint32_t id,
	enum meta_policy policy, struct err *e)
{
	struct meta m;
	int fd;

	if (!dirmeta_get(l->metas, id, &m)) {
		return relock(l, c, id, e);
	}
	fd = dirtab_open(l->dirs, c, id, 0, e);
	if (fd < 0) {
		return fd;
	}
	if (id == TREE_ROOT) {
		l->root_told = true;
		l->root_flags = m.flags & PROOF_ROOT_LATE;
		m.flags &= ~PROOF_ROOT_LATE;
	}
	return apply(l, fd, id, "", fd, &m, policy, true, e);
}

static int
run_dirs(struct recv_late *l, enum meta_policy policy, struct err *e)
{
	struct dircache c;
	int rc = 0;

	dircache_init(&c);
	/* Children first: what comes later touches no directory done before. */
	for (uint32_t id = dirtab_end(l->dirs); id-- > 0 && rc >= 0;) {
		if (!dirtab_defined(l->dirs, id)) {
			continue;
		}
		rc = run_dir(l, &c, id, policy, e);
		if (rc < 0) {
			name_error(l, id, "", e);
		}
	}
	dircache_fini(&c);
	return rc < 0 ? rc : 0;
}

int
recv_late_run(struct recv_late *l, enum meta_policy policy, struct err *e)
{
	int rc = run_links(l, e);

	if (rc == 0) {
		rc = run_flags(l, policy, e);
	}
	rc = rc < 0 ? rc : run_dirs(l, policy, e);
	/* After the first pass recv_late_sync does not ask which they were. */
	if (!l->update) {
		dirmeta_clear(l->metas);
	}
	return rc;
}

bool
recv_late_root_flags(const struct recv_late *l, uint32_t *flags)
{
	if (l->root_told) {
		*flags = l->root_flags;
	}
	return l->root_told;
}

/* ---- to the disk ---- */

/*
 * What cannot be opened has no fsync of its own. Where one log holds all
 * metadata in the order of the changes, that of an inode that is changed after
 * everything covers it.
 */
static bool
one_log(int fd)
{
	struct statfs s;

	return fstatfs(fd, &s) == 0 &&
	       (s.f_type == EXT4_SUPER_MAGIC || s.f_type == XFS_SUPER_MAGIC);
}

/* What to do with each file: begin to write, wait until that is done, have its
 * metadata on disk too. Each with all files before the next, so that the disk
 * is kept busy, and one commit of the file system's log serves many. */
enum step { WRITE_OUT, WRITTEN, ON_DISK };

/* Each may be the one that is told of an error of an earlier write: the kernel
 * tells it once. Where a file system cannot do the first two, fsync does all.
 */
static int
sync_one(int fd, enum step step, struct err *e)
{
	int rc;

	if (step == ON_DISK) {
		rc = fsync(fd);
	} else {
		rc = sync_file_range(
			fd, 0, 0,
			step == WRITE_OUT ? SYNC_FILE_RANGE_WRITE
					  : SYNC_FILE_RANGE_WAIT_BEFORE |
						    SYNC_FILE_RANGE_WRITE |
						    SYNC_FILE_RANGE_WAIT_AFTER);
		if (rc < 0 && (errno == EINVAL || errno == ENOSYS ||
			       errno == EOPNOTSUPP)) {
			return 0;
		}
	}
	return rc < 0 ? err_sys(e, errno, "cannot sync") : 0;
}

static int
sync_files(struct recv_late *l, enum step step, struct err *e)
{
	struct item *items = (struct item *)l->touched.data;
	size_t n = l->touched.len / sizeof(*items);
	struct dircache c;
	int rc = 0;

	dircache_init(&c);
	for (size_t i = 0; i < n && rc == 0; i++) {
		const char *name = item_name(l, &items[i]);
		int dirfd = dirtab_open(l->dirs, &c, items[i].dir, 0, e);
		cleanup(close_fd) int fd =
			dirfd < 0 ? dirfd
				  : beneath_open_own(dirfd, name,
						     O_RDONLY | O_NOATIME, e);

		rc = fd < 0 ? fd : sync_one(fd, step, e);
		if (rc < 0) {
			name_error(l, items[i].dir, name, e);
		}
	}
	dircache_fini(&c);
	return rc;
}

static int
sync_dirs(struct recv_late *l, struct err *e)
{
	struct dircache c;
	int rc = 0;

	dircache_init(&c);
	for (uint32_t id = 0; id < dirmeta_end(l->metas) && rc == 0; id++) {
		int fd;

		if (!dirmeta_has(l->metas, id)) {
			continue;
		}
		fd = dirtab_open(l->dirs, &c, id, 0, e);
		rc = fd < 0 ? fd : 0;
		if (rc == 0 && fsync(fd) < 0) {
			rc = err_sys(e, errno, "cannot sync");
		}
		if (rc < 0) {
			name_error(l, id, "", e);
		}
	}
	dircache_fini(&c);
	return rc;
}

/* Give the root the times that it has, and have that on disk. */
static int
sync_log(int root, struct err *e)
{
	struct timespec t[2];
	struct stat st;

	if (fstat(root, &st) < 0) {
		return err_sys(e, errno, "cannot stat the root");
	}
	t[0] = st.st_atim;
	t[1] = st.st_mtim;
	if (futimens(root, t) < 0 || fsync(root) < 0) {
		return err_sys(e, errno, "cannot sync the root");
	}
	return 0;
}

bool
recv_late_sync(struct recv_late *l, int *rc, struct err *e)
{
	struct dircache c;
	int root;

	dircache_init(&c);
	root = dirtab_open(l->dirs, &c, TREE_ROOT, 0, NULL);
	if (!l->update || l->many || (l->special && !one_log(root)) ||
	    l->touched.len / sizeof(struct item) + dirmeta_count(l->metas) >
		    RECV_SYNC_MAX) {
		return false;
	}
	*rc = 0;
	for (enum step s = WRITE_OUT; s <= ON_DISK && *rc == 0; s++) {
		*rc = sync_files(l, s, e);
	}
	if (*rc == 0) {
		*rc = sync_dirs(l, e);
	}
	if (*rc == 0 && l->special) {
		*rc = sync_log(root, e);
	}
	return true;
}
