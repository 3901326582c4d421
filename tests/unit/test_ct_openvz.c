/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of the kind openvz; vzctl is the stand-in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ct.h"
#include "ct/ctfile.h"
#include "ct/vzconf.h"
#include "ctfix.h"
#include "needroot.h"

#define KIND ct_kind_find("openvz")

static struct ct_host a, b;
static struct err e;

/* Container 101 named web on host a. */
static void
make(void)
{
	ctfix_vzctl(&a);
	ctfix_sh("rm -rf a/vz/private/101 a/etc/vz/conf/101.* a/etc/vz/names/*;"
		 "mkdir -p a/vz/private/101/etc; "
		 "echo hello >a/vz/private/101/etc/motd; "
		 "ln -s %s/a/etc/vz/conf/101.conf a/etc/vz/names/web; "
		 "cat >a/etc/vz/conf/101.conf <<'END'\n"
		 "# keep  me\n"
		 "ONBOOT=\"yes\"\n"
		 "VE_ROOT=\"%s/a/vz/root/$VEID\"\n"
		 "VE_PRIVATE=\"%s/a/vz/private/$VEID\"\n"
		 "OSTEMPLATE=\"debian-12\"\n"
		 "ORIGIN_SAMPLE=\"basic\"\n"
		 "NAME=\"web\"\n"
		 "IP_ADDRESS='10.0.0.1 '\n"
		 "END",
		 ctfix_top, ctfix_top, ctfix_top);
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
	static const char *const words[] = { "101", "0101", "web", "path" };
	char want[300], path[300];

	(void)state;
	make();
	ctfix_sh("echo m >a/etc/vz/conf/101.mount; "
		 "chmod 755 a/etc/vz/conf/101.mount; "
		 "echo s >a/etc/vz/conf/vps.mount");
	snprintf(path, sizeof(path), "%s/a/vz/private/101", ctfix_top);
	for (size_t i = 0; i < 4; i++) {
		cleanup(ct_free) struct ct c;
		const char *w = i == 3 ? path : words[i];

		assert_int_equal(KIND->probe(&a, w, &e), 1);
		assert_int_equal(KIND->load(&a, w, &c, &e), 0);
		assert_string_equal(c.id, "101");
		assert_string_equal(c.name, "web");
		assert_string_equal(c.tree, path);
		snprintf(want, sizeof(want), "%s/a/vz/root/101", ctfix_top);
		assert_string_equal(c.mount_root, want);
		assert_int_equal(c.state, CT_STOPPED);
		assert_int_equal(c.mark, CT_FREE);
		assert_true(c.autostart);
		assert_int_equal(c.nfiles, 3);
		assert_int_equal(
			ctfile_find(c.files, c.nfiles, "action.mount")->mode,
			0755);
		snprintf(want, sizeof(want),
			 "script %s/a/etc/vz/conf/vps.mount is shared and not "
			 "carried; it is looked for on the destination",
			 ctfix_top);
		assert_true(has_note(&c, want));
		assert_int_equal(c.nnotes, 1);
	}
	ctfix_sh("rm a/etc/vz/conf/vps.mount");
}

static void
test_states(void **state)
{
	cleanup(ct_free) struct ct c;
	enum ct_state s;

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	ctfix_sh("vzctl mount 101");
	assert_int_equal(KIND->state(&a, &c, &s, &e), 0);
	assert_int_equal(s, CT_MOUNTED);
	/* vzctl cannot know this any more once it is blocked, we can. */
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_int_equal(KIND->state(&a, &c, &s, &e), 0);
	assert_int_equal(s, CT_MOUNTED);
	assert_int_equal(KIND->unblock(&a, &c, &e), 0);
	ctfix_sh("vzctl umount 101; touch a/vz/dump/Dump.101");
	assert_int_equal(KIND->state(&a, &c, &s, &e), 0);
	assert_int_equal(s, CT_SUSPENDED);
	ctfix_sh("rm a/vz/dump/Dump.101");
}

static void
test_running(void **state)
{
	cleanup(ct_free) struct ct c;
	enum ct_state s;

	(void)state;
	if (!ctfix_ok("test -x /bin/busybox")) {
		print_message("no /bin/busybox (package busybox-static)\n");
		skip();
	}
	make();
	ctfix_sh("mkdir a/vz/private/101/bin a/vz/private/101/sbin; "
		 "cp /bin/busybox a/vz/private/101/bin/; "
		 "ln -s busybox a/vz/private/101/bin/sh; "
		 "ln -s busybox a/vz/private/101/bin/sleep; "
		 "printf '#!/bin/sh\\nwhile :; do sleep 1; done\\n' "
		 ">a/vz/private/101/sbin/init; "
		 "chmod +x a/vz/private/101/sbin/init; vzctl start 101");
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	assert_int_equal(c.state, CT_RUNNING);
	ctfix_sh("vzctl stop 101 --fast");
	assert_int_equal(KIND->state(&a, &c, &s, &e), 0);
	assert_int_equal(s, CT_STOPPED);
	/* Blocked, the runtime does not start it. */
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_false(ctfix_ok("vzctl start 101"));
	assert_int_equal(KIND->unblock(&a, &c, &e), 0);
	/* Nor while the lock is held, with the same lock as ours. */
	{
		int fd;

		assert_int_equal(KIND->lock(&a, &c, &fd, &e), 0);
		assert_false(ctfix_ok("vzctl start 101"));
		KIND->unlock(&a, &c, fd);
		assert_true(ctfix_ok("vzctl start 101"));
		ctfix_sh("vzctl stop 101 --fast");
	}
}

