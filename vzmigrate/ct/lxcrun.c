/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lxcrun: an LXC container that is up: which life it is in, its stop and its
 * start, all through LXC's tools. Input: the container's name and lxcpath;
 * the configuration may have the name that block gave it. No state.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/procid.h"
#include "ct/lxc.h"

#define HURRY_MS 30000	 /* for lxc-stop -k, and for the monitor's end */
#define ASK_MORE_MS 5000 /* lxc-stop itself minds its time-out */
#define START_MS 120000
#define SETTLE_MS 10000
#define ARGS_MAX 16
#define NEED_TOOLS                                                      \
	"LXC's tools are not installed here (Debian: apt install lxc; " \
	"Fedora: dnf install lxc)"

/* Run `tool -P LXCPATH -n NAME ARGS...`; `args` ends with NULL. The child's
 * environment is clean where `clean`: LXC hands its own to the container. */
static int
tool(const struct ct_host *h, const char *name, const char *const *args,
     bool clean, int64_t ms, struct child_result *r, struct err *e)
{
	cleanup(free_ptr) char *path = lxc_path(h, e);
	cleanup(free_ptr) char *rcfile = NULL;
	cleanup(free_ptr) char *env = NULL;
	const char *search = getenv("PATH");
	const char *argv[ARGS_MAX + 10];
	size_t n = 0;
	int rc;

	buf_init(&r->out, 1);
	buf_init(&r->err_out, 1);
	if (!path) {
		return e ? e->code : E_NOMEM;
	}
	rc = lxc_rcfile(h, name, &rcfile, e);
	if (rc < 0) {
		return rc;
	}
	if (clean) {
		env = io_asprintf(e, "PATH=%s",
				  search ? search
					 : "/usr/sbin:/usr/bin:/sbin:/bin");
		if (!env) {
			return E_NOMEM;
		}
		argv[n++] = "env";
		argv[n++] = "-i";
		argv[n++] = env;
	}
	argv[n++] = *args++;
	argv[n++] = "-P";
	argv[n++] = path;
	argv[n++] = "-n";
	argv[n++] = name;
	while (*args && n < ARGS_MAX) {
		argv[n++] = *args++;
	}
	if (rcfile) {
		argv[n++] = "--rcfile";
		argv[n++] = rcfile;
	}
	argv[n] = NULL;
	rc = child_run(&(struct child_cmd){ .argv = argv, .timeout_ms = ms }, r,
		       e);
	return rc == E_NOT_FOUND || (clean && rc == 0 && r->status == 127)
		       ? err_set(e, E_CONFIG, NEED_TOOLS)
		       : rc;
}

/* The last line that a tool wrote, for a person; "" where there is none. */
static const char *
last_words(struct child_result *r)
{
	char *text = buf_cstr(&r->err_out, NULL);
	char *end, *line;

	if (!text) {
		return "";
	}
	end = text + strlen(text);
	while (end > text && end[-1] == '\n') {
		*--end = '\0';
	}
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

/* The value of "KEY:   VALUE" at the beginning of a line. */
static const char *
value_of(const char *text, const char *key)
{
	const char *p = text ? strstr(text, key) : NULL;

	if (!p || (p > text && p[-1] != '\n')) {
		return NULL;
	}
	p += strlen(key);
	return p + strspn(p, " \t");
}

int
lxcrun_life(const struct ct_host *h, const struct ct *c, struct ct_life *l,
	    struct err *e)
{
	static const char *const args[] = { "lxc-info", "-s", "-p", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	const char *text, *state, *pid;
	int rc = tool(h, c->id, args, false, 0, &r, e);

	*l = (struct ct_life){ .state = CT_STOPPED };
	if (rc < 0) {
		return rc;
	}
	text = buf_cstr(&r.out, NULL);
	state = value_of(text, "State:");
	if (r.status != 0 || !state) {
		return err_set(e, E_CONFIG, "lxc-info failed for %s: %s", c->id,
			       last_words(&r));
	}
	rc = lxc_parse_state(state, c->id, &l->state, e);
	pid = value_of(text, "PID:");
	if (rc == 0 && pid && l->state != CT_STOPPED) {
		l->init = strtol(pid, NULL, 10);
		l->since = procid_start(l->init, NULL);
	}
	return rc;
}

/* Whether the process that watches over the container still serves it: then
 * hooks and unmounts may be under way. Its socket has a plain name unless the
 * path is long. */
static bool
has_monitor(const struct ct_host *h, const char *name)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, name, NULL);
	cleanup(free_ptr) char *text = NULL;
	cleanup(free_ptr) char *sock =
		dir ? io_asprintf(NULL, "@%s/command\n", dir) : NULL;

	return sock &&
	       io_read_file(AT_FDCWD, "/proc/net/unix", 64u << 20, &text, NULL,
			    NULL) == 0 &&
	       strstr(text, sock);
}

