/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proofcache: what each inode added to the proof when it was last read back,
 * for as long as its ctime stays what it was. So a second read-back only opens
 * what was touched in between; it still looks at every name.
 *
 * It holds where nobody renames anything: then an inode's path is its own for
 * life, and whatever else happens to it moves its ctime. Filled by several
 * threads, each in its own lane; then read by all.
 */
#ifndef XFER_PROOFCACHE_H
#define XFER_PROOFCACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/err.h"

#define PROOFCACHE_LANES 8

struct proofcache;

/* Empty, to be filled from now on. NULL with E_NOMEM. */
struct proofcache *proofcache_new(struct err *e);
void proofcache_free(struct proofcache *c);

/* Note what the inode of `stx` (STATX_BASIC_STATS) adds. One whose ctime is
 * so young that another change could leave it as it is is not noted. 0 or
 * E_NOMEM. */
int proofcache_note(struct proofcache *c, unsigned lane,
		    const struct statx *stx, const struct digest *d,
		    struct err *e);

/* All is noted: make it ready for proofcache_get. 0 or E_NOMEM. */
int proofcache_seal(struct proofcache *c, struct err *e);

/* True where the inode of `stx` is as it was noted. */
bool proofcache_get(const struct proofcache *c, const struct statx *stx,
		    struct digest *d);

#endif
