/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * evilagent CASE[:N] AGENT [ARG ...]
 *
 * Plays an agent against vzmigrate, given to it with --agent: starts the real
 * one, hands frames through in both directions, and breaks one rule of
 * PROTOCOL.md at the N-th frame (1 by default) that the case is about. So
 * every stage of a migration can be reached. What the frames of the agent
 * are counted as, says the case's row; "list" prints all cases. Those whose
 * name begins with stream- leave control streams alone but for replies to
 * STREAM_END.
 *
 * With EVIL_COUNT=FILE in the environment the number of frames of the agent
 * is written there at the end, for a sweep over N.
 */
#include "config.h"

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
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/msg.h"
#include "cases.h"

static pid_t child;
static int to_agent, from_agent;
static unsigned long at = 1, seen, frames;
static struct buf up, down; /* from the client, from the agent */
static bool greeted;	    /* the greeting was handed through */
static unsigned method;	    /* of the client's last request */
static bool joined;	    /* we are a data stream */
static uint32_t end_id;	    /* of the client's last STREAM_END */
static uint64_t swallowed;  /* content frames */

static void __attribute__((noreturn)) leave(int status)
{
	const char *count = getenv("EVIL_COUNT");

	if (count) {
		FILE *f = fopen(count, "w");

		if (f) {
			fprintf(f, "%lu\n", frames);
			fclose(f);
		}
	}
	exit(status);
}

static void
put(int fd, const void *p, size_t len)
{
	const char *b = p;

	while (len) {
		ssize_t n = write(fd, b, len);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			leave(0);
		}
		b += n;
		len -= (size_t)n;
	}
}

static void
put_head(uint32_t len, unsigned type)
{
	uint8_t h[FRAME_HEADER] = { (uint8_t)len, (uint8_t)(len >> 8),
				    (uint8_t)(len >> 16), (uint8_t)(len >> 24),
				    (uint8_t)type };

	put(1, h, sizeof(h));
}

static void
put_frame(unsigned type, const void *p, size_t len)
{
	put_head((uint32_t)len, type);
	put(1, p, len);
}

static void
put_log(const char *text, size_t len)
{
	struct buf b = BUF_MAX(FRAME_PAYLOAD_MAX);
	struct enc n;

	enc_init(&n, &b, NULL);
	enc_u8(&n, 1);
	enc_bytes(&n, text, len);
	put_frame(FRAME_LOG, b.data, b.len);
	buf_fini(&b);
}

static void
put_reply(uint32_t id, uint32_t code, const char *text, const void *body,
	  size_t len)
{
	struct buf b = BUF_MAX(FRAME_PAYLOAD_MAX);
	struct enc n;

	enc_init(&n, &b, NULL);
	enc_u32(&n, id);
	enc_u32(&n, code);
	enc_str(&n, text);
	enc_raw(&n, body, len);
	put_frame(FRAME_REPLY, b.data, b.len);
	buf_fini(&b);
}

static void
nap(int ms)
{
	poll(NULL, 0, ms);
}

/* The client went: its end of our input is closed. */
static bool
client_gone(void)
{
	struct pollfd p = { 0, POLLIN, 0 };
	char bytes[4096];

	return poll(&p, 1, 0) > 0 && read(0, bytes, sizeof(bytes)) <= 0;
}

/* ---- what is done at the frame; true: the frame itself goes on ---- */

struct frame {
	struct frame_header h;
	const uint8_t *p; /* payload */
	uint32_t id;	  /* of a REPLY */
	const uint8_t *body;
	size_t len; /* of the body */
};

static bool
d_cut(const struct frame *f)
{
	(void)f;
	leave(0);
}

static bool
d_cut_after(const struct frame *f)
{
	put_frame(f->h.type, f->p, f->h.len);
	leave(0);
}

static bool
d_half(const struct frame *f)
{
	put_head(f->h.len + 7, f->h.type);
	put(1, f->p, f->h.len);
	leave(0);
}

static bool
d_big(const struct frame *f)
{
	(void)f;
	put_head(0x7fffffff, FRAME_REPLY);
	while (!client_gone()) {
		put(1, "0123456789abcdef", 16);
	}
	leave(0);
}

static bool
d_type(const struct frame *f)
{
	(void)f;
	put_head(0, 77);
	return true;
}

static bool
d_client_type(const struct frame *f)
{
	(void)f;
	put_frame(FRAME_BATCH, "\0\0\0\0", 4);
	return true;
}

