/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cipher/probe: the scheduler with a measurer and a clock that are made up;
 * candidates from lists; what is told.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "cipher/probe.h"
#include "cipher/probecand.h"
#include "cipher/probetell.h"

#define LOG_MAX 4096

/* A candidate that is made up. */
struct fake_cand {
	double rate;	 /* bytes per microsecond = MB/s */
	double noise;	 /* share, both ways, from a fixed sequence */
	double cpu;	 /* s per GB, each host */
	int64_t open_us; /* what opening takes */
	int open_rc;	 /* 0, or how it fails */
	size_t stall_at; /* calls of round before it stalls; 0: never */
	size_t break_at; /* likewise: breaks */
	size_t rounds;	 /* calls so far */
	bool open, closed, broken;
};

struct fake {
	int64_t now;
	double drift; /* all get slower by this share a second */
	struct fake_cand c[8];
	size_t log[LOG_MAX]; /* whose round */
	uint64_t bytes[LOG_MAX];
	size_t nlog;
	size_t cancel_at; /* calls before E_CANCELLED; 0: never */
	uint32_t seed;
};

static double
noise(struct fake *f)
{
	f->seed = f->seed * 1664525u + 1013904223u;
	return (double)(f->seed >> 8) / (double)(1 << 23) - 1;
}

static int
fake_open(size_t i, int64_t ms, void *arg, struct err *e)
{
	struct fake *f = arg;
	struct fake_cand *c = &f->c[i];

	if (c->open_us > ms * 1000) {
		f->now += ms * 1000;
		return err_set(e, E_TIMEOUT, "it stalled");
	}
	f->now += c->open_us;
	if (c->open_rc) {
		return err_set(e, c->open_rc, "refused");
	}
	c->open = true;
	return 0;
}

static int
fake_round(size_t i, uint64_t bytes, int64_t ms, struct probe_sample *s,
	   void *arg, struct err *e)
{
	struct fake *f = arg;
	struct fake_cand *c = &f->c[i];
	double rate = c->rate * (1 + c->noise * noise(f)) /
		      (1 + f->drift * (double)f->now / 1e6);

	assert_true(c->open && !c->closed);
	assert_true(ms > 0);
	if (f->nlog < LOG_MAX) {
		f->log[f->nlog] = i;
		f->bytes[f->nlog] = bytes;
	}
	f->nlog++;
	c->rounds++;
	if (f->cancel_at && f->nlog >= f->cancel_at) {
		return err_set(e, E_CANCELLED, "stopped as asked");
	}
	if (c->break_at && c->rounds >= c->break_at) {
		return err_set(e, E_CLOSED, "the connection was lost");
	}
	s->bytes = bytes;
	s->us = (int64_t)((double)bytes / rate) + 200;
	if ((c->stall_at && c->rounds >= c->stall_at) || s->us > ms * 1000) {
		f->now += ms * 1000;
		return err_set(e, E_TIMEOUT, "no reply");
	}
	f->now += s->us;
	s->cpu_here = s->cpu_there = c->cpu * (double)bytes / 1e9;
	return 0;
}

static void
fake_close(size_t i, bool broken, void *arg)
{
	struct fake_cand *c = &((struct fake *)arg)->c[i];

	assert_true(c->open && !c->closed);
	c->closed = true;
	c->broken = broken;
}

static int64_t
fake_now(void *arg)
{
	return ((struct fake *)arg)->now;
}

static const struct probe_ops ops = {
	.open = fake_open,
	.round = fake_round,
	.close = fake_close,
	.now_us = fake_now,
	.unit = 8192,
};

static const struct probe_opts opts = {
	.budget_ms = 4000,
	.setup_ms = 20000,
	.each_ms = 5000,
};

static void
setup(struct fake *f, struct probe *p, size_t n)
{
	static const char *const names[] = { "a", "b", "c", "d",
					     "e", "f", "g", "h" };

	*f = (struct fake){ .seed = 1 };
	*p = (struct probe){ 0 };
	for (size_t i = 0; i < n; i++) {
		f->c[i] = (struct fake_cand){
			.rate = 500, .noise = .02, .cpu = 1.8, .open_us = 20000
		};
		assert_int_equal(probe_add(p, names[i], NULL, false, NULL), 0);
	}
}

