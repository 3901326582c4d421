/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * auth: which method, which key, in which order, and what is remembered.
 * State: struct auth, counted and read-only once auth_run returned; `lock`
 * guards the count and the copying of its keys.
 */
#include "ssh/auth.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/authkey.h"
#include "ssh/authstep.h"
#include "ssh/keyagent.h"
#include "ssh/knownhosts.h"

#define STEPS_MAX 8 /* methods a server may want one after another */
#define NOTES_MAX 1200
#define SECRET_MAX 1024

enum kind { BY_NONE, BY_KEY, BY_AGENT, BY_PASSWORD, BY_KBDINT };

/* One method that worked. */
struct step {
	enum kind kind;
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
	struct step steps[STEPS_MAX];
	size_t n;
	char text[512];
};

/* One authentication under way. */
struct run {
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

static void
step_fini(struct step *s)
{
	ssh_key_free(s->key);
	ssh_key_free(s->cert);
	free(s->shown);
	free(s->real);
	free(s->agent_path);
	for (size_t i = 0; i < s->answers.n; i++) {
		explicit_bzero(s->answers.v[i], strlen(s->answers.v[i]));
	}
	sshlist_fini(&s->answers);
	memset(s, 0, sizeof(*s));
}

struct auth *
auth_ref(struct auth *a)
{
	pthread_mutex_lock(&a->lock);
	a->refs++;
	pthread_mutex_unlock(&a->lock);
	return a;
}

void
auth_unref(struct auth *a)
{
	int left;

	if (!a) {
		return;
	}
	pthread_mutex_lock(&a->lock);
	left = --a->refs;
	pthread_mutex_unlock(&a->lock);
	if (left > 0) {
		return;
	}
	for (size_t i = 0; i < a->n; i++) {
		step_fini(&a->steps[i]);
	}
	pthread_mutex_destroy(&a->lock);
	free(a);
}

const char *
auth_text(const struct auth *a)
{
	return a->text;
}

static void note(struct run *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void
note(struct run *r, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_debug("%s", text);
	/* What no longer fits is in the log. */
	buf_printf(&r->notes, NULL, "%s%s", r->notes.len ? "; " : "", text);
}

/* Remember what worked; `s` is taken over. */
static int
remember(struct run *r, struct step *s, const char *method, const char *what,
	 struct err *e)
{
	struct auth *a = r->a;
	size_t len = strlen(a->text);

	if (a->n >= STEPS_MAX) {
		step_fini(s);
		return err_set(e, E_AUTH,
			       "the server wants more than %d "
			       "methods",
			       STEPS_MAX);
	}
	a->steps[a->n++] = *s;
	memset(s, 0, sizeof(*s));
	snprintf(a->text + len, sizeof(a->text) - len, "%s%s%s%s",
		 len ? ", then " : "", method, *what ? " " : "", what);
	return 0;
}

/* For the passphrase of one key. */
struct passphrase {
	struct run *r;
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
file_is_private(struct run *r, const char *file)
{
	struct stat st;

	if (stat(file, &st) < 0) {
		note(r, "%s: %s", file, strerror(errno));
		return false;
	}
	if (st.st_uid == getuid() && (st.st_mode & 077)) {
		log_warn("the key %s can be read by others and is not used",
			 file);
		note(r, "%s: can be read by others", file);
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
worth_asking(struct run *r, const struct authkey *k, struct err *e)
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
		note(r, "%s: not accepted", k->what);
	}
	return rc < 0 ? rc : rc != AUTHSTEP_DENIED;
}

/* Load a private key file. 1 with *key, 0 not usable (noted), or an error. */
static int
load_key(struct run *r, const struct authkey *k, ssh_key *key, struct err *e)
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
		note(r, "%s: is no private key that libssh can read", k->file);
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
		note(r, "%s: is encrypted, no agent holds it, and %s", k->file,
		     x.e.text);
	} else {
		note(r, "%s: the passphrase is wrong", k->file);
	}
	return 0;
}

static int
add_certificate(struct run *r, const struct authkey *k, struct step *s)
{
	if (ssh_pki_import_cert_file(k->cert, &s->cert) != SSH_OK ||
	    ssh_pki_copy_cert_to_privkey(s->cert, s->key) != SSH_OK) {
		note(r, "%s: does not go with %s", k->cert, k->file);
		return -1;
	}
	return 0;
}

static int
try_file(struct run *r, const struct authkey *k, struct err *e)
{
	struct step s = { .kind = BY_KEY };
	int rc = load_key(r, k, &s.key, e);

	if (rc <= 0) {
		return rc;
	}
	if (k->cert && add_certificate(r, k, &s) < 0) {
		step_fini(&s);
		return AUTHSTEP_DENIED;
	}
	log_debug("trying the key %s", k->what);
	rc = authstep_key(r->p, s.key, e);
	if (rc > 0) {
		int r2 = remember(r, &s, "publickey", k->what, e);

		return r2 < 0 ? r2 : rc;
	}
	step_fini(&s);
	return rc;
}

static int
try_agent(struct run *r, const struct authkey *k, struct err *e)
{
	struct step s = { .kind = BY_AGENT };
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
		step_fini(&s);
		return err_nomem(e);
	}
	memcpy(s.shown, k->blob, k->len);
	memcpy(s.real, k->plain, k->plain_len);
	s.shown_len = k->len;
	s.real_len = k->plain_len;
	if (remember(r, &s, "publickey", k->what, e) < 0) {
		return E_AUTH;
	}
	return rc;
}

