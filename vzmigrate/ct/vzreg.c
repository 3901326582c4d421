/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzreg: registers and unregisters through vzctl, and sees that it was done:
 * what vzctl says counts less than the link. State: none.
 */
#include "ct/vzreg.h"

#include <fcntl.h>
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
#include "ct/ctpath.h"
#include "ct/shconf.h"
#include "ct/vzctl.h"

#define LAYOUT ".ve.layout"
#define LAYOUT_MIN 4
#define REGISTER_MS 120000

bool
vzreg_is(const char *tree)
{
	cleanup(free_ptr) char *path = io_asprintf(NULL, "%s/" LAYOUT, tree);
	char to[16];
	ssize_t n = path ? readlink(path, to, sizeof(to) - 1) : -1;

	if (n <= 0) {
		return false;
	}
	to[n] = '\0';
	return strspn(to, "0123456789") == (size_t)n && atoi(to) >= LAYOUT_MIN;
}

char *
vzreg_ctid(const char *path, const char *name)
{
	cleanup(free_ptr) char *text = NULL;
	cleanup(free_ptr) char *own = NULL;
	cleanup(free_ptr) char *veid = NULL;
	size_t len;

	if (io_read_file(AT_FDCWD, path, CT_FILE_MAX, &text, &len, NULL) < 0 ||
	    shconf_get(text, len, path, "NAME", NULL, &own, NULL) != 1 ||
	    strcmp(own, name) != 0 ||
	    shconf_get(text, len, path, "VEID", NULL, &veid, NULL) != 1) {
		return NULL;
	}
	return vzconf_ctid(veid, NULL);
}

bool
vzreg_known(const struct vzconf *v, const char *ctid, const char *tree)
{
	cleanup(free_ptr) char *link = vzconf_path(v, ctid, "", NULL);
	cleanup(free_ptr) char *own = io_asprintf(NULL, "%s/" VZREG_CONF, tree);
	struct stat a, b;

	return link && own && ctpath_type(link) == S_IFLNK &&
	       stat(link, &a) == 0 && stat(own, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* vzctl does not sync what it makes. */
static int
sync_dirs(const struct vzconf *v, const struct ct_place *p, struct err *e)
{
	const char *const dirs[] = { v->dir, v->names, p->tree };

	for (size_t i = 0; i < 3; i++) {
		cleanup(close_fd) int fd = -1;
		int rc = 0;

		if (!ctpath_is_dir(dirs[i])) {
			continue;
		}
		fd = ctpath_open_dir(dirs[i], e);
		rc = fd < 0 ? fd : atomicfile_sync_dir(fd, dirs[i], e);
		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

static int
order(const char *cmd, const char *arg1, const char *arg2, struct err *e)
{
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = vzctl_run(cmd, arg1, arg2, REGISTER_MS, &r, e);

	return rc < 0 || r.status == 0
		       ? rc
		       : err_set(e, E_CONFIG,
				 "vzctl %s %s failed with code %d: %s", cmd,
				 arg1, r.status, vzctl_last_words(&r));
}

int
vzreg_register(const struct vzconf *v, const struct ct_place *p,
	       const struct buf *config, const struct ct_file *like,
	       struct err *e)
{
	int rc;

	if (!vzreg_known(v, p->id, p->tree)) {
		/* Nobody knows this area yet, so its parts may come one by
		 * one. */
		rc = ctpath_unlink(p->tree, VZREG_CONF, e);
		rc = rc < 0 ? rc
			    : ctfile_write(p->tree, VZREG_CONF, config->data,
					   config->len, like, e);
		rc = rc < 0 ? rc : order("register", p->tree, p->id, e);
		if (rc < 0) {
			return rc;
		}
	}
	if (!vzreg_known(v, p->id, p->tree)) {
		return err_set(e, E_CONFIG,
			       "vzctl register %s %s said that all is well, "
			       "but made no link %s/%s.conf",
			       p->tree, p->id, v->dir, p->id);
	}
	return sync_dirs(v, p, e);
}

int
vzreg_unregister(const struct vzconf *v, const struct ct_place *p,
		 struct err *e)
{
	int rc = 0;

	if (vzreg_known(v, p->id, p->tree)) {
		rc = order("unregister", p->id, NULL, e);
		if (rc == 0 && vzreg_known(v, p->id, p->tree)) {
			rc = err_set(e, E_CONFIG,
				     "vzctl unregister %s left %s/%s.conf",
				     p->id, v->dir, p->id);
		}
	}
	return rc < 0 ? rc : sync_dirs(v, p, e);
}