/* Runs, checks what always holds. */
static int
run(struct fake *f, struct probe *p, const struct probe_opts *o)
{
	struct err e = { 0 };
	int rc = probe_run(p, o, &ops, f, &e);

	assert_true(p->measure_ms <= o->budget_ms);
	assert_int_equal(rc, e.code);
	for (size_t i = 0; i < p->n; i++) {
		assert_int_equal(f->c[i].open, f->c[i].closed);
	}
	return rc;
}

/* ---- the scheduler ---- */

static void
test_faster_wins_early(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 3);
	f.c[1].rate = 700;
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.decision.pick, 1);
	assert_int_equal(p.decision.why, DECIDE_THROUGHPUT);
	assert_int_equal(p.end, PROBE_END_DECIDED);
	assert_true(p.measure_ms < 3500);
	assert_true(fabs(p.decision.gain - 1.4) < .05);
	assert_true(fabs(probe_rate(&p, 1) - 700) < 20);
	assert_true(fabs(probe_cpu_there(&p, 0) - 1.8) < .01);
	probe_fini(&p);
}

/* Nothing to find: the whole budget, no more, and the default. */
static void
test_budget_and_rotation(void **state)
{
	static struct fake f;
	struct probe p;
	size_t at = 0, seen[4] = { 0 }, first[4] = { 0 };

	(void)state;
	setup(&f, &p, 4);
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.decision.pick, 0);
	assert_int_equal(p.decision.why, DECIDE_NOISE);
	assert_int_equal(p.end, PROBE_END_BUDGET);
	assert_true(p.measure_ms > 3000 && p.measure_ms <= 4000);
	assert_true(p.cycles >= 8);
	/* The rounds that count are the last cycles x 4. */
	assert_true(f.nlog <= LOG_MAX);
	at = f.nlog - p.cycles * 4;
	for (size_t k = 0; k < p.cycles; k++) {
		first[f.log[at + k * 4]]++;
		for (size_t m = 0; m < 4; m++) {
			size_t i = f.log[at + k * 4 + m];

			/* A B C D, B C D A, ... */
			assert_int_equal(i, (k + m) % 4);
			seen[i]++;
		}
	}
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(seen[i], p.cycles);
		assert_int_equal(p.cands[i].rounds, p.cycles);
		assert_true(first[i] + 1 >= p.cycles / 4);
	}
	/* A round lasts long enough to be one. */
	for (size_t k = 0; k < p.cands[0].rounds; k++) {
		assert_true(p.cands[0].samples[k].us > 35000);
	}
	probe_fini(&p);
}

/* A machine that slows down by a half treats all alike. */
static void
test_drift(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 3);
	f.drift = .25;
	for (int i = 0; i < 3; i++) {
		f.c[i].cpu = 4; /* or the link would seem to limit */
	}
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.decision.pick, 0);
	assert_int_equal(p.decision.why, DECIDE_NOISE);
	probe_fini(&p);
}

static void
test_cheaper_wins(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 2);
	f.c[1].cpu = 1.2;
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.decision.pick, 1);
	assert_int_equal(p.decision.why, DECIDE_CPU);
	assert_int_equal(p.end, PROBE_END_DECIDED);
	probe_fini(&p);
}

static void
test_link_limits(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 3);
	for (int i = 0; i < 3; i++) {
		f.c[i].rate = 12.5;
		f.c[i].noise = .005;
	}
	f.c[2].cpu = .5;
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.decision.why, DECIDE_LINK);
	assert_int_equal(p.decision.pick, 2);
	probe_fini(&p);
}

