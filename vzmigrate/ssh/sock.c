/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sock: connects. State: the caller's struct sock, which owns descriptor and
 * child.
 */
#include "ssh/sock.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"

#define SLICE_MS 200 /* how often `stop` is looked at */
#define PROXY_GRACE_MS 2000

/* One attempt to open. */
struct attempt {
	const struct sshconf *c;
	int64_t timeout_ms;
	int64_t silence_ms;
	const int *stop;
};

static void
set_int(int fd, int level, int name, int value, const char *what)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)) < 0) {
		log_debug("cannot set %s: %s", what, strerror(errno));
	}
}

/* For TCP and for a proxy's socketpair. */
static void
limit_sends(int fd)
{
	struct timeval tv = { .tv_sec = SOCK_SEND_S };

	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0) {
		log_debug("cannot set SO_SNDTIMEO: %s", strerror(errno));
	}
}

static void
set_tcp_options(int fd, int64_t silence_ms)
{
	int64_t ms = silence_ms > SOCK_USER_TIMEOUT_MIN_MS
			     ? silence_ms
			     : SOCK_USER_TIMEOUT_MIN_MS;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
	set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
		ms > INT32_MAX ? INT32_MAX : (int)ms, "TCP_USER_TIMEOUT");
	limit_sends(fd);
}

static bool
stopped(const struct attempt *a)
{
	return a->stop && __atomic_load_n(a->stop, __ATOMIC_RELAXED);
}

/* Wait until connect() came to an end. 0 or an errno. */
static int
wait_connected(const struct attempt *a, int fd)
{
	int64_t deadline = io_deadline(a->timeout_ms);

	for (;;) {
		struct pollfd pf = { fd, POLLOUT, 0 };
		int left = io_left_ms(deadline), error = 0;
		socklen_t len = sizeof(error);
		int rc = poll(&pf, 1,
			      left < 0 || left > SLICE_MS ? SLICE_MS : left);

		if (stopped(a)) {
			return ECANCELED;
		}
		if (rc > 0) {
			if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) <
			    0) {
				return errno;
			}
			return error;
		}
		if (rc < 0 && errno != EINTR) {
			return errno;
		}
		if (io_left_ms(deadline) == 0) {
			return ETIMEDOUT;
		}
	}
}

/* BindAddress and BindInterface. */
static int
bind_local(const struct sshconf *c, int fd, int family, struct err *e)
{
	struct addrinfo hints = { .ai_family = family,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE };
	struct addrinfo *found = NULL;
	int rc;

	if (c->bind_interface &&
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, c->bind_interface,
		       (socklen_t)strlen(c->bind_interface)) < 0) {
		return err_sys(e, errno, "cannot bind to the interface %s",
			       c->bind_interface);
	}
	if (!c->bind_address) {
		return 0;
	}
	rc = getaddrinfo(c->bind_address, NULL, &hints, &found);
	if (rc != 0) {
		return err_set(e, E_CONNECT, "BindAddress %s: %s",
			       c->bind_address, gai_strerror(rc));
	}
	rc = bind(fd, found->ai_addr, found->ai_addrlen) < 0
		     ? err_sys(e, errno, "cannot bind to %s", c->bind_address)
		     : 0;
	freeaddrinfo(found);
	return rc;
}

