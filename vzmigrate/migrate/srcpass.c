/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcpass: the one pass over a stopped container, which is the final one too,
 * and the proof that the copy is whole (design.md section 7, steps 5 and 7).
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
#include "base/log.h"
#include "fs/beneath.h"
#include "fs/mounts.h"
#include "migrate/srcpriv.h"

#define METER_MS 100

/* Carries counters; lives on src_pass's stack. */
struct meter {
	struct progress *to;
	struct srcconn *conn;	   /* tells how many streams there are */
	struct send_progress from; /* atomic counters of the sender */
	uint64_t files, bytes;	   /* carried over already */
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

static void *
meter_thread(void *arg)
{
	struct meter *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->end) {
		struct timespec until;

		meter_carry(t);
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
meter_start(struct meter *t, struct progress *to, struct srcconn *conn)
{
	memset(t, 0, sizeof(*t));
	t->conn = conn;
	t->to = to;
	if (!to) {
		return;
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
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
}

static void
warn_mount(const struct src *m, const char *shown)
{
	log_warn("%s: not carried: %s is another file system mounted in the "
		 "tree",
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

static int
send(struct src *m, int rootfd, bool tame, struct err *e)
{
	struct msg_pass pass = { .number = 1, .final = true };
	struct meter t;
	struct send_opts o = { .progress = &t.from,
			       .stop = m->env->stop,
			       .drop_flags = m->drop_flags,
			       .tame = tame };
	int rc = srcconn_pass_begin(m->env->conn, &pass, e);

	if (rc < 0) {
		return rc;
	}
	rc = fault_point("src.pass", e);
	if (rc < 0) {
		return rc;
	}
	send_result_fini(&m->r->sent);
	meter_start(&t, m->env->progress, m->env->conn);
	srcconn_streams_begin(m->env->conn, m->total_bytes, m->total_files);
	rc = send_tree(rootfd, srcconn_link(m->env->conn),
		       srcconn_key(m->env->conn), &o, &m->r->sent, e);
	srcconn_streams_end(m->env->conn);
	meter_stop(&t);
	m->r->streams = srcconn_streams_most(m->env->conn);
	for (size_t i = 0; i < m->r->sent.nmounts; i++) {
		warn_mount(m, m->r->sent.mounts[i]);
	}
	return rc == 0 && tame ? tell_mounts(m, e) : rc;
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
prove(struct src *m, int rootfd, struct err *e)
{
	struct msg_pass pass = { .number = 1, .final = true };
	struct msg_proof there;
	int rc = srcconn_pass_end(m->env->conn, &pass, &there, e);

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
	bool tame;
	cleanup(close_fd) int rootfd = beneath_open_tame(m->ct.tree, &tame, e);
	int rc;

	if (rootfd < 0) {
		return rootfd;
	}
	rc = send(m, rootfd, tame, e);
	rc = rc < 0 ? rc : src_enter(m, STEP_FINAL, e);
	if (rc == 0 && m->env->progress) {
		progress_stage(m->env->progress, "proof");
	}
	return rc < 0 ? rc : prove(m, rootfd, e);
}

int
src_pass(struct src *m, struct err *e)
{
	struct progress *p = m->env->progress;
	int rc = src_enter(m, STEP_PASSES, e);

	if (rc < 0) {
		return rc;
	}
	if (p) {
		progress_stage(p, "copy");
		progress_total(p, m->total_files, m->total_bytes);
		progress_resume(p);
	}
	rc = copy_and_prove(m, e);
	if (p) {
		progress_pause(p);
	}
	return rc;
}
