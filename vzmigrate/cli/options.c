/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options: one table of options, one function that acts on them. Input: the
 * argument vector; output: struct options, the caller's.
 */
#include "config.h"

#include "cli/options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cipher/probe.h"
#include "cli/exitcode.h"
#include "migrate/srccontrol.h"
#include "xfer/compress.h"
#include "xfer/zframe.h"
#include "xfer/feed.h"

#define PROBE_MIN_MS 100
#define PROBE_MAX_MS 600000
#define STOP_MS 60000
#define STOP_MAX_S 3600
#define ROUNDS 10
#define ROUNDS_MAX 100
#define ROUNDS_MS (24 * 3600 * 1000LL)
#define DOWNTIME_MS 300
#define DOWNTIME_MIN_MS 0
#define DOWNTIME_MAX_MS 3600000

enum id {
	ID_NONE = 0, /* known, means nothing here: accepted */
	ID_REFUSE,   /* known, refused: `text` says why */
	ID_REMOVE,
	ID_KEEP_DST,
	ID_NEW_ID,
	ID_NEW_NAME,
	ID_NEW_PRIVATE,
	ID_NEW_ROOT,
	ID_KIND,
	ID_LXCPATH,
	ID_VZ_CONF,
	ID_DST_LXCPATH,
	ID_DST_VZ_CONF,
	ID_SSH,
	ID_PORT,
	ID_IDENTITY,
	ID_JUMP,
	ID_SSH_CONFIG,
	ID_CIPHER,
	ID_MAC,
	ID_ALLOW_CIPHER,
	ID_PROBE,
	ID_PRINT,
	ID_AGENT,
	ID_METADATA,
	ID_TAKE_BACK,
	ID_CHECK_ONLY,
	ID_NOSTART,
	ID_STOP_TIMEOUT,
	ID_ROUNDS,
	ID_NOITER,
	ID_MAX_DOWNTIME,
	ID_ABORT,
	ID_STATUS,
	ID_NODEPS,
	ID_STREAMS,
	ID_COMPRESS,
	ID_NOCOMPRESS,
	ID_LIMIT,
	ID_LIMIT_CUTOVER,
	ID_JSON,
	ID_QUIET,
	ID_VERBOSE,
	ID_TIMES,
	ID_HELP,
	ID_VERSION,
};

/* `arg`: the value's name in the help; "[X]" is an optional one, NULL none.
 * `text`: for the help; with ID_REFUSE the reason; NULL: not in the help. A
 * row without text repeats the row above under another name. */
