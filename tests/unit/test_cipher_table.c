/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of cipher/table, cipher/namelist and cipher/cpu. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cipher/cpu.h"
#include "cipher/namelist.h"
#include "cipher/table.h"

static void
test_rows(void **state)
{
	const struct alg *a, *b;
	size_t n = 0;

	(void)state;
	for (size_t i = 0; (a = table_at(i)); i++) {
		n++;
		assert_true(namelist_valid(a->name));
		assert_ptr_equal(table_find(a->kind, a->name), a);
		for (size_t k = 0; k < i; k++) {
			b = table_at(k);
			assert_false(a->kind == b->kind &&
				     !strcmp(a->name, b->name));
		}
		/* What is not safe says why; a note is a sentence's body. */
		if (a->status != ALG_SAFE) {
			assert_non_null(a->note);
		}
		if (a->note) {
			assert_true(a->note[strlen(a->note) - 1] != '.');
		}
		if (a->kind == ALG_CIPHER) {
			assert_int_equal(a->needs_mac, a->family != ALG_AEAD);
			assert_false(a->etm);
		} else {
			assert_int_equal(a->etm, !!strstr(a->name, "-etm@"));
		}
		if (a->status == ALG_SAFE && a->kind == ALG_CIPHER) {
			assert_true(a->family == ALG_AEAD ||
				    a->family == ALG_CTR);
		}
	}
	assert_true(n > 40);
}

