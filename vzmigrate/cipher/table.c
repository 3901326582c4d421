/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * table: the rows of ciphers and MACs. Constant; no state.
 */
#include "cipher/table.h"

#include <string.h>

#define USE_GCM "use aes128-gcm@openssh.com or chacha20-poly1305@openssh.com"
#define RC4_GONE                                                          \
	"RC4 is broken; sshd has it off since OpenSSH 6.7, ssh since "    \
	"7.2, and 7.6 removed it; " USE_GCM " instead, which are faster " \
	"on processors with AES instructions"
#define BLOWFISH_GONE                                                      \
	"OpenSSH 7.6 removed it (sshd has it off since 6.7, ssh since "    \
	"7.2) and libssh does not build it; a 64-bit block leaks in long " \
	"streams, and it is slower than AES-GCM; " USE_GCM
#define CBC_WHY "CBC mode is off in sshd since OpenSSH 6.7 and in ssh since 7.6"
#define MAC_GONE                                                          \
	"off in sshd since OpenSSH 6.7 and in ssh since 7.2, and libssh " \
	"does not have it; use hmac-sha2-256-etm@openssh.com"
#define UMAC_NOTE "libssh does not have UMAC"
#define SSH1_GONE "a cipher name of protocol 1, which OpenSSH 7.6 removed; "

#define AEAD(n, bits, aes)                                                  \
	{                                                                   \
		n, ALG_CIPHER, ALG_AEAD, bits, false, aes, false, ALG_SAFE, \
			NULL                                                \
	}
#define CTR(n, bits)                                                       \
	{                                                                  \
		n, ALG_CIPHER, ALG_CTR, bits, true, true, false, ALG_SAFE, \
			NULL                                               \
	}
#define CBC(n, bits, aes, note)                                              \
	{                                                                    \
		n, ALG_CIPHER, ALG_CBC, bits, true, aes, false, ALG_BY_NAME, \
			note                                                 \
	}
#define GONE(n, family, bits, note)                                           \
	{                                                                     \
		n, ALG_CIPHER, family, bits, true, false, false, ALG_REMOVED, \
			note                                                  \
	}
#define HMAC(n, bits, etm, status, note)                                    \
	{                                                                   \
		n, ALG_MAC, ALG_HMAC, bits, false, false, etm, status, note \
	}
#define UMAC(n, etm)                                                    \
	{                                                               \
		n, ALG_MAC, ALG_UMAC, 128, false, false, etm, ALG_SAFE, \
			UMAC_NOTE                                       \
	}

