/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conn: one authenticated SSH connection with at most one remote command.
 *
 * A connection and its channel belong to one thread at a time. Different
 * connections may run in different threads.
 */
#ifndef SSH_CONN_H
#define SSH_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytechan.h"
#include "base/err.h"
#include "ssh/kexlog.h"
#include "ssh/prompt.h"
#include "ssh/sshconf.h"

struct conn;

/*
 * How to connect. Zero-initialise, then set. All pointers are borrowed for the
 * call; `conf` and `prompt` until conn_open returns.
 */
struct conn_params {
	const struct sshconf *conf;
	const struct prompt *prompt; /* NULL: prompt_none */
	/* Offers, comma-separated, best first; NULL: a safe built-in list
	 * without CBC and 3DES. c2s is what we send, s2c what we receive. Names
	 * that libssh has not are E_USAGE. */
	const char *ciphers_c2s, *ciphers_s2c;
	const char *macs_c2s, *macs_s2c;
	bool compression;   /* zlib, both directions */
	int64_t timeout_ms; /* each wait for the peer; 0: ConnectTimeout, or
			       30 s */
	/* Silence of the peer after which the channel gives up; it is asked for
	 * a sign of life every third of it. 0: from ServerAlive*, or 60 s. */
	int64_t silence_ms;
	const int *stop; /* set by a signal: give up soon; or NULL */
	/* Where to tell which lists had nothing in common; or NULL. Its `ours`
	 * is "" after any other failure. */
	struct kexlog_mismatch *mismatch;
};

/* What is known of a connection; borrowed from it until conn_close. */
struct conn_info {
	const char *cipher_c2s, *cipher_s2c; /* negotiated */
	const char *mac_c2s, *mac_s2c;	     /* "aead-gcm", "aead-poly1305" */
	const char *kex;
	const char *banner; /* the server's version line, escaped */
	const char *hostkey_type;
	const char *hostkey_sha256; /* "SHA256:..." */
	const char *peer;	    /* numeric address, or "" with a proxy */
	int peer_port;
	bool proxy;
	const char *auth; /* "publickey /root/.ssh/id_ed25519" ... */
	/* The server's own lists, cut at 1 KB by libssh, "" where unknown. */
	const char *srv_ciphers_c2s, *srv_ciphers_s2c;
	const char *srv_macs_c2s, *srv_macs_s2c;
	const char *srv_kex, *srv_hostkeys;
	bool strict_kex; /* the server has the Terrapin counter-measure */
};

/*
 * Connect, check the host key, authenticate. 0 with `*out`, or
 * E_CONNECT (no address answered; no common algorithm: both lists are in the
 * text), E_TIMEOUT, E_CLOSED, E_HOSTKEY, E_AUTH, E_CANCELLED, E_USAGE,
 * E_CONFIG, E_NOMEM. Blocks; each wait has a deadline.
 */
int conn_open(const struct conn_params *p, struct conn **out, struct err *e);

/*
 * A further connection to the address `first` reached: the same host key is
 * required and the credential that worked is used again; never asks. `more` is
 * as for conn_open, its prompt ignored. `first` is only read, so several
 * threads may do this at once while it lives. Where the server limits
 * connections (MaxStartups) it is tried again with growing, jittered pauses
 * within timeout_ms.
 */
int conn_open_more(const struct conn *first, const struct conn_params *more,
		   struct conn **out, struct err *e);

/* Borrowed. */
const struct conn_info *conn_get_info(const struct conn *c);

/*
 * Start `command` (the remote user's shell reads it: quote) and give the
 * channel to it. One command for each connection. The caller sets on_data,
 * on_stderr and arg before its first call; what comes earlier is kept (up to
 * 1 MiB). bytechan_free closes the channel; it must precede conn_close.
 */
int conn_exec(struct conn *c, const char *command, struct bytechan **out,
	      struct err *e);

/* From here on conn_params.stop does not end the channel's waits; how they are
 * ended then is its user's matter. Any thread. */
void conn_unstop(struct bytechan *c);

/* How the remote command of a channel made by conn_exec ended, once service
 * said E_CLOSED. 0 and `*status` (exit status) or `*sig` (its name, without
 * SIG; else ""); E_CLOSED where it is not known. Waits up to 2 s. */
int conn_exit_status(struct bytechan *c, int *status, char sig[16],
		     struct err *e);

/* Whether this libssh has the algorithm: method is 'c' cipher, 'm' MAC. */
bool conn_has_algorithm(char method, const char *name);

/* The built-in offers used for NULL. */
const char *conn_default_ciphers(bool c2s);
const char *conn_default_macs(void);

/* Say goodbye, free, end the proxy child. NULL is allowed. Blocks up to
 * 2 s for a proxy. */
void conn_close(struct conn *c);

#endif
