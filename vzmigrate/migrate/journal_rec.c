/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * journal_rec: the journal's records as bytes and back. Input: the fields of a
 * step, or what a file has, which a crash may have cut. No state, no I/O.
 */
#include "migrate/journal_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <xxhash.h>

#define SUM_LEN 16 /* hex digits */

/* ---- encoding ---- */

static bool
is_plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || (c && strchr("._/:@+,-", c));
}

static bool
is_word(const char *s, const char *more)
{
	if (*s == '\0') {
		return false;
	}
	for (; *s; s++) {
		if (!((*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') ||
		      strchr(more, *s))) {
			return false;
		}
	}
	return true;
}

bool
journal_event_ok(const char *event)
{
	return is_word(event, "_.-");
}

static int
put_value(struct buf *b, const char *v, struct err *e)
{
	static const char hex[] = "0123456789ABCDEF";
	int rc = 0;

	for (; *v && rc == 0; v++) {
		unsigned char c = (unsigned char)*v;
		char enc[3] = { '%', hex[c >> 4], hex[c & 15] };

		rc = is_plain(c) ? buf_append(b, v, 1, e)
				 : buf_append(b, enc, 3, e);
	}
	return rc;
}

static int
put_head(struct buf *b, uint64_t seq, const char *event, struct err *e)
{
	char when[32];
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return buf_printf(b, e, "%llu %s %s", (unsigned long long)seq, when,
			  event);
}

int
journal_encode(struct buf *b, uint64_t seq, const char *event,
	       const struct journal_field *f, size_t n, struct err *e)
{
	int rc = put_head(b, seq, event, e);

	for (size_t i = 0; i < n && rc == 0; i++) {
		assert(is_word(f[i].key, "_-"));
		rc = buf_printf(b, e, " %s=", f[i].key);
		if (rc == 0) {
			rc = put_value(b, f[i].value, e);
		}
	}
	if (rc < 0) {
		return rc;
	}
	return buf_printf(b, e, " #%016llx\n",
			  (unsigned long long)XXH3_64bits(b->data, b->len));
}

/* ---- decoding ---- */

static int
hex_upper(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Decode in place. False for anything put_value would not have written. */
static bool
get_value(char *v)
{
	char *out = v;

	while (*v) {
		int hi, lo;

		if (*v != '%') {
			if (!is_plain((unsigned char)*v)) {
				return false;
			}
			*out++ = *v++;
			continue;
		}
		hi = hex_upper(v[1]);
		lo = hi < 0 ? -1 : hex_upper(v[2]);
		if (lo < 0 || (hi == 0 && lo == 0)) {
			return false;
		}
		*out++ = (char)(hi << 4 | lo);
		v += 3;
	}
	*out = '\0';
	return true;
}

static bool
get_u64(const char *s, uint64_t *v)
{
	uint64_t n = 0;

	if (*s == '\0') {
		return false;
	}
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n)) {
			return false;
		}
	}
	*v = n;
	return true;
}

static bool
get_time(const char *s, int64_t *t)
{
	struct tm tm = { 0 };
	const char *end = strptime(s, "%Y-%m-%dT%H:%M:%SZ", &tm);

	if (!end || *end) {
		return false;
	}
	*t = timegm(&tm);
	return true;
}

/* Cut the next word off `*p`; NULL at the end. */
static char *
next_word(char **p)
{
	return *p ? strsep(p, " ") : NULL;
}

/* Take apart a line whose checksum was right (cut off already). */
static bool
decode(char *line, struct journal_record *r)
{
	char *w = next_word(&line);

	r->nfields = 0;
	if (!w || !get_u64(w, &r->seq)) {
		return false;
	}
	w = next_word(&line);
	if (!w || !get_time(w, &r->time_s)) {
		return false;
	}
	r->event = next_word(&line);
	if (!r->event || !journal_event_ok(r->event)) {
		return false;
	}
	while ((w = next_word(&line))) {
		char *v = strchr(w, '=');

		if (!v || r->nfields == JOURNAL_FIELDS_MAX) {
			return false;
		}
		*v++ = '\0';
		if (!is_word(w, "_-") || !get_value(v)) {
			return false;
		}
		r->fields[r->nfields++] = (struct journal_field){ w, v };
	}
	return true;
}

const char *
journal_get(const struct journal_record *r, const char *key)
{
	for (size_t i = 0; i < r->nfields; i++) {
		if (strcmp(r->fields[i].key, key) == 0) {
			return r->fields[i].value;
		}
	}
	return NULL;
}

uint64_t
journal_get_u64(const struct journal_record *r, const char *key,
		uint64_t fallback)
{
	const char *v = journal_get(r, key);
	uint64_t n;

	return v && get_u64(v, &n) ? n : fallback;
}

/* ---- all of a file ---- */

/* Whether the line (no newline) ends in its own checksum. */
static bool
sum_ok(const char *line, size_t len)
{
	char sum[SUM_LEN + 3];
	size_t body;

	if (len < SUM_LEN + 2) {
		return false;
	}
	body = len - SUM_LEN - 2;
	snprintf(sum, sizeof(sum), " #%016llx",
		 (unsigned long long)XXH3_64bits(line, body));
	return memcmp(line + body, sum, SUM_LEN + 2) == 0;
}

static int
replay_line(char *line, size_t len, uint64_t seq, size_t number,
	    const char *what, journal_replay_fn *fn, void *arg, struct err *e)
{
	struct journal_record r;

	line[len - SUM_LEN - 2] = '\0';
	if (memchr(line, '\0', len - SUM_LEN - 2) || !decode(line, &r)) {
		return err_set(e, E_CORRUPT, "%s, line %zu: malformed record",
			       what, number);
	}
	if (r.seq != seq) {
		return err_set(e, E_CORRUPT,
			       "%s, line %zu: record %llu where %llu is due",
			       what, number, (unsigned long long)r.seq,
			       (unsigned long long)seq);
	}
	return fn ? fn(&r, arg, e) : 0;
}

/* Whether the bytes begin with a whole record and go on behind it: then not
 * the last append was cut, but an earlier newline is damaged. */
static bool
is_merged(const char *p, size_t len)
{
	const char *end = p + len, *m = p;

	while ((m = memmem(m, (size_t)(end - m), " #", 2))) {
		size_t n = (size_t)(m - p) + SUM_LEN + 2;

		if (n >= len) {
			break;
		}
		if (sum_ok(p, n)) {
			return true;
		}
		m += 2;
	}
	return false;
}

int
journal_replay(char *data, size_t len, const char *what, journal_replay_fn *fn,
	       void *arg, size_t *sound, uint64_t *last, struct err *e)
{
	size_t pos = 0;
	uint64_t seq = 0;

	*sound = 0;
	*last = 0;
	while (pos < len) {
		char *nl = memchr(data + pos, '\n', len - pos);
		size_t n = nl ? (size_t)(nl - data) - pos : len - pos;
		bool at_end = !nl || pos + n + 1 == len;
		int rc;

		if (!nl || !sum_ok(data + pos, n)) {
			if (at_end && !is_merged(data + pos, n)) {
				break; /* torn */
			}
			return err_set(e, E_CORRUPT,
				       "%s, line %llu: wrong checksum", what,
				       (unsigned long long)seq + 1);
		}
		rc = replay_line(data + pos, n, seq + 1, (size_t)seq + 1, what,
				 fn, arg, e);
		if (rc < 0) {
			return rc;
		}
		seq++;
		pos += n + 1;
		*sound = pos;
		*last = seq;
	}
	return 0;
}
