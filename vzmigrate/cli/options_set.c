/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options_set: acts on the options whose value has to be read. Input: the row
 * of the table and the value; output: struct options_parse, the caller's.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cipher/probe.h"
#include "cli/options_int.h"
#include "migrate/srccontrol.h"
#include "xfer/compress.h"
#include "xfer/feed.h"
#include "xfer/zframe.h"

#define PROBE_MIN_MS 100
#define PROBE_MAX_MS 600000
#define STOP_MAX_S 3600
#define TIMEOUT_MAX_S 43200 /* LINK_DEAD_FACTOR intervals that agents take */
#define ROUNDS_MAX 100
#define DOWNTIME_MIN_MS 0
#define DOWNTIME_MAX_MS 3600000

static int
bad_value(const struct options_row *r, const char *value, const char *why,
	  struct err *e)
{
	char name[64];

	return err_set(e, E_USAGE, "%s: '%s' %s", options_table_shown(r, name),
		       value, why);
}

int
options_set_remove(struct options_parse *x, const struct options_row *r,
		   const char *v, struct err *e)
{
	if (strcmp(v, "yes") == 0) {
		x->o->plan.remove = PLAN_REMOVE_YES;
	} else if (strcmp(v, "no") == 0) {
		x->o->plan.remove = PLAN_REMOVE_NO;
	} else {
		return bad_value(r, v, "is neither yes nor no", e);
	}
	return 0;
}

int
options_set_kind(struct options_parse *x, const struct options_row *r,
		 const char *v, struct err *e)
{
	x->o->plan.kind = ct_kind_find(v);
	return x->o->plan.kind
		       ? 0
		       : bad_value(r, v, "is not a kind: openvz, lxc, dir", e);
}

int
options_set_metadata(struct options_parse *x, const struct options_row *r,
		     const char *v, struct err *e)
{
	if (strcmp(v, "strict") == 0) {
		x->o->plan.metadata = META_STRICT;
	} else if (strcmp(v, "warn") == 0) {
		x->o->plan.metadata = META_WARN;
	} else {
		return bad_value(r, v, "is neither strict nor warn", e);
	}
	return 0;
}

/* The checks that can be left out. Some names are those of OpenVZ's tools, and
 * of these some stand for a check that is not made here. */
static const struct check {
	const char *name;
	bool none; /* there is no such check */
} checks[] = {
	{ "all", false },
	{ "arch", false },
	{ "bindmount", false },
	{ "cpu", false },
	{ "cpu_check", false },
	{ "disk_space", false },
	{ "ip", false },
	{ "ipv6", true },
	{ "kernel_modules", true },
	{ "license", true },
	{ "mac", false },
	{ "net", false },
	{ "quota", false },
	{ "rate", true },
	{ "runtime", false },
	{ "technologies", true },
	{ "template_area_sync", true },
};

static const struct check *
find_check(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (strlen(checks[i].name) == len &&
		    strncmp(checks[i].name, name, len) == 0) {
			return &checks[i];
		}
	}
	return NULL;
}

static int
set_checks(struct options_parse *x, const struct options_row *r, const char *v,
	   struct err *e)
{
	char name[64], none[256];
	size_t n = 0;

	for (const char *p = v; *p;) {
		size_t len = strcspn(p, ",");
		const struct check *c = find_check(p, len);

		if (!c) {
			return bad_value(r, p,
					 "is not a check that can be left out "
					 "(all, arch, bindmount, disk_space, "
					 "ip, mac, net, quota, runtime)",
					 e);
		}
		if (c->none && n + strlen(c->name) + 3 < sizeof(none)) {
			n += (size_t)sprintf(none + n, "%s%s", n ? ", " : "",
					     c->name);
		}
		p += len + (p[len] == ',');
	}
	x->o->plan.nodeps = v;
	return n ? options_note(x->o, e, "%s: such a check is not made: %s",
				options_table_shown(r, name), none)
		 : 0;
}

/* Whether `v` is short names only, of options that need no value. */
static bool
is_letters(const char *v)
{
	for (; *v; v++) {
		const struct options_row *r = options_table_short(*v);

		if (!r || (r->arg && *r->arg != '[')) {
			return false;
		}
	}
	return true;
}