static void
test_refused(void **state)
{
	struct ct c;
	char want[400];

	(void)state;
	snprintf(want, sizeof(want),
		 "there is no openvz container 999 in %s/a/etc/vz/conf",
		 ctfix_top);
	ctfix_err(KIND->load(&a, "999", &c, &e), &e, E_NOT_FOUND, want);
	ctfix_err(KIND->load(&a, "0", &c, &e), &e, E_USAGE,
		  "CT 0 is the host itself, which cannot be moved");
	snprintf(want, sizeof(want),
		 "there is no openvz container nosuch in %s/a/etc/vz/conf",
		 ctfix_top);
	ctfix_err(KIND->load(&a, "nosuch", &c, &e), &e, E_NOT_FOUND, want);
	assert_int_equal(KIND->probe(&a, "999", &e), 0);
	assert_int_equal(KIND->probe(&a, "0", &e), 0);
	assert_int_equal(KIND->probe(&a, "../x", &e), 0);
	make();
	ctfix_sh("rm -r a/vz/private/101");
	snprintf(want, sizeof(want),
		 "the private area %s/a/vz/private/101 of container 101 is "
		 "not there",
		 ctfix_top);
	ctfix_err(KIND->load(&a, "101", &c, &e), &e, E_NOT_FOUND, want);
	make();
	ctfix_sh("echo 'VE_PRIVATE=/other' >>a/etc/vz/conf/101.conf");
	snprintf(want, sizeof(want),
		 "101.conf sets VE_PRIVATE twice, to '%s/a/vz/private/101' and "
		 "to '/other': vzctl takes the first and scripts the last; "
		 "remove one",
		 ctfix_top);
	ctfix_err(KIND->load(&a, "101", &c, &e), &e, E_CONFIG, want);
	make();
	ctfix_sh("sed -i 's/^VE_PRIVATE=.*/VE_PRIVATE=$(pwd)/' "
		 "a/etc/vz/conf/101.conf");
	ctfix_err(KIND->load(&a, "101", &c, &e), &e, E_CONFIG,
		  "101.conf: VE_PRIVATE needs a shell to be read; only $VEID "
		  "is expanded");
	make();
	ctfix_sh("sed -i 's/^VE_PRIVATE=.*/VE_PRIVATE=rel/' "
		 "a/etc/vz/conf/101.conf");
	ctfix_err(KIND->load(&a, "101", &c, &e), &e, E_CONFIG,
		  "101.conf: VE_PRIVATE must be an absolute path: rel");
}

/* One wrong line in a configuration must not take others along. */
static void
test_not_its_own(void **state)
{
	/* What is found; `at` is below ctfix_top. */
	static const struct {
		const char *private, *what, *at, *rest;
	} t[] = {
		{ "a/vz/private", "holds the openvz container 102", "", "" },
		{ "a/vz/private/102", "holds the openvz container 102", "",
		  "" },
		{ "a/vz/private/102/srv",
		  "is a part of the openvz container 102", "", "" },
		{ "a/lxc/web/rootfs", "holds the lxc container web", "", "" },
		{ "a/etc", "holds ", "/a/etc/vz/conf",
		  ", where the openvz configurations are" },
		{ "a/state", "holds ", "/a/state",
		  ", where vzmigrate keeps its journals" },
	};
	struct ct c;
	char want[700];

	(void)state;
	make();
	ctfix_sh("mkdir -p a/vz/private/102/srv a/lxc/web/rootfs; "
		 "touch a/etc/vz/conf/102.conf; "
		 "echo lxc.rootfs.path=%s/a/lxc/web/rootfs >a/lxc/web/config",
		 ctfix_top);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		ctfix_sh("sed -i 's|^VE_PRIVATE=.*|VE_PRIVATE=%s/%s|' "
			 "a/etc/vz/conf/101.conf",
			 ctfix_top, t[i].private);
		snprintf(want, sizeof(want),
			 "the root file system %s/%s of openvz container 101 "
			 "is not its own: it %s%s%s%s; correct its "
			 "configuration",
			 ctfix_top, t[i].private, t[i].what,
			 *t[i].at ? ctfix_top : "", t[i].at, t[i].rest);
		ctfix_err(KIND->load(&a, "101", &c, &e), &e, E_CONFIG, want);
	}
	/* The other one's error does not keep this one here. */
	make();
	ctfix_sh("echo VE_PRIVATE=%s/a/vz/private >a/etc/vz/conf/102.conf",
		 ctfix_top);
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	ct_free(&c);
	/* The other one came while this one was moved: it is spared. */
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_int_equal(KIND->retire(&a, &c, "s", &e), 0);
	ctfix_sh("echo VE_PRIVATE=%s/a/vz/private/101 "
		 ">a/etc/vz/conf/102.conf",
		 ctfix_top);
	assert_int_equal(KIND->destroy(&a, &c, &e), E_CONFIG);
	assert_non_null(strstr(e.text, "it holds the openvz container 102"));
	err_clear(&e);
	ct_free(&c);
	ctfix_sh("test -e a/vz/private/101/etc/motd; "
		 "rm -r a/vz/private/102 a/etc/vz/conf/102.conf a/lxc/web");
}

