/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshconf: asks ssh (or sshfile) for the configuration that applies, as lines
 * of text. What they mean is read in sshconf_fields.c and sshconf_parse.c.
 * State: the caller's struct sshconf.
 */
#include "ssh/sshconf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/sshcopy.h"
#include "ssh/sshfile.h"
#include "ssh/sshtoken.h"

#define SSH_G_TIMEOUT_MS 20000

/* One resolution under way. */
struct resolve {
	const struct target *t;
	const struct sshopts *o;
	char *local_user;
	char *home;
};

static int
add2(struct sshlist *a, const char *opt, const char *value, struct err *e)
{
	int rc = sshlist_add(a, opt, e);

	return rc < 0 ? rc : sshlist_add(a, value, e);
}

/* -o, under its carrier where the configuration is a copy (sshcopy.h). */
static int
add_option(struct sshlist *a, const char *option, bool copied, struct err *e)
{
	size_t n = strcspn(option, "=");
	cleanup(free_ptr) char *key = strndup(option, n);
	cleanup(free_ptr) char *other = NULL;

	if (!key) {
		return err_nomem(e);
	}
	if (copied && sshcopy_carrier(key)) {
		other = io_asprintf(e, "%s%s", sshcopy_carrier(key),
				    option + n);
		if (!other) {
			return E_NOMEM;
		}
		option = other;
	}
	return add2(a, "-o", option, e);
}

static int
add_options(struct sshlist *a, const struct resolve *r, bool copied,
	    struct err *e)
{
	char port[16];
	int rc = 0;

	if (r->o->port || r->t->port) {
		snprintf(port, sizeof(port), "%d",
			 r->o->port ? r->o->port : r->t->port);
		rc = add2(a, "-p", port, e);
	}
	if (rc == 0 && (r->t->user || r->o->user)) {
		rc = add2(a, "-l", r->t->user ? r->t->user : r->o->user, e);
	}
	if (rc == 0 && r->o->jump) {
		rc = add2(a, "-J", r->o->jump, e);
	}
	if (rc == 0 && r->o->family != AF_UNSPEC) {
		rc = sshlist_add(a, r->o->family == AF_INET ? "-4" : "-6", e);
	}
	if (rc == 0 && r->o->compression) {
		rc = sshlist_add(a, "-C", e);
	}
	for (size_t i = 0; rc == 0 && i < r->o->identities.n; i++) {
		rc = add2(a, "-i", r->o->identities.v[i], e);
	}
	for (size_t i = 0; rc == 0 && i < r->o->options.n; i++) {
		rc = add_option(a, r->o->options.v[i], copied, e);
	}
	return rc;
}

static void
show_warnings(const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\r\n");

		if (n) {
			log_warn("ssh: %.*s", (int)n, text);
		}
		text += n;
		text += strspn(text, "\r\n");
	}
}

/* Run `ssh -G`; 0 where it ran, whatever it said. */
static int
run_ssh(const struct resolve *r, const char *config, bool plain, bool copied,
	struct child_result *res, struct err *e)
{
	struct sshlist a = { NULL, 0 };
	cleanup(free_ptr) const char **argv = NULL;
	struct child_cmd cmd = { .timeout_ms = SSH_G_TIMEOUT_MS };
	int rc = add2(&a, "ssh", "-G", e);

	*res = (struct child_result){ .status = -1 };
	if (rc == 0) {
		rc = sshlist_add(&a, "-T", e);
	}
	if (rc == 0 && config) {
		rc = add2(&a, "-F", config, e);
	}
	if (rc == 0 && !plain) {
		rc = add_options(&a, r, copied, e);
	}
	if (rc == 0) {
		rc = add2(&a, "--", r->t->host, e);
	}
	if (rc == 0) {
		argv = calloc(a.n + 1, sizeof(*argv));
		rc = argv ? 0 : err_nomem(e);
	}
	if (rc == 0) {
		for (size_t i = 0; i < a.n; i++) {
			argv[i] = a.v[i];
		}
		cmd.argv = argv;
		rc = child_run(&cmd, res, e);
	}
	sshlist_fini(&a);
	return rc;
}

