/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * table: the ciphers and MACs of SSH protocol 2 that are met in the world, and
 * what this program does with each. A new algorithm is a new row.
 *
 * Names and modes: RFC 4253 sections 6.3 and 6.4, RFC 4344, RFC 4345, RFC 6668
 * and OpenSSH's PROTOCOL and PROTOCOL.chacha20poly1305. When OpenSSH switched
 * something off: its release notes for 6.7 (sshd: CBC, arcfour), 7.2 (ssh:
 * blowfish, CAST, arcfour, MD5 and truncated MACs), 7.4 (ssh: 3DES), 7.6
 * (arcfour, blowfish, CAST, hmac-ripemd160 removed; ssh: CBC) and 8.5
 * (rijndael-cbc removed). What libssh has is asked at run time, see offer.h.
 */
#ifndef CIPHER_TABLE_H
#define CIPHER_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum alg_kind {
	ALG_CIPHER,
	ALG_MAC,
};

enum alg_family {
	ALG_AEAD,   /* cipher with its own authentication */
	ALG_CTR,    /* block cipher in counter mode */
	ALG_CBC,    /* block cipher in CBC mode */
	ALG_STREAM, /* RC4 */
	ALG_NONE,   /* no encryption */
	ALG_HMAC,
	ALG_UMAC,
};

enum alg_status {
	ALG_SAFE,    /* offered by default where the library has it */
	ALG_BY_NAME, /* cipher: only with --allow-cipher; MAC: only if listed */
	ALG_REMOVED, /* never offered; `note` says since when and what to use */
};

struct alg {
	const char *name;
	enum alg_kind kind;
	enum alg_family family;
	unsigned key_bits; /* nominal length of the key */
	bool needs_mac;	   /* a cipher whose speed includes a MAC's */
	bool aes;	   /* fast where the processor has AES instructions */
	bool etm;	   /* a MAC over the ciphertext (encrypt-then-MAC) */
	enum alg_status status;
	const char *note; /* a sentence without its full stop, or NULL */
};

/* The row of `name` (exact, as in the protocol), or NULL. */
const struct alg *table_find(enum alg_kind kind, const char *name);

/* The i-th row, NULL after the last. Rows of a kind and status stand in the
 * order of preference for a processor with AES instructions. */
const struct alg *table_at(size_t i);

/* "AEAD", "CTR", "CBC", "stream", "none", "HMAC", "UMAC". */
const char *table_family_name(enum alg_family family);

#endif
