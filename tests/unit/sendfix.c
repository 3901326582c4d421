/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sendfix: see the header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sendfix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytechan.h"
#include "base/io.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/tree.h"

static void
reply_frame(struct sendfix *x, uint8_t type, const struct buf *b)
{
	struct frame_header h = { (uint32_t)b->len, type, 0 };
	uint8_t head[FRAME_HEADER];

	frame_put_header(head, &h);
	/* The client may be gone already. */
	if (io_write_full(x->fds[1], head, sizeof(head), "agent", NULL) == 0) {
		io_write_full(x->fds[1], b->data, b->len, "agent", NULL);
	}
}

static void
on_request(struct sendfix *x, const uint8_t *p, size_t len)
{
	struct msg_hello_reply h = { .version = (char *)"test",
				     .boot_id = (char *)"boot",
				     .hostname = (char *)"b",
				     .kernel = (char *)"6",
				     .machine = (char *)"m" };
	struct buf b = BUF_MAX(100000);
	struct dec d;
	struct enc n;
	uint32_t id;

	dec_init(&d, p, len);
	id = dec_u32(&d);
	enc_init(&n, &b, NULL);
	enc_u32(&n, id);
	enc_u32(&n, 0);
	enc_str(&n, NULL);
	if (dec_u16(&d) == MSG_HELLO) {
		msg_put_hello_reply(&n, &h);
	}
	reply_frame(x, FRAME_REPLY, &b);
	buf_fini(&b);
}

/* ---- writing down ---- */

static void
path_of(struct sendfix *x, uint32_t dir, const char *name, size_t len,
	char *out, size_t size)
{
	const char *parent = dir < 4096 && x->dirs[dir] ? x->dirs[dir] : "?";

	if (!len) {
		snprintf(out, size, ".");
	} else if (dir == TREE_ROOT) {
		snprintf(out, size, "%.*s", (int)len, name);
	} else {
		snprintf(out, size, "%s/%.*s", parent, (int)len, name);
	}
}

static void
line(struct sendfix *x, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_printf(&x->log, NULL, "%s\n", text);
}

static void
on_record(struct sendfix *x, const struct tree_record *r, struct tree_in *in)
{
	char path[300], group[30] = "";
	uint64_t bytes = 0;

	path_of(x, r->dir, r->name, r->name_len, path, sizeof(path));
	if (r->linked) {
		snprintf(group, sizeof(group), " =%u", r->id);
	}
	for (uint32_t i = 0; i < r->pieces; i++) {
		const uint8_t *data;
		uint64_t off;
		uint32_t len;

		if (tree_get_piece(in, &off, &data, &len, NULL) < 0) {
			line(x, "MALFORMED");
			return;
		}
		bytes += len;
		for (uint32_t k = 0; k < len; k++) {
			x->crc += data[k];
		}
	}
	switch (r->kind) {
	case TREE_DIR:
		if (r->id < 4096) {
			free(x->dirs[r->id]);
			x->dirs[r->id] = strdup(path);
		}
		break;
	case TREE_FILE:
		line(x, "FILE %s %llu", path, (unsigned long long)r->size);
		break;
	case TREE_UPDATE:
		line(x, "UPDATE %s %llu", path, (unsigned long long)r->size);
		break;
	case TREE_HOLE:
		line(x, "HOLE %llu %llu", (unsigned long long)r->off,
		     (unsigned long long)r->len);
		break;
	case TREE_ENTRY:
		line(x, "ENTRY %s %llu%s", path, (unsigned long long)bytes,
		     group);
		break;
	case TREE_LINK:
		line(x, "LINK %s =%u", path, r->id);
		break;
	case TREE_FILE_END:
		line(x, "END %llu%s", (unsigned long long)r->chunks, group);
		break;
	case TREE_REMOVE:
		line(x, "REMOVE %s", path);
		break;
	case TREE_META:
		line(x, "META %s%s", path, group);
		break;
	}
}

static void
on_batch(struct sendfix *x, const uint8_t *p, size_t len)
{
	struct tree_in body, defs;
	struct tree_record r;
	int rc = tree_split(p, len, &body, &defs, NULL);

	while (rc == 0 && (rc = tree_get(&defs, &r, NULL)) == 1) {
		on_record(x, &r, &defs);
		rc = 0;
	}
	while (rc == 0 && (rc = tree_get(&body, &r, NULL)) == 1) {
		on_record(x, &r, &body);
		rc = 0;
	}
	if (rc < 0) {
		line(x, "MALFORMED");
	}
}

