/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ssh/kexlog: what a server offers, from libssh's log and from its error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ssh/kexlog.h"

static void
test_second_round_is_the_server(void **state)
{
	static struct kexlog k;

	(void)state;
	memset(&k, 0, sizeof(k));
	kexlog_line(&k, "ssh_list_kex", "ssh_list_kex: kex algos: ours");
	kexlog_line(&k, "ssh_list_kex",
		    "ssh_list_kex: encryption client->server: ours");
	assert_string_equal(k.lists[KEXLOG_CIPHER_C2S], "");
	kexlog_line(&k, "ssh_list_kex", "ssh_list_kex: kex algos: theirs");
	kexlog_line(&k, "other", "encryption client->server: not this");
	/* without the function's name in front, as other versions have it */
	kexlog_line(&k, "ssh_list_kex", "encryption client->server: a,b\n");
	kexlog_line(&k, "ssh_list_kex", "encryption server->client: c");
	kexlog_line(&k, "ssh_list_kex", "mac algo client->server: ");
	assert_string_equal(k.lists[KEXLOG_KEX], "theirs");
	assert_string_equal(k.lists[KEXLOG_CIPHER_C2S], "a,b");
	assert_string_equal(k.lists[KEXLOG_CIPHER_S2C], "c");
	assert_string_equal(k.lists[KEXLOG_MAC_C2S], "");
	/* a rekeying changes nothing */
	kexlog_line(&k, "ssh_list_kex", "kex algos: ours again");
	kexlog_line(&k, "ssh_list_kex", "encryption client->server: z");
	assert_string_equal(k.lists[KEXLOG_KEX], "theirs");
	assert_string_equal(k.lists[KEXLOG_CIPHER_C2S], "a,b");
}

static void
test_explain(void **state)
{
	static struct kexlog_mismatch m;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(kexlog_explain("Socket error", &m, &e), 0);
	assert_string_equal(m.ours, "");
	assert_int_equal(
		kexlog_explain("kex error : no match for method encryption "
			       "client->server: server [arcfour,3des-cbc], "
			       "client [aes128-ctr]",
			       &m, &e),
		E_CONNECT);
	assert_string_equal(e.text, "no algorithm in common for 'encryption "
				    "client->server': the server has "
				    "arcfour,3des-cbc; we offer aes128-ctr");
	assert_int_equal(m.list, KEXLOG_CIPHER_C2S);
	assert_string_equal(m.theirs, "arcfour,3des-cbc");
	assert_string_equal(m.ours, "aes128-ctr");
	/* cut by libssh's buffer; nobody wants the parts */
	assert_int_equal(kexlog_explain("no match for method kex algos: "
					"server [a,b",
					NULL, &e),
			 E_CONNECT);
	assert_string_equal(e.text, "no algorithm in common for 'kex algos': "
				    "the server has a,b; we offer nothing");
	assert_int_equal(kexlog_explain("no match for method compression "
					"algo client->server: server [x], "
					"client [none]",
					&m, &e),
			 E_CONNECT);
	assert_int_equal(m.list, KEXLOG_LISTS);
}

/* All six lists of one side; NULL: "x". */
static void
put_lists(struct kexlog *k, const char *c2s, const char *s2c, const char *mac)
{
	const char *v[][2] = {
		{ "kex algos", NULL },
		{ "server host key algo", NULL },
		{ "encryption client->server", c2s },
		{ "encryption server->client", s2c },
		{ "mac algo client->server", mac },
		{ "mac algo server->client", mac },
	};
	char line[256];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		snprintf(line, sizeof(line), "%s: %s", v[i][0],
			 v[i][1] ? v[i][1] : "x");
		kexlog_line(k, "ssh_list_kex", line);
	}
}

static void
test_compare(void **state)
{
	static const char gcm[] = "aes128-ctr,aes128-gcm@openssh.com";
	static struct kexlog k;
	static struct kexlog_mismatch m;
	struct err e = { 0 };

	(void)state;
	memset(&k, 0, sizeof(k));
	put_lists(&k, gcm, "aes128-ctr", NULL);
	assert_int_equal(kexlog_compare(&k, &m, &e), 0); /* theirs unseen */
	put_lists(&k, "aes128-gcm@openssh.com", "aes128-ctr,y", NULL);
	assert_int_equal(kexlog_compare(&k, &m, &e), 0);
	/* a part of a name is another name */
	memset(&k, 0, sizeof(k));
	put_lists(&k, gcm, "aes128-ctr", NULL);
	put_lists(&k, gcm, "aes128-ct,aes128-ctr2", NULL);
	assert_int_equal(kexlog_compare(&k, &m, &e), E_CONNECT);
	assert_int_equal(m.list, KEXLOG_CIPHER_S2C);
	assert_string_equal(m.ours, "aes128-ctr");
	assert_string_equal(m.theirs, "aes128-ct,aes128-ctr2");
	assert_string_equal(e.text, "no algorithm in common for 'encryption "
				    "server->client': the server has "
				    "aes128-ct,aes128-ctr2; we offer "
				    "aes128-ctr");
	/* where both ciphers are AEAD, MACs do not count; with one they do */
	memset(&k, 0, sizeof(k));
	put_lists(&k, "aes128-gcm@openssh.com", "aes128-gcm@openssh.com", "m");
	put_lists(&k, gcm, gcm, "n");
	assert_int_equal(kexlog_compare(&k, &m, &e), 0);
	memset(&k, 0, sizeof(k));
	put_lists(&k, gcm, "aes128-gcm@openssh.com", "m");
	put_lists(&k, gcm, gcm, "n");
	assert_int_equal(kexlog_compare(&k, NULL, &e), E_CONNECT);
	assert_non_null(strstr(e.text, "'mac algo client->server'"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second_round_is_the_server),
		cmocka_unit_test(test_explain),
		cmocka_unit_test(test_compare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
