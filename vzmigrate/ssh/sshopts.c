/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshopts: the options of the command line that concern SSH. Input: our own
 * options and the string of --ssh; output: struct sshopts, the caller's.
 */
#include "ssh/sshopts.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"

/* What becomes of an -o. */
enum fate {
	HONOUR = 1, /* part of the resolution */
	RECORD,	    /* Ciphers, MACs: kept as written */
	HARMLESS,   /* changes nothing for us; with a value only that one */
};

/* `only`: the values that change nothing, separated by blanks; NULL: any. */
static const struct rule {
	const char *key;
	enum fate fate;
	const char *only;
} rules[] = {
	{ "AddKeysToAgent", HARMLESS, "no" },
	{ "AddressFamily", HONOUR, NULL },
	{ "BatchMode", HONOUR, NULL },
	{ "BindAddress", HONOUR, NULL },
	{ "BindInterface", HONOUR, NULL },
	{ "CanonicalDomains", HONOUR, NULL },
	{ "CanonicalizeFallbackLocal", HONOUR, NULL },
	{ "CanonicalizeHostname", HONOUR, NULL },
	{ "CanonicalizeMaxDots", HONOUR, NULL },
	{ "CanonicalizePermittedCNAMEs", HONOUR, NULL },
	{ "CertificateFile", HONOUR, NULL },
	{ "ChallengeResponseAuthentication", HONOUR, NULL },
	{ "CheckHostIP", HARMLESS, "no" },
	{ "Ciphers", RECORD, NULL },
	{ "ClearAllForwardings", HARMLESS, NULL },
	{ "Compression", HONOUR, NULL },
	{ "ConnectTimeout", HONOUR, NULL },
	{ "ConnectionAttempts", HONOUR, NULL },
	{ "ControlMaster", HARMLESS, "no" },
	{ "ControlPath", HARMLESS, "none" },
	{ "ControlPersist", HARMLESS, "no" },
	{ "EscapeChar", HARMLESS, NULL },
	{ "ExitOnForwardFailure", HARMLESS, NULL },
	{ "FingerprintHash", HARMLESS, "sha256" },
	{ "ForkAfterAuthentication", HARMLESS, "no" },
	{ "ForwardAgent", HARMLESS, "no" },
	{ "ForwardX11", HARMLESS, "no" },
	{ "ForwardX11Trusted", HARMLESS, NULL },
	{ "GSSAPIAuthentication", HARMLESS, "no" },
	{ "GSSAPIDelegateCredentials", HARMLESS, "no" },
	{ "GatewayPorts", HARMLESS, "no" },
	{ "GlobalKnownHostsFile", HONOUR, NULL },
	{ "HashKnownHosts", HONOUR, NULL },
	{ "HostKeyAlgorithms", HONOUR, NULL },
	{ "HostKeyAlias", HONOUR, NULL },
	{ "HostName", HONOUR, NULL },
	{ "HostbasedAuthentication", HARMLESS, "no" },
	{ "IPQoS", HARMLESS, NULL },
	{ "IdentitiesOnly", HONOUR, NULL },
	{ "IdentityAgent", HONOUR, NULL },
	{ "IdentityFile", HONOUR, NULL },
	{ "IgnoreUnknown", HONOUR, NULL },
	{ "KbdInteractiveAuthentication", HONOUR, NULL },
	{ "KexAlgorithms", HONOUR, NULL },
	{ "KnownHostsCommand", HARMLESS, "none" },
	{ "LogLevel", HONOUR, NULL },
	{ "LogVerbose", HARMLESS, NULL },
	{ "MACs", RECORD, NULL },
	{ "NoHostAuthenticationForLocalhost", HARMLESS, "no" },
	{ "NumberOfPasswordPrompts", HONOUR, NULL },
	{ "PasswordAuthentication", HONOUR, NULL },
	{ "PermitLocalCommand", HARMLESS, "no" },
	{ "Port", HONOUR, NULL },
	{ "PreferredAuthentications", HONOUR, NULL },
	{ "Protocol", HARMLESS, "2" },
	{ "ProxyCommand", HONOUR, NULL },
	{ "ProxyJump", HONOUR, NULL },
	{ "ProxyUseFdpass", HARMLESS, "no" },
	{ "PubkeyAcceptedAlgorithms", HONOUR, NULL },
	{ "PubkeyAcceptedKeyTypes", HONOUR, NULL },
	{ "PubkeyAuthentication", HONOUR, NULL },
	{ "RekeyLimit", HONOUR, NULL },
	{ "RequestTTY", HARMLESS, "no auto" },
	{ "RequiredRSASize", HONOUR, NULL },
	{ "RevokedHostKeys", HARMLESS, "none" },
	{ "SendEnv", HARMLESS, NULL },
	{ "ServerAliveCountMax", HONOUR, NULL },
	{ "ServerAliveInterval", HONOUR, NULL },
	{ "SessionType", HARMLESS, "default" },
	{ "StdinNull", HARMLESS, "no" },
	{ "StrictHostKeyChecking", HONOUR, NULL },
	{ "SyslogFacility", HARMLESS, NULL },
	{ "TCPKeepAlive", HARMLESS, "yes" },
	{ "Tunnel", HARMLESS, "no" },
	{ "UpdateHostKeys", HARMLESS, NULL },
	{ "User", HONOUR, NULL },
	{ "UserKnownHostsFile", HONOUR, NULL },
	{ "VerifyHostKeyDNS", HARMLESS, "no" },
	{ "VisualHostKey", HARMLESS, NULL },
};

