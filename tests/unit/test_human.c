/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of report/human. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <string.h>

#include "report/human.h"

#define COUNT(t) (sizeof(t) / sizeof((t)[0]))

static void
test_bytes(void **state)
{
	static const struct {
		uint64_t n;
		const char *s;
	} t[] = {
		{ 0, "0 B" },
		{ 1, "1 B" },
		{ 999, "999 B" },
		{ 1000, "1.0 kB" },
		{ 1049, "1.0 kB" },
		{ 1050, "1.1 kB" },
		{ 24500000, "24.5 MB" },
		{ 99949, "99.9 kB" },
		{ 99950, "100 kB" },
		{ 100000, "100 kB" },
		{ 123456, "123 kB" },
		{ 999499, "999 kB" },
		{ 999500, "1.0 MB" },
		{ 1100000000, "1.1 GB" },
		{ 999999999999, "1.0 TB" },
		{ UINT64_MAX, "18.4 EB" },
		{ 1000000000000000000, "1.0 EB" },
	};
	char out[HUMAN_MAX];

	(void)state;
	for (size_t i = 0; i < COUNT(t); i++) {
		assert_string_equal(human_bytes(out, t[i].n), t[i].s);
	}
	assert_string_equal(human_rate(out, 930000000), "930 MB/s");
	assert_string_equal(human_rate(out, 0), "0 B/s");
}

static void
test_duration(void **state)
{
	static const struct {
		int64_t ms;
		const char *s;
	} t[] = {
		{ -1, "?" },
		{ 0, "0.00 s" },
		{ 4, "0.00 s" },
		{ 5, "0.01 s" },
		{ 350, "0.35 s" },
		{ 9994, "9.99 s" },
		{ 9995, "10.0 s" },
		{ 12345, "12.3 s" },
		{ 59949, "59.9 s" },
		{ 59950, "1m00s" },
		{ 245000, "4m05s" },
		{ 3599499, "59m59s" },
		{ 3599500, "1h00m" },
		{ 7620000, "2h07m" },
		{ 86400000, "1d00h" },
		{ 273600000, "3d04h" },
		{ INT64_MAX, "106751991167d07h" },
	};
	static const struct {
		int64_t s;
		const char *text;
	} c[] = {
		{ -1, "?" },	     { 0, "0:00" },
		{ 7, "0:07" },	     { 245, "4:05" },
		{ 3599, "59:59" },   { 3600, "1:00:00" },
		{ 7653, "2:07:33" }, { 359999, "99:59:59" },
		{ 360000, "?" },
	};
	char out[HUMAN_MAX];

	(void)state;
	for (size_t i = 0; i < COUNT(t); i++) {
		assert_string_equal(human_duration(out, t[i].ms), t[i].s);
	}
	for (size_t i = 0; i < COUNT(c); i++) {
		assert_string_equal(human_clock(out, c[i].s), c[i].text);
	}
}

static void
test_parse(void **state)
{
	static const struct {
		const char *text;
		uint64_t n;
	} good[] = {
		{ "0", 0 },
		{ "1", 1 },
		{ " 12 ", 12 },
		{ "1b", 1 },
		{ "64K", 65536 },
		{ "64k", 65536 },
		{ "64KiB", 65536 },
		{ "64kib", 65536 },
		{ "64KB", 64000 },
		{ "1.5M", 1572864 },
		{ "1.5 MB", 1500000 },
		{ "0.0000009M", 0 }, /* six digits count */
		{ "0.000001M", 1 },
		{ "2GiB", 2147483648 },
		{ "1T", 1099511627776 },
		{ "18446744073709551615", UINT64_MAX },
		{ "16777215.999999T", 18446744073708452104U },
	};
	static const char *const bad[] = {
		"",	" ",	 "K",	"-1",	    "+1",	 "1.",
		".5",	"1.5.5", "1 2", "1KK",	    "1x",	 "0x10",
		"1Ki",	"1KBB",	 "1e3", "1\n",	    "1.5 5",	 "1K 2",
		"1,5M", "1 K B", "1P",	"\xc2\xb2", "1\xc2\xb5",
	};
	static const char *const large[] = {
		"18446744073709551616",
		"99999999999999999999999",
		"16777216T",
		"18446744073709551615K",
	};
	struct err e = { 0 };
	uint64_t n;

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		n = 77;
		assert_int_equal(human_parse_size(good[i].text, "--x", &n, &e),
				 0);
		assert_int_equal(n, good[i].n);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		n = 77;
		assert_int_equal(human_parse_size(bad[i], "--x", &n, &e),
				 E_USAGE);
		assert_non_null(strstr(e.text, "is not a size"));
		assert_int_equal(n, 77);
	}
	for (size_t i = 0; i < COUNT(large); i++) {
		assert_int_equal(human_parse_size(large[i], "--x", &n, &e),
				 E_USAGE);
		assert_non_null(strstr(e.text, "is too large"));
	}
	assert_int_equal(human_parse_size("1\x1b", "--limit", &n, &e), E_USAGE);
	assert_string_equal(e.text, "--limit: \"1\\x1b\" is not a size (such "
				    "as 64K, 1.5M, 2GiB)");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_parse),
	};

	setlocale(LC_ALL, "");
	return cmocka_run_group_tests_name("human", tests, NULL, NULL);
}
