/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tree: content records, composed in place on one side and read in place on
 * the other. No I/O, no allocation.
 */
#include "wire/tree.h"

#include <string.h>

#include "fs/beneath.h"
#include "wire/codec.h"

#define META_FIXED 64 /* upper bound of meta's fixed fields */

static void
put_le(uint8_t *p, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		p[i] = (uint8_t)(v >> (8 * i));
	}
}

static void
out_le(struct tree_out *o, uint64_t v, size_t n)
{
	put_le(o->p + o->len, v, n);
	o->len += n;
}

static void
out_raw(struct tree_out *o, const void *p, size_t n)
{
	if (n) {
		memcpy(o->p + o->len, p, n);
		o->len += n;
	}
}

static bool
room(const struct tree_out *o, size_t n)
{
	return n <= o->cap - o->len;
}

static void
out_name(struct tree_out *o, const char *name, size_t len)
{
	out_le(o, len, 1);
	out_raw(o, name, len);
}

bool
tree_put_dir(struct tree_out *o, uint32_t id, uint32_t parent, const char *name,
	     size_t name_len)
{
	if (!room(o, 10 + name_len)) {
		return false;
	}
	out_le(o, TREE_DIR, 1);
	out_le(o, id, 4);
	out_le(o, parent, 4);
	out_name(o, name, name_len);
	return true;
}

bool
tree_put_file(struct tree_out *o, uint32_t id, uint32_t dir, const char *name,
	      size_t name_len, const struct meta *m)
{
	if (!room(o, 26 + name_len)) {
		return false;
	}
	out_le(o, TREE_FILE, 1);
	out_le(o, id, 4);
	out_le(o, dir, 4);
	out_name(o, name, name_len);
	out_le(o, m->size, 8);
	out_le(o, m->flags, 4);
	out_le(o, m->projid, 4);
	return true;
}

static void
out_meta(struct tree_out *o, const struct meta *m)
{
	out_le(o, m->type, 1);
	out_le(o, m->perm, 2);
	out_le(o, m->uid, 4);
	out_le(o, m->gid, 4);
	out_le(o, (uint64_t)m->atime.sec, 8);
	out_le(o, m->atime.nsec, 4);
	out_le(o, (uint64_t)m->mtime.sec, 8);
	out_le(o, m->mtime.nsec, 4);
	out_le(o, m->flags, 4);
	out_le(o, m->projid, 4);
	out_le(o, m->xattrs_len, 4);
	out_raw(o, m->xattrs, m->xattrs_len);
	if (m->type == FS_REG) {
		out_le(o, m->size, 8);
	} else if (m->type == FS_LNK) {
		out_le(o, m->target_len, 2);
		out_raw(o, m->target, m->target_len);
	} else if (m->type == FS_CHR || m->type == FS_BLK) {
		out_le(o, m->major, 4);
		out_le(o, m->minor, 4);
	}
}

size_t
tree_entry_size(const struct meta *m, size_t name_len)
{
	return 24 + name_len + META_FIXED + m->xattrs_len + m->target_len;
}

bool
tree_put_entry(struct tree_out *o, uint32_t id, bool linked, uint32_t dir,
	       const char *name, size_t name_len, const struct meta *m)
{
	if (!room(o, tree_entry_size(m, name_len))) {
		return false;
	}
	out_le(o, TREE_ENTRY, 1);
	out_le(o, id, 4);
	out_le(o, linked, 1);
	out_le(o, dir, 4);
	out_name(o, name, name_len);
	out_meta(o, m);
	return true;
}

bool
tree_put_link(struct tree_out *o, uint32_t id, uint32_t dir, const char *name,
	      size_t name_len)
{
	if (!room(o, 10 + name_len)) {
		return false;
	}
	out_le(o, TREE_LINK, 1);
	out_le(o, id, 4);
	out_le(o, dir, 4);
	out_name(o, name, name_len);
	return true;
}

bool
tree_put_file_end(struct tree_out *o, uint32_t id, bool linked, uint64_t chunks,
		  const struct meta *m)
{
	if (!room(o, tree_entry_size(m, 0))) {
		return false;
	}
	out_le(o, TREE_FILE_END, 1);
	out_le(o, id, 4);
	out_le(o, linked, 1);
	out_le(o, chunks, 8);
	out_meta(o, m);
	return true;
}

bool
tree_put_remove(struct tree_out *o, uint32_t dir, const char *name,
		size_t name_len)
{
	if (!room(o, 6 + name_len)) {
		return false;
	}
	out_le(o, TREE_REMOVE, 1);
	out_le(o, dir, 4);
	out_name(o, name, name_len);
	return true;
}

