/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options: takes the command line apart: the vector, the words after the
 * options, and what does not go together. Input: the argument vector; output:
 * struct options, the caller's.
 */
#include "config.h"

#include "cli/options.h"

#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cipher/probe.h"
#include "cli/options_int.h"
#include "xfer/compress.h"

#define STOP_MS 60000
#define ROUNDS 10
#define ROUNDS_MS (24 * 3600 * 1000LL)
#define DOWNTIME_MS 300
#define LONG_BASE 256 /* getopt's value of a row is LONG_BASE + its index */
#define ROWS_MAX 128

int
options_note(struct options *o, struct err *e, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return sshlist_add(&o->notes, text, e);
}

void
options_tell(const struct options *o, FILE *to)
{
	for (size_t i = 0; i < o->notes.n && !o->quiet; i++) {
		fprintf(to, "vzmigrate: %s\n", o->notes.v[i]);
	}
}

/* ---- the vector ---- */

/* getopt's tables, made from ours. */
struct tables {
	struct option longs[ROWS_MAX + 1];
	char shorts[4 * ROWS_MAX + 2];
};

static int
has_arg(const struct options_row *r)
{
	return !r->arg		? no_argument
	       : *r->arg == '[' ? optional_argument
				: required_argument;
}

static void
make_tables(struct tables *t)
{
	char *s = t->shorts;
	size_t i = 0;

	*s++ = ':'; /* a missing value is told apart */
	for (const struct options_row *r = options_table; r->name; r++, i++) {
		assert(i < ROWS_MAX);
		t->longs[i] = (struct option){ r->name, has_arg(r), NULL,
					       (int)(LONG_BASE + i) };
		if (r->shrt) {
			*s++ = r->shrt;
			for (int k = has_arg(r); k > 0; k--) {
				*s++ = ':';
			}
		}
	}
	t->longs[i] = (struct option){ 0 };
	*s = '\0';
}

static const struct options_row *
find_row(int c)
{
	return c >= LONG_BASE ? &options_table[c - LONG_BASE]
			      : options_table_short(c);
}

/* A long name that getopt could not take: it means nothing, or several. */
static int
not_one(const char *word, struct err *e)
{
	size_t len = strcspn(word, "="), n = 0;
	char list[512];

	for (const struct options_row *r = options_table; r->name; r++) {
		if (strncmp(word + 2, r->name, len - 2) == 0 &&
		    n + strlen(r->name) + 5 < sizeof(list)) {
			n += (size_t)sprintf(list + n, "%s--%s", n ? ", " : "",
					     r->name);
		}
	}
	if (n) {
		return err_set(e, E_USAGE, "%.*s can be any of %s", (int)len,
			       word, list);
	}
	return err_set(e, E_USAGE,
		       "unknown option %.*s (vzmigrate --help lists them)",
		       (int)len, word);
}

/* What getopt_long could not take. */
static int
not_taken(int c, char **argv, struct err *e)
{
	const struct options_row *r = optopt ? find_row(optopt) : NULL;
	char name[64];

	if (r && c == ':') {
		return err_set(e, E_USAGE, "%s: a value is missing (%s)",
			       options_table_shown(r, name), r->arg);
	}
	if (r) {
		return err_set(e, E_USAGE, "%s takes no value",
			       options_table_shown(r, name));
	}
	if (optopt) {
		return err_set(e, E_USAGE, "unknown option -%c", optopt);
	}
	return not_one(argv[optind - 1], e);
}

/* By this name other tools ask for a cipher: --probe-ciphers --print. A name
 * of its own, since their host has another vzmigrate. */
static bool
called_as_probe(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;

	return argc > 0 &&
	       strcmp(slash ? slash + 1 : argv[0], OPTIONS_PROBE_NAME) == 0;
}

/* How the dispatcher of OpenVZ 7 calls its own; to getopt they are letters. */
static int
refuse_mode(int argc, char **argv, struct err *e)
{
	static const char *const modes[] = { "-agent", "-agent40", "-ps" };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (argc > 1 && strcmp(argv[1], modes[i]) == 0) {
			return err_set(e, E_USAGE,
				       "%s: connections are not taken over "
				       "from another program",
				       argv[1]);
		}
	}
	return 0;
}

static int
parse_vector(int argc, char **argv, struct options_parse *x, struct err *e)
{
	struct options *o = x->o;
	struct tables t;
	int c, rc = refuse_mode(argc, argv, e);

	if (called_as_probe(argc, argv)) {
		o->probe_ms = PROBE_BUDGET_MS;
		o->print = true;
	}
	make_tables(&t);
	optind = 0; /* glibc: start over */
	opterr = 0;
	while (rc == 0 && o->action == OPTIONS_RUN &&
	       (c = getopt_long(argc, argv, t.shorts, t.longs, NULL)) != -1) {
		if (c == '?' && optopt == '?') {
			o->action = OPTIONS_HELP; /* as in the classic */
		} else if (c == '?' || c == ':') {
			rc = not_taken(c, argv, e);
		} else {
			rc = options_table_act(x, find_row(c), optarg, e);
		}
	}
	return rc;
}