/* RequiredRSASize holds for our keys too. */
static bool
too_short(struct run *r, const struct authkey *k)
{
	int bits = k->plain ? knownhosts_rsa_bits(k->plain, k->plain_len) : 0;

	if (bits && r->p->c->required_rsa > bits) {
		note(r, "%s: has %d bits, RequiredRSASize wants %d", k->what,
		     bits, r->p->c->required_rsa);
		return true;
	}
	return false;
}

static int
by_publickey(struct run *r, struct err *e)
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
			note(r, "no key was found, in files or an agent");
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
			note(r, "%s: not accepted", k->what);
		}
	}
	return AUTHSTEP_DENIED;
}

static int
by_password(struct run *r, struct err *e)
{
	struct step s = { .kind = BY_PASSWORD };
	char question[640], secret[SECRET_MAX];
	struct err why = { 0 };
	int rc;

	if (r->secret_put) {
		note(r, "password: it was asked for already");
		return AUTHSTEP_DENIED;
	}
	if (r->p->c->password_prompts == 0) {
		note(r, "password: NumberOfPasswordPrompts is 0");
		return AUTHSTEP_DENIED;
	}
	snprintf(question, sizeof(question),
		 "Password of %s@%s: ", r->p->c->user, r->p->c->alias);
	rc = authstep_ask(r->p, PROMPT_PASSWORD, question, false, secret,
			  sizeof(secret), &why);
	if (rc == E_AUTH) {
		note(r, "password: %s", why.text);
		return AUTHSTEP_DENIED;
	}
	if (rc < 0) {
		return err_set(e, rc, "%s", why.text);
	}
	r->secret_put = true;
	rc = sshlist_add(&s.answers, secret, e);
	if (rc == 0) {
		rc = authstep_password(r->p, secret, e);
	}
	explicit_bzero(secret, sizeof(secret));
	if (rc > 0) {
		int r2 = remember(r, &s, "password", "", e);

		return r2 < 0 ? r2 : rc;
	}
	step_fini(&s);
	if (rc == AUTHSTEP_DENIED) {
		note(r, "password: not accepted");
	}
	return rc;
}

