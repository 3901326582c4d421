/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshfile: evaluates ssh_config. Input: files and a query; output: the lines
 * that apply. State: struct eval, during one call.
 */
#include "ssh/sshfile.h"

#include <ctype.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/sshline.h"
#include "ssh/sshlist.h"

#define FILE_MAX (1 << 20)
#define DEPTH_MAX 16
#define KEYWORD_MAX 64

struct eval {
	const struct sshfile_query *q;
	struct buf *out;     /* lines that apply */
	struct sshlist seen; /* keywords that have a value */
	char host[1025];     /* HostName as far as known, else alias */
	char user[256];	     /* User as far as known, else local */
	bool final;	     /* the second reading */
	bool want_final;     /* a Match final was met */
	bool active;	     /* the block applies */
	int depth;	     /* of Include */
};

static bool
seen(const struct eval *v, const char *key)
{
	for (size_t i = 0; i < v->seen.n; i++) {
		if (strcmp(v->seen.v[i], key) == 0) {
			return true;
		}
	}
	return false;
}

/* These hold one list or a command: the rest of the line as it stands. */
static bool
is_raw(const char *key)
{
	return strcmp(key, "proxycommand") == 0 ||
	       strcmp(key, "knownhostscommand") == 0;
}

static int
add_value(struct eval *v, const char *key, const char *rest, struct err *e)
{
	bool adds = strcmp(key, "identityfile") == 0 ||
		    strcmp(key, "certificatefile") == 0;
	struct sshlist w = { NULL, 0 };
	int rc;

	if (!adds && seen(v, key)) {
		return 0;
	}
	rc = is_raw(key) ? sshlist_add(&w, rest, e)
			 : sshline_words(rest, &w, e);
	if (rc == 0 && w.n == 0) {
		rc = err_set(e, E_CONFIG, "%s has no value", key);
	}
	if (rc == 0 && strcmp(key, "hostname") == 0 && !strchr(w.v[0], '%') &&
	    strlen(w.v[0]) < sizeof(v->host)) {
		strcpy(v->host, w.v[0]);
	}
	if (rc == 0 && strcmp(key, "user") == 0 &&
	    strlen(w.v[0]) < sizeof(v->user)) {
		strcpy(v->user, w.v[0]);
	}
	if (rc == 0 && !seen(v, key)) {
		rc = sshlist_add(&v->seen, key, e);
	}
	if (rc == 0) {
		rc = buf_printf(v->out, e, "%s", key);
	}
	for (size_t i = 0; rc == 0 && i < w.n; i++) {
		rc = buf_printf(v->out, e, " %s", w.v[i]);
	}
	if (rc == 0) {
		rc = buf_append(v->out, "\n", 1, e);
	}
	sshlist_fini(&w);
	return rc;
}

static int
match_host(struct eval *v, const char *rest, struct err *e)
{
	struct sshlist w = { NULL, 0 };
	int rc = sshline_words(rest, &w, e);

	v->active = false;
	for (size_t i = 0; rc == 0 && i < w.n; i++) {
		const char *p = w.v[i];
		bool no = *p == '!';

		if (!sshline_match(p + no, v->q->alias, true)) {
			continue;
		}
		v->active = !no;
		if (no) {
			break;
		}
	}
	sshlist_fini(&w);
	return rc;
}

/* One criterion with an argument: 1 holds, 0 not, or an error. */
static int
criterion(struct eval *v, const char *name, const char *arg, struct err *e)
{
	const char *with;

	if (strcasecmp(name, "host") == 0) {
		with = v->host;
	} else if (strcasecmp(name, "originalhost") == 0) {
		with = v->q->alias;
	} else if (strcasecmp(name, "user") == 0) {
		with = v->user;
	} else if (strcasecmp(name, "localuser") == 0) {
		with = v->q->local_user;
	} else {
		return err_set(e, E_CONFIG,
			       "'Match %s' cannot be evaluated without the "
			       "OpenSSH client",
			       name);
	}
	return sshline_match_list(arg, ',', with, true) == 1;
}

static int
match_block(struct eval *v, const char *rest, struct err *e)
{
	struct sshlist w = { NULL, 0 };
	int rc = sshline_words(rest, &w, e);
	bool all = rc == 0;

	for (size_t i = 0; rc >= 0 && i < w.n; i++) {
		bool no = w.v[i][0] == '!';
		const char *name = w.v[i] + no;
		char *eq = strchr(w.v[i], '=');
		bool holds;

		if (strcasecmp(name, "all") == 0) {
			holds = true;
		} else if (strcasecmp(name, "final") == 0) {
			v->want_final = true;
			holds = v->final;
		} else if (strcasecmp(name, "canonical") == 0) {
			holds = false;
		} else {
			const char *arg = eq ? eq + 1 : NULL;

			if (eq) {
				*eq = '\0';
			} else if (i + 1 < w.n) {
				arg = w.v[++i];
			}
			if (!arg) {
				rc = err_set(e, E_CONFIG,
					     "'Match %s' wants an argument",
					     name);
				break;
			}
			rc = criterion(v, name, arg, e);
			holds = rc == 1;
		}
		all = all && holds != no;
	}
	v->active = all;
	sshlist_fini(&w);
	return rc < 0 ? rc : 0;
}

