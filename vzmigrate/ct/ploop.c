/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ploop: what both hosts have to do with disks, and the source's half. Input:
 * the private area, whose descriptors may say anything, and what the kernel
 * tells of its ploop devices. No state.
 *
 * The top delta of a mounted disk is written to by the kernel, past the page
 * cache. The deltas below it are read only, until a snapshot is made or
 * merged; that gives the descriptor other bytes, which passes look for.
 */
#include "ct/ploop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "ct/ctfile.h"
#include "ct/ctpath.h"
#include "ct/origin.h"
#include "ct/shconf.h"
#include "fs/beneath.h"

#define ROOT_DISK "root.hdd"
#define DISKS_MAX 64
#define SYS_BLOCK "/sys/block"

/* ---- disks ---- */

void
ploop_disk_fini(struct ploop_disk *k)
{
	close_fd(&k->dirfd);
	free(k->text);
	ploopdd_fini(&k->desc);
	*k = (struct ploop_disk){ .dirfd = -1 };
}

/* What is not itself in the tree would stay behind. */
static int
in_the_way(struct err *e, const char *what)
{
	if (e->code == E_DENIED && (e->sys == ELOOP || e->sys == EXDEV)) {
		return err_recode(e, E_UNSUPPORTED,
				  "%s: a disk must be in the private area "
				  "itself",
				  what);
	}
	return err_wrap(e, "%s", what);
}

static int
read_descriptor(struct ploop_disk *k, const char *what, struct err *e)
{
	cleanup(close_fd) int fd = -1;
	struct statx stx;
	ssize_t n;

	fd = beneath_open_reg(k->dirfd, PLOOPDD_NAME, O_RDONLY, &stx, e);
	if (fd < 0) {
		return fd == E_CHANGED ? err_recode(e, E_CONFIG, "%s", what)
				       : in_the_way(e, what);
	}
	if (stx.stx_size > PLOOPDD_MAX) {
		return err_set(e, E_CONFIG,
			       "%s: " PLOOPDD_NAME " has more "
			       "than %u bytes",
			       what, PLOOPDD_MAX);
	}
	k->text = malloc(PLOOPDD_MAX + 1);
	if (!k->text) {
		return err_nomem(e);
	}
	/* It may grow meanwhile: the parser says so then. */
	n = io_read_full(fd, k->text, PLOOPDD_MAX + 1, what, e);
	if (n < 0) {
		return (int)n;
	}
	k->len = (size_t)n;
	return 0;
}

int
ploop_disk_open(int rootfd, const char *dir, const char *what,
		struct ploop_disk *k, struct err *e)
{
	cleanup(free_ptr) char *shown = NULL;
	struct err own = { 0 };
	int rc;

	e = e ? e : &own;
	*k = (struct ploop_disk){ .dir = dir, .dirfd = -1 };
	k->dirfd = beneath_open_dir(rootfd, dir, strlen(dir), e);
	if (k->dirfd < 0) {
		return e->code == E_SYSTEM && e->sys == ENOTDIR
			       ? err_set(e, E_CONFIG, "%s/%s is no directory",
					 what, dir)
			       : in_the_way(e, what);
	}
	shown = io_asprintf(e, "%s/%s", what, dir);
	rc = shown ? read_descriptor(k, shown, e) : E_NOMEM;
	free(steal_ptr(&shown));
	shown = io_asprintf(e, "%s/%s/" PLOOPDD_NAME, what, dir);
	if (rc == 0) {
		rc = shown ? ploopdd_parse(k->text, k->len, shown, &k->desc, e)
			   : E_NOMEM;
	}
	return rc;
}

/* ---- paths ---- */

/* Append the components of `p` to the path in `out`, which has room. ".." is
 * taken only where it comes first, so that no component but those of the
 * disk's own directory is gone back over: another might be a symlink. */