static int
by_kbdint(struct run *r, struct err *e)
{
	struct step s = { .kind = BY_KBDINT };
	struct err why = { 0 };
	int asked = 0, rc;

	if (r->secret_put) {
		note(r, "keyboard-interactive: the password was asked for "
			"already");
		return AUTHSTEP_DENIED;
	}
	if (r->p->c->batch || r->p->c->password_prompts == 0) {
		note(r, "keyboard-interactive: questions are forbidden "
			"(BatchMode or NumberOfPasswordPrompts)");
		return AUTHSTEP_DENIED;
	}
	rc = authstep_kbdint(r->p, false, &s.answers, &asked, &why);
	r->secret_put = r->secret_put || (asked && s.answers.n);
	if (rc > 0) {
		int r2 = remember(r, &s, "keyboard-interactive", "", e);

		return r2 < 0 ? r2 : rc;
	}
	step_fini(&s);
	if (rc == E_AUTH || rc == AUTHSTEP_DENIED) {
		note(r, "keyboard-interactive: %s",
		     rc == E_AUTH ? why.text : "not accepted");
		return AUTHSTEP_DENIED;
	}
	return err_set(e, rc, "%s", why.text);
}

static const struct {
	const char *name;
	int bit;
	int (*run)(struct run *r, struct err *e);
} methods[] = {
	{ "publickey", SSH_AUTH_METHOD_PUBLICKEY, by_publickey },
	{ "keyboard-interactive", SSH_AUTH_METHOD_INTERACTIVE, by_kbdint },
	{ "password", SSH_AUTH_METHOD_PASSWORD, by_password },
};

#define METHODS (sizeof(methods) / sizeof(methods[0]))

static bool
allowed(const struct sshconf *c, int bit)
{
	return bit == SSH_AUTH_METHOD_PUBLICKEY	 ? c->pubkey_auth
	       : bit == SSH_AUTH_METHOD_PASSWORD ? c->password_auth
						 : c->kbdint_auth;
}

/* One round over the methods in order. */
static int
run_methods(struct run *r, int offered, struct err *e)
{
	const char *order = r->p->c->preferred_auth;

	if (!order) {
		order = "publickey,keyboard-interactive,password";
	}
	while (*order) {
		size_t n = strcspn(order, ",");

		for (size_t i = 0; i < METHODS; i++) {
			int rc;

			if (strlen(methods[i].name) != n ||
			    strncmp(methods[i].name, order, n) != 0 ||
			    !(offered & methods[i].bit) ||
			    !allowed(r->p->c, methods[i].bit)) {
				continue;
			}
			rc = methods[i].run(r, e);
			if (rc != AUTHSTEP_DENIED) {
				return rc;
			}
		}
		order += n + (order[n] == ',');
	}
	return AUTHSTEP_DENIED;
}

static void
list_methods(int offered, char *out, size_t len)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < METHODS; i++) {
		if (offered & methods[i].bit) {
			n += (size_t)snprintf(out + n, len - n, "%s%s",
					      n ? ", " : "", methods[i].name);
		}
	}
	if (!n) {
		snprintf(out, len, "none that is known here");
	}
}

static void
show_banner(ssh_session s)
{
	char *banner = ssh_get_issue_banner(s), safe[2048];

	if (banner && *banner) {
		log_info("the server says: %s",
			 escape_bytes(safe, sizeof(safe), banner,
				      strlen(banner)));
	}
	ssh_string_free_char(banner);
}

static int
refused(struct run *r, int offered, struct err *e)
{
	const char *notes = buf_cstr(&r->notes, NULL);
	char list[128];

	list_methods(offered, list, sizeof(list));
	return err_set(e, E_AUTH, "%s does not let %s in (it takes: %s)%s%s",
		       r->p->c->alias, r->p->c->user, list,
		       notes && *notes ? ": " : "", notes ? notes : "");
}

/* The server hung up: mostly since it saw too many keys. */
static int
hung_up(struct run *r, struct err *e)
{
	if (r->tried == 0) {
		return err_wrap(e, "%s", r->p->c->alias);
	}
	return err_recode(e, E_AUTH,
			  "%s hung up after %d keys that it does not accept "
			  "(name the right one with -i and IdentitiesOnly=yes)",
			  r->p->c->alias, r->tried);
}

