/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ploopdd: parses by expat, which is given no document type and so no entity
 * but the five of XML itself. Input: the whole text; output: struct ploopdd.
 *
 * libploop takes the first element of a name, and of an element the first run
 * of text. So that both read the same, an element that would come twice is
 * refused, and so are comments, instructions, CDATA and elements within text.
 */
#include "ct/ploopdd.h"

#include <expat.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

#define DEPTH_MAX 16
#define PATH_TEXT_MAX 256

/* What libploop calls the top delta where the descriptor does not say. */
#define TOP_GUID "{5fbaabe3-6958-40ff-92a7-860e329aab41}"

enum field {
	NONE,
	PARAMETERS,
	STORAGE_DATA,
	STORAGE,
	IMAGE,
	IMAGE_GUID,
	IMAGE_FILE,
	SNAPSHOTS,
	TOP,
	ENCRYPTION,
	KEY,
	FIELDS,
};

/* Below the root element. */
static const struct known {
	enum field field;
	const char *path;
	size_t text; /* longest text, bytes; 0: it has none */
} known[] = {
	{ PARAMETERS, "/Disk_Parameters", 0 },
	{ ENCRYPTION, "/Disk_Parameters/Encryption", 0 },
	{ KEY, "/Disk_Parameters/Encryption/KeyId", 256 },
	{ STORAGE_DATA, "/StorageData", 0 },
	{ STORAGE, "/StorageData/Storage", 0 },
	{ IMAGE, "/StorageData/Storage/Image", 0 },
	{ IMAGE_GUID, "/StorageData/Storage/Image/GUID", PLOOPDD_GUID_MAX },
	{ IMAGE_FILE, "/StorageData/Storage/Image/File", PATH_MAX - 1 },
	{ SNAPSHOTS, "/Snapshots", 0 },
	{ TOP, "/Snapshots/TopGUID", PLOOPDD_GUID_MAX },
};

struct parse {
	XML_Parser x;
	struct ploopdd *d;
	const char *what;
	struct err *e;
	int rc;			  /* of our own refusal */
	char path[PATH_TEXT_MAX]; /* below the root element */
	size_t path_len;
	unsigned depth;
	const struct known *in; /* the element whose text is collected */
	struct buf text;
	size_t text_at;	   /* where it begins */
	bool seen[FIELDS]; /* of those that may come once; those of an
			      image: in this one */
	char top[PLOOPDD_GUID_MAX + 1];
};

void
ploopdd_fini(struct ploopdd *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->v[i].file);
	}
	free(d->v);
	free(d->key);
	*d = (struct ploopdd){ 0 };
}

/* End the parsing with an error. */
static void
refuse(struct parse *p, int code, const char *why, const char *which)
{
	if (p->rc == 0) {
		p->rc = err_set(p->e, code, "%s, line %lu: %s%s%s", p->what,
				(unsigned long)XML_GetCurrentLineNumber(p->x),
				why, *which ? " " : "", which);
		XML_StopParser(p->x, XML_FALSE);
	}
}

static void
no_memory(struct parse *p)
{
	if (p->rc == 0) {
		p->rc = err_nomem(p->e);
		XML_StopParser(p->x, XML_FALSE);
	}
}

static const struct known *
find(const char *path)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(known[i].path, path) == 0) {
			return &known[i];
		}
	}
	return NULL;
}

static void
begin_image(struct parse *p)
{
	struct ploopdd *d = p->d;
	struct ploopdd_image *v;

	if (d->n >= PLOOPDD_IMAGES_MAX) {
		refuse(p, E_UNSUPPORTED, "too many images", "");
		return;
	}
	v = realloc(d->v, (d->n + 1) * sizeof(*v));
	if (!v) {
		no_memory(p);
		return;
	}
	d->v = v;
	d->v[d->n++] = (struct ploopdd_image){ 0 };
	p->seen[IMAGE_GUID] = p->seen[IMAGE_FILE] = false;
}

/* An element that we know. */
static void
begin_known(struct parse *p, const struct known *k)
{
	if (k->field == IMAGE) {
		begin_image(p);
		return;
	}
	if (p->seen[k->field]) {
		refuse(p, k->field == STORAGE ? E_UNSUPPORTED : E_CONFIG,
		       k->field == STORAGE ? "the disk is split into several"
					   : "a second",
		       k->path);
		return;
	}
	p->seen[k->field] = true;
	if (k->text) {
		p->in = k;
		buf_clear(&p->text);
		p->text_at = (size_t)XML_GetCurrentByteIndex(p->x) +
			     (size_t)XML_GetCurrentByteCount(p->x);
	}
}

