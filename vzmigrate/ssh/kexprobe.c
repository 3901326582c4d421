/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kexprobe: reads a server's version and KEXINIT. Input: a stream of our own
 * (sock.h). Output: the caller's struct kexprobe. No state. The server has not
 * shown who it is, so every byte is bounded and checked.
 */
#include "config.h"

#include "ssh/kexprobe.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/sock.h"
#include "ssh/sshlist.h"

#define VERSION_MAX 255 /* RFC 4253 section 4.2, with CR and LF */
#define LINES_BYTES_MAX (64u << 10)
#define PACKET_MAX (256u << 10)
#define SKIPPED_MAX 16 /* IGNORE and DEBUG packets before KEXINIT */
#define NAME_LISTS 10
#define SLICE_MS 200 /* how often `stop` is looked at */

/* RFC 4253 section 12. */
enum msg {
	MSG_DISCONNECT = 1,
	MSG_IGNORE = 2,
	MSG_UNIMPLEMENTED = 3,
	MSG_DEBUG = 4,
	MSG_KEXINIT = 20,
};

/* Bytes still to be read. */
struct in {
	const uint8_t *p;
	size_t left;
};

static uint32_t
be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static bool
take(struct in *in, size_t n, const uint8_t **p)
{
	if (in->left < n) {
		return false;
	}
	*p = in->p;
	in->p += n;
	in->left -= n;
	return true;
}

/* An SSH string. */
static bool
take_string(struct in *in, const uint8_t **p, size_t *n)
{
	const uint8_t *head;

	if (!take(in, 4, &head)) {
		return false;
	}
	*n = be32(head);
	return take(in, *n, p);
}

/* ---- the lines ---- */

/* The version line, after others (RFC 4253 section 4.2). 1, 0, or an error. */
static int
parse_version(struct in *in, struct kexprobe *k, struct err *e)
{
	size_t before = 0;

	for (;;) {
		const uint8_t *line = in->p;
		const uint8_t *nl = memchr(line, '\n', in->left);
		size_t n = nl ? (size_t)(nl - line) : in->left;
		bool is_version = n >= 4 && memcmp(line, "SSH-", 4) == 0;

		if (is_version && n >= VERSION_MAX) {
			return err_set(e, E_PROTOCOL,
				       "the version line is too long");
		}
		if (before + n >= LINES_BYTES_MAX) {
			return err_set(e, E_LIMIT,
				       "no SSH version in the first %u bytes",
				       LINES_BYTES_MAX);
		}
		if (!nl) {
			return 0;
		}
		in->p += n + 1;
		in->left -= n + 1;
		before += n + 1;
		if (!is_version) {
			continue;
		}
		n -= n && line[n - 1] == '\r';
		escape_bytes(k->banner, sizeof(k->banner), line, n);
		if ((n >= 8 && memcmp(line, "SSH-2.0-", 8) == 0) ||
		    (n >= 9 && memcmp(line, "SSH-1.99-", 9) == 0)) {
			return 1;
		}
		return err_set(e, E_PROTOCOL,
			       "the server does not speak SSH protocol 2: %s",
			       k->banner);
	}
}

/* ---- the packets ---- */

/* One plain packet (RFC 4253 section 6) into `payload`. 1, 0 or an error. */
static int
parse_packet(struct in *in, struct in *payload, struct err *e)
{
	uint32_t len, pad;

	if (in->left < 5) {
		return 0;
	}
	len = be32(in->p);
	pad = in->p[4];
	if (len > PACKET_MAX) {
		return err_set(e, E_LIMIT, "a packet of %u bytes", len);
	}
	if (pad < 4 || len < pad + 2 || (len + 4) % 8) {
		return err_set(e, E_PROTOCOL, "a malformed packet");
	}
	if (in->left - 4 < len) {
		return 0;
	}
	*payload = (struct in){ in->p + 5, len - pad - 1 };
	in->p += 4 + (size_t)len;
	in->left -= 4 + (size_t)len;
	return 1;
}

static int
said_goodbye(struct in *m, struct err *e)
{
	char shown[256] = "no reason given";
	const uint8_t *p;
	size_t n;

	if (take(m, 4, &p) && take_string(m, &p, &n)) {
		escape_bytes(shown, sizeof(shown), p, n);
	}
	return err_set(e, E_CLOSED, "the server hangs up: %s", shown);
}

static char *
copy_list(const uint8_t *p, size_t n, struct err *e)
{
	char *list;

	for (size_t i = 0; i < n; i++) {
		if (p[i] <= ' ' || p[i] > '~') {
			err_set(e, E_PROTOCOL,
				"a list of algorithms with a byte %#x in it",
				p[i]);
			return NULL;
		}
	}
	list = strndup((const char *)p, n);
	if (!list) {
		err_nomem(e);
	}
	return list;
}

static int
parse_kexinit(struct in *m, struct kexprobe *k, struct err *e)
{
	const uint8_t *p;
	size_t n;

	if (!take(m, 16, &p)) { /* cookie */
		return err_set(e, E_PROTOCOL, "a KEXINIT that is too short");
	}
	for (int i = 0; i < NAME_LISTS; i++) {
		if (!take_string(m, &p, &n)) {
			return err_set(e, E_PROTOCOL,
				       "a KEXINIT whose lists are cut short");
		}
		/* Compression and languages are of no interest. */
		if (i < KEXLOG_LISTS && !(k->lists[i] = copy_list(p, n, e))) {
			return e ? e->code : E_PROTOCOL;
		}
	}
	/* first_kex_packet_follows, reserved */
	if (!take(m, 5, &p) || m->left) {
		return err_set(e, E_PROTOCOL, "a KEXINIT with a wrong end");
	}
	k->strict_kex = sshlist_has_name(k->lists[KEXLOG_KEX],
					 "kex-strict-s-v00@openssh.com");
	return 1;
}

