/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options_rsync: what --rsync="..." asked the classic's rsync for. What has a
 * counterpart is taken as that, what is so anyway is named in a line, and all
 * that would make another copy than the whole and exact one is refused by
 * name. Input: the strings; output: struct options, the caller's.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/options_int.h"
#include "cli/rsynctab.h"
#include "xfer/compress.h"
#include "xfer/zframe.h"

#define LIST_MAX 440 /* four of them fit into an error */
#define WORD_MAX 200
#define RATE_MIN 1024
#define SECONDS_MAX 43200

/* Of what is refused, in the order of the fates from RSYNC_PART on. */
static const char *const reasons[] = {
	"the whole container is moved",
	"the copy is exact",
	"rsync is not used",
	"not known",
};

#define REASONS (sizeof(reasons) / sizeof(reasons[0]))

/* What became of the words, for the line or the error. */
struct told {
	char taken[LIST_MAX], anyway[LIST_MAX];
	char refused[REASONS][LIST_MAX];
};

/* What a list has no room for is not named, but told to be missing. */
static void
add(char list[LIST_MAX], const char *text)
{
	size_t n = strlen(list), len = strnlen(text, WORD_MAX);

	if (n + len + 8 < LIST_MAX) {
		sprintf(list + n, "%s%.*s", n ? ", " : "", (int)len, text);
	} else if (n < 4 || strcmp(list + n - 3, "...") != 0) {
		sprintf(list + n, ", ...");
	}
}

/* As what it is taken, for the line. */
static void
taken(struct told *t, const char *word, const char *as)
{
	char text[256];

	snprintf(text, sizeof(text), "%.100s as %.100s", word, as);
	add(t->taken, text);
}

/* An option of ours says it, and wins. */
static void
left_to(struct told *t, const char *word, const char *ours)
{
	char text[256];

	snprintf(text, sizeof(text), "%.100s left to %s", word, ours);
	add(t->taken, text);
}

static int
bad(const char *word, const char *why, struct err *e)
{
	return err_set(e, E_USAGE, "--rsync: %s: %s", word, why);
}

/* ---- values ---- */

/* The unit behind the number of --bwlimit, in bytes; 0: none that there is.
 * K, M, G, T (and KiB ...) are powers of 1024, KB and so on of 1000, b is
 * bytes; without one it is K. */
static uint64_t
rate_unit(const char *p)
{
	static const char letters[] = "bkmgt";
	const char *at = strchr(letters, *p ? *p | 0x20 : 'k');
	bool ten = *p && strcasecmp(p + 1, "b") == 0;
	uint64_t unit = 1;

	if (!at || (*p && p[1] && !ten && strcasecmp(p + 1, "ib") != 0) ||
	    (at == letters && p[1])) {
		return 0;
	}
	for (; at > letters; at--) {
		unit *= ten ? 1000 : 1024;
	}
	return unit;
}

static bool
parse_rate(const char *v, uint64_t *out)
{
	uint64_t milli = 0, scale = 1000, unit;
	const char *p = v;

	for (; *p >= '0' && *p <= '9' && p - v < 9; p++) {
		milli = milli * 10 + (uint64_t)(*p - '0') * 1000;
	}
	if (p == v) {
		return false;
	}
	if (*p == '.') {
		for (p++; *p >= '0' && *p <= '9'; p++) {
			scale /= 10;
			milli += (uint64_t)(*p - '0') * scale;
		}
	}
	unit = rate_unit(p);
	if (!unit || __builtin_mul_overflow(milli, unit, out)) {
		return false;
	}
	*out /= 1000;
	return *out >= RATE_MIN || milli == 0; /* 0 is no limit */
}

static int
set_limit(struct options_parse *x, const char *word, const char *v,
	  struct told *t, struct err *e)
{
	uint64_t limit = 0;
	char as[64];

	if (!parse_rate(v, &limit)) {
		return bad(word, "is no rate of 1 KiB per second or more", e);
	}
	if (x->own_limit) {
		left_to(t, word, "--limit-speed");
	} else {
		x->o->plan.limit_speed = limit;
		snprintf(as, sizeof(as), "--limit-speed=%llu",
			 (unsigned long long)limit);
		taken(t, word, as);
	}
	return 0;
}

static int
set_timeout(struct options_parse *x, const char *word, const char *v,
	    struct told *t, struct err *e)
{
	char as[64];
	int n = 0, s = 0;

