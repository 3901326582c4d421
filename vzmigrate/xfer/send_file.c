/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_file: one entry that is not a directory. A small file's bytes are read
 * straight to where they leave from; when they turn out to be what is there
 * already, its record is taken back before it leaves.
 *
 * Without a ledger, and in the final pass, the container is stopped, so what
 * changes while it is looked at is a fault. While it runs that is an ordinary
 * thing: what was read is sent, and noted, so that the next pass looks again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/beneath.h"
#include "fs/content.h"
#include "xfer/proof.h"
#include "xfer/send_int.h"

#define READ_TRIES 3
#define SETTLE_NS 20000000

static bool
same_time(const struct statx_timestamp *a, const struct statx_timestamp *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* One statx for each file: without it a file written to while we read it would
 * arrive torn (D5). */
int
send_file_unchanged(int fd, const struct statx *was, struct err *e)
{
	struct statx now;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &now) < 0) {
		return err_sys(e, errno, "cannot stat");
	}
	if (now.stx_ino != was->stx_ino ||
	    now.stx_dev_major != was->stx_dev_major ||
	    now.stx_dev_minor != was->stx_dev_minor ||
	    (now.stx_mode ^ was->stx_mode) & S_IFMT) {
		return err_set(e, E_CHANGED, "replaced while it was read");
	}
	if (now.stx_size != was->stx_size ||
	    !same_time(&now.stx_mtime, &was->stx_mtime) ||
	    !same_time(&now.stx_ctime, &was->stx_ctime)) {
		return err_set(e, E_CHANGED,
			       "changed while it was read: something still "
			       "writes there");
	}
	return 0;
}

/* Times come from a clock that ticks every 1 to 10 ms: a write in the tick in
 * which the file was changed last leaves no trace. So a file or directory that
 * was changed just now is left to settle; from then on every write shows. */
int
send_file_settle(int fd, const struct statx *stx, struct err *e)
{
	struct timespec now, wait = { 0 };
	int64_t age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = ((int64_t)now.tv_sec - stx->stx_ctime.tv_sec) * 1000000000 +
	      now.tv_nsec - stx->stx_ctime.tv_nsec;
	if (age < -SETTLE_NS || age >= SETTLE_NS) {
		return 0;
	}
	wait.tv_nsec = SETTLE_NS - (age < 0 ? 0 : age);
	nanosleep(&wait, NULL);
	return send_file_unchanged(fd, stx, e);
}

/* The same at the end of a reading: while the container runs, noted. */
static int
still_whole(struct pass *p, struct item *it, struct err *e)
{
	int rc = send_file_unchanged(it->fd, &it->stx, e);

	if (rc == E_CHANGED && p->o->live) {
		it->torn = true;
		return 0;
	}
	return rc;
}

int
send_file_read(struct pass *p, struct item *it, struct content_ahead *a,
	       uint8_t *to, uint64_t off, size_t len, struct err *e)
{
	ssize_t got = it->image
			      ? content_read_direct(it->fd, a, to, len, off,
						    it->name, e)
			      : content_read(it->fd, to, len, off, it->name, e);

	if (got < 0) {
		/* It may not be the file that was meant. */
		return send_file_unchanged(it->fd, &it->stx, NULL) == E_CHANGED
			       ? err_recode(e, E_CHANGED, "changed")
			       : (int)got;
	}
	if ((size_t)got < len) {
		if (!p->o->live) {
			return err_set(e, E_CHANGED,
				       "became shorter while it was read");
		}
		memset(to + got, 0, len - (size_t)got);
		__atomic_store_n(&it->torn, true, __ATOMIC_RELAXED);
	}
	return 0;
}

size_t
send_file_piece(uint64_t off, uint64_t end)
{
	uint64_t stop = (off / TREE_PIECE + 1) * TREE_PIECE;

	return (size_t)((stop < end ? stop : end) - off);
}

int
send_file_hash(struct pass *p, struct item *it, uint64_t off,
	       const uint8_t *data, size_t len, struct err *e)
{
	if (!it->blocks) {
		proof_piece(p->key, off, data, len, &it->content);
		return 0;
	}
	while (len) {
		uint64_t no = off / TREE_BLOCK;
		size_t n = TREE_BLOCK - off % TREE_BLOCK;
		struct digest d = { 0 }, sum;
		int rc;

		n = n < len ? n : len;
		proof_piece(p->key, off, data, n, &d);
		digest_sum(&it->content, &d);
		sum = blocks_get(it->blocks, no);
		digest_sum(&sum, &d);
		rc = blocks_put(it->blocks, no, &sum, e);
		if (rc < 0) {
			return rc;
		}
		off += n;
		data += n;
		len -= n;
	}
	return 0;
}

