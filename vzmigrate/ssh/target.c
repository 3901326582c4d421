/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * target: parses [user@]host, IPv6 literals and ssh:// URIs. No state.
 */
#include "ssh/target.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* What a shell would act on, in a host name: with ProxyCommand the name is
 * put into a command line. */
#define HOST_BAD "'`\"$\\;&<>|(){}"
/* In a user name '$' and '\' are in use (machine$, DOMAIN\user). */
#define USER_BAD "'`\";&<>|(){}"

#define HOST_MAX 1025
#define USER_MAX 256

int
target_check_host(const char *host, struct err *e)
{
	if (!*host) {
		return err_set(e, E_USAGE, "the host name is empty");
	}
	if (*host == '-') {
		return err_set(e, E_USAGE,
			       "the host name '%s' begins with a dash", host);
	}
	if (strlen(host) >= HOST_MAX) {
		return err_set(e, E_USAGE, "the host name is too long");
	}
	for (const char *p = host; *p; p++) {
		if (strchr(HOST_BAD, *p) || isspace((unsigned char)*p) ||
		    iscntrl((unsigned char)*p)) {
			return err_set(e, E_USAGE,
				       "the host name '%s' contains a "
				       "character that is not allowed",
				       host);
		}
	}
	return 0;
}

int
target_check_user(const char *user, struct err *e)
{
	const char *why = NULL;

	if (!*user) {
		why = "is empty";
	} else if (*user == '-') {
		why = "begins with a dash";
	} else if (strlen(user) >= USER_MAX) {
		why = "is too long";
	}
	for (const char *p = user; *p && !why; p++) {
		if (strchr(USER_BAD, *p) || iscntrl((unsigned char)*p) ||
		    (isspace((unsigned char)*p) && p[1] == '-') ||
		    (*p == '\\' && !p[1])) {
			why = "contains a character that is not allowed";
		}
	}
	return why ? err_set(e, E_USAGE, "the user name '%s' %s", user, why)
		   : 0;
}

bool
target_is_address(const char *host)
{
	unsigned char bin[sizeof(struct in6_addr)];
	char plain[INET6_ADDRSTRLEN];
	size_t n = strcspn(host, "%");

	if (inet_pton(AF_INET, host, bin) == 1) {
		return true;
	}
	if (n >= sizeof(plain) || (host[n] == '%' && !host[n + 1])) {
		return false;
	}
	memcpy(plain, host, n);
	plain[n] = '\0';
	return inet_pton(AF_INET6, plain, bin) == 1;
}

static int
parse_port(const char *text, int *port, struct err *e)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (!isdigit((unsigned char)*text) || *end || n < 1 || n > 65535) {
		return err_set(e, E_USAGE, "'%s' is not a port (1 to 65535)",
			       text);
	}
	*port = (int)n;
	return 0;
}

/* "[literal]" or "[literal]:port"; `s` is changed. */
static int
parse_bracketed(char *s, char **host, int *port, struct err *e)
{
	char *end = strchr(s, ']');

	if (!end || (end[1] && end[1] != ':')) {
		return err_set(e, E_USAGE, "'%s' has no matching bracket", s);
	}
	*end = '\0';
	*host = s + 1;
	return end[1] ? parse_port(end + 2, port, e) : 0;
}

/* A URI writes odd characters of the user as %XX. */
static int
decode_percent(char *s, struct err *e)
{
	char *to = s;

	for (char *p = s; *p; p++, to++) {
		unsigned hi, lo;

		if (*p != '%') {
			*to = *p;
			continue;
		}
		if (!isxdigit((unsigned char)p[1]) ||
		    !isxdigit((unsigned char)p[2])) {
			return err_set(e, E_USAGE, "'%s' has a bad %% sequence",
				       s);
		}
		hi = isdigit((unsigned char)p[1]) ? (unsigned)(p[1] - '0')
						  : (p[1] | 32) - 'a' + 10u;
		lo = isdigit((unsigned char)p[2]) ? (unsigned)(p[2] - '0')
						  : (p[2] | 32) - 'a' + 10u;
		if (hi + lo == 0) {
			return err_set(e, E_USAGE, "'%s' has a %%00", s);
		}
		*to = (char)(hi << 4 | lo);
		p += 2;
	}
	*to = '\0';
	return 0;
}

/* host[:port] of a URI; a single slash may follow. */
static int
parse_uri_host(char *s, char **host, int *port, struct err *e)
{
	size_t len = strlen(s);
	char *colon;

	if (len && s[len - 1] == '/') {
		s[len - 1] = '\0';
	}
	if (*s == '[') {
		return parse_bracketed(s, host, port, e);
	}
	*host = s;
	colon = strchr(s, ':');
	if (!colon) {
		return 0;
	}
	*colon = '\0';
	return parse_port(colon + 1, port, e);
}

static int
parse_plain_host(char *s, char **host, int *port, struct err *e)
{
	if (*s == '[') {
		return parse_bracketed(s, host, port, e);
	}
	*host = s;
	if (strchr(s, ':') && !target_is_address(s)) {
		return err_set(e, E_USAGE,
			       "'%s' is neither a name nor an IPv6 address; "
			       "a port is given with -p or as ssh://host:port",
			       s);
	}
	return 0;
}

static int
keep(struct target *t, const char *user, const char *host, struct err *e)
{
	t->host = strdup(host);
	t->user = user ? strdup(user) : NULL;
	if (!t->host || (user && !t->user)) {
		return err_nomem(e);
	}
	return 0;
}

int
target_parse(const char *text, struct target *t, struct err *e)
{
	cleanup(free_ptr) char *copy = strdup(text);
	bool uri = strncmp(text, "ssh://", 6) == 0;
	char *s, *at, *user = NULL, *host = NULL;
	int rc = 0;

	*t = (struct target){ NULL, NULL, 0 };
	if (!copy) {
		return err_nomem(e);
	}
	s = uri ? copy + 6 : copy;
	at = strrchr(s, '@');
	if (at) {
		*at = '\0';
		user = s;
		s = at + 1;
	}
	rc = uri ? parse_uri_host(s, &host, &t->port, e)
		 : parse_plain_host(s, &host, &t->port, e);
	if (rc == 0 && uri && user) {
		rc = decode_percent(user, e);
	}
	if (rc == 0) {
		rc = target_check_host(host, e);
	}
	if (rc == 0 && user) {
		rc = target_check_user(user, e);
	}
	if (rc == 0) {
		rc = keep(t, user, host, e);
	}
	if (rc < 0) {
		target_fini(t);
		return err_wrap(e, "destination '%s'", text);
	}
	return 0;
}

void
target_fini(struct target *t)
{
	free(t->user);
	free(t->host);
	*t = (struct target){ NULL, NULL, 0 };
}
