/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of cipher/offer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cipher/namelist.h"
#include "cipher/offer.h"

#define GCM128 "aes128-gcm@openssh.com"
#define GCM256 "aes256-gcm@openssh.com"
#define CHACHA "chacha20-poly1305@openssh.com"
#define CTR "aes128-ctr,aes192-ctr,aes256-ctr"
#define AES_FIRST GCM128 "," GCM256 "," CHACHA "," CTR
#define CHACHA_FIRST CHACHA "," GCM128 "," GCM256 "," CTR
#define GCM_LAST CHACHA "," CTR "," GCM128 "," GCM256
#define MACS                                                           \
	"hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com," \
	"hmac-sha2-256,hmac-sha2-512"

/* What libssh 0.10 and 0.11 have. */
#define LIBSSH                                                       \
	AES_FIRST ",aes128-cbc,aes192-cbc,aes256-cbc,3des-cbc," MACS \
		  ",hmac-sha1,hmac-sha1-etm@openssh.com"

static bool
lib_has(const char *name, void *arg)
{
	struct namelist l = { 0 };
	bool has;

	assert_int_equal(namelist_parse(&l, arg, NULL), 0);
	has = namelist_has(&l, name);
	namelist_fini(&l);
	return has;
}

static struct offer_ask
ask_new(void)
{
	static char lib[] = LIBSSH;

	return (struct offer_ask){ .here = HW_YES,
				   .there = HW_UNKNOWN,
				   .lib_has = lib_has,
				   .lib_arg = lib };
}

static void
want(const struct offer_ask *ask, const char *out, const char *in,
     enum offer_by by, size_t warnings)
{
	struct offer o;
	struct err e = { 0 };

	assert_int_equal(offer_build(ask, &o, &e), 0);
	assert_string_equal(o.ciphers_out, out);
	assert_string_equal(o.ciphers_in, in);
	assert_int_equal(o.ciphers_by, by);
	assert_int_equal(o.nwarnings, warnings);
	assert_string_equal(o.macs_out, o.macs_in);
	offer_fini(&o);
}

static void
want_error(const struct offer_ask *ask, int code, const char *says)
{
	struct offer o;
	struct err e = { 0 };

	assert_int_equal(offer_build(ask, &o, &e), code);
	assert_int_equal(e.code, code);
	if (!strstr(e.text, says)) {
		fail_msg("\"%s\" is not in \"%s\"", says, e.text);
	}
	offer_fini(&o);
}

static void
test_hardware(void **state)
{
	static const struct {
		enum hw here, there;
		const char *out;
	} t[] = {
		{ HW_YES, HW_YES, AES_FIRST },
		{ HW_YES, HW_UNKNOWN, AES_FIRST },
		{ HW_UNKNOWN, HW_UNKNOWN, AES_FIRST },
		{ HW_UNKNOWN, HW_YES, AES_FIRST },
		{ HW_YES, HW_NO, CHACHA_FIRST },
		{ HW_NO, HW_YES, CHACHA_FIRST },
		{ HW_NO, HW_UNKNOWN, CHACHA_FIRST },
		{ HW_NO, HW_NO, CHACHA_FIRST },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct offer_ask ask = ask_new();

		ask.here = t[i].here;
		ask.there = t[i].there;
		want(&ask, t[i].out, GCM_LAST,
		     t[i].here == HW_UNKNOWN && t[i].there == HW_UNKNOWN
			     ? OFFER_BY_DEFAULT
			     : OFFER_BY_HARDWARE,
		     0);
	}
}

