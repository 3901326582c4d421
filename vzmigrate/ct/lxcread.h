/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lxcread: what an LXC container's configuration says; for lxcload.c alone.
 */
#ifndef CT_LXCREAD_H
#define CT_LXCREAD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "ct/ct.h"

struct lxcread {
	/* What the caller sets; borrowed. */
	struct ct *c;	      /* its id; gets notes and `autostart` */
	struct buf *origin;   /* gets what the destination looks for */
	const char *dir;      /* LXCPATH/NAME as spelled */
	const char *dir_real; /* and as resolved */

	/* What was read. */
	char *rootfs;	/* value of lxc.rootfs.path; owned; NULL: none */
	bool idmap;	/* lxc.idmap is set */
	char *included; /* files and directories of the container's own that
			 * were included: "\npath\n..."; owned; NULL: none */

	/* Under way. */
	bool owned; /* the file being read is the container's */
	unsigned depth, files, needs;
};

/*
 * Read the configuration at `path`, and what it includes, into `l`, whose
 * other fields are zero. E_CONFIG for what LXC would not read, either, for a
 * file that is not there, and for includes that are too many or too deep;
 * E_LIMIT where too many shared files are named. After an error, too,
 * lxcread_fini. Blocks for the disk.
 */
int lxcread_config(struct lxcread *l, const char *path, struct err *e);

/* Whether the container's own file at `path` as spelled, `real` as resolved,
 * was included. */
bool lxcread_included(const struct lxcread *l, const char *path,
		      const char *real);

/* Free what was read. */
void lxcread_fini(struct lxcread *l);

#endif
