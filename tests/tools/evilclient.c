/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * evilclient CASE KIND ID NEW-PLACE AGENT [ARG ...]
 *
 * Plays the client of a migration against a real agent, which it starts, and
 * breaks one rule of PROTOCOL.md: CASE says which ("list" prints them). KIND,
 * ID and NEW-PLACE are what OPEN asks for ("-": nothing).
 *
 * Prints what came of it, a line each:
 *
 *	REQUEST: ok | ERROR-NAME TEXT
 *	fault: ERROR-NAME TEXT
 *	log: TEXT			the agent's own last word
 *	end: exit STATUS | signal NUMBER
 *
 * Exit status 0 when the agent ended within the time that it is given, 1 when
 * it had to be killed, 2 for trouble of our own. It judges nothing else: the
 * test looks at the lines and at what is on the disk.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "ct/ct.h"
#include "wire/frame.h"
#include "wire/msg.h"
#include "wire/tree.h"
#include "cases.h"

#define WAIT_MS 20000

static int in = -1, out = -1; /* to the agent, from it */
static pid_t child;
static uint32_t last_id;
static uint32_t epoch;
static uint32_t caps_wanted; /* in HELLO */
static const char *kind, *id, *place;
static uint8_t session[MSG_ID_LEN];
static struct buf got; /* read, not parsed */
static bool gone;      /* the agent's end is closed */

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "evilclient: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* ---- the agent ---- */

static void
start(char **argv)
{
	int to[2], from[2];

	if (pipe(to) < 0 || pipe(from) < 0) {
		die("pipe");
	}
	child = fork();
	if (child < 0) {
		die("fork");
	}
	if (child == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		for (int fd = 3; fd < 16; fd++) {
			close(fd);
		}
		execvp(argv[0], argv);
		die(argv[0]);
	}
	close(to[0]);
	close(from[1]);
	in = to[1];
	out = from[0];
	signal(SIGPIPE, SIG_IGN);
}

/* Like a client that is gone. The test's answer is how the agent ends. */
static int
finish(void)
{
	int64_t deadline = io_deadline(WAIT_MS);
	int status, late = 0;

	if (in >= 0) {
		close(in);
	}
	while (!gone && io_left_ms(deadline) > 0) {
		struct pollfd p = { out, POLLIN, 0 };
		char bytes[4096];

		if (poll(&p, 1, io_left_ms(deadline)) > 0 &&
		    read(out, bytes, sizeof(bytes)) <= 0) {
			gone = true;
		}
	}
	while (waitpid(child, &status, WNOHANG) == 0) {
		if (io_left_ms(deadline) == 0) {
			late = 1;
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			break;
		}
		poll(NULL, 0, 10);
	}
	if (WIFSIGNALED(status)) {
		printf("end: signal %d%s\n", WTERMSIG(status),
		       late ? ", it did not end" : "");
	} else {
		printf("end: exit %d\n", WEXITSTATUS(status));
	}
	return late;
}

/* ---- frames ---- */

static void
send_raw(const void *p, size_t len)
{
	const char *at = p;

	while (len) {
		ssize_t n = write(in, at, len);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return; /* it is gone; reading says so */
		}
		at += n;
		len -= (size_t)n;
	}
}

static void
send_head(uint32_t len, unsigned type, unsigned flags, unsigned zero)
{
	uint8_t h[FRAME_HEADER] = {
		(uint8_t)len,	      (uint8_t)(len >> 8), (uint8_t)(len >> 16),
		(uint8_t)(len >> 24), (uint8_t)type,	   (uint8_t)flags,
		(uint8_t)zero,	      (uint8_t)(zero >> 8)
	};

	send_raw(h, sizeof(h));
}

static void
send_frame(unsigned type, const void *p, size_t len)
{
	send_head((uint32_t)len, type, 0, 0);
	send_raw(p, len);
}

/* More bytes into `got`; false when there are none in time. */
static bool
fill(int64_t deadline)
{
	struct pollfd p = { out, POLLIN, 0 };
	char bytes[65536];
	ssize_t n;

	if (gone || poll(&p, 1, io_left_ms(deadline)) <= 0) {
		return false;
	}
	n = read(out, bytes, sizeof(bytes));
	if (n <= 0) {
		gone = true;
		return false;
	}
	return buf_append(&got, bytes, (size_t)n, NULL) == 0;
}

static void
show(const char *what, uint32_t code, const char *text)
{
	char line[600];

	printf("%s: %s %s\n", what, err_name((int)code),
	       escape_bytes(line, sizeof(line), text ? text : "",
			    text ? strlen(text) : 0));
}