static void
test_macs(void **state)
{
	struct offer_ask ask = ask_new();
	struct offer o;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(offer_build(&ask, &o, &e), 0);
	assert_string_equal(o.macs_out, MACS);
	assert_int_equal(o.macs_by, OFFER_BY_DEFAULT);
	offer_fini(&o);

	/* SHA-1 by name; UMAC is not in libssh. */
	ask.cfg_macs = "umac-64-etm@openssh.com,hmac-sha1,hmac-md5";
	assert_int_equal(offer_build(&ask, &o, &e), 0);
	assert_string_equal(o.macs_out, "hmac-sha1");
	assert_int_equal(o.macs_by, OFFER_BY_CONFIG);
	assert_int_equal(o.nwarnings, 2);
	assert_string_equal(o.warnings[0],
			    "MACs in the ssh configuration: "
			    "umac-64-etm@openssh.com is left out: the SSH "
			    "library here does not have it");
	offer_fini(&o);

	ask.mac = "+hmac-sha1";
	assert_int_equal(offer_build(&ask, &o, &e), 0);
	assert_string_equal(o.macs_out, MACS ",hmac-sha1");
	assert_int_equal(o.macs_by, OFFER_BY_OPTION);
	offer_fini(&o);

	/* Without any MAC the AEAD ciphers still work. */
	ask.mac = "umac-64@openssh.com";
	assert_int_equal(offer_build(&ask, &o, &e), 0);
	assert_string_equal(o.ciphers_out, GCM128 "," GCM256 "," CHACHA);
	assert_string_equal(o.ciphers_in, CHACHA "," GCM128 "," GCM256);
	assert_int_equal(o.nwarnings, 4);
	assert_string_equal(o.macs_out, MACS);
	offer_fini(&o);
	ask.cipher = CTR;
	want_error(&ask, E_USAGE,
		   "--mac (umac-64@openssh.com) leaves no MAC to offer: "
		   "umac-64@openssh.com: the SSH library here does not have "
		   "it; --mac could name any of " MACS);
}

static void
test_precedence(void **state)
{
	struct offer_ask ask = ask_new();

	(void)state;
	ask.cfg_ciphers = "aes256-ctr";
	want(&ask, "aes256-ctr", "aes256-ctr", OFFER_BY_CONFIG, 0);
	ask.ssh_cipher = "aes192-ctr";
	want(&ask, "aes192-ctr", "aes192-ctr", OFFER_BY_SSH_OPTION, 0);
	ask.cipher = "aes128-ctr";
	want(&ask, "aes128-ctr", "aes128-ctr", OFFER_BY_OPTION, 0);
	/* A prefix changes the default, not the next list down, as in ssh. */
	ask.cipher = "^aes192-ctr";
	want(&ask,
	     "aes192-ctr," GCM128 "," GCM256 "," CHACHA
	     ",aes128-ctr,aes256-ctr",
	     "aes192-ctr," CHACHA ",aes128-ctr,aes256-ctr," GCM128 "," GCM256,
	     OFFER_BY_OPTION, 0);
}

