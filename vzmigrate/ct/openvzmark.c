/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * openvzmark: an openvz container on the source, once it is to be moved: it
 * is blocked, retired and destroyed, and the ways back. Which of these it is,
 * is told by the name of its configuration alone.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctfile.h"
#include "ct/ctholds.h"
#include "ct/ctpath.h"
#include "ct/vzconf.h"
#include "ct/vzctl.h"
#include "ct/vzluggage.h"
#include "ct/vzquota.h"
#include "ct/vzreg.h"

#define UMOUNT_MS 60000

/* Which names there are: bits 1, 2, 4 as in vzconf_suffixes. */
static unsigned
look(const struct vzconf *v, const char *ctid)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < 3; i++) {
		cleanup(free_ptr) char *path =
			vzconf_path(v, ctid, vzconf_suffixes[i], NULL);

		if (path && ctpath_type(path)) {
			bits |= 1u << i;
		}
	}
	return bits;
}

/* Whether the private area is mounted on VE_ROOT, which vzctl cannot tell
 * once the configuration has another name. */
bool
openvzmark_mounted(const struct ct *c)
{
	cleanup(free_ptr) char *up = NULL;
	struct stat a, b;

	if (!c->mount_root || stat(c->mount_root, &a) < 0) {
		return false;
	}
	for (int i = 0; i < 2; i++) {
		/* OpenVZ 7 has the root file system one level down. */
		cleanup(free_ptr) char *fs =
			io_asprintf(NULL, "%s%s", c->tree, i ? "/fs" : "");

		if (fs && stat(fs, &b) == 0 && a.st_dev == b.st_dev &&
		    a.st_ino == b.st_ino) {
			return true;
		}
	}
	up = io_asprintf(NULL, "%s/..", c->mount_root);
	return up && stat(up, &b) == 0 && a.st_dev != b.st_dev;
}

/* Rename the configuration from one suffix to another; that it was done
 * before is success. `forbid`: bits that must not be there. */
static int
step(const struct ct_host *h, const struct ct *c, unsigned from, unsigned to,
     unsigned forbid, struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	char a[64], b[64];
	unsigned have;
	int rc = vzconf_load(h, c->id, NULL, 0, &v, e);

	if (rc < 0) {
		return rc;
	}
	snprintf(a, sizeof(a), "%s.conf%s", c->id, vzconf_suffixes[from]);
	snprintf(b, sizeof(b), "%s.conf%s", c->id, vzconf_suffixes[to]);
	have = look(&v, c->id);
	if (have & 1u << from) {
		if (have & forbid) {
			return err_set(e, E_STATE,
				       "%s has %s.conf beside %s: it was made "
				       "again during the migration; remove the "
				       "one that is not wanted",
				       v.dir, c->id, from ? a : b);
		}
		return ctpath_rename(v.dir, a, b, false, e);
	}
	if ((have & 1u << to) && !(have & forbid & ~(1u << to))) {
		cleanup(close_fd) int fd = ctpath_open_dir(v.dir, e);

		return fd < 0 ? fd : atomicfile_sync_dir(fd, v.dir, e);
	}
	return err_set(e, E_STATE, "%s has no %s", v.dir, a);
}

/* A suspended one may be mounted still; and it must be suspended still. */
static int
before_block(const struct ct *c, const struct vzconf *v, struct err *e)
{
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = vzluggage_same(c, v, e);

	if (rc < 0 || c->state != CT_SUSPENDED || !openvzmark_mounted(c)) {
		return rc;
	}
	rc = vzctl_run("umount", c->id, NULL, UMOUNT_MS, &r, e);
	return rc < 0 || r.status == 0
		       ? rc
		       : err_set(e, E_STOP,
				 "vzctl umount %s failed with code %d: %s",
				 c->id, r.status, vzctl_last_words(&r));
}

int
openvzmark_block(const struct ct_host *h, const struct ct *c, struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	int rc = vzconf_load(h, c->id, NULL, 0, &v, e);
	bool free_yet = rc == 0 && (look(&v, c->id) & 1u);

	if (free_yet) {
		rc = before_block(c, &v, e);
	}
	rc = rc < 0 ? rc : step(h, c, 0, 1, 2, e);
	return rc < 0 ? rc : vzluggage_pack(c, &v, e);
}

int
openvzmark_unblock(const struct ct_host *h, const struct ct *c, struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	int rc = vzconf_load(h, c->id, NULL, 0, &v, e);

	rc = rc < 0 ? rc : vzluggage_unpack(c, &v, e);
	return rc < 0 ? rc : step(h, c, 1, 0, 1, e);
}

int
openvzmark_retire(const struct ct_host *h, const struct ct *c, const char *tag,
		  struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	cleanup(free_ptr) char *text = ctfile_session(tag, e);
	char name[64];
	int rc = text ? vzconf_load(h, c->id, NULL, 0, &v, e) : E_NOMEM;

	if (rc < 0) {
		return rc;
	}
	snprintf(name, sizeof(name), "%s.conf" VZCONF_SESSION, c->id);
	/* Before the rename, so that whoever is retired has a session. */
	rc = ctfile_replace(v.dir, name, text, e);
	return rc < 0 ? rc : step(h, c, 1, 2, 1, e);
}

