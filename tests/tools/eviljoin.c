/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * eviljoin CASE AGENT [ARG ...]
 *
 * Plays clients that want to add a data stream to a connection: starts agents
 * by that command, one for each stream, and breaks a rule of PROTOCOL.md,
 * Streams. CASE says which ("list" prints them). SINK frames serve as content,
 * since they need no pass.
 *
 * Prints what came of it, a line each:
 *
 *	REQUEST: ok | ERROR-NAME TEXT | gone
 *	unharmed: ok		afterwards a stream of the first connection
 *				carries what it should,
 *	descriptors: N more	and its agent holds so many more than before
 *	end: STATUS ...		of all agents, in the order of their start
 *
 * Exit status 0, or 2 for trouble of our own; the test looks at the lines.
 */
#include "config.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "wire/frame.h"
#include "wire/msg.h"
#include "cases.h"

#define WAIT_MS 20000
#define AGENTS_MAX 64
#define SINKS 6
/* Descriptors: its two and the other agent's socket, two to wake its threads.
 * The last two stay until the connection's end. */
#define OF_A_STREAM 5
#define OF_AN_ENDED_STREAM 2

/* One agent, and the stream to it. */
struct agent {
	pid_t pid;
	int to, from;
	struct buf got; /* read, not parsed */
	uint32_t last_id;
	uint64_t acked;
	bool gone;
};

static struct agent agents[AGENTS_MAX];
static unsigned nagents;
static char **command;
static uint64_t sunk; /* bytes sent in SINK frames */

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "eviljoin: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* ---- frames ---- */

static void
put(struct agent *a, const void *p, size_t len)
{
	/* An agent that is gone: reading says so. */
	if (io_write_full(a->to, p, len, "agent", NULL) < 0) {
		return;
	}
}

static void
put_frame(struct agent *a, uint8_t type, const void *p, size_t len)
{
	struct frame_header h = { .len = (uint32_t)len, .type = type };
	uint8_t head[FRAME_HEADER];

	frame_put_header(head, &h);
	put(a, head, sizeof(head));
	put(a, p, len);
}

static bool
fill(struct agent *a, int64_t deadline)
{
	struct pollfd p = { a->from, POLLIN, 0 };
	char bytes[65536];
	ssize_t n;

	if (a->gone || poll(&p, 1, io_left_ms(deadline)) <= 0) {
		return false;
	}
	n = read(a->from, bytes, sizeof(bytes));
	a->gone = n <= 0;
	return n > 0 && buf_append(&a->got, bytes, (size_t)n, NULL) == 0;
}

/* The next frame's header, its payload in a->got behind it. */
static bool
next(struct agent *a, struct frame_header *h, int64_t deadline)
{
	for (;;) {
		if (a->got.len >= FRAME_HEADER) {
			if (frame_get_header(a->got.data, h, NULL) < 0) {
				die("the agent sends no frame");
			}
			if (a->got.len >= FRAME_HEADER + h->len) {
				return true;
			}
		}
		if (!fill(a, deadline)) {
			return false;
		}
	}
}

/* Take frames until the REPLY to the last request: its code, 1 when the agent
 * went, 2 when none came. With `acks`: until so many are acknowledged. */
static int
await(struct agent *a, uint64_t acks, struct buf *body, char text[300])
{
	int64_t deadline = io_deadline(WAIT_MS);
	struct frame_header h;
	int rc = 3;

	text[0] = '\0';
	while (rc == 3 && !(acks && a->acked >= acks)) {
		struct dec d;

		if (!next(a, &h, deadline)) {
			return a->gone ? 1 : 2;
		}
		dec_init(&d, a->got.data + FRAME_HEADER, h.len);
		if (h.type == FRAME_ACK) {
			a->acked = dec_u64(&d);
		} else if (h.type == FRAME_REPLY && !acks &&
			   dec_u32(&d) == a->last_id) {
			char *s;

			rc = (int)dec_u32(&d);
			s = dec_str(&d, MSG_TEXT_MAX);
			snprintf(text, 300, "%s", s ? s : "");
			free(s);
			if (rc == 0 && body) {
				buf_append(body, d.p, d.left, NULL);
			}
		}
		buf_consume(&a->got, FRAME_HEADER + h.len);
	}
	return rc == 3 ? 0 : rc;
}

static int
call(struct agent *a, unsigned method, const void *p, size_t len,
     struct buf *body)
{
	struct buf f = BUF_MAX(FRAME_PAYLOAD_MAX);
	char text[300];
	struct enc n;
	int rc;

