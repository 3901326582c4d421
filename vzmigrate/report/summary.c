/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * summary: one struct in, one text out. Numbers are put together from
 * integers, since a locale may turn the decimal point into a comma.
 */
#include "report/summary.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "report/summary_int.h"

#define TEXT_MAX 65536

static const char *
result_name(enum summary_result r)
{
	static const char *const names[] = {
		[SUMMARY_MOVED] = "moved",
		[SUMMARY_COPIED] = "copied",
		[SUMMARY_CHECKED] = "checked",
		[SUMMARY_FAILED] = "failed",
		[SUMMARY_GIVEN_UP] = "given up",
		[SUMMARY_TAKEN_BACK] = "taken back",
	};

	return names[r];
}

/* The value types of a key. */
enum type {
	TEXT,
	WHOLE, /* integer */
	MILLI, /* thousandths, shown with 3 digits */
	CENTI, /* hundredths, shown with 2 digits */
	TRUTH,
};

struct field {
	const char *key;
	const char *text; /* TEXT */
	enum type type;
	uint64_t num; /* the others */
};

#define FIELDS_MAX 32

struct fields {
	struct field f[FIELDS_MAX];
	size_t n;
};

static void
add_text(struct fields *f, const char *key, const char *text)
{
	if (text) {
		f->f[f->n++] = (struct field){ key, text, TEXT, 0 };
	}
}

static void
add_num(struct fields *f, const char *key, enum type type, bool there,
	uint64_t num)
{
	if (there) {
		f->f[f->n++] = (struct field){ key, NULL, type, num };
	}
}

/* Without floats; a stays below 2^64 / 100 in practice, and is cut where it
 * does not. */
uint64_t
summary_ratio(uint64_t a, uint64_t b)
{
	while (a > UINT64_MAX / 200) {
		a >>= 1;
		b >>= 1;
	}
	return b ? (a * 100 + b / 2) / b : 0;
}

uint64_t
summary_rate(const struct summary *s)
{
	uint64_t ms = (uint64_t)s->copy_ms;

	return s->bytes / ms * 1000 + s->bytes % ms * 1000 / ms;
}

static void
add_cipher(struct fields *f, const struct summary *s)
{
	add_text(f, "cipher", s->cipher);
	add_text(f, "mac", s->mac);
	add_text(f, "cipher_in", s->cipher_in);
	add_text(f, "mac_in", s->mac_in);
	add_text(f, "cipher_by", s->cipher_by);
	add_num(f, "cipher_gain", CENTI,
		s->cipher_gain > 0 && s->cipher_gain < 1e9,
		(uint64_t)(s->cipher_gain > 0 && s->cipher_gain < 1e9
				   ? s->cipher_gain * 100 + 0.5
				   : 0));
	add_text(f, "cipher_default", s->cipher_default);
}

static void
add_seconds(struct fields *f, const struct summary *s)
{
	add_num(f, "seconds", MILLI, true, s->ms > 0 ? (uint64_t)s->ms : 0);
}

/* Of what was brought over. */
static void
collect_copy(struct fields *f, const struct summary *s)
{
	add_text(f, "new_ct", s->new_ct);
	add_text(f, "place", s->place);
	add_num(f, "files", WHOLE, true, s->files);
	add_num(f, "bytes", WHOLE, true, s->bytes);
	add_num(f, "wire_bytes", WHOLE, s->wire_bytes > 0, s->wire_bytes);
	add_num(f, "ratio", CENTI, s->wire_bytes > 0,
		summary_ratio(s->bytes, s->wire_bytes));
	add_seconds(f, s);
	add_num(f, "rate", WHOLE, s->copy_ms > 0,
		s->copy_ms > 0 ? summary_rate(s) : 0);
	add_num(f, "downtime", MILLI, s->downtime_ms >= 0,
		(uint64_t)s->downtime_ms);
	add_num(f, "passes", WHOLE, s->passes >= 0, (uint64_t)s->passes);
	add_num(f, "resent", WHOLE, s->resent > 0, s->resent);
	add_num(f, "final_bytes", WHOLE, s->final_bytes > 0, s->final_bytes);
	add_num(f, "streams", WHOLE, s->streams >= 0, (uint64_t)s->streams);
	add_text(f, "compress", s->compress);
	add_cipher(f, s);
	add_text(f, "source_kept", s->source_kept);
	add_num(f, "verified", TRUTH, s->verified >= 0, s->verified > 0);
}

