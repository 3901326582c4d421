/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ploop: openvz containers whose file system is in disk images. A disk is a
 * directory of the private area with a descriptor and its deltas: root.hdd,
 * and others that DISK of the configuration names. They travel as files of
 * the tree; here is what else they need. For ct/ alone.
 */
#ifndef CT_PLOOP_H
#define CT_PLOOP_H

#include <stdbool.h>

#include "base/buf.h"
#include "ct/ct.h"
#include "ct/ploopdd.h"
#include "fs/images.h"

/* A disk below a tree. */
struct ploop_disk {
	const char *dir;     /* below the tree; borrowed */
	int dirfd;	     /* owned; -1: not open */
	char *text;	     /* the descriptor; owned */
	size_t len;	     /* bytes of it */
	struct ploopdd desc; /* what it says */
};

/*
 * Open the disk in `dir` below the tree `rootfd` (borrowed) and read its
 * descriptor; no symlink below the root is followed. `what` names the tree in
 * errors. To be given to fini in every case. E_NOT_FOUND, E_UNSUPPORTED for a
 * symlink or a mount in the way, E_CONFIG.
 */
int ploop_disk_open(int rootfd, const char *dir, const char *what,
		    struct ploop_disk *k, struct err *e);
void ploop_disk_fini(struct ploop_disk *k);

/*
 * Where below the tree the image `file` (as a descriptor in `dir` has it) is.
 * An absolute one must be inside one of `trees`, NULL-terminated, a relative
 * one below the tree. Heap; NULL with E_UNSUPPORTED.
 */
char *ploop_image_path(const char *dir, const char *file,
		       const char *const *trees, struct err *e);

/*
 * Whether the container in `tree` is one, as vzctl tells it: by VE_LAYOUT of
 * its own configuration (NULL: not set), else by what is there. That of
 * vz.conf is for new containers.
 */
bool ploop_is(const char *layout, const char *tree);

/*
 * Source: look at all disks of `c`, whose tree is known and whose
 * configuration is `conf`; refuse by name what the tree does not hold
 * (E_UNSUPPORTED; E_CONFIG for a damaged descriptor); note, and tell the
 * destination through `origin`. `spelled`: the tree as configured.
 */
int ploop_load(struct ct *c, const char *spelled, const char *conf, size_t len,
	       struct buf *origin, struct err *e);

/* Source: E_STATE where a device is made of a file in c's tree, though the
 * container is not mounted. Of no account to one that is not ploop. */
int ploop_idle(const struct ct *c, struct err *e);

/* The kind's row. */
int ploop_images(const struct ct_host *h, const struct ct *c, bool up,
		 struct images *im, struct err *e);

/* Destination: whether what is wanted is one. */
bool ploop_wanted(const struct ct_want *w);
/* A finding where it could not be used here. */
void ploop_check(const struct ct_want *w, struct ct_findings *f);

/*
 * Destination: in the tree that is at `at` and belongs to `tree`, descriptors
 * that have absolute paths into the source's tree get relative ones, unless
 * the path is the same here. Repeating it is harmless. E_PROTOCOL for a
 * descriptor that the source would not have sent.
 */
int ploop_settle(const struct ct_want *w, const char *tree, const char *at,
		 struct err *e);

#endif
