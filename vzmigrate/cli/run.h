/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * run: the containers of one command line, one after another over one
 * control connection, each with its summary.
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "base/err.h"
#include "cli/exitcode.h"
#include "cli/options.h"

/*
 * Do what `o` says. Stops at the first failure, whose text is then in `e`,
 * and says which containers were not tried. Returns the exit code; also
 * EXITCODE_CLEAN_UP, with the text, for a move whose cleaning up failed.
 */
enum exitcode run_all(const struct options *o, struct err *e);

#endif