/* Take one frame. True when it was the REPLY to `want`; its code and body. */
static bool
take(uint32_t want, const char *name, struct buf *body)
{
	struct frame_header h;
	struct err e = { 0 };
	struct dec d;
	uint32_t rid = 0, code;
	char *text;
	bool mine = false;

	if (frame_get_header(got.data, &h, &e) < 0) {
		die("the agent sends no frame");
	}
	dec_init(&d, got.data + FRAME_HEADER, h.len);
	if (h.type == FRAME_REPLY) {
		rid = dec_u32(&d);
	} else if (h.type == FRAME_LOG) {
		uint8_t level = dec_u8(&d);

		text = dec_str(&d, MSG_TEXT_MAX);
		if (level == 0) {
			printf("log: %s\n", text);
		}
		free(text);
	}
	if (h.type == FRAME_REPLY || h.type == FRAME_FAULT) {
		code = dec_u32(&d);
		text = dec_str(&d, MSG_TEXT_MAX);
		if (code) {
			show(h.type == FRAME_FAULT ? "fault" : name, code,
			     text);
		} else {
			printf("%s: ok\n", name);
		}
		free(text);
		mine = h.type == FRAME_REPLY && rid == want;
		if (mine && body && code == 0) {
			buf_append(body, d.p, d.left, NULL);
		}
	}
	buf_consume(&got, FRAME_HEADER + h.len);
	return mine;
}

static bool
whole_frame(void)
{
	struct frame_header h;

	if (got.len < FRAME_HEADER) {
		return false;
	}
	return frame_get_header(got.data, &h, NULL) < 0 ||
	       got.len >= FRAME_HEADER + h.len;
}

static void
wait_reply(const char *name, struct buf *body)
{
	int64_t deadline = io_deadline(WAIT_MS);

	for (;;) {
		while (whole_frame()) {
			if (take(last_id, name, body)) {
				return;
			}
		}
		if (!fill(deadline)) {
			printf("%s: %s\n", name,
			       gone ? "the agent is gone" : "no reply");
			return;
		}
	}
}

static void
send_request(unsigned method, const struct buf *b)
{
	struct buf f = BUF_MAX(FRAME_PAYLOAD_MAX + 64);
	struct enc n;

	enc_init(&n, &f, NULL);
	enc_u32(&n, ++last_id);
	enc_u16(&n, (uint16_t)method);
	if (b) {
		enc_raw(&n, b->data, b->len);
	}
	send_frame(FRAME_REQUEST, f.data, f.len);
	buf_fini(&f);
}

static void
call(unsigned method, const struct buf *b, struct buf *reply)
{
	send_request(method, b);
	wait_reply(msg_method_name(method), reply);
}

/* ---- requests ---- */

#define BODY(b, n)                                \
	struct buf b = BUF_MAX(MSG_BODY_MAX * 2); \
	struct enc n;                             \
	enc_init(&n, &b, NULL)

static void
greeting(void)
{
	int64_t deadline = io_deadline(WAIT_MS);
	size_t noise, used;
	uint32_t proto, caps;

	buf_init(&got, 8u << 20);
	while (frame_find_greeting(got.data, got.len, &noise, &used, &proto,
				   &caps, NULL) != 1) {
		if (!fill(deadline)) {
			die("no greeting");
		}
	}
	buf_consume(&got, used);
}

static void
hello_as(uint32_t proto, uint32_t keepalive)
{
	struct msg_hello m = { .proto = proto,
			       .caps = caps_wanted,
			       .version = (char *)"evil",
			       .keepalive_ms = keepalive };
	BODY(b, n);

	memset(&m.key, 7, sizeof(m.key));
	msg_put_hello(&n, &m);
	call(MSG_HELLO, &b, NULL);
	buf_fini(&b);
}

static void
hello(void)
{
	greeting();
	hello_as(FRAME_PROTO, 1000);
}

static char *
given(const char *s)
{
	return strcmp(s, "-") ? (char *)s : NULL;
}

static void
open_session(void)
{
	struct msg_open m = { .kind = (char *)kind,
			      .source = (char *)"evil",
			      .id = (char *)id,
			      .new_private = given(place) };
	struct buf reply = BUF_MAX(MSG_BODY_MAX);
	struct msg_open_reply r;
	BODY(b, n);

	memcpy(m.session, session, sizeof(session));
	msg_put_open(&n, &m);
	call(MSG_OPEN, &b, &reply);
	buf_fini(&b);
	if (reply.len &&
	    msg_get_open_reply(reply.data, reply.len, &r, NULL) == 0) {
		epoch = r.epoch;
		msg_open_reply_fini(&r);
	}
	buf_fini(&reply);
}

static void
check(void)
{
	struct msg_check m = { .bytes = 4096, .inodes = 10 };
	BODY(b, n);

	msg_put_check(&n, &m);
	call(MSG_CHECK, &b, NULL);
	buf_fini(&b);
}

static uint32_t pass_number = 1;
static bool pass_final = true;

static void
pass(unsigned method, bool waits)
{
	struct msg_pass m = { .number = pass_number, .final = pass_final };
	BODY(b, n);

	msg_put_pass(&n, &m);
	if (waits) {
		call(method, &b, NULL);
	} else {
		send_request(method, &b);
	}
	buf_fini(&b);
}

static void
take_over(uint32_t of)
{
	struct msg_take_over m = { .epoch = of };
	BODY(b, n);

	msg_put_take_over(&n, &m);
	call(MSG_TAKE_OVER, &b, NULL);
	buf_fini(&b);
}

