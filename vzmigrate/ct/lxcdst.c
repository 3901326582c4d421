/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lxcdst: an LXC container on the destination.
 *
 * Until its `config` is there LXC does not know a directory, so commit puts
 * everything else in place first. The container's directory is made under a
 * hidden name that LXC passes over, with a mark that ties it to this staging
 * area, and then renamed: so a directory found later is either whole and
 * ours, or somebody else's.
 */
#include <dirent.h>
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
#include "base/log.h"
#include "ct/ctfile.h"
#include "ct/ctholds.h"
#include "ct/ctpath.h"
#include "ct/lxc.h"
#include "ct/origin.h"

/* What commit and uncommit work with. */
struct plan {
	const struct ct_want *w;
	const struct ct_place *p;
	const char *staged;
	char *lxcpath; /* directory of all containers */
	char *dir;     /* the container's own */
	char *tmp;     /* its hidden name while it is made */
	char *tree;    /* root file system as spelled in the configuration */
	char *rel;     /* of the tree within dir; NULL: elsewhere */
	char *mark;    /* text of the mark */
	char *from[4]; /* old paths, for the rewriting */
	struct buf config;   /* the configuration to write */
	struct ct_file like; /* owner and mode for what is new */
	unsigned dirmode;
};

static void
plan_fini(struct plan *m)
{
	free(m->lxcpath);
	free(m->dir);
	free(m->tmp);
	free(m->tree);
	free(m->rel);
	free(m->mark);
	for (int i = 0; i < 4; i++) {
		free(m->from[i]);
	}
	buf_fini(&m->config);
}

/* The tree's path relative to the container's directory on the source; heap,
 * NULL where it was elsewhere. */
static char *
source_rel(const struct ct_want *w)
{
	for (unsigned i = 0; i < 2; i++) {
		cleanup(free_ptr) char *dir = origin_get(w, "dir", i);
		cleanup(free_ptr) char *tree = origin_get(w, "tree", i);

		if (dir && tree && ctpath_inside(tree, dir) &&
		    strcmp(tree, dir) != 0) {
			return strdup(tree + strlen(dir) + 1);
		}
	}
	return NULL;
}

/* The spelled path of the tree here. */
static char *
want_tree(const struct ct_host *h, const struct ct_want *w, const char *dir,
	  struct err *e)
{
	cleanup(free_ptr) char *rel = NULL;
	cleanup(free_ptr) char *tree = NULL;

	(void)h;
	if (w->new_private) {
		return ctpath_clean(w->new_private, "--new-private", e);
	}
	rel = source_rel(w);
	tree = rel ? io_asprintf(e, "%s/%s", dir, rel)
		   : origin_get(w, "tree", 0);
	if (!tree) {
		tree = io_asprintf(e, "%s/rootfs", dir);
	}
	return tree ? ctpath_clean(tree, "the root file system", e) : NULL;
}

static const char *
want_id(const struct ct_want *w)
{
	return w->new_id ? w->new_id : w->id;
}

int
lxcdst_wish(const struct ct_want *w, struct err *e)
{
	const char *id = want_id(w);

	if (!lxc_name_ok(id)) {
		return err_set(e, E_USAGE,
			       "'%s' cannot be the name of an lxc container",
			       id);
	}
	if (w->new_root) {
		return err_set(e, E_USAGE,
			       "--new-root has no meaning for lxc containers");
	}
	return w->new_name ? err_set(e, E_USAGE,
				     "an lxc container has one name: use "
				     "--new-id instead of --new-name")
			   : 0;
}

int
lxcdst_place(const struct ct_host *h, const struct ct_want *w,
	     struct ct_place *p, struct err *e)
{
	cleanup(free_ptr) char *dir = NULL;
	cleanup(free_ptr) char *lxcpath = NULL;
	cleanup(free_ptr) char *real = NULL;
	cleanup(free_ptr) char *tree = NULL;
	const char *id = want_id(w);
	int rc = lxcdst_wish(w, e);

