/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of wire/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/msg.h"
#include "wire/tree.h"

static void
test_codec(void **state)
{
	struct buf b = BUF_MAX(1000);
	struct err e = { 0 };
	struct enc n;
	struct dec d;
	size_t len;
	char *s;

	(void)state;
	enc_init(&n, &b, &e);
	enc_u8(&n, 0xfe);
	enc_u16(&n, 0x1234);
	enc_u32(&n, 0x89abcdef);
	enc_u64(&n, 0x0123456789abcdefu);
	enc_i64(&n, -2);
	enc_str(&n, "abc");
	enc_str(&n, NULL);
	enc_bytes(&n, "\0x", 2);
	assert_int_equal(n.rc, 0);
	assert_memory_equal(b.data, "\xfe\x34\x12\xef\xcd\xab\x89", 7);
	dec_init(&d, b.data, b.len);
	assert_int_equal(dec_u8(&d), 0xfe);
	assert_int_equal(dec_u16(&d), 0x1234);
	assert_int_equal(dec_u32(&d), 0x89abcdef);
	assert_true(dec_u64(&d) == 0x0123456789abcdefu);
	assert_true(dec_i64(&d) == -2);
	s = dec_str(&d, 3);
	assert_string_equal(s, "abc");
	free(s);
	assert_null(dec_str(&d, 3));
	assert_int_equal(d.rc, 0);
	assert_memory_equal(dec_bytes(&d, 2, &len), "\0x", 2);
	assert_int_equal(dec_end(&d, "x", &e), 0);
	/* Past the end everything is zero, and the end is told. */
	assert_int_equal(dec_u32(&d), 0);
	assert_int_equal(dec_end(&d, "x", &e), E_PROTOCOL);
	assert_string_equal(e.text, "malformed x");
	buf_fini(&b);
}

static void
test_codec_limits(void **state)
{
	static const uint8_t nul[] = { 2, 0, 0, 0, 'a', 0 };
	static const uint8_t huge[] = { 0xfe, 0xff, 0xff, 0xff, 'a' };
	static const uint8_t more[] = { 1, 2 };
	struct err e = { 0 };
	struct dec d;
	size_t len;

	(void)state;
	dec_init(&d, nul, sizeof(nul));
	assert_null(dec_str(&d, 10));
	assert_int_equal(d.rc, E_PROTOCOL);
	dec_init(&d, huge, sizeof(huge));
	assert_null(dec_bytes(&d, SIZE_MAX, &len));
	assert_int_equal(d.rc, E_PROTOCOL);
	dec_init(&d, huge, sizeof(huge));
	assert_null(dec_str_needed(&d, 100));
	assert_int_equal(d.rc, E_PROTOCOL);
	dec_init(&d, more, sizeof(more));
	dec_u8(&d);
	assert_int_equal(dec_end(&d, "x", &e), E_PROTOCOL);
	assert_string_equal(e.text, "malformed x: 1 bytes too many");
}

static void
test_frame_header(void **state)
{
	struct frame_header h = { 0x12345, FRAME_BATCH, FRAME_F_ZSTD }, g;
	uint8_t b[FRAME_HEADER];
	struct err e = { 0 };

	(void)state;
	frame_put_header(b, &h);
	assert_memory_equal(b, "\x45\x23\x01\x00\x05\x01\x00\x00", 8);
	assert_int_equal(frame_get_header(b, &g, &e), 0);
	assert_int_equal(g.len, h.len);
	b[4] = 0;
	assert_int_equal(frame_get_header(b, &g, &e), E_PROTOCOL);
	b[4] = FRAME_SINK + 1;
	assert_int_equal(frame_get_header(b, &g, &e), E_PROTOCOL);
	b[4] = FRAME_BATCH;
	b[5] = 2;
	assert_int_equal(frame_get_header(b, &g, &e), E_PROTOCOL);
	b[5] = 0;
	b[7] = 1;
	assert_int_equal(frame_get_header(b, &g, &e), E_PROTOCOL);
	h.len = FRAME_PAYLOAD_MAX + 1;
	frame_put_header(b, &h);
	assert_int_equal(frame_get_header(b, &g, &e), E_PROTOCOL);
}

