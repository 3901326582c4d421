/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of what an openvz container has beside its tree: the dump of a
 * suspended one, and disk quota of its users. vzctl and vzquota are the
 * stand-ins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ct/ct.h"
#include "ct/origin.h"
#include "ct/vzluggage.h"
#include "ct/vzquota.h"
#include "ctfix.h"
#include "needroot.h"

#define KIND ct_kind_find("openvz")
#define LIFE "0123456789abcdef"

static struct ct_host a, b;
static struct err e;

/* Container 101 on host a; `more` goes into its configuration. */
static void
make(const char *more)
{
	ctfix_vzctl(&a);
	ctfix_sh("rm -rf a/vz/private/* a/etc/vz/conf/101.* a/vz/dump/* "
		 "a/state/quota b/state/quota; mkdir -p a/vz/private/101/etc; "
		 "echo hello >a/vz/private/101/etc/motd; "
		 "touch -d @1000000000 a/vz/private/101; "
		 "cat >a/etc/vz/conf/101.conf <<'END'\n"
		 "VE_LAYOUT=\"simfs\"\n%sEND",
		 more);
}

static void
suspend(void)
{
	ctfix_sh("echo " LIFE " >a/vz/dump/Dump.101; "
		 "chmod 600 a/vz/dump/Dump.101; "
		 "touch -d @1234567890 a/vz/dump/Dump.101");
}

/* The programs of vzquota, which are not there otherwise. */
static void
quota_tools(bool there)
{
	static const char all[] = "vzquota vzdqdump vzdqload";

	if (there) {
		ctfix_sh("d=$(dirname \"$(readlink bin/vzctl)\"); "
			 "for t in %s; do ln -sfn \"$d/vzquota-standin\" "
			 "bin/$t; done",
			 all);
	} else {
		ctfix_sh("cd bin && rm -f %s", all);
	}
}

static int
setup(void **state)
{
	if (ctfix_setup_hosts(state, &a, &b) < 0) {
		return -1;
	}
	signal(SIGPIPE, SIG_IGN); /* as the programs do */
	return 0;
}

struct op {
	int (*fn)(const struct ct_host *h, const struct ct *c, struct err *e);
	const struct ct *c;
};

static int
run_op(void *arg)
{
	struct op *o = arg;

	return o->fn(&a, o->c, NULL);
}

static void
load(struct ct *c, enum ct_state want)
{
	assert_int_equal(KIND->load(&a, "101", c, &e), 0);
	assert_int_equal(c->state, want);
}

/* As a crash and the undo of the next run see it: of the container only what
 * the journal has. */
static void
undo(const struct ct *c)
{
	const struct ct bare = { .kind = c->kind,
				 .id = c->id,
				 .tree = c->tree,
				 .state = CT_STOPPED };

	assert_int_equal(KIND->unblock(&a, &bare, &e), 0);
}

#define DUMP_IN "a/vz/private/101/" VZLUGGAGE_DIR "/dump"

/* But for one temporary file, which the next write there removes. */
static char *
sum_a(void)
{
	ctfix_sh("rm -f a/etc/vz/conf/.vzmigrate-new");
	return ctfix_sum("%s/a", ctfix_top);
}

static void
assert_packed(void)
{
	ctfix_sh("test ! -e a/vz/dump/Dump.101; "
		 "test \"$(cat " DUMP_IN ")\" = " LIFE "; "
		 "test $(stat -c %%a a/vz/private/101/" VZLUGGAGE_DIR
		 ") = 700; test -e a/etc/vz/conf/101.conf.vzmigrate-luggage; "
		 "test $(stat -c %%Y a/vz/private/101) = 1000000000; "
		 "test ! -e a/etc/vz/conf/101.conf");
}

/* Whenever it dies, an undo brings everything back, and a second try goes
 * through. */
