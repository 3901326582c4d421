/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_open: opens a session: its directory, the fence, the journal, the
 * place; and closes it. State: that part of struct dst.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "migrate/dst_int.h"
#include "migrate/hostid.h"
#include "migrate/statedir.h"

static void
hex_id(const uint8_t id[MSG_ID_LEN], char out[2 * MSG_ID_LEN + 1])
{
	for (size_t i = 0; i < MSG_ID_LEN; i++) {
		snprintf(out + 2 * i, 3, "%02x", id[i]);
	}
}

static int
open_dir(struct dst *d, struct err *e)
{
	cleanup(close_fd) int sessions = statedir_open("sessions", e);

	if (sessions < 0) {
		return geteuid() == 0
			       ? sessions
			       : err_recode(e, E_DENIED,
					    "the agent runs as uid %u and "
					    "not as root",
					    (unsigned)geteuid());
	}
	d->path = io_asprintf(e, "%s/sessions/%s", statedir_path(), d->hex);
	if (!d->path) {
		return E_NOMEM;
	}
	d->fd = statedir_open_in(sessions, d->hex, d->path, e);
	return d->fd < 0 ? d->fd : 0;
}

static int
open_journal(struct dst *d, struct err *e)
{
	cleanup(free_ptr) char *what = io_asprintf(e, "%s/journal", d->path);
	int rc;

	if (!what) {
		return E_NOMEM;
	}
	rc = journal_open(d->fd, "journal", what, JOURNAL_CREATE, dst_rec_apply,
			  &d->rec, &d->j, e);
	if (rc < 0) {
		return rc == E_CORRUPT ? err_wrap(e, "%s", what) : rc;
	}
	if (d->rec.epoch >= d->epoch) {
		return err_set(e, E_CORRUPT,
			       "%s is of epoch %u, but %s/epoch says %u", what,
			       d->rec.epoch, d->path, d->epoch - 1);
	}
	return 0;
}

static int
open_event(struct dst *d, struct err *e)
{
	char epoch[16], pid[16], policy[16];
	const struct journal_field f[] = {
		{ "epoch", epoch },	 { "pid", pid },
		{ "source", d->source }, { "kind", d->p.v[DP_KIND] },
		{ "id", d->p.v[DP_ID] }, { "keep-dst", d->keep ? "1" : "0" },
		{ "policy", policy },
	};

	snprintf(epoch, sizeof(epoch), "%u", d->epoch);
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	snprintf(policy, sizeof(policy), "%d", (int)d->policy);
	return dst_event(d, EV_OPEN, f, sizeof(f) / sizeof(f[0]), e);
}

/* The words of the request into d->p; they are taken out of `m`. */
static void
take_words(struct dst *d, struct msg_open *m)
{
	d->p.v[DP_KIND] = steal_ptr(&m->kind);
	d->p.v[DP_LXCPATH] = steal_ptr(&m->lxcpath);
	d->p.v[DP_VZ_CONF] = steal_ptr(&m->vz_conf);
	d->p.v[DP_ID] = steal_ptr(&m->id);
	d->p.v[DP_NAME] = steal_ptr(&m->name);
	d->p.v[DP_NEW_ID] = steal_ptr(&m->new_id);
	d->p.v[DP_NEW_NAME] = steal_ptr(&m->new_name);
	d->p.v[DP_NEW_PRIVATE] = steal_ptr(&m->new_private);
	d->p.v[DP_NEW_ROOT] = steal_ptr(&m->new_root);
	d->source = steal_ptr(&m->source);
	d->keep = m->keep_dst;
}

static int
find_kind(struct dst *d, struct err *e)
{
	d->kind = ct_kind_find(d->p.v[DP_KIND]);
	return d->kind ? 0
		       : err_set(e, E_UNSUPPORTED,
				 "this agent does not know the kind %s",
				 d->p.v[DP_KIND]);
}

/* Ask the kind where the container goes, into the place half of `to`. */
static int
kind_place(struct dst *d, struct dst_params *to, struct err *e)
{
	struct ct_want w;
	struct ct_host h;
	struct ct_place p = { 0 };
	int rc;

	dst_want(d, &w);
	dst_host(d, &h);
	rc = d->kind->place(&h, &w, &p, e);
	if (rc < 0) {
		return rc;
	}
	for (size_t i = DP_WORDS; i < DP_COUNT; i++) {
		free(to->v[i]);
	}
	to->v[DP_PLACE_ID] = steal_ptr(&p.id);
	to->v[DP_PLACE_NAME] = steal_ptr(&p.name);
	to->v[DP_PLACE_TREE] = steal_ptr(&p.tree);
	to->v[DP_PLACE_STAGE_DIR] = steal_ptr(&p.stage_dir);
	to->v[DP_PLACE_MOUNT] = steal_ptr(&p.mount_root);
	ct_place_fini(&p);
	return 0;
}

