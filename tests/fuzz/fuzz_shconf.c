/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: shell assignments. What an edit sets is what is read then, and
 * what it removes is gone. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ct/shconf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const keys[] = { "VE_PRIVATE", "VE_ROOT", "NAME",
					    "LOCKDIR" };
	const struct shconf_edit ed[] = { { "VE_PRIVATE", NULL },
					  { "NAME", "new one" } };
	const char *text = (const char *)data;
	struct buf out;
	char *v = NULL;

	for (size_t i = 0; i < 4; i++) {
		if (shconf_get(text, size, "f", keys[i], "101", &v, NULL) ==
		    1) {
			free(v);
		}
	}
	buf_init(&out, 2 * size + 4096);
	if (shconf_edit(text, size, ed, 2, &out, NULL) != 0) {
		abort();
	}
	if (!memchr(out.data, '\0', out.len)) {
		if (shconf_get((char *)out.data, out.len, "f", "VE_PRIVATE",
			       NULL, &v, NULL) != 0 ||
		    shconf_get((char *)out.data, out.len, "f", "NAME", NULL, &v,
			       NULL) != 1 ||
		    strcmp(v, "new one") != 0) {
			abort();
		}
		free(v);
	}
	buf_fini(&out);
	return 0;
}
