/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * summary_human: what follows the summary's first line, for people. No state.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "report/human.h"
#include "report/summary_int.h"

/* "web2 on root@b, in /var/lib/lxc/web2/rootfs" */
static int
put_there(struct buf *b, const struct summary *s, struct err *e)
{
	const char *id = s->new_ct ? s->new_ct : s->ct;
	bool in = s->place && strcmp(s->place, id) != 0;
	int r = summary_put_value(b, id, e);

	r = r ? r : buf_printf(b, e, " on ");
	r = r ? r : summary_put_value(b, s->destination, e);
	if (!r && in) {
		r = buf_printf(b, e, ", in ");
		r = r ? r : summary_put_value(b, s->place, e);
	}
	return r;
}

static int
put_where(struct buf *b, const struct summary *s, struct err *e)
{
	int r;

	if (!s->new_ct ||
	    (s->result != SUMMARY_MOVED && s->result != SUMMARY_COPIED)) {
		return 0;
	}
	r = buf_printf(b, e,
		       s->result == SUMMARY_MOVED ? "  now " : "  copied to ");
	r = r ? r : put_there(b, s, e);
	return r ? r : buf_printf(b, e, "\n");
}

/* "  24500 files, 1.1 GB in 3.20 s (344 MB/s), 4 streams, zstd 2.10:1" */
static int
put_amount(struct buf *b, const struct summary *s, struct err *e)
{
	char bytes[HUMAN_MAX], time[HUMAN_MAX], rate[HUMAN_MAX];
	uint64_t x = summary_ratio(s->bytes, s->wire_bytes);
	int r = buf_printf(b, e, "  %" PRIu64 " files, %s in %s", s->files,
			   human_bytes(bytes, s->bytes),
			   human_duration(time, s->ms > 0 ? s->ms : 0));

	if (!r && s->copy_ms > 0) {
		r = buf_printf(b, e, " (copying at %s)",
			       human_rate(rate, summary_rate(s)));
	}
	if (!r && s->passes > 0) {
		r = buf_printf(b, e, ", %d pass%s", s->passes,
			       s->passes == 1 ? "" : "es");
	}
	if (!r && s->streams > 0) {
		r = buf_printf(b, e, ", %d stream%s", s->streams,
			       s->streams == 1 ? "" : "s");
	}
	if (!r && s->compress && strcmp(s->compress, "none") == 0) {
		return buf_printf(b, e, ", not compressed\n");
	}
	if (!r && s->compress && s->wire_bytes > 0) {
		r = buf_printf(b, e, ", ");
		r = r ? r : summary_put_value(b, s->compress, e);
		r = r ? r
		      : buf_printf(b, e, " %" PRIu64 ".%02" PRIu64 ":1",
				   x / 100, x % 100);
	}
	return r ? r : buf_printf(b, e, "\n");
}

static int
put_downtime(struct buf *b, const struct summary *s, struct err *e)
{
	char time[HUMAN_MAX], bytes[HUMAN_MAX];
	int r;

	if (s->downtime_ms < 0) {
		return 0;
	}
	r = buf_printf(b, e, "  downtime %s",
		       human_duration(time, s->downtime_ms));
	if (!r && s->final_bytes) {
		r = buf_printf(b, e, " (final pass read %s)",
			       human_bytes(bytes, s->final_bytes));
	}
	return r ? r : buf_printf(b, e, "\n");
}

static int
put_cipher(struct buf *b, const struct summary *s, struct err *e)
{
	uint64_t gain = s->cipher_gain > 0 && s->cipher_gain < 1e9
				? (uint64_t)(s->cipher_gain * 100 + 0.5)
				: 0;
	int r;

	if (!s->cipher) {
		return 0;
	}
	r = buf_printf(b, e, "  cipher ");
	r = r ? r : summary_put_value(b, s->cipher, e);
	if (!r && s->mac) {
		r = buf_printf(b, e, " with ");
		r = r ? r : summary_put_value(b, s->mac, e);
	}
	if (!r && s->cipher_by) {
		r = buf_printf(b, e, ", chosen by ");
		r = r ? r : summary_put_value(b, s->cipher_by, e);
	}
	if (!r && gain && gain != 100 && s->cipher_default) {
		r = buf_printf(b, e,
			       ": %" PRIu64 ".%02" PRIu64
			       " times the speed of ",
			       gain / 100, gain % 100);
		r = r ? r : summary_put_value(b, s->cipher_default, e);
	}
	r = r ? r : buf_printf(b, e, "\n");
	if (!r && s->ssh_config) {
		const char *mac = strchr(s->ssh_config, '\n');

		r = buf_printf(b, e, "  permanent with, in ssh_config: %.*s\n",
			       (int)strcspn(s->ssh_config, "\n"),
			       s->ssh_config);
		r = r || !mac ? r : buf_printf(b, e, "  and: %s\n", mac + 1);
	}
	return r;
}

