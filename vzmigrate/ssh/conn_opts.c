/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conn_opts: all that libssh is told before it connects: it parses no
 * configuration and looks into none of the user's files by itself. Input: the
 * resolved configuration and the caller's offers. No state.
 */
#include "ssh/conn_opts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ssh/algo.h"
#include "ssh/sesswait.h"

static int
set_option(ssh_session s, enum ssh_options_e o, const void *value,
	   const char *what, struct err *e)
{
	char text[512];

	if (ssh_options_set(s, o, value) < 0) {
		sesswait_error(s, text, sizeof(text));
		return err_set(e, E_UNSUPPORTED, "libssh refuses %s: %s", what,
			       text);
	}
	return 0;
}

/* A list of the caller: each name must be known, since libssh drops unknown
 * ones silently. */
static int
set_offer(ssh_session s, enum algo_kind kind, enum ssh_options_e o,
	  const char *list, const char *def, const char *what, struct err *e)
{
	cleanup(free_ptr) char *known = NULL;

	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ",");
		char name[128];

		snprintf(name, sizeof(name), "%.*s", (int)n, p);
		if (!algo_known(kind, name)) {
			return err_set(e, E_USAGE, "this libssh has no %s '%s'",
				       what, name);
		}
		p += n + (p[n] == ',');
	}
	if (!list) {
		/* FIPS mode takes some of the defaults away. */
		int rc = algo_resolve(kind, def, "", &known, e);

		if (rc < 0) {
			return rc;
		}
		list = known;
	}
	return set_option(s, o, list, what, e);
}

static int
set_offers(ssh_session s, const struct conn_params *p, struct err *e)
{
	const char *mac = algo_default(ALGO_MAC);
	int rc = set_offer(s, ALGO_CIPHER, SSH_OPTIONS_CIPHERS_C_S,
			   p->ciphers_c2s, algo_default(ALGO_CIPHER), "cipher",
			   e);

	if (rc == 0) {
		rc = set_offer(s, ALGO_CIPHER, SSH_OPTIONS_CIPHERS_S_C,
			       p->ciphers_s2c, algo_default_s2c(), "cipher", e);
	}
	if (rc == 0) {
		rc = set_offer(s, ALGO_MAC, SSH_OPTIONS_HMAC_C_S, p->macs_c2s,
			       mac, "MAC", e);
	}
	if (rc == 0) {
		rc = set_offer(s, ALGO_MAC, SSH_OPTIONS_HMAC_S_C, p->macs_s2c,
			       mac, "MAC", e);
	}
	return rc;
}

static int
set_kex(ssh_session s, const struct sshconf *conf, struct err *e)
{
	const char *def = algo_default(ALGO_KEX);
	cleanup(free_ptr) char *kex = NULL, *pubkey = NULL;
	int rc = algo_resolve(ALGO_KEX, conf->kex ? conf->kex : def, def, &kex,
			      e);

	if (rc == 0) {
		rc = set_option(s, SSH_OPTIONS_KEY_EXCHANGE, kex,
				"KexAlgorithms", e);
	}
	if (rc < 0 || !conf->pubkey_algs) {
		return rc;
	}
	rc = algo_resolve(ALGO_PUBKEY, conf->pubkey_algs,
			  algo_default(ALGO_PUBKEY), &pubkey, e);
	return rc < 0 ? rc
		      : set_option(s, SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES,
				   pubkey, "PubkeyAcceptedAlgorithms", e);
}

static int
set_rekey(ssh_session s, const struct sshconf *conf, struct err *e)
{
	int rc = 0;

	if (conf->rekey_bytes) {
		rc = set_option(s, SSH_OPTIONS_REKEY_DATA, &conf->rekey_bytes,
				"RekeyLimit", e);
	}
	if (rc == 0 && conf->rekey_s) {
		rc = set_option(s, SSH_OPTIONS_REKEY_TIME, &conf->rekey_s,
				"RekeyLimit", e);
	}
	return rc;
}

int
conn_opts_set(ssh_session s, const struct conn_params *p, const char *hostkeys,
	      int fd, int64_t timeout_ms, struct err *e)
{
	const struct sshconf *conf = p->conf;
	long timeout_s = (long)((timeout_ms + 999) / 1000);
	unsigned port = (unsigned)conf->port;
	bool zlib = p->compression || conf->compression;
	int no = 0, yes = 1;
	/* libssh must not look into the user's files by itself: what it reads
	 * there is decided by us. */
	const struct {
		enum ssh_options_e o;
		const void *value;
		const char *what;
	} all[] = {
		{ SSH_OPTIONS_PROCESS_CONFIG, &no, "PROCESS_CONFIG" },
		{ SSH_OPTIONS_HOST, conf->host, "the host name" },
		{ SSH_OPTIONS_PORT, &port, "the port" },
		{ SSH_OPTIONS_USER, conf->user, "the user name" },
		{ SSH_OPTIONS_TIMEOUT, &timeout_s, "the time-out" },
		{ SSH_OPTIONS_STRICTHOSTKEYCHECK, &yes, "host key checks" },
		{ SSH_OPTIONS_KNOWNHOSTS, "/dev/null", "known_hosts" },
		{ SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null", "known_hosts" },
		{ SSH_OPTIONS_HOSTKEYS, hostkeys, "HostKeyAlgorithms" },
		{ SSH_OPTIONS_COMPRESSION, zlib ? "yes" : "no", "Compression" },
		{ SSH_OPTIONS_FD, &fd, "the socket" },
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(all) / sizeof(all[0]); i++) {
		rc = set_option(s, all[i].o, all[i].value, all[i].what, e);
	}
	if (rc == 0) {
		rc = set_offers(s, p, e);
	}
	if (rc == 0) {
		rc = set_kex(s, conf, e);
	}
	return rc < 0 ? rc : set_rekey(s, conf, e);
}
