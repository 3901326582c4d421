/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcopen: steps 1 and 2 of the source's half: which container it is, its
 * locks, what an earlier run left, the connection, and the session on both
 * hosts. Works on struct src.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "migrate/srcpriv.h"
#include "migrate/srcstatus.h"

/* ---- step 1: lock ---- */

int
src_load(struct src *m, const char *word, struct err *e)
{
	cleanup(free_ptr) char *copy = strdup(word);
	const char *logs = m->env->log_dir;
	int rc;

	if (!copy) {
		return err_nomem(e);
	}
	ct_free(&m->ct);
	memset(&m->ct, 0, sizeof(m->ct));
	m->loaded = false;
	rc = m->kind->load(&m->env->plan->host, copy, &m->ct, e);
	if (rc < 0) {
		return rc;
	}
	m->loaded = true;
	if (m->ct.mark == CT_RETIRED) {
		return err_set(e, E_NOT_FOUND,
			       "%s is not here any more: it was moved away by "
			       "session %s%s%s; what is left is the copy that "
			       "was kept",
			       m->ct.id, m->ct.tag ? m->ct.tag : "?",
			       logs ? ", see its log in " : "",
			       logs ? logs : "");
	}
	return src_may_move(m, m->ct.state, e);
}

static int
copy_to(char **to, const char *from, struct err *e)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? err_nomem(e) : 0;
}

/* The container as the session's first record describes it: a blocked or
 * retired one cannot be loaded under its name. */
static int
ct_from_facts(struct src *m, struct err *e)
{
	const struct srcsession_facts *f = srcsession_facts(m->s);
	int rc;

	if (!f->kind || !f->id || !f->tree) {
		return err_set(e, E_CORRUPT, "session %s: incomplete record",
			       srcsession_hex(m->s));
	}
	m->ct.kind = m->kind;
	m->ct.state = CT_STOPPED;
	rc = copy_to(&m->ct.id, f->id, e);
	rc = rc < 0 ? rc : copy_to(&m->ct.name, f->name, e);
	rc = rc < 0 ? rc : copy_to(&m->ct.tree, f->tree, e);
	return rc < 0 ? rc : copy_to(&m->ct.mount_root, f->mount_root, e);
}

static int
take_lock(struct src *m, struct err *e)
{
	int rc = m->kind->lock(&m->env->plan->host, &m->ct, &m->lockfd, e);

	m->locked = rc == 0;
	return rc;
}

int
src_lock_open(struct src *m, struct err *e)
{
	cleanup(free_ptr) char *kind = NULL, *id = NULL;
	int rc = srcsession_find(m->want->word, m->env->plan->kind, m->give_up,
				 &kind, &id, e);

	if (rc <= 0) {
		return rc;
	}
	m->kind = m->env->plan->kind ? m->env->plan->kind : ct_kind_find(kind);
	if (!m->kind) {
		return err_set(e, E_CORRUPT,
			       "%s is in a migration as kind '%s', which this "
			       "version does not know",
			       id, kind);
	}
	rc = srcsession_open(kind, id, &m->s, e);
	if (rc < 0) {
		return rc;
	}
	if (!(m->give_up ? steps_is_unfinished(srcsession_state(m->s))
			 : steps_is_open(srcsession_state(m->s)))) {
		/* Another process ended it meanwhile. */
		srcsession_close(m->s);
		m->s = NULL;
		return 0;
	}
	rc = ct_from_facts(m, e);
	if (rc == 0) {
		rc = take_lock(m, e);
	}
	return rc < 0 ? rc : 1;
}

int
src_known(const struct plan *p, const char *word, struct err *e)
{
	cleanup(free_ptr) char *kind_name = NULL, *id = NULL;
	const struct ct_kind *kind;
	int rc = srcsession_find(word, p->kind, false, &kind_name, &id, e);

	/* Of a kind that is given its own search tells, when its turn comes. */
	return rc	 ? (rc < 0 ? rc : 0)
	       : p->kind ? 0
			 : ct_detect(&p->host, word, &kind, e);
}

static int
lock_fresh(struct src *m, struct err *e)
{
	const struct plan *p = m->env->plan;
	int rc = 0;

	m->kind = p->kind;
	if (!m->kind) {
		rc = ct_detect(&p->host, m->want->word, &m->kind, e);
	}
	if (rc == 0) {
		rc = src_load(m, m->want->word, e);
	}
	if (rc == 0) {
		rc = take_lock(m, e);
	}
	if (rc == 0) {
		/* What it was before the lock may have changed since. */
		rc = src_load(m, m->want->word, e);
	}
	if (rc == 0) {
		rc = srcsession_open(m->kind->name, m->ct.id, &m->s, e);
	}
	return rc;
}

