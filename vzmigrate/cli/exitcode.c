/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exitcode: one table from error, step and side to the exit code. No state.
 */
#include "cli/exitcode.h"

#include "base/err.h"

const struct exitcode_row exitcode_rows[] = {
	{ EXITCODE_OK, "success" },
	{ EXITCODE_USAGE, "bad option or argument" },
	{ EXITCODE_CONNECT,
	  "cannot connect: unreachable, host key, authentication, no usable "
	  "agent there" },
	{ EXITCODE_COPY,
	  "cannot copy: read or write error, no space, link lost" },
	{ EXITCODE_START, "cannot start the container on the destination" },
	{ EXITCODE_STOP, "cannot stop the container here" },
	{ EXITCODE_EXISTS, "it exists on the destination already" },
	{ EXITCODE_NOT_FOUND, "no such container" },
	{ EXITCODE_IN_USE, "an address of the container is in use there" },
	{ EXITCODE_QUOTA, "disk quota of users cannot be carried over" },
	{ EXITCODE_CONFIG, "bad configuration of this host or the container" },
	{ EXITCODE_PLOOP, "the destination does not support ploop" },
	{ EXITCODE_DST_CONFIG, "bad configuration of the destination" },
	{ EXITCODE_LOCKED, "the container is locked, or in another migration" },
	{ EXITCODE_SYSTEM, "a failure of this host outside the copying" },
	{ EXITCODE_UNKNOWN,
	  "it cannot be learned which host owns the container; run again" },
	{ EXITCODE_CLEAN_UP, "moved, but the source was not cleaned up" },
	{ EXITCODE_VERIFY, "the copy differs from the source" },
	{ EXITCODE_UNSUPPORTED, "something that cannot be carried" },
	{ EXITCODE_STATE,
	  "the container is in a state that cannot be moved, or given up" },
	{ EXITCODE_CANCELLED, "interrupted; the source is as it was" },
	{ EXITCODE_CORRUPT, "a state file is damaged" },
	{ EXITCODE_FENCED, "another run took this migration over" },
	{ EXITCODE_NOT_UNDONE,
	  "failed, and the source could not be restored; run again" },
	{ 0, NULL },
};

enum side {
	HERE = 1,
	THERE = 2,
	EITHER = 3,
};