static bool
d_short(const struct frame *f)
{
	put_frame(f->h.type, f->p, f->h.len ? f->h.len - 1 : 0);
	return false;
}

static bool
d_trailing(const struct frame *f)
{
	struct buf b = BUF_MAX(FRAME_PAYLOAD_MAX);

	buf_append(&b, f->p, f->h.len, NULL);
	buf_append(&b, "x", 1, NULL);
	put_frame(f->h.type, b.data, b.len);
	buf_fini(&b);
	return false;
}

static bool
d_never_asked(const struct frame *f)
{
	put_reply(f->id + 1000, 0, NULL, "junk", 4);
	put_reply(0, 0, NULL, "junk", 4);
	return true;
}

/* The right one comes, too, but late. */
static bool
d_twice(const struct frame *f)
{
	put_frame(f->h.type, f->p, f->h.len);
	return true;
}

static bool
d_garbage(const struct frame *f)
{
	static const uint8_t junk[64] = { 0xff, 0xff, 0xff, 0xff, 0xff };

	put_reply(f->id, 0, NULL, junk, sizeof(junk));
	return false;
}

static bool
d_empty(const struct frame *f)
{
	put_reply(f->id, 0, NULL, NULL, 0);
	return false;
}

static bool
d_huge(const struct frame *f)
{
	static uint8_t junk[FRAME_PAYLOAD_MAX - 64];

	memset(junk, 'A', sizeof(junk));
	put_reply(f->id, 0, NULL, junk, sizeof(junk));
	return false;
}

static bool
d_code_positive(const struct frame *f)
{
	put_reply(f->id, 7, "a positive code", NULL, 0);
	return false;
}

static bool
d_code_unknown(const struct frame *f)
{
	put_reply(f->id, 0x80000001u, "an unknown code", NULL, 0);
	return false;
}

static bool
d_code_no_text(const struct frame *f)
{
	put_reply(f->id, (uint32_t)E_SYSTEM, NULL, NULL, 0);
	return false;
}

static bool
d_escape(const struct frame *f)
{
	static const char text[] = "\033[2J\033]0;owned\007 log";

	put_log(text, sizeof(text) - 1);
	put_reply(f->id, (uint32_t)E_SYSTEM,
		  "\033[2J\033]0;owned\007\nvzmigrate: moved, all is well",
		  NULL, 0);
	return false;
}

static void
put_ack(uint64_t n)
{
	uint8_t a[8];

	for (int i = 0; i < 8; i++) {
		a[i] = (uint8_t)(n >> (8 * i));
	}
	put_frame(FRAME_ACK, a, sizeof(a));
}

static bool
d_ack_future(const struct frame *f)
{
	(void)f;
	put_ack(1u << 20);
	return true;
}

static bool
d_ack_back(const struct frame *f)
{
	(void)f;
	put_ack(0);
	return true;
}

static bool
d_no_acks(const struct frame *f)
{
	(void)f;
	return false;
}

static bool
d_fault(const struct frame *f)
{
	struct buf b = BUF_MAX(FRAME_PAYLOAD_MAX);
	struct enc n;

	(void)f;
	enc_init(&n, &b, NULL);
	enc_u32(&n, 0);
	enc_str(&n, "a fault of no code");
	put_frame(FRAME_FAULT, b.data, b.len);
	buf_fini(&b);
	return true;
}

/* More than it got, and a word after that. */
static bool
d_dead_fault(const struct frame *f)
{
	d_ack_future(f);
	d_fault(f);
	return true;
}

static bool
d_stream_end_lie(const struct frame *f)
{
	static const uint8_t many[8] = { 0, 0, 16 };

	if (joined) {
		leave(0);
	}
	put_reply(f->id, 0, NULL, many, sizeof(many));
	return false;
}

static bool
d_stream_end_denied(const struct frame *f)
{
	if (joined) {
		leave(0);
	}
	put_reply(f->id, (uint32_t)E_NOT_FOUND, "no such stream", NULL, 0);
	return false;
}

static bool
d_flood(const struct frame *f)
{
	char line[1000];

	(void)f;
	memset(line, 'L', sizeof(line));
	while (!client_gone()) {
		for (int i = 0; i < 100; i++) {
			put_log(line, sizeof(line));
		}
	}
	leave(0);
}

