/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dial: connects, and starts the agent. The channel given out wraps the one
 * of ssh/: it owns the connection, and keeps what the remote shell said and
 * how the command ended, so that dial_explain.c can say why no agent answered.
 * One thread at a time; bytechan_wake alone comes from any.
 */
#include "config.h"

#include "cli/dial_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "cipher/cpu.h"
#include "cipher/probecand.h"
#include "cipher/table.h"
#include "ssh/conn.h"
#include "ssh/prompt.h"
#include "ssh/sshconf.h"

/* ---- setting up ---- */

static bool
lib_has(const char *name, void *arg)
{
	(void)arg;
	return conn_has_algorithm(table_find(ALG_CIPHER, name) ? 'c' : 'm',
				  name);
}

static int
build_offer(struct dial *d, struct err *e)
{
	const struct options *o = d->o;
	int rc;

	d->ask = (struct offer_ask){
		.cipher = o->cipher,
		.ssh_cipher = o->ssh.ciphers,
		.cfg_ciphers = d->conf.ciphers,
		.mac = o->mac,
		.ssh_mac = o->ssh.macs,
		.cfg_macs = d->conf.macs,
		.allow = o->allow,
		.nallow = o->nallow,
		.here = cpu_aes(),
		.there = HW_UNKNOWN,
		.lib_has = lib_has,
	};
	rc = offer_build(&d->ask, &d->offer, e);
	for (size_t i = 0; i < d->offer.nwarnings; i++) {
		log_warn("%s", d->offer.warnings[i]);
	}
	if (rc == 0) {
		log_debug("ciphers offered (%s): %s; in return: %s",
			  offer_by_name(d->offer.ciphers_by),
			  d->offer.ciphers_out, d->offer.ciphers_in);
		log_debug("MACs offered (%s): %s",
			  offer_by_name(d->offer.macs_by), d->offer.macs_out);
	}
	return rc;
}

/* A question and the progress line do not share the terminal. */
static int
ask_paused(enum prompt_kind kind, const char *question, bool echo, char *answer,
	   size_t len, void *arg, struct err *e)
{
	struct dial *d = arg;
	int rc;

	if (d->progress) {
		progress_pause(d->progress);
	}
	rc = prompt_tty.ask(kind, question, echo, answer, len, prompt_tty.arg,
			    e);
	if (d->progress) {
		progress_resume(d->progress);
	}
	return rc;
}

static int
set_names(struct dial *d, struct err *e)
{
	const struct options *o = d->o;

	d->sudo = !o->agent && strcmp(d->conf.user, "root") != 0;
	d->host = strdup(o->target.host);
	d->dest = io_asprintf(e, "%s@%s", d->conf.user, o->target.host);
	d->command = strdup(o->agent  ? o->agent
			    : d->sudo ? "sudo -n " DIAL_AGENT
				      : DIAL_AGENT);
	return d->host && d->dest && d->command ? 0 : err_nomem(e);
}

int
dial_new(const struct options *o, struct progress *progress, const int *stop,
	 struct dial **out, struct err *e)
{
	struct dial *d = calloc(1, sizeof(*d));
	int rc;

	if (!d) {
		return err_nomem(e);
	}
	d->o = o;
	d->progress = progress;
	d->stop = stop;
	d->status = -1;
	d->prompt = (struct prompt){ ask_paused, d };
	rc = sshconf_resolve(&o->target, &o->ssh, &d->conf, e);
	rc = rc < 0 ? rc : build_offer(d, e);
	rc = rc < 0 ? rc : set_names(d, e);
	if (rc < 0) {
		dial_free(d);
		return rc;
	}
	*out = d;
	return 0;
}

static void
forget_info(struct dial *d)
{
	free(d->cipher_c2s);
	free(d->cipher_s2c);
	free(d->mac_c2s);
	free(d->mac_s2c);
	d->cipher_c2s = d->cipher_s2c = d->mac_c2s = d->mac_s2c = NULL;
}

void
dial_free(struct dial *d)
{
	if (!d) {
		return;
	}
	forget_info(d);
	conn_close(d->first);
	offer_fini(&d->offer);
	sshconf_fini(&d->conf);
	free(d->dest);
	free(d->host);
	free(d->command);
	free(d);
}

const char *
dial_dest(const struct dial *d)
{
	return d->dest;
}

