/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * authkey: collects candidates for public key authentication. Input: the
 * configuration, key files, the agent; output: an ordered list, the caller's.
 */
#include "ssh/authkey.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/keyagent.h"
#include "ssh/knownhosts.h"

#define KEY_FILE_MAX (256 * 1024)
#define KEYS_MAX 512
#define CERT_SUFFIX "-cert.pub"
#define PEM_BEGIN "-----BEGIN OPENSSH PRIVATE KEY-----"
#define PEM_END "-----END OPENSSH PRIVATE KEY-----"

/* A read position in a blob. */
struct cursor {
	const uint8_t *p;
	size_t left;
};

static bool
get32(struct cursor *c, uint32_t *n)
{
	if (c->left < 4) {
		return false;
	}
	*n = (uint32_t)c->p[0] << 24 | (uint32_t)c->p[1] << 16 |
	     (uint32_t)c->p[2] << 8 | c->p[3];
	c->p += 4;
	c->left -= 4;
	return true;
}

static bool
get_string(struct cursor *c, const uint8_t **s, size_t *len)
{
	uint32_t n;

	if (!get32(c, &n) || n > c->left) {
		return false;
	}
	*s = c->p;
	*len = n;
	c->p += n;
	c->left -= n;
	return true;
}

static int
copy_blob(const uint8_t *data, size_t len, uint8_t **to, size_t *to_len,
	  struct err *e)
{
	*to = malloc(len ? len : 1);
	if (!*to) {
		return err_nomem(e);
	}
	memcpy(*to, data, len);
	*to_len = len;
	return 0;
}

/* "openssh-key-v1" (PROTOCOL.key of OpenSSH). */
static int
parse_private(const uint8_t *raw, size_t raw_len, uint8_t **blob, size_t *len,
	      bool *encrypted, struct err *e)
{
	static const char magic[] = "openssh-key-v1";
	struct cursor c = { raw, raw_len };
	const uint8_t *cipher, *skip, *pub;
	size_t cipher_len, skip_len, pub_len;
	uint32_t keys;

	if (raw_len < sizeof(magic) || memcmp(raw, magic, sizeof(magic)) != 0) {
		return err_set(e, E_UNSUPPORTED, "not an OpenSSH key");
	}
	c.p += sizeof(magic);
	c.left -= sizeof(magic);
	if (!get_string(&c, &cipher, &cipher_len) ||
	    !get_string(&c, &skip, &skip_len) ||
	    !get_string(&c, &skip, &skip_len) || !get32(&c, &keys) ||
	    keys != 1 || !get_string(&c, &pub, &pub_len)) {
		return err_set(e, E_UNSUPPORTED, "the key file is malformed");
	}
	*encrypted = cipher_len != 4 || memcmp(cipher, "none", 4) != 0;
	return copy_blob(pub, pub_len, blob, len, e);
}

int
authkey_peek(const char *file, uint8_t **blob, size_t *len, bool *encrypted,
	     struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	cleanup(free_ptr) uint8_t *raw = NULL;
	size_t size, to = 0;
	char *begin, *end;
	int n, rc;

	*blob = NULL;
	*len = 0;
	*encrypted = false;
	if (io_read_file(AT_FDCWD, file, KEY_FILE_MAX, &text, &size, e) < 0) {
		return err_recode(e, E_NOT_FOUND, "key");
	}
	begin = strstr(text, PEM_BEGIN);
	end = begin ? strstr(begin, PEM_END) : NULL;
	if (!end) {
		explicit_bzero(text, size);
		return err_set(e, E_UNSUPPORTED, "not an OpenSSH key");
	}
	*end = '\0';
	begin += strlen(PEM_BEGIN);
	for (const char *p = begin; *p; p++) {
		if (!strchr(" \t\r\n", *p)) {
			begin[to++] = *p;
		}
	}
	begin[to] = '\0';
	raw = malloc(to + 1);
	n = raw ? knownhosts_unbase64(begin, raw, to + 1) : -1;
	rc = n < 0 ? err_set(e, E_UNSUPPORTED, "the key file is malformed")
		   : parse_private(raw, (size_t)n, blob, len, encrypted, e);
	explicit_bzero(text, size);
	if (raw) {
		explicit_bzero(raw, to + 1);
	}
	return rc;
}

