/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * streamsock: one thread accepts; each visitor sends one message with two
 * descriptors and gets one byte back. Who may come near is decided three
 * times: by the directory's mode, by the peer's uid, by the token, which `fn`
 * checks.
 */
#include "xfer/streamsock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/log.h"

#define WAIT_S 5      /* for the other side's one message */
#define CLEAN_MAX 256 /* names looked at when cleaning */
#define NAME_LEN (2 * MSG_ID_LEN + 1)
#define MESSAGE_LEN (4 + 4 + MSG_ID_LEN + MSG_TOKEN_LEN)

struct streamsock {
	int dirfd; /* borrowed */
	int fd;	   /* listens; owned */
	int endfd; /* eventfd: the thread is to end; owned */
	streamsock_fn *fn;
	void *arg;
	pthread_t thread;
	uint8_t id[MSG_ID_LEN];
	char name[NAME_LEN];
};

static void
name_of(const uint8_t id[MSG_ID_LEN], char name[NAME_LEN])
{
	for (int i = 0; i < MSG_ID_LEN; i++) {
		snprintf(name + 2 * i, 3, "%02x", id[i]);
	}
}

/* A path of any length is too long for a socket's address; this one is not. */
static void
address(int dirfd, const char *name, struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(a->sun_path, sizeof(a->sun_path), "/proc/self/fd/%d/%s", dirfd,
		 name);
}

static int
unix_socket(struct err *e)
{
	struct timeval t = { .tv_sec = WAIT_S };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0) {
		err_sys(e, errno, "cannot make a socket");
		close_fd(&fd);
		return e ? e->code : E_SYSTEM;
	}
	return fd;
}

/* An agent that was killed leaves its socket; nobody answers there. */
static void
clean(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	int n = 0;

	if (!d) {
		close_fd(&fd);
		return;
	}
	while ((de = readdir(d)) && n++ < CLEAN_MAX) {
		cleanup(close_fd) int s = -1;
		struct sockaddr_un a;

		if (strlen(de->d_name) != NAME_LEN - 1) {
			continue;
		}
		s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		address(dirfd, de->d_name, &a);
		if (s >= 0 && connect(s, (void *)&a, sizeof(a)) < 0 &&
		    errno == ECONNREFUSED) {
			unlinkat(dirfd, de->d_name, 0);
		}
	}
	closedir(d);
}

/* ---- the one who listens ---- */

static int
check_uid(int sock, struct err *e)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &c, &len) < 0) {
		return err_sys(e, errno, "who is it");
	}
	return c.uid == geteuid() ? 0
				  : err_set(e, E_DENIED, "uid %u wants to join",
					    (unsigned)c.uid);
}

static void
parse(const uint8_t m[MESSAGE_LEN], struct streamsock_peer *p)
{
	struct dec d;

	dec_init(&d, m, MESSAGE_LEN);
	p->request = dec_u32(&d);
	p->m.number = dec_u32(&d);
	memcpy(p->m.id, dec_raw(&d, MSG_ID_LEN), MSG_ID_LEN);
	memcpy(p->m.token, dec_raw(&d, MSG_TOKEN_LEN), MSG_TOKEN_LEN);
}

/* Room for more descriptors than are wanted, so that none is cut off
 * unseen. */
#define FDS_MAX 8

/* Keep two, in order; close everything else. */
static int
take_fds(struct msghdr *h, struct streamsock_peer *p)
{
	int n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		size_t k = c->cmsg_level == SOL_SOCKET &&
					   c->cmsg_type == SCM_RIGHTS
				   ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
				   : 0;

		for (size_t i = 0; i < k; i++, n++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (n == 0) {
				p->in = fd;
			} else if (n == 1) {
				p->out = fd;
			} else {
				close(fd);
			}
		}
	}
	return n;
}

static int
receive(int sock, struct streamsock_peer *p, struct err *e)
{
	uint8_t m[MESSAGE_LEN + 1];
	union {
		char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec v = { m, sizeof(m) };
	struct msghdr h = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC);
	int fds = n < 0 ? 0 : take_fds(&h, p);

	if (n != MESSAGE_LEN || fds != 2 ||
	    (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		return err_set(e, E_PROTOCOL, "a malformed message");
	}
	parse(m, p);
	explicit_bzero(m, sizeof(m));
	return 0;
}

/* `sock` stays the caller's: what is given away is a copy of it. */
static int
serve_visitor(struct streamsock *s, int sock, struct streamsock_peer *p,
	      struct err *e)
{
	struct timeval t = { .tv_sec = WAIT_S };
	int rc;

	if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) < 0) {
		return err_sys(e, errno, "cannot set a time-out");
	}
	rc = check_uid(sock, e);
	rc = rc < 0 ? rc : receive(sock, p, e);
	if (rc < 0) {
		return rc;
	}
	if (memcmp(p->m.id, s->id, MSG_ID_LEN) != 0) {
		return err_set(e, E_DENIED, "not this agent's stream");
	}
	p->sock = fcntl(sock, F_DUPFD_CLOEXEC, 3);
	if (p->sock < 0) {
		return err_sys(e, errno, "cannot copy a descriptor");
	}
	return s->fn(p, s->arg, e);
}

