/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpuidle: how many of this host's processors are idle, from /proc/stat
 * (proc(5)).
 */
#ifndef XFER_CPUIDLE_H
#define XFER_CPUIDLE_H

#include <stdint.h>

/* The caller's; cpuidle_init first. */
struct cpuidle {
	int fd;	       /* of /proc/stat; -1: cannot be read */
	long ticks;    /* per second */
	uint64_t idle; /* ticks of all processors at the last reading */
	int64_t at_us; /* its time; 0: none yet */
	double last;   /* what was told last; < 0: nothing */
};

void cpuidle_init(struct cpuidle *c);
void cpuidle_fini(struct cpuidle *c);

/* Processors that were idle since the last reading, as a number (1.5); below
 * 0 where it is not known: the first time, or without /proc. `now_us` is
 * CLOCK_MONOTONIC. Does not block. */
double cpuidle_read(struct cpuidle *c, int64_t now_us);

/* The idle ticks in the text of /proc/stat: idle and waiting for a disk. 0, or
 * -1 where it is no such text. */
int cpuidle_parse(const char *text, uint64_t *idle);

#endif