/* Of what would be. */
static void
collect_check(struct fields *f, const struct summary *s)
{
	const struct summary_check *c = s->check;

	add_text(f, "new_ct", s->new_ct);
	add_text(f, "place", s->place);
	add_text(f, "state", c->state);
	add_text(f, "state_there", c->state_there);
	add_num(f, "files", WHOLE, true, s->files);
	add_num(f, "bytes", WHOLE, true, s->bytes);
	add_num(f, "disk_bytes", WHOLE, true, c->disk_bytes);
	add_num(f, "free_bytes", WHOLE, c->free_bytes != UINT64_MAX,
		c->free_bytes);
	add_num(f, "free_inodes", WHOLE, c->free_inodes != UINT64_MAX,
		c->free_inodes);
	add_text(f, "filesystem", c->fs);
	add_num(f, "removes", TRUTH, true, c->removes);
	add_seconds(f, s);
	add_cipher(f, s);
}

/* The order is the one that the header promises. */
static void
collect(struct fields *f, const struct summary *s)
{
	f->n = 0;
	add_text(f, "session", s->session);
	add_text(f, "kind", s->kind);
	if (s->result == SUMMARY_GIVEN_UP || s->result == SUMMARY_TAKEN_BACK) {
		add_seconds(f, s);
	} else if (s->result == SUMMARY_CHECKED) {
		collect_check(f, s);
	} else {
		collect_copy(f, s);
	}
	add_num(f, "warnings", WHOLE, true, s->warnings);
	if (s->result == SUMMARY_FAILED) {
		add_text(f, "step", s->step);
		add_text(f, "owner", s->owner);
		add_text(f, "error", s->error);
	}
}

int
summary_put_value(struct buf *b, const char *text, struct err *e)
{
	bool plain = *text != '\0';
	int r = 0;

	for (const char *p = text; *p; p++) {
		plain &= *p > ' ' && *p < 0x7f && *p != '"' && *p != '\\';
	}
	if (plain) {
		return buf_printf(b, e, "%s", text);
	}
	r = buf_append(b, "\"", 1, e);
	for (const char *p = text; !r && *p; p++) {
		if (*p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\') {
			r = buf_append(b, p, 1, e);
		} else {
			r = buf_printf(b, e, "\\x%02x", (unsigned char)*p);
		}
	}
	return r ? r : buf_append(b, "\"", 1, e);
}

static int
put_field(struct buf *b, const struct field *f, struct err *e)
{
	int r = buf_printf(b, e, " %s=", f->key);

	if (r) {
		return r;
	}
	switch (f->type) {
	case TEXT:
		return summary_put_value(b, f->text, e);
	case MILLI:
		return buf_printf(b, e, "%" PRIu64 ".%03" PRIu64, f->num / 1000,
				  f->num % 1000);
	case CENTI:
		return buf_printf(b, e, "%" PRIu64 ".%02" PRIu64, f->num / 100,
				  f->num % 100);
	case TRUTH:
		return buf_printf(b, e, "%s", f->num ? "true" : "false");
	default:
		return buf_printf(b, e, "%" PRIu64, f->num);
	}
}

static int
put_line(struct buf *b, const struct summary *s, struct err *e)
{
	struct fields f;
	int r = buf_printf(b, e, "vzmigrate: %s CT ", result_name(s->result));

	collect(&f, s);
	r = r ? r : summary_put_value(b, s->ct, e);
	r = r ? r : buf_printf(b, e, " to ");
	r = r ? r : summary_put_value(b, s->destination, e);
	r = r ? r : buf_printf(b, e, ":");
	for (size_t i = 0; !r && i < f.n; i++) {
		r = put_field(b, &f.f[i], e);
	}
	return r ? r : buf_printf(b, e, "\n");
}

static int
put_human(struct buf *b, const struct summary *s, struct err *e)
{
	int r = put_line(b, s, e);

	return r ? r : summary_put_human(b, s, e);
}

