/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcback: the ways back and out of doubt: undoing what was done here, asking
 * the destination, and taking up what an earlier run left. Works on struct
 * src, by the tables of steps.c.
 */
#include "config.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "migrate/srcpriv.h"

/* Put what became of it behind the first error. */
static int
add_text(struct err *e, const char *text)
{
	struct err first = *e;

	return err_set(e, first.code, "%.1500s; %.400s", first.text, text);
}

/* What became of the source, and what to do where trying again may help. */
static void
add_fate(const struct src *m, bool owed, struct err *e)
{
	bool broke = e->code == E_CLOSED || e->code == E_TIMEOUT;
	char text[160];

	/* An image that was prepared may have changed all the same. */
	if (!owed && (m->step < STEP_RESERVE || m->env->plan->compact ||
		      m->env->plan->snapshot)) {
		return;
	}
	snprintf(text, sizeof(text), "the source %s%s",
		 owed ? "is as it was" : "was not touched",
		 broke ? "; run the same command again when that host can be "
			 "reached"
		       : "");
	add_text(e, text);
}

/* ---- the source ---- */

static int
undo_unretire(struct src *m, struct err *e)
{
	int rc = 0;

	/* The journal first: were "retired" its last word, a rerun might order
	 * the commit of a tree that has lived on here. */
	if (srcsession_state(m->s) != STEPS_NEVER) {
		rc = srcsession_set(m->s, STEPS_NEVER, "going back", e);
	}
	rc = rc < 0 ? rc : fault_point("src.unretire", e);
	if (rc < 0) {
		return rc;
	}
	log_info("undo: %s is no longer marked as moved away", m->ct.id);
	return m->kind->unretire(&m->env->plan->host, &m->ct,
				 srcsession_hex(m->s), e);
}

static int
undo_unblock(struct src *m, struct err *e)
{
	int rc = fault_point("src.unblock", e);

	if (rc < 0) {
		return rc;
	}
	log_info("undo: %s may be started here again", m->ct.id);
	return m->kind->unblock(&m->env->plan->host, &m->ct, e);
}

int
src_restore(struct src *m, struct err *e)
{
	enum steps_state state = srcsession_state(m->s);
	unsigned undo = steps_undo(state);
	int rc = 0;

	if (!undo) {
		return 0;
	}
	if (steps_owner(state) != STEPS_SOURCE) {
		return err_set(e, E_UNKNOWN, "%s may not be taken back in '%s'",
			       m->ct.id, steps_state_name(state));
	}
	if (undo & STEPS_UNDO_UNRETIRE) {
		src_set_undo("it is no longer marked as moved away");
		rc = undo_unretire(m, e);
	}
	if (rc == 0 && (undo & STEPS_UNDO_UNBLOCK)) {
		src_set_undo("it is made startable here again");
		rc = undo_unblock(m, e);
	}
	if (rc == 0 && (undo & STEPS_UNDO_START)) {
		src_set_undo("it is brought to what it was");
		rc = src_start_again(m, e);
	}
	src_set_undo(NULL);
	if (rc == 0) {
		rc = srcsession_set(m->s, STEPS_RESTORED, NULL, e);
	}
	m->r->not_undone = rc < 0;
	return rc;
}

/* ---- the destination's part of it ---- */

/* A live connection on which the session is open. */
static int
reach(struct src *m, struct err *e)
{
	int rc = srcconn_alive(m->env->conn) && m->opened
			 ? 0
			 : srcconn_up(m->env->conn, e);

	if (rc > 0 || (rc == 0 && !m->opened)) {
		m->opened = false;
		rc = src_open(m, e);
	}
	return rc;
}

int
src_abort(struct src *m, bool keep, struct err *e)
{
	struct msg_state st = { 0 };
	int rc = fault_point("src.abort", e);

	if (rc == 0) {
		rc = reach(m, e);
	}
	if (rc == 0) {
		rc = srcconn_state(m->env->conn, MSG_ABORT, keep, &st, e);
	}
	if (rc == 0) {
		m->dst = (enum msg_dst_state)st.state;
		if (st.note) {
			log_info("%s: %s", m->env->dest, st.note);
		}
	}
	msg_state_fini(&st);
	return rc;
}