static void
test_no_runtime(void **state)
{
	cleanup(free_ptr) char *path = strdup(getenv("PATH"));
	struct ct_host none = a;
	struct ct c;

	(void)state;
	make();
	setenv("PATH", "/nonexistent", 1);
	ctfix_err(KIND->load(&a, "101", &c, &e), &e, E_CONFIG,
		  "vzctl is not installed here (package vzctl of OpenVZ)");
	setenv("PATH", path, 1);
	none.vz_conf = "/nonexistent/vz.conf";
	ctfix_err(KIND->load(&none, "101", &c, &e), &e, E_CONFIG,
		  "there is no /nonexistent/vz.conf: OpenVZ is not installed, "
		  "or name it with --vz-conf (on the destination "
		  "--dst-vz-conf)");
	assert_int_equal(KIND->probe(&none, "101", &e), 0);
	/* A vzctl that fails or speaks in tongues. */
	ctfix_sh("mv bin/vzctl bin/vzctl.away; printf '#!/bin/sh\\n"
		 "echo oh no >&2; exit 5\\n' >bin/vzctl; chmod +x bin/vzctl");
	ctfix_err(KIND->load(&a, "101", &c, &e), &e, E_CONFIG,
		  "vzctl status 101 failed with code 5: oh no");
	ctfix_sh("printf '#!/bin/sh\\necho CTID 102 exist unmounted down\\n' "
		 ">bin/vzctl");
	ctfix_err(KIND->load(&a, "101", &c, &e), &e, E_CONFIG,
		  "vzctl status says 'CTID 102 exist unmounted down' of "
		  "container 101");
	ctfix_sh("mv bin/vzctl.away bin/vzctl");
}

/* A vzctl that notes what it is asked for, and fails where the file is. */
static void
test_image(void **state)
{
	cleanup(free_ptr) char *asked = NULL;
	struct ct c;

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	ctfix_sh("mv bin/vzctl bin/vzctl.away; printf '#!/bin/sh\n"
		 "echo \"$*\" >>%s/asked; [ ! -e %s/fail ] || {\n"
		 "echo oh no >&2; exit 5; }\n' >bin/vzctl; chmod +x bin/vzctl",
		 ctfix_top, ctfix_top);
	/* No image: nothing is asked for. */
	assert_int_equal(KIND->prepare(&a, &c, true, true, &e), 0);
	ct_free(&c);
	ctfix_sh("test ! -e asked; mv bin/vzctl bin/vzctl.asks; "
		 "mv bin/vzctl.away bin/vzctl; "
		 "mkdir a/vz/private/101/root.hdd; "
		 "cd a/vz/private/101/root.hdd; >root.hds; "
		 "echo '<Parallels_disk_image><StorageData><Storage><Image>"
		 "<GUID>x</GUID><File>root.hds</File></Image></Storage>"
		 "</StorageData></Parallels_disk_image>' >DiskDescriptor.xml");
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	ctfix_sh("mv bin/vzctl bin/vzctl.away; mv bin/vzctl.asks bin/vzctl");
	assert_int_equal(KIND->prepare(&a, &c, true, true, &e), 1);
	assert_int_equal(KIND->prepare(&a, &c, false, true, &e), 1);
	ctfix_sh(">fail");
	ctfix_err(KIND->prepare(&a, &c, true, true, &e), &e, E_COPY,
		  "vzctl compact 101 failed with code 5: oh no");
	asked = ctfix_read("%s/asked", ctfix_top);
	assert_string_equal(asked, "--skiplock compact 101\n"
				   "--skiplock snapshot 101\n"
				   "--skiplock snapshot 101\n"
				   "--skiplock compact 101\n");
	ct_free(&c);
	ctfix_sh("rm -r asked fail a/vz/private/101/root.hdd; "
		 "mv bin/vzctl.away bin/vzctl");
}