static bool
append(char *out, const char *p)
{
	bool up = true;

	while (*p) {
		size_t n = strcspn(p, "/"), len = strlen(out);

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			char *slash = strrchr(out, '/');

			if (!up || !len) {
				return false;
			}
			*(slash ? slash : out) = '\0';
		} else if (n && !(n == 1 && *p == '.')) {
			up = false;
			snprintf(out + len, n + 2, "%s%.*s", len ? "/" : "",
				 (int)n, p);
		}
		p += n + (p[n] == '/');
	}
	return *out != '\0';
}

/* What follows the tree in an absolute path; NULL: it is not inside. */
static const char *
below(const char *path, const char *const *trees)
{
	for (; *trees; trees++) {
		size_t n = strlen(*trees);

		if (strncmp(path, *trees, n) == 0 && path[n] == '/') {
			return path + n + 1;
		}
	}
	return NULL;
}

char *
ploop_image_path(const char *dir, const char *file, const char *const *trees,
		 struct err *e)
{
	size_t room = strlen(dir) + strlen(file) + 3;
	cleanup(free_ptr) char *out = calloc(1, room);
	const char *rest = file;

	if (!out) {
		err_nomem(e);
		return NULL;
	}
	if (*file == '/') {
		rest = below(file, trees);
	} else {
		strcpy(out, dir);
	}
	if (!rest || !append(out, rest)) {
		err_set(e, E_UNSUPPORTED,
			"%s/" PLOOPDD_NAME " names the image %s, which is not "
			"in the private area; move it there",
			dir, file);
		return NULL;
	}
	return steal_ptr(&out);
}

/* The image at `path` below the tree: a regular file, and its number. */
static int
image_ino(int rootfd, const char *path, const char *what, uint64_t *ino,
	  struct err *e)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	cleanup(close_fd) int dir = -1;
	struct statx stx;

	dir = beneath_open_dir(rootfd, path, slash ? (size_t)(slash - path) : 0,
			       e);
	if (dir < 0) {
		return in_the_way(e, what);
	}
	if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_TYPE | STATX_INO, &stx) < 0) {
		return errno == ENOENT
			       ? err_set(e, E_CONFIG,
					 "%s: the image %s is not there", what,
					 path)
			       : err_sys(e, errno, "%s/%s", what, path);
	}
	if (!S_ISREG(stx.stx_mode)) {
		return err_set(e, E_UNSUPPORTED,
			       "%s: the image %s is no regular file; what it "
			       "leads to is not in the private area",
			       what, path);
	}
	*ino = stx.stx_ino;
	return 0;
}

/* ---- the source ---- */

bool
ploop_is(const char *layout, const char *tree)
{
	static const char *const marks[] = { ROOT_DISK,
					     ROOT_DISK "/" PLOOPDD_NAME };
	bool there = true;

	if (layout && strcmp(layout, "simfs") == 0) {
		return false;
	}
	if (layout && strncmp(layout, "ploop", 5) == 0 &&
	    (layout[5] == '\0' || layout[5] == ':')) {
		return true;
	}
	for (size_t i = 0; i < 2 && there; i++) {
		cleanup(free_ptr) char *p =
			io_asprintf(NULL, "%s/%s", tree, marks[i]);

		there = p && ctpath_type(p) != 0;
	}
	return there;
}

/* The directories of disks below a tree. */
struct list {
	char *v[DISKS_MAX]; /* owned */
	size_t n;
};

static void
list_fini(struct list *l)
{
	while (l->n) {
		free(l->v[--l->n]);
	}
}

static int
list_add(struct list *l, const char *dir, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i], dir) == 0) {
			return 0;
		}
	}
	if (l->n >= DISKS_MAX) {
		return err_set(e, E_UNSUPPORTED, "more than %d disks",
			       DISKS_MAX);
	}
	l->v[l->n] = strdup(dir);
	return l->v[l->n++] ? 0 : err_nomem(e);
}

