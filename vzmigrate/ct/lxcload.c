/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lxcload: finds and reads one LXC container. What lies in its own directory
 * is carried; what it shares with others is named in the origin file, for the
 * destination to look for; the rest is told in notes (field case S10).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ct/ctfile.h"
#include "ct/ctfits.h"
#include "ct/ctholds.h"
#include "ct/ctpath.h"
#include "ct/kinds.h"
#include "ct/lxc.h"
#include "ct/origin.h"
#include "fs/mounts.h"

#define INCLUDE_DEPTH 16
#define INCLUDE_FILES 128
#define EXTRA_TOTAL (4u << 20) /* bytes of extra files in one message */
#define NEEDS_MAX 256

/* One load under way. */
struct load {
	struct ct *c;
	struct buf *origin;
	const char *dir;      /* LXCPATH/NAME as spelled */
	const char *dir_real; /* and as resolved */
	char *rootfs;	      /* value of lxc.rootfs.path; heap or NULL */
	bool idmap;	      /* lxc.idmap is set */
	bool owned;	      /* the file being read is the container's */
	unsigned depth, files, needs;
	char *included; /* owned files that were included: "\npath\n..." */
};

static int read_file(struct load *l, const char *path, struct err *e);
static int remember(struct load *l, const char *path, struct err *e);

/* Whether `path` belongs to the container: in its directory or its tree. */
static bool
is_owned(const struct load *l, const char *path)
{
	return ctpath_inside(path, l->dir) || ctpath_inside(path, l->dir_real);
}

/* Something shared: looked for on the destination, and told unless every host
 * has its own of it. */
static int
need(struct load *l, const char *key, const char *what, const char *path,
     struct err *e)
{
	int rc;

	if (!l->owned || is_owned(l, path)) {
		return 0;
	}
	if (l->needs++ >= NEEDS_MAX) {
		return err_set(e, E_LIMIT,
			       "the configuration of %s names more than %d "
			       "shared files",
			       l->c->id, NEEDS_MAX);
	}
	rc = origin_put(l->origin, key, what, path, e);
	if (rc < 0 || strcmp(what, "bridge") == 0 || lxc_is_systems(path)) {
		return rc;
	}
	return ctfile_note(l->c, e,
			   "it uses %s of this host (%s), which is not "
			   "carried: what the destination has there is used "
			   "instead",
			   path, what);
}

/* "source target type options ..." of lxc.mount.entry or an fstab line. */
static int
mount_entry(struct load *l, const char *value, struct err *e)
{
	cleanup(free_ptr) char *copy = strdup(value);
	char *save = NULL, *field[4] = { NULL };

	if (!copy) {
		return err_nomem(e);
	}
	for (int i = 0; i < 4; i++) {
		field[i] = strtok_r(i ? NULL : copy, " \t", &save);
	}
	if (!field[0] || field[0][0] != '/' || strcmp(field[0], "/") == 0 ||
	    ctpath_inside(field[0], "/proc") ||
	    ctpath_inside(field[0], "/sys")) {
		return 0;
	}
	return need(l,
		    field[3] && strstr(field[3], "optional") ? "want" : "need",
		    "mount", field[0], e);
}

static int
mount_table(struct load *l, const char *path, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	char *save = NULL;
	int rc;

	rc = need(l, "need", "mount-table", path, e);
	if (rc < 0 || !ctpath_is_file(path)) {
		return rc;
	}
	rc = io_read_file(AT_FDCWD, path, CT_FILE_MAX, &text, NULL, e);
	for (char *line = rc < 0 ? NULL : strtok_r(text, "\n", &save);
	     line && rc == 0; line = strtok_r(NULL, "\n", &save)) {
		rc = *line == '#' ? 0 : mount_entry(l, line, e);
	}
	return rc;
}

/* A hook's first word is a program. */
static int
hook(struct load *l, const char *value, struct err *e)
{
	cleanup(free_ptr) char *path = strndup(value, strcspn(value, " \t"));

	if (!path) {
		return err_nomem(e);
	}
	return *path == '/' ? need(l, "need", "hook", path, e) : 0;
}

