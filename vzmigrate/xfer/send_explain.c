/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_explain: names the entries in which two trees differ, after their sums
 * did. Fetches the agent's list, reads the source again, compares by path.
 * Runs only when something is badly wrong, so it is simple, not fast.
 */
#include "xfer/send.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "fs/beneath.h"
#include "fs/content.h"
#include "fs/meta.h"
#include "fs/scan.h"
#include "wire/tree.h"
#include "xfer/proof.h"

#define REPLY_MS 600000
#define NAMED_MAX 10
#define ENTRIES_MAX 50000000

struct theirs {
	struct digest path; /* digest of the path: the key */
	struct digest d;
	size_t name; /* offset in names */
	size_t name_len;
	bool seen;
};

struct explain {
	const struct digest_key *key;
	uint32_t drop_flags; /* left out when it was sent */
	struct buf list;     /* of struct theirs, sorted by path */
	struct buf names;
	struct buf out;
	struct digest_state *scratch;
	uint8_t *data; /* TREE_PIECE bytes */
	struct buf path;
	unsigned named; /* differences described */
};

static void
describe(struct explain *x, const char *what, const void *path, size_t len)
{
	char shown[1024];

	escape_bytes(shown, sizeof(shown), path, len);
	log_info("proof: %s: %s", what, len ? shown : "(the root)");
	if (x->named++ < NAMED_MAX) {
		buf_printf(&x->out, NULL, "%s%s: %s", x->out.len ? "; " : "",
			   len ? shown : "(the root)", what);
	}
}

/* One page. Returns how many entries it had. */
static int
take_page(struct explain *x, const struct buf *reply, struct err *e)
{
	struct dec d;
	uint32_t n;

	dec_init(&d, reply->data, reply->len);
	n = dec_u32(&d);
	for (uint32_t i = 0; i < n && d.rc == 0; i++) {
		struct theirs t = { .name = x->names.len };
		const uint8_t *p =
			dec_bytes(&d, SCAN_PATH_MAX + 512, &t.name_len);
		const uint8_t *dg = dec_raw(&d, DIGEST_LEN);
		int rc;

		if (!dg) {
			break;
		}
		t.path = digest_of(x->key, p, t.name_len);
		memcpy(t.d.b, dg, DIGEST_LEN);
		rc = buf_append(&x->names, p, t.name_len, e);
		if (rc == 0) {
			rc = buf_append(&x->list, &t, sizeof(t), e);
		}
		if (rc < 0) {
			return rc;
		}
	}
	if (dec_end(&d, "list of digests", e) < 0) {
		return E_PROTOCOL;
	}
	return (int)n;
}

static int
by_path(const void *a, const void *b)
{
	return memcmp(((const struct theirs *)a)->path.b,
		      ((const struct theirs *)b)->path.b, DIGEST_LEN);
}

static int
fetch(struct explain *x, struct link *l, struct err *e)
{
	struct msg_proof_list m = { 0 };
	int n;

	do {
		cleanup(buf_finip) struct buf body = BUF_MAX(MSG_BODY_MAX);
		cleanup(buf_finip) struct buf reply =
			BUF_MAX(FRAME_PAYLOAD_MAX);
		struct enc c;
		int rc;

		enc_init(&c, &body, e);
		msg_put_proof_list(&c, &m);
		rc = c.rc < 0 ? c.rc
			      : link_call(l, MSG_PROOF_LIST, body.data,
					  body.len, &reply, REPLY_MS, e);
		if (rc < 0) {
			return rc;
		}
		n = take_page(x, &reply, e);
		m.from += n > 0 ? (uint64_t)n : 0;
		if (m.from > ENTRIES_MAX) {
			n = err_set(e, E_LIMIT, "too many entries to compare");
		}
	} while (n > 0);
	if (x->list.len) {
		qsort(x->list.data, x->list.len / sizeof(struct theirs),
		      sizeof(struct theirs), by_path);
	}
	return n;
}

static int
hash_content(struct explain *x, int fd, uint64_t size, const char *name,
	     struct digest *content, struct err *e)
{
	uint64_t pos = 0, off, len;
	int rc;

	while ((rc = content_next(fd, pos, size, &off, &len, e)) == 1) {
		uint64_t stop = (off / TREE_PIECE + 1) * TREE_PIECE;
		size_t n =
			(size_t)((stop < off + len ? stop : off + len) - off);
		ssize_t got = content_read(fd, x->data, n, off, name, e);

		if (got < 0) {
			return (int)got;
		}
		if ((size_t)got < n) {
			break; /* shorter by now: the digest will differ */
		}
		proof_piece(x->key, off, x->data, n, content);
		pos = off + n;
	}
	return rc < 0 ? rc : 0;
}

