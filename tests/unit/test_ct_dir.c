/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of the kind dir, and of the detection across all kinds. */
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
#include "ctfix.h"
#include "needroot.h"

#define KIND ct_kind_find("dir")

static struct ct_host a, b;
static struct err e;

static const char *
path(const char *rel)
{
	static char p[4][300];
	static unsigned i;

	i = (i + 1) % 4;
	snprintf(p[i], sizeof(p[i]), "%s/%s", ctfix_top, rel);
	return p[i];
}

static int
setup(void **state)
{
	if (ctfix_setup_hosts(state, &a, &b) < 0) {
		return -1;
	}
	ctfix_sh("mkdir -p a/data/x; echo hello >a/data/x/f");
	return 0;
}

static void
test_load(void **state)
{
	cleanup(ct_free) struct ct c;

	(void)state;
	ctfix_sh("ln -s data a/link; mkdir a/data/x/m; "
		 "mount -t tmpfs y a/data/x/m");
	assert_int_equal(KIND->load(&a, path("a/link//x/"), &c, &e), 0);
	assert_string_equal(c.id, path("a/data/x"));
	assert_string_equal(c.tree, c.id);
	assert_int_equal(c.state, CT_STOPPED);
	assert_int_equal(c.nfiles, 1);
	assert_non_null(ctfile_find(c.files, c.nfiles, "origin"));
	assert_int_equal(c.nnotes, 1);
	assert_non_null(strstr(c.notes[0], "a/data/x/m (tmpfs) inside the tree "
					   "is not carried"));
	ctfix_sh("umount a/data/x/m; rmdir a/data/x/m; rm a/link");
	assert_false(KIND->remove_default);
}

static void
test_refused(void **state)
{
	struct ct c;
	char want[500];

	(void)state;
	ctfix_err(KIND->load(&a, "", &c, &e), &e, E_USAGE,
		  "the directory to move is empty");
	ctfix_err(KIND->load(&a, "/", &c, &e), &e, E_USAGE,
		  "the directory to move cannot be the root directory");
	ctfix_err(KIND->load(&a, "a/data", &c, &e), &e, E_USAGE,
		  "the directory to move must be an absolute path: a/data");
	ctfix_err(KIND->load(&a, "/srv/../etc", &c, &e), &e, E_USAGE,
		  "the directory to move must not contain '..': /srv/../etc");
	ctfix_sh("ln -s / a/root");
	snprintf(want, sizeof(want),
		 "%s/a/root is the root directory, which cannot be moved",
		 ctfix_top);
	ctfix_err(KIND->load(&a, path("a/root"), &c, &e), &e, E_USAGE, want);
	ctfix_sh("rm a/root");
	snprintf(want, sizeof(want), "there is no directory %s/a/gone",
		 ctfix_top);
	ctfix_err(KIND->load(&a, path("a/gone"), &c, &e), &e, E_NOT_FOUND,
		  want);
	snprintf(want, sizeof(want), "%s/a/data/x/f is not a directory",
		 ctfix_top);
	ctfix_err(KIND->load(&a, path("a/data/x/f"), &c, &e), &e, E_USAGE,
		  want);
}

#define MOVE_BY_NAME "; move a container by its name, without --kind=dir"

static void
test_holds(void **state)
{
	static const struct {
		const char *dir, *what;
	} t[] = {
		{ "a/lxc", "it holds the lxc container " },
		{ "a/lxc/web", "it holds the lxc container web" },
		{ "a/lxc/web/rootfs", "it holds the lxc container web" },
		{ "a/far", "it holds the lxc container out" },
		{ "a/vz", "it holds the openvz container 101" },
		{ "a/vz/private", "it holds the openvz container 101" },
		{ "a/vz/private/101", "it holds the openvz container 101" },
		{ "a", "it holds the lxc container " },
		{ "b/lxc", NULL },
		{ "a/lxc/web/rootfs/srv", NULL },
		{ "a/vz/private/101/srv", NULL },
		{ "a/vz/private/stray", NULL },
	};

	(void)state;
	ctfix_sh("mkdir -p a/lxc/web/rootfs/srv a/lxc/out a/far/away "
		 "a/vz/private/101/srv a/vz/private/stray; "
		 "echo lxc.rootfs.path=dir:%s/a/lxc/web/rootfs "
		 ">a/lxc/web/config; "
		 "echo lxc.rootfs.path=%s/a/far/away >a/lxc/out/config; "
		 "touch a/etc/vz/conf/101.conf.migrated",
		 ctfix_top, ctfix_top);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct ct c = { 0 };
		char want[500];
		int rc = KIND->load(&a, path(t[i].dir), &c, &e);

		if (!t[i].what) {
			assert_string_equal(e.text, "");
			assert_int_equal(rc, 0);
			ct_free(&c);
			continue;
		}
		snprintf(want, sizeof(want),
			 "%s/%s cannot be moved as a directory: %s", ctfix_top,
			 t[i].dir, t[i].what);
		assert_int_equal(rc, E_USAGE);
		assert_memory_equal(e.text, want, strlen(want));
		assert_non_null(strstr(e.text, MOVE_BY_NAME));
		err_clear(&e);
		assert_int_equal(KIND->probe(&a, path(t[i].dir), &e), 0);
	}
	ctfix_sh("rm -r a/lxc/* a/far a/etc/vz/conf/101* a/vz/private/*");
}

