/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * meta: an inode's metadata, read from one descriptor so that all of it
 * belongs to one inode, and applied in the order in which nothing undoes what
 * came before. No state.
 */
#include "fs/meta.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/beneath.h"
#include "fs/devno.h"
#include "fs/iflags.h"
#include "fs/xattr.h"

#define SECOND_NS 1000000000
#define BTRFS_COMPRESSION "btrfs.compression"
#define ENC_HEAD 96    /* fixed part of the canonical form, bytes */
#define ENC_STACK 4096 /* canonical forms up to this are hashed at once */

int64_t
meta_ctime(const struct statx *stx)
{
	return stx->stx_ctime.tv_sec * (int64_t)SECOND_NS +
	       stx->stx_ctime.tv_nsec;
}

int64_t
meta_ctime_latest(const struct statx *stx)
{
	int64_t s = stx->stx_ctime.tv_sec, ns = stx->stx_ctime.tv_nsec;

	ns += ns ? 0 : SECOND_NS;
	return s >= INT64_MAX / SECOND_NS - 1 ? INT64_MAX : s * SECOND_NS + ns;
}

void
meta_fini(struct meta *m)
{
	free(m->xattrs);
	free(m->target);
	m->xattrs = NULL;
	m->target = NULL;
	m->xattrs_len = m->target_len = 0;
}

int
meta_copy(struct meta *to, const struct meta *from, struct err *e)
{
	*to = *from;
	to->target = NULL;
	to->target_len = 0;
	to->xattrs = NULL;
	if (!from->xattrs_len) {
		return 0;
	}
	to->xattrs = malloc(from->xattrs_len);
	if (!to->xattrs) {
		*to = (struct meta){ 0 };
		return err_nomem(e);
	}
	memcpy(to->xattrs, from->xattrs, from->xattrs_len);
	return 0;
}

static enum fs_type
type_of(unsigned mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return FS_REG;
	case S_IFDIR:
		return FS_DIR;
	case S_IFLNK:
		return FS_LNK;
	case S_IFCHR:
		return FS_CHR;
	case S_IFBLK:
		return FS_BLK;
	case S_IFIFO:
		return FS_FIFO;
	case S_IFSOCK:
		return FS_SOCK;
	default:
		return 0;
	}
}

static void
from_statx(const struct statx *stx, struct meta *m, struct meta_ident *id)
{
	m->type = type_of(stx->stx_mode);
	m->perm = stx->stx_mode & 07777;
	m->uid = stx->stx_uid;
	m->gid = stx->stx_gid;
	if (m->type == FS_CHR || m->type == FS_BLK) {
		m->major = stx->stx_rdev_major;
		m->minor = stx->stx_rdev_minor;
	}
	m->size = m->type == FS_REG ? stx->stx_size : 0;
	m->atime.sec = stx->stx_atime.tv_sec;
	m->atime.nsec = stx->stx_atime.tv_nsec;
	m->mtime.sec = stx->stx_mtime.tv_sec;
	m->mtime.nsec = stx->stx_mtime.tv_nsec;
	if (id) {
		id->dev = devno_of(stx);
		id->ino = stx->stx_ino;
		id->nlink = stx->stx_nlink;
		id->blocks = stx->stx_blocks;
		id->ctime.sec = stx->stx_ctime.tv_sec;
		id->ctime.nsec = stx->stx_ctime.tv_nsec;
	}
}

static bool
same_inode(const struct statx *a, const struct statx *b)
{
	return a->stx_ino == b->stx_ino &&
	       a->stx_dev_major == b->stx_dev_major &&
	       a->stx_dev_minor == b->stx_dev_minor &&
	       !((a->stx_mode ^ b->stx_mode) & S_IFMT);
}

static int
read_target(int pathfd, struct meta *m, struct err *e)
{
	char buf[META_TARGET_MAX + 1];
	ssize_t n = readlinkat(pathfd, "", buf, sizeof(buf));

	if (n < 0) {
		return err_sys(e, errno, "cannot read the link");
	}
	if (n > META_TARGET_MAX) {
		return err_set(e, E_LIMIT, "the link's target is too long");
	}
	m->target = malloc((size_t)n + 1);
	if (!m->target) {
		return err_nomem(e);
	}
	memcpy(m->target, buf, (size_t)n);
	m->target[n] = '\0';
	m->target_len = (size_t)n;
	m->size = (uint64_t)n;
	return 0;
}

