/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lxcconf: a line at a time; nothing is executed or expanded.
 */
#include "ct/lxcconf.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Where the parts of one line are, as offsets into the text. */
struct line {
	size_t off, len;	/* without the newline */
	size_t key, keylen;	/* keylen 0: comment or blank */
	size_t value, valuelen; /* without white space and quotes */
};

static bool
space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Cut white space off both ends of [*off, *off + *len). */
static void
trim(const char *text, size_t *off, size_t *len)
{
	while (*len && space(text[*off])) {
		++*off;
		--*len;
	}
	while (*len && space(text[*off + *len - 1])) {
		--*len;
	}
}

static bool
split(const char *text, struct line *l)
{
	size_t off = l->off, len = l->len;
	const char *eq;

	l->keylen = l->valuelen = 0;
	trim(text, &off, &len);
	if (len == 0 || text[off] == '#') {
		return true;
	}
	eq = memchr(text + off, '=', len);
	if (!eq) {
		return false;
	}
	l->key = off;
	l->keylen = (size_t)(eq - (text + off));
	l->value = off + l->keylen + 1;
	l->valuelen = len - l->keylen - 1;
	trim(text, &l->key, &l->keylen);
	trim(text, &l->value, &l->valuelen);
	if (l->valuelen >= 2 &&
	    (text[l->value] == '"' || text[l->value] == '\'') &&
	    text[l->value + l->valuelen - 1] == text[l->value]) {
		l->value++;
		l->valuelen -= 2;
	}
	return l->keylen > 0;
}

/* The next line from *pos. 1, 0 at the end, E_CONFIG. */
static int
next_line(const char *text, size_t len, size_t *pos, struct line *l,
	  unsigned *lineno, const char *name, struct err *e)
{
	const char *nl;

	if (*pos >= len) {
		return 0;
	}
	nl = memchr(text + *pos, '\n', len - *pos);
	l->off = *pos;
	l->len = (nl ? (size_t)(nl - text) : len) - *pos;
	*pos = l->off + l->len + (nl != NULL);
	++*lineno;
	if (memchr(text + l->off, '\0', l->len)) {
		return err_set(e, E_CONFIG, "%s line %u contains a NUL byte",
			       name, *lineno);
	}
	if (!split(text, l)) {
		return err_set(e, E_CONFIG,
			       "%s line %u is not of the form 'key = value'",
			       name, *lineno);
	}
	return 1;
}

int
lxcconf_each(const char *text, size_t len, const char *name, lxcconf_fn *fn,
	     void *arg, struct err *e)
{
	unsigned lineno = 0;
	size_t pos = 0;
	struct line l;
	int rc;

	while ((rc = next_line(text, len, &pos, &l, &lineno, name, e)) > 0) {
		cleanup(free_ptr) char *key = NULL;
		cleanup(free_ptr) char *value = NULL;

		if (l.keylen == 0) {
			continue;
		}
		key = strndup(text + l.key, l.keylen);
		value = strndup(text + l.value, l.valuelen);
		if (!key || !value) {
			return err_nomem(e);
		}
		rc = fn(key, value, arg, e);
		if (rc != 0) {
			return rc;
		}
	}
	return rc;
}

/* Whether a path may begin after, or end before, this character. */
static bool
border(char c)
{
	return c == '\0' || space(c) || c == ':' || c == '=' || c == ',' ||
	       c == '"' || c == '\'';
}

static const struct lxcconf_pair *
match(const char *value, const char *p, const struct lxcconf_change *ch)
{
	if (p != value && !border(p[-1])) {
		return NULL;
	}
	for (size_t i = 0; i < ch->npairs; i++) {
		size_t n = strlen(ch->pairs[i].from);

		if (n && strncmp(p, ch->pairs[i].from, n) == 0 &&
		    (p[n] == '/' || border(p[n]))) {
			return &ch->pairs[i];
		}
	}
	return NULL;
}

int
lxcconf_replace(const char *value, const struct lxcconf_change *ch,
		struct buf *out, struct err *e)
{
	for (const char *p = value; *p;) {
		const struct lxcconf_pair *m = match(value, p, ch);
		int rc = m ? buf_append(out, m->to, strlen(m->to), e)
			   : buf_append(out, p, 1, e);

		if (rc < 0) {
			return rc;
		}
		p += m ? strlen(m->from) : 1;
	}
	return 0;
}

static bool
is_key(const char *text, const struct line *l, const char *key)
{
	return l->keylen == strlen(key) &&
	       memcmp(text + l->key, key, l->keylen) == 0;
}

static bool
is_rootfs(const char *text, const struct line *l)
{
	return is_key(text, l, "lxc.rootfs.path") ||
	       is_key(text, l, "lxc.rootfs");
}

/* The changed value of line l into `out`. */
static int
put_value(const char *text, const struct line *l,
	  const struct lxcconf_change *ch, struct buf *out, struct err *e)
{
	cleanup(free_ptr) char *value = strndup(text + l->value, l->valuelen);

	if (!value) {
		return err_nomem(e);
	}
	if (ch->rootfs && is_rootfs(text, l) && *value) {
		return buf_printf(out, e, "%s%s",
				  strncmp(value, "dir:", 4) == 0 ? "dir:" : "",
				  ch->rootfs);
	}
	if (ch->new_id && ch->old_id && strcmp(value, ch->old_id) == 0 &&
	    (is_key(text, l, "lxc.uts.name") ||
	     is_key(text, l, "lxc.utsname"))) {
		return buf_append(out, ch->new_id, strlen(ch->new_id), e);
	}
	return lxcconf_replace(value, ch, out, e);
}

int
lxcconf_rewrite(const char *text, size_t len, const char *name,
		const struct lxcconf_change *ch, struct buf *out, struct err *e)
{
	bool have_rootfs = false;
	unsigned lineno = 0;
	size_t pos = 0;
	struct line l;
	int rc;

	while ((rc = next_line(text, len, &pos, &l, &lineno, name, e)) > 0) {
		size_t end = l.off + l.len, tail;

		if (l.keylen == 0) {
			rc = buf_append(out, text + l.off, pos - l.off, e);
		} else {
			have_rootfs |= is_rootfs(text, &l) && l.valuelen;
			rc = buf_append(out, text + l.off, l.value - l.off, e);
			rc = rc < 0 ? rc : put_value(text, &l, ch, out, e);
			tail = l.value + l.valuelen;
			rc = rc < 0 ? rc
				    : buf_append(out, text + tail, end - tail,
						 e);
			rc = rc < 0 ? rc
				    : buf_append(out, text + end, pos - end, e);
		}
		if (rc < 0) {
			return rc;
		}
	}
	if (rc < 0 || have_rootfs || !ch->rootfs) {
		return rc;
	}
	return buf_printf(out, e, "%slxc.rootfs.path = dir:%s\n",
			  len && text[len - 1] != '\n' ? "\n" : "", ch->rootfs);
}
