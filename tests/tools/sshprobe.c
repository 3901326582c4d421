/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshprobe: drives vzmigrate/ssh/ from a test's shell.
 *
 *	sshprobe [option ...] [user@]host [command]
 *
 * Connects, prints what is known of the connection as "key: value" on stderr
 * (with --info), runs the command with our stdin, its output on our stdout and
 * its errors on our stderr. Exit: the command's status; 100 + n where E_* is
 * -n, the text on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/conn.h"
#include "ssh/sshconf.h"
#include "ssh/sshopts.h"
#include "ssh/target.h"

#define MORE_MAX 16

/* What the command line says. */
struct args {
	struct sshopts o;
	struct conn_params p;
	bool info, conf_only, ask, fds, idle;
	int more;	  /* further connections, at once in threads */
	int64_t write_ms; /* patience of a write */
	int64_t idle_ms;  /* only listen for so long */
	size_t chunk;	  /* bytes of a write */
};

struct more {
	pthread_t thread;
	const struct conn *first;
	const struct args *a;
	int rc;
	struct err e;
};

enum {
	OPT_SSH = 256,
	OPT_CONFIG,
	OPT_INFO,
	OPT_CONF,
	OPT_ASK,
	OPT_MORE,
	OPT_C2S,
	OPT_S2C,
	OPT_TIMEOUT,
	OPT_SILENCE,
	OPT_WRITE,
	OPT_FDS,
	OPT_IDLE,
	OPT_CHUNK
};

static const struct option longs[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "identity", required_argument, NULL, 'i' },
	{ "jump", required_argument, NULL, 'J' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "ssh", required_argument, NULL, OPT_SSH },
	{ "ssh-config", required_argument, NULL, OPT_CONFIG },
	{ "info", no_argument, NULL, OPT_INFO },
	{ "conf", no_argument, NULL, OPT_CONF },
	{ "ask", no_argument, NULL, OPT_ASK },
	{ "more", required_argument, NULL, OPT_MORE },
	{ "c2s", required_argument, NULL, OPT_C2S },
	{ "s2c", required_argument, NULL, OPT_S2C },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "silence", required_argument, NULL, OPT_SILENCE },
	{ "write-timeout", required_argument, NULL, OPT_WRITE },
	{ "fds", no_argument, NULL, OPT_FDS },
	{ "idle", required_argument, NULL, OPT_IDLE },
	{ "chunk", required_argument, NULL, OPT_CHUNK },
	{ NULL, 0, NULL, 0 },
};

static int
fail(const struct err *e)
{
	fprintf(stderr, "error %s: %s\n", err_name(e->code), e->text);
	return 100 - e->code;
}

static void
to_stderr(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s: %s\n", log_level_name(level), line);
}

static int
take_option(struct args *a, int opt, int *level, struct err *e)
{
	switch (opt) {
	case 'p':
		return sshopts_port(&a->o, optarg, e);
	case 'i':
		return sshopts_identity(&a->o, optarg, e);
	case 'J':
		return sshopts_jump(&a->o, optarg, e);
	case 'v':
		++*level;
		return 0;
	case OPT_SSH:
		return sshopts_parse(&a->o, optarg, e);
	case OPT_CONFIG:
		return sshopts_config(&a->o, optarg, e);
	case OPT_INFO:
		a->info = true;
		return 0;
	case OPT_CONF:
		a->conf_only = true;
		return 0;
	case OPT_ASK:
		a->ask = true;
		return 0;
	case OPT_MORE:
		a->more = atoi(optarg);
		return 0;
	case OPT_C2S:
		a->p.ciphers_c2s = optarg;
		return 0;
	case OPT_S2C:
		a->p.ciphers_s2c = optarg;
		return 0;
	case OPT_TIMEOUT:
		a->p.timeout_ms = atoll(optarg);
		return 0;
	case OPT_SILENCE:
		a->p.silence_ms = atoll(optarg);
		return 0;
	case OPT_WRITE:
		a->write_ms = atoll(optarg);
		return 0;
	case OPT_FDS:
		a->fds = true;
		return 0;
	case OPT_IDLE:
		a->idle = true;
		a->idle_ms = atoll(optarg);
		return 0;
	case OPT_CHUNK:
		a->chunk = (size_t)atoll(optarg);
		return 0;
	default:
		return err_set(e, E_USAGE, "bad option");
	}
}

