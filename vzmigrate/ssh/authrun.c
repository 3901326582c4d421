/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * authrun: keeps what worked (struct auth, counted) and what did not (notes).
 */
#include "ssh/authrun.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void
authrun_step_fini(struct authrun_step *s)
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

void
authrun_note(struct authrun *r, const char *fmt, ...)
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
int
authrun_remember(struct authrun *r, struct authrun_step *s, const char *method,
		 const char *what, struct err *e)
{
	struct auth *a = r->a;
	size_t len = strlen(a->text);

	if (a->n >= AUTHRUN_STEPS_MAX) {
		authrun_step_fini(s);
		return err_set(e, E_AUTH,
			       "the server wants more than %d "
			       "methods",
			       AUTHRUN_STEPS_MAX);
	}
	a->steps[a->n++] = *s;
	memset(s, 0, sizeof(*s));
	snprintf(a->text + len, sizeof(a->text) - len, "%s%s%s%s",
		 len ? ", then " : "", method, *what ? " " : "", what);
	return 0;
}
