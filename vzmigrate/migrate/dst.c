/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst: takes requests apart, hands them to the steps, and opens and closes
 * sessions. Input: message bodies from xfer/server. Output: replies.
 * State: struct dst, used by one thread at a time.
 */
#include "migrate/dst.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "config.h"

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "ct/ctpath.h"
#include "migrate/dst_int.h"
#include "migrate/hostid.h"
#include "migrate/statedir.h"

/* ---- events ---- */

int
dst_event(struct dst *d, enum dst_event ev, const struct journal_field *f,
	  size_t n, struct err *e)
{
	struct journal_record r = { .event = dst_event_name(ev) };
	int rc = dst_rec_allows(&d->rec, ev, e);

	if (rc < 0) {
		return rc;
	}
	for (size_t i = 0; i < n; i++) {
		if (f[i].value) {
			r.fields[r.nfields++] = f[i];
		}
	}
	rc = journal_append_fields(d->j, r.event, r.fields, r.nfields, e);
	if (rc < 0) {
		return rc;
	}
	r.seq = journal_seq(d->j);
	r.time_s = time(NULL);
	return dst_rec_apply(&r, &d->rec, e);
}

/* ---- views ---- */

void
dst_want(struct dst *d, struct ct_want *w)
{
	*w = (struct ct_want){
		.id = d->p.v[DP_ID],
		.name = d->p.v[DP_NAME],
		.new_id = d->p.v[DP_NEW_ID],
		.new_name = d->p.v[DP_NEW_NAME],
		.new_private = d->p.v[DP_NEW_PRIVATE],
		.new_root = d->p.v[DP_NEW_ROOT],
		.files = d->files,
		.nfiles = d->nfiles,
	};
}

void
dst_host(struct dst *d, struct ct_host *h)
{
	*h = (struct ct_host){ .lxcpath = d->p.v[DP_LXCPATH],
			       .vz_conf = d->p.v[DP_VZ_CONF],
			       .state_dir = statedir_path() };
}

void
dst_place(struct dst *d, struct ct_place *p)
{
	*p = (struct ct_place){
		.id = d->p.v[DP_PLACE_ID],
		.name = d->p.v[DP_PLACE_NAME],
		.tree = d->p.v[DP_PLACE_TREE],
		.stage_dir = d->p.v[DP_PLACE_STAGE_DIR],
		.mount_root = d->p.v[DP_PLACE_MOUNT],
	};
}

/* ---- opening ---- */

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
	rc = journal_open(d->fd, "journal", what, JOURNAL_CREATE,
			  dst_rec_apply, &d->rec, &d->j, e);
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
		{ "epoch", epoch },	{ "pid", pid },
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

/* The container's files may have a word in the place, and they come after
 * OPEN. */
static int
decide_place_again(struct dst *d, struct err *e)
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

static int
open_session(struct dst *d, struct msg_open *m, struct msg_open_reply *r,
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
		rc = dst_lock(d, &lock, e);
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
	d->open = d->other_words = false;
}

/* ---- requests ---- */

static int
do_open(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	struct err *e)
{
	struct msg_open m;
	struct msg_open_reply r = { 0 };
	int rc = msg_get_open(body, len, &m, e);

	if (rc < 0) {
		return rc;
	}
	rc = open_session(d, &m, &r, e);
	if (rc == 0) {
		msg_put_open_reply(n, &r);
	}
	msg_open_fini(&m);
	msg_open_reply_fini(&r);
	return rc;
}

static int
do_put_file(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	    struct err *e)
{
	struct msg_put_file m;
	int rc = msg_get_put_file(body, len, &m, e);

	(void)n;
	if (rc == 0) {
		rc = dst_put_file(d, &m, e);
		msg_put_file_fini(&m);
	}
	return rc;
}

