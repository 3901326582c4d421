/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recv_file: the large files under way in a receiver, whose chunks and end
 * may be worked on in any order by several threads. A file of TREE_FILE is
 * made anew, one of TREE_UPDATE is changed in place.
 */
#ifndef XFER_RECV_FILE_H
#define XFER_RECV_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/digest.h"
#include "base/err.h"
#include "fs/meta.h"
#include "wire/tree.h"
#include "xfer/inomap.h"

/* So many large files may be under way at once (each has a descriptor). */
#define RECV_FILES_MAX 256

/* So many holes of all UPDATEs under way may be waiting. */
#define RECV_HOLES_MAX (4u << 20)

struct recv_files;
struct recv_file;

/* What is there is known by `inodes` (borrowed). With `track` files get tables
 * of their blocks, for later passes. */
struct recv_files *recv_files_new(struct inomap *inodes,
				  enum meta_policy policy, bool track,
				  struct err *e);
/* Closes what is open. */
void recv_files_free(struct recv_files *t);
/* From now on the tree is not empty: UPDATEs are allowed, and a new file takes
 * the place of what has its name. None may be under way. */
void recv_files_update(struct recv_files *t);
/* How many are not finished. */
size_t recv_files_count(struct recv_files *t);

/* Around the definitions of one batch: nobody gets a file meanwhile, of which
 * HOLEs may be still to come. Takes no time on a disk. */
void recv_files_lock(struct recv_files *t);
void recv_files_unlock(struct recv_files *t);

/* A TREE_FILE or TREE_UPDATE definition, or a TREE_HOLE, with that lock held.
 * The same one again is allowed. E_PROTOCOL. */
int recv_file_define(struct recv_files *t, const struct tree_record *r,
		     struct err *e);
int recv_file_hole(struct recv_files *t, const struct tree_record *r,
		   struct err *e);

/* Take a reference; E_PROTOCOL where the id is not under way. */
int recv_file_get(struct recv_files *t, uint32_t id, struct recv_file **f,
		  struct err *e);

/* Where it is to be made; borrowed. */
uint32_t recv_file_dir(const struct recv_file *f);
const char *recv_file_name(const struct recv_file *f);
/* Whether it is there already (TREE_UPDATE). */
bool recv_file_in_place(const struct recv_file *f);

/*
 * The file's descriptor (borrowed), created in `dirfd` by whoever comes
 * first; or opened, cut to its new size and punched where its HOLEs are.
 * E_PROTOCOL for an UPDATE of what is not a file that came in chunks;
 * E_UNSUPPORTED for one whose group had to be split.
 */
int recv_file_open(struct recv_files *t, struct recv_file *f, int dirfd,
		   struct err *e);

/* Create the regular file `name` for writing; with `update` something else may
 * be in its place, and goes. */
int recv_file_create(int dirfd, const char *name, bool update, mode_t mode,
		     struct err *e);

/* The text for metadata or content that comes for one inode of a group that
 * this file system could not hold in one. Returns E_UNSUPPORTED. */
int recv_file_split_error(struct err *e);

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
	/* Its group, content, and table of blocks or NULL (owned by the
	 * caller). */
	struct inomap_value v;
	bool in_place; /* a TREE_UPDATE */
	int fd;	       /* borrowed */
};

/* True for exactly one caller, once the end and all chunks have come: it
 * applies the metadata, gives `v` to the map of inodes, then calls
 * recv_file_finish. */
bool recv_file_claim(struct recv_file *f, struct recv_file_whole *w);

/* Close the claimed file, which may tell of a write that failed late, and
 * forget it (the caller's reference is kept until recv_file_put). */
int recv_file_finish(struct recv_files *t, struct recv_file *f, struct err *e);

/* Drop a reference. */
void recv_file_put(struct recv_files *t, struct recv_file *f);

#endif
