/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of the kind lxc, with a false lxc-info; the real one is in
 * tests/e2e/t_ct.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ct.h"
#include "ct/ctfile.h"
#include "ct/lxc.h"
#include "ctfix.h"
#include "needroot.h"

#define KIND ct_kind_find("lxc")

static struct ct_host a, b;
static struct err e;

/* A plain container `name` on host a. */
static void
make(const char *name)
{
	ctfix_sh("rm -rf a/lxc/%s; mkdir -p a/lxc/%s/rootfs/etc a/shared && "
		 "echo hello >a/lxc/%s/rootfs/etc/motd && "
		 "chmod 750 a/lxc/%s && touch a/shared/inc a/shared/hook && "
		 "printf 'lxc.uts.name = %s\\n"
		 "lxc.rootfs.path = dir:%s/a/lxc/%s/rootfs\\n' "
		 ">a/lxc/%s/config && chmod 640 a/lxc/%s/config",
		 name, name, name, name, name, ctfix_top, name, name, name);
}

static void
add(const char *name, const char *line)
{
	ctfix_sh("echo '%s' >>a/lxc/%s/config", line, name);
}

static bool
has_note(const struct ct *c, const char *want)
{
	for (size_t i = 0; i < c->nnotes; i++) {
		if (strcmp(c->notes[i], want) == 0) {
			return true;
		}
	}
	return false;
}

static int
setup(void **state)
{
	return ctfix_setup_hosts(state, &a, &b);
}

static void
test_load(void **state)
{
	cleanup(ct_free) struct ct c;
	char want[300];

	(void)state;
	make("web");
	add("web", "lxc.start.auto = 1");
	add("web", "lxc.net.0.link = lxcbr0");
	ctfix_sh("echo x >a/lxc/web/fstab; mkdir a/lxc/web/snaps; "
		 "ln -s x a/lxc/web/link; "
		 "truncate -s 1048577 a/lxc/web/big.log");
	ctfix_lxc_says("RUNNING");
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	ctfix_lxc_says("STOPPED");
	assert_string_equal(c.id, "web");
	assert_null(c.name);
	snprintf(want, sizeof(want), "%s/a/lxc/web/rootfs", ctfix_top);
	assert_string_equal(c.tree, want);
	assert_int_equal(c.state, CT_RUNNING);
	assert_int_equal(c.mark, CT_FREE);
	assert_true(c.autostart);
	assert_int_equal(c.nfiles, 3);
	assert_non_null(ctfile_find(c.files, c.nfiles, "config"));
	assert_int_equal(ctfile_find(c.files, c.nfiles, "config")->mode, 0640);
	assert_non_null(ctfile_find(c.files, c.nfiles, "extra/fstab"));
	assert_non_null(ctfile_find(c.files, c.nfiles, "origin"));
	snprintf(want, sizeof(want),
		 "%s/a/lxc/web/snaps is not carried (a "
		 "directory)",
		 ctfix_top);
	assert_true(has_note(&c, want));
	snprintf(want, sizeof(want),
		 "%s/a/lxc/web/link is not carried (no "
		 "regular file)",
		 ctfix_top);
	assert_true(has_note(&c, want));
	snprintf(want, sizeof(want),
		 "%s/a/lxc/web/big.log is not carried (too "
		 "large)",
		 ctfix_top);
	assert_true(has_note(&c, want));
	assert_int_equal(c.nnotes, 3);
}

static void
test_load_by_path(void **state)
{
	cleanup(ct_free) struct ct c;
	char path[300];

	(void)state;
	make("web");
	snprintf(path, sizeof(path), "%s/a/lxc/web", ctfix_top);
	assert_int_equal(KIND->probe(&a, path, &e), 1);
	assert_int_equal(KIND->load(&a, path, &c, &e), 0);
	assert_string_equal(c.id, "web");
}

static void
test_not_found(void **state)
{
	struct ct c;
	char want[300];

	(void)state;
	snprintf(want, sizeof(want),
		 "there is no lxc container nosuch: no configuration in "
		 "%s/a/lxc/nosuch",
		 ctfix_top);
	ctfix_err(KIND->load(&a, "nosuch", &c, &e), &e, E_NOT_FOUND, want);
	ctfix_err(KIND->load(&a, "../web", &c, &e), &e, E_NOT_FOUND,
		  "there is no lxc container ../web");
	assert_int_equal(KIND->probe(&a, "nosuch", &e), 0);
	assert_int_equal(KIND->probe(&a, "../lxc", &e), 0);
	assert_int_equal(KIND->probe(&a, "", &e), 0);
}

