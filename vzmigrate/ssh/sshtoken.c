/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshtoken: expands tokens. No state.
 */
#include "ssh/sshtoken.h"

#include <openssl/evp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"

#define VALUE_MAX 65536
#define PATH_TOKENS "CdhikLlnprju"

int
sshtoken_local(char **home, char **user, struct err *e)
{
	struct passwd pw, *found = NULL;
	char store[16384];
	const char *env = getenv("HOME");

	if (getpwuid_r(getuid(), &pw, store, sizeof(store), &found) != 0 ||
	    !found) {
		*home = strdup(env ? env : "/");
		*user = io_asprintf(e, "%u", (unsigned)getuid());
	} else {
		*home = strdup(found->pw_dir);
		*user = strdup(found->pw_name);
	}
	return *home && *user ? 0 : err_nomem(e);
}

/* ssh's hash of a connection: SHA-1 over %l%h%p%r%j in hex. */
static int
add_hash(struct buf *b, const char *local, const struct sshtoken *t,
	 struct err *e)
{
	cleanup(free_ptr) char *all =
		io_asprintf(e, "%s%s%d%s%s", local, t->host, t->port, t->user,
			    t->jump ? t->jump : "");
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned len;
	int rc = 0;

	if (!all) {
		return E_NOMEM;
	}
	if (!EVP_Digest(all, strlen(all), md, &len, EVP_sha1(), NULL)) {
		return err_set(e, E_UNSUPPORTED, "SHA-1 is not available");
	}
	for (unsigned i = 0; i < len && rc == 0; i++) {
		rc = buf_printf(b, e, "%02x", md[i]);
	}
	return rc;
}

static int
add_token(struct buf *b, char c, const struct sshtoken *t, struct err *e)
{
	char local[256] = "";

	if (strchr("lLC", c) && gethostname(local, sizeof(local) - 1) < 0) {
		local[0] = '\0';
	}
	switch (c) {
	case '%':
		return buf_append(b, "%", 1, e);
	case 'h':
		return buf_printf(b, e, "%s", t->host);
	case 'n':
		return buf_printf(b, e, "%s", t->alias);
	case 'k':
		return buf_printf(b, e, "%s",
				  t->key_alias ? t->key_alias : t->alias);
	case 'p':
		return buf_printf(b, e, "%d", t->port);
	case 'r':
		return buf_printf(b, e, "%s", t->user);
	case 'j':
		return buf_printf(b, e, "%s", t->jump ? t->jump : "");
	case 'd':
		return buf_printf(b, e, "%s", t->home);
	case 'u':
		return buf_printf(b, e, "%s", t->local_user);
	case 'i':
		return buf_printf(b, e, "%u", (unsigned)getuid());
	case 'L':
		local[strcspn(local, ".")] = '\0';
		return buf_printf(b, e, "%s", local);
	case 'l':
		return buf_printf(b, e, "%s", local);
	default:
		return add_hash(b, local, t, e);
	}
}

/* ${NAME} at *p, which is moved to the closing brace. */
static int
add_env(struct buf *b, const char **p, struct err *e)
{
	const char *end = strchr(*p, '}');
	char name[256];
	const char *value;
	size_t n = end ? (size_t)(end - *p - 2) : 0;

	if (!end || n == 0 || n >= sizeof(name)) {
		return err_set(e, E_CONFIG, "'%s' has a bad ${...}", *p);
	}
	memcpy(name, *p + 2, n);
	name[n] = '\0';
	value = getenv(name);
	if (!value) {
		return err_set(e, E_CONFIG,
			       "the environment has no variable %s", name);
	}
	*p = end;
	return buf_printf(b, e, "%s", value);
}

static char *
expand(const char *text, const char *tokens, bool env, struct buf *b,
       const struct sshtoken *t, struct err *e)
{
	for (const char *p = text; *p; p++) {
		int rc;

		if (*p == '%') {
			p++;
			if (*p != '%' && (!*p || !strchr(tokens, *p))) {
				err_set(e, E_CONFIG,
					"'%s' has a %% token that is not known",
					text);
				return NULL;
			}
			rc = add_token(b, *p, t, e);
		} else if (env && *p == '$' && p[1] == '{') {
			rc = add_env(b, &p, e);
		} else {
			rc = buf_append(b, p, 1, e);
		}
		if (rc < 0) {
			return NULL;
		}
	}
	return buf_cstr(b, e);
}

char *
sshtoken_percent(const char *text, const char *tokens, const struct sshtoken *t,
		 struct err *e)
{
	cleanup(buf_finip) struct buf b;
	char *s;

	buf_init(&b, VALUE_MAX);
	s = expand(text, tokens, false, &b, t, e);
	s = s ? strdup(s) : NULL;
	return s;
}

/* "~" or "~user" in front; *text moves behind it. */
static int
add_home(struct buf *b, const char **text, const struct sshtoken *t,
	 struct err *e)
{
	size_t n = strcspn(*text, "/");
	struct passwd pw, *found = NULL;
	char name[256], store[16384];

	if (n == 1) {
		*text += 1;
		return buf_printf(b, e, "%s", t->home);
	}
	if (n - 1 >= sizeof(name)) {
		return err_set(e, E_CONFIG, "'%s' names no user", *text);
	}
	memcpy(name, *text + 1, n - 1);
	name[n - 1] = '\0';
	if (getpwnam_r(name, &pw, store, sizeof(store), &found) != 0 ||
	    !found) {
		return err_set(e, E_CONFIG, "there is no user %s", name);
	}
	*text += n;
	return buf_printf(b, e, "%s", found->pw_dir);
}

char *
sshtoken_path(const char *text, const struct sshtoken *t, struct err *e)
{
	cleanup(buf_finip) struct buf b;
	char *s;

	buf_init(&b, VALUE_MAX);
	if (*text == '~' && add_home(&b, &text, t, e) < 0) {
		return NULL;
	}
	s = expand(text, PATH_TOKENS, true, &b, t, e);
	s = s ? strdup(s) : NULL;
	return s;
}
