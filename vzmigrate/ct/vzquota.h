/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzquota: disk quota of simfs containers, which vzctl 3.0 and 4.x keep by
 * vzquota(8) of OpenVZ's kernel. The first level, the container's own limits,
 * is in its configuration, and vzctl counts what it uses at the start; the
 * second, what its users and groups may use, is in the quota file alone and
 * is carried as vzdqdump(8) prints it. For ct/ alone.
 */
#ifndef CT_VZQUOTA_H
#define CT_VZQUOTA_H

#include <stdint.h>

#include "base/buf.h"
#include "ct/vzconf.h"

/* Limits of one resource, and what the quota file is made with. */
struct vzquota_limits {
	uint64_t blocks[2]; /* soft and hard, of 1 KiB */
	uint64_t inodes[2]; /* soft and hard */
	uint64_t grace;	    /* seconds that the soft ones may be exceeded */
	uint64_t ugids;	    /* users and groups counted; 0: no second level */
};

/*
 * The limits of a container by its own configuration, over that of the host.
 * 1 where it has a second level, 0 where it has none (no QUOTAUGIDLIMIT,
 * DISK_QUOTA=no, a layout that is not simfs), E_CONFIG for values that cannot
 * be read or are missing.
 */
int vzquota_limits(const struct vzconf *v, const char *ctid, const char *own,
		   size_t own_len, struct vzquota_limits *l, struct err *e);

/* DISKSPACE="1G:1.1G" (of 1 KiB without a suffix), DISKINODES="200000:220000";
 * one value counts for both. E_CONFIG; `key` names it. */
int vzquota_parse(const char *text, const char *key, uint64_t unit,
		  uint64_t out[2], struct err *e);

/* Whether the programs are here. */
bool vzquota_here(void);

/* What vzdqdump prints of limits, grace times and expirations; quota must be
 * off, as it is when the container is stopped. 1 with it in `out`, 0 where
 * there is no quota file; E_QUOTA. */
int vzquota_dump(const char *ctid, struct buf *out, struct err *e);

/* Make the quota file of the container at `tree`, counting what is there, and
 * load what vzquota_dump gave (NUL-terminated). One that was there before
 * goes. May be repeated. E_QUOTA. May block for long. */
int vzquota_load(const char *ctid, const char *tree,
		 const struct vzquota_limits *l, const char *dump,
		 struct err *e);

/* Remove the quota file, if there is one. E_QUOTA where quota is on. */
int vzquota_drop(const char *ctid, struct err *e);

#endif
