/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctfix: throw-away hosts for the tests of ct/, in a mount namespace of the
 * test's own with an empty /run and /var/lib; and death at a chosen change of
 * the file system.
 */
#ifndef TESTS_CTFIX_H
#define TESTS_CTFIX_H

#include <stdbool.h>

#include "ct/ct.h"

/* For cmocka_run_group_tests. Without root both return -1 after saying so. */
int ctfix_setup(void **state);
int ctfix_teardown(void **state);
/* ctfix_setup with two hosts, "a" and "b". */
int ctfix_setup_hosts(void **state, struct ct_host *a, struct ct_host *b);

/* The scratch directory, on a file system of its own. */
extern char ctfix_top[];

/* A host below ctfix_top/NAME: vz.conf (private and root below `vz`), empty
 * lxcpath and lock directory. Borrowed strings that live until teardown. */
struct ct_host ctfix_host(const char *name);

/* Run a shell command; asserts that it succeeds. Its working directory is
 * ctfix_top. */
void ctfix_sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Whether it succeeds; output discarded. */
bool ctfix_ok(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The text of a file, heap. Asserts. */
char *ctfix_read(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* What the false lxc-info answers: "STOPPED", ... */
void ctfix_lxc_says(const char *word);

/* A checksum of all names, types, modes and contents below DIR (heap): what
 * must be equal when something was undone. */
char *ctfix_sum(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Call fn(arg) in a child that dies, as in a power cut, before the n-th change
 * (rename, unlink, mkdir, rmdir, symlink, creation) made by our code. Returns
 * true when it died there, false when it came to its end first; then
 * `*rc` is what fn returned.
 */
bool ctfix_die_at(int n, int (*fn)(void *arg), void *arg, int *rc);

/* From now on vzctl and vzquota are those of the host (tests/tools). */
void ctfix_vzctl(const struct ct_host *h);

/* A commit, to be called through ctfix_die_at: `staged` is where the tree lies
 * before it. */
struct ctfix_move {
	const struct ct_kind *kind;
	const struct ct_host *to;
	struct ct_want w;
	struct ct_place p;
	char staged[300];
};
#define CTFIX_MOVE(kind_, to_)               \
	{                                    \
		.kind = (kind_), .to = (to_) \
	}
int ctfix_commit(void *move);
int ctfix_uncommit(void *move);

/* Assert code and exact text of an error, then clear it. */
#define ctfix_err(rc, e, code_, text_)                 \
	do {                                           \
		int rc_ = (rc);                        \
                                                       \
		assert_string_equal((e)->text, text_); \
		assert_int_equal(rc_, code_);          \
		assert_int_equal((e)->code, code_);    \
		err_clear(e);                          \
	} while (0)

/* Make `w` the request to move `c`. */
struct ct_want ctfix_want(const struct ct *c);

#endif
