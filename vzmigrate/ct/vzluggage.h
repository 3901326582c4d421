/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzluggage: what belongs to a simfs container beside its tree and is too
 * large for a message, or is known only once the container is stopped: the
 * dump of a suspended one, and the second level of its disk quota. It travels
 * as a part of the tree, in a directory of the tree's root, and so under the
 * same proof. For ct/ alone.
 *
 * The container's root could have made such a directory itself. So the host
 * has its own word for what is inside: on the source a mark beside the
 * configuration, on the destination the origin file; and the directory is
 * made anew when it is packed, when the container cannot start.
 *
 * Containers of OpenVZ 7 need none of it: their dump is in their private area.
 */
#ifndef CT_VZLUGGAGE_H
#define CT_VZLUGGAGE_H

#include "base/buf.h"
#include "ct/vzconf.h"

/* The directory in the tree's root. */
#define VZLUGGAGE_DIR ".vzmigrate-luggage"

/* ---- source ---- */

/* At load: add to the origin what will be packed: "dump" with what tells this
 * dump from another, "quota". Notes what cannot be. `own` is the
 * container's configuration. */
int vzluggage_facts(struct ct *c, const struct vzconf *v, const char *own,
		    size_t own_len, struct buf *origin, struct err *e);

/* Before the configuration is out of the way: whether the dump is still the
 * one of load. E_CHANGED. */
int vzluggage_same(const struct ct *c, const struct vzconf *v, struct err *e);

/* The container cannot start: move the dump into the tree, write the quota.
 * May be repeated. */
int vzluggage_pack(const struct ct *c, const struct vzconf *v, struct err *e);

/* Undo it; the container cannot start yet. Of `c` only id and tree are needed.
 * May be repeated. */
int vzluggage_unpack(const struct ct *c, const struct vzconf *v, struct err *e);

/* When the tree is gone: remove the mark, and a dump that was not carried,
 * which would be taken for the next container's of this id. */
int vzluggage_destroy(const struct ct *c, const struct vzconf *v,
		      struct err *e);

/* ---- destination ---- */

/* Findings: no room or no place for the dump, or another's in its place; no
 * quota programs. */
void vzluggage_check(const struct ct_want *w, const struct ct_place *p,
		     const struct vzconf *v, struct ct_findings *f);

/* The tree is in its place, the runtime does not know the container: the dump
 * goes to its own place, the quota is loaded. May be repeated. */
int vzluggage_take(const struct ct_want *w, const struct ct_place *p,
		   const struct vzconf *v, struct err *e);

/* After it: remove the directory from the tree. */
int vzluggage_done(const struct ct_want *w, const struct ct_place *p,
		   struct err *e);

/* Whether it may be undone: E_STATE where the container was resumed since. */
int vzluggage_untouched(const struct ct_want *w, const struct ct_place *p,
			const struct vzconf *v, struct err *e);

/* Undo it: the dump back into the tree at `p`, the quota file away. May be
 * repeated. */
int vzluggage_back(const struct ct_want *w, const struct ct_place *p,
		   const struct vzconf *v, struct err *e);

#endif
