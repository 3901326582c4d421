/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dir: a plain directory. There is no runtime, so blocking and retiring are
 * marks of ours in the state directory and nothing in the tree changes; a
 * file per directory holds "STATE\nTAG\nPATH\n". The source is kept unless
 * the person says otherwise, so a retired directory may be sent again.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctfile.h"
#include "ct/ctholds.h"
#include "ct/ctlock.h"
#include "ct/ctpath.h"
#include "ct/kinds.h"
#include "ct/origin.h"

#define STATE_DIR "/var/lib/vzmigrate"
#define MARK_MAX 8192

/* The word to the resolved path, refusing what can never be meant. */
static int
resolve(const struct ct_host *h, const char *word, char **path, struct err *e)
{
	cleanup(free_ptr) char *clean =
		ctpath_clean(word, "the directory to move", e);
	cleanup(free_ptr) char *real = NULL;
	int rc;

	if (!clean) {
		return e ? e->code : E_USAGE;
	}
	real = realpath(clean, NULL);
	if (!real) {
		int no = errno;

		return no == ENOENT || no == ENOTDIR
			       ? err_set(e, E_NOT_FOUND,
					 "there is no directory %s", clean)
			       : err_sys(e, no, "%s", clean);
	}
	if (!ctpath_is_dir(real)) {
		return err_set(e, E_USAGE, "%s is not a directory", clean);
	}
	if (strcmp(real, "/") == 0) {
		return err_set(e, E_USAGE,
			       "%s is the root directory, which cannot be "
			       "moved",
			       clean);
	}
	rc = ctholds_dir(h, real, e);
	if (rc == 0) {
		*path = steal_ptr(&real);
	}
	return rc;
}

static int
dir_probe(const struct ct_host *h, const char *word, struct err *e)
{
	cleanup(free_ptr) char *path = NULL;

	(void)e;
	return *word == '/' && resolve(h, word, &path, NULL) == 0;
}

/* The file of the mark for `path`. */
static char *
mark_path(const struct ct_host *h, const char *path, struct err *e)
{
	char hash[17];

	return io_asprintf(e, "%s/dir/%s.mark",
			   h->state_dir ? h->state_dir : STATE_DIR,
			   ctpath_hash(path, hash));
}

/* Read the mark: CT_FREE where there is none. `tag` (may be NULL) is heap. */
static int
mark_read(const struct ct_host *h, const char *path, enum ct_mark *mark,
	  char **tag, struct err *e)
{
	cleanup(free_ptr) char *file = mark_path(h, path, e);
	cleanup(free_ptr) char *text = NULL;
	char *t, *p, *end;

	*mark = CT_FREE;
	if (!file) {
		return E_NOMEM;
	}
	if (!ctpath_type(file)) {
		return 0;
	}
	if (io_read_file(AT_FDCWD, file, MARK_MAX, &text, NULL, e) < 0) {
		return e ? e->code : E_SYSTEM;
	}
	t = strchr(text, '\n');
	p = t ? strchr(t + 1, '\n') : NULL;
	end = p ? strchr(p + 1, '\n') : NULL;
	if (!end || end[1]) {
		return err_set(e, E_CORRUPT, "%s is damaged; remove it", file);
	}
	*t++ = *p++ = *end = '\0';
	if (strcmp(p, path) != 0) {
		return err_set(e, E_CORRUPT,
			       "%s is about another directory, %s", file, p);
	}
	*mark = strcmp(text, "retired") == 0   ? CT_RETIRED
		: strcmp(text, "blocked") == 0 ? CT_BLOCKED
					       : CT_FREE;
	if (tag && *t) {
		*tag = strdup(t);
	}
	return 0;
}

static int
mark_write(const struct ct_host *h, const char *path, enum ct_mark mark,
	   const char *tag, struct err *e)
{
	cleanup(free_ptr) char *file = mark_path(h, path, e);
	cleanup(free_ptr) char *dir = file ? strdup(file) : NULL;
	cleanup(free_ptr) char *text = NULL;
	char *name;
	int rc;

	if (!dir) {
		return E_NOMEM;
	}
	name = strrchr(dir, '/');
	*name++ = '\0';
	rc = io_mkdirs(dir, 0700, e);
	if (rc < 0) {
		return rc;
	}
	if (mark == CT_FREE) {
		return ctpath_unlink(dir, name, e);
	}
	text = io_asprintf(e, "%s\n%s\n%s\n", ct_mark_name(mark), tag, path);
	return text ? ctfile_replace(dir, name, text, e) : E_NOMEM;
}

static int
load_parts(const struct ct_host *h, const char *word, struct ct *c,
	   struct err *e)
{
	cleanup(buf_finip) struct buf origin;
	int rc = resolve(h, word, &c->tree, e);

	buf_init(&origin, ORIGIN_MAX);
	if (rc < 0) {
		return rc;
	}
	c->id = strdup(c->tree);
	if (!c->id) {
		return err_nomem(e);
	}
	rc = mark_read(h, c->tree, &c->mark, &c->tag, e);
	/* Sent before, and kept: it may be sent again. */
	if (rc == 0 && c->mark == CT_RETIRED) {
		c->mark = CT_FREE;
	}
	rc = rc < 0 ? rc : ctfile_note_mounts(c, e);
	rc = rc < 0 ? rc : origin_put(&origin, "tree", NULL, c->tree, e);
	rc = rc < 0 ? rc : origin_put_node(&origin, c->tree, e);
	return rc < 0 ? rc : origin_finish(c, &origin, e);
}

static int
dir_load(const struct ct_host *h, const char *word, struct ct *c, struct err *e)
{
	int rc;

	memset(c, 0, sizeof(*c));
	c->kind = &dir_kind;
	c->state = CT_STOPPED;
	rc = load_parts(h, word, c, e);
	if (rc < 0) {
		ct_free(c);
	}
	return rc;
}