static void
test_refused_rootfs(void **state)
{
	static const struct {
		const char *value, *what;
	} t[] = {
		{ "overlay:/l:/u", "an overlay" },
		{ "overlayfs:/l:/u", "an overlay" },
		{ "aufs:/l:/u", "an aufs union" },
		{ "loop:/img", "a loop device" },
		{ "zfs:tank/web", "a zfs data set" },
		{ "lvm:/dev/vg/web", "an lvm volume" },
		{ "rbd:web", "a ceph rbd image" },
		{ "nbd:/img:1", "an nbd image" },
		{ "btrfs:/x", "a btrfs snapshot" },
		{ "tank/web", "of a kind unknown here" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct ct c;
		char line[200], want[300];

		make("web");
		snprintf(line, sizeof(line), "lxc.rootfs.path = %s",
			 t[i].value);
		add("web", line);
		snprintf(
			want, sizeof(want),
			"the root file system of lxc container web is %s (%s), "
			"not a plain directory; such a container cannot be "
			"moved yet",
			t[i].what, t[i].value);
		ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_UNSUPPORTED,
			  want);
	}
}

static void
test_refused_objects(void **state)
{
	struct ct c;
	char want[400];

	(void)state;
	make("web");
	ctfix_sh("rm -r a/lxc/web/rootfs; touch a/lxc/web/rootfs");
	snprintf(want, sizeof(want),
		 "the root file system of lxc container web is an image file "
		 "(%s/a/lxc/web/rootfs), not a plain directory; such a "
		 "container cannot be moved yet",
		 ctfix_top);
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_UNSUPPORTED, want);
	ctfix_sh("rm a/lxc/web/rootfs");
	snprintf(want, sizeof(want),
		 "the root file system %s/a/lxc/web/rootfs of lxc container "
		 "web is not there",
		 ctfix_top);
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_CONFIG, want);
	ctfix_sh("mknod a/lxc/web/rootfs b 7 200");
	snprintf(want, sizeof(want),
		 "the root file system of lxc container web is a block device "
		 "(%s/a/lxc/web/rootfs), not a plain directory; such a "
		 "container cannot be moved yet",
		 ctfix_top);
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_UNSUPPORTED, want);
	ctfix_sh("rm a/lxc/web/rootfs; ln -s / a/lxc/web/rootfs");
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_UNSUPPORTED,
		  "the root file system of lxc container web is this host's "
		  "own (/), not a plain directory; such a container cannot be "
		  "moved yet");
	make("web");
	ctfix_sh("echo lxc.uts.name=x >a/lxc/web/config");
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_CONFIG,
		  "lxc container web has no lxc.rootfs.path");
}

/* Without it the container would not start there. */
static void
test_include_not_carried(void **state)
{
	static const char *const inc[] = { "inc.d", "sub/x.conf" };
	struct ct c;
	char want[600], line[300];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		make("web");
		ctfix_sh("mkdir a/lxc/web/inc.d a/lxc/web/sub; "
			 "touch a/lxc/web/sub/x.conf");
		snprintf(line, sizeof(line), "lxc.include = %s/a/lxc/web/%s",
			 ctfix_top, inc[i]);
		add("web", line);
		snprintf(want, sizeof(want),
			 "the configuration of web includes "
			 "%s/a/lxc/web/%s, and directories in %s/a/lxc/web "
			 "are not carried: move the included files to "
			 "%s/a/lxc/web itself",
			 ctfix_top, inc[i], ctfix_top, ctfix_top);
		ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_UNSUPPORTED,
			  want);
	}
	/* In the tree it is carried. */
	make("web");
	ctfix_sh("touch a/lxc/web/rootfs/etc/x.conf");
	snprintf(line, sizeof(line),
		 "lxc.include = %s/a/lxc/web/rootfs/etc/x.conf", ctfix_top);
	add("web", line);
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	ct_free(&c);
}

