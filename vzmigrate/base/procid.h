/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * procid: what makes a process one that cannot be mistaken for a later one
 * with the same pid, within one boot.
 */
#ifndef BASE_PROCID_H
#define BASE_PROCID_H

#include <stdint.h>

/* When the process started, in clock ticks since boot (proc(5), field 22 of
 * stat); 0 where there is none. Its state letter in `*state`, which may be
 * NULL. */
uint64_t procid_start(long pid, char *state);

#endif
