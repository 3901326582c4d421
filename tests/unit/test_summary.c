/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of report/summary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/summary.h"

static struct summary
full(void)
{
	static const struct summary_stage stages[] = {
		{ "pass 1", 2500, 24000, 1000000000 },
		{ "final pass", 250, 500, 100000000 },
		{ "stop", 40, 0, 0 },
	};
	static char tree[] = "/vz/private/101";
	static char odd[] = "/etc/vz's/\n101.conf.migrated";
	static char *const remains[] = { tree, odd };
	struct summary s = SUMMARY_INIT;

	s.ct = "101";
	s.destination = "root@host";
	s.session = "ab12";
	s.kind = "lxc";
	s.files = 24500;
	s.bytes = 1100000000;
	s.wire_bytes = 523809524;
	s.ms = 3204;
	s.copy_ms = 2750;
	s.downtime_ms = 350;
	s.passes = 2;
	s.resent = 100000000;
	s.final_bytes = 4000000;
	s.streams = 4;
	s.compress = "zstd";
	s.cipher = "aes128-gcm@openssh.com";
	s.cipher_by = "probe";
	s.cipher_gain = 2.643;
	s.cipher_default = "chacha20-poly1305@openssh.com";
	s.ssh_config = "Ciphers ^aes128-gcm@openssh.com";
	s.new_ct = "201";
	s.place = "/vz2/private/201";
	s.source_kept = "/vz/private/101";
	s.remains = remains;
	s.nremains = 2;
	s.verified = 1;
	s.warnings = 1;
	s.stages = stages;
	s.nstages = 3;
	return s;
}

#define LINE                                                              \
	"vzmigrate: moved CT 101 to root@host: session=ab12 kind=lxc "    \
	"new_ct=201 place=/vz2/private/201 "                              \
	"files=24500 bytes=1100000000 wire_bytes=523809524 ratio=2.10 "   \
	"seconds=3.204 rate=400000000 downtime=0.350 passes=2 "           \
	"resent=100000000 final_bytes=4000000 streams=4 compress=zstd "   \
	"cipher=aes128-gcm@openssh.com cipher_by=probe cipher_gain=2.64 " \
	"cipher_default=chacha20-poly1305@openssh.com "                   \
	"source_kept=/vz/private/101 verified=true warnings=1\n"

static void
want(const struct summary *s, enum summary_format f, const char *text)
{
	struct err e = { 0 };
	char *got = summary_text(s, f, &e);

	assert_non_null(got);
	assert_string_equal(got, text);
	free(got);
}

static void
test_line(void **state)
{
	struct summary s = full(), min = SUMMARY_INIT;

	(void)state;
	want(&s, SUMMARY_LINE, LINE);
	min.ct = "a";
	min.destination = "h";
	min.result = SUMMARY_COPIED;
	want(&min, SUMMARY_LINE,
	     "vzmigrate: copied CT a to h: files=0 bytes=0 seconds=0.000 "
	     "warnings=0\n");
	want(&min, SUMMARY_HUMAN,
	     "vzmigrate: copied CT a to h: files=0 bytes=0 seconds=0.000 "
	     "warnings=0\n"
	     "  0 files, 0 B in 0.00 s\n");
}

static void
test_human(void **state)
{
	struct summary s = full();

	(void)state;
	want(&s, SUMMARY_HUMAN,
	     LINE
	     "  now 201 on root@host, in /vz2/private/201\n"
	     "  24500 files, 1.1 GB in 3.20 s (copying at 400 MB/s), "
	     "2 passes, 4 streams, zstd 2.10:1\n"
	     "  downtime 0.35 s (final pass read 4.0 MB)\n"
	     "  cipher aes128-gcm@openssh.com, chosen by probe: 2.64 times "
	     "the speed of chacha20-poly1305@openssh.com\n"
	     "  permanent with, in ssh_config: Ciphers "
	     "^aes128-gcm@openssh.com\n"
	     "  pass 1                      2.50 s      24000 files    1.0 GB\n"
	     "  final pass                  0.25 s        500 files    100 MB\n"
	     "  stop                        0.04 s\n"
	     "  the copy that is kept here cannot be started: "
	     "/vz/private/101\n"
	     "  to remove it: rm -rf --one-file-system /vz/private/101 "
	     "$'/etc/vz\\x27s/\\x0a101.conf.migrated'\n"
	     "  1 warning, see above\n");
}

