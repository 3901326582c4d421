/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_do: what a worker does with a frame: makes files, changes and removes
 * them. State: the receiver's tables, which have locks of their own; the worker
 * is the calling thread's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "fs/content.h"
#include "wire/tree.h"
#include "xfer/blocktab.h"
#include "xfer/proof.h"
#include "xfer/recv_int.h"

#define PATH_SHOWN_MAX (1u << 20)

/* Put "PATH: " in front of an error. */
static int
name_error(struct receiver *r, uint32_t dir, const char *name, size_t name_len,
	   struct err *e)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(PATH_SHOWN_MAX);
	char shown[4096];

	if (dirtab_path(r->dirs, dir, name, name_len, &b, NULL) < 0) {
		return e->code;
	}
	return err_wrap(e, "%s",
			escape_bytes(shown, sizeof(shown), b.data, b.len));
}

/* ---- one entry ---- */

static int
stat_of(int dirfd, const char *name, int fd, struct stat *st, struct err *e)
{
	int rc = fd >= 0 ? fstat(fd, st)
			 : fstatat(dirfd, name, st, AT_SYMLINK_NOFOLLOW);

	return rc < 0 ? err_sys(e, errno, "cannot stat what was written") : 0;
}

/* v->blocks is taken over, also on error. */
static int
note_inode(struct receiver *r, int dirfd, const char *name, int fd,
	   const struct inomap_value *v, struct err *e)
{
	struct stat st;
	int rc = stat_of(dirfd, name, fd, &st, e);

	if (rc == 0) {
		rc = r->update ? inomap_put(r->inodes, st.st_ino, v, e)
			       : inomap_add(r->inodes, st.st_ino, v, NULL, e);
	}
	if (rc < 0) {
		blocktab_free(v->blocks);
	}
	return rc;
}

/* Remember what was not applied. */
static int
note_loss(struct receiver *r, int dirfd, uint32_t dir, const char *name, int fd,
	  const struct meta *m, const struct meta_loss *loss, struct err *e)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(PATH_SHOWN_MAX);
	struct stat st;
	int rc = stat_of(dirfd, name, fd, &st, e);

	/* A path that is too long to be shown is shown as far as it goes. */
	if (rc == 0) {
		dirtab_path(r->dirs, dir, name, strlen(name), &b, NULL);
		rc = losses_add(r->losses, st.st_ino, (char *)b.data, b.len, m,
				loss, e);
	}
	return rc;
}

/* Apply metadata, but for what must wait: i and a on an inode that is still
 * to be linked. */
static int
apply(struct receiver *r, int dirfd, uint32_t dir, const char *name, int fd,
      const struct meta *m, bool linked, struct err *e)
{
	uint32_t later = m->flags & (FS_IMMUTABLE_FL | FS_APPEND_FL);
	struct meta now = *m;
	struct meta_loss loss;
	int rc;

	if (linked && later) {
		now.flags &= ~later;
		rc = recv_late_flags(r->late, dir, name, m->flags, e);
		if (rc < 0) {
			return rc;
		}
	}
	if (r->policy == META_STRICT) {
		return meta_apply(dirfd, name, fd, &now, NULL, e);
	}
	if (losses_any(r->losses)) {
		struct stat st;

		rc = stat_of(dirfd, name, fd, &st, e);
		if (rc < 0) {
			return rc;
		}
		losses_forget(r->losses, st.st_ino);
	}
	meta_loss_init(&loss);
	rc = meta_apply(dirfd, name, fd, &now, &loss, e);
	if (rc == 0 && meta_loss_any(&loss)) {
		rc = note_loss(r, dirfd, dir, name, fd, m, &loss, e);
	}
	meta_loss_fini(&loss);
	return rc;
}

static int
write_pieces(struct receiver *r, int fd, const char *name,
	     const struct tree_record *rec, struct tree_in *in,
	     struct digest *content, struct err *e)
{
	uint64_t written = 0, bytes = 0;

