/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctfile: lists in struct ct; exclusive, durable writing. No state.
 */
#include "ct/ctfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctpath.h"
#include "fs/mounts.h"

int
ctfile_add(struct ct *c, const char *role, void *data, size_t len,
	   uint16_t mode, uint32_t uid, uint32_t gid, struct err *e)
{
	cleanup(free_ptr) void *own = data;
	cleanup(free_ptr) char *r = strdup(role);
	struct ct_file *f;

	if (c->nfiles >= CT_FILES_MAX) {
		return err_set(e, E_LIMIT, "more than %d files belong to %s",
			       CT_FILES_MAX, c->id);
	}
	f = realloc(c->files, (c->nfiles + 1) * sizeof(*f));
	if (!f || !r) {
		c->files = f ? f : c->files;
		return err_nomem(e);
	}
	c->files = f;
	c->files[c->nfiles++] = (struct ct_file){
		.role = steal_ptr(&r),
		.data = steal_ptr(&own),
		.len = len,
		.mode = mode,
		.uid = uid,
		.gid = gid,
	};
	return 0;
}

int
ctfile_load(struct ct *c, const char *role, const char *path, struct err *e)
{
	char *data = NULL;
	struct stat st;
	size_t len;
	int rc;

	if (stat(path, &st) < 0) {
		int no = errno;

		err_sys(e, no, "%s", path);
		return no == ENOENT ? err_recode(e, E_NOT_FOUND, "cannot read")
				    : E_SYSTEM;
	}
	if (!S_ISREG(st.st_mode)) {
		return err_set(e, E_UNSUPPORTED, "%s is not a regular file",
			       path);
	}
	rc = io_read_file(AT_FDCWD, path, CT_FILE_MAX, &data, &len, e);
	if (rc < 0) {
		return rc;
	}
	return ctfile_add(c, role, data, len, st.st_mode & 07777, st.st_uid,
			  st.st_gid, e);
}

int
ctfile_note(struct ct *c, struct err *e, const char *fmt, ...)
{
	char *text = NULL, **n;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
	}
	va_end(ap);
	n = text ? realloc(c->notes, (c->nnotes + 1) * sizeof(*n)) : NULL;
	if (!n) {
		free(text);
		return err_nomem(e);
	}
	c->notes = n;
	c->notes[c->nnotes++] = text;
	return 0;
}

static int
note_mount(const char *point, const char *fstype, void *arg)
{
	struct ct *c = arg;

	if (!ctpath_inside(point, c->tree) || strcmp(point, c->tree) == 0) {
		return 0;
	}
	return ctfile_note(c, NULL,
			   "mount point %s (%s) inside the tree is not carried",
			   point, fstype);
}

int
ctfile_note_mounts(struct ct *c, struct err *e)
{
	return mounts_each(note_mount, c, e);
}

const struct ct_file *
ctfile_find(const struct ct_file *files, size_t nfiles, const char *role)
{
	for (size_t i = 0; i < nfiles; i++) {
		if (strcmp(files[i].role, role) == 0) {
			return &files[i];
		}
	}
	return NULL;
}

static bool
plain(char ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') ||
	       ch == '.' || ch == '-';
}

char *
ctfile_encode(const char *name, struct err *e)
{
	char *out = malloc(strlen(name) * 3 + 1), *o = out;

	if (!out) {
		err_nomem(e);
		return NULL;
	}
	for (; *name; name++) {
		if (plain(*name)) {
			*o++ = *name;
		} else {
			o += sprintf(o, "_%02x", (unsigned char)*name);
		}
	}
	*o = '\0';
	return out;
}

static int
hex(char ch)
{
	return ch >= '0' && ch <= '9'	? ch - '0'
	       : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
					: -1;
}

/* Whether it may be one name in a directory. */
static bool
name_ok(const char *n)
{
	return *n && strlen(n) <= NAME_MAX && !strchr(n, '/') &&
	       strcmp(n, ".") != 0 && strcmp(n, "..") != 0;
}

