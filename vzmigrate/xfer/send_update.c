/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_update: the callbacks of a pass with a ledger. What the ledger knows
 * and the walk finds as it was costs one look-up; the rest is read, compared,
 * and sent where it differs. Pass 1 is the same with an empty ledger.
 *
 * An inode's identity is taken before it is read, so whatever happens to it
 * from then on shows in the next pass; what could happen without a trace is
 * marked as suspect (send_update_begin).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "fs/beneath.h"
#include "xfer/proof.h"
#include "xfer/send_int.h"

/* File times tick every 1 to 10 ms, behind the clock; and what moves them when
 * it begins may change the file later: a direct write when it ends, a store
 * when its page has been made ready. So long that may be under way when the
 * pass begins, syncfs besides, without being lost. (Other writes are waited
 * for: send_file.c, await_writers.) */
#define MARGIN_NS 1000000000

#define MAGIC_EXT 0xef53
#define MAGIC_XFS 0x58465342
#define MAGIC_BTRFS 0x9123683e

/* ---- the beginning ---- */

static int64_t
now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/*
 * Whether a store into a mapped page moves ctime when the page was clean, and
 * syncfs makes it clean: seen on these (design.md, section 9). On tmpfs it
 * never moves; of others nothing is known.
 */
static bool
stores_show(int rootfd)
{
	struct statfs s;

	return fstatfs(rootfd, &s) == 0 && ((unsigned)s.f_type == MAGIC_EXT ||
					    (unsigned)s.f_type == MAGIC_XFS ||
					    (unsigned)s.f_type == MAGIC_BTRFS);
}

int
send_update_begin(struct pass *p, struct err *e)
{
	int64_t now = now_ns(CLOCK_REALTIME);
	int rc = ledger_begin(p->led, p->o->pass, e);

	if (rc < 0) {
		return rc;
	}
	ledger_clock(p->led, now - now_ns(CLOCK_MONOTONIC));
	p->suspect_from = now - MARGIN_NS;
	p->doubts = ledger_doubts(p->led) || !stores_show(p->rootfd);
	p->rehash = p->o->final && p->o->pass > 1 && p->doubts;
	/* After the last pass nobody asks what is suspect. */
	if (p->o->final && !p->o->live) {
		return 0;
	}
	/* Pages that are dirty from now on were stored to first after `now`;
	 * that moved their file's ctime past it. */
	if (syncfs(p->rootfd) < 0) {
		log_warn("cannot sync the container's file system (%s): all "
			 "that is copied now will be read again",
			 strerror(errno));
		p->suspect_from = INT64_MIN;
	}
	return 0;
}

void
send_update_end(struct pass *p)
{
	ledger_clock(p->led, now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC));
}

bool
send_update_suspect(const struct pass *p, const struct statx *stx)
{
	return meta_ctime_latest(stx) >= p->suspect_from;
}

/* ---- entries ---- */

uint64_t
send_update_bytes(const struct statx *stx)
{
	uint64_t disk = stx->stx_blocks * 512;

	return disk < stx->stx_size ? disk : stx->stx_size;
}

/* What the next pass will have to look at, whatever its times say. */
static void
count_suspect(struct pass *p, struct lane *n, bool suspect, bool regular,
	      uint64_t size)
{
	if (suspect || (regular && p->doubts)) {
		n->part.suspects++;
		n->part.suspect_bytes += regular ? size : 0;
	}
}

void
send_update_touch(struct pass *p, struct ledger_dir *d)
{
	if (!p->walked) {
		d->touched = p->o->pass; /* its own thread */
		return;
	}
	pthread_mutex_lock(&p->lock);
	if (d->touched != p->o->pass && d->sent != p->o->pass) {
		d->touched = p->o->pass;
		/* No memory for it: then the pass cannot succeed. */
		p->late_lost |= buf_append(&p->late, &d, sizeof(d), NULL) < 0;
	}
	pthread_mutex_unlock(&p->lock);
}

void
send_update_was(struct pass *p, struct item *it, const struct ledger_entry *en)
{
	it->was_known = en->flags & LEDGER_KNOWN &&
			!(en->flags & (LEDGER_DIR | LEDGER_LINK));
	it->was_proof = en->proof;
	it->was_content = en->content;
	it->was_group = 0;
	it->was_file =
		en->flags & LEDGER_LARGE ? ledger_file(p->led, en->sub) : NULL;
}

/* The table of blocks goes from the item to the ledger's file. */
int
send_update_file(struct pass *p, struct lane *n, struct item *it, uint32_t *no,
		 struct err *e)
{
	struct ledger_file *f = *no ? ledger_file(p->led, *no)
				    : ledger_file_new(p->led, n->number, no, e);