const char *
dial_host(const struct dial *d)
{
	return d->host;
}

const struct offer *
dial_offer(const struct dial *d)
{
	return &d->offer;
}

const struct offer_ask *
dial_ask(const struct dial *d)
{
	return &d->ask;
}

const char *
dial_command(const struct dial *d)
{
	return d->command;
}

int
dial_use(struct dial *d, const struct probe_cand *c, struct err *e)
{
	char *ciphers, *macs;
	int rc = probecand_prefer(&d->offer, c, &ciphers, &macs, e);

	if (rc < 0) {
		return rc;
	}
	free(d->offer.ciphers_out);
	free(d->offer.macs_out);
	d->offer.ciphers_out = ciphers;
	d->offer.macs_out = macs;
	d->offer.ciphers_by = OFFER_BY_PROBE;
	if (c->mac) {
		d->offer.macs_by = OFFER_BY_PROBE;
	}
	return 0;
}

struct conn *
dial_live(struct dial *d)
{
	return d->live;
}

void
dial_keep(struct dial *d, struct conn *first)
{
	conn_close(d->first);
	d->first = first;
}

void
dial_get_info(const struct dial *d, struct dial_info *info)
{
	*info = (struct dial_info){
		.cipher_c2s = d->cipher_c2s,
		.cipher_s2c = d->cipher_s2c,
		.mac_c2s = d->mac_c2s,
		.mac_s2c = d->mac_s2c,
		.cipher_by = d->cipher_c2s ? offer_by_name(d->offer.ciphers_by)
					   : NULL,
	};
}

/* ---- the channel ---- */

struct wrap {
	struct bytechan c;	/* first: what the link sees */
	struct bytechan *inner; /* of ssh/; owned */
	struct conn *conn;	/* owned */
	struct dial *d;		/* borrowed */
	bool ended;		/* the remote command is over */
};

static int
wrap_data(const void *data, size_t len, void *arg, struct err *e)
{
	struct wrap *w = arg;

	return w->c.on_data(data, len, w->c.arg, e);
}

static void
wrap_stderr(const void *data, size_t len, void *arg)
{
	struct wrap *w = arg;
	struct dial *d = w->d;
	size_t room = DIAL_SAID_MAX - 1 - d->said_len;
	size_t n = len < room ? len : room;

	memcpy(d->said + d->said_len, data, n);
	d->said_len += n;
	d->said[d->said_len] = '\0';
	if (w->c.on_stderr) {
		w->c.on_stderr(data, len, w->c.arg);
	}
}

static int
note_end(struct wrap *w, int rc)
{
	w->ended |= rc == E_CLOSED;
	return rc;
}

static int
wrap_write(struct bytechan *c, const void *data, size_t len, int64_t timeout_ms,
	   struct err *e)
{
	struct wrap *w = (struct wrap *)c;

	return note_end(w, bytechan_write(w->inner, data, len, timeout_ms, e));
}

static int
wrap_service(struct bytechan *c, int64_t timeout_ms, struct err *e)
{
	struct wrap *w = (struct wrap *)c;

	return note_end(w, bytechan_service(w->inner, timeout_ms, e));
}

static void
wrap_wake(struct bytechan *c)
{
	bytechan_wake(((struct wrap *)c)->inner);
}

static void
wrap_cut(struct bytechan *c)
{
	bytechan_cut(((struct wrap *)c)->inner);
}

static int
wrap_send_eof(struct bytechan *c, struct err *e)
{
	return bytechan_send_eof(((struct wrap *)c)->inner, e);
}

static void
wrap_free(struct bytechan *c)
{
	struct wrap *w = (struct wrap *)c;
	struct err e = { 0 };

	if (w->ended &&
	    conn_exit_status(w->inner, &w->d->status, w->d->sig, &e) < 0) {
		w->d->status = -1;
	}
	if (w->d->chan == w->inner) {
		w->d->chan = NULL;
		w->d->live = NULL;
	}
	bytechan_free(w->inner);
	conn_close(w->conn);
	free(w);
}

static const struct bytechan_ops wrap_ops = {
	.write = wrap_write,
	.service = wrap_service,
	.wake = wrap_wake,
	.send_eof = wrap_send_eof,
	.free = wrap_free,
	.cut = wrap_cut,
};

