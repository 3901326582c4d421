/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: the origin file and coded file names, both from a peer. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ct/ctfile.h"
#include "ct/origin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
put_again(const char *key, const char *what, const char *value, void *arg,
	  struct err *e)
{
	return origin_put(arg, key, what, value, e);
}

static void
file_name(const uint8_t *data, size_t size)
{
	char *coded = strndup((const char *)data, size);
	char *name = ctfile_decode(coded, NULL);

	if (name && (strchr(name, '/') || !*name || strcmp(name, "..") == 0)) {
		abort();
	}
	free(name);
	free(coded);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ct_file f = { .role = (char *)ORIGIN_ROLE,
			     .data = (uint8_t *)data,
			     .len = size };
	struct ct_want w = { .files = &f, .nfiles = 1 };
	struct buf out;

	buf_init(&out, 8 * size + 64);
	if (origin_each(&w, put_again, &out, NULL) == 0) {
		/* What can be read can be written, and read again. */
		struct buf twice;

		buf_init(&twice, 8 * size + 64);
		f.data = out.data;
		f.len = out.len;
		if (origin_each(&w, put_again, &twice, NULL) != 0 ||
		    twice.len != out.len ||
		    (out.len && memcmp(twice.data, out.data, out.len) != 0)) {
			abort();
		}
		buf_fini(&twice);
	}
	buf_fini(&out);
	file_name(data, size);
	return 0;
}