static const struct row {
	const char *name;
	char shrt; /* 0: none */
	enum id id;
	const char *arg;
	const char *text;
} rows[] = {
	{ "remove-area", 'r', ID_REMOVE, "yes|no",
	  "destroy the source copy after success (default: yes; dir: no)" },
	{ "keep-dst", 0, ID_KEEP_DST, NULL,
	  "after a failure leave what was copied there, for the next run" },
	{ "new-id", 0, ID_NEW_ID, "ID", "id of the container there" },
	{ "new-name", 0, ID_NEW_NAME, "NAME", "its name there" },
	{ "new-private", 0, ID_NEW_PRIVATE, "PATH",
	  "directory of its files there" },
	{ "dst", 0, ID_NEW_PRIVATE, "PATH", NULL },
	{ "new-root", 0, ID_NEW_ROOT, "PATH", "its mount point there" },
	{ "kind", 0, ID_KIND, "KIND",
	  "openvz, lxc or dir (default: what the container is)" },
	{ "lxcpath", 0, ID_LXCPATH, "PATH", "lxc containers of this host" },
	{ "dst-lxcpath", 0, ID_DST_LXCPATH, "PATH", "and of the other one" },
	{ "vz-conf", 0, ID_VZ_CONF, "FILE",
	  "OpenVZ's configuration on this host" },
	{ "dst-vz-conf", 0, ID_DST_VZ_CONF, "FILE", "and on the other one" },
	{ "check-only", 0, ID_CHECK_ONLY, NULL,
	  "check both hosts, change nothing" },
	{ "dry-run", 0, ID_CHECK_ONLY, NULL, NULL },
	{ "nostart", 0, ID_NOSTART, NULL,
	  "leave it stopped there, though it ran here" },
	{ "rounds", 0, ID_ROUNDS, "N",
	  "at most so many passes while it runs (10)" },
	{ "noiter", 0, ID_NOITER, NULL, "one pass while it runs" },
	{ "max-downtime", 0, ID_MAX_DOWNTIME, "SECONDS",
	  "passes go on until the last is expected to take less (0.3)" },
	{ "stop-timeout", 0, ID_STOP_TIMEOUT, "SECONDS",
	  "time it gets to stop, then by force (60)" },
	{ "nodeps", 'f', ID_NODEPS, "[LIST]",
	  "checks that only warn: arch,bindmount,ip,mac,net,quota,runtime" },
	{ "take-back", 0, ID_TAKE_BACK, "SESSION",
	  "un-retire it here: the other host is gone for good" },
	{ "abort", 0, ID_ABORT, NULL,
	  "give an unfinished move up, clean both hosts" },
	{ "status", 0, ID_STATUS, NULL,
	  "tell what is unfinished here, and how far it is; [CT ...]" },
	{ "metadata", 0, ID_METADATA, "strict|warn",
	  "what the other file system cannot hold is an error, or told" },

	{ "port", 'p', ID_PORT, "PORT", "port of the ssh server" },
	{ "identity", 'i', ID_IDENTITY, "FILE", "private key" },
	{ "jump", 'J', ID_JUMP, "HOST", "connect through this host" },
	{ "ssh-config", 0, ID_SSH_CONFIG, "FILE|none",
	  "instead of the user's ssh configuration" },
	{ "ssh", 0, ID_SSH, "OPTIONS",
	  "options as for ssh: -p -i -l -o -c -F -J -v -4 -6 -C" },
	{ "cipher", 0, ID_CIPHER, "LIST", "ciphers to offer, best first" },
	{ "ssh-cipher", 0, ID_CIPHER, "LIST", NULL },
	{ "mac", 0, ID_MAC, "LIST", "MACs to offer, best first" },
	{ "allow-cipher", 0, ID_ALLOW_CIPHER, "NAME",
	  "offer a weak cipher too (CBC, 3DES)" },
	{ "probe-ciphers", 0, ID_PROBE, "[SECONDS]",
	  "measure the ciphers on this link (4 s) and use the best" },
	{ "print", 0, ID_PRINT, NULL,
	  "with --probe-ciphers alone: print the name of the best, only" },
	{ "agent", 0, ID_AGENT, "COMMAND",
	  "how to start vzmigrate-agent there" },
	{ "streams", 0, ID_STREAMS, "N|auto",
	  "connections that carry the copy (1 to 16)" },
	{ "compress", 0, ID_COMPRESS, "[LEVEL]",
	  "compress at one level, 1 to 19 (3); default: as it pays" },
	{ "nocompress", 0, ID_NOCOMPRESS, NULL, "never compress" },
	{ "limit-speed", 'l', ID_LIMIT, "RATE",
	  "bytes per second at most, with K, M or G" },
	{ "limit-cutover", 0, ID_LIMIT_CUTOVER, NULL,
	  "the limit holds during the cut-over, too" },

	{ "json", 0, ID_JSON, NULL, "progress and result as JSON on stdout" },
	{ "quiet", 0, ID_QUIET, NULL,
	  "no progress; one line of summary, warnings and errors" },
	{ "verbose", 'v', ID_VERBOSE, NULL,
	  "every step and remote message; -vv: more" },
	{ "times", 't', ID_TIMES, NULL, "how long each step took" },
	{ "help", 'h', ID_HELP, NULL, "this text" },
	{ "usage", 0, ID_HELP, NULL, NULL },
	{ "version", 0, ID_VERSION, NULL, "the version" },

	/* Accepted: what they ask for is so anyway. */
	{ "ssh-mux", 0, ID_NONE, NULL, NULL },
	{ "resume", 0, ID_NONE, NULL, NULL },
	{ "whole-file", 'W', ID_NONE, NULL, NULL },
	{ "batch", 'b', ID_NONE, NULL, NULL },

	/* Refused: silence would be a wrong promise. */
	{ "live", 0, ID_REFUSE, NULL,
	  "running processes are not carried over by this version; without "
	  "the option it is stopped late and started there" },
	{ "online", 0, ID_REFUSE, NULL,
	  "running processes are not carried over by this version; without "
	  "the option it is stopped late and started there" },
	{ "rsync", 0, ID_REFUSE, "OPTIONS",
	  "rsync is not used; leave the option out" },
	{ "compact", 'c', ID_REFUSE, NULL,
	  "it compacts ploop images, which this version does not move; a "
	  "cipher is given with --cipher" },
	{ "snapshot", 's', ID_REFUSE, NULL,
	  "it makes a ploop snapshot, and ploop is not moved by this version" },
	{ "timeout", 0, ID_REFUSE, "SECONDS",
	  "use --ssh='-o ConnectTimeout=SECONDS'" },
	{ "keep-images", 0, ID_REFUSE, NULL,
	  "there are no images of running processes in this version" },
	{ "keeper", 0, ID_REFUSE, "[ID]", "keeper containers are not made" },
	{ "lazy", 0, ID_REFUSE, NULL,
	  "it is for running processes, which this version does not carry" },
	{ "require-realtime", 0, ID_REFUSE, NULL,
	  "it is for running processes, which this version does not carry" },
	{ "readonly", 0, ID_REFUSE, NULL,
	  "the source cannot be left unlocked; use -r no" },
	{ "nonsharedfs", 0, ID_REFUSE, NULL,
	  "shared file systems are not looked for" },
	{ "keep-src", 0, ID_REFUSE, NULL, "use -r no" },
	{ "private", 0, ID_REFUSE, "PATH", "use --new-private" },
	{ "new-uuid", 0, ID_REFUSE, NULL, "containers have no UUID here" },
	{ "config", 0, ID_REFUSE, "FILE",
	  "the container's own configuration is moved" },
	{ "run-as", 0, ID_REFUSE, "VERSION", "there is one protocol only" },
	{ "eztempl", 'z', ID_REFUSE, NULL, "templates are not moved" },
	{ "ignore-backup-disk", 0, ID_REFUSE, NULL,
	  "attached disks are not known here" },
	{ "noevent", 0, ID_REFUSE, NULL, "no events are sent" },
	{ "aprogress", 0, ID_REFUSE, NULL, "use --json" },
	{ "skiplock", 0, ID_REFUSE, NULL, "a container in use is never moved" },
	{ "skipregister", 0, ID_REFUSE, NULL,
	  "a container that is moved is registered there" },
	{ "socket", 0, ID_REFUSE, NULL, "the transport is SSH alone" },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))