/* Bytes that are not UTF-8 would make the string invalid; each such byte
 * becomes U+FFFD, as JSON has no bytes. */
static json_t *
json_text(const char *text)
{
	json_t *j = json_string(text);
	cleanup(free_ptr) char *fixed = NULL;
	char *o;

	if (j) {
		return j;
	}
	o = fixed = malloc(strlen(text) * 3 + 1);
	for (const char *p = text; fixed && *p; p++) {
		o = (unsigned char)*p < 0x80 ? (*o = *p, o + 1)
					     : stpcpy(o, "\xef\xbf\xbd");
	}
	if (fixed) {
		*o = '\0';
		j = json_string(fixed);
	}
	return j;
}

static json_t *
json_value(const struct field *f)
{
	switch (f->type) {
	case TEXT:
		return json_text(f->text);
	case MILLI:
		return json_real((double)f->num / 1000);
	case CENTI:
		return json_real((double)f->num / 100);
	case TRUTH:
		return json_boolean(f->num);
	default:
		return json_integer((json_int_t)f->num);
	}
}

static json_t *
json_stages(const struct summary *s)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < s->nstages; i++) {
		const struct summary_stage *g = &s->stages[i];
		json_t *o = json_object();

		if (!o || json_object_set_new(o, "name", json_text(g->name)) ||
		    json_object_set_new(o, "seconds",
					json_real((double)g->ms / 1000)) ||
		    json_object_set_new(o, "files",
					json_integer((json_int_t)g->files)) ||
		    json_object_set_new(o, "bytes",
					json_integer((json_int_t)g->bytes)) ||
		    json_array_append_new(a, json_incref(o))) {
			json_decref(a);
			a = NULL;
		}
		json_decref(o);
	}
	return a;
}

static json_t *
json_remains(const struct summary *s)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < s->nremains; i++) {
		if (json_array_append_new(a, json_text(s->remains[i]))) {
			json_decref(a);
			return NULL;
		}
	}
	return a;
}

static void
drop_json(json_t **j)
{
	json_decref(*j);
}

static char *
put_json(const struct summary *s, struct err *e)
{
	cleanup(drop_json) json_t *o = json_object();
	struct fields f;
	char *text = NULL;
	int bad = !o;

	collect(&f, s);
	bad = bad || json_object_set_new(o, "event", json_string("summary")) ||
	      json_object_set_new(o, "result",
				  json_string(result_name(s->result))) ||
	      json_object_set_new(o, "ct", json_text(s->ct)) ||
	      json_object_set_new(o, "destination", json_text(s->destination));
	for (size_t i = 0; !bad && i < f.n; i++) {
		bad = json_object_set_new(o, f.f[i].key, json_value(&f.f[i]));
	}
	if (!bad && s->nremains) {
		bad = json_object_set_new(o, "remains", json_remains(s));
	}
	if (!bad && s->ssh_config) {
		bad = json_object_set_new(o, "ssh_config",
					  json_text(s->ssh_config));
	}
	if (!bad && s->stages) {
		bad = json_object_set_new(o, "stages", json_stages(s));
	}
	text = bad ? NULL
		   : json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
	if (!text) {
		err_nomem(e);
	}
	return text;
}

char *
summary_text(const struct summary *s, enum summary_format format, struct err *e)
{
	cleanup(buf_finip) struct buf b;
	char *text;

	buf_init(&b, TEXT_MAX);
	if (format == SUMMARY_JSON) {
		cleanup(free_ptr) char *json = put_json(s, e);

		return json ? io_asprintf(e, "%s\n", json) : NULL;
	}
	if (format == SUMMARY_LINE ? put_line(&b, s, e) : put_human(&b, s, e)) {
		return NULL;
	}
	text = buf_cstr(&b, e);
	text = text ? strdup(text) : NULL;
	if (!text) {
		err_nomem(e);
	}
	return text;
}

int
summary_print(const struct summary *s, enum summary_format format, int fd,
	      struct err *e)
{
	cleanup(free_ptr) char *text = summary_text(s, format, e);

	return text ? io_write_full(fd, text, strlen(text), "summary", e)
		    : E_NOMEM;
}