/* Empty, they are still where containers belong. */
static void
test_base(void **state)
{
	struct ct c;
	char want[500];

	(void)state;
	snprintf(want, sizeof(want),
		 "%s/a/lxc cannot be moved as a directory: it holds %s/a/lxc, "
		 "where the lxc containers are" MOVE_BY_NAME,
		 ctfix_top, ctfix_top);
	ctfix_err(KIND->load(&a, path("a/lxc"), &c, &e), &e, E_USAGE, want);
	snprintf(
		want, sizeof(want),
		"%s/a/vz cannot be moved as a directory: it holds "
		"%s/a/vz/private, where the openvz containers are" MOVE_BY_NAME,
		ctfix_top, ctfix_top);
	ctfix_err(KIND->load(&a, path("a/vz"), &c, &e), &e, E_USAGE, want);
}

/* Our own journals are neither moved nor overlaid. */
static void
test_state_dir(void **state)
{
	struct ct_findings f = { 0 };
	struct ct_want w = { .id = "/x" };
	struct ct_place p = { 0 };
	struct ct c;
	char want[500];

	(void)state;
	snprintf(want, sizeof(want),
		 "%s/a/state cannot be moved: it holds %s/a/state, where "
		 "vzmigrate keeps its journals",
		 ctfix_top, ctfix_top);
	ctfix_err(KIND->load(&a, path("a/state"), &c, &e), &e, E_USAGE, want);
	w.new_private = path("a/state/sessions/x");
	assert_int_equal(KIND->place(&a, &w, &p, &e), 0);
	assert_int_equal(KIND->check(&a, &w, &p, &f, &e), 0);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.v[0].code, E_USAGE);
	snprintf(want, sizeof(want),
		 "%s/a/state/sessions/x is in %s/a/state, where vzmigrate "
		 "keeps its journals; name another place",
		 ctfix_top, ctfix_top);
	assert_string_equal(f.v[0].text, want);
	ct_findings_fini(&f);
	ct_place_fini(&p);
}

struct op {
	int (*fn)(const struct ct_host *h, const struct ct *c, struct err *e);
	int (*tagged)(const struct ct_host *h, const struct ct *c,
		      const char *tag, struct err *e);
	const struct ct *c;
};

static int
run_op(void *arg)
{
	struct op *o = arg;

	return o->fn ? o->fn(&a, o->c, NULL) : o->tagged(&a, o->c, "s-1", NULL);
}

