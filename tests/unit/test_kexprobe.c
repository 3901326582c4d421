/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ssh/kexprobe: a server's first bytes, whole, cut short, and wrong; and a
 * run through a ProxyCommand that plays the server.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "ssh/kexprobe.h"

#define SERVER "SSH-2.0-test\r\n"

struct out {
	uint8_t b[1 << 17];
	size_t n;
};

static void
put(struct out *o, const void *p, size_t n)
{
	assert_true(o->n + n <= sizeof(o->b));
	memcpy(o->b + o->n, p, n);
	o->n += n;
}

static void
put32(struct out *o, uint32_t v)
{
	uint8_t b[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16),
			 (uint8_t)(v >> 8), (uint8_t)v };

	put(o, b, 4);
}

static void
put_packet(struct out *o, const struct out *payload)
{
	uint8_t pad = (uint8_t)(8 - (5 + payload->n) % 8), zero[16] = { 0 };

	pad += pad < 4 ? 8 : 0;
	put32(o, (uint32_t)payload->n + 1 + pad);
	put(o, &pad, 1);
	put(o, payload->b, payload->n);
	put(o, zero, pad);
}

static void
put_string(struct out *o, const char *s)
{
	put32(o, (uint32_t)strlen(s));
	put(o, s, strlen(s));
}

static void
put_kexinit(struct out *o, const char *const lists[10])
{
	static struct out m;

	m.n = 0;
	put(&m,
	    "\x14"
	    "cccccccccccccccc",
	    17);
	for (int i = 0; i < 10; i++) {
		put_string(&m, lists[i]);
	}
	put(&m, "\0\0\0\0\0", 5);
	put_packet(o, &m);
}

static const char *const lists[10] = { "k1,kex-strict-s-v00@openssh.com",
				       "h1",
				       "c1,c2",
				       "c3",
				       "m1",
				       "m2,m3",
				       "none",
				       "none",
				       "",
				       "" };

static void
check_lists(const struct kexprobe *k)
{
	assert_string_equal(k->lists[KEXLOG_KEX], lists[0]);
	assert_string_equal(k->lists[KEXLOG_HOSTKEY], "h1");
	assert_string_equal(k->lists[KEXLOG_CIPHER_C2S], "c1,c2");
	assert_string_equal(k->lists[KEXLOG_CIPHER_S2C], "c3");
	assert_string_equal(k->lists[KEXLOG_MAC_C2S], "m1");
	assert_string_equal(k->lists[KEXLOG_MAC_S2C], "m2,m3");
	assert_true(k->strict_kex);
}

static void
test_whole_and_cut(void **state)
{
	static struct out o;
	struct kexprobe k;
	struct err e = { 0 };

	(void)state;
	o.n = 0;
	put(&o, "hello\r\nSSH\n" SERVER, 11 + strlen(SERVER));
	put_kexinit(&o, lists);
	for (size_t n = 0; n < o.n; n++) {
		assert_int_equal(kexprobe_parse(o.b, n, &k, &e), 0);
		assert_null(k.lists[0]);
	}
	assert_int_equal(kexprobe_parse(o.b, o.n, &k, &e), 1);
	assert_string_equal(k.banner, "SSH-2.0-test");
	check_lists(&k);
	kexprobe_fini(&k);
	/* what follows is not looked at */
	put(&o, "more", 4);
	assert_int_equal(kexprobe_parse(o.b, o.n, &k, &e), 1);
	kexprobe_fini(&k);
}

/* A list longer than libssh's log would show. */
static void
test_long_list(void **state)
{
	static struct out o;
	static char list[60000];
	struct kexprobe k;

	(void)state;
	memset(list, 'x', sizeof(list) - 1);
	o.n = 0;
	put(&o, SERVER, strlen(SERVER));
	put_kexinit(&o, (const char *const[10]){ "k", "h", list, "", "", "", "",
						 "", "", "" });
	assert_int_equal(kexprobe_parse(o.b, o.n, &k, NULL), 1);
	assert_int_equal(strlen(k.lists[KEXLOG_CIPHER_C2S]), 59999);
	kexprobe_fini(&k);
}

static void
want(const void *data, size_t n, int code, const char *says)
{
	struct kexprobe k;
	struct err e = { 0 };

	assert_int_equal(kexprobe_parse(data, n, &k, &e), code);
	if (!strstr(e.text, says)) {
		fail_msg("\"%s\" is not in \"%s\"", says, e.text);
	}
}

static void
want_payload(const void *data, size_t n, int code, const char *says)
{
	static struct out o, m;

	o.n = m.n = 0;
	put(&o, SERVER, strlen(SERVER));
	put(&m, data, n);
	put_packet(&o, &m);
	want(o.b, o.n, code, says);
}