char *
ctfile_decode(const char *coded, struct err *e)
{
	cleanup(free_ptr) char *out = malloc(strlen(coded) + 1);
	const char *p = coded;
	char *o = out;

	if (!out) {
		err_nomem(e);
		return NULL;
	}
	while (*p) {
		if (plain(*p)) {
			*o++ = *p++;
			continue;
		}
		if (*p != '_' || hex(p[1]) < 0 || hex(p[2]) < 0 ||
		    (p[1] == '0' && p[2] == '0')) {
			break;
		}
		*o++ = (char)(hex(p[1]) << 4 | hex(p[2]));
		p += 3;
	}
	*o = '\0';
	if (*p || !name_ok(out)) {
		err_set(e, E_PROTOCOL, "'%s' is no coded file name", coded);
		return NULL;
	}
	return steal_ptr(&out);
}

bool
ctfile_same(const char *dir, const char *name, const void *data, size_t len)
{
	cleanup(free_ptr) char *path = io_asprintf(NULL, "%s/%s", dir, name);
	cleanup(free_ptr) char *have = NULL;
	size_t n;

	return path && ctpath_type(path) == S_IFREG &&
	       io_read_file(AT_FDCWD, path, CT_FILE_MAX, &have, &n, NULL) ==
		       0 &&
	       n == len && memcmp(have, data, n) == 0;
}

int
ctfile_remove_same(const char *dir, const char *name, const void *data,
		   size_t len, struct err *e)
{
	return ctfile_same(dir, name, data, len) ? ctpath_unlink(dir, name, e)
						 : 0;
}

static int
write_new(int fd, const void *data, size_t len, const struct ct_file *like,
	  const char *path, struct err *e)
{
	int rc = io_write_full(fd, data, len, path, e);

	if (rc < 0) {
		return rc;
	}
	if (fchown(fd, like->uid, like->gid) < 0 ||
	    fchmod(fd, like->mode & 07777) < 0 || fsync(fd) < 0) {
		return err_sys(e, errno, "cannot finish %s", path);
	}
	return 0;
}

/* Through a temporary file; with `excl` nothing's place is taken. */
static int
put(const char *dir, const char *name, const void *data, size_t len,
    const struct ct_file *like, bool excl, struct err *e)
{
	cleanup(close_fd) int d = ctpath_open_dir(dir, e);
	cleanup(close_fd) int fd = -1;
	int rc;

	if (d < 0) {
		return d;
	}
	/* The caller holds the container's lock; a rest is from a crash. */
	unlinkat(d, CTFILE_TMP, 0);
	fd = openat(d, CTFILE_TMP, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	if (fd < 0) {
		return err_sys(e, errno, "cannot create %s/%s", dir, name);
	}
	rc = write_new(fd, data, len, like, name, e);
	if (rc == 0) {
		rc = ctpath_rename(dir, CTFILE_TMP, name, excl, e);
	}
	if (rc < 0) {
		unlinkat(d, CTFILE_TMP, 0);
	}
	return rc;
}

char *
ctfile_session(const char *tag, struct err *e)
{
	time_t now = time(NULL);
	char when[64] = "";
	struct tm tm;

	if (gmtime_r(&now, &tm)) {
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	}
	return io_asprintf(e,
			   "%.200s\n# moved to another host by vzmigrate, %s\n",
			   tag, when);
}

bool
ctfile_session_is(const char *dir, const char *name, const char *tag)
{
	cleanup(free_ptr) char *text = NULL;
	char path[PATH_MAX];
	size_t len = strnlen(tag, 200);

	return (size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) <
		       sizeof(path) &&
	       io_read_file(AT_FDCWD, path, 4096, &text, NULL, NULL) == 0 &&
	       strncmp(text, tag, len) == 0 && text[len] == '\n';
}

int
ctfile_replace(const char *dir, const char *name, const char *text,
	       struct err *e)
{
	return put(dir, name, text, strlen(text),
		   &(struct ct_file){ .mode = 0600 }, false, e);
}

int
ctfile_write(const char *dir, const char *name, const void *data, size_t len,
	     const struct ct_file *like, struct err *e)
{
	cleanup(free_ptr) char *path = io_asprintf(e, "%s/%s", dir, name);

	if (!path) {
		return E_NOMEM;
	}
	if (!ctpath_type(path)) {
		return put(dir, name, data, len, like, true, e);
	}
	return ctfile_same(dir, name, data, len)
		       ? 0
		       : err_set(e, E_EXISTS, "%s exists", path);
}