/* After the source is restored: have the destination forget, and close. What
 * cannot be said there now is said by the next run. */
static void
forget_there(struct src *m, bool reconnect)
{
	bool keep = m->env->plan->keep_dst;
	bool there = m->dst != MSG_DST_NONE && m->dst != MSG_DST_ABORTED;
	struct err e = { 0 };
	int rc = 0;

	if (srcsession_state(m->s) == STEPS_NEW ||
	    srcsession_state(m->s) == STEPS_GIVEN_UP) {
		return;
	}
	if (m->opened && (there || srcconn_alive(m->env->conn))) {
		rc = reconnect || srcconn_alive(m->env->conn)
			     ? src_abort(m, keep, &e)
			     : err_set(&e, E_CLOSED, "the link is gone");
		there = there && (rc < 0 || keep);
	} else {
		/* Before it was asked anything, what an earlier run left
		 * there is still there. */
		there = there || m->taken_up ||
			srcsession_state(m->s) == STEPS_RESTORED;
		rc = there ? err_set(&e, E_CLOSED, "it was not asked") : 0;
	}
	if (rc < 0 && there) {
		log_warn("%s keeps the staging area until the command is run "
			 "again: %s",
			 m->env->dest, e.text);
	} else if (there && keep) {
		log_info("%s keeps the staging area, as asked", m->env->dest);
	}
	err_clear(&e);
	if (!there) {
		rc = srcsession_set(m->s, STEPS_GIVEN_UP, NULL, &e);
	} else if (srcsession_state(m->s) == STEPS_OPEN) {
		rc = srcsession_set(m->s, STEPS_RESTORED, NULL, &e);
	}
	if (e.code) {
		log_warn("%s", e.text);
	}
}

int
src_roll_back(struct src *m, struct err *e)
{
	bool owed = steps_undo(srcsession_state(m->s)) != 0;
	/* A host that was there a moment ago is asked once more; for one that
	 * fell silent nobody waits again. */
	bool reconnect = e->code != E_TIMEOUT && e->code != E_FENCED;
	struct err undo = { 0 };

	srcconn_shield(m->env->conn, true);
	if (src_restore(m, &undo) < 0) {
		log_error("undo: %s", undo.text);
		return add_text(e, "the source could NOT be restored, run the "
				   "same command again");
	}
	src_set_undo("what was made on the destination is removed");
	forget_there(m, reconnect);
	src_set_undo(NULL);
	if (owed) {
		log_info("the source is as it was");
	}
	add_fate(m, owed, e);
	return e->code;
}

/* ---- doubt ---- */

#define AGAIN 2 /* the connection broke: ask again */

static int
ask_another(struct src *m, const struct err *e)
{
	log_warn("%s", e->text);
	m->opened = false;
	srcconn_drop(m->env->conn);
	return AGAIN;
}

/* A request failed. With the connection alive it was the agent who said no. */
static int
broken(struct src *m, const struct err *e)
{
	return e->code != E_FENCED && srcconn_alive(m->env->conn)
		       ? e->code
		       : ask_another(m, e);
}

uint8_t
src_wanted_there(const struct src *m)
{
	enum ct_state was = srcsession_was(m->s)->state;

	return ct_state_is_up(was) && !m->env->plan->nostart ? (uint8_t)was : 0;
}

/* Order the commit; `why` keeps the agent's reason for refusing. */
static int
order(struct src *m, struct err *why, struct err *e)
{
	struct msg_take_over t = { .epoch = m->epoch,
				   .start = src_wanted_there(m) };
	struct msg_take_over_reply r = { 0 };
	/* After a crash it may be half done; repeating it is harmless. */
	int rc = m->kind->retire(&m->env->plan->host, &m->ct,
				 srcsession_hex(m->s), e);

	rc = rc < 0 ? rc : fault_point("src.take-over", e);
	if (rc < 0) {
		m->want_back = true;
		*why = *e;
		return 0;
	}
	rc = srcconn_take_over(m->env->conn, &t, &r, e);
	if (rc < 0) {
		rc = broken(m, e);
		if (rc < 0) {
			/* It cannot: see that it never will. */
			m->want_back = true;
			m->r->remote = true;
			*why = *e;
			rc = 0;
		}
		return rc;
	}
	m->dst = (enum msg_dst_state)r.state;
	if (m->down_ms && r.since_ms < INT64_MAX) {
		m->r->downtime_ms =
			io_now_ms() - (int64_t)r.since_ms - m->down_ms;
	}
	free(m->r->dst_tree);
	m->r->dst_tree = r.tree ? strdup(r.tree) : NULL;
	msg_take_over_reply_fini(&r);
	return 0;
}

