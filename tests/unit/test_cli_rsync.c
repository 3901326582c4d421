/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of what becomes of --rsync. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "cli/options.h"
#include "xfer/compress.h"

/* `first` is an option of ours, or NULL; `rsync` the string, or two. */
static int
parse(struct options *o, const char *first, const char *rsync,
      const char *second, struct err *e)
{
	char words[4][1024] = { "vzmigrate", "", "", "" };
	char host[] = "h", ct[] = "1";
	char *argv[8];
	int argc = 0;

	argv[argc++] = words[0];
	if (first) {
		snprintf(words[1], sizeof(words[1]), "%s", first);
		argv[argc++] = words[1];
	}
	snprintf(words[2], sizeof(words[2]), "--rsync=%s", rsync);
	argv[argc++] = words[2];
	if (second) {
		snprintf(words[3], sizeof(words[3]), "--rsync=%s", second);
		argv[argc++] = words[3];
	}
	argv[argc++] = host;
	argv[argc++] = ct;
	argv[argc] = NULL;
	memset(e, 0, sizeof(*e));
	return options_parse(argc, argv, o, e);
}

/* ---- the rate, in rsync's units ---- */

static void
test_rate(void **state)
{
	static const struct {
		const char *rate;
		uint64_t bytes;
	} t[] = {
		{ "0", 0 },
		{ "1", 1024 },
		{ "500", 500 * 1024 },
		{ "500k", 500 * 1024 },
		{ "500K", 500 * 1024 },
		{ "500KiB", 500 * 1024 },
		{ "500KB", 500000 },
		{ "1.5m", 3 << 19 },
		{ "1.5MB", 1500000 },
		{ "2G", 2ull << 30 },
		{ "1T", 1ull << 40 },
		{ "2048b", 2048 },
		{ "999999999", 999999999ull * 1024 },
	};
	static const char *const bad[] = {
		"",	 "x",	  "-1",	  "1x",	    "1kk",
		"1kibi", "100b",  "0.5b", "500bb",  "1 000",
		"1e3",	 ".5",	  "1,5",  "1.5.2m", "99999999999999999999",
		"1kb ",	 "0x10m",
	};
	struct options o;
	struct err e;
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		snprintf(text, sizeof(text), "--bwlimit=%s", t[i].rate);
		assert_int_equal(parse(&o, NULL, text, NULL, &e), 0);
		assert_int_equal(o.plan.limit_speed, t[i].bytes);
		options_fini(&o);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "'--bwlimit=%s'", bad[i]);
		if (parse(&o, NULL, text, NULL, &e) != E_USAGE) {
			print_error("taken: %s\n", bad[i]);
		}
		assert_int_equal(e.code, E_USAGE);
		snprintf(text, sizeof(text),
			 "--rsync: --bwlimit=%s: is no rate", bad[i]);
		assert_memory_equal(e.text, text, strlen(text));
		options_fini(&o);
	}
}

/* ---- what is taken ---- */

static void
test_compression(void **state)
{
	static const struct {
		const char *first, *rsync;
		int compress;
	} t[] = {
		{ NULL, "-a", COMPRESS_AUTO },
		{ NULL, "-z", COMPRESS_DEFAULT },
		{ NULL, "-avz", COMPRESS_DEFAULT },
		{ NULL, "--compress", COMPRESS_DEFAULT },
		{ NULL, "-zz", COMPRESS_DEFAULT },
		{ NULL, "--compress-level=9", 9 },
		{ NULL, "--compress-level 9", 9 },
		{ NULL, "--zl=9 -z", 9 },
		{ NULL, "-z --zl=9", 9 },
		{ NULL, "--zl=22", 19 },
		{ NULL, "--zl=-5", 1 },
		{ NULL, "-z --zl=0", COMPRESS_OFF },
		{ NULL, "-z --no-compress", COMPRESS_OFF },
		{ NULL, "--no-z -z", COMPRESS_DEFAULT },
		{ NULL, "-z --zc=none", COMPRESS_OFF },
		{ NULL, "-z --compress-choice=lz4", COMPRESS_DEFAULT },
		/* Ours win, wherever they stand. */
		{ "--compress=5", "-z --zl=9 --no-z", 5 },
		{ "--nocompress", "-z", COMPRESS_OFF },
	};
	struct options o;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(parse(&o, t[i].first, t[i].rsync, NULL, &e),
				 0);
		if (o.plan.compress != t[i].compress) {
			print_error("%s: %d\n", t[i].rsync, o.plan.compress);
		}
		assert_int_equal(o.plan.compress, t[i].compress);
		options_fini(&o);
	}
}

