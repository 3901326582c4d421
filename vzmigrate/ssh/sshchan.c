/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshchan: pumps one exec channel of a non-blocking session from an ssh_event
 * that also holds an eventfd for wakes. All incoming data is consumed in
 * libssh's callback, on both streams: what is left unread would stop the
 * remote command, and libssh never reports the end of a channel with unread
 * stderr (it hangs for ever in ssh_channel_write).
 * State: struct sshchan, owned by the one thread that uses the channel.
 */
#include "ssh/sshchan.h"

#include <errno.h>
#include <libssh/callbacks.h>
#include <libssh/server.h> /* ssh_send_keepalive */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/sesswait.h"

/* libssh 0.10 sends 10 bytes less than the peer's packet size (32768 with
 * OpenSSH): a multiple of this leaves no stub packets. */
#define CHUNK ((size_t)4 * 32758)
#define EARLY_MAX (1 << 20)
#define END_WAIT_MS 2000 /* for the exit status after the end of output */
#define SLICE_MS 500	 /* `stop` is looked at this often */

struct sshchan {
	struct bytechan base; /* first: struct bytechan * is cast to us */
	ssh_session s;	      /* borrowed from the connection */
	ssh_channel ch;	      /* owned; NULL before it is open */
	ssh_event ev;	      /* owned: session and wakefd */
	int wakefd;	      /* eventfd, owned */
	const int *stop;
	struct ssh_channel_callbacks_struct cb;
	struct ssh_counter_struct wire; /* libssh counts the socket's bytes */
	struct buf early;		/* stdout before on_data was set */
	bool in_event;			/* the session was added to ev */
	bool delivered;			/* on_data was called */
	bool woken;			/* the eventfd fired */
	bool eof, closed; /* the peer ended its output; the channel */
	bool exited;	  /* exit_status or exit_signal is known */
	int exit_status;
	char exit_signal[16];
	struct err failed; /* of on_data; code 0: none */
	int64_t silence_ms;
	uint64_t heard;	  /* received bytes when last looked at */
	int64_t heard_ms; /* when they last grew */
	int64_t asked_ms; /* when the last keepalive went */
};

/* stdout to the owner; a failure is kept, since libssh cannot carry it. */
static void
deliver(struct sshchan *c, const void *data, size_t len)
{
	if (c->failed.code) {
		return;
	}
	if (!c->base.on_data) {
		if (buf_append(&c->early, data, len, &c->failed) == 0) {
			c->delivered = true;
		}
		return;
	}
	if (c->base.on_data(data, len, c->base.arg, &c->failed) < 0 &&
	    !c->failed.code) {
		err_set(&c->failed, E_PROTOCOL, "the data was refused");
	}
	c->delivered = true;
}

static int
on_data(ssh_session s, ssh_channel ch, void *data, uint32_t len, int is_stderr,
	void *arg)
{
	struct sshchan *c = arg;

	(void)s;
	(void)ch;
	if (is_stderr) {
		if (c->base.on_stderr) {
			c->base.on_stderr(data, len, c->base.arg);
		}
	} else if (len) {
		deliver(c, data, len);
	}
	return (int)len;
}

static void
on_eof(ssh_session s, ssh_channel ch, void *arg)
{
	(void)s;
	(void)ch;
	((struct sshchan *)arg)->eof = true;
}

static void
on_close(ssh_session s, ssh_channel ch, void *arg)
{
	(void)s;
	(void)ch;
	((struct sshchan *)arg)->closed = true;
}

static void
on_exit_status(ssh_session s, ssh_channel ch, int status, void *arg)
{
	struct sshchan *c = arg;

	(void)s;
	(void)ch;
	c->exited = true;
	c->exit_status = status;
}

static void
on_exit_signal(ssh_session s, ssh_channel ch, const char *signal, int core,
	       const char *text, const char *lang, void *arg)
{
	struct sshchan *c = arg;

	(void)s;
	(void)ch;
	(void)core;
	(void)text;
	(void)lang;
	c->exited = true;
	escape_bytes(c->exit_signal, sizeof(c->exit_signal), signal,
		     signal ? strlen(signal) : 0);
}

static int
on_wake(socket_t fd, int revents, void *arg)
{
	uint64_t count;

	(void)revents;
	if (read(fd, &count, sizeof(count)) > 0) {
		((struct sshchan *)arg)->woken = true;
	}
	return 0;
}

