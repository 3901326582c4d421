/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_commit: the orders that decide who owns the container: take over,
 * never, abort, finish; and after a crash, what is still to be done of them.
 *
 * Each order runs under the session's lock with the epoch checked, writes
 * what it is going to do, does it in steps that may be repeated, and writes
 * that it is done. What a crash leaves is settled by the next OPEN:
 *
 *	commit without committed
 *		The tree is staged: nothing can be registered, since the
 *		configuration comes last. The client decides anew.
 *		The tree is at its place, and the runtime knows the CT: the
 *		commit is brought to its end, for it may be running already.
 *		The tree is anywhere else (a kind may have a place in
 *		between), or unknown to the runtime: the client decides
 *		anew; both ways are open.
 *	start without running or start-failed
 *		It is committed, and may run: the client orders the start
 *		again, which finds it running or starts it.
 *	undo without never
 *		Undone to the end: the order to go back had been given.
 *	abort without aborted
 *		The session counts as reserved; it can be adopted (pass 1
 *		empties the tree) or aborted again.
 *
 * Which tree it is, is known by inode number and time of birth, recorded
 * with the commit event; so a container that somebody else made at the place
 * meanwhile is never taken for ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "fs/beneath.h"
#include "fs/iflags.h"
#include "migrate/dst_int.h"

/* ---- where the tree is ---- */

enum where {
	STAGED,	   /* in the staging area */
	PLACED,	   /* where the container's tree belongs */
	ELSEWHERE, /* in between, which the kind knows; or moved by others */
};

/* 1 with the inode's number and birth, 0 where there is no directory. */
static int
identity(const char *path, uint64_t *ino, char btime[40], struct err *e)
{
	struct statx stx;

	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW,
		  STATX_BASIC_STATS | STATX_BTIME, &stx) < 0) {
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : err_sys(e, errno, "cannot stat %s", path);
	}
	if (!S_ISDIR(stx.stx_mode)) {
		return 0;
	}
	*ino = stx.stx_ino;
	btime[0] = '\0';
	if (stx.stx_mask & STATX_BTIME) {
		snprintf(btime, 40, "%lld.%09u",
			 (long long)stx.stx_btime.tv_sec,
			 stx.stx_btime.tv_nsec);
	}
	return 1;
}

/* 1 where the tree of the commit event is at `path`. */
static int
is_ours(struct dst *d, const char *path, struct err *e)
{
	char btime[40];
	uint64_t ino;
	int rc = identity(path, &ino, btime, e);

	return rc <= 0 ? rc
		       : ino == d->rec.tree_ino &&
				 strcmp(btime, d->rec.tree_btime) == 0;
}

static int
find_tree(struct dst *d, enum where *w, struct err *e)
{
	cleanup(free_ptr) char *staged = dst_tree_path(d, e);
	int rc;

	if (!staged) {
		return E_NOMEM;
	}
	*w = STAGED;
	rc = is_ours(d, staged, e);
	if (rc == 0) {
		*w = PLACED;
		rc = is_ours(d, d->p.v[DP_PLACE_TREE], e);
	}
	if (rc == 0) {
		*w = ELSEWHERE;
	}
	return rc < 0 ? rc : 0;
}

/* The kind said it is there: see that it is what was staged. */
static int
expect(struct dst *d, const char *path, struct err *e)
{
	int rc = is_ours(d, path, e);

	return rc != 0 ? (rc < 0 ? rc : 0)
		       : err_set(e, E_UNKNOWN,
				 "%s is not the tree of session %s; somebody "
				 "has moved it",
				 path, d->hex);
}

/* ---- commit ---- */

/* Immutable and append-only of the tree's root: they forbid the renaming, so
 * they come after it, and go before it is undone. */
static int
set_root_flags(struct dst *d, bool on, struct err *e)
{
	const char *tree = d->p.v[DP_PLACE_TREE];
	cleanup(close_fd) int fd = -1;
	struct meta_loss loss;
	int rc;

	if (d->rec.root_flags == 0) {
		return 0;
	}
	fd = beneath_open_root(tree, e);
	if (fd < 0) {
		return fd;
	}
	meta_loss_init(&loss);
	rc = on ? iflags_lock(fd, d->rec.root_flags,
			      d->policy == META_WARN ? &loss : NULL, e)
		: iflags_unlock(fd, NULL, e);
	if (rc < 0) {
		err_wrap(e, "%s", tree);
	} else if (meta_loss_any(&loss)) {
		log_warn("%s: %s", tree, loss.why);
	}
	meta_loss_fini(&loss);
	if (rc == 0 && fsync(fd) < 0) {
		rc = err_sys(e, errno, "cannot fsync %s", tree);
	}
	return rc;
}

