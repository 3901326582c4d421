/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzctl: runs vzctl and reads what it says. State: none.
 *
 * `vzctl status` of all versions:
 *	3.0 to 3.0.22	VEID 101 exist unmounted down
 *	3.0.23 to 4.x	CTID 101 exist unmounted down [suspended]
 *	OpenVZ 7	VEID UUID exist unmounted down|running|paused|suspended
 */
#include "ct/vzctl.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static int
not_installed(struct err *e)
{
	return err_set(e, E_CONFIG,
		       "vzctl is not installed here (package vzctl of OpenVZ)");
}

int
vzctl_run(const char *cmd, const char *arg1, const char *arg2, int64_t ms,
	  struct child_result *r, struct err *e)
{
	const char *const argv[] = { "vzctl", "--skiplock", cmd,
				     arg1,    arg2,	    NULL };
	int rc = child_run(
		&(struct child_cmd){ .argv = argv, .timeout_ms = ms }, r, e);

	return rc == E_NOT_FOUND ? not_installed(e) : rc;
}

const char *
vzctl_last_words(struct child_result *r)
{
	char *text = buf_cstr(&r->err_out, NULL), *line;

	if (!text || !*text) {
		text = buf_cstr(&r->out, NULL);
	}
	if (!text) {
		return "";
	}
	for (char *end = text + strlen(text); end > text && end[-1] == '\n';) {
		*--end = '\0';
	}
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

int
vzctl_major(struct err *e)
{
	static const char *const argv[] = { "vzctl", "--version", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = child_run(&(struct child_cmd){ .argv = argv }, &r, e);
	const char *text = rc == 0 ? buf_cstr(&r.out, NULL) : NULL;
	unsigned major;

	if (rc == E_NOT_FOUND) {
		return not_installed(e);
	}
	if (rc < 0) {
		return rc;
	}
	if (!text || sscanf(text, "vzctl version %u", &major) != 1 ||
	    major > 1000) {
		return err_set(e, E_CONFIG, "vzctl --version says '%.*s'",
			       text ? (int)strcspn(text, "\n") : 0,
			       text ? text : "");
	}
	return (int)major;
}

static bool
one_of(const char *word, const char *const words[])
{
	size_t i = 0;

	while (words[i] && strcmp(word, words[i]) != 0) {
		i++;
	}
	return words[i] != NULL;
}

static int
parse_status(const char *out, const char *ctid, enum ct_state *s, bool *known,
	     struct err *e)
{
	static const char *const heads[] = { "CTID", "VEID", NULL };
	static const char *const exists[] = { "exist", "deleted", NULL };
	static const char *const mounts[] = { "mounted", "unmounted", NULL };
	static const char *const runs[] = { "running", "down", "paused",
					    "suspended", NULL };
	char head[8], id[40], exist[16], mounted[16], run[16], dump[16] = "";
	int n = sscanf(out, "%7s %39s %15s %15s %15s %15s", head, id, exist,
		       mounted, run, dump);

	if (n < 5 || !one_of(head, heads) || strcmp(id, ctid) != 0 ||
	    !one_of(exist, exists) || !one_of(mounted, mounts) ||
	    !one_of(run, runs)) {
		return err_set(e, E_CONFIG,
			       "vzctl status says '%.*s' of container %s",
			       (int)strcspn(out, "\n"), out, ctid);
	}
	*s = strcmp(run, "running") == 0  ? CT_RUNNING
	     : strcmp(run, "paused") == 0 ? CT_FROZEN
	     : strcmp(run, "suspended") == 0 || strcmp(dump, "suspended") == 0
		     ? CT_SUSPENDED
	     : strcmp(mounted, "mounted") == 0 ? CT_MOUNTED
					       : CT_STOPPED;
	if (known) {
		*known = strcmp(exist, "exist") == 0;
	}
	return 0;
}

int
vzctl_status(const char *ctid, enum ct_state *s, bool *known, struct err *e)
{
	const char *const argv[] = { "vzctl", "status", ctid, NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = child_run(&(struct child_cmd){ .argv = argv }, &r, e);

	if (rc == E_NOT_FOUND) {
		return not_installed(e);
	}
	if (rc < 0) {
		return rc;
	}
	if (r.status != 0) {
		char *text = buf_cstr(&r.err_out, NULL);

		return err_set(e, E_CONFIG,
			       "vzctl status %s failed with code %d: %.*s",
			       ctid, r.status,
			       text ? (int)strcspn(text, "\n") : 0,
			       text ? text : "");
	}
	return parse_status(buf_cstr(&r.out, NULL), ctid, s, known, e);
}

bool
vzctl_cpt_version(char *out, size_t len)
{
	static const char *const argv[] = { "vzcptcheck", "version", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	const char *text;

	if (child_run(&(struct child_cmd){ .argv = argv }, &r, NULL) < 0 ||
	    r.status != 0) {
		return false;
	}
	text = buf_cstr(&r.out, NULL);
	return text && *text && *text != '\n' &&
	       (size_t)snprintf(out, len, "%.*s", (int)strcspn(text, "\n"),
				text) < len;
}

bool
vzctl_cpt_takes(const char *version)
{
	const char *const argv[] = { "vzcptcheck", "version", version, NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };

	return child_run(&(struct child_cmd){ .argv = argv }, &r, NULL) < 0 ||
	       r.status == 0;
}