static int
include(struct load *l, const char *value, struct err *e)
{
	bool owned = l->owned;
	DIR *d;
	int rc;

	rc = need(l, "need", "include", value, e);
	if (rc < 0) {
		return rc;
	}
	l->owned = owned && is_owned(l, value);
	d = opendir(value);
	if (!d) {
		rc = read_file(l, value, e);
		l->owned = owned;
		return rc;
	}
	for (struct dirent *de; rc == 0 && (de = readdir(d));) {
		size_t n = strlen(de->d_name);
		cleanup(free_ptr) char *path = NULL;

		if (n < 5 || strcmp(de->d_name + n - 5, ".conf") != 0) {
			continue;
		}
		path = io_asprintf(e, "%s/%s", value, de->d_name);
		rc = path ? read_file(l, path, e) : E_NOMEM;
	}
	/* The directory itself counts, empty or not. */
	rc = rc < 0 ? rc : remember(l, value, e);
	closedir(d);
	l->owned = owned;
	return rc;
}

static bool
begins(const char *key, const char *head)
{
	return strncmp(key, head, strlen(head)) == 0;
}

/* lxc.net.N.link, lxc.network.link */
static bool
is_link(const char *key)
{
	size_t n = strlen(key);

	return (begins(key, "lxc.net.") || begins(key, "lxc.network.")) &&
	       n > 5 && strcmp(key + n - 5, ".link") == 0;
}

/* lxc.net.N.hwaddr, .ipv4.address and the older .ipv4; an x in a MAC is a
 * digit that LXC chooses at the start. */
static int
address(struct load *l, const char *key, const char *value, struct err *e)
{
	const char *last = strrchr(key, '.');
	bool ip = strcmp(last ? last : "", ".ipv4") == 0 ||
		  strcmp(last ? last : "", ".ipv6") == 0 ||
		  (last && strcmp(last, ".address") == 0);

	if (!begins(key, "lxc.net") || !l->owned) {
		return 0;
	}
	if (last && strcmp(last, ".hwaddr") == 0 && !strpbrk(value, "xX")) {
		return origin_put(l->origin, "mac", NULL, value, e);
	}
	return ip ? origin_put(l->origin, "ip", NULL, value, e) : 0;
}

static int
on_item(const char *key, const char *value, void *arg, struct err *e)
{
	struct load *l = arg;

	if (strcmp(key, "lxc.rootfs.path") == 0 ||
	    strcmp(key, "lxc.rootfs") == 0) {
		free(l->rootfs);
		l->rootfs = *value ? strdup(value) : NULL;
		return l->rootfs || !*value ? 0 : err_nomem(e);
	}
	if (!*value) {
		return 0;
	}
	if (strcmp(key, "lxc.start.auto") == 0) {
		l->c->autostart = strcmp(value, "0") != 0;
	} else if (strcmp(key, "lxc.idmap") == 0 ||
		   strcmp(key, "lxc.id_map") == 0) {
		l->idmap = true;
		return origin_put(l->origin, "idmap", NULL, value, e);
	} else if (strcmp(key, "lxc.include") == 0) {
		return include(l, value, e);
	} else if (strcmp(key, "lxc.mount.entry") == 0) {
		return mount_entry(l, value, e);
	} else if (strcmp(key, "lxc.mount.fstab") == 0 ||
		   strcmp(key, "lxc.mount") == 0) {
		return mount_table(l, value, e);
	} else if (begins(key, "lxc.hook.") &&
		   strcmp(key, "lxc.hook.version") != 0) {
		return hook(l, value, e);
	} else if (strcmp(key, "lxc.seccomp.profile") == 0 ||
		   strcmp(key, "lxc.seccomp") == 0) {
		return *value == '/'
			       ? need(l, "need", "seccomp-profile", value, e)
			       : 0;
	} else if (is_link(key)) {
		return need(l, "want", "bridge", value, e);
	}
	return address(l, key, value, e);
}

/* An included file of the container's own is a configuration too, so the
 * paths in it are rewritten. */
static int
remember(struct load *l, const char *path, struct err *e)
{
	char *more;

	if (l->depth == 0 || !l->owned) {
		return 0;
	}
	more = io_asprintf(e, "%s%s\n", l->included ? l->included : "\n", path);
	if (!more) {
		return E_NOMEM;
	}
	free(l->included);
	l->included = more;
	return 0;
}