	if (!f) {
		return e ? e->code : E_NOMEM;
	}
	blocks_free(f->blocks);
	f->blocks = steal_ptr(&it->blocks);
	f->size = it->m.size;
	f->flags = it->m.flags & SEND_EARLY_FLAGS;
	return 0;
}

bool
send_update_moving(const struct pass *p, const struct item *it)
{
	return it->torn || (it->image && it->image->moving) ||
	       send_update_suspect(p, &it->stx);
}

/* Write down what came of a name with an inode of its own. */
static int
note(struct pass *p, struct lane *n, struct ledger_entry *en, struct item *it,
     struct err *e)
{
	bool suspect = send_update_moving(p, it);
	uint32_t file = 0;

	if (it->blocks && en->flags & LEDGER_LARGE) {
		file = en->sub; /* its own is kept */
	} else {
		ledger_reset(p->led, n->number, en);
	}
	if (it->blocks) {
		int rc = send_update_file(p, n, it, &file, e);

		if (rc < 0) {
			return rc;
		}
		en->flags = LEDGER_LARGE;
		en->sub = file;
	}
	en->flags |= LEDGER_KNOWN | (suspect ? LEDGER_SUSPECT : 0);
	en->flags &= suspect ? 0xff : ~LEDGER_SUSPECT;
	en->type = it->m.type;
	en->seen = ledger_seen(p->led, &it->stx);
	en->proof = send_file_proof(p, n, it, 0);
	en->content = send_file_content(p, it);
	send_add(n, &en->proof);
	n->part.proof.entries++;
	count_suspect(p, n, suspect, en->type == FS_REG,
		      send_update_bytes(&it->stx));
	return 0;
}

/* It is as it was, as far as its times can tell. */
static bool
unchanged(struct pass *p, const struct ledger_entry *en,
	  const struct statx *stx)
{
	struct digest seen;

	if ((en->flags & (LEDGER_KNOWN | LEDGER_SUSPECT | LEDGER_LINK)) !=
		    LEDGER_KNOWN ||
	    (p->rehash && S_ISREG(stx->stx_mode)) ||
	    images_moving(p->o->images, stx->stx_ino)) {
		return false;
	}
	seen = ledger_seen(p->led, stx);
	return digest_eq(&seen, &en->seen);
}

/* A name with an inode of its own that is new, changed or suspect. */
static int
send_one(struct pass *p, struct lane *n, struct scan_dir *d,
	 struct ledger_entry *en, struct item *it, struct err *e)
{
	int64_t from = send_now_ns();
	int rc;

	rc = send_path(n, d->path, d->path_len, it->name, it->name_len, e);
	rc = rc < 0 ? rc : send_stopped(p, e);
	if (rc < 0) {
		return rc;
	}
	send_update_was(p, it, en);
	rc = S_ISREG(it->stx.stx_mode) ? send_file_regular(p, n, it, e)
				       : send_file_special(p, n, it, e);
	if (rc == 0) {
		n->part.changed_entries++;
		n->part.reread_bytes += it->reread;
		rc = note(p, n, en, it, e);
	}
	if (rc == 0 && it->how != SEND_SAME) {
		send_update_touch(p, d->user);
	}
	send_file_done(it);
	n->busy_ns += send_now_ns() - from;
	if (rc < 0 && send_forgiven(p, e)) {
		/* The next pass looks at it again, or finds it gone. */
		en->flags &= ~LEDGER_KNOWN;
		n->part.suspects++;
		return 0;
	}
	if (rc == E_NOT_FOUND) {
		rc = err_recode(e, E_CHANGED, "vanished");
	}
	return rc < 0 ? send_name_error(n, e) : 0;
}

static int
on_file(struct pass *p, struct lane *n, struct scan_dir *d, const char *name,
	size_t name_len, struct ledger_entry *en, const struct statx *stx,
	struct err *e)
{
	struct item it;

	/* What was a directory stays one in the ledger until something was sent
	 * in its place: this file may vanish before that, and a directory may
	 * come again, whose names must be compared with those there. */
	if (stx->stx_nlink > 1) {
		return send_groups_name(p, n, d->user, en, stx, e);
	}
	if (unchanged(p, en, stx)) {
		send_add(n, &en->proof);
		n->part.proof.entries++;
		count_suspect(p, n, false, S_ISREG(stx->stx_mode),
			      send_update_bytes(stx));
		return 0;
	}
	it = (struct item){ .dirfd = d->fd,
			    .dir = d->id,
			    .name = name,
			    .name_len = name_len,
			    .fd = -1,
			    .stx = *stx };
	return send_one(p, n, d, en, &it, e);
}