struct digest
send_file_proof(struct pass *p, struct lane *n, const struct item *it,
		uint32_t group)
{
	const struct digest *c = it->m.type == FS_REG ? &it->content : NULL;

	return group ? proof_group(p->key, group, &it->m, c, n->scratch)
		     : proof_name(p->key, (char *)n->path.data, n->path.len,
				  &it->m, c, n->scratch);
}

struct digest
send_file_content(struct pass *p, const struct item *it)
{
	uint64_t v[6] = { it->m.type,  it->m.size,
			  it->m.major, it->m.minor,
			  0,	       it->m.flags & SEND_EARLY_FLAGS };
	struct digest d;
	uint8_t all[sizeof(v) + DIGEST_LEN];

	if (it->m.target_len) {
		v[4] = digest_hash64(p->key, it->m.target, it->m.target_len);
	}
	memcpy(all, v, sizeof(v));
	memcpy(all + sizeof(v), it->content.b, DIGEST_LEN);
	d = digest_of(p->key, all, sizeof(all));
	return d;
}

/* What to do, once all of it is read. */
static enum send_how
weigh(struct pass *p, struct lane *n, const struct item *it)
{
	struct digest d;

	if (!it->was_known) {
		return SEND_WHOLE;
	}
	d = send_file_proof(p, n, it, it->was_group);
	if (digest_eq(&d, &it->was_proof)) {
		return SEND_SAME;
	}
	d = send_file_content(p, it);
	return digest_eq(&d, &it->was_content) ? SEND_META : SEND_WHOLE;
}

/* Put a META record. Directories are defined. */
static int
put_meta(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	uint32_t wire;
	int rc = send_prepare(p, n, it->dir,
			      tree_entry_size(&it->m, it->name_len), &wire, e);

	if (rc == 0) {
		tree_put_meta(&n->body, it->was_group, it->was_group != 0, wire,
			      it->name, it->name_len, &it->m);
	}
	return rc;
}

/* ---- small files ---- */

/* The next run of data. A file without holes needs no SEEK_DATA: its blocks
 * cover its size. */
static int
next_data(struct item *it, uint64_t pos, uint64_t *off, uint64_t *len,
	  struct err *e)
{
	if (it->stx.stx_blocks * 512 >= it->m.size &&
	    it->m.size <= SEND_INLINE_MAX) {
		*off = pos;
		*len = it->m.size - pos;
		return pos < it->m.size;
	}
	return content_next(it->fd, pos, it->m.size, off, len, e);
}

static int
inline_pieces(struct pass *p, struct lane *n, struct item *it, uint32_t *pieces,
	      struct err *e)
{
	uint64_t pos = 0, off, len;
	int rc;

	while ((rc = next_data(it, pos, &off, &len, e)) == 1) {
		size_t take = send_file_piece(off, off + len);
		uint8_t *to;

		if (n->body.cap - n->body.len < 12 + take) {
			/* Many tiny extents cost more than was reserved. */
			return err_set(e, E_LIMIT, "too many extents");
		}
		tree_put_piece(&n->body, off, (uint32_t)take);
		to = n->body.p + n->body.len;
		rc = send_file_read(p, it, &it->ahead, to, off, take, e);
		rc = rc < 0 ? rc : send_file_hash(p, it, off, to, take, e);
		if (rc < 0) {
			return rc;
		}
		n->body.len += take;
		it->bytes += take;
		pos = off + take;
		++*pieces;
	}
	return rc;
}

