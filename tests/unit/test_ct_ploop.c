/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of ct/ploop*: descriptors, good and hostile; disks in a private
 * area; devices; the destination's part. */
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
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ct.h"
#include "ct/ctfile.h"
#include "ct/ploop.h"
#include "ctfix.h"
#include "needroot.h"

#define KIND ct_kind_find("openvz")
#define TOP "{5fbaabe3-6958-40ff-92a7-860e329aab41}"
#define BEGIN "<Parallels_disk_image><StorageData><Storage>"
#define END "</Storage></StorageData></Parallels_disk_image>"
#define IMAGE(guid, file) \
	"<Image><GUID>" guid "</GUID><File>" file "</File></Image>"

static struct ct_host a, b;
static struct err e;

/* ---- descriptors ---- */

static void
test_descriptor(void **state)
{
	cleanup(free_ptr) char *text = NULL;
	cleanup(ploopdd_fini) struct ploopdd d;
	char path[4096];
	size_t len;

	(void)state;
	snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/ploopdd/snapshots",
		 getenv("srcdir") ? getenv("srcdir") : ".");
	assert_int_equal(
		io_read_file(AT_FDCWD, path, PLOOPDD_MAX, &text, &len, &e), 0);
	assert_int_equal(ploopdd_parse(text, len, "f", &d, &e), 0);
	assert_int_equal(d.n, 3);
	assert_string_equal(d.v[0].file, "/vz/private/101/root.hdd/root.hdd");
	assert_memory_equal(text + d.v[0].at, d.v[0].file, d.v[0].len);
	assert_int_equal(d.v[0].len, strlen(d.v[0].file));
	assert_string_equal(d.v[1].guid,
			    "{c3b0a7de-54a2-4c52-8f0b-3d1f0a9e8d22}");
	assert_false(d.v[0].top);
	assert_false(d.v[1].top);
	assert_true(d.v[2].top); /* named there in capitals */
	assert_string_equal(d.key, "key of web & db");
}

