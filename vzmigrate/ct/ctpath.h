/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctpath: paths of the operator's side: never below a container's root.
 */
#ifndef CT_CTPATH_H
#define CT_CTPATH_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

/* Whether `path` is `dir` or below it, by the text of both (absolute,
 * without doubled or trailing slashes). */
bool ctpath_inside(const char *path, const char *dir);

/*
 * Bring an absolute path into one form: no doubled or trailing slash, no ".".
 * `what` names it in the error. NULL with E_USAGE for an empty or relative
 * path, "..", "/", or a control character; caller frees.
 */
char *ctpath_clean(const char *path, const char *what, struct err *e);

/* realpath(3). NULL with E_NOT_FOUND or E_SYSTEM; caller frees. */
char *ctpath_real(const char *path, struct err *e);

/*
 * Where `path` (as from ctpath_clean) will be once it is made: symlinks of
 * the operator's prefix are followed, the last component is not. `*out` is
 * that path, `*above` the nearest directory over it that exists; caller
 * frees both. E_CONFIG where the prefix is a dangling symlink or no
 * directory, E_USAGE for a name that no file system takes.
 */
int ctpath_place(const char *path, char **out, char **above, struct err *e);

/*
 * Rename `from` to `to`, taking nothing's place, and fsync both parents.
 * Where `from` is gone and `to` is there it was done before: 0. E_EXISTS,
 * E_NOT_FOUND where neither is there, E_SYSTEM.
 */
int ctpath_move(const char *from, const char *to, struct err *e);

/* Rename within `dir` and fsync it; with `noreplace` an existing `to` is
 * E_EXISTS. */
int ctpath_rename(const char *dir, const char *from, const char *to,
		  bool noreplace, struct err *e);

/* Remove one file of `dir` if it is there, and fsync `dir`. */
int ctpath_unlink(const char *dir, const char *name, struct err *e);

/* Delete the tree at `path`; that it is gone already is success. As
 * remove_tree of fs/. */
int ctpath_remove_tree(const char *path, struct err *e);

/* Open a directory of the operator's, following symlinks. E_NOT_FOUND. */
int ctpath_open_dir(const char *path, struct err *e);

/* lstat: the type (S_IFREG, ...), or 0 where nothing is there. */
mode_t ctpath_type(const char *path);
/* Whether there is a regular file behind `path` (symlinks followed). */
bool ctpath_is_file(const char *path);
bool ctpath_is_dir(const char *path);

/* Whether `name` is an executable file in PATH. */
bool ctpath_program(const char *name);

/* A short name for any string (FNV-1a, 64 bit): 16 hex digits and NUL. It
 * names files; it protects nothing. */
char *ctpath_hash(const char *s, char out[17]);

#endif
