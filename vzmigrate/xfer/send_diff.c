/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_diff: a large file is read again, in slices by several threads, and
 * compared block by block with what the ledger says the destination has; then
 * the blocks that differ are sent.
 *
 * it->blocks becomes the new table. At any time it says what the destination
 * will have once all that was queued is written: a block that changes between
 * the comparison and its sending is hashed again from what is sent.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fs/content.h"
#include "xfer/proof.h"
#include "xfer/send_int.h"

#define SLICE (16u << 20)     /* bytes a thread takes at once */
#define HELP_FROM (64u << 20) /* a smaller file is read by one thread */
#define DEF_HOLE 21

enum range_kind {
	RANGE_WHOLE, /* blocks without holes */
	RANGE_PART,  /* with holes, where there was nothing */
	RANGE_MIX,   /* with holes, where there was something */
	RANGE_HOLE,  /* nothing is left of it */
};

/* Blocks that differ, in a row. */
struct range {
	uint64_t first;
	uint64_t n;
	enum range_kind kind;
};

struct slice {
	uint64_t from, to;   /* bytes */
	struct blocks *have; /* owned */
	struct buf ranges;
};

struct diff {
	struct pass *p;
	struct item *it;
	uint64_t old_size, size;
	const struct blocks *old;
	pthread_mutex_t lock; /* the rest */
	uint64_t pos;	      /* where the next slice may begin */
	struct buf slices;    /* struct slice *, in order; owned */
	int rc;
	struct err err; /* the first failure */
};

/* A block being put together by a thread. */
struct block {
	uint64_t no;
	uint64_t bytes; /* of data; 0: none begun */
	struct digest d;
};

static const struct digest none;

static int
add_range(struct buf *ranges, uint64_t no, uint64_t n, enum range_kind kind,
	  struct err *e)
{
	struct range *last =
		ranges->len ? (struct range *)(ranges->data + ranges->len) - 1
			    : NULL;
	struct range r = { no, n, kind };

	if (last && last->kind == kind && last->first + last->n == no) {
		last->n += n;
		return 0;
	}
	return buf_append(ranges, &r, sizeof(r), e);
}

/* Where the size changed, the blocks that the old and the new end cut come
 * again: their digests are of no account on the other side. */
static bool
cut(const struct diff *f, uint64_t no)
{
	return f->size != f->old_size &&
	       (no == f->old_size / TREE_BLOCK || no == f->size / TREE_BLOCK);
}

/* Blocks of [from, to) that had data have none. */
static int
note_holes(struct diff *f, struct slice *s, uint64_t from, uint64_t to,
	   struct err *e)
{
	uint64_t no;

	while (blocks_next(f->old, from, &no) && no < to) {
		int rc = add_range(&s->ranges, no, 1, RANGE_HOLE, e);

		if (rc < 0) {
			return rc;
		}
		from = no + 1;
	}
	return 0;
}

/* `b` is complete. */
static int
note_block(struct diff *f, struct slice *s, const struct block *b,
	   struct err *e)
{
	struct digest was = blocks_get(f->old, b->no);
	uint64_t all = f->size - b->no * TREE_BLOCK;
	enum range_kind kind;
	int rc = blocks_put(s->have, b->no, &b->d, e);

	if (rc < 0 || (digest_eq(&was, &b->d) && !cut(f, b->no))) {
		return rc;
	}
	if (b->bytes == (all < TREE_BLOCK ? all : TREE_BLOCK)) {
		kind = RANGE_WHOLE;
	} else {
		kind = digest_eq(&was, &none) ? RANGE_PART : RANGE_MIX;
	}
	return add_range(&s->ranges, b->no, 1, kind, e);
}

