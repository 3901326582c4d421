/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * losses: what is read back counts as what was sent exactly where it is that
 * less what was refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/log.h"
#include "xfer/losses.h"

#define INO 77

/* user.a=1 user.b=2 user.c=3, packed */
static const uint8_t abc[] = "\6\0user.a\1\0\0\0001\6\0user.b\1\0\0\0002"
			     "\6\0user.c\1\0\0\0003";
#define ONE 13 /* bytes of each */

static struct meta
base_meta(void)
{
	struct meta m = { .type = FS_REG, .perm = 0644, .uid = 5 };

	m.flags = FS_NODUMP_FL | FS_SYNC_FL;
	m.projid = 9;
	m.mtime = (struct meta_time){ 1000, 5 };
	return m;
}

/* The attributes whose letters are in `which`. */
static void
give(struct meta *m, const char *which)
{
	m->xattrs = malloc(sizeof(abc));
	m->xattrs_len = 0;
	for (; *which; which++) {
		memcpy(m->xattrs + m->xattrs_len, abc + (*which - 'a') * ONE,
		       ONE);
		m->xattrs_len += ONE;
	}
}

/* All of it was refused: b, the flag S, the project id, the time. */
static struct losses *
all_lost(const struct meta *sent)
{
	struct err e = { 0 };
	struct losses *t = losses_new(&e);
	struct meta_loss l;

	meta_loss_init(&l);
	assert_int_equal(losses_add(t, INO, "p", 1, sent, &l, &e), 0);
	l.flags = FS_SYNC_FL;
	l.projid = true;
	l.times = true;
	l.mtime = (struct meta_time){ 1000, 0 };
	assert_int_equal(buf_append(&l.xattrs, "user.b", 7, &e), 0);
	assert_int_equal(meta_refuse(&l, &e, "refused %d", 1), 0);
	assert_int_equal(meta_refuse(&l, &e, "refused %d", 2), 0);
	assert_string_equal(l.why, "refused 1");
	assert_int_equal(losses_add(t, INO, "p", 1, sent, &l, &e), 0);
	meta_loss_fini(&l);
	return t;
}

static struct meta
landed(const char *xattrs)
{
	struct meta m = base_meta();

	m.flags = FS_NODUMP_FL;
	m.projid = 0;
	m.mtime.nsec = 0;
	give(&m, xattrs);
	return m;
}

/* 1: it became what was sent. */
static int
restores(struct losses *t, uint64_t ino, struct meta m)
{
	struct err e = { 0 };
	uint32_t flags = m.flags;
	int done;

	assert_int_equal(losses_restore(t, ino, &m, &e), 0);
	done = m.mtime.nsec == 5 && m.projid == 9 && m.flags != flags &&
	       m.xattrs_len == 3 * ONE && memcmp(m.xattrs, abc, 3 * ONE) == 0;
	meta_fini(&m);
	return done;
}

static void
test_restore(void **state)
{
	struct meta sent = base_meta(), m;
	struct losses *t;

	(void)state;
	give(&sent, "abc");
	t = all_lost(&sent);
	assert_true(restores(t, INO, landed("ac")));
	/* What was refused is not looked at. */
	assert_true(restores(t, INO, landed("abc")));
	/* Another inode. */
	assert_false(restores(t, INO + 1, landed("ac")));
	/* More is missing, more is there, a value differs. */
	assert_false(restores(t, INO, landed("a")));
	assert_false(restores(t, INO, landed("")));
	assert_false(restores(t, INO, landed("aac")));
	m = landed("ac");
	m.xattrs[ONE - 1] = '9';
	assert_false(restores(t, INO, m));
	m = landed("ac");
	m.flags = 0;
	assert_false(restores(t, INO, m));
	m = landed("ac");
	m.mtime.nsec = 1;
	assert_false(restores(t, INO, m));
	meta_fini(&sent);
	losses_free(t);
}

static void
test_only_what_was_refused(void **state)
{
	struct meta sent = base_meta(), m;
	struct err e = { 0 };
	struct losses *t = losses_new(&e);
	struct meta_loss l;

	(void)state;
	give(&sent, "abc");
	meta_loss_init(&l);
	buf_append(&l.xattrs, "user.b", 7, &e);
	meta_refuse(&l, &e, "x");
	assert_int_equal(losses_add(t, INO, "", 0, &sent, &l, &e), 0);
	meta_loss_fini(&l);
	/* The project id, the flag and the time were not. */
	m = landed("ac");
	assert_int_equal(losses_restore(t, INO, &m, &e), 0);
	assert_int_equal(m.projid, 0);
	assert_int_equal(m.xattrs_len, 2 * ONE);
	meta_fini(&m);
	/* A later refusal adds to it. */
	meta_loss_init(&l);
	l.flags = FS_SYNC_FL;
	l.projid = l.times = true;
	l.mtime = (struct meta_time){ 1000, 0 };
	meta_refuse(&l, &e, "y");
	assert_int_equal(losses_add(t, INO, "", 0, &m, &l, &e), 0);
	meta_loss_fini(&l);
	assert_true(restores(t, INO, landed("ac")));
	/* And goes with a copy. */
	assert_int_equal(losses_copy(t, INO, 99, &e), 0);
	assert_int_equal(losses_copy(t, 55, 56, &e), 0);
	assert_true(restores(t, 99, landed("ac")));
	assert_true(restores(t, INO, landed("ac")));
	meta_fini(&sent);
	losses_free(t);
	losses_free(NULL);
}

static unsigned lines;
static char last[512];

static void
sink(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	lines += level == LOGL_WARN;
	snprintf(last, sizeof(last), "%s", line);
}

static void
test_warnings(void **state)
{
	struct meta sent = base_meta();
	struct err e = { 0 };
	struct losses *t = losses_new(&e);
	struct meta_loss l;
	int h = log_add_sink(LOGL_WARN, sink, NULL);

	(void)state;
	meta_loss_init(&l);
	meta_refuse(&l, &e, "no room");
	assert_int_equal(losses_add(t, 1, "a\nb", 3, &sent, &l, &e), 0);
	assert_non_null(strstr(last, "a\\nb: no room; gone without it"));
	for (uint64_t i = 2; i <= 10000; i++) {
		assert_int_equal(losses_add(t, i, "f", 1, &sent, &l, &e), 0);
	}
	assert_int_equal(lines, 20);
	losses_report(t);
	assert_int_equal(lines, 21);
	assert_non_null(strstr(last, "9980 more entries"));
	log_remove_sink(h);
	meta_loss_fini(&l);
	losses_free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_restore),
		cmocka_unit_test(test_only_what_was_refused),
		cmocka_unit_test(test_warnings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