/* Field case T1. */
static void
test_greeting(void **state)
{
	char line[FRAME_GREETING_MAX];
	size_t len = frame_put_greeting(line, 5), noise, used, n;
	uint8_t *all = malloc(FRAME_NOISE_MAX + 1000);
	uint32_t proto, caps;
	struct err e = { 0 };

	(void)state;
	memset(all, 'x', FRAME_NOISE_MAX + 1000);
	memcpy(all + 7, "\0\n", 2);
	memcpy(all + 40000, line, len);
	memcpy(all + 40000 + len, "rest", 4);
	/* Incomplete at every length before its end, then found. */
	for (n = 0; n < 40000 + len; n += n < 39990 ? 997 : 1) {
		assert_int_equal(frame_find_greeting(all, n, &noise, &used,
						     &proto, &caps, &e),
				 0);
	}
	assert_int_equal(frame_find_greeting(all, 40000 + len + 4, &noise,
					     &used, &proto, &caps, &e),
			 1);
	assert_int_equal(noise, 40000);
	assert_int_equal(used, 40000 + len);
	assert_int_equal(proto, FRAME_PROTO);
	assert_int_equal(caps, 5);
	memset(all, 'x', FRAME_NOISE_MAX + 1000);
	assert_int_equal(frame_find_greeting(all, FRAME_NOISE_MAX + 1, &noise,
					     &used, &proto, &caps, &e),
			 E_PROTOCOL);
	memcpy(all, FRAME_MAGIC "proto=x\n", sizeof(FRAME_MAGIC) + 8);
	assert_int_equal(frame_find_greeting(all, 1000, &noise, &used, &proto,
					     &caps, &e),
			 E_PROTOCOL);
	free(all);
}

static void
test_tree_records(void **state)
{
	uint8_t space[2000];
	struct tree_out o = { space, 0, sizeof(space) };
	struct tree_in in = { space, 0 };
	struct tree_record r;
	struct err e = { 0 };
	struct meta m = { .type = FS_REG,
			  .perm = 04755,
			  .uid = 1,
			  .gid = 4294967294u,
			  .size = 5,
			  .mtime = { -1, 999999999 },
			  .flags = FS_NODUMP_FL };
	struct meta l = { .type = FS_LNK,
			  .target = (char *)"a/\xff",
			  .target_len = 3 };
	struct meta c = { .type = FS_CHR, .major = 1, .minor = 3 };
	const uint8_t *p;
	uint64_t off;
	uint32_t len;

	(void)state;
	assert_true(tree_put_dir(&o, 3, 0, "d", 1));
	assert_true(tree_put_file(&o, 9, 3, "big", 3, &m));
	assert_true(tree_put_entry(&o, 7, true, 3, "f\n", 2, &m));
	assert_true(tree_put_u32(&o, 1));
	assert_true(tree_put_piece(&o, 0, 5));
	memcpy(o.p + o.len, "hello", 5);
	o.len += 5;
	assert_true(tree_put_entry(&o, 0, false, 3, "l", 1, &l));
	assert_true(tree_put_entry(&o, 0, false, 3, "c", 1, &c));
	assert_true(tree_put_link(&o, 7, 0, "g", 1));
	assert_true(tree_put_file_end(&o, 9, false, 2, &m));
	in.left = o.len;
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_DIR);
	assert_int_equal(r.id, 3);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_FILE);
	assert_int_equal(r.size, 5);
	assert_int_equal(r.flags, FS_NODUMP_FL);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_ENTRY);
	assert_true(r.linked);
	assert_int_equal(r.name_len, 2);
	assert_memory_equal(r.name, "f\n", 2);
	assert_int_equal(r.meta.perm, 04755);
	assert_int_equal(r.meta.gid, 4294967294u);
	assert_true(r.meta.mtime.sec == -1);
	assert_int_equal(r.meta.mtime.nsec, 999999999);
	assert_int_equal(r.pieces, 1);
	assert_int_equal(tree_get_piece(&in, &off, &p, &len, &e), 0);
	assert_memory_equal(p, "hello", 5);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_memory_equal(r.meta.target, "a/\xff", 3);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.meta.minor, 3);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_LINK);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_FILE_END);
	assert_int_equal(r.chunks, 2);
	assert_int_equal(tree_get(&in, &r, &e), 0);
	/* Cut anywhere inside a record it is malformed, never read beyond. */
	for (size_t n = 1; n < o.len; n++) {
		struct tree_in cut = { space, n };
		int rc;

		while ((rc = tree_get(&cut, &r, &e)) == 1) {
			if (r.pieces &&
			    tree_get_piece(&cut, &off, &p, &len, &e) < 0) {
				break;
			}
		}
		assert_true(rc == 0 || rc == 1 || rc == E_PROTOCOL);
	}
}

