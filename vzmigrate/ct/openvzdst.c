/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * openvzdst: an openvz container on the destination. This host's vz.conf
 * decides where it lives (field case F15), so VE_PRIVATE and VE_ROOT leave
 * the container's own configuration unless the person names new ones. A mark
 * beside the configuration, CTID.vzmigrate-commit, ties an unfinished commit
 * to its staging area.
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
#include "ct/ctpath.h"
#include "ct/origin.h"
#include "ct/ploop.h"
#include "ct/shconf.h"
#include "ct/vzconf.h"
#include "ct/vzctl.h"
#include "ct/vzluggage.h"
#include "ct/vzreg.h"

/* What commit and uncommit work with. */
struct plan {
	const struct ct_want *w;
	const struct ct_place *p;
	const char *staged;
	struct vzconf v;
	char *conf;	   /* "CTID.conf" */
	char *mark;	   /* "CTID.vzmigrate-commit" */
	char *mark_text;   /* the staging area */
	char *target;	   /* what the name's link points to */
	struct buf config; /* the configuration to write */
	bool registers;	   /* one of OpenVZ 7 */
};

static void
plan_fini(struct plan *m)
{
	vzconf_fini(&m->v);
	free(m->conf);
	free(m->mark);
	free(m->mark_text);
	free(m->target);
	buf_fini(&m->config);
}

/* Refuse what could not be written into a configuration. */
static int
check_plain(const char *s, const char *what, struct err *e)
{
	return !s || shconf_plain(s)
		       ? 0
		       : err_set(e, E_USAGE,
				 "%s contains a character that cannot be "
				 "written into the configuration: %s",
				 what, s);
}

static const char *
want_id(const struct ct_want *w)
{
	return w->new_id ? w->new_id : w->id;
}

static const char *
want_name(const struct ct_want *w)
{
	return w->new_name ? w->new_name : w->name;
}

static int
place_dirs(const struct ct_want *w, const struct vzconf *v, struct ct_place *p,
	   struct err *e)
{
	const char *private = w->new_private ? w->new_private : v->private;
	const char *root = w->new_root ? w->new_root : v->root;
	cleanup(free_ptr) char *tree = NULL;

	if (!private || !root) {
		return err_set(e, E_CONFIG,
			       "%s does not set %s; set it, or use %s", v->file,
			       private ? "VE_ROOT" : "VE_PRIVATE",
			       private ? "--new-root" : "--new-private");
	}
	tree = ctpath_clean(private, "the private area", e);
	p->mount_root = tree ? ctpath_clean(root, "the root", e) : NULL;
	if (!p->mount_root) {
		return e ? e->code : E_USAGE;
	}
	if (ctpath_inside(tree, p->mount_root) ||
	    ctpath_inside(p->mount_root, tree)) {
		return err_set(e, E_CONFIG,
			       "the private area %s and the root %s lie one "
			       "inside the other",
			       tree, p->mount_root);
	}
	return ctpath_place(tree, &p->tree, &p->stage_dir, e);
}

int
openvzdst_wish(const struct ct_want *w, struct err *e)
{
	const char *name = want_name(w);
	struct err why = { 0 };
	cleanup(free_ptr) char *id = vzconf_ctid(want_id(w), &why);
	int rc;

	if (!id) {
		return why.code ? err_set(e, why.code, "%s", why.text)
				: err_set(e, E_USAGE,
					  "'%s' cannot be a CTID: it is a "
					  "number from 1 to %u or, with OpenVZ "
					  "7, a UUID",
					  want_id(w), VZCONF_CTID_MAX);
	}
	rc = name && !vzconf_name_ok(name)
		     ? err_set(e, E_USAGE,
			       "'%s' cannot be the name of an openvz "
			       "container",
			       name)
		     : 0;
	rc = rc < 0 ? rc : check_plain(w->new_private, "--new-private", e);
	return rc < 0 ? rc : check_plain(w->new_root, "--new-root", e);
}