#define LONG_BASE 256 /* getopt's value of rows[i] is LONG_BASE + i */

/* "-r/--remove-area" */
static const char *
shown(const struct row *r, char out[64])
{
	if (r->shrt) {
		snprintf(out, 64, "-%c/--%s", r->shrt, r->name);
	} else {
		snprintf(out, 64, "--%s", r->name);
	}
	return out;
}

static int
has_arg(const struct row *r)
{
	return !r->arg		? no_argument
	       : *r->arg == '[' ? optional_argument
				: required_argument;
}

/* ---- acting on one option ---- */

static int
bad_value(const struct row *r, const char *value, const char *why,
	  struct err *e)
{
	char name[64];

	return err_set(e, E_USAGE, "%s: '%s' %s", shown(r, name), value, why);
}

static int
set_remove(struct options *o, const struct row *r, const char *v, struct err *e)
{
	if (strcmp(v, "yes") == 0) {
		o->plan.remove = PLAN_REMOVE_YES;
	} else if (strcmp(v, "no") == 0) {
		o->plan.remove = PLAN_REMOVE_NO;
	} else {
		return bad_value(r, v, "is neither yes nor no", e);
	}
	return 0;
}

static int
set_kind(struct options *o, const struct row *r, const char *v, struct err *e)
{
	o->plan.kind = ct_kind_find(v);
	return o->plan.kind
		       ? 0
		       : bad_value(r, v, "is not a kind: openvz, lxc, dir", e);
}

