/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * status: --status: what migrations of this host are unfinished, and how far
 * they are.
 */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include "base/err.h"
#include "cli/exitcode.h"
#include "cli/options.h"

/* Print a line (--json: an object a line) for each unfinished migration of
 * the containers that are named; of all where none is. EXITCODE_NOT_FOUND
 * where a container is named that is in none. Blocks on the disk. */
enum exitcode status_run(const struct options *o, struct err *e);

#endif
