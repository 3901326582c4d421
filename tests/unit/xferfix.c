/* SPDX-License-Identifier: GPL-2.0-or-later */
/* xferfix: see the header. */
#include "xferfix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytechan.h"
#include "base/io.h"
#include "fs/remove.h"
#include "xfer/streamsock.h"

struct xferfix_dirs *
xferfix_dirs_new(void)
{
	struct xferfix_dirs *d = calloc(1, sizeof(*d));
	char p[128];

	snprintf(d->top, sizeof(d->top), "/tmp/vzm-xfer-XXXXXX");
	assert_non_null(mkdtemp(d->top));
	snprintf(p, sizeof(p), "%s/src", d->top);
	assert_int_equal(mkdir(p, 0755), 0);
	d->src = open(p, O_RDONLY | O_DIRECTORY);
	snprintf(p, sizeof(p), "%s/dst", d->top);
	assert_int_equal(mkdir(p, 0700), 0);
	d->dst = open(p, O_RDONLY | O_DIRECTORY);
	return d;
}

int
xferfix_dirs_free(void **state)
{
	struct xferfix_dirs *d = *state;
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);

	close(d->src);
	close(d->dst);
	assert_int_equal(remove_tree(tmp, strrchr(d->top, '/') + 1, NULL, NULL),
			 0);
	close(tmp);
	free(d);
	return 0;
}

static int
on_hello(struct server *s, const struct msg_hello *h, struct msg_hello_reply *r,
	 void *arg, struct err *e)
{
	(void)h;
	(void)e;
	((struct xferfix *)arg)->server = s;
	r->version = (char *)"test";
	r->boot_id = (char *)"boot";
	r->hostname = (char *)"b";
	r->kernel = (char *)"6";
	r->machine = (char *)"m";
	return 0;
}

static int
pass_begin(struct xferfix *x, struct server *s, const struct msg_pass *m,
	   struct err *e)
{
	struct recv_opts o = { .policy = x->policy, .track = !m->final };
	int rc = m->number == 1
			 ? recv_new(x->rootfd, server_key(s), &o, &x->r, e)
			 : recv_update(x->r, e);

	if (rc == 0) {
		server_set_receiver(s, x->r);
	}
	return rc;
}

static int
pass_end(struct xferfix *x, struct server *s, const struct msg_pass *m,
	 struct buf *reply, struct err *e)
{
	struct msg_proof p = { 0 };
	struct enc n;
	int rc;

	rc = recv_finish(x->r, e);
	if (rc == 0 && x->before_proof) {
		x->before_proof(x->rootfd);
	}
	if (rc == 0 && m->final) {
		rc = recv_prove(x->r, &p, e);
	}
	server_set_receiver(s, NULL);
	if (rc == 0) {
		enc_init(&n, reply, e);
		msg_put_proof(&n, &p);
		rc = n.rc;
	}
	return rc;
}

static int
on_request(struct server *s, enum msg_method method, const uint8_t *body,
	   size_t len, struct buf *reply, void *arg, struct err *e)
{
	struct xferfix *x = arg;
	struct msg_proof_list pl;
	struct msg_pass m;
	int rc;

	switch (method) {
	case MSG_PASS_BEGIN:
		rc = msg_get_pass(body, len, &m, e);
		return rc < 0 ? rc : pass_begin(x, s, &m, e);
	case MSG_PASS_END:
		rc = msg_get_pass(body, len, &m, e);
		return rc < 0 ? rc : pass_end(x, s, &m, reply, e);
	case MSG_SYNC:
		rc = recv_sync(x->r, e);
		return rc < 0 ? rc : recv_read_back(x->r, e);
	case MSG_PROOF_LIST:
		rc = msg_get_proof_list(body, len, &pl, e);
		return rc < 0 ? rc : recv_proof_list(x->r, pl.from, reply, e);
	default:
		return err_set(e, E_UNSUPPORTED, "method %d", method);
	}
}

static int
on_join_dir(struct server *s, void *arg, struct err *e)
{
	struct xferfix *x = arg;
	int fd = fcntl(x->join_dir, F_DUPFD_CLOEXEC, 3);

	(void)s;
	return fd < 0 ? err_sys(e, errno, "dup") : fd;
}

static void *
agent_thread(void *arg)
{
	static const struct server_ops ops = { .request = on_request,
					       .hello = on_hello,
					       .join_dir = on_join_dir };
	struct xferfix *x = arg;

	x->served = server_run(x->fds[1], x->fds[1],
			       x->agent_caps | FRAME_CAP_STREAMS, &ops, x,
			       &x->served_err);
	recv_free(x->r);
	x->r = NULL;
	close(x->fds[1]);
	return NULL;
}

/* ---- the agents of data streams ---- */

struct helper {
	struct xferfix *x;
	int fd;
};

static int
on_join(uint32_t request, const struct msg_join *m, void *arg, struct err *e)
{
	struct helper *h = arg;
	int sock = streamsock_hand_over(h->x->join_dir, request, m, h->fd,
					h->fd, e);
	struct pollfd pf = { sock, POLLIN, 0 };

	if (sock < 0) {
		return sock;
	}
	close(h->fd);
	h->fd = -1;
	poll(&pf, 1, -1);
	close(sock);
	return 0;
}

