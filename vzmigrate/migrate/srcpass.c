/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcpass: the passes over a container while it runs, the final one when it
 * is stopped, and the proof that the copy is whole (design.md section 7, steps
 * 5 and 7). One that was stopped from the beginning gets the final one alone.
 * A thread carries the sender's counters to the progress display meanwhile.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "fs/beneath.h"
#include "fs/mounts.h"
#include "migrate/rounds.h"
#include "migrate/srcpriv.h"
#include "track/ledger.h"

#define METER_MS 100
#define NOTE_EVERY 5 /* times that */

/* Carries counters; lives on src_pass's stack. */
struct meter {
	const struct src *m; /* borrowed */
	struct progress *to;
	struct srcconn *conn;	     /* tells how many streams there are */
	struct send_progress from;   /* atomic counters of the sender */
	uint64_t files, bytes;	     /* carried over already */
	struct compress_totals wire; /* carried over already */
	pthread_t thread;
	pthread_mutex_t lock; /* of `end` */
	pthread_cond_t changed;
	bool end;
	bool started;
};

static void
meter_carry(struct meter *t)
{
	uint64_t files = __atomic_load_n(&t->from.files, __ATOMIC_RELAXED);
	uint64_t bytes = __atomic_load_n(&t->from.bytes, __ATOMIC_RELAXED);

	progress_add(t->to, files - t->files, bytes - t->bytes);
	progress_streams(t->to, srcconn_streams_now(t->conn));
	t->files = files;
	t->bytes = bytes;
}

/* What went over the wire. */
static void
meter_wire(struct meter *t)
{
	const struct src_env *env = t->m->env;
	struct compress_totals now = t->wire;

	if (env->compress) {
		compress_get_totals(env->compress, &now);
		progress_wire(t->to, now.raw - t->wire.raw,
			      now.wire - t->wire.wire);
		t->wire = now;
	}
}

