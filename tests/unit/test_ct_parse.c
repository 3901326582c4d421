/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of the parsers of ct/: LXC's and OpenVZ's configurations, file
 * roles, paths, the origin file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ct/ctfile.h"
#include "ct/ctpath.h"
#include "ct/lxc.h"
#include "ct/lxcconf.h"
#include "ct/origin.h"
#include "ct/shconf.h"
#include "ct/vzconf.h"

static int
collect(const char *key, const char *value, void *arg, struct err *e)
{
	return buf_printf(arg, e, "%s=%s;", key, value);
}

static void
test_lxcconf_each(void **state)
{
	static const struct {
		const char *text, *want;
	} t[] = {
		{ "", "" },
		{ "a = b", "a=b;" },
		{ "  a\t=\tb c \r\n#x = y\n\n  # z\nd=", "a=b c;d=;" },
		{ "a = 'q r'\nb = \"s\"\nc = \"t'\n", "a=q r;b=s;c=\"t';" },
		{ "a = \"\nb = x=y\n", "a=\";b=x=y;" },
		{ "a = # not a comment\n", "a=# not a comment;" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		cleanup(buf_finip) struct buf b;

		buf_init(&b, 4096);
		assert_int_equal(lxcconf_each(t[i].text, strlen(t[i].text), "f",
					      collect, &b, NULL),
				 0);
		assert_string_equal(buf_cstr(&b, NULL), t[i].want);
	}
}

static void
test_lxcconf_bad(void **state)
{
	cleanup(buf_finip) struct buf b;
	struct err e = { 0 };

	(void)state;
	buf_init(&b, 4096);
	assert_int_equal(lxcconf_each("a = b\nbogus\n", 12, "f", collect, &b,
				      &e),
			 E_CONFIG);
	assert_string_equal(e.text,
			    "f line 2 is not of the form 'key = value'");
	assert_int_equal(lxcconf_each("= b", 3, "f", collect, &b, &e),
			 E_CONFIG);
	assert_int_equal(lxcconf_each("a = \0b", 6, "f", collect, &b, &e),
			 E_CONFIG);
	assert_string_equal(e.text, "f line 1 contains a NUL byte");
	buf_clear(&b);
	b.max = 3; /* the callback's error comes through */
	assert_int_equal(lxcconf_each("aa = bb", 7, "f", collect, &b, &e),
			 E_LIMIT);
}

static void
test_lxcconf_rewrite(void **state)
{
	static const char in[] =
		"# /var/lib/lxc/a stays in a comment\n"
		"lxc.uts.name = a\n"
		"lxc.uts.name=\"a\"\n"
		"lxc.rootfs.path = dir:/var/lib/lxc/a/rootfs\n"
		"lxc.hook.start = /var/lib/lxc/a/hook /var/lib/lxc/a/rootfs "
		"/var/lib/lxc/ab x/var/lib/lxc/a\n"
		"lxc.mount.entry = /var/lib/lxc/a srv none bind 0 0\n"
		"lxc.x=\xff\xfe  \r\n"
		"lxc.group = a";
	static const char want[] =
		"# /var/lib/lxc/a stays in a comment\n"
		"lxc.uts.name = b\n"
		"lxc.uts.name=\"b\"\n"
		"lxc.rootfs.path = dir:/srv/lxc/b/rootfs\n"
		"lxc.hook.start = /srv/lxc/b/hook /srv/lxc/b/rootfs "
		"/var/lib/lxc/ab x/var/lib/lxc/a\n"
		"lxc.mount.entry = /srv/lxc/b srv none bind 0 0\n"
		"lxc.x=\xff\xfe  \r\n"
		"lxc.group = a";
	const struct lxcconf_pair pairs[] = {
		{ "/var/lib/lxc/a/rootfs", "/srv/lxc/b/rootfs" },
		{ "/var/lib/lxc/a", "/srv/lxc/b" },
	};
	struct lxcconf_change ch = { pairs, 2, "/srv/lxc/b/rootfs", "a", "b" };
	cleanup(buf_finip) struct buf b;

	(void)state;
	buf_init(&b, 4096);
	assert_int_equal(
		lxcconf_rewrite(in, sizeof(in) - 1, "f", &ch, &b, NULL), 0);
	assert_string_equal(buf_cstr(&b, NULL), want);
	buf_clear(&b);
	assert_int_equal(lxcconf_rewrite("lxc.a = b", 9, "f", &ch, &b, NULL),
			 0);
	assert_string_equal(buf_cstr(&b, NULL),
			    "lxc.a = b\n"
			    "lxc.rootfs.path = dir:/srv/lxc/b/rootfs\n");
	/* Nothing to change: every byte stays. */
	buf_clear(&b);
	ch = (struct lxcconf_change){ 0 };
	assert_int_equal(
		lxcconf_rewrite(in, sizeof(in) - 1, "f", &ch, &b, NULL), 0);
	assert_int_equal(b.len, sizeof(in) - 1);
	assert_memory_equal(b.data, in, b.len);
}

#define EXTRA                                                            \
	"f: there is text behind the value of K, which vzctl takes for " \
	"a part of it; remove it"

static void
test_shconf_get(void **state)
{
	static const struct {
		const char *text;
		int rc;
		const char *want; /* value or error */
	} t[] = {
		{ "", 0, "" },
		{ "K=v", 1, "v" },
		{ "#K=v\nKK=w\n K=x\n", 1, "x" },
		{ "export K=\"a b\" # c\n", 1, "a b" },
		{ "K=\"a\"\t \n", 1, "a" },
		{ "K=a # c\n", E_CONFIG, EXTRA },
		{ "K=a b\n", E_CONFIG, EXTRA },
		{ "K=\"a\" # \"\n", E_CONFIG, EXTRA },
		{ "K=a;rm -rf /\n", E_CONFIG, EXTRA },
		{ "K=\n", 1, "" },
		{ "K=/vz/private/$VEID\n", 1, "/vz/private/101" },
		{ "K=\"/vz/${VEID}/$VEID\"\r\n", 1, "/vz/101/101" },
		{ "K='a\"b'\"c\\\"d\"e\n", 1, "a\"bc\"de" },
		{ "K=a\\ b\n", 1, "a b" },
		{ "K=a\nK=a\n", 1, "a" },
		{ "K = a\n", 0, "" },
		{ "K=$(rm -rf /)\n", E_CONFIG,
		  "f: K needs a shell to be read; only $VEID is expanded" },
		{ "K=`id`\n", E_CONFIG,
		  "f: K needs a shell to be read; only $VEID is expanded" },
		{ "K=\"$HOME\"\n", E_CONFIG,
		  "f: K needs a shell to be read; only $VEID is expanded" },
		{ "K=/a/$VEIDX\n", E_CONFIG,
		  "f: K needs a shell to be read; only $VEID is expanded" },
		{ "K=a&&b\n", E_CONFIG,
		  "f: K needs a shell to be read; only $VEID is expanded" },
		{ "K=\"a\n", E_CONFIG, "f: K lacks a closing quote" },
		{ "K=a\nK=b\n", E_CONFIG,
		  "f sets K twice, to 'a' and to 'b': vzctl takes the first "
		  "and scripts the last; remove one" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		cleanup(free_ptr) char *v = NULL;
		struct err e = { 0 };
		int rc = shconf_get(t[i].text, strlen(t[i].text), "f", "K",
				    "101", &v, &e);

		assert_string_equal(rc < 0 ? e.text : v ? v : "", t[i].want);
		assert_int_equal(rc, t[i].rc);
	}
}

static void
test_shconf_nul(void **state)
{
	struct err e = { 0 };
	char *v = NULL;

	(void)state;
	assert_int_equal(shconf_get("K=a\0b", 5, "f", "K", NULL, &v, &e),
			 E_CONFIG);
	assert_string_equal(e.text, "f contains a NUL byte");
}

static void
test_shconf_edit(void **state)
{
	static const char in[] = "# VE_ROOT=x\n"
				 "VE_ROOT=\"/vz/root/$VEID\"\n"
				 "VE_PRIVATE=\"/vz/private/$VEID\"\n"
				 "  VE_PRIVATE=/again\n"
				 "NAME=\"old\"\n"
				 "ODD='\xff'; $(true)\n"
				 "IP_ADDRESS=\"10.0.0.1\"";
	struct shconf_edit ed[] = { { "VE_PRIVATE", NULL },
				    { "VE_ROOT", "/srv/root/7" },
				    { "NAME", "new one" },
				    { "VEID", "7" } };
	cleanup(buf_finip) struct buf b;

	(void)state;
	buf_init(&b, 4096);
	assert_int_equal(shconf_edit(in, sizeof(in) - 1, ed, 4, &b, NULL), 0);
	assert_string_equal(buf_cstr(&b, NULL), "# VE_ROOT=x\n"
						"VE_ROOT=\"/srv/root/7\"\n"
						"NAME=\"new one\"\n"
						"ODD='\xff'; $(true)\n"
						"IP_ADDRESS=\"10.0.0.1\"\n"
						"VEID=\"7\"\n");
	buf_clear(&b);
	assert_int_equal(shconf_edit(in, sizeof(in) - 1, ed, 0, &b, NULL), 0);
	assert_int_equal(b.len, sizeof(in) - 1);
	assert_memory_equal(b.data, in, b.len);
	assert_true(shconf_plain("/srv/a b"));
	assert_false(shconf_plain("/srv/$VEID"));
	assert_false(shconf_plain("a\"b"));
	assert_false(shconf_plain("a\nb"));
}

static void
test_roles(void **state)
{
	static const char *const names[] = { "fstab", "A b_c", "\xff\n%",
					     "..." };
	static const char *const bad[] = { "",	  ".",	 "..",	   "a/b",
					   "_2f", "_00", "_2",	   "_",
					   "A",	  "_2e", "_2e_2e", "_GG" };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		cleanup(free_ptr) char *c = ctfile_encode(names[i], NULL);
		cleanup(free_ptr) char *d = ctfile_decode(c, NULL);

		assert_int_equal(strspn(c, "abcdefghijklmnopqrstuvwxyz"
					   "0123456789._-"),
				 strlen(c));
		assert_string_equal(d, names[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct err e = { 0 };
		char want[80];

		snprintf(want, sizeof(want), "'%s' is no coded file name",
			 bad[i]);
		assert_null(ctfile_decode(bad[i], &e));
		assert_int_equal(e.code, E_PROTOCOL);
		assert_string_equal(e.text, want);
	}
}

static void
test_paths(void **state)
{
	static const struct {
		const char *in, *want; /* want: path, or error */
		int code;
	} t[] = {
		{ "/a", "/a", 0 },
		{ "//a///b/./c/", "/a/b/c", 0 },
		{ "", "x is empty", E_USAGE },
		{ "/", "x cannot be the root directory", E_USAGE },
		{ "//./", "x cannot be the root directory", E_USAGE },
		{ "a/b", "x must be an absolute path: a/b", E_USAGE },
		{ "/a/../b", "x must not contain '..': /a/../b", E_USAGE },
		{ "/a/..", "x must not contain '..': /a/..", E_USAGE },
		{ "/a\nb", "x is not a usable path: /a\\nb", E_USAGE },
		{ "/...", "/...", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct err e = { 0 };
		cleanup(free_ptr) char *p = ctpath_clean(t[i].in, "x", &e);

		assert_string_equal(p ? p : e.text, t[i].want);
		assert_int_equal(e.code, t[i].code);
	}
	assert_true(ctpath_inside("/a", "/a"));
	assert_true(ctpath_inside("/a/b", "/a"));
	assert_true(ctpath_inside("/a", "/"));
	assert_false(ctpath_inside("/ab", "/a"));
	assert_false(ctpath_inside("/a", "/a/b"));
}

static void
test_ids(void **state)
{
	static const struct {
		const char *in, *want;
		int code;
	} t[] = {
		{ "101", "101", 0 },
		{ "0101", "101", 0 },
		{ "2147483644", "2147483644", 0 },
		{ "0", "CT 0 is the host itself, which cannot be moved",
		  E_USAGE },
		{ "2147483645",
		  "CT 2147483645 is out of range (1 to "
		  "2147483644)",
		  E_USAGE },
		{ "99999999999999999999",
		  "CT 99999999999999999999 is out of "
		  "range (1 to 2147483644)",
		  E_USAGE },
		{ "", "", 0 },
		{ "-1", "", 0 },
		{ "1 ", "", 0 },
		{ "web", "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct err e = { 0 };
		cleanup(free_ptr) char *p = vzconf_ctid(t[i].in, &e);

		assert_string_equal(p ? p : e.text, t[i].want);
		assert_int_equal(e.code, t[i].code);
	}
	assert_true(vzconf_name_ok("web 1"));
	assert_false(vzconf_name_ok("12"));
	assert_false(vzconf_name_ok("../x"));
	assert_false(vzconf_name_ok(".."));
	assert_false(vzconf_name_ok("-x"));
	assert_false(vzconf_name_ok(""));
	assert_true(lxc_name_ok("web"));
	assert_false(lxc_name_ok("a/b"));
	assert_false(lxc_name_ok(".."));
	assert_false(lxc_name_ok("-n"));
	assert_false(lxc_name_ok("a b"));
	assert_false(lxc_name_ok(""));
}

static int
origin_line(const char *key, const char *what, const char *value, void *arg,
	    struct err *e)
{
	return buf_printf(arg, e, "%s|%s|%s;", key, what ? what : "", value);
}

static void
test_origin(void **state)
{
	static const struct {
		const char *text, *want;
	} bad[] = {
		{ "dir", "a line of origin has no value" },
		{ "need x", "a line of origin has no path" },
		{ "dir a b", "a value in origin is not coded right" },
		{ "dir %0", "a value in origin is not coded right" },
		{ "dir %00", "a value in origin is not coded right" },
		{ "dir %zz", "a value in origin is not coded right" },
	};
	cleanup(buf_finip) struct buf b, out;
	struct ct_file f = { .role = (char *)"origin" };
	struct ct_want w = { .files = &f, .nfiles = 1 };
	cleanup(free_ptr) char *got = NULL;

	(void)state;
	buf_init(&b, 4096);
	buf_init(&out, 4096);
	assert_int_equal(origin_put(&b, "dir", NULL, "/a b%\n\xff", NULL), 0);
	assert_int_equal(origin_put(&b, "need", "hook", "/x", NULL), 0);
	f.data = b.data;
	f.len = b.len;
	assert_int_equal(origin_each(&w, origin_line, &out, NULL), 0);
	assert_string_equal(buf_cstr(&out, NULL),
			    "dir||/a b%\n\xff;need|hook|/x;");
	got = origin_get(&w, "dir", 0);
	assert_string_equal(got, "/a b%\n\xff");
	assert_null(origin_get(&w, "dir", 1));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct err e = { 0 };

		f.data = (uint8_t *)bad[i].text;
		f.len = strlen(bad[i].text);
		assert_int_equal(origin_each(&w, origin_line, &out, &e),
				 E_PROTOCOL);
		assert_string_equal(e.text, bad[i].want);
	}
	w.nfiles = 0;
	assert_int_equal(origin_each(&w, origin_line, &out, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lxcconf_each),
		cmocka_unit_test(test_lxcconf_bad),
		cmocka_unit_test(test_lxcconf_rewrite),
		cmocka_unit_test(test_shconf_get),
		cmocka_unit_test(test_shconf_nul),
		cmocka_unit_test(test_shconf_edit),
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_origin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
