/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conn: from a configuration to an authenticated session: socket, key
 * exchange, host key, authentication, in this order. State: struct conn.
 *
 * libssh is told everything explicitly (conn_opts.c) and parses no
 * configuration. The session is non-blocking from the start (see sesswait.h).
 */
#include "ssh/conn.h"

#include <errno.h>
#include <libssh/libssh.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/algo.h"
#include "ssh/auth.h"
#include "ssh/conn_opts.h"
#include "ssh/hostkey.h"
#include "ssh/kexlog.h"
#include "ssh/knownhosts.h"
#include "ssh/sesswait.h"
#include "ssh/sock.h"
#include "ssh/sshchan.h"

#define TIMEOUT_MS 30000
#define SILENCE_MS 60000
#define FLUSH_MS 1000
#define RETRY_FIRST_MS 100 /* MaxStartups: pauses double up to the last */
#define RETRY_LAST_MS 3000

struct conn {
	ssh_session s;
	struct sock sock; /* fd is -1 once libssh has it */
	struct conn_info info;
	struct kexlog kex;
	struct auth *auth; /* counted */
	uint8_t *hostkey;  /* owned: the blob that was accepted */
	size_t hostkey_len;
	char banner[512], hostkey_type[64];
	char hostkey_print[KNOWNHOSTS_PRINT_LEN];
	int64_t timeout_ms, silence_ms;
	const int *stop;
};

/* One opening under way. */
struct opening {
	const struct conn_params *p;
	const struct sshconf *c;
	const struct conn *first; /* conn_open_more: what is required */
	struct hostkey hostkey;	  /* conn_open: what is known */
	struct conn *conn;
};

/* The host key that `first` showed leaves one type to ask for. */
static const char *
hostkey_algorithms(const struct opening *o)
{
	if (!o->first) {
		return o->hostkey.algorithms;
	}
	return strcmp(o->first->hostkey_type, "ssh-rsa") == 0
		       ? "rsa-sha2-512,rsa-sha2-256"
		       : o->first->hostkey_type;
}

/* Why the key exchange failed. */
static int
explain(struct opening *o, struct err *e)
{
	char text[1024], safe[1024];
	int rc;

	sesswait_error(o->conn->s, text, sizeof(text));
	rc = kexlog_explain(text, o->p->mismatch, e);
	if (rc == 0) {
		rc = kexlog_compare(&o->conn->kex, o->p->mismatch, e);
	}
	if (rc < 0) {
		return err_wrap(e, "%s", o->c->alias);
	}
	escape_text(safe, sizeof(safe),
		    *text ? text : "the other side hung up");
	/* It has said why by itself, on stderr. */
	if (o->c->proxy_command || o->c->proxy_jump) {
		return err_set(e, E_CONNECT,
			       "%s: no SSH connection through %s%s: %s",
			       o->c->alias,
			       o->c->proxy_command ? "the ProxyCommand"
						   : "the jump host ",
			       o->c->proxy_command ? "" : o->c->proxy_jump,
			       safe);
	}
	return err_set(e, E_CONNECT, "%s: no SSH connection: %s", o->c->alias,
		       safe);
}

static int
exchange_keys(struct opening *o, struct err *e)
{
	struct conn *c = o->conn;
	struct sesswait w = { c->s, c->timeout_ms, c->stop,
			      "SSH key exchange" };
	int64_t deadline = io_deadline(c->timeout_ms);
	int rc, r2 = 0;

	ssh_set_blocking(c->s, 0);
	kexlog_begin(&c->kex);
	while ((rc = ssh_connect(c->s)) == SSH_AGAIN && r2 == 0) {
		/* from here on libssh may close it */
		c->sock.fd = -1;
		r2 = sesswait_poll(&w, deadline, e);
	}
	kexlog_end();
	c->sock.fd = -1;
	if (r2 == E_CANCELLED || r2 == E_TIMEOUT) {
		return err_wrap(e, "%s", o->c->alias);
	}
	return rc == SSH_OK && r2 == 0 ? 0 : explain(o, e);
}

