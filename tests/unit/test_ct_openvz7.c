/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of the kind openvz with containers of OpenVZ 7; vzctl is the
 * stand-in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ct/ct.h"
#include "ct/ctfile.h"
#include "ct/vzconf.h"
#include "ct/vzctl.h"
#include "ct/vzreg.h"
#include "ctfix.h"
#include "needroot.h"

#define KIND ct_kind_find("openvz")
#define U "5e1c9a8b-3c1f-4d5e-9f10-0a1b2c3d4e5f"
#define U2 "0f0e0d0c-0b0a-4908-8706-050403020100"

static struct ct_host a, b;
static struct err e;

static void
versions(const char *on_a, const char *on_b)
{
	ctfix_sh("echo %s >a/etc/vz/vzctl-version; "
		 "echo %s >b/etc/vz/vzctl-version",
		 on_a, on_b);
}

/* Container U named "web 7" on host a, as OpenVZ 7 has it. */
static void
make(void)
{
	ctfix_vzctl(&a);
	versions("7.0.194", "7.0.220");
	ctfix_sh("rm -rf a/vz/private/* a/etc/vz/conf/* a/etc/vz/names/*; "
		 "p=a/vz/private/" U "; mkdir -p $p/fs/etc $p/dump $p/scripts; "
		 "ln -s 5 $p/.ve.layout; echo hello >$p/fs/etc/motd; "
		 "printf '#!/bin/sh\\nexit 1\\n' >$p/scripts/mount; "
		 "cat >$p/ve.conf <<'END'\n"
		 "# keep  me\n"
		 "ONBOOT=\"yes\"\n"
		 "VE_ROOT=\"%s/a/vz/root/$VEID\"\n"
		 "NAME=\"web 7\"\n"
		 "UUID=\"" U "\"\n"
		 "NETIF=\"ifname=eth0,bridge=vzbr0,mac=00:18:51:AA:BB:CC,"
		 "ip=2001:db8::7/64\"\n"
		 "IP_ADDRESS=\"10.0.7.1/255.255.255.0\"\n"
		 "END\n"
		 "vzctl register $p " U,
		 ctfix_top);
}

static int
setup(void **state)
{
	return ctfix_setup_hosts(state, &a, &b);
}

