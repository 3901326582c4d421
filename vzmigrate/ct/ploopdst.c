/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ploopdst: disks on the destination. Input: the origin file, which is the
 * peer's word, and the tree that it sent; so both are looked at as if by
 * a stranger, and nothing is written but descriptors in that tree.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctfile.h"
#include "ct/ctpath.h"
#include "ct/origin.h"
#include "ct/ploop.h"
#include "fs/beneath.h"
#include "fs/meta.h"

bool
ploop_wanted(const struct ct_want *w)
{
	cleanup(free_ptr) char *dir = origin_get(w, "ploop", 0);

	return dir != NULL;
}

void
ploop_check(const struct ct_want *w, struct ct_findings *f)
{
	if (ploop_wanted(w) && !ctpath_program("ploop")) {
		ct_finding_add(f, E_PLOOP, false,
			       "the container's file system is a ploop image, "
			       "and the command ploop is not installed on the "
			       "destination (package ploop of OpenVZ)");
	}
}

/* The path from the disk's directory to `path`, both below one tree. */
static char *
relative(const char *dir, const char *path, struct err *e)
{
	cleanup(buf_finip) struct buf out = BUF_MAX(1 << 16);
	size_t n = strlen(dir);
	int rc = 0;

	if (strncmp(path, dir, n) == 0 && path[n] == '/') {
		return io_asprintf(e, "%s", path + n + 1);
	}
	for (const char *p = dir; p && rc == 0; p = strchr(p + 1, '/')) {
		rc = buf_append(&out, "../", 3, e);
	}
	rc = rc < 0 ? rc : buf_append(&out, path, strlen(path) + 1, e);
	return rc < 0 ? NULL : io_asprintf(e, "%s", (char *)out.data);
}

/* What the image's path becomes; NULL in `*to`: it stays. */
static int
new_path(const char *dir, const char *file, const char *const *trees,
	 const char *tree, char **to, struct err *e)
{
	cleanup(free_ptr) char *path = NULL;
	cleanup(free_ptr) char *here = NULL;

	if (*file != '/') {
		return 0;
	}
	path = ploop_image_path(dir, file, trees, e);
	if (!path) {
		return err_recode(e, E_PROTOCOL, "what arrived");
	}
	here = io_asprintf(e, "%s/%s", tree, path);
	if (!here) {
		return E_NOMEM;
	}
	if (strcmp(here, file) == 0) {
		return 0;
	}
	*to = relative(dir, path, e);
	return *to ? 1 : E_NOMEM;
}

/* In the place of the descriptor, with all that it had. */
static int
replace(const struct ploop_disk *k, const struct buf *text, struct err *e)
{
	struct meta m = { 0 };
	cleanup(close_fd) int fd = -1;
	int rc = meta_read(k->dirfd, PLOOPDD_NAME, -1, NULL, &m, NULL, e);

	if (rc == 0 && unlinkat(k->dirfd, CTFILE_TMP, 0) < 0 &&
	    errno != ENOENT) {
		rc = err_sys(e, errno, "cannot remove " CTFILE_TMP);
	}
	if (rc == 0) {
		rc = fd = beneath_open(k->dirfd, CTFILE_TMP,
				       O_WRONLY | O_CREAT | O_EXCL, 0600, e);
	}
	rc = rc < 0 ? rc
		    : io_write_full(fd, text->data, text->len, PLOOPDD_NAME, e);
	rc = rc < 0 ? rc : meta_apply(k->dirfd, CTFILE_TMP, fd, &m, NULL, e);
	meta_fini(&m);
	if (rc == 0 && fsync(fd) < 0) {
		rc = err_sys(e, errno, "cannot sync " PLOOPDD_NAME);
	}
	if (rc == 0 &&
	    renameat2(k->dirfd, CTFILE_TMP, k->dirfd, PLOOPDD_NAME, 0) < 0) {
		rc = err_sys(e, errno, "cannot replace " PLOOPDD_NAME);
	}
	return rc < 0 ? rc : atomicfile_sync_dir(k->dirfd, k->dir, e);
}

static int
settle_disk(const struct ploop_disk *k, const char *const *trees,
	    const char *tree, struct err *e)
{
	cleanup(buf_finip) struct buf text = BUF_MAX(4u << 20);
	char *files[PLOOPDD_IMAGES_MAX] = { NULL };
	bool change = false;
	int rc = 0;

	for (size_t i = 0; i < k->desc.n && rc >= 0; i++) {
		rc = new_path(k->dir, k->desc.v[i].file, trees, tree, &files[i],
			      e);
		change |= rc == 1;
	}
	if (rc >= 0 && change) {
		rc = ploopdd_rewrite(k->text, k->len, &k->desc, files, &text,
				     e);
		rc = rc < 0 ? rc : replace(k, &text, e);
	}
	for (size_t i = 0; i < k->desc.n; i++) {
		free(files[i]);
	}
	return rc < 0 ? err_wrap(e, "%s/%s", tree, k->dir) : 0;
}

int
ploop_settle(const struct ct_want *w, const char *tree, const char *at,
	     struct err *e)
{
	cleanup(free_ptr) char *real = origin_get(w, "tree", 0);
	cleanup(free_ptr) char *spelled = origin_get(w, "tree", 1);
	const char *const trees[] = { real, spelled, NULL };
	cleanup(close_fd) int rootfd = -1;
	struct err own = { 0 };
	int rc = 0;

	e = e ? e : &own;
	if (!ploop_wanted(w)) {
		return 0;
	}
	rc = rootfd = beneath_open_root(at, e);
	for (unsigned i = 0; rc >= 0; i++) {
		cleanup(ploop_disk_fini) struct ploop_disk k = { .dirfd = -1 };
		cleanup(free_ptr) char *dir = origin_get(w, "ploop", i);

		if (!dir) {
			return 0;
		}
		rc = ploop_disk_open(rootfd, dir, at, &k, e);
		rc = rc < 0 ? rc : settle_disk(&k, trees, tree, e);
	}
	return rc;
}