	memset(p, 0, sizeof(*p));
	if (rc < 0) {
		return rc;
	}
	lxcpath = lxc_path(h, e);
	dir = lxcpath ? lxc_dir(h, id, e) : NULL;
	tree = dir ? want_tree(h, w, dir, e) : NULL;
	if (!tree) {
		return e ? e->code : E_NOMEM;
	}
	if (strcmp(tree, dir) == 0) {
		return err_set(e, E_USAGE,
			       "%s is the directory of the container itself; "
			       "its files go below it, as into %s/rootfs",
			       dir, dir);
	}
	real = realpath(lxcpath, NULL);
	if (!real || !ctpath_is_dir(real)) {
		return err_set(e, E_CONFIG,
			       "the lxcpath %s is no directory there: install "
			       "lxc, or name another with --dst-lxcpath",
			       lxcpath);
	}
	if (ctpath_inside(tree, dir)) {
		p->tree =
			io_asprintf(e, "%s/%s%s", real, id, tree + strlen(dir));
		p->stage_dir = steal_ptr(&real);
	} else {
		rc = ctpath_place(tree, &p->tree, &p->stage_dir, e);
	}
	p->id = strdup(id);
	if (rc == 0 && (!p->id || !p->tree)) {
		rc = err_nomem(e);
	}
	if (rc < 0) {
		ct_place_fini(p);
	}
	return rc;
}

/* Say what is at LXCPATH/NAME (field case S5). */
static void
tell_existing(const struct ct_host *h, const char *dir, const char *id,
	      struct ct_findings *f)
{
	cleanup(free_ptr) char *conf = io_asprintf(NULL, "%s/" LXC_CONFIG, dir);
	const char *what = "is there already, without a configuration";
	enum ct_state s;

	if (ctpath_type(dir) == S_IFLNK && !ctpath_is_dir(dir)) {
		what = "is a dangling symlink";
	} else if (!ctpath_is_dir(dir)) {
		what = "is there already and is no directory";
	} else if (conf && ctpath_type(conf)) {
		cleanup(free_ptr) char *tree =
			io_asprintf(NULL, "%s/rootfs", dir);

		what = lxc_ask_state(h, id, &s, NULL) == 0 && s != CT_STOPPED
			       ? "is a container already, and it runs"
		       : tree && ctpath_type(tree)
			       ? "is a container already"
			       : "holds a configuration already";
	}
	ct_finding_add(f, E_EXISTS, false,
		       "%s %s; remove it, or choose another name with "
		       "--new-id",
		       dir, what);
}

/* The commit, and a way back, need LXC's lock: later it would be too late. */
static void
check_lock(const struct ct_host *h, const char *name, struct ct_findings *f)
{
	struct err why = { 0 };
	cleanup(close_fd) int lock = -1;

	if (lxc_disk_lock(h, name, &lock, &why) < 0) {
		ct_finding_add(f, why.code == E_BUSY ? E_BUSY : E_CONFIG, false,
			       "%s", why.text);
	}
}

int
lxcdst_check(const struct ct_host *h, const struct ct_want *w,
	     const struct ct_place *p, struct ct_findings *f, struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, p->id, e);

	if (!dir) {
		return e ? e->code : E_NOMEM;
	}
	ctholds_place(h, p->tree, f);
	if (!ctpath_program("lxc-info") || !ctpath_program("lxc-start")) {
		ct_finding_add(f, E_CONFIG, false,
			       "LXC's tools are not installed on the "
			       "destination (Debian: apt install lxc; Fedora: "
			       "dnf install lxc)");
	}
	if (!ctfile_find(w->files, w->nfiles, LXC_CONFIG)) {
		return err_set(e, E_PROTOCOL,
			       "the container came without a configuration");
	}
	if (ctpath_type(dir)) {
		tell_existing(h, dir, p->id, f);
	}
	if (ctpath_type(p->tree) && !ctpath_inside(p->tree, dir)) {
		ct_finding_add(f, E_EXISTS, false,
			       "%s, where the tree belongs, is there already; "
			       "remove it, or choose another place with "
			       "--new-private",
			       p->tree);
	}
	check_lock(h, p->id, f);
	if (origin_is_above(w, p->tree)) {
		ct_finding_add(f, E_USAGE, false,
			       "%s is the container's own tree, or inside it; "
			       "give another place with --new-private",
			       p->tree);
	}
	return origin_check(h, w, f, e);
}

