/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of track/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "track/blocks.h"
#include "track/ledger.h"
#include "track/slab.h"

static struct digest_key key;

static struct ledger *
fresh(void)
{
	struct err e = { 0 };
	struct ledger *l = ledger_new(&key, &e);

	assert_non_null(l);
	return l;
}

static int
meet(struct ledger *l, struct ledger_dir *d, const char *name,
     struct ledger_entry **en)
{
	struct err e = { 0 };

	return ledger_meet(l, 0, d, name, strlen(name), en, &e);
}

static struct ledger_dir *
mkdir_in(struct ledger *l, struct ledger_dir *d, const char *name)
{
	struct ledger_entry *en;
	struct ledger_dir *sub;
	struct err e = { 0 };

	assert_true(meet(l, d, name, &en) >= 0);
	sub = ledger_subdir(l, 0, d, en, &e);
	assert_non_null(sub);
	return sub;
}

static void
begin(struct ledger *l, unsigned pass)
{
	struct err e = { 0 };

	assert_int_equal(ledger_begin(l, pass, &e), 0);
	ledger_list(l, ledger_root(l), 0);
}

/* Names that ledger_sweep tells of. */
static char gone[1000];

static int
on_gone(struct ledger_dir *d, const char *name, size_t len, void *arg,
	struct err *e)
{
	(void)d;
	(void)e;
	snprintf(gone + strlen(gone), sizeof(gone) - strlen(gone), "%.*s ",
		 (int)len, name);
	return arg ? err_set(e, E_LIMIT, "as asked") : 0;
}

static int
sweep(struct ledger *l, struct ledger_dir *d)
{
	struct err e = { 0 };

	gone[0] = '\0';
	return ledger_sweep(l, 0, d, on_gone, NULL, &e);
}

static void
test_passes_follow(void **state)
{
	struct ledger *l = fresh();
	struct err e = { 0 };

	(void)state;
	assert_int_equal(ledger_begin(l, 2, &e), E_STATE);
	assert_int_equal(ledger_begin(l, 1, &e), 0);
	/* Not confirmed: of no use any more. */
	assert_int_equal(ledger_begin(l, 2, &e), E_STATE);
	assert_non_null(strstr(e.text, "was not finished"));
	ledger_commit(l);
	assert_int_equal(ledger_begin(l, 1, &e), E_STATE);
	assert_int_equal(ledger_begin(l, 2, &e), 0);
	ledger_free(l);
	ledger_free(NULL);
}

static void
test_names(void **state)
{
	struct ledger *l = fresh();
	struct ledger_dir *root = ledger_root(l), *d;
	struct ledger_entry *a, *b, *en;
	struct buf path = BUF_MAX(1000);
	struct err e = { 0 };
	size_t len;

	(void)state;
	begin(l, 1);
	assert_int_equal(meet(l, root, "a", &a), 0);
	assert_int_equal(a->flags, 0);
	assert_int_equal(meet(l, root, "b\n\xff", &b), 0);
	assert_int_equal(meet(l, root, "a", &en), E_EXISTS);
	assert_ptr_equal(en, a);
	assert_memory_equal(ledger_name(l, b, &len), "b\n\xff", 3);
	assert_int_equal(len, 3);
	d = mkdir_in(l, mkdir_in(l, root, "dir"), "in it");
	/* The same name elsewhere is another one. */
	assert_int_equal(meet(l, d, "a", &en), 0);
	assert_ptr_not_equal(en, a);
	assert_int_equal(ledger_path(l, d, &path, &e), 0);
	assert_int_equal(path.len, 9);
	assert_memory_equal(path.data, "dir/in it", 9);
	buf_clear(&path);
	assert_int_equal(ledger_path(l, root, &path, &e), 0);
	assert_int_equal(path.len, 0);
	a->flags |= LEDGER_KNOWN;
	ledger_commit(l);
	begin(l, 2);
	assert_int_equal(meet(l, root, "a", &en), 1);
	assert_ptr_equal(en, a);
	assert_int_equal(en->flags, LEDGER_KNOWN);
	buf_fini(&path);
	ledger_free(l);
}