/* A small file within the batch. E_LIMIT: it has to go in chunks. */
static int
send_inline(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	size_t need =
		tree_entry_size(&it->m, it->name_len) + 4 + 12 + it->m.size;
	uint32_t pieces = 0, wire;
	size_t start, at;
	int rc = send_prepare(p, n, it->dir, need, &wire, e);

	if (rc < 0) {
		return rc;
	}
	start = n->body.len;
	tree_put_entry(&n->body, it->group, it->group != 0, wire, it->name,
		       it->name_len, &it->m);
	at = n->body.len;
	tree_put_u32(&n->body, 0);
	it->content = (struct digest){ 0 };
	it->bytes = 0;
	rc = inline_pieces(p, n, it, &pieces, e);
	if (rc == 0) {
		tree_set_u32(n->body.p + at, pieces);
		rc = still_whole(p, it, e);
	}
	it->how = rc < 0 ? SEND_WHOLE : weigh(p, n, it);
	if (rc < 0 || it->how != SEND_WHOLE) {
		n->body.len = start; /* as if it had not been begun */
	}
	if (rc == 0 && it->how != SEND_WHOLE) {
		it->reread += it->bytes;
		it->bytes = 0;
	}
	return rc == 0 && it->how == SEND_META ? put_meta(p, n, it, e) : rc;
}

/* ---- large files ---- */

/* The run [pos, end) in chunks. */
static int
send_run(struct pass *p, struct lane *n, struct item *it, uint32_t id,
	 uint64_t pos, uint64_t end, uint64_t *chunks, struct err *e)
{
	it->ahead.end = end;
	while (pos < end) {
		size_t take = send_file_piece(pos, end);
		int rc = send_stopped(p, e);

		rc = rc < 0 ? rc : send_chunk(p, n, it, id, pos, take, e);
		if (rc < 0) {
			return rc;
		}
		pos += take;
		++*chunks;
	}
	return 0;
}

/* Asked once for each run, not for each chunk: on tmpfs SEEK_HOLE looks at
 * every page up to the hole. */
static int
send_chunks(struct pass *p, struct lane *n, struct item *it, uint32_t id,
	    uint64_t *chunks, struct err *e)
{
	uint64_t pos = 0, off, len;
	int rc;

	while ((rc = next_data(it, pos, &off, &len, e)) == 1) {
		rc = send_run(p, n, it, id, off, off + len, chunks, e);
		if (rc < 0) {
			return rc;
		}
		pos = off + len;
	}
	return rc;
}

/* All of it, in chunks. */
static int
send_chunked(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	uint32_t id = it->group ? it->group : send_new_id(p), wire;
	uint64_t chunks = 0;
	int rc;

	it->content = (struct digest){ 0 };
	it->bytes = 0;
	it->how = SEND_WHOLE;
	if (p->led) {
		it->blocks = blocks_new(e);
		if (!it->blocks) {
			return E_NOMEM;
		}
	}
	rc = send_prepare(p, n, it->dir, 0, &wire, e);
	if (rc == 0) {
		tree_put_file(&n->defs, id, wire, it->name, it->name_len,
			      &it->m);
		/* The definition goes ahead of the chunks. */
		rc = send_flush(p, n, e);
	}
	if (rc == 0) {
		rc = send_chunks(p, n, it, id, &chunks, e);
	}
	if (rc == 0) {
		rc = still_whole(p, it, e);
	}
	if (rc == 0) {
		rc = send_reserve(p, n, tree_entry_size(&it->m, 0), 0, e);
	}
	if (rc == 0) {
		tree_put_file_end(&n->body, id, it->group != 0, chunks, &it->m);
	}
	return rc;
}

static int
send_large(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	int rc;

	if (!it->was_file || it->m.size <= SEND_INLINE_MAX ||
	    it->was_file->flags != (it->m.flags & SEND_EARLY_FLAGS)) {
		return send_chunked(p, n, it, e);
	}
	rc = send_diff(p, n, it, e);
	if (rc == 0) {
		rc = still_whole(p, it, e);
	}
	return rc == 0 && it->how == SEND_META ? put_meta(p, n, it, e) : rc;
}

int
send_file_meta(struct pass *p, int dirfd, const char *name, int fd,
	       const struct statx *stx, struct meta *m, struct err *e)
{
	int rc = meta_read(dirfd, name, fd, stx, m, NULL, e);

	m->flags &= ~p->o->drop_flags;
	return rc;
}

void
send_file_done(struct item *it)
{
	close_fd(&it->fd);
	it->fd = -1;
	content_ahead_fini(&it->ahead);
	meta_fini(&it->m);
	it->m = (struct meta){ 0 };
	blocks_free(it->blocks);
	it->blocks = NULL;
}

/*
 * A write moves its file's times when it begins and may be under way for long:
 * a gigabyte in one call, on a slow disk. What it stores after we have read
 * would leave no trace. It holds the inode's lock from before the one until
 * after the other, and looking for data takes that lock, too, on ext4 and
 * btrfs (on XFS reading does): what was begun before `it->stx` was taken is
 * complete when this returns. One system call for a file that is read, while
 * the container runs.
 */