/* Stopped, by LXC's word, and nothing more to come. */
static int
see_stopped(const struct ct_host *h, const struct ct *c, struct err *e)
{
	int64_t deadline = io_deadline(HURRY_MS);
	struct ct_life l;
	int rc = lxcrun_life(h, c, &l, e);

	if (rc < 0) {
		return rc;
	}
	if (l.state != CT_STOPPED) {
		return err_set(e, E_STOP, "%s is %s still", c->id,
			       ct_state_name(l.state));
	}
	while (has_monitor(h, c->id)) {
		if (io_left_ms(deadline) == 0) {
			return err_set(e, E_STOP,
				       "%s is stopped, but its monitor does "
				       "not end (a hook that hangs?)",
				       c->id);
		}
		/* Nobody tells when a socket is closed. */
		poll(NULL, 0, 5);
	}
	return 0;
}

/* A frozen one hears nothing. */
static int
ask(const struct ct_host *h, const struct ct *c, int64_t ms, struct err *e)
{
	static const char *const thaw[] = { "lxc-unfreeze", NULL };
	char secs[24];
	const char *const args[] = { "lxc-stop", "--nokill", "-t", secs, NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	struct ct_life l;
	int rc = lxcrun_life(h, c, &l, e);

	if (rc == 0 && l.state == CT_FROZEN) {
		cleanup(child_result_fini) struct child_result t = { 0 };

		rc = tool(h, c->id, thaw, false, HURRY_MS, &t, e);
	}
	if (rc < 0 || l.state == CT_STOPPED) {
		return rc;
	}
	/* lxc-stop counts in seconds; 0 would mean "for ever" to it. */
	snprintf(secs, sizeof(secs), "%lld",
		 (long long)(ms < 1000 ? 1 : (ms + 999) / 1000));
	rc = tool(h, c->id, args, false, ms + ASK_MORE_MS, &r, e);
	if (rc == 0 && r.status != 0) {
		log_debug("lxc-stop: %s", last_words(&r));
	}
	return rc == E_TIMEOUT ? 0 : rc;
}

int
lxcrun_stop(const struct ct_host *h, const struct ct *c, int64_t ms,
	    struct err *e)
{
	static const char *const hurry[] = { "lxc-stop", "-k", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	struct err soft = { 0 };
	int rc;

	if (ms > 0) {
		rc = ask(h, c, ms, e);
		if (rc < 0) {
			return rc;
		}
		rc = see_stopped(h, c, &soft);
		if (rc != E_STOP) {
			if (rc < 0 && e) {
				*e = soft;
			}
			return rc;
		}
		log_warn("%s does not stop within %lld s as asked, so it is "
			 "stopped by force",
			 c->id, (long long)((ms + 999) / 1000));
	}
	rc = tool(h, c->id, hurry, false, HURRY_MS, &r, e);
	if (rc < 0 && rc != E_TIMEOUT) {
		return rc;
	}
	err_clear(e);
	rc = see_stopped(h, c, e);
	return rc == E_STOP ? err_wrap(e, "lxc-stop -k was of no use") : rc;
}

static int
freeze(const struct ct_host *h, const struct ct *c, struct err *e)
{
	static const char *const args[] = { "lxc-freeze", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = tool(h, c->id, args, false, HURRY_MS, &r, e);

	return rc < 0	       ? rc
	       : r.status != 0 ? err_set(e, E_START,
					 "%s runs, but cannot be frozen: %s",
					 c->id, last_words(&r))
			       : 0;
}

/* Somebody else's lxc-start may be at work still, of an agent that died: wait
 * until it is known which init it is. */
static int
settle(const struct ct_host *h, const struct ct *c, struct ct_life *l,
       struct err *e)
{
	int64_t deadline = io_deadline(SETTLE_MS);
	int rc = lxcrun_life(h, c, l, e);

	while (rc == 0 && l->state == CT_RUNNING && l->since == 0 &&
	       io_left_ms(deadline) > 0) {
		poll(NULL, 0, 20);
		rc = lxcrun_life(h, c, l, e);
	}
	return rc;
}

static int
start(const struct ct_host *h, const struct ct *c, struct ct_life *l,
      struct err *e)
{
	static const char *const args[] = { "lxc-start", "-d", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	struct err why = { 0 };
	int rc = tool(h, c->id, args, true, START_MS, &r, e);

	if (rc == E_TIMEOUT) {
		return err_recode(e, E_START, "lxc-start of %s", c->id);
	}
	if (rc < 0 || r.status == 0) {
		return rc;
	}
	err_set(&why, E_START,
		"lxc-start of %s failed: %s (lxc-start -n %s -F shows more, "
		"and so may /var/log/lxc/%s.log)",
		c->id, last_words(&r), c->id, c->id);
	/* Another one may have been faster. */
	rc = settle(h, c, l, e);
	if (rc == 0 && l->state == CT_STOPPED) {
		rc = err_set(e, E_START, "%s", why.text);
	}
	return rc;
}

int
lxcrun_start(const struct ct_host *h, const struct ct *c, enum ct_state to,
	     struct err *e)
{
	struct ct_life l;
	int rc = settle(h, c, &l, e);

	if (rc == 0 && l.state == CT_STOPPED) {
		rc = start(h, c, &l, e);
	}
	if (rc == 0 && to == CT_FROZEN && l.state != CT_FROZEN) {
		rc = freeze(h, c, e);
	}
	return rc;
}
