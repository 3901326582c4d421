/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ssh/sshconf: the user's configuration as ssh reads it (field cases C1, C3),
 * and the same cases through our own reader, which stands in where the OpenSSH
 * client is missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "base/log.h"
#include "ssh/algo.h"
#include "ssh/sshconf.h"
#include "ssh/sshline.h"

/* A directory for configuration files; whether ssh may be found. */
struct bed {
	char dir[64];
	char file[96];
	char *path; /* $PATH as it was */
};

static bool with_ssh;

static int
setup(void **state)
{
	struct bed *b = calloc(1, sizeof(*b));

	strcpy(b->dir, "/tmp/vzm-conf-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	snprintf(b->file, sizeof(b->file), "%s/config", b->dir);
	b->path = strdup(getenv("PATH"));
	if (!with_ssh) {
		setenv("PATH", b->dir, 1);
	}
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bed *b = *state;
	char other[96];

	setenv("PATH", b->path, 1);
	snprintf(other, sizeof(other), "%s/other", b->dir);
	unlink(other);
	unlink(b->file);
	assert_int_equal(rmdir(b->dir), 0);
	free(b->path);
	free(b);
	return 0;
}

static void
write_to(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* Resolve `dest` with the configuration `text` and the string of --ssh. */
static int
resolve(struct bed *b, const char *text, const char *ssh, const char *dest,
	struct sshconf *c, struct err *e)
{
	struct sshopts o = { 0 };
	struct target t;
	int rc;

	*e = (struct err){ 0 };
	write_to(b->file, text);
	assert_int_equal(target_parse(dest, &t, NULL), 0);
	assert_int_equal(sshopts_config(&o, b->file, NULL), 0);
	assert_int_equal(sshopts_parse(&o, ssh, NULL), 0);
	rc = sshconf_resolve(&t, &o, c, e);
	if (rc == 0) {
		assert_int_equal(c->by_ssh, with_ssh);
	}
	sshopts_fini(&o);
	target_fini(&t);
	return rc;
}

static void
must(struct bed *b, const char *text, const char *ssh, const char *dest,
     struct sshconf *c)
{
	struct err e;

	if (resolve(b, text, ssh, dest, c, &e) != 0) {
		fail_msg("%s", e.text);
	}
}

static void
test_fields(void **state)
{
	struct bed *b = *state;
	struct sshconf c;

	must(b,
	     "Host other\n  Port 1\n"
	     "Host a b?\n"
	     "  HostName h-%h.example\n"
	     "  Port 2222\n"
	     "  User bob\n"
	     "Host a\n" /* libssh does not come here after HostName */
	     "  IdentityFile /k/one_%r\n"
	     "  IdentityFile \"/k/with blank\"\n"
	     "  CertificateFile /k/c-cert.pub\n"
	     "  UserKnownHostsFile /k/kh1 /k/kh2\n"
	     "  GlobalKnownHostsFile none\n"
	     "  StrictHostKeyChecking accept-new\n"
	     "  HostKeyAlias al\n"
	     "  IdentitiesOnly yes\n"
	     "  IdentityAgent /k/agent\n"
	     "  ConnectTimeout 1m\n"
	     "  BatchMode yes\n"
	     "  ServerAliveInterval 5\n"
	     "  ServerAliveCountMax 2\n"
	     "  AddressFamily inet6\n"
	     "  PreferredAuthentications publickey\n"
	     "  PasswordAuthentication no\n"
	     "  RekeyLimit 1M 1h\n"
	     "  KexAlgorithms curve25519-sha256\n"
	     "  Port 3\n", /* the first wins */
	     "", "a", &c);
	assert_string_equal(c.alias, "a");
	assert_string_equal(c.host, "h-a.example");
	assert_int_equal(c.port, 2222);
	assert_string_equal(c.user, "bob");
	assert_int_equal(c.identities.n, 2);
	assert_string_equal(c.identities.v[0], "/k/one_bob");
	assert_string_equal(c.identities.v[1], "/k/with blank");
	assert_string_equal(c.certificates.v[0], "/k/c-cert.pub");
	assert_int_equal(c.user_known_hosts.n, 2);
	assert_string_equal(c.user_known_hosts.v[1], "/k/kh2");
	assert_int_equal(c.global_known_hosts.n, 0);
	assert_int_equal(c.strict, SSHCONF_ACCEPT_NEW);
	assert_string_equal(c.host_key_alias, "al");
	assert_true(c.identities_only);
	assert_string_equal(c.identity_agent, "/k/agent");
	assert_int_equal(c.connect_timeout_s, 60);
	assert_true(c.batch);
	assert_int_equal(c.alive_interval_s, 5);
	assert_int_equal(c.alive_count_max, 2);
	assert_int_equal(c.family, AF_INET6);
	assert_string_equal(c.preferred_auth, "publickey");
	assert_false(c.password_auth);
	assert_true(c.rekey_bytes == 1 << 20);
	assert_int_equal(c.rekey_s, 3600);
	assert_string_equal(c.kex, "curve25519-sha256");
	assert_null(c.ciphers); /* nobody said it */
	assert_null(c.macs);
	sshconf_fini(&c);
}

/* The command line comes first. */
static void
test_command_line(void **state)
{
	struct bed *b = *state;
	struct sshconf c;
	char args[256];

	/* ssh drops an -i that is not there */
	snprintf(args, sizeof(args),
		 "-p 22 -i %s -o StrictHostKeyChecking=no -6 "
		 "-c aes128-ctr -o MACs=hmac-sha2-256 -J none",
		 b->file);
	must(b,
	     "Host *\nPort 1\nUser x\nIdentityFile /k/2\n"
	     "StrictHostKeyChecking yes\nProxyJump j\n",
	     args, "me@h", &c);
	assert_int_equal(c.port, 22);
	assert_string_equal(c.user, "me");
	assert_string_equal(c.identities.v[0], b->file);
	assert_string_equal(c.identities.v[1], "/k/2");
	assert_int_equal(c.strict, SSHCONF_NO);
	assert_int_equal(c.family, AF_INET6);
	assert_string_equal(c.ciphers, "aes128-ctr");
	assert_string_equal(c.macs, "hmac-sha2-256");
	assert_null(c.proxy_jump);
	sshconf_fini(&c);
}

static void
test_defaults(void **state)
{
	struct bed *b = *state;
	struct sshconf c;

	must(b, "", "", "h", &c);
	assert_string_equal(c.host, "h");
	assert_int_equal(c.port, 22);
	assert_false(c.identities_said);
	assert_true(c.identities.n >= 4);
	assert_string_equal(strrchr(c.identities.v[0], '/'), "/id_rsa");
	assert_int_equal(c.strict, SSHCONF_ASK);
	assert_true(c.pubkey_auth && c.password_auth && c.kbdint_auth);
	assert_null(c.ciphers);
	assert_null(c.kex);
	assert_null(c.hostkey_algs);
	assert_null(c.proxy_command);
	assert_string_equal(strrchr(c.user_known_hosts.v[0], '/'),
			    "/known_hosts");
	sshconf_fini(&c);
}

/* C1: names that ssh does not know reach us as they were written. */
static void
test_unknown_ciphers(void **state)
{
	struct bed *b = *state;
	struct sshconf c;
	char other[96], config[512];

	snprintf(other, sizeof(other), "%s/other", b->dir);
	write_to(other, "Host a\n MACs hmac-md5\n User \"bob\"\n");
	snprintf(config, sizeof(config),
		 "Include %s/oth* /nonexistent/*\n"
		 "Host z\n Ciphers aes256-ctr\n"
		 "Host a\n  Ciphers arcfour,blowfish-cbc\n"
		 "  KexAlgorithms nonsense,curve25519-sha256\n"
		 "Host *\n  Ciphers aes128-ctr\n  Port 7\n",
		 b->dir);
	must(b, config, "", "a", &c);
	assert_string_equal(c.ciphers, "arcfour,blowfish-cbc");
	assert_string_equal(c.macs, "hmac-md5");
	assert_string_equal(c.kex, "nonsense,curve25519-sha256");
	assert_null(c.hostkey_algs);
	assert_string_equal(c.user, "bob");
	assert_int_equal(c.port, 7);
	sshconf_fini(&c);
	/* for another host the good line applies, the bad one still stands */
	must(b, config, "", "z", &c);
	assert_string_equal(c.ciphers, "aes256-ctr");
	assert_null(c.macs);
	assert_null(c.kex);
	sshconf_fini(&c);
	/* and on the command line they are kept from ssh */
	must(b, "", "-c arcfour -o MACs=foo", "a", &c);
	assert_string_equal(c.ciphers, "arcfour");
	assert_string_equal(c.macs, "foo");
	sshconf_fini(&c);
}

/* C3 */
static void
test_match_final_crlf(void **state)
{
	struct bed *b = *state;
	struct sshconf c;

	must(b,
	     "Match final all\r\n  Port 9\r\n"
	     "Include /nonexistent/file\r\n"
	     "Match host a user no-one-here\r\n  HostKeyAlias wrong\r\n"
	     "Match originalhost a\r\n  User bob\r\n"
	     "Match final user bob\r\n  HostKeyAlias right\r\n"
	     "Host *\r\n  HostName a.example\r\n  Port 8\r\n",
	     "", "a", &c);
	assert_string_equal(c.user, "bob");
	assert_string_equal(c.host, "a.example");
	assert_int_equal(c.port, 8);
	assert_string_equal(c.host_key_alias, "right");
	sshconf_fini(&c);
}

static void
test_proxy(void **state)
{
	struct bed *b = *state;
	struct sshconf c;

	must(b,
	     "Host a\nProxyCommand nc -X %h %p %r %n 100%%\nPort 5\n"
	     "User u\nHostName x.y\n",
	     "", "a", &c);
	assert_string_equal(c.proxy_command, "nc -X x.y 5 u a 100%");
	sshconf_fini(&c);
	must(b, "Host a\nProxyJump j1,u@j2:33\n", "", "a", &c);
	assert_string_equal(c.proxy_jump, "j1,u@j2:33");
	assert_null(c.proxy_command);
	sshconf_fini(&c);
}

/* What cannot be honoured and what would be dangerous. */
static const struct {
	const char *config, *ssh;
	int code;
	const char *names;
} bad[] = {
	{ "RevokedHostKeys /x\n", "", E_CONFIG, "revokedhostkeys" },
	{ "KnownHostsCommand /bin/true\n", "", E_CONFIG, "knownhostscommand" },
	{ "VerifyHostKeyDNS yes\n", "", E_CONFIG, "verifyhostkeydns" },
	{ "VerifyHostKeyDNS ask\n", "", E_CONFIG, "verifyhostkeydns" },
	{ "ProxyUseFdpass yes\n", "", E_CONFIG, "proxyusefdpass" },
	{ "StrictHostKeyChecking maybe\n", "", E_CONFIG, "" },
	{ "Port 99999\n", "", E_CONFIG, "" },
	{ "Match nonsense x\n", "", E_CONFIG, "" },
	{ "IdentityFile \"/unclosed\n", "", E_CONFIG, "" },
	{ "IdentityFile /k/%Z\n", "", E_CONFIG, "%" },
	{ "HostName -oProxyCommand=x\n", "", E_CONFIG, "" },
	{ "", "-J 'a;b'", E_USAGE, "a;b" },
	{ "", "-J -x", E_USAGE, "-x" },
	{ "", "-l 'a;b'", E_USAGE, "a;b" },
};

static void
test_bad(void **state)
{
	struct bed *b = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sshconf c;
		struct err e;
		int rc = resolve(b, bad[i].config, bad[i].ssh, "a", &c, &e);

		if (rc != bad[i].code || !strstr(e.text, bad[i].names)) {
			fail_msg("case %zu (%s %s): %d %s", i, bad[i].config,
				 bad[i].ssh, rc, e.text);
		}
		assert_null(c.host);
	}
}

/* Values that ssh -G prints for all versions, and a user's wish. */
static void
test_parse_wish(void **state)
{
	struct sshconf c = { 0 };

	(void)state;
	c.alias = strdup("a");
	assert_int_equal(sshconf_parse(&c,
				       "ciphers x,y\nmacs m\nport 22\n"
				       "pubkeyauthentication true\n"
				       "stricthostkeychecking false\n"
				       "rekeylimit 0 0\nconnecttimeout none\n",
				       "ciphers x,y\nmacs m,n\nport 22\n",
				       NULL),
			 0);
	assert_null(c.ciphers);
	assert_string_equal(c.macs, "m");
	assert_int_equal(c.strict, SSHCONF_NO);
	sshconf_fini(&c);
}

static void
test_algo(void **state)
{
	char *out;
	struct err e = { 0 };

	(void)state;
	assert_true(algo_known(ALGO_CIPHER, "aes128-gcm@openssh.com"));
	assert_true(algo_known(ALGO_CIPHER, "aes128-cbc"));
	assert_false(algo_known(ALGO_CIPHER, "arcfour"));
	assert_false(algo_known(ALGO_CIPHER, "aes128-ctr,arcfour"));
	assert_int_equal(algo_resolve(ALGO_CIPHER, "arcfour,aes256-ctr", "",
				      &out, &e),
			 0);
	assert_string_equal(out, "aes256-ctr");
	free(out);
	assert_int_equal(algo_resolve(ALGO_CIPHER, "+aes128-cbc",
				      "aes128-ctr,aes256-ctr", &out, &e),
			 0);
	assert_string_equal(out, "aes128-ctr,aes256-ctr,aes128-cbc");
	free(out);
	assert_int_equal(algo_resolve(ALGO_CIPHER, "^aes256-ctr",
				      "aes128-ctr,aes256-ctr", &out, &e),
			 0);
	assert_string_equal(out, "aes256-ctr,aes128-ctr");
	free(out);
	assert_int_equal(algo_resolve(ALGO_CIPHER, "-aes1*",
				      "aes128-ctr,aes256-ctr", &out, &e),
			 0);
	assert_string_equal(out, "aes256-ctr");
	free(out);
	assert_int_equal(algo_resolve(ALGO_CIPHER, "arcfour,blowfish-cbc", "",
				      &out, &e),
			 E_CONFIG);
	/* the built-in lists hold nothing that must be asked for */
	assert_null(strstr(algo_default(ALGO_CIPHER), "cbc"));
	assert_null(strstr(algo_default_s2c(), "cbc"));
}

static void
test_patterns(void **state)
{
	char bomb[256];

	(void)state;
	assert_true(sshline_match("*", "", false));
	assert_true(sshline_match("a*c", "abbbc", false));
	assert_true(sshline_match("a?c", "abc", false));
	assert_false(sshline_match("a?c", "ac", false));
	assert_true(sshline_match("ABC", "abc", true));
	assert_false(sshline_match("ABC", "abc", false));
	assert_int_equal(sshline_match_list("a,!b,*", ',', "b", false), -1);
	assert_int_equal(sshline_match_list("", ',', "b", false), 0);
	/* libssh's matcher is exponential here (CVE-2026-0967) */
	for (size_t i = 0; i < sizeof(bomb) - 1; i++) {
		bomb[i] = i % 2 ? 'a' : '*';
	}
	bomb[sizeof(bomb) - 2] = 'b';
	bomb[sizeof(bomb) - 1] = '\0';
	assert_false(sshline_match(bomb,
				   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
				   false));
}

#define BED(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
	const struct CMUnitTest beds[] = {
		BED(test_fields),
		BED(test_command_line),
		BED(test_defaults),
		BED(test_unknown_ciphers),
		BED(test_match_final_crlf),
		BED(test_proxy),
		BED(test_bad),
	};
	const struct CMUnitTest plain[] = {
		cmocka_unit_test(test_parse_wish),
		cmocka_unit_test(test_algo),
		cmocka_unit_test(test_patterns),
	};
	int failed =
		cmocka_run_group_tests_name("own reader", beds, NULL, NULL);

	with_ssh = true;
	failed += cmocka_run_group_tests_name("ssh -G", beds, NULL, NULL);
	return failed + cmocka_run_group_tests(plain, NULL, NULL);
}