/* With a descriptor that can be read. */
static int
read_opened(int fd, struct meta *m, struct err *e)
{
	int rc = iflags_read(fd, &m->flags, &m->projid, e);

	return rc < 0 ? rc : xattr_read(fd, 0, &m->xattrs, &m->xattrs_len, e);
}

/* The flags of what is neither file nor directory can be seen, but no ioctl
 * gets at them: such a device could not be made there, nor removed here. */
static int
refuse_locked(const struct statx *stx, struct err *e)
{
	bool fixed = stx->stx_attributes & STATX_ATTR_IMMUTABLE;

	return fixed || (stx->stx_attributes & STATX_ATTR_APPEND)
		       ? err_set(e, E_UNSUPPORTED,
				 "%s, and is no file or directory: that can "
				 "be neither carried over nor removed",
				 fixed ? "it is immutable"
				       : "it is append-only")
		       : 0;
}

int
meta_of_stat(const struct statx *stx, struct meta *m, struct err *e)
{
	memset(m, 0, sizeof(*m));
	from_statx(stx, m, NULL);
	if (m->type == FS_REG || m->type == FS_DIR) {
		return 0;
	}
	if (m->type == FS_LNK) {
		m->size = m->target_len = (size_t)stx->stx_size;
	}
	return refuse_locked(stx, e);
}

/* Without one. The text of an error does not name the object yet. */
static int
read_named(int dirfd, const char *name, const struct statx *stx, struct meta *m,
	   struct meta_ident *id, struct err *e)
{
	cleanup(close_fd) int p = -1;
	cleanup(close_fd) int fd = -1;
	struct statx now;
	int rc;

	p = beneath_open(dirfd, name, O_PATH, 0, e);
	if (p < 0) {
		return p;
	}
	if (statx(p, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &now) < 0) {
		return err_sys(e, errno, "cannot stat");
	}
	if (stx && !same_inode(stx, &now)) {
		return err_set(e, E_CHANGED, "replaced while it was read");
	}
	from_statx(&now, m, id);
	if (m->type == FS_REG || m->type == FS_DIR) {
		fd = beneath_reopen(p, O_RDONLY | O_NOATIME, e);
		return fd < 0 ? fd : read_opened(fd, m, e);
	}
	rc = refuse_locked(&now, e);
	rc = rc == 0 && m->type == FS_LNK ? read_target(p, m, e) : rc;
	return rc < 0 ? rc : xattr_read(p, 1, &m->xattrs, &m->xattrs_len, e);
}

int
meta_read(int dirfd, const char *name, int fd, const struct statx *stx,
	  struct meta *m, struct meta_ident *id, struct err *e)
{
	struct statx now;
	int rc = 0;

	memset(m, 0, sizeof(*m));
	if (fd < 0) {
		rc = read_named(dirfd, name, stx, m, id, e);
	} else {
		if (!stx) {
			stx = &now;
			if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS,
				  &now) < 0) {
				rc = err_sys(e, errno, "cannot stat");
			}
		}
		if (rc == 0) {
			from_statx(stx, m, id);
			rc = read_opened(fd, m, e);
		}
	}
	if (rc < 0) {
		meta_fini(m);
	}
	return rc;
}

