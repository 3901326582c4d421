/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * relay: a long line, for kernels without netem.
 *
 *	relay LISTEN-PORT HOST PORT DELAY-MS
 *
 * Takes connections on 127.0.0.1:LISTEN-PORT, makes one to HOST:PORT (a
 * numeric address) for each, and passes on what comes either way DELAY-MS
 * later. Each way holds at most HELD bytes: past that it stops reading, as a
 * line that is full does. Prints "ready" when it listens. One thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HELD (16u << 20) /* 400 MB/s at 40 ms */
#define MARKS 8192
#define PAIRS 64

/* Bytes up to `upto` may leave at `due`. */
struct mark {
	unsigned long long upto;
	long long due;
};

/* One direction: a ring of bytes, and when they may leave. */
struct way {
	int from, to;
	unsigned char *ring;
	unsigned long long in, out; /* bytes ever read, written */
	struct mark mark[MARKS];
	unsigned first, marks;
	bool eof, shut;
};

struct pair {
	bool used;
	struct way way[2];
};

static struct pair pairs[PAIRS];
static long long delay_us;

static long long
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void
pair_end(struct pair *p)
{
	close(p->way[0].from);
	close(p->way[0].to);
	for (int i = 0; i < 2; i++) {
		free(p->way[i].ring);
		p->way[i].ring = NULL;
	}
	p->used = false;
}

static bool
can_read(const struct way *w)
{
	return !w->eof && w->in - w->out < HELD && w->marks < MARKS;
}

static bool
take(struct way *w, long long now)
{
	size_t at = w->in % HELD, room = HELD - (size_t)(w->in - w->out);
	ssize_t n;

	if (room > HELD - at) {
		room = HELD - at;
	}
	n = read(w->from, w->ring + at, room);
	if (n < 0) {
		return errno == EAGAIN || errno == EINTR;
	}
	if (n == 0) {
		w->eof = true;
	}
	w->in += (unsigned long long)n;
	w->mark[(w->first + w->marks) % MARKS] =
		(struct mark){ w->in, now + delay_us };
	w->marks++;
	return true;
}

/* How many bytes may leave now. */
static unsigned long long
due(const struct way *w, long long now)
{
	unsigned long long upto = w->out;

	for (unsigned i = 0; i < w->marks; i++) {
		const struct mark *m = &w->mark[(w->first + i) % MARKS];

		if (m->due > now) {
			break;
		}
		upto = m->upto;
	}
	return upto - w->out;
}

static bool
give(struct way *w, long long now)
{
	unsigned long long n = due(w, now);
	size_t at = w->out % HELD;
	ssize_t done;

	if (n > HELD - at) {
		n = HELD - at;
	}
	done = n ? write(w->to, w->ring + at, n) : 0;
	if (done < 0) {
		return errno == EAGAIN || errno == EINTR;
	}
	w->out += (unsigned long long)done;
	while (w->marks && w->mark[w->first].upto <= w->out &&
	       w->mark[w->first].due <= now) {
		w->first = (w->first + 1) % MARKS;
		w->marks--;
	}
	if (w->eof && !w->marks && !w->shut) {
		w->shut = true;
		shutdown(w->to, SHUT_WR);
	}
	return true;
}

static void
prepare(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static void
accept_one(int listener, const struct sockaddr_in *to)
{
	int in = accept(listener, NULL, NULL), out;
	struct pair *p = NULL;

	for (int i = 0; i < PAIRS && !p; i++) {
		p = pairs[i].used ? NULL : &pairs[i];
	}
	out = in < 0 ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!p || out < 0 ||
	    connect(out, (const struct sockaddr *)to, sizeof(*to)) < 0) {
		close(in);
		close(out);
		return;
	}
	memset(p, 0, sizeof(*p));
	p->way[0].from = p->way[1].to = in;
	p->way[0].to = p->way[1].from = out;
	p->way[0].ring = malloc(HELD);
	p->way[1].ring = malloc(HELD);
	p->used = true;
	prepare(in);
	prepare(out);
	if (!p->way[0].ring || !p->way[1].ring) {
		pair_end(p);
	}
}

/* Fill in what to wait for; returns when the next bytes are due. */
static long long
watch(struct pair *p, struct pollfd pf[2], long long now)
{
	long long next = now + 1000000;

	pf[0] = (struct pollfd){ p->way[0].from, 0, 0 };
	pf[1] = (struct pollfd){ p->way[0].to, 0, 0 };
	for (int i = 0; i < 2; i++) {
		struct way *w = &p->way[i];

		if (can_read(w)) {
			pf[i].events |= POLLIN;
		}
		if (!w->marks) {
			continue;
		}
		if (due(w, now)) {
			pf[1 - i].events |= POLLOUT;
		} else if (w->mark[w->first].due < next) {
			next = w->mark[w->first].due;
		}
	}
	return next;
}

static void
serve(struct pair *p, const struct pollfd pf[2], long long now)
{
	bool ok = true;

	for (int i = 0; i < 2 && ok; i++) {
		struct way *w = &p->way[i];

		if (can_read(w) && pf[i].revents) {
			ok = take(w, now);
		}
		if (ok && w->marks && w->mark[w->first].due <= now) {
			ok = give(w, now);
		}
	}
	if (!ok || (p->way[0].shut && p->way[1].shut)) {
		pair_end(p);
	}
}

static int
loop(int listener, const struct sockaddr_in *to)
{
	struct pollfd pf[1 + 2 * PAIRS];

	for (;;) {
		long long now = now_us(), next = now + 1000000;
		struct timespec wait;

		pf[0] = (struct pollfd){ listener, POLLIN, 0 };
		for (int i = 0; i < PAIRS; i++) {
			struct pollfd *q = pf + 1 + 2 * i;
			long long t;

			q[0].fd = q[1].fd = -1;
			q[0].revents = q[1].revents = 0;
			t = pairs[i].used ? watch(&pairs[i], q, now) : next;
			next = t < next ? t : next;
		}
		next = next > now ? next - now : 0;
		wait.tv_sec = next / 1000000;
		wait.tv_nsec = next % 1000000 * 1000;
		if (ppoll(pf, 1 + 2 * PAIRS, &wait, NULL) < 0 &&
		    errno != EINTR) {
			return 1;
		}
		now = now_us();
		for (int i = 0; i < PAIRS; i++) {
			if (pairs[i].used && pf[1 + 2 * i].fd >= 0) {
				serve(&pairs[i], pf + 1 + 2 * i, now);
			}
		}
		if (pf[0].revents & POLLIN) {
			accept_one(listener, to);
		}
	}
}

int
main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET },
			   to = { .sin_family = AF_INET };
	int on = 1, fd;

	if (argc != 5 || inet_pton(AF_INET, argv[2], &to.sin_addr) != 1) {
		fputs("usage: relay LISTEN-PORT HOST PORT DELAY-MS\n", stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	at.sin_port = htons((uint16_t)atoi(argv[1]));
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	delay_us = atoll(argv[4]) * 1000;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(fd, 32) < 0) {
		perror("relay");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	return loop(fd, &to);
}
