/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctholds: looks whether a tree holds what is not the container's. Input: the
 * configurations of this host. After a move the tree is destroyed, so one
 * wrong line in a configuration must not take another container with it.
 */
#include "ct/ctholds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ct/ctpath.h"
#include "ct/kinds.h"
#include "ct/vzconf.h"

#define STATE_DIR "/var/lib/vzmigrate"

struct holds {
	const char *path;     /* the tree asked about */
	char *base;	      /* where its containers are, resolved; or NULL */
	const char *kind;     /* of the walk under way */
	const struct ct *own; /* whose tree it is; NULL: nobody's */
	char found[512];      /* "it holds the lxc container web" */
};

static int
holds_one(const char *id, const char *dir, const char *tree, void *arg)
{
	struct holds *h = arg;
	cleanup(free_ptr) char *d = dir ? realpath(dir, NULL) : NULL;
	cleanup(free_ptr) char *t = tree ? realpath(tree, NULL) : NULL;
	const char *what = NULL;
	bool self = h->own && strcmp(h->own->kind->name, h->kind) == 0 &&
		    strcmp(h->own->id, id) == 0;

	if (self) {
		what = d && ctpath_inside(d, h->path)
			       ? "it holds the configuration of"
			       : NULL;
	} else if ((d && ctpath_inside(d, h->path)) ||
		   (t && ctpath_inside(t, h->path))) {
		what = "it holds";
	} else if (h->own && t && ctpath_inside(h->path, t) &&
		   !(h->base && ctpath_inside(h->base, t))) {
		/* A tree that holds where all are is the other one's error,
		 * which must not keep all of them here. */
		what = "it is a part of";
	}
	if (!what) {
		return 0;
	}
	snprintf(h->found, sizeof(h->found), "%s the %s container %s", what,
		 h->kind, id);
	return 1;
}

/* `path` may be a symlink, or not be there. */
static bool
holds_path(struct holds *h, const char *path, const char *what)
{
	cleanup(free_ptr) char *real = path ? realpath(path, NULL) : NULL;

	if (!real || !ctpath_inside(real, h->path)) {
		return false;
	}
	snprintf(h->found, sizeof(h->found), "it holds %s, where %s", path,
		 what);
	return true;
}

static bool
holds_state(const struct ct_host *host, struct holds *h)
{
	return holds_path(h, host->state_dir ? host->state_dir : STATE_DIR,
			  "vzmigrate keeps its journals");
}

/* All containers of one kind, and where they are. Takes `base`. */
static bool
holds_kind(const struct ct_host *host, struct holds *h, const char *kind,
	   int (*each)(const struct ct_host *, kinds_each_fn *, void *),
	   char *base)
{
	cleanup(free_ptr) char *path = base;
	cleanup(free_ptr) char *real = path ? realpath(path, NULL) : NULL;
	char where[64];

	h->kind = kind;
	h->base = real;
	snprintf(where, sizeof(where), "the %s containers are", kind);
	return each(host, holds_one, h) != 0 || holds_path(h, path, where);
}

/* Fills h->found. */
static void
look(const struct ct_host *host, struct holds *h)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };

	if (holds_kind(host, h, "lxc", lxc_each, lxc_base(host)) ||
	    holds_kind(host, h, "openvz", openvz_each, openvz_base(host))) {
		return;
	}
	/* A copy of these is harmless. */
	if (h->own && vzconf_here(host) &&
	    vzconf_load(host, "1", NULL, 0, &v, NULL) == 0) {
		holds_path(h, v.dir, "the openvz configurations are");
	}
}

int
ctholds_dir(const struct ct_host *h, const char *path, struct err *e)
{
	struct holds s = { .path = path };

	look(h, &s);
	if (*s.found) {
		return err_set(e, E_USAGE,
			       "%s cannot be moved as a directory: %s; move a "
			       "container by its name, without --kind=dir",
			       path, s.found);
	}
	return !holds_state(h, &s)
		       ? 0
		       : err_set(e, E_USAGE, "%s cannot be moved: %s", path,
				 s.found);
}

int
ctholds_ct(const struct ct_host *h, const struct ct *c, struct err *e)
{
	struct holds s = { .path = c->tree, .own = c };

	look(h, &s);
	return !*s.found && !holds_state(h, &s)
		       ? 0
		       : err_set(e, E_CONFIG,
				 "the root file system %s of %s container %s "
				 "is not its own: %s; correct its "
				 "configuration",
				 c->tree, c->kind->name, c->id, s.found);
}

void
ctholds_place(const struct ct_host *h, const char *tree, struct ct_findings *f)
{
	const char *dir = h->state_dir ? h->state_dir : STATE_DIR;
	cleanup(free_ptr) char *real = realpath(dir, NULL);

	if (ctpath_inside(tree, real ? real : dir)) {
		ct_finding_add(f, E_USAGE, false,
			       "%s is in %s, where vzmigrate keeps its "
			       "journals; name another place",
			       tree, dir);
	}
}
