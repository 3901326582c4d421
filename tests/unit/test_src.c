/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unit tests of the source's half: every way a migration can end or be broken
 * off, against an agent that does as it is told. After each of them exactly
 * one host has the container, and the same call again finishes the move.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "srcfix.h"

/* The container is here, untouched, and nothing waits for a rerun. */
static void
assert_untouched(void)
{
	assert_true(srcfix_startable());
	assert_true(srcfix_tree());
	assert_false(srcfix_retired());
	assert_false(srcfix_dst_owns());
}

static void
assert_moved(int rc)
{
	if (rc) {
		print_error("%d: %s\n", rc, srcfix_err.text);
	}
	assert_int_equal(rc, 0);
	assert_true(srcfix_result.moved);
	assert_int_equal(srcfix_result.owner, STEPS_DESTINATION);
	assert_false(srcfix_startable());
	assert_true(srcfix_dst_owns());
	assert_int_equal(srcfix_state(), STEPS_NEW);
}

static void
assert_failed(int rc, int code, const char *says)
{
	if (rc != code || !strstr(srcfix_err.text, says)) {
		print_error("%d: %s\n", rc, srcfix_err.text);
	}
	assert_int_equal(rc, code);
	assert_non_null(strstr(srcfix_err.text, says));
}

static void
assert_not_both(void)
{
	assert_false(srcfix_startable() && srcfix_dst_owns());
}

/* ---- the ordinary way ---- */

static void
test_moves(void **state)
{
	int closed;

	(void)state;
	assert_moved(srcfix_run());
	assert_false(srcfix_tree());
	assert_false(srcfix_retired());
	assert_true(srcfix_result.verified);
	assert_false(srcfix_result.clean_up_failed);
	assert_null(srcfix_result.kept);
	assert_string_equal(srcfix_result.kind, "fix");
	assert_string_equal(srcfix_result.dst_tree, "/there/ct1");
	assert_int_equal(srcfix_result.step, STEP_CLEAN_UP);
	assert_int_equal(srcfix_dst_leftovers(), 0);
	srcfix_history(&closed);
	assert_int_equal(closed, 1);
	/* It is gone, and the second run says so. */
	assert_failed(srcfix_run(), E_NOT_FOUND, "no container ct1");
}

static void
test_keeps_source(void **state)
{
	(void)state;
	srcfix_remove = PLAN_REMOVE_NO;
	assert_moved(srcfix_run());
	assert_true(srcfix_retired());
	assert_true(srcfix_tree());
	assert_non_null(srcfix_result.kept);
	assert_false(srcfix_result.copied);
	assert_failed(srcfix_run(), E_NOT_FOUND, "was moved away by session");
}

static void
test_check_only(void **state)
{
	(void)state;
	srcfix_check_only = true;
	assert_int_equal(srcfix_run(), 0);
	assert_true(srcfix_result.checked);
	assert_string_equal(srcfix_result.new_id, "ct1");
	assert_string_equal(srcfix_result.dst_tree, "/there/ct1");
	assert_true(srcfix_result.found.removes);
	assert_int_equal(srcfix_result.found.state, CT_STOPPED);
	assert_int_equal(srcfix_result.found.state_there, CT_STOPPED);
	assert_false(srcfix_result.moved);
	assert_untouched();
	assert_int_equal(srcfix_dst_leftovers(), 0);
	srcfix_check_only = false;
	assert_moved(srcfix_run());
}

/* ---- refused before anything is done ---- */

static void
test_findings(void **state)
{
	(void)state;
	srcfix_trick(TRICK_FINDING, MSG_CHECK, 0);
	assert_failed(srcfix_run(), E_EXISTS, "root@b: in the way");
	assert_true(srcfix_result.remote);
	assert_int_equal(srcfix_result.step, STEP_CHECK);
	assert_untouched();
	assert_int_equal(srcfix_dst_leftovers(), 0);

	srcfix_trick(TRICK_FINDINGS, MSG_CHECK, 0);
	assert_failed(srcfix_run(), E_EXISTS, "2 checks failed");
	assert_untouched();
	assert_moved(srcfix_run());
}