	if (sscanf(v, "%6d%n", &s, &n) != 1 || v[n] || s < 0 ||
	    s > SECONDS_MAX) {
		return bad(word, "is no time of 0 to 43200 seconds", e);
	}
	if (x->own_timeout) {
		left_to(t, word, "--timeout");
	} else if (s > 0) {
		x->o->timeout_ms = (int64_t)s * 1000;
		snprintf(as, sizeof(as), "--timeout=%d", s);
		taken(t, word, as);
	}
	return 0;
}

/* Levels of zlib and zstd alike; ours begin at 1 and end at 19. */
static int
set_level(struct options_parse *x, const char *word, const char *v,
	  struct told *t, struct err *e)
{
	char as[64];
	int n = 0, level = 0;

	if (sscanf(v, "%7d%n", &level, &n) != 1 || v[n]) {
		return bad(word, "is no level", e);
	}
	if (x->own_compress) {
		left_to(t, word, "--compress");
		return 0;
	}
	level = level < 0 ? 1 : level;
	level = level > ZFRAME_LEVEL_MAX ? ZFRAME_LEVEL_MAX : level;
	x->o->plan.compress = level ? level : COMPRESS_OFF;
	snprintf(as, sizeof(as), level ? "--compress=%d" : "--nocompress",
		 level);
	taken(t, word, as);
	return 0;
}

static void
set_compress(struct options_parse *x, const char *word, int level,
	     struct told *t)
{
	if (x->own_compress) {
		left_to(t, word, "--compress");
		return;
	}
	if (level > 0 && x->o->plan.compress > 0) {
		level = x->o->plan.compress; /* -z behind --compress-level */
	}
	x->o->plan.compress = level;
	taken(t, word, level > 0 ? "--compress" : "--nocompress");
}

/* -e: the options behind "ssh" are what --ssh takes. */
static int
set_shell(struct options_parse *x, const char *word, const char *v,
	  struct told *t, struct err *e)
{
	size_t n = strcspn(v, " \t");
	bool ssh = n >= 3 && strncmp(v + n - 3, "ssh", 3) == 0 &&
		   (n == 3 || v[n - 4] == '/');
	int rc;

	if (!ssh) {
		return bad(word, "the transport is SSH alone", e);
	}
	rc = sshopts_parse(&x->o->ssh, v + n, e);
	if (rc < 0) {
		return err_wrap(e, "--rsync: %s", word);
	}
	taken(t, word, "--ssh");
	return 0;
}

/* ---- words ---- */

/* `word` is what is shown: the option, with its value. */
static int
apply(struct options_parse *x, const struct rsynctab_rule *r, const char *word,
      const char *v, struct told *t, struct err *e)
{
	switch (r->fate) {
	case RSYNC_ANYWAY:
		add(t->anyway, word);
		return 0;
	case RSYNC_COMPRESS:
		set_compress(x, word, COMPRESS_DEFAULT, t);
		return 0;
	case RSYNC_PLAIN:
		set_compress(x, word, COMPRESS_OFF, t);
		return 0;
	case RSYNC_CHOICE:
		if (strcmp(v, "none") == 0) {
			set_compress(x, word, COMPRESS_OFF, t);
		} else {
			taken(t, word, "zstd");
		}
		return 0;
	case RSYNC_LEVEL:
		return set_level(x, word, v, t, e);
	case RSYNC_LIMIT:
		return set_limit(x, word, v, t, e);
	case RSYNC_TIMEOUT:
		return set_timeout(x, word, v, t, e);
	case RSYNC_FAMILY:
		taken(t, word, r->shrt == '4' ? "--ssh=-4" : "--ssh=-6");
		return sshopts_parse(&x->o->ssh, r->shrt == '4' ? "-4" : "-6",
				     e);
	case RSYNC_SHELL:
		return set_shell(x, word, v, t, e);
	case RSYNC_CHECK:
		x->o->plan.check_only = true;
		taken(t, word, "--check-only");
		return 0;
	default:
		add(t->refused[r->fate - RSYNC_PART], word);
		return 0;
	}
}

static int
missing(const char *word, struct err *e)
{
	return bad(word, "a value is missing", e);
}

/* Whether it turns off what is kept, or how it is kept: --no-acls, --no-o. */
static bool
turns_off(const char *word)
{
	const struct rsynctab_rule *r;

	if (strncmp(word, "--no-", 5) != 0 || !word[5]) {
		return false;
	}
	word += 5;
	r = word[1] ? rsynctab_long(word, strlen(word)) : rsynctab_short(*word);
	return r && r->fate == RSYNC_ANYWAY;
}