/* Far behind: its time goes to the others, its samples stay. */
static void
test_left_behind(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 4);
	f.c[2].rate = 100;
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.cands[2].state, PROBE_LEFT);
	assert_int_equal(p.cands[2].rounds, PROBE_BEHIND_ROUNDS);
	assert_false(f.c[2].broken);
	assert_true(p.cands[1].rounds > 2 * PROBE_BEHIND_ROUNDS);
	assert_int_equal(p.decision.pick, 0);
	/* The default is compared with everything, and stays. */
	probe_fini(&p);
	setup(&f, &p, 3);
	f.c[0].rate = 100;
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.cands[0].state, PROBE_OPEN);
	assert_int_equal(p.decision.pick, 1);
	assert_int_equal(p.decision.why, DECIDE_THROUGHPUT);
	probe_fini(&p);
}

/* ---- giving up ---- */

static void
test_not_opened(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 4);
	f.c[0].open_rc = E_CONNECT;
	f.c[1].open_us = 60000000;
	f.c[3].rate = 900;
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.cands[0].state, PROBE_GIVEN_UP);
	assert_string_equal(p.cands[0].why, "refused");
	assert_int_equal(p.cands[1].state, PROBE_GIVEN_UP);
	assert_string_equal(p.cands[1].why, "it stalled");
	assert_int_equal(p.decision.pick, 3);
	assert_true(p.setup_ms < 5100);
	assert_true(p.decision.gain == 0); /* the default was not measured */
	probe_fini(&p);
}

static void
test_setup_bound(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 8);
	for (int i = 0; i < 8; i++) {
		f.c[i].open_us = 60000000;
	}
	assert_int_equal(run(&f, &p, &opts), E_NOT_FOUND);
	assert_int_equal(p.setup_ms, 20000);
	assert_string_equal(p.cands[3].why, "it stalled");
	assert_string_equal(p.cands[7].why, "no time was left to connect");
	assert_int_equal(f.nlog, 0);
	probe_fini(&p);
}

static void
test_breaks(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 3);
	f.c[1].rate = 2000; /* the fastest, but it breaks */
	f.c[1].break_at = 12;
	f.c[2].rate = 900;
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.cands[1].state, PROBE_GIVEN_UP);
	assert_string_equal(p.cands[1].why, "the connection was lost");
	assert_true(f.c[1].broken);
	assert_int_equal(p.decision.pick, 2);
	probe_fini(&p);
}

static void
test_stalls(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 3);
	f.c[0].stall_at = 10;
	f.c[2].rate = 900;
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.cands[0].state, PROBE_GIVEN_UP);
	assert_non_null(strstr(p.cands[0].why, "stalled"));
	assert_int_equal(p.decision.pick, 2);
	probe_fini(&p);
	/* all of them, in the warm-up: the budget bounds it */
	setup(&f, &p, 8);
	for (int i = 0; i < 8; i++) {
		f.c[i].stall_at = 1;
	}
	assert_int_equal(run(&f, &p, &opts), E_NOT_FOUND);
	assert_int_equal(p.measure_ms, 4000);
	probe_fini(&p);
}

static void
test_alone(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 2);
	f.c[0].open_rc = E_CLOSED;
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.decision.pick, 1);
	assert_int_equal(p.decision.why, DECIDE_ONLY);
	assert_int_equal(p.end, PROBE_END_ALONE);
	assert_true(p.measure_ms < 2000);
	probe_fini(&p);
}

static void
test_ends_all(void **state)
{
	static struct fake f;
	static const int codes[] = { E_CANCELLED, E_HOSTKEY, E_AUTH, E_NOMEM };
	struct probe p;

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		setup(&f, &p, 3);
		f.c[1].open_rc = codes[i];
		assert_int_equal(run(&f, &p, &opts), codes[i]);
		assert_false(f.c[2].open);
		assert_int_equal(f.nlog, 0);
		probe_fini(&p);
	}
	setup(&f, &p, 3);
	f.cancel_at = 30;
	assert_int_equal(run(&f, &p, &opts), E_CANCELLED);
	assert_int_equal(f.nlog, 30);
	assert_true(f.c[0].broken);
	probe_fini(&p);
}