static int
set_metadata(struct options *o, const struct row *r, const char *v,
	     struct err *e)
{
	if (strcmp(v, "strict") == 0) {
		o->plan.metadata = META_STRICT;
	} else if (strcmp(v, "warn") == 0) {
		o->plan.metadata = META_WARN;
	} else {
		return bad_value(r, v, "is neither strict nor warn", e);
	}
	return 0;
}

/* Some names are those of OpenVZ's tools; ipv6 is one that is not needed. */
static int
set_nodeps(struct options *o, const struct row *r, const char *v, struct err *e)
{
	static const char *const known[] = {
		"all",	"arch", "bindmount", "cpu",   "cpu_check", "ip",
		"ipv6", "mac",	"net",	     "quota", "runtime",
	};
	const char *p = v ? v : "all";

	if (*p == '=') {
		p++;
	}
	o->plan.nodeps = p;
	while (*p) {
		size_t n = strcspn(p, ","), i;

		for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			if (strlen(known[i]) == n &&
			    strncmp(known[i], p, n) == 0) {
				break;
			}
		}
		if (i == sizeof(known) / sizeof(known[0])) {
			return bad_value(r, p,
					 "is not a check that can be left out "
					 "(all, arch, bindmount, ip, mac, net, "
					 "runtime)",
					 e);
		}
		p += n + (p[n] == ',');
	}
	return 0;
}

static int
set_streams(struct options *o, const struct row *r, const char *v,
	    struct err *e)
{
	int n = 0;
	unsigned count = 0;

	if (strcmp(v, "auto") == 0) {
		o->streams = 0;
		return 0;
	}
	if (*v < '1' || *v > '9' || sscanf(v, "%3u%n", &count, &n) != 1 ||
	    v[n] || count > FEED_STREAMS_MAX) {
		return bad_value(r, v,
				 "is neither a number of 1 to 16 nor auto", e);
	}
	o->streams = count;
	return 0;
}

static int
set_allow(struct options *o, const struct row *r, const char *v, struct err *e)
{
	if (o->nallow == OPTIONS_ALLOW_MAX) {
		return bad_value(r, v, "is one too many", e);
	}
	o->allow[o->nallow++] = v;
	return 0;
}

/* Whole seconds from 1 to `max`, into milliseconds. */
static int
set_seconds(const struct row *r, const char *v, int max, int64_t *ms,
	    struct err *e)
{
	int n = 0, s = 0;

	if (sscanf(v, "%6d%n", &s, &n) != 1 || v[n] || s < 1 || s > max) {
		char why[64];

		snprintf(why, sizeof(why), "is not a time of 1 to %d seconds",
			 max);
		return bad_value(r, v, why, e);
	}
	*ms = (int64_t)s * 1000;
	return 0;
}

/* Seconds with a fraction; a comma is none, whatever the locale. */
static int
set_time(const struct row *r, const char *v, int64_t min_ms, int64_t max_ms,
	 int64_t *to_ms, struct err *e)
{
	int whole, n = 0;
	unsigned ms = 0, scale = 100;
	char why[80];

	if (*v >= '0' && *v <= '9' && sscanf(v, "%4d%n", &whole, &n) == 1) {
		n += v[n] == '.';
		for (; v[n] >= '0' && v[n] <= '9'; n++, scale /= 10) {
			ms += (unsigned)(v[n] - '0') * scale;
		}
		*to_ms = (int64_t)whole * 1000 + ms;
	}
	if (n && !v[n] && *to_ms >= min_ms && *to_ms <= max_ms) {
		return 0;
	}
	/* Not %g, which writes a comma in some locales. */
	snprintf(why, sizeof(why), "is not a time of %lld.%lld to %lld seconds",
		 (long long)min_ms / 1000, (long long)min_ms % 1000 / 100,
		 (long long)max_ms / 1000);
	return bad_value(r, v, why, e);
}

