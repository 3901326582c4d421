/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rounds: whether another pass over a running container is worthwhile, before
 * it is stopped for the last one (design.md section 9). No state, no I/O.
 */
#ifndef MIGRATE_ROUNDS_H
#define MIGRATE_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* What a pass cost. */
struct rounds_pass {
	int64_t ms;	 /* from its begin until all was written there */
	int64_t walk_ms; /* of it, what it costs when nothing changed */
};

struct rounds_limits {
	unsigned passes;   /* at most so many while it runs; at least 1 */
	int64_t target_ms; /* the last pass may take so long */
};

#define ROUNDS_PASSES 10 /* unless told */
#define ROUNDS_LIMIT 100 /* what may be told */
#define ROUNDS_TARGET_MS 300

/*
 * After `n` (> 0) passes: whether there should be another one while the
 * container runs. `*expect_ms` is how long the last pass would take, as far as
 * can be told now.
 */
bool rounds_another(const struct rounds_pass *p, unsigned n,
		    const struct rounds_limits *l, int64_t *expect_ms);

#endif
