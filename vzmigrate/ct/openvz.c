/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * openvz: containers of OpenVZ's vzctl, on the source. The private area of a
 * simfs container is its root file system; that of one with ploop has the disk
 * images that it is in, which ploop.c knows about.
 *
 * The migration's lock is vzctl's own, so vzctl and the classic vzmigrate
 * stay away meanwhile. It does not outlive our process, though, so a start is
 * made impossible by giving CTID.conf another name: vzctl then answers
 * "Container config file does not exist", and the boot scripts, which look
 * for CTID.conf, pass it over.
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
#include "ct/ctfile.h"
#include "ct/ctfits.h"
#include "ct/ctholds.h"
#include "ct/ctpath.h"
#include "ct/kinds.h"
#include "ct/origin.h"
#include "ct/ploop.h"
#include "ct/shconf.h"
#include "ct/vzconf.h"
#include "ct/vzctl.h"
#include "ct/vzluggage.h"
#include "ct/vzreg.h"

/* The configuration under whatever name: its path, and what that means. */
static char *
find_config(const struct vzconf *v, const char *ctid, enum ct_mark *mark)
{
	for (unsigned i = 0; i < 3; i++) {
		char *path = vzconf_path(v, ctid, vzconf_suffixes[i], NULL);

		if (path && ctpath_is_file(path)) {
			*mark = (enum ct_mark)i;
			return path;
		}
		free(path);
	}
	return NULL;
}

struct by_path {
	const char *real; /* the path asked for */
	char *ctid;	  /* heap, when found */
};

static int
match_path(const char *id, const char *dir, const char *tree, void *arg)
{
	struct by_path *b = arg;
	cleanup(free_ptr) char *real = tree ? realpath(tree, NULL) : NULL;

	(void)dir;
	if (!real || strcmp(real, b->real) != 0) {
		return 0;
	}
	b->ctid = strdup(id);
	return 1;
}

/* CTID, name or private area to the CTID. NULL; E_USAGE for CT 0. */
static char *
word_to_ctid(const struct ct_host *h, const char *word, struct err *e)
{
	if (*word == '/') {
		cleanup(free_ptr) char *real = realpath(word, NULL);
		struct by_path b = { real, NULL };

		if (real) {
			openvz_each(h, match_path, &b);
		}
		return b.ctid;
	}
	if (vzconf_is_ctid(word)) {
		return vzconf_ctid(word, e);
	}
	return vzconf_by_name(h, word);
}

static int
openvz_probe(const struct ct_host *h, const char *word, struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	cleanup(free_ptr) char *ctid = NULL;
	cleanup(free_ptr) char *path = NULL;
	enum ct_mark mark;
	int rc;

	if (!vzconf_here(h)) {
		return 0;
	}
	ctid = word_to_ctid(h, word, NULL);
	if (!ctid) {
		return 0;
	}
	rc = vzconf_load(h, ctid, NULL, 0, &v, e);
	if (rc < 0) {
		return rc;
	}
	path = find_config(&v, ctid, &mark);
	return !path ? 0 : mark == CT_RETIRED ? 2 : 1;
}

static int
find_tree(struct ct *c, const struct vzconf *v, struct err *e)
{
	if (!v->private) {
		return err_set(e, E_CONFIG,
			       "neither %s nor the configuration of container "
			       "%s sets VE_PRIVATE",
			       v->file, c->id);
	}
	c->tree = realpath(v->private, NULL);
	if (!c->tree && c->mark == CT_RETIRED) {
		c->tree = strdup(v->private);
		return c->tree ? 0 : err_nomem(e);
	}
	if (!c->tree) {
		return err_set(e, E_NOT_FOUND,
			       "the private area %s of container %s is not "
			       "there",
			       v->private, c->id);
	}
	if (ctpath_type(c->tree) != S_IFDIR || strcmp(c->tree, "/") == 0) {
		return err_set(e, E_CONFIG,
			       "the private area %s of container %s cannot be "
			       "one",
			       c->tree, c->id);
	}
	return 0;
}

static int
load_actions(struct ct *c, const struct vzconf *v, struct buf *origin,
	     struct err *e)
{
	int rc = 0;

	for (size_t i = 0; vzconf_actions[i] && rc == 0; i++) {
		const char *a = vzconf_actions[i];
		cleanup(free_ptr) char *own =
			io_asprintf(e, "%s/%s.%s", v->dir, c->id, a);
		cleanup(free_ptr) char *all =
			io_asprintf(e, "%s/vps.%s", v->dir, a);
		char role[64];

		if (!own || !all) {
			return E_NOMEM;
		}
		snprintf(role, sizeof(role), "action.%s", a);
		if (ctpath_type(own)) {
			rc = ctfile_load(c, role, own, e);
		}
		if (rc == 0 && ctpath_is_file(all)) {
			rc = origin_put(origin, "want", "script", all, e);
			rc = rc < 0 ? rc
				    : ctfile_note(c, e,
						  "script %s is shared and not "
						  "carried; it is looked for "
						  "on the destination",
						  all);
		}
	}
	return rc;
}