/* A link on which a single round takes longer than all that there is. */
static void
test_too_slow(void **state)
{
	static struct fake f;
	struct probe p;

	(void)state;
	setup(&f, &p, 3);
	for (int i = 0; i < 3; i++) {
		f.c[i].rate = .001; /* 1 kB/s */
	}
	assert_int_equal(run(&f, &p, &opts), E_NOT_FOUND);
	assert_int_equal(p.cycles, 0);
	probe_fini(&p);
	/* 1 MB/s can be measured */
	setup(&f, &p, 3);
	for (int i = 0; i < 3; i++) {
		f.c[i].rate = 1;
	}
	assert_int_equal(run(&f, &p, &opts), 0);
	assert_int_equal(p.decision.why, DECIDE_LINK);
	probe_fini(&p);
}

/* ---- candidates ---- */

static void
want_cands(enum offer_by macs_by, const char *ciphers, const char *macs,
	   const char *names)
{
	struct offer o = { .ciphers_out =
				   (char *)"aes128-gcm@openssh.com,"
					   "chacha20-poly1305@openssh.com,"
					   "aes256-ctr,aes128-cbc",
			   .macs_out = (char *)"hmac-sha2-256-etm@openssh.com,"
					       "hmac-sha2-512-etm@openssh.com,"
					       "hmac-sha2-256,hmac-sha2-512",
			   .macs_by = macs_by };
	struct probe p = { 0 };
	char got[1024] = "";
	struct err e = { 0 };

	assert_int_equal(probecand_fill(&o, ciphers, macs, &p, &e), 0);
	for (size_t i = 0; i < p.n; i++) {
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s%s",
			 i ? " " : "", p.cands[i].name,
			 p.cands[i].plain_mac ? "!" : "");
	}
	assert_string_equal(got, names);
	probe_fini(&p);
}

static void
test_candidates(void **state)
{
	(void)state;
	/* ours to the server's, in our order; etm alone where there is one */
	want_cands(OFFER_BY_DEFAULT,
		   "aes256-ctr,foo,chacha20-poly1305@openssh.com",
		   "hmac-sha2-512,hmac-sha2-512-etm@openssh.com",
		   "chacha20-poly1305@openssh.com "
		   "aes256-ctr+hmac-sha2-512-etm@openssh.com");
	/* a list of the user's stands */
	want_cands(OFFER_BY_OPTION, "aes256-ctr",
		   "hmac-sha2-512,hmac-sha2-512-etm@openssh.com",
		   "aes256-ctr+hmac-sha2-512-etm@openssh.com "
		   "aes256-ctr+hmac-sha2-512!");
	/* plain MACs, marked */
	want_cands(OFFER_BY_DEFAULT, "aes128-cbc,aes256-ctr",
		   "hmac-sha2-256,hmac-md5",
		   "aes256-ctr+hmac-sha2-256! aes128-cbc+hmac-sha2-256!");
	/* no MAC in common */
	want_cands(OFFER_BY_DEFAULT, "aes256-ctr,aes128-gcm@openssh.com",
		   "hmac-md5", "aes128-gcm@openssh.com");
	want_cands(OFFER_BY_DEFAULT, "arcfour", "hmac-md5", "");
	/* the server's lists are not known */
	want_cands(OFFER_BY_DEFAULT, NULL, NULL,
		   "aes128-gcm@openssh.com chacha20-poly1305@openssh.com "
		   "aes256-ctr+hmac-sha2-256-etm@openssh.com "
		   "aes256-ctr+hmac-sha2-512-etm@openssh.com "
		   "aes128-cbc+hmac-sha2-256-etm@openssh.com "
		   "aes128-cbc+hmac-sha2-512-etm@openssh.com");
}

static void
test_prefer(void **state)
{
	struct offer o = { .ciphers_out = (char *)"x,y,z",
			   .macs_out = (char *)"m,n" };
	struct probe_cand c = { .cipher = (char *)"z", .mac = (char *)"n" };
	char *ciphers, *macs, *config;

	(void)state;
	assert_int_equal(probecand_prefer(&o, &c, &ciphers, &macs, NULL), 0);
	assert_string_equal(ciphers, "z,x,y");
	assert_string_equal(macs, "n,m");
	config = probecand_config(&c, NULL);
	assert_string_equal(config, "Ciphers ^z\nMACs ^n");
	free(config);
	free(ciphers);
	free(macs);
	c.mac = NULL;
	assert_int_equal(probecand_prefer(&o, &c, &ciphers, &macs, NULL), 0);
	assert_string_equal(macs, "m,n");
	config = probecand_config(&c, NULL);
	assert_string_equal(config, "Ciphers ^z");
	free(config);
	free(ciphers);
	free(macs);
}