static void
test_ctid(void **state)
{
	static const struct {
		const char *word, *want; /* NULL: none */
	} t[] = {
		{ U, U },
		{ "{" U "}", U },
		{ "5E1C9A8B-3C1F-4D5E-9F10-0A1B2C3D4E5F", U },
		{ "0101", "101" },
		{ "{101}", NULL },
		{ "{" U, NULL },
		{ U "0", NULL },
		{ "5e1c9a8b-3c1f-4d5e-9f10-0a1b2c3d4e5g", NULL },
		{ "5e1c9a8b3-c1f-4d5e-9f10-0a1b2c3d4e5f", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cleanup(free_ptr) char *got = vzconf_ctid(t[i].word, NULL);

		assert_int_equal(vzconf_is_ctid(t[i].word), t[i].want != NULL);
		if (t[i].want) {
			assert_string_equal(got, t[i].want);
		} else {
			assert_null(got);
		}
	}
	assert_false(vzconf_name_ok(U));
	assert_false(vzconf_name_ok("{" U "}"));
}

static void
test_load(void **state)
{
	static const char *const words[] = {
		U,	 "{" U "}", "5E1C9A8B-3C1F-4D5E-9F10-0A1B2C3D4E5F",
		"web 7", "path",
	};
	char path[300], want[300];

	(void)state;
	make();
	snprintf(path, sizeof(path), "%s/a/vz/private/" U, ctfix_top);
	snprintf(want, sizeof(want), "%s/a/vz/root/" U, ctfix_top);
	for (size_t i = 0; i < 5; i++) {
		cleanup(ct_free) struct ct c;
		const char *w = i == 4 ? path : words[i];
		const struct ct_file *f;

		assert_int_equal(KIND->probe(&a, w, &e), 1);
		assert_int_equal(KIND->load(&a, w, &c, &e), 0);
		assert_string_equal(c.id, U);
		assert_string_equal(c.name, "web 7");
		assert_string_equal(c.tree, path);
		assert_string_equal(c.mount_root, want);
		assert_int_equal(c.state, CT_STOPPED);
		assert_true(c.autostart);
		/* Scripts are in the tree; nothing goes beside it. */
		assert_int_equal(c.nfiles, 2);
		f = ctfile_find(c.files, c.nfiles, "origin");
		assert_non_null(memmem(f->data, f->len, "\nlayout 5\n", 10));
		assert_non_null(
			memmem(f->data, f->len, "ip 2001:db8::7/64\n", 18));
		assert_non_null(memmem(f->data, f->len, "ip 10.0.7.1/255", 15));
		assert_int_equal(c.nnotes, 0);
	}
	/* The name alone, without its ve.conf saying so, is none. */
	ctfix_sh("mv 'a/etc/vz/names/web 7' a/etc/vz/names/other");
	assert_int_equal(KIND->probe(&a, "other", &e), 0);
}

static void
test_states(void **state)
{
	struct ct c;

	(void)state;
	make();
	ctfix_sh("echo 0123456789abcdef >a/vz/private/" U "/dump/Dump");
	assert_int_equal(KIND->load(&a, U, &c, &e), 0);
	assert_int_equal(c.state, CT_SUSPENDED);
	/* It is in the tree already. */
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	ctfix_sh("test -e a/vz/private/" U "/dump/Dump; "
		 "test ! -e a/vz/private/" U "/.vzmigrate-luggage; "
		 "test \"$(ls a/etc/vz/conf)\" = " U ".conf.vzmigrate-blocked; "
		 "test \"$(vzctl status " U ")\" = "
		 "'VEID " U " deleted unmounted down'");
	assert_int_equal(KIND->unblock(&a, &c, &e), 0);
	ct_free(&c);
	ctfix_sh("rm a/vz/private/" U "/dump/Dump; chmod +x a/vz/private/" U
		 "/scripts/mount; echo 'exit 0' >a/vz/private/" U
		 "/scripts/mount; vzctl mount " U);
	assert_int_equal(KIND->load(&a, U, &c, &e), 0);
	assert_int_equal(c.state, CT_MOUNTED);
	assert_int_equal(KIND->stop(&a, &c, 1000, &e), 0);
	ct_free(&c);
	ctfix_sh("mv bin/vzctl bin/vzctl.away; printf '#!/bin/sh\\n"
		 "echo VEID " U " exist mounted paused\\n' >bin/vzctl; "
		 "chmod +x bin/vzctl");
	ctfix_err(KIND->load(&a, U, &c, &e), &e, E_STATE,
		  "container " U " is paused; resume it first (vzctl start " U
		  ")");
	ctfix_sh("mv bin/vzctl.away bin/vzctl");
}

static void
test_marks(void **state)
{
	cleanup(ct_free) struct ct c;
	char *before, *after;

	(void)state;
	make();
	before = ctfix_sum("%s/a", ctfix_top);
	assert_int_equal(KIND->load(&a, "web 7", &c, &e), 0);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_false(ctfix_ok("vzctl start " U));
	assert_false(ctfix_ok("vzctl start 'web 7'"));
	assert_int_equal(KIND->retire(&a, &c, "s-1", &e), 0);
	assert_int_equal(KIND->probe(&a, U, &e), 2);
	assert_int_equal(KIND->unretire(&a, &c, "s-1", &e), 0);
	assert_int_equal(KIND->unblock(&a, &c, &e), 0);
	after = ctfix_sum("%s/a", ctfix_top);
	assert_string_equal(before, after);
	free(before);
	free(after);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_int_equal(KIND->retire(&a, &c, "s-1", &e), 0);
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	ctfix_sh("test -z \"$(ls -A a/etc/vz/conf a/etc/vz/names "
		 "a/vz/private | grep -v :)\"");
}

static void
stage(struct ctfix_move *m)
{
	snprintf(m->staged, sizeof(m->staged), "%s/.stage/root",
		 m->p.stage_dir);
	ctfix_sh("rm -rf b/vz/private/* %s/.stage; mkdir -m 700 %s/.stage; "
		 "cp -a a/vz/private/" U " %s",
		 m->p.stage_dir, m->p.stage_dir, m->staged);
}

/* Nothing of it is known to the host, and the tree is staged. */
static void
assert_undone(const struct ctfix_move *m)
{
	ctfix_sh("rm -f b/lock/* b/etc/vz/conf/.vzmigrate-new; "
		 "test -z \"$(ls -A b/etc/vz/conf b/etc/vz/names "
		 "| grep -v :)\"; test -e %s/fs/etc/motd; "
		 "test -z \"$(ls b/vz/private)\"",
		 m->staged);
}

static void
assert_registered(const char *id)
{
	ctfix_sh("p=%s/b/vz/private/%s; "
		 "test \"$(readlink b/etc/vz/conf/%s.conf)\" = $p/ve.conf; "
		 "test \"$(readlink 'b/etc/vz/names/web 7')\" = $p/ve.conf; "
		 "test \"$(vzctl status %s)\" = "
		 "'VEID %s exist unmounted down'; "
		 "test \"$(vzctl status 'web 7')\" = "
		 "'VEID %s exist unmounted down'; "
		 "test ! -e b/etc/vz/conf/%s.vzmigrate-commit",
		 ctfix_top, id, id, id, id, id, id);
}

static void
commit_all_ways(const char *new_id)
{
	const char *id = new_id ? new_id : U;
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	int rc = 0, n;

	make();
	assert_int_equal(KIND->load(&a, U, &c, &e), 0);
	ctfix_vzctl(&b);
	m.w = ctfix_want(&c);
	m.w.new_id = new_id;
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	assert_string_equal(m.p.id, id);
	stage(&m);
	for (n = 1; ctfix_die_at(n, ctfix_commit, &m, &rc); n++) {
		assert_true(n < 60);
		assert_int_equal(ctfix_uncommit(&m), 0);
		assert_int_equal(ctfix_uncommit(&m), 0);
		assert_undone(&m);
		assert_true(ctfix_die_at(n, ctfix_commit, &m, &rc));
		assert_int_equal(ctfix_commit(&m), 0);
		assert_int_equal(ctfix_commit(&m), 0);
		assert_registered(id);
		assert_int_equal(KIND->registered(&b, &m.p, &e), 1);
		assert_int_equal(ctfix_uncommit(&m), 0);
		assert_int_equal(KIND->registered(&b, &m.p, &e), 0);
		stage(&m); /* unregister took VEID out of ve.conf */
	}
	assert_int_equal(rc, 0);
	assert_true(n > 5);
	assert_int_equal(ctfix_uncommit(&m), 0);
	stage(&m);
	assert_int_equal(ctfix_commit(&m), 0);
	for (n = 1; ctfix_die_at(n, ctfix_uncommit, &m, &rc); n++) {
		assert_true(n < 60);
		assert_int_equal(ctfix_uncommit(&m), 0);
		assert_undone(&m);
		assert_int_equal(ctfix_commit(&m), 0);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(ctfix_commit(&m), 0);
	assert_registered(id);
	ct_place_fini(&m.p);
}

static void
test_commit(void **state)
{
	char *got, want[700];

	(void)state;
	commit_all_ways(NULL);
	got = ctfix_read("%s/b/vz/private/" U "/ve.conf", ctfix_top);
	snprintf(want, sizeof(want),
		 "# keep  me\n"
		 "ONBOOT=\"yes\"\n"
		 "NAME=\"web 7\"\n"
		 "UUID=\"" U "\"\n"
		 "NETIF=\"ifname=eth0,bridge=vzbr0,mac=00:18:51:AA:BB:CC,"
		 "ip=2001:db8::7/64\"\n"
		 "IP_ADDRESS=\"10.0.7.1/255.255.255.0\"\n"
		 "VEID=\"" U "\"\n"
		 "VE_PRIVATE=\"%s/b/vz/private/$VEID\"\n",
		 ctfix_top);
	assert_string_equal(got, want);
	free(got);
	/* What lies there now is not what is asked for. */
	ctfix_sh("rm -rf b/vz/private/* b/vz/private/.stage b/etc/vz/conf/* "
		 "b/etc/vz/names/*");
}

static void
test_commit_new_id(void **state)
{
	(void)state;
	commit_all_ways(U2);
	ctfix_sh("grep -qx 'VEID=\"" U2 "\"' b/vz/private/" U2 "/ve.conf; "
		 "grep -qx 'UUID=\"" U2 "\"' b/vz/private/" U2 "/ve.conf; "
		 "rm -rf b/vz/private/* b/vz/private/.stage b/etc/vz/conf/* "
		 "b/etc/vz/names/*");
}

static void
test_register_fails(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	char want[400];

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, U, &c, &e), 0);
	ctfix_vzctl(&b);
	m.w = ctfix_want(&c);
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	stage(&m);
	ctfix_sh("rm %s/.ve.layout", m.staged);
	snprintf(want, sizeof(want),
		 "vzctl register %s/b/vz/private/" U
		 " failed with code 255: Warning: Container in old data "
		 "format, registration skipped.",
		 ctfix_top);
	ctfix_err(KIND->commit(&b, &m.w, &m.p, m.staged, &e), &e, E_CONFIG,
		  want);
	assert_int_equal(KIND->registered(&b, &m.p, &e), 0);
	assert_int_equal(ctfix_uncommit(&m), 0);
	assert_undone(&m);
	/* Another one has the CTID: it stays as it is. */
	ctfix_sh("mkdir b/vz/other; echo A=b >b/vz/other/ve.conf; "
		 "ln -s ../../../vz/other/ve.conf b/etc/vz/conf/" U ".conf");
	assert_int_equal(ctfix_commit(&m), E_EXISTS);
	assert_int_equal(ctfix_uncommit(&m), 0);
	ctfix_sh("test -L b/etc/vz/conf/" U ".conf; test -e %s/fs; "
		 "rm -rf b/vz/other b/etc/vz/conf/* b/vz/private/.stage",
		 m.staged);
	ct_place_fini(&m.p);
}