/* S6: every way in which the lock cannot be had has its own words. */
static void
test_lock(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ct_host h = a;
	char want[400], dir[300], *text;
	int fd, fd2;

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	assert_int_equal(KIND->lock(&a, &c, &fd, &e), 0);
	text = ctfix_read("%s/a/lock/101.lck", ctfix_top);
	snprintf(want, sizeof(want), "%d\n\n", (int)getpid());
	assert_string_equal(text, want);
	free(text);
	assert_int_equal(KIND->lock(&a, &c, &fd2, &e), E_BUSY);
	snprintf(want, sizeof(want), "container 101 is locked by pid %d (",
		 (int)getpid());
	assert_memory_equal(e.text, want, strlen(want));
	snprintf(want, sizeof(want), ") through %s/a/lock/101.lck", ctfix_top);
	assert_non_null(strstr(e.text, want));
	err_clear(&e);
	KIND->unlock(&a, &c, fd);
	assert_true(ctfix_ok("test -z \"$(ls a/lock)\""));
	/* Garbage, and another's lock that must not be removed by unlock. */
	ctfix_sh("echo garbage >a/lock/101.lck");
	assert_int_equal(KIND->lock(&a, &c, &fd, &e), 0);
	ctfix_sh("rm a/lock/101.lck; echo 1 >a/lock/101.lck");
	KIND->unlock(&a, &c, fd);
	assert_true(ctfix_ok("test -e a/lock/101.lck"));
	assert_int_equal(KIND->lock(&a, &c, &fd, &e), E_BUSY);
	assert_memory_equal(e.text, "container 101 is locked by pid 1 (", 34);
	err_clear(&e);
	ctfix_sh("rm a/lock/101.lck");
	/* Elsewhere and missing: made, as vzctl does. */
	snprintf(dir, sizeof(dir), "%s/a/new/lock", ctfix_top);
	h.lock_dir = dir;
	assert_int_equal(KIND->lock(&h, &c, &fd, &e), 0);
	assert_true(ctfix_ok("test -e a/new/lock/101.lck"));
	KIND->unlock(&h, &c, fd);
	/* Read-only, with and without the directory. */
	ctfix_sh("mkdir -p a/ro; mount -t tmpfs -o ro x a/ro");
	snprintf(dir, sizeof(dir), "%s/a/ro", ctfix_top);
	snprintf(want, sizeof(want),
		 "the lock directory %s is on a read-only file system", dir);
	ctfix_err(KIND->lock(&h, &c, &fd, &e), &e, E_DENIED, want);
	snprintf(dir, sizeof(dir), "%s/a/ro/sub", ctfix_top);
	snprintf(want, sizeof(want),
		 "there is no lock directory %s, and it cannot be made: "
		 "Read-only file system",
		 dir);
	ctfix_err(KIND->lock(&h, &c, &fd, &e), &e, E_DENIED, want);
	ctfix_sh("umount a/ro; touch a/file");
	snprintf(dir, sizeof(dir), "%s/a/file/sub", ctfix_top);
	snprintf(want, sizeof(want),
		 "there is no lock directory %s, and it cannot be made: Not a "
		 "directory",
		 dir);
	ctfix_err(KIND->lock(&h, &c, &fd, &e), &e, E_CONFIG, want);
	ctfix_sh("sed -i.bak /LOCKDIR/d a/etc/vz/vz.conf");
	snprintf(want, sizeof(want),
		 "%s does not set LOCKDIR, so container 101 cannot be locked",
		 a.vz_conf);
	ctfix_err(KIND->lock(&a, &c, &fd, &e), &e, E_CONFIG, want);
	ctfix_sh("mv a/etc/vz/vz.conf.bak a/etc/vz/vz.conf");
}

/* A stale lock: of a process that is gone, and of a zombie. */
static void
test_stale_lock(void **state)
{
	cleanup(ct_free) struct ct c;
	siginfo_t info;
	pid_t pid;
	int fd;

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	pid = fork();
	if (pid == 0) {
		_exit(0);
	}
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	ctfix_sh("printf '%d\\n\\n' >a/lock/101.lck", (int)pid);
	assert_int_equal(KIND->lock(&a, &c, &fd, &e), 0);
	KIND->unlock(&a, &c, fd);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	ctfix_sh("printf '%d\\n\\n' >a/lock/101.lck", (int)pid);
	assert_int_equal(KIND->lock(&a, &c, &fd, &e), 0);
	KIND->unlock(&a, &c, fd);
	assert_true(ctfix_ok("test -z \"$(ls a/lock)\""));
}

