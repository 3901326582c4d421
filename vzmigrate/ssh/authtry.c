/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * authtry: public key authentication, one candidate after the other. State:
 * struct authrun.
 */
#include "ssh/authtry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "ssh/authstep.h"
#include "ssh/knownhosts.h"

/* For the passphrase of one key. */
struct passphrase {
	struct authrun *r;
	const char *file;
	bool may_ask;
	bool wanted; /* the key turned out to be encrypted */
	struct err e;
};

/* libssh's callback. */
static int
give_passphrase(const char *text, char *to, size_t len, int echo, int verify,
		void *arg)
{
	struct passphrase *x = arg;
	char question[512], file[400];

	(void)text;
	(void)echo;
	(void)verify;
	if (x->wanted || !x->may_ask) {
		x->wanted = true;
		return -1;
	}
	x->wanted = true;
	snprintf(question, sizeof(question), "Passphrase of the key %s: ",
		 escape_text(file, sizeof(file), x->file));
	return authstep_ask(x->r->p, PROMPT_PASSPHRASE, question, false, to,
			    len, &x->e);
}

/* As ssh: a private key that others can read is not used. */
static bool
file_is_private(struct authrun *r, const char *file)
{
	struct stat st;

	if (stat(file, &st) < 0) {
		authrun_note(r, "%s: %s", file, strerror(errno));
		return false;
	}
	if (st.st_uid == getuid() && (st.st_mode & 077)) {
		log_warn("the key %s can be read by others and is not used",
			 file);
		authrun_note(r, "%s: can be read by others", file);
		return false;
	}
	return true;
}

static ssh_key
public_key(const uint8_t *blob, size_t len)
{
	cleanup(free_ptr) char *b64 = knownhosts_base64(blob, len, NULL);
	char type[64];
	ssh_key key = NULL;

	if (!b64 || !knownhosts_blob_type(blob, len, type) ||
	    ssh_pki_import_pubkey_base64(b64, ssh_key_type_from_name(type),
					 &key) != SSH_OK) {
		return NULL;
	}
	return key;
}

/* An encrypted key: is it worth a question? 1 yes, 0 no, or an error. */
static int
worth_asking(struct authrun *r, const struct authkey *k, struct err *e)
{
	ssh_key pub;
	int rc;

	if (!k->plain) {
		return 1; /* its public half is not known */
	}
	pub = public_key(k->plain, k->plain_len);
	if (!pub) {
		return 1;
	}
	rc = authstep_try(r->p, pub, e);
	ssh_key_free(pub);
	if (rc == AUTHSTEP_DENIED) {
		r->tried++;
		authrun_note(r, "%s: not accepted", k->what);
	}
	return rc < 0 ? rc : rc != AUTHSTEP_DENIED;
}

/* Load a private key file. 1 with *key, 0 not usable (noted), or an error. */
static int
load_key(struct authrun *r, const struct authkey *k, ssh_key *key,
	 struct err *e)
{
	struct passphrase x = { .r = r, .file = k->file };
	int rc;

	if (!file_is_private(r, k->file)) {
		return 0;
	}
	rc = ssh_pki_import_privkey_file(k->file, NULL, give_passphrase, &x,
					 key);
	if (rc == SSH_OK) {
		return 1;
	}
	if (!x.wanted) {
		authrun_note(r, "%s: is no private key that libssh can read",
			     k->file);
		return 0;
	}
	rc = k->cert ? 1 : worth_asking(r, k, e);
	if (rc <= 0) {
		return rc;
	}
	x.wanted = false;
	x.may_ask = true;
	rc = ssh_pki_import_privkey_file(k->file, NULL, give_passphrase, &x,
					 key);
	if (rc == SSH_OK) {
		return 1;
	}
	if (x.e.code == E_CANCELLED || x.e.code == E_TIMEOUT) {
		*e = x.e;
		return x.e.code;
	}
	if (x.e.code) {
		authrun_note(r, "%s: is encrypted, no agent holds it, and %s",
			     k->file, x.e.text);
	} else {
		authrun_note(r, "%s: the passphrase is wrong", k->file);
	}
	return 0;
}