static void
print_list(const char *name, const struct sshlist *l)
{
	for (size_t i = 0; i < l->n; i++) {
		printf("%s: %s\n", name, l->v[i]);
	}
}

static void
print_conf(const struct sshconf *c)
{
	printf("host: %s\nport: %d\nuser: %s\n", c->host, c->port, c->user);
	print_list("identity", &c->identities);
	print_list("certificate", &c->certificates);
	print_list("known_hosts", &c->user_known_hosts);
	print_list("global_known_hosts", &c->global_known_hosts);
	printf("ciphers: %s\nmacs: %s\nkex: %s\n",
	       c->ciphers ? c->ciphers : "-", c->macs ? c->macs : "-",
	       c->kex ? c->kex : "-");
	printf("strict: %d\nbatch: %d\nidentities_only: %d\n", (int)c->strict,
	       c->batch, c->identities_only);
	printf("proxy_jump: %s\nproxy_command: %s\n",
	       c->proxy_jump ? c->proxy_jump : "-",
	       c->proxy_command ? c->proxy_command : "-");
	printf("connect_timeout: %d\nby_ssh: %d\n", c->connect_timeout_s,
	       c->by_ssh);
}

static void
print_info(const struct conn *c)
{
	const struct conn_info *i = conn_get_info(c);

	fprintf(stderr,
		"cipher_c2s: %s\ncipher_s2c: %s\nmac_c2s: %s\nmac_s2c: %s\n"
		"kex: %s\nbanner: %s\nhostkey: %s %s\npeer: %s %d\n"
		"proxy: %d\nauth: %s\nsrv_ciphers_c2s: %s\n"
		"srv_ciphers_s2c: %s\nsrv_macs_c2s: %s\nsrv_kex: %s\n"
		"srv_hostkeys: %s\nstrict_kex: %d\n",
		i->cipher_c2s, i->cipher_s2c, i->mac_c2s, i->mac_s2c, i->kex,
		i->banner, i->hostkey_type, i->hostkey_sha256, i->peer,
		i->peer_port, i->proxy, i->auth, i->srv_ciphers_c2s,
		i->srv_ciphers_s2c, i->srv_macs_c2s, i->srv_kex,
		i->srv_hostkeys, i->strict_kex);
}

static int
put_stdout(const void *data, size_t len, void *arg, struct err *e)
{
	(void)arg;
	return io_write_full(1, data, len, "stdout", e);
}

static void
put_stderr(const void *data, size_t len, void *arg)
{
	(void)arg;
	io_write_full(2, data, len, "stderr", NULL);
}

/* Our stdin to the command. */
static int
feed(struct bytechan *ch, const struct args *a, struct err *e)
{
	cleanup(free_ptr) char *data = malloc(a->chunk);

	if (!data) {
		return err_nomem(e);
	}
	for (;;) {
		ssize_t n = io_read_full(0, data, a->chunk, "stdin", e);
		int rc;

		if (n < 0) {
			return (int)n;
		}
		if (n == 0) {
			return bytechan_send_eof(ch, e);
		}
		rc = bytechan_write(ch, data, (size_t)n, a->write_ms, e);
		if (rc < 0) {
			return rc;
		}
	}
}

static int
run(struct conn *c, const char *command, const struct args *a, struct err *e)
{
	struct bytechan *ch;
	int rc = conn_exec(c, command, &ch, e), status;
	int64_t until = io_deadline(a->idle_ms);
	char sig[16];

	if (rc < 0) {
		return rc;
	}
	ch->on_data = put_stdout;
	ch->on_stderr = put_stderr;
	rc = a->idle ? 0 : feed(ch, a, e);
	while (rc >= 0 && (!a->idle || io_left_ms(until) > 0)) {
		rc = bytechan_service(ch, a->idle ? 200 : 1000, e);
	}
	if (rc == E_CLOSED) {
		fprintf(stderr, "end: %s\n", e->text);
		rc = conn_exit_status(ch, &status, sig, e);
		if (rc == 0) {
			rc = *sig ? 99 : status;
		}
	}
	bytechan_free(ch);
	return rc;
}

