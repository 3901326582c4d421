/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_check: everything on this host that would stop the migration later,
 * looked for before anything is made. Output: findings, all at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/beneath.h"
#include "fs/fsprobe.h"
#include "fs/scan.h"
#include "migrate/dst_int.h"

/* Room for what a tree takes beyond its files' blocks: directories that pack
 * differently, journal, metadata of another file system. */
#define MARGIN_PERCENT 2
#define MARGIN_BYTES (64u << 20)
#define MARGIN_INODES 1000

static int
on_dir(struct scan_dir *dir, const struct statx *stx, void *arg, struct err *e)
{
	(void)dir;
	(void)stx;
	(void)arg;
	(void)e;
	return 0;
}

static int
on_entry(struct scan_dir *dir, const char *name, size_t len,
	 const struct statx *stx, void *arg, struct err *e)
{
	struct fsprobe *p = arg;
	uint64_t bytes =
		stx->stx_blocks * 512 / (stx->stx_nlink ? stx->stx_nlink : 1);

	(void)dir;
	(void)name;
	(void)len;
	(void)e;
	__atomic_add_fetch(&p->bytes_free, bytes, __ATOMIC_RELAXED);
	__atomic_add_fetch(&p->inodes_free, 1, __ATOMIC_RELAXED);
	return 0;
}

/* What an earlier run left in the staging area gives its room back when pass
 * 1 empties it. */
static void
add_staged(struct dst *d, int stage_dir, struct fsprobe *free_there)
{
	static const struct scan_ops ops = { .on_dir = on_dir,
					     .on_entry = on_entry };
	const struct scan_opts so = { .threads = 2 };
	struct fsprobe sum = { 0 };
	struct err e = { 0 };
	char rel[96];
	cleanup(close_fd) int fd = -1;
	int n = snprintf(rel, sizeof(rel), ".vzmigrate-%s/" DST_TREE, d->hex);

	fd = beneath_open_dir(stage_dir, rel, (size_t)n, &e);
	if (fd < 0 || scan_tree(fd, &so, &ops, &sum, &e) < 0) {
		return; /* there is none: nothing to add */
	}
	if (free_there->bytes_free != UINT64_MAX) {
		free_there->bytes_free += sum.bytes_free;
	}
	if (free_there->inodes_free != UINT64_MAX) {
		free_there->inodes_free += sum.inodes_free;
	}
}

static void
check_room(const struct msg_check *m, const struct fsprobe *p, const char *dir,
	   struct ct_findings *f)
{
	const struct ct_want w = { .nodeps = m->nodeps };
	uint64_t need = m->bytes, inodes = m->inodes;
	bool warn = ct_nodeps(&w, "disk_space");

	if (__builtin_add_overflow(need, need / 100 * MARGIN_PERCENT, &need) ||
	    __builtin_add_overflow(need, MARGIN_BYTES, &need)) {
		need = UINT64_MAX;
	}
	if (__builtin_add_overflow(inodes, MARGIN_INODES, &inodes)) {
		inodes = UINT64_MAX;
	}
	if (p->bytes_free < need) {
		ct_finding_add(
			f, E_NOSPACE, warn,
			"not enough room in %s: %llu MiB are needed, "
			"%llu MiB are free (--nodeps=disk_space goes on)",
			dir, (unsigned long long)(need >> 20),
			(unsigned long long)(p->bytes_free >> 20));
	}
	if (p->inodes_free != UINT64_MAX && p->inodes_free < inodes) {
		ct_finding_add(f, E_NOSPACE, warn,
			       "not enough inodes in %s: %llu are needed, %llu "
			       "are free (--nodeps=disk_space goes on)",
			       dir, (unsigned long long)inodes,
			       (unsigned long long)p->inodes_free);
	}
}

static void
check_caps(struct dst *d, const struct msg_check *m, const struct fsprobe *p,
	   const char *dir, struct ct_findings *f)
{
	uint32_t hints = m->caps & ~p->caps & FSPROBE_HINTS;
	uint32_t lacking =
		m->caps & ~p->caps & ~(uint32_t)(FSPROBE_HARD | FSPROBE_HINTS);
	uint32_t hard = m->caps & ~p->caps & FSPROBE_HARD;
	bool warn = d->policy == META_WARN;
	char names[1024];

	if (hard) {
		ct_finding_add(f, E_UNSUPPORTED, false,
			       "the file system of %s (%s) cannot hold: %s",
			       dir, p->type,
			       fsprobe_names(hard, names, sizeof(names)));
	}
	if (lacking) {
		ct_finding_add(f, E_UNSUPPORTED, warn,
			       "the file system of %s (%s) cannot hold: %s%s",
			       dir, p->type,
			       fsprobe_names(lacking, names, sizeof(names)),
			       warn ? "" : "; --metadata=warn goes without");
	}
	if (hints) {
		ct_finding_add(f, E_UNSUPPORTED, true,
			       "the file system of %s (%s) has no use for %s: "
			       "left out",
			       dir, p->type,
			       fsprobe_names(hints, names, sizeof(names)));
	}
}

/* The descriptor of the directory that the staging area will be in, or a
 * negative error, which is a finding. */
static int
probe(struct dst *d, struct msg_check_reply *r)
{
	const char *dir = d->p.v[DP_PLACE_STAGE_DIR];
	struct err e = { 0 };
	cleanup(close_fd) int fd = beneath_open_root(dir, &e);
	int rc = fd;

	if (fd >= 0) {
		rc = fsprobe_run(fd, &r->fs, &e);
	}
	if (rc < 0) {
		ct_finding_add(&r->findings,
			       rc == E_NOSPACE ? E_NOSPACE : E_COPY, false,
			       "nothing can be written to %s: %s", dir, e.text);
		return rc;
	}
	return steal_fd(&fd);
}

void
dst_fsprobe(struct dst *d, struct msg_check_reply *r)
{
	cleanup(close_fd) int fd = probe(d, r);
}

static void
check_fs(struct dst *d, const struct msg_check *m, struct msg_check_reply *r)
{
	const char *dir = d->p.v[DP_PLACE_STAGE_DIR];
	cleanup(close_fd) int fd = probe(d, r);

	if (fd < 0) {
		return;
	}
	check_caps(d, m, &r->fs, dir, &r->findings);
	add_staged(d, fd, &r->fs);
	check_room(m, &r->fs, dir, &r->findings);
}

int
dst_check(struct dst *d, const struct msg_check *m, struct msg_check_reply *r,
	  struct err *e)
{
	struct ct_want w;
	struct ct_host h;
	struct ct_place p;
	struct err why = { 0 };

	if (geteuid() != 0) {
		ct_finding_add(&r->findings, E_DENIED, false,
			       "the agent runs as uid %u and not as root; "
			       "connect as root, or as a user for whom "
			       "`sudo -n vzmigrate-agent` works",
			       (unsigned)geteuid());
	}
	if (dst_reserved_by_other(d, &why) < 0) {
		ct_finding_add(&r->findings, why.code, false, "%s", why.text);
	}
	check_fs(d, m, r);
	dst_want(d, &w);
	w.start = (enum ct_state)m->start;
	w.nodeps = m->nodeps;
	dst_host(d, &h);
	dst_place(d, &p);
	return d->kind->check(&h, &w, &p, &r->findings, e);
}