static void
test_wrong_state(void **state)
{
	int closed;

	(void)state;
	srcfix_mark("running", true);
	assert_failed(srcfix_run(), E_STATE, "ct1 is running: stop it first");
	assert_int_equal(srcfix_result.step, STEP_LOCK);
	assert_untouched();
	srcfix_mark("running", false);

	srcfix_mark("locked", true);
	assert_failed(srcfix_run(), E_BUSY, "ct1 is locked");
	assert_failed(srcfix_run(), E_BUSY, "again when that has ended");
	assert_untouched();
	srcfix_mark("locked", false);
	srcfix_history(&closed);
	assert_int_equal(closed, 0);

	/* Started between the first look and the block. */
	srcfix_mark("raced", true);
	assert_failed(srcfix_run(), E_STATE, "; the source is as it was");
	assert_untouched();
	assert_int_equal(srcfix_dst_leftovers(), 0);
	srcfix_mark("raced", false);
	assert_moved(srcfix_run());
}

static void
test_unreachable(void **state)
{
	int closed;

	(void)state;
	srcfix_unreachable(true);
	assert_failed(srcfix_run(), E_CONNECT, "no route");
	assert_int_equal(srcfix_result.owner, STEPS_SOURCE);
	assert_untouched();
	srcfix_history(&closed);
	assert_int_equal(closed, 0);
	srcfix_unreachable(false);
	assert_moved(srcfix_run());
}

/* ---- failures on the way ---- */

static void
test_differs(void **state)
{
	(void)state;
	srcfix_trick(TRICK_DIFFER, MSG_PASS_END, 0);
	assert_failed(srcfix_run(), E_VERIFY,
		      "file: content; the source is "
		      "as it was");
	assert_false(srcfix_result.verified);
	assert_untouched();
	assert_int_equal(srcfix_dst_leftovers(), 0);
	assert_int_equal(srcfix_state(), STEPS_NEW);
	assert_moved(srcfix_run());
}

static void
test_cannot_read(void **state)
{
	(void)state;
	srcfix_mark("vanished", true);
	assert_failed(srcfix_run(), E_CHANGED,
		      "tree/file vanished; the "
		      "source is as it was");
	assert_untouched();
	assert_int_equal(srcfix_dst_leftovers(), 0);
	srcfix_mark("vanished", false);
	assert_moved(srcfix_run());
}

/* Before anything was done here; and what to do where the link was to blame. */
static void
test_fails_before_it_is_touched(void **state)
{
	(void)state;
	srcfix_trick(TRICK_REFUSE, MSG_RESERVE, E_NOSPACE);
	assert_failed(srcfix_run(), E_NOSPACE, "; the source was not touched");
	assert_null(strstr(srcfix_err.text, "run the same command again"));
	srcfix_trick(TRICK_DIE_BEFORE, MSG_RESERVE, 0);
	assert_failed(srcfix_run(), E_CLOSED,
		      "; the source was not touched; run the same command "
		      "again when that host can be reached");
	assert_untouched();
	assert_moved(srcfix_run());
}

static void
test_interrupted(void **state)
{
	(void)state;
	srcfix_mark("interrupt", true);
	assert_failed(srcfix_run(), E_CANCELLED, "; the source is as it was");
	assert_untouched();
	assert_int_equal(srcfix_dst_leftovers(), 0);
	srcfix_mark("interrupt", false);
	srcfix_stop = 0;
	assert_moved(srcfix_run());
}

static void
test_silent(void **state)
{
	(void)state;
	srcfix_keepalive_ms = 60;
	srcfix_trick(TRICK_HANG, MSG_PASS_END, 0);
	assert_failed(srcfix_run(), E_TIMEOUT, "no sign of life");
	assert_int_equal(srcfix_result.step, STEP_FINAL);
	assert_untouched();
	/* What it has there is taken up by the next run. */
	assert_int_equal(srcfix_state(), STEPS_RESTORED);
	srcfix_keepalive_ms = 500;
	assert_moved(srcfix_run());
	assert_int_equal(srcfix_dst_leftovers(), 0);
}

static void
test_keep_dst(void **state)
{
	(void)state;
	srcfix_keep_dst = true;
	srcfix_trick(TRICK_DIFFER, MSG_PASS_END, 0);
	assert_failed(srcfix_run(), E_VERIFY, "; the source is as it was");
	assert_untouched();
	assert_int_equal(srcfix_dst_leftovers(), 1);
	assert_int_equal(srcfix_state(), STEPS_RESTORED);
	assert_moved(srcfix_run());
	/* The same session: nothing else is left. */
	assert_int_equal(srcfix_dst_leftovers(), 0);
}