/* What `ssh -G -o Ciphers=LIST` answers, with our default in place of ssh's. */
static void
test_lists(void **state)
{
	static const struct {
		const char *list;
		const char *out;
		size_t warnings;
	} t[] = {
		{ "aes256-ctr,aes128-ctr", "aes256-ctr,aes128-ctr", 0 },
		{ ",aes256-ctr,,aes256-ctr,", "aes256-ctr", 0 },
		{ "+aes128-ctr", AES_FIRST, 0 },
		{ "+", AES_FIRST, 0 },
		{ "-", AES_FIRST, 0 },
		{ "-aes*", CHACHA, 0 },
		{ "-aes*,!*-ctr", CHACHA "," CTR, 0 },
		{ "-*gcm*,chacha*", CTR, 0 },
		{ "-bogus", AES_FIRST, 0 },
		{ "-*-cbc,3des*", AES_FIRST, 0 },
		{ "^" CHACHA, CHACHA_FIRST, 0 },
		{ "^bogus", AES_FIRST, 1 },
		{ "+aes*", AES_FIRST, 1 },
		{ "aes*,aes128-ctr", "aes128-ctr", 1 },
		{ "aes128-ctr,bogus", "aes128-ctr", 1 },
		{ "aes128-ctr aes192-ctr,aes256-ctr", "aes256-ctr", 1 },
		{ "arcfour256,arcfour128," GCM128 ",aes128-cbc", GCM128, 3 },
		{ "AES128-CTR,aes128-ctr", "aes128-ctr", 1 },
		{ "none,aes128-ctr", "aes128-ctr", 1 },
		{ "+3des-cbc,aes256-cbc", AES_FIRST, 2 },
		{ "\x1b[2J,aes128-ctr", "aes128-ctr", 1 },
		{ "hmac-sha2-256,aes128-ctr", "aes128-ctr", 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct offer_ask ask = ask_new();
		struct offer o;
		struct err e = { 0 };

		ask.cfg_ciphers = t[i].list;
		assert_int_equal(offer_build(&ask, &o, &e), 0);
		assert_string_equal(o.ciphers_out, t[i].out);
		assert_int_equal(o.nwarnings, t[i].warnings);
		for (size_t k = 0; k < o.nwarnings; k++) {
			assert_null(strchr(o.warnings[k], '\x1b'));
		}
		offer_fini(&o);
	}
}

static void
test_nothing_left(void **state)
{
	struct offer_ask ask = ask_new();
	struct offer o;
	struct err e = { 0 };

	(void)state;
	/* Field case C1, the fourth. */
	ask.cfg_ciphers = "arcfour,blowfish-cbc";
	assert_int_equal(offer_build(&ask, &o, &e), E_CONFIG);
	assert_int_equal(o.nwarnings, 2);
	assert_non_null(strstr(o.warnings[0],
			       "Ciphers in the ssh configuration: arcfour is "
			       "left out: RC4 is broken"));
	assert_non_null(strstr(o.warnings[1], "blowfish-cbc is left out: "
					      "OpenSSH 7.6 removed it"));
	offer_fini(&o);
	want_error(&ask, E_CONFIG,
		   "Ciphers in the ssh configuration (arcfour,blowfish-cbc) "
		   "leaves no cipher to offer: arcfour: RC4 is broken");
	want_error(&ask, E_CONFIG, "--cipher could name any of " AES_FIRST);
	ask.cipher = "blowfish";
	want_error(&ask, E_USAGE,
		   "--cipher (blowfish) leaves no cipher to offer: blowfish: "
		   "a cipher name of protocol 1");
	ask.cipher = "-*";
	want_error(&ask, E_USAGE, "--cipher (-*) leaves no cipher to offer");
	ask.cipher = "";
	want_error(&ask, E_USAGE, "--cipher () leaves no cipher to offer");
	ask.cipher = "3des-cbc";
	want_error(&ask, E_USAGE, "3des-cbc needs --allow-cipher=3des-cbc");
}

static void
test_allow(void **state)
{
	static const char *const cbc[] = { "aes128-cbc" };
	static const char *const two[] = { "aes128-cbc,3des-cbc", CHACHA };
	static const struct {
		const char *name;
		const char *says;
	} bad[] = {
		{ "arcfour", "--allow-cipher=arcfour: RC4 is broken" },
		{ "none", "--allow-cipher=none: no encryption at all" },
		{ "bogus", "--allow-cipher=bogus: no cipher of this name" },
		{ "*-cbc", "--allow-cipher=*-cbc: ciphers must be named one "
			   "by one" },
		{ "hmac-sha1", "--allow-cipher=hmac-sha1: no cipher of this "
			       "name" },
		{ "\x1b", "--allow-cipher=\\x1b: no cipher of this name" },
	};
	struct offer_ask ask = ask_new();

	(void)state;
	ask.allow = cbc;
	ask.nallow = 1;
	want(&ask, AES_FIRST ",aes128-cbc", GCM_LAST ",aes128-cbc",
	     OFFER_BY_HARDWARE, 0);
	/* A list of the user's stands: allowing is not naming. */
	ask.cfg_ciphers = "aes128-ctr";
	want(&ask, "aes128-ctr", "aes128-ctr", OFFER_BY_CONFIG, 0);
	ask.cfg_ciphers = "aes128-cbc," GCM128 ",aes256-cbc";
	want(&ask, "aes128-cbc," GCM128, "aes128-cbc," GCM128, OFFER_BY_CONFIG,
	     1);
	ask.allow = two;
	ask.nallow = 2;
	ask.cfg_ciphers = "+aes128-ctr";
	want(&ask, AES_FIRST ",aes128-cbc,3des-cbc",
	     GCM_LAST ",aes128-cbc,3des-cbc", OFFER_BY_CONFIG, 0);
	ask.cfg_ciphers = NULL;
	ask.nallow = 1;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ask.allow = &bad[i].name;
		want_error(&ask, E_USAGE, bad[i].says);
	}
}