/* How the remote command ended, or the connection. */
static int
ended(struct sshchan *c, struct err *e)
{
	char text[1024];

	if (c->exit_signal[0]) {
		return err_set(e, E_CLOSED,
			       "the remote command was ended by signal %s",
			       c->exit_signal);
	}
	if (c->exited) {
		return err_set(e, E_CLOSED,
			       "the remote command ended with status %d",
			       c->exit_status);
	}
	if (!ssh_is_connected(c->s) || ssh_get_fd(c->s) < 0) {
		sesswait_error(c->s, text, sizeof(text));
		return err_set(e, E_CLOSED, "the connection was lost: %s",
			       *text ? text : "closed by the other side");
	}
	return err_set(e, E_CLOSED, "the remote command closed its output%s",
		       c->closed ? " and ended" : "");
}

static bool
dead(struct sshchan *c)
{
	return c->closed || !ssh_is_connected(c->s) || ssh_get_fd(c->s) < 0 ||
	       (ssh_get_status(c->s) & (SSH_CLOSED | SSH_CLOSED_ERROR)) ||
	       ssh_channel_is_closed(c->ch);
}

/* Note signs of life, ask for one where there was none for a third of the
 * limit. The reply comes as incoming bytes; libssh's own wait for it would
 * block. Two calls: the first only takes in the answer to the last one. */
static int
check_life(struct sshchan *c, struct err *e)
{
	int64_t now = io_now_ms(), third = c->silence_ms / 3;

	if (c->wire.in_bytes != c->heard) {
		c->heard = c->wire.in_bytes;
		c->heard_ms = now;
	}
	if (now - c->heard_ms >= c->silence_ms) {
		return err_set(e, E_TIMEOUT,
			       "no sign of life from the other host for %lld s",
			       (long long)(now - c->heard_ms) / 1000);
	}
	if (now - c->heard_ms >= third && now - c->asked_ms >= third) {
		ssh_send_keepalive(c->s);
		ssh_send_keepalive(c->s);
		c->asked_ms = now;
	}
	return 0;
}

/* Let libssh work once, for at most `ms`. 0 or the error that ends all. */
static int
turn(struct sshchan *c, int64_t ms, struct err *e)
{
	int64_t limit =
		c->silence_ms / 3 < SLICE_MS ? c->silence_ms / 3 : SLICE_MS;
	const int *stop = __atomic_load_n(&c->stop, __ATOMIC_RELAXED);

	if (ms < 0 || ms > limit) {
		ms = limit;
	}
	if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED)) {
		return err_set(e, E_CANCELLED, "stopped");
	}
	if (ssh_event_dopoll(c->ev, (int)ms) == SSH_ERROR && !dead(c)) {
		return err_set(e, E_CLOSED, "the connection broke: %s",
			       ssh_get_error(c->s));
	}
	if (c->failed.code) {
		if (e) {
			*e = c->failed;
		}
		return c->failed.code;
	}
	return dead(c) ? 0 : check_life(c, e);
}

static int
deliver_early(struct sshchan *c)
{
	if (c->early.len == 0 || !c->base.on_data) {
		return 0;
	}
	deliver(c, c->early.data, c->early.len);
	buf_fini(&c->early);
	buf_init(&c->early, EARLY_MAX);
	return 1;
}