/* ssh could not read the configuration: say it, without the line ends. */
static int
refused(const struct child_result *res, struct err *e)
{
	cleanup(free_ptr) char *text = strdup((char *)res->err_out.data);
	size_t len;

	if (!text) {
		return err_nomem(e);
	}
	len = strlen(text);
	while (len && strchr("\r\n", text[len - 1])) {
		text[--len] = '\0';
	}
	for (char *p = text; *p; p++) {
		if (*p == '\n' || *p == '\r') {
			*p = *p == '\r' ? ' ' : ';';
		}
	}
	return err_set(e, E_CONFIG,
		       "ssh cannot read its configuration: %s; "
		       "--ssh-config=none goes without it",
		       len ? text : "it ended without a message");
}

/* Put the values under carriers back under their keywords. */
static int
uncarry(const char *text, struct buf *out, struct err *e)
{
	while (*text) {
		size_t n = strcspn(text, "\n"), k = strcspn(text, " \n");
		cleanup(free_ptr) char *key = strndup(text, k);
		cleanup(free_ptr) char *value = NULL;
		const char *real;
		int rc = 0;

		if (!key) {
			return err_nomem(e);
		}
		value = strndup(text + k + (k < n), k < n ? n - k - 1 : 0);
		if (!value) {
			return err_nomem(e);
		}
		real = sshcopy_carried(key);
		if (!real && sshcopy_carrier(key)) {
			rc = 0; /* ssh's default, since no line named it */
		} else if (!real) {
			rc = buf_printf(out, e, "%s %s\n", key, value);
		} else if (!sshcopy_is_default(value)) {
			rc = buf_printf(out, e, "%s %s\n", real, value);
		}
		if (rc < 0) {
			return rc;
		}
		text += n + (text[n] == '\n');
	}
	return 0;
}

/* Once more with a copy that ssh can read (sshcopy.h). */
static int
resolve_copied(const struct resolve *r, struct sshconf *c, struct err *e)
{
	struct child_result res = { .status = -1 };
	cleanup(buf_finip) struct buf out;
	char *dir = NULL;
	cleanup(free_ptr) char *file = NULL;
	int rc;

	buf_init(&out, 1 << 20);
	rc = sshcopy_make(r->o->config, r->home, &dir, &file, e);
	if (rc < 0) {
		return rc;
	}
	rc = run_ssh(r, file, false, true, &res, e);
	if (rc == 0 && res.status != 0) {
		rc = refused(&res, e);
	}
	if (rc == 0) {
		rc = uncarry((char *)res.out.data, &out, e);
	}
	if (rc == 0) {
		const char *text = buf_cstr(&out, e);

		rc = text ? sshconf_parse(c, text, NULL, e) : E_NOMEM;
	}
	child_result_fini(&res);
	sshcopy_remove(dir);
	return rc;
}

static int
resolve_by_ssh(const struct resolve *r, struct sshconf *c, struct err *e)
{
	struct child_result mine, plain = { .status = -1 };
	int rc = run_ssh(r, r->o->config, false, false, &mine, e);

	c->by_ssh = true;
	if (rc == 0 && mine.status != 0) {
		if (sshcopy_would_help((char *)mine.err_out.data)) {
			log_debug("ssh: %s", (char *)mine.err_out.data);
			log_debug("reading the lists of algorithms ourselves");
			rc = resolve_copied(r, c, e);
		} else {
			rc = refused(&mine, e);
		}
		child_result_fini(&mine);
		return rc;
	}
	if (rc == 0) {
		show_warnings((char *)mine.err_out.data);
		rc = run_ssh(r, "none", true, false, &plain, e);
	}
	if (rc == 0 && plain.status != 0) {
		rc = refused(&plain, e);
	}
	if (rc == 0) {
		rc = sshconf_parse(c, (char *)mine.out.data,
				   (char *)plain.out.data, e);
	}
	child_result_fini(&mine);
	child_result_fini(&plain);
	return rc;
}

