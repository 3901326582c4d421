/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * authstep: libssh's authentication calls with deadlines. No state.
 */
#include "ssh/authstep.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/keyagent.h"
#include "ssh/sesswait.h"

#define KBDINT_ROUNDS_MAX 10
#define KBDINT_PROMPTS_MAX 32
#define ANSWER_MAX 1024

/* One exchange under way. */
struct exchange {
	struct sesswait w;
	int64_t deadline;
};

static struct exchange
begin(const struct auth_params *p, const char *what)
{
	return (struct exchange){ { p->s, p->timeout_ms, p->stop, what },
				  io_deadline(p->timeout_ms) };
}

/* Repeat a call while libssh says "again". */
#define UNTIL_DONE(x, rc, call, e)                                     \
	do {                                                           \
		int r_ = 0;                                            \
                                                                       \
		while (((rc) = (call)) == SSH_AUTH_AGAIN && r_ == 0) { \
			r_ = sesswait_poll(&(x).w, (x).deadline, (e)); \
		}                                                      \
		if (r_ < 0) {                                          \
			return r_;                                     \
		}                                                      \
	} while (0)

/* What a finished call means. An error on a live connection is one method
 * that could not be used; on a dead one it ends everything. */
static int
outcome(const struct exchange *x, int rc, struct err *e)
{
	char text[512];

	switch (rc) {
	case SSH_AUTH_SUCCESS:
		return AUTHSTEP_SUCCESS;
	case SSH_AUTH_PARTIAL:
		return AUTHSTEP_PARTIAL;
	case SSH_AUTH_DENIED:
		return AUTHSTEP_DENIED;
	default:
		break;
	}
	if (!ssh_is_connected(x->w.s) || ssh_get_fd(x->w.s) < 0 ||
	    ssh_get_error_code(x->w.s) == SSH_FATAL) {
		return sesswait_closed(&x->w, e);
	}
	log_debug("%s: %s", x->w.what,
		  sesswait_error(x->w.s, text, sizeof(text)));
	return AUTHSTEP_DENIED;
}

int
authstep_none(const struct auth_params *p, struct err *e)
{
	struct exchange x = begin(p, "authentication");
	int rc;

	UNTIL_DONE(x, rc, ssh_userauth_none(p->s, NULL), e);
	return outcome(&x, rc, e);
}

int
authstep_key(const struct auth_params *p, ssh_key key, struct err *e)
{
	struct exchange x = begin(p, "authentication with a key");
	int rc;

	UNTIL_DONE(x, rc, ssh_userauth_publickey(p->s, NULL, key), e);
	return outcome(&x, rc, e);
}

int
authstep_try(const struct auth_params *p, ssh_key key, struct err *e)
{
	struct exchange x = begin(p, "asking for a key");
	int rc;

	UNTIL_DONE(x, rc, ssh_userauth_try_publickey(p->s, NULL, key), e);
	return outcome(&x, rc, e);
}

static int
with_agent(const struct auth_params *p, struct err *e)
{
	struct exchange x = begin(p, "authentication with the agent");
	int rc;

	UNTIL_DONE(x, rc, ssh_userauth_agent(p->s, NULL), e);
	return outcome(&x, rc, e);
}

static int
start_filter(const struct auth_params *p, const char *path,
	     struct keyagent_filter **filter, struct err *e)
{
	int fd, rc = keyagent_filter_start(path, filter, &fd, e);

	if (rc < 0) {
		return rc;
	}
	if (ssh_set_agent_socket(p->s, fd) != SSH_OK) {
		close(fd);
		return err_set(e, E_UNSUPPORTED, "libssh takes no agent");
	}
	return 0;
}

int
authstep_agent(const struct auth_params *p, struct keyagent_filter **filter,
	       const char *path, const uint8_t *shown, size_t shown_len,
	       const uint8_t *real, size_t real_len, struct err *e)
{
	int rc = *filter ? 0 : start_filter(p, path, filter, e);

	if (rc == 0) {
		rc = keyagent_filter_set(*filter, shown, shown_len, real,
					 real_len, e);
	}
	return rc < 0 ? rc : with_agent(p, e);
}