bool
tree_put_meta(struct tree_out *o, uint32_t id, bool linked, uint32_t dir,
	      const char *name, size_t name_len, const struct meta *m)
{
	if (!room(o, tree_entry_size(m, name_len))) {
		return false;
	}
	out_le(o, TREE_META, 1);
	out_le(o, id, 4);
	out_le(o, linked, 1);
	out_le(o, dir, 4);
	out_name(o, name, name_len);
	out_meta(o, m);
	return true;
}

bool
tree_put_update(struct tree_out *o, uint32_t id, uint32_t dir, const char *name,
		size_t name_len, uint64_t size)
{
	if (!room(o, 18 + name_len)) {
		return false;
	}
	out_le(o, TREE_UPDATE, 1);
	out_le(o, id, 4);
	out_le(o, dir, 4);
	out_name(o, name, name_len);
	out_le(o, size, 8);
	return true;
}

bool
tree_put_hole(struct tree_out *o, uint32_t id, uint64_t off, uint64_t len)
{
	if (!room(o, 21)) {
		return false;
	}
	out_le(o, TREE_HOLE, 1);
	out_le(o, id, 4);
	out_le(o, off, 8);
	out_le(o, len, 8);
	return true;
}

void
tree_set_u32(uint8_t *at, uint32_t v)
{
	put_le(at, v, 4);
}

bool
tree_put_u32(struct tree_out *o, uint32_t v)
{
	if (!room(o, 4)) {
		return false;
	}
	out_le(o, v, 4);
	return true;
}

bool
tree_put_piece(struct tree_out *o, uint64_t off, uint32_t len)
{
	if (!room(o, 12)) {
		return false;
	}
	out_le(o, off, 8);
	out_le(o, len, 4);
	return true;
}

int
tree_split(const uint8_t *payload, size_t len, struct tree_in *body,
	   struct tree_in *defs, struct err *e)
{
	struct dec d;
	uint32_t n;

	dec_init(&d, payload, len);
	n = dec_u32(&d);
	body->p = dec_raw(&d, n);
	body->left = n;
	if (d.rc < 0) {
		return err_set(e, E_PROTOCOL, "malformed batch");
	}
	defs->p = d.p;
	defs->left = d.left;
	return 0;
}

static void
get_name(struct dec *d, struct tree_record *r)
{
	r->name_len = dec_u8(d);
	r->name = (const char *)dec_raw(d, r->name_len);
}

static void
get_time(struct dec *d, struct meta_time *t)
{
	t->sec = dec_i64(d);
	t->nsec = dec_u32(d);
	if (t->nsec > 999999999) {
		d->rc = E_PROTOCOL;
	}
}

static void
get_by_type(struct dec *d, struct meta *m)
{
	switch (m->type) {
	case FS_REG:
		m->size = dec_u64(d);
		if (m->size > INT64_MAX) {
			d->rc = E_PROTOCOL;
		}
		break;
	case FS_LNK:
		m->target_len = dec_u16(d);
		m->target = (char *)dec_raw(d, m->target_len);
		m->size = m->target_len;
		if (!m->target || !m->target_len ||
		    m->target_len > META_TARGET_MAX ||
		    memchr(m->target, '\0', m->target_len)) {
			d->rc = E_PROTOCOL;
		}
		break;
	case FS_CHR:
	case FS_BLK:
		m->major = dec_u32(d);
		m->minor = dec_u32(d);
		break;
	case FS_DIR:
	case FS_FIFO:
	case FS_SOCK:
		break;
	default:
		d->rc = E_PROTOCOL;
	}
}

static int
get_meta(struct dec *d, struct meta *m, struct err *e)
{
	m->type = dec_u8(d);
	m->perm = dec_u16(d);
	m->uid = dec_u32(d);
	m->gid = dec_u32(d);
	get_time(d, &m->atime);
	get_time(d, &m->mtime);
	m->flags = dec_u32(d);
	m->projid = dec_u32(d);
	m->xattrs = (uint8_t *)dec_bytes(d, META_XATTRS_MAX, &m->xattrs_len);
	if (d->rc == 0) {
		get_by_type(d, m);
	}
	if (d->rc < 0 || m->perm > 07777 || (m->flags & ~META_FLAGS)) {
		return err_set(e, E_PROTOCOL, "malformed metadata");
	}
	return m->xattrs_len ? meta_xattrs_check(m->xattrs, m->xattrs_len, e)
			     : 0;
}

/* Which fields a record has, in the order in which they come. */
enum {
	HAS_ID = 1,
	HAS_LINKED = 2,
	HAS_CHUNKS = 4,
	HAS_NAME = 8, /* and its directory before it */
	HAS_SIZE = 16,
	HAS_FLAGS = 32, /* and the project id */
	HAS_META = 64,
	HAS_HOLE = 128,
};

