/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * origin: writes and reads the lines of the origin file. What is read comes
 * from the peer: it is only looked at, and never opened for writing.
 */
#include "ct/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctfile.h"
#include "ct/ctfits.h"
#include "ct/ctpath.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static int
put_coded(struct buf *b, const char *s, struct err *e)
{
	for (; *s; s++) {
		unsigned char ch = (unsigned char)*s;
		int rc = ch <= 0x20 || ch >= 0x7f || ch == '%'
				 ? buf_printf(b, e, "%%%02x", ch)
				 : buf_append(b, s, 1, e);

		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

int
origin_put(struct buf *b, const char *key, const char *what, const char *value,
	   struct err *e)
{
	int rc = buf_printf(b, e, what ? "%s %s " : "%s ", key, what);

	if (rc == 0) {
		rc = put_coded(b, value, e);
	}
	return rc < 0 ? rc : buf_append(b, "\n", 1, e);
}

int
origin_put_node(struct buf *b, const char *tree, struct err *e)
{
	cleanup(free_ptr) char *boot = NULL;
	char node[64];
	struct stat st;
	int rc;

	if (stat(tree, &st) < 0) {
		return err_sys(e, errno, "%s", tree);
	}
	rc = io_read_file(AT_FDCWD, BOOT_ID, 256, &boot, NULL, e);
	if (rc < 0) {
		return rc;
	}
	boot[strcspn(boot, "\n")] = '\0';
	snprintf(node, sizeof(node), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	rc = origin_put(b, "boot", NULL, boot, e);
	return rc < 0 ? rc : origin_put(b, "node", NULL, node, e);
}

int
origin_finish(struct ct *c, struct buf *b, struct err *e)
{
	char *copy = malloc(b->len + 1);

	if (!copy) {
		return err_nomem(e);
	}
	if (b->len) {
		memcpy(copy, b->data, b->len);
	}
	return ctfile_add(c, ORIGIN_ROLE, copy, b->len, 0600, 0, 0, e);
}

static int
hex(char ch)
{
	return ch >= '0' && ch <= '9'	? ch - '0'
	       : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
					: -1;
}

/* Decode in place; false where it is malformed. */
static bool
decode(char *s)
{
	char *o = s;

	while (*s) {
		if ((unsigned char)*s <= 0x20 || (unsigned char)*s >= 0x7f) {
			return false;
		}
		if (*s != '%') {
			*o++ = *s++;
			continue;
		}
		if (hex(s[1]) < 0 || hex(s[2]) < 0 ||
		    (s[1] == '0' && s[2] == '0')) {
			return false;
		}
		*o++ = (char)(hex(s[1]) << 4 | hex(s[2]));
		s += 3;
	}
	*o = '\0';
	return true;
}

static int
one_line(char *line, origin_fn *fn, void *arg, struct err *e)
{
	char *what = NULL, *value = strchr(line, ' ');

	if (!value) {
		return err_set(e, E_PROTOCOL, "a line of origin has no value");
	}
	*value++ = '\0';
	if (strcmp(line, "need") == 0 || strcmp(line, "want") == 0) {
		what = value;
		value = strchr(value, ' ');
		if (!value) {
			return err_set(e, E_PROTOCOL,
				       "a line of origin has no path");
		}
		*value++ = '\0';
	}
	if (!decode(value)) {
		return err_set(e, E_PROTOCOL,
			       "a value in origin is not coded right");
	}
	return fn(line, what, value, arg, e);
}

int
origin_each(const struct ct_want *w, origin_fn *fn, void *arg, struct err *e)
{
	const struct ct_file *f = ctfile_find(w->files, w->nfiles, ORIGIN_ROLE);
	cleanup(free_ptr) char *text = NULL;
	int rc = 0;

	if (!f) {
		return 0;
	}
	if (f->len > ORIGIN_MAX || (f->len && memchr(f->data, 0, f->len))) {
		return err_set(e, E_PROTOCOL, "origin is malformed");
	}
	text = strndup(f->len ? (const char *)f->data : "", f->len);
	if (!text) {
		return err_nomem(e);
	}
	for (char *p = text; *p && rc == 0;) {
		char *end = p + strcspn(p, "\n");
		bool last = *end == '\0';

		*end = '\0';
		rc = one_line(p, fn, arg, e);
		p = last ? end : end + 1;
	}
	return rc;
}

struct get {
	const char *key;
	unsigned left; /* values still to pass over */
	char *found;   /* heap */
};

static int
get_one(const char *key, const char *what, const char *value, void *arg,
	struct err *e)
{
	struct get *g = arg;

	(void)what;
	if (strcmp(key, g->key) != 0 || g->left-- > 0) {
		return 0;
	}
	g->found = strdup(value);
	return g->found ? 1 : err_nomem(e);
}

char *
origin_get(const struct ct_want *w, const char *key, unsigned n)
{
	struct get g = { key, n, NULL };

	origin_each(w, get_one, &g, NULL);
	return g.found;
}

bool
origin_is_above(const struct ct_want *w, const char *path)
{
	cleanup(free_ptr) char *boot = origin_get(w, "boot", 0);
	cleanup(free_ptr) char *node = origin_get(w, "node", 0);
	cleanup(free_ptr) char *here = NULL;
	cleanup(free_ptr) char *p = strdup(path);
	char have[64];

	if (!boot || !node || !p ||
	    io_read_file(AT_FDCWD, BOOT_ID, 256, &here, NULL, NULL) < 0) {
		return false;
	}
	here[strcspn(here, "\n")] = '\0';
	if (strcmp(here, boot) != 0) {
		return false;
	}
	for (;;) {
		char *slash = strrchr(p, '/');
		struct stat st;

		if (stat(p, &st) == 0) {
			snprintf(have, sizeof(have), "%llu:%llu",
				 (unsigned long long)st.st_dev,
				 (unsigned long long)st.st_ino);
			if (strcmp(have, node) == 0) {
				return true;
			}
		}
		if (!slash || slash == p) {
			return false;
		}
		*slash = '\0';
	}
}

struct check {
	const struct ct_host *h;
	const struct ct_want *w;
	struct ct_findings *f;
};

static int
check_one(const char *key, const char *what, const char *value, void *arg,
	  struct err *e)
{
	const struct check *c = arg;
	bool need = strcmp(key, "need") == 0;
	struct stat st;

	(void)e;
	if (!what) {
		ctfits_check(c->h, c->w, key, value, c->f);
		return 0;
	}
	if (strcmp(what, "bridge") == 0) {
		ctfits_check_device(c->w, value, c->f);
		return 0;
	}
	if (*value == '/' && stat(value, &st) == 0) {
		return 0;
	}
	ct_finding_add(c->f, E_CONFIG, !need || ct_nodeps(c->w, "bindmount"),
		       "the %s %s that the configuration uses is not there; "
		       "it is shared with other containers and so not "
		       "carried: copy it to the destination, or take it out "
		       "of the configuration",
		       what, value);
	return 0;
}

int
origin_check(const struct ct_host *h, const struct ct_want *w,
	     struct ct_findings *f, struct err *e)
{
	struct check c = { h, w, f };

	return origin_each(w, check_one, &c, e);
}