static void *
open_more(void *arg)
{
	struct more *m = arg;
	struct conn *c;
	struct err e = { 0 };

	m->rc = conn_open_more(m->first, &m->a->p, &c, &m->e);
	if (m->rc == 0) {
		struct args a = *m->a;

		a.idle = true;
		a.idle_ms = 10000;
		m->rc = run(c, "echo more", &a, &e);
		if (m->rc < 0) {
			m->e = e;
		}
		conn_close(c);
	}
	return NULL;
}

static int
open_all_more(const struct conn *c, const struct args *a, struct err *e)
{
	struct more m[MORE_MAX] = { 0 };
	int n = a->more > MORE_MAX ? MORE_MAX : a->more, rc = 0;

	for (int i = 0; i < n; i++) {
		m[i].first = c;
		m[i].a = a;
		if (pthread_create(&m[i].thread, NULL, open_more, &m[i])) {
			return err_set(e, E_SYSTEM, "no thread");
		}
	}
	for (int i = 0; i < n; i++) {
		pthread_join(m[i].thread, NULL);
		if (m[i].rc != 0) {
			*e = m[i].e;
			rc = m[i].rc;
		}
	}
	return rc;
}

/* Descriptors as "n target flags" lines, without the one that lists. */
static int
print_fds(const char *when)
{
	int n = 0;

	for (int fd = 3; fd < 1024; fd++) {
		char path[64], to[256];
		int flags = fcntl(fd, F_GETFD);
		ssize_t len;

		if (flags < 0) {
			continue;
		}
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, to, sizeof(to) - 1);
		to[len < 0 ? 0 : len] = '\0';
		fprintf(stderr, "fd %s: %s cloexec=%d\n", when, to,
			flags & FD_CLOEXEC);
		n++;
	}
	fprintf(stderr, "fds %s: %d\n", when, n);
	return n;
}

static int
connect_and_run(struct args *a, const struct sshconf *conf, int argc,
		char **argv, struct err *e)
{
	struct conn *c;
	int rc, before = a->fds ? print_fds("before") : 0;

	a->p.conf = conf;
	a->p.prompt = a->ask ? &prompt_tty : &prompt_none;
	rc = conn_open(&a->p, &c, e);
	if (rc == 0) {
		if (a->info) {
			print_info(c);
		}
		if (a->fds) {
			print_fds("open");
		}
		if (a->more) {
			rc = open_all_more(c, a, e);
		}
		if (rc == 0 && optind + 1 < argc) {
			rc = run(c, argv[optind + 1], a, e);
		}
		conn_close(c);
	}
	if (a->fds && print_fds("after") != before && rc >= 0) {
		return err_set(e, E_STATE, "descriptors leaked");
	}
	return rc;
}

int
main(int argc, char **argv)
{
	struct args a = { .write_ms = 30000, .chunk = 262144 };
	struct target t = { 0 };
	struct sshconf conf = { 0 };
	struct err e = { 0 };
	int opt, level = LOGL_WARN, rc = 0;

	while (rc == 0 &&
	       (opt = getopt_long(argc, argv, "+p:i:J:v", longs, NULL)) != -1) {
		rc = take_option(&a, opt, &level, &e);
	}
	if (rc == 0 && optind >= argc) {
		rc = err_set(&e, E_USAGE, "no destination");
	}
	log_add_sink((enum log_level)(level > LOGL_TRACE ? LOGL_TRACE : level),
		     to_stderr, NULL);
	if (rc == 0) {
		rc = target_parse(argv[optind], &t, &e);
	}
	if (rc == 0) {
		rc = sshconf_resolve(&t, &a.o, &conf, &e);
	}
	if (rc == 0 && a.conf_only) {
		print_conf(&conf);
	} else if (rc == 0) {
		rc = connect_and_run(&a, &conf, argc, argv, &e);
	}
	sshconf_fini(&conf);
	sshopts_fini(&a.o);
	target_fini(&t);
	return rc < 0 ? fail(&e) : rc;
}