static void
test_sweep(void **state)
{
	struct ledger *l = fresh();
	struct ledger_dir *root = ledger_root(l), *d;
	struct ledger_entry *en;
	struct ledger_stats s;
	struct err e = { 0 };
	char name[20];

	(void)state;
	begin(l, 1);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_int_equal(meet(l, root, name, &en), 0);
	}
	d = mkdir_in(l, mkdir_in(l, root, "d"), "e");
	assert_int_equal(meet(l, d, "f", &en), 0);
	assert_int_equal(sweep(l, root), 0);
	assert_string_equal(gone, "");
	ledger_commit(l);
	begin(l, 2);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		if (i != 7 && i != 500) {
			assert_int_equal(meet(l, root, name, &en), 1);
		}
	}
	/* An error of the callback ends it. */
	assert_int_equal(ledger_sweep(l, 0, root, on_gone, gone, &e), E_LIMIT);
	assert_int_equal(sweep(l, root), 0);
	assert_true(strstr(gone, "7 ") != NULL || strstr(gone, "d ") != NULL);
	/* What is left is found, what went is not, with all below it. */
	ledger_stats(l, &s);
	assert_int_equal(s.entries, 1 + 998);
	assert_int_equal(s.dirs, 1);
	ledger_commit(l);
	begin(l, 3);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_int_equal(meet(l, root, name, &en), i != 7 && i != 500);
	}
	assert_int_equal(sweep(l, root), 0);
	assert_string_equal(gone, "");
	ledger_free(l);
}

/* Small directories keep their table in themselves. */
static void
test_sweep_small(void **state)
{
	struct ledger *l = fresh();
	struct ledger_dir *root = ledger_root(l);
	struct ledger_entry *en;

	(void)state;
	begin(l, 1);
	meet(l, root, "a", &en);
	meet(l, root, "b", &en);
	meet(l, root, "c", &en);
	ledger_commit(l);
	begin(l, 2);
	assert_int_equal(meet(l, root, "b", &en), 1);
	assert_int_equal(sweep(l, root), 0);
	assert_int_equal(strlen(gone), 4);
	ledger_commit(l);
	begin(l, 3);
	assert_int_equal(meet(l, root, "b", &en), 1);
	assert_int_equal(meet(l, root, "a", &en), 0);
	ledger_free(l);
}

/* A name that becomes something else takes what it was with it. */
static void
test_reset(void **state)
{
	struct ledger *l = fresh();
	struct ledger_dir *root = ledger_root(l), *d;
	struct ledger_entry *en, *in;
	struct ledger_file *f;
	struct ledger_group *g;
	struct ledger_stats s;
	struct err e = { 0 };
	uint32_t file, group;

	(void)state;
	begin(l, 1);
	d = mkdir_in(l, root, "x");
	for (int i = 0; i < 2000; i++) {
		d = mkdir_in(l, d, "deep"); /* nothing recurses */
	}
	assert_int_equal(meet(l, d, "large", &in), 0);
	f = ledger_file_new(l, 0, &file, &e);
	f->blocks = blocks_new(&e);
	in->flags = LEDGER_LARGE;
	in->sub = file;
	g = ledger_group_new(l, 0, &group, &e);
	g->id = 5;
	assert_int_equal(meet(l, d, "one", &in), 0);
	ledger_join(l, in, group);
	assert_int_equal(meet(l, root, "two", &in), 0);
	ledger_join(l, in, group);
	ledger_stats(l, &s);
	assert_int_equal(s.dirs, 2002);
	assert_int_equal(s.files, 1);
	assert_int_equal(s.groups, 1);
	ledger_commit(l);
	begin(l, 2);
	assert_int_equal(meet(l, root, "x", &en), 1);
	assert_true(en->flags & LEDGER_DIR);
	ledger_reset(l, 0, en);
	assert_int_equal(en->flags, 0);
	ledger_stats(l, &s);
	assert_int_equal(s.dirs, 1);
	assert_int_equal(s.files, 0);
	assert_int_equal(s.groups, 1); /* it has a name yet */
	assert_int_equal(meet(l, root, "two", &en), 1);
	assert_int_equal(ledger_group(l, en->sub)->id, 5);
	ledger_reset(l, 0, en);
	ledger_stats(l, &s);
	assert_int_equal(s.groups, 0);
	ledger_free(l);
}

