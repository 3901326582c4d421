/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ct: the table of kinds, detection, and what all kinds share.
 */
#include "ct/ct.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "ct/kinds.h"

const struct ct_kind *const ct_kinds[] = {
	&openvz_kind,
	&lxc_kind,
	&dir_kind,
	NULL,
};

const char *
ct_state_name(enum ct_state s)
{
	switch (s) {
	case CT_STOPPED:
		return "stopped";
	case CT_RUNNING:
		return "running";
	case CT_FROZEN:
		return "frozen";
	case CT_MOUNTED:
		return "mounted";
	case CT_SUSPENDED:
		return "suspended";
	}
	return "unknown";
}

enum ct_state
ct_state_of(const char *name)
{
	for (int s = CT_STOPPED; name && s <= CT_SUSPENDED; s++) {
		if (strcmp(ct_state_name((enum ct_state)s), name) == 0) {
			return (enum ct_state)s;
		}
	}
	return CT_STOPPED;
}

bool
ct_state_is_up(enum ct_state s)
{
	return s == CT_RUNNING || s == CT_FROZEN || s == CT_MOUNTED;
}

const char *
ct_mark_name(enum ct_mark m)
{
	switch (m) {
	case CT_FREE:
		return "free";
	case CT_BLOCKED:
		return "blocked";
	case CT_RETIRED:
		return "retired";
	}
	return "unknown";
}

void
ct_free(struct ct *c)
{
	if (!c) {
		return;
	}
	free(c->id);
	free(c->name);
	free(c->tree);
	free(c->mount_root);
	free(c->tag);
	for (size_t i = 0; i < c->nfiles; i++) {
		free(c->files[i].role);
		free(c->files[i].data);
	}
	free(c->files);
	for (size_t i = 0; i < c->nnotes; i++) {
		free(c->notes[i]);
	}
	free(c->notes);
	memset(c, 0, sizeof(*c));
}

void
ct_place_fini(struct ct_place *p)
{
	free(p->id);
	free(p->name);
	free(p->tree);
	free(p->stage_dir);
	free(p->mount_root);
	memset(p, 0, sizeof(*p));
}

void
ct_finding_add(struct ct_findings *f, int code, bool warning, const char *fmt,
	       ...)
{
	char *text = NULL;
	va_list ap;

	if (f->n >= CT_FINDINGS_MAX) {
		return;
	}
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
	}
	va_end(ap);
	if (text) {
		f->v[f->n++] = (struct ct_finding){ code, warning, text };
	}
}

bool
ct_nodeps(const struct ct_want *w, const char *check)
{
	return w->nodeps && (ct_in_list(w->nodeps, check) ||
			     ct_in_list(w->nodeps, "all"));
}

bool
ct_in_list(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, word, n) == 0 && (p[n] == ',' || !p[n])) {
			return true;
		}
	}
	return false;
}

void
ct_findings_fini(struct ct_findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].text);
	}
	f->n = 0;
}

const struct ct_kind *
ct_kind_find(const char *name)
{
	for (size_t i = 0; ct_kinds[i]; i++) {
		if (strcmp(ct_kinds[i]->name, name) == 0) {
			return ct_kinds[i];
		}
	}
	return NULL;
}

static int
not_found(const struct ct_host *h, const char *word, struct err *e)
{
	cleanup(free_ptr) char *lxc = lxc_base(h);
	cleanup(free_ptr) char *vz = openvz_base(h);

	return err_set(e, E_NOT_FOUND,
		       "there is no container %s: looked in %s (lxc) and by "
		       "%s (openvz%s)",
		       word, lxc ? lxc : "no directory",
		       h->vz_conf ? h->vz_conf : "/etc/vz/vz.conf",
		       vz ? "" : ", which is not installed");
}

static int
ambiguous(const char *word, const int *got, int want, struct err *e)
{
	cleanup(buf_finip) struct buf b;

	buf_init(&b, 1024);
	for (size_t i = 0; ct_kinds[i]; i++) {
		if (got[i] == want &&
		    buf_printf(&b, e, "%s--kind=%s", b.len ? " or " : "",
			       ct_kinds[i]->name) < 0) {
			return E_NOMEM;
		}
	}
	return err_set(e, E_USAGE,
		       "%s is more than one container here; say which with "
		       "%s",
		       word, buf_cstr(&b, NULL));
}

int
ct_detect(const struct ct_host *h, const char *word,
	  const struct ct_kind **kind, struct err *e)
{
	int got[8] = { 0 }, n[3] = { 0 }, want;

	if (!*word) {
		return err_set(e, E_USAGE, "the container's name is empty");
	}
	for (size_t i = 0; ct_kinds[i]; i++) {
		got[i] = ct_kinds[i]->probe(h, word, e);
		if (got[i] < 0) {
			return err_wrap(e, "%s", ct_kinds[i]->name);
		}
		n[got[i]]++;
	}
	/* One that lives elsewhere by now does not stand in the way. */
	want = n[1] ? 1 : 2;
	if (n[want] == 0) {
		return not_found(h, word, e);
	}
	if (n[want] > 1) {
		return ambiguous(word, got, want, e);
	}
	for (size_t i = 0; ct_kinds[i]; i++) {
		if (got[i] == want) {
			*kind = ct_kinds[i];
		}
	}
	return 0;
}