static void *
helper_thread(void *arg)
{
	static const struct server_ops ops = { .join = on_join };
	struct helper *h = arg;
	struct err e = { 0 };

	server_run(h->fd, h->fd, FRAME_CAP_STREAMS, &ops, h, &e);
	if (h->fd >= 0) {
		close(h->fd);
	}
	free(h);
	return NULL;
}

static int
dial_more(void *arg, const int *stop, struct bytechan **c, struct err *e)
{
	struct xferfix *x = arg;
	struct helper *h;
	int fds[2];

	(void)stop;
	if (x->dialled == XFERFIX_AGENTS_MAX) {
		return err_set(e, E_LIMIT, "too many");
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
		return err_sys(e, errno, "socketpair");
	}
	h = malloc(sizeof(*h));
	*h = (struct helper){ x, fds[1] };
	if (pthread_create(&x->agents[x->dialled], NULL, helper_thread, h)) {
		abort();
	}
	x->dialled++;
	*c = bytechan_fds(fds[0], fds[0], e);
	if (x->wrap_more) {
		*c = x->wrap_more(*c, x->dialled);
	}
	return 0;
}

static void
dialled(void *arg, struct bytechan *c)
{
	struct xferfix *x = arg;

	(void)c;
	if (x->on_dialled) {
		x->on_dialled();
	}
}

int
xferfix_streams(struct xferfix *x, struct err *e)
{
	struct send_streams_opts o = { .count = x->streams,
				       .dial = dial_more,
				       .dialled = dialled,
				       .arg = x,
				       .link = { .greeting_ms = 10000,
						 .keepalive_ms =
							 x->keepalive_ms,
						 .host = "b" } };
	int64_t deadline = io_deadline(20000);

	strcpy(x->join_path, "/tmp/vzm-join-XXXXXX");
	if (!mkdtemp(x->join_path)) {
		return err_sys(e, errno, "mkdtemp");
	}
	x->join_dir = open(x->join_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	x->more = send_streams_new(x->l, &o, e);
	if (!x->more) {
		return e->code;
	}
	send_streams_begin(x->more, 0, 0);
	while (send_streams_now(x->more) < x->streams) {
		if (io_left_ms(deadline) == 0) {
			return err_set(e, E_TIMEOUT, "%u streams only",
				       send_streams_now(x->more));
		}
		poll(NULL, 0, 2);
	}
	return 0;
}

int
xferfix_open(struct xferfix *x, int rootfd, uint32_t keepalive_ms,
	     struct err *e)
{
	struct link_opts o = { .greeting_ms = 10000,
			       .keepalive_ms = keepalive_ms,
			       .host = "b",
			       .caps = x->caps,
			       .limit = x->limit };
	struct msg_hello_reply hello;
	struct bytechan *c;
	int rc;

	x->rootfd = rootfd;
	x->keepalive_ms = keepalive_ms;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, x->fds) < 0 ||
	    digest_key_new(&x->key, e) < 0) {
		return E_SYSTEM;
	}
	if (pthread_create(&x->thread, NULL, agent_thread, x) != 0) {
		return E_SYSTEM;
	}
	c = bytechan_fds(x->fds[0], x->fds[0], e);
	if (c && x->wrap) {
		c = x->wrap(c);
	}
	rc = link_open(c, &o, &x->key, &x->l, &hello, e);
	if (rc == 0) {
		msg_hello_reply_fini(&hello);
	}
	return rc;
}

static int
call(struct xferfix *x, enum msg_method method, uint32_t number, bool final,
     struct buf *reply, struct err *e)
{
	struct msg_pass m = { number, final };
	struct buf body;
	struct enc n;
	int rc;

	buf_init(&body, 1 << 16);
	enc_init(&n, &body, e);
	msg_put_pass(&n, &m);
	rc = n.rc < 0 ? n.rc
		      : link_call(x->l, method, body.data, body.len, reply,
				  60000, e);
	buf_fini(&body);
	return rc;
}

int
xferfix_begin_pass(struct xferfix *x, uint32_t number, bool final,
		   struct err *e)
{
	return call(x, MSG_PASS_BEGIN, number, final, NULL, e);
}

int
xferfix_end_pass(struct xferfix *x, uint32_t number, bool final,
		 struct msg_proof *p, struct err *e)
{
	struct buf reply;
	int rc;

	buf_init(&reply, 1 << 16);
	rc = call(x, MSG_PASS_END, number, final, &reply, e);
	if (rc == 0) {
		rc = msg_get_proof(reply.data, reply.len, p, e);
	}
	buf_fini(&reply);
	return rc;
}

int
xferfix_begin(struct xferfix *x, struct err *e)
{
	return xferfix_begin_pass(x, 1, true, e);
}

int
xferfix_end(struct xferfix *x, struct msg_proof *p, struct err *e)
{
	return xferfix_end_pass(x, 1, true, p, e);
}

int
xferfix_sync(struct xferfix *x, struct err *e)
{
	return link_call(x->l, MSG_SYNC, NULL, 0, NULL, 60000, e);
}

void
xferfix_close(struct xferfix *x)
{
	send_streams_free(x->more);
	x->more = NULL;
	link_close(x->l);
	x->l = NULL;
	if (!x->joined) {
		pthread_join(x->thread, NULL);
	}
	for (unsigned i = 0; i < x->dialled; i++) {
		pthread_join(x->agents[i], NULL);
	}
	if (*x->join_path) {
		close(x->join_dir);
		/* Empty: nobody left a socket there. */
		x->left_over = rmdir(x->join_path) < 0;
	}
}
