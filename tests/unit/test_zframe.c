/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of xfer/zframe and xfer/compress: round trips, limits, frames
 * that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "wire/tree.h"
#include "xfer/compress.h"
#include "xfer/cpuidle.h"
#include "xfer/zframe.h"

static void
fill_random(uint8_t *p, size_t len)
{
	uint64_t s = 0x9e3779b97f4a7c15u;

	for (size_t i = 0; i < len; i++) {
		s ^= s << 13;
		s ^= s >> 7;
		s ^= s << 17;
		p[i] = (uint8_t)(s >> 24);
	}
}

static void
fill_text(uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		p[i] = (uint8_t)("the quick brown fox "[i % 20] ^
				 (i % 97 == 0 ? i / 97 : 0));
	}
}

static struct pool_frame *
chunk(struct pool *p, uint32_t id, size_t len, bool random)
{
	struct pool_frame *f = pool_get(p);

	assert_non_null(f);
	f->type = FRAME_CHUNK;
	f->len = (uint32_t)(TREE_CHUNK_HEAD + len);
	memset(pool_payload(f), 0, TREE_CHUNK_HEAD);
	tree_set_u32(pool_payload(f), id);
	(random ? fill_random : fill_text)(pool_payload(f) + TREE_CHUNK_HEAD,
					   len);
	return f;
}

static void
test_chunk_round_trip(void **state)
{
	static const size_t sizes[] = { 200, 4096, 262144,
					POOL_ROOM - TREE_CHUNK_HEAD };
	static const int tries[] = { 1, 3, 9, 19, 1 };
	struct pool *p = pool_new(2, NULL);
	struct zpack *z = zpack_new(NULL);
	struct zunpack *u = zunpack_new(NULL);
	uint8_t *want = malloc(POOL_ROOM);

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t k = 0; k < sizeof(tries) / sizeof(tries[0]); k++) {
			struct pool_frame *f = chunk(p, 7, sizes[i], false);
			const uint8_t *out;
			size_t n;

			memcpy(want, pool_payload(f), f->len);
			assert_int_equal(zpack_frame(z, f, tries[k], f->len),
					 1);
			assert_int_equal(f->flags, FRAME_F_ZSTD);
			assert_true(f->len < TREE_CHUNK_HEAD + sizes[i]);
			assert_memory_equal(pool_payload(f), want,
					    TREE_CHUNK_HEAD);
			assert_int_equal(
				zunpack_bytes(u,
					      pool_payload(f) + TREE_CHUNK_HEAD,
					      f->len - TREE_CHUNK_HEAD, &out,
					      &n, NULL),
				0);
			assert_int_equal(n, sizes[i]);
			assert_memory_equal(out, want + TREE_CHUNK_HEAD, n);
			/* Not twice. */
			assert_int_equal(zpack_frame(z, f, 1, f->len), 0);
			pool_put(f);
		}
	}
	free(want);
	zunpack_free(u);
	zpack_free(z);
	pool_free(p);
}

/* What does not shrink ends in the middle of a frame, and may not spoil the
 * next, whose level is another. */
static void
test_level_after_failure(void **state)
{
	struct pool *p = pool_new(2, NULL);
	struct zpack *z = zpack_new(NULL);
	struct pool_frame *f = chunk(p, 1, 262144, true);

	(void)state;
	for (int level = 1; level <= 15; level += 2) {
		struct pool_frame *g = chunk(p, 2, 262144, false);

		assert_int_equal(zpack_frame(z, f, level, f->len - f->len / 32),
				 0);
		assert_int_equal(
			zpack_frame(z, g, level + 1, g->len - g->len / 32), 1);
		pool_put(g);
	}
	pool_put(f);
	zpack_free(z);
	pool_free(p);
}

/* Of a batch the body alone: the reader takes the definitions as they are. */
static void
test_batch_round_trip(void **state)
{
	struct pool *p = pool_new(1, NULL);
	struct zpack *z = zpack_new(NULL);
	struct zunpack *u = zunpack_new(NULL);
	struct pool_frame *f = pool_get(p);
	uint8_t *b = pool_payload(f), want[5000];
	struct tree_in body, defs;
	size_t n;

	(void)state;
	fill_text(want, sizeof(want));
	f->type = FRAME_BATCH;
	tree_set_u32(b, sizeof(want));
	memcpy(b + 4, want, sizeof(want));
	memcpy(b + 4 + sizeof(want), "definitions", 11);
	f->len = 4 + sizeof(want) + 11;
	assert_int_equal(zpack_frame(z, f, 3, f->len), 1);
	assert_int_equal(
		tree_split(pool_payload(f), f->len, &body, &defs, NULL), 0);
	assert_int_equal(defs.left, 11);
	assert_memory_equal(defs.p, "definitions", 11);
	assert_int_equal(zunpack_bytes(u, body.p, body.left, &body.p, &n, NULL),
			 0);
	assert_int_equal(n, sizeof(want));
	assert_memory_equal(body.p, want, n);
	pool_put(f);

	/* One of definitions only. */
	f = pool_get(p);
	f->type = FRAME_BATCH;
	tree_set_u32(pool_payload(f), 0);
	fill_text(pool_payload(f) + 4, 500);
	f->len = 504;
	assert_int_equal(zpack_frame(z, f, 3, f->len), 0);
	assert_int_equal(f->len, 504);
	pool_put(f);
	zunpack_free(u);
	zpack_free(z);
	pool_free(p);
}