static void
put_file(const char *role, size_t len)
{
	struct msg_put_file m = { .role = (char *)role,
				  .data = calloc(1, len + 1),
				  .len = len,
				  .mode = 0755 };
	BODY(b, n);

	if (!m.data) {
		die("calloc");
	}
	memset(m.data, 'x', len);
	msg_put_put_file(&n, &m);
	call(MSG_PUT_FILE, &b, NULL);
	free(m.data);
	buf_fini(&b);
}

static void
to_reserve(void)
{
	hello();
	open_session();
	check();
	call(MSG_RESERVE, NULL, NULL);
}

static void
to_pass(void)
{
	to_reserve();
	pass(MSG_PASS_BEGIN, true);
}

/* ---- content ---- */

static uint8_t body_bytes[FRAME_PAYLOAD_MAX], def_bytes[FRAME_PAYLOAD_MAX];
static struct tree_out body = { body_bytes, 0, sizeof(body_bytes) };
static struct tree_out defs = { def_bytes, 0, sizeof(def_bytes) };

static void
send_batch(void)
{
	static uint8_t f[2 * FRAME_PAYLOAD_MAX];

	tree_set_u32(f, (uint32_t)body.len);
	memcpy(f + 4, body_bytes, body.len);
	memcpy(f + 4 + body.len, def_bytes, defs.len);
	send_frame(FRAME_BATCH, f, 4 + body.len + defs.len);
	body.len = defs.len = 0;
}

static const struct meta dir_meta = { .type = FS_DIR, .perm = 0755 };

static void
root(void)
{
	tree_put_entry(&body, 0, false, 0, "", 0, &dir_meta);
}

static void
dir_def(uint32_t n, uint32_t parent, const char *name)
{
	tree_put_dir(&defs, n, parent, name, strlen(name));
}

static void
link_to(uint32_t dir, const char *name, const char *target)
{
	struct meta m = { .type = FS_LNK,
			  .perm = 0777,
			  .target = (char *)target,
			  .target_len = strlen(target),
			  .size = strlen(target) };

	tree_put_entry(&body, 0, false, dir, name, strlen(name), &m);
}

static void
file_n(uint32_t dir, const char *name, size_t len, uint32_t group)
{
	struct meta m = { .type = FS_REG, .perm = 0644, .size = 5 };

	tree_put_entry(&body, group, group != 0, dir, name, len, &m);
	tree_put_u32(&body, 1);
	tree_put_piece(&body, 0, 5);
	memcpy(body.p + body.len, "evil\n", 5);
	body.len += 5;
}

static void
file(uint32_t dir, const char *name)
{
	file_n(dir, name, strlen(name), 0);
}

/* A file of one piece that says these things. */
static void
odd_file(const char *name, uint64_t size, uint64_t off, uint32_t len)
{
	struct meta m = { .type = FS_REG, .perm = 0644, .size = size };

	tree_put_entry(&body, 0, false, 0, name, strlen(name), &m);
	tree_put_u32(&body, 1);
	tree_put_piece(&body, off, len);
	memset(body.p + body.len, 'e', 16);
	body.len += 16;
}

static void
chunk(uint32_t n, uint64_t off, size_t len)
{
	static uint8_t f[TREE_CHUNK_HEAD + TREE_PIECE + 16];

	for (int i = 0; i < 4; i++) {
		f[i] = (uint8_t)(n >> (8 * i));
	}
	for (int i = 0; i < 8; i++) {
		f[4 + i] = (uint8_t)(off >> (8 * i));
	}
	send_frame(FRAME_CHUNK, f, TREE_CHUNK_HEAD + len);
}

static void
file_def(uint32_t n, uint32_t dir, const char *name, uint64_t size)
{
	struct meta m = { .type = FS_REG, .size = size };

	tree_put_file(&defs, n, dir, name, strlen(name), &m);
}

static void
file_end(uint32_t n, uint64_t chunks, uint64_t size)
{
	struct meta m = { .type = FS_REG, .perm = 0644, .size = size };

	tree_put_file_end(&body, n, false, chunks, &m);
}

/* The pass with what was composed; then everything that a client can do to
 * get it committed. */
static void
push_through(void)
{
	root();
	send_batch();
	pass(MSG_PASS_END, true);
	call(MSG_SYNC, NULL, NULL);
	take_over(epoch);
}

/* ---- the cases ---- */

static void
c_honest(void)
{
	to_pass();
	file(0, "plain");
	push_through();
	call(MSG_FINISH, NULL, NULL);
	send_frame(FRAME_GOODBYE, NULL, 0);
}

static void
c_link_then_below(void)
{
	to_pass();
	link_to(0, "a", "/etc");
	send_batch();
	dir_def(1, 0, "a");
	file(1, "passwd");
	push_through();
}

static void
c_below_then_link(void)
{
	to_pass();
	dir_def(1, 0, "a");
	file(1, "passwd");
	send_batch();
	link_to(0, "a", "/etc");
	send_batch();
	file(1, "shadow");
	push_through();
}

