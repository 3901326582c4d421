/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_groups: hard links, in a pass with a ledger. The walk only collects the
 * names of inodes that have several; which names an inode has is known at its
 * end. A group whose names are those that the destination has is compared as a
 * file is; any other is sent whole, under a new number.
 *
 * The groups are shared out among threads. A name is in one of them; of what
 * several may touch, directories are marked under the pass's lock and the
 * ledger counts a group's names atomically.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/beneath.h"
#include "fs/devno.h"
#include "xfer/proof.h"
#include "xfer/send_int.h"

#define HELP_FROM 32 /* names; for fewer no thread is worth its start */

/* All names, in the order of their inodes. */
struct work {
	struct pass *p;
	struct send_name *v;
	size_t count;
	pthread_mutex_t lock; /* the rest */
	size_t next;
	int rc;
	struct err err; /* the first failure */
};

/* One thread. */
struct groups {
	struct work *w;
	struct pass *p;
	struct lane *n;
	struct ledger_dir *dir; /* that `fd` is, or NULL */
	int fd;
};

int
send_groups_name(struct pass *p, struct lane *n, struct ledger_dir *d,
		 struct ledger_entry *en, const struct statx *stx,
		 struct err *e)
{
	struct send_name v = { .dev = devno_of(stx),
			       .ino = stx->stx_ino,
			       .en = en,
			       .dir = d,
			       .seen = ledger_seen(p->led, stx),
			       .bytes = send_update_bytes(stx),
			       .regular = S_ISREG(stx->stx_mode) };

	return buf_append(&n->names, &v, sizeof(v), e);
}

/* The group that all of them are the names of, or NULL. */
static struct ledger_group *
group_of(struct pass *p, const struct send_name *v, size_t count)
{
	struct ledger_group *g;
	uint32_t no = v->en->sub;

	for (size_t i = 0; i < count; i++) {
		if ((v[i].en->flags & (LEDGER_LINK | LEDGER_KNOWN)) !=
			    (LEDGER_LINK | LEDGER_KNOWN) ||
		    v[i].en->sub != no) {
			return NULL;
		}
	}
	g = ledger_group(p->led, no);
	return g->names == count ? g : NULL;
}

static bool
unchanged(struct pass *p, const struct ledger_group *g,
	  const struct send_name *v, size_t count)
{
	if ((g->flags & (LEDGER_KNOWN | LEDGER_SUSPECT)) != LEDGER_KNOWN ||
	    (p->rehash && v->regular) || images_moving(p->o->images, v->ino)) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		if (!digest_eq(&v[i].seen, &g->seen)) {
			return false;
		}
	}
	return true;
}

static void
sum_group(struct lane *n, const struct ledger_group *g,
	  const struct send_name *v, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (v[i].en->flags & LEDGER_KNOWN) {
			send_add(n, &v[i].en->proof);
			n->part.proof.entries++;
		}
	}
	send_add(n, &g->proof);
}

/* n->path and the directory's descriptor for a name. */
static int
reach(struct groups *g, const struct send_name *v, const char **name,
      size_t *len, struct err *e)
{
	struct lane *n = g->n;
	size_t dir_len;
	int rc;

	*name = ledger_name(g->p->led, v->en, len);
	buf_clear(&n->path);
	rc = ledger_path(g->p->led, v->dir, &n->path, e);
	dir_len = n->path.len;
	if (rc == 0 && g->dir != v->dir) {
		close_fd(&g->fd);
		g->fd = beneath_open_dir(g->p->rootfd, (char *)n->path.data,
					 dir_len, e);
		g->dir = g->fd < 0 ? NULL : v->dir;
		rc = g->fd < 0 ? g->fd : 0;
	}
	if (rc == 0 && dir_len) {
		rc = buf_append(&n->path, "/", 1, e);
	}
	return rc < 0 ? rc : buf_append(&n->path, *name, *len, e);
}