static int
dir_lock(const struct ct_host *h, const struct ct *c, int *lockfd,
	 struct err *e)
{
	return ctlock_take(h, "dir", c->id, lockfd, e);
}

static void
dir_unlock(const struct ct_host *h, const struct ct *c, int lockfd)
{
	(void)h;
	(void)c;
	ctlock_release(lockfd);
}

static int
dir_state(const struct ct_host *h, const struct ct *c, enum ct_state *s,
	  struct err *e)
{
	(void)h;
	(void)c;
	(void)e;
	*s = CT_STOPPED;
	return 0;
}

static int
dir_block(const struct ct_host *h, const struct ct *c, struct err *e)
{
	return mark_write(h, c->id, CT_BLOCKED, "", e);
}

static int
dir_unblock(const struct ct_host *h, const struct ct *c, struct err *e)
{
	return mark_write(h, c->id, CT_FREE, "", e);
}

static int
dir_retire(const struct ct_host *h, const struct ct *c, const char *tag,
	   struct err *e)
{
	return mark_write(h, c->id, CT_RETIRED, tag, e);
}

static int
dir_unretire(const struct ct_host *h, const struct ct *c, const char *tag,
	     struct err *e)
{
	(void)tag;
	return mark_write(h, c->id, CT_BLOCKED, "", e);
}

static int
dir_destroy(const struct ct_host *h, const struct ct *c, struct err *e)
{
	enum ct_mark mark;
	int rc = mark_read(h, c->id, &mark, NULL, e);

	if (rc < 0) {
		return rc;
	}
	if (!ctpath_type(c->tree)) {
		return mark_write(h, c->id, CT_FREE, "", e);
	}
	if (mark != CT_RETIRED) {
		return err_set(e, E_STATE,
			       "%s is not moved away, so it is not destroyed",
			       c->id);
	}
	rc = ctholds_dir(h, c->tree, e);
	rc = rc < 0 ? rc : ctpath_remove_tree(c->tree, e);
	return rc < 0 ? rc : mark_write(h, c->id, CT_FREE, "", e);
}

static int
dir_wish(const struct ct_want *w, struct err *e)
{
	return w->new_root || w->new_name
		       ? err_set(e, E_USAGE,
				 "%s has no meaning for a plain directory",
				 w->new_root ? "--new-root" : "--new-name")
		       : 0;
}

static int
dir_place(const struct ct_host *h, const struct ct_want *w, struct ct_place *p,
	  struct err *e)
{
	cleanup(free_ptr) char *path = NULL;
	int rc = dir_wish(w, e);

	(void)h;
	memset(p, 0, sizeof(*p));
	if (rc < 0) {
		return rc;
	}
	path = ctpath_clean(w->new_private ? w->new_private
			    : w->new_id	   ? w->new_id
					   : w->id,
			    "the directory on the destination", e);
	if (!path) {
		return e ? e->code : E_USAGE;
	}
	rc = ctpath_place(path, &p->tree, &p->stage_dir, e);
	if (rc == 0) {
		p->id = strdup(p->tree);
		rc = p->id ? 0 : err_nomem(e);
	}
	if (rc < 0) {
		ct_place_fini(p);
	}
	return rc;
}

static int
dir_check(const struct ct_host *h, const struct ct_want *w,
	  const struct ct_place *p, struct ct_findings *f, struct err *e)
{
	(void)e;
	ctholds_place(h, p->tree, f);
	if (origin_is_above(w, p->tree)) {
		ct_finding_add(f, E_USAGE, false,
			       "%s is the directory to be moved itself, or "
			       "inside it; name another place",
			       p->tree);
	} else if (ctpath_type(p->tree)) {
		ct_finding_add(f, E_EXISTS, false,
			       "%s %s; remove it, or name another place",
			       p->tree,
			       ctpath_type(p->tree) == S_IFLNK &&
					       !ctpath_is_dir(p->tree)
				       ? "is a dangling symlink"
				       : "is there already");
	}
	return 0;
}

static int
dir_commit(const struct ct_host *h, const struct ct_want *w,
	   const struct ct_place *p, const char *staged, struct err *e)
{
	cleanup(free_ptr) char *up = strdup(p->tree);
	int rc;

	(void)h;
	(void)w;
	if (!up) {
		return err_nomem(e);
	}
	*strrchr(up, '/') = '\0';
	rc = *up && !ctpath_is_dir(up) ? io_mkdirs(up, 0755, e) : 0;
	return rc < 0 ? rc : ctpath_move(staged, p->tree, e);
}

static int
dir_uncommit(const struct ct_host *h, const struct ct_want *w,
	     const struct ct_place *p, const char *staged, struct err *e)
{
	(void)h;
	(void)w;
	return ctpath_type(staged) ? 0 : ctpath_move(p->tree, staged, e);
}

static int
dir_registered(const struct ct_host *h, const struct ct_place *p, struct err *e)
{
	(void)h;
	(void)e;
	return ctpath_is_dir(p->tree);
}

const struct ct_kind dir_kind = {
	.name = "dir",
	.by_path = true,
	.remove_default = false,
	.probe = dir_probe,
	.load = dir_load,
	.lock = dir_lock,
	.unlock = dir_unlock,
	.state = dir_state,
	.block = dir_block,
	.unblock = dir_unblock,
	.retire = dir_retire,
	.unretire = dir_unretire,
	.destroy = dir_destroy,
	.wish = dir_wish,
	.place = dir_place,
	.check = dir_check,
	.commit = dir_commit,
	.uncommit = dir_uncommit,
	.registered = dir_registered,
};