/* The command line's part, as lines: it comes first. */
static int
own_lines(const struct resolve *r, struct buf *b, struct err *e)
{
	int rc = 0;

	if (r->o->port || r->t->port) {
		rc = buf_printf(b, e, "port %d\n",
				r->o->port ? r->o->port : r->t->port);
	}
	if (rc == 0 && (r->t->user || r->o->user)) {
		rc = buf_printf(b, e, "user %s\n",
				r->t->user ? r->t->user : r->o->user);
	}
	if (rc == 0 && r->o->jump) {
		rc = buf_printf(b, e, "proxyjump %s\n", r->o->jump);
	}
	if (rc == 0 && r->o->family != AF_UNSPEC) {
		rc = buf_printf(b, e, "addressfamily %s\n",
				r->o->family == AF_INET ? "inet" : "inet6");
	}
	if (rc == 0 && r->o->compression) {
		rc = buf_printf(b, e, "compression yes\n");
	}
	for (size_t i = 0; rc == 0 && i < r->o->identities.n; i++) {
		rc = buf_printf(b, e, "identityfile %s\n",
				r->o->identities.v[i]);
	}
	return rc;
}

static int
resolve_by_ourselves(const struct resolve *r, struct sshconf *c, struct err *e)
{
	struct sshfile_query q = {
		.config = r->o->config,
		.alias = r->t->host,
		.user = r->t->user ? r->t->user : r->o->user,
		.local_user = r->local_user,
		.home = r->home,
		.options = &r->o->options,
	};
	cleanup(buf_finip) struct buf b;
	const char *text;
	int rc;

	log_info("there is no OpenSSH client here: ssh_config is read by our "
		 "own reader");
	buf_init(&b, 1 << 20);
	rc = own_lines(r, &b, e);
	if (rc == 0) {
		rc = sshfile_resolve(&q, &b, e);
	}
	if (rc < 0) {
		return rc;
	}
	text = buf_cstr(&b, e);
	return text ? sshconf_parse(c, text, NULL, e) : E_NOMEM;
}

static int
check_jump(const char *jumps, struct err *e)
{
	while (*jumps) {
		size_t n = strcspn(jumps, ",");
		cleanup(free_ptr) char *one = strndup(jumps, n);
		struct target t;
		int rc;

		if (!one) {
			return err_nomem(e);
		}
		/* host:port is allowed here, unlike for the destination */
		if (strchr(one, '/') == NULL && *one != '[') {
			char *at = strrchr(one, '@');
			char *colon = strchr(at ? at : one, ':');

			if (colon && !strchr(colon + 1, ':')) {
				*colon = '\0';
			}
		}
		rc = target_parse(one, &t, e);
		target_fini(&t);
		if (rc < 0) {
			return err_wrap(e, "jump host");
		}
		jumps += n + (jumps[n] == ',');
	}
	return 0;
}

/* What is known before any configuration is read. */
static int
start(const struct resolve *r, struct sshconf *c, struct err *e)
{
	int rc = 0;

	if (r->o->user && !r->t->user) {
		rc = target_check_user(r->o->user, e);
	}
	if (rc == 0 && r->o->jump && strcmp(r->o->jump, "none") != 0) {
		rc = check_jump(r->o->jump, e);
	}
	c->alias = strdup(r->t->host);
	c->home = strdup(r->home);
	c->ciphers = r->o->ciphers ? strdup(r->o->ciphers) : NULL;
	c->macs = r->o->macs ? strdup(r->o->macs) : NULL;
	c->config_arg = r->o->config ? strdup(r->o->config) : NULL;
	if (rc == 0 &&
	    (!c->alias || !c->home || (r->o->ciphers && !c->ciphers) ||
	     (r->o->macs && !c->macs) || (r->o->config && !c->config_arg))) {
		rc = err_nomem(e);
	}
	return rc;
}

int
sshconf_resolve(const struct target *t, const struct sshopts *o,
		struct sshconf *c, struct err *e)
{
	struct resolve r = { .t = t, .o = o };
	int rc = sshtoken_local(&r.home, &r.local_user, e);

	*c = (struct sshconf){ 0 };
	if (rc == 0) {
		rc = start(&r, c, e);
	}
	if (rc == 0) {
		rc = resolve_by_ssh(&r, c, e);
		if (rc == E_NOT_FOUND) {
			c->by_ssh = false;
			err_clear(e);
			rc = resolve_by_ourselves(&r, c, e);
		}
	}
	free(r.home);
	free(r.local_user);
	if (rc < 0) {
		sshconf_fini(c);
	}
	return rc;
}
