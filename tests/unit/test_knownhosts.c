/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ssh/knownhosts and ssh/hostkey: field case T11 and what libssh gets wrong
 * (it skips @revoked, takes no tabs, accepts a changed key under "no", calls a
 * changed key unknown beside a line it cannot parse).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "ssh/hostkey.h"
#include "ssh/knownhosts.h"

/* Three keys that are only different; nobody knows their secret halves. */
#define ED_A                                                   \
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAA" \
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define ED_B                                                   \
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEAAAAAAAAAAAAA" \
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAA"
/* e = 65537, a modulus of 8 bits: for the parser alone */
#define RSA_X "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAAgD/"
/* A type of the future: "ssh-future" and four bytes. */
#define FUTURE "ssh-future AAAACnNzaC1mdXR1cmUAAAAA"

struct key {
	uint8_t blob[256];
	size_t len;
};

static struct key
key_of(const char *line)
{
	struct key k;
	int n = knownhosts_unbase64(strchr(line, ' ') + 1, k.blob,
				    sizeof(k.blob));

	assert_true(n > 0);
	k.len = (size_t)n;
	return k;
}

static enum knownhosts_verdict
verdict(const char *text, const char *name, const char *key_line,
	unsigned *line)
{
	struct knownhosts k = { NULL, 0 };
	const struct knownhosts_line *why;
	struct key key = key_of(key_line);
	char *copy = strdup(text);
	enum knownhosts_verdict v;

	assert_non_null(copy);
	assert_int_equal(knownhosts_scan(&k, "f", copy, name, NULL), 0);
	v = knownhosts_check(&k, key.blob, key.len, &why);
	*line = why ? why->line : 0;
	knownhosts_fini(&k);
	free(copy);
	return v;
}

/* HMAC-SHA1 under a salt of 20 zero bytes, of "h" and of "[h]:2222". */
static const struct {
	const char *text, *name, *key;
	enum knownhosts_verdict want;
	unsigned line; /* that decides; 0: none */
} cases[] = {
	{ "", "h", ED_A, KNOWNHOSTS_UNKNOWN, 0 },
	{ "h " ED_A "\n", "h", ED_A, KNOWNHOSTS_OK, 1 },
	{ "h " ED_A, "h", ED_A, KNOWNHOSTS_OK, 1 },
	{ "h " ED_A " comment here\r\n", "h", ED_A, KNOWNHOSTS_OK, 1 },
	{ "h\t" ED_A "\n", "h", ED_A, KNOWNHOSTS_OK, 1 },
	{ "  h   " ED_A "\n", "h", ED_A, KNOWNHOSTS_OK, 1 },
	{ "H " ED_A "\n", "h", ED_A, KNOWNHOSTS_OK, 1 },
	{ "a,h,b " ED_A "\n", "h", ED_A, KNOWNHOSTS_OK, 1 },
	{ "x* " ED_A "\n", "xyz", ED_A, KNOWNHOSTS_OK, 1 },
	{ "x? " ED_A "\n", "xyz", ED_A, KNOWNHOSTS_UNKNOWN, 0 },
	{ "*,!h " ED_A "\n", "h", ED_A, KNOWNHOSTS_UNKNOWN, 0 },
	{ "*,!h " ED_A "\n", "g", ED_A, KNOWNHOSTS_OK, 1 },
	{ "# h " ED_A "\n", "h", ED_A, KNOWNHOSTS_UNKNOWN, 0 },
	/* the port belongs to the name */
	{ "h " ED_A "\n", "[h]:2222", ED_A, KNOWNHOSTS_UNKNOWN, 0 },
	{ "[h]:2222 " ED_A "\n", "[h]:2222", ED_A, KNOWNHOSTS_OK, 1 },
	{ "[h]:2222 " ED_B "\n", "[h]:2222", ED_A, KNOWNHOSTS_CHANGED, 1 },
	/* changed, other type */
	{ "h " ED_B "\n", "h", ED_A, KNOWNHOSTS_CHANGED, 1 },
	{ "h " RSA_X "\n", "h", ED_A, KNOWNHOSTS_OTHER_TYPE, 1 },
	{ "h " RSA_X "\nh " ED_B "\n", "h", ED_A, KNOWNHOSTS_CHANGED, 2 },
	{ "h " ED_B "\nh " ED_A "\n", "h", ED_A, KNOWNHOSTS_OK, 2 },
	/* a line nobody can parse does not hide the change */
	{ "h " FUTURE "\nh " ED_B "\n", "h", ED_A, KNOWNHOSTS_CHANGED, 2 },
	{ "h ssh-dss !!!\nh " ED_B "\n", "h", ED_A, KNOWNHOSTS_CHANGED, 2 },
	{ "h " FUTURE "\n", "h", ED_A, KNOWNHOSTS_OTHER_TYPE, 1 },
	{ "garbage\n\n\x01\x02 x\nh " ED_A "\n", "h", ED_A, KNOWNHOSTS_OK, 4 },
	{ "h ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAA"
	  "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
	  "h", ED_A, KNOWNHOSTS_UNKNOWN, 0 },
	/* markers */
	{ "@revoked h " ED_A "\n", "h", ED_A, KNOWNHOSTS_IS_REVOKED, 1 },
	{ "h " ED_A "\n@revoked * " ED_A "\n", "h", ED_A, KNOWNHOSTS_IS_REVOKED,
	  2 },
	{ "@revoked\th\t" ED_A "\nh " ED_A "\n", "h", ED_A,
	  KNOWNHOSTS_IS_REVOKED, 1 },
	{ "@revoked h " ED_B "\n", "h", ED_A, KNOWNHOSTS_UNKNOWN, 0 },
	{ "@revoked g " ED_A "\nh " ED_A "\n", "h", ED_A, KNOWNHOSTS_OK, 2 },
	{ "@cert-authority h " ED_A "\n", "h", ED_A, KNOWNHOSTS_CA_ONLY, 1 },
	{ "@cert-authority * " ED_B "\nh " ED_A "\n", "h", ED_A, KNOWNHOSTS_OK,
	  2 },
	{ "@cert-authority * " RSA_X "\nh " ED_B "\n", "h", ED_A,
	  KNOWNHOSTS_CHANGED, 2 },
	{ "@other h " ED_A "\n", "h", ED_A, KNOWNHOSTS_UNKNOWN, 0 },
	/* hashed */
	{ "|1|AAAAAAAAAAAAAAAAAAAAAAAAAAA=|pKGEfL80ElPzOH4Xe99PTve5QiY= " ED_A
	  "\n",
	  "h", ED_A, KNOWNHOSTS_OK, 1 },
	{ "|1|AAAAAAAAAAAAAAAAAAAAAAAAAAA=|pKGEfL80ElPzOH4Xe99PTve5QiY= " ED_A
	  "\n",
	  "g", ED_A, KNOWNHOSTS_UNKNOWN, 0 },
	{ "|1|AAAA|BBBB " ED_A "\n|1|x " ED_A "\n|1|| " ED_A "\n", "h", ED_A,
	  KNOWNHOSTS_UNKNOWN, 0 },
};

