/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsfix: file systems for the tests: what is at TMPDIR, tmpfs, and ext4, xfs
 * and btrfs on loop devices, mounted in a mount namespace of the test's own,
 * so that nothing stays behind however it ends.
 */
#ifndef TESTS_FSFIX_H
#define TESTS_FSFIX_H

#include <stdint.h>

/* Names for fsfix_open, NULL-terminated: "here", "tmpfs", "ext4", "xfs",
 * "btrfs". */
extern const char *const fsfix_names[];

/* For cmocka_run_group_tests: make the scratch directory and the namespace;
 * unmount, remove. */
int fsfix_setup(void **state);
int fsfix_teardown(void **state);

/* A new empty directory on that file system (mounted once and kept): a
 * descriptor, and its path in `path` (at least 512 bytes). -1: it cannot be
 * had here, the reason was printed. */
int fsfix_open(const char *fs, char *path);

/* Remove it with all in it (rm -rf after chattr), by a child process that
 * knows nothing of our code. */
void fsfix_remove(const char *path);

/* Write a file of `len` bytes of `c` at `name`. Asserts. */
void fsfix_file(int dirfd, const char *name, char c, uint64_t len);

/* Run a shell command; asserts that it succeeds. */
void fsfix_sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Whether it succeeds, output discarded. */
int fsfix_try(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