/* The records of passes after the first. */
static void
test_tree_updates(void **state)
{
	uint8_t space[1000];
	struct tree_out o = { space, 0, sizeof(space) };
	struct tree_in in = { space, 0 };
	struct tree_record r;
	struct err e = { 0 };
	struct meta m = { .type = FS_REG, .perm = 0600, .size = 7 };

	(void)state;
	assert_true(tree_put_remove(&o, 4, "gone", 4));
	assert_true(tree_put_meta(&o, 12, true, 4, "m", 1, &m));
	assert_true(tree_put_meta(&o, 0, false, 0, "n", 1, &m));
	assert_true(tree_put_update(&o, 13, 4, "big", 3, 1u << 20));
	assert_true(tree_put_hole(&o, 13, TREE_BLOCK, 3 * TREE_BLOCK));
	assert_true(tree_put_hole(&o, 13, 0, 77));
	in.left = o.len;
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_REMOVE);
	assert_int_equal(r.dir, 4);
	assert_int_equal(r.name_len, 4);
	assert_memory_equal(r.name, "gone", 4);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_META);
	assert_int_equal(r.id, 12);
	assert_true(r.linked);
	assert_int_equal(r.dir, 4);
	assert_int_equal(r.meta.perm, 0600);
	assert_int_equal(r.meta.size, 7);
	assert_int_equal(r.pieces, 0);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_META);
	assert_false(r.linked);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_UPDATE);
	assert_int_equal(r.id, 13);
	assert_int_equal(r.size, 1u << 20);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.kind, TREE_HOLE);
	assert_int_equal(r.id, 13);
	assert_int_equal(r.off, TREE_BLOCK);
	assert_int_equal(r.len, 3 * TREE_BLOCK);
	assert_int_equal(tree_get(&in, &r, &e), 1);
	assert_int_equal(r.len, 77);
	assert_int_equal(tree_get(&in, &r, &e), 0);
	/* No record fits where there is no room, and none is begun. */
	o = (struct tree_out){ space, 0, 5 };
	assert_false(tree_put_remove(&o, 4, "gone", 4));
	assert_false(tree_put_meta(&o, 1, true, 4, "m", 1, &m));
	assert_false(tree_put_update(&o, 1, 4, "m", 1, 7));
	assert_false(tree_put_hole(&o, 1, 0, 7));
	assert_int_equal(o.len, 0);
}

static int
get_one(const struct tree_out *o)
{
	struct tree_in in = { o->p, o->len };
	struct tree_record r;
	struct err e = { 0 };

	return tree_get(&in, &r, &e);
}

static void
test_tree_updates_hostile(void **state)
{
	uint8_t space[1000];
	struct tree_out o = { space, 0, sizeof(space) };
	struct meta d = { .type = FS_DIR }, m = { .type = FS_REG };

	(void)state;
	/* The root is not to be removed, nor anything outside. */
	tree_put_remove(&o, 0, "", 0);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_remove(&o, 0, "..", 2);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_remove(&o, TREE_ID_MAX + 1u, "x", 1);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	/* Directories have entries for their metadata. */
	o.len = 0;
	tree_put_meta(&o, 0, false, 0, "x", 1, &d);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_meta(&o, 0, true, 0, "x", 1, &m);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_update(&o, 0, 0, "x", 1, 1);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_update(&o, 1, 0, "a/b", 3, 1);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_update(&o, 1, 0, "x", 1, UINT64_MAX);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	/* Holes begin with a block, hold something and end somewhere. */
	o.len = 0;
	tree_put_hole(&o, 1, 1, TREE_BLOCK);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_hole(&o, 1, TREE_BLOCK, 0);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_hole(&o, 1, 1ull << 62, 1ull << 62);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_hole(&o, 0, 0, TREE_BLOCK);
	assert_int_equal(get_one(&o), E_PROTOCOL);
	o.len = 0;
	tree_put_hole(&o, 1, 0, TREE_BLOCK);
	assert_int_equal(get_one(&o), 1);
	space[0] = TREE_HOLE + 1;
	assert_int_equal(get_one(&o), E_PROTOCOL);
}

