/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srccontrol: the control file of a migration at work: what may be changed
 * while it runs, in a text file beside the session's journal:
 *
 *	limit-speed = 10M
 *
 * Blank lines and lines that begin with # are passed over. The file is made by
 * us, 0600, and looked at about once a second; nothing in it is ever an error
 * that ends a run.
 */
#ifndef MIGRATE_SRCCONTROL_H
#define MIGRATE_SRCCONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "report/progress.h"
#include "xfer/limit.h"

struct srccontrol;

/* Make the file `control` in `dirfd` (borrowed) with the rate that `l`
 * (borrowed) has now; `path` is its name for people (copied). What stood there
 * is replaced. NULL with an error. Blocks on the disk. */
struct srccontrol *srccontrol_open(int dirfd, const char *path, struct limit *l,
				   struct err *e);

/* Start a thread that looks, until srccontrol_close, and tells `p` (borrowed;
 * may be NULL) the rate. 0 or E_SYSTEM. */
int srccontrol_start(struct srccontrol *c, struct progress *p, struct err *e);

/* Look whether it was changed, if the last look is a second ago; `now_ms` is
 * io_now_ms. What the thread does; for tests. */
void srccontrol_poll(struct srccontrol *c, int64_t now_ms);

/* End the thread and remove the file. NULL is allowed. */
void srccontrol_close(struct srccontrol *c);

/* A rate in bytes per second as people write it: a number with K, M or G, or
 * "none" or 0 (0: no limit). `what` names the option. 0 or E_USAGE. */
int srccontrol_rate(const char *text, const char *what, uint64_t *rate,
		    struct err *e);

/* The file's text (NUL-terminated, changed). 1: `*rate` is what it says; 0: it
 * says nothing; E_USAGE. */
int srccontrol_parse(char *text, uint64_t *rate, struct err *e);

#endif
