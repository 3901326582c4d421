/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * knownhosts: known_hosts files, sshd(8) SSH_KNOWN_HOSTS FILE FORMAT. Read by
 * us, since libssh skips markers, does not take tabs, looks at one file alone,
 * and calls a changed key unknown when another line of the host has a type it
 * does not know (measured on 0.10.6 and 0.11.5).
 */
#ifndef SSH_KNOWNHOSTS_H
#define SSH_KNOWNHOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ssh/sshlist.h"

#define KNOWNHOSTS_BLOB_MAX 16384

/* The first word of a line. */
enum knownhosts_marker {
	KNOWNHOSTS_PLAIN = 0,
	KNOWNHOSTS_CA,	    /* @cert-authority */
	KNOWNHOSTS_REVOKED, /* @revoked */
};

/* A line that names the host. */
struct knownhosts_line {
	enum knownhosts_marker marker;
	const char *file; /* borrowed from the list of files */
	unsigned line;
	char type[64]; /* the key's type, from the key itself */
	uint8_t *blob; /* owned: the key as SSH sends it */
	size_t len;
};

/* All lines of all files that name the host. Zero-initialise. */
struct knownhosts {
	struct knownhosts_line *v; /* owned */
	size_t n;
};

/*
 * Add the lines of `file` that name `name` ("host", or "[host]:port" where the
 * port is not 22; compared without case). A missing file is no error; one that
 * is there and cannot be read is E_HOSTKEY, since it may hold revocations.
 * Lines that cannot be understood are passed over with a debug line. `file` is
 * borrowed as long as `k` lives.
 */
int knownhosts_read(struct knownhosts *k, const char *file, const char *name,
		    struct err *e);

/* The same over a text in memory, for tests; `text` is changed. */
int knownhosts_scan(struct knownhosts *k, const char *file, char *text,
		    const char *name, struct err *e);

void knownhosts_fini(struct knownhosts *k);

/* What the lines say of a key. */
enum knownhosts_verdict {
	KNOWNHOSTS_UNKNOWN = 0, /* no line names the host */
	KNOWNHOSTS_OK,
	KNOWNHOSTS_CHANGED,    /* another key of this type is recorded */
	KNOWNHOSTS_OTHER_TYPE, /* only keys of other types are */
	KNOWNHOSTS_IS_REVOKED,
	KNOWNHOSTS_CA_ONLY, /* only a certificate authority vouches */
};

/* `*why` is the line that decided, or NULL. A revoked key stays revoked
 * whatever other lines say. */
enum knownhosts_verdict knownhosts_check(const struct knownhosts *k,
					 const uint8_t *blob, size_t len,
					 const struct knownhosts_line **why);

/* Whether a plain line has a key of this type. */
bool knownhosts_has_type(const struct knownhosts *k, const char *type);

/* The name to look up. Owned, or NULL with E_NOMEM. */
char *knownhosts_name(const char *host, int port, struct err *e);

/*
 * Append "name type key" to `file` under its lock, name hashed where `hash`.
 * The directory is made when it is missing (0700). Nothing is written where a
 * plain line has the key already, or to what is no regular file. Blocks up to
 * 5 s for the lock.
 */
int knownhosts_add(const char *file, const char *name, bool hash,
		   const uint8_t *blob, size_t len, struct err *e);

/* "SHA256:..." of a key, as ssh shows it, into `out`. */
#define KNOWNHOSTS_PRINT_LEN 64
char *knownhosts_fingerprint(const uint8_t *blob, size_t len,
			     char out[KNOWNHOSTS_PRINT_LEN]);

/* The type a key's blob names; false where it is malformed. */
bool knownhosts_blob_type(const uint8_t *blob, size_t len, char type[64]);

/* Bits of an RSA key's modulus; 0 for other types. */
int knownhosts_rsa_bits(const uint8_t *blob, size_t len);

/* Base64 both ways. Decoding: the length, or -1; `out` holds len / 4 * 3. */
int knownhosts_unbase64(const char *text, uint8_t *out, size_t out_len);
char *knownhosts_base64(const uint8_t *data, size_t len, struct err *e);

#endif