/* The key as SSH sends it, into c->hostkey. */
static int
fetch_hostkey(struct conn *c, struct err *e)
{
	ssh_key key = NULL;
	char *b64 = NULL;
	size_t room;
	int n = -1;

	if (ssh_get_server_publickey(c->s, &key) != SSH_OK) {
		return err_set(e, E_HOSTKEY, "the server shows no host key");
	}
	if (ssh_pki_export_pubkey_base64(key, &b64) == SSH_OK) {
		room = strlen(b64);
		c->hostkey = malloc(room + 1);
		n = c->hostkey ? knownhosts_unbase64(b64, c->hostkey, room)
			       : -1;
	}
	ssh_string_free_char(b64);
	ssh_key_free(key);
	if (n <= 0) {
		return err_set(e, E_HOSTKEY, "the host key cannot be read");
	}
	c->hostkey_len = (size_t)n;
	knownhosts_blob_type(c->hostkey, c->hostkey_len, c->hostkey_type);
	knownhosts_fingerprint(c->hostkey, c->hostkey_len, c->hostkey_print);
	return 0;
}

static int
check_hostkey(struct opening *o, struct err *e)
{
	const struct prompt *prompt =
		o->p->prompt ? o->p->prompt : &prompt_none;
	struct conn *c = o->conn;
	int rc = fetch_hostkey(c, e);

	if (rc < 0) {
		return rc;
	}
	if (!o->first) {
		return hostkey_check(&o->hostkey, o->c, prompt, c->hostkey,
				     c->hostkey_len, e);
	}
	if (c->hostkey_len != o->first->hostkey_len ||
	    memcmp(c->hostkey, o->first->hostkey, c->hostkey_len) != 0) {
		return err_set(e, E_HOSTKEY,
			       "%s shows another host key (%s) than a moment "
			       "ago (%s)",
			       o->c->alias, c->hostkey_print,
			       o->first->hostkey_print);
	}
	return 0;
}

static int
authenticate(struct opening *o, struct err *e)
{
	struct auth_params a = { .s = o->conn->s,
				 .c = o->c,
				 .prompt = o->p->prompt,
				 .timeout_ms = o->conn->timeout_ms,
				 .stop = o->conn->stop };

	if (!o->first) {
		return auth_run(&a, &o->conn->auth, e);
	}
	a.prompt = &prompt_none;
	o->conn->auth = auth_ref(o->first->auth);
	return auth_again(&a, o->conn->auth, e);
}

static const char *
text_or(const char *text, const char *other)
{
	return text ? text : other;
}

static void
fill_info(struct conn *c)
{
	const char *banner = text_or(ssh_get_serverbanner(c->s), "");
	bool proxy = c->sock.proxy.pid >= 0;

	escape_bytes(c->banner, sizeof(c->banner), banner, strlen(banner));
	c->info = (struct conn_info){
		.cipher_c2s = text_or(ssh_get_cipher_out(c->s), "?"),
		.cipher_s2c = text_or(ssh_get_cipher_in(c->s), "?"),
		.mac_c2s = text_or(ssh_get_hmac_out(c->s), "?"),
		.mac_s2c = text_or(ssh_get_hmac_in(c->s), "?"),
		.kex = text_or(ssh_get_kex_algo(c->s), "?"),
		.banner = c->banner,
		.hostkey_type = c->hostkey_type,
		.hostkey_sha256 = c->hostkey_print,
		.peer = c->sock.peer,
		.peer_port = c->sock.peer_port,
		.proxy = proxy,
		.auth = auth_text(c->auth),
		.srv_ciphers_c2s = c->kex.lists[KEXLOG_CIPHER_C2S],
		.srv_ciphers_s2c = c->kex.lists[KEXLOG_CIPHER_S2C],
		.srv_macs_c2s = c->kex.lists[KEXLOG_MAC_C2S],
		.srv_macs_s2c = c->kex.lists[KEXLOG_MAC_S2C],
		.srv_kex = c->kex.lists[KEXLOG_KEX],
		.srv_hostkeys = c->kex.lists[KEXLOG_HOSTKEY],
		.strict_kex = sshlist_has_name(c->kex.lists[KEXLOG_KEX],
					       "kex-strict-s-v00@openssh.com"),
	};
	log_debug("connected to %s port %d: %s; kex %s; host key %s %s; "
		  "c->s %s %s; s->c %s %s; %s",
		  *c->info.peer ? c->info.peer : "(proxy)", c->info.peer_port,
		  c->info.banner, c->info.kex, c->info.hostkey_type,
		  c->info.hostkey_sha256, c->info.cipher_c2s, c->info.mac_c2s,
		  c->info.cipher_s2c, c->info.mac_s2c, c->info.auth);
}