static void
on_content(struct sendfix *x, uint8_t type, const uint8_t *p, size_t len)
{
	struct buf b = BUF_MAX(8);
	struct dec d;
	struct enc n;

	pthread_mutex_lock(&x->lock);
	while (x->hold) {
		x->holding = true;
		pthread_cond_broadcast(&x->changed);
		pthread_cond_wait(&x->changed, &x->lock);
	}
	x->holding = false;
	x->frames++;
	x->bytes += len;
	if (!x->quiet && type == FRAME_BATCH) {
		on_batch(x, p, len);
	} else if (!x->quiet) {
		uint64_t off;

		dec_init(&d, p, len);
		dec_u32(&d);
		off = dec_u64(&d);
		line(x, "CHUNK %llu %zu", (unsigned long long)off, d.left);
		for (size_t i = 0; i < d.left; i++) {
			x->crc += d.p[i];
		}
	}
	enc_init(&n, &b, NULL);
	enc_u64(&n, x->frames);
	pthread_mutex_unlock(&x->lock);
	reply_frame(x, FRAME_ACK, &b);
	buf_fini(&b);
}

static void *
agent(void *arg)
{
	struct sendfix *x = arg;
	char hello[FRAME_GREETING_MAX];
	uint8_t head[FRAME_HEADER], *p = malloc(FRAME_PAYLOAD_MAX);
	struct frame_header h;

	io_write_full(x->fds[1], hello, frame_put_greeting(hello, 0), "agent",
		      NULL);
	while (io_read_full(x->fds[1], head, sizeof(head), "agent", NULL) ==
		       sizeof(head) &&
	       frame_get_header(head, &h, NULL) == 0 &&
	       io_read_full(x->fds[1], p, h.len, "agent", NULL) ==
		       (ssize_t)h.len &&
	       h.type != FRAME_GOODBYE) {
		if (h.type == FRAME_REQUEST) {
			on_request(x, p, h.len);
		} else if (h.type == FRAME_BATCH || h.type == FRAME_CHUNK) {
			on_content(x, h.type, p, h.len);
		}
	}
	free(p);
	close(x->fds[1]);
	return NULL;
}

void
sendfix_open(struct sendfix *x)
{
	struct link_opts o = { .greeting_ms = 10000,
			       .keepalive_ms = 2000,
			       .host = "b" };
	struct msg_hello_reply hello;
	struct err e = { 0 };

	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->changed, NULL);
	buf_init(&x->log, 1 << 24);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, x->fds), 0);
	assert_int_equal(digest_key_new(&x->key, &e), 0);
	assert_int_equal(pthread_create(&x->thread, NULL, agent, x), 0);
	assert_int_equal(link_open(bytechan_fds(x->fds[0], x->fds[0], &e), &o,
				   &x->key, &x->l, &hello, &e),
			 0);
	msg_hello_reply_fini(&hello);
}

void
sendfix_settle(struct sendfix *x)
{
	struct err e = { 0 };

	/* Stays behind all content that was queued before. */
	assert_int_equal(link_call(x->l, MSG_SYNC, NULL, 0, NULL, 60000, &e),
			 0);
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *
sendfix_lines(struct sendfix *x)
{
	static char out[100000];
	char *lines[2000], *s, *save = NULL;
	size_t n = 0, at = 0;

	sendfix_settle(x);
	pthread_mutex_lock(&x->lock);
	s = buf_cstr(&x->log, NULL);
	for (s = strtok_r(s, "\n", &save); s && n < 2000;
	     s = strtok_r(NULL, "\n", &save)) {
		lines[n++] = s;
	}
	qsort(lines, n, sizeof(*lines), by_text);
	out[0] = '\0';
	for (size_t i = 0; i < n && at < sizeof(out) - 1000; i++) {
		at += (size_t)sprintf(out + at, "%s\n", lines[i]);
	}
	buf_clear(&x->log);
	for (size_t i = 0; i < 4096; i++) {
		free(x->dirs[i]);
		x->dirs[i] = NULL;
	}
	pthread_mutex_unlock(&x->lock);
	return out;
}

void
sendfix_held(struct sendfix *x)
{
	pthread_mutex_lock(&x->lock);
	while (!x->holding) {
		pthread_cond_wait(&x->changed, &x->lock);
	}
	pthread_mutex_unlock(&x->lock);
}

void
sendfix_release(struct sendfix *x)
{
	pthread_mutex_lock(&x->lock);
	x->hold = false;
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
}

void
sendfix_close(struct sendfix *x)
{
	sendfix_lines(x);
	link_close(x->l);
	pthread_join(x->thread, NULL);
	buf_fini(&x->log);
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->lock);
}