/* One wrong line in a configuration must not take others along. */
static void
test_not_its_own(void **state)
{
	static const struct {
		const char *rootfs, *why;
	} t[] = {
		{ "a/lxc/own", "it holds the configuration of the lxc "
			       "container own" },
		{ "a/lxc/web/rootfs", "it holds the lxc container web" },
		{ "a/lxc/web/rootfs/etc",
		  "it is a part of the lxc container web" },
		{ "a/vz/private/101", "it holds the openvz container 101" },
	};
	struct ct c;
	char want[600];

	(void)state;
	make("web");
	ctfix_sh("mkdir -p a/vz/private/101 a/lxc/own; "
		 "touch a/etc/vz/conf/101.conf");
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		ctfix_sh("echo lxc.rootfs.path=%s/%s >a/lxc/own/config",
			 ctfix_top, t[i].rootfs);
		snprintf(want, sizeof(want),
			 "the root file system %s/%s of lxc container own is "
			 "not its own: %s; correct its configuration",
			 ctfix_top, t[i].rootfs, t[i].why);
		ctfix_err(KIND->load(&a, "own", &c, &e), &e, E_CONFIG, want);
	}
	/* The other one came while this one was moved: it is spared. */
	ctfix_sh("rm -r a/lxc/own");
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_int_equal(KIND->retire(&a, &c, "s", &e), 0);
	ctfix_sh("mkdir a/lxc/own; cp a/lxc/web/config.migrated "
		 "a/lxc/own/config");
	assert_int_equal(KIND->destroy(&a, &c, &e), E_CONFIG);
	assert_non_null(strstr(e.text, "it holds the lxc container own"));
	err_clear(&e);
	ct_free(&c);
	ctfix_sh("test -e a/lxc/web/rootfs/etc/motd; "
		 "rm -r a/lxc/own a/vz/private/101 a/etc/vz/conf/101.conf");
}

static void
test_mounted_overlay(void **state)
{
	struct ct c;
	char want[400], opts[400], at[200];

	(void)state;
	make("web");
	ctfix_sh("mkdir -p ov/l ov/u ov/w");
	snprintf(at, sizeof(at), "%s/a/lxc/web/rootfs", ctfix_top);
	snprintf(opts, sizeof(opts),
		 "lowerdir=%s/ov/l,upperdir=%s/ov/u,"
		 "workdir=%s/ov/w",
		 ctfix_top, ctfix_top, ctfix_top);
	if (mount("o", at, "overlay", 0, opts) < 0) {
		print_message("no overlay file system in this kernel\n");
		skip();
	}
	snprintf(want, sizeof(want),
		 "the root file system of lxc container web is a mounted "
		 "overlay file system (%s), not a plain directory; such a "
		 "container cannot be moved yet",
		 at);
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_UNSUPPORTED, want);
	assert_int_equal(umount(at), 0);
	/* Another file system mounted there is a directory as any. */
	assert_int_equal(mount("t", at, "tmpfs", 0, ""), 0);
	ctfix_sh("mkdir a/lxc/web/rootfs/proc; "
		 "mount -t tmpfs inner a/lxc/web/rootfs/proc");
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	snprintf(want, sizeof(want),
		 "mount point %s/proc (tmpfs) inside the tree is not carried",
		 at);
	assert_true(has_note(&c, want));
	ct_free(&c);
	ctfix_sh("umount a/lxc/web/rootfs/proc a/lxc/web/rootfs");
}

/* What comes with the distribution is looked for, but not told: nothing of it
 * is the container's, and nothing is to be decided. */
static void
test_systems_own(void **state)
{
	static const char *const quiet[] = {
		"/usr/share/lxc/hooks/x",
		"/lib/modules",
		"/lib64/x",
		"/bin/sh",
		"/dev/null",
		"/dev/nosuch",
	};
	static const char *const told[] = {
		"/usr/local/share/x",	"/srv/data", "/etc/lxc/x", "/libx/y",
		"/usr/../srv/data/sub", "/home",
	};
	cleanup(ct_free) struct ct c = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
		assert_true(lxc_is_systems(quiet[i]));
	}
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		assert_false(lxc_is_systems(told[i]));
	}
	make("web");
	add("web", "lxc.hook.clone = /usr/share/lxc/hooks/x\n"
		   "lxc.mount.entry = /lib lib none ro,bind 0 0\n"
		   "lxc.mount.entry = /dev/fuse dev/fuse none bind 0 0\n"
		   "lxc.mount.entry = /srv/data data none bind 0 0\n"
		   "lxc.seccomp.profile = /usr/share/lxc/x.seccomp");
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	assert_int_equal(c.nnotes, 1);
	assert_true(has_note(&c, "it uses /srv/data of this host (mount), "
				 "which is not carried: what the destination "
				 "has there is used instead"));
	assert_non_null(
		strstr((char *)ctfile_find(c.files, c.nfiles, "origin")->data,
		       "need seccomp-profile /usr/share/lxc"));
}

static void
drop_finding(struct ct_findings *f, const char *begin)
{
	for (size_t i = 0; i < f->n; i++) {
		if (strncmp(f->v[i].text, begin, strlen(begin)) == 0) {
			free(f->v[i].text);
			f->n--;
			memmove(&f->v[i], &f->v[i + 1],
				(f->n - i) * sizeof(f->v[0]));
			return;
		}
	}
}

