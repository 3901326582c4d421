/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options: the command line of vzmigrate. The options of OpenVZ's two tools
 * of that name are all known: what they asked for is done, or means nothing
 * here and is accepted with a line that says so, or is refused with a line that
 * names the option and says what to do.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "migrate/plan.h"
#include "ssh/sshlist.h"
#include "ssh/sshopts.h"
#include "ssh/target.h"

enum options_action {
	OPTIONS_RUN = 0,
	OPTIONS_HELP,
	OPTIONS_VERSION,
};

#define OPTIONS_CTS_MAX 512
#define OPTIONS_ALLOW_MAX 32

/* The program called by this name does --probe-ciphers --print. */
#define OPTIONS_PROBE_NAME "vzmigrate-cipher-probe"

/* Zero-initialise; options_fini frees. Plain strings are borrowed from the
 * argument vector. */
struct options {
	enum options_action action;
	struct target target;	 /* owned */
	const char *target_text; /* as written */
	struct sshopts ssh;	 /* owned */
	struct plan plan;
	struct plan_ct *cts; /* owned */
	size_t ncts;	     /* 0: --probe-ciphers alone */
	const char *cipher;  /* --cipher, --ssh-cipher: the last one */
	const char *mac;
	const char *allow[OPTIONS_ALLOW_MAX]; /* --allow-cipher */
	size_t nallow;
	const char *agent;     /* --agent, or NULL */
	const char *take_back; /* --take-back: the session; or NULL */
	bool print;	       /* --print: of the probe only the pick's name */
	unsigned streams;      /* --streams; 0: as many as pay */
	int64_t probe_ms;   /* --probe-ciphers: time to measure; 0: not asked */
	int64_t timeout_ms; /* --timeout: silence that ends it; 0: not given */
	bool abort;	    /* --abort */
	bool status; /* --status: `cts` are the words, there is no target */
	bool json, quiet, times;
	int verbose;
	struct sshlist notes; /* for options_tell; owned */
};

/*
 * Take the vector apart (argv is reordered, as getopt does). 0; E_USAGE with a
 * text that names the option; E_LIMIT; E_NOMEM. `o` is to be freed in every case. Not
 * to be called by two threads at once.
 */
int options_parse(int argc, char **argv, struct options *o, struct err *e);

/* What was accepted without having a meaning, and as what the options for
 * rsync were taken: a line each. Nothing with --quiet. */
void options_tell(const struct options *o, FILE *to);

/* The text of --help. */
void options_help(FILE *to);

void options_fini(struct options *o);

#endif
