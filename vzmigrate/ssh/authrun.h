/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * authrun: the state of one authentication and of what it remembers; inside
 * of auth.c and authtry.c.
 */
#ifndef SSH_AUTHRUN_H
#define SSH_AUTHRUN_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "ssh/auth.h"
#include "ssh/authkey.h"
#include "ssh/keyagent.h"
#include "ssh/sshlist.h"

#define AUTHRUN_STEPS_MAX 8 /* methods a server may want in a row */
#define AUTHRUN_NOTES_MAX 1200

enum authrun_kind { BY_NONE, BY_KEY, BY_AGENT, BY_PASSWORD, BY_KBDINT };

/* One method that worked. */
struct authrun_step {
	enum authrun_kind kind;
	ssh_key key;	       /* BY_KEY: private */
	ssh_key cert;	       /* BY_KEY: its certificate, or NULL */
	uint8_t *shown, *real; /* BY_AGENT */
	size_t shown_len, real_len;
	char *agent_path;
	struct sshlist answers; /* BY_PASSWORD: one; BY_KBDINT: all */
};

struct auth {
	pthread_mutex_t lock;
	int refs;
	struct authrun_step steps[AUTHRUN_STEPS_MAX];
	size_t n;
	char text[512];
};

/* One authentication under way. */
struct authrun {
	const struct auth_params *p;
	struct auth *a;
	struct authkeys keys;
	bool collected;			/* keys are there */
	bool *used;			/* keys->n of them: tried already */
	int tried;			/* keys the server refused */
	bool secret_put;		/* a password was asked for */
	struct keyagent_filter *filter; /* or NULL */
	struct buf notes;		/* why things failed, "; " between */
};

/* Free and wipe; the step is empty then. */
void authrun_step_fini(struct authrun_step *s);

/* Why something failed, for the final error. */
void authrun_note(struct authrun *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Remember what worked; `s` is taken over. E_AUTH where it is too much. */
int authrun_remember(struct authrun *r, struct authrun_step *s,
		     const char *method, const char *what, struct err *e);

#endif
