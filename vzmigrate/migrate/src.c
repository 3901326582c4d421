/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * src: one container's migration, step by step, from the source's side.
 * Input: what the person wants, the connection; output: the container on the
 * destination, or the source as it was, and a struct src_result. The state is
 * the session's journal (srcsession); this file and srcback.c decide what
 * comes next, by the tables of steps.c. Steps 1 and 2 are in srcopen.c, 3 in
 * srccheck.c, 5 and 7 in srcpass.c.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "migrate/srcpriv.h"
#include "migrate/srcstatus.h"
#include "track/ledger.h"
#include "xfer/limit.h"

/* For src_current_step, from the thread that waits for signals. */
static int current_step;

enum steps_step
src_current_step(void)
{
	return (enum steps_step)__atomic_load_n(&current_step,
						__ATOMIC_RELAXED);
}

static const char *current_undo;

const char *
src_current_undo(void)
{
	return __atomic_load_n(&current_undo, __ATOMIC_RELAXED);
}

void
src_set_undo(const char *what)
{
	__atomic_store_n(&current_undo, what, __ATOMIC_RELAXED);
}

int
src_stopped(const struct src *m, struct err *e)
{
	return m->env->stop && __atomic_load_n(m->env->stop, __ATOMIC_RELAXED)
		       ? err_set(e, E_CANCELLED, "interrupted")
		       : 0;
}

static void
end_step(struct src *m)
{
	int64_t now = io_now_ms();

	m->r->step_ms[m->step] += now - m->step_from_ms;
	m->step_from_ms = now;
}

void
src_note(const struct src *m, uint64_t files, uint64_t bytes)
{
	struct srcstatus_note n = { .step = m->step,
				    .pass = m->pass,
				    .files = files,
				    .bytes = bytes,
				    .total_files = m->total_files,
				    .total_bytes = m->total_bytes };

	if (m->s) {
		srcstatus_put(m->s, &n);
	}
}

static void
begin_step(struct src *m, enum steps_step step)
{
	end_step(m);
	m->step = m->r->step = step;
	__atomic_store_n(&current_step, (int)step, __ATOMIC_RELAXED);
	log_info("%s: %s", m->want->word, steps_name(step));
	src_note(m, 0, 0);
}

int
src_enter(struct src *m, enum steps_step step, struct err *e)
{
	int rc = src_stopped(m, e);

	if (rc == 0) {
		begin_step(m, step);
	}
	return rc;
}

/* ---- steps 4 to 7 ---- */

static int
step_reserve(struct src *m, struct err *e)
{
	int rc = src_enter(m, STEP_RESERVE, e);

	if (rc < 0) {
		return rc;
	}
	rc = fault_point("src.reserve", e);
	if (rc < 0) {
		return rc;
	}
	/* It may have acted even when its answer does not come. */
	m->dst = MSG_DST_RESERVED;
	return srcconn_plain(m->env->conn, MSG_RESERVE, e);
}

/* --compact, --snapshot. Nothing is to be undone: the one changes no content,
 * the other is kept as one that a person made. */
static int
prepare_image(struct src *m, struct err *e)
{
	const struct plan *p = m->env->plan;
	int rc = 0;

	if (!p->compact && !p->snapshot) {
		return 0;
	}
	if (m->kind->prepare) {
		rc = m->kind->prepare(&p->host, &m->ct, p->compact, p->snapshot,
				      e);
	}
	if (rc == 0) {
		log_warn("%s has no ploop image, so --%s has no effect",
			 m->ct.id, p->compact ? "compact" : "snapshot");
	}
	return rc < 0 ? rc : 0;
}

/* Steps 3 to 7: everything up to the proof. 1: only the checks were wanted. */
static int
copy_all(struct src *m, struct err *e)
{
	int rc = src_check(m, e);

	if (rc == 0 && m->env->plan->check_only) {
		return 1;
	}
	rc = rc < 0 ? rc : step_reserve(m, e);
	rc = rc < 0 ? rc : prepare_image(m, e);
	if (rc == 0 && ct_state_is_up(m->ct.state)) {
		rc = src_rounds(m, e);
	}
	rc = rc < 0 ? rc : src_stop(m, e);
	return rc < 0 ? rc : src_pass(m, e);
}