/* Send the inode through one of its names. `old`: what is there of it. */
static int
send_inode(struct groups *g, const struct send_name *v,
	   const struct ledger_group *old, struct item *it, struct err *e)
{
	struct pass *p = g->p;
	char name[256];
	const char *bytes;
	size_t len;
	int rc = reach(g, v, &bytes, &len, e);

	if (rc < 0) {
		return rc;
	}
	memcpy(name, bytes, len);
	name[len] = '\0';
	it->dirfd = g->fd;
	it->dir = v->dir->scan_id;
	it->name = name;
	it->name_len = len;
	if (statx(g->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_BASIC_STATS | STATX_BTIME, &it->stx) < 0) {
		return errno == ENOENT ? err_set(e, E_NOT_FOUND, "vanished")
				       : err_sys(e, errno, "cannot stat");
	}
	if (it->stx.stx_ino != v->ino || devno_of(&it->stx) != v->dev ||
	    S_ISREG(it->stx.stx_mode) != v->regular ||
	    S_ISDIR(it->stx.stx_mode)) {
		return err_set(e, E_CHANGED, "replaced while it was read");
	}
	if (old) {
		it->was_known = old->flags & LEDGER_KNOWN;
		it->was_proof = old->proof;
		it->was_content = old->content;
		it->was_group = old->id;
		it->was_file = old->flags & LEDGER_LARGE
				       ? ledger_file(p->led, old->file)
				       : NULL;
	}
	rc = v->regular ? send_file_regular(p, g->n, it, e)
			: send_file_special(p, g->n, it, e);
	it->name = NULL; /* it ends with this call */
	return rc;
}

/* Write down what the inode is now. */
static int
note_inode(struct groups *g, struct ledger_group *to, struct item *it,
	   struct err *e)
{
	struct pass *p = g->p;
	bool suspect = send_update_moving(p, it);
	int rc = 0;

	if (it->blocks) {
		rc = send_update_file(p, g->n, it, &to->file, e);
	} else if (to->file) {
		ledger_file_drop(p->led, g->n->number, to->file);
		to->file = 0;
	}
	to->flags = LEDGER_KNOWN | (to->file ? LEDGER_LARGE : 0) |
		    (suspect ? LEDGER_SUSPECT : 0);
	to->type = it->m.type;
	to->seen = ledger_seen(p->led, &it->stx);
	to->proof = send_file_proof(p, g->n, it, to->id);
	to->content = send_file_content(p, it);
	if (suspect || (p->doubts && to->type == FS_REG)) {
		g->n->part.suspects++;
		g->n->part.suspect_bytes += send_update_bytes(&it->stx);
	}
	return rc;
}

/* A name of a new group; all but the first are sent as LINKs. */
static int
note_name(struct groups *g, const struct send_name *v, struct item *it,
	  uint32_t no, bool first, struct err *e)
{
	struct pass *p = g->p;
	struct lane *n = g->n;
	size_t len;
	const char *name = ledger_name(p->led, v->en, &len);
	int rc = 0;

	buf_clear(&n->path);
	rc = ledger_path(p->led, v->dir, &n->path, e);
	if (rc == 0 && n->path.len) {
		rc = buf_append(&n->path, "/", 1, e);
	}
	rc = rc < 0 ? rc : buf_append(&n->path, name, len, e);
	if (rc == 0 && !first) {
		it->dir = v->dir->scan_id;
		it->name = name;
		it->name_len = len;
		rc = send_file_link(p, n, it, e);
	}
	if (rc < 0) {
		return rc;
	}
	send_update_touch(p, v->dir);
	n->part.changed_entries++;
	ledger_reset(p->led, n->number, v->en);
	ledger_join(p->led, v->en, no);
	v->en->flags |= LEDGER_KNOWN;
	v->en->type = it->m.type;
	v->en->proof = proof_link(p->key, (char *)n->path.data, n->path.len,
				  it->group, n->scratch);
	return 0;
}

/* The names came with a new number: those that were gone by then are left as
 * they are, not known. */
static int
note_whole(struct groups *g, struct send_name *v, size_t count, size_t first,
	   struct item *it, struct err *e)
{
	struct ledger_group *to;
	uint32_t no;
	int rc;

	to = ledger_group_new(g->p->led, g->n->number, &no, e);
	if (!to) {
		return e->code;
	}
	to->id = it->group;
	to->names = (uint32_t)(count - first);
	rc = note_inode(g, to, it, e);
	for (size_t i = first; rc == 0 && i < count; i++) {
		rc = note_name(g, &v[i], it, no, i == first, e);
	}
	if (rc == 0) {
		sum_group(g->n, to, v + first, count - first);
	}
	return rc;
}

static int
send_group(struct groups *g, struct send_name *v, size_t count,
	   struct ledger_group *old, struct item *it, struct err *e)
{
	size_t first = 0;
	int rc;

