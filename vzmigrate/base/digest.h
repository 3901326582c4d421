/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * digest: XXH3-128 under a secret of the session, and random bytes.
 *
 * The tenant writes both readings that are compared, so the hash is keyed
 * with a secret he cannot know (design.md section 5). SSH authenticates the
 * transport; this finds mistakes, not forgers on the wire.
 */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DIGEST_LEN 16
#define DIGEST_KEY_LEN 192

/* A hash value. Compare with digest_eq. */
struct digest {
	uint8_t b[DIGEST_LEN];
};

/* The session's key: DIGEST_KEY_LEN random bytes, used as XXH3's secret as
 * they are (xxHash asks for a secret that looks random; 192 is its default
 * length). Read-only once made, so threads may share it. */
struct digest_key {
	uint8_t secret[DIGEST_KEY_LEN];
};

/* A running hash; its memory belongs to this module. */
struct digest_state;

/* Fill with random bytes (RAND_bytes). */
int digest_random(void *data, size_t len, struct err *e);

/* Make a new random key. */
int digest_key_new(struct digest_key *k, struct err *e);

/* The hash of one buffer. */
struct digest digest_of(const struct digest_key *k, const void *data,
			size_t len);

/* 64 bits of hash of one buffer, for tables in memory. */
uint64_t digest_hash64(const struct digest_key *k, const void *data,
		       size_t len);

/* A running hash; NULL with E_NOMEM. `k` is borrowed until free. */
struct digest_state *digest_new(const struct digest_key *k, struct err *e);
void digest_update(struct digest_state *s, const void *data, size_t len);
struct digest digest_final(struct digest_state *s);
/* Start over with the same key. */
void digest_reset(struct digest_state *s);
void digest_free(struct digest_state *s);

/* Add `d` to the sum `to` modulo 2^128 (little-endian): a hash over a set of
 * entries that does not depend on their order. Zero-initialise the sum. */
void digest_sum(struct digest *to, const struct digest *d);

/* Take `d` out of the sum again. */
void digest_unsum(struct digest *from, const struct digest *d);

bool digest_eq(const struct digest *a, const struct digest *b);

/* 32 hex digits and a NUL into `out`. Returns out. */
char *digest_hex(const struct digest *d, char out[2 * DIGEST_LEN + 1]);

#endif
