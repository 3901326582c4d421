/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shconf: line by line; nothing is executed. State: none.
 */
#include "ct/shconf.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define VALUE_MAX 65536

/* One line of the text. */
struct line {
	const char *p;	   /* its first byte */
	size_t len;	   /* with the newline, if it has one */
	const char *key;   /* NULL: no assignment */
	size_t keylen;	   /* bytes of key */
	const char *value; /* raw, behind the = */
	size_t valuelen;   /* to the end of the line, without newline */
};

static bool
name_char(char c, bool first)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

static bool
blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static const char *
skip_blank(const char *p, const char *end)
{
	while (p < end && blank(*p)) {
		p++;
	}
	return p;
}

/* The line at `p`; false at the end. */
static bool
next_line(const char *p, const char *end, struct line *l)
{
	const char *nl, *stop, *k;

	if (p >= end) {
		return false;
	}
	nl = memchr(p, '\n', (size_t)(end - p));
	stop = nl ? nl : end;
	*l = (struct line){ .p = p, .len = (size_t)(stop - p) + (nl != NULL) };
	p = skip_blank(p, stop);
	if (stop - p > 7 && memcmp(p, "export", 6) == 0 && blank(p[6])) {
		p = skip_blank(p + 6, stop);
	}
	for (k = p; k < stop && name_char(*k, k == p); k++) {
	}
	if (k > p && k < stop && *k == '=') {
		l->key = p;
		l->keylen = (size_t)(k - p);
		l->value = k + 1;
		l->valuelen = (size_t)(stop - k - 1);
	}
	return true;
}

/* How a raw value ended. */
enum raw { RAW_OK, RAW_SHELL, RAW_QUOTE, RAW_EXTRA, RAW_GOES_ON };

/* Handle the $ at *p: the VEID, or something only a shell can do. */
static enum raw
dollar(const char **p, const char *end, const char *veid, struct buf *out)
{
	static const char *const forms[] = { "${VEID}", "$VEID" };

	for (int i = 0; i < 2; i++) {
		size_t n = strlen(forms[i]);

		if ((size_t)(end - *p) < n || memcmp(*p, forms[i], n) != 0 ||
		    (i == 1 && *p + n < end && name_char((*p)[n], false))) {
			continue;
		}
		buf_append(out, veid ? veid : forms[i],
			   strlen(veid ? veid : forms[i]), NULL);
		*p += n;
		return RAW_OK;
	}
	return RAW_SHELL;
}

/* Whether vzctl reads the same as a shell, given what is behind the word: it
 * takes an unquoted value to the end of the line, a quoted one to the last
 * quote. */
static bool
same_for_vzctl(const char *value, const char *rest, const char *end)
{
	rest = skip_blank(rest, end);
	return rest == end || (*rest == '#' && *value == '"' &&
			       !memchr(rest, '"', (size_t)(end - rest)));
}

/* Unquote one word of shell from [p, end). */
static enum raw
unquote(const char *p, const char *end, const char *veid, struct buf *out)
{
	const char *start = p;
	enum raw rc = RAW_OK;
	char quote = '\0';

	while (p < end && rc == RAW_OK) {
		if (!quote && (blank(*p) || *p == ';')) {
			break;
		} else if (*p == quote) {
			quote = '\0';
			p++;
		} else if (!quote && (*p == '"' || *p == '\'')) {
			quote = *p++;
		} else if (*p == '$') {
			rc = dollar(&p, end, veid, out);
		} else if (*p == '\\' && quote != '\'' && p + 1 == end) {
			rc = RAW_GOES_ON;
		} else if (quote != '\'' &&
			   (*p == '`' || (!quote && strchr("&|()<>", *p)))) {
			rc = RAW_SHELL;
		} else {
			if (*p == '\\' && quote != '\'' &&
			    (!quote || strchr("\"\\$`", p[1]))) {
				p++;
			}
			buf_append(out, p++, 1, NULL);
		}
	}
	return rc != RAW_OK			? rc
	       : quote				? RAW_QUOTE
	       : !same_for_vzctl(start, p, end) ? RAW_EXTRA
						: RAW_OK;
}

