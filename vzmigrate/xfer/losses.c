/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * losses: a hash table with chains under one mutex; each entry is one piece of
 * memory. Empty, and asked without the lock, in nearly all runs.
 */
#include "xfer/losses.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/escape.h"
#include "base/log.h"

#define BUCKETS 4096
#define NAMED_MAX 20

struct entry {
	struct entry *next;
	uint64_t ino;
	struct meta_time sent_mtime, got_mtime;
	uint32_t sent_flags, sent_projid;
	uint32_t flags; /* refused bits */
	bool projid, times;
	size_t names_len;  /* refused attributes, each with its NUL */
	size_t xattrs_len; /* as sent, packed */
	uint8_t bytes[];   /* the names, then the attributes */
};

struct losses {
	pthread_mutex_t lock;
	uint64_t mult;	/* random, odd */
	uint64_t count; /* atomic */
	uint64_t warned;
	struct entry *bucket[BUCKETS];
};

struct losses *
losses_new(struct err *e)
{
	struct losses *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	if (digest_random(&t->mult, sizeof(t->mult), e) < 0) {
		free(t);
		return NULL;
	}
	t->mult |= 1;
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void
losses_free(struct losses *t)
{
	if (!t) {
		return;
	}
	for (size_t i = 0; i < BUCKETS; i++) {
		while (t->bucket[i]) {
			struct entry *n = t->bucket[i];

			t->bucket[i] = n->next;
			free(n);
		}
	}
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* The link that leads to the entry of `ino`, or to NULL. */
static struct entry **
find(struct losses *t, uint64_t ino)
{
	uint64_t h = ino * t->mult;
	struct entry **at = &t->bucket[(h ^ h >> 32) % BUCKETS];

	while (*at && (*at)->ino != ino) {
		at = &(*at)->next;
	}
	return at;
}

static bool
has_name(const uint8_t *names, size_t len, const char *name, size_t name_len)
{
	for (size_t i = 0; i < len;) {
		size_t n = strlen((const char *)names + i);

		if (n == name_len && memcmp(names + i, name, n) == 0) {
			return true;
		}
		i += n + 1;
	}
	return false;
}

/* An entry with what `old` (may be NULL) and `loss` tell together. */
static struct entry *
joined(const struct entry *old, uint64_t ino, const struct meta *sent,
       const struct meta_loss *loss)
{
	size_t names = (old ? old->names_len : 0) + loss->xattrs.len;
	size_t xattrs = old ? old->xattrs_len : sent->xattrs_len;
	struct entry *n = calloc(1, sizeof(*n) + names + xattrs);
	uint8_t *p;

	if (!n) {
		return NULL;
	}
	if (old) {
		*n = *old;
	} else {
		n->ino = ino;
		n->sent_flags = sent->flags;
		n->sent_projid = sent->projid;
		n->sent_mtime = sent->mtime;
	}
	p = n->bytes;
	if (old && old->names_len) {
		p = mempcpy(p, old->bytes, old->names_len);
	}
	if (loss->xattrs.len) {
		p = mempcpy(p, loss->xattrs.data, loss->xattrs.len);
	}
	if (xattrs) {
		memcpy(p, old ? old->bytes + old->names_len : sent->xattrs,
		       xattrs);
	}
	n->names_len = names;
	n->xattrs_len = xattrs;
	n->flags |= loss->flags;
	n->projid |= loss->projid;
	if (loss->times) {
		n->times = true;
		n->got_mtime = loss->mtime;
	}
	return n;
}

static void
warn(const char *path, size_t path_len, const struct meta_loss *loss)
{
	char shown[2048];

	escape_bytes(shown, sizeof(shown), path, path_len);
	log_warn("%s: %s; gone without it", path_len ? shown : "(the root)",
		 loss->why);
}

int
losses_add(struct losses *t, uint64_t ino, const char *path, size_t path_len,
	   const struct meta *sent, const struct meta_loss *loss, struct err *e)
{
	struct entry **at, *n;
	bool tell;

	if (!meta_loss_any(loss)) {
		return 0;
	}
	pthread_mutex_lock(&t->lock);
	at = find(t, ino);
	n = joined(*at, ino, sent, loss);
	if (!n) {
		pthread_mutex_unlock(&t->lock);
		return err_nomem(e);
	}
	if (!*at) {
		__atomic_add_fetch(&t->count, 1, __ATOMIC_RELEASE);
	}
	free(*at);
	*at = n;
	tell = t->warned++ < NAMED_MAX;
	pthread_mutex_unlock(&t->lock);
	if (tell) {
		warn(path, path_len, loss);
	}
	return 0;
}

bool
losses_any(struct losses *t)
{
	return __atomic_load_n(&t->count, __ATOMIC_ACQUIRE) != 0;
}

void
losses_forget(struct losses *t, uint64_t ino)
{
	struct entry **at, *n;

	if (!losses_any(t)) {
		return;
	}
	pthread_mutex_lock(&t->lock);
	at = find(t, ino);
	n = *at;
	if (n) {
		*at = n->next;
		free(n);
		__atomic_sub_fetch(&t->count, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&t->lock);
}

int
losses_copy(struct losses *t, uint64_t from, uint64_t to, struct err *e)
{
	static const struct meta_loss none;
	struct entry *old, *n = NULL;

	if (!__atomic_load_n(&t->count, __ATOMIC_ACQUIRE)) {
		return 0;
	}
	pthread_mutex_lock(&t->lock);
	old = *find(t, from);
	if (old && (n = joined(old, to, NULL, &none)) != NULL) {
		struct entry **at = find(t, to);

		n->ino = to;
		n->next = *at;
		*at = n;
		__atomic_add_fetch(&t->count, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&t->lock);
	return old && !n ? err_nomem(e) : 0;
}

/* The next attribute that was not refused: 1, or 0 at the end. */
static int
next_kept(const struct entry *n, const uint8_t *p, size_t len, size_t *at,
	  const uint8_t **item, size_t *item_len)
{
	while (*at < len) {
		size_t name_len = p[*at] | (size_t)p[*at + 1] << 8, value_len;
		const uint8_t *v = p + *at + 2 + name_len;

		value_len = v[0] | (size_t)v[1] << 8 | (size_t)v[2] << 16 |
			    (size_t)v[3] << 24;
		*item = p + *at;
		*item_len = 6 + name_len + value_len;
		*at += *item_len;
		if (!has_name(n->bytes, n->names_len, (const char *)*item + 2,
			      name_len)) {
			return 1;
		}
	}
	return 0;
}

/* Both blocks are well-formed: checked when they came, made by xattr_read. */
static bool
same_xattrs(const struct entry *n, const struct meta *m)
{
	const uint8_t *sent = n->bytes + n->names_len, *a, *b;
	size_t i = 0, j = 0, alen, blen;

	for (;;) {
		int x = next_kept(n, sent, n->xattrs_len, &i, &a, &alen);
		int y = next_kept(n, m->xattrs, m->xattrs_len, &j, &b, &blen);

		if (!x || !y) {
			return !x && !y;
		}
		if (alen != blen || memcmp(a, b, alen) != 0) {
			return false;
		}
	}
}

static bool
as_expected(const struct entry *n, const struct meta *m)
{
	const struct meta_time *t = n->times ? &n->got_mtime : &n->sent_mtime;

	return ((m->flags ^ n->sent_flags) & ~n->flags) == 0 &&
	       (n->projid || m->projid == n->sent_projid) &&
	       m->mtime.sec == t->sec && m->mtime.nsec == t->nsec &&
	       same_xattrs(n, m);
}

int
losses_restore(struct losses *t, uint64_t ino, struct meta *m, struct err *e)
{
	const struct entry *n;
	uint8_t *copy = NULL;
	int rc = 0;

	if (!__atomic_load_n(&t->count, __ATOMIC_ACQUIRE)) {
		return 0;
	}
	pthread_mutex_lock(&t->lock);
	n = *find(t, ino);
	if (n && as_expected(n, m)) {
		if (n->xattrs_len && !(copy = malloc(n->xattrs_len))) {
			rc = err_nomem(e);
		} else {
			free(m->xattrs);
			m->xattrs = copy;
			m->xattrs_len = n->xattrs_len;
			m->flags = n->sent_flags;
			m->projid = n->sent_projid;
			m->mtime = n->sent_mtime;
		}
		if (copy) {
			memcpy(copy, n->bytes + n->names_len, n->xattrs_len);
		}
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

void
losses_report(struct losses *t)
{
	pthread_mutex_lock(&t->lock);
	if (t->warned > NAMED_MAX) {
		log_warn("%llu more entries have metadata that this file "
			 "system refuses; gone without it",
			 (unsigned long long)(t->warned - NAMED_MAX));
	}
	pthread_mutex_unlock(&t->lock);
}