static int
set_probe(struct options *o, const struct row *r, const char *v, struct err *e)
{
	if (!v) {
		o->probe_ms = PROBE_BUDGET_MS;
		return 0;
	}
	return set_time(r, v, PROBE_MIN_MS, PROBE_MAX_MS, &o->probe_ms, e);
}

static int
set_rounds(struct options *o, const struct row *r, const char *v, struct err *e)
{
	int n = 0, passes = 0;

	if (sscanf(v, "%4d%n", &passes, &n) != 1 || v[n] || passes < 1 ||
	    passes > ROUNDS_MAX) {
		char why[64];

		snprintf(why, sizeof(why), "is not a number from 1 to %d",
			 ROUNDS_MAX);
		return bad_value(r, v, why, e);
	}
	o->plan.rounds.max_rounds = (unsigned)passes;
	return 0;
}

static int
set_compress(struct options *o, const struct row *r, const char *v,
	     struct err *e)
{
	char *end;
	long level = COMPRESS_DEFAULT;

	if (v) {
		level = *v >= '0' && *v <= '9' ? strtol(v, &end, 10) : 0;
		if (level < 1 || level > ZFRAME_LEVEL_MAX || *end) {
			return bad_value(r, v, "is not a level of 1 to 19", e);
		}
	}
	o->plan.compress = (int)level;
	return 0;
}

static int
set_limit(struct options *o, const struct row *r, const char *v, struct err *e)
{
	char name[64];
	int rc = srccontrol_rate(v, shown(r, name), &o->plan.limit_speed, e);

	/* ssh's -l is another one. */
	return rc < 0 ? err_recode(e, rc,
				   "%s: '%s' is not a rate (a user is given as "
				   "user@host)",
				   name, v)
		      : 0;
}

/* Options whose meaning is in ssh/: the error gets the option's name. */
static int
set_ssh(struct options *o, const struct row *r, const char *v, struct err *e)
{
	char name[64];
	int rc = 0;

	switch (r->id) {
	case ID_SSH:
		/* It names itself and the option inside. */
		return sshopts_parse(&o->ssh, v, e);
	case ID_PORT:
		rc = sshopts_port(&o->ssh, v, e);
		break;
	case ID_IDENTITY:
		rc = sshopts_identity(&o->ssh, v, e);
		break;
	case ID_JUMP:
		rc = sshopts_jump(&o->ssh, v, e);
		break;
	default:
		rc = sshopts_config(&o->ssh, v, e);
		break;
	}
	return rc < 0 ? err_wrap(e, "%s", shown(r, name)) : 0;
}

/* Options that are a word kept as it is; NULL for the others. */
static const char **
word_of(struct options *o, struct plan_ct *new, enum id id)
{
	switch (id) {
	case ID_NEW_ID:
		return (const char **)&new->new_id;
	case ID_NEW_NAME:
		return (const char **)&new->new_name;
	case ID_NEW_PRIVATE:
		return (const char **)&new->new_private;
	case ID_NEW_ROOT:
		return (const char **)&new->new_root;
	case ID_LXCPATH:
		return &o->plan.host.lxcpath;
	case ID_VZ_CONF:
		return &o->plan.host.vz_conf;
	case ID_DST_LXCPATH:
		return &o->plan.dst_lxcpath;
	case ID_DST_VZ_CONF:
		return &o->plan.dst_vz_conf;
	case ID_CIPHER:
		return &o->cipher;
	case ID_MAC:
		return &o->mac;
	case ID_AGENT:
		return &o->agent;
	case ID_TAKE_BACK:
		return &o->take_back;
	default:
		return NULL;
	}
}