static void
test_verdicts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned line;
		enum knownhosts_verdict v = verdict(
			cases[i].text, cases[i].name, cases[i].key, &line);

		if (v != cases[i].want || line != cases[i].line) {
			fail_msg("case %zu (%s): verdict %d line %u", i,
				 cases[i].text, v, line);
		}
	}
}

static void
test_name(void **state)
{
	char *n = knownhosts_name("HOST.Example", 22, NULL);

	(void)state;
	assert_string_equal(n, "host.example");
	free(n);
	n = knownhosts_name("::1", 2222, NULL);
	assert_string_equal(n, "[::1]:2222");
	free(n);
}

static void
test_rsa_bits(void **state)
{
	struct key k = key_of(RSA_X);

	(void)state;
	assert_int_equal(knownhosts_rsa_bits(k.blob, k.len), 8);
	assert_int_equal(knownhosts_rsa_bits(k.blob, k.len - 1), 0);
	k = key_of(ED_A);
	assert_int_equal(knownhosts_rsa_bits(k.blob, k.len), 0);
}

/* A directory of the test and files in it. */
struct dir {
	char path[64];
	char file[96];
	struct sshconf conf;
};

static int
setup(void **state)
{
	struct dir *d = calloc(1, sizeof(*d));

	strcpy(d->path, "/tmp/vzm-kh-XXXXXX");
	assert_non_null(mkdtemp(d->path));
	snprintf(d->file, sizeof(d->file), "%s/sub/known_hosts", d->path);
	d->conf.host = strdup("h");
	d->conf.alias = strdup("h");
	d->conf.user = strdup("u");
	d->conf.port = 22;
	sshlist_add(&d->conf.user_known_hosts, d->file, NULL);
	*state = d;
	return 0;
}