/* ---- steps 8 and 9 ---- */

static int
step_retire(struct src *m, struct err *e)
{
	int rc = src_enter(m, STEP_RETIRE, e);

	if (rc < 0) {
		return rc;
	}
	/* From here on a signal only waits. */
	srcconn_shield(m->env->conn, true);
	rc = srcsession_set(m->s, STEPS_RETIRING, NULL, e);
	rc = rc < 0 ? rc : fault_point("src.retire", e);
	rc = rc < 0 ? rc
		    : m->kind->retire(&m->env->plan->host, &m->ct,
				      srcsession_hex(m->s), e);
	return rc < 0 ? rc : srcsession_set(m->s, STEPS_RETIRED, NULL, e);
}

static int
step_take_over(struct src *m, struct err *e)
{
	int rc;

	begin_step(m, STEP_TAKE_OVER);
	rc = src_settle(m, e);
	if (rc != 0) {
		return rc < 0 ? rc : 0;
	}
	/* Back: `e` has the reason. */
	return e->code;
}

/* ---- what is told at the end ---- */

/* As it was told last, or, if it cannot be asked any more, at the beginning. */
static void
note_place(struct src *m)
{
	const struct srcsession_facts *f = srcsession_facts(m->s);
	const char *id = m->place.id ? m->place.id : f->dst_id;
	const char *tree = m->place.tree ? m->place.tree : f->dst_tree;

	m->r->new_id = id ? strdup(id) : NULL;
	if (tree && !m->r->dst_tree) {
		m->r->dst_tree = strdup(tree);
	}
}

void
src_found(struct src *m, const struct send_survey *s, const struct fsprobe *fs)
{
	struct src_found *f = &m->r->found;

	*f = (struct src_found){
		.removes = plan_removes(m->env->plan, m->kind),
		.entries = s->entries,
		.bytes = s->data,
		.disk_bytes = s->bytes,
		.free_bytes = fs->bytes_free,
		.free_inodes = fs->inodes_free,
	};
	snprintf(f->fs, sizeof(f->fs), "%s", fs->type);
	if (!m->kind->by_path) {
		f->state = m->ct.state;
		f->state_there =
			ct_state_is_up(f->state) && m->env->plan->nostart
				? CT_STOPPED
				: f->state;
	}
}

/* ---- step 10 ---- */

static void
late(struct src *m, const char *what, const struct err *e)
{
	log_warn("moved, but %s: %s", what, e->text);
	m->r->clean_up_failed = true;
}

/* On the connection there is, or a new one. */
static int
finish_once(struct src *m, struct err *e)
{
	struct msg_state st = { 0 };
	int rc = 0;

	if (!srcconn_alive(m->env->conn)) {
		m->opened = false;
		rc = srcconn_up(m->env->conn, e);
	}
	if (rc >= 0 && !m->opened) {
		rc = src_open(m, e);
	}
	if (rc >= 0 && m->dst != MSG_DST_FINISHED) {
		rc = srcconn_state(m->env->conn, MSG_FINISH, false, &st, e);
	}
	msg_state_fini(&st);
	return rc;
}

static void
tell_finish(struct src *m)
{
	struct err e = { 0 };
	int rc = fault_point("src.finish", &e);

	if (rc == 0) {
		rc = finish_once(m, &e);
	}
	/* Nobody would tell it later, so a link that broke is made once more;
	 * a host that fell silent is not waited for again. */
	if (rc < 0 && rc != E_TIMEOUT && !srcconn_alive(m->env->conn)) {
		log_debug("%s", e.text);
		err_clear(&e);
		rc = finish_once(m, &e);
	}
	if (rc < 0) {
		log_warn("the destination was not told that all is done, and "
			 "keeps its record of it: %s",
			 e.text);
	}
}

/* After a crash in this step: whether the container was made anew here, or
 * came back, since. Then it is not ours to destroy. */
static bool
is_back(struct src *m)
{
	const char *hex = srcsession_hex(m->s);
	struct err e = { 0 };
	struct ct c = { 0 };
	bool back;

	if (m->loaded ||
	    m->kind->load(&m->env->plan->host, m->ct.id, &c, &e) < 0) {
		return false;
	}
	back = !c.tag || strcmp(c.tag, hex) != 0;
	if (back) {
		log_warn("%s exists here again, so the source copy of session "
			 "%s is not removed",
			 m->ct.id, hex);
	}
	ct_free(&c);
	return back;
}

