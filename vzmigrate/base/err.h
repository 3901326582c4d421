/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * err: an error with a code for the program and a text for the person.
 *
 * A fallible function takes a `struct err *` last and returns 0 (or a count)
 * or one of the negative codes below. The text is set where the fault is
 * detected and names the object; each module's border may put what it was
 * doing in front (err_wrap). It is printed once, in a main.c.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Why something failed. The values are internal; exit codes are made from
 * them in cli/. Keep err_name() in step. */
enum err_code {
	E_NONE = 0,
	E_NOMEM = -1,	     /* out of memory */
	E_SYSTEM = -2,	     /* a system call failed; `sys` holds errno */
	E_USAGE = -3,	     /* the person asked for something impossible */
	E_LIMIT = -4,	     /* a documented limit was exceeded */
	E_PROTOCOL = -5,     /* the peer broke the protocol */
	E_VERSION = -6,	     /* the peer speaks another protocol version */
	E_TIMEOUT = -7,	     /* a deadline passed */
	E_CLOSED = -8,	     /* the peer or the link is gone */
	E_CONNECT = -9,	     /* no connection could be made */
	E_HOSTKEY = -10,     /* the host key is unknown, changed, revoked */
	E_AUTH = -11,	     /* authentication was refused */
	E_CONFIG = -12,	     /* a configuration file is wrong */
	E_NOT_FOUND = -13,   /* the named thing does not exist */
	E_EXISTS = -14,	     /* the named thing exists already */
	E_BUSY = -15,	     /* locked by somebody else */
	E_DENIED = -16,	     /* permission */
	E_NOSPACE = -17,     /* bytes, inodes or quota used up */
	E_UNSUPPORTED = -18, /* a thing we cannot carry or do */
	E_STATE = -19,	     /* the container is in the wrong state */
	E_CHANGED = -20,     /* the source changed while it was read */
	E_VERIFY = -21,	     /* the proof failed: the copies differ */
	E_CANCELLED = -22,   /* a signal or the peer asked us to stop */
	E_CORRUPT = -23,     /* a state file of ours is damaged */
	E_FENCED = -24,	     /* a newer connection owns the session */
	E_UNKNOWN = -25,     /* it cannot be learned who owns the CT */
	E_REMOTE = -26,	     /* the other host reports a failure of its own */
	E_COPY = -27,	     /* the tree could not be copied */
	E_START = -28,	     /* the container could not be started */
	E_STOP = -29,	     /* the container could not be stopped */
	E_IN_USE = -30,	     /* an address of the container is taken */
	E_QUOTA = -31,	     /* disk quota could not be carried over */
	E_PLOOP = -32,	     /* the other host has no ploop */
};

#define ERR_TEXT_MAX 2048

/* Owned by whoever declares it; no heap. Zero-initialise. */
struct err {
	int code;		 /* enum err_code */
	int sys;		 /* errno where code is E_SYSTEM, else 0 */
	char text[ERR_TEXT_MAX]; /* one line for a person, no newline */
};

/* Set code and text (printf form; control characters are escaped). `e` may
 * be NULL. Returns `code`. */
int err_set(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As err_set with E_SYSTEM, or E_NOMEM for ENOMEM, E_NOSPACE for
 * ENOSPC and EDQUOT; ": strerror(errnum)" is appended. Returns the code. */
int err_sys(struct err *e, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* E_NOMEM. */
int err_nomem(struct err *e);

/* Put "text: " in front of what is there. Returns e->code (E_SYSTEM where
 * e is NULL or empty, so that it can stand in a return). */
int err_wrap(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* As err_wrap, and give the error another code. Returns `code`. */
int err_recode(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The code's name in lower case for logs, "unknown-error" if there is none. */
const char *err_name(int code);

/* Whether it is one of enum err_code. */
bool err_known(int code);

/* Forget. */
void err_clear(struct err *e);

#endif