/* The agent says no to each request in turn. */
static void
test_refusals(void **state)
{
	static const struct {
		enum msg_method method;
		bool moves;
	} v[] = {
		{ MSG_OPEN, false },	   { MSG_FSPROBE, false },
		{ MSG_CHECK, false },	   { MSG_RESERVE, false },
		{ MSG_PASS_BEGIN, false }, { MSG_PASS_END, false },
		{ MSG_SYNC, false },	   { MSG_TAKE_OVER, false },
		{ MSG_FINISH, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		srcfix_teardown(NULL);
		assert_int_equal(srcfix_setup(NULL), 0);
		srcfix_trick(TRICK_REFUSE, v[i].method, E_EXISTS);
		if (v[i].moves) {
			unsigned long warned = log_count(LOGL_WARN);

			assert_moved(srcfix_run());
			assert_int_equal(log_count(LOGL_WARN) - warned, 1);
			assert_false(srcfix_result.clean_up_failed);
			continue;
		}
		assert_failed(srcfix_run(), E_EXISTS, "refused as told");
		assert_true(srcfix_result.remote);
		assert_untouched();
		assert_int_equal(srcfix_dst_leftovers(), 0);
		assert_int_equal(srcfix_state(), STEPS_NEW);
		assert_moved(srcfix_run());
	}
}

/* The agent dies before and after acting on each request; the next run
 * succeeds in every case. */
static void
test_deaths(void **state)
{
	static const enum msg_method v[] = {
		MSG_HELLO,     MSG_OPEN,       MSG_FSPROBE,  MSG_CHECK,
		MSG_RESERVE,   MSG_PASS_BEGIN, MSG_PASS_END, MSG_SYNC,
		MSG_TAKE_OVER, MSG_FINISH,
	};

	(void)state;
	for (int how = TRICK_DIE_BEFORE; how <= TRICK_DIE_AFTER; how++) {
		for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
			int rc;

			srcfix_teardown(NULL);
			assert_int_equal(srcfix_setup(NULL), 0);
			srcfix_trick((enum srcfix_trick)how, v[i], 0);
			rc = srcfix_run();
			if (v[i] == MSG_TAKE_OVER || v[i] == MSG_FINISH) {
				/* It is asked again, and knows. */
				assert_moved(rc);
				continue;
			}
			assert_failed(rc, E_CLOSED, "");
			assert_untouched();
			assert_moved(srcfix_run());
			assert_int_equal(srcfix_dst_leftovers(), 0);
		}
	}
}

static void
test_no_retire(void **state)
{
	(void)state;
	srcfix_mark("no-retire", true);
	assert_failed(srcfix_run(), E_SYSTEM,
		      "cannot retire; the source is as it was");
	assert_int_equal(srcfix_result.step, STEP_RETIRE);
	assert_untouched();
	assert_int_equal(srcfix_dst_leftovers(), 0);
	srcfix_mark("no-retire", false);
	assert_moved(srcfix_run());
}

static void
test_no_destroy(void **state)
{
	(void)state;
	srcfix_mark("no-destroy", true);
	assert_moved(srcfix_run());
	assert_true(srcfix_result.clean_up_failed);
	assert_non_null(srcfix_result.kept);
	assert_true(srcfix_tree());
	assert_true(srcfix_retired());
}

/* ---- doubt ---- */

/* The link dies in the take-over and the host stays away. */
static void
in_doubt(enum srcfix_trick how)
{
	srcfix_trick(how, MSG_TAKE_OVER, SRCFIX_CUT);
	assert_failed(srcfix_run(), E_UNKNOWN,
		      "it cannot be learned whether root@b has taken ct1 "
		      "over, so nothing was started");
	assert_int_equal(srcfix_result.owner, STEPS_DOUBT);
	assert_false(srcfix_startable());
	assert_true(srcfix_retired());
	assert_true(srcfix_tree());
	assert_int_equal(srcfix_state(), STEPS_RETIRED);

	/* Still away: still nothing. */
	assert_failed(srcfix_run(), E_UNKNOWN, "nothing was started");
	assert_true(srcfix_retired());
	assert_int_equal(srcfix_state(), STEPS_RETIRED);
	srcfix_unreachable(false);
}