/* Take `len` bytes of data at `off` into the block at hand. */
static int
take_data(struct diff *f, struct slice *s, struct block *b, uint64_t off,
	  const uint8_t *data, size_t len, struct err *e)
{
	while (len) {
		uint64_t no = off / TREE_BLOCK;
		size_t n = TREE_BLOCK - off % TREE_BLOCK;
		int rc = 0;

		if (b->bytes && b->no != no) {
			rc = note_block(f, s, b, e);
			rc = rc < 0 ? rc : note_holes(f, s, b->no + 1, no, e);
			*b = (struct block){ 0 };
		} else if (!b->bytes) {
			rc = note_holes(f, s, b->no, no, e);
		}
		if (rc < 0) {
			return rc;
		}
		b->no = no;
		n = n < len ? n : len;
		proof_piece(f->p->key, off, data, n, &b->d);
		b->bytes += n;
		off += n;
		data += n;
		len -= n;
	}
	return 0;
}

static int
compare_slice(struct diff *f, struct slice *s, struct content_ahead *a,
	      uint8_t *data, struct err *e)
{
	uint64_t pos = s->from, end = s->to < f->size ? s->to : f->size;
	struct block b = { .no = s->from / TREE_BLOCK };
	uint64_t off, len, next;
	int rc;

	while ((rc = content_next(f->it->fd, pos, end, &off, &len, e)) == 1) {
		a->end = off + len;
		for (uint64_t stop = off + len; off < stop && rc >= 0;) {
			size_t n = send_file_piece(off, stop);

			rc = send_stopped(f->p, e);
			rc = rc < 0 ? rc
				    : send_file_read(f->p, f->it, a, data, off,
						     n, e);
			rc = rc < 0 ? rc : take_data(f, s, &b, off, data, n, e);
			off += n;
			__atomic_add_fetch(&f->it->reread, n, __ATOMIC_RELAXED);
		}
		if (rc < 0) {
			return rc;
		}
		pos = off;
	}
	next = b.no;
	if (rc == 0 && b.bytes) {
		rc = note_block(f, s, &b, e);
		next++;
	}
	return rc < 0 ? rc
		      : note_holes(f, s, next,
				   (end + TREE_BLOCK - 1) / TREE_BLOCK, e);
}

/* The next slice with data, now or before: NULL at the end, or on error. */
static struct slice *
next_slice_locked(struct diff *f, struct err *e)
{
	struct slice *s;
	uint64_t at = UINT64_MAX, off, len, no;
	int rc = content_next(f->it->fd, f->pos, f->size, &off, &len, e);

	if (rc < 0) {
		f->rc = rc;
		return NULL;
	}
	if (rc == 1) {
		at = off;
	}
	if (blocks_next(f->old, f->pos / TREE_BLOCK, &no) &&
	    no * TREE_BLOCK < f->size && no * TREE_BLOCK < at) {
		at = no * TREE_BLOCK;
	}
	if (at == UINT64_MAX) {
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s) {
		buf_init(&s->ranges, SLICE / TREE_BLOCK * sizeof(struct range));
		s->from = at - at % SLICE;
		s->to = s->from + SLICE;
		s->have = blocks_new(e);
	}
	if (!s || !s->have || buf_append(&f->slices, &s, sizeof(s), e) < 0) {
		if (s) {
			blocks_free(s->have);
		}
		free(s);
		f->rc = err_nomem(e);
		return NULL;
	}
	f->pos = s->to;
	return s;
}

static struct slice *
next_slice(struct diff *f, struct err *e)
{
	struct slice *s;

	pthread_mutex_lock(&f->lock);
	s = f->rc < 0 ? NULL : next_slice_locked(f, &f->err);
	if (f->rc < 0) {
		*e = f->err;
	}
	pthread_mutex_unlock(&f->lock);
	return s;
}

