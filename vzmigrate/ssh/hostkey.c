/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hostkey: the policy on host keys. Input: known_hosts files, the
 * configuration, the server's key; output: yes or an error that says why.
 */
#include "ssh/hostkey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "ssh/algo.h"

#define LIST_MAX 4096
#define REQUIRED_RSA_DEFAULT 1024 /* OpenSSH 9.2 */

/* The type of key that an algorithm signs with. */
static const char *
type_of(const char *algorithm)
{
	return strncmp(algorithm, "rsa-sha2-", 9) == 0 ? "ssh-rsa" : algorithm;
}

/* The default list in two rounds: types that are recorded, then the rest, as
 * ssh does, so that a host known by one key is recognised. */
static int
order_known_first(struct hostkey *h, const char *list, struct err *e)
{
	struct buf b;
	int rc = 0;

	buf_init(&b, LIST_MAX);
	for (int round = 0; rc == 0 && round < 2; round++) {
		for (const char *p = list; rc == 0 && *p;) {
			size_t n = strcspn(p, ",");
			char name[128];

			snprintf(name, sizeof(name), "%.*s", (int)n, p);
			if (knownhosts_has_type(&h->known, type_of(name)) ==
			    (round == 0)) {
				rc = buf_printf(&b, e, "%s%s", b.len ? "," : "",
						name);
			}
			p += n + (p[n] == ',');
		}
	}
	if (rc == 0) {
		const char *s = buf_cstr(&b, e);

		h->algorithms = s ? strdup(s) : NULL;
		rc = h->algorithms ? 0 : err_nomem(e);
	}
	buf_fini(&b);
	return rc;
}

static int
choose_algorithms(struct hostkey *h, const struct sshconf *c, struct err *e)
{
	const char *def = algo_default(ALGO_HOSTKEY);
	cleanup(free_ptr) char *list = NULL;
	int rc;

	if (c->hostkey_algs && !strchr("+-^", *c->hostkey_algs)) {
		return algo_resolve(ALGO_HOSTKEY, c->hostkey_algs, def,
				    &h->algorithms, e);
	}
	rc = algo_resolve(ALGO_HOSTKEY, c->hostkey_algs ? c->hostkey_algs : def,
			  def, &list, e);
	return rc < 0 ? rc : order_known_first(h, list, e);
}