static int
add_remains(const char *path, void *arg, struct err *e)
{
	struct src_result *r = arg;
	char **more = reallocarray(r->remains, r->nremains + 1, sizeof(*more));

	if (!more) {
		return err_nomem(e);
	}
	r->remains = more;
	more[r->nremains] = strdup(path);
	return more[r->nremains] ? (r->nremains++, 0) : err_nomem(e);
}

/* Where it is and what removes it: without the latter the former is told. */
static void
note_kept(struct src *m)
{
	struct err e = { 0 };
	int rc;

	m->r->kept = strdup(m->ct.tree);
	rc = m->kind->remains ? m->kind->remains(&m->env->plan->host, &m->ct,
						 add_remains, m->r, &e)
			      : add_remains(m->ct.tree, m->r, &e);
	if (rc < 0) {
		log_debug("%s: what is left of it: %s", m->ct.id, e.text);
	}
}

static void
remove_source(struct src *m)
{
	struct err e = { 0 };
	int rc;

	if (!plan_removes(m->env->plan, m->kind)) {
		m->r->copied = !m->kind->remove_default;
		note_kept(m);
		return;
	}
	if (is_back(m)) {
		/* Not to be removed by a person either. */
		m->r->copied = !m->kind->remove_default;
		m->r->kept = strdup(m->ct.tree);
		return;
	}
	rc = fault_point("src.destroy", &e);
	if (rc == 0) {
		rc = m->kind->destroy(&m->env->plan->host, &m->ct, &e);
	}
	if (rc < 0) {
		note_kept(m);
		late(m, "the source copy could not be removed", &e);
	}
}

/* Nothing here fails the run. */
static void
step_clean_up(struct src *m)
{
	struct err e = { 0 };

	srcconn_shield(m->env->conn, true);
	begin_step(m, STEP_CLEAN_UP);
	m->r->moved = true;
	note_place(m);
	tell_finish(m);
	remove_source(m);
	if (srcsession_set(m->s, STEPS_DONE, NULL, &e) < 0) {
		late(m, "its journal could not be closed", &e);
	}
}

/* ---- the whole ---- */

static int
fail(struct src *m, struct err *e)
{
	enum steps_state state;

	m->r->remote |= srcconn_remote(m->env->conn);
	if ((e->code == E_CLOSED || e->code == E_TIMEOUT) && !m->r->remote &&
	    m->step > STEP_CONNECT) {
		err_recode(e, e->code, "%s: the link broke in step \"%s\"",
			   m->want->word, steps_name(m->step));
	}
	if (!m->s || m->hands_off) {
		return e->code;
	}
	state = srcsession_state(m->s);
	if (steps_owner(state) == STEPS_SOURCE) {
		return src_roll_back(m, e);
	}
	if (e->code == E_UNKNOWN) {
		return e->code;
	}
	return err_recode(e, E_UNKNOWN,
			  "it cannot be learned whether %s has taken %s over, "
			  "so nothing was started; run the same command again "
			  "when that host can be reached (session %s; if it is "
			  "gone for good, see --take-back)",
			  m->env->dest, m->ct.id, srcsession_hex(m->s));
}

/* Only the checks were wanted: leave nothing. */
static int
end_checks(struct src *m, struct err *e)
{
	m->r->checked = true;
	note_place(m);
	if (m->dst != MSG_DST_NONE) {
		return 0;
	}
	if (src_abort(m, false, e) < 0) {
		log_warn("%s", e->text);
		err_clear(e);
	}
	return srcsession_set(m->s, STEPS_GIVEN_UP, "only checked", e);
}

static int
run(struct src *m, struct err *e)
{
	bool committed;
	int rc = src_lock(m, e);

	if (rc == 0) {
		rc = src_connect(m, e);
		committed = srcsession_state(m->s) == STEPS_COMMITTED;
		if (rc < 0 && committed && rc != E_BUSY) {
			/* Only cleaning up is left; that needs nobody. */
			log_warn("%s", e->text);
			err_clear(e);
			rc = 1;
		} else if (rc == 0) {
			rc = src_resume(m, e);
		}
	}
	if (rc == 0) {
		rc = copy_all(m, e);
		if (rc == 1) {
			return end_checks(m, e);
		}
		rc = rc < 0 ? rc : step_retire(m, e);
		rc = rc < 0 ? rc : step_take_over(m, e);
	}
	if (rc < 0) {
		return fail(m, e);
	}
	step_clean_up(m);
	return 0;
}