/* libploop takes whatever follows an image for one more. */
static bool
stands_for_image(const struct parse *p)
{
	static const char in[] = "/StorageData/Storage/";

	return p->d->n && strncmp(p->path, in, sizeof(in) - 1) == 0 &&
	       !strchr(p->path + sizeof(in) - 1, '/');
}

static void
on_start(void *arg, const XML_Char *name, const XML_Char **attr)
{
	struct parse *p = arg;
	const struct known *k;
	size_t n = strlen(name);

	(void)attr;
	if (p->in) {
		refuse(p, E_CONFIG, "an element within", p->in->path);
		return;
	}
	if (p->depth++ == 0) {
		if (strcmp(name, "Parallels_disk_image") != 0) {
			refuse(p, E_CONFIG, "it describes no disk image", "");
		}
		return;
	}
	if (p->depth > DEPTH_MAX || n + 2 > sizeof(p->path) - p->path_len) {
		refuse(p, E_CONFIG, "elements are nested too deep", "");
		return;
	}
	p->path[p->path_len++] = '/';
	memcpy(p->path + p->path_len, name, n + 1);
	p->path_len += n;
	k = find(p->path);
	if (k) {
		begin_known(p, k);
	} else if (stands_for_image(p)) {
		refuse(p, E_CONFIG, "not an image among the images:", name);
	}
}

static void
on_text(void *arg, const XML_Char *s, int len)
{
	struct parse *p = arg;

	if (!p->in) {
		return;
	}
	if ((size_t)len > p->in->text - p->text.len) {
		refuse(p, E_CONFIG, "the text is too long of", p->in->path);
	} else if (buf_append(&p->text, s, (size_t)len, NULL) < 0) {
		no_memory(p);
	}
}

static bool
is_plain(const char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f) {
			return false;
		}
	}
	return true;
}

/* The element whose text was collected ends. */
static void
take_text(struct parse *p)
{
	struct ploopdd_image *v = p->d->n ? &p->d->v[p->d->n - 1] : NULL;
	char *s = buf_cstr(&p->text, NULL), **to = NULL;

	if (!s) {
		no_memory(p);
		return;
	}
	if (!*s || !is_plain(s)) {
		refuse(p, E_CONFIG,
		       *s ? "a control character in" : "there is no text in",
		       p->in->path);
		return;
	}
	switch (p->in->field) {
	case IMAGE_GUID:
		strcpy(v->guid, s); /* no longer than known[] says */
		return;
	case TOP:
		strcpy(p->top, s);
		return;
	case IMAGE_FILE:
		v->at = p->text_at;
		v->len = (size_t)XML_GetCurrentByteIndex(p->x) - p->text_at;
		to = &v->file;
		break;
	default:
		to = &p->d->key;
		break;
	}
	*to = strdup(s);
	if (!*to) {
		no_memory(p);
	}
}

static void
on_end(void *arg, const XML_Char *name)
{
	struct parse *p = arg;
	const struct known *k;

	if (p->rc < 0 || --p->depth == 0) {
		return;
	}
	if (p->in) {
		take_text(p);
		p->in = NULL;
	}
	k = find(p->path);
	if (k && k->field == IMAGE && p->rc == 0 &&
	    !(p->seen[IMAGE_GUID] && p->seen[IMAGE_FILE])) {
		refuse(p, E_CONFIG, "an image without",
		       p->seen[IMAGE_FILE] ? "GUID" : "File");
	}
	p->path_len -= strlen(name) + 1;
	p->path[p->path_len] = '\0';
}

static void
on_other(struct parse *p)
{
	if (p->in) {
		refuse(p, E_CONFIG, "something that is not text within",
		       p->in->path);
	}
}

static void
on_comment(void *arg, const XML_Char *data)
{
	(void)data;
	on_other(arg);
}

static void
on_instruction(void *arg, const XML_Char *target, const XML_Char *data)
{
	(void)target;
	(void)data;
	on_other(arg);
}

static void
on_cdata(void *arg)
{
	on_other(arg);
}

static void
on_doctype(void *arg, const XML_Char *name, const XML_Char *sys,
	   const XML_Char *pub, int internal)
{
	(void)name;
	(void)sys;
	(void)pub;
	(void)internal;
	refuse(arg, E_CONFIG, "a document type is not allowed", "");
}