/* A deeper one, whose directory workers have open already. */
static void
c_link_in_the_way(void)
{
	to_pass();
	link_to(0, "var", "../../../../../../..");
	dir_def(1, 0, "var");
	dir_def(2, 1, "evil");
	file(2, "x");
	push_through();
}

static void
c_dotdot(void)
{
	to_pass();
	file(0, "..");
	push_through();
}

static void
c_dotdot_dir(void)
{
	to_pass();
	dir_def(1, 0, "..");
	file(1, "x");
	push_through();
}

static void
c_dot(void)
{
	to_pass();
	file(0, ".");
	push_through();
}

static void
c_absolute(void)
{
	to_pass();
	file(0, "/etc/evil");
	push_through();
}

static void
c_slash(void)
{
	to_pass();
	file(0, "a/b");
	push_through();
}

static void
c_slash_dir(void)
{
	to_pass();
	dir_def(1, 0, "../../x");
	file(1, "y");
	push_through();
}

static void
c_nul_in_name(void)
{
	to_pass();
	file_n(0, "a\0b", 3, 0);
	push_through();
}

static void
c_empty_name(void)
{
	to_pass();
	file(0, "");
	push_through();
}

static void
c_hard_link_outside(void)
{
	to_pass();
	link_to(0, "a", "/etc");
	dir_def(1, 0, "a");
	file_n(0, "f", 1, 5);
	tree_put_link(&body, 5, 1, "evil", 4);
	push_through();
}

/* A link's group whose first name is a symlink to the outside. */
static void
c_hard_link_to_link(void)
{
	struct meta m = { .type = FS_LNK,
			  .perm = 0777,
			  .target = (char *)"/etc/passwd",
			  .target_len = 11,
			  .size = 11 };

	to_pass();
	tree_put_entry(&body, 5, true, 0, "s", 1, &m);
	tree_put_link(&body, 5, 0, "t", 1);
	push_through();
}

static void
c_link_without_group(void)
{
	to_pass();
	tree_put_link(&body, 77, 0, "t", 1);
	push_through();
}

static void
c_ring(void)
{
	to_pass();
	dir_def(2, 1, "b");
	dir_def(1, 2, "a");
	file(1, "x");
	push_through();
}

static void
c_own_parent(void)
{
	to_pass();
	dir_def(1, 1, "a");
	file(1, "x");
	push_through();
}

static void
c_twice_defined(void)
{
	to_pass();
	dir_def(1, 0, "a");
	dir_def(1, 0, "b");
	file(1, "x");
	push_through();
}

static void
c_root_defined(void)
{
	to_pass();
	dir_def(0, 0, "a");
	push_through();
}

static void
c_undefined_dir(void)
{
	to_pass();
	file(9, "x");
	push_through();
}

static void
c_huge_dir_id(void)
{
	to_pass();
	dir_def(0x7ffffff0, 0, "a");
	file(0x7ffffff0, "x");
	push_through();
}

static void
c_huge_group(void)
{
	to_pass();
	file_n(0, "f", 1, 0xfffffff0);
	push_through();
}

static void
c_piece_beyond(void)
{
	to_pass();
	odd_file("f", 5, 100, 16);
	push_through();
}

static void
c_piece_wraps(void)
{
	to_pass();
	odd_file("f", 5, UINT64_MAX - 7, 16);
	push_through();
}

static void
c_piece_short(void)
{
	to_pass();
	odd_file("f", 1u << 20, 0, 1u << 18);
	push_through();
}

static void
c_huge_size(void)
{
	to_pass();
	odd_file("f", UINT64_MAX, 0, 16);
	push_through();
}

static void
c_chunk_beyond(void)
{
	to_pass();
	file_def(3, 0, "f", 1000);
	send_batch();
	chunk(3, 262144, 4096);
	file_end(3, 1, 1000);
	push_through();
}

static void
c_chunk_wraps(void)
{
	to_pass();
	file_def(3, 0, "f", 1000);
	send_batch();
	chunk(3, UINT64_MAX - 100, 200);
	file_end(3, 1, 1000);
	push_through();
}

static void
c_chunk_of_none(void)
{
	to_pass();
	chunk(3, 0, 4096);
	push_through();
}

static void
c_chunk_empty(void)
{
	to_pass();
	send_frame(FRAME_CHUNK, "abc", 3);
	push_through();
}

static void
c_chunk_missing(void)
{
	to_pass();
	file_def(3, 0, "f", 300000);
	send_batch();
	chunk(3, 0, 262144);
	file_end(3, 2, 300000);
	push_through();
}

static void
c_chunk_too_many(void)
{
	to_pass();
	file_def(3, 0, "f", 300000);
	send_batch();
	for (int i = 0; i < 5; i++) {
		chunk(3, 0, 262144);
	}
	file_end(3, 2, 300000);
	push_through();
}

static void
c_many_files(void)
{
	to_pass();
	for (uint32_t i = 0; i < 2000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "f%u", i);
		file_def(i + 1, 0, name, 300000);
	}
	push_through();
}

