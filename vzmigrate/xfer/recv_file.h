/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_file: the large files under way in a receiver, whose chunks and end
 * may be worked on in any order by several threads.
 */
#ifndef XFER_RECV_FILE_H
#define XFER_RECV_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "fs/meta.h"
#include "wire/tree.h"

/* So many large files may be under way at once (each has a descriptor). */
#define RECV_FILES_MAX 256

struct recv_files;
struct recv_file;

struct recv_files *recv_files_new(struct err *e);
/* Closes what is open. */
void recv_files_free(struct recv_files *t);
/* How many are not finished. */
size_t recv_files_count(struct recv_files *t);

/* A TREE_FILE definition. The same one again is allowed. E_PROTOCOL. */
int recv_file_define(struct recv_files *t, const struct tree_record *r,
		     struct err *e);

/* Take a reference; E_PROTOCOL where the id is not under way. */
int recv_file_get(struct recv_files *t, uint32_t id, struct recv_file **f,
		  struct err *e);

/* Where it is to be made; borrowed. */
uint32_t recv_file_dir(const struct recv_file *f);
const char *recv_file_name(const struct recv_file *f);

/* The file's descriptor (borrowed), created in `dirfd` by whoever comes
 * first. */
int recv_file_open(struct recv_file *f, int dirfd, enum meta_policy policy,
		   struct err *e);

/* meta_apply_early as that policy wants it; what is refused is met, and told,
 * once more at the end. */
int recv_file_early(int fd, const struct meta *m, enum meta_policy policy,
		    struct err *e);

/* Write a chunk and add it to the content's digest. */
int recv_file_chunk(struct recv_file *f, const struct digest_key *k,
		    uint64_t off, const void *data, size_t len,
		    const char *path, struct err *e);

/* The end record: how many chunks there are, and the metadata (copied). */
int recv_file_end(struct recv_file *f, const struct tree_record *r,
		  struct err *e);

/* What recv_file_claim gives to the one who finishes the file. */
struct recv_file_whole {
	const struct meta *meta; /* borrowed from the file */
	struct digest content;
	uint32_t id;
	bool linked;
	int fd; /* borrowed */
};

/* True for exactly one caller, once the end and all chunks have come: it
 * applies the metadata, then calls recv_file_finish. */
bool recv_file_claim(struct recv_file *f, struct recv_file_whole *w);

/* Close the claimed file, which may tell of a write that failed late, and
 * forget it (the caller's reference is kept until recv_file_put). */
int recv_file_finish(struct recv_files *t, struct recv_file *f, struct err *e);

/* Drop a reference. */
void recv_file_put(struct recv_files *t, struct recv_file *f);

#endif
