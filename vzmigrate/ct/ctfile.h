/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctfile: the files and notes of a struct ct, and writing such files to disk.
 */
#ifndef CT_CTFILE_H
#define CT_CTFILE_H

#include "ct/ct.h"

/* The temporary name that a crash may leave in a directory written to. */
#define CTFILE_TMP ".vzmigrate-new"

/* Add a file; takes over `data` (heap) in every case. E_LIMIT past
 * CT_FILES_MAX, E_NOMEM. */
int ctfile_add(struct ct *c, const char *role, void *data, size_t len,
	       uint16_t mode, uint32_t uid, uint32_t gid, struct err *e);

/* Add what is at `path` (symlinks followed), as `role`. E_NOT_FOUND, E_LIMIT
 * over CT_FILE_MAX, E_UNSUPPORTED for what is no regular file. */
int ctfile_load(struct ct *c, const char *role, const char *path,
		struct err *e);

/* printf form; the text is escaped when shown, not here. */
int ctfile_note(struct ct *c, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A note for each mount point inside the tree: none is crossed. */
int ctfile_note_mounts(struct ct *c, struct err *e);

/* By role; NULL where there is none. */
const struct ct_file *ctfile_find(const struct ct_file *files, size_t nfiles,
				  const char *role);

/* A file name as the tail of a role: lower case letters, digits, '.' and '-'
 * stay, all else becomes _xx. Heap, NULL with E_NOMEM. And back: NULL with
 * E_PROTOCOL where it is no single file name. */
char *ctfile_encode(const char *name, struct err *e);
char *ctfile_decode(const char *coded, struct err *e);

/*
 * Write `data` to `name` in `dir` with owner and mode, exclusively: an
 * existing file with the same bytes is taken for ours (0), another is
 * E_EXISTS. Durable when it returns.
 */
int ctfile_write(const char *dir, const char *name, const void *data,
		 size_t len, const struct ct_file *like, struct err *e);

/* Write it in the place of whatever is there, mode 0600, durable when it
 * returns. A crash leaves at most one temporary file, which the next call in
 * this directory removes. */
int ctfile_replace(const char *dir, const char *name, const char *text,
		   struct err *e);

/* What is left beside a retired configuration: the tag in the first line,
 * then when and by whom for a person. Heap. */
char *ctfile_session(const char *tag, struct err *e);

/* Whether dir/name was written with this tag. */
bool ctfile_session_is(const char *dir, const char *name, const char *tag);

/* Whether dir/name holds exactly these bytes. */
bool ctfile_same(const char *dir, const char *name, const void *data,
		 size_t len);

/* Remove dir/name if it holds exactly these bytes. */
int ctfile_remove_same(const char *dir, const char *name, const void *data,
		       size_t len, struct err *e);

#endif