	enc_init(&n, &f, NULL);
	enc_u32(&n, ++a->last_id);
	enc_u16(&n, (uint16_t)method);
	enc_raw(&n, p, len);
	put_frame(a, FRAME_REQUEST, f.data, f.len);
	buf_fini(&f);
	rc = await(a, 0, body, text);
	printf("%s: %s%s%s\n", msg_method_name(method),
	       rc == 0	 ? "ok"
	       : rc == 1 ? "gone"
	       : rc == 2 ? "no reply"
			 : err_name(rc),
	       *text ? " " : "", text);
	return rc;
}

/* ---- agents ---- */

static struct agent *
start(void)
{
	struct agent *a = &agents[nagents++];
	int64_t deadline = io_deadline(WAIT_MS);
	int to[2], from[2];
	size_t noise, used;
	uint32_t proto, caps;

	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0 ||
	    (a->pid = fork()) < 0) {
		die("cannot start an agent");
	}
	if (a->pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		execvp(command[0], command);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	a->to = to[1];
	a->from = from[0];
	buf_init(&a->got, 8u << 20);
	while (frame_find_greeting(a->got.data, a->got.len, &noise, &used,
				   &proto, &caps, NULL) != 1) {
		if (!fill(a, deadline)) {
			die("no greeting");
		}
	}
	buf_consume(&a->got, used);
	return a;
}

/* One that has a connection of its own. */
static struct agent *
start_control(void)
{
	struct msg_hello m = { .proto = FRAME_PROTO,
			       .caps = FRAME_CAP_STREAMS,
			       .version = (char *)"evil",
			       .keepalive_ms = 1000 };
	struct agent *a = start();
	struct buf b = BUF_MAX(MSG_BODY_MAX);
	struct enc n;

	memset(&m.key, 7, sizeof(m.key));
	enc_init(&n, &b, NULL);
	msg_put_hello(&n, &m);
	call(a, MSG_HELLO, b.data, b.len, NULL);
	buf_fini(&b);
	return a;
}

static struct msg_join
ask(struct agent *control)
{
	struct buf b = BUF_MAX(MSG_BODY_MAX);
	struct msg_join m = { 0 };

	if (call(control, MSG_STREAM_OPEN, NULL, 0, &b) == 0 &&
	    msg_get_join(b.data, b.len, &m, NULL) < 0) {
		die("a malformed reply");
	}
	buf_fini(&b);
	return m;
}

static int
join_on(struct agent *a, const struct msg_join *m)
{
	struct buf b = BUF_MAX(MSG_BODY_MAX);
	struct enc n;
	int rc;

	enc_init(&n, &b, NULL);
	msg_put_join(&n, m);
	rc = call(a, MSG_JOIN, b.data, b.len, NULL);
	buf_fini(&b);
	return rc;
}

static struct agent *
join(const struct msg_join *m)
{
	struct agent *a = start();

	join_on(a, m);
	return a;
}

static int
end(struct agent *a)
{
	int64_t deadline = io_deadline(WAIT_MS);
	int status;

	close(a->to);
	close(a->from);
	while (waitpid(a->pid, &status, WNOHANG) == 0) {
		if (io_left_ms(deadline) == 0) {
			kill(a->pid, SIGKILL);
		}
		poll(NULL, 0, 5);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int
descriptors(const struct agent *a)
{
	char path[64];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)a->pid);
	d = opendir(path);
	while (d && readdir(d)) {
		n++;
	}
	if (d) {
		closedir(d);
	}
	return n;
}

/* Carry something over both streams. */
static bool
carries(struct agent *control, struct agent *stream)
{
	static const uint8_t bytes[70000];
	struct buf b = BUF_MAX(MSG_BODY_MAX);
	uint64_t were = control->acked;
	struct msg_sink m = { 0 };
	char text[300];
	int rc;

	for (int i = 0; i < SINKS; i++) {
		put_frame(stream, FRAME_SINK, bytes, sizeof(bytes));
		put_frame(control, FRAME_SINK, bytes, sizeof(bytes));
		sunk += 2 * sizeof(bytes);
	}
	rc = await(stream, SINKS, NULL, text);
	rc = rc ? rc : await(control, were + SINKS, NULL, text);
	rc = rc ? rc : call(control, MSG_SINK, NULL, 0, &b);
	rc = rc ? rc : msg_get_sink(b.data, b.len, &m, NULL);
	buf_fini(&b);
	return rc == 0 && m.bytes == sunk;
}