static void
test_doubt_committed(void **state)
{
	(void)state;
	in_doubt(TRICK_DIE_AFTER);
	assert_true(srcfix_dst_owns());
	assert_moved(srcfix_run());
	assert_false(srcfix_tree());
}

static void
test_doubt_proven(void **state)
{
	(void)state;
	in_doubt(TRICK_DIE_BEFORE);
	assert_false(srcfix_dst_owns());
	assert_moved(srcfix_run());
}

static void
test_doubt_other_host(void **state)
{
	(void)state;
	in_doubt(TRICK_DIE_BEFORE);
	srcfix_host(2);
	assert_failed(srcfix_run(), E_BUSY, "ct1 is in migration session ");
	assert_non_null(strstr(srcfix_err.text, " to root@b, which is "
						"unfinished (retired)"));
	assert_true(srcfix_retired());
	assert_int_equal(srcfix_state(), STEPS_RETIRED);
	srcfix_host(1);
	assert_moved(srcfix_run());
}

/* A refused commit whose going back is cut off. */
static void
test_doubt_never(void **state)
{
	(void)state;
	for (int how = TRICK_DIE_BEFORE; how <= TRICK_DIE_AFTER; how++) {
		int rc;

		srcfix_teardown(NULL);
		assert_int_equal(srcfix_setup(NULL), 0);
		srcfix_trick((enum srcfix_trick)how, MSG_NEVER, 0);
		srcfix_mark("no-commit", true);
		rc = srcfix_run();
		/* It was asked again within the run. */
		assert_failed(rc, E_DENIED, "; the source is as it was");
		assert_untouched();
		srcfix_mark("no-commit", false);
		assert_moved(srcfix_run());
	}
}

/* ---- every pair of states ---- */

/* Bring the source into the state by dying right after its record. */
static void
stop_in(enum steps_state s)
{
	char fault[64];
	int rc;

	if (s == STEPS_NEVER || s == STEPS_RESTORED) {
		srcfix_mark("vanished", s == STEPS_RESTORED);
		srcfix_mark("no-retire", s == STEPS_NEVER);
	}
	snprintf(fault, sizeof(fault), "journal.%s.after=kill",
		 steps_state_name(s));
	assert_int_equal(srcfix_run_apart(fault, &rc), 1);
	srcfix_mark("vanished", false);
	srcfix_mark("no-retire", false);
	assert_int_equal(srcfix_state(), s);
}

static void
test_all_pairs(void **state)
{
	(void)state;
	for (int s = STEPS_OPEN; s <= STEPS_RESTORED; s++) {
		for (int d = MSG_DST_NONE; d <= MSG_DST_FINISHED; d++) {
			enum steps_action a =
				steps_rerun((enum steps_state)s,
					    (enum msg_dst_state)d, false);
			bool startable;
			int rc;

			if (s == STEPS_STOPPING) {
				continue; /* nothing is up here */
			}
			srcfix_teardown(NULL);
			assert_int_equal(srcfix_setup(NULL), 0);
			stop_in((enum steps_state)s);
			if (s == STEPS_OPEN) {
				/* It was not opened there yet. */
				srcfix_trick(TRICK_DIE_AFTER, MSG_OPEN, 0);
				if (d != MSG_DST_NONE) {
					continue;
				}
				srcfix_mark("trick", false);
			} else {
				srcfix_dst_set((enum msg_dst_state)d);
			}
			startable = srcfix_startable();
			rc = srcfix_run();
			if (a == STEPS_REFUSE) {
				if (rc != E_UNKNOWN) {
					print_error("%s, %s: %d %s\n",
						    steps_state_name(s),
						    msg_dst_state_name(d), rc,
						    srcfix_err.text);
				}
				assert_failed(rc, E_UNKNOWN, "contradict");
				assert_int_equal(srcfix_startable(), startable);
				assert_int_equal(srcfix_state(), s);
				continue;
			}
			if (rc) {
				print_error("%s, %s, %s:\n",
					    steps_state_name(s),
					    msg_dst_state_name(d),
					    steps_action_name(a));
			}
			if (s == STEPS_COMMITTED) {
				assert_int_equal(rc, 0);
				assert_false(srcfix_tree());
				continue;
			}
			assert_moved(rc);
		}
	}
}