static void
all_ways(struct op o)
{
	int rc = 0, n = 1;

	while (ctfix_die_at(n, run_op, &o, &rc)) {
		assert_true(n++ < 50);
		assert_int_equal(run_op(&o), 0);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(run_op(&o), 0);
}

static void
test_marks(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ct d;
	char *before, *after, want[400];

	(void)state;
	before = ctfix_sum("%s/a/data", ctfix_top);
	assert_int_equal(KIND->load(&a, path("a/data/x"), &c, &e), 0);
	snprintf(want, sizeof(want),
		 "%s/a/data/x is not moved away, so it is not destroyed",
		 ctfix_top);
	ctfix_err(KIND->destroy(&a, &c, &e), &e, E_STATE, want);
	all_ways((struct op){ .fn = KIND->block, .c = &c });
	assert_int_equal(KIND->load(&a, path("a/data/x"), &d, &e), 0);
	assert_int_equal(d.mark, CT_BLOCKED);
	ct_free(&d);
	ctfix_err(KIND->destroy(&a, &c, &e), &e, E_STATE, want);
	all_ways((struct op){ .tagged = KIND->retire, .c = &c });
	/* Kept, it may be sent again. */
	assert_int_equal(KIND->load(&a, path("a/data/x"), &d, &e), 0);
	assert_int_equal(d.mark, CT_FREE);
	assert_string_equal(d.tag, "s-1");
	assert_int_equal(d.nnotes, 0);
	ct_free(&d);
	all_ways((struct op){ .tagged = KIND->unretire, .c = &c });
	all_ways((struct op){ .fn = KIND->unblock, .c = &c });
	after = ctfix_sum("%s/a/data", ctfix_top);
	assert_string_equal(before, after);
	free(before);
	free(after);
	assert_true(ctfix_ok("test -z \"$(ls a/state/dir/*.mark)\""));
	/* Damaged. */
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	ctfix_sh("echo x >$(echo a/state/dir/*.mark)");
	assert_int_equal(KIND->load(&a, path("a/data/x"), &d, &e), E_CORRUPT);
	assert_non_null(strstr(e.text, ".mark is damaged; remove it"));
	err_clear(&e);
	ctfix_sh("rm a/state/dir/*.mark");
}

static void
test_destroy(void **state)
{
	cleanup(ct_free) struct ct c;

	(void)state;
	ctfix_sh("cp -a a/data/x a/data/y");
	assert_int_equal(KIND->load(&a, path("a/data/y"), &c, &e), 0);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_int_equal(KIND->retire(&a, &c, "s", &e), 0);
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	ctfix_sh("test ! -e a/data/y; test -e a/data/x/f; "
		 "test -z \"$(ls a/state/dir)\"");
}

static void
test_lock(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ct_host h = a;
	char want[300];
	int fd, fd2;

	(void)state;
	h.lock_dir = path("a/lock");
	assert_int_equal(KIND->load(&h, path("a/data/x"), &c, &e), 0);
	assert_int_equal(KIND->lock(&h, &c, &fd, &e), 0);
	assert_int_equal(KIND->lock(&h, &c, &fd2, &e), E_BUSY);
	snprintf(want, sizeof(want), "dir %s/a/data/x is locked by pid %d (",
		 ctfix_top, (int)getpid());
	assert_memory_equal(e.text, want, strlen(want));
	err_clear(&e);
	KIND->unlock(&h, &c, fd);
	ctfix_sh("rm -r a/lock; touch a/lock");
	snprintf(want, sizeof(want),
		 "the lock directory %s/a/lock cannot be used: Not a "
		 "directory",
		 ctfix_top);
	h.lock_dir = path("a/lock");
	assert_int_equal(KIND->lock(&h, &c, &fd, &e), E_CONFIG);
	err_clear(&e);
	ctfix_sh("rm a/lock; mkdir a/lock");
}

static void
test_commit(void **state)
{
	cleanup(ct_free) struct ct c;
	cleanup(ct_place_fini) struct ct_place p = { 0 };
	struct ct_want w;
	const char *staged = path("b/.stage/root");
	char dst[300], want[400];

	(void)state;
	assert_int_equal(KIND->load(&a, path("a/data/x"), &c, &e), 0);
	w = ctfix_want(&c);
	snprintf(dst, sizeof(dst), "%s/b/new/er", ctfix_top);
	w.new_id = dst;
	assert_int_equal(KIND->place(&b, &w, &p, &e), 0);
	assert_string_equal(p.tree, dst);
	assert_string_equal(p.stage_dir, path("b"));
	ctfix_sh("mkdir -p b/.stage/root; echo hi >b/.stage/root/f");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(KIND->registered(&b, &p, &e), 0);
		assert_int_equal(KIND->commit(&b, &w, &p, staged, &e), 0);
		assert_int_equal(KIND->commit(&b, &w, &p, staged, &e), 0);
		assert_int_equal(KIND->registered(&b, &p, &e), 1);
		ctfix_sh("test -e b/new/er/f; test ! -e b/.stage/root");
		assert_int_equal(KIND->uncommit(&b, &w, &p, staged, &e), 0);
		assert_int_equal(KIND->uncommit(&b, &w, &p, staged, &e), 0);
		ctfix_sh("test ! -e b/new/er; test -e b/.stage/root/f");
	}
	ctfix_sh("mkdir b/new/er");
	snprintf(want, sizeof(want), "%s exists", dst);
	ctfix_err(KIND->commit(&b, &w, &p, staged, &e), &e, E_EXISTS, want);
	ctfix_sh("rm -r b/new b/.stage");
	snprintf(want, sizeof(want), "neither %s nor %s is there", staged, dst);
	ctfix_err(KIND->commit(&b, &w, &p, staged, &e), &e, E_NOT_FOUND, want);
}

/* On one machine: equal on both sides, inside itself; and what is in the
 * way. */
