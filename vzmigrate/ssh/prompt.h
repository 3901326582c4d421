/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prompt: questions to a person.
 */
#ifndef SSH_PROMPT_H
#define SSH_PROMPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Kinds of questions. */
enum prompt_kind {
	PROMPT_PASSWORD,   /* the account's password */
	PROMPT_PASSPHRASE, /* of a private key */
	PROMPT_KBDINT,	   /* whatever the server asks */
	PROMPT_HOSTKEY,	   /* is this key right? "yes" or the fingerprint */
};

/*
 * Ask `question` (already safe to show) and put the answer into `answer`
 * (`len` bytes with the NUL). 0; E_AUTH where nobody can be asked; E_CANCELLED
 * for an interrupt or end of input; E_TIMEOUT. Blocks. The caller wipes.
 */
typedef int prompt_ask_fn(enum prompt_kind kind, const char *question,
			  bool echo, char *answer, size_t len, void *arg,
			  struct err *e);

/* Who asks. Read-only once made. */
struct prompt {
	prompt_ask_fn *ask;
	void *arg; /* given to ask; borrowed */
};

/* Asks on /dev/tty; E_AUTH where there is none. Waits up to two minutes. */
extern const struct prompt prompt_tty;

/* Never asks: E_AUTH. */
extern const struct prompt prompt_none;

#endif