static int
commit_event(struct dst *d, const char *staged, struct err *e)
{
	char ino[24], btime[40];
	const struct journal_field f[] = { { "ino", ino }, { "btime", btime } };
	uint64_t n;
	int rc = identity(staged, &n, btime, e);

	if (rc <= 0) {
		return rc < 0 ? rc
			      : err_set(e, E_NOT_FOUND, "there is no %s",
					staged);
	}
	snprintf(ino, sizeof(ino), "%llu", (unsigned long long)n);
	return dst_event(d, EV_COMMIT, f, 2, e);
}

/* From the commit event to `committed`; may be repeated. */
static int
commit_steps(struct dst *d, const char *staged, struct err *e)
{
	struct ct_want w;
	struct ct_host h;
	struct ct_place p;
	int rc = 0;

	if (!d->files || d->files_new) {
		rc = dst_load_files(d, e);
	}
	dst_want(d, &w);
	dst_host(d, &h);
	dst_place(d, &p);
	if (rc == 0) {
		rc = fault_point("dst.commit.before-kind", e);
	}
	if (rc == 0) {
		rc = d->kind->commit(&h, &w, &p, staged, e);
	}
	if (rc == 0) {
		rc = fault_point("dst.commit.after-kind", e);
	}
	if (rc == 0) {
		rc = expect(d, p.tree, e);
	}
	if (rc == 0) {
		rc = set_root_flags(d, true, e);
	}
	if (rc == 0) {
		rc = fault_point("dst.commit.after-flags", e);
	}
	return rc == 0 ? dst_event(d, EV_COMMITTED, NULL, 0, e) : rc;
}

/* The container itself holds its id and name now. */
static void
after_commit(struct dst *d)
{
	struct err e = { 0 };

	log_info("%s %s: committed at %s", d->p.v[DP_KIND], d->p.v[DP_PLACE_ID],
		 d->p.v[DP_PLACE_TREE]);
	if (dst_release(d, &e) < 0) {
		log_warn("the reservation stays for now: %s", e.text);
	}
	/* Empty now; were the end of the session never told, it would stay. */
	dst_stage_dir_drop(d);
}

static int
commit(struct dst *d, struct err *e)
{
	cleanup(free_ptr) char *staged = dst_tree_path(d, e);
	enum where w = STAGED;
	int rc = staged ? 0 : E_NOMEM;

	if (rc == 0 && d->rec.committing) {
		rc = find_tree(d, &w, e);
	}
	if (rc == 0 && w == STAGED) {
		/* Also for a second try: the tree may be another one. */
		rc = commit_event(d, staged, e);
	}
	if (rc < 0) {
		return rc;
	}
	rc = commit_steps(d, staged, e);
	if (rc < 0) {
		const struct journal_field f = { "why", e ? e->text : "" };

		dst_event(d, EV_COMMIT_FAILED, &f, 1, NULL);
		return err_wrap(e, "commit of %s", d->p.v[DP_PLACE_ID]);
	}
	after_commit(d);
	return 0;
}

static int
take_over_reply(struct dst *d, struct msg_take_over_reply *r, uint64_t since_ms,
		struct err *e)
{
	r->state = (uint8_t)dst_rec_state(&d->rec);
	r->since_ms = since_ms;
	r->tree = strdup(d->p.v[DP_PLACE_TREE]);
	return r->tree ? 0 : err_nomem(e);
}

/* Enter to carry out an order. Where the journal broke it may say more than
 * we know, that the container runs here above all: so nothing is touched, and
 * the next connection reads what it says. */
static int
enter_to_act(struct dst *d, int *fd, struct err *e)
{
	int rc = dst_enter(d, fd, e);

	return rc < 0 ? rc : journal_sound(d->j, e);
}

int
dst_take_over(struct dst *d, const struct msg_take_over *m,
	      struct msg_take_over_reply *r, struct err *e)
{
	cleanup(close_fd) int lock = -1;
	uint64_t since_ms = MSG_UP_UNKNOWN;
	int rc = enter_to_act(d, &lock, e);