static void
test_suspended_source(void **state)
{
	cleanup(ct_free) struct ct c;
	struct op block = { .fn = KIND->block, .c = &c };
	struct op unblock = { .fn = KIND->unblock, .c = &c };
	char *before, *after;
	int rc = 0, n;

	(void)state;
	make("");
	suspend();
	before = ctfix_sum("%s/a", ctfix_top);
	load(&c, CT_SUSPENDED);
	for (n = 1; ctfix_die_at(n, run_op, &block, &rc); n++) {
		assert_true(n < 60);
		undo(&c);
		after = sum_a();
		assert_string_equal(before, after);
		free(after);
		assert_true(ctfix_die_at(n, run_op, &block, &rc));
		assert_int_equal(run_op(&block), 0);
		assert_packed();
		undo(&c);
	}
	assert_int_equal(rc, 0);
	assert_true(n > 4);
	for (n = 1; ctfix_die_at(n, run_op, &unblock, &rc); n++) {
		assert_true(n < 60);
		undo(&c);
		after = sum_a();
		assert_string_equal(before, after);
		free(after);
		assert_int_equal(run_op(&block), 0);
		assert_int_equal(run_op(&block), 0);
		assert_packed();
	}
	assert_int_equal(rc, 0);
	ctfix_sh("test $(stat -c %%Y a/vz/private/101) = 1000000000; "
		 "test \"$(vzctl status 101)\" = "
		 "'CTID 101 exist unmounted down suspended'");
	free(before);
}

/* Retired with its dump in the tree; and both go when it is destroyed. */
static void
test_suspended_destroy(void **state)
{
	cleanup(ct_free) struct ct c;

	(void)state;
	make("");
	suspend();
	load(&c, CT_SUSPENDED);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_int_equal(KIND->retire(&a, &c, "s", &e), 0);
	assert_int_equal(KIND->unretire(&a, &c, "s", &e), 0);
	assert_packed();
	assert_int_equal(KIND->retire(&a, &c, "s", &e), 0);
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	ctfix_sh("test -z \"$(ls -A a/etc/vz/conf a/vz/private a/vz/dump | "
		 "grep -v :)\"");
}

/* What the container's root put there itself is never taken for a dump. */
static void
test_forged(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ct d;

	(void)state;
	make("");
	ctfix_sh("mkdir a/vz/private/101/" VZLUGGAGE_DIR "; echo evil >" DUMP_IN
		 "; touch -d @1234567890 " DUMP_IN);
	load(&c, CT_STOPPED);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	undo(&c);
	ctfix_sh("test -z \"$(ls a/vz/dump)\"; "
		 "test \"$(cat " DUMP_IN ")\" = evil");
	/* And where there is one, it goes. */
	suspend();
	load(&d, CT_SUSPENDED);
	assert_int_equal(KIND->block(&a, &d, &e), 0);
	assert_packed();
	undo(&d);
	ctfix_sh("test \"$(cat a/vz/dump/Dump.101)\" = " LIFE "; "
		 "test ! -e a/vz/private/101/" VZLUGGAGE_DIR);
	ct_free(&d);
}

static void
test_resumed_meanwhile(void **state)
{
	cleanup(ct_free) struct ct c;
	char want[400];

	(void)state;
	make("");
	suspend();
	load(&c, CT_SUSPENDED);
	ctfix_sh("touch a/vz/dump/Dump.101");
	snprintf(want, sizeof(want),
		 "the dump %s/a/vz/dump/Dump.101 of container 101 is not the "
		 "one that was there before; run the command again",
		 ctfix_top);
	ctfix_err(KIND->block(&a, &c, &e), &e, E_CHANGED, want);
	ctfix_sh("test -e a/etc/vz/conf/101.conf; "
		 "test ! -e a/vz/private/101/" VZLUGGAGE_DIR);
}

/* A dump is carried only of one that is suspended; and it goes with the one
 * that it is of, so that nobody resumes it later. */
static void
test_stale_dump(void **state)
{
	cleanup(ct_free) struct ct c;
	char want[400];

	(void)state;
	make("");
	suspend();
	/* Which does not know of dumps. */
	ctfix_sh("echo 3.0.23 >a/etc/vz/vzctl-version");
	load(&c, CT_STOPPED);
	ctfix_sh("rm a/etc/vz/vzctl-version");
	snprintf(want, sizeof(want),
		 "the dump %s/a/vz/dump/Dump.101 is not carried, as the "
		 "container is stopped and not suspended",
		 ctfix_top);
	assert_int_equal(c.nnotes, 1);
	assert_string_equal(c.notes[0], want);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	ctfix_sh("test -e a/vz/dump/Dump.101; "
		 "test ! -e a/vz/private/101/" VZLUGGAGE_DIR);
	assert_int_equal(KIND->retire(&a, &c, "s", &e), 0);
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	ctfix_sh("test ! -e a/vz/dump/Dump.101");
}

