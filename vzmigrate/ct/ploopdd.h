/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ploopdd: DiskDescriptor.xml, which says of what files a ploop disk is made.
 * Its author may be anybody who can write into the private area. For ct/
 * alone; no I/O.
 */
#ifndef CT_PLOOPDD_H
#define CT_PLOOPDD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define PLOOPDD_NAME "DiskDescriptor.xml"
#define PLOOPDD_MAX (256u << 10) /* bytes; a snapshot takes some 400 */
#define PLOOPDD_IMAGES_MAX 256
#define PLOOPDD_GUID_MAX 64

/* One delta. */
struct ploopdd_image {
	char *file; /* as the descriptor has it; owned */
	char guid[PLOOPDD_GUID_MAX + 1];
	size_t at, len; /* where that is in the text */
	bool top;	/* the delta that is written to; others are only read */
};

struct ploopdd {
	struct ploopdd_image *v; /* owned; at least one, one of them top */
	size_t n;
	char *key; /* id of the key that the disk is encrypted with, or NULL */
};

void ploopdd_fini(struct ploopdd *d);

/*
 * Parse. What libploop would read in another way than we do is refused, as is
 * a document type (so there are no entities to expand). `what` names the file
 * in errors. E_CONFIG, E_UNSUPPORTED for a disk of several parts, E_NOMEM.
 * `d` is to be given to fini in every case.
 */
int ploopdd_parse(const char *text, size_t len, const char *what,
		  struct ploopdd *d, struct err *e);

/* Append to `out` the text that `d` was parsed from, the i-th image's file
 * being files[i] where that is not NULL; all else stays bytewise. */
int ploopdd_rewrite(const char *text, size_t len, const struct ploopdd *d,
		    char *const *files, struct buf *out, struct err *e);

#endif
