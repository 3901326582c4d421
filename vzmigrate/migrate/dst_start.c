/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_start: the second half of a take-over: the committed container is
 * brought into the state that it had on the source, and seen to live: the
 * same init process, running, LIFE_MS after the start. And the way back from
 * it: what was started here is stopped, and its tree, which may hold what the
 * source has not, is kept aside.
 *
 * The journal: `start` before the runtime is asked, `started` when it said
 * yes, `running` when it was seen to live, or `start-failed`. Until `running`
 * the client may still have it undone; the session's lock is held throughout,
 * so an order that is being carried out is waited for by whoever connects.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "ct/ctpath.h"
#include "migrate/dst_int.h"

#define LIFE_MS 2000

static int64_t
life_ms(void)
{
#ifdef FAULT_HOOKS
	const char *ms = getenv("VZMIGRATE_LIFE_MS"); /* tests are hasty */

	if (ms) {
		return atoll(ms);
	}
#endif
	return LIFE_MS;
}

/* The container as the kind's operations want it; borrowed strings. */
static struct ct
placed(struct dst *d)
{
	return (struct ct){ .kind = d->kind,
			    .id = d->p.v[DP_PLACE_ID],
			    .name = d->p.v[DP_PLACE_NAME],
			    .tree = d->p.v[DP_PLACE_TREE],
			    .mount_root = d->p.v[DP_PLACE_MOUNT] };
}

bool
dst_was_started(const struct dst *d)
{
	return d->rec.starting || d->rec.ran;
}

/* ---- the start ---- */

/* Wait until the init ends, but no longer than a life is asked for. */
static void
watch(const struct ct_life *l)
{
	cleanup(close_fd) int pidfd =
		l->init > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)l->init, 0)
			    : -1;
	struct pollfd pf = { .fd = pidfd, .events = POLLIN };
	int64_t deadline = io_deadline(life_ms());

	while (poll(&pf, 1, io_left_ms(deadline)) < 0 && errno == EINTR) {
	}
}

static int
started(struct dst *d, const struct ct_life *l, struct err *e)
{
	char init[24], since[24];
	const struct journal_field f[] = {
		{ "state", ct_state_name(l->state) },
		{ "init", init },
		{ "since", since },
	};

	snprintf(init, sizeof(init), "%ld", l->init);
	snprintf(since, sizeof(since), "%llu", (unsigned long long)l->since);
	return dst_event(d, EV_STARTED, f, 3, e);
}

static int
lives(struct dst *d, const struct ct_host *h, const struct ct *c,
      enum ct_state want, const struct ct_life *first, struct err *e)
{
	struct ct_life now;
	int rc;

	if (want != CT_MOUNTED) {
		watch(first);
	}
	rc = d->kind->life(h, c, &now, e);
	if (rc < 0) {
		return rc;
	}
	if (now.state != first->state) {
		return err_set(e, E_START,
			       "%s was started, but did not live for %lld ms: "
			       "it is %s",
			       c->id, (long long)life_ms(),
			       ct_state_name(now.state));
	}
	if (now.init != first->init || now.since != first->since) {
		return err_set(e, E_START,
			       "the init of %s ended within %lld ms and was "
			       "started anew",
			       c->id, (long long)life_ms());
	}
	return 0;
}

/* From the order to `started`. `*up_ms` is when it was up, -1 where it was so
 * before. */
static int
bring_up(struct dst *d, const struct ct_host *h, const struct ct *c,
	 enum ct_state want, struct ct_life *l, int64_t *up_ms, bool *ran,
	 struct err *e)
{
	enum ct_state to = want == CT_FROZEN ? CT_RUNNING : want;
	bool was_up;
	int rc = d->kind->life(h, c, l, e);

	if (rc < 0) {
		return rc;
	}
	was_up = *ran = ct_state_is_up(l->state);
	rc = d->kind->start(h, c, to, e);
	*up_ms = was_up ? -1 : io_now_ms();
	if (rc < 0) {
		return rc;
	}
	*ran = true;
	rc = fault_point("dst.start.done", e);
	rc = rc < 0 ? rc : d->kind->life(h, c, l, e);
	if (rc == 0 && !ct_state_is_up(l->state)) {
		rc = err_set(e, E_START, "%s was started, and ended at once",
			     c->id);
	}
	return rc < 0 ? rc : started(d, l, e);
}