static void
test_check(void **state)
{
	static const struct {
		const char *dst;
		int code;
		const char *text;
	} t[] = {
		{ "a/data/x", E_USAGE,
		  "is the directory to be moved itself, "
		  "or inside it; name another place" },
		{ "a/data/x/in/side", E_USAGE,
		  "is the directory to be moved itself, or inside it; name "
		  "another place" },
		{ "a/data", E_EXISTS,
		  "is there already; remove it, or name another place" },
		{ "b/dangling", E_EXISTS,
		  "is a dangling symlink; remove it, or name another place" },
		{ "b/fine", 0, NULL },
	};
	cleanup(ct_free) struct ct c;
	struct ct_want w;

	(void)state;
	ctfix_sh("ln -s /nowhere b/dangling");
	assert_int_equal(KIND->load(&a, path("a/data/x"), &c, &e), 0);
	w = ctfix_want(&c);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		cleanup(ct_place_fini) struct ct_place p = { 0 };
		cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };
		char want[400];

		w.new_id = path(t[i].dst);
		assert_int_equal(KIND->place(&b, &w, &p, &e), 0);
		assert_int_equal(KIND->check(&b, &w, &p, &f, &e), 0);
		assert_int_equal(f.n, t[i].code != 0);
		if (f.n) {
			snprintf(want, sizeof(want), "%s/%s %s", ctfix_top,
				 t[i].dst, t[i].text);
			assert_string_equal(f.v[0].text, want);
			assert_int_equal(f.v[0].code, t[i].code);
		}
	}
	ctfix_sh("rm b/dangling");
}

static void
test_place_refused(void **state)
{
	struct ct_want w = { .id = "/x" };
	struct ct_place p;

	(void)state;
	w.new_id = "/";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "the directory on the destination cannot be the root "
		  "directory");
	w.new_id = "";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "the directory on the destination is empty");
	w.new_id = "x/y";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "the directory on the destination must be an absolute path: "
		  "x/y");
	w.new_id = "/x/../..";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "the directory on the destination must not contain '..': "
		  "/x/../..");
	w.new_id = NULL;
	w.new_name = "n";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "--new-name has no meaning for a plain directory");
	w.new_name = NULL;
	w.new_root = "/r";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "--new-root has no meaning for a plain directory");
}

static void
test_detect(void **state)
{
	const struct ct_kind *k = NULL;
	char want[500];

	(void)state;
	ctfix_sh("mkdir -p a/lxc/101/rootfs a/lxc/db; "
		 "touch a/lxc/101/config a/lxc/db/config "
		 "a/etc/vz/conf/101.conf a/etc/vz/conf/102.conf; "
		 "ln -s %s/a/etc/vz/conf/102.conf a/etc/vz/names/web",
		 ctfix_top);
	assert_int_equal(ct_detect(&a, "db", &k, &e), 0);
	assert_string_equal(k->name, "lxc");
	assert_int_equal(ct_detect(&a, "102", &k, &e), 0);
	assert_string_equal(k->name, "openvz");
	assert_int_equal(ct_detect(&a, "web", &k, &e), 0);
	assert_string_equal(k->name, "openvz");
	assert_int_equal(ct_detect(&a, path("a/lxc/db"), &k, &e), 0);
	assert_string_equal(k->name, "lxc");
	assert_int_equal(ct_detect(&a, path("a/data/x"), &k, &e), 0);
	assert_string_equal(k->name, "dir");
	ctfix_err(ct_detect(&a, "101", &k, &e), &e, E_USAGE,
		  "101 is more than one container here; say which with "
		  "--kind=openvz or --kind=lxc");
	/* What was moved away does not stand in the way, but is found. */
	ctfix_sh("mv a/lxc/101/config a/lxc/101/config.migrated");
	assert_int_equal(ct_detect(&a, "101", &k, &e), 0);
	assert_string_equal(k->name, "openvz");
	ctfix_sh("rm a/etc/vz/conf/101.conf");
	assert_int_equal(ct_detect(&a, "101", &k, &e), 0);
	assert_string_equal(k->name, "lxc");
	snprintf(want, sizeof(want),
		 "there is no container nosuch: looked in %s/a/lxc (lxc) and "
		 "by %s (openvz)",
		 ctfix_top, a.vz_conf);
	ctfix_err(ct_detect(&a, "nosuch", &k, &e), &e, E_NOT_FOUND, want);
	ctfix_err(ct_detect(&a, "", &k, &e), &e, E_USAGE,
		  "the container's name is empty");
	assert_null(ct_kind_find("nspawn"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_holds),
		cmocka_unit_test(test_state_dir),
		cmocka_unit_test(test_base),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_destroy),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_commit),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_place_refused),
		cmocka_unit_test(test_detect),
	};

	need_root();
	return cmocka_run_group_tests(tests, setup, ctfix_teardown);
}