static void
test_library(void **state)
{
	struct offer_ask ask = ask_new();
	char fips[] = GCM256 ",aes256-ctr,hmac-sha2-256";
	char empty[] = "hmac-sha2-256";
	static const char *const cbc[] = { "aes128-cbc" };

	(void)state;
	ask.lib_arg = fips;
	want(&ask, GCM256 ",aes256-ctr", "aes256-ctr," GCM256,
	     OFFER_BY_HARDWARE, 0);
	ask.cipher = CHACHA ",aes256-ctr";
	want(&ask, "aes256-ctr", "aes256-ctr", OFFER_BY_OPTION, 1);
	ask.allow = cbc;
	ask.nallow = 1;
	want_error(&ask, E_USAGE,
		   "--allow-cipher=aes128-cbc: the SSH library "
		   "here does not have it");
	ask.nallow = 0;
	ask.lib_arg = empty;
	want_error(&ask, E_UNSUPPORTED,
		   "the SSH library here has no safe cipher");
}

static void
test_too_long(void **state)
{
	struct offer_ask ask = ask_new();
	char *big = malloc(NAMELIST_BYTES_MAX + 2);

	(void)state;
	memset(big, 'x', NAMELIST_BYTES_MAX + 1);
	big[NAMELIST_BYTES_MAX + 1] = '\0';
	ask.cfg_ciphers = big;
	want_error(&ask, E_LIMIT, "longer than 65536 bytes");
	/* One long name is no name, and cut where it is shown. */
	ask.cfg_ciphers = big + 1;
	want_error(&ask, E_CONFIG, "...");
	free(big);
}

static void
check_explain(const struct offer_ask *ask, enum offer_method m,
	      const char *theirs, const char *text)
{
	struct offer o;
	struct err e = { 0 };
	char *got;

	assert_int_equal(offer_build(ask, &o, &e), 0);
	got = offer_explain_no_match(
		ask, m, m <= OFFER_CIPHER_IN ? o.ciphers_out : o.macs_out,
		theirs, &e);
	assert_non_null(got);
	assert_string_equal(got, text);
	free(got);
	offer_fini(&o);
}

static void
test_explain(void **state)
{
	struct offer_ask ask = ask_new();
	static const char *const cbc[] = { "aes128-cbc" };

	(void)state;
	ask.cipher = GCM128;
	/* Field case C1, the third, with a list of the user's. */
	check_explain(&ask, OFFER_CIPHER_OUT, "3des-cbc,aes128-cbc,arcfour",
		      "no cipher (to the server) in common\n"
		      "  we offer, and the server lacks: " GCM128 "\n"
		      "  the server offers: 3des-cbc, aes128-cbc, arcfour\n"
		      "  we leave out 3des-cbc: 3DES is off in sshd since "
		      "OpenSSH 6.7 and in ssh since 7.4: a 64-bit block leaks "
		      "in long streams (SWEET32), and it is the slowest cipher "
		      "there is; --allow-cipher=3des-cbc would offer it\n"
		      "  we leave out aes128-cbc: CBC mode is off in sshd "
		      "since OpenSSH 6.7 and in ssh since 7.6; "
		      "--allow-cipher=aes128-cbc would offer it\n"
		      "  we leave out arcfour: RC4 is broken; sshd has it off "
		      "since OpenSSH 6.7, ssh since 7.2, and 7.6 removed it; "
		      "use aes128-gcm@openssh.com or "
		      "chacha20-poly1305@openssh.com instead, which are faster "
		      "on processors with AES instructions\n"
		      "  to widen our list: --cipher=aes128-cbc "
		      "--allow-cipher=aes128-cbc");
	check_explain(&ask, OFFER_CIPHER_IN, CHACHA,
		      "no cipher (from the server) in common\n"
		      "  we offer, and the server lacks: " GCM128 "\n"
		      "  the server offers: " CHACHA "\n"
		      "  we leave out " CHACHA ": not in the list that was "
		      "asked for\n"
		      "  to widen our list: --cipher=" CHACHA);
	ask.allow = cbc;
	ask.nallow = 1;
	check_explain(&ask, OFFER_CIPHER_OUT, "aes128-cbc",
		      "no cipher (to the server) in common\n"
		      "  we offer, and the server lacks: " GCM128 "\n"
		      "  the server offers: aes128-cbc\n"
		      "  we leave out aes128-cbc: not in the list that was "
		      "asked for\n"
		      "  to widen our list: --cipher=aes128-cbc");
	ask.mac = "hmac-sha2-256";
	check_explain(&ask, OFFER_MAC_OUT,
		      "hmac-sha1,hmac-md5,umac-64@openssh.com",
		      "no MAC (to the server) in common\n"
		      "  we offer, and the server lacks: hmac-sha2-256\n"
		      "  the server offers: hmac-sha1, hmac-md5, "
		      "umac-64@openssh.com\n"
		      "  we leave out hmac-sha1: not in the list that was "
		      "asked for\n"
		      "  we leave out hmac-md5: off in sshd since OpenSSH 6.7 "
		      "and in ssh since 7.2, and libssh does not have it; use "
		      "hmac-sha2-256-etm@openssh.com\n"
		      "  we leave out umac-64@openssh.com: the SSH library "
		      "here does not have it\n"
		      "  to widen our list: --mac=hmac-sha1");
	check_explain(&ask, OFFER_CIPHER_OUT, "",
		      "no cipher (to the server) in common\n"
		      "  we offer, and the server lacks: " GCM128 "\n"
		      "  the server offers: nothing\n"
		      "  no option of ours helps; the server could be made to "
		      "offer one of ours with `Ciphers +" GCM128 "' in its "
		      "sshd_config");
	check_explain(&ask, OFFER_KEX, "a,\x1b[2J",
		      "no key exchange method in common\n"
		      "  we offer, and the server lacks: hmac-sha2-256\n"
		      "  the server offers: a, \\x1b[2J");
}