/* A directory is of use here still; of what may have come back nothing is said
 * of its removal. */
static void
test_human_kept(void **state)
{
	static char path[] = "/srv/a";
	static char *const remains[] = { path };
	struct summary s = SUMMARY_INIT;

	(void)state;
	s.result = SUMMARY_COPIED;
	s.ct = s.source_kept = path;
	s.destination = "h";
	s.new_ct = s.place = "/srv/b";
	s.remains = remains;
	s.nremains = 1;
	want(&s, SUMMARY_HUMAN,
	     "vzmigrate: copied CT /srv/a to h: new_ct=/srv/b place=/srv/b "
	     "files=0 bytes=0 seconds=0.000 source_kept=/srv/a warnings=0\n"
	     "  copied to /srv/b on h\n"
	     "  0 files, 0 B in 0.00 s\n"
	     "  the source stays here, as it was: /srv/a\n"
	     "  to remove it: rm -rf --one-file-system /srv/a\n");
	s.result = SUMMARY_MOVED;
	s.ct = s.new_ct = "101";
	s.nremains = 0;
	want(&s, SUMMARY_HUMAN,
	     "vzmigrate: moved CT 101 to h: new_ct=101 place=/srv/b "
	     "files=0 bytes=0 seconds=0.000 source_kept=/srv/a warnings=0\n"
	     "  now 101 on h, in /srv/b\n"
	     "  0 files, 0 B in 0.00 s\n"
	     "  the source's copy is kept: /srv/a\n");
}

static void
test_failed(void **state)
{
	struct summary s = SUMMARY_INIT;

	(void)state;
	s.result = SUMMARY_FAILED;
	s.ct = "my ct\n";
	s.destination = "root@\x1b[2Jh";
	s.ms = 1;
	s.mac = "hmac-sha2-256";
	s.cipher = "aes256-ctr";
	s.step = "passes";
	s.owner = "source";
	s.error = "cannot \"read\" \\ \xff";
	want(&s, SUMMARY_HUMAN,
	     "vzmigrate: failed CT \"my ct\\x0a\" to \"root@\\x1b[2Jh\": "
	     "files=0 bytes=0 seconds=0.001 cipher=aes256-ctr "
	     "mac=hmac-sha2-256 warnings=0 step=passes owner=source "
	     "error=\"cannot \\x22read\\x22 \\x5c \\xff\"\n"
	     "  0 files, 0 B in 0.00 s\n"
	     "  cipher aes256-ctr with hmac-sha2-256\n"
	     "  failed at step passes; the CT belongs to: source\n");
	/* What only a failure has is not told of a success. */
	s.result = SUMMARY_MOVED;
	s.ct = "1";
	s.destination = "";
	want(&s, SUMMARY_LINE,
	     "vzmigrate: moved CT 1 to \"\": files=0 bytes=0 seconds=0.001 "
	     "cipher=aes256-ctr mac=hmac-sha2-256 warnings=0\n");
}