static const struct rule *
find_rule(const char *key)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (strcasecmp(rules[i].key, key) == 0) {
			return &rules[i];
		}
	}
	return NULL;
}

static bool
value_allowed(const char *only, const char *value)
{
	size_t len = strlen(value);

	while (only && *only) {
		size_t n = strcspn(only, " ");

		if (n == len && strncasecmp(only, value, n) == 0) {
			return true;
		}
		only += n + (only[n] == ' ');
	}
	return !only;
}

static int
set_string(char **to, const char *text, struct err *e)
{
	char *copy = strdup(text);

	if (!copy) {
		return err_nomem(e);
	}
	free(*to);
	*to = copy;
	return 0;
}

/* As set_string, but what stands there wins. */
static int
set_first(char **to, const char *text, struct err *e)
{
	return *to ? 0 : set_string(to, text, e);
}

static int
parse_port(const char *text, int *port, struct err *e)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || n < 1 ||
	    n > 65535) {
		return err_set(e, E_USAGE, "'%s' is not a port (1 to 65535)",
			       text);
	}
	*port = (int)n;
	return 0;
}

int
sshopts_port(struct sshopts *o, const char *text, struct err *e)
{
	o->own_port = true;
	return parse_port(text, &o->port, e);
}

int
sshopts_identity(struct sshopts *o, const char *file, struct err *e)
{
	if (!*file) {
		return err_set(e, E_USAGE, "the identity file's name is empty");
	}
	return sshlist_add(&o->identities, file, e);
}

int
sshopts_jump(struct sshopts *o, const char *jumps, struct err *e)
{
	o->own_jump = true;
	return set_string(&o->jump, jumps, e);
}

int
sshopts_config(struct sshopts *o, const char *file, struct err *e)
{
	if (!*file) {
		return err_set(e, E_USAGE,
			       "--ssh-config wants a file or \"none\"");
	}
	o->own_config = true;
	return set_string(&o->config, file, e);
}

/* Split "Key=Value" or "Key Value"; `key` is changed in place. */
static int
split_option(char *key, char **value, struct err *e)
{
	size_t n = strcspn(key, "= \t");
	char *v = key + n;

	v += strspn(v, " \t");
	v += *v == '=';
	v += strspn(v, " \t");
	if (!n || !*v) {
		return err_set(e, E_USAGE, "-o wants Key=Value, not '%s'", key);
	}
	key[n] = '\0';
	*value = v;
	return 0;
}

int
sshopts_option(struct sshopts *o, const char *text, struct err *e)
{
	cleanup(free_ptr) char *key = NULL, *both = NULL;
	const struct rule *r;
	char *value = NULL;
	int rc;

	text += strspn(text, " \t");
	key = strdup(text);
	if (!key) {
		return err_nomem(e);
	}
	if (strpbrk(key, "\r\n")) {
		return err_set(e, E_USAGE, "-o '%s' has a line break", text);
	}
	rc = split_option(key, &value, e);
	if (rc < 0) {
		return rc;
	}
	r = find_rule(key);
	if (!r || (r->fate == HARMLESS && !value_allowed(r->only, value))) {
		return err_set(e, E_USAGE,
			       "the ssh option %s=%s cannot be honoured here",
			       r ? r->key : key, value);
	}
	if (r->fate == HARMLESS) {
		log_debug("ssh option %s=%s changes nothing here", r->key,
			  value);
		return 0;
	}
	if (r->fate == RECORD) {
		return set_first(r->key[0] == 'C' ? &o->ciphers : &o->macs,
				 value, e);
	}
	both = io_asprintf(e, "%s=%s", r->key, value);
	return both ? sshlist_add(&o->options, both, e) : E_NOMEM;
}

