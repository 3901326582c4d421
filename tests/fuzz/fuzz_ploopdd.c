/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: disk descriptors. What is taken has a top image; rewritten with
 * other paths it is taken again, with these and nothing else changed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ct/ploopdd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
again(const char *text, size_t len, const struct ploopdd *d)
{
	char *files[PLOOPDD_IMAGES_MAX] = { NULL };
	char one[] = "a <&> path", *none[PLOOPDD_IMAGES_MAX] = { NULL };
	struct ploopdd now;
	struct buf out;

	buf_init(&out, 8u << 20);
	for (size_t i = 0; i < d->n; i += 2) {
		files[i] = one;
	}
	if (ploopdd_rewrite(text, len, d, none, &out, NULL) < 0 ||
	    out.len != len || memcmp(out.data, text, len) != 0) {
		abort();
	}
	buf_clear(&out);
	if (ploopdd_rewrite(text, len, d, files, &out, NULL) < 0) {
		abort();
	}
	if (out.len <= PLOOPDD_MAX) {
		if (ploopdd_parse((char *)out.data, out.len, "again", &now,
				  NULL) != 0 ||
		    now.n != d->n) {
			abort();
		}
		for (size_t i = 0; i < d->n; i++) {
			if (strcmp(now.v[i].file,
				   files[i] ? one : d->v[i].file) != 0 ||
			    now.v[i].top != d->v[i].top) {
				abort();
			}
		}
		ploopdd_fini(&now);
	}
	buf_fini(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct ploopdd d;
	bool top = false;

	if (ploopdd_parse(text, size, "descriptor", &d, NULL) == 0) {
		for (size_t i = 0; i < d.n; i++) {
			top |= d.v[i].top;
			if (!*d.v[i].file || d.v[i].at > size ||
			    d.v[i].len > size - d.v[i].at) {
				abort();
			}
		}
		if (!top) {
			abort();
		}
		again(text, size, &d);
	}
	ploopdd_fini(&d);
	return 0;
}