/* Blocked by a session that nobody knows of any more: vzctl cannot tell that
 * it is suspended, but it is carried so. */
static void
test_blocked_before(void **state)
{
	(void)state;
	for (int packed = 0; packed < 2; packed++) {
		struct ct c, d;

		make("");
		suspend();
		load(&c, CT_SUSPENDED);
		if (packed) {
			assert_int_equal(KIND->block(&a, &c, &e), 0);
		} else {
			ctfix_sh("cd a/etc/vz/conf; mv 101.conf "
				 "101.conf.vzmigrate-blocked");
		}
		load(&d, CT_STOPPED);
		assert_int_equal(d.mark, CT_BLOCKED);
		assert_int_equal(KIND->block(&a, &d, &e), 0);
		assert_packed();
		undo(&d);
		ct_free(&c);
		load(&c, CT_SUSPENDED);
		ct_free(&c);
		ct_free(&d);
	}
}

/* DUMPDIR on another file system: a file is copied, CRIU's directory not. */
static void
test_other_file_system(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ct d;
	char want[700];

	(void)state;
	make("");
	ctfix_sh("mount -t tmpfs x a/vz/dump");
	suspend();
	ctfix_sh("touch a/vz/dump/Dump.101.vzmigrate-new; "
		 "touch -d @1234567890 a/vz/dump/Dump.101");
	load(&c, CT_SUSPENDED);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_packed();
	undo(&c);
	ctfix_sh("test \"$(ls a/vz/dump)\" = Dump.101; "
		 "test $(stat -c %%a:%%Y a/vz/dump/Dump.101) = 600:1234567890; "
		 "rm a/vz/dump/Dump.101; mkdir a/vz/dump/Dump.101; "
		 "echo img >a/vz/dump/Dump.101/core-1.img");
	load(&d, CT_SUSPENDED);
	snprintf(want, sizeof(want),
		 "the dump is a directory, as CRIU makes it, and cannot be "
		 "moved from %s/a/vz/dump/Dump.101 to %s/" DUMP_IN
		 ", on another file system; resume the container",
		 ctfix_top, ctfix_top);
	ctfix_err(KIND->block(&a, &d, &e), &e, E_UNSUPPORTED, want);
	undo(&d);
	ct_free(&d);
	ctfix_sh("test -e a/vz/dump/Dump.101/core-1.img; umount a/vz/dump; "
		 "mkdir a/vz/dump/Dump.101; "
		 "echo img >a/vz/dump/Dump.101/core-1.img");
	load(&d, CT_SUSPENDED);
	assert_int_equal(KIND->block(&a, &d, &e), 0);
	ctfix_sh("test -e " DUMP_IN "/core-1.img");
	undo(&d);
	ctfix_sh("test -e a/vz/dump/Dump.101/core-1.img; rm -r a/vz/dump/*");
	ct_free(&d);
}

/* ---- destination ---- */

/* The tree as the source's block leaves it, staged on b. */
static void
stage(struct ctfix_move *m, struct ct *c)
{
	assert_int_equal(KIND->block(&a, c, &e), 0);
	ctfix_vzctl(&b);
	ct_place_fini(&m->p);
	m->w = ctfix_want(c);
	m->w.new_id = "201";
	assert_int_equal(KIND->place(&b, &m->w, &m->p, &e), 0);
	snprintf(m->staged, sizeof(m->staged), "%s/.stage/root",
		 m->p.stage_dir);
	ctfix_sh("rm -rf b/vz/private/* %s/.stage; mkdir -m 700 %s/.stage; "
		 "cp -a a/vz/private/101 %s",
		 m->p.stage_dir, m->p.stage_dir, m->staged);
}