/* With our default list only, --allow-cipher is all it takes. */
static void
test_explain_default(void **state)
{
	struct offer_ask ask = ask_new();
	struct err e = { 0 };
	char *got = offer_explain_no_match(&ask, OFFER_CIPHER_OUT, AES_FIRST,
					   "aes128-cbc", &e);

	(void)state;
	assert_non_null(strstr(got, "\n  to widen our list: "
				    "--allow-cipher=aes128-cbc"));
	assert_null(strstr(got, "--cipher="));
	free(got);
}

/* A server that sends far too much gets a bounded answer. */
static void
test_explain_hostile(void **state)
{
	struct offer_ask ask = ask_new();
	struct err e = { 0 };
	size_t len = 200000;
	char *theirs = malloc(len + 1), *got;

	(void)state;
	for (int sort = 0; sort < 2; sort++) {
		for (size_t i = 0; i < len; i++) {
			/* many different short names; one long one */
			theirs[i] = sort	 ? '\x1b'
				    : i % 4 == 3 ? ','
						 : (char)(1 + i * 7 % 251);
		}
		theirs[len] = '\0';
		got = offer_explain_no_match(&ask, OFFER_CIPHER_OUT, AES_FIRST,
					     theirs, &e);
		assert_non_null(got);
		assert_true(strlen(got) < 256 * 1024);
		assert_null(strchr(got, '\x1b'));
		free(got);
	}
	free(theirs);
}

static bool
same_set(const char *a, const char *b)
{
	struct namelist la = { 0 }, lb = { 0 };
	bool same;

	assert_int_equal(namelist_parse(&la, a, NULL), 0);
	assert_int_equal(namelist_parse(&lb, b, NULL), 0);
	same = la.n == lb.n;
	for (size_t i = 0; i < la.n; i++) {
		same &= namelist_has(&lb, la.names[i]);
	}
	namelist_fini(&la);
	namelist_fini(&lb);
	return same;
}

/* All of a list may be offered by policy: safe, or allowed by name. */
static void
check_policy(const char *list, enum alg_kind kind, bool cbc_allowed)
{
	struct namelist l = { 0 };

	assert_int_equal(namelist_parse(&l, list, NULL), 0);
	assert_true(l.n > 0);
	for (size_t i = 0; i < l.n; i++) {
		const struct alg *a = table_find(kind, l.names[i]);

		assert_non_null(a);
		assert_true(lib_has(a->name, (void *)(uintptr_t)LIBSSH));
		assert_int_not_equal(a->status, ALG_REMOVED);
		if (kind == ALG_CIPHER && a->status == ALG_BY_NAME) {
			assert_true(cbc_allowed);
			assert_string_equal(a->name, "aes128-cbc");
		}
	}
	namelist_fini(&l);
}