static bool
d_stderr(const struct frame *f)
{
	char line[1000];

	(void)f;
	memset(line, 'S', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	while (!client_gone()) {
		for (int i = 0; i < 100; i++) {
			put(2, line, sizeof(line));
		}
	}
	leave(0);
}

static bool
d_keepalives(const struct frame *f)
{
	(void)f;
	while (!client_gone()) {
		put_head(0, FRAME_KEEPALIVE);
		nap(20);
	}
	leave(0);
}

static bool
d_silent(const struct frame *f)
{
	(void)f;
	while (!client_gone()) {
		nap(20);
	}
	leave(0);
}

/* A frame that never gets whole, a byte at a time. */
static bool
d_drip(const struct frame *f)
{
	(void)f;
	put_head(100000, FRAME_LOG);
	while (!client_gone()) {
		put(1, "d", 1);
		nap(20);
	}
	leave(0);
}

static bool
d_proof_sum(const struct frame *f)
{
	uint8_t body[64];

	memcpy(body, f->body, f->len < sizeof(body) ? f->len : sizeof(body));
	if (f->len == 32) {
		body[31] ^= 1;
	}
	put_reply(f->id, 0, NULL, body, f->len);
	return false;
}

static bool
d_proof_count(const struct frame *f)
{
	uint8_t body[64];

	memcpy(body, f->body, f->len < sizeof(body) ? f->len : sizeof(body));
	body[0]++;
	put_reply(f->id, 0, NULL, body, f->len);
	return false;
}

static bool
put_state(const struct frame *f, uint8_t state)
{
	struct msg_take_over_reply r = { .state = state,
					 .tree = (char *)"/etc" };
	struct msg_state s = { .state = state };
	struct buf b = BUF_MAX(FRAME_PAYLOAD_MAX);
	struct enc n;

	enc_init(&n, &b, NULL);
	if (method == MSG_TAKE_OVER) {
		msg_put_take_over_reply(&n, &r);
	} else {
		msg_put_state(&n, &s);
	}
	put_reply(f->id, 0, NULL, b.data, b.len);
	buf_fini(&b);
	return false;
}

static bool
d_state_unknown(const struct frame *f)
{
	return put_state(f, 99);
}

/* Says again and again that nothing came of the order. */
static bool
d_state_proven(const struct frame *f)
{
	return put_state(f, MSG_DST_PROVEN);
}

static bool
d_state_none(const struct frame *f)
{
	return put_state(f, MSG_DST_NONE);
}

/* ---- before the greeting ---- */

static void
g_noise(void)
{
	char junk[4096];

	memset(junk, 'n', sizeof(junk));
	while (!client_gone()) {
		put(1, junk, sizeof(junk));
	}
	leave(0);
}

static void
g_drip(void)
{
	while (!client_gone()) {
		put(1, "n", 1);
		nap(20);
	}
	leave(0);
}

static void
g_silence(void)
{
	while (!client_gone()) {
		nap(20);
	}
	leave(0);
}

static void
g_stderr(void)
{
	d_stderr(NULL);
}

static void
g_version(void)
{
	static const char line[] = FRAME_MAGIC "proto=99 caps=0\n";

	put(1, line, sizeof(line) - 1);
	g_silence();
}

static void
g_malformed(void)
{
	static const char line[] = FRAME_MAGIC "proto=1 caps=\033[2Jx\n";

	put(1, line, sizeof(line) - 1);
	g_silence();
}

static void
g_endless_line(void)
{
	put(1, FRAME_MAGIC, sizeof(FRAME_MAGIC) - 1);
	g_noise();
}

static void
g_dies(void)
{
	leave(3);
}

enum counts {
	ANY,	/* each frame of the agent */
	REPLY,	/* replies */
	ACK,	/* acknowledgements */
	EACH,	/* acknowledgements, and every one from the N-th on */
	PROOF,	/* replies to PASS_END */
	ORDER,	/* replies to TAKE_OVER, each of them from the N-th on */
	CLIENT, /* each frame of the client */
	/* Data streams alone: */
	S_ACK,	/* acknowledgements */
	S_EACH, /* the same, and every one from the N-th on */
	S_END,	/* the same, and on the control stream replies to STREAM_END */
	S_EAT,	/* content is not handed through, and acknowledged */
};

static const struct row {
	const char *name;
	enum counts counts;
	bool (*act)(const struct frame *f);
	void (*greet)(void); /* instead of starting an agent */
} rows[] = {
	{ "none", ANY, NULL, NULL },
	{ "cut", ANY, d_cut, NULL },
	{ "cut-client", CLIENT, d_cut, NULL },
	{ "cut-after-order", ORDER, d_cut, NULL },
	{ "cut-after", ANY, d_cut_after, NULL },
	{ "half", ANY, d_half, NULL },
	{ "big", ANY, d_big, NULL },
	{ "type", ANY, d_type, NULL },
	{ "client-type", ANY, d_client_type, NULL },
	{ "short", ANY, d_short, NULL },
	{ "trailing", ANY, d_trailing, NULL },
	{ "short-reply", REPLY, d_short, NULL },
	{ "trailing-reply", REPLY, d_trailing, NULL },
	{ "never-asked", REPLY, d_never_asked, NULL },
	{ "twice", REPLY, d_twice, NULL },
	{ "garbage", REPLY, d_garbage, NULL },
	{ "empty", REPLY, d_empty, NULL },
	{ "huge", REPLY, d_huge, NULL },
	{ "code-positive", REPLY, d_code_positive, NULL },
	{ "code-unknown", REPLY, d_code_unknown, NULL },
	{ "code-no-text", REPLY, d_code_no_text, NULL },
	{ "escape", REPLY, d_escape, NULL },
	{ "ack-future", REPLY, d_ack_future, NULL },
	{ "ack-back", ACK, d_ack_back, NULL },
	{ "no-acks", EACH, d_no_acks, NULL },
	{ "fault", REPLY, d_fault, NULL },
	{ "flood", REPLY, d_flood, NULL },
	{ "stderr", REPLY, d_stderr, NULL },
	{ "keepalives", REPLY, d_keepalives, NULL },
	{ "silent", REPLY, d_silent, NULL },
	{ "drip", REPLY, d_drip, NULL },
	{ "stream-ack-future", S_ACK, d_ack_future, NULL },
	{ "stream-ack-back", S_ACK, d_ack_back, NULL },
	{ "stream-ack-twice", S_EACH, d_twice, NULL },
	{ "stream-fault", S_ACK, d_fault, NULL },
	{ "stream-dead-fault", S_ACK, d_dead_fault, NULL },
	{ "stream-cut", S_ACK, d_cut, NULL },
	{ "stream-silent", S_ACK, d_silent, NULL },
	{ "stream-end-lie", S_END, d_stream_end_lie, NULL },
	{ "stream-end-denied", S_END, d_stream_end_denied, NULL },
	{ "stream-eat", S_EAT, NULL, NULL },
	{ "proof-sum", PROOF, d_proof_sum, NULL },
	{ "proof-count", PROOF, d_proof_count, NULL },
	{ "state-unknown", ORDER, d_state_unknown, NULL },
	{ "state-proven", ORDER, d_state_proven, NULL },
	{ "state-none", ORDER, d_state_none, NULL },
	{ "greet-noise", ANY, NULL, g_noise },
	{ "greet-drip", ANY, NULL, g_drip },
	{ "greet-silence", ANY, NULL, g_silence },
	{ "greet-stderr", ANY, NULL, g_stderr },
	{ "greet-version", ANY, NULL, g_version },
	{ "greet-malformed", ANY, NULL, g_malformed },
	{ "greet-endless-line", ANY, NULL, g_endless_line },
	{ "greet-dies", ANY, NULL, g_dies },
};

static const struct cases cases = CASES("evilagent", rows);
static const struct row *row;

/* ---- handing through ---- */

static bool
counted(const struct frame *f)
{
	switch (row->counts) {
	case ANY:
		return ++seen == at;
	case REPLY:
		return f->h.type == FRAME_REPLY && ++seen == at;
	case ACK:
		return f->h.type == FRAME_ACK && ++seen == at;
	case EACH:
		return f->h.type == FRAME_ACK && ++seen >= at;
	case PROOF:
		return f->h.type == FRAME_REPLY && method == MSG_PASS_END &&
		       ++seen == at;
	case ORDER:
		return f->h.type == FRAME_REPLY && method == MSG_TAKE_OVER &&
		       ++seen >= at;
	case S_ACK:
		return joined && f->h.type == FRAME_ACK && ++seen == at;
	case S_EACH:
		return joined && f->h.type == FRAME_ACK && ++seen >= at;
	case S_END:
		return joined ? f->h.type == FRAME_ACK && ++seen >= at
			      : f->h.type == FRAME_REPLY && f->id == end_id;
	case CLIENT:
	case S_EAT:
		break;
	}
	return false;
}

/* The next whole frame at the front of `b`. */
static bool
next(const struct buf *b, struct frame *f)
{
	struct dec d;
	size_t text;

	if (b->len < FRAME_HEADER ||
	    frame_get_header(b->data, &f->h, NULL) < 0 ||
	    b->len < FRAME_HEADER + f->h.len) {
		return false;
	}
	f->p = b->data + FRAME_HEADER;
	f->id = 0;
	f->body = f->p;
	f->len = 0;
	if (f->h.type == FRAME_REPLY) {
		dec_init(&d, f->p, f->h.len);
		f->id = dec_u32(&d);
		dec_u32(&d);
		text = dec_u32(&d);
		if (text != 0xffffffff) {
			dec_raw(&d, text);
		}
		f->body = d.p;
		f->len = d.left;
	}
	return true;
}

static void
from_the_agent(void)
{
	struct frame f;

	if (!greeted) {
		size_t noise, used;
		uint32_t proto, caps;

		if (frame_find_greeting(down.data, down.len, &noise, &used,
					&proto, &caps, NULL) != 1) {
			return;
		}
		put(1, down.data, used);
		buf_consume(&down, used);
		greeted = true;
	}
	while (next(&down, &f)) {
		/* Keepalives come when they come: not counted. */
		bool hit = f.h.type != FRAME_KEEPALIVE && counted(&f);

		frames += f.h.type != FRAME_KEEPALIVE;
		if (!hit || !row->act || row->act(&f)) {
			put_frame(f.h.type, f.p, f.h.len);
		}
		buf_consume(&down, FRAME_HEADER + f.h.len);
	}
}

static void
from_the_client(void)
{
	struct frame f;

	while (next(&up, &f)) {
		if (f.h.type == FRAME_REQUEST && f.h.len >= 6) {
			method = f.p[4] | (unsigned)f.p[5] << 8;
			joined |= method == MSG_JOIN;
			if (method == MSG_STREAM_END) {
				end_id = f.p[0] | (uint32_t)f.p[1] << 8 |
					 (uint32_t)f.p[2] << 16;
			}
		}
		if (row->counts == S_EAT && joined &&
		    (f.h.type == FRAME_BATCH || f.h.type == FRAME_CHUNK)) {
			put_ack(++swallowed);
			buf_consume(&up, FRAME_HEADER + f.h.len);
			continue;
		}
		if (row->counts == CLIENT && f.h.type != FRAME_KEEPALIVE &&
		    ++seen == at && row->act) {
			row->act(&f);
		}
		put(to_agent, up.data, FRAME_HEADER + f.h.len);
		buf_consume(&up, FRAME_HEADER + f.h.len);
	}
}

static bool
more(int fd, struct buf *b)
{
	static uint8_t bytes[65536];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	return n > 0 && buf_append(b, bytes, (size_t)n, NULL) == 0;
}

static void
relay(void)
{
	struct pollfd p[2] = { { 0, POLLIN, 0 }, { from_agent, POLLIN, 0 } };

	while (p[1].fd >= 0) {
		if (poll(p, 2, -1) < 0 && errno != EINTR) {
			leave(2);
		}
		if (p[0].revents) {
			if (more(0, &up)) {
				from_the_client();
			} else {
				close(to_agent);
				p[0].fd = -1;
			}
		}
		if (p[1].revents) {
			if (more(from_agent, &down)) {
				from_the_agent();
			} else {
				p[1].fd = -1;
			}
		}
	}
}

static void
start(char **argv)
{
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0 ||
	    (child = fork()) < 0) {
		leave(2);
	}
	if (child == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	to_agent = to[1];
	from_agent = from[0];
}

int
main(int argc, char **argv)
{
	size_t len;

	if (cases_list(&cases, argc, argv)) {
		return 0;
	}
	if (argc < 3) {
		fprintf(stderr, "usage: evilagent CASE[:N] AGENT [ARG ...]\n");
		return 2;
	}
	len = strcspn(argv[1], ":");
	row = cases_find(&cases, argv[1], len);
	if (!row) {
		return 2;
	}
	if (argv[1][len] == ':') {
		at = strtoul(argv[1] + len + 1, NULL, 10);
	}
	signal(SIGPIPE, SIG_IGN);
	if (row->greet) {
		row->greet();
	}
	buf_init(&up, 8u << 20);
	buf_init(&down, 8u << 20);
	start(argv + 2);
	relay();
	leave(0);
}