static char *
sum_b(void)
{
	ctfix_sh("rm -f b/lock/* b/etc/vz/conf/.vzmigrate-new");
	return ctfix_sum("%s/b", ctfix_top);
}

static void
test_suspended_destination(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	char *before, *after, want[400];
	int rc = 0, n;

	(void)state;
	make("");
	suspend();
	load(&c, CT_SUSPENDED);
	stage(&m, &c);
	ctfix_sh("rmdir b/vz/dump"); /* DUMPDIR is made, and stays */
	assert_int_equal(ctfix_commit(&m), 0);
	assert_int_equal(ctfix_uncommit(&m), 0);
	before = sum_b();
	for (n = 1; ctfix_die_at(n, ctfix_commit, &m, &rc); n++) {
		assert_true(n < 60);
		assert_int_equal(ctfix_uncommit(&m), 0);
		assert_int_equal(ctfix_uncommit(&m), 0);
		after = sum_b();
		assert_string_equal(before, after);
		free(after);
		assert_true(ctfix_die_at(n, ctfix_commit, &m, &rc));
		assert_int_equal(ctfix_commit(&m), 0);
		assert_int_equal(ctfix_commit(&m), 0);
		ctfix_sh("test ! -e b/vz/private/201/" VZLUGGAGE_DIR "; "
			 "test $(stat -c %%Y b/vz/private/201) = 1000000000; "
			 "test \"$(vzctl status 201 2>/dev/null)\" = "
			 "'CTID 201 exist unmounted down suspended'");
		assert_int_equal(ctfix_uncommit(&m), 0);
	}
	assert_int_equal(rc, 0);
	assert_true(n > 8);
	for (n = 1; ctfix_die_at(n, ctfix_uncommit, &m, &rc); n++) {
		assert_true(n < 60);
		assert_int_equal(ctfix_uncommit(&m), 0);
		after = sum_b();
		assert_string_equal(before, after);
		free(after);
		assert_int_equal(ctfix_commit(&m), 0);
	}
	assert_int_equal(rc, 0);
	/* Resumed and suspended again there: nothing of it is undone. */
	assert_int_equal(ctfix_commit(&m), 0);
	ctfix_sh("touch b/vz/dump/Dump.201");
	snprintf(want, sizeof(want),
		 "%s/b/vz/dump/Dump.201 is not the dump that came: the "
		 "container was resumed here",
		 ctfix_top);
	ctfix_err(KIND->uncommit(&b, &m.w, &m.p, m.staged, &e), &e, E_STATE,
		  want);
	ctfix_sh("test -e b/etc/vz/conf/201.conf; "
		 "rm -rf b/vz/private/* b/vz/private/.stage b/vz/dump/* "
		 "b/etc/vz/conf/*");
	free(before);
	ct_place_fini(&m.p);
}

static void
test_suspended_checks(void **state)
{
	cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	char want[3][300];

	(void)state;
	make("");
	ctfix_sh("truncate -s 1P a/vz/dump/Dump.101 2>/dev/null || "
		 "truncate -s 7E a/vz/dump/Dump.101");
	load(&c, CT_SUSPENDED);
	ctfix_vzctl(&b);
	m.w = ctfix_want(&c);
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	ctfix_sh("mkdir -p b/vz/dump; touch b/vz/dump/Dump.101");
	assert_int_equal(KIND->check(&b, &m.w, &m.p, &f, &e), 0);
	assert_int_equal(f.n, 3);
	snprintf(want[0], sizeof(want[0]),
		 "there is a dump %s/b/vz/dump/Dump.101 of another container "
		 "already; remove it",
		 ctfix_top);
	snprintf(want[1], sizeof(want[1]),
		 "the dump of the suspended container has 1125899906842624 "
		 "bytes, more than are free in %s/b/vz/dump",
		 ctfix_top);
	snprintf(want[2], sizeof(want[2]),
		 "the container is suspended, but neither the kernel module "
		 "vzrst nor criu is here: it cannot be resumed here as it is");
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(f.v[i].text, want[i]);
	}
	assert_int_equal(f.v[0].code, E_EXISTS);
	assert_int_equal(f.v[1].code, E_NOSPACE);
	assert_true(f.v[2].warning);
	ctfix_sh("rm a/vz/dump/Dump.101");
	ct_free(&c);
	ct_findings_fini(&f);
	/* One that is not suspended would be resumed from another's dump. */
	load(&c, CT_STOPPED);
	m.w = ctfix_want(&c);
	ctfix_vzctl(&b);
	assert_int_equal(KIND->check(&b, &m.w, &m.p, &f, &e), 0);
	assert_int_equal(f.n, 1);
	assert_string_equal(f.v[0].text, want[0]);
	ctfix_sh("rm b/vz/dump/Dump.101");
	ct_place_fini(&m.p);
}

