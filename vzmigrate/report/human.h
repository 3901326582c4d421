/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * human: numbers for people, and sizes from people. No locale: the decimal
 * point is a point under any LC_ALL.
 */
#ifndef REPORT_HUMAN_H
#define REPORT_HUMAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define HUMAN_MAX 32 /* enough for any text made here, with its NUL */

/* Bytes in decimal units (kB = 1000): "0 B", "999 B", "1.2 kB", "24.5 MB",
 * "1.1 GB"; one digit after the point below 100, none from there on. Returns
 * out. */
char *human_bytes(char out[HUMAN_MAX], uint64_t bytes);

/* Bytes per second in the same units: "930 MB/s". */
char *human_rate(char out[HUMAN_MAX], uint64_t bytes_per_s);

/* Milliseconds: "0.35 s", "12.3 s", "4m05s", "2h07m", "3d04h". A negative
 * number gives "?". */
char *human_duration(char out[HUMAN_MAX], int64_t ms);

/* Seconds as a clock for an ETA: "0:07", "4:05", "2:07:33"; "?" for a negative
 * number or one of 100 hours and more. */
char *human_clock(char out[HUMAN_MAX], int64_t seconds);

/* Parse a size: digits, optionally a fraction (".5"), then optionally K, M, G
 * or T in either case (powers of 1024, as dd and rsync), "KiB" for the same,
 * "KB" for a power of 1000; "B" alone is bytes. Blanks around are allowed.
 * `what` names the option in the error. 0, or E_USAGE (also for what does not
 * fit 64 bits and for a negative number). */
int human_parse_size(const char *text, const char *what, uint64_t *bytes,
		     struct err *e);

#endif
