/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of base/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/atomicfile.h"
#include "base/buf.h"
#include "base/bytechan.h"
#include "base/child.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"

static void
test_escape(void **state)
{
	char out[64];

	(void)state;
	assert_string_equal(escape_bytes(out, sizeof(out), "a\nb\x1b[2J", 7),
			    "a\\nb\\x1b[2J");
	assert_string_equal(escape_bytes(out, sizeof(out), "foo\xff\xfe\\", 6),
			    "foo\\xff\\xfe\\\\");
	assert_string_equal(escape_bytes(out, sizeof(out), "\xc3\xa9\xc2\x9b",
					 4),
			    "\xc3\xa9\\xc2\\x9b");
	assert_string_equal(escape_bytes(out, 8, "abcdefghij", 10), "abcd...");
	assert_string_equal(escape_bytes(out, 8, "abcdefg", 7), "abcdefg");
	assert_string_equal(escape_bytes(out, 1, "abc", 3), "");
}

static void
test_err_chain(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(err_sys(&e, ENOENT, "cannot open %s", "a\nb"),
			 E_SYSTEM);
	assert_int_equal(e.sys, ENOENT);
	assert_int_equal(err_wrap(&e, "host %s", "h"), E_SYSTEM);
	assert_string_equal(e.text, "host h: cannot open a\\nb: "
				    "No such file or directory");
	assert_int_equal(err_recode(&e, E_COPY, "copy"), E_COPY);
	assert_int_equal(e.code, E_COPY);
	assert_int_equal(err_sys(&e, EDQUOT, "x"), E_NOSPACE);
	assert_string_equal(err_name(E_STOP), "stop");
	assert_string_equal(err_name(-1000), "unknown-error");
	assert_true(err_known(E_QUOTA));
	assert_false(err_known(-1000));
	assert_false(err_known(1));
	assert_int_equal(err_set(NULL, E_BUSY, "x"), E_BUSY);
}

static void
test_buf_limit(void **state)
{
	struct buf b;
	struct err e = { 0 };

	(void)state;
	buf_init(&b, 10);
	assert_int_equal(buf_append(&b, "12345678", 8, &e), 0);
	assert_int_equal(buf_append(&b, "123", 3, &e), E_LIMIT);
	assert_int_equal(b.len, 8);
	buf_consume(&b, 3);
	assert_memory_equal(b.data, "45678", 5);
	assert_null(buf_reserve(&b, SIZE_MAX, &e));
	buf_clear(&b);
	assert_int_equal(buf_printf(&b, &e, "%d", 12345), 0);
	assert_string_equal(buf_cstr(&b, &e), "12345");
	buf_fini(&b);
}

/* Two hosts may have other processors: whatever code is chosen here, the digest
 * is the one that xxHash defines. */
static void
test_digest_is_xxh3(void **state)
{
	struct digest_key k;
	struct digest_state *st;
	uint8_t data[5000], is[16];

	(void)state;
	assert_int_equal(digest_key_new(&k, NULL), 0);
	assert_int_equal(digest_random(data, sizeof(data), NULL), 0);
	for (size_t len = 0; len <= sizeof(data); len += len < 600 ? 1 : 97) {
		XXH128_hash_t h = XXH3_128bits_withSecret(data, len, k.secret,
							  sizeof(k.secret));
		struct digest d = digest_of(&k, data, len), d2;

		for (int i = 0; i < 8; i++) {
			is[i] = (uint8_t)(h.low64 >> 8 * i);
			is[8 + i] = (uint8_t)(h.high64 >> 8 * i);
		}
		assert_memory_equal(d.b, is, 16);
		st = digest_new(&k, NULL);
		assert_non_null(st);
		digest_update(st, data, len / 3);
		digest_update(st, data + len / 3, len - len / 3);
		d2 = digest_final(st);
		digest_free(st);
		assert_memory_equal(d2.b, is, 16);
		assert_true(digest_hash64(&k, data, len) ==
			    XXH3_64bits_withSecret(data, len, k.secret,
						   sizeof(k.secret)));
	}
}

static void
test_digest_sum(void **state)
{
	struct digest_key k;
	struct digest a, b, s1 = { 0 }, s2 = { 0 };
	struct digest ff, one = { { 1 } }, zero = { 0 };
	struct digest_state *st;
	char hex[33];

	(void)state;
	assert_int_equal(digest_key_new(&k, NULL), 0);
	a = digest_of(&k, "a", 1);
	b = digest_of(&k, "b", 1);
	digest_sum(&s1, &a);
	digest_sum(&s1, &b);
	digest_sum(&s2, &b);
	digest_sum(&s2, &a);
	assert_true(digest_eq(&s1, &s2));
	assert_false(digest_eq(&a, &b));
	memset(&ff, 0xff, sizeof(ff));
	digest_sum(&ff, &one); /* the carry goes through all 128 bits */
	assert_true(digest_eq(&ff, &zero));
	digest_unsum(&ff, &one); /* and so does what is borrowed */
	assert_int_equal(ff.b[0], 0xff);
	assert_int_equal(ff.b[15], 0xff);
	digest_unsum(&s1, &b);
	assert_true(digest_eq(&s1, &a));
	st = digest_new(&k, NULL);
	assert_non_null(st);
	digest_update(st, "a", 1);
	b = digest_final(st);
	assert_true(digest_eq(&a, &b));
	digest_free(st);
	assert_string_equal(digest_hex(&one, hex),
			    "01000000000000000000000000000000");
}

