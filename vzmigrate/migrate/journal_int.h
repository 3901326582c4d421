/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * journal_int: what the file of the journal takes from the codec of its
 * records, besides journal_replay; for journal*.c alone.
 */
#ifndef MIGRATE_JOURNAL_INT_H
#define MIGRATE_JOURNAL_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "migrate/journal.h"

/* Whether it is a word that a record's event may be. */
bool journal_event_ok(const char *event);

/* Append the line of record `seq`, with its time (now), checksum and newline,
 * to `b`, which is empty. Keys must be as journal.h says. E_LIMIT where `b`
 * cannot take it, E_NOMEM. */
int journal_encode(struct buf *b, uint64_t seq, const char *event,
		   const struct journal_field *f, size_t n, struct err *e);

#endif