/* What a check found; nothing of a copy, which there was not. */
static void
test_checked(void **state)
{
	struct summary_check c = {
		.state = "running",
		.state_there = "running",
		.up = true,
		.disk_bytes = 2043904,
		.free_bytes = 8208420864,
		.free_inodes = 1046857,
		.fs = "ext4",
		.removes = true,
	};
	struct summary s = SUMMARY_INIT;

	(void)state;
	s.result = SUMMARY_CHECKED;
	s.ct = "web";
	s.destination = "root@b";
	s.session = "ab12";
	s.kind = "lxc";
	s.new_ct = "web2";
	s.place = "/var/lib/lxc/web2/rootfs";
	s.files = 28;
	s.bytes = 1982361;
	s.ms = 223;
	s.compress = "none";
	s.cipher = "aes128-gcm@openssh.com";
	s.cipher_by = "hardware";
	s.check = &c;
	want(&s, SUMMARY_HUMAN,
	     "vzmigrate: checked CT web to root@b: session=ab12 kind=lxc "
	     "new_ct=web2 place=/var/lib/lxc/web2/rootfs state=running "
	     "state_there=running files=28 bytes=1982361 disk_bytes=2043904 "
	     "free_bytes=8208420864 free_inodes=1046857 filesystem=ext4 "
	     "removes=true seconds=0.223 cipher=aes128-gcm@openssh.com "
	     "cipher_by=hardware warnings=0\n"
	     "  nothing is in the way; it would be web2 on root@b, in "
	     "/var/lib/lxc/web2/rootfs\n"
	     "  28 files, 2.0 MB (2.0 MB on disk); 8.2 GB are free there "
	     "(ext4)\n"
	     "  it is running: it would be copied while it is up, then "
	     "stopped, and be running there\n"
	     "  then the source copy would be removed (-r no keeps it)\n"
	     "  cipher aes128-gcm@openssh.com, chosen by hardware\n");
	/* A directory, where less is known and something was told. */
	c = (struct summary_check){ .free_bytes = UINT64_MAX,
				    .free_inodes = UINT64_MAX,
				    .fs = "nfs" };
	s.ct = "/srv/a";
	s.new_ct = s.place = "/srv/b";
	s.session = s.cipher = s.cipher_by = NULL;
	s.kind = "dir";
	s.warnings = 2;
	want(&s, SUMMARY_HUMAN,
	     "vzmigrate: checked CT /srv/a to root@b: kind=dir new_ct=/srv/b "
	     "place=/srv/b files=28 bytes=1982361 disk_bytes=0 "
	     "filesystem=nfs removes=false seconds=0.223 warnings=2\n"
	     "  nothing is in the way but for the warnings above; it would be "
	     "/srv/b on root@b\n"
	     "  28 files, 2.0 MB (0 B on disk); the room there is not known "
	     "(nfs)\n"
	     "  the source copy would be kept\n");
	c.state = c.state_there = "suspended";
	want(&s, SUMMARY_JSON,
	     "{\"event\":\"summary\",\"result\":\"checked\","
	     "\"ct\":\"/srv/a\",\"destination\":\"root@b\","
	     "\"kind\":\"dir\",\"new_ct\":\"/srv/b\","
	     "\"place\":\"/srv/b\",\"state\":\"suspended\","
	     "\"state_there\":\"suspended\",\"files\":28,"
	     "\"bytes\":1982361,\"disk_bytes\":0,"
	     "\"filesystem\":\"nfs\",\"removes\":false,"
	     "\"seconds\":0.223,\"warnings\":2}\n");
}

static void
test_json(void **state)
{
	struct summary s = full();
	struct err e = { 0 };
	char *text;
	json_t *o, *stages, *remains;
	const char *result, *ct, *cipher;
	double seconds, ratio, gain, first;
	json_int_t files, rate;
	int verified;

	(void)state;
	text = summary_text(&s, SUMMARY_JSON, &e);
	assert_non_null(text);
	/* one line */
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	o = json_loads(text, 0, NULL);
	assert_non_null(o);
	assert_int_equal(json_unpack(o,
				     "{s:s,s:s,s:s,s:f,s:f,s:f,s:I,s:I,s:b,"
				     "s:[{s:f},{},{}],s:o}",
				     "result", &result, "ct", &ct, "cipher",
				     &cipher, "seconds", &seconds, "ratio",
				     &ratio, "cipher_gain", &gain, "files",
				     &files, "rate", &rate, "verified",
				     &verified, "stages", "seconds", &first,
				     "stages", &stages),
			 0);
	assert_string_equal(result, "moved");
	assert_string_equal(ct, "101");
	assert_string_equal(cipher, "aes128-gcm@openssh.com");
	assert_true(seconds > 3.2039 && seconds < 3.2041);
	assert_true(ratio > 2.099 && ratio < 2.101);
	assert_true(gain > 2.639 && gain < 2.641);
	assert_true(first > 2.499 && first < 2.501);
	assert_int_equal(files, 24500);
	assert_int_equal(rate, 400000000);
	assert_true(verified);
	assert_int_equal(json_array_size(stages), 3);
	remains = json_object_get(o, "remains");
	assert_int_equal(json_array_size(remains), 2);
	assert_string_equal(json_string_value(json_array_get(remains, 0)),
			    "/vz/private/101");
	assert_null(json_object_get(o, "mac"));
	assert_null(json_object_get(o, "error"));
	assert_string_equal(json_string_value(json_object_get(o, "event")),
			    "summary");
	json_decref(o);
	free(text);
}

