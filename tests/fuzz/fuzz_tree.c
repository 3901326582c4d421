/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: the payload of a BATCH, as the receiver reads it. */
#include <stddef.h>
#include <stdint.h>

#include "wire/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
walk(struct tree_in in)
{
	struct tree_record r;
	struct err e = { 0 };

	while (tree_get(&in, &r, &e) == 1) {
		for (uint32_t i = 0; i < r.pieces; i++) {
			const uint8_t *p;
			uint64_t off;
			uint32_t len;

			if (tree_get_piece(&in, &off, &p, &len, &e) < 0) {
				return;
			}
			/* What it points to must be readable. */
			if (p[0] == 1 && p[len - 1] == 2) {
				e.sys++;
			}
		}
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tree_in body, defs;

	if (tree_split(data, size, &body, &defs, NULL) == 0) {
		walk(body);
		walk(defs);
	}
	return 0;
}