static void
compare(struct explain *x, struct meta *m, const struct digest *content)
{
	struct theirs key = { .path = digest_of(x->key, x->path.data,
						x->path.len) };
	struct digest d;
	struct theirs *t = NULL;

	m->flags &= ~x->drop_flags;
	d = proof_name(x->key, (char *)x->path.data, x->path.len, m, content,
		       x->scratch);

	if (x->list.len) {
		t = bsearch(&key, x->list.data,
			    x->list.len / sizeof(struct theirs),
			    sizeof(struct theirs), by_path);
	}
	if (!t) {
		describe(x, "missing on the destination", x->path.data,
			 x->path.len);
		return;
	}
	t->seen = true;
	if (!digest_eq(&t->d, &d)) {
		describe(x, "differs", x->path.data, x->path.len);
	}
}

static int
on_dir(struct scan_dir *d, const struct statx *stx, void *arg, struct err *e)
{
	struct explain *x = arg;
	struct meta m = { 0 };
	int rc = meta_read(d->fd, "", d->fd, stx, &m, NULL, e);

	buf_clear(&x->path);
	if (rc == 0) {
		rc = buf_append(&x->path, d->path, d->path_len, e);
	}
	if (rc == 0) {
		if (d->id == TREE_ROOT) {
			m.flags &= ~PROOF_ROOT_LATE;
		}
		compare(x, &m, NULL);
	}
	meta_fini(&m);
	return rc;
}

static int
on_entry(struct scan_dir *d, const char *name, size_t name_len,
	 const struct statx *stx, void *arg, struct err *e)
{
	struct explain *x = arg;
	struct digest content = { 0 };
	struct meta m = { 0 };
	cleanup(close_fd) int fd = -1;
	int rc = 0;

	if (S_ISDIR(stx->stx_mode)) {
		return 0;
	}
	if (S_ISREG(stx->stx_mode)) {
		fd = beneath_open(d->fd, name, O_RDONLY | O_NOATIME, 0, e);
		rc = fd < 0 ? fd
			    : hash_content(x, fd, stx->stx_size, name, &content,
					   e);
	}
	buf_clear(&x->path);
	if (rc == 0) {
		rc = meta_read(d->fd, name, fd, stx, &m, NULL, e);
	}
	if (rc == 0) {
		rc = buf_printf(&x->path, e, "%.*s%s%.*s", (int)d->path_len,
				d->path, d->path_len ? "/" : "", (int)name_len,
				name);
	}
	if (rc == 0) {
		compare(x, &m, S_ISREG(stx->stx_mode) ? &content : NULL);
	}
	meta_fini(&m);
	return rc;
}

static int
on_fault(const char *path, size_t path_len, struct err *why, void *arg)
{
	describe(arg, why->text, path, path_len);
	return 0;
}

static int
compare_all(struct explain *x, int rootfd, struct err *e)
{
	static const struct scan_ops ops = { .on_dir = on_dir,
					     .on_entry = on_entry,
					     .on_fault = on_fault };
	struct scan_opts o = { .threads = 1 };
	struct theirs *t = (struct theirs *)x->list.data;
	int rc = scan_tree(rootfd, &o, &ops, x, e);

	for (size_t i = 0; rc == 0 && i < x->list.len / sizeof(*t); i++) {
		if (!t[i].seen) {
			describe(x, "only on the destination",
				 x->names.data + t[i].name, t[i].name_len);
		}
	}
	return rc;
}

int
send_explain(int rootfd, struct link *l, const struct digest_key *key,
	     uint32_t drop_flags, char *out, size_t outlen, struct err *e)
{
	struct explain x = { .key = key, .drop_flags = drop_flags };
	const char *text;
	int rc;

	buf_init(&x.list, (size_t)ENTRIES_MAX * sizeof(struct theirs));
	buf_init(&x.names, (size_t)1 << 34);
	buf_init(&x.out, 1 << 16);
	buf_init(&x.path, SCAN_PATH_MAX + 512);
	x.data = malloc(TREE_PIECE);
	x.scratch = digest_new(key, e);
	rc = x.data && x.scratch ? fetch(&x, l, e) : err_nomem(e);
	if (rc == 0) {
		rc = compare_all(&x, rootfd, e);
	}
	text = buf_cstr(&x.out, NULL);
	snprintf(out, outlen, "%s%s",
		 rc == 0 && text && *text ? text
					  : "no single entry differs "
					    "(hard links do)",
		 x.named > NAMED_MAX ? "; and more" : "");
	free(x.data);
	digest_free(x.scratch);
	buf_fini(&x.list);
	buf_fini(&x.names);
	buf_fini(&x.out);
	buf_fini(&x.path);
	return rc;
}