/* S10: owned is carried, shared is looked for, the rest is told. */
static void
test_shared(void **state)
{
	cleanup(ct_free) struct ct c;
	cleanup(ct_place_fini) struct ct_place p = { 0 };
	cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };
	struct ct_want w;
	char line[900], want[400];

	(void)state;
	make("web");
	ctfix_sh("printf 'lxc.hook.stop = /nested/hook\\n' >a/shared/inc; "
		 "echo 'lxc.start.delay = 1' >a/lxc/web/own.conf; "
		 "echo h >a/lxc/web/hook; chmod 755 a/lxc/web/hook");
	snprintf(line, sizeof(line),
		 "lxc.include = %s/a/shared/inc\n"
		 "lxc.include = %s/a/lxc/web/own.conf\n"
		 "lxc.hook.start = %s/a/lxc/web/hook arg\n"
		 "lxc.hook.pre-start = %s/a/shared/hook arg\n"
		 "lxc.mount.entry = /srv/gone srv none bind 0 0\n"
		 "lxc.mount.entry = /srv/maybe srv none bind,optional 0 0\n"
		 "lxc.mount.entry = proc proc proc nodev 0 0\n"
		 "lxc.mount.entry = /proc/x x none bind 0 0\n"
		 "lxc.net.0.link = nosuchbr\n"
		 "lxc.idmap = u 0 100000 65536",
		 ctfix_top, ctfix_top, ctfix_top, ctfix_top);
	add("web", line);
	KIND->load(&a, "web", &c, &e);
	assert_string_equal(e.text, "");
	assert_non_null(ctfile_find(c.files, c.nfiles, "include/own.conf"));
	assert_int_equal(ctfile_find(c.files, c.nfiles, "extra/hook")->mode,
			 0755);
	snprintf(want, sizeof(want),
		 "it uses %s/a/shared/hook of this host (hook), which is not "
		 "carried: what the destination has there is used instead",
		 ctfix_top);
	assert_true(has_note(&c, want));
	assert_true(has_note(&c, "lxc.idmap is set: owners are carried as "
				 "numbers, so the destination needs the same "
				 "ranges in /etc/subuid and /etc/subgid"));
	assert_int_equal(c.nnotes, 5);
	w = ctfix_want(&c);
	ctfix_sh("rm a/shared/hook");
	assert_int_equal(KIND->place(&b, &w, &p, &e), 0);
	assert_int_equal(KIND->check(&b, &w, &p, &f, &e), 0);
	/* Whose ids those are is told by this machine's files. */
	drop_finding(&f, "the id range \"u 0 ");
	drop_finding(&f, "the id range \"g 0 ");
	assert_int_equal(f.n, 4);
	snprintf(want, sizeof(want),
		 "the hook %s/a/shared/hook that the configuration uses is not "
		 "there; it is shared with other containers and so not "
		 "carried: copy it to the destination, or take it out of the "
		 "configuration",
		 ctfix_top);
	assert_string_equal(f.v[0].text, want);
	assert_int_equal(f.v[0].code, E_CONFIG);
	assert_false(f.v[0].warning);
	assert_non_null(strstr(f.v[1].text, "the mount /srv/gone "));
	assert_false(f.v[1].warning);
	assert_non_null(strstr(f.v[2].text, "the mount /srv/maybe "));
	assert_true(f.v[2].warning);
	assert_string_equal(f.v[3].text,
			    "the network device nosuchbr that the "
			    "configuration names is not there; make it, or "
			    "name another one in the configuration, before "
			    "the container is started");
	assert_true(f.v[3].warning);
}

static void
test_bad_config(void **state)
{
	struct ct c;
	char line[200], want[300];

	(void)state;
	make("web");
	add("web", "lxc.include = /no/such/file");
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_CONFIG,
		  "/no/such/file, which the configuration of web includes, is "
		  "not there");
	make("web");
	snprintf(line, sizeof(line), "lxc.include = %s/a/lxc/web/config",
		 ctfix_top);
	add("web", line);
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_CONFIG,
		  "web: the includes go deeper than 16 or are more than 128 "
		  "files");
	make("web");
	add("web", "junk");
	snprintf(want, sizeof(want),
		 "%s/a/lxc/web/config line 3 is not of the form 'key = value'",
		 ctfix_top);
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_CONFIG, want);
	make("web");
	ctfix_sh("head -c %u /dev/zero | tr '\\0' '#' >a/lxc/web/config",
		 CT_FILE_MAX + 1);
	snprintf(want, sizeof(want),
		 "%s/a/lxc/web/config is larger than %u bytes", ctfix_top,
		 CT_FILE_MAX);
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_LIMIT, want);
}