/* vzcptcheck of both hosts: the source tells its version. */
static void
test_cpt_version(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);

	(void)state;
	ctfix_sh("printf '#!/bin/sh\n[ \"$1\" = version ] || exit 2\n"
		 "[ -n \"$2\" ] || { cat %s/cpt; exit 0; }\n"
		 "[ \"$2\" -le \"$(cat %s/cpt)\" ]\n' >bin/vzcptcheck; "
		 "chmod 755 bin/vzcptcheck; echo 7 >cpt",
		 ctfix_top, ctfix_top);
	make("");
	suspend();
	load(&c, CT_SUSPENDED);
	ctfix_vzctl(&b);
	m.w = ctfix_want(&c);
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	for (int version = 6; version < 8; version++) {
		cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };

		ctfix_sh("echo %d >cpt", version);
		assert_int_equal(KIND->check(&b, &m.w, &m.p, &f, &e), 0);
		/* That there is no vzrst is a warning. */
		assert_int_equal(f.n, version < 7 ? 2 : 1);
		assert_true(f.v[f.n - 1].warning);
		if (version < 7) {
			assert_string_equal(
				f.v[0].text,
				"vzcptcheck says that the kernel there cannot "
				"resume a dump of version 7, as the suspended "
				"container's is (--nodeps=runtime goes on)");
			assert_int_equal(f.v[0].code, E_UNSUPPORTED);
			assert_false(f.v[0].warning);
		}
	}
	ctfix_sh("rm bin/vzcptcheck");
	ct_place_fini(&m.p);
}

/* ---- quota ---- */

static void
test_quota_parse(void **state)
{
	static const struct {
		const char *text;
		uint64_t unit;
		long long soft, hard; /* -1: refused */
	} t[] = {
		{ "1000:2000", 1024, 1000, 2000 },
		{ "2G:2.2G", 1024, 2097152, 2306867 },
		{ "1g", 1024, 1048576, 1048576 },
		{ "2048K:1M", 1024, 2048, 1024 },
		{ "1T", 1024, 1073741824, 1073741824 },
		{ "131072:144179", 1, 131072, 144179 },
		{ "200k", 1, 204800, 204800 },
		{ "0", 1, 0, 0 },
		{ "unlimited", 1, INT64_MAX / 1024, INT64_MAX / 1024 },
		{ "1e99", 1, INT64_MAX / 1024, INT64_MAX / 1024 },
		{ "", 1, -1, 0 },
		{ "x", 1, -1, 0 },
		{ "-1", 1, -1, 0 },
		{ "nan", 1, -1, 0 },
		{ "1:", 1, -1, 0 },
		{ "1:2:3", 1, -1, 0 },
		{ "1 ", 1, -1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint64_t out[2];
		int rc = vzquota_parse(t[i].text, "K", t[i].unit, out, &e);

		if (t[i].soft < 0) {
			char want[64];

			snprintf(want, sizeof(want), "K=\"%s\" is not a limit",
				 t[i].text);
			ctfix_err(rc, &e, E_CONFIG, want);
			continue;
		}
		assert_int_equal(rc, 0);
		assert_int_equal(out[0], t[i].soft);
		assert_int_equal(out[1], t[i].hard);
	}
}

#define QUOTA                            \
	"DISKSPACE=\"2G:2.2G\"\n"        \
	"DISKINODES=\"131072:144179\"\n" \
	"QUOTATIME=\"600\"\n"            \
	"QUOTAUGIDLIMIT=\"50\"\n"

static void
assert_fact(const struct ct *c, bool want)
{
	const struct ct_want w = { .files = c->files, .nfiles = c->nfiles };
	cleanup(free_ptr) char *have = origin_get(&w, "quota", 0);

	assert_int_equal(have != NULL, want);
}

/* Which containers have a second level at all. */
static void
test_quota_wanted(void **state)
{
	static const struct {
		const char *more;
		bool tools, want;
		const char *note; /* or NULL */
	} t[] = {
		{ QUOTA, true, true, NULL },
		{ "QUOTAUGIDLIMIT=\"0\"\n", true, false, NULL },
		{ "", true, false, NULL },
		{ QUOTA "DISK_QUOTA=no\n", true, false, NULL },
		{ QUOTA, false, false,
		  "QUOTAUGIDLIMIT is set, but vzquota is not installed here: "
		  "limits of its users and groups are not carried" },
		{ "QUOTAUGIDLIMIT=10\n", false, false,
		  "QUOTAUGIDLIMIT is set, but vzquota is not installed here: "
		  "limits of its users and groups are not carried" },
	};
	struct ct c;

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		make(t[i].more);
		quota_tools(t[i].tools);
		load(&c, CT_STOPPED);
		assert_fact(&c, t[i].want);
		assert_int_equal(c.nnotes, t[i].note ? 1 : 0);
		if (t[i].note) {
			assert_string_equal(c.notes[0], t[i].note);
		}
		ct_free(&c);
	}
	make("QUOTAUGIDLIMIT=10\n");
	quota_tools(true);
	ctfix_err(KIND->load(&a, "101", &c, &e), &e, E_CONFIG,
		  "container 101 has QUOTAUGIDLIMIT, but no DISKSPACE");
	quota_tools(false);
}