/* The log begins once it is known which container it is about. */
static void
open_log(struct src *m)
{
	struct err e = { 0 };

	logfile_syslog_start(m->ct.id, m->env->dest, srcsession_hex(m->s));
	if (!m->env->log_dir) {
		return;
	}
	if (logfile_open(m->env->log_dir, m->ct.id, &m->log, &e) < 0) {
		log_warn("no log of this migration: %s", e.text);
		m->log = NULL;
		return;
	}
	m->log_sink = log_add_sink(LOGL_DEBUG, logfile_sink, m->log);
	m->r->log_path = strdup(logfile_path(m->log));
}

/* The first run that is at work on it. */
static int
tell_run(const struct srcstatus *st, void *arg, struct err *e)
{
	const struct srcsession_facts *f = srcsession_facts(st->session);

	(void)arg;
	if (!st->alive) {
		return 0;
	}
	err_set(e, E_BUSY,
		"%s is in a migration to %s, session %s, process %ld, step "
		"\"%s\": wait until it is done, --status tells how far it is; "
		"to stop it, interrupt that process (kill -INT %ld)",
		f->id, f->dest ? f->dest : "another host",
		srcsession_hex(st->session), st->note.pid,
		steps_name(st->note.step), st->note.pid);
	return 1;
}

int
src_explain_busy(const struct src *m, struct err *e)
{
	struct err run = { 0 };

	if (srcstatus_each(m->want->word, tell_run, NULL, &run) == 1) {
		return err_set(e, E_BUSY, "%s", run.text);
	}
	/* Another program, or a run that has just begun. */
	run = *e;
	return err_set(e, E_BUSY,
		       "%s; run the command again when that has ended",
		       run.text);
}

/* A wish that no host could meet. */
static int
check_wish(struct src *m, struct err *e)
{
	const struct ct_want w = { .id = m->ct.id,
				   .name = m->ct.name,
				   .new_id = m->want->new_id,
				   .new_name = m->want->new_name,
				   .new_private = m->want->new_private,
				   .new_root = m->want->new_root };
	int rc = m->kind->wish ? m->kind->wish(&w, e) : 0;

	/* An unfinished session stays as it is for a command that is right. */
	m->hands_off = rc < 0;
	return rc < 0 ? err_wrap(e, "%s", m->ct.id) : 0;
}

int
src_lock(struct src *m, struct err *e)
{
	int rc = src_enter(m, STEP_LOCK, e);

	if (rc == 0) {
		rc = src_lock_open(m, e);
	}
	if (rc == 0) {
		rc = lock_fresh(m, e);
	}
	rc = rc < 0 ? rc : check_wish(m, e);
	if (rc < 0) {
		return rc == E_BUSY ? src_explain_busy(m, e) : rc;
	}
	rc = copy_to(&m->r->kind, m->kind->name, e);
	rc = rc < 0 ? rc : copy_to(&m->r->id, m->ct.id, e);
	open_log(m);
	return rc;
}

/* ---- step 2: connect ---- */

static void
host_hex(const struct src *m, char hex[SRCSESSION_HEX])
{
	const struct msg_hello_reply *h = srcconn_hello(m->env->conn);

	for (int i = 0; i < MSG_ID_LEN; i++) {
		snprintf(hex + 2 * i, 3, "%02x", h->host_id[i]);
	}
}

void
src_facts(const struct src *m, const char *host, struct srcsession_facts *f)
{
	const struct plan *p = m->env->plan;

	*f = (struct srcsession_facts){
		.word = m->want->word,
		.kind = m->kind->name,
		.id = m->ct.id,
		.name = m->ct.name,
		.tree = m->ct.tree,
		.mount_root = m->ct.mount_root,
		.dest = m->env->dest,
		.dst_host = host,
		.new_id = m->want->new_id,
		.new_name = m->want->new_name,
		.new_private = m->want->new_private,
		.new_root = m->want->new_root,
		.dst_lxcpath = p->dst_lxcpath,
		.dst_vz_conf = p->dst_vz_conf,
		.dst_id = m->opened ? m->place.id : NULL,
		.dst_tree = m->opened ? m->place.tree : NULL,
	};
}

