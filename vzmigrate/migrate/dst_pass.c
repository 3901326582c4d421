/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_pass: the passes over the staged tree, from the point of view of the
 * session: where content goes, when it is on disk, and when it is proven.
 * State: d->recv, made by pass 1 on d->treefd; later passes go on with it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "fs/iflags.h"
#include "fs/remove.h"
#include "migrate/dst_int.h"
#include "migrate/hostid.h"
#include "xfer/recv.h"

void
dst_pass_stop(struct dst *d)
{
	if (d->receiving) {
		d->opts.set_receiver(d->opts.arg, NULL);
		d->receiving = false;
	}
	recv_free(d->recv);
	d->recv = NULL;
}

static int
need_stage(struct dst *d, struct err *e)
{
	return d->treefd >= 0
		       ? 0
		       : err_set(e, E_STATE, "there is no staging area yet");
}

/* What the last pass wrote, where that is known. */
static int
sync_stage(struct dst *d, struct err *e)
{
	int rc = 0;

	if (d->recv) {
		rc = recv_sync(d->recv, e);
	} else if (syncfs(d->treefd) < 0) {
		rc = err_sys(e, errno, "cannot sync");
	}
	return rc < 0 ? err_wrap(e, "%s", d->p.v[DP_PLACE_STAGE_DIR]) : 0;
}

/* Whatever an earlier run left in the tree is not trusted. */
static int
empty_tree(struct dst *d, struct err *e)
{
	uint64_t n = 0;
	int rc = iflags_unlock(d->treefd, NULL, e);

	if (rc == 0) {
		rc = remove_content(d->treefd, &n, e);
	}
	if (rc < 0) {
		return err_wrap(e, "cannot empty the staged tree");
	}
	if (n) {
		log_info("removed %llu entries of an earlier run",
			 (unsigned long long)n);
	}
	return 0;
}

/* Pass 1: the full copy, into an empty tree. */
static int
begin_first(struct dst *d, const struct msg_pass *m, struct err *e)
{
	const struct recv_opts o = { .policy = d->policy, .track = !m->final };
	int rc = empty_tree(d, e);

	if (rc == 0) {
		rc = fault_point("dst.pass.emptied", e);
	}
	return rc < 0 ? rc
		      : recv_new(d->treefd, d->opts.key(d->opts.arg), &o,
				 &d->recv, e);
}

/* A later pass goes on with what this connection's passes before made. */
static int
check_number(struct dst *d, uint32_t number, struct err *e)
{
	if (number == 1) {
		return 0;
	}
	if (!d->recv || d->receiving || number != d->pass + 1) {
		return err_set(e, E_STATE,
			       "pass %u cannot follow what was before", number);
	}
	return 0;
}

int
dst_pass_begin(struct dst *d, const struct msg_pass *m, struct err *e)
{
	char number[16];
	const struct journal_field f = { "number", number };
	int rc = need_stage(d, e);

	rc = rc < 0 ? rc : check_number(d, m->number, e);
	if (rc < 0) {
		return rc;
	}
	if (m->number == 1) {
		dst_pass_stop(d);
	}
	/* Nothing that the journal knows changes with a later pass over a tree
	 * that was not proven; the container may be down meanwhile. */
	if (m->number == 1 || d->rec.state != MSG_DST_RESERVED) {
		snprintf(number, sizeof(number), "%u", m->number);
		rc = dst_event(d, EV_PASS, &f, 1, e);
	}
	if (rc == 0) {
		rc = m->number == 1 ? begin_first(d, m, e)
				    : recv_update(d->recv, e);
	}
	if (rc < 0) {
		dst_pass_stop(d); /* nothing may follow but pass 1 */
		return rc;
	}
	d->pass = m->number;
	d->final = m->final;
	d->opts.set_receiver(d->opts.arg, d->recv);
	d->receiving = true;
	log_info("pass %u begins", m->number);
	return 0;
}

static int
proven(struct dst *d, const struct msg_proof *p, struct err *e)
{
	char sum[2 * DIGEST_LEN + 1], entries[24], bytes[24], flags[24];
	char boot[HOSTID_BOOT_MAX];
	const struct journal_field f[] = {
		{ "sum", sum },	    { "entries", entries },
		{ "bytes", bytes }, { "root-flags", flags },
		{ "boot", boot },   { "synced", "1" },
	};
	int rc = hostid_boot(boot, e);

	if (rc < 0) {
		return rc;
	}
	digest_hex(&p->sum, sum);
	snprintf(entries, sizeof(entries), "%llu",
		 (unsigned long long)p->entries);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)p->bytes);
	snprintf(flags, sizeof(flags), "%u", recv_root_flags(d->recv));
	return dst_event(d, EV_PROVEN, f, sizeof(f) / sizeof(f[0]), e);
}

int
dst_pass_end(struct dst *d, const struct msg_pass *m, struct msg_proof *p,
	     struct err *e)
{
	int rc;

	if (!d->receiving || m->number != d->pass) {
		return err_set(e, E_STATE, "pass %u was not begun", m->number);
	}
	d->opts.set_receiver(d->opts.arg, NULL);
	d->receiving = false;
	rc = recv_finish(d->recv, e);
	if (rc == 0) {
		rc = fault_point("dst.pass.finished", e);
	}
	/* A commit may follow a crash of this host, so nothing is called
	 * proven that is not on disk. Passes before the final one are for
	 * SYNC, which the client asks for before it stops the container. */
	if (rc == 0 && m->final) {
		rc = recv_prove(d->recv, p, e);
		if (rc == 0) {
			rc = proven(d, p, e);
		}
	}
	if (rc < 0) {
		dst_pass_stop(d);
	}
	if (rc == 0) {
		log_info("pass %u ends: %llu entries, %llu bytes", m->number,
			 (unsigned long long)p->entries,
			 (unsigned long long)p->bytes);
	}
	return rc;
}

int
dst_pass_list(struct dst *d, uint64_t from, struct buf *reply, struct err *e)
{
	if (!d->recv || d->receiving) {
		return err_set(e, E_STATE, "no pass was ended");
	}
	return recv_proof_list(d->recv, from, reply, e);
}

int
dst_pass_sync(struct dst *d, struct err *e)
{
	int rc = need_stage(d, e);

	if (rc == 0 && d->receiving) {
		rc = err_set(e, E_STATE, "a pass is under way");
	}
	rc = rc < 0 ? rc : sync_stage(d, e);
	/* The container still runs: what can be done before it is stopped. */
	if (rc == 0 && d->recv && !d->final) {
		rc = recv_read_back(d->recv, e);
	}
	return rc;
}