/* The container's own values out of its configuration. */
static int
load_values(struct ct *c, const char *text, size_t len, struct err *e)
{
	cleanup(free_ptr) char *onboot = NULL;
	int rc = shconf_get(text, len, c->id, "NAME", c->id, &c->name, e);

	if (rc == 1 && !*c->name) {
		free(steal_ptr(&c->name));
	}
	if (rc >= 0) {
		rc = shconf_get(text, len, c->id, "ONBOOT", c->id, &onboot, e);
	}
	c->autostart = rc == 1 && strcmp(onboot, "yes") == 0;
	return rc < 0 ? rc : 0;
}

/* IP_ADDRESS="10.0.0.1 10.0.0.2", and what NETIF="ifname=eth0,bridge=br0,
 * mac=00:18:51:...;ifname=..." names. */
static int
load_net(struct ct *c, const char *text, size_t len, struct buf *origin,
	 struct err *e)
{
	cleanup(free_ptr) char *ips = NULL;
	cleanup(free_ptr) char *netif = NULL;
	char *save = NULL;
	int rc = shconf_get(text, len, c->id, "IP_ADDRESS", c->id, &ips, e);

	rc = rc < 0 ? rc
		    : shconf_get(text, len, c->id, "NETIF", c->id, &netif, e);
	for (char *p = ips ? strtok_r(ips, " \t", &save) : NULL; p && rc >= 0;
	     p = strtok_r(NULL, " \t", &save)) {
		rc = origin_put(origin, "ip", NULL, p, e);
	}
	for (char *p = netif ? strtok_r(netif, " \t,;", &save) : NULL;
	     p && rc >= 0; p = strtok_r(NULL, " \t,;", &save)) {
		if (strncmp(p, "mac=", 4) == 0 && p[4]) {
			rc = origin_put(origin, "mac", NULL, p + 4, e);
		} else if (strncmp(p, "ip=", 3) == 0 && p[3]) {
			rc = origin_put(origin, "ip", NULL, p + 3, e);
		} else if (strncmp(p, "bridge=", 7) == 0 && p[7]) {
			rc = origin_put(origin, "want", "bridge", p + 7, e);
		}
	}
	return rc < 0 ? rc : 0;
}

static int
read_tag(struct ct *c, const struct vzconf *v, struct err *e)
{
	cleanup(free_ptr) char *path = vzconf_path(v, c->id, VZCONF_SESSION, e);

	if (c->mark == CT_RETIRED && path &&
	    io_read_file(AT_FDCWD, path, 4096, &c->tag, NULL, NULL) == 0) {
		c->tag[strcspn(c->tag, "\n")] = '\0';
	}
	return path ? 0 : E_NOMEM;
}

static int
openvz_state(const struct ct_host *h, const struct ct *c, enum ct_state *s,
	     struct err *e)
{
	int rc = vzctl_status(c->id, s, NULL, e);

	(void)h;
	if (rc == 0 && *s == CT_STOPPED && openvzmark_mounted(c)) {
		*s = CT_MOUNTED;
	}
	return rc;
}

/* The state, which what is beside the tree depends on. A retired one has none;
 * one that is paused has processes that would never see the order to stop. */
static int
load_state(const struct ct_host *h, struct ct *c, struct err *e)
{
	int rc = c->mark == CT_RETIRED ? 0 : openvz_state(h, c, &c->state, e);

	return rc < 0 || c->state != CT_FROZEN
		       ? rc
		       : err_set(e, E_STATE,
				 "container %s is paused; resume it first "
				 "(vzctl start %s)",
				 c->id, c->id);
}

/* What there is beside the tree and the configuration, by the layout. */
static int
load_beside(struct ct *c, const struct vzconf *v, const char *text, size_t len,
	    struct buf *origin, struct err *e)
{
	if (vzreg_is(c->tree)) {
		return origin_put(origin, "layout", NULL, "5", e);
	}
	return c->mark == CT_RETIRED
		       ? 0
		       : vzluggage_facts(c, v, text, len, origin, e);
}

static int
load_parts(const struct ct_host *h, struct ct *c, const char *conf,
	   struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	cleanup(buf_finip) struct buf origin;
	const char *text;
	size_t len;
	int rc = ctfile_load(c, "config", conf, e);

	buf_init(&origin, ORIGIN_MAX);
	if (rc < 0) {
		return rc;
	}
	text = (const char *)c->files[0].data;
	len = c->files[0].len;
	rc = vzconf_load(h, c->id, text, len, &v, e);
	rc = rc < 0 ? rc : load_values(c, text, len, e);
	rc = rc < 0 ? rc : load_net(c, text, len, &origin, e);
	rc = rc < 0 ? rc : find_tree(c, &v, e);
	if (rc == 0 && ctpath_is_dir(c->tree) && ploop_is(v.layout, c->tree)) {
		rc = ploop_load(c, v.private, text, len, &origin, e);
	}
	rc = rc < 0 ? rc : load_actions(c, &v, &origin, e);
	c->mount_root = steal_ptr(&v.root);
	rc = rc < 0 ? rc : load_state(h, c, e);
	rc = rc < 0 ? rc : load_beside(c, &v, text, len, &origin, e);
	rc = rc < 0 ? rc : ctfile_note_mounts(c, e);
	rc = rc < 0 ? rc : read_tag(c, &v, e);
	if (rc == 0 && ctpath_is_dir(c->tree)) {
		rc = origin_put_node(&origin, c->tree, e);
	}
	rc = rc < 0 ? rc : ctfits_put(&origin, e);
	return rc < 0 ? rc : origin_finish(c, &origin, e);
}