/* ---- dying and failing everywhere ---- */

#define POINTS_MAX 200

/* Points on each way, as found by test_killed_everywhere, and of one that is
 * up. */
static int points[3]; /* by enum way */
static int points_up;

/* What the sanitizers look for does not depend on the point, and they make a
 * fork slow: with them each only with VZ_TEST_FULL in the environment. */
static int
stride(void)
{
#ifdef __SANITIZE_ADDRESS__
	return getenv("VZ_TEST_FULL") ? 1 : 3;
#else
	return 1;
#endif
}

/* What makes the run take another way. */
enum way {
	WAY_FORWARD,
	WAY_DIFFERS, /* back before "retiring" */
	WAY_REFUSED, /* back after "retired" */
	WAYS,
};

static void
take_way(enum way w)
{
	srcfix_teardown(NULL);
	assert_int_equal(srcfix_setup(NULL), 0);
	if (w == WAY_DIFFERS) {
		srcfix_trick(TRICK_DIFFER, MSG_PASS_END, 0);
	} else if (w == WAY_REFUSED) {
		srcfix_mark("no-commit", true);
	}
}

/* Dies at the n-th point of each way; the run after it, without what was in
 * the way, moves it. */
static void
test_killed_everywhere(void **state)
{
	(void)state;
	for (int w = 0; w < WAYS; w++) {
		int n, rc = 0;

		for (n = 1; n < POINTS_MAX; n += stride()) {
			char fault[32];

			take_way((enum way)w);
			snprintf(fault, sizeof(fault), "*:%d=kill", n);
			if (srcfix_run_apart(fault, &rc) == 0) {
				break;
			}
			assert_not_both();
			assert_true(srcfix_tree() || srcfix_dst_owns());
			srcfix_mark("no-commit", false);
			srcfix_mark("trick", false);
			rc = srcfix_run();
			if (rc == E_NOT_FOUND) {
				/* It had been done but for the last word. */
				assert_true(srcfix_dst_owns());
				assert_false(srcfix_startable());
				continue;
			}
			if (rc) {
				print_error("way %d, point %d:\n", w, n);
			}
			assert_moved(rc);
		}
		/* All points were passed, and there were many. */
		assert_in_range(n, 16, POINTS_MAX - 1);
		points[w] = n - 1;
		assert_int_equal(rc == 0, w == WAY_FORWARD);
	}
}

/* ---- one that is up ---- */

static void
set_up(bool no_start)
{
	srcfix_teardown(NULL);
	assert_int_equal(srcfix_setup(NULL), 0);
	srcfix_up = true;
	srcfix_mark("running", true);
	srcfix_mark("no-start", no_start);
}

static void
test_up_moves(void **state)
{
	(void)state;
	set_up(false);
	assert_moved(srcfix_run());
	assert_false(srcfix_running());
	assert_int_equal(srcfix_result.passes, 3);
}

static void
test_up_fails(void **state)
{
	(void)state;
	/* It does not start there: it runs here again. */
	set_up(true);
	assert_failed(srcfix_run(), E_START, "; the source is as it was");
	assert_untouched();
	assert_true(srcfix_running());
	srcfix_mark("no-start", false);
	/* It does not stop here. */
	srcfix_mark("no-stop", true);
	assert_failed(srcfix_run(), E_STOP,
		      "stop of ct1: it goes on and on; the source is as it "
		      "was");
	assert_untouched();
	assert_true(srcfix_running());
	srcfix_mark("no-stop", false);
	assert_moved(srcfix_run());
	assert_false(srcfix_running());
}

/* Dies at the n-th point, on the way there or back; the run after it moves
 * it. In between at most one host may run it. */
static void
test_up_killed_everywhere(void **state)
{
	(void)state;
	for (int back = 0; back < 2; back++) {
		int n, rc = 0;

		for (n = 1; n < POINTS_MAX; n += stride()) {
			char fault[32];

			set_up(back);
			snprintf(fault, sizeof(fault), "*:%d=kill", n);
			if (srcfix_run_apart(fault, &rc) == 0) {
				break;
			}
			assert_not_both();
			assert_false(srcfix_running() && srcfix_dst_owns() &&
				     !back);
			srcfix_mark("no-start", false);
			rc = srcfix_run();
			if (rc == E_NOT_FOUND) {
				assert_true(srcfix_dst_owns());
			} else if (rc) {
				print_error("back %d, point %d: %s\n", back, n,
					    srcfix_err.text);
				assert_int_equal(rc, 0);
			} else {
				assert_moved(rc);
			}
			assert_false(srcfix_running());
		}
		assert_in_range(n, 25, POINTS_MAX - 1);
		points_up = back ? points_up : n - 1;
		assert_int_equal(rc, back ? E_START : 0);
	}
}