static void
test_taken(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(parse(&o, NULL,
			       "-e 'ssh -p 2222 -i \"a b\"' --timeout=9 -n",
			       "-6", &e),
			 0);
	assert_int_equal(o.ssh.port, 2222);
	assert_string_equal(o.ssh.identities.v[0], "a b");
	assert_int_equal(o.ssh.family, AF_INET6);
	assert_int_equal(o.timeout_ms, 9000);
	assert_true(o.plan.check_only);
	assert_int_equal(o.notes.n, 1);
	assert_string_equal(o.notes.v[0],
			    "--rsync: taken: -e ssh -p 2222 -i \"a b\" as "
			    "--ssh, --timeout=9 as --timeout=9, -n as "
			    "--check-only, -6 as --ssh=-6");
	options_fini(&o);

	assert_int_equal(parse(&o, NULL, "--rsh=/usr/bin/ssh", "-essh", &e), 0);
	options_fini(&o);

	assert_int_equal(parse(&o, "--limit-speed=1M",
			       "--bwlimit=5 --timeout=0 -4", NULL, &e),
			 0);
	assert_int_equal(o.plan.limit_speed, 1 << 20);
	assert_int_equal(o.timeout_ms, 0);
	assert_int_equal(o.ssh.family, AF_INET);
	assert_string_equal(o.notes.v[0], "--rsync: taken: --bwlimit=5 left to "
					  "--limit-speed, -4 as --ssh=-4");
	options_fini(&o);

	assert_int_equal(parse(&o, "--timeout=3", "--timeout=9", NULL, &e), 0);
	assert_int_equal(o.timeout_ms, 3000);
	options_fini(&o);

	/* What the classic itself tells rsync, and what people add. */
	assert_int_equal(parse(&o, NULL, "-aHAX --delete --numeric-ids",
			       "-W --sparse -v --progress -B 4096", &e),
			 0);
	assert_int_equal(o.notes.n, 1);
	assert_string_equal(
		o.notes.v[0],
		"--rsync: so anyway, or without rsync nothing: -a, -H, -A, -X, "
		"--delete, --numeric-ids, -W, --sparse, -v, --progress, "
		"-B 4096");
	options_fini(&o);
}

/* ---- what is refused, by name ---- */

static void
test_refused(void **state)
{
	static const struct {
		const char *rsync, *says;
	} t[] = {
		{ "--exclude=*.log",
		  "cannot be honoured: --exclude=*.log (the whole container is "
		  "moved)" },
		{ "-aHf '- *.o' --exclude cache -uC",
		  "cannot be honoured: -f - *.o, --exclude=cache, -u, -C (the "
		  "whole container is moved)" },
		{ "--chmod=u+x -L --no-acls --no-o",
		  "cannot be honoured: --chmod=u+x, -L, --no-acls, --no-o (the "
		  "copy is exact)" },
		{ "-z --frob -Y file --no-frob --no- -- -u --rsync-path=x",
		  "cannot be honoured: -u (the whole container is moved); "
		  "--rsync-path=x (rsync is not used); --frob, -Y, file, "
		  "--no-frob, --no-, -- (not known)" },
		{ "--bwlimit", "--bwlimit: a value is missing" },
		{ "-e", "-e: a value is missing" },
		{ "--delete=3", "--delete=3: takes no value" },
		{ "-e rsh", "-e rsh: the transport is SSH alone" },
		{ "-e /x/myssh", "-e /x/myssh: the transport is SSH alone" },
		{ "-e 'ssh -X'", "-e ssh -X: --ssh: the ssh option '-X'" },
		{ "--timeout=x", "--timeout=x: is no time" },
		{ "--timeout=-1", "--timeout=-1: is no time" },
		{ "--zl=x", "--zl=x: is no level" },
		{ "-z 'open", "a quote is not closed" },
	};
	struct options o;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char want[512];

		snprintf(want, sizeof(want), "--rsync: %s", t[i].says);
		parse(&o, NULL, t[i].rsync, NULL, &e);
		if (e.code != E_USAGE ||
		    strncmp(e.text, want, strlen(want)) != 0) {
			print_error("%s: \"%s\"\n", t[i].rsync, e.text);
		}
		assert_int_equal(e.code, E_USAGE);
		assert_memory_equal(e.text, want, strlen(want));
		options_fini(&o);
	}
}

/* More than a line holds: cut, told so, and still an error. */
static void
test_much(void **state)
{
	char text[1000] = "";
	struct options o;
	struct err e;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "--exclude=", 10);
	assert_int_equal(parse(&o, NULL, text, NULL, &e), E_USAGE);
	assert_non_null(strstr(e.text, ": --exclude=xxxxxxxx"));
	options_fini(&o);
	for (size_t i = 0; i + 4 < sizeof(text); i += 3) {
		memcpy(text + i, "-u ", 4);
	}
	assert_int_equal(parse(&o, NULL, text, text, &e), E_USAGE);
	assert_non_null(strstr(e.text, "-u, -u, ... (the whole container"));
	options_fini(&o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_much),
		cmocka_unit_test(test_compression),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
