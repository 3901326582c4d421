/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctfits: whether a container would run on this host as it did on its own:
 * devices, addresses, cgroups, ranges of ids, the runtime's version. Facts of
 * the source come in the origin file; for ct/ alone.
 */
#ifndef CT_CTFITS_H
#define CT_CTFITS_H

#include <stdbool.h>

#include "base/buf.h"
#include "ct/ct.h"

/* "v1", "v2" or "hybrid". */
const char *ctfits_cgroup(void);

/* Source: append what every kind tells of its host ("cgroup"). */
int ctfits_put(struct buf *origin, struct err *e);

/* Destination: one line of the origin file with a fact of ours: "cgroup",
 * "runtime", "idmap", "mac", "ip"; others are passed over. `want` is whose it
 * is. */
void ctfits_check(const struct ct_host *h, const struct ct_want *w,
		  const char *key, const char *value, struct ct_findings *f);

/* A network device that the configuration names. */
void ctfits_check_device(const struct ct_want *w, const char *name,
			 struct ct_findings *f);

/* Who on this host has the MAC or the address (without a prefix length)
 * already: a container, but not `own` (id; or NULL), or the host itself. In
 * `who`; false: nobody. */
bool ctfits_mac_taken(const struct ct_host *h, const char *mac,
		      const char *own, char who[256]);
bool ctfits_ip_taken(const struct ct_host *h, const char *ip, const char *own,
		     char who[256]);

#endif