static void
test_quota(void **state)
{
	cleanup(ct_free) struct ct c;
	cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);

	(void)state;
	quota_tools(true);
	make(QUOTA);
	ctfix_sh("vzctl quotainit 101; "
		 "vzquota setlimit2 101 -u 1000 100 200 30 40; "
		 "vzquota setlimit2 101 -g 33 1 2 3 4");
	load(&c, CT_STOPPED);
	stage(&m, &c);
	/* Of a container that had this id before. */
	ctfix_sh("vzquota init 201 -b 1 -B 1 -i 1 -I 1 -e 1 -n 1 -s 0 "
		 "-p b/vz/private");
	assert_int_equal(ctfix_commit(&m), 0);
	ctfix_sh("vzquota show 201 >q; for x in bsoft=2097152 bhard=2306867 "
		 "isoft=131072 ihard=144179 btime=600 itime=600 sub=1 ugids=50 "
		 "on=0 iusage=5 \"path=%s/b/vz/private/201\"; do "
		 "grep -qx \"$x\" q || { echo \"$x\"; cat q; exit 1; }; done; "
		 "test \"$(grep ^ugid: q | xargs)\" = 'ugid: 1000 0 100 200 30 "
		 "40 0 0 ugid: 33 1 1 2 3 4 0 0'; "
		 "test ! -e b/vz/private/201/" VZLUGGAGE_DIR,
		 ctfix_top);
	assert_int_equal(ctfix_uncommit(&m), 0);
	ctfix_sh("! vzquota show 201 2>/dev/null");
	/* A program that fails is an error with a code of its own, and
	 * nothing is registered. */
	undo(&c);
	ctfix_vzctl(&a);
	stage(&m, &c);
	ctfix_sh("cd bin; rm vzdqload; printf '#!/bin/sh\\necho bad news >&2; "
		 "exit 4\\n' >vzdqload; chmod 755 vzdqload");
	ctfix_err(KIND->commit(&b, &m.w, &m.p, m.staged, &e), &e, E_QUOTA,
		  "vzdqload 201 failed with code 4: bad news");
	assert_int_equal(KIND->registered(&b, &m.p, &e), 0);
	assert_int_equal(ctfix_uncommit(&m), 0);
	/* Without the programs there it is said before. */
	quota_tools(false);
	assert_int_equal(KIND->check(&b, &m.w, &m.p, &f, &e), 0);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.v[0].code, E_QUOTA);
	assert_false(f.v[0].warning);
	assert_string_equal(
		f.v[0].text,
		"vzquota is not installed on the destination: limits of the "
		"container's users and groups would be lost (--nodeps=quota "
		"goes without)");
	ct_findings_fini(&f);
	m.w.nodeps = "quota";
	assert_int_equal(KIND->check(&b, &m.w, &m.p, &f, &e), 0);
	assert_int_equal(f.n, 1);
	assert_true(f.v[0].warning);
	assert_int_equal(ctfix_commit(&m), 0);
	ctfix_sh("test ! -e b/vz/private/201/" VZLUGGAGE_DIR "; "
		 "rm -rf b/vz/private/* b/vz/private/.stage b/etc/vz/conf/*");
	ct_place_fini(&m.p);
}