static int
do_check(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	 struct err *e)
{
	struct msg_check m;
	struct msg_check_reply *r = calloc(1, sizeof(*r));
	int rc;

	if (!r) {
		return err_nomem(e);
	}
	rc = msg_get_check(body, len, &m, e);
	if (rc == 0) {
		rc = decide_place_again(d, e);
		if (rc == 0) {
			rc = dst_check(d, &m, r, e);
		}
		msg_check_fini(&m);
	}
	if (rc == 0) {
		msg_put_check_reply(n, r);
	}
	msg_check_reply_fini(r);
	free(r);
	return rc;
}

static int
do_reserve(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	   struct err *e)
{
	cleanup(close_fd) int lock = -1;
	int rc;

	(void)body;
	(void)n;
	if (len != 0) {
		return err_set(e, E_PROTOCOL, "RESERVE with a body");
	}
	rc = dst_enter(d, &lock, e);
	if (rc == 0) {
		rc = decide_place_again(d, e);
	}
	return rc == 0 ? dst_reserve(d, e) : rc;
}

static int
do_pass_begin(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	      struct err *e)
{
	struct msg_pass m;
	int rc = msg_get_pass(body, len, &m, e);

	(void)n;
	return rc == 0 ? dst_pass_begin(d, &m, e) : rc;
}

static int
do_pass_end(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	    struct err *e)
{
	struct msg_pass m;
	struct msg_proof p = { 0 };
	int rc = msg_get_pass(body, len, &m, e);

	if (rc == 0) {
		rc = dst_pass_end(d, &m, &p, e);
	}
	if (rc == 0) {
		msg_put_proof(n, &p);
	}
	return rc;
}

static int
do_proof_list(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	      struct err *e)
{
	struct msg_proof_list m;
	int rc = msg_get_proof_list(body, len, &m, e);

	return rc == 0 ? dst_pass_list(d, m.from, n->b, e) : rc;
}

static int
do_sync(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	struct err *e)
{
	(void)body;
	(void)n;
	if (len != 0) {
		return err_set(e, E_PROTOCOL, "SYNC with a body");
	}
	return dst_pass_sync(d, e);
}

static int
do_take_over(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	     struct err *e)
{
	struct msg_take_over m;
	struct msg_take_over_reply r = { 0 };
	int rc = msg_get_take_over(body, len, &m, e);

	if (rc == 0) {
		rc = dst_take_over(d, &m, &r, e);
	}
	if (rc == 0) {
		msg_put_take_over_reply(n, &r);
	}
	msg_take_over_reply_fini(&r);
	return rc;
}

static int
put_state(struct enc *n, struct msg_state *r, int rc)
{
	if (rc == 0) {
		msg_put_state(n, r);
	}
	msg_state_fini(r);
	return rc;
}

static int
do_never(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	 struct err *e)
{
	struct msg_state r = { 0 };

	(void)body;
	if (len != 0) {
		return err_set(e, E_PROTOCOL, "NEVER with a body");
	}
	return put_state(n, &r, dst_never(d, &r, e));
}

static int
do_abort(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	 struct err *e)
{
	struct msg_abort m;
	struct msg_state r = { 0 };
	int rc = msg_get_abort(body, len, &m, e);

	if (rc < 0) {
		return rc;
	}
	dst_pass_stop(d);
	return put_state(n, &r, dst_abort(d, &m, &r, e));
}

static int
do_finish(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	  struct err *e)
{
	struct msg_state r = { 0 };

	(void)body;
	if (len != 0) {
		return err_set(e, E_PROTOCOL, "FINISH with a body");
	}
	return put_state(n, &r, dst_finish(d, &r, e));
}

static int (*const methods[])(struct dst *, const uint8_t *, size_t,
			      struct enc *, struct err *) = {
	[MSG_OPEN] = do_open,		[MSG_PUT_FILE] = do_put_file,
	[MSG_CHECK] = do_check,		[MSG_RESERVE] = do_reserve,
	[MSG_PASS_BEGIN] = do_pass_begin, [MSG_PASS_END] = do_pass_end,
	[MSG_PROOF_LIST] = do_proof_list, [MSG_SYNC] = do_sync,
	[MSG_TAKE_OVER] = do_take_over, [MSG_NEVER] = do_never,
	[MSG_ABORT] = do_abort,		[MSG_FINISH] = do_finish,
};