static void
test_no_tools(void **state)
{
	cleanup(free_ptr) char *path = strdup(getenv("PATH"));
	cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };
	struct ct_file conf = { .role = (char *)"config" };
	struct ct_want w = { .id = "new", .files = &conf, .nfiles = 1 };
	struct ct_place p = { 0 };
	struct ct c;

	(void)state;
	make("web");
	setenv("PATH", "/nonexistent", 1);
	ctfix_err(KIND->load(&a, "web", &c, &e), &e, E_CONFIG,
		  "LXC's tools are not installed here (Debian: apt install "
		  "lxc; Fedora: dnf install lxc)");
	assert_int_equal(KIND->place(&b, &w, &p, &e), 0);
	assert_int_equal(KIND->check(&b, &w, &p, &f, &e), 0);
	setenv("PATH", path, 1);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.v[0].code, E_CONFIG);
	assert_string_equal(f.v[0].text,
			    "LXC's tools are not installed on the destination "
			    "(Debian: apt install lxc; Fedora: dnf install "
			    "lxc)");
	ct_place_fini(&p);
}

/* The directory of the container is no place for its files. */
static void
test_place_of_itself(void **state)
{
	struct ct_want w = { .id = "web" };
	struct ct_place p = { 0 };
	char dir[300], want[700];

	(void)state;
	snprintf(dir, sizeof(dir), "%s/b/lxc/web", ctfix_top);
	w.new_private = dir;
	snprintf(want, sizeof(want),
		 "%s is the directory of the container itself; its files go "
		 "below it, as into %s/rootfs",
		 dir, dir);
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE, want);
}

static void
test_lock(void **state)
{
	cleanup(ct_free) struct ct c;
	char want[300];
	int fd, fd2;

	(void)state;
	make("web");
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	assert_int_equal(KIND->lock(&a, &c, &fd, &e), 0);
	assert_int_equal(KIND->lock(&a, &c, &fd2, &e), E_BUSY);
	snprintf(want, sizeof(want), "lxc %s/a/lxc/web is locked by pid %d (",
		 ctfix_top, (int)getpid());
	assert_memory_equal(e.text, want, strlen(want));
	err_clear(&e);
	KIND->unlock(&a, &c, fd);
	assert_int_equal(KIND->lock(&a, &c, &fd, &e), 0);
	KIND->unlock(&a, &c, fd);
}

/* block, retire and back, each repeated, and each cut short at every point.
 */
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
	char *before, *after;

	(void)state;
	make("web");
	before = ctfix_sum("%s/a/lxc/web", ctfix_top);
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	all_ways((struct op){ .fn = KIND->block, .c = &c });
	assert_false(ctfix_ok("test -e a/lxc/web/config"));
	assert_int_equal(KIND->probe(&a, "web", &e), 1);
	assert_int_equal(KIND->load(&a, "web", &d, &e), 0);
	assert_int_equal(d.mark, CT_BLOCKED);
	ct_free(&d);
	all_ways((struct op){ .tagged = KIND->retire, .c = &c });
	assert_int_equal(KIND->probe(&a, "web", &e), 2);
	assert_int_equal(KIND->load(&a, "web", &d, &e), 0);
	assert_int_equal(d.mark, CT_RETIRED);
	assert_string_equal(d.tag, "s-1");
	ct_free(&d);
	assert_true(ctfix_ok("test -e a/lxc/web/config.migrated && "
			     "test -d a/lxc/web/rootfs/etc"));
	all_ways((struct op){ .tagged = KIND->unretire, .c = &c });
	all_ways((struct op){ .fn = KIND->unblock, .c = &c });
	/* After a crash before it was written down, both come again. */
	all_ways((struct op){ .tagged = KIND->unretire, .c = &c });
	all_ways((struct op){ .fn = KIND->unblock, .c = &c });
	after = ctfix_sum("%s/a/lxc/web", ctfix_top);
	assert_string_equal(before, after);
	free(before);
	free(after);
}

