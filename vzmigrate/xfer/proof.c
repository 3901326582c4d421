/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proof: digests of pieces, names and groups. No state.
 */
#include "xfer/proof.h"

#include <endian.h>
#include <string.h>

#include "wire/tree.h"

static void
add_part(const struct digest_key *k, uint64_t off, const void *data, size_t len,
	 struct digest *content)
{
	struct digest d = digest_of(k, data, len);
	uint64_t head[2] = { htole64(off), htole64(len) };
	uint8_t all[16 + DIGEST_LEN];

	memcpy(all, head, 16);
	memcpy(all + 16, d.b, DIGEST_LEN);
	d = digest_of(k, all, sizeof(all));
	digest_sum(content, &d);
}

void
proof_piece(const struct digest_key *k, uint64_t off, const void *data,
	    size_t len, struct digest *content)
{
	const uint8_t *p = data;

	while (len) {
		size_t n = TREE_BLOCK - off % TREE_BLOCK;

		n = n < len ? n : len;
		add_part(k, off, p, n, content);
		off += n;
		p += n;
		len -= n;
	}
}

struct digest
proof_name(const struct digest_key *k, const char *path, size_t path_len,
	   const struct meta *m, const struct digest *content,
	   struct digest_state *scratch)
{
	return meta_digest(k, path, path_len, m, content, 0, scratch);
}

struct digest
proof_link(const struct digest_key *k, const char *path, size_t path_len,
	   uint32_t group, struct digest_state *scratch)
{
	/* A tag no packed metadata begins with keeps the domains apart. */
	uint32_t head[2] = { htole32(0xffffffffu), htole32(group) };

	(void)k;
	digest_reset(scratch);
	digest_update(scratch, head, sizeof(head));
	digest_update(scratch, path, path_len);
	return digest_final(scratch);
}

struct digest
proof_group(const struct digest_key *k, uint32_t group, const struct meta *m,
	    const struct digest *content, struct digest_state *scratch)
{
	return meta_digest(k, "", 0, m, content, group, scratch);
}
