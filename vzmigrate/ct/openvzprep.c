/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * openvzprep: --compact and --snapshot, which the classic tool had vzctl do to
 * a ploop image before it copied it. The caller holds vzctl's lock. No state.
 */
#include <string.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctpath.h"
#include "ct/vzconf.h"

#define MAX_MS (6 * 3600 * 1000LL) /* an image of terabytes */

/* What the classic tool goes by. */
#define IMAGE "root.hdd/DiskDescriptor.xml"

static int
vzctl(const char *cmd, const char *ctid, struct err *e)
{
	const char *const argv[] = { "vzctl", "--skiplock", cmd, ctid, NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	int rc = child_run(&(struct child_cmd){ .argv = argv,
						.timeout_ms = MAX_MS },
			   &r, e);
	char *said;

	if (rc < 0 || r.status == 0) {
		return rc < 0 ? err_recode(e, E_COPY, "vzctl %s %s", cmd, ctid)
			      : 0;
	}
	said = buf_cstr(&r.err_out, NULL);
	if (said) {
		said[strcspn(said, "\n")] = '\0';
	}
	return err_set(e, E_COPY, "vzctl %s %s failed with code %d: %s", cmd,
		       ctid, r.status, said ? said : "");
}

int
openvzprep_image(const struct ct_host *h, const struct ct *c, bool compact,
		 bool snapshot, struct err *e)
{
	cleanup(free_ptr) char *image = io_asprintf(e, "%s/" IMAGE, c->tree);
	int rc = 0;

	(void)h;
	if (!image) {
		return E_NOMEM;
	}
	if (ctpath_type(image) == 0) {
		return 0;
	}
	if (compact) {
		rc = vzctl("compact", c->id, e);
	}
	if (rc == 0 && snapshot) {
		rc = vzctl("snapshot", c->id, e);
	}
	return rc < 0 ? rc : 1;
}
