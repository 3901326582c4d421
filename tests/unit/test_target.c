/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ssh/target: what a person writes for a destination (field case T10).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ssh/target.h"

static const struct {
	const char *text;
	const char *user; /* NULL: none */
	const char *host;
	int port;
} good[] = {
	{ "host", NULL, "host", 0 },
	{ "root@host", "root", "host", 0 },
	{ "root@[2001:db8::1]", "root", "2001:db8::1", 0 },
	{ "[::1]:2222", NULL, "::1", 2222 },
	{ "[::1]", NULL, "::1", 0 },
	{ "::1", NULL, "::1", 0 },
	{ "fe80::1%eth0", NULL, "fe80::1%eth0", 0 },
	{ "u@fe80::1%eth0", "u", "fe80::1%eth0", 0 },
	{ "[fe80::1%eth0]:22", NULL, "fe80::1%eth0", 22 },
	{ "ssh://u@h:22", "u", "h", 22 },
	{ "ssh://h", NULL, "h", 0 },
	{ "ssh://h/", NULL, "h", 0 },
	{ "ssh://[::1]:65535/", NULL, "::1", 65535 },
	{ "ssh://u%40x@h", "u@x", "h", 0 },
	{ "u@with@at@h", "u@with@at", "h", 0 },
	{ "DOMAIN\\user@h", "DOMAIN\\user", "h", 0 },
	{ "machine$@h", "machine$", "h", 0 },
	{ "192.0.2.1", NULL, "192.0.2.1", 0 },
	{ "my_alias-1.x", NULL, "my_alias-1.x", 0 },
};

static const char *const bad[] = {
	"",
	"@h",
	"u@",
	"-oProxyCommand=x",
	"u@-h",
	"-u@h",
	"h:22",
	"[::1",
	"[::1]22",
	"[::1]:0",
	"[::1]:65536",
	"[::1]:x",
	"ssh://",
	"ssh://h:",
	"ssh://h:99999",
	"ssh://h:1x",
	"h;id",
	"h$(id)",
	"h`id`",
	"h|id",
	"h id",
	"h\nid",
	"u;id@h",
	"u'@h",
	"u -x@h",
	"u\\@h",
	"ssh://u%00@h",
	"ssh://u%zz@h",
	"ssh://u%4@h",
	"[]",
	"[]:22",
	"ssh://-h",
	"u\x01@h",
	"h\x7f",
	"fe80::1%",
};

static void
test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct target t;
		struct err e = { 0 };

		if (target_parse(good[i].text, &t, &e) != 0) {
			fail_msg("%s: %s", good[i].text, e.text);
		}
		assert_string_equal(t.host, good[i].host);
		assert_int_equal(t.port, good[i].port);
		if (good[i].user) {
			assert_string_equal(t.user, good[i].user);
		} else {
			assert_null(t.user);
		}
		target_fini(&t);
	}
}

static void
test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct target t;
		struct err e = { 0 };

		if (target_parse(bad[i], &t, &e) != E_USAGE) {
			fail_msg("'%s' was taken", bad[i]);
		}
		assert_null(t.host);
		assert_null(t.user);
		assert_non_null(strstr(e.text, "destination"));
	}
}

static void
test_message(void **state)
{
	struct target t;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(target_parse("host:22", &t, &e), E_USAGE);
	assert_string_equal(e.text,
			    "destination 'host:22': 'host:22' is neither a "
			    "name nor an IPv6 address; a port is given with "
			    "-p or as ssh://host:port");
}

static void
test_is_address(void **state)
{
	(void)state;
	assert_true(target_is_address("::1"));
	assert_true(target_is_address("fe80::1%eth0"));
	assert_true(target_is_address("10.0.0.1"));
	assert_false(target_is_address("host"));
	assert_false(target_is_address("10.0.0"));
	assert_false(target_is_address("fe80::1%"));
	assert_false(target_is_address(""));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_message),
		cmocka_unit_test(test_is_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