static void
c_file_def_outside(void)
{
	to_pass();
	link_to(0, "a", "/etc");
	dir_def(1, 0, "a");
	file_def(3, 1, "evil", 300000);
	send_batch();
	chunk(3, 0, 4096);
	file_end(3, 1, 300000);
	push_through();
}

/* Its file exists as a link to the outside before its first chunk comes. */
static void
c_file_over_link(void)
{
	to_pass();
	link_to(0, "f", "/etc/evil");
	send_batch();
	file_def(3, 0, "f", 300000);
	send_batch();
	chunk(3, 0, 4096);
	file_end(3, 1, 300000);
	push_through();
}

static void
c_twice_one_name(void)
{
	to_pass();
	file(0, "f");
	file(0, "f");
	push_through();
}

static void
c_garbage_batch(void)
{
	static uint8_t junk[4096];

	to_pass();
	for (size_t i = 0; i < sizeof(junk); i++) {
		junk[i] = (uint8_t)(i * 131 + 7);
	}
	send_frame(FRAME_BATCH, junk, sizeof(junk));
	push_through();
}

static void
c_bad_time(void)
{
	struct meta m = { .type = FS_REG,
			  .perm = 0644,
			  .mtime = { 0, 4000000000u } };

	to_pass();
	tree_put_entry(&body, 0, false, 0, "f", 1, &m);
	tree_put_u32(&body, 0);
	push_through();
}

static void
c_bad_xattrs(void)
{
	uint8_t x[] = { 200, 0, 'u', 's', 'e', 'r' };
	struct meta m = { .type = FS_REG,
			  .perm = 0644,
			  .xattrs = x,
			  .xattrs_len = sizeof(x) };

	to_pass();
	tree_put_entry(&body, 0, false, 0, "f", 1, &m);
	tree_put_u32(&body, 0);
	push_through();
}

static void
c_no_root(void)
{
	to_pass();
	file(0, "f");
	send_batch();
	pass(MSG_PASS_END, true);
	call(MSG_SYNC, NULL, NULL);
	take_over(epoch);
}

static void
c_content_outside_pass(void)
{
	to_reserve();
	file(0, "f");
	send_batch();
	wait_reply("content", NULL);
}

static void
c_content_after_pass(void)
{
	to_pass();
	root();
	send_batch();
	pass(MSG_PASS_END, true);
	file(0, "late");
	send_batch();
	call(MSG_SYNC, NULL, NULL);
	take_over(epoch);
}

static void
c_no_credit(void)
{
	to_pass();
	/* A tree so deep and wide that the workers lag behind. */
	for (uint32_t i = 0; i < 4000 && !gone; i++) {
		char name[32];

		snprintf(name, sizeof(name), "f%u", i);
		odd_file(name, 1u << 30, 0, 16);
		send_batch();
	}
	wait_reply("flood", NULL);
}

static void
c_request_flood(void)
{
	hello();
	open_session();
	for (int i = 0; i < 5000; i++) {
		send_request(MSG_CHECK, NULL);
	}
	wait_reply("flood", NULL);
}

static void
c_frame_too_large(void)
{
	hello();
	send_head(0x7fffffff, FRAME_REQUEST, 0, 0);
	wait_reply("frame", NULL);
}

static void
c_frame_type(void)
{
	hello();
	send_head(0, 99, 0, 0);
	wait_reply("frame", NULL);
}

static void
c_frame_flags(void)
{
	hello();
	send_head(0, FRAME_KEEPALIVE, 0x80, 0);
	wait_reply("frame", NULL);
}

static void
c_frame_zero(void)
{
	hello();
	send_head(0, FRAME_KEEPALIVE, 0, 1);
	wait_reply("frame", NULL);
}

static void
c_frame_of_agent(void)
{
	hello();
	send_frame(FRAME_REPLY, "12345678", 8);
	wait_reply("frame", NULL);
}

static void
c_frame_cut(void)
{
	hello();
	send_head(1000, FRAME_REQUEST, 0, 0);
	send_raw("half of it", 10);
}

static void
c_zstd(void)
{
	to_pass();
	send_head(16, FRAME_BATCH, FRAME_F_ZSTD, 0);
	send_raw("0123456789abcdef", 16);
	pass(MSG_PASS_END, true);
}

/* A CHUNK whose content is `z`, compression being agreed on. */
static void
zstd_chunk(const void *z, size_t len)
{
	uint8_t head[TREE_CHUNK_HEAD] = { 1 };

	caps_wanted = FRAME_CAP_ZSTD;
	to_pass();
	tree_put_file(&defs, 1, TREE_ROOT, "f", 1,
		      &(struct meta){ .type = FS_REG, .size = 1 << 30 });
	send_batch();
	send_head(sizeof(head) + (uint32_t)len, FRAME_CHUNK, FRAME_F_ZSTD, 0);
	send_raw(head, sizeof(head));
	send_raw(z, len);
	pass(MSG_PASS_END, true);
}

static void
c_zstd_junk(void)
{
	zstd_chunk("0123456789abcdef", 16);
}

