/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctholds: what a tree that is to be moved, and then destroyed, must not
 * have inside; for ct/ alone.
 */
#ifndef CT_CTHOLDS_H
#define CT_CTHOLDS_H

#include "ct/ct.h"

/*
 * Refuse a plain directory (`path`, resolved) that holds a container, the
 * directory where containers are, or our own state directory. E_USAGE.
 */
int ctholds_dir(const struct ct_host *h, const char *path, struct err *e);

/*
 * Refuse a container whose tree (resolved) holds any of these, or its own
 * configuration, or is another container's tree or a part of it. E_CONFIG.
 */
int ctholds_ct(const struct ct_host *h, const struct ct *c, struct err *e);

/* A finding where `tree` would be in our own state directory. */
void ctholds_place(const struct ct_host *h, const char *tree,
		   struct ct_findings *f);

#endif