int
openvzdst_place(const struct ct_host *h, const struct ct_want *w,
		struct ct_place *p, struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	const char *name = want_name(w);
	int rc = openvzdst_wish(w, e);

	memset(p, 0, sizeof(*p));
	if (rc < 0) {
		return rc;
	}
	p->id = vzconf_ctid(want_id(w), e);
	rc = p->id ? 0 : E_NOMEM;
	rc = rc < 0 ? rc : vzconf_load(h, p->id, NULL, 0, &v, e);
	rc = rc < 0 ? rc : place_dirs(w, &v, p, e);
	if (rc == 0 && name) {
		p->name = strdup(name);
		rc = p->name ? 0 : err_nomem(e);
	}
	if (rc < 0) {
		ct_place_fini(p);
	}
	return rc;
}

/* Something in the way of the configuration or the private area. */
static void
check_in_way(const struct vzconf *v, const struct ct_place *p,
	     struct ct_findings *f)
{
	cleanup(free_ptr) char *conf = vzconf_path(v, p->id, "", NULL);
	mode_t tree = ctpath_type(p->tree), c = conf ? ctpath_type(conf) : 0;
	enum ct_state s;

	if (c && tree) {
		bool up = vzctl_status(p->id, &s, NULL, NULL) == 0 &&
			  s == CT_RUNNING;

		ct_finding_add(f, E_EXISTS, false,
			       "there is a container %s already%s (%s); remove "
			       "it, or choose another with --new-id",
			       p->id, up ? ", and it runs" : "", conf);
	} else if (c) {
		ct_finding_add(f, E_EXISTS, false,
			       "there is a configuration %s already, without "
			       "a private area; remove it, or choose another "
			       "CTID with --new-id",
			       conf);
	} else if (tree) {
		ct_finding_add(f, E_EXISTS, false,
			       "the private area %s %s, without a "
			       "configuration; remove it, or choose another "
			       "place with --new-private",
			       p->tree,
			       tree == S_IFLNK && !ctpath_is_dir(p->tree)
				       ? "is a dangling symlink"
				       : "is there already");
	}
}

static void
check_name(const struct ct_host *h, const struct vzconf *v,
	   const struct ct_place *p, struct ct_findings *f)
{
	cleanup(free_ptr) char *link = NULL;
	cleanup(free_ptr) char *owner = NULL;

	if (!p->name) {
		return;
	}
	link = io_asprintf(NULL, "%s/%s", v->names, p->name);
	if (!link || !ctpath_type(link)) {
		return;
	}
	owner = vzconf_by_name(h, p->name);
	if (owner && strcmp(owner, p->id) == 0) {
		return;
	}
	ct_finding_add(f, E_EXISTS, false,
		       "the name %s is taken by %s%s (%s); choose another "
		       "with --new-name",
		       p->name, owner ? "container " : "another file",
		       owner ? owner : "", link);
}

/* The commit, and a way back, need the lock: later it would be too late. */
static void
check_lock(const struct ct_host *h, const struct vzconf *v,
	   const struct ct_place *p, struct ct_findings *f)
{
	struct err why = { 0 };

	if (vzlock_try(h, v, p->id, &why) < 0) {
		ct_finding_add(f, why.code == E_BUSY ? E_BUSY : E_CONFIG, false,
			       "%s", why.text);
	}
}

static bool
of_openvz7(const struct ct_want *w)
{
	cleanup(free_ptr) char *layout = origin_get(w, "layout", 0);

	return layout != NULL;
}

/* Whether vzctl here can run a container of that layout. */
static void
check_version(const struct ct_want *w, const struct ct_place *p,
	      struct ct_findings *f)
{
	struct err why = { 0 };
	int major = vzctl_major(&why);

	if (major < 0) {
		ct_finding_add(f, E_CONFIG, false, "%s", why.text);
	} else if (of_openvz7(w) && major < VZCTL_OPENVZ7) {
		ct_finding_add(f, E_UNSUPPORTED, false,
			       "the container has the layout of OpenVZ 7, "
			       "which vzctl %d on the destination does not "
			       "know",
			       major);
	} else if (!of_openvz7(w) && major >= VZCTL_OPENVZ7) {
		ct_finding_add(f, E_UNSUPPORTED, false,
			       "the container has the layout of OpenVZ before "
			       "7, which OpenVZ 7 does not run");
	} else if (major < VZCTL_OPENVZ7 && strchr(p->id, '-')) {
		ct_finding_add(f, E_USAGE, false,
			       "%s cannot be a CTID there: vzctl %d takes "
			       "numbers only; choose one with --new-id",
			       p->id, major);
	}
}