/* 64 MB of nothing in a few KB. */
static void
c_zstd_bomb(void)
{
	static uint8_t z[1 << 16];
	size_t len = 64 << 20, n;
	void *zeros = calloc(1, len);

	if (!zeros) {
		die("calloc");
	}
	n = ZSTD_compress(z, sizeof(z), zeros, len, 3);
	free(zeros);
	zstd_chunk(z, n);
}

/* No content is ever in such a frame. */
static void
c_zstd_request(void)
{
	caps_wanted = FRAME_CAP_ZSTD;
	hello();
	send_head(6, FRAME_REQUEST, FRAME_F_ZSTD, 0);
	send_raw("\1\0\0\0\2\0", 6);
	wait_reply("request", NULL);
}

static void
c_no_hello(void)
{
	greeting();
	open_session();
}

static void
c_hello_twice(void)
{
	hello();
	hello_as(FRAME_PROTO, 1000);
}

static void
c_hello_version(void)
{
	greeting();
	hello_as(FRAME_PROTO + 1, 1000);
}

static void
c_hello_keepalive(void)
{
	greeting();
	hello_as(FRAME_PROTO, 1);
}

static void
c_unknown_method(void)
{
	hello();
	open_session();
	call(4711, NULL, NULL);
	call(0, NULL, NULL);
}

static void
c_no_open(void)
{
	hello();
	check();
	call(MSG_RESERVE, NULL, NULL);
	pass(MSG_PASS_BEGIN, true);
	take_over(1);
	call(MSG_NEVER, NULL, NULL);
	call(MSG_FINISH, NULL, NULL);
}

static void
c_no_pass(void)
{
	to_reserve();
	pass(MSG_PASS_END, true);
	call(MSG_SYNC, NULL, NULL);
	take_over(epoch);
	call(MSG_FINISH, NULL, NULL);
}

static void
c_no_reserve(void)
{
	hello();
	open_session();
	pass(MSG_PASS_BEGIN, true);
	take_over(epoch);
}

static void
c_no_sync(void)
{
	to_pass();
	root();
	send_batch();
	pass(MSG_PASS_END, false);
	take_over(epoch);
	wait_reply("second", NULL);
}

static void
c_old_epoch(void)
{
	to_pass();
	root();
	send_batch();
	pass(MSG_PASS_END, true);
	call(MSG_SYNC, NULL, NULL);
	take_over(epoch - 1);
	take_over(epoch + 1);
	call(MSG_ABORT, NULL, NULL); /* malformed: no body */
}

static void
c_after_never(void)
{
	to_pass();
	root();
	send_batch();
	pass(MSG_PASS_END, true);
	call(MSG_SYNC, NULL, NULL);
	call(MSG_NEVER, NULL, NULL);
	take_over(epoch);
	pass(MSG_PASS_BEGIN, true);
}

/* Start a plain directory; or in a state that is none. */
static void
start_in(uint8_t state)
{
	struct msg_take_over m = { .start = state };
	BODY(b, n);

	to_pass();
	root();
	send_batch();
	pass(MSG_PASS_END, true);
	call(MSG_SYNC, NULL, NULL);
	m.epoch = epoch;
	msg_put_take_over(&n, &m);
	call(MSG_TAKE_OVER, &b, NULL);
	buf_fini(&b);
}

static void
c_start(void)
{
	start_in(CT_RUNNING);
}

static void
c_start_state(void)
{
	start_in(CT_STOPPED);
}

static void
c_role(void)
{
	hello();
	open_session();
	put_file("../../../../etc/evil", 4);
	put_file("/etc/evil", 4);
	put_file("a/../../evil", 4);
	put_file("..", 4);
	put_file("", 4);
	check();
	call(MSG_RESERVE, NULL, NULL);
}

static void
c_role_foreign(void)
{
	hello();
	open_session();
	put_file("config", 4);
	put_file("rootfs", 4);
	put_file("what is this", 4);
	put_file("evil", 4);
	check();
	call(MSG_RESERVE, NULL, NULL);
}

static void
c_many_roles(void)
{
	char name[32];

	hello();
	open_session();
	for (int i = 0; i < 3000 && !gone; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		put_file(name, 60000);
	}
}

/* ---- later passes ---- */

/* In the tree: a small file "f", a large one "big" of three blocks, "out", a
 * symbolic link to a directory outside, and "d" with "f" in it. Then a second
 * pass is begun. */
static void
to_update(void)
{
	to_reserve();
	pass_final = false;
	pass(MSG_PASS_BEGIN, true);
	root();
	file(0, "f");
	link_to(0, "out", "/outside");
	dir_def(1, 0, "d");
	tree_put_entry(&body, 1, false, 0, "d", 1, &dir_meta);
	file(1, "f");
	file_def(3, 0, "big", 3 * TREE_BLOCK);
	file_end(3, 1, 3 * TREE_BLOCK);
	send_batch();
	chunk(3, 0, 3 * TREE_BLOCK);
	pass(MSG_PASS_END, true);
	pass_number = 2;
	pass_final = true;
	pass(MSG_PASS_BEGIN, true);
}