static char *
copy(const char *s)
{
	return s && *s ? strdup(s) : NULL;
}

/* Encrypt-then-MAC is what a CTR or CBC cipher should have. */
static void
note_plain_mac(const struct dial *d, const char *mac)
{
	const struct alg *a = table_find(ALG_MAC, mac);

	if (a && !a->etm) {
		log_info("%s: %s is a plain MAC (encrypt-and-MAC)%s", d->host,
			 mac,
			 d->offer.macs_by == OFFER_BY_DEFAULT
				 ? ": the server has no encrypt-then-MAC one "
				   "that we have"
				 : "");
	}
}

static void
keep_info(struct dial *d, const struct conn *conn)
{
	const struct conn_info *i = conn_get_info(conn);

	forget_info(d);
	d->cipher_c2s = copy(i->cipher_c2s);
	d->cipher_s2c = copy(i->cipher_s2c);
	d->mac_c2s = copy(i->mac_c2s);
	d->mac_s2c = copy(i->mac_s2c);
	log_debug("%s: connected to %s port %d, %s", d->host,
		  i->proxy ? "a proxy" : i->peer, i->peer_port, i->banner);
	log_debug("%s: host key %s %s, authenticated by %s", d->host,
		  i->hostkey_type, i->hostkey_sha256, i->auth);
	log_debug("%s: key exchange %s; to the server %s, MAC %s; from it %s, "
		  "MAC %s; ciphers decided by: %s, MACs by: %s",
		  d->host, i->kex, i->cipher_c2s, i->mac_c2s, i->cipher_s2c,
		  i->mac_s2c, offer_by_name(d->offer.ciphers_by),
		  offer_by_name(d->offer.macs_by));
	note_plain_mac(d, i->mac_c2s);
}

void
dial_params(struct dial *d, struct conn_params *p)
{
	*p = (struct conn_params){
		.conf = &d->conf,
		.prompt = d->conf.batch ? &prompt_none : &d->prompt,
		.ciphers_c2s = d->offer.ciphers_out,
		.ciphers_s2c = d->offer.ciphers_in,
		.macs_c2s = d->offer.macs_out,
		.macs_s2c = d->offer.macs_in,
		.compression = d->conf.compression,
		.timeout_ms = d->o->timeout_ms,
		.silence_ms = d->o->timeout_ms,
		.stop = d->stop,
		.mismatch = &d->mismatch,
	};
	d->mismatch.ours[0] = '\0';
}

static int
connect_to(struct dial *d, const struct conn_params *p, struct conn **out,
	   struct err *e)
{
	struct err why = { 0 };
	int rc;

	if (!d->first) {
		return conn_open(p, out, e);
	}
	rc = conn_open_more(d->first, p, out, &why);
	conn_close(d->first);
	d->first = NULL;
	if (rc == 0) {
		return 0;
	}
	if (rc != E_CANCELLED && rc != E_HOSTKEY) {
		log_debug("%s", why.text);
		return conn_open(p, out, e);
	}
	if (e) {
		*e = why;
	}
	return rc;
}

int
dial_open(void *arg, bool must, struct bytechan **out, struct err *e)
{
	struct dial *d = arg;
	struct wrap *w = calloc(1, sizeof(*w));
	struct conn_params p;
	int rc;

	if (!w) {
		return err_nomem(e);
	}
	d->said_len = 0;
	d->said[0] = '\0';
	d->status = -1;
	d->sig[0] = '\0';
	w->c.ops = &wrap_ops;
	w->d = d;
	dial_params(d, &p);
	if (must) {
		p.stop = NULL;
	}
	rc = connect_to(d, &p, &w->conn, e);
	if (rc == 0) {
		keep_info(d, w->conn);
		log_debug("%s: starting '%s'", d->host, d->command);
		rc = conn_exec(w->conn, d->command, &w->inner, e);
	}
	if (rc < 0) {
		dial_explain_mismatch(d, e);
		conn_close(w->conn);
		free(w);
		return rc;
	}
	w->inner->on_data = wrap_data;
	w->inner->on_stderr = wrap_stderr;
	w->inner->arg = w;
	d->chan = w->inner;
	d->live = w->conn;
	*out = &w->c;
	return 0;
}

void
dial_greeted(void *arg)
{
	struct dial *d = arg;

	if (d->chan) {
		conn_unstop(d->chan);
	}
}
