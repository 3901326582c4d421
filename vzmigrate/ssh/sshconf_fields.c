/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshconf_fields: from lines "keyword value" to the fields of struct sshconf:
 * a table of keywords, and how each type of value is read. What is not said is
 * left to sshconf_parse.c. State: the caller's struct sshconf.
 */
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "ssh/sshconf_int.h"

/* How a value is read. */
enum type {
	STRING = 1, /* the rest of the line; "none" is NULL */
	INTEGER,    /* "none" is 0 */
	SECONDS,    /* a number, or ssh's time format */
	BOOLEAN,
	FILES, /* one name a line, the lines add up */
	NAMES, /* blank-separated names in one line */
	WISH,  /* a list of algorithms: only where the user said it */
	STRICT,
	FAMILY,
	REKEY,
	MUST_BE, /* cannot be honoured unless it has this value */
};

#define AT(field) offsetof(struct sshconf, field)

static const struct field {
	const char *key;
	enum type type;
	size_t at;
	const char *only; /* MUST_BE: the values, separated by blanks */
} fields[] = {
	{ "addressfamily", FAMILY, AT(family), NULL },
	{ "batchmode", BOOLEAN, AT(batch), NULL },
	{ "bindaddress", STRING, AT(bind_address), NULL },
	{ "bindinterface", STRING, AT(bind_interface), NULL },
	{ "certificatefile", FILES, AT(certificates), NULL },
	{ "challengeresponseauthentication", BOOLEAN, AT(kbdint_auth), NULL },
	{ "ciphers", WISH, AT(ciphers), NULL },
	{ "compression", BOOLEAN, AT(compression), NULL },
	{ "connectionattempts", INTEGER, AT(connection_attempts), NULL },
	{ "connecttimeout", SECONDS, AT(connect_timeout_s), NULL },
	{ "globalknownhostsfile", NAMES, AT(global_known_hosts), NULL },
	{ "hashknownhosts", BOOLEAN, AT(hash_known_hosts), NULL },
	{ "hostkeyalgorithms", WISH, AT(hostkey_algs), NULL },
	{ "hostkeyalias", STRING, AT(host_key_alias), NULL },
	{ "hostname", STRING, AT(host), NULL },
	{ "identitiesonly", BOOLEAN, AT(identities_only), NULL },
	{ "identityagent", STRING, AT(identity_agent), NULL },
	{ "identityfile", FILES, AT(identities), NULL },
	{ "kbdinteractiveauthentication", BOOLEAN, AT(kbdint_auth), NULL },
	{ "kexalgorithms", WISH, AT(kex), NULL },
	{ "knownhostscommand", MUST_BE, 0, "none" },
	{ "loglevel", STRING, AT(log_level), NULL },
	{ "macs", WISH, AT(macs), NULL },
	{ "numberofpasswordprompts", INTEGER, AT(password_prompts), NULL },
	{ "passwordauthentication", BOOLEAN, AT(password_auth), NULL },
	{ "port", INTEGER, AT(port), NULL },
	{ "preferredauthentications", STRING, AT(preferred_auth), NULL },
	{ "proxycommand", STRING, AT(proxy_command), NULL },
	{ "proxyjump", STRING, AT(proxy_jump), NULL },
	{ "proxyusefdpass", MUST_BE, 0, "no false" },
	{ "pubkeyacceptedalgorithms", WISH, AT(pubkey_algs), NULL },
	{ "pubkeyacceptedkeytypes", WISH, AT(pubkey_algs), NULL },
	{ "pubkeyauthentication", BOOLEAN, AT(pubkey_auth), NULL },
	{ "rekeylimit", REKEY, AT(rekey_bytes), NULL },
	{ "requiredrsasize", INTEGER, AT(required_rsa), NULL },
	{ "revokedhostkeys", MUST_BE, 0, "none" },
	{ "serveralivecountmax", INTEGER, AT(alive_count_max), NULL },
	{ "serveraliveinterval", SECONDS, AT(alive_interval_s), NULL },
	{ "stricthostkeychecking", STRICT, AT(strict), NULL },
	{ "user", STRING, AT(user), NULL },
	{ "userknownhostsfile", NAMES, AT(user_known_hosts), NULL },
	{ "verifyhostkeydns", MUST_BE, 0, "no false" },
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static const struct field *
find_field(const char *key, size_t len)
{
	for (size_t i = 0; i < FIELDS; i++) {
		if (strlen(fields[i].key) == len &&
		    strncasecmp(fields[i].key, key, len) == 0) {
			return &fields[i];
		}
	}
	return NULL;
}

static bool
word_in(const char *words, const char *word)
{
	size_t len = strlen(word);

	while (*words) {
		size_t n = strcspn(words, " ");

		if (n == len && strncasecmp(words, word, n) == 0) {
			return true;
		}
		words += n + (words[n] == ' ');
	}
	return false;
}

bool
sshconf_fields_said(const char *text, const char *key, const char *value)
{
	size_t k = strlen(key), v = strlen(value);

	while (text && *text) {
		size_t n = strcspn(text, "\n");

		if (n == k + 1 + v && strncmp(text, key, k) == 0 &&
		    text[k] == ' ' && memcmp(text + k + 1, value, v) == 0) {
			return true;
		}
		text += n + (text[n] == '\n');
	}
	return false;
}

static int
read_int(const char *key, const char *value, int *to, struct err *e)
{
	char *end;
	long n;

	if (strcasecmp(value, "none") == 0) {
		*to = 0;
		return 0;
	}
	n = strtol(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || n > 1000000000) {
		return err_set(e, E_CONFIG, "%s: '%s' is not a number", key,
			       value);
	}
	*to = (int)n;
	return 0;
}

/* ssh's time format: a sum of numbers with units (1h30m), seconds without. */
static int
read_seconds(const char *key, const char *value, int *to, struct err *e)
{
	static const struct {
		char unit;
		long s;
	} units[] = { { 's', 1 },     { 'm', 60 },     { 'h', 3600 },
		      { 'd', 86400 }, { 'w', 604800 }, { '\0', 1 } };
	long sum = 0;
	const char *p = value;

	if (strcasecmp(value, "none") == 0) {
		*to = 0;
		return 0;
	}
	do {
		char *end;
		long n = strtol(p, &end, 10), factor = 0;
		char unit = (char)tolower((unsigned char)*end);

		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
			if (units[i].unit == unit) {
				factor = units[i].s;
			}
		}
		if (!isdigit((unsigned char)*p) || !factor || n > 100000000) {
			return err_set(e, E_CONFIG, "%s: '%s' is not a time",
				       key, value);
		}
		sum += n * factor;
		if (sum > 1000000000) {
			return err_set(e, E_CONFIG, "%s: '%s' is too long", key,
				       value);
		}
		p = *end ? end + 1 : end;
	} while (*p);
	*to = (int)sum;
	return 0;
}