static void
finish_log(struct src *m, int rc, const struct err *e)
{
	struct err log_err = { 0 };

	if (!m->s) {
		return;
	}
	if (rc < 0) {
		log_info("failed: %s", e->text);
	} else {
		log_info("%s", m->r->checked  ? "checked"
			       : m->take_back ? "taken back"
			       : m->give_up   ? "given up"
					      : "moved");
	}
	logfile_syslog_end(m->ct.id, m->env->dest, m->r->session, rc == 0,
			   rc < 0 ? e->text : NULL);
	log_remove_sink(m->log_sink);
	if (logfile_close(m->log, &log_err) < 0) {
		log_warn("%s", log_err.text);
	}
}

/* --take-back and --abort. */
static int
by_hand(struct src *m, struct err *e)
{
	int rc = src_enter(m, STEP_LOCK, e);

	rc = rc < 0 ? rc : src_lock_open(m, e);
	if (rc == E_BUSY) {
		return src_explain_busy(m, e);
	}
	if (rc == 0) {
		return err_set(e, E_NOT_FOUND,
			       "%s is in no unfinished migration here",
			       m->want->word);
	}
	if (rc == 1) {
		/* Only told. */
		m->r->kind = strdup(m->kind->name);
		m->r->id = strdup(m->ct.id);
		rc = m->give_up ? src_end_session(m, e) : src_un_retire(m, e);
	}
	return rc < 0 && m->give_up ? fail(m, e) : rc;
}

static int
whole(const struct src_env *env, const struct plan_ct *want,
      const char *session, bool give_up, struct src_result *r, struct err *e)
{
	struct src m = { .env = env,
			 .want = want,
			 .take_back = session,
			 .give_up = give_up,
			 .r = r,
			 .lockfd = -1,
			 .log_sink = -1 };
	int64_t from = io_now_ms();
	int rc;

	memset(r, 0, sizeof(*r));
	r->owner = STEPS_SOURCE;
	r->downtime_ms = -1;
	m.step_from_ms = from;
	rc = session || give_up ? by_hand(&m, e) : run(&m, e);
	if (m.s) {
		r->owner = steps_owner(srcsession_state(m.s));
		snprintf(r->session, sizeof(r->session), "%s",
			 srcsession_hex(m.s));
	}
	end_step(&m);
	r->ms = io_now_ms() - from;
	finish_log(&m, rc, e);
	srccontrol_close(m.control);
	srcsession_close(m.s);
	ledger_free(m.ledger);
	images_fini(&m.images);
	if (m.locked) {
		m.kind->unlock(&env->plan->host, &m.ct, m.lockfd);
	}
	if (env->limit) {
		limit_lift(env->limit, false); /* for the next container */
	}
	srcconn_shield(env->conn, false);
	msg_open_reply_fini(&m.place);
	ct_free(&m.ct);
	return rc;
}

int
src_migrate(const struct src_env *env, const struct plan_ct *want,
	    struct src_result *r, struct err *e)
{
	return whole(env, want, NULL, false, r, e);
}

int
src_take_back(const struct src_env *env, const struct plan_ct *want,
	      const char *session, struct src_result *r, struct err *e)
{
	return whole(env, want, session, false, r, e);
}

int
src_give_up(const struct src_env *env, const struct plan_ct *want,
	    struct src_result *r, struct err *e)
{
	return whole(env, want, NULL, true, r, e);
}

void
src_result_fini(struct src_result *r)
{
	free(r->kind);
	free(r->id);
	free(r->new_id);
	free(r->dst_tree);
	free(r->kept);
	for (size_t i = 0; i < r->nremains; i++) {
		free(r->remains[i]);
	}
	free(r->remains);
	free(r->log_path);
	send_result_fini(&r->sent);
	memset(r, 0, sizeof(*r));
}
