/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshconf: the user's ssh configuration and command line, resolved for one
 * destination (design.md section 12).
 */
#ifndef SSH_SSHCONF_H
#define SSH_SSHCONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ssh/sshlist.h"
#include "ssh/sshopts.h"
#include "ssh/target.h"

/* StrictHostKeyChecking. "no" and "off" accept an unknown key; a changed or
 * revoked one is refused by all. */
enum sshconf_strict {
	SSHCONF_ASK = 0,    /* ask the person about an unknown key */
	SSHCONF_YES,	    /* refuse an unknown key */
	SSHCONF_ACCEPT_NEW, /* record an unknown key */
	SSHCONF_NO,	    /* the same here: "no" and "off" */
};

/* Zero-initialise; sshconf_fini frees. All strings owned; paths and names
 * have their tokens (~, %h, ${HOME} ...) expanded. */
struct sshconf {
	char *alias; /* the host as the person wrote it */
	char *host;  /* HostName: what is connected to */
	int port;
	char *user;
	int family;	      /* AF_UNSPEC, AF_INET, AF_INET6 */
	char *bind_address;   /* or NULL */
	char *bind_interface; /* or NULL */

	struct sshlist identities;   /* IdentityFile, in order */
	struct sshlist certificates; /* CertificateFile, in order */
	bool identities_said;	     /* the user named them; else defaults */
	bool identities_only;
	char *identity_agent; /* socket; NULL: SSH_AUTH_SOCK; "none" */
	bool pubkey_auth, password_auth, kbdint_auth;
	char *preferred_auth; /* PreferredAuthentications, or NULL */
	int password_prompts; /* NumberOfPasswordPrompts */
	bool batch;	      /* BatchMode: never ask */

	struct sshlist user_known_hosts;
	struct sshlist global_known_hosts;
	char *host_key_alias; /* or NULL */
	enum sshconf_strict strict;
	bool hash_known_hosts; /* hash a name that is added */

	char *proxy_jump;    /* or NULL */
	char *proxy_command; /* expanded, for the shell; or NULL */

	/* What the USER wished, as written (with + - ^), or NULL where nothing
	 * was said. The policy is the caller's. */
	char *ciphers, *macs, *kex, *hostkey_algs, *pubkey_algs;
	bool compression;
	uint64_t rekey_bytes; /* RekeyLimit; 0: the default */
	uint32_t rekey_s;

	int connect_timeout_s; /* 0: not said */
	int connection_attempts;
	int alive_interval_s; /* ServerAliveInterval; 0: not said */
	int alive_count_max;
	char *log_level;  /* as ssh prints it, "INFO" */
	int required_rsa; /* RequiredRSASize in bits; 0: not said */
	bool by_ssh;	  /* resolved by `ssh -G`, not by our own reader */

	char *config_arg; /* -F for a child ssh (ProxyJump); NULL */
	char *home;	  /* the local user's */
};

/*
 * Resolve `t` with `o` into `c`. Runs `ssh -G` (blocks up to 20 s, Match exec
 * may run commands); where there is no such program our own reader of
 * ssh_config (sshfile.h) is used and -v says so. What the configuration demands
 * and we cannot honour (RevokedHostKeys, KnownHostsCommand, VerifyHostKeyDNS
 * ...) is E_CONFIG naming it. 0, E_USAGE, E_CONFIG, E_TIMEOUT, E_NOMEM; on
 * error `c` is empty.
 */
int sshconf_resolve(const struct target *t, const struct sshopts *o,
		    struct sshconf *c, struct err *e);

/*
 * The fields from lines as `ssh -G` prints them (`mine`), against what it
 * prints without any configuration (`plain`): a list of algorithms that
 * differs was the user's wish. The second half of sshconf_resolve, for tests.
 * `plain` NULL: all of `mine` was said. alias must be set in `c`.
 */
int sshconf_parse(struct sshconf *c, const char *mine, const char *plain,
		  struct err *e);

void sshconf_fini(struct sshconf *c);

#endif