/* A ".pub" file: type, base64, comment. */
static int
read_public(const char *file, uint8_t **blob, size_t *len, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	cleanup(free_ptr) uint8_t *raw = NULL;
	char *type, *key, *save = NULL, inside[64];
	size_t size;
	int n;

	*blob = NULL;
	*len = 0;
	if (io_read_file(AT_FDCWD, file, KEY_FILE_MAX, &text, &size, e) < 0) {
		return err_recode(e, E_NOT_FOUND, "public key");
	}
	type = strtok_r(text, " \t\r\n", &save);
	key = type ? strtok_r(NULL, " \t\r\n", &save) : NULL;
	raw = key ? malloc(strlen(key) + 1) : NULL;
	n = raw ? knownhosts_unbase64(key, raw, strlen(key)) : -1;
	if (n < 0 || !knownhosts_blob_type(raw, (size_t)n, inside) ||
	    strcmp(inside, type) != 0) {
		return err_set(e, E_UNSUPPORTED, "%s is no public key", file);
	}
	return copy_blob(raw, (size_t)n, blob, len, e);
}

/* How many fields a plain key has behind its type. */
static int
field_count(const char *type)
{
	static const struct {
		const char *type;
		int fields;
	} known[] = {
		{ "ssh-ed25519", 1 },
		{ "ssh-rsa", 2 },
		{ "ecdsa-sha2-nistp256", 2 },
		{ "ecdsa-sha2-nistp384", 2 },
		{ "ecdsa-sha2-nistp521", 2 },
		{ "sk-ssh-ed25519@openssh.com", 2 },
		{ "sk-ecdsa-sha2-nistp256@openssh.com", 3 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(known[i].type, type) == 0) {
			return known[i].fields;
		}
	}
	return 0;
}

/* "ssh-rsa-cert-v01@openssh.com" to "ssh-rsa"; sk types keep their domain.
 * false where it is no certificate. */
static bool
plain_type(char type[64])
{
	char *cert = strstr(type, "-cert-v01@openssh.com");

	if (!cert) {
		return false;
	}
	strcpy(cert, strncmp(type, "sk-", 3) == 0 ? "@openssh.com" : "");
	return true;
}

int
authkey_plain(const uint8_t *cert, size_t len, uint8_t **plain,
	      size_t *plain_len, struct err *e)
{
	struct cursor c = { cert, len };
	char type[64];
	const uint8_t *s, *from;
	size_t n, type_len, body;
	uint8_t *out;
	int fields;

	*plain = NULL;
	if (!knownhosts_blob_type(cert, len, type)) {
		return err_set(e, E_PROTOCOL, "the certificate is malformed");
	}
	if (!plain_type(type)) {
		return copy_blob(cert, len, plain, plain_len, e);
	}
	fields = field_count(type);
	if (!fields || !get_string(&c, &s, &n) || !get_string(&c, &s, &n)) {
		return err_set(e, E_PROTOCOL, "the certificate is malformed");
	}
	from = c.p;
	while (fields--) {
		if (!get_string(&c, &s, &n)) {
			return err_set(e, E_PROTOCOL,
				       "the certificate is malformed");
		}
	}
	body = (size_t)(c.p - from);
	type_len = strlen(type);
	out = malloc(4 + type_len + body);
	if (!out) {
		return err_nomem(e);
	}
	out[0] = out[1] = out[2] = 0;
	out[3] = (uint8_t)type_len;
	memcpy(out + 4, type, type_len);
	memcpy(out + 4 + type_len, from, body);
	*plain = out;
	*plain_len = 4 + type_len + body;
	return 0;
}