int
openvzdst_check(const struct ct_host *h, const struct ct_want *w,
		const struct ct_place *p, struct ct_findings *f, struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	const struct ct_file *conf = ctfile_find(w->files, w->nfiles, "config");
	int rc = vzconf_load(h, p->id, NULL, 0, &v, e);

	if (rc < 0) {
		return rc;
	}
	if (!conf) {
		return err_set(e, E_PROTOCOL,
			       "the container came without a configuration");
	}
	ctholds_place(h, p->tree, f);
	if (!ctpath_program("vzctl")) {
		ct_finding_add(f, E_CONFIG, false,
			       "vzctl is not installed on the destination "
			       "(package vzctl of OpenVZ)");
	} else {
		check_version(w, p, f);
	}
	if (!ctpath_is_dir(v.dir)) {
		ct_finding_add(f, E_CONFIG, false,
			       "there is no directory %s on the destination",
			       v.dir);
	}
	ploop_check(w, f);
	check_in_way(&v, p, f);
	check_name(h, &v, p, f);
	check_lock(h, &v, p, f);
	vzluggage_check(w, p, &v, f);
	if (origin_is_above(w, p->tree)) {
		ct_finding_add(f, E_USAGE, false,
			       "%s is the container's own private area, or "
			       "inside it",
			       p->tree);
	}
	return origin_check(h, w, f, e);
}

static int
plan_config(struct plan *m, struct err *e)
{
	const struct ct_want *w = m->w;
	const struct ct_file *f = ctfile_find(w->files, w->nfiles, "config");
	const char *text = f ? (const char *)f->data : NULL;
	cleanup(free_ptr) char *veid = NULL;
	cleanup(free_ptr) char *layout = NULL;
	struct shconf_edit ed[6];
	size_t n = 0;
	int rc;

	if (!f || f->len > CT_FILE_MAX) {
		return err_set(e, E_PROTOCOL,
			       "the container came without a configuration");
	}
	ed[n++] = (struct shconf_edit){ "VE_PRIVATE", w->new_private };
	ed[n++] = (struct shconf_edit){ "VE_ROOT", w->new_root };
	if (w->new_name) {
		ed[n++] = (struct shconf_edit){ "NAME", w->new_name };
	}
	rc = shconf_get(text, f->len, m->conf, "VE_LAYOUT", NULL, &layout, e);
	if (rc == 0 && !m->registers) {
		/* vzctl writes it at the first start; then the file would not
		 * be known as ours any more. */
		ed[n++] = (struct shconf_edit){ "VE_LAYOUT",
						ploop_wanted(w) ? "ploop"
								: "simfs" };
	}
	rc = rc < 0 ? rc
		    : shconf_get(text, f->len, m->conf, "VEID", NULL, &veid, e);
	if (rc < 0) {
		return rc;
	}
	if (rc == 1 && w->new_id) {
		ed[n++] = (struct shconf_edit){ "VEID", m->p->id };
	}
	if (m->registers && w->new_id && strchr(m->p->id, '-')) {
		ed[n++] = (struct shconf_edit){ "UUID", m->p->id };
	}
	return shconf_edit(text, f->len, ed, n, &m->config, e);
}

static int
plan_init(struct plan *m, const struct ct_host *h, const struct ct_want *w,
	  const struct ct_place *p, const char *staged, struct err *e)
{
	int rc;

	*m = (struct plan){
		.w = w, .p = p, .staged = staged, .registers = of_openvz7(w)
	};
	buf_init(&m->config, 2 * CT_FILE_MAX);
	rc = vzconf_load(h, p->id, NULL, 0, &m->v, e);
	if (rc < 0) {
		return rc;
	}
	m->conf = io_asprintf(e, "%s.conf", p->id);
	m->mark = io_asprintf(e, "%s.vzmigrate-commit", p->id);
	m->mark_text = io_asprintf(e, "%s\n", staged);
	m->target = vzconf_path(&m->v, p->id, "", e);
	if (!m->conf || !m->mark || !m->mark_text || !m->target) {
		return E_NOMEM;
	}
	return plan_config(m, e);
}