	if (rc < 0) {
		return rc;
	}
	if (m->epoch != d->epoch) {
		return err_set(e, E_FENCED,
			       "the order is of epoch %u, the session's is %u",
			       m->epoch, d->epoch);
	}
	/* Known before anything is done: then nothing is. */
	if (m->start && !d->kind->start) {
		return err_set(e, E_UNSUPPORTED,
			       "a container of kind %s cannot be started",
			       d->kind->name);
	}
	if (d->rec.state != MSG_DST_COMMITTED &&
	    d->rec.state != MSG_DST_RUNNING &&
	    d->rec.state != MSG_DST_FINISHED) {
		rc = dst_rec_allows(&d->rec, EV_COMMIT, e);
		if (rc == 0) {
			rc = commit(d, e);
		}
	}
	if (rc == 0 && m->start && d->rec.state == MSG_DST_COMMITTED) {
		rc = dst_start(d, (enum ct_state)m->start, &since_ms, e);
	}
	return rc < 0 ? rc : take_over_reply(d, r, since_ms, e);
}

/* ---- undo ---- */

/* A container that somebody else started here owns its data. */
static int
refuse_running(struct dst *d, const struct ct_host *h, struct err *e)
{
	struct ct c = { 0 };
	enum ct_state s = CT_STOPPED;
	struct err why = { 0 };
	int rc = d->kind->load(h, d->p.v[DP_PLACE_ID], &c, &why);

	if (rc == 0) {
		rc = d->kind->state(h, &c, &s, &why);
		ct_free(&c);
	}
	if (rc < 0) {
		return err_set(e, E_UNKNOWN,
			       "cannot learn whether %s runs here: %s",
			       d->p.v[DP_PLACE_ID], why.text);
	}
	/* One that came suspended still is; whether anybody resumed it since,
	 * the kind sees when it undoes the commit. */
	return s == CT_STOPPED || s == CT_SUSPENDED
		       ? 0
		       : err_set(e, E_STATE, "%s is %s here; this host owns it",
				 d->p.v[DP_PLACE_ID], ct_state_name(s));
}

static int
check_not_running(struct dst *d, struct err *e)
{
	struct ct_host h;
	struct ct_place p;
	enum where w;
	int rc = find_tree(d, &w, e);

	if (rc < 0 || w != PLACED) {
		return rc;
	}
	dst_host(d, &h);
	dst_place(d, &p);
	rc = d->kind->registered(&h, &p, e);
	if (rc <= 0) {
		return rc;
	}
	return dst_was_started(d) ? dst_stop_started(d, e)
				  : refuse_running(d, &h, e);
}

/* Configuration away, tree back; may be repeated. */
static int
undo_steps(struct dst *d, struct err *e)
{
	cleanup(free_ptr) char *staged = dst_tree_path(d, e);
	struct ct_want w;
	struct ct_host h;
	struct ct_place p;
	enum where at;
	int rc = staged ? find_tree(d, &at, e) : E_NOMEM;

	if (rc == 0 && (!d->files || d->files_new)) {
		rc = dst_load_files(d, e);
	}
	if (rc == 0) {
		rc = dst_stage_dir_make(d, e);
	}
	if (rc == 0 && at == PLACED) {
		rc = set_root_flags(d, false, e);
	}
	dst_want(d, &w);
	dst_host(d, &h);
	dst_place(d, &p);
	if (rc == 0) {
		rc = fault_point("dst.undo.before-kind", e);
	}
	/* Also where the tree is staged: the kind may have left something
	 * beside its place. */
	if (rc == 0) {
		rc = d->kind->uncommit(&h, &w, &p, staged, e);
	}
	if (rc == 0) {
		rc = fault_point("dst.undo.after-kind", e);
	}
	return rc == 0 ? expect(d, staged, e) : rc;
}

/* From the undo event to `never`. */
static int
undo(struct dst *d, struct err *e)
{
	/* Again after a crash: a reboot may have started it. */
	int rc = check_not_running(d, e);

	if (rc == 0 && !d->rec.undoing) {
		rc = dst_event(d, EV_UNDO, NULL, 0, e);
	}
	if (rc == 0) {
		rc = undo_steps(d, e);
	}
	if (rc == 0) {
		rc = dst_event(d, EV_NEVER, NULL, 0, e);
	}
	return rc < 0 ? err_wrap(e, "going back") : 0;
}

static bool
may_be_placed(const struct dst *d)
{
	return d->rec.committing || d->rec.undoing ||
	       d->rec.state == MSG_DST_COMMITTED;
}

int
dst_never(struct dst *d, struct msg_state *r, struct err *e)
{
	cleanup(close_fd) int lock = -1;
	struct err why = { 0 };
	int rc = enter_to_act(d, &lock, e);

	if (rc == 0) {
		rc = dst_rec_allows(&d->rec, EV_NEVER, e);
	}
	if (rc == 0 && may_be_placed(d)) {
		rc = undo(d, e);
	} else if (rc == 0 && d->rec.state != MSG_DST_NEVER) {
		rc = dst_event(d, EV_NEVER, NULL, 0, e);
	}
	/* It is decided; where the rest fails, the end of the session does
	 * it. */
	if (rc == 0 && dst_was_started(d) && dst_keep_aside(d, &why) < 0) {
		log_warn("%s", why.text);
	}
	r->state = (uint8_t)dst_rec_state(&d->rec);
	return rc;
}