static void
visitor(struct streamsock *s, int sock)
{
	struct streamsock_peer p = { .in = -1, .out = -1, .sock = -1 };
	struct err e = { 0 };
	char ok = 1;

	if (serve_visitor(s, sock, &p, &e) < 0) {
		log_warn("a data stream was refused: %s", e.text);
		close_fd(&p.in);
		close_fd(&p.out);
		close_fd(&p.sock);
	} else if (send(sock, &ok, 1, MSG_NOSIGNAL) < 0) {
		log_debug("a joining agent is gone");
	}
	explicit_bzero(&p.m, sizeof(p.m));
	close(sock);
}

static void *
listen_thread(void *arg)
{
	struct streamsock *s = arg;

	for (;;) {
		struct pollfd pf[2] = { { s->fd, POLLIN, 0 },
					{ s->endfd, POLLIN, 0 } };
		int sock;

		if (poll(pf, 2, -1) < 0 && errno != EINTR) {
			break;
		}
		if (pf[1].revents) {
			break;
		}
		if (!pf[0].revents) {
			continue;
		}
		sock = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
		if (sock >= 0) {
			visitor(s, sock);
		} else if (errno == EMFILE || errno == ENFILE) {
			/* He goes on waiting at the door. */
			poll(&pf[1], 1, 100);
		}
	}
	return NULL;
}

static int
begin(struct streamsock *s, struct err *e)
{
	struct sockaddr_un a;
	int rc = digest_random(s->id, sizeof(s->id), e);

	if (rc < 0) {
		return rc;
	}
	name_of(s->id, s->name);
	address(s->dirfd, s->name, &a);
	s->fd = unix_socket(e);
	if (s->fd < 0) {
		return s->fd;
	}
	if (bind(s->fd, (void *)&a, sizeof(a)) < 0) {
		rc = err_sys(e, errno, "cannot bind a socket");
		s->name[0] = '\0';
		return rc;
	}
	s->endfd = eventfd(0, EFD_CLOEXEC);
	if (listen(s->fd, 16) < 0 || s->endfd < 0) {
		return err_sys(e, errno, "cannot listen");
	}
	rc = pthread_create(&s->thread, NULL, listen_thread, s);
	return rc == 0 ? 0 : err_sys(e, rc, "cannot start a thread");
}

static void
release(struct streamsock *s)
{
	if (s->name[0]) {
		unlinkat(s->dirfd, s->name, 0);
	}
	close_fd(&s->fd);
	close_fd(&s->endfd);
	free(s);
}

int
streamsock_open(int dirfd, streamsock_fn *fn, void *arg,
		struct streamsock **out, struct err *e)
{
	struct streamsock *s = calloc(1, sizeof(*s));
	int rc;

	if (!s) {
		return err_nomem(e);
	}
	s->dirfd = dirfd;
	s->fd = s->endfd = -1;
	s->fn = fn;
	s->arg = arg;
	clean(dirfd);
	rc = begin(s, e);
	if (rc < 0) {
		release(s);
		return rc;
	}
	*out = s;
	return 0;
}

const uint8_t *
streamsock_id(const struct streamsock *s)
{
	return s->id;
}

void
streamsock_close(struct streamsock *s)
{
	uint64_t one = 1;

	if (!s) {
		return;
	}
	if (write(s->endfd, &one, sizeof(one)) == sizeof(one)) {
		pthread_join(s->thread, NULL);
	}
	release(s);
}

/* ---- the one who comes ---- */

/* From the other's word on the stream is not ours; without it we tell the
 * client that it was refused. */

static int
send_fds(int sock, const uint8_t m[MESSAGE_LEN], const int fds[2])
{
	union {
		char room[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec v = { (void *)m, MESSAGE_LEN };
	struct msghdr h = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
	return sendmsg(sock, &h, MSG_NOSIGNAL) == MESSAGE_LEN ? 0 : -1;
}

int
streamsock_hand_over(int dirfd, uint32_t request, const struct msg_join *m,
		     int in, int out, struct err *e)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(MESSAGE_LEN);
	cleanup(close_fd) int sock = unix_socket(e);
	const int fds[2] = { in, out };
	struct sockaddr_un a;
	char name[NAME_LEN], word;
	struct enc n;

	if (sock < 0) {
		return sock;
	}
	enc_init(&n, &b, e);
	enc_u32(&n, request);
	msg_put_join(&n, m);
	if (n.rc < 0) {
		return n.rc;
	}
	name_of(m->id, name);
	address(dirfd, name, &a);
	if (connect(sock, (void *)&a, sizeof(a)) < 0) {
		return err_set(e, E_DENIED,
			       "there is no agent here that waits for this "
			       "stream");
	}
	if (check_uid(sock, e) < 0) {
		return e ? e->code : E_DENIED;
	}
	if (send_fds(sock, b.data, fds) < 0 || recv(sock, &word, 1, 0) != 1) {
		return err_set(e, E_DENIED,
			       "the agent here does not take this stream");
	}
	return steal_fd(&sock);
}
