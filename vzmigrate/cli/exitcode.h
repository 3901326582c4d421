/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exitcode: what the program returns to its caller. The numbers up to 20 are
 * those of OpenVZ's vzmigrate; ours start at 64. All are in the manual.
 */
#ifndef CLI_EXITCODE_H
#define CLI_EXITCODE_H

#include <stdbool.h>
#include <stddef.h>

#include "migrate/steps.h"

enum exitcode {
	EXITCODE_OK = 0,
	EXITCODE_USAGE = 1,	   /* bad options */
	EXITCODE_CONNECT = 4,	   /* no link to a usable agent */
	EXITCODE_COPY = 6,	   /* the tree could not be copied */
	EXITCODE_START = 7,	   /* the CT could not be started there */
	EXITCODE_STOP = 8,	   /* the CT could not be stopped here */
	EXITCODE_EXISTS = 9,	   /* something is in the way there */
	EXITCODE_NOT_FOUND = 10,   /* no such CT here */
	EXITCODE_IN_USE = 12,	   /* an address of the CT is taken there */
	EXITCODE_QUOTA = 13,	   /* disk quota could not be carried */
	EXITCODE_CONFIG = 15,	   /* configuration of this host or the CT */
	EXITCODE_PLOOP = 16,	   /* the other host has no ploop */
	EXITCODE_DST_CONFIG = 19,  /* configuration of the other host */
	EXITCODE_LOCKED = 20,	   /* the CT is in use by another program */
	EXITCODE_SYSTEM = 64,	   /* this host failed: memory, disk */
	EXITCODE_UNKNOWN = 65,	   /* it cannot be learned who owns the CT */
	EXITCODE_CLEAN_UP = 66,	   /* moved, but not cleaned up */
	EXITCODE_VERIFY = 67,	   /* the copies differ */
	EXITCODE_UNSUPPORTED = 68, /* a thing that cannot be carried */
	EXITCODE_STATE = 69,	   /* the CT is in the wrong state */
	EXITCODE_CANCELLED = 70,   /* interrupted; the source is as it was */
	EXITCODE_CORRUPT = 71,	   /* a state file of ours is damaged */
	EXITCODE_FENCED = 72,	   /* another run took the session over */
	EXITCODE_NOT_UNDONE = 73,  /* failed, and could not be undone whole */
};

struct exitcode_row {
	enum exitcode code;
	const char *text; /* one line for --help and the manual */
};

/* Every code, in order; the last row's text is NULL. */
extern const struct exitcode_row exitcode_rows[];

/*
 * The exit code for an enum err_code met in `step` (STEP_NONE: before the
 * first one), `remote`: the other host said so.
 */
enum exitcode exitcode_of(int code, enum steps_step step, bool remote);

#endif