/* Socket and session. `*shown` tells whether the server came as far as a host
 * key (then it is not its limit of connections that stopped us). */
static int
open_once(struct opening *o, bool *shown, struct err *e)
{
	struct conn *c = o->conn;
	int rc;

	*shown = false;
	rc = o->first ? sock_open_like(o->c, &o->first->sock, c->timeout_ms,
				       c->silence_ms, c->stop, &c->sock, e)
		      : sock_open(o->c, c->timeout_ms, c->silence_ms, c->stop,
				  &c->sock, e);
	if (rc < 0) {
		return rc;
	}
	c->s = ssh_new();
	if (!c->s) {
		return err_nomem(e);
	}
	rc = conn_opts_set(c->s, o->p, hostkey_algorithms(o), c->sock.fd,
			   c->timeout_ms, e);
	if (rc == 0) {
		rc = exchange_keys(o, e);
	}
	if (rc < 0) {
		return rc;
	}
	*shown = true;
	rc = check_hostkey(o, e);
	if (rc == 0) {
		rc = authenticate(o, e);
	}
	if (rc == 0) {
		fill_info(c);
	}
	return rc;
}

static void
set_limits(struct conn *c, const struct conn_params *p)
{
	const struct sshconf *conf = p->conf;
	int64_t alive =
		(int64_t)conf->alive_interval_s * conf->alive_count_max * 1000;

	c->timeout_ms = p->timeout_ms ? p->timeout_ms
			: conf->connect_timeout_s > 0
				? (int64_t)conf->connect_timeout_s * 1000
				: TIMEOUT_MS;
	c->silence_ms = p->silence_ms ? p->silence_ms
			: alive > 0   ? alive
				      : SILENCE_MS;
	c->stop = p->stop;
}

static struct conn *
new_conn(const struct conn_params *p, struct err *e)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct sigaction sa;

	if (!c) {
		err_nomem(e);
		return NULL;
	}
	/* libssh writes without MSG_NOSIGNAL. */
	if (sigaction(SIGPIPE, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL) {
		signal(SIGPIPE, SIG_IGN);
	}
	c->sock.fd = -1;
	c->sock.proxy = (struct child){ -1, -1 };
	set_limits(c, p);
	return c;
}

int
conn_open(const struct conn_params *p, struct conn **out, struct err *e)
{
	struct opening o = { .p = p, .c = p->conf };
	bool shown;
	int rc = hostkey_init(&o.hostkey, o.c, e);

	*out = NULL;
	if (rc < 0) {
		return rc;
	}
	o.conn = new_conn(p, e);
	rc = o.conn ? open_once(&o, &shown, e) : E_NOMEM;
	hostkey_fini(&o.hostkey);
	if (rc < 0) {
		conn_close(o.conn);
		return rc;
	}
	*out = o.conn;
	return 0;
}

/* Pauses of a tenth of a second, doubling, each between half and whole, so
 * that many streams do not come back at the same moment. */
static int
pause_before_retry(int64_t *pause, const int *stop, int64_t deadline,
		   struct err *e)
{
	uint16_t random = 0;
	int64_t until;