static int
parse_packets(struct in *in, struct kexprobe *k, struct err *e)
{
	for (int i = 0; i <= SKIPPED_MAX; i++) {
		const uint8_t *type;
		struct in m = { 0 };
		int rc = parse_packet(in, &m, e);

		if (rc <= 0) {
			return rc;
		}
		if (!take(&m, 1, &type)) {
			return err_set(e, E_PROTOCOL, "an empty packet");
		}
		switch (*type) {
		case MSG_KEXINIT:
			return parse_kexinit(&m, k, e);
		case MSG_DISCONNECT:
			return said_goodbye(&m, e);
		case MSG_IGNORE:
		case MSG_UNIMPLEMENTED:
		case MSG_DEBUG:
			break;
		default:
			return err_set(e, E_PROTOCOL,
				       "a packet of type %u before KEXINIT",
				       *type);
		}
	}
	return err_set(e, E_LIMIT, "too many packets before KEXINIT");
}

int
kexprobe_parse(const uint8_t *data, size_t len, struct kexprobe *k,
	       struct err *e)
{
	struct in in = { data, len };
	struct err own = { 0 };
	int rc;

	*k = (struct kexprobe){ 0 };
	rc = parse_version(&in, k, &own);
	if (rc > 0) {
		rc = parse_packets(&in, k, &own);
	}
	if (rc <= 0) {
		kexprobe_fini(k);
	}
	if (rc < 0 && e) {
		*e = own;
	}
	return rc;
}

void
kexprobe_fini(struct kexprobe *k)
{
	for (int i = 0; i < KEXLOG_LISTS; i++) {
		free(k->lists[i]);
	}
	*k = (struct kexprobe){ 0 };
}

/* ---- the connection ---- */

static int
wait_for(int fd, short events, int64_t deadline, const int *stop, struct err *e)
{
	for (;;) {
		struct pollfd pf = { fd, events, 0 };
		int left = io_left_ms(deadline);
		int rc = poll(&pf, 1,
			      left < 0 || left > SLICE_MS ? SLICE_MS : left);

		if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED)) {
			return err_set(e, E_CANCELLED, "stopped");
		}
		if (rc > 0) {
			return 0;
		}
		if (rc < 0 && errno != EINTR) {
			return err_sys(e, errno, "poll");
		}
		if (io_left_ms(deadline) == 0) {
			return err_set(e, E_TIMEOUT,
				       "the server does not say what it "
				       "offers");
		}
	}
}

static int
send_version(int fd, int64_t deadline, const int *stop, struct err *e)
{
	static const char line[] = "SSH-2.0-vzmigrate_" PACKAGE_VERSION "\r\n";
	size_t at = 0;

	while (at < sizeof(line) - 1) {
		ssize_t n;
		int rc = wait_for(fd, POLLOUT, deadline, stop, e);

		if (rc < 0) {
			return rc;
		}
		n = send(fd, line + at, sizeof(line) - 1 - at,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0) {
			at += (size_t)n;
		} else if (errno != EAGAIN && errno != EINTR) {
			return err_set(e, E_CLOSED, "the server hung up: %s",
				       strerror(errno));
		}
	}
	return 0;
}

static int
read_some(int fd, struct buf *in, struct err *e)
{
	uint8_t *p = buf_reserve(in, 16384, e);
	ssize_t n;

	if (!p) {
		return e ? e->code : E_LIMIT;
	}
	n = recv(fd, p, 16384, MSG_DONTWAIT);
	if (n > 0) {
		in->len += (size_t)n;
		return 0;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		return 0;
	}
	return err_set(e, E_CLOSED,
		       "the server hung up before it said what "
		       "it offers%s%s",
		       n ? ": " : "", n ? strerror(errno) : "");
}

int
kexprobe_run(const struct sshconf *c, int64_t timeout_ms, const int *stop,
	     struct kexprobe *k, struct err *e)
{
	int64_t deadline = io_deadline(timeout_ms);
	cleanup(buf_finip) struct buf in = BUF_MAX(KEXPROBE_INPUT_MAX + 16384);
	struct err own = { 0 };
	struct sock s;
	int rc;

	*k = (struct kexprobe){ 0 };
	rc = sock_open(c, timeout_ms, timeout_ms, stop, &s, &own);
	if (rc == 0) {
		rc = send_version(s.fd, deadline, stop, &own);
		while (rc == 0) {
			rc = wait_for(s.fd, POLLIN, deadline, stop, &own);
			rc = rc < 0 ? rc : read_some(s.fd, &in, &own);
			rc = rc < 0 ? rc
				    : kexprobe_parse(in.data, in.len, k, &own);
		}
		sock_close(&s);
	}
	if (rc < 0) {
		if (e) {
			*e = own;
		}
		return err_wrap(e, "%s", c->alias);
	}
	log_debug("%s: %s offers ciphers %s; MACs %s; key exchange %s; host "
		  "keys %s",
		  c->alias, k->banner, k->lists[KEXLOG_CIPHER_C2S],
		  k->lists[KEXLOG_MAC_C2S], k->lists[KEXLOG_KEX],
		  k->lists[KEXLOG_HOSTKEY]);
	return 0;
}