/* The names that are still in scripts get a sentence with the release. */
static void
test_sentences(void **state)
{
	static const struct {
		const char *name;
		enum alg_status status;
		const char *says;
	} t[] = {
		{ "blowfish-cbc", ALG_REMOVED, "7.6 removed it" },
		{ "arcfour", ALG_REMOVED, "7.6 removed it" },
		{ "arcfour128", ALG_REMOVED, "7.6 removed it" },
		{ "arcfour256", ALG_REMOVED, "7.6 removed it" },
		{ "cast128-cbc", ALG_REMOVED, "7.6 removed it" },
		{ "none", ALG_REMOVED, "no encryption at all" },
		{ "3des-cbc", ALG_BY_NAME, "in ssh since 7.4" },
		{ "aes128-cbc", ALG_BY_NAME, "in ssh since 7.6" },
		{ "rijndael-cbc@lysator.liu.se", ALG_REMOVED, "8.5 removed" },
		{ "blowfish", ALG_REMOVED, "protocol 1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct alg *a = table_find(ALG_CIPHER, t[i].name);

		assert_non_null(a);
		assert_int_equal(a->status, t[i].status);
		assert_non_null(strstr(a->note, t[i].says));
		if (a->status == ALG_REMOVED) {
			assert_non_null(strstr(a->note, "aes128-gcm@"));
		}
	}
	assert_null(table_find(ALG_MAC, "aes128-ctr"));
	assert_null(table_find(ALG_CIPHER, "AES128-CTR"));
	assert_null(table_find(ALG_CIPHER, ""));
	assert_string_equal(table_family_name(ALG_CBC), "CBC");
	assert_string_equal(table_family_name(ALG_UMAC), "UMAC");
}

static void
test_parse(void **state)
{
	static const struct {
		const char *in;
		const char *out;
	} t[] = {
		{ "", "" },
		{ ",", "" },
		{ ",,,,", "" },
		{ "a", "a" },
		{ "a,b", "a,b" },
		{ ",a,,b,", "a,b" },
		{ "b,a,b,a,b", "b,a" },
		{ "a b,c", "a b,c" },
		{ "\xff\x01,\xff\x01", "\xff\x01" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct namelist l = { 0 };
		char *s;

		assert_int_equal(namelist_parse(&l, t[i].in, NULL), 0);
		s = namelist_join(&l, NULL);
		assert_string_equal(s, t[i].out);
		free(s);
		namelist_fini(&l);
		assert_int_equal(l.n, 0);
	}
}

static void
test_parse_limits(void **state)
{
	struct namelist l = { 0 };
	struct err e = { 0 };
	char *big = malloc(NAMELIST_BYTES_MAX + 2);
	char text[8 * (NAMELIST_MAX + 1)], *p = text;

	(void)state;
	memset(big, 'x', NAMELIST_BYTES_MAX + 1);
	big[NAMELIST_BYTES_MAX + 1] = '\0';
	assert_int_equal(namelist_parse(&l, big, &e), E_LIMIT);
	assert_int_equal(l.n, 0);
	assert_int_equal(namelist_parse(&l, big + 1, &e), 0);
	assert_int_equal(l.n, 1);
	namelist_fini(&l);
	free(big);
	for (int i = 0; i < NAMELIST_MAX; i++) {
		p += sprintf(p, "n%d,", i);
	}
	assert_int_equal(namelist_parse(&l, text, &e), 0);
	assert_int_equal(l.n, NAMELIST_MAX);
	strcpy(p, "more");
	assert_int_equal(namelist_parse(&l, text, &e), E_LIMIT);
	assert_string_equal(e.text, "a list of algorithms has more than 256 "
				    "names");
	assert_int_equal(l.n, NAMELIST_MAX);
	namelist_fini(&l);
}

static void
test_valid(void **state)
{
	char name[NAMELIST_NAME_MAX + 2];

	(void)state;
	memset(name, 'a', sizeof(name));
	name[NAMELIST_NAME_MAX] = '\0';
	assert_true(namelist_valid(name));
	name[NAMELIST_NAME_MAX] = 'a';
	name[NAMELIST_NAME_MAX + 1] = '\0';
	assert_false(namelist_valid(name));
	assert_false(namelist_valid(""));
	assert_false(namelist_valid("a b"));
	assert_false(namelist_valid("a,b"));
	assert_false(namelist_valid("a\x7f"));
	assert_false(namelist_valid("a\xc3\xa9"));
	assert_false(namelist_valid("a\n"));
}

static void
test_glob(void **state)
{
	static const struct {
		const char *pattern;
		const char *name;
		bool match;
	} t[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "*", "", true },
		{ "*", "abc", true },
		{ "?", "", false },
		{ "?", "a", true },
		{ "?", "ab", false },
		{ "aes*", "aes128-ctr", true },
		{ "aes*", "chacha20-poly1305@openssh.com", false },
		{ "*-cbc", "aes128-cbc", true },
		{ "*-cbc", "aes128-cbc@x", false },
		{ "aes?9?-ctr", "aes192-ctr", true },
		{ "a*b*c", "aXbYbZc", true },
		{ "a*b*c", "aXbYbZ", false },
		{ "**", "x", true },
		{ "*a", "aab", false },
		{ "*ab", "aab", true },
	};
	char deep[4001], name[4001];

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(namelist_glob(t[i].pattern, t[i].name),
				 t[i].match);
	}
	/* A pattern that a backtracking matcher needs ages for. */
	for (int i = 0; i < 4000; i += 2) {
		memcpy(deep + i, "*a", 2);
	}
	strcpy(deep + 3998, "b");
	memset(name, 'a', 4000);
	name[4000] = '\0';
	assert_false(namelist_glob(deep, name));
}

/* The kernel's own view of the processor. */
static void
test_cpu(void **state)
{
#if defined(__x86_64__)
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[8192];
	enum hw want = HW_UNKNOWN;

	(void)state;
	assert_non_null(f);
	while (want == HW_UNKNOWN && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "flags", 5)) {
			want = strstr(line, " aes") &&
					       strstr(line, " pclmulqdq")
				       ? HW_YES
				       : HW_NO;
		}
	}
	fclose(f);
	assert_int_not_equal(want, HW_UNKNOWN);
	assert_int_equal(cpu_aes(), want);
#else
	(void)state;
	print_message("skipped: compares with x86's /proc/cpuinfo\n");
	skip();
#endif
	assert_string_equal(cpu_hw_name(HW_YES), "yes");
	assert_string_equal(cpu_hw_name(HW_NO), "no");
	assert_string_equal(cpu_hw_name(HW_UNKNOWN), "unknown");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_sentences),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parse_limits),
		cmocka_unit_test(test_valid),
		cmocka_unit_test(test_glob),
		cmocka_unit_test(test_cpu),
	};

	return cmocka_run_group_tests_name("cipher_table", tests, NULL, NULL);
}