/* Lists put together at random from names, patterns, prefixes and rubbish:
 * whatever comes out keeps to the policy, in both directions the same names;
 * whatever fails says why in one line. */
static void
test_random(void **state)
{
	static const char *const bits[] = {
		GCM128,
		CHACHA,
		"aes128-ctr",
		"aes128-cbc",
		"3des-cbc",
		"arcfour",
		"none",
		"hmac-sha1",
		"hmac-md5",
		"umac-64@openssh.com",
		"hmac-sha2-256",
		"*",
		"?",
		"!",
		"aes*",
		",",
		",,",
		"+",
		"-",
		"^",
		" ",
		"\n",
		"\x1b[2J",
		"\xff\xfe",
		"x",
		"AES",
		"@",
	};
	static const char *const cbc[] = { "aes128-cbc" };
	size_t nbits = sizeof(bits) / sizeof(bits[0]), good = 0, bad = 0;
	unsigned x = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct offer_ask ask = ask_new();
		char list[2][512] = { "", "" };
		struct offer o;
		struct err e = { 0 };

		for (int k = 0; k < 2; k++) {
			x = x * 1103515245 + 12345;
			for (unsigned n = x >> 16 & 7; n > 0; n--) {
				x = x * 1103515245 + 12345;
				strcat(list[k], bits[(x >> 16) % nbits]);
				if (x >> 28 & 1) {
					strcat(list[k], ",");
				}
			}
		}
		ask.cfg_ciphers = list[0];
		ask.mac = round % 3 ? NULL : list[1];
		ask.allow = cbc;
		ask.nallow = (size_t)round % 2;
		if (offer_build(&ask, &o, &e)) {
			bad++;
			assert_true(e.code == E_CONFIG || e.code == E_USAGE);
			assert_true(e.text[0] && !strpbrk(e.text, "\n\x1b"));
		} else {
			good++;
			check_policy(o.ciphers_out, ALG_CIPHER, round % 2);
			check_policy(o.macs_out, ALG_MAC, false);
			assert_true(same_set(o.ciphers_out, o.ciphers_in));
			assert_string_equal(o.macs_out, o.macs_in);
		}
		for (size_t i = 0; i < o.nwarnings; i++) {
			assert_null(strpbrk(o.warnings[i], "\n\x1b"));
		}
		offer_fini(&o);
	}
	/* both happened often enough to mean something */
	assert_true(good > 1000 && bad > 1000);
}

static void
test_judge(void **state)
{
	struct offer_ask ask = ask_new();
	char why[256];
	static const struct {
		const char *name;
		enum offer_verdict v;
	} t[] = {
		{ GCM128, OFFER_YES },
		{ "aes128-ctr", OFFER_NOT_LISTED },
		{ "aes128-cbc", OFFER_NEEDS_ALLOW },
		{ "arcfour", OFFER_REMOVED },
		{ "bogus", OFFER_UNKNOWN },
		{ "aes128-gcm", OFFER_UNKNOWN },
	};
	char fips[] = GCM128;

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(offer_judge(&ask, ALG_CIPHER,
					     GCM256 "," GCM128, t[i].name, why,
					     sizeof(why)),
				 t[i].v);
		assert_int_equal(!why[0], t[i].v == OFFER_YES);
	}
	assert_int_equal(offer_judge(&ask, ALG_CIPHER, "", GCM128, NULL, 0),
			 OFFER_NOT_LISTED);
	ask.lib_arg = fips;
	assert_int_equal(offer_judge(&ask, ALG_CIPHER, GCM128, CHACHA, NULL, 0),
			 OFFER_NO_LIBRARY);
	assert_string_equal(offer_by_name(OFFER_BY_PROBE), "probe");
	assert_string_equal(offer_by_name(OFFER_BY_HARDWARE), "hardware");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hardware),
		cmocka_unit_test(test_macs),
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_nothing_left),
		cmocka_unit_test(test_allow),
		cmocka_unit_test(test_library),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_explain),
		cmocka_unit_test(test_explain_default),
		cmocka_unit_test(test_explain_hostile),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_judge),
	};

	return cmocka_run_group_tests_name("offer", tests, NULL, NULL);
}