static int
ask_never(struct src *m, struct err *e)
{
	struct msg_state st = { 0 };
	int rc = fault_point("src.never", e);

	if (rc < 0) {
		return rc;
	}
	rc = srcconn_state(m->env->conn, MSG_NEVER, false, &st, e);
	if (rc < 0) {
		/* That it runs there, or that this is not known, stands. But
		 * an agent whose journal broke only can do no more; what it
		 * came to write, the next one reads. */
		return rc == E_STATE || rc == E_UNKNOWN ? broken(m, e)
							: ask_another(m, e);
	}
	m->dst = (enum msg_dst_state)st.state;
	if (st.note) {
		log_info("%s: %s", m->env->dest, st.note);
	}
	msg_state_fini(&st);
	return 0;
}

static int
go_back(struct src *m, const struct err *why, struct err *e)
{
	int rc = srcsession_set(m->s, STEPS_NEVER,
				why->code ? why->text : "the destination says",
				e);

	rc = rc < 0 ? rc : src_restore(m, e);
	if (rc < 0) {
		/* src_roll_back tries again. */
		m->r->not_undone = true;
		return rc;
	}
	log_info("the source is as it was");
	if (why->code) {
		*e = *why;
	} else {
		err_set(e, E_REMOTE, "%s gave the container up", m->env->dest);
	}
	add_text(e, "the source is as it was");
	return 0;
}

/* One answer of the destination, one act. 1, 0, AGAIN, an error; `*done` is
 * false while there is more to do on this connection. */
static int
act(struct src *m, struct err *why, bool *done, struct err *e)
{
	enum steps_action a = steps_rerun(srcsession_state(m->s), m->dst,
					  src_wanted_there(m) != 0);
	int rc;

	*done = false;
	if (a == STEPS_TAKE_OVER && m->want_back) {
		a = STEPS_ASK_NEVER;
	}
	log_debug("source %s, destination %s: %s",
		  steps_state_name(srcsession_state(m->s)),
		  msg_dst_state_name(m->dst), steps_action_name(a));
	switch (a) {
	case STEPS_TAKE_OVER:
		rc = order(m, why, e);
		break;
	case STEPS_ASK_NEVER:
		rc = ask_never(m, e);
		break;
	case STEPS_GO_BACK:
		*done = true;
		return go_back(m, why, e);
	case STEPS_FORWARD:
		*done = true;
		if (srcsession_state(m->s) == STEPS_COMMITTED) {
			return 1;
		}
		if (srcsession_set(m->s, STEPS_COMMITTED, NULL, e) < 0) {
			/* The destination's journal has it, and is asked
			 * again by a rerun. */
			return e->code;
		}
		return 1;
	default:
		*done = true;
		return err_set(e, E_UNKNOWN,
			       "the journals of both hosts contradict each "
			       "other (here '%s', on %s '%s', session %s): "
			       "nothing was touched; look on both hosts which "
			       "of them has %s",
			       steps_state_name(srcsession_state(m->s)),
			       m->env->dest, msg_dst_state_name(m->dst),
			       srcsession_hex(m->s), m->ct.id);
	}
	*done = rc != 0;
	return rc;
}

/* Each answer leads on in one direction only; more rounds than this are a
 * destination that plays with us. */
#define ROUNDS_MAX 8

