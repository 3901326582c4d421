/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tree: the records of a BATCH frame and the head of a CHUNK frame
 * (PROTOCOL.md, "Content").
 *
 * A BATCH is: u32 length of the body, the body, the definitions. The
 * definitions (TREE_DIR, TREE_FILE, TREE_UPDATE, TREE_HOLE) name what the
 * body and later CHUNKs speak of; they cost the reader no disk access, so it
 * takes them in at once and in order, while bodies and chunks go to workers in
 * any order. Kinds from TREE_REMOVE on are for passes after the first.
 */
#ifndef WIRE_TREE_H
#define WIRE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fs/meta.h"

enum tree_kind {
	TREE_DIR = 1,	/* def: u32 id, u32 parent, u8+name */
	TREE_FILE = 2,	/* def: u32 id, u32 dir, u8+name, u64 size, u32 flags,
			   u32 projid: content follows in CHUNKs */
	TREE_ENTRY = 3, /* body: u32 id, u8 linked, u32 dir, u8+name, meta, and
			   for FS_REG u32 pieces, each u64 offset, u32 length,
			   bytes */
	TREE_LINK = 4,	/* body: u32 id, u32 dir, u8+name */
	TREE_FILE_END = 5, /* body: u32 id, u8 linked, u64 chunks, meta */
	TREE_REMOVE = 6,   /* body: u32 dir, u8+name: it and all below it go */
	TREE_META = 7,	 /* body: u32 id, u8 linked, u32 dir, u8+name, meta: all
			    but the content, target or device number */
	TREE_UPDATE = 8, /* def: u32 id, u32 dir, u8+name, u64 size: CHUNKs
			    follow that are written in place */
	TREE_HOLE = 9,	 /* def: u32 id, u64 offset, u64 length: to be punched
			    in the file of an UPDATE before its CHUNKs */
};

#define TREE_ROOT 0		/* the root directory's id; always defined */
#define TREE_ID_MAX 0x7fffffff	/* ids are dense enough for an array */
#define TREE_PIECE (256u << 10) /* pieces never cross a multiple of this */
#define TREE_BLOCK                                                      \
	(64u << 10)	   /* large files are compared by these; pieces \
			      are cut here for the content's digest */
#define TREE_CHUNK_HEAD 12 /* CHUNK: u32 id, u64 offset, then bytes */

/* One decoded record; pointers are borrowed from the frame, except that
 * meta.xattrs and meta.target are borrowed too: never meta_fini it. */
struct tree_record {
	enum tree_kind kind;
	uint32_t id;
	uint32_t dir; /* TREE_DIR: the parent */
	bool linked;  /* the inode has more names: TREE_LINKs with this id */
	const char *name;
	size_t name_len;
	uint64_t size;	 /* TREE_FILE, TREE_UPDATE */
	uint32_t flags;	 /* TREE_FILE */
	uint32_t projid; /* TREE_FILE */
	uint64_t chunks; /* TREE_FILE_END */
	uint64_t off;	 /* TREE_HOLE */
	uint64_t len;	 /* TREE_HOLE */
	uint32_t pieces; /* TREE_ENTRY of FS_REG: how many follow */
	struct meta meta;
};

/* Bytes being composed in place. */
struct tree_out {
	uint8_t *p;
	size_t len, cap;
};

/* Each appends one record and returns true, or returns false and leaves
 * `o` unchanged where it has no room. Names are 1 to 255 bytes (the root's
 * entry has none). */
bool tree_put_dir(struct tree_out *o, uint32_t id, uint32_t parent,
		  const char *name, size_t name_len);
bool tree_put_file(struct tree_out *o, uint32_t id, uint32_t dir,
		   const char *name, size_t name_len, const struct meta *m);
bool tree_put_entry(struct tree_out *o, uint32_t id, bool linked, uint32_t dir,
		    const char *name, size_t name_len, const struct meta *m);
bool tree_put_link(struct tree_out *o, uint32_t id, uint32_t dir,
		   const char *name, size_t name_len);
bool tree_put_file_end(struct tree_out *o, uint32_t id, bool linked,
		       uint64_t chunks, const struct meta *m);
bool tree_put_remove(struct tree_out *o, uint32_t dir, const char *name,
		     size_t name_len);
bool tree_put_meta(struct tree_out *o, uint32_t id, bool linked, uint32_t dir,
		   const char *name, size_t name_len, const struct meta *m);
bool tree_put_update(struct tree_out *o, uint32_t id, uint32_t dir,
		     const char *name, size_t name_len, uint64_t size);
/* `off` is a multiple of TREE_BLOCK; so is `len`, unless the hole ends with
 * the file. */
bool tree_put_hole(struct tree_out *o, uint32_t id, uint64_t off, uint64_t len);
/* u32 at a place reserved before (counts that are known later). */
void tree_set_u32(uint8_t *at, uint32_t v);
bool tree_put_u32(struct tree_out *o, uint32_t v);
bool tree_put_piece(struct tree_out *o, uint64_t off, uint32_t len);

/* Bytes a TREE_ENTRY, TREE_FILE_END or TREE_META takes at most. */
size_t tree_entry_size(const struct meta *m, size_t name_len);

/* Reading position in a body or in definitions. */
struct tree_in {
	const uint8_t *p;
	size_t left;
};

/*
 * Split a BATCH payload. 0 or E_PROTOCOL. */
int tree_split(const uint8_t *payload, size_t len, struct tree_in *body,
	       struct tree_in *defs, struct err *e);

/* The next record: 1, 0 at the end, E_PROTOCOL for anything malformed: names
 * that are no component, times out of range, unknown types or kinds, xattr
 * blocks or targets that are not well-formed. For a TREE_ENTRY with pieces
 * the caller takes each with tree_get_piece before the next record. */
int tree_get(struct tree_in *in, struct tree_record *r, struct err *e);
int tree_get_piece(struct tree_in *in, uint64_t *off, const uint8_t **data,
		   uint32_t *len, struct err *e);

#endif
