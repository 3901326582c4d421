/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bare: what libssh alone carries: the measure for the pump.
 *
 *	bare [-c CIPHERS] [-n STREAMS] [-i IDENTITY] HOST MEGABYTES
 *
 * Opens STREAMS sessions, runs "cat >/dev/null" in each and writes a buffer of
 * random bytes until MEGABYTES (of 10^6) have gone in all. No framing, no
 * hash, no file. The host must be known and a key must open it without
 * questions. Prints the seconds from the first connection to the last
 * channel's end.
 */
#include <libssh/libssh.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 262144
#define STREAMS_MAX 16

struct stream {
	pthread_t thread;
	long long bytes;
	int rc;
};

static const char *host, *ciphers, *identity;
static unsigned char block[BLOCK];

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int
tell(ssh_session s, const char *what)
{
	fprintf(stderr, "bare: %s: %s\n", what, ssh_get_error(s));
	return -1;
}

static int
connect_to(ssh_session s)
{
	int nodelay = 1;

	ssh_options_set(s, SSH_OPTIONS_HOST, host);
	ssh_options_set(s, SSH_OPTIONS_USER, "root");
	ssh_options_set(s, SSH_OPTIONS_NODELAY, &nodelay);
	if (identity) {
		ssh_options_set(s, SSH_OPTIONS_IDENTITY, identity);
	}
	if (ciphers &&
	    ssh_options_set(s, SSH_OPTIONS_CIPHERS_C_S, ciphers) != SSH_OK) {
		return tell(s, "ciphers");
	}
	if (ssh_connect(s) != SSH_OK) {
		return tell(s, "connect");
	}
	if (ssh_session_is_known_server(s) != SSH_KNOWN_HOSTS_OK) {
		return tell(s, "host key");
	}
	if (ssh_userauth_publickey_auto(s, NULL, NULL) != SSH_AUTH_SUCCESS) {
		return tell(s, "authentication");
	}
	return 0;
}

static int
pour(ssh_session s, long long bytes)
{
	ssh_channel c = ssh_channel_new(s);

	if (!c || ssh_channel_open_session(c) != SSH_OK ||
	    ssh_channel_request_exec(c, "cat >/dev/null") != SSH_OK) {
		return tell(s, "channel");
	}
	while (bytes > 0) {
		int n = ssh_channel_write(
			c, block, bytes < BLOCK ? (uint32_t)bytes : BLOCK);

		if (n <= 0) {
			return tell(s, "write");
		}
		bytes -= n;
	}
	ssh_channel_send_eof(c);
	/* Its end tells that all was read there. */
	while (!ssh_channel_is_eof(c) && !ssh_channel_is_closed(c)) {
		char drop[64];

		if (ssh_channel_read(c, drop, sizeof(drop), 0) < 0) {
			break;
		}
	}
	ssh_channel_free(c);
	return 0;
}

static void *
run(void *arg)
{
	struct stream *t = arg;
	ssh_session s = ssh_new();

	t->rc = s ? connect_to(s) : -1;
	if (t->rc == 0) {
		t->rc = pour(s, t->bytes);
	}
	if (s) {
		ssh_disconnect(s);
		ssh_free(s);
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	struct stream t[STREAMS_MAX] = { 0 };
	int n = 1, c, rc = 0;
	double from;

	while ((c = getopt(argc, argv, "c:n:i:")) != -1) {
		switch (c) {
		case 'c':
			ciphers = optarg;
			break;
		case 'n':
			n = atoi(optarg);
			break;
		case 'i':
			identity = optarg;
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != 2 || n < 1 || n > STREAMS_MAX) {
		fputs("usage: bare [-c CIPHERS] [-n STREAMS] [-i IDENTITY] "
		      "HOST MEGABYTES\n",
		      stderr);
		return 2;
	}
	host = argv[optind];
	if (ssh_init() != SSH_OK || getrandom(block, BLOCK, 0) != BLOCK) {
		return 1;
	}
	from = now();
	for (int i = 0; i < n; i++) {
		t[i].bytes = atoll(argv[optind + 1]) * 1000000 / n;
		t[i].rc = -1;
		if (pthread_create(&t[i].thread, NULL, run, &t[i]) != 0) {
			return 1;
		}
	}
	for (int i = 0; i < n; i++) {
		pthread_join(t[i].thread, NULL);
		rc |= t[i].rc;
	}
	printf("%.3f\n", now() - from);
	ssh_finalize();
	return rc ? 1 : 0;
}