int
src_begin(struct src *m, struct err *e)
{
	struct srcsession_facts f;
	char hex[SRCSESSION_HEX];

	host_hex(m, hex);
	src_facts(m, hex, &f);
	return srcsession_begin(m->s, &f, e);
}

int
src_open(struct src *m, struct err *e)
{
	const struct srcsession_facts *f = srcsession_facts(m->s);
	cleanup(free_ptr) char *source = NULL;
	struct msg_open o = {
		.kind = (char *)m->kind->name,
		.lxcpath = (char *)f->dst_lxcpath,
		.vz_conf = (char *)f->dst_vz_conf,
		.id = m->ct.id,
		.name = m->ct.name,
		.new_id = (char *)f->new_id,
		.new_name = (char *)f->new_name,
		.new_private = (char *)f->new_private,
		.new_root = (char *)f->new_root,
		.keep_dst = m->env->plan->keep_dst,
		.metadata_policy = m->env->plan->metadata,
	};
	char host[256] = "";
	int rc;

	gethostname(host, sizeof(host) - 1);
	source = io_asprintf(e, "%s %s", host, m->ct.id);
	if (!source) {
		return E_NOMEM;
	}
	o.source = source;
	memcpy(o.session, srcsession_id(m->s), MSG_ID_LEN);
	rc = hostid_get(o.source_host, e);
	if (rc < 0) {
		return rc;
	}
	msg_open_reply_fini(&m->place);
	rc = srcconn_open_session(m->env->conn, &o, &m->place, e);
	if (rc < 0) {
		return rc;
	}
	m->opened = true;
	m->epoch = m->place.epoch;
	m->dst = (enum msg_dst_state)m->place.state;
	log_debug("session %s there: %s, epoch %u", srcsession_hex(m->s),
		  msg_dst_state_name(m->dst), m->epoch);
	return 0;
}

int
src_begin_open(struct src *m, struct err *e)
{
	int rc = src_begin(m, e);

	rc = rc < 0 ? rc : src_open(m, e);
	/* For --status, and for whoever has to look there by hand. */
	return rc < 0 || !m->place.id ? rc : src_begin(m, e);
}

/* A session that is there already against the host that answered. */
static int
check_destination(struct src *m, struct err *e)
{
	const struct srcsession_facts *f = srcsession_facts(m->s);
	enum steps_state state = srcsession_state(m->s);
	char hex[SRCSESSION_HEX];
	int rc;

	host_hex(m, hex);
	if (state == STEPS_NEW || (f->dst_host && !strcmp(f->dst_host, hex))) {
		return 0;
	}
	if (steps_is_open(state) || m->give_up) {
		m->hands_off = true;
		return err_set(e, E_BUSY,
			       "%s is in migration session %s to %s, which is "
			       "unfinished (%s): run it towards that host "
			       "again, it will be finished or taken back; or "
			       "give it up, with --abort and that host",
			       m->ct.id, srcsession_hex(m->s),
			       f->dest ? f->dest : "another host",
			       steps_state_name(state));
	}
	log_warn("an earlier attempt, session %s, may have left a staging "
		 "area on %s",
		 srcsession_hex(m->s), f->dest ? f->dest : "another host");
	rc = srcsession_set(m->s, STEPS_GIVEN_UP, "another destination", e);
	return rc < 0 ? rc : srcsession_put_away(m->s, e);
}

int
src_connect(struct src *m, struct err *e)
{
	enum steps_state found = srcsession_state(m->s);
	int rc = src_enter(m, STEP_CONNECT, e);

	m->taken_up = found != STEPS_NEW;
	if (rc == 0 && m->env->plan->check_only && steps_is_open(found)) {
		m->hands_off = true;
		return err_set(e, E_BUSY,
			       "%s is in migration session %s to %s (%s): run "
			       "the command without --check-only to finish it, "
			       "or with --abort to give it up",
			       m->ct.id, srcsession_hex(m->s),
			       srcsession_facts(m->s)->dest,
			       steps_state_name(found));
	}
	if (rc == 0) {
		rc = srcconn_up(m->env->conn, e);
	}
	if (rc >= 0) {
		rc = check_destination(m, e);
	}
	if (rc < 0) {
		return rc;
	}
	log_info("session %s to %s", srcsession_hex(m->s), m->env->dest);
	return srcsession_state(m->s) == STEPS_NEW ? src_begin_open(m, e)
						   : src_open(m, e);
}