static int
act(struct options *o, struct plan_ct *new, const struct row *r, char *v,
    struct err *e)
{
	const char **word = word_of(o, new, r->id);
	char name[64];

	if (word) {
		*word = v;
		return *v ? 0 : bad_value(r, v, "is empty", e);
	}
	switch (r->id) {
	case ID_REFUSE:
		return err_set(e, E_USAGE, "%s: %s", shown(r, name), r->text);
	case ID_REMOVE:
		return set_remove(o, r, v, e);
	case ID_KIND:
		return set_kind(o, r, v, e);
	case ID_METADATA:
		return set_metadata(o, r, v, e);
	case ID_NODEPS:
		return set_nodeps(o, r, v, e);
	case ID_ALLOW_CIPHER:
		return set_allow(o, r, v, e);
	case ID_PROBE:
		return set_probe(o, r, v, e);
	case ID_SSH:
	case ID_PORT:
	case ID_IDENTITY:
	case ID_JUMP:
	case ID_SSH_CONFIG:
		return set_ssh(o, r, v, e);
	case ID_STREAMS:
		return set_streams(o, r, v, e);
	case ID_COMPRESS:
		return set_compress(o, r, v, e);
	case ID_NOCOMPRESS:
		o->plan.compress = COMPRESS_OFF;
		break;
	case ID_LIMIT:
		return set_limit(o, r, v, e);
	case ID_LIMIT_CUTOVER:
		o->plan.limit_cutover = true;
		break;
	case ID_KEEP_DST:
		o->plan.keep_dst = true;
		break;
	case ID_NOSTART:
		o->plan.nostart = true;
		break;
	case ID_ROUNDS:
		return set_rounds(o, r, v, e);
	case ID_NOITER:
		o->plan.rounds.max_rounds = 1;
		break;
	case ID_MAX_DOWNTIME:
		return set_time(r, v, DOWNTIME_MIN_MS, DOWNTIME_MAX_MS,
				&o->plan.rounds.target_ms, e);
	case ID_STOP_TIMEOUT:
		return set_seconds(r, v, STOP_MAX_S, &o->plan.stop_ms, e);
	case ID_CHECK_ONLY:
		o->plan.check_only = true;
		break;
	case ID_STATUS:
		o->status = true;
		break;
	case ID_ABORT:
		o->abort = true;
		break;
	case ID_JSON:
		o->json = true;
		break;
	case ID_QUIET:
		o->quiet = true;
		break;
	case ID_VERBOSE:
		o->verbose++;
		break;
	case ID_TIMES:
		o->times = true;
		break;
	case ID_PRINT:
		o->print = true;
		break;
	case ID_HELP:
		o->action = OPTIONS_HELP;
		break;
	case ID_VERSION:
		o->action = OPTIONS_VERSION;
		break;
	default:
		break;
	}
	return 0;
}

/* ---- the vector ---- */

static void
make_tables(struct option longs[ROWS + 1], char shorts[4 * ROWS + 2])
{
	char *s = shorts;

	*s++ = ':'; /* a missing value is told apart */
	for (size_t i = 0; i < ROWS; i++) {
		longs[i] = (struct option){ rows[i].name, has_arg(&rows[i]),
					    NULL, (int)(LONG_BASE + i) };
		if (rows[i].shrt) {
			*s++ = rows[i].shrt;
			for (int k = has_arg(&rows[i]); k > 0; k--) {
				*s++ = ':';
			}
		}
	}
	longs[ROWS] = (struct option){ 0 };
	*s = '\0';
}

static const struct row *
find_row(int c)
{
	if (c >= LONG_BASE) {
		return &rows[c - LONG_BASE];
	}
	for (size_t i = 0; i < ROWS; i++) {
		if (rows[i].shrt == c) {
			return &rows[i];
		}
	}
	return NULL;
}