static int
run_all(struct run *r, struct err *e)
{
	int rc = authstep_none(r->p, e), offered = 0;

	show_banner(r->p->s);
	if (rc == AUTHSTEP_SUCCESS) {
		struct step s = { .kind = BY_NONE };

		return remember(r, &s, "none", "", e);
	}
	for (int round = 0; rc >= 0 && round < STEPS_MAX; round++) {
		offered = ssh_userauth_list(r->p->s, NULL);
		rc = run_methods(r, offered, e);
		if (rc == AUTHSTEP_SUCCESS) {
			return 0;
		}
		if (rc == AUTHSTEP_DENIED) {
			return refused(r, offered, e);
		}
		if (rc == AUTHSTEP_PARTIAL) {
			log_debug("%s: right, and the server wants more",
				  r->a->text);
			r->secret_put = false; /* the next is another one */
		}
	}
	if (rc == E_CLOSED) {
		return hung_up(r, e);
	}
	return rc < 0 ? rc
		      : err_set(e, E_AUTH, "%s wants method after method",
				r->p->c->alias);
}

int
auth_run(const struct auth_params *p, struct auth **out, struct err *e)
{
	struct run r = { .p = p };
	int rc;

	*out = NULL;
	r.a = calloc(1, sizeof(*r.a));
	if (!r.a) {
		return err_nomem(e);
	}
	pthread_mutex_init(&r.a->lock, NULL);
	r.a->refs = 1;
	buf_init(&r.notes, NOTES_MAX);
	rc = run_all(&r, e);
	keyagent_filter_end(r.filter);
	authkey_fini(&r.keys);
	free(r.used);
	buf_fini(&r.notes);
	if (rc < 0) {
		auth_unref(r.a);
		return rc;
	}
	*out = r.a;
	return 0;
}

/* A private copy, since signing may change what a key caches. */
static ssh_key
copy_key(struct auth *a, const struct step *s)
{
	ssh_key key;

	pthread_mutex_lock(&a->lock);
	key = ssh_key_dup(s->key);
	if (key && s->cert &&
	    ssh_pki_copy_cert_to_privkey(s->cert, key) != SSH_OK) {
		ssh_key_free(key);
		key = NULL;
	}
	pthread_mutex_unlock(&a->lock);
	return key;
}

static int
repeat_step(const struct auth_params *p, struct auth *a, struct step *s,
	    struct keyagent_filter **filter, struct err *e)
{
	ssh_key key;
	int rc, asked = 0;

	switch (s->kind) {
	case BY_NONE:
		return AUTHSTEP_SUCCESS;
	case BY_KEY:
		key = copy_key(a, s);
		if (!key) {
			return err_nomem(e);
		}
		rc = authstep_key(p, key, e);
		ssh_key_free(key);
		return rc;
	case BY_AGENT:
		return authstep_agent(p, filter, s->agent_path, s->shown,
				      s->shown_len, s->real, s->real_len, e);
	case BY_PASSWORD:
		return authstep_password(p, s->answers.v[0], e);
	case BY_KBDINT:
		return authstep_kbdint(p, true, &s->answers, &asked, e);
	}
	return E_AUTH;
}

int
auth_again(const struct auth_params *p, struct auth *a, struct err *e)
{
	struct keyagent_filter *filter = NULL;
	int rc = authstep_none(p, e);

	for (size_t i = 0; rc >= 0 && rc != AUTHSTEP_SUCCESS && i < a->n; i++) {
		rc = repeat_step(p, a, &a->steps[i], &filter, e);
	}
	keyagent_filter_end(filter);
	if (rc >= 0 && rc != AUTHSTEP_SUCCESS) {
		return err_set(e, E_AUTH,
			       "%s does not accept a second time what worked "
			       "before (%s)",
			       p->c->alias, a->text);
	}
	return rc < 0 ? rc : 0;
}