int
dst_request(struct dst *d, enum msg_method method, const uint8_t *body,
	    size_t len, struct buf *reply, struct err *e)
{
	struct enc n;
	int rc;

	if ((size_t)method >= sizeof(methods) / sizeof(methods[0]) ||
	    !methods[method]) {
		return err_set(e, E_PROTOCOL, "unknown request %u",
			       (unsigned)method);
	}
	if (method != MSG_OPEN && !d->open) {
		return err_set(e, E_STATE, "no session was opened");
	}
	log_debug("request %s", msg_method_name(method));
	enc_init(&n, reply, e);
	rc = methods[method](d, body, len, &n, e);
	return rc < 0 ? rc : n.rc;
}

/* ---- the connection ---- */

static int
hardware_aes(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_cpu_supports("aes") ? 1 : 0;
#elif defined(__aarch64__)
	return getauxval(AT_HWCAP) & (1 << 3) ? 1 : 0; /* HWCAP_AES */
#else
	return 0;
#endif
}

int
dst_hello(struct dst *d, struct msg_hello_reply *r, struct err *e)
{
	struct err why = { 0 };
	struct utsname u;
	int rc = hostid_boot(d->hello.boot, e);

	if (rc < 0) {
		return rc;
	}
	if (uname(&u) < 0) {
		return err_sys(e, errno, "uname");
	}
	if (hostid_get(r->host_id, &why) < 0) {
		log_debug("no host id: %s", why.text);
		memset(r->host_id, 0, sizeof(r->host_id));
	}
	snprintf(d->hello.host, sizeof(d->hello.host), "%s", u.nodename);
	snprintf(d->hello.kernel, sizeof(d->hello.kernel), "%s", u.release);
	snprintf(d->hello.machine, sizeof(d->hello.machine), "%s", u.machine);
	r->version = (char *)(uintptr_t)PACKAGE_VERSION;
	r->boot_id = d->hello.boot;
	r->hostname = d->hello.host;
	r->kernel = d->hello.kernel;
	r->machine = d->hello.machine;
	r->uid = (uint32_t)geteuid();
	r->nproc = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	r->hw_aes = (uint8_t)hardware_aes();
	r->time_s = time(NULL);
	return 0;
}

void
dst_link_lost(struct dst *d, const char *why)
{
	const struct journal_field f = { "why", why };
	cleanup(close_fd) int lock = -1;
	struct err e = { 0 };
	int rc;

	if (!d->open) {
		return;
	}
	rc = dst_enter(d, &lock, &e);
	if (rc == 0) {
		rc = dst_event(d, EV_LINK_LOST, &f, 1, &e);
	}
	if (rc < 0) {
		log_debug("%s", e.text);
	}
}

static int
resolve_roots(struct dst *d, struct err *e)
{
	size_t n = d->opts.nallow_roots;

	if (n == 0) {
		return 0;
	}
	d->roots = calloc(n, sizeof(*d->roots));
	if (!d->roots) {
		return err_nomem(e);
	}
	for (size_t i = 0; i < n; i++) {
		char *real = realpath(d->opts.allow_roots[i], NULL);

		if (!real) {
			/* It allows nothing, but need not stop the others. */
			log_warn("--allow-root %s: %s", d->opts.allow_roots[i],
				 strerror(errno));
			continue;
		}
		d->roots[d->nroots++] = real;
	}
	return 0;
}

int
dst_new(const struct dst_opts *o, struct dst **out, struct err *e)
{
	struct dst *d = calloc(1, sizeof(*d));
	int rc;

	if (!d) {
		return err_nomem(e);
	}
	d->opts = *o;
	d->fd = d->stagefd = d->treefd = -1;
	rc = resolve_roots(d, e);
	if (rc < 0) {
		dst_free(d);
		return rc;
	}
	*out = d;
	return 0;
}

void
dst_free(struct dst *d)
{
	if (!d) {
		return;
	}
	dst_close(d);
	for (size_t i = 0; i < d->nroots; i++) {
		free(d->roots[i]);
	}
	free(d->roots);
	free(d);
}
