/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * offer: which ciphers and MACs to offer, in which order, for each direction.
 * Pure arithmetic on lists: what the library has is asked through a callback,
 * so libssh calls stay in ssh/.
 *
 * Policy (design.md section 11):
 * - By default all safe ciphers that the library has; AES-GCM first where the
 *   processors of both ends have (or may have) AES instructions, ChaCha20
 *   first where one is known not to.
 * - A list of the user's stands as it is, selection and order, but CBC and
 *   3DES need --allow-cipher as well. First of these that is given decides,
 *   as in ssh(1): --cipher, `-c` or `-o Ciphers`, the configuration.
 * - `+`, `-` and `^` before a list change the default list (ssh_config(5)
 *   Ciphers); wildcards work after `-` alone, as in ssh.
 * - Names given with --allow-cipher are added at the end of the default list.
 * - In the return direction AES-GCM goes last, whoever made the list: libssh
 *   before 0.11.5 (Debian 12: before 0.10.6-0+deb12u3) does not check the tag
 *   of received AES-GCM data (CVE-2026-59847), its version does not tell, and
 *   that direction carries only acknowledgements.
 */
#ifndef CIPHER_OFFER_H
#define CIPHER_OFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cipher/cpu.h"
#include "cipher/table.h"

/* Who decided a list. */
enum offer_by {
	OFFER_BY_DEFAULT,    /* our own list */
	OFFER_BY_HARDWARE,   /* our own list, ordered by the processors */
	OFFER_BY_CONFIG,     /* the ssh configuration */
	OFFER_BY_SSH_OPTION, /* -c, -m or -o inside --ssh= */
	OFFER_BY_OPTION,     /* --cipher, --ssh-cipher, --mac */
	OFFER_BY_PROBE,	     /* set by the caller after a probe */
};

/* What to build from. All strings are borrowed, each may be NULL: not given. */
struct offer_ask {
	const char *cipher;	  /* --cipher or --ssh-cipher, the last given */
	const char *ssh_cipher;	  /* -c or -o Ciphers= inside --ssh= */
	const char *cfg_ciphers;  /* Ciphers of the ssh configuration */
	const char *mac;	  /* --mac */
	const char *ssh_mac;	  /* -m or -o MACs= inside --ssh= */
	const char *cfg_macs;	  /* MACs of the ssh configuration */
	const char *const *allow; /* --allow-cipher, each may be a list */
	size_t nallow;
	enum hw here;  /* AES instructions of this host: cpu_aes() */
	enum hw there; /* of the other one; HW_UNKNOWN before it has told */
	/* Whether the SSH library can do this cipher or MAC; must not be NULL.
	 * Names come from the table alone. */
	bool (*lib_has)(const char *name, void *arg);
	void *lib_arg; /* borrowed, handed to lib_has */
};

struct offer {
	char *ciphers_out; /* client to server; owned, never empty */
	char *ciphers_in;  /* server to client */
	char *macs_out;
	char *macs_in;
	enum offer_by ciphers_by;
	enum offer_by macs_by;
	char **warnings; /* owned; one sentence each, for log_warn */
	size_t nwarnings;
};

/* Build the offer. `o` is overwritten; the caller ends it with offer_fini, on
 * error as well (the warnings may be there). 0; E_USAGE where an option names
 * what cannot be or leaves nothing, E_CONFIG where the configuration leaves
 * nothing, E_LIMIT, E_NOMEM. Does not block. */
int offer_build(const struct offer_ask *ask, struct offer *o, struct err *e);

/* Free. Zero-initialised is allowed. Also for cleanup(). */
void offer_fini(struct offer *o);

/* "default", "hardware", "ssh configuration", "ssh option", "option", "probe".
 */
const char *offer_by_name(enum offer_by by);

/* Why a name is or is not in our offer. */
enum offer_verdict {
	OFFER_YES,	   /* we offer it */
	OFFER_NOT_LISTED,  /* we could, but the user's list leaves it out */
	OFFER_NEEDS_ALLOW, /* we could, with --allow-cipher */
	OFFER_NO_LIBRARY,  /* allowed, but the library does not have it */
	OFFER_REMOVED,	   /* insecure and gone */
	OFFER_UNKNOWN,	   /* not in the table */
};

/* Judge one name against `ours`, a list of the same kind built from `ask`. A
 * phrase that says why goes into `why` (may be NULL with 0; "" for
 * OFFER_YES); foreign bytes in it are escaped. */
enum offer_verdict offer_judge(const struct offer_ask *ask, enum alg_kind kind,
			       const char *ours, const char *name, char *why,
			       size_t whylen);

/* A negotiation that found nothing in common: what was negotiated. */
enum offer_method {
	OFFER_CIPHER_OUT,
	OFFER_CIPHER_IN,
	OFFER_MAC_OUT,
	OFFER_MAC_IN,
	OFFER_KEX,	/* key exchange: no advice, both lists only */
	OFFER_HOST_KEY, /* likewise */
};

/* The explanation for a person: both lists, which side lacks what, and the
 * option that would widen ours (or that none would). `theirs` may be anything
 * a server sent; it is escaped and cut at NAMELIST_MAX names. Returns a heap
 * string of lines with \n between them and none at the end, which the caller
 * frees; NULL with E_NOMEM. */
char *offer_explain_no_match(const struct offer_ask *ask,
			     enum offer_method method, const char *ours,
			     const char *theirs, struct err *e);

#endif