static int
add_certificate(struct authrun *r, const struct authkey *k,
		struct authrun_step *s)
{
	if (ssh_pki_import_cert_file(k->cert, &s->cert) != SSH_OK ||
	    ssh_pki_copy_cert_to_privkey(s->cert, s->key) != SSH_OK) {
		authrun_note(r, "%s: does not go with %s", k->cert, k->file);
		return -1;
	}
	return 0;
}

static int
try_file(struct authrun *r, const struct authkey *k, struct err *e)
{
	struct authrun_step s = { .kind = BY_KEY };
	int rc = load_key(r, k, &s.key, e);

	if (rc <= 0) {
		return rc;
	}
	if (k->cert && add_certificate(r, k, &s) < 0) {
		authrun_step_fini(&s);
		return AUTHSTEP_DENIED;
	}
	log_debug("trying the key %s", k->what);
	rc = authstep_key(r->p, s.key, e);
	if (rc > 0) {
		int r2 = authrun_remember(r, &s, "publickey", k->what, e);

		return r2 < 0 ? r2 : rc;
	}
	authrun_step_fini(&s);
	return rc;
}

static int
try_agent(struct authrun *r, const struct authkey *k, struct err *e)
{
	struct authrun_step s = { .kind = BY_AGENT };
	int rc;

	log_debug("trying the %s", k->what);
	rc = authstep_agent(r->p, &r->filter, r->keys.agent_path, k->blob,
			    k->len, k->plain, k->plain_len, e);
	if (rc <= 0) {
		return rc;
	}
	s.agent_path = strdup(r->keys.agent_path);
	s.shown = malloc(k->len);
	s.real = malloc(k->plain_len);
	if (!s.agent_path || !s.shown || !s.real) {
		authrun_step_fini(&s);
		return err_nomem(e);
	}
	memcpy(s.shown, k->blob, k->len);
	memcpy(s.real, k->plain, k->plain_len);
	s.shown_len = k->len;
	s.real_len = k->plain_len;
	if (authrun_remember(r, &s, "publickey", k->what, e) < 0) {
		return E_AUTH;
	}
	return rc;
}

/* RequiredRSASize holds for our keys too. */
static bool
too_short(struct authrun *r, const struct authkey *k)
{
	int bits = k->plain ? knownhosts_rsa_bits(k->plain, k->plain_len) : 0;

	if (bits && r->p->c->required_rsa > bits) {
		authrun_note(r, "%s: has %d bits, RequiredRSASize wants %d",
			     k->what, bits, r->p->c->required_rsa);
		return true;
	}
	return false;
}

int
authtry_publickey(struct authrun *r, struct err *e)
{
	int rc;

	if (!r->collected) {
		rc = authkey_collect(r->p->c, &r->keys, e);
		if (rc < 0) {
			return rc;
		}
		r->collected = true;
		r->used = calloc(r->keys.n + 1, sizeof(*r->used));
		if (!r->used) {
			return err_nomem(e);
		}
		if (r->keys.n == 0) {
			authrun_note(r,
				     "no key was found, in files or an agent");
		}
	}
	for (size_t i = 0; i < r->keys.n; i++) {
		const struct authkey *k = &r->keys.v[i];
		size_t notes = r->notes.len;

		if (r->used[i] || too_short(r, k)) {
			continue;
		}
		r->used[i] = true;
		rc = k->agent ? try_agent(r, k, e) : try_file(r, k, e);
		if (rc != AUTHSTEP_DENIED) {
			return rc;
		}
		if (r->notes.len == notes) {
			r->tried++;
			authrun_note(r, "%s: not accepted", k->what);
		}
	}
	return AUTHSTEP_DENIED;
}