/* The connection is as good as ever. `had` descriptors were open before. */
static void
unharmed(struct agent *control, int had)
{
	int64_t deadline = io_deadline(5000);
	struct msg_join m;
	int more;

	/* The last visitor's may be just being closed. */
	while ((more = descriptors(control) - had) > 0 &&
	       io_left_ms(deadline) > 0) {
		poll(NULL, 0, 5);
	}
	m = ask(control);
	printf("unharmed: %s\n", carries(control, join(&m)) ? "ok" : "no");
	printf("descriptors: %d more\n", more);
}

/* ---- the cases ---- */

/* A control stream that has been asked once, so its socket is there. */
static struct agent *
begin(struct msg_join *m, int *had)
{
	struct agent *c = start_control();

	*m = ask(c);
	*had = descriptors(c);
	return c;
}

static void
c_honest(void)
{
	struct msg_join m;
	int had;
	struct agent *c = begin(&m, &had);

	printf("streams: %s\n", carries(c, join(&m)) ? "ok" : "no");
}

static void
c_wrong_token(void)
{
	struct msg_join m, wrong;
	int had;
	struct agent *c = begin(&m, &had);

	wrong = m;
	wrong.token[0] ^= 0x80;
	join(&wrong);
	memset(wrong.token, 0, sizeof(wrong.token));
	wrong.number = 0;
	join(&wrong);
	wrong = m;
	wrong.number++;
	join(&wrong);
	unharmed(c, had);
}

static void
c_twice(void)
{
	struct msg_join m;
	int had;
	struct agent *c = begin(&m, &had), *first = join(&m);

	join(&m);
	unharmed(c, had + OF_A_STREAM);
	printf("the first: %s\n", carries(c, first) ? "ok" : "no");
}

/* Another's token here, and ours there. */
static void
c_other_session(void)
{
	struct msg_join m, other, mixed;
	int had, other_had;
	struct agent *c = begin(&m, &had), *d = begin(&other, &other_had);

	mixed = other;
	memcpy(mixed.id, m.id, sizeof(m.id));
	join(&mixed);
	mixed = m;
	memcpy(mixed.id, other.id, sizeof(m.id));
	join(&mixed);
	unharmed(c, had);
	sunk = 0;
	unharmed(d, other_had);
}

/* Nobody has asked for a stream yet. */
static void
c_before(void)
{
	struct msg_join m = { .number = 1 };

	memset(m.id, 0x5a, sizeof(m.id));
	start_control();
	join(&m);
}

/* Nobody is there any more. */
static void
c_after(void)
{
	struct msg_join m;
	int had;
	struct agent *c = begin(&m, &had);

	put_frame(c, FRAME_GOODBYE, NULL, 0);
	while (fill(c, io_deadline(WAIT_MS))) {
	}
	join(&m);
}

/* A stream that was ended takes no JOIN, and no second end. */
static void
c_ended(void)
{
	struct msg_join m;
	struct msg_stream_end end_of;
	struct buf b = BUF_MAX(MSG_BODY_MAX);
	struct enc n;
	int had;
	struct agent *c = begin(&m, &had), *s = join(&m);

	end_of = (struct msg_stream_end){ .number = m.number };
	enc_init(&n, &b, NULL);
	msg_put_stream_end(&n, &end_of);
	call(c, MSG_STREAM_END, b.data, b.len, NULL);
	call(c, MSG_STREAM_END, b.data, b.len, NULL);
	put_frame(s, FRAME_SINK, "late", 4);
	join(&m);
	buf_fini(&b);
	unharmed(c, had + OF_AN_ENDED_STREAM);
}

/* Many at once, the right one among them. */
static void
c_flood(void)
{
	struct msg_join m, wrong;
	struct agent *a[32];
	struct buf b = BUF_MAX(MSG_BODY_MAX);
	char text[300];
	int had, denied = 0;
	struct agent *c = begin(&m, &had);
	struct enc n;

	for (int i = 0; i < 32; i++) {
		a[i] = start();
	}
	for (int i = 0; i < 32; i++) {
		wrong = m;
		wrong.token[i] ^= 1;
		buf_clear(&b);
		enc_init(&n, &b, NULL);
		enc_u32(&n, ++a[i]->last_id);
		enc_u16(&n, MSG_JOIN);
		msg_put_join(&n, &wrong);
		put_frame(a[i], FRAME_REQUEST, b.data, b.len);
	}
	buf_fini(&b);
	for (int i = 0; i < 32; i++) {
		denied += await(a[i], 0, NULL, text) == E_DENIED;
	}
	printf("denied: %d of 32\n", denied);
	printf("streams: %s\n", carries(c, join(&m)) ? "ok" : "no");
	unharmed(c, had + OF_A_STREAM);
}