static void
await_writers(int fd)
{
	(void)lseek(fd, 0, SEEK_DATA);
}

/* An image is read past the page cache. */
static int
look_past_cache(struct pass *p, struct item *it, struct err *e)
{
	int rc;

	it->image = images_find(p->o->images, it->stx.stx_ino);
	rc = it->image ? content_direct(it->fd, it->name, e) : 0;
	/* It may not be the file that was meant. */
	return rc < 0 && send_file_unchanged(it->fd, &it->stx, NULL) ==
				       E_CHANGED
		       ? err_recode(e, E_CHANGED, "changed")
		       : rc;
}

/* Open, read metadata and content, send. A small file that changed meanwhile
 * is tried again, since nothing of it has left. */
static int
try_regular(struct pass *p, struct lane *n, struct item *it, bool again,
	    struct err *e)
{
	const int flags = O_RDONLY | O_NOATIME;
	uint64_t ino = it->stx.stx_ino;
	int rc;

	it->torn = false;
	/* In a tame view nothing that was renamed there meanwhile does harm:
	 * send_file_unchanged compares with what the walk saw. */
	it->fd = p->o->tame && !again
			 ? beneath_open_own(it->dirfd, it->name, flags, e)
			 : beneath_open_reg(it->dirfd, it->name, flags,
					    &it->stx, e);
	if (it->fd < 0) {
		return it->fd;
	}
	if (it->group && it->stx.stx_ino != ino) {
		return err_set(e, E_CHANGED, "replaced while it was read");
	}
	rc = look_past_cache(p, it, e);
	if (rc == 0 && !p->o->live) {
		rc = send_file_settle(it->fd, &it->stx, e);
	}
	if (rc == 0) {
		rc = send_file_meta(p, it->dirfd, it->name, it->fd, &it->stx,
				    &it->m, e);
	}
	if (rc < 0) {
		return rc;
	}
	if (p->o->live) {
		await_writers(it->fd);
	}
	rc = it->m.size <= SEND_INLINE_MAX ? send_inline(p, n, it, e) : E_LIMIT;
	if (rc == E_LIMIT) {
		rc = send_large(p, n, it, e);
		if (rc == E_CHANGED) {
			/* Parts have left: no second try in this pass. */
			rc = err_recode(e, E_COPY, "large file");
		}
		n->part.bytes += it->bytes;
		if (rc == 0 && it->how != SEND_SAME) {
			send_count(p, n, 0);
		}
	} else if (rc == 0 && it->how != SEND_SAME) {
		send_count(p, n, it->bytes);
	}
	n->part.files += rc == 0;
	return rc;
}

int
send_file_regular(struct pass *p, struct lane *n, struct item *it,
		  struct err *e)
{
	int rc = E_CHANGED;

	for (int i = 0; i < READ_TRIES && rc == E_CHANGED; i++) {
		send_file_done(it);
		rc = try_regular(p, n, it, i > 0, e);
	}
	return rc == E_COPY ? err_recode(e, E_CHANGED, "not copied") : rc;
}

/* ---- others ---- */

int
send_file_special(struct pass *p, struct lane *n, struct item *it,
		  struct err *e)
{
	uint32_t wire;
	int rc =
		send_file_meta(p, it->dirfd, it->name, -1, &it->stx, &it->m, e);

	if (rc < 0) {
		return rc;
	}
	it->how = weigh(p, n, it);
	if (it->how == SEND_META) {
		rc = put_meta(p, n, it, e);
	} else if (it->how == SEND_WHOLE) {
		rc = send_prepare(p, n, it->dir,
				  tree_entry_size(&it->m, it->name_len), &wire,
				  e);
		if (rc == 0) {
			tree_put_entry(&n->body, it->group, it->group != 0,
				       wire, it->name, it->name_len, &it->m);
		}
	}
	if (rc == 0 && it->how != SEND_SAME) {
		send_count(p, n, 0);
	}
	n->part.others += rc == 0;
	return rc;
}

int
send_file_link(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	uint32_t wire;
	int rc = send_prepare(p, n, it->dir, 10 + it->name_len, &wire, e);

	if (rc == 0) {
		tree_put_link(&n->body, it->group, wire, it->name,
			      it->name_len);
		send_count(p, n, 0);
		n->part.links++;
	}
	return rc;
}
