/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ssh/sshopts: the command line's part.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "ssh/sshopts.h"

static const struct {
	const char *text;
	const char *words[6]; /* NULL ends */
} splits[] = {
	{ "", { NULL } },
	{ "  \t ", { NULL } },
	{ "a b", { "a", "b", NULL } },
	{ "  a\tb\n", { "a", "b", NULL } },
	{ "'a b' c", { "a b", "c", NULL } },
	{ "\"a b\"c", { "a bc", NULL } },
	{ "a\\ b", { "a b", NULL } },
	{ "'a\\b'", { "a\\b", NULL } },
	{ "\"a\\\"b\\$c\\d\"", { "a\"b$c\\d", NULL } },
	{ "''", { "", NULL } },
	{ "a'b'\"c\"", { "abc", NULL } },
	{ "$HOME *", { "$HOME", "*", NULL } },
	{ "\"it's\"", { "it's", NULL } },
};

static void
test_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
		struct sshlist w = { NULL, 0 };
		size_t n = 0;

		assert_int_equal(sshopts_split(splits[i].text, &w, NULL), 0);
		for (; splits[i].words[n]; n++) {
			assert_true(n < w.n);
			assert_string_equal(w.v[n], splits[i].words[n]);
		}
		assert_int_equal(w.n, n);
		sshlist_fini(&w);
	}
}

static void
test_split_bad(void **state)
{
	static const char *const bad[] = { "'a", "\"a", "a\\", "\"a\\\"" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sshlist w = { NULL, 0 };

		assert_int_equal(sshopts_split(bad[i], &w, NULL), E_USAGE);
		sshlist_fini(&w);
	}
}

static void
test_all(void **state)
{
	struct sshopts o = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(
		sshopts_parse(&o,
			      "-p 22 -i '/k 1' -i/k2 -l bob -vvC4 -J j1,j2 "
			      "-F /cfg -c aes256-ctr -m hmac-sha2-256 "
			      "-o StrictHostKeyChecking=yes "
			      "-oUser=x -o 'proxycommand = nc %h %p'",
			      &e),
		0);
	assert_int_equal(o.port, 22);
	assert_string_equal(o.identities.v[0], "/k 1");
	assert_string_equal(o.identities.v[1], "/k2");
	assert_int_equal(o.identities.n, 2);
	assert_string_equal(o.user, "bob");
	assert_int_equal(o.verbose, 2);
	assert_true(o.compression);
	assert_int_equal(o.family, AF_INET);
	assert_string_equal(o.jump, "j1,j2");
	assert_string_equal(o.config, "/cfg");
	assert_string_equal(o.ciphers, "aes256-ctr");
	assert_string_equal(o.macs, "hmac-sha2-256");
	assert_int_equal(o.options.n, 3);
	assert_string_equal(o.options.v[0], "StrictHostKeyChecking=yes");
	assert_string_equal(o.options.v[1], "User=x");
	assert_string_equal(o.options.v[2], "ProxyCommand=nc %h %p");
	sshopts_fini(&o);
}

/* Our own options win wherever they stand; within --ssh the first does. */
static void
test_precedence(void **state)
{
	struct sshopts o = { 0 };

	(void)state;
	assert_int_equal(sshopts_parse(&o,
				       "-p 1 -p 2 -l a -l b -F x -J j "
				       "-o Ciphers=one -o Ciphers=two",
				       NULL),
			 0);
	assert_int_equal(o.port, 1);
	assert_string_equal(o.user, "a");
	assert_string_equal(o.ciphers, "one");
	assert_int_equal(sshopts_port(&o, "3", NULL), 0);
	assert_int_equal(sshopts_config(&o, "none", NULL), 0);
	assert_int_equal(sshopts_jump(&o, "own", NULL), 0);
	assert_int_equal(sshopts_parse(&o, "-p 4 -F y -J k", NULL), 0);
	assert_int_equal(o.port, 3);
	assert_string_equal(o.config, "none");
	assert_string_equal(o.jump, "own");
	sshopts_fini(&o);
}

/* What cannot be honoured is named, never dropped. */
static const struct {
	const char *text, *names;
} refused[] = {
	{ "-o ControlMaster=auto", "ControlMaster=auto" },
	{ "-o controlmaster=yes", "ControlMaster=yes" },
	{ "-o LocalForward='80 h:80'", "LocalForward" },
	{ "-o RevokedHostKeys=/x", "RevokedHostKeys=/x" },
	{ "-o KnownHostsCommand=/bin/x", "KnownHostsCommand" },
	{ "-o VerifyHostKeyDNS=yes", "VerifyHostKeyDNS=yes" },
	{ "-o VerifyHostKeyDNS=ask", "VerifyHostKeyDNS=ask" },
	{ "-o PKCS11Provider=x", "PKCS11Provider" },
	{ "-o RemoteCommand=x", "RemoteCommand" },
	{ "-o SetEnv=A=b", "SetEnv" },
	{ "-o ProxyUseFdpass=yes", "ProxyUseFdpass" },
	{ "-o NoSuchThing=1", "NoSuchThing" },
	{ "-o Port", "'Port'" },
	{ "-o =x", "'=x'" },
	{ "-L 1:h:1", "-L" },
	{ "-vA", "-A" },
	{ "-N", "-N" },
	{ "-p", "-p" },
	{ "-p 0", "'0'" },
	{ "-p 65536", "'65536'" },
	{ "-p 22x", "'22x'" },
	{ "host", "'host'" },
	{ "--port=1", "'--port=1'" },
	{ "-", "'-'" },
	{ "-i ''", "identity" },
	{ "-o 'Port=1\nProxyCommand=x'", "line break" },
};

static void
test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct sshopts o = { 0 };
		struct err e = { 0 };

		if (sshopts_parse(&o, refused[i].text, &e) != E_USAGE) {
			fail_msg("'%s' was taken", refused[i].text);
		}
		if (!strstr(e.text, refused[i].names)) {
			fail_msg("'%s': %s", refused[i].text, e.text);
		}
		sshopts_fini(&o);
	}
}

static void
test_harmless(void **state)
{
	struct sshopts o = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(
		sshopts_parse(&o,
			      "-o ControlMaster=no -o ControlPath=none "
			      "-o ForwardX11=no -o LogVerbose=x "
			      "-o RequestTTY=no -o RevokedHostKeys=none",
			      &e),
		0);
	assert_int_equal(o.options.n, 0);
	sshopts_fini(&o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_split_bad),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