/* What does not shrink enough is as it was, to the byte. */
static void
test_left_alone(void **state)
{
	struct pool *p = pool_new(1, NULL);
	struct zpack *z = zpack_new(NULL);
	struct pool_frame *f = chunk(p, 1, 100000, true), *large;
	uint8_t *bytes = f->bytes, *want = malloc(f->len);

	(void)state;
	memcpy(want, pool_payload(f), f->len);
	assert_int_equal(zpack_frame(z, f, 1, f->len - f->len / 32), 0);
	assert_int_equal(zpack_frame(z, f, 19, f->len), 0);
	assert_int_equal(zpack_frame(z, f, 1, TREE_CHUNK_HEAD), 0);
	assert_ptr_equal(f->bytes, bytes);
	assert_int_equal(f->len, TREE_CHUNK_HEAD + 100000);
	assert_int_equal(f->flags, 0);
	assert_memory_equal(pool_payload(f), want, f->len);
	free(want);
	pool_put(f);

	/* One that is not the pool's, and one of another type. */
	large = pool_large(300000);
	large->type = FRAME_CHUNK;
	large->len = 300000;
	memset(pool_payload(large), 0, large->len);
	assert_int_equal(zpack_frame(z, large, 1, large->len), 0);
	pool_put(large);
	f = pool_get(p);
	f->type = FRAME_REQUEST;
	f->len = 1000;
	memset(pool_payload(f), 0, f->len);
	assert_int_equal(zpack_frame(z, f, 1, f->len), 0);
	pool_put(f);
	zpack_free(z);
	zpack_free(NULL);
	pool_free(p);
}

static void
refused(struct zunpack *u, const void *p, size_t len, const char *why)
{
	struct err e = { 0 };
	const uint8_t *out;
	size_t n;

	assert_int_equal(zunpack_bytes(u, p, len, &out, &n, &e), E_PROTOCOL);
	if (!strstr(e.text, why)) {
		fail_msg("'%s', not '%s'", e.text, why);
	}
}

static void
test_hostile(void **state)
{
	struct zunpack *u = zunpack_new(NULL);
	size_t big = 64 << 20, n;
	uint8_t *zeros = calloc(1, big), *z = malloc(1 << 20), *two;
	ZSTD_CCtx *c = ZSTD_createCCtx();
	ZSTD_inBuffer in = { zeros, 1000, 0 };
	ZSTD_outBuffer out = { z, 1 << 20, 0 };

	(void)state;
	refused(u, z, 0, "without its size");
	refused(u, "not zstd at all", 15, "without its size");
	/* A bomb: a few KB that would become 64 MB. */
	n = ZSTD_compress(z, 1 << 20, zeros, big, 3);
	assert_true(!ZSTD_isError(n) && n < 10000);
	refused(u, z, n, "of 67108864 bytes, limit 278528");
	n = ZSTD_compress(z, 1 << 20, zeros, ZFRAME_MAX + 1, 3);
	refused(u, z, n, "of 278529 bytes");
	/* No size: a stream. */
	assert_int_equal(ZSTD_compressStream2(c, &out, &in, ZSTD_e_flush) > 0,
			 0);
	assert_int_equal(ZSTD_compressStream2(c, &out, &in, ZSTD_e_end), 0);
	refused(u, z, out.pos, "without its size");
	/* Of nothing. */
	n = ZSTD_compress(z, 1 << 20, zeros, 0, 3);
	refused(u, z, n, "without its size");
	/* A frame to be skipped. */
	refused(u, "\x50\x2a\x4d\x18\x04\0\0\0abcd", 12, "without its size");
	/* Two frames, one byte too many, one too few. */
	n = ZSTD_compress(z, 1 << 20, zeros, 5000, 3);
	two = malloc(2 * n);
	memcpy(two, z, n);
	memcpy(two + n, z, n);
	refused(u, two, 2 * n, "malformed");
	refused(u, two, n + 1, "malformed");
	refused(u, two, n - 1, "malformed");
	free(two);
	/* It declares less, or more, than it holds: the byte after the
	 * frame's descriptor is the size less 256 in two bytes. */
	fill_text(zeros, 5000);
	n = ZSTD_compress(z, 1 << 20, zeros, 5000, 3);
	assert_int_equal(z[5] | z[6] << 8, 5000 - 256);
	z[5]--;
	refused(u, z, n, "cannot be read");
	z[5] += 2;
	refused(u, z, n, "cannot be read");
	z[5]--;
	/* A broken block. */
	memset(z + 9, 0xff, 20);
	refused(u, z, n, "");
	ZSTD_freeCCtx(c);
	free(z);
	free(zeros);
	zunpack_free(u);
	zunpack_free(NULL);
}

