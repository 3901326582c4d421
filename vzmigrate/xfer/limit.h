/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * limit: how many bytes a second may leave, over all connections together. A
 * token bucket: who wants to send asks, and is told how long to wait. It
 * never blocks, so a connection's thread goes on serving acknowledgements and
 * keepalives meanwhile.
 */
#ifndef XFER_LIMIT_H
#define XFER_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct limit;

/* Least rate in bytes per second: below it one frame takes minutes. */
#define LIMIT_MIN 1024

/* `rate` in bytes per second; 0: no limit. NULL with E_NOMEM. */
struct limit *limit_new(uint64_t rate, struct err *e);
void limit_free(struct limit *l);

/* Another rate, at once; 0: none. What was sent already is not held against
 * it for more than a second. Any thread. */
void limit_set(struct limit *l, uint64_t rate);
uint64_t limit_rate(const struct limit *l);

/* While lifted nothing waits; the rate is kept. Any thread. */
void limit_lift(struct limit *l, bool on);

/*
 * May `n` bytes go at `now_ms` (io_now_ms)? 0: yes, and they are counted;
 * else milliseconds (at most 1000) after which to ask again. What is larger
 * than what is left goes as soon as anything is left, and what comes next waits
 * the longer: so a frame need not be split. NULL is no limit. Any thread.
 */
int64_t limit_take(struct limit *l, int64_t now_ms, size_t n);

#endif
