/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * human: integer arithmetic only, so that no locale and no rounding of floats
 * comes in. No state.
 */
#include "report/human.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* value / unit with the digits that its size deserves. */
static void
scaled(char out[HUMAN_MAX], uint64_t bytes, const char *suffix)
{
	static const char *const units[] = { "B",  "kB", "MB", "GB",
					     "TB", "PB", "EB" };
	size_t u = 0, last = sizeof(units) / sizeof(units[0]) - 1;
	uint64_t unit = 1, whole = bytes, tenths = 0;

	while (whole >= 1000 && u < last) {
		uint64_t rest;

		u++;
		unit *= 1000;
		/* unit <= 10^18: ten times the rest fits 64 bits */
		rest = bytes % unit;
		whole = bytes / unit + (rest >= unit / 2);
		tenths = bytes / unit * 10 + (rest * 10 + unit / 2) / unit;
	}
	if (u > 0 && tenths < 1000) {
		snprintf(out, HUMAN_MAX, "%u.%u %s%s", (unsigned)tenths / 10,
			 (unsigned)tenths % 10, units[u], suffix);
	} else {
		snprintf(out, HUMAN_MAX, "%" PRIu64 " %s%s", whole, units[u],
			 suffix);
	}
}

char *
human_bytes(char out[HUMAN_MAX], uint64_t bytes)
{
	scaled(out, bytes, "");
	return out;
}

char *
human_rate(char out[HUMAN_MAX], uint64_t bytes_per_s)
{
	scaled(out, bytes_per_s, "/s");
	return out;
}

char *
human_duration(char out[HUMAN_MAX], int64_t ms)
{
	int64_t s = ms / 1000;

	if (ms < 0) {
		snprintf(out, HUMAN_MAX, "?");
	} else if (ms < 9995) {
		s = (ms + 5) / 10;
		snprintf(out, HUMAN_MAX, "%" PRId64 ".%02" PRId64 " s", s / 100,
			 s % 100);
	} else if (ms < 59950) {
		s = (ms + 50) / 100;
		snprintf(out, HUMAN_MAX, "%" PRId64 ".%" PRId64 " s", s / 10,
			 s % 10);
	} else if ((s = (ms / 500 + 1) / 2) < 3600) {
		snprintf(out, HUMAN_MAX, "%" PRId64 "m%02" PRId64 "s", s / 60,
			 s % 60);
	} else if (s < 86400) {
		snprintf(out, HUMAN_MAX, "%" PRId64 "h%02" PRId64 "m", s / 3600,
			 s / 60 % 60);
	} else {
		snprintf(out, HUMAN_MAX, "%" PRId64 "d%02" PRId64 "h",
			 s / 86400, s / 3600 % 24);
	}
	return out;
}

char *
human_clock(char out[HUMAN_MAX], int64_t s)
{
	if (s < 0 || s >= 100 * 3600) {
		snprintf(out, HUMAN_MAX, "?");
	} else if (s < 3600) {
		snprintf(out, HUMAN_MAX, "%" PRId64 ":%02" PRId64, s / 60,
			 s % 60);
	} else {
		snprintf(out, HUMAN_MAX, "%" PRId64 ":%02" PRId64 ":%02" PRId64,
			 s / 3600, s / 60 % 60, s % 60);
	}
	return out;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "", "B", "K", "KB", "KiB" and so on up to T; 0 for anything else. */
static uint64_t
unit_of(const char *s, size_t len)
{
	static const char letters[] = "kmgt";
	uint64_t unit = 1;
	const char *l;
	uint64_t base = 1024;

	if (len == 0 || (len == 1 && tolower((unsigned char)*s) == 'b')) {
		return 1;
	}
	l = strchr(letters, tolower((unsigned char)*s));
	if (!*s || !l || !*l) {
		return 0;
	}
	if (len == 2 && tolower((unsigned char)s[1]) == 'b') {
		base = 1000;
	} else if (len != 1 && !(len == 3 && !strncasecmp(s + 1, "ib", 2))) {
		return 0;
	}
	for (const char *p = letters; p <= l; p++) {
		unit *= base;
	}
	return unit;
}

/* What comes after the point, of a unit: unit * 0.ddd, cut to whole bytes. */
static bool
fraction(const char **p, uint64_t unit, uint64_t *out)
{
	uint64_t num = 0, den = 1;

	*out = 0;
	if (**p != '.') {
		return true;
	}
	for ((*p)++; is_digit(**p); (*p)++) {
		/* 6 digits of 10^12 at most stay far from 64 bits */
		if (den < 1000000) {
			num = num * 10 + (uint64_t)(**p - '0');
			den *= 10;
		}
	}
	*out = num * unit / den;
	return den > 1;
}

int
human_parse_size(const char *text, const char *what, uint64_t *bytes,
		 struct err *e)
{
	const char *p = text, *end = text + strlen(text), *u;
	uint64_t whole = 0, unit, part, total;
	bool over = false, ok;

	while (is_blank(*p)) {
		p++;
	}
	while (end > p && is_blank(end[-1])) {
		end--;
	}
	ok = is_digit(*p);
	for (; is_digit(*p); p++) {
		over |= __builtin_mul_overflow(whole, 10, &whole);
		over |= __builtin_add_overflow(whole, (uint64_t)(*p - '0'),
					       &whole);
	}
	u = p;
	while (u < end && (*u == '.' || is_digit(*u))) {
		u++;
	}
	while (u < end && is_blank(*u)) {
		u++;
	}
	unit = unit_of(u, (size_t)(end - u));
	ok = ok && unit && fraction(&p, unit, &part);
	while (ok && is_blank(*p) && p < u) {
		p++;
	}
	if (!ok || p != u) {
		return err_set(e, E_USAGE,
			       "%s: \"%s\" is not a size (such as 64K, 1.5M, "
			       "2GiB)",
			       what, text);
	}
	over |= __builtin_mul_overflow(whole, unit, &total);
	over |= __builtin_add_overflow(total, part, &total);
	if (over) {
		return err_set(e, E_USAGE, "%s: \"%s\" is too large", what,
			       text);
	}
	*bytes = total;
	return 0;
}
