/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzquota: drives vzquota(8), vzdqdump(8) and vzdqload(8). Exit codes are
 * those of vzquota's manual. State: none.
 */
#include "ct/vzquota.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "ct/ctpath.h"
#include "ct/vzctl.h"

#define NO_QUOTA_FILE 11     /* vzquota: exit code */
#define GRACE_DEFAULT 259200 /* s; vzctl's, where QUOTATIME is not set */
#define DUMP_MAX (16u << 20)
/* `vzquota init` reads the whole tree's inodes. */
#define INIT_MS (6 * 3600 * 1000)

/* ---- limits ---- */

static uint64_t
suffix(char ch)
{
	switch (ch) {
	case 'b':
	case 'B':
		return 1;
	case 'k':
	case 'K':
		return 1u << 10;
	case 'm':
	case 'M':
		return 1u << 20;
	case 'g':
	case 'G':
		return 1u << 30;
	case 't':
	case 'T':
		return UINT64_C(1) << 40;
	default:
		return 0;
	}
}

/* One value up to `:` or the end, in units of `unit`; NULL where it is none,
 * else what follows it. */
static const char *
parse_one(const char *p, uint64_t unit, uint64_t *out)
{
	const uint64_t max = INT64_MAX / 1024;
	uint64_t mul;
	char *end;
	double x;

	if (strncmp(p, "unlimited", 9) == 0) {
		*out = max;
		return p + 9;
	}
	if (*p < '0' || *p > '9') {
		return NULL;
	}
	/* "2.2G"; what a double cannot tell apart no quota does. */
	x = strtod(p, &end);
	mul = suffix(*end);
	if (mul) {
		end++;
		x = x * (double)mul / (double)unit;
	}
	*out = x < (double)max ? (uint64_t)x : max;
	return end;
}

int
vzquota_parse(const char *text, const char *key, uint64_t unit, uint64_t out[2],
	      struct err *e)
{
	const char *p = parse_one(text, unit, &out[0]);

	out[1] = out[0];
	if (p && *p == ':') {
		p = parse_one(p + 1, unit, &out[1]);
	}
	return p && !*p ? 0
			: err_set(e, E_CONFIG, "%s=\"%s\" is not a limit", key,
				  text);
}

static int
get_pair(const struct vzconf *v, const char *ctid, const char *own, size_t len,
	 const char *key, uint64_t unit, uint64_t out[2], struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	int rc = vzconf_value(v, ctid, own, len, key, &text, e);

	return rc <= 0					    ? rc
	       : vzquota_parse(text, key, unit, out, e) < 0 ? E_CONFIG
							    : 1;
}

/* Whether vzctl would keep quota for it at all. */
static int
is_on(const struct vzconf *v, const char *ctid, const char *own, size_t len,
      struct err *e)
{
	cleanup(free_ptr) char *on = NULL;
	int rc = vzconf_value(v, ctid, own, len, "DISK_QUOTA", &on, e);

	return rc < 0 ? rc
		      : !(rc == 1 && strcmp(on, "no") == 0) &&
				!(v->layout && strcmp(v->layout, "simfs") != 0);
}

int
vzquota_limits(const struct vzconf *v, const char *ctid, const char *own,
	       size_t own_len, struct vzquota_limits *l, struct err *e)
{
	const struct {
		const char *key;
		uint64_t unit;
		uint64_t *to;
	} must[] = { { "DISKSPACE", 1024, l->blocks },
		     { "DISKINODES", 1, l->inodes } };
	uint64_t n[2] = { 0 };
	int rc = is_on(v, ctid, own, own_len, e);

	*l = (struct vzquota_limits){ .grace = GRACE_DEFAULT };
	if (rc == 1) {
		rc = get_pair(v, ctid, own, own_len, "QUOTAUGIDLIMIT", 1, n, e);
	}
	l->ugids = n[0];
	if (rc <= 0 || l->ugids == 0) {
		return rc < 0 ? rc : 0;
	}
	for (size_t i = 0; i < 2; i++) {
		rc = get_pair(v, ctid, own, own_len, must[i].key, must[i].unit,
			      must[i].to, e);
		if (rc <= 0) {
			return rc < 0 ? rc
				      : err_set(e, E_CONFIG,
						"container %s has "
						"QUOTAUGIDLIMIT, but no %s",
						ctid, must[i].key);
		}
	}
	rc = get_pair(v, ctid, own, own_len, "QUOTATIME", 1, n, e);
	l->grace = rc == 1 ? n[0] : GRACE_DEFAULT;
	return rc < 0 ? rc : 1;
}

