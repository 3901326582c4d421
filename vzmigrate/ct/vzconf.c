/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzconf: reads OpenVZ's configuration and asks vzctl for the state.
 */
#include "ct/vzconf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctpath.h"
#include "ct/kinds.h"
#include "ct/shconf.h"

#define VZ_CONF "/etc/vz/vz.conf"
#define DEFAULT_DUMPDIR "/vz/dump"

const char *const vzconf_actions[] = { "start",	 "stop",     "mount",
				       "umount", "premount", "postumount",
				       NULL };

void
vzconf_fini(struct vzconf *v)
{
	free(v->file);
	free(v->dir);
	free(v->names);
	free(v->private);
	free(v->root);
	free(v->lockdir);
	free(v->dumpdir);
	free(v->layout);
	memset(v, 0, sizeof(*v));
}

static const char *
conf_file(const struct ct_host *h)
{
	return h->vz_conf ? h->vz_conf : VZ_CONF;
}

bool
vzconf_here(const struct ct_host *h)
{
	return ctpath_is_file(conf_file(h));
}

/* The directory of vz.conf, heap. */
static char *
etc_dir(const struct ct_host *h, struct err *e)
{
	const char *file = conf_file(h);
	const char *slash = strrchr(file, '/');

	if (h->vz_etc) {
		return ctpath_clean(h->vz_etc, "OpenVZ's directory", e);
	}
	if (!slash || slash == file) {
		err_set(e, E_CONFIG, "%s is not a usable path of vz.conf",
			file);
		return NULL;
	}
	return io_asprintf(e, "%.*s", (int)(slash - file), file);
}

/* One directory from the two texts, the container's own first, cleaned. */
static int
get_dir(const char *text, size_t len, const char *name, const char *key,
	const char *ctid, char **out, struct err *e)
{
	cleanup(free_ptr) char *raw = NULL;
	char what[64];
	int rc = shconf_get(text, len, name, key, ctid, &raw, e);

	if (rc <= 0 || !*raw) {
		return rc < 0 ? rc : 0;
	}
	snprintf(what, sizeof(what), "%s", key);
	free(*out);
	*out = ctpath_clean(raw, what, e);
	return *out ? 0 : err_recode(e, E_CONFIG, "%s", name);
}

static int
load_own(const char *ctid, const char *own, size_t len, struct vzconf *v,
	 struct err *e)
{
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "%s.conf", ctid);
	rc = get_dir(own, len, name, "VE_PRIVATE", ctid, &v->private, e);
	rc = rc < 0 ? rc
		    : get_dir(own, len, name, "VE_ROOT", ctid, &v->root, e);
	rc = rc < 0 ? rc
		    : shconf_get(own, len, name, "VE_LAYOUT", ctid, &v->layout,
				 e);
	return rc < 0 ? rc : 0;
}

int
vzconf_load(const struct ct_host *h, const char *ctid, const char *own,
	    size_t own_len, struct vzconf *v, struct err *e)
{
	const struct {
		const char *key;
		char **out;
	} dirs[] = { { "VE_PRIVATE", &v->private },
		     { "VE_ROOT", &v->root },
		     { "LOCKDIR", &v->lockdir },
		     { "DUMPDIR", &v->dumpdir } };
	cleanup(free_ptr) char *text = NULL;
	cleanup(free_ptr) char *etc = NULL;
	size_t len;
	int rc = 0;

	memset(v, 0, sizeof(*v));
	if (!vzconf_here(h)) {
		return err_set(e, E_CONFIG,
			       "there is no %s: OpenVZ is not installed, or "
			       "name it with --vz-conf (on the destination "
			       "--dst-vz-conf)",
			       conf_file(h));
	}
	etc = etc_dir(h, e);
	v->file = etc ? strdup(conf_file(h)) : NULL;
	v->dir = etc ? io_asprintf(e, "%s/conf", etc) : NULL;
	v->names = etc ? io_asprintf(e, "%s/names", etc) : NULL;
	if (!v->file || !v->dir || !v->names) {
		return e && e->code ? e->code : E_NOMEM;
	}
	rc = io_read_file(AT_FDCWD, v->file, CT_FILE_MAX, &text, &len, e);
	for (size_t i = 0; i < 4 && rc == 0; i++) {
		rc = get_dir(text, len, v->file, dirs[i].key, ctid, dirs[i].out,
			     e);
	}
	if (rc == 0 && !v->dumpdir) {
		v->dumpdir = strdup(DEFAULT_DUMPDIR);
	}
	return rc == 0 && own ? load_own(ctid, own, own_len, v, e) : rc;
}

