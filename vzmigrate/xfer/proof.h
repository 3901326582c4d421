/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proof: the sum both hosts must come to (design.md section 7, step 7).
 *
 * It is a set hash: each name of the tree adds one digest, in any order.
 * A name whose inode is its own adds path, metadata and content. A name in a
 * hard-link group adds its path and the group's id, and the group adds its
 * metadata and content once. A file's content digest is itself a sum, over
 * its pieces cut at TREE_BLOCK, so chunks may be hashed in any order too, and
 * a block that changed can be exchanged in the sum; holes add nothing.
 */
#ifndef XFER_PROOF_H
#define XFER_PROOF_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "fs/meta.h"

/* Add a piece of content at `off` to a file's content digest (zero at
 * first). It is cut at multiples of TREE_BLOCK. */
void proof_piece(const struct digest_key *k, uint64_t off, const void *data,
		 size_t len, struct digest *content);

/* A name with an inode of its own. `content` may be NULL. */
struct digest proof_name(const struct digest_key *k, const char *path,
			 size_t path_len, const struct meta *m,
			 const struct digest *content,
			 struct digest_state *scratch);

/* A name in group `group` (not 0). */
struct digest proof_link(const struct digest_key *k, const char *path,
			 size_t path_len, uint32_t group,
			 struct digest_state *scratch);

/* A group, once. */
struct digest proof_group(const struct digest_key *k, uint32_t group,
			  const struct meta *m, const struct digest *content,
			  struct digest_state *scratch);

/* The root's flags that wait for the commit are not part of the proof. */
#define PROOF_ROOT_LATE (FS_IMMUTABLE_FL | FS_APPEND_FL)

#endif