/* "OCTAL:UID:GID" of the source's directory; only sane modes are taken. */
static void
take_mode(struct plan *m)
{
	cleanup(free_ptr) char *s = origin_get(m->w, "mode", 0);
	unsigned mode = 0770, uid = 0, gid = 0;

	if (!s || sscanf(s, "%o:%u:%u", &mode, &uid, &gid) != 3) {
		mode = 0770;
		uid = gid = 0;
	}
	m->dirmode = (mode & 0777) | 0700;
	m->like = (struct ct_file){ .mode = 0600, .uid = uid, .gid = gid };
}

/* The old paths and what they become. */
static size_t
make_pairs(const struct plan *m, struct lxcconf_pair pairs[4])
{
	size_t n = 0;

	/* Trees first: one may lie within the directory. */
	for (unsigned i = 0; i < 4; i++) {
		if (m->from[i]) {
			pairs[n++] = (struct lxcconf_pair){ m->from[i],
							    i < 2 ? m->tree
								  : m->dir };
		}
	}
	return n;
}

static int
plan_config(struct plan *m, struct err *e)
{
	const struct ct_file *conf =
		ctfile_find(m->w->files, m->w->nfiles, LXC_CONFIG);
	struct lxcconf_pair pairs[4];
	struct lxcconf_change ch = { .pairs = pairs,
				     .rootfs = m->tree,
				     .old_id = m->w->id,
				     .new_id = m->w->new_id };

	if (!conf || conf->len > CT_FILE_MAX) {
		return err_set(e, E_PROTOCOL,
			       "the container came without a configuration");
	}
	for (unsigned i = 0; i < 4; i++) {
		m->from[i] = origin_get(m->w, i < 2 ? "tree" : "dir", i & 1);
	}
	ch.npairs = make_pairs(m, pairs);
	return lxcconf_rewrite((const char *)conf->data, conf->len,
			       "the container's configuration", &ch, &m->config,
			       e);
}

static int
plan_init(struct plan *m, const struct ct_host *h, const struct ct_want *w,
	  const struct ct_place *p, const char *staged, struct err *e)
{
	*m = (struct plan){ .w = w, .p = p, .staged = staged };
	buf_init(&m->config, 2 * CT_FILE_MAX);
	m->lxcpath = lxc_path(h, e);
	m->dir = lxc_dir(h, p->id, e);
	m->tree = m->dir ? want_tree(h, w, m->dir, e) : NULL;
	m->mark = io_asprintf(e, "%s\n", staged);
	m->tmp = m->lxcpath
			 ? io_asprintf(e, "%s/.%s.vzmigrate", m->lxcpath, p->id)
			 : NULL;
	if (!m->tree || !m->mark || !m->tmp) {
		return e && e->code ? e->code : E_NOMEM;
	}
	if (ctpath_inside(m->tree, m->dir)) {
		m->rel = strdup(m->tree + strlen(m->dir) + 1);
		if (!m->rel) {
			return err_nomem(e);
		}
	}
	take_mode(m);
	return plan_config(m, e);
}

/* Write or remove one file that lies beside the configuration. */
static int
one_extra(const struct plan *m, const char *dir, const struct ct_file *f,
	  bool make, struct err *e)
{
	const char *slash = strchr(f->role, '/');
	bool conf = strncmp(f->role, "include/", 8) == 0;
	cleanup(free_ptr) char *name = NULL;
	cleanup(buf_finip) struct buf out;
	struct lxcconf_pair pairs[4];
	struct lxcconf_change ch = { .pairs = pairs,
				     .npairs = make_pairs(m, pairs) };
	int rc;

	buf_init(&out, 2 * CT_FILE_MAX);
	if (!slash || (!conf && strncmp(f->role, "extra/", 6) != 0)) {
		return 0;
	}
	name = ctfile_decode(slash + 1, e);
	if (!name) {
		return e ? e->code : E_PROTOCOL;
	}
	if (strcmp(name, LXC_CONFIG) == 0 ||
	    strncmp(name, LXC_CONFIG ".", sizeof(LXC_CONFIG)) == 0 ||
	    strncmp(name, ".vzmigrate", 10) == 0) {
		return err_set(e, E_PROTOCOL, "'%s' cannot be an extra file",
			       name);
	}
	rc = conf ? lxcconf_rewrite((const char *)f->data, f->len, name, &ch,
				    &out, e)
		  : buf_append(&out, f->data, f->len, e);
	if (rc < 0) {
		return rc;
	}
	return make ? ctfile_write(dir, name, out.data, out.len, f, e)
		    : ctfile_remove_same(dir, name, out.data, out.len, e);
}