/* Each point fails: it runs here, or it moved; or it is left for the rerun,
 * which moves it. */
static void
test_up_fails_everywhere(void **state)
{
	int n, rc = 0;

	(void)state;
	assert_true(points_up > 25);
	for (n = 1; n <= points_up; n += stride()) {
		char fault[32];

		set_up(false);
		snprintf(fault, sizeof(fault), "*:%d=fail", n);
		assert_int_equal(srcfix_run_apart(fault, &rc), 0);
		assert_not_both();
		if (rc == 0) {
			assert_false(srcfix_running());
			assert_true(srcfix_dst_owns());
		} else if (srcfix_startable()) {
			assert_true(srcfix_running());
		}
		rc = srcfix_run();
		if (rc && rc != E_NOT_FOUND) {
			print_error("point %d: %s\n", n, srcfix_err.text);
		}
		assert_true(rc == 0 || rc == E_NOT_FOUND);
		assert_true(srcfix_dst_owns());
		assert_false(srcfix_running());
	}
}

/* And dies again in the rerun. */
static void
test_killed_twice(void **state)
{
	(void)state;
	for (int n = 4; n < 26; n += 3) {
		for (int k = 1; k < 24; k += 5) {
			char fault[32];
			int rc;

			take_way(n % 2 ? WAY_FORWARD : WAY_REFUSED);
			snprintf(fault, sizeof(fault), "*:%d=kill", n);
			srcfix_run_apart(fault, &rc);
			assert_not_both();
			snprintf(fault, sizeof(fault), "*:%d=kill", k);
			srcfix_run_apart(fault, &rc);
			assert_not_both();
			srcfix_mark("no-commit", false);
			rc = srcfix_run();
			if (rc == E_NOT_FOUND) {
				assert_true(srcfix_dst_owns());
				assert_false(srcfix_startable());
				continue;
			}
			assert_moved(rc);
		}
	}
}

/* Each point fails once: the source is as it was, or it moved, or it is left
 * for the rerun; never both. */
static void
test_fails_everywhere(void **state)
{
	(void)state;
	for (int w = 0; w < WAYS; w++) {
		for (int n = 1; n <= points[w]; n += stride()) {
			char fault[32];
			int rc = 0;

			take_way((enum way)w);
			snprintf(fault, sizeof(fault), "*:%d=fail", n);
			assert_int_equal(srcfix_run_apart(fault, &rc), 0);
			assert_not_both();
			assert_true(srcfix_tree() || srcfix_dst_owns());
			srcfix_mark("no-commit", false);
			srcfix_mark("trick", false);
			if (rc == 0) {
				assert_true(srcfix_dst_owns());
				if (srcfix_state() == STEPS_NEW) {
					continue;
				}
			}
			rc = srcfix_run();
			if (rc == E_NOT_FOUND) {
				assert_true(srcfix_dst_owns());
				assert_false(srcfix_startable());
				continue;
			}
			if (rc) {
				print_error("way %d, point %d:\n", w, n);
			}
			assert_moved(rc);
		}
	}
}

/* ---- reruns that are not the same ---- */

static void
test_other_host(void **state)
{
	(void)state;
	stop_in(STEPS_BLOCKED);
	srcfix_host(2);
	assert_failed(srcfix_run(), E_BUSY, "unfinished (blocked)");
	assert_non_null(strstr(srcfix_err.text, "with --abort and that host"));
	assert_false(srcfix_startable());
	assert_int_equal(srcfix_state(), STEPS_BLOCKED);
	/* Not by a check alone either. */
	srcfix_host(1);
	srcfix_check_only = true;
	assert_failed(srcfix_run(), E_BUSY, "without --check-only");
	assert_int_equal(srcfix_state(), STEPS_BLOCKED);
	srcfix_check_only = false;
	assert_moved(srcfix_run());
}