/* More streams than anybody needs: the oldest tokens are forgotten, and in
 * the end there are no more. */
static void
c_opens(void)
{
	struct buf b = BUF_MAX(MSG_BODY_MAX);
	struct msg_join m, last = { 0 };
	char text[300];
	int had, n = 1, rc;
	struct agent *c = begin(&m, &had);

	do {
		uint8_t head[6] = { 0 };

		c->last_id++;
		memcpy(head, &(uint32_t){ htole32(c->last_id) }, 4);
		head[4] = MSG_STREAM_OPEN;
		put_frame(c, FRAME_REQUEST, head, sizeof(head));
		buf_clear(&b);
		rc = await(c, 0, &b, text);
		if (rc == 0) {
			msg_get_join(b.data, b.len, &last, NULL);
			n++;
		}
	} while (rc == 0 && n < 5000);
	printf("opened: %d, then %s %s\n", n, err_name(rc), text);
	buf_fini(&b);
	join(&m);
	printf("streams: %s\n", carries(c, join(&last)) ? "ok" : "no");
}

/* What is no JOIN. */
static void
c_malformed(void)
{
	struct msg_join m;
	struct buf b = BUF_MAX(MSG_BODY_MAX);
	struct enc n;
	int had;
	struct agent *c = begin(&m, &had), *a;

	enc_init(&n, &b, NULL);
	msg_put_join(&n, &m);
	call(start(), MSG_JOIN, b.data, b.len - 1, NULL);
	buf_append(&b, "x", 1, NULL);
	call(start(), MSG_JOIN, b.data, b.len, NULL);
	buf_fini(&b);
	buf_init(&b, FRAME_PAYLOAD_MAX);
	memset(buf_reserve(&b, FRAME_PAYLOAD_MAX - 100, NULL), 'j',
	       FRAME_PAYLOAD_MAX - 100);
	call(start(), MSG_JOIN, b.data, FRAME_PAYLOAD_MAX - 100, NULL);
	buf_fini(&b);
	a = start();
	put(a, "\xff\xff\xff\x7f\x03\0\0\0", FRAME_HEADER);
	printf("huge: %s\n", fill(a, io_deadline(WAIT_MS)) ? "a word" : "gone");
	/* The beginning of one, and no more. */
	a = start();
	put(a, "\x3a\0\0\0\x03\0\0\0\1\0", FRAME_HEADER + 2);
	close(a->to);
	a->to = -1;
	unharmed(c, had);
}

/* JOIN on a connection that has begun with HELLO. */
static void
c_on_control(void)
{
	struct msg_join m;
	int had;
	struct agent *c = begin(&m, &had);

	join_on(c, &m);
}

/* On a data stream, what is for the control stream alone. */
static void
c_requests(void)
{
	struct msg_join m;
	int had;
	struct agent *c = begin(&m, &had), *s = join(&m);

	call(s, MSG_STREAM_OPEN, NULL, 0, NULL);
	call(c, MSG_SINK, NULL, 0, NULL);
}

/* A stream that ends in an orderly way. */
static void
c_goodbye(void)
{
	struct msg_join m;
	int had;
	struct agent *c = begin(&m, &had), *s = join(&m);

	put_frame(s, FRAME_GOODBYE, NULL, 0);
	while (fill(s, io_deadline(WAIT_MS))) {
	}
	unharmed(c, had + OF_AN_ENDED_STREAM);
}

static const struct row {
	const char *name;
	void (*run)(void);
} rows[] = {
	{ "honest", c_honest },		{ "wrong-token", c_wrong_token },
	{ "twice", c_twice },		{ "other-session", c_other_session },
	{ "before", c_before },		{ "after", c_after },
	{ "ended", c_ended },		{ "flood", c_flood },
	{ "opens", c_opens },		{ "malformed", c_malformed },
	{ "on-control", c_on_control }, { "requests", c_requests },
	{ "goodbye", c_goodbye },
};

static const struct cases cases = CASES("eviljoin", rows);

int
main(int argc, char **argv)
{
	const struct row *row;

	if (cases_list(&cases, argc, argv)) {
		return 0;
	}
	if (argc < 3) {
		fprintf(stderr, "usage: eviljoin CASE AGENT [ARG ...]\n");
		return 2;
	}
	row = cases_find(&cases, argv[1], strlen(argv[1]));
	if (!row) {
		return 2;
	}
	command = argv + 2;
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	row->run();
	printf("end:");
	for (unsigned i = 0; i < nagents; i++) {
		printf(" %d", end(&agents[i]));
	}
	printf("\n");
	return 0;
}