static void
test_seen(void **state)
{
	struct ledger *l = fresh();
	struct statx a = { .stx_ino = 5,
			   .stx_size = 6,
			   .stx_mode = S_IFREG | 0644,
			   .stx_mtime = { .tv_sec = -1, .tv_nsec = 999999999 },
			   .stx_ctime = { .tv_sec = 8, .tv_nsec = 1 },
			   .stx_mask = STATX_BTIME };
	struct statx b;
	struct digest d = ledger_seen(l, &a), f;

#define DIFFERS(change)                          \
	do {                                     \
		b = a;                           \
		change;                          \
		f = ledger_seen(l, &b);          \
		assert_false(digest_eq(&d, &f)); \
	} while (0)
	(void)state;
	DIFFERS(b.stx_ino++);
	DIFFERS(b.stx_size++);
	DIFFERS(b.stx_mtime.tv_nsec--);
	DIFFERS(b.stx_ctime.tv_nsec++);
	DIFFERS(b.stx_ctime.tv_sec++);
	DIFFERS(b.stx_btime.tv_sec++);
	DIFFERS(b.stx_mode = S_IFLNK);
#undef DIFFERS
	b = a;
	b.stx_atime.tv_sec++; /* reading is no change */
	f = ledger_seen(l, &b);
	assert_true(digest_eq(&d, &f));
	ledger_free(l);
}

static void
test_clock(void **state)
{
	struct ledger *l = fresh();

	(void)state;
	ledger_clock(l, 1000000000);
	ledger_clock(l, 999000000); /* two readings, one after the other */
	assert_false(ledger_doubts(l));
	ledger_clock(l, 5000000000); /* set forward */
	assert_false(ledger_doubts(l));
	ledger_clock(l, 4000000000);
	assert_true(ledger_doubts(l));
	ledger_clock(l, 9000000000);
	assert_true(ledger_doubts(l));
	ledger_free(l);
}

/* The promise of the header, measured: a million names. */
static void
test_memory(void **state)
{
	struct ledger *l = fresh();
	struct ledger_dir *root = ledger_root(l), *d = NULL;
	struct ledger_entry *en;
	struct ledger_stats s;
	uint64_t names = 0;
	struct err e = { 0 };
	char name[40];

	(void)state;
	begin(l, 1);
	for (int i = 0; i < 1000000; i++) {
		size_t len;

		if (i % 100 == 0) {
			snprintf(name, sizeof(name), "directory-%d", i);
			d = mkdir_in(l, root, name);
			ledger_list(l, d, (uint32_t)i);
		}
		len = (size_t)snprintf(name, sizeof(name), "some-file-%d.c", i);
		names += len + 1;
		assert_int_equal(ledger_meet(l, (unsigned)i % 4, d, name, len,
					     &en, &e),
				 0);
	}
	ledger_stats(l, &s);
	assert_int_equal(s.entries, 1000000 + 10000 + 1);
	print_message("%.1f bytes for a name of a million, besides its own\n",
		      (double)(s.bytes - names) / 1e6);
	assert_true(s.bytes - names < 80u * 1000000);
	ledger_free(l);
}

/* Several threads fill directories of their own. */
struct filler {
	struct ledger *l;
	struct ledger_dir *d;
	unsigned lane;
	int rc;
};

static void *
fill(void *arg)
{
	struct filler *f = arg;
	struct ledger_entry *en;
	struct err e = { 0 };
	char name[20];

	ledger_list(f->l, f->d, f->lane);
	for (int i = 0; i < 20000 && f->rc == 0; i++) {
		int len = snprintf(name, sizeof(name), "%u-%d", f->lane, i);

		f->rc = ledger_meet(f->l, f->lane, f->d, name, (size_t)len, &en,
				    &e);
	}
	return NULL;
}