static const uint8_t fields[] = {
	[TREE_DIR] = HAS_ID | HAS_NAME,
	[TREE_FILE] = HAS_ID | HAS_NAME | HAS_SIZE | HAS_FLAGS,
	[TREE_ENTRY] = HAS_ID | HAS_LINKED | HAS_NAME | HAS_META,
	[TREE_LINK] = HAS_ID | HAS_NAME,
	[TREE_FILE_END] = HAS_ID | HAS_LINKED | HAS_CHUNKS | HAS_META,
	[TREE_REMOVE] = HAS_NAME,
	[TREE_META] = HAS_ID | HAS_LINKED | HAS_NAME | HAS_META,
	[TREE_UPDATE] = HAS_ID | HAS_NAME | HAS_SIZE,
	[TREE_HOLE] = HAS_ID | HAS_HOLE,
};

/* The root alone has no name, and only as an entry in itself. */
static bool
name_ok(const struct tree_record *r)
{
	if (!(fields[r->kind] & HAS_NAME)) {
		return true;
	}
	if (r->kind == TREE_ENTRY && r->meta.type == FS_DIR &&
	    r->id == TREE_ROOT) {
		return r->name_len == 0 && r->dir == TREE_ROOT;
	}
	return r->name && beneath_name_ok(r->name, r->name_len);
}

static bool
ids_ok(const struct tree_record *r)
{
	bool needs_id = fields[r->kind] & HAS_LINKED && r->kind != TREE_FILE_END
				? r->linked
				: fields[r->kind] & HAS_ID;

	if (r->id > TREE_ID_MAX || r->dir > TREE_ID_MAX) {
		return false;
	}
	if (r->kind == TREE_DIR && (r->id == TREE_ROOT || r->dir >= r->id)) {
		return false;
	}
	return !needs_id || r->id != TREE_ROOT;
}

static bool
type_ok(const struct tree_record *r)
{
	switch (r->kind) {
	case TREE_FILE_END:
		return r->meta.type == FS_REG;
	case TREE_META:
		return r->meta.type != FS_DIR;
	default:
		return true;
	}
}

/* A reader that knows the file's size looks whether an odd length ends
 * there. */
static bool
hole_ok(const struct tree_record *r)
{
	uint64_t end;

	return r->kind != TREE_HOLE ||
	       (r->len && r->off % TREE_BLOCK == 0 &&
		!__builtin_add_overflow(r->off, r->len, &end) &&
		end <= INT64_MAX);
}

static int
get_fields(struct dec *d, struct tree_record *r, struct err *e)
{
	unsigned has = fields[r->kind];
	int rc = 0;

	if (has & HAS_ID) {
		r->id = dec_u32(d);
	}
	if (has & HAS_LINKED) {
		r->linked = dec_u8(d) != 0;
	}
	if (has & HAS_CHUNKS) {
		r->chunks = dec_u64(d);
	}
	if (has & HAS_NAME) {
		r->dir = dec_u32(d);
		get_name(d, r);
	}
	if (has & HAS_SIZE) {
		r->size = dec_u64(d);
	}
	if (has & HAS_FLAGS) {
		r->flags = dec_u32(d);
		r->projid = dec_u32(d);
	}
	if (has & HAS_HOLE) {
		r->off = dec_u64(d);
		r->len = dec_u64(d);
	}
	if (has & HAS_META) {
		rc = get_meta(d, &r->meta, e);
	}
	if (rc == 0 && r->kind == TREE_ENTRY && r->meta.type == FS_REG) {
		r->pieces = dec_u32(d);
	}
	return rc;
}

int
tree_get(struct tree_in *in, struct tree_record *r, struct err *e)
{
	struct dec d;
	int rc;

	if (!in->left) {
		return 0;
	}
	*r = (struct tree_record){ 0 };
	dec_init(&d, in->p, in->left);
	r->kind = dec_u8(&d);
	if (r->kind < TREE_DIR || r->kind > TREE_HOLE) {
		return err_set(e, E_PROTOCOL, "record of unknown kind %u",
			       r->kind);
	}
	rc = get_fields(&d, r, e);
	if (rc < 0) {
		return rc;
	}
	if (d.rc < 0 || !name_ok(r) || !ids_ok(r) || !type_ok(r) ||
	    !hole_ok(r) || r->size > INT64_MAX || (r->flags & ~META_FLAGS)) {
		return err_set(e, E_PROTOCOL, "malformed record of kind %u",
			       r->kind);
	}
	in->p = d.p;
	in->left = d.left;
	return 1;
}

int
tree_get_piece(struct tree_in *in, uint64_t *off, const uint8_t **data,
	       uint32_t *len, struct err *e)
{
	struct dec d;
	uint64_t end;

	dec_init(&d, in->p, in->left);
	*off = dec_u64(&d);
	*len = dec_u32(&d);
	*data = dec_raw(&d, *len);
	if (d.rc < 0 || !*len || __builtin_add_overflow(*off, *len, &end) ||
	    end > INT64_MAX) {
		return err_set(e, E_PROTOCOL, "malformed piece of a file");
	}
	in->p = d.p;
	in->left = d.left;
	return 0;
}
