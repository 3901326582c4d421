/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * summary: what a run did, once, at its end, on stdout.
 *
 * The first line is for programs and for grep, one `key=value` after another,
 * in this order, keys without a value left out; values with other than
 * graphic ASCII have those bytes as \xNN and are in double quotes:
 *
 *   vzmigrate: moved CT 101 to root@host: files=24500 bytes=1100000000 ...
 *   vzmigrate: failed CT 101 to root@host: step=passes owner=source ...
 *
 *   key          JSON     meaning
 *   session      string   id of the migration
 *   kind         string   openvz, lxc, dir
 *   new_ct       string   id on the destination
 *   place        string   where its files are there
 *   files        integer  entries of the tree sent, over all passes
 *   bytes        integer  bytes of file content sent, over all passes
 *   wire_bytes   integer  the same after compression, without SSH
 *   ratio        number   bytes / wire_bytes, 2 digits
 *   seconds      number   whole run, 3 digits
 *   rate         integer  bytes per second of the copying passes
 *   downtime     number   seconds from stop to running again, 3 digits
 *   passes       integer
 *   resent       integer  bytes sent again after pass 1
 *   final_bytes  integer  bytes read in the final pass (the downtime's work)
 *   streams      integer  data streams
 *   compress     string   "none", "zstd", ...
 *   cipher       string   negotiated, client to server
 *   mac          string   likewise; none for an AEAD cipher
 *   cipher_in    string   negotiated, server to client
 *   mac_in       string   likewise
 *   cipher_by    string   who decided: hardware (our list, ordered by the
 *                         processor), default (likewise, of an unknown one),
 *                         "ssh configuration", "ssh option", option, probe
 *   cipher_gain  number   probe: its rate / the default's, 2 digits
 *   cipher_default string probe: what negotiation would have taken
 *   source_kept  string   where the source copy is now; absent if destroyed
 *   verified     boolean  the proof was made over content too
 *   warnings     integer
 *   step         string   failed only: the step that failed
 *   owner        string   failed only: who owns the CT: source, destination,
 *                         unknown
 *   error        string   failed only
 *
 * Of one that was only checked `files` and `bytes` say what would be sent, and
 * there are no keys of a copy, but
 *
 *   state        string   what it is here: running, frozen, mounted, stopped,
 *                         suspended; not of a directory
 *   state_there  string   what it would be there, likewise
 *   disk_bytes   integer  what it takes on the disk here
 *   free_bytes   integer  room on the destination's file system, if known
 *   free_inodes  integer  likewise, where there is a limit
 *   filesystem   string   its type
 *   removes      boolean  the source copy would be destroyed
 *
 * Of one that was given up or taken back there are session, kind, seconds and
 * warnings only.
 *
 * In JSON it is one object on one line, with "event": "summary", "result":
 * "moved" (copied, checked, failed, "given up", "taken back"), "ct",
 * "destination", the keys above, and
 * "stages": [{"name", "seconds", "files", "bytes"}] where stages are given,
 * "remains": the paths that are to be removed to be rid of a copy that is
 * kept, as far as that can be said,
 * "ssh_config": the line (two with a MAC) that would make the probe's pick
 * permanent.
 */
#ifndef REPORT_SUMMARY_H
#define REPORT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum summary_result {
	SUMMARY_MOVED,	 /* the destination owns it now */
	SUMMARY_COPIED,	 /* a copy was made, the source stays (dir) */
	SUMMARY_CHECKED, /* --dry-run */
	SUMMARY_FAILED,
	SUMMARY_GIVEN_UP,   /* --abort: the source is as it was */
	SUMMARY_TAKEN_BACK, /* --take-back: likewise */
};

struct summary_stage {
	const char *name;
	int64_t ms;
	uint64_t files;
	uint64_t bytes;
};

/* What was found by checking alone. */
struct summary_check {
	const char *state, *state_there; /* or both NULL */
	bool up; /* it is copied while something of it is up */
	uint64_t disk_bytes;
	uint64_t free_bytes, free_inodes; /* UINT64_MAX: left out */
	const char *fs;
	bool removes;
};

/* All strings are borrowed; NULL, and a negative or 0 number where the comment
 * says so, leave the key out. Initialise with SUMMARY_INIT. */
struct summary {
	enum summary_result result;
	const char *ct;		 /* required */
	const char *destination; /* "root@host", required */
	const char *session;
	const char *kind;
	const char *new_ct;
	const char *place;
	uint64_t files;
	uint64_t bytes;
	uint64_t wire_bytes;  /* 0: left out, with ratio */
	int64_t ms;	      /* whole run */
	int64_t copy_ms;      /* the copying passes; < 1: no rate */
	int64_t downtime_ms;  /* < 0: left out */
	int passes;	      /* < 0: left out */
	uint64_t resent;      /* 0: left out */
	uint64_t final_bytes; /* 0: left out */
	int streams;	      /* < 0: left out */
	const char *compress;
	const char *cipher;
	const char *mac;
	const char *cipher_in;
	const char *mac_in;
	const char *cipher_by;
	double cipher_gain; /* <= 0: left out */
	const char *cipher_default;
	const char *ssh_config;	 /* shown as lines of their own to people */
	const char *source_kept; /* path or name */
	char *const *remains;	 /* see "remains" above */
	size_t nremains;
	int verified; /* < 0: left out */
	unsigned warnings;
	const struct summary_check *check;  /* checked only, and required */
	const char *step;		    /* failed only */
	const char *owner;		    /* failed only */
	const char *error;		    /* failed only */
	const struct summary_stage *stages; /* -t; may be NULL */
	size_t nstages;
};

#define SUMMARY_INIT                                                           \
	{                                                                      \
		.downtime_ms = -1, .passes = -1, .streams = -1, .verified = -1 \
	}

enum summary_format {
	SUMMARY_LINE,  /* the one line (--quiet) */
	SUMMARY_HUMAN, /* the one line, then lines for people */
	SUMMARY_JSON,
};

/* The text with its last newline, a heap string the caller frees; NULL with
 * E_NOMEM. */
char *summary_text(const struct summary *s, enum summary_format format,
		   struct err *e);

/* Append a value as in the first line. 0 or buf_append's errors. */
int summary_put_value(struct buf *b, const char *text, struct err *e);

/* Write it to `fd`. 0 or E_SYSTEM, E_NOMEM. Blocks on the descriptor. */
int summary_print(const struct summary *s, enum summary_format format, int fd,
		  struct err *e);

#endif
