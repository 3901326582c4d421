/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mutate: a tree that changes at random, in all the ways that a container can
 * change its own, from a seed.
 *
 * Names come from a small set and serve for all types, so that operations
 * meet: one that is not possible where it falls is left out. Not thread-safe;
 * one mutator at a time.
 */
#ifndef TESTS_MUTATE_H
#define TESTS_MUTATE_H

#include <stdint.h>

struct mutate;

/* A mutator of the tree at `rootfd` (borrowed). NULL without memory. */
struct mutate *mutate_new(int rootfd, uint64_t seed);

/* One operation. */
void mutate_step(struct mutate *m);

/* End what the "processes" hold: mappings. What was stored stays. */
void mutate_stop(struct mutate *m);

/* The last operations, one a line, for a failed test. */
void mutate_tell(const struct mutate *m);

void mutate_free(struct mutate *m);

#endif