static int
set_letters(struct options_parse *x, const char *v, struct err *e)
{
	int rc = 0;

	for (; *v && rc == 0; v++) {
		rc = options_table_act(x, options_table_short(*v), NULL, e);
	}
	return rc;
}

/* --nodeps=LIST, -fLIST; -f=LIST as the classic takes it; and -fv as the tool
 * of OpenVZ 7 does, where -f has no list. A value of the short name stands
 * right behind it. */
int
options_set_nodeps(struct options_parse *x, const struct options_row *r,
		   const char *v, struct err *e)
{
	if (!v) {
		v = "all";
	} else if (*v == '=') {
		v++;
	} else if (v[-1] == r->shrt && !find_check(v, strcspn(v, ",")) &&
		   is_letters(v)) {
		x->o->plan.nodeps = "all";
		return set_letters(x, v, e);
	}
	return set_checks(x, r, v, e);
}

int
options_set_streams(struct options_parse *x, const struct options_row *r,
		    const char *v, struct err *e)
{
	int n = 0;
	unsigned count = 0;

	if (strcmp(v, "auto") == 0) {
		x->o->streams = 0;
		return 0;
	}
	if (*v < '1' || *v > '9' || sscanf(v, "%3u%n", &count, &n) != 1 ||
	    v[n] || count > FEED_STREAMS_MAX) {
		return bad_value(r, v,
				 "is neither a number of 1 to 16 nor auto", e);
	}
	x->o->streams = count;
	return 0;
}

int
options_set_allow(struct options_parse *x, const struct options_row *r,
		  const char *v, struct err *e)
{
	if (x->o->nallow == OPTIONS_ALLOW_MAX) {
		return bad_value(r, v, "is one too many", e);
	}
	x->o->allow[x->o->nallow++] = v;
	return 0;
}

/* Whole seconds from 1 to `max`, into milliseconds. */
static int
seconds(const struct options_row *r, const char *v, int max, int64_t *ms,
	struct err *e)
{
	int n = 0, s = 0;

	if (sscanf(v, "%6d%n", &s, &n) != 1 || v[n] || s < 1 || s > max) {
		char why[64];

		snprintf(why, sizeof(why), "is not a time of 1 to %d seconds",
			 max);
		return bad_value(r, v, why, e);
	}
	*ms = (int64_t)s * 1000;
	return 0;
}

int
options_set_stop(struct options_parse *x, const struct options_row *r,
		 const char *v, struct err *e)
{
	return seconds(r, v, STOP_MAX_S, &x->o->plan.stop_ms, e);
}

int
options_set_timeout(struct options_parse *x, const struct options_row *r,
		    const char *v, struct err *e)
{
	x->own_timeout = true;
	return seconds(r, v, TIMEOUT_MAX_S, &x->o->timeout_ms, e);
}

/* Seconds with a fraction; a comma is none, whatever the locale. */
static int
fraction(const struct options_row *r, const char *v, int64_t min_ms,
	 int64_t max_ms, int64_t *to_ms, struct err *e)
{
	int whole, n = 0;
	unsigned ms = 0, scale = 100;
	char why[80];

	if (*v >= '0' && *v <= '9' && sscanf(v, "%4d%n", &whole, &n) == 1) {
		n += v[n] == '.';
		for (; v[n] >= '0' && v[n] <= '9'; n++, scale /= 10) {
			ms += (unsigned)(v[n] - '0') * scale;
		}
		*to_ms = (int64_t)whole * 1000 + ms;
	}
	if (n && !v[n] && *to_ms >= min_ms && *to_ms <= max_ms) {
		return 0;
	}
	/* Not %g, which writes a comma in some locales. */
	snprintf(why, sizeof(why), "is not a time of %lld.%lld to %lld seconds",
		 (long long)min_ms / 1000, (long long)min_ms % 1000 / 100,
		 (long long)max_ms / 1000);
	return bad_value(r, v, why, e);
}