/* One of DISK: "uuid={...},image=disk-2.hdd,mnt=/data,...". */
static int
one_disk(struct list *l, char *words, struct err *e)
{
	char *save = NULL;
	int rc = 0;

	for (char *p = strtok_r(words, ",", &save); p && rc == 0;
	     p = strtok_r(NULL, ",", &save)) {
		char clean[4096] = "";

		if (strncmp(p, "device=", 7) == 0 ||
		    strncmp(p, "storage_url=", 12) == 0) {
			return err_set(e, E_UNSUPPORTED,
				       "DISK names %s, which is not in the "
				       "private area; detach that disk",
				       strchr(p, '=') + 1);
		}
		if (strncmp(p, "image=", 6) != 0) {
			continue;
		}
		p += 6;
		if (*p == '/' || strlen(p) >= sizeof(clean) ||
		    !append(clean, p)) {
			return err_set(e, E_UNSUPPORTED,
				       "DISK names the external disk %s; move "
				       "it into the private area, or detach "
				       "it",
				       p);
		}
		rc = list_add(l, clean, e);
	}
	return rc;
}

static int
list_disks(struct list *l, const struct ct *c, const char *conf, size_t len,
	   struct err *e)
{
	cleanup(free_ptr) char *disks = NULL;
	char *save = NULL;
	int rc = list_add(l, ROOT_DISK, e);

	rc = rc < 0 ? rc
		    : shconf_get(conf, len, c->id, "DISK", c->id, &disks, e);
	for (char *p = rc == 1 ? strtok_r(disks, ";", &save) : NULL; p;
	     p = strtok_r(NULL, ";", &save)) {
		rc = one_disk(l, p, e);
		if (rc < 0) {
			return err_wrap(e, "container %s", c->id);
		}
	}
	return rc < 0 ? rc : 0;
}

/* One disk, as far as it can be known before the copy. */
static int
load_disk(struct ct *c, int rootfd, const char *dir, const char *const *trees,
	  struct err *e)
{
	cleanup(ploop_disk_fini) struct ploop_disk k;
	int rc = ploop_disk_open(rootfd, dir, c->tree, &k, e);

	for (size_t i = 0; i < k.desc.n && rc == 0; i++) {
		cleanup(free_ptr) char *path =
			ploop_image_path(dir, k.desc.v[i].file, trees, e);
		uint64_t ino;

		rc = path ? image_ino(rootfd, path, c->tree, &ino, e)
			  : err_wrap(e, "%s", c->tree);
	}
	if (rc == 0 && k.desc.key) {
		rc = ctfile_note(c, e,
				 "the disk %s is encrypted with the key %s, "
				 "which is not carried; the destination needs "
				 "it",
				 dir, k.desc.key);
	}
	return rc == E_NOT_FOUND
		       ? err_recode(e, E_CONFIG, "container %s", c->id)
		       : rc;
}

int
ploop_load(struct ct *c, const char *spelled, const char *conf, size_t len,
	   struct buf *origin, struct err *e)
{
	const char *const trees[] = { c->tree, spelled, NULL };
	cleanup(list_fini) struct list l = { .n = 0 };
	cleanup(close_fd) int rootfd = -1;
	struct err own = { 0 };
	int rc;

	e = e ? e : &own;
	rc = list_disks(&l, c, conf, len, e);
	if (rc == 0) {
		rc = rootfd = beneath_open_root(c->tree, e);
	}
	for (size_t i = 0; i < l.n && rc >= 0; i++) {
		rc = load_disk(c, rootfd, l.v[i], trees, e);
		rc = rc < 0 ? rc : origin_put(origin, "ploop", NULL, l.v[i], e);
	}
	for (size_t i = 0; trees[i] && rc >= 0; i++) {
		rc = origin_put(origin, "tree", NULL, trees[i], e);
	}
	return rc < 0 ? rc : 0;
}

/* What the container is, for the readers of the origin file. */
static struct ct_want
as_want(const struct ct *c)
{
	return (struct ct_want){ .files = c->files, .nfiles = c->nfiles };
}

/* ---- devices ---- */

/* Whether a line in `path` names a file inside `tree`. */
static bool
names_inside(const char *path, const char *tree)
{
	cleanup(free_ptr) char *text = NULL;

	if (io_read_file(AT_FDCWD, path, 16384, &text, NULL, NULL) < 0) {
		return false; /* it ended meanwhile */
	}
	text[strcspn(text, "\n")] = '\0';
	return ctpath_inside(text, tree);
}

