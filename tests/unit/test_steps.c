/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of the tables of the source's machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "migrate/steps.h"

#define DSTS (MSG_DST_FINISHED + 1)

static void
test_names(void **state)
{
	(void)state;
	for (int s = 0; s < STEPS_COUNT; s++) {
		const char *name = steps_state_name((enum steps_state)s);

		assert_int_equal(steps_state_of(name), s);
		/* As the journal wants its event words. */
		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz-"),
				 strlen(name));
	}
	assert_int_equal(steps_state_of("nonsense"), -1);
	assert_string_equal(steps_name(STEP_TAKE_OVER), "take over");
	for (int a = STEPS_GO_ON; a <= STEPS_REFUSE; a++) {
		assert_string_not_equal(steps_action_name((enum steps_action)a),
					"?");
	}
}

/* The ordinary way, and the ways back. */
static void
test_ways(void **state)
{
	static const enum steps_state forward[] = {
		STEPS_NEW,    STEPS_OPEN,     STEPS_BLOCKING, STEPS_BLOCKED,
		STEPS_PROVEN, STEPS_RETIRING, STEPS_RETIRED,  STEPS_COMMITTED,
		STEPS_DONE,   STEPS_NEW,
	};
	/* One that is up; of a kind that is blocked first, and the other. */
	static const enum steps_state up[] = {
		STEPS_OPEN,	STEPS_BLOCKING, STEPS_BLOCKED,
		STEPS_STOPPING, STEPS_PROVEN,
	};
	static const enum steps_state up_too[] = {
		STEPS_OPEN,    STEPS_STOPPING, STEPS_BLOCKING,
		STEPS_BLOCKED, STEPS_PROVEN,
	};
	static const enum steps_state back[] = {
		STEPS_RETIRED, STEPS_NEVER,    STEPS_RESTORED, STEPS_OPEN,
		STEPS_OPEN,    STEPS_GIVEN_UP, STEPS_NEW,
	};

	(void)state;
	for (size_t i = 1; i < sizeof(forward) / sizeof(forward[0]); i++) {
		assert_true(steps_allowed(forward[i - 1], forward[i]));
	}
	for (size_t i = 1; i < sizeof(up) / sizeof(up[0]); i++) {
		assert_true(steps_allowed(up[i - 1], up[i]));
		assert_true(steps_allowed(up_too[i - 1], up_too[i]));
	}
	for (size_t i = 1; i < sizeof(back) / sizeof(back[0]); i++) {
		assert_true(steps_allowed(back[i - 1], back[i]));
	}
	assert_false(steps_allowed(STEPS_RETIRED, STEPS_RESTORED));
	assert_false(steps_allowed(STEPS_COMMITTED, STEPS_NEVER));
	assert_false(steps_allowed(STEPS_COMMITTED, STEPS_RESTORED));
	assert_false(steps_allowed(STEPS_OPEN, STEPS_COMMITTED));
	assert_false(steps_allowed(STEPS_PROVEN, STEPS_COMMITTED));
	assert_false(steps_allowed(STEPS_COUNT, STEPS_NEW));
}

/* From where the destination may have it there is no way to "restored" that
 * does not pass "never" or belongs to the destination. */
static void
test_no_two_owners(void **state)
{
	(void)state;
	for (int s = 0; s < STEPS_COUNT; s++) {
		if (steps_owner((enum steps_state)s) == STEPS_SOURCE) {
			continue;
		}
		for (int t = 0; t < STEPS_COUNT; t++) {
			if (steps_allowed((enum steps_state)s,
					  (enum steps_state)t) &&
			    steps_owner((enum steps_state)t) == STEPS_SOURCE) {
				assert_true(t == STEPS_NEVER ||
					    s == STEPS_DONE);
			}
		}
	}
}