/* ---- the programs ---- */

bool
vzquota_here(void)
{
	return ctpath_program("vzquota") && ctpath_program("vzdqdump") &&
	       ctpath_program("vzdqload");
}

static int
run(const char *const *argv, const char *input, int64_t ms,
    struct child_result *r, struct err *e)
{
	return child_run(&(struct child_cmd){ .argv = argv,
					      .input = input,
					      .max_output = DUMP_MAX,
					      .timeout_ms = ms },
			 r, e);
}

static int
failed(const char *const *argv, struct child_result *r, struct err *e)
{
	return err_set(e, E_QUOTA, "%s %s failed with code %d: %s", argv[0],
		       argv[1], r->status, vzctl_last_words(r));
}

int
vzquota_dump(const char *ctid, struct buf *out, struct err *e)
{
	const char *const argv[] = { "vzdqdump", ctid, "-U", "-G", "-T", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = run(argv, NULL, 0, &r, e);

	if (rc < 0 || r.status == NO_QUOTA_FILE) {
		return rc;
	}
	if (r.status != 0) {
		return failed(argv, &r, e);
	}
	if (r.out.len >= DUMP_MAX) {
		return err_set(e, E_LIMIT,
			       "vzdqdump %s prints more than %u bytes", ctid,
			       DUMP_MAX);
	}
	rc = buf_append(out, r.out.data, r.out.len, e);
	return rc < 0 ? rc : 1;
}

int
vzquota_drop(const char *ctid, struct err *e)
{
	const char *const argv[] = { "vzquota", "drop", ctid, NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc;

	/* Its ids are numbers, so one of OpenVZ 7 has none. */
	if (strchr(ctid, '-') || !ctpath_program("vzquota")) {
		return 0;
	}
	rc = run(argv, NULL, 0, &r, e);
	return rc < 0 || r.status == 0 || r.status == NO_QUOTA_FILE
		       ? rc
		       : failed(argv, &r, e);
}

static int
init(const char *ctid, const char *tree, const struct vzquota_limits *l,
     struct err *e)
{
	const uint64_t n[] = { l->blocks[0], l->blocks[1], l->inodes[0],
			       l->inodes[1], l->grace,	   l->ugids };
	cleanup(child_result_fini) struct child_result r = { 0 };
	char t[6][24];
	const char *const argv[] = { "vzquota", "init", ctid, "-b", t[0], "-B",
				     t[1],	"-i",	t[2], "-I", t[3], "-p",
				     tree,	"-e",	t[4], "-n", t[4], "-s",
				     "1",	"-u",	t[5], NULL };
	int rc;

	for (size_t i = 0; i < 6; i++) {
		snprintf(t[i], sizeof(t[i]), "%" PRIu64, n[i]);
	}
	rc = run(argv, NULL, INIT_MS, &r, e);
	return rc < 0 || r.status == 0 ? rc : failed(argv, &r, e);
}

int
vzquota_load(const char *ctid, const char *tree, const struct vzquota_limits *l,
	     const char *dump, struct err *e)
{
	const char *const argv[] = { "vzdqload", ctid, "-U", "-G", "-T", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = vzquota_drop(ctid, e);

	rc = rc < 0 ? rc : init(ctid, tree, l, e);
	rc = rc < 0 ? rc : run(argv, dump, 0, &r, e);
	return rc < 0 || r.status == 0 ? rc : failed(argv, &r, e);
}