static void
remove_in(uint32_t dir, const char *name)
{
	tree_put_remove(&body, dir, name, strlen(name));
}

static void
update_in(uint32_t n, uint32_t dir, const char *name, uint64_t size)
{
	tree_put_update(&defs, n, dir, name, strlen(name), size);
}

static void
meta_in(uint32_t dir, const char *name, enum fs_type type, uint32_t group)
{
	struct meta m = { .type = type, .perm = 0777, .size = 5 };

	tree_put_meta(&body, group, group != 0, dir, name, strlen(name), &m);
}

static void
c_update(void)
{
	to_update();
	update_in(4, 0, "big", 3 * TREE_BLOCK);
	tree_put_hole(&defs, 4, TREE_BLOCK, TREE_BLOCK);
	send_batch();
	chunk(4, 0, TREE_BLOCK);
	file_end(4, 1, 3 * TREE_BLOCK);
	remove_in(0, "f");
	dir_def(1, 0, "d");
	meta_in(1, "f", FS_REG, 0);
	push_through();
}

static void
c_remove_below_link(void)
{
	to_update();
	dir_def(1, 0, "out");
	remove_in(1, "d");
	remove_in(1, "f");
	push_through();
}

static void
c_remove_dotdot(void)
{
	to_update();
	remove_in(0, "..");
	push_through();
}

static void
c_remove_root(void)
{
	to_update();
	remove_in(0, "");
	push_through();
}

static void
c_remove_path(void)
{
	to_update();
	remove_in(0, "d/f");
	push_through();
}

static void
c_meta_below_link(void)
{
	to_update();
	dir_def(1, 0, "out");
	meta_in(1, "f", FS_REG, 0);
	push_through();
}

static void
c_meta_of_link(void)
{
	to_update();
	meta_in(0, "out", FS_REG, 0);
	push_through();
}

static void
c_meta_group(void)
{
	to_update();
	meta_in(0, "f", FS_REG, 3);
	push_through();
}

static void
c_update_below_link(void)
{
	to_update();
	dir_def(1, 0, "out");
	update_in(4, 1, "f", 3 * TREE_BLOCK);
	send_batch();
	chunk(4, 0, TREE_BLOCK);
	push_through();
}

static void
c_update_of_link(void)
{
	to_update();
	update_in(4, 0, "out", 3 * TREE_BLOCK);
	send_batch();
	chunk(4, 0, TREE_BLOCK);
	push_through();
}

static void
c_update_small(void)
{
	to_update();
	update_in(4, 0, "f", 3 * TREE_BLOCK);
	send_batch();
	chunk(4, 0, TREE_BLOCK);
	push_through();
}

static void
c_update_twice(void)
{
	to_update();
	update_in(4, 0, "big", 3 * TREE_BLOCK);
	update_in(5, 0, "big", 2 * TREE_BLOCK);
	send_batch();
	chunk(4, 0, TREE_BLOCK);
	chunk(5, 0, TREE_BLOCK);
	push_through();
}

static void
c_update_huge(void)
{
	to_update();
	update_in(4, 0, "big", INT64_MAX);
	tree_put_hole(&defs, 4, 0, INT64_MAX);
	send_batch();
	file_end(4, 0, INT64_MAX);
	push_through();
}

static void
c_hole_beyond(void)
{
	to_update();
	update_in(4, 0, "big", 3 * TREE_BLOCK);
	tree_put_hole(&defs, 4, 2 * TREE_BLOCK, 2 * TREE_BLOCK);
	push_through();
}

static void
c_hole_wraps(void)
{
	to_update();
	update_in(4, 0, "big", 3 * TREE_BLOCK);
	tree_put_hole(&defs, 4, TREE_BLOCK, UINT64_MAX - 1);
	push_through();
}

static void
c_update_first(void)
{
	to_pass();
	remove_in(0, "f");
	push_through();
}

static void
c_pass_skipped(void)
{
	to_update();
	send_batch();
	pass(MSG_PASS_END, true);
	pass_number = 4;
	pass(MSG_PASS_BEGIN, true);
}

static void
c_pass_after_final(void)
{
	to_pass();
	root();
	send_batch();
	pass(MSG_PASS_END, true);
	pass_number = 2;
	pass(MSG_PASS_BEGIN, true);
	take_over(epoch);
}

static void
c_open_only(void)
{
	to_reserve();
}

static void
c_trailing(void)
{
	struct msg_pass m = { .number = 1 };
	BODY(b, n);

	to_reserve();
	msg_put_pass(&n, &m);
	enc_u8(&n, 0);
	call(MSG_PASS_BEGIN, &b, NULL);
	buf_fini(&b);
}

static void
c_random(void)
{
	uint64_t x = 88172645463325252ull;
	uint8_t junk[8192];

	hello();
	for (int k = 0; k < 64 && !gone; k++) {
		for (size_t i = 0; i < sizeof(junk); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			junk[i] = (uint8_t)x;
		}
		send_raw(junk, sizeof(junk));
	}
	wait_reply("junk", NULL);
}

