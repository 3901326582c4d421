/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: the journal's parser. Whatever the bytes, it ends with 0 or
 * E_CORRUPT, tells at most as many records as there are lines, and its sound
 * part parses to the same again. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

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

static void
parse(const char *data, size_t len)
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
	rc = journal_replay(b, sound, "fuzz", count, &again, &sound, &last, &e);
	assert(rc == 0 && again == seen);
	free(a);
	free(b);
}

/* A line with a right checksum, so that what is behind it is reached. */
static void
parse_sealed(const uint8_t *data, size_t len)
{
	char *line = malloc(len + 32);
	const uint8_t *nl = memchr(data, '\n', len);
	size_t n = nl ? (size_t)(nl - data) : len;

	assert(line);
	memcpy(line, data, n);
	n += (size_t)sprintf(line + n, " #%016llx\n",
			     (unsigned long long)XXH3_64bits(data, n));
	parse(line, n);
	free(line);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	parse((const char *)data, len);
	parse_sealed(data, len);
	return 0;
}