int
openvzmark_unretire(const struct ct_host *h, const struct ct *c,
		    const char *tag, struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	char name[64];
	int rc = vzconf_load(h, c->id, NULL, 0, &v, e);
	unsigned have = rc == 0 ? look(&v, c->id) : 0;

	snprintf(name, sizeof(name), "%s.conf" VZCONF_SESSION, c->id);
	/* A crash between unblock and the record of it: it is all done. */
	if ((have & 1u) && !(have & 2u) &&
	    !ctfile_session_is(v.dir, name, tag)) {
		return 0;
	}
	/* With both, the migrated one is older than this session. */
	if (rc == 0 && !(have & 2u)) {
		rc = step(h, c, 2, 1, 1, e);
	}
	return rc < 0 ? rc : ctpath_unlink(v.dir, name, e);
}

/* Whether names/NAME is the container's: by what it leads to, or where its
 * ve.conf was, as the tree is gone by now. */
static bool
is_its_name(const struct ct_host *h, const struct vzconf *v, const struct ct *c)
{
	cleanup(free_ptr) char *owner = vzconf_by_name(h, c->name);
	cleanup(free_ptr) char *link =
		io_asprintf(NULL, "%s/%s", v->names, c->name);
	cleanup(free_ptr) char *own =
		io_asprintf(NULL, "%s/" VZREG_CONF, c->tree);
	char to[PATH_MAX];
	ssize_t n = link ? readlink(link, to, sizeof(to) - 1) : -1;

	if (owner) {
		return strcmp(owner, c->id) == 0;
	}
	to[n > 0 ? n : 0] = '\0';
	return own && strcmp(to, own) == 0;
}

/* Action scripts, name, quota file, then the configuration. */
static int
destroy_files(const struct ct_host *h, const struct ct *c,
	      const struct vzconf *v, struct err *e)
{
	char name[64];
	int rc = 0;

	for (size_t i = 0; vzconf_actions[i] && rc == 0; i++) {
		snprintf(name, sizeof(name), "%s.%s", c->id, vzconf_actions[i]);
		rc = ctpath_unlink(v->dir, name, e);
	}
	if (rc == 0 && c->name && is_its_name(h, v, c)) {
		rc = ctpath_unlink(v->names, c->name, e);
	}
	rc = rc < 0 ? rc : vzquota_drop(c->id, e);
	rc = rc < 0 ? rc : vzluggage_destroy(c, v, e);
	snprintf(name, sizeof(name), "%s.conf" VZCONF_SESSION, c->id);
	rc = rc < 0 ? rc : ctpath_unlink(v->dir, name, e);
	snprintf(name, sizeof(name), "%s.conf" VZCONF_MIGRATED, c->id);
	return rc < 0 ? rc : ctpath_unlink(v->dir, name, e);
}

int
openvzmark_destroy(const struct ct_host *h, const struct ct *c, struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	const struct ct_file *own = ctfile_find(c->files, c->nfiles, "config");
	unsigned have;
	int rc = vzconf_load(h, c->id, own ? (char *)own->data : NULL,
			     own ? own->len : 0, &v, e);

	if (rc < 0) {
		return rc;
	}
	have = look(&v, c->id);
	if (!have && !ctpath_type(c->tree)) {
		return 0;
	}
	if (have != 4u) {
		return err_set(e, E_STATE,
			       "container %s is not moved away, so it is not "
			       "destroyed",
			       c->id);
	}
	if (openvzmark_mounted(c)) {
		return err_set(e, E_STATE,
			       "container %s is mounted on %s, so it is not "
			       "destroyed; unmount it",
			       c->id, c->mount_root);
	}
	rc = ctholds_ct(h, c, e);
	rc = rc < 0 ? rc : ctpath_remove_tree(c->tree, e);
	/* private/101 may be a symlink to where the tree was. */
	if (rc == 0 && v.private && ctpath_type(v.private) == S_IFLNK &&
	    unlink(v.private) < 0) {
		rc = err_sys(e, errno, "cannot remove %s", v.private);
	}
	if (rc == 0 && c->mount_root) {
		rmdir(c->mount_root);
	}
	return rc < 0 ? rc : destroy_files(h, c, &v, e);
}

static int
tell_file(const char *dir, const char *name, ct_remains_fn *fn, void *arg,
	  struct err *e)
{
	cleanup(free_ptr) char *path = io_asprintf(e, "%s/%s", dir, name);

	if (!path) {
		return E_NOMEM;
	}
	return ctpath_type(path) ? fn(path, arg, e) : 0;
}

int
openvzmark_remains(const struct ct_host *h, const struct ct *c,
		   ct_remains_fn *fn, void *arg, struct err *e)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	cleanup(free_ptr) char *real = NULL;
	char name[64];
	int rc = vzconf_load(h, c->id, NULL, 0, &v, e);

	if (rc < 0 || (look(&v, c->id) & 1u)) {
		return rc;
	}
	rc = fn(c->tree, arg, e);
	real = v.private ? realpath(v.private, NULL) : NULL;
	if (rc == 0 && real && strcmp(real, c->tree) == 0 &&
	    ctpath_type(v.private) == S_IFLNK) {
		rc = fn(v.private, arg, e);
	}
	for (size_t i = 0; vzconf_actions[i] && rc == 0; i++) {
		snprintf(name, sizeof(name), "%s.%s", c->id, vzconf_actions[i]);
		rc = tell_file(v.dir, name, fn, arg, e);
	}
	if (rc == 0 && c->name && is_its_name(h, &v, c)) {
		rc = tell_file(v.names, c->name, fn, arg, e);
	}
	snprintf(name, sizeof(name), "%s.conf" VZCONF_SESSION, c->id);
	rc = rc ? rc : tell_file(v.dir, name, fn, arg, e);
	snprintf(name, sizeof(name), "%s.conf" VZCONF_MIGRATED, c->id);
	return rc ? rc : tell_file(v.dir, name, fn, arg, e);
}
