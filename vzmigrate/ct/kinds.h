/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kinds: the rows of ct_kinds[]; for ct/ alone.
 */
#ifndef CT_KINDS_H
#define CT_KINDS_H

#include <stdbool.h>

#include "ct/ct.h"

extern const struct ct_kind lxc_kind;
extern const struct ct_kind openvz_kind;
extern const struct ct_kind dir_kind;

/* What lxc_each and openvz_each tell of one container; borrowed strings.
 * `dir` is NULL where the kind has none, `tree` where it cannot be learned. A
 * positive return ends the walk and is returned. */
typedef int kinds_each_fn(const char *id, const char *dir, const char *tree,
			  void *arg);

/* Every container that this host's configuration knows, blocked and retired
 * ones too. 0, or what `fn` returned. Damaged configurations are passed over.
 */
int lxc_each(const struct ct_host *h, kinds_each_fn *fn, void *arg);
int openvz_each(const struct ct_host *h, kinds_each_fn *fn, void *arg);

/* The directory that holds the containers of the kind, as configured. Caller
 * frees; NULL where none is configured. */
char *lxc_base(const struct ct_host *h);
char *openvz_base(const struct ct_host *h);

#endif