static void
test_marks_refused(void **state)
{
	cleanup(ct_free) struct ct c;
	char want[400];

	(void)state;
	make("web");
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	snprintf(want, sizeof(want),
		 "%s/a/lxc/web is not moved away, so it is not destroyed",
		 ctfix_top);
	ctfix_err(KIND->destroy(&a, &c, &e), &e, E_STATE, want);
	snprintf(want, sizeof(want),
		 "%s/a/lxc/web has neither config.vzmigrate-blocked nor "
		 "config.migrated",
		 ctfix_top);
	ctfix_sh("mv a/lxc/web/config a/lxc/web/away");
	ctfix_err(KIND->retire(&a, &c, "s", &e), &e, E_STATE, want);
	ctfix_sh("mv a/lxc/web/away a/lxc/web/config");
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	ctfix_sh("echo lxc.new=1 >a/lxc/web/config");
	snprintf(want, sizeof(want),
		 "%s/a/lxc/web has a new config beside "
		 "config.vzmigrate-blocked: it was made again during the "
		 "migration",
		 ctfix_top);
	ctfix_err(KIND->retire(&a, &c, "s", &e), &e, E_STATE, want);
	ctfix_err(KIND->unblock(&a, &c, &e), &e, E_STATE, want);
	snprintf(want, sizeof(want),
		 "%s/a/lxc/web has both config and config.vzmigrate-blocked: "
		 "remove the one that is not wanted",
		 ctfix_top);
	ctfix_err(KIND->block(&a, &c, &e), &e, E_STATE, want);
	ctfix_sh("rm a/lxc/web/config");
}

static void
test_destroy(void **state)
{
	cleanup(ct_free) struct ct c;

	(void)state;
	make("web");
	ctfix_sh("echo x >a/lxc/web/fstab");
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_int_equal(KIND->retire(&a, &c, "s", &e), 0);
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	assert_false(ctfix_ok("test -e a/lxc/web"));
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	/* What was not carried is never deleted. */
	make("web");
	ctfix_sh("mkdir a/lxc/web/snaps; touch a/lxc/web/snaps/x; "
		 "echo x >a/lxc/web/fstab");
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_int_equal(KIND->retire(&a, &c, "s", &e), 0);
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	ctfix_sh("test $(find a/lxc/web | wc -l) = 3; test -e "
		 "a/lxc/web/snaps/x");
}

/* A move of `c` to host b under `new_id`. */
static void
stage(struct ctfix_move *m)
{
	ctfix_sh("rm -rf %s/.stage; mkdir -m 700 -p %s/.stage/root/etc; "
		 "echo hello >%s/.stage/root/etc/motd",
		 m->p.stage_dir, m->p.stage_dir, m->p.stage_dir);
	snprintf(m->staged, sizeof(m->staged), "%s/.stage/root",
		 m->p.stage_dir);
}

