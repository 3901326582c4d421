/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshconf_parse: from the fields that were said to a configuration that can be
 * connected with: defaults, tokens, and names that are harmless. Defaults are
 * ssh's (ssh_config(5), OpenSSH 9.2). The second half of sshconf.h, with
 * sshconf_fields.c. State: the caller's struct sshconf.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "ssh/sshconf_int.h"

/* ssh's search list without what libssh cannot read (xmss, dsa). */
static const char *const default_identities[] = {
	"~/.ssh/id_rsa",     "~/.ssh/id_ecdsa",	     "~/.ssh/id_ecdsa_sk",
	"~/.ssh/id_ed25519", "~/.ssh/id_ed25519_sk", NULL
};

static int
add_defaults(struct sshlist *l, const char *const *names, struct err *e)
{
	for (size_t i = 0; names[i]; i++) {
		int rc = sshlist_add(l, names[i], e);

		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

/* ---- tokens ---- */

/* Expand each name in place; one with an unknown token is dropped with a
 * warning, as ssh would not find it either. */
static int
expand_files(struct sshlist *l, const struct sshtoken *t, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		char *path = sshtoken_path(l->v[i], t, e);

		if (!path) {
			return err_wrap(e, "%s", l->v[i]);
		}
		free(l->v[i]);
		l->v[i] = path;
	}
	return 0;
}

static int
replace(char **what, char *with)
{
	if (!with) {
		return E_CONFIG;
	}
	free(*what);
	*what = with;
	return 0;
}

static bool
is_none(const char *s)
{
	return s && strcasecmp(s, "none") == 0;
}

static void
drop_none(char **s)
{
	if (is_none(*s)) {
		free(steal_ptr(s));
	}
}

static int
expand_agent(struct sshconf *c, const struct sshtoken *t, struct err *e)
{
	const char *a = c->identity_agent;

	if (!a || is_none(a)) {
		return 0;
	}
	if (strcmp(a, "SSH_AUTH_SOCK") == 0) {
		free(steal_ptr(&c->identity_agent));
		return 0;
	}
	if (*a == '$' && a[1] != '{') {
		const char *value = getenv(a + 1);

		return replace(&c->identity_agent,
			       strdup(value ? value : "none"));
	}
	return replace(&c->identity_agent, sshtoken_path(a, t, e));
}

static int
expand_all(struct sshconf *c, const struct sshtoken *t, struct err *e)
{
	int rc = expand_files(&c->identities, t, e);

	if (rc == 0) {
		rc = expand_files(&c->certificates, t, e);
	}
	if (rc == 0) {
		rc = expand_agent(c, t, e);
	}
	if (rc == 0 && c->proxy_command) {
		rc = replace(&c->proxy_command,
			     sshtoken_percent(c->proxy_command, "hnpr", t, e));
	}
	return rc;
}

/* ---- the whole ---- */

/* The names must be harmless before they meet a shell or a child's argv. */
static int
check_names(const struct sshconf *c, struct err *e)
{
	int rc = target_check_host(c->host, e);

	if (rc == 0) {
		rc = target_check_user(c->user, e);
	}
	if (rc == 0 && (c->port < 1 || c->port > 65535)) {
		rc = err_set(e, E_CONFIG, "port %d is not a port", c->port);
	}
	return rc < 0 ? err_recode(e, E_CONFIG, "ssh configuration of '%s'",
				   c->alias)
		      : 0;
}

static void
set_defaults(struct sshconf *c)
{
	c->port = 22;
	c->pubkey_auth = c->password_auth = c->kbdint_auth = true;
	c->password_prompts = 3;
	c->connection_attempts = 1;
	c->alive_count_max = 3;
}

/* %h in HostName means the name as typed. */
static int
finish_host(struct sshconf *c, struct sshtoken *t, struct err *e)
{
	if (!c->host) {
		c->host = strdup(c->alias);
		return c->host ? 0 : err_nomem(e);
	}
	t->host = c->alias;
	return replace(&c->host, sshtoken_percent(c->host, "h", t, e));
}

static int
finish_lists(struct sshconf *c, const char *mine, const char *plain,
	     const struct sshtoken *t, struct err *e)
{
	static const char *const user_files[] = { "~/.ssh/known_hosts",
						  "~/.ssh/known_hosts2", NULL };
	static const char *const global_files[] = { "/etc/ssh/ssh_known_hosts",
						    "/etc/ssh/ssh_known_hosts2",
						    NULL };
	bool user_said = strstr(mine, "userknownhostsfile ") != NULL;
	bool global_said = strstr(mine, "globalknownhostsfile ") != NULL;
	int rc = sshconf_fields_read(c, mine, plain, t, e);

	if (rc == 0 && !user_said) {
		rc = add_defaults(&c->user_known_hosts, user_files, e);
		if (rc == 0) {
			rc = expand_files(&c->user_known_hosts, t, e);
		}
	}
	if (rc == 0 && !global_said) {
		rc = add_defaults(&c->global_known_hosts, global_files, e);
	}
	return rc;
}

/* Whether an IdentityFile is there that ssh does not name by itself. */
static bool
identities_said(const struct sshconf *c, const char *plain)
{
	for (size_t i = 0; i < c->identities.n; i++) {
		if (strncmp(c->identities.v[i], "~/.ssh/id_", 10) != 0 &&
		    !sshconf_fields_said(plain, "identityfile",
					 c->identities.v[i])) {
			return true;
		}
	}
	return false;
}

int
sshconf_parse(struct sshconf *c, const char *mine, const char *plain,
	      struct err *e)
{
	char *home = NULL, *local = NULL;
	struct sshtoken t;
	int rc = sshtoken_local(&home, &local, e);

	set_defaults(c);
	if (rc == 0) {
		rc = sshconf_fields_read(c, mine, plain, NULL, e);
	}
	if (rc == 0 && !c->user) {
		c->user = strdup(local);
		rc = c->user ? 0 : err_nomem(e);
	}
	c->identities_said = identities_said(c, plain);
	if (rc == 0 && c->identities.n == 0) {
		rc = add_defaults(&c->identities, default_identities, e);
	}
	drop_none(&c->proxy_jump);
	drop_none(&c->proxy_command);
	drop_none(&c->bind_address);
	drop_none(&c->bind_interface);
	t = (struct sshtoken){ .alias = c->alias,
			       .port = c->port,
			       .user = c->user,
			       .jump = c->proxy_jump,
			       .key_alias = c->host_key_alias,
			       .home = home,
			       .local_user = local };
	if (rc == 0) {
		rc = finish_host(c, &t, e);
	}
	t.host = c->host;
	if (rc == 0) {
		rc = check_names(c, e);
	}
	if (rc == 0) {
		rc = finish_lists(c, mine, plain, &t, e);
	}
	if (rc == 0) {
		rc = expand_all(c, &t, e);
	}
	free(home);
	free(local);
	return rc;
}

void
sshconf_fini(struct sshconf *c)
{
	sshconf_fields_fini(c);
	free(c->alias);
	free(c->config_arg);
	free(c->home);
	sshlist_fini(&c->identities);
	sshlist_fini(&c->certificates);
	sshlist_fini(&c->user_known_hosts);
	sshlist_fini(&c->global_known_hosts);
	*c = (struct sshconf){ 0 };
}
