/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kexlog: reads libssh's log. State: the caller's struct kexlog, written by
 * the thread that connects.
 */
#include "ssh/kexlog.h"

#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ssh/algo.h"
#include "ssh/sshlist.h"

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
		if (k->rounds == 2) { /* later ones are of a rekeying */
			p += n + 1;
			p += *p == ' ';
			snprintf(k->lists[i], KEXLOG_LIST_MAX, "%s", p);
			k->lists[i][strcspn(k->lists[i], "\r\n")] = '\0';
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
	size_t n;

	snprintf(out, len, "nothing");
	p = p ? strchr(p, '[') : NULL;
	if (!p) {
		return;
	}
	n = strcspn(++p, "]");
	if (n > 0) {
		snprintf(out, len, "%.*s", (int)n, p);
	}
}

/* The first name of the server's list that this libssh has. */
static void
find_known(const char *list, char *out, size_t len)
{
	out[0] = '\0';
	while (*list) {
		size_t n = strcspn(list, ",");
		char name[128];

		snprintf(name, sizeof(name), "%.*s", (int)n, list);
		if (algo_known(ALGO_CIPHER, name)) {
			snprintf(out, len, "; --allow-cipher=%s would offer it",
				 name);
			return;
		}
		list += n + (list[n] == ',');
	}
}

int
kexlog_explain(const char *text, struct err *e)
{
	static const char sign[] = "no match for method ";
	const char *p = strstr(text, sign);
	char server[900], ours[900], method[64], hint[192] = "";

	if (!p) {
		return 0;
	}
	p += strlen(sign);
	snprintf(method, sizeof(method), "%.*s", (int)strcspn(p, ":"), p);
	bracketed(p, "server [", server, sizeof(server));
	bracketed(p, "client [", ours, sizeof(ours));
	if (strncmp(method, "encryption", 10) == 0) {
		find_known(server, hint, sizeof(hint));
	}
	return err_set(e, E_CONNECT,
		       "no algorithm in common for '%s': the server has %s; "
		       "we offer %s%s",
		       method, server, ours, hint);
}