static int
read_files(struct hostkey *h, const struct sshlist *files, struct err *e)
{
	for (size_t i = 0; i < files->n; i++) {
		int rc = knownhosts_read(&h->known, files->v[i], h->name, e);

		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

int
hostkey_init(struct hostkey *h, const struct sshconf *c, struct err *e)
{
	int rc;

	*h = (struct hostkey){ 0 };
	h->name = c->host_key_alias ? knownhosts_name(c->host_key_alias, 22, e)
				    : knownhosts_name(c->host, c->port, e);
	rc = h->name ? read_files(h, &c->user_known_hosts, e) : E_NOMEM;
	if (rc == 0) {
		rc = read_files(h, &c->global_known_hosts, e);
	}
	if (rc == 0) {
		rc = choose_algorithms(h, c, e);
	}
	if (rc < 0) {
		hostkey_fini(h);
	}
	return rc;
}

void
hostkey_fini(struct hostkey *h)
{
	free(h->name);
	free(h->algorithms);
	knownhosts_fini(&h->known);
	*h = (struct hostkey){ 0 };
}

/* Record a key that was accepted; not being able to is no reason to stop. */
static void
record(const struct hostkey *h, const struct sshconf *c, const uint8_t *blob,
       size_t len)
{
	struct err e = { 0 };

	if (c->user_known_hosts.n == 0) {
		return;
	}
	if (knownhosts_add(c->user_known_hosts.v[0], h->name,
			   c->hash_known_hosts, blob, len, &e) < 0) {
		log_warn("the host key of %s could not be recorded: %s",
			 h->name, e.text);
	}
}

/* The person decides. */
static int
ask(const struct hostkey *h, const struct sshconf *c,
    const struct prompt *prompt, const uint8_t *blob, size_t len,
    const char *type, const char *print, struct err *e)
{
	char question[1024], answer[256];
	struct err why = { 0 };
	int rc;

	snprintf(question, sizeof(question),
		 "The host key of %s is not known here.\n%s key fingerprint: "
		 "%s\nIs this right? (yes, no, or the fingerprint) ",
		 h->name, type, print);
	rc = c->batch ? E_AUTH
		      : prompt->ask(PROMPT_HOSTKEY, question, true, answer,
				    sizeof(answer), prompt->arg, &why);
	if (rc == E_AUTH) {
		return err_set(
			e, E_HOSTKEY,
			"the host key of %s is not known (%s %s) and "
			"nobody can be asked; connect once with ssh, or "
			"give --ssh='-o StrictHostKeyChecking=accept-new'",
			h->name, type, print);
	}
	if (rc < 0) {
		return err_set(e, rc, "%s", why.text);
	}
	if (strcasecmp(answer, "yes") != 0 && strcmp(answer, print) != 0) {
		return err_set(e, E_HOSTKEY,
			       "the host key of %s (%s) was not accepted",
			       h->name, print);
	}
	record(h, c, blob, len);
	return 0;
}

static int
check_unknown(const struct hostkey *h, const struct sshconf *c,
	      const struct prompt *prompt, const uint8_t *blob, size_t len,
	      const char *type, const char *print, struct err *e)
{
	switch (c->strict) {
	case SSHCONF_YES:
		return err_set(e, E_HOSTKEY,
			       "the host key of %s is not known (%s %s), and "
			       "StrictHostKeyChecking is yes",
			       h->name, type, print);
	case SSHCONF_ASK:
		return ask(h, c, prompt, blob, len, type, print, e);
	case SSHCONF_ACCEPT_NEW:
	case SSHCONF_NO:
		break;
	}
	log_info("recording the new host key of %s: %s %s", h->name, type,
		 print);
	record(h, c, blob, len);
	return 0;
}

static int
check_rsa(const struct sshconf *c, const uint8_t *blob, size_t len,
	  struct err *e)
{
	int bits = knownhosts_rsa_bits(blob, len);
	int need = c->required_rsa ? c->required_rsa : REQUIRED_RSA_DEFAULT;

	return bits && bits < need
		       ? err_set(e, E_HOSTKEY,
				 "the host key has %d bits, RequiredRSASize "
				 "wants %d",
				 bits, need)
		       : 0;
}

/* A key that is not what the files say. */
static int
refuse(const struct hostkey *h, enum knownhosts_verdict v,
       const struct knownhosts_line *l, const char *type, const char *print,
       struct err *e)
{
	char known[KNOWNHOSTS_PRINT_LEN];

	knownhosts_fingerprint(l->blob, l->len, known);
	switch (v) {
	case KNOWNHOSTS_IS_REVOKED:
		return err_set(e, E_HOSTKEY,
			       "the host key of %s (%s %s) is marked as "
			       "revoked in %s line %u (%s)",
			       h->name, type, print, l->file, l->line, known);
	case KNOWNHOSTS_CHANGED:
		return err_set(e, E_HOSTKEY,
			       "the host key of %s has CHANGED: it shows %s "
			       "%s, but %s line %u has %s; either somebody "
			       "listens in, or the host was installed anew: "
			       "then remove that line",
			       h->name, type, print, l->file, l->line, known);
	case KNOWNHOSTS_CA_ONLY:
		return err_set(e, E_HOSTKEY,
			       "only a certificate authority vouches for %s "
			       "(%s line %u), and host certificates cannot be "
			       "checked by libssh; record the key itself (%s "
			       "%s)",
			       h->name, l->file, l->line, type, print);
	default:
		return err_set(
			e, E_HOSTKEY,
			"%s shows a host key of another type than is "
			"known: %s %s, but %s line %u has %s %s; if this "
			"is right, record the new key with ssh",
			h->name, type, print, l->file, l->line, l->type, known);
	}
}

int
hostkey_check(const struct hostkey *h, const struct sshconf *c,
	      const struct prompt *prompt, const uint8_t *blob, size_t len,
	      struct err *e)
{
	const struct knownhosts_line *why;
	char type[64], print[KNOWNHOSTS_PRINT_LEN];
	enum knownhosts_verdict v =
		knownhosts_check(&h->known, blob, len, &why);
	int rc = check_rsa(c, blob, len, e);

	if (!knownhosts_blob_type(blob, len, type)) {
		return err_set(e, E_HOSTKEY, "the host key is malformed");
	}
	knownhosts_fingerprint(blob, len, print);
	if (rc < 0) {
		return rc;
	}
	if (v == KNOWNHOSTS_OK) {
		log_debug("the host key is known: %s %s (%s line %u)", type,
			  print, why->file, why->line);
		return 0;
	}
	if (v == KNOWNHOSTS_UNKNOWN) {
		return check_unknown(h, c, prompt, blob, len, type, print, e);
	}
	return refuse(h, v, why, type, print, e);
}