/* "--name", "--name=VALUE", "--name VALUE". */
static int
long_word(struct options_parse *x, const struct sshlist *w, size_t *i,
	  struct told *t, struct err *e)
{
	const char *word = w->v[*i], *v = strchr(word, '=');
	const struct rsynctab_rule *r =
		rsynctab_long(word + 2, strcspn(word, "=") - 2);
	char shown[160];

	if (!r) {
		int fate = turns_off(word) ? RSYNC_OTHER : RSYNC_UNKNOWN;

		add(t->refused[fate - RSYNC_PART], word);
		return 0;
	}
	if (!r->arg) {
		return v ? bad(word, "takes no value", e)
			 : apply(x, r, word, NULL, t, e);
	}
	if (v) {
		return apply(x, r, word, v + 1, t, e);
	}
	if (++*i >= w->n) {
		return missing(word, e);
	}
	snprintf(shown, sizeof(shown), "%.60s=%.90s", word, w->v[*i]);
	return apply(x, r, shown, w->v[*i], t, e);
}

/* "-avz", "-e ssh", "-essh". */
static int
short_word(struct options_parse *x, const struct sshlist *w, size_t *i,
	   struct told *t, struct err *e)
{
	int rc = 0;

	for (const char *p = w->v[*i] + 1; *p && rc == 0; p++) {
		const struct rsynctab_rule *r = rsynctab_short(*p);
		char shown[160];
		const char *v = p[1] ? p + 1 : NULL;

		snprintf(shown, sizeof(shown), "-%c", *p);
		if (!r) {
			add(t->refused[RSYNC_UNKNOWN - RSYNC_PART], shown);
			continue;
		}
		if (!r->arg) {
			rc = apply(x, r, shown, NULL, t, e);
			continue;
		}
		v = v ? v : ++*i < w->n ? w->v[*i] : NULL;
		if (!v) {
			return missing(shown, e);
		}
		snprintf(shown, sizeof(shown), "-%c %.90s", *p, v);
		return apply(x, r, shown, v, t, e);
	}
	return rc;
}

static int
apply_words(struct options_parse *x, const struct sshlist *w, struct told *t,
	    struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < w->n && rc == 0; i++) {
		const char *word = w->v[i];

		if (word[0] != '-' || !word[1]) {
			add(t->refused[RSYNC_UNKNOWN - RSYNC_PART], word);
		} else if (word[1] == '-') {
			rc = long_word(x, w, &i, t, e);
		} else {
			rc = short_word(x, w, &i, t, e);
		}
	}
	return rc;
}

/* All that cannot be honoured in one error, each with its reason. */
static int
refuse(const struct told *t, struct err *e)
{
	char all[REASONS * (LIST_MAX + 48)] = "";
	size_t n = 0;

	for (size_t k = 0; k < REASONS; k++) {
		if (*t->refused[k]) {
			n += (size_t)snprintf(all + n, sizeof(all) - n,
					      "%s%s (%s)", n ? "; " : "",
					      t->refused[k], reasons[k]);
		}
	}
	return n ? err_set(e, E_USAGE, "--rsync: cannot be honoured: %s", all)
		 : 0;
}

static int
tell(struct options *o, const struct told *t, struct err *e)
{
	int rc = 0;

	if (*t->taken) {
		rc = options_note(o, e, "--rsync: taken: %s", t->taken);
	}
	if (rc == 0 && *t->anyway) {
		rc = options_note(o, e,
				  "--rsync: so anyway, or without rsync "
				  "nothing: %s",
				  t->anyway);
	}
	return rc;
}

int
options_rsync(struct options_parse *x, struct err *e)
{
	struct sshlist words = { NULL, 0 };
	struct told t = { 0 };
	int rc = 0;

	for (size_t i = 0; i < x->rsync.n && rc == 0; i++) {
		rc = sshopts_split(x->rsync.v[i], &words, e);
		rc = rc < 0 ? err_wrap(e, "--rsync") : 0;
	}
	rc = rc < 0 ? rc : apply_words(x, &words, &t, e);
	rc = rc < 0 ? rc : refuse(&t, e);
	rc = rc < 0 ? rc : tell(x->o, &t, e);
	sshlist_fini(&words);
	return rc;
}