static const struct row {
	const char *name;
	void (*run)(void);
} rows[] = {
	{ "honest", c_honest },
	{ "link-then-below", c_link_then_below },
	{ "below-then-link", c_below_then_link },
	{ "link-in-the-way", c_link_in_the_way },
	{ "dotdot", c_dotdot },
	{ "dotdot-dir", c_dotdot_dir },
	{ "dot", c_dot },
	{ "absolute", c_absolute },
	{ "slash", c_slash },
	{ "slash-dir", c_slash_dir },
	{ "nul-in-name", c_nul_in_name },
	{ "empty-name", c_empty_name },
	{ "hard-link-outside", c_hard_link_outside },
	{ "hard-link-to-link", c_hard_link_to_link },
	{ "link-without-group", c_link_without_group },
	{ "ring", c_ring },
	{ "own-parent", c_own_parent },
	{ "twice-defined", c_twice_defined },
	{ "root-defined", c_root_defined },
	{ "undefined-dir", c_undefined_dir },
	{ "huge-dir-id", c_huge_dir_id },
	{ "huge-group", c_huge_group },
	{ "piece-beyond", c_piece_beyond },
	{ "piece-wraps", c_piece_wraps },
	{ "piece-short", c_piece_short },
	{ "huge-size", c_huge_size },
	{ "chunk-beyond", c_chunk_beyond },
	{ "chunk-wraps", c_chunk_wraps },
	{ "chunk-of-none", c_chunk_of_none },
	{ "chunk-empty", c_chunk_empty },
	{ "chunk-missing", c_chunk_missing },
	{ "chunk-too-many", c_chunk_too_many },
	{ "many-files", c_many_files },
	{ "file-def-outside", c_file_def_outside },
	{ "file-over-link", c_file_over_link },
	{ "twice-one-name", c_twice_one_name },
	{ "garbage-batch", c_garbage_batch },
	{ "bad-time", c_bad_time },
	{ "bad-xattrs", c_bad_xattrs },
	{ "no-root", c_no_root },
	{ "content-outside-pass", c_content_outside_pass },
	{ "content-after-pass", c_content_after_pass },
	{ "no-credit", c_no_credit },
	{ "request-flood", c_request_flood },
	{ "frame-too-large", c_frame_too_large },
	{ "frame-type", c_frame_type },
	{ "frame-flags", c_frame_flags },
	{ "frame-zero", c_frame_zero },
	{ "frame-of-agent", c_frame_of_agent },
	{ "frame-cut", c_frame_cut },
	{ "zstd", c_zstd },
	{ "zstd-bomb", c_zstd_bomb },
	{ "zstd-junk", c_zstd_junk },
	{ "zstd-request", c_zstd_request },
	{ "no-hello", c_no_hello },
	{ "hello-twice", c_hello_twice },
	{ "hello-version", c_hello_version },
	{ "hello-keepalive", c_hello_keepalive },
	{ "unknown-method", c_unknown_method },
	{ "no-open", c_no_open },
	{ "no-pass", c_no_pass },
	{ "no-reserve", c_no_reserve },
	{ "no-sync", c_no_sync },
	{ "old-epoch", c_old_epoch },
	{ "after-never", c_after_never },
	{ "start", c_start },
	{ "start-state", c_start_state },
	{ "role", c_role },
	{ "role-foreign", c_role_foreign },
	{ "many-roles", c_many_roles },
	{ "update", c_update },
	{ "remove-below-link", c_remove_below_link },
	{ "remove-dotdot", c_remove_dotdot },
	{ "remove-root", c_remove_root },
	{ "remove-path", c_remove_path },
	{ "meta-below-link", c_meta_below_link },
	{ "meta-of-link", c_meta_of_link },
	{ "meta-group", c_meta_group },
	{ "update-below-link", c_update_below_link },
	{ "update-of-link", c_update_of_link },
	{ "update-small", c_update_small },
	{ "update-twice", c_update_twice },
	{ "update-huge", c_update_huge },
	{ "hole-beyond", c_hole_beyond },
	{ "hole-wraps", c_hole_wraps },
	{ "update-first", c_update_first },
	{ "pass-skipped", c_pass_skipped },
	{ "pass-after-final", c_pass_after_final },
	{ "open-only", c_open_only },
	{ "trailing", c_trailing },
	{ "random", c_random },
};

static const struct cases cases = CASES("evilclient", rows);

int
main(int argc, char **argv)
{
	const struct row *row;

	if (cases_list(&cases, argc, argv)) {
		return 0;
	}
	if (argc < 6) {
		fprintf(stderr, "usage: evilclient CASE KIND ID NEW-PLACE "
				"AGENT [ARG ...]\n");
		return 2;
	}
	row = cases_find(&cases, argv[1], strlen(argv[1]));
	if (!row) {
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	kind = argv[2];
	id = argv[3];
	place = argv[4];
	memset(session, 0xe1, sizeof(session));
	snprintf((char *)session, sizeof(session), "%ld", (long)getpid());
	start(argv + 5);
	row->run();
	return finish();
}
