/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst: takes requests apart and hands them to the steps. Input: message bodies
 * from xfer/server. Output: replies. State: struct dst, used by one thread at a
 * time.
 */
#include "migrate/dst.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "config.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
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
	rc = dst_open(d, &m, &r, e);
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
		rc = dst_place_again(d, e);
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
do_fsprobe(struct dst *d, const uint8_t *body, size_t len, struct enc *n,
	   struct err *e)
{
	struct msg_check_reply r = { 0 };
	int rc;

	(void)body;
	if (len != 0) {
		return err_set(e, E_PROTOCOL, "FSPROBE with a body");
	}
	rc = dst_place_again(d, e);
	if (rc == 0) {
		dst_fsprobe(d, &r);
		msg_put_check_reply(n, &r);
	}
	msg_check_reply_fini(&r);
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
		rc = dst_place_again(d, e);
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
	[MSG_OPEN] = do_open,
	[MSG_PUT_FILE] = do_put_file,
	[MSG_CHECK] = do_check,
	[MSG_RESERVE] = do_reserve,
	[MSG_PASS_BEGIN] = do_pass_begin,
	[MSG_PASS_END] = do_pass_end,
	[MSG_PROOF_LIST] = do_proof_list,
	[MSG_SYNC] = do_sync,
	[MSG_TAKE_OVER] = do_take_over,
	[MSG_NEVER] = do_never,
	[MSG_ABORT] = do_abort,
	[MSG_FINISH] = do_finish,
	[MSG_FSPROBE] = do_fsprobe,
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
