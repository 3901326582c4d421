/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzconf: reads OpenVZ's configuration.
 */
#include "ct/vzconf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctpath.h"
#include "ct/kinds.h"
#include "ct/shconf.h"
#include "ct/vzreg.h"

#define VZ_CONF "/etc/vz/vz.conf"
#define DEFAULT_DUMPDIR "/vz/dump"

const char *const vzconf_suffixes[3] = { "", VZCONF_BLOCKED, VZCONF_MIGRATED };

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

#define UUID_LEN 36

/* The UUID in `word` to `out`, in lower case; braces around it go. */
static bool
uuid(const char *word, char out[UUID_LEN + 1])
{
	size_t n = strlen(word);

	if (n == UUID_LEN + 2 && word[0] == '{' && word[n - 1] == '}') {
		word++;
		n -= 2;
	}
	if (n != UUID_LEN) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		unsigned char ch = (unsigned char)word[i];

		if (dash ? ch != '-' : !isxdigit(ch)) {
			return false;
		}
		out[i] = (char)tolower(ch);
	}
	out[n] = '\0';
	return true;
}

static bool
number(const char *word)
{
	return *word && strspn(word, "0123456789") == strlen(word);
}

bool
vzconf_is_ctid(const char *word)
{
	char text[UUID_LEN + 1];

	return number(word) || uuid(word, text);
}

char *
vzconf_ctid(const char *word, struct err *e)
{
	char text[UUID_LEN + 1];
	unsigned long n;
	char *end;

	if (uuid(word, text)) {
		return io_asprintf(e, "%s", text);
	}
	if (!number(word)) {
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
	return n > 0 && n <= NAME_MAX && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0 && !vzconf_is_ctid(name) &&
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
	if (strcmp(base, VZREG_CONF) == 0) {
		return vzreg_ctid(link, name);
	}
	dot = strrchr(base, '.');
	if (!dot || strcmp(dot, ".conf") != 0) {
		return NULL;
	}
	*dot = '\0';
	return vzconf_ctid(base, NULL);
}

int
vzconf_value(const struct vzconf *v, const char *ctid, const char *own,
	     size_t own_len, const char *key, char **value, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	char name[64];
	size_t len;
	int rc = 0;

	snprintf(name, sizeof(name), "%s.conf", ctid);
	if (own) {
		rc = shconf_get(own, own_len, name, key, ctid, value, e);
	}
	if (rc == 0) {
		rc = io_read_file(AT_FDCWD, v->file, CT_FILE_MAX, &text, &len,
				  e);
		rc = rc < 0 ? rc
			    : shconf_get(text, len, v->file, key, ctid, value,
					 e);
	}
	return rc;
}

char *
vzconf_path(const struct vzconf *v, const char *ctid, const char *suffix,
	    struct err *e)
{
	return io_asprintf(e, "%s/%s.conf%s", v->dir, ctid, suffix);
}