static void
on_declaration(void *arg, const XML_Char *version, const XML_Char *encoding,
	       int standalone)
{
	(void)version;
	(void)standalone;
	if (encoding && strcasecmp(encoding, "UTF-8") != 0 &&
	    strcasecmp(encoding, "US-ASCII") != 0) {
		refuse(arg, E_CONFIG, "another encoding than UTF-8:", encoding);
	}
}

/* Braces and case are of no account. */
static bool
same_guid(const char *a, const char *b)
{
	size_t n = strlen(a += *a == '{'), m = strlen(b += *b == '{');

	n -= n && a[n - 1] == '}';
	m -= m && b[m - 1] == '}';
	return n == m && strncasecmp(a, b, n) == 0;
}

/* Which of them is written to. */
static int
find_top(struct parse *p)
{
	const char *top = p->seen[TOP] ? p->top : TOP_GUID;
	struct ploopdd *d = p->d;
	bool found = false;

	for (size_t i = 0; i < d->n; i++) {
		d->v[i].top = d->n == 1 || same_guid(d->v[i].guid, top);
		found |= d->v[i].top;
	}
	if (d->n == 0) {
		return err_set(p->e, E_CONFIG, "%s: no image is in it",
			       p->what);
	}
	return found ? 0
		     : err_set(p->e, E_CONFIG,
			       "%s: no image is the top one, %s", p->what, top);
}

static int
run(struct parse *p, const char *text, size_t len)
{
	XML_SetUserData(p->x, p);
	XML_SetElementHandler(p->x, on_start, on_end);
	XML_SetCharacterDataHandler(p->x, on_text);
	XML_SetCommentHandler(p->x, on_comment);
	XML_SetProcessingInstructionHandler(p->x, on_instruction);
	XML_SetCdataSectionHandler(p->x, on_cdata, NULL);
	XML_SetStartDoctypeDeclHandler(p->x, on_doctype);
	XML_SetXmlDeclHandler(p->x, on_declaration);
	if (XML_Parse(p->x, text, (int)len, XML_TRUE) == XML_STATUS_OK) {
		return p->rc < 0 ? p->rc : find_top(p);
	}
	if (p->rc < 0) {
		return p->rc;
	}
	if (XML_GetErrorCode(p->x) == XML_ERROR_NO_MEMORY) {
		return err_nomem(p->e);
	}
	return err_set(p->e, E_CONFIG, "%s, line %lu: not well-formed (%s)",
		       p->what, (unsigned long)XML_GetCurrentLineNumber(p->x),
		       XML_ErrorString(XML_GetErrorCode(p->x)));
}

int
ploopdd_parse(const char *text, size_t len, const char *what, struct ploopdd *d,
	      struct err *e)
{
	struct parse p = {
		.d = d, .what = what, .e = e, .text = BUF_MAX(PATH_MAX + 1)
	};
	int rc;

	*d = (struct ploopdd){ 0 };
	if (len > PLOOPDD_MAX) {
		return err_set(e, E_CONFIG, "%s has more than %u bytes", what,
			       PLOOPDD_MAX);
	}
	/* The encoding is ours, so that places in the text are bytes of it. */
	p.x = XML_ParserCreate("UTF-8");
	if (!p.x) {
		return err_nomem(e);
	}
	rc = run(&p, text, len);
	XML_ParserFree(p.x);
	buf_finip(&p.text);
	return rc;
}

/* ---- rewriting ---- */

static int
put_escaped(struct buf *out, const char *s, struct err *e)
{
	int rc = 0;

	for (; *s && rc == 0; s++) {
		const char *as = *s == '&'   ? "&amp;"
				 : *s == '<' ? "&lt;"
				 : *s == '>' ? "&gt;"
					     : NULL;

		rc = as ? buf_append(out, as, strlen(as), e)
			: buf_append(out, s, 1, e);
	}
	return rc;
}

int
ploopdd_rewrite(const char *text, size_t len, const struct ploopdd *d,
		char *const *files, struct buf *out, struct err *e)
{
	size_t done = 0;
	int rc = 0;

	for (size_t i = 0; i < d->n && rc == 0; i++) {
		const struct ploopdd_image *v = &d->v[i];

		if (!files[i]) {
			continue;
		}
		rc = buf_append(out, text + done, v->at - done, e);
		rc = rc < 0 ? rc : put_escaped(out, files[i], e);
		done = v->at + v->len;
	}
	return rc < 0 ? rc : buf_append(out, text + done, len - done, e);
}