int
meta_mknod(int dirfd, const char *name, const struct meta *m, struct err *e)
{
	static const mode_t modes[] = {
		[FS_CHR] = S_IFCHR,
		[FS_BLK] = S_IFBLK,
		[FS_FIFO] = S_IFIFO,
		[FS_SOCK] = S_IFSOCK,
	};
	int rc;

	if (!beneath_name_ok(name, strlen(name)) ||
	    (m->type == FS_LNK && (!m->target || m->target_len == 0 ||
				   strlen(m->target) != m->target_len))) {
		return err_set(e, E_PROTOCOL, "impossible name or target");
	}
	switch (m->type) {
	case FS_LNK:
		rc = symlinkat(m->target, dirfd, name);
		break;
	case FS_CHR:
	case FS_BLK:
	case FS_FIFO:
	case FS_SOCK:
		rc = mknodat(dirfd, name, modes[m->type] | 0600,
			     makedev(m->major, m->minor));
		break;
	default:
		return err_set(e, E_PROTOCOL, "not made by mknod");
	}
	if (rc < 0 && errno == EEXIST) {
		return err_set(e, E_EXISTS, "exists");
	}
	/* xfs: targets up to 1023 bytes, minors up to 2^18 - 1 */
	if (rc < 0 && m->type == FS_LNK && errno == ENAMETOOLONG) {
		return err_set(e, E_UNSUPPORTED,
			       "this file system holds no symbolic link of "
			       "%zu bytes",
			       m->target_len);
	}
	if (rc < 0 && m->type != FS_LNK && errno == EINVAL) {
		return err_set(e, E_UNSUPPORTED,
			       "this file system holds no device %u:%u",
			       m->major, m->minor);
	}
	return rc < 0 ? err_sys(e, errno, "cannot create") : 0;
}

void
meta_loss_init(struct meta_loss *l)
{
	memset(l, 0, sizeof(*l));
	buf_init(&l->xattrs, 1 << 20);
}

void
meta_loss_fini(struct meta_loss *l)
{
	buf_fini(&l->xattrs);
}

bool
meta_loss_any(const struct meta_loss *l)
{
	return l->why[0] != '\0';
}

int
meta_refuse(struct meta_loss *l, struct err *e, const char *fmt, ...)
{
	char text[META_WHY_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!l) {
		return err_set(e, E_UNSUPPORTED, "%s", text);
	}
	if (!meta_loss_any(l)) {
		memcpy(l->why, text, sizeof(text));
	}
	return 0;
}

int
meta_apply_early(int fd, const struct meta *m, struct meta_loss *loss,
		 struct err *e)
{
	return iflags_apply_early(fd, m->flags, m->projid, loss, e);
}

static void
to_timespec(const struct meta *m, struct timespec ts[2])
{
	ts[0].tv_sec = m->atime.sec;
	ts[0].tv_nsec = m->atime.nsec;
	ts[1].tv_sec = m->mtime.sec;
	ts[1].tv_nsec = m->mtime.nsec;
}

/*
 * File systems cut a time that they cannot hold without a word. Times of
 * 1970 to 2038 fit everywhere, but for their nanoseconds, which are looked for
 * before anything is copied; so only a run that goes on without them asks
 * after each.
 */
static int
check_time(int fd, const struct meta *m, struct meta_loss *loss, struct err *e)
{
	struct statx now;

	if (!loss && m->mtime.sec >= 0 && m->mtime.sec <= INT32_MAX) {
		return 0;
	}
	if (statx(fd, "", AT_EMPTY_PATH, STATX_MTIME, &now) < 0) {
		return err_sys(e, errno, "cannot stat");
	}
	if (now.stx_mtime.tv_sec == m->mtime.sec &&
	    now.stx_mtime.tv_nsec == m->mtime.nsec) {
		return 0;
	}
	if (loss) {
		loss->times = true;
		loss->mtime.sec = now.stx_mtime.tv_sec;
		loss->mtime.nsec = now.stx_mtime.tv_nsec;
	}
	return meta_refuse(loss, e,
			   "this file system cannot hold the time %lld.%09u",
			   (long long)m->mtime.sec, m->mtime.nsec);
}

/*
 * On btrfs the flag c brings the attribute btrfs.compression with it, and goes
 * when that goes. Where only the flag came (ext4 stores it, and compresses
 * nothing), it cannot be had alone.
 */
static int
check_compression(int fd, const struct meta *m, struct meta_loss *loss,
		  struct err *e)
{
	if (!(m->flags & FS_COMPR_FL) ||
	    (m->xattrs_len &&
	     memmem(m->xattrs, m->xattrs_len, BTRFS_COMPRESSION,
		    strlen(BTRFS_COMPRESSION))) ||
	    fgetxattr(fd, BTRFS_COMPRESSION, NULL, 0) < 0) {
		return 0;
	}
	if (loss) {
		loss->flags |= FS_COMPR_FL;
	}
	return meta_refuse(loss, e,
			   "this file system does not have the inode flag c "
			   "without the attribute " BTRFS_COMPRESSION);
}