/* Write or remove the files beside the configuration in `dir`. */
static int
extras(const struct plan *m, const char *dir, bool make, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < m->w->nfiles && rc == 0; i++) {
		rc = one_extra(m, dir, &m->w->files[i], make, e);
	}
	return rc;
}

static bool
marked(const struct plan *m, const char *dir)
{
	return ctfile_same(dir, LXC_COMMIT, m->mark, strlen(m->mark));
}

static bool
has_our_config(const struct plan *m)
{
	return ctfile_same(m->dir, LXC_CONFIG, m->config.data, m->config.len);
}

/* Whether there is nothing in it but a temporary file of ours: left by a
 * crash between the making of the directory and its mark. */
static bool
is_blank(const char *dir)
{
	DIR *d = opendir(dir);
	bool blank = d != NULL;

	for (struct dirent *de; blank && (de = readdir(d));) {
		blank = strcmp(de->d_name, ".") == 0 ||
			strcmp(de->d_name, "..") == 0 ||
			strcmp(de->d_name, CTFILE_TMP) == 0;
	}
	if (d) {
		closedir(d);
	}
	return blank;
}

/* Make the hidden directory with its mark and the files. */
static int
make_dir(const struct plan *m, struct err *e)
{
	int rc;

	if (mkdir(m->tmp, 0700) < 0) {
		if (errno != EEXIST) {
			return err_sys(e, errno, "cannot make %s", m->tmp);
		}
		if (!marked(m, m->tmp) && !is_blank(m->tmp)) {
			return err_set(e, E_EXISTS,
				       "%s belongs to another migration that "
				       "was not ended; end it, or remove it",
				       m->tmp);
		}
	}
	rc = ctfile_write(m->tmp, LXC_COMMIT, m->mark, strlen(m->mark),
			  &(struct ct_file){ .mode = 0600 }, e);
	rc = rc < 0 ? rc : extras(m, m->tmp, true, e);
	if (rc == 0 && (chown(m->tmp, m->like.uid, m->like.gid) < 0 ||
			chmod(m->tmp, m->dirmode) < 0)) {
		rc = err_sys(e, errno, "cannot set the owner of %s", m->tmp);
	}
	return rc;
}

/* Make the directories above `path` where they are missing. */
static int
make_parent(const char *path, struct err *e)
{
	cleanup(free_ptr) char *up = strdup(path);

	if (!up) {
		return err_nomem(e);
	}
	*strrchr(up, '/') = '\0';
	return *up && !ctpath_is_dir(up) ? io_mkdirs(up, 0755, e) : 0;
}

/* Where the tree is to go while the directory has the name `dir`. */
static char *
tree_in(const struct plan *m, const char *dir, struct err *e)
{
	return m->rel ? io_asprintf(e, "%s/%s", dir, m->rel)
		      : strdup(m->p->tree);
}

static int
commit_dir(const struct plan *m, struct err *e)
{
	cleanup(free_ptr) char *tree = tree_in(m, m->tmp, e);
	int rc = tree ? make_dir(m, e) : E_NOMEM;

	rc = rc < 0 ? rc : make_parent(tree, e);
	rc = rc < 0 ? rc : ctpath_move(m->staged, tree, e);
	return rc < 0 ? rc : ctpath_move(m->tmp, m->dir, e);
}