static int
openvz_load(const struct ct_host *h, const char *word, struct ct *c,
	    struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	cleanup(free_ptr) char *conf = NULL;
	struct err why = { 0 };
	int rc;

	memset(c, 0, sizeof(*c));
	c->kind = &openvz_kind;
	c->state = CT_STOPPED;
	rc = vzconf_load(h, "1", NULL, 0, &v, e);
	if (rc < 0) {
		return rc;
	}
	c->id = word_to_ctid(h, word, &why);
	if (!c->id && why.code) {
		return err_set(e, why.code, "%s", why.text);
	}
	conf = c->id ? find_config(&v, c->id, &c->mark) : NULL;
	if (!conf) {
		rc = err_set(e, E_NOT_FOUND,
			     "there is no openvz container %s in %s", word,
			     v.dir);
	} else {
		rc = load_parts(h, c, conf, e);
	}
	/* One that is blocked passed this when it was free. */
	if (rc == 0 && c->mark == CT_FREE) {
		rc = ctholds_ct(h, c, e);
	}
	if (rc == 0 && c->state == CT_STOPPED) {
		rc = ploop_idle(c, e);
	}
	if (rc < 0) {
		ct_free(c);
	}
	return rc;
}

static int
openvz_lock(const struct ct_host *h, const struct ct *c, int *lockfd,
	    struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	int rc = vzconf_load(h, c->id, NULL, 0, &v, e);

	return rc < 0 ? rc : vzlock_take(h, &v, c->id, lockfd, e);
}

static void
openvz_unlock(const struct ct_host *h, const struct ct *c, int lockfd)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };

	vzconf_load(h, c->id, NULL, 0, &v, NULL);
	vzlock_release(h, &v, c->id, lockfd);
}

int
openvz_each(const struct ct_host *h, kinds_each_fn *fn, void *arg)
{
	cleanup(vzconf_fini) struct vzconf any = { 0 };
	DIR *d;
	int rc = 0;

	if (!vzconf_here(h) || vzconf_load(h, "1", NULL, 0, &any, NULL) < 0) {
		return 0;
	}
	d = opendir(any.dir);
	for (struct dirent *de; d && rc == 0 && (de = readdir(d));) {
		cleanup(vzconf_fini) struct vzconf v = { 0 };
		cleanup(free_ptr) char *ctid = NULL;
		cleanup(free_ptr) char *path = NULL;
		cleanup(free_ptr) char *text = NULL;
		const char *dot = strstr(de->d_name, ".conf");
		size_t len = 0;
		enum ct_mark mark;

		path = dot ? strndup(de->d_name, (size_t)(dot - de->d_name))
			   : NULL;
		ctid = path ? vzconf_ctid(path, NULL) : NULL;
		free(steal_ptr(&path));
		path = ctid ? find_config(&any, ctid, &mark) : NULL;
		if (!path ||
		    io_read_file(AT_FDCWD, path, CT_FILE_MAX, &text, &len,
				 NULL) < 0 ||
		    vzconf_load(h, ctid, text, len, &v, NULL) < 0) {
			continue;
		}
		rc = fn(ctid, NULL, v.private, arg);
	}
	if (d) {
		closedir(d);
	}
	return rc;
}

const struct ct_kind openvz_kind = {
	.name = "openvz",
	.by_path = false,
	.remove_default = true,
	.probe = openvz_probe,
	.load = openvz_load,
	.lock = openvz_lock,
	.unlock = openvz_unlock,
	.state = openvz_state,
	.block = openvzmark_block,
	.unblock = openvzmark_unblock,
	.retire = openvzmark_retire,
	.unretire = openvzmark_unretire,
	.life = openvzrun_life,
	.stop = openvzrun_stop,
	.start = openvzrun_start,
	.stop_first = true,
	.prepare = openvzprep_image,
	.images = ploop_images,
	.destroy = openvzmark_destroy,
	.remains = openvzmark_remains,
	.wish = openvzdst_wish,
	.place = openvzdst_place,
	.check = openvzdst_check,
	.commit = openvzdst_commit,
	.uncommit = openvzdst_uncommit,
	.registered = openvzdst_registered,
};
