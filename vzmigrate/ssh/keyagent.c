/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * keyagent: client of an ssh-agent, and the filter between it and libssh.
 * State: struct keyagent_filter with one thread; `lock` guards the key shown.
 */
#include "ssh/keyagent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>

/* libssh 0.10.6 loses its copy of an agent's list (150 bytes) when it asks for
 * it a second time; its frames are not seen, having no frame pointers. */
const char *
__lsan_default_suppressions(void)
{
	return "leak:ssh_buffer_new\n";
}
#endif

#define MESSAGE_MAX (256 * 1024) /* OpenSSH's limit */
#define LIST_WAIT_MS 10000
#define SIGN_WAIT_MS 60000

/* Message numbers of draft-miller-ssh-agent. */
#define AGENT_FAILURE 5
#define REQUEST_IDENTITIES 11
#define IDENTITIES_ANSWER 12
#define SIGN_REQUEST 13

struct keyagent_filter {
	char *path;	      /* of the real agent; owned */
	int fd;		      /* our end of the socketpair; owned */
	pthread_t thread;     /* runs serve() */
	pthread_mutex_t lock; /* for the two below */
	struct buf shown;     /* the key that libssh sees */
	struct buf real;      /* the key the agent signs with */
};

static uint32_t
be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static int
put32(struct buf *b, uint32_t n, struct err *e)
{
	uint8_t raw[4] = { (uint8_t)(n >> 24), (uint8_t)(n >> 16),
			   (uint8_t)(n >> 8), (uint8_t)n };

	return buf_append(b, raw, 4, e);
}

static int
put_string(struct buf *b, const void *data, size_t len, struct err *e)
{
	int rc = put32(b, (uint32_t)len, e);

	return rc < 0 ? rc : buf_append(b, data, len, e);
}

/* The string at *p; false where it does not fit. */
static bool
get_string(const uint8_t **p, size_t *left, const uint8_t **s, size_t *len)
{
	uint32_t n;

	if (*left < 4) {
		return false;
	}
	n = be32(*p);
	if (n > *left - 4) {
		return false;
	}
	*s = *p + 4;
	*len = n;
	*p += 4 + n;
	*left -= 4 + n;
	return true;
}

static int
connect_agent(const char *path, struct err *e)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	cleanup(close_fd) int fd = -1;

	if (strlen(path) >= sizeof(sun.sun_path)) {
		return err_set(e, E_NOT_FOUND, "the agent's path is too long");
	}
	strcpy(sun.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return err_sys(e, errno, "cannot make a socket");
	}
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0) {
		return err_set(e, E_NOT_FOUND, "no ssh-agent at %s: %s", path,
			       strerror(errno));
	}
	return steal_fd(&fd);
}

/* Read or write exactly len bytes on a non-blocking socket. 0, E_CLOSED,
 * E_TIMEOUT. */
static int
transfer(int fd, uint8_t *data, size_t len, bool writing, int64_t deadline,
	 struct err *e)
{
	while (len) {
		ssize_t n = writing ? send(fd, data, len, MSG_NOSIGNAL)
				    : recv(fd, data, len, 0);
		struct pollfd pf = { fd, writing ? POLLOUT : POLLIN, 0 };

		if (n > 0) {
			data += n;
			len -= (size_t)n;
			continue;
		}
		if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			return err_set(e, E_CLOSED, "the ssh-agent hung up");
		}
		if (poll(&pf, 1, io_left_ms(deadline)) == 0) {
			return err_set(e, E_TIMEOUT,
				       "the ssh-agent does not answer");
		}
	}
	return 0;
}

static int
send_message(int fd, const struct buf *b, int64_t deadline, struct err *e)
{
	uint8_t head[4] = { (uint8_t)(b->len >> 24), (uint8_t)(b->len >> 16),
			    (uint8_t)(b->len >> 8), (uint8_t)b->len };
	int rc = transfer(fd, head, 4, true, deadline, e);

	return rc < 0 ? rc : transfer(fd, b->data, b->len, true, deadline, e);
}

