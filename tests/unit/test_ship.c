/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unit tests of compression and rate limit in the pump: a tree through sender,
 * link, server and receiver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "fs/remove.h"
#include "wire/tree.h"
#include "xfer/send.h"
#include "xferfix.h"

#define BIG 3000000

static void
put(int dirfd, const char *name, const void *data, size_t len)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(io_write_full(fd, data, len, name, NULL), 0);
	close(fd);
}

static int
setup(void **state)
{
	struct xferfix_dirs *d = xferfix_dirs_new();
	char p[128], *text = malloc(BIG);
	uint64_t s = 88172645463325252u;

	for (size_t i = 0; i < BIG; i++) {
		text[i] = "all work and no play"[(i + i / 300) % 20];
	}
	put(d->src, "big", text, BIG);
	for (int i = 0; i < 200; i++) {
		snprintf(p, sizeof(p), "f%d", i);
		put(d->src, p, text + i, (size_t)i * 100);
	}
	for (size_t i = 0; i < BIG; i++) {
		s ^= s << 13;
		s ^= s >> 7;
		s ^= s << 17;
		text[i] = (char)(s >> 24);
	}
	put(d->src, "random", text, BIG);
	free(text);
	*state = d;
	return 0;
}

static void
copies(struct xferfix *x, struct xferfix_dirs *d, struct compress *c)
{
	struct send_opts o = { .compress = c };
	struct send_result r = { 0 };
	struct msg_proof p = { 0 };
	struct err e = { 0 };

	if (xferfix_begin(x, &e) < 0 ||
	    send_tree(d->src, x->l, &x->key, &o, &r, &e) < 0 ||
	    xferfix_end(x, &p, &e) < 0) {
		fail_msg("%s", e.text);
	}
	assert_int_equal(p.entries, r.proof.entries);
	assert_int_equal(p.bytes, r.proof.bytes);
	assert_true(digest_eq(&p.sum, &r.proof.sum));
	send_result_fini(&r);
}

static void
copy_with(struct xferfix_dirs *d, int level, uint32_t agent, uint32_t client,
	  struct compress_totals *t)
{
	struct xferfix x = { .agent_caps = agent, .caps = client };
	struct compress *c = compress_new(level, NULL);
	struct err e = { 0 };

	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(link_caps(x.l) & ~(uint32_t)FRAME_CAP_STREAMS,
			 agent & client);
	copies(&x, d, c);
	compress_get_totals(c, t);
	compress_free(c);
	xferfix_close(&x);
	assert_int_equal(x.served, 0);
}

static void
test_compressed(void **state)
{
	struct compress_totals t;

	copy_with(*state, 3, FRAME_CAP_ZSTD, FRAME_CAP_ZSTD, &t);
	/* The text's chunks and the batches, but not the noise. */
	assert_true(t.packed >= 12 && t.packed < t.frames);
	assert_true(t.raw > 2 * BIG);
	assert_true(t.wire < BIG * 5 / 4 && t.wire > BIG);
}

/* One side alone is no agreement. */
static void
test_not_agreed(void **state)
{
	struct compress_totals t;

	copy_with(*state, 3, 0, FRAME_CAP_ZSTD, &t);
	assert_int_equal(t.packed, 0);
	assert_true(t.wire > t.raw);
}

static void
test_not_wanted(void **state)
{
	struct compress_totals t;

	copy_with(*state, 3, FRAME_CAP_ZSTD, 0, &t);
	assert_int_equal(t.packed, 0);
}

/* A client that compresses all the same is refused. */
static void
test_flag_without_agreement(void **state)
{
	struct xferfix_dirs *d = *state;
	struct xferfix x = { .agent_caps = FRAME_CAP_ZSTD };
	struct err e = { 0 };
	struct pool_frame *f;
	struct msg_proof p;

	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(xferfix_begin(&x, &e), 0);
	f = pool_get(link_pool(x.l));
	f->type = FRAME_CHUNK;
	f->flags = FRAME_F_ZSTD;
	f->len = 100;
	memset(pool_payload(f), 0, f->len);
	assert_int_equal(link_send(x.l, f, &e), 0);
	assert_true(xferfix_end(&x, &p, &e) < 0);
	xferfix_close(&x);
	assert_int_equal(x.served, E_PROTOCOL);
	assert_non_null(
		strstr(x.served_err.text, "compressed content not agreed on"));
}

/* Frames wait many times longer than a silent peer is given; and not for
 * less than their time. */
static void
test_limit_keeps_alive(void **state)
{
	struct xferfix_dirs *d = *state;
	struct limit *l = limit_new(3000000, NULL);
	struct xferfix x = { .limit = l };
	struct err e = { 0 };
	int64_t from = io_now_ms();

	assert_int_equal(xferfix_open(&x, d->dst, 20, &e), 0);
	copies(&x, d, NULL);
	/* 8 MB, less the last frame, which does not wait for itself. */
	assert_true(io_now_ms() - from > 2200);
	xferfix_close(&x);
	assert_int_equal(x.served, 0);
	limit_free(l);
}

static struct pool_frame *
batch(struct xferfix *x)
{
	struct pool_frame *f = pool_get(link_pool(x->l));

	f->type = FRAME_BATCH;
	f->len = 4;
	tree_set_u32(pool_payload(f), 0);
	return f;
}

/* At a rate at which it would take a minute: the queue is told, and it does
 * not hold up the end. */
static void
test_cancel_lifts(void **state)
{
	struct xferfix_dirs *d = *state;
	struct limit *l = limit_new(LIMIT_MIN, NULL);
	struct xferfix x = { .limit = l };
	struct err e = { 0 };
	int64_t from = io_now_ms();

	assert_int_equal(limit_take(l, from, 60 * LIMIT_MIN), 0);
	assert_int_equal(xferfix_open(&x, d->dst, 2000, &e), 0);
	assert_int_equal(xferfix_begin(&x, &e), 0);
	assert_int_equal(link_backlog(x.l), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(link_send(x.l, batch(&x), &e), 0);
	}
	/* The thread may hold the first. */
	assert_in_range(link_backlog(x.l), 4, 5);
	assert_int_equal(link_in_flight(x.l), 5);
	link_cancel(x.l);
	link_uncancel(x.l);
	while (link_in_flight(x.l) && io_now_ms() - from < 20000) {
		usleep(1000);
	}
	assert_int_equal(link_in_flight(x.l), 0);
	assert_int_equal(link_backlog(x.l), 0);
	xferfix_close(&x);
	assert_true(io_now_ms() - from < 20000);
	limit_free(l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_compressed, setup,
						xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_not_agreed, setup,
						xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_not_wanted, setup,
						xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_flag_without_agreement,
						setup, xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_limit_keeps_alive, setup,
						xferfix_dirs_free),
		cmocka_unit_test_setup_teardown(test_cancel_lifts, setup,
						xferfix_dirs_free),
	};

	signal(SIGPIPE, SIG_IGN); /* as both programs do */
	return cmocka_run_group_tests_name("ship", tests, NULL, NULL);
}