int
src_settle(struct src *m, struct err *e)
{
	const struct src_env *env = m->env;
	struct err why = { 0 };
	unsigned pause = env->pause_ms;
	unsigned tries = env->tries ? env->tries : 1;

	srcconn_shield(env->conn, true);
	err_clear(e);
	for (unsigned i = 0; i < tries; i++) {
		bool done = false;
		int rc = AGAIN;

		if (i > 0) {
			log_info("asking %s again in %u ms: %s", env->dest,
				 pause, e->text);
			poll(NULL, 0, (int)pause);
			pause *= 2;
		}
		if (reach(m, e) < 0) {
			continue;
		}
		for (int k = 0; k < ROUNDS_MAX && !done; k++) {
			rc = act(m, &why, &done, e);
		}
		if (done && rc != AGAIN) {
			return rc;
		}
		if (!done) {
			err_set(e, E_PROTOCOL,
				"%s answers again and again that it is '%s'",
				env->dest, msg_dst_state_name(m->dst));
		}
	}
	return err_recode(e, E_UNKNOWN,
			  "it cannot be learned whether %s has taken %s over, "
			  "so nothing was started; run the same command again "
			  "when that host can be reached (session %s; if it is "
			  "gone for good, see --take-back)",
			  env->dest, m->ct.id, srcsession_hex(m->s));
}

/* ---- taking up what an earlier run left ---- */

/* The session is of no more use: close it on both hosts, begin another. */
static int
afresh(struct src *m, struct err *e)
{
	struct err there = { 0 };
	int rc = src_restore(m, e);

	if (rc < 0) {
		return rc;
	}
	if (m->dst != MSG_DST_NONE && m->dst != MSG_DST_ABORTED &&
	    m->dst != MSG_DST_FINISHED && src_abort(m, false, &there) < 0) {
		log_warn("session %s may have left a staging area: %s",
			 srcsession_hex(m->s), there.text);
	}
	rc = srcsession_set(m->s, STEPS_GIVEN_UP, "a new session follows", e);
	rc = rc < 0 ? rc : srcsession_put_away(m->s, e);
	m->opened = false;
	m->dst = MSG_DST_NONE;
	m->want_back = false;
	rc = rc < 0 ? rc : src_load(m, m->ct.id, e);
	rc = rc < 0 ? rc : src_begin_open(m, e);
	if (rc == 0 && m->dst != MSG_DST_NONE) {
		rc = err_set(e, E_PROTOCOL,
			     "%s knows the new session %s already (%s)",
			     m->env->dest, srcsession_hex(m->s),
			     msg_dst_state_name(m->dst));
	}
	return rc;
}

/* The same session: the destination adopts what it has. */
static int
go_on(struct src *m, struct err *e)
{
	const struct srcsession_facts *was = srcsession_facts(m->s);
	struct srcsession_facts now;
	int rc;

	src_facts(m, was->dst_host, &now);
	if (!srcsession_same_place(was, &now)) {
		log_info("the destination's place was changed by an option");
		return afresh(m, e);
	}
	rc = src_restore(m, e);
	if (rc == 0 && !m->loaded) {
		rc = src_load(m, m->ct.id, e);
	}
	if (rc == 0 &&
	    (srcsession_state(m->s) == STEPS_RESTORED || !was->dst_id)) {
		rc = src_begin(m, e);
	}
	return rc;
}

int
src_resume(struct src *m, struct err *e)
{
	enum steps_state state = srcsession_state(m->s);
	enum steps_action a =
		steps_rerun(state, m->dst, src_wanted_there(m) != 0);
	int rc;

	if (state != STEPS_OPEN || m->dst != MSG_DST_NONE) {
		log_info("session %s: here %s, there %s: %s",
			 srcsession_hex(m->s), steps_state_name(state),
			 msg_dst_state_name(m->dst), steps_action_name(a));
	}
	switch (a) {
	case STEPS_GO_ON:
		return go_on(m, e);
	case STEPS_AFRESH:
		return afresh(m, e);
	case STEPS_REFUSE:
		m->hands_off = true;
		break;
	default:
		break;
	}
	rc = src_settle(m, e);
	if (rc == 0) {
		/* Taken back; now begin again as if nothing had been. */
		log_info("%s", e->text);
		err_clear(e);
		srcconn_shield(m->env->conn, false);
		rc = afresh(m, e);
	}
	return rc;
}