static void
key_fini(struct authkey *k)
{
	free(k->file);
	free(k->cert);
	free(k->blob);
	free(k->plain);
	free(k->what);
	*k = (struct authkey){ 0 };
}

void
authkey_fini(struct authkeys *keys)
{
	for (size_t i = 0; i < keys->n; i++) {
		key_fini(&keys->v[i]);
	}
	free(keys->v);
	free(keys->agent_path);
	*keys = (struct authkeys){ 0 };
}

/* Append; `k` is taken over in every case. */
static int
push(struct authkeys *keys, struct authkey *k, struct err *e)
{
	struct authkey *v =
		keys->n < KEYS_MAX
			? realloc(keys->v, (keys->n + 1) * sizeof(*v))
			: NULL;

	if (!v) {
		key_fini(k);
		return keys->n < KEYS_MAX
			       ? err_nomem(e)
			       : err_set(e, E_LIMIT, "too many keys");
	}
	keys->v = v;
	v[keys->n++] = *k;
	*k = (struct authkey){ 0 };
	return 0;
}

static int
fill(struct authkey *k, const char *file, const char *cert, struct err *e)
{
	k->file = file ? strdup(file) : NULL;
	k->cert = cert ? strdup(cert) : NULL;
	k->what = strdup(cert ? cert : file);
	if ((file && !k->file) || (cert && !k->cert) || !k->what) {
		return err_nomem(e);
	}
	return k->blob ? authkey_plain(k->blob, k->len, &k->plain,
				       &k->plain_len, e)
		       : 0;
}

/* An IdentityFile; the private key's own header is believed before a .pub
 * file, which may be stale. */
static int
add_identity(struct authkeys *keys, const char *file, struct err *e)
{
	cleanup(free_ptr) char *pub = io_asprintf(e, "%s.pub", file);
	struct authkey k = { 0 };
	struct err why = { 0 };
	bool encrypted;

	if (!pub) {
		return E_NOMEM;
	}
	if (authkey_peek(file, &k.blob, &k.len, &encrypted, &why) < 0 &&
	    read_public(pub, &k.blob, &k.len, NULL) < 0 &&
	    read_public(file, &k.blob, &k.len, NULL) < 0 &&
	    why.code == E_NOT_FOUND) {
		log_debug("%s", why.text);
		return 0;
	}
	if (fill(&k, file, NULL, e) < 0) {
		key_fini(&k);
		return E_NOMEM;
	}
	return push(keys, &k, e);
}

/* A certificate, with the file of its private key or NULL. */
static int
add_certificate(struct authkeys *keys, const char *cert, const char *file,
		bool said, struct err *e)
{
	struct authkey k = { 0 };
	struct err why = { 0 };

	if (read_public(cert, &k.blob, &k.len, &why) < 0 ||
	    fill(&k, file, cert, &why) < 0) {
		if (said || why.code != E_NOT_FOUND) {
			log_warn("the certificate %s cannot be used: %s", cert,
				 why.text);
		}
		key_fini(&k);
		return 0;
	}
	return push(keys, &k, e);
}