static int
apply_opened(int fd, const struct meta *m, struct meta_loss *loss,
	     struct err *e)
{
	struct iflags_now now;
	struct timespec ts[2];
	int rc = iflags_begin(fd, &now, e);

	if (rc < 0) {
		return rc;
	}
	/* chown takes setuid, setgid and the capability away, so it is first
	 * even where the owner is right already. */
	if (fchown(fd, m->uid, m->gid) < 0) {
		return err_sys(e, errno, "cannot give it to %u:%u", m->uid,
			       m->gid);
	}
	if (fchmod(fd, m->perm) < 0) {
		return err_sys(e, errno, "cannot set mode %o", m->perm);
	}
	rc = iflags_apply(fd, &now, m->flags, m->projid, loss, e);
	if (rc == 0) {
		rc = check_compression(fd, m, loss, e);
	}
	if (rc == 0) {
		rc = xattr_apply(fd, 0, m->xattrs, m->xattrs_len, loss, e);
	}
	if (rc < 0) {
		return rc;
	}
	to_timespec(m, ts);
	if (futimens(fd, ts) < 0) {
		return err_sys(e, errno, "cannot set times");
	}
	rc = check_time(fd, m, loss, e);
	return rc < 0 ? rc : iflags_lock(fd, m->flags, loss, e);
}

/* `p` is an O_PATH descriptor of dirfd/name. */
static int
apply_named(int dirfd, const char *name, int p, const struct meta *m,
	    struct meta_loss *loss, struct err *e)
{
	struct timespec ts[2];
	char proc[32];
	int rc;

	if (fchownat(p, "", m->uid, m->gid, AT_EMPTY_PATH) < 0) {
		return err_sys(e, errno, "cannot give it to %u:%u", m->uid,
			       m->gid);
	}
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", p);
	if (m->type != FS_LNK && chmod(proc, m->perm) < 0) {
		return err_sys(e, errno, "cannot set mode %o", m->perm);
	}
	rc = xattr_apply(p, 1, m->xattrs, m->xattrs_len, loss, e);
	if (rc < 0) {
		return rc;
	}
	/* By name: AT_EMPTY_PATH would need Linux 5.8 here. */
	to_timespec(m, ts);
	if (utimensat(dirfd, name, ts, AT_SYMLINK_NOFOLLOW) < 0) {
		return err_sys(e, errno, "cannot set times");
	}
	return check_time(p, m, loss, e);
}

int
meta_apply(int dirfd, const char *name, int fd, const struct meta *m,
	   struct meta_loss *loss, struct err *e)
{
	cleanup(close_fd) int own = -1;
	cleanup(close_fd) int p = -1;
	struct statx now;

	if (m->uid == UINT32_MAX || m->gid == UINT32_MAX ||
	    m->atime.nsec > 999999999 || m->mtime.nsec > 999999999) {
		return err_set(e, E_PROTOCOL, "impossible owner or time");
	}
	if (fd >= 0) {
		return apply_opened(fd, m, loss, e);
	}
	p = beneath_open(dirfd, name, O_PATH, 0, e);
	if (p < 0) {
		return p;
	}
	if (statx(p, "", AT_EMPTY_PATH, STATX_TYPE, &now) < 0) {
		return err_sys(e, errno, "cannot stat");
	}
	if (type_of(now.stx_mode) != m->type) {
		return err_set(e, E_CHANGED, "is of another type");
	}
	if (m->type != FS_REG && m->type != FS_DIR) {
		return apply_named(dirfd, name, p, m, loss, e);
	}
	own = beneath_reopen(p, O_RDONLY | O_NOATIME, e);
	return own < 0 ? own : apply_opened(own, m, loss, e);
}

void
meta_fresh_probe(int dirfd, struct meta_fresh *f)
{
	cleanup(close_fd) int fd =
		openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0755);
	struct statx stx;
	struct meta m;

	*f = (struct meta_fresh){ 0 };
	if (fd < 0 ||
	    statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) < 0 ||
	    meta_read(-1, "", fd, &stx, &m, NULL, NULL) < 0) {
		return;
	}
	f->uid = m.uid;
	f->gid = m.gid;
	f->plain = !m.flags && !m.projid && !m.xattrs_len && m.perm == 0755;
	meta_fini(&m);
}