static void
name_address(const struct sockaddr *sa, socklen_t len, char *peer,
	     size_t peer_len, int *port)
{
	char service[16];

	if (getnameinfo(sa, len, peer, (socklen_t)peer_len, service,
			sizeof(service),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
		snprintf(peer, peer_len, "?");
		*port = 0;
		return;
	}
	*port = (int)strtol(service, NULL, 10);
}

/* One address. 0 with s->fd, E_CONNECT, E_CANCELLED. */
static int
connect_one(const struct attempt *a, const struct sockaddr *sa, socklen_t len,
	    struct sock *s, struct err *e)
{
	cleanup(close_fd) int fd = -1;
	int error = 0;

	name_address(sa, len, s->peer, sizeof(s->peer), &s->peer_port);
	fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0);
	if (fd < 0) {
		return err_set(e, E_CONNECT, "%s: cannot make a socket: %s",
			       s->peer, strerror(errno));
	}
	set_tcp_options(fd, a->silence_ms);
	if (bind_local(a->c, fd, sa->sa_family, e) < 0) {
		return E_CONNECT;
	}
	log_debug("connecting to %s port %d", s->peer, s->peer_port);
	if (connect(fd, sa, len) < 0) {
		error = errno == EINPROGRESS ? wait_connected(a, fd) : errno;
	}
	if (error == ECANCELED) {
		return err_set(e, E_CANCELLED, "stopped while connecting");
	}
	if (error) {
		return err_set(e, E_CONNECT, "%s port %d: %s", s->peer,
			       s->peer_port, strerror(error));
	}
	memcpy(&s->addr, sa, len);
	s->addr_len = len;
	s->fd = steal_fd(&fd);
	return 0;
}

/* Keep what each address said, once: the first may be the one that matters. */
static void
note_failure(char *all, size_t len, const struct err *e)
{
	size_t n = strlen(all);

	if (n < len && !strstr(all, e->text)) {
		snprintf(all + n, len - n, "%s%.300s", n ? "; " : "", e->text);
	}
}

/* Where the host was given as an address, what it said begins with that. */
static int
cannot_connect(const char *host, const char *all, struct err *e)
{
	size_t n = strlen(host);
	bool told = strncasecmp(all, host, n) == 0 && all[n] == ' ';

	return err_set(e, E_CONNECT, "cannot connect to %s%s%s",
		       told ? "" : host, told ? "" : ": ", all);
}