static bool
has_our_config(const struct plan *m)
{
	return m->registers ? vzreg_known(&m->v, m->p->id, m->p->tree)
			    : ctfile_same(m->v.dir, m->conf, m->config.data,
					  m->config.len);
}

static int
put_mark(const struct plan *m, struct err *e)
{
	int rc = ctfile_write(m->v.dir, m->mark, m->mark_text,
			      strlen(m->mark_text),
			      &(struct ct_file){ .mode = 0600 }, e);

	return rc == E_EXISTS
		       ? err_set(e, E_EXISTS,
				 "%s/%s belongs to another migration that was "
				 "not ended; end it, or remove it",
				 m->v.dir, m->mark)
		       : rc;
}

/* Write or remove the action scripts. */
static int
actions(const struct plan *m, bool make, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; vzconf_actions[i] && rc == 0; i++) {
		const struct ct_file *f;
		char role[64], name[64];

		snprintf(role, sizeof(role), "action.%s", vzconf_actions[i]);
		snprintf(name, sizeof(name), "%s.%s", m->p->id,
			 vzconf_actions[i]);
		f = ctfile_find(m->w->files, m->w->nfiles, role);
		if (!f) {
			continue;
		}
		rc = make ? ctfile_write(m->v.dir, name, f->data, f->len, f, e)
			  : ctfile_remove_same(m->v.dir, name, f->data, f->len,
					       e);
	}
	return rc;
}

/* Whether names/NAME is the link to our configuration. */
static bool
is_our_name(const struct ct_host *h, const struct plan *m)
{
	cleanup(free_ptr) char *owner = vzconf_by_name(h, m->p->name);

	return owner && strcmp(owner, m->p->id) == 0;
}

static int
make_name(const struct ct_host *h, const struct plan *m, struct err *e)
{
	cleanup(close_fd) int fd = -1;

	if (!m->p->name || is_our_name(h, m)) {
		return 0;
	}
	if (!ctpath_is_dir(m->v.names) && io_mkdirs(m->v.names, 0755, e) < 0) {
		return e ? e->code : E_SYSTEM;
	}
	fd = ctpath_open_dir(m->v.names, e);
	if (fd < 0) {
		return fd;
	}
	if (symlinkat(m->target, fd, m->p->name) < 0) {
		return errno == EEXIST
			       ? err_set(e, E_EXISTS, "the name %s is taken",
					 m->p->name)
			       : err_sys(e, errno, "cannot make %s/%s",
					 m->v.names, m->p->name);
	}
	return fsync(fd) < 0 ? err_sys(e, errno, "%s", m->v.names) : 0;
}

/* The tree is in its place: what belongs beside it, the configuration last. */
static int
put_beside(const struct ct_host *h, const struct plan *m, struct err *e)
{
	const struct ct_file *like =
		ctfile_find(m->w->files, m->w->nfiles, "config");
	int rc;

	if (m->registers) {
		return vzreg_register(&m->v, m->p, &m->config, like, e);
	}
	rc = vzluggage_take(m->w, m->p, &m->v, e);
	rc = rc < 0 ? rc : actions(m, true, e);
	rc = rc < 0 ? rc : make_name(h, m, e);
	rc = rc < 0 ? rc
		    : ctfile_write(m->v.dir, m->conf, m->config.data,
				   m->config.len, like, e);
	return rc < 0 ? rc : vzluggage_done(m->w, m->p, e);
}

/* And away again, the configuration first. */
static int
remove_beside(const struct ct_host *h, const struct plan *m, struct err *e)
{
	int rc;

	if (m->registers) {
		return vzreg_unregister(&m->v, m->p, e);
	}
	rc = ctpath_unlink(m->v.dir, m->conf, e);
	if (rc == 0 && m->p->name && is_our_name(h, m)) {
		rc = ctpath_unlink(m->v.names, m->p->name, e);
	}
	rc = rc < 0 ? rc : actions(m, false, e);
	return rc < 0 || !ctpath_is_dir(m->p->tree)
		       ? rc
		       : vzluggage_back(m->w, m->p, &m->v, e);
}