static int
read_bool(const char *key, const char *value, bool *to, struct err *e)
{
	if (word_in("yes true unbound host-bound", value)) {
		*to = true;
	} else if (word_in("no false", value)) {
		*to = false;
	} else {
		return err_set(e, E_CONFIG, "%s: '%s' is neither yes nor no",
			       key, value);
	}
	return 0;
}

static int
read_strict(const char *value, enum sshconf_strict *to, struct err *e)
{
	if (word_in("yes true", value)) {
		*to = SSHCONF_YES;
	} else if (word_in("ask", value)) {
		*to = SSHCONF_ASK;
	} else if (word_in("accept-new", value)) {
		*to = SSHCONF_ACCEPT_NEW;
	} else if (word_in("no false off", value)) {
		*to = SSHCONF_NO;
	} else {
		return err_set(e, E_CONFIG,
			       "stricthostkeychecking: '%s' is not known",
			       value);
	}
	return 0;
}

/* "bytes seconds" as ssh -G prints it, or "1G 1h", "default none". */
static int
read_rekey(struct sshconf *c, const char *value, struct err *e)
{
	char *end;
	unsigned long long n = strtoull(value, &end, 10);
	int s = 0, rc = 0;

	if (strncasecmp(value, "default", 7) == 0) {
		end = (char *)value + 7;
		n = 0;
	} else if (!isdigit((unsigned char)*value)) {
		return err_set(e, E_CONFIG, "rekeylimit: '%s' is not a size",
			       value);
	}
	if (*end && strchr("kKmMgG", *end)) {
		int c_low = tolower((unsigned char)*end);
		int shift = c_low == 'k' ? 10 : c_low == 'm' ? 20 : 30;

		n = n > UINT64_MAX >> shift ? UINT64_MAX : n << shift;
		end++;
	}
	end += strspn(end, " \t");
	if (*end) {
		rc = read_seconds("rekeylimit", end, &s, e);
	}
	c->rekey_bytes = n;
	c->rekey_s = (uint32_t)s;
	return rc;
}

