/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * status: prints what srcstatus finds. The line is for grep and programs, as
 * the summary's is: "vzmigrate: status CT c1 to root@b: key=value ...".
 */
#include "config.h"

#include "cli/status.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "migrate/srcstatus.h"
#include "report/summary.h"

#define VALUE_MAX 32768 /* of a path, each byte as four */

struct telling {
	bool json;
	unsigned n; /* told */
};

static void
tell_value(const char *key, const char *text)
{
	cleanup(buf_finip) struct buf b;

	buf_init(&b, VALUE_MAX);
	if (text && summary_put_value(&b, text, NULL) == 0) {
		printf(" %s=%s", key, buf_cstr(&b, NULL));
	}
}

static void
tell_line(const struct srcstatus *st)
{
	const struct srcsession_facts *f = srcsession_facts(st->session);
	enum steps_state s = srcsession_state(st->session);
	const struct srcstatus_note *n = &st->note;
	char ct[512], dest[512];

	escape_bytes(ct, sizeof(ct), f->id, strlen(f->id));
	escape_bytes(dest, sizeof(dest), f->dest ? f->dest : "?",
		     f->dest ? strlen(f->dest) : 1);
	printf("vzmigrate: status CT %s to %s: session=%s kind=%s state=%s "
	       "owner=%s process=%s",
	       ct, dest, srcsession_hex(st->session), f->kind,
	       steps_state_name(s), steps_owner_name(steps_owner(s)),
	       st->alive ? "running" : "none");
	tell_value("new_ct", f->dst_id);
	tell_value("place", f->dst_tree);
	if (st->alive) {
		printf(" pid=%ld step=\"%s\"", n->pid, steps_name(n->step));
	}
	if (st->alive && n->pass) {
		printf(" pass=%u files=%" PRIu64 " bytes=%" PRIu64
		       " total_files=%" PRIu64 " total_bytes=%" PRIu64,
		       n->pass, n->files, n->bytes, n->total_files,
		       n->total_bytes);
	}
	putchar('\n');
}

static int
put(json_t *o, const char *key, json_t *value, struct err *e)
{
	return json_object_set_new(o, key, value) == 0 ? 0 : err_nomem(e);
}

/* Text that may be any bytes: escaped, so that it is UTF-8. */
static json_t *
text_of(const char *s)
{
	char out[1024];

	return json_string(
		escape_bytes(out, sizeof(out), s ? s : "?", s ? strlen(s) : 1));
}

static int
fill(json_t *o, const struct srcstatus *st, struct err *e)
{
	const struct srcsession_facts *f = srcsession_facts(st->session);
	enum steps_state s = srcsession_state(st->session);
	const struct srcstatus_note *n = &st->note;
	int rc = put(o, "event", json_string("status"), e);

	rc = rc < 0 ? rc : put(o, "ct", text_of(f->id), e);
	rc = rc < 0 ? rc : put(o, "destination", text_of(f->dest), e);
	rc = rc < 0 ? rc
		    : put(o, "session",
			  json_string(srcsession_hex(st->session)), e);
	rc = rc < 0 ? rc : put(o, "kind", text_of(f->kind), e);
	rc = rc < 0 ? rc : put(o, "state", json_string(steps_state_name(s)), e);
	rc = rc < 0 ? rc
		    : put(o, "owner",
			  json_string(steps_owner_name(steps_owner(s))), e);
	if (rc == 0 && f->dst_id) {
		rc = put(o, "new_ct", text_of(f->dst_id), e);
	}
	if (rc == 0 && f->dst_tree) {
		rc = put(o, "place", text_of(f->dst_tree), e);
	}
	rc = rc < 0 ? rc : put(o, "running", json_boolean(st->alive), e);
	if (rc < 0 || !st->alive) {
		return rc;
	}
	rc = put(o, "pid", json_integer(n->pid), e);
	rc = rc < 0 ? rc : put(o, "step", json_string(steps_name(n->step)), e);
	rc = rc < 0 ? rc
		    : put(o, "updated", json_integer((json_int_t)n->time_s), e);
	if (rc < 0 || !n->pass) {
		return rc;
	}
	rc = put(o, "pass", json_integer(n->pass), e);
	rc = rc < 0 ? rc
		    : put(o, "files", json_integer((json_int_t)n->files), e);
	rc = rc < 0 ? rc
		    : put(o, "bytes", json_integer((json_int_t)n->bytes), e);
	rc = rc < 0 ? rc
		    : put(o, "total_files",
			  json_integer((json_int_t)n->total_files), e);
	return rc < 0 ? rc
		      : put(o, "total_bytes",
			    json_integer((json_int_t)n->total_bytes), e);
}

static int
tell_json(const struct srcstatus *st, struct err *e)
{
	json_t *o = json_object();
	int rc = o ? fill(o, st, e) : err_nomem(e);
	char *text = rc == 0 ? json_dumps(o, JSON_COMPACT) : NULL;

	if (rc == 0 && !text) {
		rc = err_nomem(e);
	}
	if (text) {
		puts(text);
	}
	free(text);
	json_decref(o);
	return rc;
}

static int
tell(const struct srcstatus *st, void *arg, struct err *e)
{
	struct telling *t = arg;

	t->n++;
	if (t->json) {
		return tell_json(st, e);
	}
	tell_line(st);
	return 0;
}

enum exitcode
status_run(const struct options *o, struct err *e)
{
	struct telling t = { .json = o->json };
	int rc = 0;

	if (o->ncts == 0) {
		rc = srcstatus_each(NULL, tell, &t, e);
		if (rc == 0 && t.n == 0 && !o->json) {
			puts("vzmigrate: no migration is unfinished here");
		}
	}
	for (size_t i = 0; i < o->ncts && rc == 0; i++) {
		t.n = 0;
		rc = srcstatus_each(o->cts[i].word, tell, &t, e);
		if (rc == 0 && t.n == 0) {
			rc = err_set(e, E_NOT_FOUND,
				     "%s is in no unfinished migration here",
				     o->cts[i].word);
		}
	}
	if (fflush(stdout) != 0 && rc == 0) {
		rc = err_set(e, E_SYSTEM, "cannot write to standard output");
	}
	return exitcode_of(rc, STEP_NONE, false);
}