char *
openvz_base(const struct ct_host *h)
{
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	char *slash;

	/* What is above the private area of any container. */
	if (!vzconf_here(h) || vzconf_load(h, "1", NULL, 0, &v, NULL) < 0 ||
	    !v.private) {
		return NULL;
	}
	slash = strrchr(v.private, '/');
	if (strcmp(slash, "/1") != 0 || slash == v.private) {
		return NULL;
	}
	*slash = '\0';
	return steal_ptr(&v.private);
}

char *
vzconf_ctid(const char *word, struct err *e)
{
	unsigned long n;
	char *end;

	if (!*word || strspn(word, "0123456789") != strlen(word)) {
		return NULL;
	}
	errno = 0;
	n = strtoul(word, &end, 10);
	if (n == 0) {
		err_set(e, E_USAGE,
			"CT %s is the host itself, which cannot be moved",
			word);
		return NULL;
	}
	if (errno || n > VZCONF_CTID_MAX) {
		err_set(e, E_USAGE, "CT %s is out of range (1 to %u)", word,
			VZCONF_CTID_MAX);
		return NULL;
	}
	return io_asprintf(e, "%lu", n);
}

bool
vzconf_name_ok(const char *name)
{
	size_t n = strlen(name);

	for (const char *p = name; *p; p++) {
		if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') ||
		      (*p >= 'A' && *p <= 'Z') || strchr(" -+_.", *p))) {
			return false;
		}
	}
	/* A number would be taken for a CTID. */
	return n > 0 && n <= NAME_MAX && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0 && strspn(name, "0123456789") != n &&
	       name[0] != '-';
}

char *
vzconf_by_name(const struct ct_host *h, const char *name)
{
	cleanup(free_ptr) char *etc = etc_dir(h, NULL);
	cleanup(free_ptr) char *link = NULL;
	char to[PATH_MAX], *base, *dot;
	ssize_t n;

	if (!etc || !vzconf_name_ok(name)) {
		return NULL;
	}
	link = io_asprintf(NULL, "%s/names/%s", etc, name);
	n = link ? readlink(link, to, sizeof(to) - 1) : -1;
	if (n <= 0) {
		return NULL;
	}
	to[n] = '\0';
	base = strrchr(to, '/');
	base = base ? base + 1 : to;
	dot = strrchr(base, '.');
	if (!dot || strcmp(dot, ".conf") != 0) {
		return NULL;
	}
	*dot = '\0';
	return vzconf_ctid(base, NULL);
}

char *
vzconf_path(const struct vzconf *v, const char *ctid, const char *suffix,
	    struct err *e)
{
	return io_asprintf(e, "%s/%s.conf%s", v->dir, ctid, suffix);
}

/* "CTID 101 exist unmounted down [suspended]" */
static int
parse_status(const char *out, const char *ctid, enum ct_state *s, bool *known,
	     struct err *e)
{
	char id[16], exist[16], mounted[16], run[16], dump[16] = "";
	int n = sscanf(out, "CTID %15s %15s %15s %15s %15s", id, exist, mounted,
		       run, dump);

	if (n < 4 || strcmp(id, ctid) != 0 ||
	    (strcmp(exist, "exist") != 0 && strcmp(exist, "deleted") != 0) ||
	    (strcmp(mounted, "mounted") != 0 &&
	     strcmp(mounted, "unmounted") != 0) ||
	    (strcmp(run, "running") != 0 && strcmp(run, "down") != 0)) {
		return err_set(e, E_CONFIG,
			       "vzctl status says '%.*s' of container %s",
			       (int)strcspn(out, "\n"), out, ctid);
	}
	*s = strcmp(run, "running") == 0       ? CT_RUNNING
	     : strcmp(dump, "suspended") == 0  ? CT_SUSPENDED
	     : strcmp(mounted, "mounted") == 0 ? CT_MOUNTED
					       : CT_STOPPED;
	if (known) {
		*known = strcmp(exist, "exist") == 0;
	}
	return 0;
}

int
vzconf_status(const char *ctid, enum ct_state *s, bool *known, struct err *e)
{
	const char *const argv[] = { "vzctl", "status", ctid, NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = child_run(&(struct child_cmd){ .argv = argv }, &r, e);

	if (rc == E_NOT_FOUND) {
		return err_set(e, E_CONFIG,
			       "vzctl is not installed here (package vzctl of "
			       "OpenVZ)");
	}
	if (rc < 0) {
		return rc;
	}
	if (r.status != 0) {
		char *text = buf_cstr(&r.err_out, NULL);

		return err_set(e, E_CONFIG,
			       "vzctl status %s failed with code %d: %.*s",
			       ctid, r.status,
			       text ? (int)strcspn(text, "\n") : 0,
			       text ? text : "");
	}
	return parse_status(buf_cstr(&r.out, NULL), ctid, s, known, e);
}