static int
put_stages(struct buf *b, const struct summary *s, struct err *e)
{
	char time[HUMAN_MAX], bytes[HUMAN_MAX];
	int r = 0;

	for (size_t i = 0; !r && i < s->nstages; i++) {
		const struct summary_stage *g = &s->stages[i];

		r = buf_printf(b, e, "  %-24s %9s", g->name,
			       human_duration(time, g->ms));
		if (!r && g->files) {
			r = buf_printf(b, e, " %10" PRIu64 " files %9s",
				       g->files, human_bytes(bytes, g->bytes));
		}
		r = r ? r : buf_printf(b, e, "\n");
	}
	return r;
}

/* For bash and zsh, so that it can be pasted whatever bytes it has. */
static int
put_shell(struct buf *b, const char *text, struct err *e)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789/._@%+=:,-";
	int r;

	if (*text && text[strspn(text, plain)] == '\0') {
		return buf_printf(b, e, "%s", text);
	}
	r = buf_printf(b, e, "$'");
	for (const char *p = text; !r && *p; p++) {
		r = *p >= ' ' && *p < 0x7f && *p != '\'' && *p != '\\'
			    ? buf_append(b, p, 1, e)
			    : buf_printf(b, e, "\\x%02x", (unsigned char)*p);
	}
	return r ? r : buf_printf(b, e, "'");
}

/* What is kept here, and how to be rid of it. */
static int
put_kept(struct buf *b, const struct summary *s, struct err *e)
{
	int r;

	if (!s->source_kept) {
		return 0;
	}
	r = buf_printf(b, e,
		       s->result == SUMMARY_COPIED
			       ? "  the source stays here, as it was: "
		       : s->nremains ? "  the copy that is kept here cannot be "
				       "started: "
				     : "  the source's copy is kept: ");
	r = r ? r : summary_put_value(b, s->source_kept, e);
	r = r ? r : buf_printf(b, e, "\n");
	if (!r && s->nremains) {
		r = buf_printf(b, e,
			       "  to remove it: rm -rf --one-file-system");
		for (size_t i = 0; !r && i < s->nremains; i++) {
			r = buf_append(b, " ", 1, e);
			r = r ? r : put_shell(b, s->remains[i], e);
		}
		r = r ? r : buf_printf(b, e, "\n");
	}
	return r;
}

static int
put_fate(struct buf *b, const struct summary *s, struct err *e)
{
	int r = 0;

	if (s->result == SUMMARY_FAILED) {
		r = buf_printf(b, e, "  failed");
		if (!r && s->step) {
			r = buf_printf(b, e, " at step %s", s->step);
		}
		if (!r && s->owner) {
			r = buf_printf(b, e, "; the CT belongs to: %s",
				       s->owner);
		}
		r = r ? r : buf_printf(b, e, "\n");
	}
	r = r ? r : put_kept(b, s, e);
	if (!r && s->warnings) {
		r = buf_printf(b, e, "  %u warning%s, see above\n", s->warnings,
			       s->warnings == 1 ? "" : "s");
	}
	return r;
}

/* What a move would do. */
static int
put_check(struct buf *b, const struct summary *s, struct err *e)
{
	const struct summary_check *c = s->check;
	char bytes[HUMAN_MAX], disk[HUMAN_MAX], room[HUMAN_MAX];
	int r = buf_printf(b, e, "  nothing is in the way%s; it would be ",
			   s->warnings ? " but for the warnings above" : "");

	r = r ? r : put_there(b, s, e);
	r = r ? r
	      : buf_printf(b, e, "\n  %" PRIu64 " files, %s (%s on disk); ",
			   s->files, human_bytes(bytes, s->bytes),
			   human_bytes(disk, c->disk_bytes));
	if (!r && c->free_bytes != UINT64_MAX) {
		r = buf_printf(b, e, "%s are free there (%s)\n",
			       human_bytes(room, c->free_bytes), c->fs);
	} else if (!r) {
		r = buf_printf(b, e, "the room there is not known (%s)\n",
			       c->fs);
	}
	if (!r && c->state) {
		r = buf_printf(b, e,
			       c->up ? "  it is %s: it would be copied while "
				       "it is up, then stopped, and be %s "
				       "there\n"
				     : "  it is %s, and would be %s there\n",
			       c->state, c->state_there);
	}
	return r ? r
		 : buf_printf(b, e,
			      c->removes ? "  then the source copy would be "
					   "removed (-r no keeps it)\n"
					 : "  the source copy would be kept\n");
}

int
summary_put_human(struct buf *b, const struct summary *s, struct err *e)
{
	int r;

	if (s->result == SUMMARY_CHECKED) {
		r = put_check(b, s, e);
		r = r ? r : put_cipher(b, s, e);
		return r ? r : put_stages(b, s, e);
	}
	r = put_where(b, s, e);
	r = r ? r : put_amount(b, s, e);
	r = r ? r : put_downtime(b, s, e);
	r = r ? r : put_cipher(b, s, e);
	r = r ? r : put_stages(b, s, e);
	return r ? r : put_fate(b, s, e);
}
