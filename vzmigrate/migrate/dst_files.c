/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_files: the CT's files (configuration, scripts) between PUT_FILE and the
 * commit. They are written into a directory of their own for each RESERVE,
 * which the journal's reserve event names; so one list or the other is whole
 * after any crash. State: d->files.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "fs/remove.h"
#include "migrate/dst_int.h"
#include "migrate/statedir.h"

#define ROLE_MAX 255
#define FILES_PREFIX "files-"
#define DROP_MAX 64 /* old directories removed at once */

void
dst_free_files(struct dst *d)
{
	for (size_t i = 0; i < d->nfiles; i++) {
		free(d->files[i].role);
		free(d->files[i].data);
	}
	free(d->files);
	d->files = NULL;
	d->nfiles = 0;
	d->files_new = false;
}

/* The role becomes part of a path in a kind's hands. */
static bool
role_ok(const char *role)
{
	size_t len = strlen(role);

	if (len == 0 || len > ROLE_MAX || role[0] == '/' ||
	    role[len - 1] == '/') {
		return false;
	}
	for (const char *p = role; *p; p++) {
		if (!isascii((unsigned char)*p) ||
		    !isgraph((unsigned char)*p)) {
			return false;
		}
		if ((p == role || p[-1] == '/') &&
		    (*p == '/' || strncmp(p, "./", 2) == 0 ||
		     strcmp(p, ".") == 0 || strncmp(p, "../", 3) == 0 ||
		     strcmp(p, "..") == 0)) {
			return false;
		}
	}
	return true;
}

/* The place for a role: the one it has, or a new one. */
static struct ct_file *
file_slot(struct dst *d, const char *role, struct err *e)
{
	struct ct_file *v;

	for (size_t i = 0; i < d->nfiles; i++) {
		if (strcmp(d->files[i].role, role) == 0) {
			free(d->files[i].role);
			free(d->files[i].data);
			return &d->files[i];
		}
	}
	if (d->nfiles == CT_FILES_MAX) {
		err_set(e, E_LIMIT, "more than %d files of a container",
			CT_FILES_MAX);
		return NULL;
	}
	v = realloc(d->files, (d->nfiles + 1) * sizeof(*v));
	if (!v) {
		err_nomem(e);
		return NULL;
	}
	d->files = v;
	return &v[d->nfiles++];
}

int
dst_put_file(struct dst *d, struct msg_put_file *m, struct err *e)
{
	struct ct_file *f;

	if (!role_ok(m->role) || m->len > CT_FILE_MAX || (m->mode & ~07777)) {
		return err_set(e, E_PROTOCOL, "an impossible container file");
	}
	if (!d->files_new) {
		/* The first of a new list. */
		dst_free_files(d);
		d->files_new = true;
	}
	f = file_slot(d, m->role, e);
	if (!f) {
		return e ? e->code : E_NOMEM;
	}
	*f = (struct ct_file){ .role = steal_ptr(&m->role),
			       .data = steal_ptr(&m->data),
			       .len = m->len,
			       .mode = m->mode,
			       .uid = m->uid,
			       .gid = m->gid };
	return 0;
}

static int
file_event(struct dst *d, size_t n, const struct ct_file *f, struct err *e)
{
	char gen[16], no[24], mode[16], uid[16], gid[16], size[24];
	const struct journal_field v[] = {
		{ "gen", gen },	  { "n", no },	  { "role", f->role },
		{ "mode", mode }, { "uid", uid }, { "gid", gid },
		{ "size", size },
	};

	snprintf(gen, sizeof(gen), "%u", d->epoch);
	snprintf(no, sizeof(no), "%zu", n);
	snprintf(mode, sizeof(mode), "%u", f->mode);
	snprintf(uid, sizeof(uid), "%u", f->uid);
	snprintf(gid, sizeof(gid), "%u", f->gid);
	snprintf(size, sizeof(size), "%zu", f->len);
	return dst_event(d, EV_FILE, v, sizeof(v) / sizeof(v[0]), e);
}

int
dst_store_files(struct dst *d, struct err *e)
{
	char name[32];
	cleanup(close_fd) int dir = -1;
	int rc = 0;

	snprintf(name, sizeof(name), FILES_PREFIX "%u", d->epoch);
	/* A RESERVE that failed in this connection may have left one; its
	 * records are taken back by those that follow only where the number
	 * differs, so the same number is not used for two lists. */
	if (d->rec.next.gen == d->epoch || d->rec.files.gen == d->epoch) {
		return err_set(e, E_STATE,
			       "files were sent already; open the session "
			       "again");
	}
	dir = statedir_open_in(d->fd, name, d->path, e);
	if (dir < 0) {
		return dir;
	}
	for (size_t i = 0; i < d->nfiles && rc == 0; i++) {
		const struct ct_file *f = &d->files[i];

		snprintf(name, sizeof(name), "%zu", i);
		rc = atomicfile_write(dir, name, f->data, f->len, 0600, 0, e);
		if (rc == 0) {
			rc = fault_point("dst.files.written", e);
		}
		if (rc == 0) {
			rc = file_event(d, i, f, e);
		}
	}
	return rc;
}

static int
load_file(int dir, size_t n, const struct dst_file *from, struct ct_file *to,
	  struct err *e)
{
	char name[32];
	char *data = NULL;
	int rc;

	snprintf(name, sizeof(name), "%zu", n);
	rc = io_read_file(dir, name, CT_FILE_MAX, &data, &to->len, e);
	if (rc < 0) {
		return rc;
	}
	to->data = (uint8_t *)data;
	to->mode = from->mode;
	to->uid = from->uid;
	to->gid = from->gid;
	to->role = strdup(from->role);
	if (!to->role) {
		return err_nomem(e);
	}
	return to->len == from->size
		       ? 0
		       : err_set(e, E_CORRUPT, "file %s has another size",
				 from->role);
}

int
dst_load_files(struct dst *d, struct err *e)
{
	const struct dst_files *l = &d->rec.files;
	char name[32];
	cleanup(close_fd) int dir = -1;
	int rc = 0;

	dst_free_files(d);
	if (l->n == 0) {
		return 0;
	}
	snprintf(name, sizeof(name), FILES_PREFIX "%u", l->gen);
	dir = statedir_open_in(d->fd, name, d->path, e);
	if (dir < 0) {
		return dir;
	}
	d->files = calloc(l->n, sizeof(*d->files));
	if (!d->files) {
		return err_nomem(e);
	}
	for (size_t i = 0; i < l->n && rc == 0; i++) {
		d->nfiles = i + 1;
		rc = load_file(dir, i, &l->v[i], &d->files[i], e);
	}
	if (rc < 0) {
		dst_free_files(d);
		return err_wrap(e, "%s/%s", d->path, name);
	}
	return 0;
}

void
dst_drop_files(struct dst *d, uint32_t keep)
{
	int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	char kept[32];
	int n = 0;

	if (!dir) {
		if (fd >= 0) {
			close(fd);
		}
		return;
	}
	snprintf(kept, sizeof(kept), FILES_PREFIX "%u", keep);
	while (n < DROP_MAX && (de = readdir(dir))) {
		struct err e = { 0 };

		if (strncmp(de->d_name, FILES_PREFIX, strlen(FILES_PREFIX)) !=
			    0 ||
		    strcmp(de->d_name, kept) == 0) {
			continue;
		}
		n++;
		if (remove_tree(d->fd, de->d_name, NULL, &e) < 0) {
			log_debug("%s", e.text);
		}
	}
	closedir(dir);
}