static void
test_threads(void **state)
{
	struct ledger *l = fresh();
	struct filler f[4];
	pthread_t t[4];
	struct ledger_stats s;

	(void)state;
	begin(l, 1);
	for (unsigned i = 0; i < 4; i++) {
		char name[3] = { 'd', (char)('0' + i), '\0' };

		f[i] = (struct filler){ l, mkdir_in(l, ledger_root(l), name), i,
					0 };
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pthread_create(&t[i], NULL, fill, &f[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(f[i].rc, 0);
		assert_int_equal(f[i].d->count, 20000);
	}
	ledger_stats(l, &s);
	assert_int_equal(s.entries, 80005);
	ledger_free(l);
}

static struct digest
of(uint8_t v)
{
	return (struct digest){ { v } };
}

static void
test_blocks(void **state)
{
	struct err e = { 0 };
	struct blocks *t = blocks_new(&e), *more = blocks_new(&e);
	struct digest d, none = { 0 };
	uint64_t no;

	(void)state;
	assert_false(blocks_next(t, 0, &no));
	assert_false(blocks_next(NULL, 0, &no));
	d = of(1);
	assert_int_equal(blocks_put(t, 40, &d, &e), 0);
	d = of(2);
	assert_int_equal(blocks_put(t, 7, &d, &e), 0);
	d = of(3);
	/* Sparse files may be as large as numbers go. */
	assert_int_equal(blocks_put(t, UINT64_MAX / 65536, &d, &e), 0);
	assert_int_equal(blocks_put(t, 1000, &none, &e), 0);
	d = blocks_get(t, 7);
	assert_int_equal(d.b[0], 2);
	d = blocks_get(t, 8);
	assert_true(digest_eq(&d, &none));
	d = blocks_sum(t);
	assert_int_equal(d.b[0], 6);
	assert_true(blocks_next(t, 8, &no));
	assert_int_equal(no, 40);
	assert_true(blocks_next(t, 40, &no));
	assert_int_equal(no, 40);
	blocks_put(t, 40, &none, &e);
	assert_true(blocks_next(t, 8, &no));
	assert_int_equal(no, UINT64_MAX / 65536);
	assert_false(blocks_next(t, no + 1, &no));
	for (uint64_t i = 0; i < 100; i++) {
		d = of((uint8_t)i);
		assert_int_equal(blocks_put(more, i * 3, &d, &e), 0);
	}
	blocks_free(t);
	t = blocks_new(&e);
	assert_int_equal(blocks_join(t, more, &e), 0);
	d = blocks_get(t, 297);
	assert_int_equal(d.b[0], 99);
	assert_true(blocks_bytes(t) < 100 * 300);
	blocks_free(t);
	blocks_free(more);
	blocks_free(NULL);
}

static void
test_slab(void **state)
{
	struct err e = { 0 };
	struct slab s;
	uint32_t a, b, c;
	uint64_t *p;

	(void)state;
	assert_int_equal(slab_init(&s, 8, 2, &e), 0);
	p = slab_take(&s, 0, &a, &e);
	assert_int_not_equal(a, 0);
	assert_int_equal(*p, 0);
	*p = UINT64_MAX;
	assert_non_null(slab_take(&s, 1, &b, &e));
	assert_int_not_equal(a, b);
	assert_ptr_equal(slab_at(&s, a), p);
	slab_give(&s, 1, a);
	assert_int_equal(slab_count(&s), 1);
	/* What is given back is used again, and clean. */
	p = slab_take(&s, 1, &c, &e);
	assert_int_equal(c, a);
	assert_int_equal(*p, 0);
	for (int i = 0; i < 100; i++) {
		assert_non_null(slab_take(&s, 0, &c, &e));
	}
	assert_int_equal(slab_count(&s), 102);
	slab_fini(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slab),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_passes_follow),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_sweep),
		cmocka_unit_test(test_sweep_small),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_seen),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_memory),
	};

	if (digest_key_new(&key, NULL) < 0) {
		return 1;
	}
	return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
