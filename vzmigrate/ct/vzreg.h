/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzreg: containers of OpenVZ 7 (layout 4 and later): the private area holds
 * everything, the configuration ve.conf, the scripts and the dump too, and
 * the host knows a container by a link CTID.conf to its ve.conf, which
 * `vzctl register` makes. For ct/ alone.
 */
#ifndef CT_VZREG_H
#define CT_VZREG_H

#include "base/buf.h"
#include "ct/vzconf.h"

#define VZREG_CONF "ve.conf"

/* Whether the private area at `tree` has that layout: .ve.layout in it is a
 * link to its number. */
bool vzreg_is(const char *tree);

/* The CTID in the ve.conf at `path`, where it has the name `name`; NULL
 * otherwise. Heap. */
char *vzreg_ctid(const char *path, const char *name);

/* Whether the host knows the container `ctid` as the one at `tree`. */
bool vzreg_known(const struct vzconf *v, const char *ctid, const char *tree);

/* The tree is in its place: write its configuration, and `vzctl register` it.
 * `like` has its owner and mode. Durable; may be repeated. E_CONFIG. */
int vzreg_register(const struct vzconf *v, const struct ct_place *p,
		   const struct buf *config, const struct ct_file *like,
		   struct err *e);

/* `vzctl unregister`; that it is not known is success. E_CONFIG. */
int vzreg_unregister(const struct vzconf *v, const struct ct_place *p,
		     struct err *e);

#endif