static bool
was_included(const struct load *l, const char *path, const char *real)
{
	cleanup(free_ptr) char *a = io_asprintf(NULL, "\n%s\n", path);
	cleanup(free_ptr) char *b = io_asprintf(NULL, "\n%s\n", real);

	return l->included && a && b &&
	       (strstr(l->included, a) || strstr(l->included, b));
}

static int
read_file(struct load *l, const char *path, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	size_t len;
	int rc;

	if (l->depth >= INCLUDE_DEPTH || l->files++ >= INCLUDE_FILES) {
		return err_set(e, E_CONFIG,
			       "%s: the includes go deeper than %d or are "
			       "more than %d files",
			       l->c->id, INCLUDE_DEPTH, INCLUDE_FILES);
	}
	if (!ctpath_is_file(path)) {
		return err_set(e, E_CONFIG,
			       "%s, which the configuration of %s includes, "
			       "is not there",
			       path, l->c->id);
	}
	rc = io_read_file(AT_FDCWD, path, CT_FILE_MAX, &text, &len, e);
	rc = rc < 0 ? rc : remember(l, path, e);
	if (rc < 0) {
		return rc;
	}
	l->depth++;
	rc = lxcconf_each(text, len, path, on_item, l, e);
	l->depth--;
	return rc;
}

/* Root file systems of LXC that are not a plain directory. */
static const struct {
	const char *prefix, *what;
} backends[] = {
	{ "overlay:", "an overlay" },	  { "overlayfs:", "an overlay" },
	{ "aufs:", "an aufs union" },	  { "loop:", "a loop device" },
	{ "zfs:", "a zfs data set" },	  { "lvm:", "an lvm volume" },
	{ "rbd:", "a ceph rbd image" },	  { "nbd:", "an nbd image" },
	{ "btrfs:", "a btrfs snapshot" },
};

static int
refuse(const struct ct *c, const char *what, const char *value, struct err *e)
{
	return err_set(e, E_UNSUPPORTED,
		       "the root file system of lxc container %s is %s (%s), "
		       "not a plain directory; such a container cannot be "
		       "moved yet",
		       c->id, what, value);
}

struct mount_at {
	const char *path;
	char type[64];
};

static int
match_mount(const char *point, const char *fstype, void *arg)
{
	struct mount_at *m = arg;

	if (strcmp(point, m->path) == 0) {
		/* The last one is on top. */
		snprintf(m->type, sizeof(m->type), "%s", fstype);
	}
	return 0;
}

/* Refuse a tree that is the mount point of something layered. */
static int
check_mounted(const struct ct *c, const char *tree, struct err *e)
{
	static const char *const layered[] = { "overlay", "aufs", "unionfs",
					       "fuse.", "fuse" };
	struct mount_at m = { tree, "" };
	int rc = mounts_each(match_mount, &m, e);
	char what[100];

	for (size_t i = 0; rc == 0 && i < 5; i++) {
		if (begins(m.type, layered[i])) {
			snprintf(what, sizeof(what), "a mounted %s file system",
				 m.type);
			return refuse(c, what, tree, e);
		}
	}
	return rc;
}

/* From the value of lxc.rootfs.path to l->c->tree. */
static int
find_tree(struct load *l, struct err *e)
{
	const char *path = l->rootfs;
	mode_t type;

	if (!path) {
		return err_set(e, E_CONFIG,
			       "lxc container %s has no lxc.rootfs.path",
			       l->c->id);
	}
	for (size_t i = 0; i < sizeof(backends) / sizeof(*backends); i++) {
		if (begins(path, backends[i].prefix)) {
			return refuse(l->c, backends[i].what, path, e);
		}
	}
	path += begins(path, "dir:") ? 4 : 0;
	if (*path != '/') {
		return refuse(l->c, "of a kind unknown here", path, e);
	}
	l->c->tree = realpath(path, NULL);
	if (!l->c->tree && l->c->mark == CT_RETIRED) {
		l->c->tree = ctpath_clean(path, "the root file system", e);
		return l->c->tree ? 0 : e ? e->code : E_USAGE;
	}
	if (!l->c->tree) {
		return err_set(e, E_CONFIG,
			       "the root file system %s of lxc container %s "
			       "is not there",
			       path, l->c->id);
	}
	type = ctpath_type(l->c->tree);
	if (type != S_IFDIR) {
		return refuse(l->c,
			      type == S_IFBLK	? "a block device"
			      : type == S_IFREG ? "an image file"
						: "no directory",
			      l->c->tree, e);
	}
	if (strcmp(l->c->tree, "/") == 0) {
		return refuse(l->c, "this host's own", "/", e);
	}
	return check_mounted(l->c, l->c->tree, e);
}