/* Names that OpenSSH, libssh or dropbear have or had. */
static const struct alg rows[] = {
	AEAD("aes128-gcm@openssh.com", 128, true),
	AEAD("aes256-gcm@openssh.com", 256, true),
	AEAD("chacha20-poly1305@openssh.com", 256, false),
	CTR("aes128-ctr", 128),
	CTR("aes192-ctr", 192),
	CTR("aes256-ctr", 256),

	CBC("aes128-cbc", 128, true, CBC_WHY),
	CBC("aes192-cbc", 192, true, CBC_WHY),
	CBC("aes256-cbc", 256, true, CBC_WHY),
	CBC("3des-cbc", 168, false,
	    "3DES is off in sshd since OpenSSH 6.7 and in ssh since 7.4: a "
	    "64-bit block leaks in long streams (SWEET32), and it is the "
	    "slowest cipher there is"),

	GONE("blowfish-cbc", ALG_CBC, 128, BLOWFISH_GONE),
	GONE("cast128-cbc", ALG_CBC, 128,
	     "OpenSSH 7.6 removed it (sshd has it off since 6.7, ssh since "
	     "7.2) and libssh never had it; " USE_GCM),
	GONE("arcfour", ALG_STREAM, 128, RC4_GONE),
	GONE("arcfour128", ALG_STREAM, 128, RC4_GONE),
	GONE("arcfour256", ALG_STREAM, 256, RC4_GONE),
	GONE("rijndael-cbc@lysator.liu.se", ALG_CBC, 256,
	     "an early name of aes256-cbc that OpenSSH 8.5 removed; " USE_GCM),
	GONE("none", ALG_NONE, 0,
	     "no encryption at all; no OpenSSH release lets users choose it "
	     "(patched ones did); " USE_GCM ", which cost little on "
	     "processors with AES instructions"),
	GONE("3des-ctr", ALG_CTR, 168, "only dropbear ever had it; " USE_GCM),
	GONE("twofish-cbc", ALG_CBC, 256,
	     "neither OpenSSH nor libssh has it; " USE_GCM),
	GONE("twofish256-cbc", ALG_CBC, 256,
	     "neither OpenSSH nor libssh has it; " USE_GCM),
	GONE("twofish128-cbc", ALG_CBC, 128,
	     "neither OpenSSH nor libssh has it; " USE_GCM),
	GONE("twofish256-ctr", ALG_CTR, 256,
	     "neither OpenSSH nor libssh has it; " USE_GCM),
	GONE("twofish128-ctr", ALG_CTR, 128,
	     "neither OpenSSH nor libssh has it; " USE_GCM),
	/* `ssh -c` took these until 7.5, and meant the -cbc ones by them. */
	GONE("blowfish", ALG_CBC, 128, SSH1_GONE USE_GCM),
	GONE("3des", ALG_CBC, 168, SSH1_GONE USE_GCM),
	GONE("des", ALG_CBC, 56, SSH1_GONE USE_GCM),

	HMAC("hmac-sha2-256-etm@openssh.com", 256, true, ALG_SAFE, NULL),
	HMAC("hmac-sha2-512-etm@openssh.com", 512, true, ALG_SAFE, NULL),
	UMAC("umac-128-etm@openssh.com", true),
	UMAC("umac-64-etm@openssh.com", true),
	HMAC("hmac-sha2-256", 256, false, ALG_SAFE, NULL),
	HMAC("hmac-sha2-512", 512, false, ALG_SAFE, NULL),
	UMAC("umac-128@openssh.com", false),
	UMAC("umac-64@openssh.com", false),
	HMAC("hmac-sha1-etm@openssh.com", 160, true, ALG_BY_NAME,
	     "SHA-1 is offered only where --mac or MACs names it"),
	HMAC("hmac-sha1", 160, false, ALG_BY_NAME,
	     "SHA-1 is offered only where --mac or MACs names it"),
	HMAC("hmac-sha1-96", 160, false, ALG_REMOVED, MAC_GONE),
	HMAC("hmac-sha1-96-etm@openssh.com", 160, true, ALG_REMOVED, MAC_GONE),
	HMAC("hmac-md5", 128, false, ALG_REMOVED, MAC_GONE),
	HMAC("hmac-md5-96", 128, false, ALG_REMOVED, MAC_GONE),
	HMAC("hmac-md5-etm@openssh.com", 128, true, ALG_REMOVED, MAC_GONE),
	HMAC("hmac-md5-96-etm@openssh.com", 128, true, ALG_REMOVED, MAC_GONE),
	HMAC("hmac-ripemd160", 160, false, ALG_REMOVED,
	     "OpenSSH 7.6 removed it; use hmac-sha2-256-etm@openssh.com"),
	HMAC("hmac-ripemd160@openssh.com", 160, false, ALG_REMOVED,
	     "OpenSSH 7.6 removed it; use hmac-sha2-256-etm@openssh.com"),
	HMAC("hmac-ripemd160-etm@openssh.com", 160, true, ALG_REMOVED,
	     "OpenSSH 7.6 removed it; use hmac-sha2-256-etm@openssh.com"),
	{ "none", ALG_MAC, ALG_NONE, 0, false, false, false, ALG_REMOVED,
	  "no authentication at all; use hmac-sha2-256-etm@openssh.com" },
};

#define NROWS (sizeof(rows) / sizeof(rows[0]))

const struct alg *
table_find(enum alg_kind kind, const char *name)
{
	for (size_t i = 0; i < NROWS; i++) {
		if (rows[i].kind == kind && !strcmp(rows[i].name, name)) {
			return &rows[i];
		}
	}
	return NULL;
}

const struct alg *
table_at(size_t i)
{
	return i < NROWS ? &rows[i] : NULL;
}

const char *
table_family_name(enum alg_family family)
{
	static const char *const names[] = {
		[ALG_AEAD] = "AEAD", [ALG_CTR] = "CTR",
		[ALG_CBC] = "CBC",   [ALG_STREAM] = "stream",
		[ALG_NONE] = "none", [ALG_HMAC] = "HMAC",
		[ALG_UMAC] = "UMAC",
	};

	return (size_t)family < sizeof(names) / sizeof(names[0]) ? names[family]
								 : "unknown";
}
