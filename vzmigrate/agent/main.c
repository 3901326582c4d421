/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzmigrate-agent: the destination's process. sshd starts it; it speaks
 * frames on what were its stdin and stdout, and has no SSH code.
 *
 * It serves one connection and ends with it. What must survive is on disk
 * (migrate/dst.h); the next agent of the session goes on from there.
 *
 * Where the client says JOIN instead of HELLO, it was started for a data
 * stream of another agent's connection: it hands its descriptors to that one
 * and only waits, since sshd wants a command that lives.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "migrate/dst.h"
#include "migrate/statedir.h"
#include "wire/frame.h"
#include "xfer/server.h"

#define ALLOW_ROOTS_MAX 64

/* What the callbacks need. */
struct agent {
	struct server *server; /* since HELLO, until server_run returns */
	struct dst *dst;
	int stderr_sink; /* until frames carry the log */
	int frame_sink;
	int in, out; /* the stream */
};

static const char usage_text[] =
	"usage: vzmigrate-agent [--allow-root=DIR ...]\n"
	"\n"
	"The destination's half of vzmigrate(8). It is started through ssh by\n"
	"vzmigrate on the source host and speaks its protocol on standard\n"
	"input and output; there is no use in starting it by hand.\n"
	"\n"
	"  --allow-root=DIR  put containers below DIR only (may be repeated);\n"
	"                    for a forced command in authorized_keys\n"
	"  --version         print the version\n"
	"  --help            print this text\n"
	"\n"
	"State is kept in /var/lib/vzmigrate, or in $VZMIGRATE_STATE_DIR.\n";

/* ---- log ---- */

static void
to_stderr(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	fprintf(stderr, "vzmigrate-agent: %s: %s\n", log_level_name(level),
		line);
}

static void
to_frames(enum log_level level, const char *line, void *arg)
{
	server_log(((struct agent *)arg)->server, level, line);
}

/* ---- what the server calls ---- */

static void
set_receiver(void *arg, struct receiver *r)
{
	struct agent *a = arg;

	if (a->server) {
		server_set_receiver(a->server, r);
	}
}

static const struct digest_key *
key(void *arg)
{
	return server_key(((struct agent *)arg)->server);
}

static int
on_hello(struct server *s, const struct msg_hello *h, struct msg_hello_reply *r,
	 void *arg, struct err *e)
{
	struct agent *a = arg;

	(void)h;
	a->server = s;
	dst_clean_old();
	log_remove_sink(a->stderr_sink);
	a->stderr_sink = -1;
	a->frame_sink = log_add_sink(LOGL_DEBUG, to_frames, a);
	return dst_hello(a->dst, r, e);
}

static int
on_request(struct server *s, enum msg_method method, const uint8_t *body,
	   size_t len, struct buf *reply, void *arg, struct err *e)
{
	(void)s;
	return dst_request(((struct agent *)arg)->dst, method, body, len, reply,
			   e);
}

static int
join_dir(struct server *s, void *arg, struct err *e)
{
	(void)s;
	(void)arg;
	return statedir_open("join", e);
}

/* The other agent closes `sock` when the stream is over, or dies. */
static int
join(uint32_t request, const struct msg_join *m, void *arg, struct err *e)
{
	struct agent *a = arg;
	cleanup(close_fd) int dir = join_dir(NULL, NULL, e);
	cleanup(close_fd) int sock = -1;
	struct pollfd pf = { .events = POLLIN };

	if (dir < 0) {
		return dir;
	}
	sock = streamsock_hand_over(dir, request, m, a->in, a->out, e);
	if (sock < 0) {
		return sock;
	}
	/* The stream must not look alive for our sake. */
	close(a->in);
	close(a->out);
	pf.fd = sock;
	while (poll(&pf, 1, -1) < 0 && errno == EINTR) {
	}
	return 0;
}

/* ---- start ---- */

/* A closed standard descriptor would be taken by the next open, and get what
 * is printed by mistake. */
static int
fill_standard_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
		if (fd < 0) {
			return -1;
		}
	} while (fd <= 2);
	close(fd);
	return 0;
}

/* Frames keep their descriptors to themselves: whatever prints to stdout, in
 * here or in a child, goes to stderr. */
static int
move_stream(int *in, int *out)
{
	int null;

	if (fill_standard_fds() < 0) {
		return -1;
	}
	*in = fcntl(0, F_DUPFD_CLOEXEC, 3);
	*out = fcntl(1, F_DUPFD_CLOEXEC, 3);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (*in < 0 || *out < 0 || null < 0 || dup2(null, 0) < 0 ||
	    dup2(2, 1) < 0) {
		return -1;
	}
	close(null);
	return 0;
}

/* The link's end is seen as an end of file; an order that is being carried
 * out is finished without it. */
static void
set_process(void)
{
	signal(SIGPIPE, SIG_IGN);
	/* Under `ulimit -f` a write fails, as on a full disk. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	umask(022);
	if (chdir("/") < 0) {
		log_debug("chdir /: %s", strerror(errno));
	}
}

static int
serve(struct agent *a, int in, int out, const struct dst_opts *o, struct err *e)
{
	static const struct server_ops ops = { .request = on_request,
					       .hello = on_hello,
					       .join_dir = join_dir,
					       .join = join };
	int rc = dst_new(o, &a->dst, e);

	if (rc < 0) {
		return rc;
	}
	a->in = in;
	a->out = out;
	rc = server_run(in, out, FRAME_CAP_ZSTD | FRAME_CAP_STREAMS, &ops, a,
			e);
	log_remove_sink(a->frame_sink);
	a->frame_sink = -1;
	a->server = NULL;
	if (rc < 0) {
		dst_link_lost(a->dst, e->text);
	}
	dst_free(a->dst);
	return rc;
}

static int
run(const char *const *roots, size_t nroots, int in, int out)
{
	struct agent a = { .frame_sink = -1 };
	struct err e = { 0 };
	const struct dst_opts o = { .allow_roots = roots,
				    .nallow_roots = nroots,
				    .set_receiver = set_receiver,
				    .key = key,
				    .arg = &a };

	a.stderr_sink = log_add_sink(LOGL_WARN, to_stderr, NULL);
	set_process();
	if (serve(&a, in, out, &o, &e) < 0) {
		fprintf(stderr, "vzmigrate-agent: %s\n", e.text);
		return 1;
	}
	return 0;
}

static int
bad_usage(const char *what)
{
	fprintf(stderr,
		"vzmigrate-agent: %s; `vzmigrate-agent --help` tells more\n",
		what);
	return 1;
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "allow-root", required_argument, NULL, 'a' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *roots[ALLOW_ROOTS_MAX];
	size_t nroots = 0;
	int c, in, out;

	/* getopt_long prints its own line about what it does not know. */
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'a':
			if (optarg[0] != '/') {
				return bad_usage("--allow-root needs an "
						 "absolute path");
			}
			if (nroots == ALLOW_ROOTS_MAX) {
				return bad_usage("too many --allow-root");
			}
			roots[nroots++] = optarg;
			break;
		case 'V':
			puts("vzmigrate-agent " PACKAGE_VERSION);
			return 0;
		case 'h':
			fputs(usage_text, stdout);
			return 0;
		default:
			return bad_usage("wrong option");
		}
	}
	if (optind < argc) {
		return bad_usage("it takes no arguments");
	}
	if (move_stream(&in, &out) < 0) {
		fprintf(stderr,
			"vzmigrate-agent: cannot set up its "
			"descriptors: %s\n",
			strerror(errno));
		return 1;
	}
	return run(roots, nroots, in, out);
}