int
authstep_password(const struct auth_params *p, const char *password,
		  struct err *e)
{
	struct exchange x = begin(p, "authentication with a password");
	int rc;

	UNTIL_DONE(x, rc, ssh_userauth_password(p->s, NULL, password), e);
	return outcome(&x, rc, e);
}

int
authstep_ask(const struct auth_params *p, enum prompt_kind kind,
	     const char *question, bool echo, char *answer, size_t len,
	     struct err *e)
{
	answer[0] = '\0';
	if (p->c->batch) {
		return err_set(e, E_AUTH, "BatchMode forbids questions");
	}
	if (!p->prompt) {
		return err_set(e, E_AUTH, "nobody may be asked in this run");
	}
	return p->prompt->ask(kind, question, echo, answer, len, p->prompt->arg,
			      e);
}

/* Server texts are shown, so they are escaped. */
static void
show(const char *text)
{
	char safe[1024];

	if (text && *text) {
		log_info("the server says: %s",
			 escape_bytes(safe, sizeof(safe), text, strlen(text)));
	}
}

/* One question of the server. */
static int
answer_one(const struct auth_params *p, unsigned i, bool replay,
	   struct sshlist *answers, size_t *next, int *asked, struct err *e)
{
	char echo = 0, safe[512], question[640], answer[ANSWER_MAX];
	const char *text = ssh_userauth_kbdint_getprompt(p->s, i, &echo);
	int rc = 0;

	if (replay) {
		if (*next >= answers->n) {
			return err_set(e, E_AUTH,
				       "the server asks something new");
		}
		rc = ssh_userauth_kbdint_setanswer(p->s, i,
						   answers->v[(*next)++]);
		return rc < 0 ? err_set(e, E_AUTH, "libssh takes no answer")
			      : 0;
	}
	escape_bytes(safe, sizeof(safe), text ? text : "?",
		     text ? strlen(text) : 1);
	snprintf(question, sizeof(question), "%s (%s@%s) ", safe, p->c->user,
		 p->c->alias);
	*asked += !echo;
	rc = authstep_ask(p, PROMPT_KBDINT, question, echo != 0, answer,
			  sizeof(answer), e);
	if (rc == 0) {
		rc = sshlist_add(answers, answer, e);
	}
	if (rc == 0 && ssh_userauth_kbdint_setanswer(p->s, i, answer) < 0) {
		rc = err_set(e, E_AUTH, "libssh takes no answer");
	}
	explicit_bzero(answer, sizeof(answer));
	return rc;
}

int
authstep_kbdint(const struct auth_params *p, bool replay,
		struct sshlist *answers, int *asked, struct err *e)
{
	size_t next = 0;

	for (int round = 0; round < KBDINT_ROUNDS_MAX; round++) {
		struct exchange x = begin(p, "keyboard-interactive");
		int rc, n;

		UNTIL_DONE(x, rc, ssh_userauth_kbdint(p->s, NULL, NULL), e);
		if (rc != SSH_AUTH_INFO) {
			return outcome(&x, rc, e);
		}
		n = ssh_userauth_kbdint_getnprompts(p->s);
		if (n > KBDINT_PROMPTS_MAX) {
			return err_set(e, E_PROTOCOL,
				       "the server asks %d questions at once",
				       n);
		}
		if (!replay) {
			show(ssh_userauth_kbdint_getname(p->s));
			show(ssh_userauth_kbdint_getinstruction(p->s));
		}
		for (int i = 0; i < n; i++) {
			rc = answer_one(p, (unsigned)i, replay, answers, &next,
					asked, e);
			if (rc < 0) {
				return rc;
			}
		}
	}
	return err_set(e, E_PROTOCOL, "the server asks without end");
}