/* What the agent's umask of 022 lets pass. */
mode_t
meta_fresh_mode(const struct meta *m)
{
	return m->perm & 0755;
}

int
meta_apply_fresh(int fd, const struct meta *m, const struct meta_fresh *f,
		 struct err *e)
{
	bool given = m->uid != f->uid || m->gid != f->gid;
	struct timespec ts[2];
	int rc = 0;

	if (!f->plain || m->flags || m->projid || m->uid == UINT32_MAX ||
	    m->gid == UINT32_MAX) {
		return meta_apply(-1, "", fd, m, NULL, e);
	}
	if (given && fchown(fd, m->uid, m->gid) < 0) {
		return err_sys(e, errno, "cannot give it to %u:%u", m->uid,
			       m->gid);
	}
	if (m->perm != meta_fresh_mode(m) && fchmod(fd, m->perm) < 0) {
		return err_sys(e, errno, "cannot set mode %o", m->perm);
	}
	if (m->xattrs_len) {
		rc = xattr_apply(fd, 0, m->xattrs, m->xattrs_len, NULL, e);
	}
	if (rc < 0) {
		return rc;
	}
	to_timespec(m, ts);
	if (futimens(fd, ts) < 0) {
		return err_sys(e, errno, "cannot set times");
	}
	return check_time(fd, m, NULL, e);
}

static uint8_t *
put(uint8_t *p, uint64_t v, size_t bytes)
{
	v = htole64(v);
	memcpy(p, &v, bytes);
	return p + bytes;
}

/* The canonical form's fixed part; the variable parts follow it in the order
 * path, xattrs, target. Their lengths are in it, so no two entries have the
 * same form. */
static size_t
encode_head(uint8_t out[ENC_HEAD], size_t path_len, const struct meta *m,
	    const struct digest *content, uint32_t link_group)
{
	uint8_t *p = out;

	p = put(p, m->type, 1);
	p = put(p, content != NULL, 1);
	p = put(p, m->perm, 2);
	p = put(p, m->uid, 4);
	p = put(p, m->gid, 4);
	p = put(p, m->major, 4);
	p = put(p, m->minor, 4);
	p = put(p, m->flags, 4);
	p = put(p, m->projid, 4);
	p = put(p, link_group, 4);
	p = put(p, m->size, 8);
	p = put(p, (uint64_t)m->mtime.sec, 8);
	p = put(p, m->mtime.nsec, 4);
	p = put(p, path_len, 8);
	p = put(p, m->xattrs_len, 8);
	p = put(p, m->target_len, 8);
	if (content) {
		memcpy(p, content->b, DIGEST_LEN);
	} else {
		memset(p, 0, DIGEST_LEN);
	}
	return (size_t)(p + DIGEST_LEN - out);
}

struct digest
meta_digest(const struct digest_key *k, const char *path, size_t path_len,
	    const struct meta *m, const struct digest *content,
	    uint32_t link_group, struct digest_state *scratch)
{
	uint8_t enc[ENC_STACK];
	size_t n = encode_head(enc, path_len, m, content, link_group);
	size_t room = sizeof(enc) - n;

	if (path_len <= room && m->xattrs_len <= room - path_len &&
	    m->target_len <= room - path_len - m->xattrs_len) {
		uint8_t *p = enc + n;

		p = path_len ? mempcpy(p, path, path_len) : p;
		p = m->xattrs_len ? mempcpy(p, m->xattrs, m->xattrs_len) : p;
		p = m->target_len ? mempcpy(p, m->target, m->target_len) : p;
		return digest_of(k, enc, (size_t)(p - enc));
	}
	digest_reset(scratch);
	digest_update(scratch, enc, n);
	digest_update(scratch, path, path_len);
	digest_update(scratch, m->xattrs, m->xattrs_len);
	digest_update(scratch, m->target, m->target_len);
	return digest_final(scratch);
}

int
meta_xattrs_check(const uint8_t *p, size_t len, struct err *e)
{
	return xattr_check(p, len, e);
}