/* One character of a double-quoted or bare word after a backslash. */
static bool
keeps_backslash(bool quoted, char next)
{
	return quoted && !strchr("\"\\$`", next);
}

/* Take one word at *p into `word` (large enough). */
static int
take_word(const char **p, char *word, struct err *e)
{
	const char *s = *p;
	char quote = 0;

	for (; *s && (quote || !isspace((unsigned char)*s)); s++) {
		if (quote == '\'' && *s != '\'') {
			*word++ = *s;
		} else if (*s == '\\' && s[1] && quote != '\'') {
			if (keeps_backslash(quote == '"', s[1])) {
				*word++ = *s;
			}
			*word++ = *++s;
		} else if (*s == '\\' && quote != '\'') {
			return err_set(e, E_USAGE, "a backslash ends '%s'", *p);
		} else if (quote && *s == quote) {
			quote = 0;
		} else if (!quote && (*s == '\'' || *s == '"')) {
			quote = *s;
		} else {
			*word++ = *s;
		}
	}
	if (quote) {
		return err_set(e, E_USAGE, "a quote is not closed in '%s'", *p);
	}
	*word = '\0';
	*p = s;
	return 0;
}

int
sshopts_split(const char *text, struct sshlist *words, struct err *e)
{
	cleanup(free_ptr) char *word = malloc(strlen(text) + 1);

	if (!word) {
		return err_nomem(e);
	}
	for (;;) {
		int rc;

		while (isspace((unsigned char)*text)) {
			text++;
		}
		if (!*text) {
			return 0;
		}
		rc = take_word(&text, word, e);
		if (rc == 0) {
			rc = sshlist_add(words, word, e);
		}
		if (rc < 0) {
			return rc;
		}
	}
}

/* An option with an argument. */
static int
apply_arg(struct sshopts *o, char opt, const char *arg, struct err *e)
{
	int dummy;

	switch (opt) {
	case 'p':
		return parse_port(arg, o->port ? &dummy : &o->port, e);
	case 'i':
		return sshopts_identity(o, arg, e);
	case 'l':
		return set_first(&o->user, arg, e);
	case 'o':
		return sshopts_option(o, arg, e);
	case 'c':
		return set_string(&o->ciphers, arg, e);
	case 'm':
		return set_string(&o->macs, arg, e);
	case 'F':
		return o->own_config ? 0 : set_string(&o->config, arg, e);
	default:
		return set_first(&o->jump, arg, e);
	}
}

static int
apply_flag(struct sshopts *o, char opt, const char *word, struct err *e)
{
	switch (opt) {
	case 'v':
		o->verbose++;
		return 0;
	case 'C':
		o->compression = true;
		return 0;
	case '4':
		o->family = AF_INET;
		return 0;
	case '6':
		o->family = AF_INET6;
		return 0;
	default:
		return err_set(e, E_USAGE,
			       "the ssh option '-%c' (in '%s') cannot be "
			       "honoured here",
			       opt, word);
	}
}

/* One word of --ssh, such as -vC or -p22; *i moves on where the argument is
 * the next word. */
static int
apply_word(struct sshopts *o, const struct sshlist *w, size_t *i, struct err *e)
{
	const char *word = w->v[*i];

	if (word[0] != '-' || !word[1] || word[1] == '-') {
		return err_set(e, E_USAGE,
			       "'%s' is no ssh option that can be used here",
			       word);
	}
	for (const char *p = word + 1; *p; p++) {
		int rc;

		if (!strchr("pilocmFJ", *p)) {
			rc = apply_flag(o, *p, word, e);
			if (rc < 0) {
				return rc;
			}
			continue;
		}
		if (p[1]) {
			return apply_arg(o, *p, p + 1, e);
		}
		if (++*i >= w->n) {
			return err_set(e, E_USAGE,
				       "the ssh option -%c wants an argument",
				       *p);
		}
		return apply_arg(o, *p, w->v[*i], e);
	}
	return 0;
}

int
sshopts_parse(struct sshopts *o, const char *text, struct err *e)
{
	struct sshlist words = { NULL, 0 };
	int rc = sshopts_split(text, &words, e);

	for (size_t i = 0; rc == 0 && i < words.n; i++) {
		rc = apply_word(o, &words, &i, e);
	}
	sshlist_fini(&words);
	return rc < 0 ? err_wrap(e, "--ssh") : 0;
}

void
sshopts_fini(struct sshopts *o)
{
	free(o->user);
	free(o->jump);
	free(o->config);
	free(o->ciphers);
	free(o->macs);
	sshlist_fini(&o->identities);
	sshlist_fini(&o->options);
	*o = (struct sshopts){ 0 };
}