/* Field case F13: names and ids that would lead outside, or nowhere. */
static void
test_tree_hostile(void **state)
{
	static const char *const names[] = { "..", ".", "a/b", "", "/etc" };
	uint8_t space[2000];
	struct tree_record r;
	struct err e = { 0 };
	struct meta d = { .type = FS_DIR }, m = { .type = FS_REG };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);
		struct tree_out o = { space, 0, sizeof(space) };
		struct tree_in in = { space, 0 };

		tree_put_dir(&o, 1, 0, names[i], n);
		in.left = o.len;
		assert_int_equal(tree_get(&in, &r, &e), E_PROTOCOL);
		o.len = 0;
		tree_put_entry(&o, 0, false, 0, names[i], n, &m);
		tree_put_u32(&o, 0);
		in = (struct tree_in){ space, o.len };
		assert_int_equal(tree_get(&in, &r, &e), E_PROTOCOL);
		o.len = 0;
		tree_put_link(&o, 5, 0, names[i], n);
		in = (struct tree_in){ space, o.len };
		assert_int_equal(tree_get(&in, &r, &e), E_PROTOCOL);
	}
	{
		/* A parent that is not smaller would make a ring. */
		struct tree_out o = { space, 0, sizeof(space) };
		struct tree_in in = { space, 0 };

		tree_put_dir(&o, 4, 4, "x", 1);
		in.left = o.len;
		assert_int_equal(tree_get(&in, &r, &e), E_PROTOCOL);
		/* The root is nobody's entry but its own. */
		o.len = 0;
		tree_put_entry(&o, 0, false, 3, "x", 1, &d);
		in = (struct tree_in){ space, o.len };
		assert_int_equal(tree_get(&in, &r, &e), E_PROTOCOL);
		/* Times and modes out of range. */
		o.len = 0;
		m.mtime.nsec = 1000000000;
		tree_put_entry(&o, 0, false, 0, "x", 1, &m);
		tree_put_u32(&o, 0);
		in = (struct tree_in){ space, o.len };
		assert_int_equal(tree_get(&in, &r, &e), E_PROTOCOL);
	}
}

static void
test_messages(void **state)
{
	struct buf b = BUF_MAX(100000);
	struct err e = { 0 };
	struct enc n;
	struct msg_open o = { .kind = (char *)"lxc",
			      .source = (char *)"a 101",
			      .id = (char *)"101",
			      .new_name = (char *)"x",
			      .keep_dst = true,
			      .metadata_policy = 1 },
			g;
	struct msg_check_reply c = { .fs = { .caps = 5, .type = "ext4" } }, k;

	(void)state;
	memset(o.session, 7, sizeof(o.session));
	enc_init(&n, &b, &e);
	msg_put_open(&n, &o);
	assert_int_equal(n.rc, 0);
	assert_int_equal(msg_get_open(b.data, b.len, &g, &e), 0);
	assert_string_equal(g.kind, "lxc");
	assert_null(g.name);
	assert_string_equal(g.new_name, "x");
	assert_true(g.keep_dst);
	assert_memory_equal(g.session, o.session, MSG_ID_LEN);
	msg_open_fini(&g);
	/* Every shorter one is refused, and leaks nothing. */
	for (size_t i = 0; i < b.len; i++) {
		assert_int_equal(msg_get_open(b.data, i, &g, &e), E_PROTOCOL);
	}
	buf_append(&b, "", 1, &e);
	assert_int_equal(msg_get_open(b.data, b.len, &g, &e), E_PROTOCOL);
	buf_clear(&b);
	ct_finding_add(&c.findings, E_EXISTS, false, "CT %d exists", 101);
	enc_init(&n, &b, &e);
	msg_put_check_reply(&n, &c);
	assert_int_equal(msg_get_check_reply(b.data, b.len, &k, &e), 0);
	assert_int_equal(k.findings.n, 1);
	assert_int_equal(k.findings.v[0].code, E_EXISTS);
	assert_string_equal(k.findings.v[0].text, "CT 101 exists");
	assert_string_equal(k.fs.type, "ext4");
	msg_check_reply_fini(&k);
	ct_findings_fini(&c.findings);
	buf_fini(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codec),
		cmocka_unit_test(test_codec_limits),
		cmocka_unit_test(test_frame_header),
		cmocka_unit_test(test_greeting),
		cmocka_unit_test(test_tree_records),
		cmocka_unit_test(test_tree_hostile),
		cmocka_unit_test(test_tree_updates),
		cmocka_unit_test(test_tree_updates_hostile),
		cmocka_unit_test(test_messages),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
