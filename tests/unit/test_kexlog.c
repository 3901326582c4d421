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
	struct err e = { 0 };

	(void)state;
	assert_int_equal(kexlog_explain("Socket error", &e), 0);
	assert_int_equal(
		kexlog_explain("kex error : no match for method encryption "
			       "client->server: server [arcfour,3des-cbc], "
			       "client [aes128-ctr]",
			       &e),
		E_CONNECT);
	assert_string_equal(e.text, "no algorithm in common for 'encryption "
				    "client->server': the server has "
				    "arcfour,3des-cbc; we offer aes128-ctr; "
				    "--allow-cipher=3des-cbc would offer it");
	/* cut by libssh's buffer */
	assert_int_equal(kexlog_explain("no match for method kex algos: "
					"server [a,b",
					&e),
			 E_CONNECT);
	assert_string_equal(e.text, "no algorithm in common for 'kex algos': "
				    "the server has a,b; we offer nothing");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second_round_is_the_server),
		cmocka_unit_test(test_explain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
