/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_survey: what a tree needs of its destination, from its metadata alone:
 * room, inodes, and what its file system must be able to hold. Each scan
 * thread counts for itself.
 *
 * To open a file costs more than all else here, and is done only where what it
 * would show is in question: flags that the one file system can have and the
 * other cannot hold. Extended attributes are asked for by name. Directories are
 * open anyway, and looked at in any case; project ids are inherited, so there
 * they are enough.
 */
#include "xfer/send.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "fs/beneath.h"
#include "fs/devno.h"
#include "fs/fsprobe.h"
#include "fs/meta.h"
#include "fs/scan.h"
#include "fs/xattr.h"
#include "wire/codec.h"
#include "xfer/inomap.h"

#define THREADS_MAX 8

struct survey {
	const struct send_opts *o;
	struct inomap *linked; /* inodes with several names, counted once */
	bool flags;	       /* files are opened for theirs */
	bool xattrs;	       /* all are asked for theirs */
	struct send_survey part[THREADS_MAX];
};

static uint32_t
xattr_cap(const uint8_t *name, size_t len)
{
	static const struct {
		const char *prefix;
		uint32_t cap;
	} kinds[] = {
		{ "security.capability", FSPROBE_CAPABILITY },
		{ "security.", FSPROBE_XATTR_SECURITY },
		{ "system.posix_acl_", FSPROBE_ACL },
		{ "trusted.", FSPROBE_XATTR_TRUSTED },
		{ "user.", FSPROBE_XATTR_USER },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t n = strlen(kinds[i].prefix);

		if (len >= n && memcmp(name, kinds[i].prefix, n) == 0) {
			return kinds[i].cap;
		}
	}
	return 0;
}

static void
need_xattrs(struct send_survey *s, const struct meta *m)
{
	struct dec d;

	dec_init(&d, m->xattrs, m->xattrs_len);
	while (d.left && d.rc == 0) {
		size_t name_len = dec_u16(&d), len;
		const uint8_t *name = dec_raw(&d, name_len);

		dec_bytes(&d, META_XATTRS_MAX, &len);
		if (name) {
			s->caps |= xattr_cap(name, name_len);
		}
		if (len > s->xattr_max) {
			s->xattr_max = (uint32_t)len;
		}
	}
}

static void
need_of(struct send_survey *s, const struct meta *m)
{
	if (m->xattrs_len) {
		need_xattrs(s, m);
	}
	s->caps |= fsprobe_meta_caps(m);
}

/* Blocks beyond the size (preallocation) are not content. */
static uint64_t
data_bytes(const struct statx *stx)
{
	uint64_t blocks = stx->stx_blocks * 512;

	return blocks < stx->stx_size ? blocks : stx->stx_size;
}

static void
count(struct send_survey *s, const struct statx *stx, const struct meta *m)
{
	s->inodes++;
	s->bytes += stx->stx_blocks * 512;
	if (m->type == FS_REG) {
		s->data += data_bytes(stx);
		if (stx->stx_blocks * 512 < stx->stx_size) {
			s->caps |= FSPROBE_SPARSE;
		}
		if (stx->stx_size > s->largest) {
			s->largest = stx->stx_size;
		}
	}
	need_of(s, m);
}

/* Put "PATH: " in front of an error. */
static int
named(struct err *e, const char *path, size_t len, const char *name)
{
	char dir[1024], shown[1024];

	escape_bytes(dir, sizeof(dir), path, len);
	escape_bytes(shown, sizeof(shown), name, strlen(name));
	return err_wrap(e, "%s%s%s", dir, len && *name ? "/" : "", shown);
}

/* Subvolumes of btrfs have inode numbers of their own each. Two that come out
 * the same would only make the count smaller. */
static uint64_t
inode_number(const struct statx *stx)
{
	uint64_t dev = devno_of(stx);

	return stx->stx_ino ^ dev * 0x9e3779b97f4a7c15u;
}

static bool
worth_opening(const struct survey *v, int dirfd, const char *name,
	      const struct statx *stx)
{
	return (v->flags && S_ISREG(stx->stx_mode)) ||
	       (v->xattrs && xattr_some(dirfd, name));
}