/* Directly in the directory, or in the tree. */
static bool
is_carried(const struct load *l, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t n = (size_t)(slash - path);

	return ctpath_inside(path, l->c->tree) ||
	       (!ctpath_is_dir(path) &&
		((n == strlen(l->dir) && ctpath_inside(path, l->dir)) ||
		 (n == strlen(l->dir_real) &&
		  ctpath_inside(path, l->dir_real))));
}

/* Without an include LXC does not read the rest. */
static int
check_includes(const struct load *l, struct err *e)
{
	cleanup(free_ptr) char *list = strdup(l->included ? l->included : "");
	char *save = NULL;

	if (!list) {
		return err_nomem(e);
	}
	for (char *p = strtok_r(list, "\n", &save); p;
	     p = strtok_r(NULL, "\n", &save)) {
		if (!is_carried(l, p)) {
			return err_set(e, E_UNSUPPORTED,
				       "the configuration of %s includes %s, "
				       "and directories in %s are not carried: "
				       "move the included files to %s itself",
				       l->c->id, p, l->dir, l->dir);
		}
	}
	return 0;
}

/* One entry of the container's directory. */
static int
extra(struct load *l, int dirfd, const char *name, size_t *total, struct err *e)
{
	cleanup(free_ptr) char *path = io_asprintf(e, "%s/%s", l->dir, name);
	cleanup(free_ptr) char *coded = ctfile_encode(name, e);
	cleanup(free_ptr) char *role = NULL;
	cleanup(free_ptr) char *real =
		io_asprintf(e, "%s/%s", l->dir_real, name);
	struct stat st;

	if (!path || !coded || !real) {
		return E_NOMEM;
	}
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", path);
	}
	if (S_ISDIR(st.st_mode) && ctpath_inside(l->c->tree, real)) {
		return 0;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)CT_FILE_MAX ||
	    *total + (size_t)st.st_size > EXTRA_TOTAL ||
	    l->c->nfiles + 2 >= CT_FILES_MAX) {
		return ctfile_note(l->c, e, "%s is not carried (%s)", path,
				   S_ISDIR(st.st_mode)	  ? "a directory"
				   : !S_ISREG(st.st_mode) ? "no regular file"
							  : "too large");
	}
	*total += (size_t)st.st_size;
	role = io_asprintf(e, "%s/%s",
			   was_included(l, path, real) ? "include" : "extra",
			   coded);
	return role ? ctfile_load(l->c, role, path, e) : E_NOMEM;
}

static bool
is_ours(const char *name)
{
	return strcmp(name, LXC_CONFIG) == 0 ||
	       strcmp(name, LXC_BLOCKED) == 0 ||
	       strcmp(name, LXC_MIGRATED) == 0 ||
	       strcmp(name, LXC_SESSION) == 0 || begins(name, ".vzmigrate") ||
	       strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	       strcmp(name, "partial") == 0;
}

static int
extras(struct load *l, struct err *e)
{
	DIR *d = opendir(l->dir);
	size_t total = 0;
	int rc = 0;

	if (!d) {
		return err_sys(e, errno, "cannot read %s", l->dir);
	}
	for (struct dirent *de; rc == 0 && (de = readdir(d));) {
		if (!is_ours(de->d_name)) {
			rc = extra(l, dirfd(d), de->d_name, &total, e);
		}
	}
	closedir(d);
	return rc;
}

/* Which file is the configuration, and what that means. */
static char *
find_config(const char *dir, enum ct_mark *mark, struct err *e)
{
	static const char *const names[] = { LXC_CONFIG, LXC_BLOCKED,
					     LXC_MIGRATED };

	for (unsigned i = 0; i < 3; i++) {
		char *path = io_asprintf(e, "%s/%s", dir, names[i]);

		if (!path || ctpath_is_file(path)) {
			*mark = (enum ct_mark)i;
			return path;
		}
		free(path);
	}
	err_set(e, E_NOT_FOUND, "%s has no container configuration", dir);
	return NULL;
}