static bool
is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

/* ssh -G does not quote, so a name with a blank looks like two: the longest
 * run of words that is a file is taken for one name. */
static int
read_names(struct sshlist *to, const char *value, const struct sshtoken *t,
	   struct err *e)
{
	cleanup(free_ptr) char *copy = strdup(value);
	char *p = copy;

	if (!copy) {
		return err_nomem(e);
	}
	while (p && *p) {
		size_t take = strcspn(p, " ");
		size_t n = take;
		cleanup(free_ptr) char *path = NULL;
		char saved;
		int rc;

		while (p[n]) {
			n += 1 + strcspn(p + n + 1, " ");
			saved = p[n];
			p[n] = '\0';
			if (is_file(p)) {
				take = n;
			}
			p[n] = saved;
		}
		saved = p[take];
		p[take] = '\0';
		path = sshtoken_path(p, t, e);
		rc = !path			 ? E_CONFIG
		     : strcmp(path, "none") == 0 ? 0
						 : sshlist_add(to, path, e);
		if (rc < 0) {
			return rc;
		}
		p += take + (saved != '\0');
	}
	return 0;
}

static int
read_file_name(struct sshlist *to, const char *value, struct err *e)
{
	for (size_t i = 0; i < to->n; i++) {
		if (strcmp(to->v[i], value) == 0) {
			return 0;
		}
	}
	return sshlist_add(to, value, e);
}

static int
read_string(char **to, const char *value, struct err *e)
{
	if (*to) {
		return 0; /* the command line, or the first of our reader */
	}
	*to = strdup(value);
	return *to ? 0 : err_nomem(e);
}

/* One line; what needs tokens is expanded afterwards. */
static int
read_field(struct sshconf *c, const struct field *f, const char *value,
	   const char *plain, struct err *e)
{
	void *at = (char *)c + f->at;

	switch (f->type) {
	case STRING:
		return read_string(at, value, e);
	case INTEGER:
		return read_int(f->key, value, at, e);
	case SECONDS:
		return read_seconds(f->key, value, at, e);
	case BOOLEAN:
		return read_bool(f->key, value, at, e);
	case FILES:
		if (strcasecmp(value, "none") == 0) {
			return 0;
		}
		return read_file_name(at, value, e);
	case NAMES:
		return 0; /* the second reading */
	case WISH:
		return sshconf_fields_said(plain, f->key, value)
			       ? 0
			       : read_string(at, value, e);
	case STRICT:
		return read_strict(value, at, e);
	case FAMILY:
		*(int *)at = word_in("inet", value)    ? AF_INET
			     : word_in("inet6", value) ? AF_INET6
						       : AF_UNSPEC;
		return 0;
	case REKEY:
		return read_rekey(c, value, e);
	case MUST_BE:
		break;
	}
	return word_in(f->only, value)
		       ? 0
		       : err_set(e, E_CONFIG,
				 "the ssh configuration says %s %s, which "
				 "cannot be honoured here; "
				 "--ssh-config=none goes without it",
				 f->key, value);
}

/* Lists of names need the tokens, which need the other fields. */
int
sshconf_fields_read(struct sshconf *c, const char *text, const char *plain,
		    const struct sshtoken *names, struct err *e)
{
	bool done[FIELDS] = { false };

	while (*text) {
		size_t n = strcspn(text, "\n"), k = strcspn(text, " \n");
		const struct field *f = find_field(text, k);
		cleanup(free_ptr) char *value = NULL;
		int rc = 0;

		value = strndup(text + k + (k < n), k < n ? n - k - 1 : 0);
		if (!value) {
			return err_nomem(e);
		}
		if (f && (f->type == NAMES) == (names != NULL) &&
		    (f->type == FILES || !done[f - fields])) {
			done[f - fields] = true;
			rc = names ? read_names((void *)((char *)c + f->at),
						value, names, e)
				   : read_field(c, f, value, plain, e);
		}
		if (rc < 0) {
			return rc;
		}
		text += n + (text[n] == '\n');
	}
	return 0;
}

void
sshconf_fields_fini(struct sshconf *c)
{
	for (size_t i = 0; i < FIELDS; i++) {
		if (fields[i].type == STRING || fields[i].type == WISH) {
			free(*(char **)((char *)c + fields[i].at));
			*(char **)((char *)c + fields[i].at) = NULL;
		}
	}
}