int
lxcdst_commit(const struct ct_host *h, const struct ct_want *w,
	      const struct ct_place *p, const char *staged, struct err *e)
{
	cleanup(plan_fini) struct plan m;
	cleanup(close_fd) int lock = -1;
	const struct ct_file *conf;
	int rc = plan_init(&m, h, w, p, staged, e);

	rc = rc < 0 ? rc : lxc_disk_lock(h, p->id, &lock, e);
	if (rc < 0) {
		return rc;
	}
	if (!ctpath_type(m.dir)) {
		rc = commit_dir(&m, e);
	} else if (!marked(&m, m.dir) &&
		   !(has_our_config(&m) && !ctpath_type(staged))) {
		rc = err_set(e, E_EXISTS,
			     "%s was made there meanwhile; remove it, or "
			     "choose another name with --new-id",
			     m.dir);
	}
	if (rc < 0) {
		return rc;
	}
	conf = ctfile_find(w->files, w->nfiles, LXC_CONFIG);
	rc = ctfile_write(m.dir, LXC_CONFIG, m.config.data, m.config.len, conf,
			  e);
	return rc < 0 ? rc : ctpath_unlink(m.dir, LXC_COMMIT, e);
}

/* Take the hidden directory apart; its mark and itself go last. */
static int
undo_dir(const struct plan *m, struct err *e)
{
	cleanup(free_ptr) char *tree = tree_in(m, m->tmp, e);
	int rc = tree ? 0 : E_NOMEM;

	if (rc == 0 && ctpath_type(tree)) {
		rc = ctpath_move(tree, m->staged, e);
	}
	rc = rc < 0 ? rc : extras(m, m->tmp, false, e);
	/* Directories between the two, where the layout had some. */
	while (rc == 0 && m->rel) {
		*strrchr(tree, '/') = '\0';
		if (strcmp(tree, m->tmp) == 0 || rmdir(tree) < 0) {
			break;
		}
	}
	rc = rc < 0 ? rc : ctpath_unlink(m->tmp, CTFILE_TMP, e);
	return rc < 0 ? rc : ctpath_unlink(m->tmp, LXC_COMMIT, e);
}

/* Give the hidden directory up. */
static int
undo_tmp(const struct plan *m, struct err *e)
{
	int rc = 0;

	if (marked(m, m->tmp)) {
		rc = undo_dir(m, e);
	} else if (is_blank(m->tmp)) {
		rc = ctpath_unlink(m->tmp, CTFILE_TMP, e);
	} else {
		return 0;
	}
	if (rc == 0 && rmdir(m->tmp) < 0) {
		log_warn("%s stays: %s", m->tmp, strerror(errno));
	}
	return rc;
}

int
lxcdst_uncommit(const struct ct_host *h, const struct ct_want *w,
		const struct ct_place *p, const char *staged, struct err *e)
{
	cleanup(plan_fini) struct plan m;
	cleanup(close_fd) int lock = -1;
	int rc = plan_init(&m, h, w, p, staged, e);

	rc = rc < 0 ? rc : lxc_disk_lock(h, p->id, &lock, e);
	if (rc < 0) {
		return rc;
	}
	if (has_our_config(&m) && !ctpath_type(staged)) {
		rc = ctfile_write(m.dir, LXC_COMMIT, m.mark, strlen(m.mark),
				  &(struct ct_file){ .mode = 0600 }, e);
	}
	if (rc == 0 && marked(&m, m.dir)) {
		rc = ctpath_unlink(m.dir, LXC_CONFIG, e);
		rc = rc < 0 ? rc : ctpath_move(m.dir, m.tmp, e);
	}
	rc = rc < 0 ? rc : undo_tmp(&m, e);
	if (rc == 0 && !ctpath_type(staged)) {
		rc = err_set(e, E_STATE,
			     "%s is not what was committed there, so it is "
			     "left as it is",
			     m.dir);
	}
	return rc;
}

int
lxcdst_registered(const struct ct_host *h, const struct ct_place *p,
		  struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, p->id, e);
	cleanup(free_ptr) char *conf =
		dir ? io_asprintf(e, "%s/" LXC_CONFIG, dir) : NULL;

	return conf ? ctpath_is_file(conf) : E_NOMEM;
}