/* No permission, which root only meets as somebody else. */
static void
test_lock_denied(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ct_host h = a;
	char dir[300], want[400];
	int st;
	pid_t pid;

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	snprintf(dir, sizeof(dir), "%s/a/priv", ctfix_top);
	h.lock_dir = dir;
	ctfix_sh("mkdir -m 755 a/priv");
	snprintf(want, sizeof(want), "no permission to lock in %s; run as root",
		 dir);
	pid = fork();
	if (pid == 0) {
		int fd;

		if (setuid(65534) < 0) {
			_exit(3);
		}
		_exit(KIND->lock(&h, &c, &fd, &e) != E_DENIED ||
		      strcmp(e.text, want) != 0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
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
	char *before, *after, want[300];

	(void)state;
	make();
	before = ctfix_sum("%s/a", ctfix_top);
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	snprintf(want, sizeof(want),
		 "container 101 is not moved away, so it is not destroyed");
	ctfix_err(KIND->destroy(&a, &c, &e), &e, E_STATE, want);
	all_ways((struct op){ .fn = KIND->block, .c = &c });
	ctfix_err(KIND->destroy(&a, &c, &e), &e, E_STATE, want);
	assert_int_equal(KIND->load(&a, "web", &d, &e), 0);
	assert_int_equal(d.mark, CT_BLOCKED);
	ct_free(&d);
	all_ways((struct op){ .tagged = KIND->retire, .c = &c });
	assert_int_equal(KIND->probe(&a, "101", &e), 2);
	assert_int_equal(KIND->load(&a, "101", &d, &e), 0);
	assert_int_equal(d.mark, CT_RETIRED);
	assert_string_equal(d.tag, "s-1");
	ct_free(&d);
	assert_true(ctfix_ok("test -e a/etc/vz/conf/101.conf.migrated && "
			     "test -d a/vz/private/101/etc"));
	all_ways((struct op){ .tagged = KIND->unretire, .c = &c });
	all_ways((struct op){ .fn = KIND->unblock, .c = &c });
	/* After a crash before it was written down, both come again. */
	all_ways((struct op){ .tagged = KIND->unretire, .c = &c });
	all_ways((struct op){ .fn = KIND->unblock, .c = &c });
	after = ctfix_sum("%s/a", ctfix_top);
	assert_string_equal(before, after);
	free(before);
	free(after);
	/* Made again meanwhile. */
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	ctfix_sh("touch a/etc/vz/conf/101.conf");
	snprintf(want, sizeof(want),
		 "%s/a/etc/vz/conf has 101.conf beside "
		 "101.conf.vzmigrate-blocked: it was made again during the "
		 "migration; remove the one that is not wanted",
		 ctfix_top);
	ctfix_err(KIND->retire(&a, &c, "s", &e), &e, E_STATE, want);
	ctfix_err(KIND->unblock(&a, &c, &e), &e, E_STATE, want);
	ctfix_err(KIND->block(&a, &c, &e), &e, E_STATE, want);
}

static void
test_destroy(void **state)
{
	cleanup(ct_free) struct ct c;

	(void)state;
	make();
	/* F15: the private area is a symlink to elsewhere. */
	ctfix_sh("mkdir -p a/data a/vz/root/101; "
		 "mv a/vz/private/101 a/data/101; "
		 "ln -s %s/a/data/101 a/vz/private/101; "
		 "touch a/etc/vz/conf/101.start a/etc/vz/conf/102.start",
		 ctfix_top);
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	assert_int_equal(KIND->block(&a, &c, &e), 0);
	assert_int_equal(KIND->retire(&a, &c, "s", &e), 0);
	ctfix_sh("mount --bind a/data/101 a/vz/root/101");
	assert_int_equal(KIND->destroy(&a, &c, &e), E_STATE);
	assert_non_null(strstr(e.text, "container 101 is mounted on "));
	err_clear(&e);
	ctfix_sh("umount a/vz/root/101");
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	assert_int_equal(KIND->destroy(&a, &c, &e), 0);
	ctfix_sh("test ! -e a/data/101; test ! -L a/vz/private/101; "
		 "test ! -e a/vz/root/101; test ! -L a/etc/vz/names/web; "
		 "test \"$(ls a/etc/vz/conf | xargs)\" = 102.start; "
		 "rm a/etc/vz/conf/102.start");
}

static void
stage(struct ctfix_move *m)
{
	ctfix_sh("rm -rf %s/.stage; mkdir -m 700 -p %s/.stage/root/etc; "
		 "echo hello >%s/.stage/root/etc/motd",
		 m->p.stage_dir, m->p.stage_dir, m->p.stage_dir);
	snprintf(m->staged, sizeof(m->staged), "%s/.stage/root",
		 m->p.stage_dir);
}

/* What differs after an undo: the lock of the dead, and one temporary file
 * that the next write there removes. */
static char *
sum_b(void)
{
	ctfix_sh("rm -f b/lock/* b/etc/vz/conf/.vzmigrate-new");
	return ctfix_sum("%s/b", ctfix_top);
}

static void
commit_all_ways(struct ctfix_move *m)
{
	char *before, *after;
	int rc = 0, n = 1;

	stage(m);
	before = sum_b();
	while (ctfix_die_at(n, ctfix_commit, m, &rc)) {
		assert_true(n++ < 200);
		assert_int_equal(ctfix_uncommit(m), 0);
		assert_int_equal(ctfix_uncommit(m), 0);
		after = sum_b();
		assert_string_equal(before, after);
		free(after);
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
		after = sum_b();
		assert_string_equal(before, after);
		free(after);
		assert_int_equal(ctfix_commit(m), 0);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(ctfix_commit(m), 0);
	free(before);
}

/* F15: source under one place, destination under a symlink to another. */
static void
test_commit(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	char want[900], *got;

	(void)state;
	make();
	ctfix_sh("printf '#!/bin/sh\\n' >a/etc/vz/conf/101.mount; "
		 "chmod 750 a/etc/vz/conf/101.mount; "
		 "mv b/vz b/srv; ln -s srv b/vz");
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	ctfix_vzctl(&b);
	m.w = ctfix_want(&c);
	m.w.new_id = "201";
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	snprintf(want, sizeof(want), "%s/b/srv/private/201", ctfix_top);
	assert_string_equal(m.p.tree, want);
	snprintf(want, sizeof(want), "%s/b/srv/private", ctfix_top);
	assert_string_equal(m.p.stage_dir, want);
	snprintf(want, sizeof(want), "%s/b/vz/root/201", ctfix_top);
	assert_string_equal(m.p.mount_root, want);
	assert_string_equal(m.p.id, "201");
	assert_string_equal(m.p.name, "web");
	commit_all_ways(&m);
	got = ctfix_read("%s/b/etc/vz/conf/201.conf", ctfix_top);
	assert_string_equal(got, "# keep  me\n"
				 "ONBOOT=\"yes\"\n"
				 "OSTEMPLATE=\"debian-12\"\n"
				 "ORIGIN_SAMPLE=\"basic\"\n"
				 "NAME=\"web\"\n"
				 "IP_ADDRESS='10.0.0.1 '\n"
				 /* As vzctl would write at the start. */
				 "VE_LAYOUT=\"simfs\"\n");
	free(got);
	ctfix_sh(
		"test \"$(ls -A b/etc/vz/conf | xargs)\" = "
		"'201.conf 201.mount'; "
		"test $(stat -c %%a b/etc/vz/conf/201.mount) = 750; "
		"test $(readlink b/etc/vz/names/web) = "
		"%s/b/etc/vz/conf/201.conf; "
		"test -e b/srv/private/201/etc/motd; test -z \"$(ls b/lock)\"; "
		"test \"$(vzctl status web)\" = "
		"'CTID 201 exist unmounted down'",
		ctfix_top);
	/* Changed since. */
	ctfix_sh("echo A=b >>b/etc/vz/conf/201.conf");
	snprintf(want, sizeof(want),
		 "%s/b/etc/vz/conf/201.conf is not what was committed there, "
		 "so it is left as it is",
		 ctfix_top);
	ctfix_err(KIND->uncommit(&b, &m.w, &m.p, m.staged, &e), &e, E_STATE,
		  want);
	ctfix_sh("rm -rf b/srv/private/* b/srv/private/.stage "
		 "b/etc/vz/names/* b/etc/vz/conf/*");
	ct_place_fini(&m.p);
}

static void
test_commit_named(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	char want[900], private[300], root[300], *got;

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	ctfix_vzctl(&b);
	m.w = ctfix_want(&c);
	snprintf(private, sizeof(private), "%s/b/disk2/x", ctfix_top);
	snprintf(root, sizeof(root), "%s/b/root2", ctfix_top);
	ctfix_sh("mkdir b/disk2");
	m.w.new_private = private;
	m.w.new_root = root;
	m.w.new_name = "neu 1";
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	commit_all_ways(&m);
	got = ctfix_read("%s/b/etc/vz/conf/101.conf", ctfix_top);
	snprintf(want, sizeof(want),
		 "# keep  me\n"
		 "ONBOOT=\"yes\"\n"
		 "VE_ROOT=\"%s\"\n"
		 "VE_PRIVATE=\"%s\"\n"
		 "OSTEMPLATE=\"debian-12\"\n"
		 "ORIGIN_SAMPLE=\"basic\"\n"
		 "NAME=\"neu 1\"\n"
		 "IP_ADDRESS='10.0.0.1 '\n"
		 "VE_LAYOUT=\"simfs\"\n",
		 root, private);
	assert_string_equal(got, want);
	free(got);
	ctfix_sh("test -L 'b/etc/vz/names/neu 1'; "
		 "test \"$(vzctl status 101 2>/dev/null)\" = "
		 "'CTID 101 exist unmounted down'; "
		 "rm -rf b/disk2 b/etc/vz/names/* b/etc/vz/conf/*");
	ct_place_fini(&m.p);
}

/* S5 */
static void
test_exists(void **state)
{
	static const struct {
		const char *make, *text;
	} t[] = {
		{ "mkdir b/vz/private/101; touch b/etc/vz/conf/101.conf",
		  "there is a container 101 already (%s/b/etc/vz/conf/101.conf)"
		  "; remove it, or choose another with --new-id" },
		{ "touch b/etc/vz/conf/101.conf",
		  "there is a configuration %s/b/etc/vz/conf/101.conf already, "
		  "without a private area; remove it, or choose another CTID "
		  "with --new-id" },
		{ "mkdir b/vz/private/101",
		  "the private area %s/b/srv/private/101 is there already, "
		  "without a configuration; remove it, or choose another "
		  "place with --new-private" },
		{ "ln -s /nowhere b/vz/private/101",
		  "the private area %s/b/srv/private/101 is a dangling "
		  "symlink, without a configuration; remove it, or choose "
		  "another place with --new-private" },
		{ "ln -s /x/202.conf b/etc/vz/names/web",
		  "the name web is taken by container 202 "
		  "(%s/b/etc/vz/names/web); choose another with --new-name" },
		{ "touch b/etc/vz/names/web",
		  "the name web is taken by another file "
		  "(%s/b/etc/vz/names/web); choose another with --new-name" },
	};
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	ctfix_vzctl(&b);
	m.w = ctfix_want(&c);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };
		char want[400], *before, *after;

		ctfix_sh("rm -rf b/vz/private/101 b/etc/vz/names/web "
			 "b/etc/vz/conf/*");
		ctfix_sh("%s", t[i].make);
		assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
		stage(&m);
		before = sum_b();
		assert_int_equal(KIND->check(&b, &m.w, &m.p, &f, &e), 0);
		assert_int_equal(f.n, 1);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(want, sizeof(want), t[i].text, ctfix_top);
#pragma GCC diagnostic pop
		assert_string_equal(f.v[0].text, want);
		assert_int_equal(f.v[0].code, E_EXISTS);
		assert_false(f.v[0].warning);
		assert_int_equal(ctfix_commit(&m), E_EXISTS);
		assert_int_equal(ctfix_uncommit(&m), 0);
		after = sum_b();
		assert_string_equal(before, after);
		free(before);
		free(after);
		ct_place_fini(&m.p);
	}
	ctfix_sh("rm -rf b/vz/private/.stage b/etc/vz/names/web "
		 "b/vz/private/101 b/etc/vz/conf/*");
}

/* Addresses are compared as addresses, with and without a prefix. */
static void
test_addresses(void **state)
{
	/* What container 101 has; what is there; who has it, NULL: nobody. */
	static const struct {
		const char *own, *key, *there, *veip, *who;
	} t[] = {
		{ "10.8.0.1", "IP_ADDRESS", "10.8.0.10 110.8.0.1", "", NULL },
		{ "10.8.0.1", "IP_ADDRESS", "10.8.0.9 10.8.0.1/24", "",
		  "10.8.0.1 is in use by openvz container 777" },
		{ "10.8.0.1/16", "IP_ADDRESS", "10.8.0.1", "",
		  "10.8.0.1/16 is in use by openvz container 777" },
		{ "2001:db8::1", "IP_ADDRESS", "2001:DB8:0:0::1/64", "",
		  "2001:db8::1 is in use by openvz container 777" },
		{ "2001:db8::1", "IP_ADDRESS", "2001:db8::11", "", NULL },
		{ "2001:db8::1", "NETIF",
		  "ifname=eth0,ip=2001:db8:0::1/64,mac=00:18:51:00:00:01", "",
		  "2001:db8::1 is in use by openvz container 777" },
		{ "10.8.0.1", "IP_ADDRESS", "",
		  "Version: 2.7\n    10.8.0.10   778\n    10.8.0.1   779\n",
		  "10.8.0.1 is in use by openvz container 779" },
		{ "2001:db8::1", "IP_ADDRESS", "",
		  "2001:0db8:0000:0000:0000:0000:0000:0001      779\n",
		  "2001:db8::1 is in use by openvz container 779" },
		/* The host's own part of a CT that moves within it. */
		{ "10.8.0.1", "IP_ADDRESS", "", "10.8.0.1 101\n", NULL },
		{ "10.8.0.1", "IP_ADDRESS", "", "10.8.0.1\n\n", NULL },
	};
	char proc[300];

	(void)state;
	snprintf(proc, sizeof(proc), "%s/b/proc", ctfix_top);
	b.proc_vz = proc;
	ctfix_sh("mkdir b/proc");
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cleanup(ct_findings_fini) struct ct_findings f = { .n = 0 };
		cleanup(ct_free) struct ct c;
		struct ct_want w;
		struct ct_place p;
		char want[200];

		make();
		ctfix_sh("sed -i 's|^IP_ADDRESS=.*|IP_ADDRESS=\"%s\"|' "
			 "a/etc/vz/conf/101.conf; echo '%s=\"%s\"' "
			 ">b/etc/vz/conf/777.conf; printf '%s' >b/proc/veip",
			 t[i].own, t[i].key, t[i].there, t[i].veip);
		assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
		ctfix_vzctl(&b);
		w = ctfix_want(&c);
		assert_int_equal(KIND->place(&b, &w, &p, &e), 0);
		assert_int_equal(KIND->check(&b, &w, &p, &f, &e), 0);
		assert_int_equal(f.n, t[i].who ? 1 : 0);
		if (t[i].who) {
			snprintf(want, sizeof(want),
				 "the address %s; change it there, or in the "
				 "container's configuration (--nodeps=ip goes "
				 "without this check)",
				 t[i].who);
			assert_string_equal(f.v[0].text, want);
			assert_int_equal(f.v[0].code, E_IN_USE);
		}
		ct_place_fini(&p);
	}
	b.proc_vz = NULL;
	ctfix_sh("rm -r b/proc b/etc/vz/conf/777.conf");
}