static int
commit_locked(const struct ct_host *h, const struct plan *m, struct err *e)
{
	cleanup(free_ptr) char *up = strdup(m->p->tree);
	int rc;

	if (!up) {
		return err_nomem(e);
	}
	if (ctpath_type(m->target)) {
		rc = has_our_config(m) && !ctpath_type(m->staged) &&
				     ctpath_is_dir(m->p->tree)
			     ? 0
			     : err_set(e, E_EXISTS, "%s exists", m->target);
		rc = rc < 0 ? rc : vzluggage_done(m->w, m->p, e);
		return rc < 0 ? rc : ctpath_unlink(m->v.dir, m->mark, e);
	}
	*strrchr(up, '/') = '\0';
	rc = put_mark(m, e);
	if (rc == 0 && *up && !ctpath_is_dir(up)) {
		rc = io_mkdirs(up, 0755, e);
	}
	if (rc == 0) {
		rc = ploop_settle(
			m->w, m->p->tree,
			ctpath_type(m->staged) ? m->staged : m->p->tree, e);
	}
	rc = rc < 0 ? rc : ctpath_move(m->staged, m->p->tree, e);
	rc = rc < 0 ? rc : put_beside(h, m, e);
	return rc < 0 ? rc : ctpath_unlink(m->v.dir, m->mark, e);
}

static int
uncommit_locked(const struct ct_host *h, const struct plan *m, struct err *e)
{
	bool marked = ctfile_same(m->v.dir, m->mark, m->mark_text,
				  strlen(m->mark_text));
	int rc = 0;

	if (!marked && has_our_config(m) && !ctpath_type(m->staged)) {
		rc = put_mark(m, e);
		marked = rc == 0;
	}
	if (rc < 0) {
		return rc;
	}
	if (!marked) {
		return ctpath_type(m->staged)
			       ? 0
			       : err_set(e, E_STATE,
					 "%s is not what was committed there, "
					 "so it is left as it is",
					 m->target);
	}
	if (ctpath_type(m->target) && !has_our_config(m)) {
		return err_set(e, E_STATE,
			       "%s was changed since, so it is left as it is",
			       m->target);
	}
	rc = m->registers ? 0 : vzluggage_untouched(m->w, m->p, &m->v, e);
	rc = rc < 0 ? rc : remove_beside(h, m, e);
	if (rc == 0 && !ctpath_type(m->staged)) {
		rc = ctpath_move(m->p->tree, m->staged, e);
	}
	return rc < 0 ? rc : ctpath_unlink(m->v.dir, m->mark, e);
}

/* Both directions run under vzctl's lock. */
static int
locked(const struct ct_host *h, const struct ct_want *w,
       const struct ct_place *p, const char *staged,
       int (*fn)(const struct ct_host *h, const struct plan *m, struct err *e),
       struct err *e)
{
	cleanup(plan_fini) struct plan m;
	int lock = -1, rc = plan_init(&m, h, w, p, staged, e);

	rc = rc < 0 ? rc : vzlock_take(h, &m.v, p->id, &lock, e);
	if (rc < 0) {
		return rc;
	}
	rc = fn(h, &m, e);
	vzlock_release(h, &m.v, p->id, lock);
	return rc;
}

int
openvzdst_commit(const struct ct_host *h, const struct ct_want *w,
		 const struct ct_place *p, const char *staged, struct err *e)
{
	return locked(h, w, p, staged, commit_locked, e);
}

int
openvzdst_uncommit(const struct ct_host *h, const struct ct_want *w,
		   const struct ct_place *p, const char *staged, struct err *e)
{
	return locked(h, w, p, staged, uncommit_locked, e);
}

int
openvzdst_registered(const struct ct_host *h, const struct ct_place *p,
		     struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	cleanup(free_ptr) char *conf = NULL;
	int rc = vzconf_load(h, p->id, NULL, 0, &v, e);

	if (rc < 0) {
		return rc;
	}
	conf = vzconf_path(&v, p->id, "", e);
	return conf ? ctpath_is_file(conf) : E_NOMEM;
}