static void *
compare_thread(void *arg)
{
	struct diff *f = arg;
	cleanup(free_ptr) uint8_t *data = malloc(TREE_PIECE);
	cleanup(content_ahead_fini) struct content_ahead a = { 0 };
	struct err e = { 0 };
	struct slice *s;
	int rc = data ? 0 : err_nomem(&e);

	while (rc == 0 && (s = next_slice(f, &e)) != NULL) {
		rc = compare_slice(f, s, &a, data, &e);
	}
	if (rc < 0) {
		pthread_mutex_lock(&f->lock);
		if (f->rc == 0) {
			f->rc = rc;
			f->err = e;
		}
		pthread_mutex_unlock(&f->lock);
	}
	return NULL;
}

/* Compare all of it, this thread and as many others as help. */
static int
compare(struct diff *f, struct err *e)
{
	unsigned want = f->size < HELP_FROM ? 1 : f->p->threads, started = 0;
	pthread_t tid[SEND_THREADS_MAX];

	while (started + 1 < want &&
	       pthread_create(&tid[started], NULL, compare_thread, f) == 0) {
		started++;
	}
	compare_thread(f);
	while (started) {
		pthread_join(tid[--started], NULL);
	}
	if (f->rc < 0) {
		*e = f->err;
	}
	return f->rc;
}

/* The slices' findings as one. */
static int
join(struct diff *f, struct buf *ranges, struct err *e)
{
	struct slice **s = (struct slice **)f->slices.data;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < f->slices.len / sizeof(*s); i++) {
		struct range *r = (struct range *)s[i]->ranges.data;

		rc = blocks_join(f->it->blocks, s[i]->have, e);
		for (size_t k = 0; rc == 0 && k < s[i]->ranges.len / sizeof(*r);
		     k++) {
			rc = add_range(ranges, r[k].first, r[k].n, r[k].kind,
				       e);
		}
	}
	return rc;
}

/* ---- sending ---- */

static int
put_hole(struct diff *f, struct lane *n, uint32_t id, const struct range *h,
	 struct err *e)
{
	uint64_t off = h->first * TREE_BLOCK, end = off + h->n * TREE_BLOCK;
	int rc = send_reserve(f->p, n, 0, DEF_HOLE, e);

	if (rc == 0) {
		tree_put_hole(&n->defs, id, off,
			      (end < f->size ? end : f->size) - off);
	}
	return rc;
}

/* Holes that touch become one. */
static int
send_holes(struct diff *f, struct lane *n, uint32_t id,
	   const struct buf *ranges, struct err *e)
{
	const struct range *r = (const struct range *)ranges->data;
	struct range h = { 0 };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ranges->len / sizeof(*r); i++) {
		if (r[i].kind != RANGE_HOLE && r[i].kind != RANGE_MIX) {
			continue;
		}
		if (h.n && h.first + h.n == r[i].first) {
			h.n += r[i].n;
			continue;
		}
		rc = h.n ? put_hole(f, n, id, &h, e) : 0;
		h = r[i];
	}
	return rc == 0 && h.n ? put_hole(f, n, id, &h, e) : rc;
}

/* Bytes [off, end), all of them. */
static int
send_bytes(struct diff *f, struct lane *n, uint32_t id, uint64_t off,
	   uint64_t end, uint64_t *chunks, struct err *e)
{
	f->it->ahead.end = end;
	while (off < end) {
		size_t len = send_file_piece(off, end);
		int rc = send_stopped(f->p, e);

		if (rc == 0) {
			rc = send_chunk(f->p, n, f->it, id, off, len, e);
		}
		if (rc < 0) {
			return rc;
		}
		off += len;
		++*chunks;
	}
	return 0;
}

/* Blocks with holes: what data there is of them. */
static int
send_data(struct diff *f, struct lane *n, uint32_t id, uint64_t pos,
	  uint64_t end, uint64_t *chunks, struct err *e)
{
	uint64_t off, len;
	int rc;

	while ((rc = content_next(f->it->fd, pos, end, &off, &len, e)) == 1) {
		rc = send_bytes(f, n, id, off, off + len, chunks, e);
		if (rc < 0) {
			return rc;
		}
		pos = off + len;
	}
	return rc;
}