	if (digest_random(&random, sizeof(random), e) < 0) {
		return E_SYSTEM;
	}
	until = io_deadline(*pause / 2 + random % (*pause / 2 + 1));
	while (io_left_ms(until) > 0 && io_left_ms(deadline) > 0) {
		int ms = io_left_ms(until);

		if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED)) {
			return err_set(e, E_CANCELLED, "stopped");
		}
		poll(NULL, 0, ms > 100 ? 100 : ms);
	}
	*pause = *pause * 2 > RETRY_LAST_MS ? RETRY_LAST_MS : *pause * 2;
	return 0;
}

int
conn_open_more(const struct conn *first, const struct conn_params *more,
	       struct conn **out, struct err *e)
{
	int64_t pause = RETRY_FIRST_MS, deadline = IO_FOREVER;

	*out = NULL;
	for (;;) {
		struct opening o = { .p = more,
				     .c = more->conf,
				     .first = first };
		struct err why = { 0 };
		bool shown = false;
		int rc;

		o.conn = new_conn(more, e);
		if (!o.conn) {
			return E_NOMEM;
		}
		if (deadline == IO_FOREVER) {
			deadline = io_deadline(o.conn->timeout_ms);
		}
		rc = open_once(&o, &shown, &why);
		if (rc == 0) {
			*out = o.conn;
			return 0;
		}
		conn_close(o.conn);
		if (shown || rc != E_CONNECT || io_left_ms(deadline) == 0) {
			if (e) {
				*e = why;
			}
			return rc;
		}
		log_debug("%s; trying again", why.text);
		rc = pause_before_retry(&pause, more->stop, deadline, e);
		if (rc < 0) {
			return rc;
		}
	}
}

const struct conn_info *
conn_get_info(const struct conn *c)
{
	return &c->info;
}

int
conn_exec(struct conn *c, const char *command, struct bytechan **out,
	  struct err *e)
{
	struct sshchan_params p = { c->s, c->timeout_ms, c->silence_ms,
				    c->stop };

	log_debug("remote command: %s", command);
	return sshchan_open(&p, command, out, e);
}

void
conn_unstop(struct bytechan *c)
{
	sshchan_unstop(c);
}

int
conn_exit_status(struct bytechan *c, int *status, char sig[16], struct err *e)
{
	return sshchan_exit_status(c, status, sig, e);
}

bool
conn_has_algorithm(char method, const char *name)
{
	return algo_known(method == 'm' ? ALGO_MAC : ALGO_CIPHER, name);
}

const char *
conn_default_ciphers(bool c2s)
{
	return c2s ? algo_default(ALGO_CIPHER) : algo_default_s2c();
}

const char *
conn_default_macs(void)
{
	return algo_default(ALGO_MAC);
}

/* What libssh still holds goes out, within a second. */
static void
flush(struct conn *c)
{
	struct sesswait w = { c->s, FLUSH_MS, NULL, "closing" };
	int64_t deadline = io_deadline(FLUSH_MS);

	while (ssh_is_connected(c->s) &&
	       (ssh_get_status(c->s) & SSH_WRITE_PENDING) &&
	       sesswait_poll(&w, deadline, NULL) == 0) {
		ssh_blocking_flush(c->s, 0);
	}
}

void
conn_close(struct conn *c)
{
	if (!c) {
		return;
	}
	if (c->s) {
		int fd;

		if (ssh_is_connected(c->s)) {
			flush(c);
		}
		/* libssh leaves a socket of ours open, but has closed it
		 * already after a fatal error: ask it, do not remember. Before
		 * ssh_connect it is still ours. */
		fd = c->sock.fd < 0 ? ssh_get_fd(c->s) : -1;
		ssh_disconnect(c->s);
		ssh_free(c->s);
		if (fd >= 0) {
			close(fd);
		}
	}
	sock_close(&c->sock);
	auth_unref(c->auth);
	free(c->hostkey);
	free(c);
}