	it->group = send_new_id(g->p);
	while ((rc = send_inode(g, &v[first], old, it, e)) < 0) {
		if (!send_forgiven(g->p, e)) {
			return rc == E_NOT_FOUND
				       ? err_recode(e, E_CHANGED, "vanished")
				       : rc;
		}
		/* By another name, if there is one. */
		v[first].en->flags &= ~LEDGER_KNOWN;
		g->n->part.suspects++;
		old = NULL;
		it->was_known = false;
		it->was_group = 0;
		it->was_file = NULL;
		if (++first == count) {
			return 0;
		}
	}
	g->n->part.reread_bytes += it->reread;
	if (it->how == SEND_WHOLE) {
		return note_whole(g, v, count, first, it, e);
	}
	g->n->part.changed_entries++;
	if (it->how != SEND_SAME) {
		send_update_touch(g->p, v->dir);
	}
	rc = note_inode(g, old, it, e);
	if (rc == 0) {
		sum_group(g->n, old, v, count);
	}
	return rc;
}

static int
one_group(struct groups *g, struct send_name *v, size_t count, struct err *e)
{
	struct ledger_group *old = group_of(g->p, v, count);
	struct item it = { .fd = -1 };
	int rc = send_stopped(g->p, e);

	if (rc < 0) {
		return rc;
	}
	if (old && unchanged(g->p, old, v, count)) {
		sum_group(g->n, old, v, count);
		if (g->p->doubts && v->regular) {
			g->n->part.suspects++;
			g->n->part.suspect_bytes += v->bytes;
		}
		return 0;
	}
	rc = send_group(g, v, count, old, &it, e);
	send_file_done(&it);
	return rc < 0 ? send_name_error(g->n, e) : 0;
}

/* Subvolumes of btrfs have inode numbers of their own each. */
static int
by_inode(const void *a, const void *b)
{
	const struct send_name *x = a, *y = b;

	if (x->dev != y->dev) {
		return x->dev < y->dev ? -1 : 1;
	}
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* The next group's names; 0 at the end. */
static size_t
take(struct work *w, struct send_name **v)
{
	size_t i, end;

	pthread_mutex_lock(&w->lock);
	i = end = w->rc < 0 ? w->count : w->next;
	while (end < w->count && by_inode(&w->v[end], &w->v[i]) == 0) {
		end++;
	}
	w->next = end;
	pthread_mutex_unlock(&w->lock);
	*v = w->v + i;
	return end - i;
}

static void *
groups_thread(void *arg)
{
	struct groups *g = arg;
	struct send_name *v;
	struct err e = { 0 };
	size_t count;
	int rc = 0;

	while (rc == 0 && (count = take(g->w, &v)) > 0) {
		rc = one_group(g, v, count, &e);
	}
	close_fd(&g->fd);
	if (rc < 0) {
		pthread_mutex_lock(&g->w->lock);
		if (g->w->rc == 0) {
			g->w->rc = rc;
			g->w->err = e;
		}
		pthread_mutex_unlock(&g->w->lock);
	}
	return NULL;
}

static int
share_out(struct work *w, struct err *e)
{
	unsigned want = w->count < HELP_FROM ? 1 : w->p->threads, n;
	struct groups g[SEND_THREADS_MAX];
	pthread_t tid[SEND_THREADS_MAX];

	for (n = 0; n < want; n++) {
		g[n] = (struct groups){
			.w = w, .p = w->p, .n = &w->p->lane[n], .fd = -1
		};
		if (n && pthread_create(&tid[n], NULL, groups_thread, &g[n])) {
			break; /* fewer will do */
		}
	}
	groups_thread(&g[0]);
	while (n-- > 1) {
		pthread_join(tid[n], NULL);
	}
	if (w->rc < 0) {
		*e = w->err;
	}
	return w->rc;
}

int
send_groups(struct pass *p, struct err *e)
{
	struct work w = { .p = p };
	struct buf *all = &p->lane[0].names;
	int rc = 0;

	for (unsigned i = 1; rc == 0 && i < SEND_THREADS_MAX; i++) {
		struct buf *b = &p->lane[i].names;

		rc = b->len ? buf_append(all, b->data, b->len, e) : 0;
		buf_fini(b);
	}
	w.v = (struct send_name *)all->data;
	w.count = all->len / sizeof(*w.v);
	if (rc == 0 && w.count) {
		qsort(w.v, w.count, sizeof(*w.v), by_inode);
		pthread_mutex_init(&w.lock, NULL);
		rc = share_out(&w, e);
		pthread_mutex_destroy(&w.lock);
	}
	buf_fini(all);
	return rc;
}
