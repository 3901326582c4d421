/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * images: a short list, looked through from its beginning: a container has
 * few of them. Output: the caller's struct.
 */
#include "fs/images.h"

#include <stdlib.h>
#include <string.h>

#define FROM_MAX (8u << 20)

void
images_init(struct images *im)
{
	*im = (struct images){ .from = BUF_MAX(FROM_MAX) };
}

void
images_fini(struct images *im)
{
	free(im->v);
	buf_fini(&im->from);
	images_init(im);
}

const struct images_file *
images_find(const struct images *im, uint64_t ino)
{
	for (size_t i = 0; im && i < im->n; i++) {
		if (im->v[i].ino == ino) {
			return &im->v[i];
		}
	}
	return NULL;
}

bool
images_moving(const struct images *im, uint64_t ino)
{
	const struct images_file *f = images_find(im, ino);

	return f && f->moving;
}

int
images_add(struct images *im, uint64_t ino, bool moving, struct err *e)
{
	struct images_file *v = (struct images_file *)images_find(im, ino);

	if (v) {
		v->moving |= moving;
		return 0;
	}
	if (im->n >= IMAGES_MAX) {
		return err_set(e, E_LIMIT, "more than %d disk images",
			       IMAGES_MAX);
	}
	v = realloc(im->v, (im->n + 1) * sizeof(*v));
	if (!v) {
		return err_nomem(e);
	}
	im->v = v;
	im->v[im->n++] = (struct images_file){ ino, moving };
	return 0;
}

void
images_follow(struct images *now, const struct images *before)
{
	const struct buf *a = &before->from, *b = &now->from;

	if (before->n == 0 ||
	    (a->len == b->len &&
	     (a->len == 0 || memcmp(a->data, b->data, a->len) == 0))) {
		return;
	}
	for (size_t i = 0; i < now->n; i++) {
		now->v[i].moving = true;
	}
}
