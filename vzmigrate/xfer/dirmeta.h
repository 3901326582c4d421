/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dirmeta: the metadata of a pass's directories, by their ids, until all that
 * goes into them is there. There may be millions, so each takes 56 bytes. Not
 * thread-safe.
 */
#ifndef XFER_DIRMETA_H
#define XFER_DIRMETA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fs/meta.h"

struct dirmeta;

/* NULL with E_NOMEM. */
struct dirmeta *dirmeta_new(struct err *e);
/* NULL is allowed. */
void dirmeta_free(struct dirmeta *t);

/* All go, and their memory with them. */
void dirmeta_clear(struct dirmeta *t);

/* Keep a copy of `m`, of a directory. Ids begin at 0, and memory is taken for
 * those below: the caller has seen to it that `id` is sane. 0, E_EXISTS where
 * it has some already, E_NOMEM. */
int dirmeta_put(struct dirmeta *t, uint32_t id, const struct meta *m,
		struct err *e);

/* False where there is none. m->xattrs stays the table's, and valid as long as
 * that: no meta_fini. */
bool dirmeta_get(const struct dirmeta *t, uint32_t id, struct meta *m);

bool dirmeta_has(const struct dirmeta *t, uint32_t id);

/* How many there are; and an id that is larger than all of theirs. */
size_t dirmeta_count(const struct dirmeta *t);
uint32_t dirmeta_end(const struct dirmeta *t);

#endif
