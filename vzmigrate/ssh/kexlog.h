/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kexlog: what the server offers. libssh has no call for it, but its log at
 * level 4 prints our lists and then the server's, ten lines each (function
 * ssh_list_kex; measured on 0.10.6, same source in 0.11 and 0.12).
 */
#ifndef SSH_KEXLOG_H
#define SSH_KEXLOG_H

#include "base/err.h"

/* In KEXINIT's order. */
enum kexlog_list {
	KEXLOG_KEX = 0,
	KEXLOG_HOSTKEY,
	KEXLOG_CIPHER_C2S,
	KEXLOG_CIPHER_S2C,
	KEXLOG_MAC_C2S,
	KEXLOG_MAC_S2C,
	KEXLOG_LISTS,
};

#define KEXLOG_LIST_MAX 1024 /* libssh cuts its lines there */

struct kexlog {
	int rounds; /* 1: ours was seen, 2: the server's too */
	char lists[KEXLOG_LISTS][KEXLOG_LIST_MAX]; /* the server's, or "" */
	char ours[KEXLOG_LISTS][KEXLOG_LIST_MAX];
};

/* Listen to libssh in this thread from now on; `k` is cleared and borrowed
 * until kexlog_end. libssh's log is per thread, so this disturbs nobody. */
void kexlog_begin(struct kexlog *k);

/* Stop listening; libssh's log goes to ours at level trace, or nowhere. */
void kexlog_end(void);

/* One line of libssh's log, for tests. */
void kexlog_line(struct kexlog *k, const char *function, const char *line);

/* A negotiation that found nothing in common. `ours` and `theirs` are as
 * libssh's error text has them: cut at its length, and not escaped. */
struct kexlog_mismatch {
	enum kexlog_list list; /* KEXLOG_LISTS: one without a number here */
	char ours[KEXLOG_LIST_MAX], theirs[KEXLOG_LIST_MAX];
};

/*
 * Turn libssh's "no match for method" into E_CONNECT with both lists, and take
 * it apart into `m` (or NULL). 0 where `text` is something else.
 */
int kexlog_explain(const char *text, struct kexlog_mismatch *m, struct err *e);

/* The same from the lists that were seen: a server that hangs up at once lets
 * libssh forget its error now and then. 0 where each list has a name in
 * common, or the server's were not seen. */
int kexlog_compare(const struct kexlog *k, struct kexlog_mismatch *m,
		   struct err *e);

#endif