/* A name, or the path of a container's directory, to the name. */
static char *
word_to_name(const struct ct_host *h, const char *word, struct err *e)
{
	cleanup(free_ptr) char *lxcpath = lxc_path(h, e);
	cleanup(free_ptr) char *base = NULL;
	cleanup(free_ptr) char *real = NULL;
	const char *slash;

	if (!lxcpath) {
		return NULL;
	}
	if (*word == '/') {
		base = realpath(lxcpath, NULL);
		real = realpath(word, NULL);
		slash = real ? strrchr(real, '/') : NULL;
		if (base && real && (size_t)(slash - real) == strlen(base) &&
		    ctpath_inside(real, base)) {
			return strdup(slash + 1);
		}
	}
	if (!lxc_name_ok(word)) {
		err_set(e, E_NOT_FOUND, "there is no lxc container %s in %s",
			word, lxcpath);
		return NULL;
	}
	return strdup(word);
}

int
lxcload_probe(const struct ct_host *h, const char *word, struct err *e)
{
	cleanup(free_ptr) char *name = word_to_name(h, word, NULL);
	cleanup(free_ptr) char *dir = name ? lxc_dir(h, name, e) : NULL;
	cleanup(free_ptr) char *conf = NULL;
	enum ct_mark mark;

	conf = dir ? find_config(dir, &mark, NULL) : NULL;
	return !conf ? 0 : mark == CT_RETIRED ? 2 : 1;
}

/* The tag in the file beside a retired configuration. */
static int
read_tag(const char *dir, struct ct *c, struct err *e)
{
	cleanup(free_ptr) char *path =
		io_asprintf(e, "%s/%s", dir, LXC_SESSION);

	if (!path) {
		return E_NOMEM;
	}
	if (c->mark != CT_RETIRED ||
	    io_read_file(AT_FDCWD, path, 4096, &c->tag, NULL, NULL) < 0) {
		return 0;
	}
	c->tag[strcspn(c->tag, "\n")] = '\0';
	return 0;
}