/* One that never was started has no quota file. */
static void
test_no_quota_file(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);

	(void)state;
	quota_tools(true);
	make(QUOTA);
	load(&c, CT_STOPPED);
	stage(&m, &c);
	ctfix_sh("test -z \"$(ls a/vz/private/101/" VZLUGGAGE_DIR ")\"");
	assert_int_equal(ctfix_commit(&m), 0);
	ctfix_sh("! vzquota show 201 2>/dev/null; "
		 "test ! -e b/vz/private/201/" VZLUGGAGE_DIR "; "
		 "rm -rf b/vz/private/* b/vz/private/.stage b/etc/vz/conf/*");
	quota_tools(false);
	ct_place_fini(&m.p);
}

/* A source that sends links in the place of luggage reaches nothing. */
static void
test_hostile_luggage(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	char want[400];

	(void)state;
	quota_tools(true);
	make(QUOTA);
	suspend();
	load(&c, CT_SUSPENDED);
	stage(&m, &c);
	ctfix_sh("mkdir secret; cp -a a/vz/private/101/" VZLUGGAGE_DIR
		 "/dump secret/dump; echo key >secret/quota; "
		 "rm -r %s/" VZLUGGAGE_DIR "; "
		 "ln -s %s/secret %s/" VZLUGGAGE_DIR,
		 m.staged, ctfix_top, m.staged);
	snprintf(want, sizeof(want), "%s/" VZLUGGAGE_DIR " is not a directory",
		 m.p.tree);
	ctfix_err(KIND->commit(&b, &m.w, &m.p, m.staged, &e), &e, E_PROTOCOL,
		  want);
	assert_int_equal(ctfix_uncommit(&m), 0);
	ctfix_sh("test -e secret/dump; test ! -e b/vz/dump/Dump.201; "
		 "rm %s/" VZLUGGAGE_DIR "; mkdir %s/" VZLUGGAGE_DIR "; "
		 "ln -s %s/secret/quota %s/" VZLUGGAGE_DIR "/quota",
		 m.staged, m.staged, ctfix_top, m.staged);
	snprintf(want, sizeof(want), "%s/" VZLUGGAGE_DIR "/quota is not a file",
		 m.p.tree);
	ctfix_err(KIND->commit(&b, &m.w, &m.p, m.staged, &e), &e, E_PROTOCOL,
		  want);
	assert_int_equal(KIND->registered(&b, &m.p, &e), 0);
	quota_tools(false);
	ctfix_sh("rm -rf secret b/vz/private/* b/vz/private/.stage "
		 "b/etc/vz/conf/*");
	ct_place_fini(&m.p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suspended_source),
		cmocka_unit_test(test_suspended_destroy),
		cmocka_unit_test(test_forged),
		cmocka_unit_test(test_resumed_meanwhile),
		cmocka_unit_test(test_stale_dump),
		cmocka_unit_test(test_blocked_before),
		cmocka_unit_test(test_other_file_system),
		cmocka_unit_test(test_suspended_destination),
		cmocka_unit_test(test_suspended_checks),
		cmocka_unit_test(test_cpt_version),
		cmocka_unit_test(test_quota_parse),
		cmocka_unit_test(test_quota_wanted),
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_no_quota_file),
		cmocka_unit_test(test_hostile_luggage),
	};

	need_root();
	return cmocka_run_group_tests(tests, setup, ctfix_teardown);
}
