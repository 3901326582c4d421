/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * summary_int: what the files of the summary share; for summary*.c alone.
 */
#ifndef REPORT_SUMMARY_INT_H
#define REPORT_SUMMARY_INT_H

#include "base/buf.h"
#include "report/summary.h"

/* Bytes per second of the copying passes; copy_ms is not 0. */
uint64_t summary_rate(const struct summary *s);

/* a / b in hundredths; 0 where b is. */
uint64_t summary_ratio(uint64_t a, uint64_t b);

/* The lines for people (summary_human.c). */
int summary_put_human(struct buf *b, const struct summary *s, struct err *e);

#endif
