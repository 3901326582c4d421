/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kexlog: reads libssh's log. State: the caller's struct kexlog, written by
 * the thread that connects.
 */
#include "ssh/kexlog.h"

#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* As libssh names the lists. */
static const char *const names[KEXLOG_LISTS] = {
	[KEXLOG_KEX] = "kex algos",
	[KEXLOG_HOSTKEY] = "server host key algo",
	[KEXLOG_CIPHER_C2S] = "encryption client->server",
	[KEXLOG_CIPHER_S2C] = "encryption server->client",
	[KEXLOG_MAC_C2S] = "mac algo client->server",
	[KEXLOG_MAC_S2C] = "mac algo server->client",
};

void
kexlog_line(struct kexlog *k, const char *function, const char *line)
{
	const char *p = line;

	if (strcmp(function, "ssh_list_kex") != 0) {
		return;
	}
	/* The function's name stands in front of the line in some versions. */
	if (strncmp(p, "ssh_list_kex: ", 14) == 0) {
		p += 14;
	}
	for (int i = 0; i < KEXLOG_LISTS; i++) {
		size_t n = strlen(names[i]);

		if (strncmp(p, names[i], n) != 0 || p[n] != ':') {
			continue;
		}
		if (i == 0) {
			k->rounds++;
		}
		if (k->rounds <= 2) { /* later ones are of a rekeying */
			char *to = k->rounds == 2 ? k->lists[i] : k->ours[i];

			p += n + 1;
			p += *p == ' ';
			snprintf(to, KEXLOG_LIST_MAX, "%s", p);
			to[strcspn(to, "\r\n")] = '\0';
		}
		return;
	}
}

static void
forward(int level, const char *function, const char *line, void *arg)
{
	(void)level;
	if (arg) {
		kexlog_line(arg, function, line);
	}
	log_trace("libssh: %s", line);
}

void
kexlog_begin(struct kexlog *k)
{
	memset(k, 0, sizeof(*k));
	ssh_set_log_callback(forward);
	ssh_set_log_userdata(k);
	ssh_set_log_level(SSH_LOG_FUNCTIONS);
}

void
kexlog_end(void)
{
	ssh_set_log_userdata(NULL);
	ssh_set_log_level(log_wanted(LOGL_TRACE) ? SSH_LOG_PROTOCOL
						 : SSH_LOG_NOLOG);
}

/* The text between '[' behind `word` and ']'. */
static void
bracketed(const char *text, const char *word, char *out, size_t len)
{
	const char *p = strstr(text, word);

	out[0] = '\0';
	p = p ? strchr(p, '[') : NULL;
	if (p) {
		p++;
		snprintf(out, len, "%.*s", (int)strcspn(p, "]"), p);
	}
}

static int
nothing_in_common(const struct kexlog_mismatch *m, const char *what,
		  struct err *e)
{
	return err_set(e, E_CONNECT,
		       "no algorithm in common for '%s': the server has %s; "
		       "we offer %s",
		       what, *m->theirs ? m->theirs : "nothing",
		       *m->ours ? m->ours : "nothing");
}

int
kexlog_explain(const char *text, struct kexlog_mismatch *m, struct err *e)
{
	static const char sign[] = "no match for method ";
	const char *p = strstr(text, sign);
	struct kexlog_mismatch mine;
	char method[64];
	int i;

	if (!p) {
		return 0;
	}
	m = m ? m : &mine;
	p += strlen(sign);
	snprintf(method, sizeof(method), "%.*s", (int)strcspn(p, ":"), p);
	bracketed(p, "server [", m->theirs, sizeof(m->theirs));
	bracketed(p, "client [", m->ours, sizeof(m->ours));
	for (i = 0; i < KEXLOG_LISTS && strcmp(method, names[i]) != 0; i++) {
	}
	m->list = (enum kexlog_list)i;
	return nothing_in_common(m, method, e);
}

/* The first name of `ours` that `theirs` has, too; its length in `*len`. */
static const char *
first_common(const char *ours, const char *theirs, size_t *len)
{
	for (const char *p = ours; *p; p += *len + (p[*len] == ',')) {
		*len = strcspn(p, ",");
		for (const char *q = theirs; *q;) {
			size_t n = strcspn(q, ",");

			if (n == *len && memcmp(p, q, n) == 0) {
				return p;
			}
			q += n + (q[n] == ',');
		}
	}
	return NULL;
}

/* Whether the cipher that would be chosen brings its own MAC, so that the list
 * of MACs does not count. Those names alone have a domain. */
static bool
is_aead(const struct kexlog *k, int mac)
{
	int i = mac == KEXLOG_MAC_C2S ? KEXLOG_CIPHER_C2S : KEXLOG_CIPHER_S2C;
	size_t n;
	const char *p = first_common(k->ours[i], k->lists[i], &n);

	return p && memchr(p, '@', n);
}

int
kexlog_compare(const struct kexlog *k, struct kexlog_mismatch *m, struct err *e)
{
	struct kexlog_mismatch mine;
	size_t n;

	m = m ? m : &mine;
	for (int i = 0; k->rounds >= 2 && i < KEXLOG_LISTS; i++) {
		if (first_common(k->ours[i], k->lists[i], &n) ||
		    (i >= KEXLOG_MAC_C2S && is_aead(k, i))) {
			continue;
		}
		m->list = (enum kexlog_list)i;
		snprintf(m->ours, sizeof(m->ours), "%s", k->ours[i]);
		snprintf(m->theirs, sizeof(m->theirs), "%s", k->lists[i]);
		return nothing_in_common(m, names[i], e);
	}
	return 0;
}
