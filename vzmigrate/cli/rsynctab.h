/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rsynctab: the options of rsync(1), version 3.5, and what can be made of
 * each here.
 */
#ifndef CLI_RSYNCTAB_H
#define CLI_RSYNCTAB_H

#include <stdbool.h>
#include <stddef.h>

enum rsynctab_fate {
	RSYNC_ANYWAY = 1, /* it is so */
	RSYNC_COMPRESS,
	RSYNC_LEVEL,  /* of compression */
	RSYNC_CHOICE, /* the algorithm: none is one */
	RSYNC_PLAIN,  /* no compression */
	RSYNC_LIMIT,
	RSYNC_TIMEOUT,
	RSYNC_FAMILY,
	RSYNC_SHELL,
	RSYNC_CHECK,
	/* Refused; the order is that of the reasons. */
	RSYNC_PART,    /* it would leave something out */
	RSYNC_OTHER,   /* it would make something else of it */
	RSYNC_PROGRAM, /* only rsync could do that */
	RSYNC_UNKNOWN, /* it is none that is known */
};

struct rsynctab_rule {
	const char *name; /* "" has a short one only */
	char shrt;	  /* 0: none */
	bool arg;	  /* it needs a value */
	enum rsynctab_fate fate;
};

/* By the long name of `len` bytes, or the short one; NULL: none has it. */
const struct rsynctab_rule *rsynctab_long(const char *name, size_t len);
const struct rsynctab_rule *rsynctab_short(char c);

#endif