/* ---- abort and finish ---- */

static int
abort_keep(struct dst *d, struct msg_state *r, struct err *e)
{
	int rc = dst_event(d, EV_KEPT, NULL, 0, e);

	if (rc == 0 && d->rec.placed) {
		cleanup(free_ptr) char *stage = dst_stage_path(d, e);

		if (!stage) {
			return E_NOMEM;
		}
		r->note = io_asprintf(e, "kept for the next run: %s", stage);
		rc = r->note ? 0 : E_NOMEM;
	}
	return rc;
}

/* The lock is not held while a large tree is deleted: whoever opens the
 * session meanwhile ends this process first, and finds an abort begun. */
static int
abort_delete(struct dst *d, int *lock, struct err *e)
{
	bool placed = d->rec.placed;
	int rc = dst_event(d, EV_ABORT, NULL, 0, e);

	if (rc < 0) {
		return rc;
	}
	close(*lock);
	*lock = -1;
	if (placed) {
		rc = dst_was_started(d) ? dst_keep_aside(d, e) : 0;
		rc = rc < 0 ? rc : dst_unstage(d, e);
		if (rc == 0) {
			rc = fault_point("dst.abort.unstaged", e);
		}
		if (rc == 0) {
			rc = dst_release(d, e);
		}
		if (rc == 0) {
			rc = fault_point("dst.abort.released", e);
		}
	}
	if (rc == 0) {
		rc = dst_event(d, EV_ABORTED, NULL, 0, e);
	}
	if (rc == 0) {
		dst_drop_files(d, 0);
	}
	return rc;
}

int
dst_abort(struct dst *d, const struct msg_abort *m, struct msg_state *r,
	  struct err *e)
{
	cleanup(close_fd) int lock = -1;
	int rc = enter_to_act(d, &lock, e);

	if (rc < 0) {
		return rc;
	}
	if (d->rec.state != MSG_DST_COMMITTED &&
	    (d->rec.committing || d->rec.undoing)) {
		rc = undo(d, e);
	}
	if (rc == 0) {
		rc = dst_rec_allows(&d->rec, EV_ABORT, e);
	}
	if (rc == 0 && m->keep) {
		rc = abort_keep(d, r, e);
	} else if (rc == 0) {
		rc = abort_delete(d, &lock, e);
	}
	r->state = (uint8_t)dst_rec_state(&d->rec);
	return rc;
}

int
dst_finish(struct dst *d, struct msg_state *r, struct err *e)
{
	cleanup(close_fd) int lock = -1;
	int rc = enter_to_act(d, &lock, e);

	if (rc == 0 && (d->rec.state == MSG_DST_COMMITTED ||
			d->rec.state == MSG_DST_RUNNING)) {
		rc = dst_event(d, EV_FINISH, NULL, 0, e);
		if (rc == 0) {
			rc = dst_release(d, e);
		}
		if (rc == 0) {
			dst_stage_dir_drop(d);
			rc = fault_point("dst.finish.dropped", e);
		}
		if (rc == 0) {
			rc = dst_event(d, EV_FINISHED, NULL, 0, e);
		}
		if (rc == 0) {
			dst_drop_files(d, 0);
		}
	}
	r->state = (uint8_t)dst_rec_state(&d->rec);
	return rc;
}

/* ---- after a crash ---- */

static int
settle_commit(struct dst *d, struct err *e)
{
	cleanup(free_ptr) char *staged = dst_tree_path(d, e);
	struct ct_host h;
	struct ct_place p;
	struct err why = { 0 };
	enum where w;
	int rc = staged ? find_tree(d, &w, e) : E_NOMEM;

	if (rc < 0 || w != PLACED) {
		return rc;
	}
	dst_host(d, &h);
	dst_place(d, &p);
	rc = d->kind->registered(&h, &p, e);
	if (rc <= 0) {
		return rc;
	}
	log_info("an interrupted commit is brought to its end");
	if (commit_steps(d, staged, &why) < 0) {
		/* The client asks for it again and gets the reason. */
		log_warn("%s", why.text);
		return 0;
	}
	after_commit(d);
	return 0;
}

int
dst_settle(struct dst *d, struct err *e)
{
	if (d->rec.undoing) {
		log_info("an interrupted undoing is brought to its end");
		return undo(d, e);
	}
	return d->rec.committing ? settle_commit(d, e) : 0;
}