static void
test_undo(void **state)
{
	(void)state;
	assert_int_equal(steps_undo(STEPS_OPEN), 0);
	assert_int_equal(steps_undo(STEPS_STOPPING),
			 STEPS_UNDO_UNBLOCK | STEPS_UNDO_START);
	assert_int_equal(steps_undo(STEPS_BLOCKING),
			 STEPS_UNDO_UNBLOCK | STEPS_UNDO_START);
	assert_int_equal(steps_undo(STEPS_PROVEN),
			 STEPS_UNDO_UNBLOCK | STEPS_UNDO_START);
	assert_int_equal(steps_undo(STEPS_NEVER), STEPS_UNDO_UNBLOCK |
							  STEPS_UNDO_UNRETIRE |
							  STEPS_UNDO_START);
	assert_int_equal(steps_undo(STEPS_COMMITTED), 0);
	/* A session that has touched the source is bound to its host. */
	for (int s = 0; s < STEPS_COUNT; s++) {
		if (steps_undo((enum steps_state)s)) {
			assert_true(steps_is_open((enum steps_state)s));
		}
	}
	assert_false(steps_is_open(STEPS_RESTORED));
	assert_true(steps_is_open(STEPS_COMMITTED));
}

/* The table as design.md section 7 has it. */
static void
test_rerun(void **state)
{
	(void)state;
	for (int s = 0; s < STEPS_COUNT; s++) {
		for (int d = 0; d < DSTS; d++) {
			enum steps_action a =
				steps_rerun((enum steps_state)s,
					    (enum msg_dst_state)d, false);
			bool owns = d == MSG_DST_COMMITTED ||
				    d == MSG_DST_RUNNING ||
				    d == MSG_DST_FINISHED;

			assert_in_range(a, STEPS_GO_ON, STEPS_REFUSE);
			/* Never start or restore where the destination says
			 * that it owns the container. */
			if (owns && s != STEPS_DONE && s != STEPS_GIVEN_UP &&
			    s != STEPS_NEW) {
				assert_true(a == STEPS_FORWARD ||
					    a == STEPS_REFUSE);
			}
			/* Never order a commit before "retired". */
			if (a == STEPS_TAKE_OVER) {
				assert_int_equal(s, STEPS_RETIRED);
				assert_int_equal(d, MSG_DST_PROVEN);
			}
			/* Never go on from "retired" without an answer. */
			if (s == STEPS_RETIRED) {
				assert_int_not_equal(a, STEPS_GO_ON);
				assert_int_not_equal(a, STEPS_AFRESH);
			}
			if (s == STEPS_COMMITTED) {
				assert_int_equal(a, STEPS_FORWARD);
			}
		}
	}
	assert_int_equal(steps_rerun(STEPS_RETIRED, MSG_DST_NONE, false),
			 STEPS_REFUSE);
	assert_int_equal(steps_rerun(STEPS_RETIRED, MSG_DST_NEVER, false),
			 STEPS_GO_BACK);
	assert_int_equal(steps_rerun(STEPS_RETIRED, MSG_DST_ABORTED, false),
			 STEPS_GO_BACK);
	assert_int_equal(steps_rerun(STEPS_RETIRED, MSG_DST_COMMITTED, false),
			 STEPS_FORWARD);
	/* Where it is to be up, there is more to do than the commit. */
	assert_int_equal(steps_rerun(STEPS_RETIRED, MSG_DST_COMMITTED, true),
			 STEPS_TAKE_OVER);
	assert_int_equal(steps_rerun(STEPS_RETIRED, MSG_DST_RUNNING, true),
			 STEPS_FORWARD);
	assert_int_equal(steps_rerun(STEPS_PROVEN, MSG_DST_COMMITTED, true),
			 STEPS_REFUSE);
	assert_int_equal(steps_rerun(STEPS_BLOCKED, MSG_DST_RESERVED, false),
			 STEPS_GO_ON);
	assert_int_equal(steps_rerun(STEPS_OPEN, (enum msg_dst_state)99, false),
			 STEPS_REFUSE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_ways),
		cmocka_unit_test(test_no_two_owners),
		cmocka_unit_test(test_undo),
		cmocka_unit_test(test_rerun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
