/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * openvzprep: --compact and --snapshot, which the classic tool had vzctl do to
 * a ploop image before it copied it. The caller holds vzctl's lock. No state.
 */
#include "base/child.h"
#include "base/cleanup.h"
#include "ct/ploop.h"
#include "ct/vzconf.h"
#include "ct/vzctl.h"

#define MAX_MS (6 * 3600 * 1000LL) /* an image of terabytes */

static int
order(const char *cmd, const char *ctid, struct err *e)
{
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = vzctl_run(cmd, ctid, NULL, MAX_MS, &r, e);

	if (rc < 0) {
		return err_recode(e, rc == E_CONFIG ? rc : E_COPY,
				  "vzctl %s %s", cmd, ctid);
	}
	return r.status == 0
		       ? 0
		       : err_set(e, E_COPY,
				 "vzctl %s %s failed with code %d: %s", cmd,
				 ctid, r.status, vzctl_last_words(&r));
}

int
openvzprep_image(const struct ct_host *h, const struct ct *c, bool compact,
		 bool snapshot, struct err *e)
{
	const struct ct_want w = { .files = c->files, .nfiles = c->nfiles };
	int rc = 0;

	(void)h;
	if (!ploop_wanted(&w)) {
		return 0;
	}
	if (compact) {
		rc = order("compact", c->id, e);
	}
	if (rc == 0 && snapshot) {
		rc = order("snapshot", c->id, e);
	}
	return rc < 0 ? rc : 1;
}