/* Commit and undo, cut short at every change, and taken up either way. */
static void
commit_all_ways(struct ctfix_move *m)
{
	char *before, *after;
	int rc = 0, n = 1;

	stage(m);
	before = ctfix_sum("%s/b", ctfix_top);
	while (ctfix_die_at(n, ctfix_commit, m, &rc)) {
		assert_true(n++ < 200);
		/* Backwards from there ... */
		assert_int_equal(ctfix_uncommit(m), 0);
		assert_int_equal(ctfix_uncommit(m), 0);
		after = ctfix_sum("%s/b", ctfix_top);
		assert_string_equal(before, after);
		free(after);
		/* ... and forwards. */
		assert_true(ctfix_die_at(n - 1, ctfix_commit, m, &rc));
		assert_int_equal(ctfix_commit(m), 0);
		assert_int_equal(KIND->registered(&b, &m->p, &e), 1);
		assert_int_equal(ctfix_commit(m), 0);
		assert_int_equal(ctfix_uncommit(m), 0);
		assert_int_equal(KIND->registered(&b, &m->p, &e), 0);
	}
	assert_int_equal(rc, 0);
	assert_true(n > 5);
	for (n = 1; ctfix_die_at(n, ctfix_uncommit, m, &rc); n++) {
		assert_true(n < 200);
		assert_int_equal(ctfix_uncommit(m), 0);
		after = ctfix_sum("%s/b", ctfix_top);
		assert_string_equal(before, after);
		free(after);
		assert_int_equal(ctfix_commit(m), 0);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(ctfix_commit(m), 0);
	free(before);
}

static void
test_commit(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	char want[900], line[500], *got;

	(void)state;
	make("web");
	snprintf(line, sizeof(line),
		 "lxc.include = %s/a/lxc/web/own.conf\n"
		 "lxc.hook.start = %s/a/lxc/web/hook",
		 ctfix_top, ctfix_top);
	add("web", line);
	ctfix_sh("echo 'lxc.hook.stop = %s/a/lxc/web/hook' "
		 ">a/lxc/web/own.conf; echo h >a/lxc/web/hook; "
		 "chmod 755 a/lxc/web/hook; chown 12:34 a/lxc/web/hook",
		 ctfix_top);
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	m.w = ctfix_want(&c);
	m.w.new_id = "neu";
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	snprintf(want, sizeof(want), "%s/b/lxc/neu/rootfs", ctfix_top);
	assert_string_equal(m.p.tree, want);
	snprintf(want, sizeof(want), "%s/b/lxc", ctfix_top);
	assert_string_equal(m.p.stage_dir, want);
	assert_string_equal(m.p.id, "neu");
	commit_all_ways(&m);
	snprintf(want, sizeof(want),
		 "lxc.uts.name = neu\n"
		 "lxc.rootfs.path = dir:%s/b/lxc/neu/rootfs\n"
		 "lxc.include = %s/b/lxc/neu/own.conf\n"
		 "lxc.hook.start = %s/b/lxc/neu/hook\n",
		 ctfix_top, ctfix_top, ctfix_top);
	got = ctfix_read("%s/b/lxc/neu/config", ctfix_top);
	assert_string_equal(got, want);
	free(got);
	snprintf(want, sizeof(want), "lxc.hook.stop = %s/b/lxc/neu/hook\n",
		 ctfix_top);
	got = ctfix_read("%s/b/lxc/neu/own.conf", ctfix_top);
	assert_string_equal(got, want);
	free(got);
	ctfix_sh("test \"$(stat -c %%a:%%u:%%g b/lxc/neu/hook)\" = 755:12:34; "
		 "test \"$(stat -c %%a b/lxc/neu b/lxc/neu/config|xargs)\" = "
		 "'750 640' && test -e b/lxc/neu/rootfs/etc/motd && "
		 "test \"$(ls -A b/lxc/neu | xargs)\" = "
		 "'config hook own.conf rootfs'");
	/* Changed since: it is not ours to undo. */
	ctfix_sh("echo x=y >>b/lxc/neu/config");
	snprintf(want, sizeof(want),
		 "%s/b/lxc/neu is not what was committed there, so it is left "
		 "as it is",
		 ctfix_top);
	ctfix_err(KIND->uncommit(&b, &m.w, &m.p, m.staged, &e), &e, E_STATE,
		  want);
	ctfix_sh("rm -rf b/lxc/neu b/lxc/.stage");
	ct_place_fini(&m.p);
}

/* A root file system outside the container's directory keeps its path. */
static void
test_commit_outside(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	char want[900], path[300], *got;

	(void)state;
	make("out");
	ctfix_sh("mkdir -p b/data; mkdir -p a/data/out; "
		 "rm -r a/lxc/out/rootfs; "
		 "echo 'lxc.rootfs.path = %s/a/data/out' >a/lxc/out/config",
		 ctfix_top);
	assert_int_equal(KIND->load(&a, "out", &c, &e), 0);
	m.w = ctfix_want(&c);
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	snprintf(path, sizeof(path), "%s/a/data/out", ctfix_top);
	assert_string_equal(m.p.tree, path);
	ct_place_fini(&m.p);
	snprintf(path, sizeof(path), "%s/b/data/deep/er", ctfix_top);
	m.w.new_private = path;
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	assert_string_equal(m.p.tree, path);
	snprintf(want, sizeof(want), "%s/b/data", ctfix_top);
	assert_string_equal(m.p.stage_dir, want);
	ctfix_sh("mkdir b/data/deep"); /* made by commit, left by its undo */
	commit_all_ways(&m);
	snprintf(want, sizeof(want), "lxc.rootfs.path = %s/b/data/deep/er\n",
		 ctfix_top);
	got = ctfix_read("%s/b/lxc/out/config", ctfix_top);
	assert_string_equal(got, want);
	free(got);
	ctfix_sh("test -e b/data/deep/er/etc/motd; rm -rf b/lxc/out b/data");
	ct_place_fini(&m.p);
}

/* S5 */
static void
test_exists(void **state)
{
	static const struct {
		const char *make, *says, *text;
	} t[] = {
		{ "mkdir b/lxc/web; touch b/lxc/web/config; "
		  "mkdir b/lxc/web/rootfs",
		  "STOPPED", "is a container already" },
		{ "mkdir b/lxc/web; touch b/lxc/web/config; "
		  "mkdir b/lxc/web/rootfs",
		  "RUNNING", "is a container already, and it runs" },
		{ "mkdir b/lxc/web; touch b/lxc/web/config", "STOPPED",
		  "holds a configuration already" },
		{ "mkdir -p b/lxc/web/rootfs", "STOPPED",
		  "is there already, without a configuration" },
		{ "ln -s /nowhere b/lxc/web", "STOPPED",
		  "is a dangling symlink" },
		{ "touch b/lxc/web", "STOPPED",
		  "is there already and is no directory" },
	};
	cleanup(ct_free) struct ct c;
	struct ct_want w;

	(void)state;
	make("web");
	assert_int_equal(KIND->load(&a, "web", &c, &e), 0);
	w = ctfix_want(&c);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		cleanup(ct_place_fini) struct ct_place p = { 0 };
		cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };
		struct ctfix_move m = { .kind = KIND, .to = &b, .w = w };
		char want[400], *before, *after;

		ctfix_sh("rm -rf b/lxc/web; %s", t[i].make);
		ctfix_lxc_says(t[i].says);
		assert_int_equal(KIND->place(&b, &w, &p, &e), 0);
		assert_int_equal(KIND->check(&b, &w, &p, &f, &e), 0);
		assert_int_equal(f.n, 1);
		snprintf(want, sizeof(want),
			 "%s/b/lxc/web %s; remove it, or choose another name "
			 "with --new-id",
			 ctfix_top, t[i].text);
		assert_string_equal(f.v[0].text, want);
		assert_int_equal(f.v[0].code, E_EXISTS);
		assert_false(f.v[0].warning);
		m.p = p;
		stage(&m);
		before = ctfix_sum("%s/b", ctfix_top);
		snprintf(want, sizeof(want),
			 "%s/b/lxc/web was made there meanwhile; remove it, or "
			 "choose another name with --new-id",
			 ctfix_top);
		ctfix_err(KIND->commit(&b, &w, &p, m.staged, &e), &e, E_EXISTS,
			  want);
		after = ctfix_sum("%s/b", ctfix_top);
		assert_string_equal(before, after);
		free(before);
		free(after);
	}
	ctfix_sh("rm -rf b/lxc/web b/lxc/.stage");
	ctfix_lxc_says("STOPPED");
}