static int read_file(struct eval *v, const char *path, const char *base,
		     struct err *e);

static int
include(struct eval *v, const char *rest, const char *base, struct err *e)
{
	struct sshlist w = { NULL, 0 };
	int rc = sshline_words(rest, &w, e);
	bool outer = v->active;

	if (v->depth >= DEPTH_MAX) {
		rc = err_set(e, E_LIMIT, "Include is nested too deeply");
	}
	for (size_t i = 0; rc == 0 && i < w.n; i++) {
		cleanup(free_ptr) char *pattern = NULL;
		glob_t g = { 0 };

		pattern =
			*w.v[i] == '/' ? io_asprintf(e, "%s", w.v[i])
			: strncmp(w.v[i], "~/", 2) == 0
				? io_asprintf(e, "%s%s", v->q->home, w.v[i] + 1)
				: io_asprintf(e, "%s/%s", base, w.v[i]);
		if (!pattern) {
			rc = E_NOMEM;
			break;
		}
		if (glob(pattern, 0, NULL, &g) != 0) {
			log_debug("Include %s: no such file", pattern);
			continue;
		}
		v->depth++;
		for (size_t k = 0; rc == 0 && k < g.gl_pathc; k++) {
			v->active = outer;
			rc = read_file(v, g.gl_pathv[k], base, e);
		}
		v->depth--;
		globfree(&g);
	}
	v->active = outer;
	sshlist_fini(&w);
	return rc;
}

static int
read_line(struct eval *v, char *line, const char *base, struct err *e)
{
	char *key, *rest, low[KEYWORD_MAX];
	size_t n = 0;

	if (!sshline_split(line, &key, &rest)) {
		return 0;
	}
	for (; key[n] && n < sizeof(low) - 1; n++) {
		low[n] = (char)tolower((unsigned char)key[n]);
	}
	low[n] = '\0';
	if (strcmp(low, "host") == 0) {
		/* Inside an include that does not apply nothing does. */
		return match_host(v, rest, e);
	}
	if (strcmp(low, "match") == 0) {
		return match_block(v, rest, e);
	}
	if (!v->active) {
		return 0;
	}
	if (strcmp(low, "include") == 0) {
		return include(v, rest, base, e);
	}
	return add_value(v, low, rest, e);
}

static int
read_file(struct eval *v, const char *path, const char *base, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	size_t len;
	unsigned number = 0;

	if (io_read_file(AT_FDCWD, path, FILE_MAX, &text, &len, NULL) < 0) {
		log_debug("%s cannot be read", path);
		return 0;
	}
	for (char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		bool more = p[n] != '\0';
		int rc;

		p[n] = '\0';
		number++;
		rc = read_line(v, p, base, e);
		if (rc < 0) {
			return err_wrap(e, "%s line %u", path, number);
		}
		p += n + more;
	}
	return 0;
}

static int
read_all(struct eval *v, struct err *e)
{
	const char *config = v->q->config;
	cleanup(free_ptr) char *base = io_asprintf(e, "%s/.ssh", v->q->home);
	cleanup(free_ptr) char *user =
		io_asprintf(e, "%s/.ssh/config", v->q->home);
	int rc;

	if (!base || !user) {
		return E_NOMEM;
	}
	v->active = true;
	if (config && strcmp(config, "none") == 0) {
		return 0;
	}
	if (config) {
		return read_file(v, config, base, e);
	}
	rc = read_file(v, user, base, e);
	v->active = true;
	return rc < 0 ? rc : read_file(v, "/etc/ssh/ssh_config", "/etc/ssh", e);
}

static int
read_options(struct eval *v, struct err *e)
{
	v->active = true;
	for (size_t i = 0; v->q->options && i < v->q->options->n; i++) {
		cleanup(free_ptr) char *line = strdup(v->q->options->v[i]);
		int rc;

		if (!line) {
			return err_nomem(e);
		}
		rc = read_line(v, line, "/", e);
		if (rc < 0) {
			return err_wrap(e, "-o %s", v->q->options->v[i]);
		}
	}
	return 0;
}

int
sshfile_resolve(const struct sshfile_query *q, struct buf *out, struct err *e)
{
	struct eval v = { .q = q, .out = out };
	int rc;

	if (strlen(q->alias) >= sizeof(v.host) ||
	    (q->user && strlen(q->user) >= sizeof(v.user)) ||
	    strlen(q->local_user) >= sizeof(v.user)) {
		return err_set(e, E_LIMIT, "the host or user name is too long");
	}
	strcpy(v.host, q->alias);
	strcpy(v.user, q->user ? q->user : q->local_user);
	rc = read_options(&v, e);
	if (rc == 0 && q->user && !seen(&v, "user")) {
		rc = sshlist_add(&v.seen, "user", e);
	}
	if (rc == 0) {
		rc = read_all(&v, e);
	}
	if (rc == 0 && v.want_final) {
		v.final = true;
		rc = read_all(&v, e);
	}
	sshlist_fini(&v.seen);
	return rc;
}
