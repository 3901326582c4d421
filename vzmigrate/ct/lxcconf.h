/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lxcconf: LXC's configuration files: read and rewrite.
 *
 * The format (lxc.container.conf(5)): "key = value" per line, white space
 * around both dropped, one pair of quotes around a value dropped, lines that
 * start with # are comments, an empty value empties a list.
 */
#ifndef CT_LXCCONF_H
#define CT_LXCCONF_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* One assignment; `value` is unquoted. All borrowed, NUL-terminated. */
typedef int lxcconf_fn(const char *key, const char *value, void *arg,
		       struct err *e);

/* Walk the assignments of one text. `name` is for errors. E_CONFIG for a NUL
 * byte or a line without '='. Stops at the first result that is not 0 and
 * returns it. */
int lxcconf_each(const char *text, size_t len, const char *name, lxcconf_fn *fn,
		 void *arg, struct err *e);

/* What to change. Pairs are replaced as whole paths, or heads of paths,
 * anywhere in a value; the longest `from` has to come first. */
struct lxcconf_pair {
	const char *from, *to;
};
struct lxcconf_change {
	const struct lxcconf_pair *pairs;
	size_t npairs;
	const char *rootfs; /* new root file system, or NULL: by the pairs */
	const char *old_id, *new_id; /* lxc.uts.name, where they differ */
};

/* Append the changed text to `out`; what needs no change stays bytewise. With
 * `rootfs` every lxc.rootfs.path (lxc.rootfs) is set to it, and one is added
 * where there is none. E_CONFIG as lxcconf_each. */
int lxcconf_rewrite(const char *text, size_t len, const char *name,
		    const struct lxcconf_change *ch, struct buf *out,
		    struct err *e);

/* Replace the pairs in `value` into `out`. */
int lxcconf_replace(const char *value, const struct lxcconf_change *ch,
		    struct buf *out, struct err *e);

#endif