/* The first row that fits. Steps are a range. */
static const struct rule {
	int code;
	enum steps_step from, to;
	enum side side;
	enum exitcode exit;
} rules[] = {
	/* What the error is decides, wherever it was met. */
	{ E_USAGE, STEP_NONE, STEP_LAST, EITHER, EXITCODE_USAGE },
	{ E_CONNECT, STEP_NONE, STEP_LAST, EITHER, EXITCODE_CONNECT },
	{ E_HOSTKEY, STEP_NONE, STEP_LAST, EITHER, EXITCODE_CONNECT },
	{ E_AUTH, STEP_NONE, STEP_LAST, EITHER, EXITCODE_CONNECT },
	{ E_VERSION, STEP_NONE, STEP_LAST, EITHER, EXITCODE_CONNECT },
	{ E_COPY, STEP_NONE, STEP_LAST, EITHER, EXITCODE_COPY },
	{ E_CHANGED, STEP_NONE, STEP_LAST, EITHER, EXITCODE_COPY },
	{ E_START, STEP_NONE, STEP_LAST, EITHER, EXITCODE_START },
	{ E_STOP, STEP_NONE, STEP_LAST, EITHER, EXITCODE_STOP },
	{ E_EXISTS, STEP_NONE, STEP_LAST, EITHER, EXITCODE_EXISTS },
	{ E_IN_USE, STEP_NONE, STEP_LAST, EITHER, EXITCODE_IN_USE },
	{ E_QUOTA, STEP_NONE, STEP_LAST, EITHER, EXITCODE_QUOTA },
	{ E_PLOOP, STEP_NONE, STEP_LAST, EITHER, EXITCODE_PLOOP },
	{ E_CONFIG, STEP_NONE, STEP_LAST, THERE, EXITCODE_DST_CONFIG },
	{ E_CONFIG, STEP_NONE, STEP_LAST, HERE, EXITCODE_CONFIG },
	{ E_BUSY, STEP_NONE, STEP_LAST, EITHER, EXITCODE_LOCKED },
	{ E_UNKNOWN, STEP_NONE, STEP_LAST, EITHER, EXITCODE_UNKNOWN },
	{ E_VERIFY, STEP_NONE, STEP_LAST, EITHER, EXITCODE_VERIFY },
	{ E_UNSUPPORTED, STEP_NONE, STEP_LAST, EITHER, EXITCODE_UNSUPPORTED },
	{ E_STATE, STEP_NONE, STEP_LAST, EITHER, EXITCODE_STATE },
	{ E_CANCELLED, STEP_NONE, STEP_LAST, EITHER, EXITCODE_CANCELLED },
	{ E_CORRUPT, STEP_NONE, STEP_LAST, EITHER, EXITCODE_CORRUPT },
	{ E_FENCED, STEP_NONE, STEP_LAST, EITHER, EXITCODE_FENCED },
	/* The container is looked for here, before the other host is asked;
	 * what is missing later is a part of a copy. */
	{ E_NOT_FOUND, STEP_NONE, STEP_CHECK, HERE, EXITCODE_NOT_FOUND },
	{ E_NOT_FOUND, STEP_NONE, STEP_CHECK, THERE, EXITCODE_DST_CONFIG },
	/* A configuration beyond our limits. */
	{ E_LIMIT, STEP_NONE, STEP_LOCK, HERE, EXITCODE_CONFIG },
	/* A link that breaks in the greeting is no link. */
	{ E_CLOSED, STEP_NONE, STEP_CONNECT, EITHER, EXITCODE_CONNECT },
	{ E_TIMEOUT, STEP_NONE, STEP_CONNECT, EITHER, EXITCODE_CONNECT },
	{ E_PROTOCOL, STEP_NONE, STEP_CONNECT, EITHER, EXITCODE_CONNECT },
	/* What answers there is no agent of ours. */
	{ E_REMOTE, STEP_NONE, STEP_CONNECT, EITHER, EXITCODE_CONNECT },
	/* Its state directory cannot be used. */
	{ E_DENIED, STEP_CONNECT, STEP_CONNECT, THERE, EXITCODE_COPY },
	{ E_SYSTEM, STEP_CONNECT, STEP_CONNECT, THERE, EXITCODE_COPY },
	{ E_NOSPACE, STEP_CONNECT, STEP_CONNECT, THERE, EXITCODE_COPY },
	/* The other host cannot take it: no space, read-only, denied. */
	{ E_DENIED, STEP_NONE, STEP_LOCK, EITHER, EXITCODE_SYSTEM },
	{ E_SYSTEM, STEP_NONE, STEP_LOCK, EITHER, EXITCODE_SYSTEM },
	{ E_NOSPACE, STEP_NONE, STEP_LOCK, EITHER, EXITCODE_SYSTEM },
	{ E_NOMEM, STEP_NONE, STEP_LAST, HERE, EXITCODE_SYSTEM },
	{ E_SYSTEM, STEP_RETIRE, STEP_RETIRE, HERE, EXITCODE_SYSTEM },
	{ E_DENIED, STEP_RETIRE, STEP_RETIRE, HERE, EXITCODE_SYSTEM },
	{ E_NOSPACE, STEP_RETIRE, STEP_RETIRE, HERE, EXITCODE_SYSTEM },
	{ E_SYSTEM, STEP_CONNECT, STEP_CONNECT, HERE, EXITCODE_SYSTEM },
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

enum exitcode
exitcode_of(int code, enum steps_step step, bool remote)
{
	if (code == E_NONE) {
		return EXITCODE_OK;
	}
	for (size_t i = 0; i < RULES; i++) {
		const struct rule *r = &rules[i];

		if (r->code == code && step >= r->from && step <= r->to &&
		    (r->side & (remote ? THERE : HERE))) {
			return r->exit;
		}
	}
	/* From the checks on: the copy could not be made. */
	return step >= STEP_CHECK && step <= STEP_TAKE_OVER ? EXITCODE_COPY
							    : EXITCODE_SYSTEM;
}