static bool
same(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
	return a && b && a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* CertificateFile: its private key is one of the identities, or the agent's. */
static int
add_certificates(struct authkeys *keys, const struct sshlist *certs,
		 struct err *e)
{
	size_t plain_keys = keys->n;

	for (size_t i = 0; i < certs->n; i++) {
		int rc = add_certificate(keys, certs->v[i], NULL, true, e);
		struct authkey *k =
			keys->n > plain_keys ? &keys->v[keys->n - 1] : NULL;

		if (rc < 0) {
			return rc;
		}
		for (size_t j = 0; k && j < plain_keys && !k->file; j++) {
			const struct authkey *o = &keys->v[j];

			if (same(k->plain, k->plain_len, o->blob, o->len)) {
				k->file = strdup(o->file);
				if (!k->file) {
					return err_nomem(e);
				}
			}
		}
	}
	return 0;
}

static int
add_files(struct authkeys *keys, const struct sshconf *c, struct err *e)
{
	for (size_t i = 0; i < c->identities.n; i++) {
		const char *file = c->identities.v[i];
		size_t before = keys->n;
		int rc = add_identity(keys, file, e);

		if (rc == 0 && keys->n > before && c->certificates.n == 0) {
			cleanup(free_ptr) char *cert =
				io_asprintf(e, "%s" CERT_SUFFIX, file);

			rc = cert ? add_certificate(keys, cert, file, false, e)
				  : E_NOMEM;
		}
		if (rc < 0) {
			return rc;
		}
	}
	return add_certificates(keys, &c->certificates, e);
}

/* A key of the agent that no file names. */
static int
push_agent_key(struct authkeys *keys, const struct keyagent_key *a,
	       struct err *e)
{
	struct authkey k = { .agent = true };
	char comment[256];

	if (copy_blob(a->blob, a->len, &k.blob, &k.len, e) < 0 ||
	    copy_blob(a->blob, a->len, &k.plain, &k.plain_len, e) < 0) {
		key_fini(&k);
		return E_NOMEM;
	}
	/* A certificate in the agent is signed for under its own blob. */
	k.what = io_asprintf(e, "agent key %s",
			     escape_text(comment, sizeof(comment), a->comment));
	if (!k.what) {
		key_fini(&k);
		return E_NOMEM;
	}
	return push(keys, &k, e);
}

/* Merge: see the head of authkey.h. `files` is emptied. */
static int
merge(struct authkeys *out, struct authkeys *files,
      const struct keyagent_keys *agent, bool only, struct err *e)
{
	bool used[KEYAGENT_KEYS_MAX] = { false };
	int rc = 0;

	for (size_t a = 0; rc == 0 && a < agent->n; a++) {
		const struct keyagent_key *k = &agent->v[a];

		for (size_t i = 0; rc == 0 && i < files->n; i++) {
			struct authkey *f = &files->v[i];

			if (!same(f->blob, f->len, k->blob, k->len)) {
				continue;
			}
			used[a] = true;
			free(f->plain);
			f->agent = true;
			rc = copy_blob(k->blob, k->len, &f->plain,
				       &f->plain_len, e);
			if (rc == 0) {
				rc = push(out, f, e);
			}
			break;
		}
	}
	for (size_t a = 0; rc == 0 && a < agent->n && !only; a++) {
		if (!used[a]) {
			rc = push_agent_key(out, &agent->v[a], e);
		}
	}
	for (size_t i = 0; rc == 0 && i < files->n; i++) {
		struct authkey *f = &files->v[i];

		for (size_t a = 0; a < agent->n && f->cert; a++) {
			f->agent = f->agent ||
				   same(f->plain, f->plain_len,
					agent->v[a].blob, agent->v[a].len);
		}
		if (f->what && (f->file || f->agent)) {
			rc = push(out, f, e);
		}
	}
	return rc;
}

int
authkey_collect(const struct sshconf *c, struct authkeys *keys, struct err *e)
{
	const char *path =
		c->identity_agent ? c->identity_agent : getenv("SSH_AUTH_SOCK");
	struct authkeys files = { 0 };
	struct keyagent_keys agent = { NULL, 0 };
	struct err why = { 0 };
	int rc;

	*keys = (struct authkeys){ 0 };
	if (path && *path && strcmp(path, "none") != 0) {
		if (keyagent_list(path, &agent, &why) < 0) {
			log_debug("%s", why.text);
		} else {
			keys->agent_path = strdup(path);
		}
	}
	rc = add_files(&files, c, e);
	if (rc == 0) {
		rc = merge(keys, &files, &agent, c->identities_only, e);
	}
	authkey_fini(&files);
	keyagent_keys_fini(&agent);
	if (rc < 0) {
		authkey_fini(keys);
	}
	return rc;
}
