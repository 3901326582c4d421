/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * digest: wraps xxHash's XXH3-128 and OpenSSL's random generator.
 */
#include "config.h"

#include "base/digest.h"

#include <endian.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_XXHASH_DISPATCH
/* The same functions, by the widest vectors that the processor has. */
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

_Static_assert(sizeof(((struct digest_key *)0)->secret) >= XXH3_SECRET_SIZE_MIN,
	       "xxHash wants a longer secret");

struct digest_state {
	XXH3_state_t *x;	    /* owned */
	const struct digest_key *k; /* borrowed */
};

int
digest_random(void *data, size_t len, struct err *e)
{
	if (RAND_bytes(data, (int)len) != 1) {
		return err_set(e, E_SYSTEM, "no random bytes from OpenSSL");
	}
	return 0;
}

int
digest_key_new(struct digest_key *k, struct err *e)
{
	return digest_random(k->secret, sizeof(k->secret), e);
}

static struct digest
to_digest(XXH128_hash_t h)
{
	struct digest d;
	uint64_t lo = htole64(h.low64), hi = htole64(h.high64);

	memcpy(d.b, &lo, 8);
	memcpy(d.b + 8, &hi, 8);
	return d;
}

struct digest
digest_of(const struct digest_key *k, const void *data, size_t len)
{
	return to_digest(XXH3_128bits_withSecret(data, len, k->secret,
						 sizeof(k->secret)));
}

uint64_t
digest_hash64(const struct digest_key *k, const void *data, size_t len)
{
	return XXH3_64bits_withSecret(data, len, k->secret, sizeof(k->secret));
}

struct digest_state *
digest_new(const struct digest_key *k, struct err *e)
{
	struct digest_state *s = calloc(1, sizeof(*s));

	if (s) {
		s->x = XXH3_createState();
	}
	if (!s || !s->x) {
		free(s);
		err_nomem(e);
		return NULL;
	}
	s->k = k;
	digest_reset(s);
	return s;
}

void
digest_reset(struct digest_state *s)
{
	XXH3_128bits_reset_withSecret(s->x, s->k->secret, sizeof(s->k->secret));
}

void
digest_update(struct digest_state *s, const void *data, size_t len)
{
	XXH3_128bits_update(s->x, data, len);
}

struct digest
digest_final(struct digest_state *s)
{
	return to_digest(XXH3_128bits_digest(s->x));
}

void
digest_free(struct digest_state *s)
{
	if (s) {
		XXH3_freeState(s->x);
		free(s);
	}
}

void
digest_sum(struct digest *to, const struct digest *d)
{
	uint64_t a[2], b[2], lo, hi;

	memcpy(a, to->b, 16);
	memcpy(b, d->b, 16);
	lo = le64toh(a[0]) + le64toh(b[0]);
	hi = le64toh(a[1]) + le64toh(b[1]) + (lo < le64toh(b[0]));
	a[0] = htole64(lo);
	a[1] = htole64(hi);
	memcpy(to->b, a, 16);
}

void
digest_unsum(struct digest *from, const struct digest *d)
{
	uint64_t a[2], b[2], lo, hi;

	memcpy(a, from->b, 16);
	memcpy(b, d->b, 16);
	lo = le64toh(a[0]) - le64toh(b[0]);
	hi = le64toh(a[1]) - le64toh(b[1]) - (le64toh(a[0]) < le64toh(b[0]));
	a[0] = htole64(lo);
	a[1] = htole64(hi);
	memcpy(from->b, a, 16);
}

bool
digest_eq(const struct digest *a, const struct digest *b)
{
	return memcmp(a->b, b->b, DIGEST_LEN) == 0;
}

char *
digest_hex(const struct digest *d, char out[2 * DIGEST_LEN + 1])
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < DIGEST_LEN; i++) {
		out[2 * i] = hex[d->b[i] >> 4];
		out[2 * i + 1] = hex[d->b[i] & 15];
	}
	out[2 * DIGEST_LEN] = '\0';
	return out;
}
