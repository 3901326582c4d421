/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: what a server sends before it has shown who it is.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ssh/kexprobe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kexprobe k;
	struct err e = { 0 };
	int rc = kexprobe_parse(data, size, &k, &e);

	if (rc < 0 && (!e.text[0] || e.code != rc)) {
		abort();
	}
	for (int i = 0; i < KEXLOG_LISTS; i++) {
		/* All lists or none, and nothing a terminal would obey. */
		if ((rc == 1) != (k.lists[i] != NULL)) {
			abort();
		}
		for (const char *p = k.lists[i]; p && *p; p++) {
			if (*p <= ' ' || *p > '~') {
				abort();
			}
		}
	}
	kexprobe_fini(&k);
	return 0;
}