static void *
meter_thread(void *arg)
{
	struct meter *t = arg;

	pthread_mutex_lock(&t->lock);
	for (unsigned n = 1; !t->end; n++) {
		struct timespec until;

		meter_carry(t);
		if (n % NOTE_EVERY == 0) {
			src_note(t->m, t->files, t->bytes);
		}
		meter_wire(t);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += METER_MS * 1000000L;
		if (until.tv_nsec >= 1000000000L) {
			until.tv_nsec -= 1000000000L;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&t->changed, &t->lock, &until);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* A display that cannot be fed is no reason to stop. */
static void
meter_start(struct meter *t, const struct src *m)
{
	memset(t, 0, sizeof(*t));
	t->m = m;
	t->to = m->env->progress;
	t->conn = m->env->conn;
	if (!t->to) {
		return;
	}
	if (m->env->compress) {
		compress_get_totals(m->env->compress, &t->wire);
	}
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->changed, NULL);
	t->started = pthread_create(&t->thread, NULL, meter_thread, t) == 0;
}

static void
meter_stop(struct meter *t)
{
	if (!t->to) {
		return;
	}
	if (t->started) {
		pthread_mutex_lock(&t->lock);
		t->end = true;
		pthread_cond_signal(&t->changed);
		pthread_mutex_unlock(&t->lock);
		pthread_join(t->thread, NULL);
	}
	meter_carry(t);
	meter_wire(t);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
}

/* Not being able to make it is no reason to stop. */
static void
open_control(struct src *m)
{
	cleanup(free_ptr) char *path = NULL;
	struct err e = { 0 };

	if (m->control || !m->env->limit) {
		return;
	}
	path = io_asprintf(&e, "%s/control", srcsession_dir(m->s));
	if (path) {
		m->control = srccontrol_open(srcsession_dirfd(m->s), path,
					     m->env->limit, &e);
	}
	if (!m->control ||
	    srccontrol_start(m->control, m->env->progress, &e) < 0) {
		log_warn("no control file: %s", e.text);
	}
}

/* What the frames of a pass came to: `was` is from before it. */
static void
count_wire(struct src *m, const struct compress_totals *was)
{
	struct compress_totals now;

	if (m->env->compress) {
		compress_get_totals(m->env->compress, &now);
		m->r->raw_bytes += now.raw - was->raw;
		m->r->wire_bytes += now.wire - was->wire;
		m->r->packed += now.packed - was->packed;
	}
}

static void
warn_mount(const struct src *m, const char *shown)
{
	log_warn("%s: not carried: %s is another file system mounted in the "
		 "tree; copy it by other means if it is needed there",
		 m->ct.id, shown);
}

/* In a tame view none is met. */
static int
tell_mounts(const struct src *m, struct err *e)
{
	char shown[4096], **list;
	size_t n;
	int rc = mounts_below(m->ct.tree, &list, &n, e);

	if (rc < 0) {
		return rc;
	}
	for (size_t i = 0; i < n; i++) {
		warn_mount(m, escape_bytes(shown, sizeof(shown), list[i],
					   strlen(list[i])));
	}
	mounts_free(list, n);
	return 0;
}

static void
count(struct src *m)
{
	struct src_result *r = m->r;

	r->passes++;
	r->sent_bytes += r->sent.bytes;
	if (r->passes > 1) {
		r->resent += r->sent.bytes;
	}
}

/* Which files of the tree the kernel may write to as to devices, now. */
static int
look_for_images(struct src *m, bool up, struct err *e)
{
	struct images now;
	int rc;

	if (!m->kind->images) {
		return 0;
	}
	rc = m->kind->images(&m->env->plan->host, &m->ct, up, &now, e);
	images_follow(&now, &m->images);
	images_fini(&m->images);
	m->images = now;
	return rc;
}

static int
send(struct src *m, int rootfd, const struct msg_pass *pass, struct err *e)
{
	struct compress_totals was = { 0 };
	struct meter t;
	struct send_opts o = { .progress = &t.from,
			       .stop = m->env->stop,
			       .compress = m->env->compress,
			       .drop_flags = m->drop_flags,
			       .tame = m->tame,
			       .ledger = m->ledger,
			       .pass = pass->number,
			       .final = pass->final,
			       .images = &m->images,
			       .live = !pass->final };
	int rc = look_for_images(m, !pass->final, e);

	rc = rc < 0 ? rc : srcconn_pass_begin(m->env->conn, pass, e);
	if (rc < 0) {
		return rc;
	}
	rc = fault_point("src.pass", e);
	if (rc < 0) {
		return rc;
	}
	send_result_fini(&m->r->sent);
	m->pass = pass->number;
	src_note(m, 0, 0);
	if (m->env->compress) {
		compress_get_totals(m->env->compress, &was);
	}
	open_control(m);
	meter_start(&t, m);
	srcconn_streams_begin(m->env->conn, m->total_bytes, m->total_files);
	rc = send_tree(rootfd, srcconn_link(m->env->conn),
		       srcconn_key(m->env->conn), &o, &m->r->sent, e);
	srcconn_streams_end(m->env->conn);
	meter_stop(&t);
	if (rc < 0) {
		link_hurry(srcconn_link(m->env->conn));
	}
	m->r->streams = srcconn_streams_most(m->env->conn);
	count(m);
	count_wire(m, &was);
	for (size_t i = 0; pass->number == 1 && i < m->r->sent.nmounts; i++) {
		warn_mount(m, m->r->sent.mounts[i]);
	}
	return rc == 0 && m->tame && pass->number == 1 ? tell_mounts(m, e) : rc;
}

static bool
same_proof(const struct msg_proof *a, const struct msg_proof *b)
{
	return a->entries == b->entries && a->bytes == b->bytes &&
	       digest_eq(&a->sum, &b->sum);
}

/* The copy is not the tree: say where. */
static int
differs(struct src *m, int rootfd, const struct msg_proof *there, struct err *e)
{
	const struct msg_proof *here = &m->r->sent.proof;
	char where[512] = "";
	struct err why = { 0 };

	if (send_explain(rootfd, srcconn_link(m->env->conn),
			 srcconn_key(m->env->conn), m->drop_flags, where,
			 sizeof(where), &why) < 0) {
		snprintf(where, sizeof(where), "(where, is not known: %.400s)",
			 why.text);
	}
	return err_set(e, E_VERIFY,
		       "the copy on %s is not the same as the source "
		       "(%llu entries and %llu bytes here, %llu and %llu "
		       "there): %s",
		       m->env->dest, (unsigned long long)here->entries,
		       (unsigned long long)here->bytes,
		       (unsigned long long)there->entries,
		       (unsigned long long)there->bytes, where);
}

static int
prove(struct src *m, int rootfd, const struct msg_pass *pass, struct err *e)
{
	struct msg_proof there;
	int rc = srcconn_pass_end(m->env->conn, pass, &there, e);

	rc = rc < 0 ? rc : fault_point("src.proof", e);
	if (rc < 0) {
		return rc;
	}
	if (!same_proof(&m->r->sent.proof, &there)) {
		return differs(m, rootfd, &there, e);
	}
	m->r->verified = true;
	log_info("%s: %llu entries, %llu bytes, the same on both sides",
		 m->ct.id, (unsigned long long)there.entries,
		 (unsigned long long)there.bytes);
	/* On disk there before anything is given up here. */
	rc = srcconn_plain(m->env->conn, MSG_SYNC, e);
	rc = rc < 0 ? rc : srcsession_set(m->s, STEPS_PROVEN, NULL, e);
	if (rc == 0) {
		m->dst = MSG_DST_PROVEN;
	}
	return rc;
}

static int
copy_and_prove(struct src *m, struct err *e)
{
	cleanup(close_fd) int rootfd =
		beneath_open_tame(m->ct.tree, &m->tame, e);
	struct msg_pass pass = { .number = m->r->passes + 1, .final = true };
	int rc = rootfd < 0 ? rootfd : send(m, rootfd, &pass, e);

	/* One that was stopped already spent its time in the copy. */
	if (rc == 0 && !m->ledger) {
		rc = src_enter(m, STEP_FINAL, e);
	}
	m->r->final_bytes = m->r->sent.sent_bytes + m->r->sent.reread_bytes;
	if (rc == 0 && m->env->progress) {
		progress_stage(m->env->progress, "proof");
	}
	return rc < 0 ? rc : prove(m, rootfd, &pass, e);
}

static void
show(struct src *m, const char *stage)
{
	struct progress *p = m->env->progress;

	if (p) {
		progress_stage(p, stage);
		progress_total(p, m->total_files, m->total_bytes);
		progress_resume(p);
	}
}

static void
hide(struct src *m)
{
	if (m->env->progress) {
		progress_pause(m->env->progress);
	}
}

int
src_pass(struct src *m, struct err *e)
{
	int rc = src_enter(m, m->ledger ? STEP_FINAL : STEP_PASSES, e);

	if (rc < 0) {
		return rc;
	}
	show(m, m->ledger ? "last pass" : "copy");
	rc = copy_and_prove(m, e);
	hide(m);
	return rc;
}

/* ---- while it runs ---- */

static void
tell_round(const struct src *m, const struct rounds_pass *p)
{
	const struct send_result *s = &m->r->sent;

	log_info("pass %u: %llu entries changed, %llu bytes sent, %llu read "
		 "to compare, %llu files to be looked at again, %lld ms, of "
		 "it the walk %lld",
		 m->pass, (unsigned long long)s->changed_entries,
		 (unsigned long long)s->bytes,
		 (unsigned long long)s->reread_bytes,
		 (unsigned long long)s->suspects, (long long)p->ms,
		 (long long)p->walk_ms);
}

/* One pass while it runs, and what it was. */
static int
one_round(struct src *m, int rootfd, struct rounds_pass *p, struct err *e)
{
	struct msg_pass pass = { .number = m->r->passes + 1, .final = false };
	const struct send_result *s = &m->r->sent;
	int64_t from = io_now_ms();
	struct msg_proof none;
	int rc = send(m, rootfd, &pass, e);

	rc = rc < 0 ? rc : fault_point("src.round", e);
	rc = rc < 0 ? rc : srcconn_pass_end(m->env->conn, &pass, &none, e);
	if (rc < 0) {
		return rc;
	}
	ledger_commit(m->ledger);
	*p = (struct rounds_pass){ .sent_bytes = s->sent_bytes,
				   .reread_bytes = s->reread_bytes,
				   .entries = s->sent_entries,
				   .suspect_bytes = s->suspect_bytes,
				   .ms = io_now_ms() - from,
				   .walk_ms = s->walk_ms };
	tell_round(m, p);
	return 0;
}

/* Each is followed by a SYNC, so that in the downtime only what is new has to
 * reach the disk and to be read back; the container goes on meanwhile, and
 * what it does then is found by the next. */
static int
rounds(struct src *m, int rootfd, struct err *e)
{
	struct rounds r = { .o = m->env->plan->rounds };
	struct rounds_pass p;
	char why[200];
	int rc = 0;

	for (bool more = rounds_next(&r, NULL, why, sizeof(why)); more;) {
		int64_t from;

		rc = src_stopped(m, e);
		snprintf(why, sizeof(why), "pass %u", m->r->passes + 1);
		show(m, m->r->passes ? why : "copy");
		rc = rc < 0 ? rc : one_round(m, rootfd, &p, e);
		hide(m);
		from = io_now_ms();
		rc = rc < 0 ? rc : srcconn_plain(m->env->conn, MSG_SYNC, e);
		if (rc < 0) {
			return rc;
		}
		more = rounds_next(&r, &p, why, sizeof(why));
		r.last.ms += io_now_ms() - from;
		log_info("%s: %s", m->ct.id, why);
	}
	return rc;
}

int
src_rounds(struct src *m, struct err *e)
{
	cleanup(close_fd) int rootfd = -1;
	int rc = src_enter(m, STEP_PASSES, e);

	if (rc < 0) {
		return rc;
	}
	rootfd = beneath_open_tame(m->ct.tree, &m->tame, e);
	if (rootfd < 0) {
		return rootfd;
	}
	m->ledger = ledger_new(srcconn_key(m->env->conn), e);
	rc = m->ledger ? rounds(m, rootfd, e) : E_NOMEM;
	return rc < 0 ? rc : fault_point("src.synced", e);
}