static int
teardown(void **state)
{
	struct dir *d = *state;
	char sub[96];

	unlink(d->file);
	snprintf(sub, sizeof(sub), "%s/sub", d->path);
	rmdir(sub);
	rmdir(d->path);
	sshconf_fini(&d->conf);
	free(d);
	return 0;
}

static void
write_file(struct dir *d, const char *text)
{
	char sub[96];
	FILE *f;

	snprintf(sub, sizeof(sub), "%s/sub", d->path);
	mkdir(sub, 0700);
	f = fopen(d->file, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static char *
read_file(struct dir *d)
{
	char *text;

	assert_int_equal(io_read_file(-1, d->file, 1 << 20, &text, NULL, NULL),
			 0);
	return text;
}

static int
check(struct dir *d, const char *key_line, const struct prompt *p,
      struct err *e)
{
	struct hostkey h;
	struct key k = key_of(key_line);
	int rc = hostkey_init(&h, &d->conf, e);

	if (rc == 0) {
		rc = hostkey_check(&h, &d->conf, p, k.blob, k.len, e);
		hostkey_fini(&h);
	}
	return rc;
}

static void
test_add(void **state)
{
	struct dir *d = *state;
	struct key k = key_of(ED_A);
	struct stat st;
	char *text;

	assert_int_equal(
		knownhosts_add(d->file, "h", false, k.blob, k.len, NULL), 0);
	text = read_file(d);
	assert_string_equal(text, "h " ED_A "\n");
	free(text);
	assert_int_equal(stat(d->file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* the same again: nothing; a file without a last newline gets one */
	assert_int_equal(
		knownhosts_add(d->file, "h", false, k.blob, k.len, NULL), 0);
	write_file(d, "g " ED_B);
	assert_int_equal(
		knownhosts_add(d->file, "h", false, k.blob, k.len, NULL), 0);
	text = read_file(d);
	assert_string_equal(text, "g " ED_B "\nh " ED_A "\n");
	free(text);
}

static void
test_add_hashed(void **state)
{
	struct dir *d = *state;
	struct key k = key_of(ED_A);
	unsigned line;
	char *text;

	assert_int_equal(
		knownhosts_add(d->file, "h", true, k.blob, k.len, NULL), 0);
	text = read_file(d);
	assert_int_equal(strncmp(text, "|1|", 3), 0);
	assert_int_equal(verdict(text, "h", ED_A, &line), KNOWNHOSTS_OK);
	assert_int_equal(verdict(text, "g", ED_A, &line), KNOWNHOSTS_UNKNOWN);
	free(text);
}

/* StrictHostKeyChecking in all its values, for an unknown key. */
static void
test_unknown(void **state)
{
	struct dir *d = *state;
	struct err e = { 0 };
	char *text;

	d->conf.strict = SSHCONF_YES;
	assert_int_equal(check(d, ED_A, &prompt_none, &e), E_HOSTKEY);
	assert_non_null(strstr(e.text, "StrictHostKeyChecking is yes"));
	d->conf.strict = SSHCONF_ASK;
	assert_int_equal(check(d, ED_A, &prompt_none, &e), E_HOSTKEY);
	assert_non_null(strstr(e.text, "nobody can be asked"));
	assert_non_null(strstr(e.text, "SHA256:"));
	assert_int_equal(access(d->file, F_OK), -1);
	d->conf.strict = SSHCONF_ACCEPT_NEW;
	assert_int_equal(check(d, ED_A, &prompt_none, &e), 0);
	text = read_file(d);
	assert_string_equal(text, "h " ED_A "\n");
	free(text);
}

static const char *answer_text;
static int answer_calls;

static int
answer(enum prompt_kind kind, const char *question, bool echo, char *to,
       size_t len, void *arg, struct err *e)
{
	(void)arg;
	(void)e;
	assert_int_equal(kind, PROMPT_HOSTKEY);
	assert_true(echo);
	assert_non_null(strstr(question, "SHA256:"));
	snprintf(to, len, "%s", answer_text);
	answer_calls++;
	return 0;
}

static const struct prompt asks = { answer, NULL };

static void
test_ask(void **state)
{
	struct dir *d = *state;
	struct err e = { 0 };

	d->conf.strict = SSHCONF_ASK;
	answer_calls = 0;
	answer_text = "no";
	assert_int_equal(check(d, ED_A, &asks, &e), E_HOSTKEY);
	answer_text = "SHA256:wrong";
	assert_int_equal(check(d, ED_A, &asks, &e), E_HOSTKEY);
	answer_text = "yes";
	assert_int_equal(check(d, ED_A, &asks, &e), 0);
	assert_int_equal(answer_calls, 3);
	/* now it is known: no question; under BatchMode never one */
	assert_int_equal(check(d, ED_A, &asks, &e), 0);
	assert_int_equal(answer_calls, 3);
	unlink(d->file);
	d->conf.batch = true;
	assert_int_equal(check(d, ED_A, &asks, &e), E_HOSTKEY);
	assert_int_equal(answer_calls, 3);
}

/* libssh accepts a changed key under "no". */
static void
test_changed_always_stops(void **state)
{
	static const enum sshconf_strict all[] = { SSHCONF_ASK, SSHCONF_YES,
						   SSHCONF_ACCEPT_NEW,
						   SSHCONF_NO };
	struct dir *d = *state;

	answer_text = "yes";
	for (size_t i = 0; i < 4; i++) {
		struct err e = { 0 };
		char where[160];

		write_file(d, "x " ED_A "\nh " ED_B "\n");
		d->conf.strict = all[i];
		assert_int_equal(check(d, ED_A, &asks, &e), E_HOSTKEY);
		snprintf(where, sizeof(where), "%s line 2", d->file);
		assert_non_null(strstr(e.text, where));
		assert_non_null(
			strstr(strstr(e.text, "SHA256:") + 1, "SHA256:"));
		e = (struct err){ 0 };
		write_file(d, "h " ED_A "\n@revoked h " ED_A "\n");
		assert_int_equal(check(d, ED_A, &asks, &e), E_HOSTKEY);
		assert_non_null(strstr(e.text, "revoked"));
		assert_non_null(strstr(e.text, where));
		write_file(d, "h " RSA_X "\n");
		assert_int_equal(check(d, ED_A, &asks, &e), E_HOSTKEY);
		write_file(d, "@cert-authority h " ED_B "\n");
		assert_int_equal(check(d, ED_A, &asks, &e), E_HOSTKEY);
		assert_non_null(strstr(e.text, "certificate"));
	}
}

static void
test_unreadable(void **state)
{
	struct dir *d = *state;
	struct err e = { 0 };
	struct sshlist *l = &d->conf.user_known_hosts;

	free(l->v[0]);
	l->v[0] = strdup(d->path); /* a directory */
	d->conf.strict = SSHCONF_NO;
	assert_int_equal(check(d, ED_A, &prompt_none, &e), E_HOSTKEY);
	assert_non_null(strstr(e.text, "is not a file"));
	free(l->v[0]);
	l->v[0] = strdup("/dev/null");
	assert_int_equal(check(d, ED_A, &prompt_none, &e), 0);
}

/* The second file counts too, and an alias has no port. */
static void
test_all_files(void **state)
{
	struct dir *d = *state;
	struct err e = { 0 };

	write_file(d, "al " ED_A "\n");
	sshlist_add(&d->conf.global_known_hosts, d->file, NULL);
	free(d->conf.user_known_hosts.v[0]);
	d->conf.user_known_hosts.v[0] = strdup("/nonexistent/known_hosts");
	d->conf.strict = SSHCONF_YES;
	d->conf.port = 2222;
	d->conf.host_key_alias = strdup("AL");
	assert_int_equal(check(d, ED_A, &prompt_none, &e), 0);
}

/* A host known by RSA alone is asked for RSA first, as ssh does. */
static void
test_order(void **state)
{
	struct dir *d = *state;
	struct hostkey h;

	write_file(d, "h " RSA_X "\n");
	assert_int_equal(hostkey_init(&h, &d->conf, NULL), 0);
	assert_int_equal(strncmp(h.algorithms,
				 "rsa-sha2-512,rsa-sha2-256,ssh-ed25519,", 38),
			 0);
	hostkey_fini(&h);
	d->conf.hostkey_algs = strdup("ssh-ed25519,nonsense,rsa-sha2-256");
	assert_int_equal(hostkey_init(&h, &d->conf, NULL), 0);
	assert_string_equal(h.algorithms, "ssh-ed25519,rsa-sha2-256");
	hostkey_fini(&h);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_rsa_bits),
		cmocka_unit_test_setup_teardown(test_add, setup, teardown),
		cmocka_unit_test_setup_teardown(test_add_hashed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ask, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed_always_stops,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_unreadable, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_all_files, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_order, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