static int
send_range(struct diff *f, struct lane *n, uint32_t id, const struct range *r,
	   uint64_t *chunks, struct err *e)
{
	uint64_t off = r->first * TREE_BLOCK, end = off + r->n * TREE_BLOCK;

	if (r->kind == RANGE_HOLE) {
		return 0;
	}
	end = end < f->size ? end : f->size;
	/* Hashed anew from what is sent (send_file_hash adds). */
	for (uint64_t no = r->first; no < r->first + r->n; no++) {
		blocks_put(f->it->blocks, no, &none, NULL);
	}
	return r->kind == RANGE_WHOLE
		       ? send_bytes(f, n, id, off, end, chunks, e)
		       : send_data(f, n, id, off, end, chunks, e);
}

static int
send_ranges(struct diff *f, struct lane *n, const struct buf *ranges,
	    struct err *e)
{
	const struct range *r = (const struct range *)ranges->data;
	struct item *it = f->it;
	uint32_t id = it->was_group ? it->was_group : send_new_id(f->p), wire;
	uint64_t chunks = 0;
	unsigned flushed = 0;
	int rc = send_prepare(f->p, n, it->dir, 0, &wire, e);

	if (rc == 0) {
		flushed = n->flushed;
		tree_put_update(&n->defs, id, wire, it->name, it->name_len,
				f->size);
		rc = send_holes(f, n, id, ranges, e);
	}
	if (rc == 0) {
		rc = send_flush(f->p, n, e);
	}
	/* With several streams a chunk could be there before a HOLE that did
	 * not fit into the batch of the UPDATE. */
	if (rc == 0 && n->flushed - flushed > 1) {
		rc = link_drain(f->p->l, e);
	}
	for (size_t i = 0; rc == 0 && i < ranges->len / sizeof(*r); i++) {
		rc = send_range(f, n, id, &r[i], &chunks, e);
	}
	if (rc == 0) {
		rc = send_reserve(f->p, n, tree_entry_size(&it->m, 0), 0, e);
	}
	if (rc == 0) {
		tree_put_file_end(&n->body, id, it->was_group != 0, chunks,
				  &it->m);
	}
	return rc;
}

static int
decide(struct diff *f, struct lane *n, struct err *e)
{
	cleanup(buf_finip) struct buf ranges = BUF_MAX((size_t)1 << 40);
	struct item *it = f->it;
	struct digest d;
	int rc = join(f, &ranges, e);

	if (rc < 0) {
		return rc;
	}
	it->content = blocks_sum(it->blocks);
	if (ranges.len || f->size != f->old_size) {
		it->how = SEND_UPDATE;
		it->content = none;
		rc = send_ranges(f, n, &ranges, e);
		it->content = blocks_sum(it->blocks);
		return rc;
	}
	d = send_file_proof(f->p, n, it, it->was_group);
	it->how = it->was_known && digest_eq(&d, &it->was_proof) ? SEND_SAME
								 : SEND_META;
	return 0;
}

int
send_diff(struct pass *p, struct lane *n, struct item *it, struct err *e)
{
	struct diff f = { .p = p,
			  .it = it,
			  .old_size = it->was_file->size,
			  .size = it->m.size,
			  .old = it->was_file->blocks };
	struct slice **s;
	int rc;

	it->bytes = 0;
	it->blocks = blocks_new(e);
	if (!it->blocks) {
		return E_NOMEM;
	}
	pthread_mutex_init(&f.lock, NULL);
	buf_init(&f.slices, (size_t)1 << 40);
	rc = compare(&f, e);
	rc = rc < 0 ? rc : decide(&f, n, e);
	s = (struct slice **)f.slices.data;
	for (size_t i = 0; i < f.slices.len / sizeof(*s); i++) {
		blocks_free(s[i]->have);
		buf_fini(&s[i]->ranges);
		free(s[i]);
	}
	buf_fini(&f.slices);
	pthread_mutex_destroy(&f.lock);
	return rc;
}