static int
connect_name(const struct attempt *a, struct sock *s, struct err *e)
{
	struct addrinfo hints = { .ai_family = a->c->family,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char service[16], all[1024] = "";
	int rc, tries = a->c->connection_attempts;

	snprintf(service, sizeof(service), "%d", a->c->port);
	rc = getaddrinfo(a->c->host, service, &hints, &found);
	if (rc != 0) {
		return err_set(
			e, E_CONNECT, "cannot find the host %s: %s", a->c->host,
			rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	}
	rc = E_CONNECT;
	do {
		for (const struct addrinfo *ai = found; ai && rc == E_CONNECT;
		     ai = ai->ai_next) {
			struct err one = { 0 };

			rc = connect_one(a, ai->ai_addr, ai->ai_addrlen, s,
					 &one);
			if (rc == E_CANCELLED) {
				err_set(e, rc, "%s", one.text);
			} else if (rc < 0) {
				log_debug("%s", one.text);
				note_failure(all, sizeof(all), &one);
			}
		}
	} while (rc == E_CONNECT && --tries > 0);
	freeaddrinfo(found);
	return rc == E_CONNECT ? cannot_connect(a->c->host, all, e) : rc;
}

/* The jump host as ssh takes it: host:port is understood in a URI only, and a
 * bare IPv6 address only without. */
static char *
jump_uri(const char *jump, struct err *e)
{
	const char *at = strrchr(jump, '@');
	const char *colon = strchr(at ? at : jump, ':');
	bool plain = strncmp(jump, "ssh://", 6) == 0 ||
		     (colon && strchr(colon + 1, ':') && !strchr(jump, '['));

	return io_asprintf(e, "%s%s", plain ? "" : "ssh://", jump);
}

/* In a list "a,b,c" the last is the one that connects to our host; it is
 * itself reached through a,b. No question can be asked: the child has no
 * terminal (it is in a process group of its own). */
static int
jump_argv(const struct sshconf *c, struct sshlist *argv, struct err *e)
{
	const char *last = strrchr(c->proxy_jump, ',');
	cleanup(free_ptr) char *rest = NULL, *to = NULL, *uri = NULL;
	const char *fixed[] = { "ssh", "-oBatchMode=yes",
				"-oClearAllForwardings=yes",
				"-oControlMaster=no", NULL };
	int rc = 0;

	for (size_t i = 0; rc == 0 && fixed[i]; i++) {
		rc = sshlist_add(argv, fixed[i], e);
	}
	if (rc == 0 && c->config_arg) {
		rc = sshlist_add(argv, "-F", e);
		rc = rc < 0 ? rc : sshlist_add(argv, c->config_arg, e);
	}
	if (rc == 0 && last) {
		rest = strndup(c->proxy_jump, (size_t)(last - c->proxy_jump));
		rc = rest ? sshlist_add(argv, "-J", e) : err_nomem(e);
		rc = rc < 0 ? rc : sshlist_add(argv, rest, e);
	}
	to = io_asprintf(e, "[%s]:%d", c->host, c->port);
	last = last ? last + 1 : c->proxy_jump;
	uri = jump_uri(last, e);
	if (!to || !uri) {
		return E_NOMEM;
	}
	rc = rc < 0 ? rc : sshlist_add(argv, "-W", e);
	rc = rc < 0 ? rc : sshlist_add(argv, to, e);
	rc = rc < 0 ? rc : sshlist_add(argv, "--", e);
	return rc < 0 ? rc : sshlist_add(argv, uri, e);
}

static int
spawn_proxy(const struct sshconf *c, struct sock *s, int theirs, struct err *e)
{
	struct sshlist a = { NULL, 0 };
	cleanup(free_ptr) const char **argv = NULL;
	bool shell = c->proxy_command != NULL;
	int rc = shell ? sshlist_add(&a, c->proxy_command, e)
		       : jump_argv(c, &a, e);

	if (rc == 0) {
		argv = calloc(a.n + 1, sizeof(*argv));
		rc = argv ? 0 : err_nomem(e);
	}
	if (rc == 0) {
		for (size_t i = 0; i < a.n; i++) {
			argv[i] = a.v[i];
		}
		log_debug("connecting through %s%s",
			  shell ? "ProxyCommand " : "ProxyJump ",
			  shell ? c->proxy_command : c->proxy_jump);
		rc = child_spawn(&s->proxy, argv, theirs, -1, shell, e);
	}
	sshlist_fini(&a);
	return rc;
}

static int
open_proxy(const struct attempt *a, struct sock *s, struct err *e)
{
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		return err_sys(e, errno, "cannot make a socketpair");
	}
	limit_sends(pair[0]);
	rc = spawn_proxy(a->c, s, pair[1], e);
	close(pair[1]);
	if (rc < 0) {
		close(pair[0]);
		return err_wrap(e, "cannot start the proxy");
	}
	s->fd = pair[0];
	return 0;
}

static void
init(struct sock *s)
{
	memset(s, 0, sizeof(*s));
	s->fd = -1;
	s->proxy = (struct child){ -1, -1 };
}

int
sock_open(const struct sshconf *c, int64_t timeout_ms, int64_t silence_ms,
	  const int *stop, struct sock *s, struct err *e)
{
	struct attempt a = { c, timeout_ms, silence_ms, stop };

	init(s);
	return c->proxy_command || c->proxy_jump ? open_proxy(&a, s, e)
						 : connect_name(&a, s, e);
}

int
sock_open_like(const struct sshconf *c, const struct sock *like,
	       int64_t timeout_ms, int64_t silence_ms, const int *stop,
	       struct sock *s, struct err *e)
{
	struct attempt a = { c, timeout_ms, silence_ms, stop };

	init(s);
	return like->addr_len == 0
		       ? open_proxy(&a, s, e)
		       : connect_one(&a, (const struct sockaddr *)&like->addr,
				     like->addr_len, s, e);
}

void
sock_close(struct sock *s)
{
	close_fd(&s->fd);
	s->fd = -1;
	child_end(&s->proxy, PROXY_GRACE_MS);
}