	for (uint32_t i = 0; i < rec->pieces; i++) {
		const uint8_t *data;
		uint64_t off;
		uint32_t len;
		int rc = tree_get_piece(in, &off, &data, &len, e);

		if (rc == 0 && off + len > rec->meta.size) {
			rc = err_set(e, E_PROTOCOL,
				     "a piece beyond the end of its file");
		}
		if (rc == 0) {
			rc = content_write(fd, data, len, off, name, e);
		}
		if (rc < 0) {
			return rc;
		}
		proof_piece(&r->key, off, data, len, content);
		written = off + len > written ? off + len : written;
		bytes += len;
	}
	if (written < rec->meta.size &&
	    ftruncate(fd, (off_t)rec->meta.size) < 0) {
		return err_sys(e, errno, "cannot set the size");
	}
	__atomic_add_fetch(&r->bytes, bytes, __ATOMIC_RELAXED);
	return 0;
}

/*
 * What was made of it is read back here and now, while it is open: the proof
 * then only needs to see that its ctime is still the same. Whatever is not
 * plain is read back then. Where ctimes are whole seconds they tell too little.
 */
static int
note_fresh(struct receiver *r, int fd, struct inomap_value *v, struct err *e)
{
	struct statx stx;
	struct meta m;
	int rc;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) < 0) {
		return err_sys(e, errno, "cannot stat what was written");
	}
	rc = meta_read(-1, "", fd, &stx, &m, NULL, e);
	if (rc < 0) {
		return rc;
	}
	if (stx.stx_ctime.tv_nsec && !m.flags && !m.projid && !m.xattrs_len) {
		v->plain = meta_ctime(&stx);
	}
	meta_fini(&m);
	return inomap_add(r->inodes, stx.stx_ino, v, NULL, e);
}

static int
do_regular(struct receiver *r, int dirfd, const char *name,
	   const struct tree_record *rec, struct tree_in *in, struct err *e)
{
	struct inomap_value v = { .group = rec->linked ? rec->id : 0 };
	cleanup(close_fd) int fd = recv_file_create(
		dirfd, name, r->update, meta_fresh_mode(&rec->meta), e);
	int rc = fd < 0 ? fd : 0;

	/* In an update the directory may pass flags on. */
	if (rc == 0 && (rec->meta.flags || rec->meta.projid || r->update)) {
		rc = recv_file_early(fd, &rec->meta, r->policy, e);
	}
	if (rc == 0) {
		rc = write_pieces(r, fd, name, rec, in, &v.content, e);
	}
	/* In pass 1 nothing is inherited yet. */
	if (rc == 0 && r->policy == META_STRICT && !r->update &&
	    !rec->meta.flags) {
		rc = meta_apply_fresh(fd, &rec->meta, &r->fresh, e);
		rc = rc < 0 ? rc : note_fresh(r, fd, &v, e);
	} else if (rc == 0) {
		rc = apply(r, dirfd, rec->dir, name, fd, &rec->meta,
			   rec->linked, e);
		rc = rc < 0 ? rc : note_inode(r, dirfd, name, fd, &v, e);
	}
	/* A delayed write's ENOSPC or EIO may come only now (D4). */
	if (rc == 0 && close(steal_fd(&fd)) < 0) {
		rc = err_sys(e, errno, "cannot close");
	}
	return rc < 0 ? rc : recv_late_touched(r->late, rec->dir, name, e);
}

static int
do_special(struct receiver *r, int dirfd, const char *name,
	   const struct tree_record *rec, struct err *e)
{
	struct inomap_value v = { .group = rec->linked ? rec->id : 0 };
	int rc = meta_mknod(dirfd, name, &rec->meta, e);

	if (rc == E_EXISTS && r->update) {
		rc = dirtab_displace(dirfd, name, e);
		rc = rc < 0 ? rc : meta_mknod(dirfd, name, &rec->meta, e);
	}
	if (rc == 0) {
		rc = apply(r, dirfd, rec->dir, name, -1, &rec->meta,
			   rec->linked, e);
	}
	if (rc >= 0 && (rec->linked || r->update)) {
		rc = note_inode(r, dirfd, name, -1, &v, e);
	}
	recv_late_touched_special(r->late);
	return rc < 0 ? rc : 0;
}

static int
do_entry(struct recv_worker *w, struct tree_record *rec, struct tree_in *in,
	 struct err *e)
{
	struct receiver *r = w->r;
	char name[256], target[META_TARGET_MAX + 1];
	int dirfd, rc;