/* What getopt_long could not take. */
static int
not_taken(int c, char **argv, struct err *e)
{
	const struct row *r = optopt ? find_row(optopt) : NULL;
	char name[64];

	if (r && c == ':') {
		return err_set(e, E_USAGE, "%s: a value is missing (%s)",
			       shown(r, name), r->arg);
	}
	if (r) {
		return err_set(e, E_USAGE, "%s takes no value", shown(r, name));
	}
	if (optopt) {
		return err_set(e, E_USAGE, "unknown option -%c", optopt);
	}
	return err_set(e, E_USAGE,
		       "unknown or ambiguous option %s (vzmigrate --help "
		       "lists them)",
		       argv[optind - 1]);
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

static int
parse_vector(int argc, char **argv, struct options *o, struct plan_ct *new,
	     struct err *e)
{
	struct option longs[ROWS + 1];
	char shorts[4 * ROWS + 2];
	int c, rc = 0;

	if (called_as_probe(argc, argv)) {
		o->probe_ms = PROBE_BUDGET_MS;
		o->print = true;
	}
	make_tables(longs, shorts);
	optind = 0; /* glibc: start over */
	opterr = 0;
	while (rc == 0 &&
	       (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		rc = c == '?' || c == ':' ? not_taken(c, argv, e)
					  : act(o, new, find_row(c), optarg, e);
		if (o->action != OPTIONS_RUN) {
			break;
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

int
options_parse(int argc, char **argv, struct options *o, struct err *e)
{
	struct plan_ct new = { 0 }; /* borrowed words */
	int rc;

	*o = (struct options){
		.plan.stop_ms = STOP_MS,
		.plan.rounds = { .target_ms = DOWNTIME_MS,
				 .max_rounds = ROUNDS,
				 .max_ms = ROUNDS_MS },
		.plan.compress = COMPRESS_AUTO,
	};
	rc = parse_vector(argc, argv, o, &new, e);
	if (rc < 0 || o->action != OPTIONS_RUN) {
		return rc;
	}
	rc = parse_words(argc, argv, o, e);
	rc = rc < 0 ? rc : set_new(o, &new, e);
	return rc < 0 ? rc : check_together(o, e);
}

void
options_fini(struct options *o)
{
	target_fini(&o->target);
	sshopts_fini(&o->ssh);
	for (size_t i = 0; i < o->ncts; i++) {
		plan_ct_fini(&o->cts[i]);
	}
	free(o->cts);
	*o = (struct options){ 0 };
}

/* ---- help ---- */

void
options_help(FILE *to)
{
	fputs("Usage: vzmigrate [option ...] [user@]host "
	      "CT[:NEWCT[:NEWPRIVATE[:NEWROOT]]] ...\n"
	      "       vzmigrate --kind=dir [option ...] [user@]host "
	      "SRC_DIR[:DST_DIR] ...\n"
	      "       vzmigrate --probe-ciphers[=SECONDS] [option ...] "
	      "[user@]host\n"
	      "       vzmigrate --status [--json] [CT ...]\n"
	      "Move containers to another host over SSH; one that runs is "
	      "stopped "
	      "late and started there.\n\n",
	      to);
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *r = &rows[i];
		char left[64];
		int n;

		if (!r->text || r->id == ID_REFUSE) {
			continue;
		}
		n = snprintf(left, sizeof(left), "  %c%c%s--%s",
			     r->shrt ? '-' : ' ', r->shrt ? r->shrt : ' ',
			     r->shrt ? ", " : "  ", r->name);
		if (r->arg && *r->arg == '[') {
			snprintf(left + n, sizeof(left) - (size_t)n, "[=%s",
				 r->arg + 1);
		} else {
			snprintf(left + n, sizeof(left) - (size_t)n, "%s%s",
				 r->arg ? "=" : "", r->arg ? r->arg : "");
		}
		fprintf(to, "%-30s %s\n", left, r->text);
	}
	fputs("\nExit codes:\n", to);
	for (const struct exitcode_row *x = exitcode_rows; x->text; x++) {
		fprintf(to, "  %2d  %s\n", (int)x->code, x->text);
	}
	fputs("\nThe manual, vzmigrate(8), tells more.\n", to);
}