/* Each layout goes only to a vzctl that knows it. */
static void
test_versions(void **state)
{
	static const struct {
		bool old;	    /* a container of before 7 */
		const char *there;  /* vzctl */
		const char *new_id; /* or NULL */
		int code;
		const char *text; /* NULL: no finding */
	} t[] = {
		{ false, "7.0.220", NULL, 0, NULL },
		{ false, "8.0.1", NULL, 0, NULL },
		{ false, "4.11.1", NULL, E_UNSUPPORTED,
		  "the container has the layout of OpenVZ 7, which vzctl 4 on "
		  "the destination does not know" },
		{ true, "7.0.220", NULL, E_UNSUPPORTED,
		  "the container has the layout of OpenVZ before 7, which "
		  "OpenVZ 7 does not run" },
		{ true, "3.0.30", U2, E_USAGE,
		  U2 " cannot be a CTID there: vzctl 3 takes numbers only; "
		     "choose one with --new-id" },
		{ true, "4.11.1", NULL, 0, NULL },
		{ true, "strange", NULL, E_CONFIG,
		  "vzctl --version says 'vzctl version strange'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };
		cleanup(ct_free) struct ct c;
		struct ctfix_move m = CTFIX_MOVE(KIND, &b);

		make();
		if (t[i].old) {
			versions("4.11.1", "");
			ctfix_sh("rm a/etc/vz/names/*; mkdir a/vz/private/101; "
				 "touch a/etc/vz/conf/101.conf");
		}
		assert_int_equal(KIND->load(&a, t[i].old ? "101" : U, &c, &e),
				 0);
		versions("4.11.1", t[i].there);
		ctfix_vzctl(&b);
		m.w = ctfix_want(&c);
		m.w.new_id = t[i].new_id;
		assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
		assert_int_equal(KIND->check(&b, &m.w, &m.p, &f, &e), 0);
		/* The bridge of the network is another matter. */
		assert_int_equal(f.n, (t[i].text != NULL) + !t[i].old);
		if (t[i].text) {
			assert_string_equal(f.v[0].text, t[i].text);
			assert_int_equal(f.v[0].code, t[i].code);
			assert_false(f.v[0].warning);
		}
		ct_place_fini(&m.p);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ctid),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_commit),
		cmocka_unit_test(test_commit_new_id),
		cmocka_unit_test(test_register_fails),
		cmocka_unit_test(test_versions),
	};

	need_root();
	return cmocka_run_group_tests(tests, setup, ctfix_teardown);
}
