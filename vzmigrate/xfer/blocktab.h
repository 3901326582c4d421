/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blocktab: the digests of a large file's blocks (TREE_BLOCK bytes each), of
 * which its content's digest is the sum, so that a block can be exchanged in
 * the sum without reading the rest. A block without data has none. Memory
 * follows the data, not the file's size. Not thread-safe.
 */
#ifndef XFER_BLOCKTAB_H
#define XFER_BLOCKTAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"

struct blocktab;

/* NULL with E_NOMEM or E_SYSTEM. */
struct blocktab *blocktab_new(struct err *e);
void blocktab_free(struct blocktab *t);

/*
 * The bytes of block number `block` have the digest `d`: all of them with
 * `whole`, else some, and `d` is added to what is known. `*sum`, the sum of
 * all blocks, is kept right. 0 or E_NOMEM.
 */
int blocktab_put(struct blocktab *t, uint64_t block, const struct digest *d,
		 bool whole, struct digest *sum, struct err *e);

/* The blocks from number `from` up to, but without, `to` have no data. */
void blocktab_drop(struct blocktab *t, uint64_t from, uint64_t to,
		   struct digest *sum);

#endif