int
options_set_probe(struct options_parse *x, const struct options_row *r,
		  const char *v, struct err *e)
{
	if (!v) {
		x->o->probe_ms = PROBE_BUDGET_MS;
		return 0;
	}
	return fraction(r, v, PROBE_MIN_MS, PROBE_MAX_MS, &x->o->probe_ms, e);
}

int
options_set_downtime(struct options_parse *x, const struct options_row *r,
		     const char *v, struct err *e)
{
	return fraction(r, v, DOWNTIME_MIN_MS, DOWNTIME_MAX_MS,
			&x->o->plan.rounds.target_ms, e);
}

int
options_set_rounds(struct options_parse *x, const struct options_row *r,
		   const char *v, struct err *e)
{
	int n = 0, passes = 1; /* --noiter has no value */

	if (v && (sscanf(v, "%4d%n", &passes, &n) != 1 || v[n] || passes < 1 ||
		  passes > ROUNDS_MAX)) {
		char why[64];

		snprintf(why, sizeof(why), "is not a number from 1 to %d",
			 ROUNDS_MAX);
		return bad_value(r, v, why, e);
	}
	x->o->plan.rounds.max_rounds = (unsigned)passes;
	return 0;
}

int
options_set_compress(struct options_parse *x, const struct options_row *r,
		     const char *v, struct err *e)
{
	char *end;
	long level = COMPRESS_DEFAULT;

	if (v) {
		level = *v >= '0' && *v <= '9' ? strtol(v, &end, 10) : 0;
		if (level < 1 || level > ZFRAME_LEVEL_MAX || *end) {
			return bad_value(r, v, "is not a level of 1 to 19", e);
		}
	}
	x->own_compress = true;
	x->o->plan.compress = (int)level;
	return 0;
}

int
options_set_nocompress(struct options_parse *x, const struct options_row *r,
		       const char *v, struct err *e)
{
	(void)r;
	(void)v;
	(void)e;
	x->own_compress = true;
	x->o->plan.compress = COMPRESS_OFF;
	return 0;
}

int
options_set_limit(struct options_parse *x, const struct options_row *r,
		  const char *v, struct err *e)
{
	char name[64];
	int rc = srccontrol_rate(v, options_table_shown(r, name),
				 &x->o->plan.limit_speed, e);

	x->own_limit = true;
	/* ssh's -l is another one. */
	return rc < 0 ? err_recode(e, rc,
				   "%s: '%s' is not a rate (a user is given as "
				   "user@host)",
				   name, v)
		      : 0;
}

int
options_set_rsync(struct options_parse *x, const struct options_row *r,
		  const char *v, struct err *e)
{
	(void)r;
	return sshlist_add(&x->rsync, v, e);
}

int
options_set_ssh(struct options_parse *x, const struct options_row *r,
		const char *v, struct err *e)
{
	(void)r;
	/* It names itself and the option inside. */
	return sshopts_parse(&x->o->ssh, v, e);
}

/* The others whose meaning is in ssh/: the error gets the option's name. */
static int
named(const struct options_row *r, int rc, struct err *e)
{
	char name[64];

	return rc < 0 ? err_wrap(e, "%s", options_table_shown(r, name)) : 0;
}

int
options_set_port(struct options_parse *x, const struct options_row *r,
		 const char *v, struct err *e)
{
	return named(r, sshopts_port(&x->o->ssh, v, e), e);
}

int
options_set_identity(struct options_parse *x, const struct options_row *r,
		     const char *v, struct err *e)
{
	return named(r, sshopts_identity(&x->o->ssh, v, e), e);
}

int
options_set_jump(struct options_parse *x, const struct options_row *r,
		 const char *v, struct err *e)
{
	return named(r, sshopts_jump(&x->o->ssh, v, e), e);
}

int
options_set_config(struct options_parse *x, const struct options_row *r,
		   const char *v, struct err *e)
{
	return named(r, sshopts_config(&x->o->ssh, v, e), e);
}

/* As in the classic, -v implies -t. */
int
options_set_verbose(struct options_parse *x, const struct options_row *r,
		    const char *v, struct err *e)
{
	(void)r;
	(void)v;
	(void)e;
	x->o->verbose++;
	x->o->times = true;
	return 0;
}