	if (rec->meta.type == FS_DIR) {
		/* Made even when it stays empty. */
		rc = dirtab_open(r->dirs, &w->dirs, rec->id, 1, e);
		return rc < 0 ? rc
			      : recv_late_dir(r->late, rec->id, &rec->meta, e);
	}
	dirfd = dirtab_open(r->dirs, &w->dirs, rec->dir, 1, e);
	if (dirfd < 0) {
		return dirfd;
	}
	memcpy(name, rec->name, rec->name_len);
	name[rec->name_len] = '\0';
	if (rec->meta.type == FS_LNK) {
		memcpy(target, rec->meta.target, rec->meta.target_len);
		target[rec->meta.target_len] = '\0';
		rec->meta.target = target;
	}
	rc = rec->meta.type == FS_REG ? do_regular(r, dirfd, name, rec, in, e)
				      : do_special(r, dirfd, name, rec, e);
	if (rc == 0 && rec->linked) {
		rc = recv_late_first(r->late, rec->id, rec->dir, name, e);
	}
	return rc;
}

/* ---- records of later passes ---- */

static int
do_remove(struct recv_worker *w, const struct tree_record *rec, struct err *e)
{
	char name[256];
	int dirfd = dirtab_open(w->r->dirs, &w->dirs, rec->dir, 1, e);

	if (dirfd < 0) {
		return dirfd;
	}
	memcpy(name, rec->name, rec->name_len);
	name[rec->name_len] = '\0';
	return dirtab_displace(dirfd, name, e);
}

/* The inode is about to be changed. It must be of the group that the record
 * says, or whoever sent it knows another tree than this one. */
static int
check_group(struct receiver *r, int dirfd, const char *name,
	    const struct tree_record *rec, struct err *e)
{
	struct inomap_value v = { 0 };
	struct stat st;
	int rc = stat_of(dirfd, name, -1, &st, e);

	if (rc == 0) {
		inomap_get(r->inodes, st.st_ino, &v);
		inomap_changed(r->inodes, st.st_ino);
	}
	if (rc == 0 && v.split) {
		rc = recv_file_split_error(e);
	}
	if (rc == 0 && v.group != (rec->linked ? rec->id : 0)) {
		rc = err_set(e, E_PROTOCOL,
			     "metadata for a name of another group");
	}
	return rc;
}

static int
do_meta(struct recv_worker *w, const struct tree_record *rec, struct err *e)
{
	struct receiver *r = w->r;
	char name[256];
	int rc, dirfd = dirtab_open(r->dirs, &w->dirs, rec->dir, 0, e);

	if (dirfd < 0) {
		return dirfd;
	}
	memcpy(name, rec->name, rec->name_len);
	name[rec->name_len] = '\0';
	rc = check_group(r, dirfd, name, rec, e);
	/* No name is going to be linked to it in this pass, so its flags need
	 * not wait. */
	if (rc == 0) {
		rc = apply(r, dirfd, rec->dir, name, -1, &rec->meta, false, e);
	}
	if (rc < 0) {
		return rc;
	}
	if (rec->meta.type == FS_REG) {
		return recv_late_touched(r->late, rec->dir, name, e);
	}
	recv_late_touched_special(r->late);
	return 0;
}

/* ---- large files ---- */

static int
finish_file(struct receiver *r, struct recv_file *f, int dirfd, struct err *e)
{
	struct recv_file_whole w;
	int rc;

	if (!recv_file_claim(f, &w)) {
		return 0;
	}
	rc = apply(r, dirfd, recv_file_dir(f), recv_file_name(f), w.fd, w.meta,
		   w.v.group && !w.in_place, e);
	if (rc < 0) {
		blocktab_free(w.v.blocks);
		return rc;
	}
	rc = note_inode(r, dirfd, recv_file_name(f), w.fd, &w.v, e);
	if (rc >= 0 && w.v.group && !w.in_place) {
		rc = recv_late_first(r->late, w.v.group, recv_file_dir(f),
				     recv_file_name(f), e);
	}
	if (rc >= 0) {
		rc = recv_late_touched(r->late, recv_file_dir(f),
				       recv_file_name(f), e);
	}
	return rc < 0 ? rc : recv_file_finish(r->files, f, e);
}