static void
test_refused(void **state)
{
	static struct out o;
	static char lines[70000];
	const char *bad[10];

	(void)state;
	want("SSH-1.5-old\n", 12, E_PROTOCOL, "does not speak SSH protocol 2");
	want("SSH-2\n", 6, E_PROTOCOL, "does not speak");
	memset(lines, 'x', sizeof(lines));
	want(lines, sizeof(lines), E_LIMIT, "no SSH version");
	for (size_t i = 79; i < sizeof(lines); i += 80) {
		lines[i] = '\n';
	}
	want(lines, sizeof(lines), E_LIMIT, "no SSH version");
	memcpy(lines, "SSH-2.0-", 8);
	memset(lines + 8, 'y', 400);
	want(lines, 300, E_PROTOCOL, "version line is too long");
	want(SERVER "\xff\xff\xff\xff\x04", strlen(SERVER) + 5, E_LIMIT,
	     "a packet of 4294967295 bytes");
	want(SERVER "\0\0\0\x0c\x0b", strlen(SERVER) + 5, E_PROTOCOL,
	     "malformed");
	want(SERVER "\0\0\0\x0d\4", strlen(SERVER) + 5, E_PROTOCOL,
	     "malformed");
	want_payload("\x14short", 6, E_PROTOCOL, "too short");
	want_payload("\x14"
		     "0123456789012345\0\0\0\x7f",
		     21, E_PROTOCOL, "cut short");
	want_payload("\x15", 1, E_PROTOCOL, "type 21");
	want_payload("\1\0\0\0\x0c\0\0\0\4no\x1bz", 13, E_CLOSED,
		     "hangs up: no\\x1bz");
	want_payload("\1", 1, E_CLOSED, "no reason given");
	memcpy(bad, lists, sizeof(bad));
	bad[2] = "a\x1b[2J";
	o.n = 0;
	put(&o, SERVER, strlen(SERVER));
	put_kexinit(&o, bad);
	want(o.b, o.n, E_PROTOCOL, "byte 0x1b");
}

static void
test_skips(void **state)
{
	static struct out o, ignore;
	struct kexprobe k;
	struct err e = { 0 };

	(void)state;
	o.n = ignore.n = 0;
	put(&ignore, "\2\0\0\0\1x", 6);
	put(&o, SERVER, strlen(SERVER));
	for (int i = 0; i < 16; i++) {
		put_packet(&o, &ignore);
	}
	put_kexinit(&o, lists);
	assert_int_equal(kexprobe_parse(o.b, o.n, &k, &e), 1);
	kexprobe_fini(&k);
	o.n = strlen(SERVER);
	for (int i = 0; i < 17; i++) {
		put_packet(&o, &ignore);
	}
	want(o.b, o.n, E_LIMIT, "too many packets");
}

/* ---- a run ---- */

static int
run_with(const char *command, int64_t ms, struct kexprobe *k, struct err *e)
{
	struct sshconf c = { .alias = (char *)"there",
			     .host = (char *)"there",
			     .port = 22,
			     .proxy_command = (char *)command };

	return kexprobe_run(&c, ms, NULL, k, e);
}

static void
test_run(void **state)
{
	static struct out o;
	char path[] = "/tmp/kexprobe.XXXXXX", command[128];
	int fd = mkstemp(path);
	struct kexprobe k;
	struct err e = { 0 };
	int64_t from;

	(void)state;
	assert_true(fd >= 0);
	o.n = 0;
	put(&o, SERVER, strlen(SERVER));
	put_kexinit(&o, lists);
	assert_int_equal(io_write_full(fd, o.b, o.n, path, &e), 0);
	close(fd);
	/* It must have our version first, as OpenSSH wants it. */
	snprintf(command, sizeof(command),
		 "sh -c 'read v && test -n \"$v\" && cat %s && sleep 60'",
		 path);
	assert_int_equal(run_with(command, 10000, &k, &e), 0);
	check_lists(&k);
	kexprobe_fini(&k);
	snprintf(command, sizeof(command), "sh -c 'head -c 40 %s'", path);
	assert_int_equal(run_with(command, 10000, &k, &e), E_CLOSED);
	assert_non_null(strstr(e.text, "there: the server hung up"));
	from = io_now_ms();
	assert_int_equal(run_with("sleep 60", 300, &k, &e), E_TIMEOUT);
	assert_true(io_now_ms() - from < 5000);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_and_cut),
		cmocka_unit_test(test_long_list),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_skips),
		cmocka_unit_test(test_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