static int
put_version(struct load *l, struct err *e)
{
	static const char *const argv[] = { "lxc-start", "--version", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	char value[64], *text;

	if (child_run(&(struct child_cmd){ .argv = argv }, &r, NULL) < 0 ||
	    r.status != 0) {
		return 0; /* whoever needs the tools says that they lack */
	}
	text = buf_cstr(&r.out, NULL);
	snprintf(value, sizeof(value), "lxc %.*s",
		 text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	return origin_put(l->origin, "runtime", NULL, value, e);
}

static int
put_origin(struct load *l, struct err *e)
{
	char mode[64];
	struct stat st;
	int rc;

	if (stat(l->dir, &st) < 0) {
		return err_sys(e, errno, "%s", l->dir);
	}
	snprintf(mode, sizeof(mode), "%o:%u:%u", st.st_mode & 07777, st.st_uid,
		 st.st_gid);
	rc = origin_put(l->origin, "mode", NULL, mode, e);
	rc = rc < 0 ? rc : origin_put(l->origin, "dir", NULL, l->dir, e);
	rc = rc < 0 ? rc : origin_put(l->origin, "dir", NULL, l->dir_real, e);
	rc = rc < 0 ? rc
		    : origin_put(l->origin, "tree", NULL,
				 l->rootfs +
					 (begins(l->rootfs, "dir:") ? 4 : 0),
				 e);
	rc = rc < 0 ? rc : origin_put(l->origin, "tree", NULL, l->c->tree, e);
	if (rc == 0 && ctpath_is_dir(l->c->tree)) {
		rc = origin_put_node(l->origin, l->c->tree, e);
	}
	rc = rc < 0 ? rc : ctfits_put(l->origin, e);
	rc = rc < 0 ? rc : put_version(l, e);
	return rc < 0 ? rc : origin_finish(l->c, l->origin, e);
}

static int
load_parts(struct load *l, const char *conf, struct err *e)
{
	int rc = ctfile_load(l->c, LXC_CONFIG, conf, e);

	rc = rc < 0 ? rc : read_file(l, conf, e);
	rc = rc < 0 ? rc : find_tree(l, e);
	rc = rc < 0 ? rc : check_includes(l, e);
	rc = rc < 0 ? rc : extras(l, e);
	rc = rc < 0 ? rc : ctfile_note_mounts(l->c, e);
	rc = rc < 0 ? rc : read_tag(l->dir, l->c, e);
	rc = rc < 0 ? rc : put_origin(l, e);
	if (rc == 0 && l->idmap) {
		rc = ctfile_note(l->c, e,
				 "lxc.idmap is set: owners are carried as "
				 "numbers, so the destination needs the same "
				 "ranges in /etc/subuid and /etc/subgid");
	}
	return rc;
}

int
lxcload_load(const struct ct_host *h, const char *word, struct ct *c,
	     struct err *e)
{
	cleanup(free_ptr) char *dir = NULL;
	cleanup(free_ptr) char *real = NULL;
	cleanup(free_ptr) char *conf = NULL;
	cleanup(buf_finip) struct buf origin;
	struct load l = { .c = c, .origin = &origin, .owned = true };
	int rc;

	memset(c, 0, sizeof(*c));
	buf_init(&origin, ORIGIN_MAX);
	c->kind = &lxc_kind;
	c->state = CT_STOPPED;
	c->id = word_to_name(h, word, e);
	dir = c->id ? lxc_dir(h, c->id, e) : NULL;
	conf = dir ? find_config(dir, &c->mark, e) : NULL;
	real = conf ? ctpath_real(dir, e) : NULL;
	if (!real) {
		rc = e ? e->code : E_NOT_FOUND;
		ct_free(c);
		return rc == E_NOT_FOUND
			       ? err_set(e, rc,
					 "there is no lxc container %s%s%s",
					 word,
					 dir ? ": no configuration in " : "",
					 dir ? dir : "")
			       : rc;
	}
	l.dir = dir;
	l.dir_real = real;
	rc = load_parts(&l, conf, e);
	free(l.rootfs);
	free(l.included);
	/* One that is blocked passed this when it was free. */
	if (rc == 0 && c->mark == CT_FREE) {
		rc = ctholds_ct(h, c, e);
	}
	if (rc == 0 && c->mark != CT_RETIRED) {
		rc = lxc_ask_state(h, c->id, &c->state, e);
	}
	if (rc < 0) {
		ct_free(c);
	}
	return rc;
}

/* The tree for lxc_each: only what the configuration itself says. */
static int
each_item(const char *key, const char *value, void *arg, struct err *e)
{
	char **tree = arg;

	(void)e;
	if (strcmp(key, "lxc.rootfs.path") == 0 ||
	    strcmp(key, "lxc.rootfs") == 0) {
		free(*tree);
		*tree = strdup(value + (begins(value, "dir:") ? 4 : 0));
	}
	return 0;
}

int
lxc_each(const struct ct_host *h, kinds_each_fn *fn, void *arg)
{
	cleanup(free_ptr) char *lxcpath = lxc_path(h, NULL);
	DIR *d = lxcpath ? opendir(lxcpath) : NULL;
	int rc = 0;

	if (!d) {
		return 0;
	}
	for (struct dirent *de; rc == 0 && (de = readdir(d));) {
		cleanup(free_ptr) char *dir = NULL;
		cleanup(free_ptr) char *conf = NULL;
		cleanup(free_ptr) char *text = NULL;
		cleanup(free_ptr) char *tree = NULL;
		enum ct_mark mark;
		size_t len;

		dir = lxc_name_ok(de->d_name)
			      ? io_asprintf(NULL, "%s/%s", lxcpath, de->d_name)
			      : NULL;
		conf = dir ? find_config(dir, &mark, NULL) : NULL;
		if (!conf || io_read_file(AT_FDCWD, conf, CT_FILE_MAX, &text,
					  &len, NULL) < 0) {
			continue;
		}
		lxcconf_each(text, len, conf, each_item, &tree, NULL);
		rc = fn(de->d_name, dir, tree, arg);
	}
	closedir(d);
	return rc;
}
