/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rounds: whether another pass over a running container is worthwhile before
 * it is stopped (design.md, section 9). Pure logic: no clock, no I/O.
 *
 * A pass finds what changed during the one before it. So what a pass had to
 * do, over the time that the pass before took, is the rate at which the
 * container makes work; times what this pass took, that is the work that
 * waits now. The walk comes on top, however little changed.
 */
#ifndef MIGRATE_ROUNDS_H
#define MIGRATE_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rounds_opts {
	int64_t target_ms;   /* wanted downtime's share of the final pass */
	unsigned max_rounds; /* passes before the stop; 0: no pass at all */
	int64_t max_ms;	     /* over all passes; 0: no limit */
};

/* What a pass was. */
struct rounds_pass {
	uint64_t sent_bytes;
	uint64_t reread_bytes; /* read only to compare */
	uint64_t entries;      /* records sent */
	/* What the next pass must read again in any case. */
	uint64_t suspect_bytes;
	int64_t ms;	 /* from its beginning to the agent's reply */
	int64_t walk_ms; /* of them: what an unchanged tree costs, if known;
			    0: nothing is known */
};

/* State; zero at first, but for `o`. */
struct rounds {
	struct rounds_opts o;
	unsigned done;	  /* passes */
	int64_t total_ms; /* of them */
	struct rounds_pass last;
	int64_t expected_ms;  /* of a final pass now; -1: not known */
	int64_t expected_was; /* after the pass before */
};

/*
 * A pass is over (NULL: none was yet). True: make another one before the stop;
 * false: stop now. `why` gets a line for people, of at most `size` bytes.
 */
bool rounds_next(struct rounds *r, const struct rounds_pass *p, char *why,
		 size_t size);

#endif
