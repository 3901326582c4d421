/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: the journal's parser. Whatever the bytes, it ends with 0 or
 * E_CORRUPT, tells at most as many records as there are lines, and its sound
 * part parses to the same again. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int
count(const struct journal_record *r, void *arg, struct err *e)
{
	(void)e;
	assert(r->seq == ++*(uint64_t *)arg);
	for (size_t i = 0; i < r->nfields; i++) {
		assert(strlen(r->fields[i].key) > 0 && r->fields[i].value);
	}
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *a = malloc(len + 1), *b = malloc(len + 1);
	uint64_t seen = 0, again = 0, last;
	struct err e = { 0 };
	size_t sound;
	int rc;

	assert(a && b);
	memcpy(a, data, len);
	memcpy(b, data, len);
	rc = journal_replay(a, len, "fuzz", count, &seen, &sound, &last, &e);
	assert(rc == 0 || rc == E_CORRUPT);
	assert(sound <= len && last == seen);
	rc = journal_replay(b, sound, "fuzz", count, &again, &sound, &last,
			    &e);
	assert(rc == 0 && again == seen);
	free(a);
	free(b);
	return 0;
}
