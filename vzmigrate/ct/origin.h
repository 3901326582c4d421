/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * origin: facts about the source that the destination needs to place and
 * check a container, as the text of the ct_file with the role "origin": lines
 * "KEY VALUE", the value with %xx for what is not printable ASCII. Keys:
 *	boot	the source's boot id (is it this very machine?)
 *	node	device:inode of the tree, decimal
 *	dir	the container's directory, as spelled and as resolved
 *	tree	the tree, as spelled and as resolved (openvz: resolved first,
 *		and only with ploop)
 *	ploop	the directory of a ploop disk, below the tree
 *	mode	the directory's mode (octal), uid, gid
 *	cgroup	"v1", "v2", "hybrid"
 *	runtime	"lxc 5.0.2"
 *	idmap	"u 0 100000 65536", as lxc.idmap has it
 *	mac, ip	of the container's network; an address may have /LENGTH
 *	layout	openvz: set for one of OpenVZ 7
 *	dump	openvz, suspended: which dump the tree carries (vzluggage)
 *	cpt	openvz: the version of that dump, by vzcptcheck
 *	quota	openvz: set where the tree may carry limits of its users
 *	need	WHAT PATH: something shared that has to be there as well
 *	want	the same, where only a start without it would be poorer
 */
#ifndef CT_ORIGIN_H
#define CT_ORIGIN_H

#include "base/buf.h"
#include "ct/ct.h"

#define ORIGIN_ROLE "origin"
#define ORIGIN_MAX (256u << 10)

/* Append "KEY [WHAT ]VALUE\n"; `what` may be NULL. */
int origin_put(struct buf *b, const char *key, const char *what,
	       const char *value, struct err *e);

/* Append "boot" and "node" for the tree at `tree`. */
int origin_put_node(struct buf *b, const char *tree, struct err *e);

/* Give `c` its origin file with what is in `b`. */
int origin_finish(struct ct *c, struct buf *b, struct err *e);

/* Called per line: `what` is NULL where the key has none; borrowed. */
typedef int origin_fn(const char *key, const char *what, const char *value,
		      void *arg, struct err *e);
/* Walk the lines. 0, what fn returned, E_PROTOCOL for a malformed one. No
 * origin file: 0. */
int origin_each(const struct ct_want *w, origin_fn *fn, void *arg,
		struct err *e);

/* The n-th (from 0) value of `key`; NULL where there is none. Caller frees. */
char *origin_get(const struct ct_want *w, const char *key, unsigned n);

/* Whether `path` (cleaned; need not exist) is the source's tree or below it:
 * only possible where source and destination are one machine. */
bool origin_is_above(const struct ct_want *w, const char *path);

/* Look for everything under "need" (an error of E_CONFIG) and "want" (a
 * warning), and whether the other facts fit this host (ctfits). */
int origin_check(const struct ct_host *h, const struct ct_want *w,
		 struct ct_findings *f, struct err *e);

#endif