static int
on_subdir(struct pass *p, struct lane *n, struct scan_dir *d,
	  struct ledger_entry *en, struct err *e)
{
	if (!(en->flags & LEDGER_DIR)) {
		ledger_reset(p->led, n->number, en);
	}
	if (!(en->flags & LEDGER_KNOWN)) {
		/* It will be made there, which moves the times of this one. */
		send_update_touch(p, d->user);
	}
	d->child = ledger_subdir(p->led, n->number, d->user, en, e);
	return d->child ? 0 : e->code;
}

static int
on_entry(struct scan_dir *d, const char *name, size_t name_len,
	 const struct statx *stx, void *arg, struct err *e)
{
	struct pass *p = arg;
	struct lane *n = &p->lane[d->thread];
	struct ledger_entry *en;
	int rc =
		ledger_meet(p->led, n->number, d->user, name, name_len, &en, e);

	if (rc == E_EXISTS) {
		/* A directory that is changed may show a name twice. */
		return S_ISDIR(stx->stx_mode) ? 1 : 0;
	}
	if (rc >= 0) {
		rc = S_ISDIR(stx->stx_mode)
			     ? on_subdir(p, n, d, en, e)
			     : on_file(p, n, d, name, name_len, en, stx, e);
	}
	return rc;
}

/* ---- directories ---- */

static int
on_dir(struct scan_dir *d, const struct statx *stx, void *arg, struct err *e)
{
	struct pass *p = arg;
	struct lane *n = &p->lane[d->thread];
	int rc = send_stopped(p, e);

	if (rc == 0 && !p->o->live) {
		rc = send_file_settle(d->fd, stx, e);
	}
	if (d->id == TREE_ROOT) {
		d->user = ledger_root(p->led);
	} else if (rc == 0) {
		rc = send_dirs_add(p->dirs, d->id, d->parent, d->name,
				   d->name_len, e);
	}
	n->dir_stx = *stx;
	ledger_list(p->led, d->user, d->id);
	if (rc < 0 && send_path(n, d->path, d->path_len, "", 0, NULL) == 0) {
		return send_name_error(n, e);
	}
	return rc;
}

struct gone {
	struct pass *p;
	struct lane *n;
};

static int
on_gone(struct ledger_dir *d, const char *name, size_t len, void *arg,
	struct err *e)
{
	struct gone *g = arg;
	uint32_t wire;
	int rc = send_prepare(g->p, g->n, d->scan_id, 6 + len, &wire, e);

	if (rc == 0) {
		tree_put_remove(&g->n->body, wire, name, len);
		g->n->part.changed_entries++;
		send_count(g->p, g->n, 0);
		send_update_touch(g->p, d);
	}
	return rc;
}

/* Send the directory's own entry. */
static int
put_dir(struct pass *p, struct lane *n, struct ledger_dir *d,
	const struct meta *m, struct err *e)
{
	struct ledger_entry *en = ledger_entry_of(p->led, d);
	uint32_t wire, parent = TREE_ROOT;
	size_t len;
	const char *name = ledger_name(p->led, en, &len);
	/* Defines the directory itself, and so its parents. */
	int rc = send_prepare(p, n, d->scan_id, tree_entry_size(m, len), &wire,
			      e);

	if (rc == 0) {
		if (d->scan_id != TREE_ROOT) {
			parent = send_dirs_wire(
				p->dirs, ledger_parent(p->led, d)->scan_id);
		}
		tree_put_entry(&n->body, wire, false, parent, name, len, m);
		send_count(p, n, 0);
		d->sent = p->o->pass;
	}
	return rc;
}

/* Compare its metadata with what is known, and send it if need be. */
static int
look_at_dir(struct pass *p, struct lane *n, struct ledger_dir *d, int fd,
	    const struct statx *stx, struct err *e)
{
	struct ledger_entry *en = ledger_entry_of(p->led, d);
	bool suspect = send_update_suspect(p, stx);
	struct meta m = { 0 }, proven;
	struct digest proof;
	int rc = send_file_meta(p, fd, "", fd, stx, &m, e);

	if (rc < 0) {
		return rc;
	}
	proven = m;
	if (d->scan_id == TREE_ROOT) {
		proven.flags &= ~PROOF_ROOT_LATE;
	}
	proof = proof_name(p->key, (char *)n->path.data, n->path.len, &proven,
			   NULL, n->scratch);
	if (d->touched == p->o->pass || !(en->flags & LEDGER_KNOWN) ||
	    !digest_eq(&proof, &en->proof)) {
		n->part.changed_entries++;
		rc = put_dir(p, n, d, &m, e);
	}
	meta_fini(&m);
	en->proof = proof;
	en->seen = ledger_seen(p->led, stx);
	en->type = FS_DIR;
	en->flags = (en->flags & ~LEDGER_SUSPECT) | LEDGER_KNOWN |
		    (suspect ? LEDGER_SUSPECT : 0);
	n->part.suspects += suspect;
	return rc;
}