static void
test_descriptor_odd(void **state)
{
	static const struct {
		const char *text, *file;
		size_t n, top;
	} t[] = {
		/* One image is the top one, whatever it is called. */
		{ BEGIN IMAGE("x", "root.hdd") END, "root.hdd", 1, 0 },
		/* Where it is not said, by the name that libploop gives it. */
		{ BEGIN IMAGE("x", "a") IMAGE(TOP, "b") END, "a", 2, 1 },
		{ "\xef\xbb\xbf<?xml version='1.0' encoding='utf-8'?>\n" BEGIN
		  "<New>1</New>" IMAGE("x", "a &lt;&#x62;> c") END,
		  "a <b> c", 1, 0 },
		{ "<Parallels_disk_image><Other><Image><File/></Image></Other>"
		  "<StorageData><Storage>" IMAGE("1", "\xc3\xa4") IMAGE(
			  "2",
			  "x") "</Storage></StorageData>"
			       "<Snapshots><TopGUID>{1}</TopGUID></Snapshots>"
			       "</Parallels_disk_image>",
		  "\xc3\xa4", 2, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cleanup(ploopdd_fini) struct ploopdd d;

		assert_int_equal(ploopdd_parse(t[i].text, strlen(t[i].text),
					       "f", &d, &e),
				 0);
		assert_int_equal(d.n, t[i].n);
		assert_string_equal(d.v[0].file, t[i].file);
		for (size_t k = 0; k < d.n; k++) {
			assert_int_equal(d.v[k].top, k == t[i].top);
		}
		assert_null(d.key);
	}
}

static void
test_descriptor_bad(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *want;
	} t[] = {
		{ "", E_CONFIG,
		  "f, line 1: not well-formed (no element found)" },
		{ "<a/>", E_CONFIG, "f, line 1: it describes no disk image" },
		{ BEGIN IMAGE("x", "a"), E_CONFIG,
		  "f, line 1: not well-formed (no element found)" },
		{ "<!DOCTYPE x [<!ENTITY a 'b'>]>\n" BEGIN IMAGE("x", "&a;")
			  END,
		  E_CONFIG, "f, line 1: a document type is not allowed" },
		{ BEGIN IMAGE("x", "&a;") END, E_CONFIG,
		  "f, line 1: not well-formed (undefined entity)" },
		{ "<?xml version='1.0' encoding='UTF-16'?>" BEGIN END, E_CONFIG,
		  "f, line 1: another encoding than UTF-8: UTF-16" },
		{ "<?xml version='1.0' encoding='latin1'?>" BEGIN END, E_CONFIG,
		  "f, line 1: another encoding than UTF-8: latin1" },
		{ BEGIN IMAGE("x", "\xe4") END, E_CONFIG,
		  "f, line 1: not well-formed (not well-formed (invalid "
		  "token))" },
		{ BEGIN END, E_CONFIG, "f: no image is in it" },
		{ BEGIN "<Image>\n<GUID>x</GUID>\n</Image>" END, E_CONFIG,
		  "f, line 3: an image without File" },
		{ BEGIN "<Image><File>x</File></Image>" END, E_CONFIG,
		  "f, line 1: an image without GUID" },
		{ BEGIN "<Image><File></File></Image>" END, E_CONFIG,
		  "f, line 1: there is no text in "
		  "/StorageData/Storage/Image/File" },
		{ BEGIN IMAGE("x", "a&#10;b") END, E_CONFIG,
		  "f, line 1: a control character in "
		  "/StorageData/Storage/Image/File" },
		/* libploop would take the first of them, or of the text. */
		{ BEGIN "<Image><GUID>x</GUID><File>a</File><File>b</File>"
			"</Image>" END,
		  E_CONFIG,
		  "f, line 1: a second /StorageData/Storage/Image/File" },
		{ BEGIN IMAGE("x", "a<!-- b -->c") END, E_CONFIG,
		  "f, line 1: something that is not text within "
		  "/StorageData/Storage/Image/File" },
		{ BEGIN IMAGE("x", "a<![CDATA[b]]>") END, E_CONFIG,
		  "f, line 1: something that is not text within "
		  "/StorageData/Storage/Image/File" },
		{ BEGIN IMAGE("x", "a<?b c?>") END, E_CONFIG,
		  "f, line 1: something that is not text within "
		  "/StorageData/Storage/Image/File" },
		{ BEGIN IMAGE("x", "a<b/>") END, E_CONFIG,
		  "f, line 1: an element within "
		  "/StorageData/Storage/Image/File" },
		/* libploop would take it for an image. */
		{ BEGIN IMAGE("x", "a") "<Else/>" END, E_CONFIG,
		  "f, line 1: not an image among the images: Else" },
		{ BEGIN IMAGE("x", "a") "</Storage><Storage>" END,
		  E_UNSUPPORTED,
		  "f, line 1: the disk is split into several "
		  "/StorageData/Storage" },
		{ BEGIN IMAGE("x", "a") IMAGE("y", "b") END, E_CONFIG,
		  "f: no image is the top one, " TOP },
		{ "<Parallels_disk_image><a><a><a><a><a><a><a><a><a><a><a><a>"
		  "<a><a><a><a>",
		  E_CONFIG, "f, line 1: elements are nested too deep" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cleanup(ploopdd_fini) struct ploopdd d;
		int rc = ploopdd_parse(t[i].text, strlen(t[i].text), "f", &d,
				       &e);

		ctfix_err(rc, &e, t[i].code, t[i].want);
	}
}

/* What is too much of anything. */
static void
test_descriptor_limits(void **state)
{
	cleanup(buf_finip) struct buf text = BUF_MAX(1 << 20);
	struct ploopdd d;

	(void)state;
	buf_printf(&text, NULL, BEGIN "<Image><GUID>");
	for (unsigned i = 0; i <= PLOOPDD_GUID_MAX; i++) {
		buf_append(&text, "x", 1, NULL);
	}
	buf_printf(&text, NULL, "</GUID>");
	ctfix_err(ploopdd_parse((char *)text.data, text.len, "f", &d, &e), &e,
		  E_CONFIG,
		  "f, line 1: the text is too long of "
		  "/StorageData/Storage/Image/GUID");
	ploopdd_fini(&d);
	buf_clear(&text);
	buf_printf(&text, NULL, BEGIN);
	for (unsigned i = 0; i <= PLOOPDD_IMAGES_MAX; i++) {
		buf_printf(&text, NULL, IMAGE("%u", "f%u"), i, i);
	}
	ctfix_err(ploopdd_parse((char *)text.data, text.len, "f", &d, &e), &e,
		  E_UNSUPPORTED, "f, line 1: too many images");
	ploopdd_fini(&d);
	while (text.len <= PLOOPDD_MAX) {
		buf_append(&text, " ", 1, NULL);
	}
	ctfix_err(ploopdd_parse((char *)text.data, text.len, "f", &d, &e), &e,
		  E_CONFIG, "f has more than 262144 bytes");
	ploopdd_fini(&d);
}

static void
test_rewrite(void **state)
{
	static const char text[] =
		"<!-- head -->" BEGIN IMAGE("1", "/a/x") "  " IMAGE("2", "b")
			IMAGE(TOP, "/a/y&amp;z") END "\n<!-- tail -->\n";
	char first[] = "x", third[] = "y&<z>";
	char *files[] = { first, NULL, third };
	cleanup(buf_finip) struct buf out = BUF_MAX(4096);
	struct ploopdd d;

	(void)state;
	assert_int_equal(ploopdd_parse(text, strlen(text), "f", &d, &e), 0);
	assert_int_equal(
		ploopdd_rewrite(text, strlen(text), &d, files, &out, &e), 0);
	assert_string_equal(
		buf_cstr(&out, NULL),
		"<!-- head -->" BEGIN IMAGE("1", "x") "  " IMAGE("2", "b")
			IMAGE(TOP, "y&amp;&lt;z&gt;") END "\n<!-- tail -->\n");
	ploopdd_fini(&d);
}

static void
test_image_path(void **state)
{
	static const char *const trees[] = { "/srv/vz/101", "/vz/101", NULL };
	static const struct {
		const char *dir, *file, *want; /* NULL: refused */
	} t[] = {
		{ "root.hdd", "root.hdd", "root.hdd/root.hdd" },
		{ "root.hdd", "./a//b", "root.hdd/a/b" },
		{ "root.hdd", "../deltas/b", "deltas/b" },
		{ "a/b", "../../c", "c" },
		{ "a/b", ".././c", "a/c" },
		{ "root.hdd", "/vz/101/root.hdd/x", "root.hdd/x" },
		{ "root.hdd", "/srv/vz/101//x", "x" },
		{ "root.hdd", "..x", "root.hdd/..x" },
		{ "root.hdd", "../../x", NULL },
		{ "root.hdd", "../..", NULL },
		{ "root.hdd", "..", NULL },
		{ "root.hdd", "a/../b", NULL }, /* a might be a symlink */
		{ "root.hdd", "/vz/101/../102/x", NULL },
		{ "root.hdd", "/vz/101/a/../x", NULL },
		{ "root.hdd", "/vz/101", NULL },
		{ "root.hdd", "/vz/101/", NULL },
		{ "root.hdd", "/vz/1012/x", NULL },
		{ "root.hdd", "/dev/sda", NULL },
		{ "root.hdd", "/", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cleanup(free_ptr) char *p =
			ploop_image_path(t[i].dir, t[i].file, trees, &e);
		char want[200];

		if (t[i].want) {
			assert_non_null(p);
			assert_string_equal(p, t[i].want);
			continue;
		}
		assert_null(p);
		snprintf(want, sizeof(want),
			 "%s/DiskDescriptor.xml names the image %s, which is "
			 "not in the private area; move it there",
			 t[i].dir, t[i].file);
		ctfix_err(e.code, &e, E_UNSUPPORTED, want);
	}
}

/* ---- a container ---- */

static int
setup(void **state)
{
	return ctfix_setup_hosts(state, &a, &b);
}

/* Container 101 on host a: a disk with one snapshot. */
static void
make(void)
{
	setenv("VZCTL_CONF", a.vz_conf, 1);
	ctfix_sh("rm -rf a/vz/private/101 a/vz/else a/etc/vz/conf/101.*; "
		 "mkdir -p a/vz/private/101/root.hdd; cd a/vz/private/101; "
		 "echo base >root.hdd/root.hdd; echo top >'root.hdd/{top}'; "
		 "echo '" BEGIN IMAGE("{1}", "root.hdd") IMAGE(TOP, "{top}") END
		 "' >root.hdd/DiskDescriptor.xml; "
		 "touch root.hdd/DiskDescriptor.xml.lck; "
		 "cat >%s/a/etc/vz/conf/101.conf <<'END'\n"
		 "VE_ROOT=\"%s/a/vz/root/$VEID\"\n"
		 "VE_PRIVATE=\"%s/a/vz/private/$VEID\"\n"
		 "END",
		 ctfix_top, ctfix_top, ctfix_top);
}

static void
conf(const char *line)
{
	ctfix_sh("cat >>a/etc/vz/conf/101.conf <<'END'\n%s\nEND", line);
}

static uint64_t
ino(const char *name)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof(path), "%s/a/vz/private/101/%s", ctfix_top, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

/* Load 101; whether it is known as one with ploop. */
static bool
is_ploop(void)
{
	cleanup(ct_free) struct ct c;
	struct ct_want w;

	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	w = ctfix_want(&c);
	return ploop_wanted(&w);
}

static void
test_layout(void **state)
{
	(void)state;
	/* vz.conf has VE_LAYOUT=ploop: that is for new ones. */
	make();
	assert_true(is_ploop());
	conf("VE_LAYOUT=simfs");
	assert_false(is_ploop());
	make();
	conf("VE_LAYOUT=\"ploop:expanded\"");
	assert_true(is_ploop());
	make();
	ctfix_sh("rm a/vz/private/101/root.hdd/DiskDescriptor.xml");
	assert_false(is_ploop());
	ctfix_sh("rm -r a/vz/private/101/root.hdd");
	assert_false(is_ploop());
	/* What vzctl does not know it guesses, too. */
	make();
	conf("VE_LAYOUT=loop");
	assert_true(is_ploop());
}

static void refused(int code, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* %s in it stands for the private area. */
static void
refused(int code, const char *fmt, ...)
{
	struct ct c;
	char want[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	ctfix_err(KIND->load(&a, "101", &c, &e), &e, code, want);
}

static void
test_refused(void **state)
{
	char area[300];

	(void)state;
	snprintf(area, sizeof(area), "%s/a/vz/private/101", ctfix_top);
	make();
	conf("VE_LAYOUT=ploop");
	ctfix_sh("rm a/vz/private/101/root.hdd/DiskDescriptor.xml");
	refused(E_CONFIG,
		"container 101: %s/root.hdd: DiskDescriptor.xml: does not "
		"exist",
		area);
	ctfix_sh("rm -r a/vz/private/101/root.hdd; "
		 "touch a/vz/private/101/root.hdd");
	refused(E_CONFIG, "%s/root.hdd is no directory", area);
	make();
	ctfix_sh("echo x >a/vz/private/101/root.hdd/DiskDescriptor.xml");
	refused(E_CONFIG,
		"%s/root.hdd/DiskDescriptor.xml, line 1: not well-formed "
		"(syntax error)",
		area);
	make();
	ctfix_sh("truncate -s 1G a/vz/private/101/root.hdd/DiskDescriptor.xml");
	refused(E_CONFIG,
		"%s/root.hdd: DiskDescriptor.xml has more than 262144 bytes",
		area);
	make();
	ctfix_sh("cd a/vz/private/101/root.hdd; rm Disk*; "
		 "mkfifo DiskDescriptor.xml");
	refused(E_CONFIG, "%s/root.hdd: DiskDescriptor.xml: not a regular file",
		area);
	/* What is a symlink here would be one to nothing there. */
	make();
	ctfix_sh("mv a/vz/private/101/root.hdd a/vz/else; "
		 "ln -s %s/a/vz/else a/vz/private/101/root.hdd",
		 ctfix_top);
	refused(E_UNSUPPORTED,
		"%s: a disk must be in the private area itself: root.hdd: "
		"a symbolic link is in the way",
		area);
	make();
	ctfix_sh("cd a/vz/private/101/root.hdd; mv root.hdd ../../../else; "
		 "ln -s ../../../else root.hdd");
	refused(E_UNSUPPORTED,
		"%s: the image root.hdd/root.hdd is no regular file; what it "
		"leads to is not in the private area",
		area);
	make();
	ctfix_sh("rm a/vz/private/101/root.hdd/root.hdd");
	refused(E_CONFIG, "%s: the image root.hdd/root.hdd is not there", area);
	make();
	ctfix_sh("sed -i 's,>root.hdd<,>/vz/pool/golden<,' "
		 "a/vz/private/101/root.hdd/DiskDescriptor.xml");
	refused(E_UNSUPPORTED,
		"%s: root.hdd/DiskDescriptor.xml names the image "
		"/vz/pool/golden, which is not in the private area; move it "
		"there",
		area);
}

/* Further disks, as OpenVZ 7 writes them. */
static void
test_disks(void **state)
{
	cleanup(ct_free) struct ct c;
	struct images im;
	char area[300];

	(void)state;
	snprintf(area, sizeof(area), "%s/a/vz/private/101", ctfix_top);
	make();
	conf("DISK=\"uuid={2},size=1024,enabled=yes,mnt=/d,image=/vz/x.hdd\"");
	refused(E_UNSUPPORTED,
		"container 101: DISK names the external disk /vz/x.hdd; move "
		"it into the private area, or detach it");
	make();
	conf("DISK=\"uuid={2},image=root.hdd;uuid={3},device=/dev/sdb1\"");
	refused(E_UNSUPPORTED,
		"container 101: DISK names /dev/sdb1, which is not in the "
		"private area; detach that disk");
	make();
	conf("DISK=\"image=../102/root.hdd\"");
	refused(E_UNSUPPORTED,
		"container 101: DISK names the external disk ../102/root.hdd; "
		"move it into the private area, or detach it");
	make();
	conf("DISK=\"image=disk2.hdd,uuid={2};uuid={1},image=root.hdd\"");
	refused(E_CONFIG, "container 101: %s: disk2.hdd: does not exist", area);
	ctfix_sh("mkdir a/vz/private/101/disk2.hdd; "
		 "cd a/vz/private/101/disk2.hdd; echo data >data; "
		 "echo '" BEGIN IMAGE("{1}", "data") END
		 "' >DiskDescriptor.xml");
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	assert_int_equal(KIND->images(&a, &c, false, &im, &e), 0);
	assert_int_equal(im.n, 3);
	assert_true(images_moving(&im, ino("disk2.hdd/data")));
	images_fini(&im);
}

static void
test_images(void **state)
{
	struct images im, now;
	struct ct c;
	char want[300];

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	assert_int_equal(c.nnotes, 0);
	assert_int_equal(KIND->images(&a, &c, true, &im, &e), 0);
	assert_int_equal(im.n, 2);
	assert_true(images_moving(&im, ino("root.hdd/{top}")));
	assert_false(images_moving(&im, ino("root.hdd/root.hdd")));
	assert_non_null(images_find(&im, ino("root.hdd/root.hdd")));
	assert_null(images_find(&im, ino("root.hdd/DiskDescriptor.xml")));
	/* The same descriptor: the same. Another: all of them. */
	assert_int_equal(KIND->images(&a, &c, true, &now, &e), 0);
	images_follow(&now, &im);
	assert_false(images_moving(&now, ino("root.hdd/root.hdd")));
	images_fini(&now);
	ctfix_sh("echo >>a/vz/private/101/root.hdd/DiskDescriptor.xml");
	assert_int_equal(KIND->images(&a, &c, true, &now, &e), 0);
	images_follow(&now, &im);
	assert_true(images_moving(&now, ino("root.hdd/root.hdd")));
	images_fini(&now);
	images_fini(&im);
	/* It went bad meanwhile. */
	ctfix_sh("rm a/vz/private/101/root.hdd/root.hdd");
	snprintf(want, sizeof(want),
		 "%s/a/vz/private/101: the image root.hdd/root.hdd is not "
		 "there",
		 ctfix_top);
	ctfix_err(KIND->images(&a, &c, true, &now, &e), &e, E_CONFIG, want);
	images_fini(&now);
	ct_free(&c);
	/* A simfs container has none. */
	make();
	conf("VE_LAYOUT=simfs");
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	assert_int_equal(KIND->images(&a, &c, true, &im, &e), 0);
	assert_int_equal(im.n, 0);
	images_fini(&im);
	ct_free(&c);
}

/* Mounted by hand, which vzctl does not know of. */
static void
test_attached(void **state)
{
	struct images im;
	struct ct c;
	char want[400];

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	assert_int_equal(mount("none", "/sys/block", "tmpfs", 0, NULL), 0);
	ctfix_sh("mkdir -p /sys/block/ploop1/pdelta/0 /sys/block/sda "
		 "/sys/block/ploop2/pdelta/0 /sys/block/ploop2/pdelta/1; "
		 "echo %s/a/vz/private/1012/root.hdd/root.hdd "
		 ">/sys/block/ploop1/pdelta/0/image; "
		 "echo %s/a/vz/private/101/root.hdd/root.hdd "
		 ">/sys/block/ploop2/pdelta/1/image",
		 ctfix_top, ctfix_top);
	snprintf(want, sizeof(want),
		 "container 101 is not mounted, but the device /dev/ploop2 is "
		 "made of its disk: end what uses it (ploop umount -d "
		 "/dev/ploop2)");
	ctfix_err(KIND->images(&a, &c, false, &im, &e), &e, E_STATE, want);
	images_fini(&im);
	assert_int_equal(KIND->images(&a, &c, true, &im, &e), 0);
	images_fini(&im);
	ct_free(&c);
	refused(E_STATE, "%s", want);
	ctfix_sh("rm -r /sys/block/ploop2");
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	ct_free(&c);
	assert_int_equal(umount("/sys/block"), 0);
}

static void
test_encrypted(void **state)
{
	cleanup(ct_free) struct ct c;

	(void)state;
	make();
	ctfix_sh("sed -i 's,<StorageData>,<Disk_Parameters><Encryption>"
		 "<KeyId>k 1</KeyId></Encryption></Disk_Parameters>&,' "
		 "a/vz/private/101/root.hdd/DiskDescriptor.xml");
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	assert_int_equal(c.nnotes, 1);
	assert_string_equal(c.notes[0],
			    "the disk root.hdd is encrypted with the key k 1, "
			    "which is not carried; the destination needs it");
}

/* ---- the destination ---- */

static void
test_check(void **state)
{
	cleanup(ct_free) struct ct c;
	struct ct_findings f = { 0 };
	struct ct_place p;
	struct ct_want w;

	(void)state;
	make();
	assert_int_equal(KIND->load(&a, "101", &c, &e), 0);
	w = ctfix_want(&c);
	assert_int_equal(KIND->place(&b, &w, &p, &e), 0);
	assert_int_equal(KIND->check(&b, &w, &p, &f, &e), 0);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.v[0].code, E_PLOOP);
	assert_false(f.v[0].warning);
	assert_string_equal(f.v[0].text,
			    "the container's file system is a ploop image, and "
			    "the command ploop is not installed on the "
			    "destination (package ploop of OpenVZ)");
	ct_findings_fini(&f);
	f = (struct ct_findings){ 0 };
	ctfix_sh("ln -s /bin/true bin/ploop");
	assert_int_equal(KIND->check(&b, &w, &p, &f, &e), 0);
	assert_int_equal(f.n, 0);
	ctfix_sh("rm bin/ploop");
	ct_findings_fini(&f);
	ct_place_fini(&p);
}

/* A move by hand: what is staged is a copy. */
struct move {
	struct ct c;
	struct ct_want w;
	struct ct_place p;
	char staged[300];
};

static void
stage(struct move *m)
{
	assert_int_equal(KIND->load(&a, "101", &m->c, &e), 0);
	m->w = ctfix_want(&m->c);
	setenv("VZCTL_CONF", b.vz_conf, 1);
	assert_int_equal(KIND->place(&b, &m->w, &m->p, &e), 0);
	snprintf(m->staged, sizeof(m->staged), "%s/b/vz/private/.stage/tree",
		 ctfix_top);
	ctfix_sh("rm -rf b/vz/private/* b/vz/private/.stage b/etc/vz/conf/*; "
		 "mkdir b/vz/private/.stage; cp -a a/vz/private/101 %s",
		 m->staged);
}

static void
move_fini(struct move *m)
{
	ct_free(&m->c);
	ct_place_fini(&m->p);
}

static int
run_commit(void *arg)
{
	struct move *m = arg;

	return KIND->commit(&b, &m->w, &m->p, m->staged, NULL);
}

/* Absolute paths in the descriptor, by the name and by what it leads to. */
static void
make_absolute(void)
{
	make();
	ctfix_sh("cd a/vz/private/101; mkdir deltas; "
		 "mv root.hdd/root.hdd deltas/base; "
		 "sed -i 's,>root.hdd<,>%s/a/vz/private/101/deltas/base<,; "
		 "s,>{top},>%s/a/vz/private/101/root.hdd/{top},' "
		 "root.hdd/DiskDescriptor.xml; "
		 "chown 7:8 root.hdd/DiskDescriptor.xml; "
		 "chmod 640 root.hdd/DiskDescriptor.xml",
		 ctfix_top, ctfix_top);
}

static void
check_settled(void)
{
	cleanup(free_ptr) char *text = ctfix_read(
		"%s/b/vz/private/101/root.hdd/DiskDescriptor.xml", ctfix_top);

	assert_string_equal(text, BEGIN IMAGE("{1}", "../deltas/base")
					  IMAGE(TOP, "{top}") END "\n");
	assert_true(ctfix_ok("cd b/vz/private/101/root.hdd; "
			     "test \"$(stat -c %%u:%%g:%%a Disk*.xml)\" = "
			     "7:8:640; "
			     "test \"$(cat ../deltas/base)\" = base; "
			     "test ! -e .vzmigrate-new"));
	assert_true(ctfix_ok("grep -q '^VE_LAYOUT=\"ploop\"$' "
			     "b/etc/vz/conf/101.conf"));
}

static void
test_settle(void **state)
{
	struct move m;
	int rc = 0, n = 1;

	(void)state;
	make_absolute();
	stage(&m);
	/* Whenever it dies, the next run comes to the same. */
	while (ctfix_die_at(n, run_commit, &m, &rc)) {
		assert_true(n++ < 50);
		assert_int_equal(run_commit(&m), 0);
		check_settled();
		assert_int_equal(KIND->uncommit(&b, &m.w, &m.p, m.staged, &e),
				 0);
		ctfix_sh("rm -rf %s; cp -a a/vz/private/101 %s", m.staged,
			 m.staged);
	}
	assert_int_equal(rc, 0);
	assert_true(n > 5);
	check_settled();
	assert_int_equal(run_commit(&m), 0);
	check_settled();
	move_fini(&m);
	/* Relative ones stay, bytewise, and so does the file. */
	make();
	stage(&m);
	ctfix_sh("touch -d '2001-02-03' %s/root.hdd/DiskDescriptor.xml",
		 m.staged);
	assert_int_equal(run_commit(&m), 0);
	assert_true(ctfix_ok("cmp a/vz/private/101/root.hdd/DiskDescriptor.xml "
			     "b/vz/private/101/root.hdd/DiskDescriptor.xml"));
	assert_true(ctfix_ok("test \"$(date -r b/vz/private/101/root.hdd/"
			     "DiskDescriptor.xml +%%Y)\" = 2001"));
	move_fini(&m);
}

/* The same place there: an absolute path is right as it is. */
static void
test_settle_same_place(void **state)
{
	struct move m;
	struct stat was, now;
	char path[400];

	(void)state;
	make_absolute();
	stage(&m);
	snprintf(path, sizeof(path), "%s/root.hdd/DiskDescriptor.xml",
		 m.staged);
	assert_int_equal(stat(path, &was), 0);
	assert_int_equal(ploop_settle(&m.w, m.c.tree, m.staged, &e), 0);
	assert_int_equal(stat(path, &now), 0);
	assert_int_equal(was.st_ino, now.st_ino);
	assert_int_equal(ploop_settle(&m.w, "/other", m.staged, &e), 0);
	assert_int_equal(stat(path, &now), 0);
	assert_int_not_equal(was.st_ino, now.st_ino);
	move_fini(&m);
}

/* A source that says what is not so. */
static void
test_hostile_source(void **state)
{
	static const struct {
		const char *origin, *text;
		int code;
		const char *want;
	} t[] = {
		{ "ploop ../../etc\n", "", E_PROTOCOL,
		  "{}: not a path below a root: ../../etc" },
		{ "ploop /etc\n", "", E_PROTOCOL,
		  "{}: not a path below a root: /etc" },
		{ "ploop link\n", "", E_UNSUPPORTED,
		  "{}: a disk must be in the private area itself: link: a "
		  "symbolic link is in the way" },
		{ "ploop root.hdd\ntree /x\n",
		  BEGIN IMAGE("1", "/y/root.hdd") END, E_PROTOCOL,
		  "/new/root.hdd: what arrived: root.hdd/DiskDescriptor.xml "
		  "names the image /y/root.hdd, which is not in the private "
		  "area; move it there" },
		{ "ploop root.hdd\n", BEGIN IMAGE("1", "/y/root.hdd") END,
		  E_PROTOCOL,
		  "/new/root.hdd: what arrived: root.hdd/DiskDescriptor.xml "
		  "names the image /y/root.hdd, which is not in the private "
		  "area; move it there" },
		{ "ploop root.hdd\n", "<x/>", E_CONFIG,
		  "{}/root.hdd/DiskDescriptor.xml, line 1: it describes no "
		  "disk image" },
	};
	char tree[300], want[600];

	(void)state;
	snprintf(tree, sizeof(tree), "%s/b/vz/hostile", ctfix_top);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ct_file f = { .role = (char[]){ "origin" },
				     .data = (uint8_t *)t[i].origin,
				     .len = strlen(t[i].origin) };
		struct ct_want w = { .id = "101", .files = &f, .nfiles = 1 };

		ctfix_sh("rm -rf %s; mkdir -p %s/root.hdd; ln -s /etc %s/link; "
			 "printf '%%s' '%s' >%s/root.hdd/DiskDescriptor.xml",
			 tree, tree, tree, t[i].text, tree);
		if (strncmp(t[i].want, "{}", 2) == 0) {
			snprintf(want, sizeof(want), "%s%s", tree,
				 t[i].want + 2);
		} else {
			snprintf(want, sizeof(want), "%s", t[i].want);
		}
		ctfix_err(ploop_settle(&w, "/new", tree, &e), &e, t[i].code,
			  want);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptor),
		cmocka_unit_test(test_descriptor_odd),
		cmocka_unit_test(test_descriptor_bad),
		cmocka_unit_test(test_descriptor_limits),
		cmocka_unit_test(test_rewrite),
		cmocka_unit_test(test_image_path),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_disks),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_attached),
		cmocka_unit_test(test_encrypted),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_settle),
		cmocka_unit_test(test_settle_same_place),
		cmocka_unit_test(test_hostile_source),
	};

	need_root();
	return cmocka_run_group_tests_name("ct_ploop", tests, setup,
					   ctfix_teardown);
}