/* Where something was reserved that place counts, whatever this host's
 * configuration says today; else the kind decides. */
static int
decide_place(struct dst *d, struct err *e)
{
	int rc;

	if (d->rec.placed) {
		d->other_words = !dst_params_same(&d->p, &d->rec.p, DP_WORDS);
		rc = dst_params_copy(&d->p, &d->rec.p, e);
		return rc < 0 ? rc : find_kind(d, e);
	}
	rc = find_kind(d, e);
	return rc < 0 ? rc : kind_place(d, &d->p, e);
}

int
dst_place_again(struct dst *d, struct err *e)
{
	struct dst_params now = { 0 };
	int rc;

	if (!d->files_new) {
		return 0;
	}
	rc = dst_params_copy(&now, &d->p, e);
	if (rc == 0) {
		rc = kind_place(d, &now, e);
	}
	if (rc == 0 && d->rec.placed) {
		d->other_words |= !dst_params_same(&now, &d->p, DP_COUNT);
	} else if (rc == 0) {
		rc = dst_params_copy(&d->p, &now, e);
	}
	dst_params_fini(&now);
	return rc < 0 ? rc : dst_allowed(d, e);
}

/* Under the session's lock. Until the old agent is gone nothing of its may be
 * read, since it may still write. */
static int
open_locked(struct dst *d, struct err *e)
{
	int rc = dst_fence(d, e);

	if (rc == 0) {
		rc = open_journal(d, e);
	}
	if (rc == 0) {
		rc = open_event(d, e);
	}
	if (rc == 0) {
		rc = decide_place(d, e);
	}
	if (rc == 0) {
		rc = dst_allowed(d, e);
	}
	return rc == 0 ? dst_settle(d, e) : rc;
}

static int
open_reply(struct dst *d, const uint8_t source_host[MSG_ID_LEN],
	   struct msg_open_reply *r, struct err *e)
{
	uint8_t host[HOSTID_LEN];
	int rc = hostid_get(host, e);

	if (rc < 0) {
		return rc;
	}
	r->epoch = d->epoch;
	r->state = (uint8_t)dst_rec_state(&d->rec);
	r->same_host = memcmp(host, source_host, HOSTID_LEN) == 0;
	r->id = strdup(d->p.v[DP_PLACE_ID]);
	r->tree = strdup(d->p.v[DP_PLACE_TREE]);
	r->stage = dst_stage_path(d, e);
	if (d->p.v[DP_PLACE_NAME]) {
		r->name = strdup(d->p.v[DP_PLACE_NAME]);
	}
	if (!r->id || !r->tree || !r->stage ||
	    (d->p.v[DP_PLACE_NAME] && !r->name)) {
		return err_nomem(e);
	}
	return 0;
}

int
dst_open(struct dst *d, struct msg_open *m, struct msg_open_reply *r,
	 struct err *e)
{
	cleanup(close_fd) int lock = -1;
	int rc;

	dst_close(d);
	if (m->metadata_policy > META_WARN) {
		return err_set(e, E_PROTOCOL, "unknown metadata policy %u",
			       m->metadata_policy);
	}
	d->policy = (enum meta_policy)m->metadata_policy;
	hex_id(m->session, d->hex);
	take_words(d, m);
	rc = open_dir(d, e);
	if (rc == 0) {
		rc = dst_lock_to_open(d, &lock, e);
	}
	if (rc == 0) {
		rc = open_locked(d, e);
	}
	if (rc == 0) {
		rc = open_reply(d, m->source_host, r, e);
	}
	if (rc < 0) {
		/* dst_close asks for the lock to sign off. */
		close_fd(&lock);
		lock = -1;
		dst_close(d);
		return rc;
	}
	d->open = true;
	log_info("session %s, epoch %u, from %s: %s", d->hex, d->epoch,
		 d->source, msg_dst_state_name(dst_rec_state(&d->rec)));
	return 0;
}

void
dst_close(struct dst *d)
{
	dst_pass_stop(d);
	if (d->epoch && d->fd >= 0) {
		dst_unfence(d);
	}
	journal_close(d->j);
	d->j = NULL;
	close_fd(&d->fd);
	close_fd(&d->treefd);
	close_fd(&d->stagefd);
	d->fd = d->treefd = d->stagefd = -1;
	dst_free_files(d);
	dst_params_fini(&d->p);
	dst_rec_fini(&d->rec);
	free(d->path);
	free(d->source);
	d->path = d->source = NULL;
	d->kind = NULL;
	d->epoch = 0;
	d->open = d->other_words = d->told_aside = false;
}