/* ---- compress ---- */

static bool
sent_packed(struct compress *c, struct pool *p, uint32_t id, bool random)
{
	struct pool_frame *f = chunk(p, id, 100000, random);
	bool packed;

	compress_pack(c, 0, f);
	packed = f->flags & FRAME_F_ZSTD;
	pool_put(f);
	return packed;
}

static void
test_pinned(void **state)
{
	struct pool *p = pool_new(1, NULL);
	struct compress *c = compress_new(3, NULL);
	struct compress_totals t;

	(void)state;
	assert_true(compress_wanted(c));
	assert_true(sent_packed(c, p, 1, false));
	compress_wait(c, 0, true, 1);
	compress_wait(c, 0, false, 2);
	assert_false(compress_sent(c, 0, 1000, 300, 1000000000));
	compress_get_totals(c, &t);
	assert_int_equal(t.frames, 1);
	assert_int_equal(t.packed, 1);
	assert_int_equal(t.raw, 1000);
	assert_int_equal(t.wire, 308);
	assert_int_equal(t.level, 3);
	compress_free(c);
	c = compress_new(COMPRESS_OFF, NULL);
	assert_false(compress_wanted(c));
	assert_false(compress_wanted(NULL));
	assert_false(sent_packed(c, p, 1, false));
	compress_free(c);
	compress_free(NULL);
	pool_free(p);
}

/* A file whose chunks do not shrink is tried ever more seldom; the next file
 * is given a chance at once. */
static void
test_stubborn_file(void **state)
{
	struct pool *p = pool_new(1, NULL);
	struct compress *c = compress_new(1, NULL);
	int untried = 0;

	(void)state;
	assert_false(sent_packed(c, p, 1, true));
	assert_false(sent_packed(c, p, 1, false)); /* skipped */
	assert_true(sent_packed(c, p, 1, false));
	for (int i = 0; i < 200; i++) {
		assert_false(sent_packed(c, p, 1, true));
	}
	while (!sent_packed(c, p, 1, false)) {
		untried++;
		assert_true(untried <= 32);
	}
	assert_false(sent_packed(c, p, 2, true));
	assert_true(sent_packed(c, p, 3, false));
	compress_free(c);
	pool_free(p);
}

static void
crawl(struct compress *c, int64_t *now, int slices, uint32_t raw, uint32_t wire)
{
	for (int i = 0; i < slices; i++) {
		compress_wait(c, 0, true, *now);
		*now += 100000;
		compress_wait(c, 0, false, *now);
		if (compress_sent(c, 0, raw, wire, *now)) {
			compress_tick(c, 0, *now);
		}
	}
}

/* Automatic, by real clocks of no importance: a link that is waited for and
 * crawls turns it on. */
static void
test_automatic(void **state)
{
	struct pool *p = pool_new(1, NULL);
	struct compress *c = compress_new(COMPRESS_AUTO, NULL);
	int64_t now = 1000000;

	(void)state;
	assert_true(compress_wanted(c));
	assert_false(sent_packed(c, p, 1, false));
	crawl(c, &now, 4, 262144, 262144);
	assert_true(sent_packed(c, p, 1, false));
	/* It pays. */
	crawl(c, &now, 10, 700000, 262144);
	assert_true(sent_packed(c, p, 1, false));
	/* It does not any more. */
	crawl(c, &now, 14, 262144, 262144);
	assert_false(sent_packed(c, p, 1, false));
	compress_free(c);
	pool_free(p);
}

static void
test_cpuidle(void **state)
{
	struct cpuidle c;
	uint64_t idle = 0;

	(void)state;
	assert_int_equal(cpuidle_parse("cpu  1 2 3 40 5 6 7\ncpu0 1", &idle),
			 0);
	assert_int_equal(idle, 45);
	assert_int_equal(cpuidle_parse("cpu  1 2 3", &idle), -1);
	assert_int_equal(cpuidle_parse("", &idle), -1);
	assert_int_equal(cpuidle_parse("intr 1 2 3 4 5", &idle), -1);
	cpuidle_init(&c);
	assert_true(cpuidle_read(&c, 1000000) < 0);
	assert_true(cpuidle_read(&c, 2000000) >= 0);
	cpuidle_fini(&c);
	assert_true(cpuidle_read(&c, 3000000) < 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_round_trip),
		cmocka_unit_test(test_level_after_failure),
		cmocka_unit_test(test_batch_round_trip),
		cmocka_unit_test(test_left_alone),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_pinned),
		cmocka_unit_test(test_stubborn_file),
		cmocka_unit_test(test_automatic),
		cmocka_unit_test(test_cpuidle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