static void
test_place_refused(void **state)
{
	struct ct_want w = { .id = "web" };
	struct ct_host none = b;
	struct ct_place p;
	char want[400], path[300];

	(void)state;
	w.new_id = "a/b";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "'a/b' cannot be the name of an lxc container");
	w.new_id = NULL;
	w.new_root = "/x";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "--new-root has no meaning for lxc containers");
	w.new_root = NULL;
	w.new_name = "x";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "an lxc container has one name: use --new-id instead of "
		  "--new-name");
	w.new_name = NULL;
	w.new_private = "x";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "--new-private must be an absolute path: x");
	w.new_private = NULL;
	snprintf(path, sizeof(path), "%s/nolxc", ctfix_top);
	none.lxcpath = path;
	snprintf(want, sizeof(want),
		 "the lxcpath %s is no directory there: install lxc, or name "
		 "another with --dst-lxcpath",
		 none.lxcpath);
	ctfix_err(KIND->place(&none, &w, &p, &e), &e, E_CONFIG, want);
}

static void
test_hostile_files(void **state)
{
	struct ct_file f[2] = { { .role = (char *)"config" },
				{ .role = (char *)"extra/config" } };
	struct ct_want w = { .id = "evil", .files = f, .nfiles = 2 };
	cleanup(ct_place_fini) struct ct_place p = { 0 };

	(void)state;
	assert_int_equal(KIND->place(&b, &w, &p, &e), 0);
	ctfix_err(KIND->commit(&b, &w, &p, "/nowhere/x", &e), &e, E_PROTOCOL,
		  "'config' cannot be an extra file");
	ctfix_sh("rm -rf b/lxc/.evil.vzmigrate");
	f[1].role = (char *)"extra/_2e_2e_2fx";
	ctfix_err(KIND->commit(&b, &w, &p, "/nowhere/x", &e), &e, E_PROTOCOL,
		  "'_2e_2e_2fx' is no coded file name");
	ctfix_sh("test ! -e b/lxc/evil; rm -rf b/lxc/.evil.vzmigrate");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_load_by_path),
		cmocka_unit_test(test_not_found),
		cmocka_unit_test(test_refused_rootfs),
		cmocka_unit_test(test_refused_objects),
		cmocka_unit_test(test_mounted_overlay),
		cmocka_unit_test(test_include_not_carried),
		cmocka_unit_test(test_not_its_own),
		cmocka_unit_test(test_systems_own),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_bad_config),
		cmocka_unit_test(test_no_tools),
		cmocka_unit_test(test_place_of_itself),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_marks_refused),
		cmocka_unit_test(test_destroy),
		cmocka_unit_test(test_commit),
		cmocka_unit_test(test_commit_outside),
		cmocka_unit_test(test_exists),
		cmocka_unit_test(test_place_refused),
		cmocka_unit_test(test_hostile_files),
	};

	need_root();
	return cmocka_run_group_tests(tests, setup, ctfix_teardown);
}
