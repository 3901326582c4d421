/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcstop: step 6: what state the container is in is remembered, a start here
 * made impossible, and the container stopped; and the way back, which brings
 * it into that state again. Works on struct src.
 *
 * Where the runtime can stop one that is blocked, it is blocked first, while
 * it runs, so that the block costs no downtime; else (ct_kind.stop_first) the
 * runtime's lock, which we hold, keeps others from a start until it is
 * blocked.
 */
#include "config.h"

#include <string.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "migrate/srcpriv.h"
#include "xfer/limit.h"

int
src_life(const struct src *m, struct ct_life *l, struct err *e)
{
	const struct ct_host *h = &m->env->plan->host;

	*l = (struct ct_life){ .state = CT_STOPPED };
	return m->kind->life ? m->kind->life(h, &m->ct, l, e)
			     : m->kind->state(h, &m->ct, &l->state, e);
}

int
src_may_move(const struct src *m, enum ct_state s, struct err *e)
{
	/* The kind carries the dump of one that is suspended. */
	if (s == CT_STOPPED || s == CT_SUSPENDED ||
	    (ct_state_is_up(s) && m->kind->stop)) {
		return 0;
	}
	return err_set(e, E_STATE,
		       "%s is %s: stop it first, this cannot be carried over",
		       m->ct.id, ct_state_name(s));
}

static int
block(struct src *m, const struct ct_life *was, struct err *e)
{
	int rc = srcsession_set_was(m->s, STEPS_BLOCKING, was, e);

	rc = rc < 0 ? rc : fault_point("src.block", e);
	rc = rc < 0 ? rc : m->kind->block(&m->env->plan->host, &m->ct, e);
	return rc < 0 ? rc : srcsession_set(m->s, STEPS_BLOCKED, NULL, e);
}

static int
stop(struct src *m, const struct ct_life *was, struct err *e)
{
	const struct plan *p = m->env->plan;
	int rc = srcsession_set_was(m->s, STEPS_STOPPING, was, e);

	/* The last moment at which a signal costs nothing. */
	rc = rc < 0 ? rc : src_stopped(m, e);
	rc = rc < 0 ? rc : fault_point("src.stop", e);
	if (rc < 0) {
		return rc;
	}
	log_info("%s is %s; it is stopped now", m->ct.id,
		 ct_state_name(was->state));
	m->stop_ordered = true;
	m->down_ms = io_now_ms();
	/* From here on its users wait. */
	if (m->env->limit && !p->limit_cutover) {
		limit_lift(m->env->limit, true);
	}
	rc = m->kind->stop(&p->host, &m->ct, p->stop_ms, e);
	if (rc < 0) {
		return err_recode(e, E_STOP, "stop of %s", m->ct.id);
	}
	log_info("%s stopped, %lld ms", m->ct.id,
		 (long long)(io_now_ms() - m->down_ms));
	return fault_point("src.stopped", e);
}

static int
block_and_stop(struct src *m, const struct ct_life *was, struct err *e)
{
	int rc = 0;

	if (!ct_state_is_up(was->state)) {
		return block(m, was, e);
	}
	rc = m->kind->stop_first ? stop(m, was, e) : block(m, was, e);
	if (rc < 0) {
		return rc;
	}
	return m->kind->stop_first ? block(m, was, e) : stop(m, was, e);
}

static bool
same_files(const struct ct *a, const struct ct *b)
{
	bool same = a->nfiles == b->nfiles;

	for (size_t i = 0; same && i < a->nfiles; i++) {
		const struct ct_file *x = &a->files[i], *y = &b->files[i];

		same = strcmp(x->role, y->role) == 0 && x->len == y->len &&
		       (x->len == 0 || memcmp(x->data, y->data, x->len) == 0);
	}
	return same;
}

/* The passes may have taken hours, and the destination has the configuration
 * of before. */
static int
check_unchanged(const struct src *m, struct err *e)
{
	struct ct now = { 0 };
	bool same;
	int rc = m->kind->load(&m->env->plan->host, m->ct.id, &now, e);

	if (rc < 0) {
		return rc;
	}
	same = same_files(&m->ct, &now);
	ct_free(&now);
	return same ? 0
		    : err_set(e, E_CHANGED,
			      "the configuration of %s was changed while it "
			      "was copied; run the command again",
			      m->ct.id);
}

int
src_stop(struct src *m, struct err *e)
{
	struct ct_life was, now;
	int rc = src_enter(m, STEP_STOP, e);

	rc = rc < 0 || !m->ledger ? rc : check_unchanged(m, e);
	rc = rc < 0 ? rc : src_life(m, &was, e);
	rc = rc < 0 ? rc : src_may_move(m, was.state, e);
	rc = rc < 0 ? rc : block_and_stop(m, &was, e);
	/* Look again: a start may have been faster. */
	rc = rc < 0 ? rc : src_life(m, &now, e);
	if (rc == 0 && now.state != CT_STOPPED) {
		rc = err_set(e, E_STATE, "%s is %s again: somebody started it",
			     m->ct.id, ct_state_name(now.state));
	}
	return rc;
}

/* A stop that a crash left half way goes on by itself: it is brought to its
 * end, since one that is shutting down is not running. */
static int
end_stop(struct src *m, const struct ct_life *was, struct ct_life *now,
	 struct err *e)
{
	const struct plan *p = m->env->plan;
	int rc;

	if (srcsession_state(m->s) != STEPS_STOPPING || m->stop_ordered ||
	    !ct_state_is_up(now->state) || now->init != was->init ||
	    now->since != was->since) {
		return 0;
	}
	log_info("%s may be stopping still, by the order of before: that is "
		 "brought to its end",
		 m->ct.id);
	rc = m->kind->stop(&p->host, &m->ct, p->stop_ms, e);
	return rc < 0 ? rc : src_life(m, now, e);
}

int
src_start_again(struct src *m, struct err *e)
{
	const struct ct_life *was = srcsession_was(m->s);
	struct ct_life now;
	int rc;

	if (!ct_state_is_up(was->state) || !m->kind->start) {
		return 0;
	}
	rc = fault_point("src.start", e);
	rc = rc < 0 ? rc : src_life(m, &now, e);
	rc = rc < 0 ? rc : end_stop(m, was, &now, e);
	if (rc < 0 || now.state == was->state) {
		return rc;
	}
	log_info("undo: %s is brought to what it was, %s", m->ct.id,
		 ct_state_name(was->state));
	rc = m->kind->start(&m->env->plan->host, &m->ct, was->state, e);
	if (rc == 0 && m->down_ms) {
		log_info("%s was down for %lld ms", m->ct.id,
			 (long long)(io_now_ms() - m->down_ms));
	}
	return rc < 0 ? rc : fault_point("src.started", e);
}
