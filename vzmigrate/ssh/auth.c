/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * auth: which method in which order, and once more for a further connection.
 * State: struct auth, read-only once auth_run returned; its lock guards the
 * copying of keys.
 */
#include "ssh/auth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/log.h"
#include "ssh/authrun.h"
#include "ssh/authstep.h"
#include "ssh/authtry.h"
#include "ssh/keyagent.h"

#define SECRET_MAX 1024

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
		authrun_step_fini(&a->steps[i]);
	}
	pthread_mutex_destroy(&a->lock);
	free(a);
}

const char *
auth_text(const struct auth *a)
{
	return a->text;
}

static int
by_password(struct authrun *r, struct err *e)
{
	struct authrun_step s = { .kind = BY_PASSWORD };
	char question[640], secret[SECRET_MAX];
	struct err why = { 0 };
	int rc;

	if (r->secret_put) {
		authrun_note(r, "password: it was asked for already");
		return AUTHSTEP_DENIED;
	}
	if (r->p->c->password_prompts == 0) {
		authrun_note(r, "password: NumberOfPasswordPrompts is 0");
		return AUTHSTEP_DENIED;
	}
	snprintf(question, sizeof(question),
		 "Password of %s@%s: ", r->p->c->user, r->p->c->alias);
	rc = authstep_ask(r->p, PROMPT_PASSWORD, question, false, secret,
			  sizeof(secret), &why);
	if (rc == E_AUTH) {
		authrun_note(r, "password: %s", why.text);
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
		int r2 = authrun_remember(r, &s, "password", "", e);

		return r2 < 0 ? r2 : rc;
	}
	authrun_step_fini(&s);
	if (rc == AUTHSTEP_DENIED) {
		authrun_note(r, "password: not accepted");
	}
	return rc;
}

static int
by_kbdint(struct authrun *r, struct err *e)
{
	struct authrun_step s = { .kind = BY_KBDINT };
	struct err why = { 0 };
	int asked = 0, rc;

	if (r->secret_put) {
		authrun_note(r,
			     "keyboard-interactive: the password was asked for "
			     "already");
		return AUTHSTEP_DENIED;
	}
	if (r->p->c->batch || r->p->c->password_prompts == 0) {
		authrun_note(r, "keyboard-interactive: questions are forbidden "
				"(BatchMode or NumberOfPasswordPrompts)");
		return AUTHSTEP_DENIED;
	}
	rc = authstep_kbdint(r->p, false, &s.answers, &asked, &why);
	r->secret_put = r->secret_put || (asked && s.answers.n);
	if (rc > 0) {
		int r2 = authrun_remember(r, &s, "keyboard-interactive", "", e);

		return r2 < 0 ? r2 : rc;
	}
	authrun_step_fini(&s);
	if (rc == E_AUTH || rc == AUTHSTEP_DENIED) {
		authrun_note(r, "keyboard-interactive: %s",
			     rc == E_AUTH ? why.text : "not accepted");
		return AUTHSTEP_DENIED;
	}
	return err_set(e, rc, "%s", why.text);
}

static const struct {
	const char *name;
	int bit;
	int (*run)(struct authrun *r, struct err *e);
} methods[] = {
	{ "publickey", SSH_AUTH_METHOD_PUBLICKEY, authtry_publickey },
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
run_methods(struct authrun *r, int offered, struct err *e)
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
refused(struct authrun *r, int offered, struct err *e)
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
hung_up(struct authrun *r, struct err *e)
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
run_all(struct authrun *r, struct err *e)
{
	int rc = authstep_none(r->p, e), offered = 0;

	show_banner(r->p->s);
	if (rc == AUTHSTEP_SUCCESS) {
		struct authrun_step s = { .kind = BY_NONE };

		return authrun_remember(r, &s, "none", "", e);
	}
	for (int round = 0; rc >= 0 && round < AUTHRUN_STEPS_MAX; round++) {
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
	struct authrun r = { .p = p };
	int rc;

	*out = NULL;
	r.a = calloc(1, sizeof(*r.a));
	if (!r.a) {
		return err_nomem(e);
	}
	pthread_mutex_init(&r.a->lock, NULL);
	r.a->refs = 1;
	buf_init(&r.notes, AUTHRUN_NOTES_MAX);
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
copy_key(struct auth *a, const struct authrun_step *s)
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
repeat_step(const struct auth_params *p, struct auth *a, struct authrun_step *s,
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
