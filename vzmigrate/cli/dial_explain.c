/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dial_explain: what is said of a connection that came to nothing: which list
 * had nothing in common with the server's, or why no agent answered. Input:
 * what the last attempt left in struct dial; nothing is changed there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "cli/dial_int.h"

/* ---- nothing in common ---- */

/* Our side of a list that had nothing in common with the server's. */
static const char *
our_list(const struct dial *d, const struct kexlog_mismatch *m,
	 enum offer_method *method)
{
	switch (m->list) {
	case KEXLOG_CIPHER_C2S:
		*method = OFFER_CIPHER_OUT;
		return d->offer.ciphers_out;
	case KEXLOG_CIPHER_S2C:
		*method = OFFER_CIPHER_IN;
		return d->offer.ciphers_in;
	case KEXLOG_MAC_C2S:
		*method = OFFER_MAC_OUT;
		return d->offer.macs_out;
	case KEXLOG_MAC_S2C:
		*method = OFFER_MAC_IN;
		return d->offer.macs_in;
	case KEXLOG_KEX:
		*method = OFFER_KEX;
		return m->ours;
	case KEXLOG_HOSTKEY:
		*method = OFFER_HOST_KEY;
		return m->ours;
	default:
		return NULL;
	}
}

/* Both lists, name by name, before the error; it keeps what had nothing in
 * common and, last, what to do. */
void
dial_explain_mismatch(const struct dial *d, struct err *e)
{
	const struct kexlog_mismatch *m = &d->mismatch;
	enum offer_method method;
	const char *ours = *m->ours ? our_list(d, m, &method) : NULL;
	cleanup(free_ptr) char *text =
		ours ? offer_explain_no_match(&d->ask, method, ours, m->theirs,
					      NULL)
		     : NULL;
	char *line, *next;

	if (!text) {
		return; /* it failed otherwise; or `e` has both lists anyway */
	}
	line = strchr(text, '\n');
	if (!line) {
		return;
	}
	*line++ = '\0';
	line += strspn(line, " ");
	err_set(e, E_CONNECT, "%s: %s", d->host, text);
	for (; (next = strchr(line, '\n')); line = next + strspn(next, " ")) {
		*next++ = '\0';
		log_error("%s: %s", d->host, line);
	}
	if (method >= OFFER_KEX) { /* no advice: a list, too */
		log_error("%s: %s", d->host, line);
		return;
	}
	err_set(e, E_CONNECT, "%s: %s; %s", d->host, text, line);
}

/* ---- why no agent answered ---- */

/* The last line of what was said, escaped. */
static const char *
last_line(const struct dial *d, char *out, size_t outlen)
{
	size_t end = d->said_len, from;

	while (end && (d->said[end - 1] == '\n' || d->said[end - 1] == '\r')) {
		end--;
	}
	for (from = end; from && d->said[from - 1] != '\n'; from--) {
	}
	return escape_bytes(out, outlen, d->said + from, end - from);
}

static bool
sudo_said(const struct dial *d, const char *what)
{
	const char *p = d->said;

	while ((p = strstr(p, "sudo: "))) {
		size_t n = strcspn(p, "\n");

		if (memmem(p, n, what, strlen(what))) {
			return true;
		}
		p += n;
	}
	return false;
}

static void
not_installed(const struct dial *d, struct err *e)
{
	err_set(e, E_CONNECT,
		"%s: '%s' is not found there: install vzmigrate on that host "
		"(the same version, so that " DIAL_AGENT
		" is in the PATH of %s), or say where it is with "
		"--agent=COMMAND",
		d->host, d->o->agent ? d->o->agent : DIAL_AGENT, d->conf.user);
}

void
dial_explain(void *arg, struct err *e)
{
	struct dial *d = arg;
	char line[256];

	last_line(d, line, sizeof(line));
	if (d->sudo && d->status == 1 && sudo_said(d, "command not found")) {
		not_installed(d, e);
	} else if (d->sudo && d->status == 127) {
		err_set(e, E_AUTH,
			"%s: %s is not root, and there is no sudo: connect as "
			"root@%s, or say how to start the agent with "
			"--agent=COMMAND",
			d->host, d->conf.user, d->host);
	} else if (d->sudo && d->status > 0 && strstr(d->said, "sudo: ")) {
		err_set(e, E_AUTH,
			"%s: sudo refuses to start " DIAL_AGENT
			" for %s without a password (\"%s\"): allow it in "
			"sudoers with NOPASSWD, or connect as root@%s",
			d->host, d->conf.user, line, d->host);
	} else if (d->status == 127) {
		not_installed(d, e);
	} else if (d->status == 126) {
		err_set(e, E_CONNECT, "%s: '%s' cannot be executed there: %s",
			d->host, d->command, line);
	} else if (*line && e->code != E_VERSION) {
		struct err first = *e;

		err_set(e, first.code, "%.1500s (it said: \"%s\")", first.text,
			line);
	}
}
