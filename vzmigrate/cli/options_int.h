/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options_int: what the files options*.c share.
 */
#ifndef CLI_OPTIONS_INT_H
#define CLI_OPTIONS_INT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/options.h"
#include "migrate/plan.h"
#include "ssh/sshlist.h"

/* One command line while it is taken apart. */
struct options_parse {
	struct options *o;
	struct plan_ct new;   /* --new-...: borrowed words */
	struct sshlist rsync; /* --rsync, in order; owned */
	/* Said by an option of ours, which wins over what rsync is told. */
	bool own_compress, own_limit, own_timeout;
};

/* What becomes of an option. */
enum options_fate {
	OPTIONS_FLAG = 1, /* a bool of struct options, at `at` */
	OPTIONS_WORD,	  /* a string of struct options, kept as it is */
	OPTIONS_NEW,	  /* a string of struct plan_ct */
	OPTIONS_CALL,	  /* `set` acts on it */
	OPTIONS_ACTION,	  /* the enum options_action `at` */
	OPTIONS_NOTE,	  /* accepted, means nothing here: `text` says why */
	OPTIONS_REFUSE,	  /* `text` says why */
};

struct options_row;
typedef int options_set_fn(struct options_parse *x, const struct options_row *r,
			   const char *value, struct err *e);

struct options_row {
	const char *name;
	char shrt; /* 0: none */
	/* The value's name in the help; "[X]" is an optional one, NULL none. */
	const char *arg;
	enum options_fate fate;
	size_t at;
	options_set_fn *set;
	/* For the help, or the reason. NULL: another name of the row above. */
	const char *text;
};

/* The one table of options; the last row's name is NULL. */
extern const struct options_row options_table[];

/* By its short name; NULL where there is none. */
const struct options_row *options_table_short(int c);

/* "-r/--remove-area" into `out`, which is returned. */
const char *options_table_shown(const struct options_row *r, char out[64]);

/* Act on one option; `value` is NULL where none was given. E_USAGE naming the
 * option; E_NOMEM. */
int options_table_act(struct options_parse *x, const struct options_row *r,
		      const char *value, struct err *e);

/* Each reads the value of its row in the table. NULL stands for a value that
 * was left out. 0; E_USAGE naming the option; E_NOMEM. */
options_set_fn options_set_remove, options_set_kind, options_set_metadata,
	options_set_nodeps, options_set_streams, options_set_allow,
	options_set_stop, options_set_timeout, options_set_probe,
	options_set_downtime, options_set_rounds, options_set_compress,
	options_set_nocompress, options_set_limit, options_set_rsync,
	options_set_ssh, options_set_port, options_set_identity,
	options_set_jump, options_set_config, options_set_verbose;

/* A line for options_tell. 0 or E_NOMEM. */
int options_note(struct options *o, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Make of x->rsync what can be made of it, after all other options. E_USAGE
 * naming every word that cannot be honoured, and why; E_NOMEM.
 */
int options_rsync(struct options_parse *x, struct err *e);

#endif
