/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * openvzrun: an openvz container that is up: its state, stop and start, all
 * through vzctl. The caller holds vzctl's lock, so vzctl is told to take none
 * (--skiplock). vzctl knows a container only by CTID.conf, so it is stopped
 * before that gets another name. No state.
 *
 * vzctl does not say which process the init is; so one life is told from the
 * next by the state alone.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ct/vzconf.h"
#include "ct/vzctl.h"

#define HURRY_MS 60000
#define START_MS 300000 /* quota and network scripts */

static int
look(const struct ct *c, enum ct_state *s, struct err *e)
{
	struct ct_life l;
	int rc = openvzrun_life(NULL, c, &l, e);

	*s = l.state;
	return rc;
}

int
openvzrun_life(const struct ct_host *h, const struct ct *c, struct ct_life *l,
	       struct err *e)
{
	*l = (struct ct_life){ .state = CT_STOPPED };
	return c->kind->state(h, c, &l->state, e);
}

/* One order, which may do no good. */
static int
order(const struct ct *c, const char *cmd, const char *option, int64_t ms,
      enum ct_state *s, struct err *e)
{
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = vzctl_run(cmd, c->id, option, ms, &r, e);

	if (rc < 0 && rc != E_TIMEOUT) {
		return rc;
	}
	err_clear(e);
	if (r.status != 0) {
		log_info("vzctl %s %s: %s", cmd, c->id, vzctl_last_words(&r));
	}
	return look(c, s, e);
}

int
openvzrun_stop(const struct ct_host *h, const struct ct *c, int64_t ms,
	       struct err *e)
{
	enum ct_state s;
	int rc = look(c, &s, e);

	(void)h;
	if (rc == 0 && s == CT_RUNNING && ms > 0) {
		rc = order(c, "stop", NULL, ms, &s, e);
	}
	if (rc == 0 && s == CT_RUNNING) {
		if (ms > 0) {
			log_warn("%s does not stop within %lld s as asked, so "
				 "it is stopped by force",
				 c->id, (long long)((ms + 999) / 1000));
		}
		rc = order(c, "stop", "--fast", HURRY_MS, &s, e);
	}
	/* What was mounted before it was started stays so, as does what
	 * could not be unmounted at once. */
	if (rc == 0 && s == CT_MOUNTED) {
		rc = order(c, "umount", NULL, HURRY_MS, &s, e);
	}
	return rc < 0 || s == CT_STOPPED
		       ? rc
		       : err_set(e, E_STOP, "container %s is %s still", c->id,
				 ct_state_name(s));
}

int
openvzrun_start(const struct ct_host *h, const struct ct *c, enum ct_state to,
		struct err *e)
{
	cleanup(child_result_fini) struct child_result r = { 0 };
	const char *cmd = to == CT_MOUNTED ? "mount" : "start";
	enum ct_state s;
	int rc = look(c, &s, e);

	(void)h;
	if (rc < 0 || s == to || s == CT_RUNNING) {
		return rc;
	}
	rc = vzctl_run(cmd, c->id, NULL, START_MS, &r, e);
	if (rc == E_TIMEOUT) {
		return err_recode(e, E_START, "vzctl %s %s", cmd, c->id);
	}
	return rc < 0 || r.status == 0
		       ? rc
		       : err_set(e, E_START,
				 "vzctl %s %s failed with code %d: %s", cmd,
				 c->id, r.status, vzctl_last_words(&r));
}