/* A chunk (data != NULL) or the end (rec != NULL) of a large file. */
static int
do_file(struct recv_worker *w, uint32_t id, const struct tree_record *rec,
	uint64_t off, const uint8_t *data, size_t len, struct err *e)
{
	struct receiver *r = w->r;
	struct recv_file *f;
	int dirfd = -1, rc = recv_file_get(r->files, id, &f, e);

	w->no_file = !f;
	if (rc < 0) {
		return rc;
	}
	dirfd = dirtab_open(r->dirs, &w->dirs, recv_file_dir(f),
			    !recv_file_in_place(f), e);
	rc = dirfd < 0 ? dirfd : recv_file_open(r->files, f, dirfd, e);
	if (rc >= 0) {
		rc = rec ? recv_file_end(f, rec, e)
			 : recv_file_chunk(f, &r->key, off, data, len,
					   recv_file_name(f), e);
	}
	if (rc >= 0) {
		__atomic_add_fetch(&r->bytes, len, __ATOMIC_RELAXED);
		rc = finish_file(r, f, dirfd, e);
	}
	if (rc < 0) {
		name_error(r, recv_file_dir(f), recv_file_name(f),
			   strlen(recv_file_name(f)), e);
	}
	recv_file_put(r->files, f);
	return rc;
}

/* What is compressed of a frame: `*p`, `*len` are exchanged for the content. */
static int
unpack(struct recv_worker *w, const struct pool_frame *f, const uint8_t **p,
       size_t *len, struct err *e)
{
	if (!(f->flags & FRAME_F_ZSTD)) {
		return 0;
	}
	if (!w->z) {
		w->z = zunpack_new(e);
		if (!w->z) {
			return E_NOMEM;
		}
	}
	return zunpack_bytes(w->z, *p, *len, p, len, e);
}

static int
do_chunk(struct recv_worker *w, struct pool_frame *f, struct err *e)
{
	const uint8_t *p = pool_payload(f);
	size_t len = f->len - TREE_CHUNK_HEAD;
	uint64_t off = 0;
	uint32_t id = 0;
	int rc;

	if (f->len <= TREE_CHUNK_HEAD) {
		return err_set(e, E_PROTOCOL, "malformed chunk");
	}
	for (int i = 3; i >= 0; i--) {
		id = id << 8 | p[i];
	}
	for (int i = 11; i >= 4; i--) {
		off = off << 8 | p[i];
	}
	p += TREE_CHUNK_HEAD;
	rc = unpack(w, f, &p, &len, e);
	return rc < 0 ? rc : do_file(w, id, NULL, off, p, len, e);
}

/* ---- a frame ---- */

static int
do_record(struct recv_worker *w, struct tree_record *rec, struct tree_in *in,
	  struct err *e)
{
	int rc;

	switch (rec->kind) {
	case TREE_ENTRY:
		rc = do_entry(w, rec, in, e);
		break;
	case TREE_LINK:
		rc = recv_late_link(w->r->late, rec->id, rec->dir, rec->name,
				    rec->name_len, e);
		break;
	case TREE_FILE_END:
		return do_file(w, rec->id, rec, 0, NULL, 0, e);
	case TREE_REMOVE:
	case TREE_META:
		if (!w->r->update) {
			return err_set(e, E_PROTOCOL,
				       "a change of something in the first "
				       "pass");
		}
		rc = rec->kind == TREE_META ? do_meta(w, rec, e)
					    : do_remove(w, rec, e);
		break;
	default:
		return err_set(e, E_PROTOCOL, "a definition in a batch's body");
	}
	if (rc < 0) {
		name_error(w->r, rec->dir, rec->name, rec->name_len, e);
	}
	return rc < 0 ? rc : 0;
}

/* The records from f->at on. Each is done or it is not: where one has to wait
 * for a definition, which is found out before it has any effect, f->at is left
 * pointing to it. */
static int
do_batch(struct recv_worker *w, struct pool_frame *f, struct err *e)
{
	struct tree_in body, defs;
	struct tree_record rec;
	int rc = tree_split(pool_payload(f), f->len, &body, &defs, e);
	const uint8_t *start;

	rc = rc < 0 ? rc : unpack(w, f, &body.p, &body.left, e);
	start = body.p;
	if (rc == 0) {
		body.p += f->at;
		body.left -= f->at;
	}
	while (rc == 0 && (rc = tree_get(&body, &rec, e)) == 1) {
		rc = do_record(w, &rec, &body, e);
		if (rc == 0) {
			f->at = (uint32_t)(body.p - start);
		}
	}
	return rc;
}

int
recv_do_frame(struct recv_worker *w, struct pool_frame *f, struct err *e)
{
	return f->type == FRAME_BATCH ? do_batch(w, f, e) : do_chunk(w, f, e);
}