/* ---- what is told ---- */

static void
test_text(void **state)
{
	static struct fake f;
	struct probe p;
	struct probetell t = { .probe = &p,
			       .destination = "root@b",
			       .sink = "a sink",
			       .budget_ms = 4000 };
	char *text;

	(void)state;
	setup(&f, &p, 3);
	f.c[1].rate = 1000;
	f.c[2].open_rc = E_CONNECT;
	assert_int_equal(run(&f, &p, &opts), 0);
	text = probetell_text(&t, false, NULL);
	assert_non_null(strstr(text, "ciphers to root@b, into a sink: 3 "));
	assert_non_null(strstr(text, "\n* b          ################ "));
	assert_non_null(strstr(text, "\n  a          ########")); /* a half */
	assert_null(strstr(text, "\n  a          ##########"));
	assert_non_null(strstr(text, "\n  c          given up: refused\n"));
	assert_non_null(strstr(text, " 1.80  1.80\n"));
	assert_non_null(strstr(text, "picked b: "));
	assert_non_null(strstr(text, "\nCiphers ^b\n"));
	for (const char *q = text; *q; q++) {
		assert_true((unsigned char)*q < 0x80);
	}
	free(text);
	text = probetell_text(&t, true, NULL);
	assert_non_null(strstr(text, "████████████████"));
	free(text);
	t.error = "nothing at all";
	text = probetell_text(&t, true, NULL);
	assert_non_null(strstr(text, "no decision: nothing at all\n"));
	assert_null(strstr(text, "\n* "));
	free(text);
	probe_fini(&p);
}

static void
test_json(void **state)
{
	static struct fake f;
	struct probe p;
	struct probetell t = { .probe = &p,
			       .destination = "root@b",
			       .budget_ms = 4000 };
	json_t *o, *c;
	char *text;

	(void)state;
	setup(&f, &p, 2);
	f.c[1].rate = 1000;
	assert_int_equal(run(&f, &p, &opts), 0);
	text = probetell_json(&t, NULL);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	o = json_loads(text, 0, NULL);
	assert_non_null(o);
	assert_string_equal(json_string_value(json_object_get(o, "event")),
			    "probe");
	assert_string_equal(json_string_value(json_object_get(o, "pick")), "b");
	assert_string_equal(json_string_value(json_object_get(o, "why")),
			    "throughput");
	c = json_array_get(json_object_get(o, "candidates"), 0);
	assert_int_equal(json_array_size(json_object_get(c, "samples")),
			 p.cands[0].rounds);
	assert_true(fabs(json_real_value(json_object_get(c, "mb_s")) -
			 probe_rate(&p, 0)) < .1);
	json_decref(o);
	free(text);
	probe_fini(&p);
}

static void
test_locale(void **state)
{
	(void)state;
	unsetenv("LC_ALL");
	setenv("LC_CTYPE", "", 1);
	setenv("LANG", "de_DE.UTF-8", 1);
	assert_true(probetell_utf8());
	setenv("LC_ALL", "C", 1);
	assert_false(probetell_utf8());
	setenv("LC_ALL", "C.utf8", 1);
	assert_true(probetell_utf8());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faster_wins_early),
		cmocka_unit_test(test_budget_and_rotation),
		cmocka_unit_test(test_drift),
		cmocka_unit_test(test_cheaper_wins),
		cmocka_unit_test(test_link_limits),
		cmocka_unit_test(test_left_behind),
		cmocka_unit_test(test_not_opened),
		cmocka_unit_test(test_setup_bound),
		cmocka_unit_test(test_breaks),
		cmocka_unit_test(test_stalls),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_ends_all),
		cmocka_unit_test(test_too_slow),
		cmocka_unit_test(test_candidates),
		cmocka_unit_test(test_prefer),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_locale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