static int
line_value(const struct line *l, const char *name, const char *veid,
	   char **value, struct err *e)
{
	cleanup(buf_finip) struct buf b;

	buf_init(&b, VALUE_MAX);
	switch (unquote(l->value, l->value + l->valuelen, veid, &b)) {
	case RAW_SHELL:
		return err_set(e, E_CONFIG,
			       "%s: %.*s needs a shell to be read; only $VEID "
			       "is expanded",
			       name, (int)l->keylen, l->key);
	case RAW_QUOTE:
		return err_set(e, E_CONFIG, "%s: %.*s lacks a closing quote",
			       name, (int)l->keylen, l->key);
	case RAW_EXTRA:
		return err_set(e, E_CONFIG,
			       "%s: there is text behind the value of %.*s, "
			       "which vzctl takes for a part of it; remove it",
			       name, (int)l->keylen, l->key);
	case RAW_GOES_ON:
		return err_set(e, E_CONFIG,
			       "%s: %.*s ends with a backslash: a shell would "
			       "go on in the next line, vzctl does not",
			       name, (int)l->keylen, l->key);
	case RAW_OK:
		break;
	}
	if (!buf_cstr(&b, e)) {
		return E_NOMEM;
	}
	*value = strdup((char *)b.data);
	return *value ? 0 : err_nomem(e);
}

static bool
is_key(const struct line *l, const char *key)
{
	return l->key && l->keylen == strlen(key) &&
	       memcmp(l->key, key, l->keylen) == 0;
}

int
shconf_get(const char *text, size_t len, const char *name, const char *key,
	   const char *veid, char **value, struct err *e)
{
	cleanup(free_ptr) char *first = NULL;
	const char *end = text + len;
	struct line l;

	if (len && memchr(text, '\0', len)) {
		return err_set(e, E_CONFIG, "%s contains a NUL byte", name);
	}
	for (const char *p = text; next_line(p, end, &l); p += l.len) {
		cleanup(free_ptr) char *v = NULL;
		int rc;

		if (!is_key(&l, key)) {
			continue;
		}
		rc = line_value(&l, name, veid, &v, e);
		if (rc < 0) {
			return rc;
		}
		if (first && strcmp(first, v) != 0) {
			return err_set(e, E_CONFIG,
				       "%s sets %s twice, to '%s' and to '%s': "
				       "vzctl takes the first and scripts the "
				       "last; remove one",
				       name, key, first, v);
		}
		if (!first) {
			first = steal_ptr(&v);
		}
	}
	if (!first) {
		return 0;
	}
	*value = steal_ptr(&first);
	return 1;
}

bool
shconf_plain(const char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f ||
		    strchr("\"\\$`", *s)) {
			return false;
		}
	}
	return true;
}

static int
put(struct buf *out, const struct shconf_edit *ed, struct err *e)
{
	return buf_printf(out, e, "%s=\"%s\"\n", ed->key, ed->value);
}

int
shconf_edit(const char *text, size_t len, const struct shconf_edit *edits,
	    size_t n, struct buf *out, struct err *e)
{
	cleanup(free_ptr) bool *done = calloc(n + 1, sizeof(*done));
	const char *end = text + len;
	struct line l;
	int rc = done ? 0 : err_nomem(e);

	for (const char *p = text; rc == 0 && next_line(p, end, &l);
	     p += l.len) {
		size_t i = 0;

		while (i < n && !is_key(&l, edits[i].key)) {
			i++;
		}
		if (i == n) {
			rc = buf_append(out, l.p, l.len, e);
		} else if (edits[i].value && !done[i]) {
			rc = put(out, &edits[i], e);
			done[i] = true;
		}
	}
	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (!edits[i].value || done[i]) {
			continue;
		}
		if (out->len && out->data[out->len - 1] != '\n') {
			rc = buf_append(out, "\n", 1, e);
		}
		rc = rc < 0 ? rc : put(out, &edits[i], e);
	}
	return rc;
}
