/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * algo: libssh's algorithms, found by trying: one name for each call, since in
 * a list libssh drops unknown names silently. No state.
 */
#include "ssh/algo.h"

#include <libssh/libssh.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "ssh/sshlist.h"
#include "ssh/sshline.h"

#define LIST_MAX 8192
#define NAME_MAX_LEN 128

static const enum ssh_options_e option_of[ALGO_KINDS] = {
	[ALGO_KEX] = SSH_OPTIONS_KEY_EXCHANGE,
	[ALGO_HOSTKEY] = SSH_OPTIONS_HOSTKEYS,
	[ALGO_CIPHER] = SSH_OPTIONS_CIPHERS_C_S,
	[ALGO_MAC] = SSH_OPTIONS_HMAC_C_S,
	[ALGO_PUBKEY] = SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES,
};

static const char *const kind_name[ALGO_KINDS] = {
	[ALGO_KEX] = "key exchange",  [ALGO_HOSTKEY] = "host key",
	[ALGO_CIPHER] = "cipher",     [ALGO_MAC] = "MAC",
	[ALGO_PUBKEY] = "public key",
};

static const char *const defaults[ALGO_KINDS] = {
	[ALGO_KEX] = "mlkem768x25519-sha256,sntrup761x25519-sha512,"
		     "sntrup761x25519-sha512@openssh.com,curve25519-sha256,"
		     "curve25519-sha256@libssh.org,ecdh-sha2-nistp256,"
		     "ecdh-sha2-nistp384,ecdh-sha2-nistp521,"
		     "diffie-hellman-group18-sha512,"
		     "diffie-hellman-group16-sha512,"
		     "diffie-hellman-group-exchange-sha256,"
		     "diffie-hellman-group14-sha256",
	[ALGO_HOSTKEY] = "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,"
			 "ecdsa-sha2-nistp521,sk-ssh-ed25519@openssh.com,"
			 "sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,"
			 "rsa-sha2-256",
	[ALGO_CIPHER] = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,"
			"chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,"
			"aes256-ctr",
	[ALGO_MAC] = "hmac-sha2-256-etm@openssh.com,"
		     "hmac-sha2-512-etm@openssh.com,hmac-sha2-256,"
		     "hmac-sha2-512",
	[ALGO_PUBKEY] = "ssh-ed25519-cert-v01@openssh.com,"
			"ecdsa-sha2-nistp256-cert-v01@openssh.com,"
			"ecdsa-sha2-nistp384-cert-v01@openssh.com,"
			"ecdsa-sha2-nistp521-cert-v01@openssh.com,"
			"sk-ssh-ed25519-cert-v01@openssh.com,"
			"sk-ecdsa-sha2-nistp256-cert-v01@openssh.com,"
			"rsa-sha2-512-cert-v01@openssh.com,"
			"rsa-sha2-256-cert-v01@openssh.com,ssh-ed25519,"
			"ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,"
			"ecdsa-sha2-nistp521,sk-ssh-ed25519@openssh.com,"
			"sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,"
			"rsa-sha2-256",
};

bool
algo_known(enum algo_kind kind, const char *name)
{
	ssh_session s = ssh_new();
	bool ok;

	if (!s || strchr(name, ',') || strchr("+-^", name[0])) {
		ssh_free(s);
		return false;
	}
	/* A refusal is logged by libssh; it is no news here. */
	ssh_set_log_level(SSH_LOG_NOLOG);
	ok = ssh_options_set(s, option_of[kind], name) == 0;
	ssh_free(s);
	return ok;
}

const char *
algo_default(enum algo_kind kind)
{
	return defaults[kind];
}

const char *
algo_default_s2c(void)
{
	return "chacha20-poly1305@openssh.com,aes256-ctr,aes192-ctr,"
	       "aes128-ctr,aes256-gcm@openssh.com,aes128-gcm@openssh.com";
}

/* Append the names of `list` that libssh has, that are not there yet and that
 * match none of `without`. */
static int
add_names(enum algo_kind kind, const char *list, const char *without, bool tell,
	  struct buf *b, struct err *e)
{
	while (list && *list) {
		size_t n = strcspn(list, ",");
		char name[NAME_MAX_LEN];
		const char *have = buf_cstr(b, e);
		int rc = 0;

		if (!have) {
			return E_NOMEM;
		}
		if (n > 0 && n < sizeof(name)) {
			memcpy(name, list, n);
			name[n] = '\0';
			if (!algo_known(kind, name)) {
				if (tell) {
					log_debug("this libssh has no %s %s",
						  kind_name[kind], name);
				}
			} else if (!sshlist_has_name(have, name) &&
				   sshline_match_list(without, ',', name,
						      false) != 1) {
				rc = buf_printf(b, e, "%s%s", b->len ? "," : "",
						name);
			}
		}
		if (rc < 0) {
			return rc;
		}
		list += n + (list[n] == ',');
	}
	return 0;
}

int
algo_resolve(enum algo_kind kind, const char *list, const char *def, char **out,
	     struct err *e)
{
	char prefix = *list && strchr("+-^", *list) ? *list : '\0';
	struct buf b;
	int rc = 0;

	buf_init(&b, LIST_MAX);
	list += prefix != '\0';
	if (prefix == '+') {
		rc = add_names(kind, def, "", false, &b, e);
	}
	if (rc == 0 && prefix != '-') {
		rc = add_names(kind, list, "", true, &b, e);
	}
	if (rc == 0 && (prefix == '-' || prefix == '^')) {
		rc = add_names(kind, def, prefix == '-' ? list : "", false, &b,
			       e);
	}
	*out = NULL;
	if (rc == 0 && b.len == 0) {
		rc = err_set(e, E_CONFIG,
			     "this libssh has no %s algorithm of '%s'",
			     kind_name[kind], list);
	}
	if (rc == 0) {
		const char *s = buf_cstr(&b, e);

		*out = s ? strdup(s) : NULL;
		rc = *out ? 0 : err_nomem(e);
	}
	buf_fini(&b);
	return rc;
}