int
send_update_dir(struct pass *p, struct lane *n, struct ledger_dir *d, int fd,
		const struct statx *stx, struct err *e)
{
	struct ledger_entry *en = ledger_entry_of(p->led, d);
	struct digest seen = ledger_seen(p->led, stx);
	int64_t from;
	int rc = 0;

	if (d->touched == p->o->pass || !(en->flags & LEDGER_KNOWN) ||
	    en->flags & LEDGER_SUSPECT || !digest_eq(&seen, &en->seen)) {
		from = send_now_ns();
		rc = look_at_dir(p, n, d, fd, stx, e);
		n->busy_ns += send_now_ns() - from;
	}
	if (rc == 0) {
		send_add(n, &en->proof);
		n->part.proof.entries++;
		n->part.dirs++;
	}
	return rc;
}

/* A name made or removed while the directory was listed may have been missed:
 * then its times tell, now or in the next pass. */
static int
on_dir_end(struct scan_dir *d, void *arg, struct err *e)
{
	struct pass *p = arg;
	struct lane *n = &p->lane[d->thread];
	struct gone g = { p, n };
	int rc = p->o->live ? 0 : send_file_unchanged(d->fd, &n->dir_stx, e);

	if (rc == 0) {
		rc = ledger_sweep(p->led, n->number, d->user, on_gone, &g, e);
	}
	buf_clear(&n->path);
	if (rc == 0) {
		rc = buf_append(&n->path, d->path, d->path_len, e);
	}
	if (rc == 0) {
		rc = send_update_dir(p, n, d->user, d->fd, &n->dir_stx, e);
	}
	return rc < 0 ? send_name_error(n, e) : 0;
}

/* One directory that was touched after its own end. */
static int
late_dir(struct pass *p, struct lane *n, struct ledger_dir *d, struct err *e)
{
	struct ledger_entry *en = ledger_entry_of(p->led, d);
	struct digest was = en->proof, seen;
	cleanup(close_fd) int fd = -1;
	struct statx stx;

	buf_clear(&n->path);
	if (ledger_path(p->led, d, &n->path, e) < 0) {
		return e->code;
	}
	fd = beneath_open_dir(p->rootfd, (char *)n->path.data, n->path.len, e);
	if (fd < 0) {
		return fd;
	}
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME,
		  &stx) < 0) {
		return err_sys(e, errno, "cannot stat");
	}
	seen = ledger_seen(p->led, &stx);
	if (!p->o->live && !digest_eq(&seen, &en->seen)) {
		return err_set(e, E_CHANGED, "changed since it was listed");
	}
	digest_unsum(&n->part.proof.sum, &was);
	n->part.proof.entries--;
	n->part.dirs--;
	return send_update_dir(p, n, d, fd, &stx, e);
}

int
send_update_late(struct pass *p, struct lane *n, struct err *e)
{
	struct ledger_dir **d = (struct ledger_dir **)p->late.data;
	size_t count = p->late.len / sizeof(*d);

	if (p->late_lost) {
		return err_nomem(e);
	}
	for (size_t i = 0; i < count; i++) {
		int rc = late_dir(p, n, d[i], e);

		if (rc < 0 && send_forgiven(p, e)) {
			ledger_entry_of(p->led, d[i])->flags &= ~LEDGER_KNOWN;
			rc = 0;
		}
		if (rc < 0) {
			return send_name_error(n, e);
		}
	}
	return 0;
}

/* ---- faults and mounts ---- */

static int
on_fault(const char *path, size_t path_len, struct err *why, void *arg)
{
	struct pass *p = arg;
	char shown[2048];

	if (send_forgiven(p, why)) {
		return 0;
	}
	return err_wrap(why, "%s",
			escape_bytes(shown, sizeof(shown), path, path_len));
}

const struct scan_ops send_update_ops = { .on_dir = on_dir,
					  .on_entry = on_entry,
					  .on_dir_end = on_dir_end,
					  .on_mount = send_on_mount,
					  .on_fault = on_fault };