/* Of one that was given up or taken back nothing was copied. */
static void
test_json_ended(void **state)
{
	struct summary s = full();

	(void)state;
	s.session = "0badc0de";
	s.kind = "lxc";
	s.warnings = 2;
	s.stages = NULL;
	s.nremains = 0;
	s.ssh_config = NULL;
	s.ms = 250;
	s.result = SUMMARY_GIVEN_UP;
	want(&s, SUMMARY_JSON,
	     "{\"event\":\"summary\",\"result\":\"given up\","
	     "\"ct\":\"101\",\"destination\":\"root@host\","
	     "\"session\":\"0badc0de\",\"kind\":\"lxc\","
	     "\"seconds\":0.25,\"warnings\":2}\n");
	s.result = SUMMARY_TAKEN_BACK;
	want(&s, SUMMARY_LINE,
	     "vzmigrate: taken back CT 101 to root@host: "
	     "session=0badc0de kind=lxc seconds=0.250 warnings=2\n");
}

static void
test_json_bytes(void **state)
{
	struct summary s = SUMMARY_INIT;
	struct err e = { 0 };
	char *text;
	json_t *o;

	(void)state;
	s.ct = "a\xff\n";
	s.destination = "h\xc3\xa9";
	text = summary_text(&s, SUMMARY_JSON, &e);
	o = json_loads(text, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(o, "ct")),
			    "a\xef\xbf\xbd\n");
	assert_string_equal(
		json_string_value(json_object_get(o, "destination")),
		"h\xc3\xa9");
	json_decref(o);
	free(text);
}

static void
test_extremes(void **state)
{
	struct summary s = SUMMARY_INIT;

	(void)state;
	s.ct = "1";
	s.destination = "h";
	s.files = s.bytes = s.wire_bytes = UINT64_MAX;
	s.copy_ms = 1000;
	s.ms = -5;
	s.cipher = "c";
	s.cipher_gain = 1e300;
	want(&s, SUMMARY_LINE,
	     "vzmigrate: moved CT 1 to h: files=18446744073709551615 "
	     "bytes=18446744073709551615 wire_bytes=18446744073709551615 "
	     "ratio=1.00 seconds=0.000 rate=18446744073709551615 cipher=c "
	     "warnings=0\n");
}

static void
test_print(void **state)
{
	struct summary s = full();
	struct err e = { 0 };
	char got[4096] = "";
	int fd[2];

	(void)state;
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(summary_print(&s, SUMMARY_LINE, fd[1], &e), 0);
	assert_true(read(fd[0], got, sizeof(got) - 1) > 0);
	assert_string_equal(got, LINE);
	close(fd[0]);
	close(fd[1]);
	assert_int_equal(summary_print(&s, SUMMARY_LINE, fd[1], &e), E_SYSTEM);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_human),
		cmocka_unit_test(test_human_kept),
		cmocka_unit_test(test_failed),
		cmocka_unit_test(test_checked),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_ended),
		cmocka_unit_test(test_json_bytes),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_print),
	};

	setlocale(LC_ALL, "");
	return cmocka_run_group_tests_name("summary", tests, NULL, NULL);
}