static int
read_inside(const struct survey *v, int dirfd, const char *name, int fd,
	    const struct statx *stx, struct meta *m, struct err *e)
{
	cleanup(close_fd) int own = -1;

	if (fd < 0 && v->o->tame && S_ISREG(stx->stx_mode)) {
		own = beneath_open_own(dirfd, name, O_RDONLY | O_NOATIME, e);
		if (own < 0) {
			return own;
		}
		fd = own;
	}
	return meta_read(dirfd, name, fd, stx, m, NULL, e);
}

static int
look(struct survey *v, struct scan_dir *d, const char *name, int fd,
     const struct statx *stx, struct err *e)
{
	struct send_survey *s = &v->part[d->thread];
	struct inomap_value none = { 0 };
	struct meta m = { 0 };
	int rc = 0;

	if (v->o->stop && __atomic_load_n(v->o->stop, __ATOMIC_RELAXED)) {
		return err_set(e, E_CANCELLED, "stopped as asked");
	}
	s->entries++;
	if (!S_ISDIR(stx->stx_mode) && stx->stx_nlink > 1) {
		rc = inomap_add(v->linked, inode_number(stx), &none, NULL, e);
		if (rc < 0) {
			return rc == E_EXISTS ? 0 : rc;
		}
	}
	if (fd < 0 && !worth_opening(v, d->fd, name, stx)) {
		rc = meta_of_stat(stx, &m, e);
	} else {
		rc = read_inside(v, d->fd, name, fd, stx, &m, e);
	}
	if (rc == 0) {
		count(s, stx, &m);
	}
	meta_fini(&m);
	/* Gone or replaced meanwhile: the pass will tell. */
	if (rc == E_NOT_FOUND || rc == E_CHANGED) {
		return 0;
	}
	return rc < 0 ? named(e, d->path, d->path_len, name) : 0;
}

static int
on_dir(struct scan_dir *d, const struct statx *stx, void *arg, struct err *e)
{
	return look(arg, d, "", d->fd, stx, e);
}

static int
on_entry(struct scan_dir *d, const char *name, size_t name_len,
	 const struct statx *stx, void *arg, struct err *e)
{
	struct survey *v = arg;

	v->part[d->thread].caps |= fsprobe_name_caps(name, name_len);
	return S_ISDIR(stx->stx_mode) ? 0 : look(arg, d, name, -1, stx, e);
}

static int
on_fault(const char *path, size_t path_len, struct err *why, void *arg)
{
	(void)arg;
	if (why->code == E_NOT_FOUND || why->code == E_CHANGED) {
		return 0;
	}
	return named(why, path, path_len, "");
}

static void
join(struct send_survey *to, const struct send_survey *s)
{
	to->bytes += s->bytes;
	to->entries += s->entries;
	to->inodes += s->inodes;
	to->data += s->data;
	to->caps |= s->caps;
	to->largest = s->largest > to->largest ? s->largest : to->largest;
	to->xattr_max =
		s->xattr_max > to->xattr_max ? s->xattr_max : to->xattr_max;
}

int
send_survey(int rootfd, const struct send_opts *o, const struct fsprobe *there,
	    struct send_survey *s, struct err *e)
{
	static const struct scan_ops ops = { .on_dir = on_dir,
					     .on_entry = on_entry,
					     .on_fault = on_fault };
	struct scan_opts so = { .threads = o->threads };
	struct survey v = { .o = o };
	uint32_t has = there ? there->caps : 0;
	int rc;

	*s = (struct send_survey){ 0 };
	v.flags = fsprobe_possible(rootfd) & ~has & ~(uint32_t)FSPROBE_PROJID;
	v.xattrs = !there || FSPROBE_XATTRS & ~has ||
		   there->xattr_max < FSPROBE_XATTR_SIZE;
	v.linked = inomap_new(e);
	if (!v.linked) {
		return E_NOMEM;
	}
	rc = scan_tree(rootfd, &so, &ops, &v, e);
	for (unsigned i = 0; i < THREADS_MAX; i++) {
		join(s, &v.part[i]);
	}
	inomap_free(v.linked);
	return rc;
}
