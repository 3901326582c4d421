/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzmigrate: the program of the source host. Parses, runs, prints the one
 * error line, returns the exit code.
 */
#include "config.h"

#include <locale.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/exitcode.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/status.h"

static enum exitcode
act(int argc, char **argv, struct options *o, struct err *e)
{
	int rc = options_parse(argc, argv, o, e);

	if (rc < 0) {
		return exitcode_of(rc, STEP_NONE, false);
	}
	switch (o->action) {
	case OPTIONS_HELP:
		options_help(stdout);
		break;
	case OPTIONS_VERSION:
		puts("vzmigrate " PACKAGE_VERSION);
		break;
	case OPTIONS_RUN:
		options_tell(o, stderr);
		return o->status ? status_run(o, e) : run_all(o, e);
	}
	if (fflush(stdout) != 0) {
		err_set(e, E_SYSTEM, "cannot write to standard output");
		return EXITCODE_SYSTEM;
	}
	return EXITCODE_OK;
}

int
main(int argc, char **argv)
{
	struct options o;
	struct err e = { 0 };
	enum exitcode code = act(argc, argv, &o, &e);

	if (code != EXITCODE_OK) {
		fprintf(stderr, "vzmigrate: %s\n",
			e.text[0] ? e.text : "failed");
	}
	options_fini(&o);
	return (int)code;
}