/* The --new-... options belong to the only container. */
static int
set_new(struct options *o, const struct plan_ct *new, struct err *e)
{
	struct plan_ct none = { 0 }; /* --probe-ciphers has no container */
	struct plan_ct *ct = o->ncts ? &o->cts[0] : &none;
	struct {
		const char *option, *value;
		char **to;
	} v[] = {
		{ "--new-id", new->new_id, &ct->new_id },
		{ "--new-name", new->new_name, &ct->new_name },
		{ "--new-private", new->new_private, &ct->new_private },
		{ "--new-root", new->new_root, &ct->new_root },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		if (!v[i].value) {
			continue;
		}
		if (o->ncts != 1) {
			return err_set(e, E_USAGE,
				       "%s is for one container, %zu are given "
				       "(use CT:NEWCT:NEWPRIVATE:NEWROOT)",
				       v[i].option, o->ncts);
		}
		if (*v[i].to && strcmp(*v[i].to, v[i].value) != 0) {
			return err_set(e, E_USAGE,
				       "%s '%s' contradicts '%s' after the "
				       "colon",
				       v[i].option, v[i].value, *v[i].to);
		}
		free(*v[i].to);
		*v[i].to = strdup(v[i].value);
		if (!*v[i].to) {
			return err_nomem(e);
		}
	}
	return 0;
}

static int
parse_cts(char **words, int n, struct options *o, struct err *e)
{
	int rc = 0;

	if (n > OPTIONS_CTS_MAX) {
		return err_set(e, E_USAGE, "more than %d containers",
			       OPTIONS_CTS_MAX);
	}
	o->cts = n ? calloc((size_t)n, sizeof(*o->cts)) : NULL;
	if (n && !o->cts) {
		return err_nomem(e);
	}
	for (int i = 0; i < n && rc == 0; i++) {
		rc = plan_ct_parse(&o->cts[o->ncts++], words[i], o->plan.kind,
				   e);
	}
	return rc;
}

/* The tool of OpenVZ 7 took USER:PASSWORD@HOST; to sshd that is a name, which
 * it writes into its log. The text does not repeat it. */
static int
no_password(const struct target *t, struct err *e)
{
	if (!t->user || !strchr(t->user, ':')) {
		return 0;
	}
	return err_set(e, E_USAGE,
		       "a password is not taken from the command line: use a "
		       "key, or type it when asked");
}

static int
parse_words(int argc, char **argv, struct options *o, struct err *e)
{
	int n = argc - optind, rc;

	if (o->status) {
		return parse_cts(argv + optind, n, o, e);
	}
	if (n < 1) {
		return err_set(e, E_USAGE,
			       "the destination is missing (vzmigrate --help "
			       "tells more)");
	}
	o->target_text = argv[optind];
	rc = target_parse(o->target_text, &o->target, e);
	rc = rc < 0 ? rc : no_password(&o->target, e);
	if (rc < 0) {
		return rc;
	}
	if (n < 2 && o->probe_ms && !o->take_back) {
		return 0; /* it only measures */
	}
	if (n < 2) {
		return err_set(e, E_USAGE,
			       "the container is missing (vzmigrate --help "
			       "tells more)");
	}
	return parse_cts(argv + optind + 1, n - 1, o, e);
}

static int
check_together(const struct options *o, struct err *e)
{
	if (o->quiet && o->verbose) {
		return err_set(e, E_USAGE,
			       "--quiet and -v/--verbose exclude each other");
	}
	if (o->take_back && o->probe_ms) {
		return err_set(e, E_USAGE,
			       "--take-back connects to no host, so "
			       "--probe-ciphers has nothing to measure");
	}
	if (o->take_back && o->abort) {
		return err_set(e, E_USAGE,
			       "--take-back and --abort exclude each other");
	}
	if (o->take_back && o->ncts > 1) {
		return err_set(e, E_USAGE,
			       "--take-back is for one container, %zu are "
			       "given",
			       o->ncts);
	}
	if (o->print && (!o->probe_ms || o->ncts || o->json)) {
		return err_set(e, E_USAGE,
			       "--print is for --probe-ciphers without a "
			       "container and without --json");
	}
	for (size_t i = 0; i < o->ncts; i++) {
		for (size_t k = 0; k < i; k++) {
			if (strcmp(o->cts[i].word, o->cts[k].word) == 0) {
				return err_set(e, E_USAGE, "%s is given twice",
					       o->cts[i].word);
			}
		}
	}
	return 0;
}

static int
parse(int argc, char **argv, struct options_parse *x, struct err *e)
{
	struct options *o = x->o;
	int rc = parse_vector(argc, argv, x, e);

	if (rc < 0 || o->action != OPTIONS_RUN) {
		return rc;
	}
	rc = options_rsync(x, e);
	rc = rc < 0 ? rc : parse_words(argc, argv, o, e);
	rc = rc < 0 ? rc : set_new(o, &x->new, e);
	return rc < 0 ? rc : check_together(o, e);
}

int
options_parse(int argc, char **argv, struct options *o, struct err *e)
{
	struct options_parse x = { .o = o };
	int rc;

	*o = (struct options){
		.plan.stop_ms = STOP_MS,
		.plan.rounds = { .target_ms = DOWNTIME_MS,
				 .max_rounds = ROUNDS,
				 .max_ms = ROUNDS_MS },
		.plan.compress = COMPRESS_AUTO,
	};
	rc = parse(argc, argv, &x, e);
	sshlist_fini(&x.rsync);
	return rc;
}

void
options_fini(struct options *o)
{
	target_fini(&o->target);
	sshopts_fini(&o->ssh);
	sshlist_fini(&o->notes);
	for (size_t i = 0; i < o->ncts; i++) {
		plan_ct_fini(&o->cts[i]);
	}
	free(o->cts);
	*o = (struct options){ 0 };
}
