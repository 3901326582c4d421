/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bytechan: a two-way byte channel with one owner thread. The pump and the
 * requests run over this, so they know nothing of libssh, and tests run them
 * over a pair of descriptors (bytechan_fds).
 *
 * All calls but bytechan_wake and bytechan_cut are made by the one thread that
 * owns the channel.
 */
#ifndef BASE_BYTECHAN_H
#define BASE_BYTECHAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct bytechan;

/* Bytes from the peer. Called inside write and service; must not call back
 * into the channel and must not block. A negative return ends the channel
 * with that error (`e` is set by the callee). */
typedef int bytechan_data_fn(const void *data, size_t len, void *arg,
			     struct err *e);

/* Bytes on the peer's error output (sshd's stderr of the command), for the
 * log. May be NULL. */
typedef void bytechan_stderr_fn(const void *data, size_t len, void *arg);

/* The table an implementation fills. Same contracts as below. */
struct bytechan_ops {
	int (*write)(struct bytechan *c, const void *data, size_t len,
		     int64_t timeout_ms, struct err *e);
	int (*service)(struct bytechan *c, int64_t timeout_ms, struct err *e);
	void (*wake)(struct bytechan *c);
	int (*send_eof)(struct bytechan *c, struct err *e);
	void (*free)(struct bytechan *c);
	void (*cut)(struct bytechan *c); /* or NULL: as wake */
};

/* First member of each implementation's struct. */
struct bytechan {
	const struct bytechan_ops *ops; /* the implementation */
	bytechan_data_fn *on_data;	/* required before the first service */
	bytechan_stderr_fn *on_stderr;	/* or NULL */
	void *arg;			/* given to both; borrowed */
};

/* Write all of it, serving incoming bytes meanwhile. `timeout_ms` is the
 * longest time without any progress, not for the whole. 0, E_TIMEOUT,
 * E_CLOSED, or an error of on_data. */
static inline int
bytechan_write(struct bytechan *c, const void *data, size_t len,
	       int64_t timeout_ms, struct err *e)
{
	return c->ops->write(c, data, len, timeout_ms, e);
}

/* Wait until bytes came (on_data was called), a wake, or the time passed.
 * 1: bytes were delivered; 0: woken or time passed; E_CLOSED at the peer's
 * end of file once all bytes before it were delivered (the text says how the
 * remote command ended, where known); other errors. */
static inline int
bytechan_service(struct bytechan *c, int64_t timeout_ms, struct err *e)
{
	return c->ops->service(c, timeout_ms, e);
}

/* Make a running or the next service return. Any thread. */
static inline void
bytechan_wake(struct bytechan *c)
{
	c->ops->wake(c);
}

/* It is of no use any more: a write that is under way, and what is called
 * later, fails soon, where it can (E_CANCELLED). Any thread. */
static inline void
bytechan_cut(struct bytechan *c)
{
	if (c->ops->cut) {
		c->ops->cut(c);
	} else {
		c->ops->wake(c);
	}
}

/* No more bytes from us. */
static inline int
bytechan_send_eof(struct bytechan *c, struct err *e)
{
	return c->ops->send_eof(c, e);
}

static inline void
bytechan_free(struct bytechan *c)
{
	if (c) {
		c->ops->free(c);
	}
}

/* A channel over two descriptors (pipe, socket), taken over and closed by
 * free; `in` and `out` may be the same. NULL with an error. */
struct bytechan *bytechan_fds(int in, int out, struct err *e);

#endif
