/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzctl: OpenVZ's own programs, driven by argument vectors; for ct/ alone.
 * What differs between vzctl 3.0, 4.x and OpenVZ 7's is known here.
 */
#ifndef CT_VZCTL_H
#define CT_VZCTL_H

#include "base/child.h"
#include "ct/ct.h"

/* Where OpenVZ 7 begins: CTIDs are UUIDs, a container's configuration lies in
 * its private area, and containers are registered. */
#define VZCTL_OPENVZ7 7

/* The major number of `vzctl --version`; E_CONFIG without vzctl, or where it
 * says something else. */
int vzctl_major(struct err *e);

/* `vzctl status`; `known` (may be NULL) tells whether it says "exist".
 * E_CONFIG without vzctl. CT_FROZEN is what OpenVZ 7 calls paused. */
int vzctl_status(const char *ctid, enum ct_state *s, bool *known,
		 struct err *e);

/*
 * `vzctl --skiplock CMD ARG1 ARG2`: the lock is the caller's. `arg2` may be
 * NULL. 0 when it ran, whatever it returned; E_CONFIG without vzctl,
 * E_TIMEOUT. `r` is the caller's to fini.
 */
int vzctl_run(const char *cmd, const char *arg1, const char *arg2, int64_t ms,
	      struct child_result *r, struct err *e);

/* The version of dumps that the kernel here makes, by vzcptcheck; false where
 * that cannot be asked. */
bool vzctl_cpt_version(char *out, size_t len);
/* Whether the kernel here resumes dumps of that version, as far as vzcptcheck
 * can be asked. */
bool vzctl_cpt_takes(const char *version);

/* The last line of what a program said, for messages; inside `r`. */
const char *vzctl_last_words(struct child_result *r);

#endif