static int
receive_message(int fd, struct buf *b, int64_t deadline, struct err *e)
{
	uint8_t head[4], *room;
	int rc = transfer(fd, head, 4, false, deadline, e);
	uint32_t len;

	if (rc < 0) {
		return rc;
	}
	len = be32(head);
	if (len == 0 || len > MESSAGE_MAX) {
		return err_set(e, E_PROTOCOL, "the ssh-agent sent %u bytes",
			       len);
	}
	buf_clear(b);
	room = buf_reserve(b, len, e);
	if (!room) {
		return E_NOMEM;
	}
	rc = transfer(fd, room, len, false, deadline, e);
	b->len = rc < 0 ? 0 : len;
	return rc;
}

/* One question to the agent. */
static int
talk(const char *path, const struct buf *ask, struct buf *answer, int64_t ms,
     struct err *e)
{
	cleanup(close_fd) int fd = connect_agent(path, e);
	int64_t deadline = io_deadline(ms);
	int rc;

	if (fd < 0) {
		return fd;
	}
	rc = send_message(fd, ask, deadline, e);
	return rc < 0 ? rc : receive_message(fd, answer, deadline, e);
}

static int
keep_key(struct keyagent_keys *keys, const uint8_t *blob, size_t len,
	 const uint8_t *comment, size_t comment_len, struct err *e)
{
	struct keyagent_key *v = realloc(keys->v, (keys->n + 1) * sizeof(*v)),
			    *k;

	if (!v) {
		return err_nomem(e);
	}
	keys->v = v;
	k = &v[keys->n++];
	k->blob = malloc(len ? len : 1);
	k->len = len;
	k->comment = strndup((const char *)comment, comment_len);
	if (!k->blob || !k->comment) {
		return err_nomem(e);
	}
	memcpy(k->blob, blob, len);
	return 0;
}

static int
parse_keys(struct keyagent_keys *keys, const struct buf *b, struct err *e)
{
	const uint8_t *p = b->data + 5, *blob, *comment;
	size_t left, blob_len, comment_len;
	uint32_t count;

	if (b->len < 5 || b->data[0] != IDENTITIES_ANSWER) {
		return err_set(e, E_PROTOCOL, "the ssh-agent lists no keys");
	}
	left = b->len - 5;
	count = be32(b->data + 1);
	if (count > KEYAGENT_KEYS_MAX) {
		return err_set(e, E_LIMIT, "the ssh-agent holds %u keys",
			       count);
	}
	while (count--) {
		int rc;

		if (!get_string(&p, &left, &blob, &blob_len) ||
		    !get_string(&p, &left, &comment, &comment_len)) {
			return err_set(e, E_PROTOCOL,
				       "the ssh-agent's list is malformed");
		}
		rc = keep_key(keys, blob, blob_len, comment, comment_len, e);
		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

int
keyagent_list(const char *path, struct keyagent_keys *keys, struct err *e)
{
	cleanup(buf_finip) struct buf ask, answer;
	uint8_t type = REQUEST_IDENTITIES;
	int rc;

	*keys = (struct keyagent_keys){ NULL, 0 };
	buf_init(&ask, 16);
	buf_init(&answer, MESSAGE_MAX);
	rc = buf_append(&ask, &type, 1, e);
	if (rc == 0) {
		rc = talk(path, &ask, &answer, LIST_WAIT_MS, e);
	}
	if (rc == 0) {
		rc = parse_keys(keys, &answer, e);
	}
	if (rc < 0) {
		keyagent_keys_fini(keys);
	}
	return rc;
}

void
keyagent_keys_fini(struct keyagent_keys *keys)
{
	for (size_t i = 0; i < keys->n; i++) {
		free(keys->v[i].blob);
		free(keys->v[i].comment);
	}
	free(keys->v);
	*keys = (struct keyagent_keys){ NULL, 0 };
}

static int
answer_list(struct keyagent_filter *f, struct buf *out)
{
	uint8_t type = IDENTITIES_ANSWER;
	int rc;

	pthread_mutex_lock(&f->lock);
	buf_clear(out);
	rc = buf_append(out, &type, 1, NULL);
	rc = rc < 0 ? rc : put32(out, f->shown.len ? 1 : 0, NULL);
	if (rc == 0 && f->shown.len) {
		rc = put_string(out, f->shown.data, f->shown.len, NULL);
		rc = rc < 0 ? rc : put_string(out, "agent", 5, NULL);
	}
	pthread_mutex_unlock(&f->lock);
	return rc;
}

/* Put the real key into a sign request and ask the agent. */
static int
answer_sign(struct keyagent_filter *f, const struct buf *in, struct buf *out)
{
	const uint8_t *p = in->data + 1, *key;
	size_t left = in->len - 1, key_len;
	uint8_t type = SIGN_REQUEST;
	cleanup(buf_finip) struct buf ask;
	int rc = E_PROTOCOL;

	buf_init(&ask, MESSAGE_MAX);
	if (!get_string(&p, &left, &key, &key_len)) {
		return rc;
	}
	pthread_mutex_lock(&f->lock);
	if (key_len == f->shown.len &&
	    memcmp(key, f->shown.data, key_len) == 0) {
		rc = buf_append(&ask, &type, 1, NULL);
		rc = rc < 0 ? rc
			    : put_string(&ask, f->real.data, f->real.len, NULL);
	}
	pthread_mutex_unlock(&f->lock);
	rc = rc < 0 ? rc : buf_append(&ask, p, left, NULL);
	return rc < 0 ? rc : talk(f->path, &ask, out, SIGN_WAIT_MS, NULL);
}

static void *
serve(void *arg)
{
	struct keyagent_filter *f = arg;
	struct buf in, out;

	buf_init(&in, MESSAGE_MAX);
	buf_init(&out, MESSAGE_MAX);
	while (receive_message(f->fd, &in, IO_FOREVER, NULL) == 0) {
		int rc = E_UNSUPPORTED;

		if (in.data[0] == REQUEST_IDENTITIES) {
			rc = answer_list(f, &out);
		} else if (in.data[0] == SIGN_REQUEST) {
			rc = answer_sign(f, &in, &out);
		}
		if (rc < 0) {
			uint8_t no = AGENT_FAILURE;

			buf_clear(&out);
			buf_append(&out, &no, 1, NULL);
		}
		if (send_message(f->fd, &out, io_deadline(LIST_WAIT_MS), NULL) <
		    0) {
			break;
		}
	}
	/* What is not served any more must be seen as gone. */
	shutdown(f->fd, SHUT_RDWR);
	buf_fini(&in);
	buf_fini(&out);
	return NULL;
}

/* The thread takes no signals: they are the main program's. */
static int
start_thread(struct keyagent_filter *f, struct err *e)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&f->thread, NULL, serve, f);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc ? err_sys(e, rc, "cannot start a thread") : 0;
}