/* After the end of output its reason follows at once, or never. */
static int
wait_exit(struct sshchan *c, int64_t ms, struct err *e)
{
	int64_t deadline = io_deadline(ms);

	while (!c->exited && !dead(c) && io_left_ms(deadline) > 0) {
		int rc = turn(c, io_left_ms(deadline), e);

		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

/* Bytes handed to the kernel, or taken by libssh: either is progress. */
static int
wait_writable(struct sshchan *c, int64_t *deadline, int64_t timeout_ms,
	      struct err *e)
{
	uint64_t before = c->wire.out_bytes;
	int left = io_left_ms(*deadline), rc;

	if (left == 0) {
		return err_set(e, E_TIMEOUT,
			       "the other host takes no data for %lld s",
			       (long long)timeout_ms / 1000);
	}
	rc = turn(c, left, e);
	if (c->wire.out_bytes != before) {
		*deadline = io_deadline(timeout_ms);
	}
	return rc;
}

static int
chan_write(struct bytechan *base, const void *data, size_t len,
	   int64_t timeout_ms, struct err *e)
{
	struct sshchan *c = (struct sshchan *)base;
	int64_t deadline = io_deadline(timeout_ms);
	const char *p = data;

	deliver_early(c);
	while (len) {
		size_t n = ssh_channel_window_size(c->ch);
		int rc;

		if (c->failed.code || dead(c)) {
			rc = c->failed.code ? turn(c, 0, e) : ended(c, e);
			return rc < 0 ? rc : ended(c, e);
		}
		n = n > len ? len : n;
		n = n > CHUNK ? CHUNK : n;
		/* Bytes that libssh still holds go first: it would pile up
		 * everything in memory. */
		if (n == 0 || (ssh_get_status(c->s) & SSH_WRITE_PENDING)) {
			rc = wait_writable(c, &deadline, timeout_ms, e);
			if (rc < 0) {
				return rc;
			}
			continue;
		}
		rc = ssh_channel_write(c->ch, p, (uint32_t)n);
		if (rc < 0) {
			wait_exit(c, END_WAIT_MS, NULL);
			return ended(c, e);
		}
		p += rc;
		len -= (size_t)rc;
		if (rc > 0) {
			deadline = io_deadline(timeout_ms);
		}
		/* 0: a rekeying is under way. Else let out what waits. */
		rc = rc ? turn(c, 0, e)
			: wait_writable(c, &deadline, timeout_ms, e);
		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

static int
chan_service(struct bytechan *base, int64_t timeout_ms, struct err *e)
{
	struct sshchan *c = (struct sshchan *)base;
	int64_t deadline = io_deadline(timeout_ms);

	c->delivered = false;
	deliver_early(c);
	for (;;) {
		int left = io_left_ms(deadline), rc;

		if (c->failed.code) {
			if (e) {
				*e = c->failed;
			}
			return c->failed.code;
		}
		if (c->delivered) {
			return 1;
		}
		if (c->woken) {
			c->woken = false;
			return 0;
		}
		if (c->eof || dead(c)) {
			rc = wait_exit(c, END_WAIT_MS, e);
			if (rc < 0) {
				return rc;
			}
			return c->delivered ? 1 : ended(c, e);
		}
		rc = turn(c, left, e);
		if (rc < 0) {
			return rc;
		}
		if (left == 0 && !c->delivered && !c->woken) {
			return 0;
		}
	}
}

static void
chan_wake(struct bytechan *base)
{
	uint64_t one = 1;

	if (write(((struct sshchan *)base)->wakefd, &one, sizeof(one)) < 0) {
		return; /* the counter is full: a wake is pending anyway */
	}
}

static void
chan_cut(struct bytechan *base)
{
	static const int now = 1;

	__atomic_store_n(&((struct sshchan *)base)->stop, &now,
			 __ATOMIC_RELAXED);
	chan_wake(base);
}

/* Let libssh send what it holds. */
static int
flush(struct sshchan *c, int64_t ms, struct err *e)
{
	int64_t deadline = io_deadline(ms);

	while (!dead(c) && (ssh_get_status(c->s) & SSH_WRITE_PENDING)) {
		int rc = wait_writable(c, &deadline, ms, e);

		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

static int
chan_send_eof(struct bytechan *base, struct err *e)
{
	struct sshchan *c = (struct sshchan *)base;

	if (dead(c)) {
		return ended(c, e);
	}
	if (ssh_channel_send_eof(c->ch) == SSH_ERROR) {
		return ended(c, e);
	}
	return flush(c, c->silence_ms, e);
}

static void
chan_free(struct bytechan *base)
{
	struct sshchan *c = (struct sshchan *)base;

	if (c->ch) {
		ssh_remove_channel_callbacks(c->ch, &c->cb);
		if (ssh_is_connected(c->s)) {
			ssh_channel_close(c->ch);
		}
		ssh_channel_free(c->ch);
	}
	if (c->in_event) {
		ssh_event_remove_session(c->ev, c->s);
		ssh_event_remove_fd(c->ev, c->wakefd);
	}
	ssh_event_free(c->ev);
	ssh_set_counters(c->s, NULL, NULL);
	close_fd(&c->wakefd);
	buf_fini(&c->early);
	free(c);
}

static const struct bytechan_ops chan_ops = { chan_write, chan_service,
					      chan_wake,  chan_send_eof,
					      chan_free,  chan_cut };

/* Repeat a call while libssh says "again"; it may say so for ever on a closed
 * channel. */
static int
until_done(struct sshchan *c, const struct sesswait *w, bool opening,
	   const char *command, struct err *e)
{
	int64_t deadline = io_deadline(w->timeout_ms);

	for (;;) {
		char text[512];
		int rc = opening ? ssh_channel_open_session(c->ch)
				 : ssh_channel_request_exec(c->ch, command);

		if (rc == SSH_OK) {
			return 0;
		}
		if (rc != SSH_AGAIN) {
			sesswait_error(c->s, text, sizeof(text));
			return ssh_is_connected(c->s)
				       ? err_set(e, E_REMOTE, "%s: %s", w->what,
						 text)
				       : sesswait_closed(w, e);
		}
		if (!opening && (c->closed || ssh_channel_is_closed(c->ch))) {
			return err_set(e, E_REMOTE,
				       "%s: the server closed the channel",
				       w->what);
		}
		rc = sesswait_poll(w, deadline, e);
		if (rc < 0) {
			return rc;
		}
	}
}

static void
set_callbacks(struct sshchan *c)
{
	ssh_callbacks_init(&c->cb);
	c->cb.userdata = c;
	c->cb.channel_data_function = on_data;
	c->cb.channel_eof_function = on_eof;
	c->cb.channel_close_function = on_close;
	c->cb.channel_exit_status_function = on_exit_status;
	c->cb.channel_exit_signal_function = on_exit_signal;
}

static int
start(struct sshchan *c, const struct sshchan_params *p, const char *command,
      struct err *e)
{
	struct sesswait w = { p->s, p->timeout_ms, p->stop,
			      "opening a channel" };
	int rc;

	c->ch = ssh_channel_new(p->s);
	c->ev = ssh_event_new();
	c->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!c->ch || !c->ev || c->wakefd < 0) {
		return err_nomem(e);
	}
	set_callbacks(c);
	if (ssh_set_channel_callbacks(c->ch, &c->cb) != SSH_OK) {
		return err_set(e, E_UNSUPPORTED, "libssh takes no callbacks");
	}
	ssh_set_counters(p->s, &c->wire, NULL);
	rc = until_done(c, &w, true, NULL, e);
	if (rc == 0) {
		w.what = "starting the remote command";
		rc = until_done(c, &w, false, command, e);
	}
	if (rc < 0) {
		return rc;
	}
	if (ssh_event_add_session(c->ev, p->s) != SSH_OK ||
	    ssh_event_add_fd(c->ev, c->wakefd, POLLIN, on_wake, c) != SSH_OK) {
		return err_nomem(e);
	}
	c->in_event = true;
	return 0;
}

int
sshchan_open(const struct sshchan_params *p, const char *command,
	     struct bytechan **out, struct err *e)
{
	struct sshchan *c = calloc(1, sizeof(*c));
	int rc;

	*out = NULL;
	if (!c) {
		return err_nomem(e);
	}
	c->base.ops = &chan_ops;
	c->s = p->s;
	c->stop = p->stop;
	c->wakefd = -1;
	c->silence_ms = p->silence_ms;
	c->heard_ms = c->asked_ms = io_now_ms();
	buf_init(&c->early, EARLY_MAX);
	rc = start(c, p, command, e);
	if (rc < 0) {
		chan_free(&c->base);
		return rc;
	}
	*out = &c->base;
	return 0;
}

void
sshchan_unstop(struct bytechan *base)
{
	struct sshchan *c = (struct sshchan *)base;

	__atomic_store_n(&c->stop, NULL, __ATOMIC_RELAXED);
}

int
sshchan_exit_status(struct bytechan *base, int *status, char sig[16],
		    struct err *e)
{
	struct sshchan *c = (struct sshchan *)base;
	int rc = wait_exit(c, END_WAIT_MS, e);

	*status = -1;
	sig[0] = '\0';
	if (rc < 0) {
		return rc;
	}
	if (!c->exited) {
		return ended(c, e);
	}
	*status = c->exit_signal[0] ? -1 : c->exit_status;
	memcpy(sig, c->exit_signal, 16);
	return 0;
}
