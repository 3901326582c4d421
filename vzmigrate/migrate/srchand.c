/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srchand: what a person decides of a session: that its destination is gone
 * for good (--take-back), that it is given up (--abort). Works on struct src.
 */
#include "config.h"

#include <string.h>

#include "base/log.h"
#include "migrate/srcpriv.h"

int
src_un_retire(struct src *m, struct err *e)
{
	enum steps_state state = srcsession_state(m->s);
	const char *hex = srcsession_hex(m->s);
	int rc = 0;

	m->hands_off = true;
	if (strcmp(m->take_back, hex) != 0) {
		return err_set(e, E_USAGE,
			       "--take-back: the unfinished migration of %s is "
			       "session %s, not '%s'",
			       m->ct.id, hex, m->take_back);
	}
	if (steps_owner(state) == STEPS_DESTINATION) {
		return err_set(e, E_STATE,
			       "%s has taken %s over (session %s): it cannot "
			       "be taken back",
			       srcsession_facts(m->s)->dest, m->ct.id, hex);
	}
	log_warn("session %s is taken back in state '%s' without asking %s",
		 hex, steps_state_name(state), srcsession_facts(m->s)->dest);
	if (steps_owner(state) == STEPS_DOUBT) {
		rc = srcsession_set(m->s, STEPS_NEVER, "taken back by hand", e);
	}
	rc = rc < 0 ? rc : src_restore(m, e);
	return rc < 0 ? rc
		      : srcsession_set(m->s, STEPS_GIVEN_UP,
				       "taken back by hand", e);
}

static int
moved(const struct src *m, struct err *e)
{
	return err_set(e, E_STATE,
		       "%s has taken %s over (session %s): it cannot be given "
		       "up any more; run the command without --abort to end "
		       "it",
		       srcsession_facts(m->s)->dest, m->ct.id,
		       srcsession_hex(m->s));
}

/* Out of doubt, towards this host. */
static int
back(struct src *m, struct err *e)
{
	int rc;

	m->want_back = true;
	rc = src_settle(m, e);
	if (rc != 0) {
		return rc < 0 ? rc : moved(m, e);
	}
	log_info("%s", e->text);
	err_clear(e);
	return 0;
}

int
src_end_session(struct src *m, struct err *e)
{
	enum steps_state state = srcsession_state(m->s);
	int rc;

	if (steps_owner(state) == STEPS_DESTINATION) {
		m->hands_off = true;
		return moved(m, e);
	}
	rc = src_connect(m, e);
	if (rc < 0) {
		return rc;
	}
	srcconn_shield(m->env->conn, true);
	switch (steps_rerun(state, m->dst, src_wanted_there(m) != 0)) {
	case STEPS_FORWARD:
		m->hands_off = true;
		return moved(m, e);
	case STEPS_GO_ON:
	case STEPS_AFRESH:
		rc = src_restore(m, e);
		break;
	case STEPS_REFUSE:
		m->hands_off = true;
		/* fallthrough */
	default:
		rc = back(m, e);
		break;
	}
	if (rc == 0 && m->dst != MSG_DST_NONE && m->dst != MSG_DST_ABORTED) {
		rc = src_abort(m, false, e);
	}
	return rc < 0 ? rc
		      : srcsession_set(m->s, STEPS_GIVEN_UP, "given up by hand",
				       e);
}