static void
test_child_output(void **state)
{
	const char *const argv[] = { "sh", "-c", "cat; echo x >&2; exit 3",
				     NULL };
	struct child_cmd c = { .argv = argv, .input = "hello" };
	struct child_result r;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(child_run(&c, &r, &e), 0);
	assert_int_equal(r.status, 3);
	assert_string_equal((char *)r.out.data, "hello");
	assert_string_equal((char *)r.err_out.data, "x\n");
	child_result_fini(&r);
}

static void
test_child_faults(void **state)
{
	const char *const none[] = { "/nonexistent/prog", NULL };
	const char *const slow[] = { "sleep", "60", NULL };
	const char *const big[] = { "sh", "-c",
				    "head -c 300000 /dev/zero | tr '\\0' x",
				    NULL };
	struct child_cmd c = { .argv = none };
	struct child_result r;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(child_run(&c, &r, &e), E_NOT_FOUND);
	child_result_fini(&r);
	c = (struct child_cmd){ .argv = slow, .timeout_ms = 50 };
	assert_int_equal(child_run(&c, &r, &e), E_TIMEOUT);
	child_result_fini(&r);
	c = (struct child_cmd){ .argv = big, .max_output = 1000 };
	assert_int_equal(child_run(&c, &r, &e), 0);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.out.len, 1000);
	child_result_fini(&r);
}

static void
test_atomicfile(void **state)
{
	char dir[] = "/tmp/vzm-base-XXXXXX";
	struct err e = { 0 };
	struct stat st;
	char *data;
	int d, full;

	(void)state;
	assert_non_null(mkdtemp(dir));
	d = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(atomicfile_write(d, "f", "one", 3, 0640, 1, &e), 0);
	assert_int_equal(atomicfile_write(d, "f", "two", 3, 0640, 1, &e),
			 E_EXISTS);
	assert_int_equal(io_read_file(d, "f", 100, &data, NULL, &e), 0);
	assert_string_equal(data, "one");
	free(data);
	assert_int_equal(atomicfile_write(d, "f", "two", 3, 0600, 0, &e), 0);
	/* Which disk is full only the directory's name can tell. */
	full = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(full >= 0);
	assert_true(atomicfile_write(full, "f", "", 0, 0600, 0, &e) < 0);
	assert_memory_equal(e.text, "cannot create /proc/.f.", 23);
	err_clear(&e);
	close(full);
	assert_int_equal(io_read_file(d, "f", 2, &data, NULL, &e), E_LIMIT);
	assert_int_equal(fstatat(d, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(unlinkat(d, "f", 0), 0);
	close(d);
	/* Nothing else may be left in it. */
	assert_int_equal(rmdir(dir), 0);
}

static int
collect(const void *data, size_t len, void *arg, struct err *e)
{
	return buf_append(arg, data, len, e);
}

static void
test_bytechan(void **state)
{
	int sv[2];
	struct err e = { 0 };
	struct bytechan *c;
	struct buf got;
	char big[300000];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	c = bytechan_fds(sv[0], sv[0], &e);
	assert_non_null(c);
	buf_init(&got, 1000);
	c->on_data = collect;
	c->arg = &got;
	bytechan_wake(c);
	assert_int_equal(bytechan_service(c, 10000, &e), 0);
	assert_int_equal(write(sv[1], "abc", 3), 3);
	assert_int_equal(bytechan_service(c, 10000, &e), 1);
	assert_memory_equal(got.data, "abc", 3);
	memset(big, 1, sizeof(big));
	/* Nobody reads: no progress ends in a time-out, not in a hang. */
	assert_int_equal(bytechan_write(c, big, sizeof(big), 50, &e),
			 E_TIMEOUT);
	close(sv[1]);
	assert_int_equal(bytechan_service(c, 10000, &e), E_CLOSED);
	bytechan_free(c);
	buf_fini(&got);
}

static void
count_line(enum log_level level, const char *line, void *arg)
{
	(void)level;
	if (strcmp(line, "x\\ny") == 0) {
		++*(int *)arg;
	}
}

static void
test_log(void **state)
{
	int n = 0, h = log_add_sink(LOGL_WARN, count_line, &n);

	(void)state;
	log_warn("x\ny");
	log_info("x\ny");
	assert_int_equal(n, 1);
	assert_true(log_wanted(LOGL_WARN));
	log_remove_sink(h);
	assert_false(log_wanted(LOGL_ERROR));
	log_error("x\ny");
	assert_int_equal(n, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_err_chain),
		cmocka_unit_test(test_buf_limit),
		cmocka_unit_test(test_digest_is_xxh3),
		cmocka_unit_test(test_digest_sum),
		cmocka_unit_test(test_child_output),
		cmocka_unit_test(test_child_faults),
		cmocka_unit_test(test_atomicfile),
		cmocka_unit_test(test_bytechan),
		cmocka_unit_test(test_log),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