/* Whether the device `dev` has a delta inside `tree`. */
static bool
made_of(const char *dev, const char *tree)
{
	char path[4096];
	struct dirent *de;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/pdelta", dev);
	d = opendir(path);
	while (d && !found && (de = readdir(d)) != NULL) {
		snprintf(path, sizeof(path), SYS_BLOCK "/%s/pdelta/%s/image",
			 dev, de->d_name);
		found = *de->d_name != '.' && names_inside(path, tree);
	}
	if (d) {
		closedir(d);
	}
	return found;
}

int
ploop_idle(const struct ct *c, struct err *e)
{
	struct ct_want w = as_want(c);
	struct dirent *de;
	int rc = 0;
	DIR *d;

	if (!ploop_wanted(&w)) {
		return 0;
	}
	d = opendir(SYS_BLOCK);
	if (!d) {
		return errno == ENOENT ? 0 : err_sys(e, errno, SYS_BLOCK);
	}
	while (rc == 0 && (de = readdir(d)) != NULL) {
		if (strncmp(de->d_name, "ploop", 5) == 0 &&
		    made_of(de->d_name, c->tree)) {
			rc = err_set(e, E_STATE,
				     "container %s is not mounted, but the "
				     "device /dev/%s is made of its disk: end "
				     "what uses it (ploop umount -d /dev/%s)",
				     c->id, de->d_name, de->d_name);
		}
	}
	closedir(d);
	return rc;
}

/* What the container wrote and its own file system has not given to the image
 * yet. It only makes the last pass shorter, so a failure is only told. */
static void
write_out(const struct ct *c)
{
	cleanup(close_fd) int fd = -1;
	cleanup(free_ptr) char *up = NULL;
	struct stat a, b;

	if (!c->mount_root) {
		return;
	}
	fd = open(c->mount_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	up = io_asprintf(NULL, "%s/..", c->mount_root);
	if (fd < 0 || !up || fstat(fd, &a) < 0 || stat(up, &b) < 0 ||
	    a.st_dev == b.st_dev) {
		return; /* not mounted */
	}
	if (syncfs(fd) < 0) {
		log_info("%s: cannot sync %s: %s", c->id, c->mount_root,
			 strerror(errno));
	}
}

static int
add_disk(int rootfd, const char *dir, const struct ct *c,
	 const char *const *trees, struct images *im, struct err *e)
{
	cleanup(ploop_disk_fini) struct ploop_disk k;
	int rc = ploop_disk_open(rootfd, dir, c->tree, &k, e);

	for (size_t i = 0; i < k.desc.n && rc == 0; i++) {
		const struct ploopdd_image *v = &k.desc.v[i];
		cleanup(free_ptr) char *path =
			ploop_image_path(dir, v->file, trees, e);
		uint64_t ino;

		rc = path ? image_ino(rootfd, path, c->tree, &ino, e)
			  : err_wrap(e, "%s", c->tree);
		rc = rc < 0 ? rc : images_add(im, ino, v->top, e);
	}
	return rc < 0 ? rc : buf_append(&im->from, k.text, k.len, e);
}

int
ploop_images(const struct ct_host *h, const struct ct *c, bool up,
	     struct images *im, struct err *e)
{
	struct ct_want w = as_want(c);
	cleanup(free_ptr) char *spelled = origin_get(&w, "tree", 1);
	const char *const trees[] = { c->tree, spelled, NULL };
	cleanup(close_fd) int rootfd = -1;
	struct err own = { 0 };
	int rc;

	(void)h;
	e = e ? e : &own;
	images_init(im);
	if (!ploop_wanted(&w)) {
		return 0;
	}
	if (up) {
		write_out(c);
	}
	rc = up ? 0 : ploop_idle(c, e);
	if (rc == 0) {
		rc = rootfd = beneath_open_root(c->tree, e);
	}
	for (unsigned i = 0; rc >= 0; i++) {
		cleanup(free_ptr) char *dir = origin_get(&w, "ploop", i);

		if (!dir) {
			return 0;
		}
		rc = add_disk(rootfd, dir, c, trees, im, e);
	}
	return rc;
}