static int
start_locked(struct dst *d, const struct ct_host *h, const struct ct *c,
	     enum ct_state want, int64_t *up_ms, struct err *e)
{
	const struct journal_field f = { "state", ct_state_name(want) };
	struct ct_life l = { .state = CT_STOPPED };
	struct err why = { 0 };
	bool ran = false;
	int rc = dst_event(d, EV_START, &f, 1, e);

	rc = rc < 0 ? rc : fault_point("dst.start.ordered", e);
	rc = rc < 0 ? rc : bring_up(d, h, c, want, &l, up_ms, &ran, e);
	rc = rc < 0 ? rc : lives(d, h, c, want, &l, e);
	if (rc == 0) {
		rc = fault_point("dst.start.lives", e);
	}
	if (rc == 0 && want == CT_FROZEN && l.state != CT_FROZEN &&
	    d->kind->start(h, c, CT_FROZEN, &why) < 0) {
		/* It is here and lives; that is what counts. */
		log_warn("%s", why.text);
	}
	if (rc < 0) {
		const struct journal_field bad[] = {
			{ "why", e ? e->text : "" },
			{ "ran", ran ? "1" : "0" },
		};

		/* It would go on while the source may be given back. */
		if (d->kind->stop(h, c, 0, &why) < 0) {
			log_warn("%s", why.text);
		}
		dst_event(d, EV_START_FAILED, bad, 2, NULL);
		return rc;
	}
	return dst_event(d, EV_RUNNING, NULL, 0, e);
}

int
dst_start(struct dst *d, enum ct_state want, uint64_t *since_ms, struct err *e)
{
	struct ct c = placed(d);
	struct ct_host h;
	int64_t up = -1;
	int lock = -1, rc;

	*since_ms = MSG_UP_UNKNOWN;
	dst_host(d, &h);
	rc = d->kind->lock(&h, &c, &lock, e);
	if (rc == 0) {
		rc = start_locked(d, &h, &c, want, &up, e);
		d->kind->unlock(&h, &c, lock);
	}
	if (rc < 0) {
		/* Whatever it was: it does not run here. */
		return err_recode(e, E_START, "start of %s", c.id);
	}
	if (up >= 0) {
		*since_ms = (uint64_t)(io_now_ms() - up);
	}
	log_info("%s is %s here", c.id, ct_state_name(want));
	return 0;
}

/* ---- the way back ---- */

int
dst_stop_started(struct dst *d, struct err *e)
{
	struct ct c = placed(d);
	struct ct_host h;
	struct ct_life l;
	int lock = -1, rc;

	if (!d->kind->stop) {
		return 0;
	}
	dst_host(d, &h);
	rc = d->kind->life(&h, &c, &l, e);
	if (rc < 0 || l.state == CT_STOPPED) {
		return rc;
	}
	rc = d->kind->lock(&h, &c, &lock, e);
	rc = rc < 0 ? rc : fault_point("dst.undo.stop", e);
	if (rc == 0) {
		log_info("%s is stopped here, since it goes back", c.id);
		rc = d->kind->stop(&h, &c, 0, e);
	}
	if (lock >= 0) {
		d->kind->unlock(&h, &c, lock);
	}
	return rc;
}

static char *
aside_path(struct dst *d, struct err *e)
{
	return io_asprintf(e, "%s/.vzmigrate-ran-%s",
			   d->p.v[DP_PLACE_STAGE_DIR], d->hex);
}

int
dst_keep_aside(struct dst *d, struct err *e)
{
	cleanup(free_ptr) char *stage = dst_stage_path(d, e);
	cleanup(free_ptr) char *aside = stage ? aside_path(d, e) : NULL;
	int rc = aside ? 0 : E_NOMEM;

	if (rc == 0 && ctpath_type(stage)) {
		rc = ctpath_move(stage, aside, e);
	}
	if (rc == 0 && !d->told_aside && ctpath_type(aside)) {
		d->told_aside = true;
		log_warn("%s ran here; what it did is kept in %s/" DST_TREE,
			 d->p.v[DP_PLACE_ID], aside);
	}
	return rc;
}