/* With the host away the source is restored all the same: it owns it. */
static void
test_away_before_retired(void **state)
{
	(void)state;
	stop_in(STEPS_PROVEN);
	srcfix_unreachable(true);
	assert_failed(srcfix_run(), E_CONNECT, "; the source is as it was");
	assert_untouched();
	assert_int_equal(srcfix_state(), STEPS_RESTORED);
	/* And may go to another host then. */
	srcfix_unreachable(false);
	srcfix_host(2);
	assert_moved(srcfix_run());
}

static void
test_other_place(void **state)
{
	int closed;

	(void)state;
	stop_in(STEPS_BLOCKED);
	srcfix_new_id = "202";
	assert_moved(srcfix_run());
	srcfix_history(&closed);
	assert_int_equal(closed, 2);
	assert_int_equal(srcfix_dst_leftovers(), 0);
}

static void
test_came_back(void **state)
{
	(void)state;
	stop_in(STEPS_COMMITTED);
	srcfix_mark("config.migrated", false);
	srcfix_mark("config", true);
	assert_int_equal(srcfix_run(), 0);
	assert_true(srcfix_tree());
	assert_true(srcfix_startable());
	assert_int_equal(srcfix_state(), STEPS_NEW);
}

/* Cleaning up needs nobody. */
static void
test_away_committed(void **state)
{
	(void)state;
	stop_in(STEPS_COMMITTED);
	srcfix_unreachable(true);
	assert_int_equal(srcfix_run(), 0);
	assert_true(srcfix_result.moved);
	assert_false(srcfix_tree());
	assert_int_equal(srcfix_state(), STEPS_NEW);
}

/* The other host is gone for good. */
static void
test_take_back(void **state)
{
	char session[SRCSESSION_HEX];

	(void)state;
	assert_failed(srcfix_take_back("00"), E_NOT_FOUND,
		      "ct1 is in no unfinished migration");
	srcfix_trick(TRICK_DIE_BEFORE, MSG_TAKE_OVER, SRCFIX_CUT);
	assert_failed(srcfix_run(), E_UNKNOWN, "nothing was started");
	strcpy(session, srcfix_result.session);
	assert_non_null(strstr(srcfix_err.text, session));

	assert_failed(srcfix_take_back("0badc0de"), E_USAGE, session);
	assert_true(srcfix_retired());
	assert_int_equal(srcfix_state(), STEPS_RETIRED);

	assert_int_equal(srcfix_take_back(session), 0);
	assert_true(srcfix_startable());
	assert_true(srcfix_tree());
	assert_int_equal(srcfix_state(), STEPS_NEW);
	/* And it can go elsewhere. */
	srcfix_unreachable(false);
	srcfix_host(2);
	assert_moved(srcfix_run());
}

static void
test_take_back_too_late(void **state)
{
	char session[SRCSESSION_HEX];

	(void)state;
	stop_in(STEPS_COMMITTED);
	assert_failed(srcfix_take_back("0badc0de"), E_USAGE, "is session ");
	strcpy(session, srcfix_result.session);
	assert_failed(srcfix_take_back(session), E_STATE, "has taken ct1 over");
	assert_int_equal(srcfix_state(), STEPS_COMMITTED);
	assert_moved(srcfix_run());
}

#define T(f) cmocka_unit_test_setup_teardown(f, srcfix_setup, srcfix_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_moves),
		T(test_keeps_source),
		T(test_check_only),
		T(test_findings),
		T(test_wrong_state),
		T(test_unreachable),
		T(test_differs),
		T(test_cannot_read),
		T(test_fails_before_it_is_touched),
		T(test_interrupted),
		T(test_silent),
		T(test_keep_dst),
		T(test_refusals),
		T(test_deaths),
		T(test_no_retire),
		T(test_no_destroy),
		T(test_doubt_committed),
		T(test_doubt_proven),
		T(test_doubt_other_host),
		T(test_doubt_never),
		T(test_all_pairs),
		T(test_killed_everywhere),
		T(test_up_moves),
		T(test_up_fails),
		T(test_up_killed_everywhere),
		T(test_up_fails_everywhere),
		T(test_killed_twice),
		T(test_fails_everywhere),
		T(test_other_host),
		T(test_away_before_retired),
		T(test_other_place),
		T(test_came_back),
		T(test_away_committed),
		T(test_take_back),
		T(test_take_back_too_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