int
keyagent_filter_start(const char *path, struct keyagent_filter **out, int *fd,
		      struct err *e)
{
	struct keyagent_filter *f = calloc(1, sizeof(*f));
	int pair[2], rc;

	*out = NULL;
	*fd = -1;
	if (!f) {
		return err_nomem(e);
	}
	buf_init(&f->shown, MESSAGE_MAX);
	buf_init(&f->real, MESSAGE_MAX);
	pthread_mutex_init(&f->lock, NULL);
	f->path = strdup(path);
	if (!f->path ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		free(f->path);
		free(f);
		return err_sys(e, errno, "cannot make a socketpair");
	}
	f->fd = pair[0];
	rc = io_set_nonblock(f->fd, true, e);
	if (rc == 0) {
		rc = start_thread(f, e);
	}
	if (rc < 0) {
		close(pair[0]);
		close(pair[1]);
		free(f->path);
		free(f);
		return rc;
	}
	*fd = pair[1];
	*out = f;
	return 0;
}

int
keyagent_filter_set(struct keyagent_filter *f, const uint8_t *shown,
		    size_t shown_len, const uint8_t *real, size_t real_len,
		    struct err *e)
{
	int rc;

	pthread_mutex_lock(&f->lock);
	buf_clear(&f->shown);
	buf_clear(&f->real);
	rc = buf_append(&f->shown, shown, shown_len, e);
	rc = rc < 0 ? rc : buf_append(&f->real, real, real_len, e);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

void
keyagent_filter_end(struct keyagent_filter *f)
{
	if (!f) {
		return;
	}
	shutdown(f->fd, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->fd);
	pthread_mutex_destroy(&f->lock);
	buf_fini(&f->shown);
	buf_fini(&f->real);
	free(f->path);
	free(f);
}