/* The name is in place as `vzctl set --applyconfig_map name` makes it. */
static void
test_applyconfig(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ctfix_move m = CTFIX_MOVE(KIND, &b);
	char *before, *after;

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	ctfix_vzctl(&b);
	m.w = ctfix_want(&c);
	assert_int_equal(KIND->place(&b, &m.w, &m.p, &e), 0);
	stage(&m);
	assert_int_equal(ctfix_commit(&m), 0);
	before = ctfix_sum("%s/b/etc", ctfix_top);
	ctfix_sh("vzctl set 101 --applyconfig_map name --save");
	after = ctfix_sum("%s/b/etc", ctfix_top);
	assert_string_equal(before, after);
	free(before);
	free(after);
	ctfix_sh("rm -rf b/vz/private/* b/etc/vz/names/* b/etc/vz/conf/*");
	ct_place_fini(&m.p);
}

static void
test_place_refused(void **state)
{
	struct ct_want w = { .id = "101" };
	struct ct_place p;
	char want[400];

	(void)state;
	w.new_id = "web";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "'web' cannot be a CTID: it is a number from 1 to "
		  "2147483644 or, with OpenVZ 7, a UUID");
	w.new_id = "0";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "CT 0 is the host itself, which cannot be moved");
	w.new_id = NULL;
	w.new_name = "a/b";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "'a/b' cannot be the name of an openvz container");
	w.new_name = NULL;
	w.new_private = "/x/$VEID";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "--new-private contains a character that cannot be written "
		  "into the configuration: /x/$VEID");
	w.new_private = "/";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_USAGE,
		  "the private area cannot be the root directory");
	w.new_private = "/x/a";
	w.new_root = "/x/a/root";
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_CONFIG,
		  "the private area /x/a and the root /x/a/root lie one inside "
		  "the other");
	w.new_private = NULL;
	w.new_root = NULL;
	ctfix_sh("sed -i.bak /VE_PRIVATE/d b/etc/vz/vz.conf");
	snprintf(want, sizeof(want),
		 "%s does not set VE_PRIVATE; set it, or use --new-private",
		 b.vz_conf);
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_CONFIG, want);
	ctfix_sh("mv b/etc/vz/vz.conf.bak b/etc/vz/vz.conf; "
		 "rm b/vz; ln -s nowhere b/vz");
	snprintf(want, sizeof(want),
		 "%s/b/vz is a symlink to nothing: make what it points to, or "
		 "choose another place than %s/b/vz/private/101",
		 ctfix_top, ctfix_top);
	ctfix_err(KIND->place(&b, &w, &p, &e), &e, E_CONFIG, want);
	ctfix_sh("rm b/vz; ln -s srv b/vz");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_running),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_not_its_own),
		cmocka_unit_test(test_no_runtime),
		cmocka_unit_test(test_image),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_stale_lock),
		cmocka_unit_test(test_lock_denied),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_destroy),
		cmocka_unit_test(test_commit),
		cmocka_unit_test(test_commit_named),
		cmocka_unit_test(test_exists),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_applyconfig),
		cmocka_unit_test(test_place_refused),
	};

	need_root();
	return cmocka_run_group_tests(tests, setup, ctfix_teardown);
}
