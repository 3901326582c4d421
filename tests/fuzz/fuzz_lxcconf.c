/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: LXC's configuration. Without a change the rewriting keeps
 * every byte; with one, the root file system is the new one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ct/lxcconf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
last_rootfs(const char *key, const char *value, void *arg, struct err *e)
{
	int *good = arg;

	(void)e;
	if (strcmp(key, "lxc.rootfs.path") == 0 ||
	    strcmp(key, "lxc.rootfs") == 0) {
		value += strncmp(value, "dir:", 4) == 0 ? 4 : 0;
		/* An empty one stays: it means that the list is emptied. */
		*good = !*value || strcmp(value, "/srv/b/rootfs") == 0;
	}
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct lxcconf_pair pairs[] = { { "/a/rootfs", "/srv/b/rootfs" },
					      { "/a", "/srv/b" } };
	struct lxcconf_change none = { 0 };
	struct lxcconf_change ch = { pairs, 2, "/srv/b/rootfs", "a", "b" };
	const char *text = (const char *)data;
	struct buf out;
	int good = 0, rc;

	buf_init(&out, 16 * size + 4096);
	rc = lxcconf_rewrite(text, size, "f", &none, &out, NULL);
	if (rc == 0 &&
	    (out.len != size || (size && memcmp(out.data, data, size) != 0))) {
		abort();
	}
	buf_clear(&out);
	if (lxcconf_rewrite(text, size, "f", &ch, &out, NULL) != rc) {
		abort();
	}
	if (rc == 0 && (lxcconf_each((char *)out.data, out.len, "f",
				     last_rootfs, &good, NULL) != 0 ||
			!good)) {
		abort();
	}
	buf_fini(&out);
	return 0;
}
