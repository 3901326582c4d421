/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lxc: LXC's directory containers, LXCPATH/NAME/config and rootfs. This file
 * has what changes a container on the source, and what both halves share.
 *
 * LXC has no lock that could be held for the length of a migration: the one
 * it has makes lxc-info and lxc-start wait. So the migration's lock is ours,
 * and a start is made impossible by giving the configuration another name;
 * without one LXC, lxc-autostart included, does not know the container.
 */
#include "ct/lxc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "ct/ctfile.h"
#include "ct/ctholds.h"
#include "ct/ctlock.h"
#include "ct/ctpath.h"
#include "ct/kinds.h"

#define LXC_SYSTEM_CONF "/etc/lxc/lxc.conf"
#define LXC_DEFAULT_PATH "/var/lib/lxc"
#define LXC_LOCK_ROOT "/run/lxc/lock"
#define LOCK_WAIT_MS 10000
#define NEED_TOOLS                                                      \
	"LXC's tools are not installed here (Debian: apt install lxc; " \
	"Fedora: "                                                      \
	"dnf install lxc)"

static int
find_lxcpath(const char *key, const char *value, void *arg, struct err *e)
{
	char **found = arg;

	if (strcmp(key, "lxc.lxcpath") != 0 || !*value) {
		return 0;
	}
	free(*found);
	*found = strdup(value);
	return *found ? 0 : err_nomem(e);
}

char *
lxc_path(const struct ct_host *h, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	cleanup(free_ptr) char *found = NULL;
	size_t len;

	if (!h->lxcpath && ctpath_is_file(LXC_SYSTEM_CONF) &&
	    io_read_file(AT_FDCWD, LXC_SYSTEM_CONF, CT_FILE_MAX, &text, &len,
			 NULL) == 0 &&
	    lxcconf_each(text, len, LXC_SYSTEM_CONF, find_lxcpath, &found, e) <
		    0) {
		return NULL;
	}
	return ctpath_clean(h->lxcpath ? h->lxcpath
			    : found    ? found
				       : LXC_DEFAULT_PATH,
			    "the lxcpath", e);
}

char *
lxc_base(const struct ct_host *h)
{
	return lxc_path(h, NULL);
}

bool
lxc_name_ok(const char *name)
{
	size_t n = strlen(name);

	for (const char *p = name; *p; p++) {
		if ((unsigned char)*p <= 0x20 || *p == 0x7f || *p == '/') {
			return false;
		}
	}
	return n > 0 && n <= 200 && name[0] != '.' && name[0] != '-';
}

bool
lxc_begins(const char *s, const char *head)
{
	return strncmp(s, head, strlen(head)) == 0;
}

bool
lxc_is_systems(const char *path)
{
	static const char *const dirs[] = { "/usr",   "/bin",	"/sbin", "/lib",
					    "/lib32", "/lib64", "/dev" };
	struct stat st;

	if (strstr(path, "/..") || ctpath_inside(path, "/usr/local") ||
	    (stat(path, &st) == 0 && S_ISBLK(st.st_mode))) {
		return false;
	}
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (ctpath_inside(path, dirs[i])) {
			return true;
		}
	}
	return false;
}

char *
lxc_dir(const struct ct_host *h, const char *name, struct err *e)
{
	cleanup(free_ptr) char *path = lxc_path(h, e);

	return path ? io_asprintf(e, "%s/%s", path, name) : NULL;
}

int
lxc_disk_lock(const struct ct_host *h, const char *name, int *fd, struct err *e)
{
	cleanup(free_ptr) char *path = lxc_path(h, e);
	cleanup(free_ptr) char *dir = NULL;
	cleanup(free_ptr) char *file = NULL;
	cleanup(close_fd) int f = -1;
	struct flock lk = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int64_t deadline = io_deadline(LOCK_WAIT_MS);

	dir = path ? io_asprintf(e, LXC_LOCK_ROOT "%s", path) : NULL;
	file = dir ? io_asprintf(e, "%s/.%s", dir, name) : NULL;
	if (!file) {
		return e ? e->code : E_NOMEM;
	}
	if (io_mkdirs(dir, 0755, e) < 0) {
		return err_wrap(e, "cannot take LXC's lock of %s", name);
	}
	f = open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (f < 0) {
		return err_sys(e, errno, "cannot open LXC's lock %s", file);
	}
	while (fcntl(f, F_OFD_SETLK, &lk) < 0) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
			return err_sys(e, errno, "cannot lock %s", file);
		}
		if (io_left_ms(deadline) == 0) {
			return err_set(e, E_BUSY,
				       "lxc container %s: another LXC program "
				       "holds %s",
				       name, file);
		}
		/* The kernel tells nobody when a lock is released. */
		poll(NULL, 0, 20);
	}
	*fd = steal_fd(&f);
	return 0;
}

int
lxc_parse_state(const char *out, const char *name, enum ct_state *s,
		struct err *e)
{
	static const struct {
		const char *word;
		enum ct_state s;
	} words[] = {
		{ "STOPPED", CT_STOPPED },  { "RUNNING", CT_RUNNING },
		{ "FROZEN", CT_FROZEN },    { "FREEZING", CT_FROZEN },
		{ "STARTING", CT_RUNNING }, { "STOPPING", CT_RUNNING },
		{ "ABORTING", CT_RUNNING }, { "THAWED", CT_RUNNING },
	};
	size_t n = strcspn(out, " \n");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i].word) == n &&
		    memcmp(out, words[i].word, n) == 0) {
			*s = words[i].s;
			return 0;
		}
	}
	return err_set(e, E_CONFIG, "lxc-info says '%.*s' of %s", (int)n, out,
		       name);
}

/* The configuration's name now; NULL where there is none. */
static const char *
config_name(const char *dir)
{
	static const char *const names[] = { LXC_CONFIG, LXC_BLOCKED,
					     LXC_MIGRATED };
	char path[PATH_MAX];

	for (size_t i = 0; i < 3; i++) {
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir,
				     names[i]) < sizeof(path) &&
		    ctpath_is_file(path)) {
			return names[i];
		}
	}
	return NULL;
}

int
lxc_rcfile(const struct ct_host *h, const char *name, char **file,
	   struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, name, e);
	const char *conf = dir ? config_name(dir) : NULL;

	*file = NULL;
	if (!dir) {
		return e ? e->code : E_NOMEM;
	}
	if (!conf || strcmp(conf, LXC_CONFIG) == 0) {
		return 0;
	}
	*file = io_asprintf(e, "%s/%s", dir, conf);
	return *file ? 0 : E_NOMEM;
}

int
lxc_ask_state(const struct ct_host *h, const char *name, enum ct_state *s,
	      struct err *e)
{
	cleanup(free_ptr) char *path = lxc_path(h, e);
	cleanup(free_ptr) char *rc_file = NULL;
	cleanup(child_result_fini) struct child_result r = { 0 };
	const char *argv[] = { "lxc-info", "-P", path, "-n", name,
			       "-s",	   "-H", NULL, NULL, NULL };
	int rc;

	if (!path) {
		return e ? e->code : E_NOMEM;
	}
	rc = lxc_rcfile(h, name, &rc_file, e);
	if (rc < 0) {
		return rc;
	}
	if (rc_file) {
		argv[7] = "--rcfile";
		argv[8] = rc_file;
	}
	rc = child_run(&(struct child_cmd){ .argv = argv }, &r, e);
	if (rc == E_NOT_FOUND) {
		return err_set(e, E_CONFIG, NEED_TOOLS);
	}
	if (rc < 0) {
		return rc;
	}
	if (r.status != 0) {
		return err_set(e, E_CONFIG, "lxc-info failed for %s: %s%s",
			       name, buf_cstr(&r.out, NULL),
			       buf_cstr(&r.err_out, NULL));
	}
	return lxc_parse_state(buf_cstr(&r.out, NULL), name, s, e);
}

static int
lxc_state(const struct ct_host *h, const struct ct *c, enum ct_state *s,
	  struct err *e)
{
	return lxc_ask_state(h, c->id, s, e);
}

static int
lxc_lock(const struct ct_host *h, const struct ct *c, int *lockfd,
	 struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, c->id, e);

	return dir ? ctlock_take(h, "lxc", dir, lockfd, e) : E_NOMEM;
}

static void
lxc_unlock(const struct ct_host *h, const struct ct *c, int lockfd)
{
	(void)h;
	(void)c;
	ctlock_release(lockfd);
}

/* What the configuration is called: bits. */
#define HAVE_CONFIG 1u
#define HAVE_BLOCKED 2u
#define HAVE_MIGRATED 4u

static unsigned
look(const char *dir)
{
	static const char *const names[] = { LXC_CONFIG, LXC_BLOCKED,
					     LXC_MIGRATED };
	char path[PATH_MAX];
	unsigned bits = 0;

	for (unsigned i = 0; i < 3; i++) {
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir,
				     names[i]) < sizeof(path) &&
		    ctpath_type(path)) {
			bits |= 1u << i;
		}
	}
	return bits;
}

/*
 * Rename the configuration from one name to the next under LXC's lock.
 * Having been done before is success. `forbid` must not be there: somebody
 * made it meanwhile.
 */
static int
step(const struct ct_host *h, const struct ct *c, const char *from,
     const char *to, unsigned from_bit, unsigned to_bit, unsigned forbid,
     struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, c->id, e);
	cleanup(close_fd) int lock = -1;
	unsigned have;
	int rc;

	if (!dir) {
		return e ? e->code : E_NOMEM;
	}
	rc = lxc_disk_lock(h, c->id, &lock, e);
	if (rc < 0) {
		return rc;
	}
	have = look(dir);
	if (have & forbid) {
		return err_set(e, E_STATE,
			       "%s has a new %s beside %s: it was made again "
			       "during the migration",
			       dir, LXC_CONFIG, from);
	}
	if (have & from_bit) {
		/* An old `to` can only be the rest of an earlier move. */
		return ctpath_rename(dir, from, to, false, e);
	}
	if (have & to_bit) {
		cleanup(close_fd) int fd = ctpath_open_dir(dir, e);

		return fd < 0 ? fd : atomicfile_sync_dir(fd, dir, e);
	}
	return err_set(e, E_STATE, "%s has neither %s nor %s", dir, from, to);
}

static int
lxc_block(const struct ct_host *h, const struct ct *c, struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, c->id, e);
	unsigned have = dir ? look(dir) : 0;

	if ((have & HAVE_CONFIG) && (have & HAVE_BLOCKED)) {
		return err_set(e, E_STATE,
			       "%s has both %s and %s: remove the one that is "
			       "not wanted",
			       dir, LXC_CONFIG, LXC_BLOCKED);
	}
	return step(h, c, LXC_CONFIG, LXC_BLOCKED, HAVE_CONFIG, HAVE_BLOCKED, 0,
		    e);
}

static int
lxc_unblock(const struct ct_host *h, const struct ct *c, struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, c->id, e);
	unsigned have = dir ? look(dir) : 0;

	return step(h, c, LXC_BLOCKED, LXC_CONFIG, HAVE_BLOCKED, HAVE_CONFIG,
		    have & HAVE_BLOCKED ? HAVE_CONFIG : 0, e);
}

static int
lxc_retire(const struct ct_host *h, const struct ct *c, const char *tag,
	   struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, c->id, e);
	cleanup(free_ptr) char *text = dir ? ctfile_session(tag, e) : NULL;
	int rc;

	if (!text) {
		return e ? e->code : E_NOMEM;
	}
	/* Before the rename, so that whoever is retired has a session. */
	rc = ctfile_replace(dir, LXC_SESSION, text, e);
	return rc < 0 ? rc
		      : step(h, c, LXC_BLOCKED, LXC_MIGRATED, HAVE_BLOCKED,
			     HAVE_MIGRATED, HAVE_CONFIG, e);
}

static int
lxc_unretire(const struct ct_host *h, const struct ct *c, const char *tag,
	     struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, c->id, e);
	unsigned have = dir ? look(dir) : 0;
	int rc = 0;

	if (!dir) {
		return e ? e->code : E_NOMEM;
	}
	/* A crash between unblock and the record of it: it is all done. */
	if ((have & HAVE_CONFIG) && !(have & HAVE_BLOCKED) &&
	    !ctfile_session_is(dir, LXC_SESSION, tag)) {
		return 0;
	}
	/* With both, the migrated one is older than this session. */
	if (!(have & HAVE_BLOCKED)) {
		rc = step(h, c, LXC_MIGRATED, LXC_BLOCKED, HAVE_MIGRATED,
			  HAVE_BLOCKED, HAVE_CONFIG, e);
	}
	return rc < 0 ? rc : ctpath_unlink(dir, LXC_SESSION, e);
}

/* Remove the files of the directory that were carried, and what we left. */
static int
destroy_files(const struct ct *c, const char *dir, struct err *e)
{
	for (size_t i = 0; i < c->nfiles; i++) {
		cleanup(free_ptr) char *name = NULL;
		const char *slash = strchr(c->files[i].role, '/');
		int rc;

		if (!slash) {
			continue;
		}
		name = ctfile_decode(slash + 1, e);
		if (!name) {
			return e ? e->code : E_PROTOCOL;
		}
		rc = ctfile_remove_same(dir, name, c->files[i].data,
					c->files[i].len, e);
		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

static int
lxc_destroy(const struct ct_host *h, const struct ct *c, struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, c->id, e);
	unsigned have = dir ? look(dir) : 0;
	int rc;

	if (!dir) {
		return e ? e->code : E_NOMEM;
	}
	if (!ctpath_type(dir)) {
		return 0;
	}
	/* Removed but for this, which the disk forgot when power was lost. */
	if (!have && rmdir(dir) == 0) {
		return 0;
	}
	if (!(have & HAVE_MIGRATED) || (have & (HAVE_CONFIG | HAVE_BLOCKED))) {
		return err_set(e, E_STATE,
			       "%s is not moved away, so it is not destroyed",
			       dir);
	}
	rc = ctholds_ct(h, c, e);
	rc = rc < 0 ? rc : ctpath_remove_tree(c->tree, e);
	rc = rc < 0 ? rc : destroy_files(c, dir, e);
	/* The mark goes last: a deletion cut short can be taken up again. */
	rc = rc < 0 ? rc : ctpath_unlink(dir, LXC_SESSION, e);
	rc = rc < 0 ? rc : ctpath_unlink(dir, LXC_MIGRATED, e);
	if (rc < 0) {
		return rc;
	}
	if (rmdir(dir) < 0) {
		log_warn("%s stays: it holds what was not carried over (%s)",
			 dir, strerror(errno));
	}
	return 0;
}

static int
lxc_remains(const struct ct_host *h, const struct ct *c, ct_remains_fn *fn,
	    void *arg, struct err *e)
{
	cleanup(free_ptr) char *dir = lxc_dir(h, c->id, e);
	cleanup(free_ptr) char *real = dir ? realpath(dir, NULL) : NULL;
	int rc = 0;

	if (!dir) {
		return e ? e->code : E_NOMEM;
	}
	if (!real || (look(dir) & HAVE_CONFIG)) {
		return 0;
	}
	if (!ctpath_inside(c->tree, real)) {
		rc = fn(c->tree, arg, e);
	}
	rc = rc ? rc : fn(real, arg, e);
	return rc || ctpath_type(dir) != S_IFLNK ? rc : fn(dir, arg, e);
}

const struct ct_kind lxc_kind = {
	.name = "lxc",
	.by_path = false,
	.remove_default = true,
	.probe = lxcload_probe,
	.load = lxcload_load,
	.lock = lxc_lock,
	.unlock = lxc_unlock,
	.state = lxc_state,
	.block = lxc_block,
	.unblock = lxc_unblock,
	.retire = lxc_retire,
	.unretire = lxc_unretire,
	.life = lxcrun_life,
	.stop = lxcrun_stop,
	.start = lxcrun_start,
	.destroy = lxc_destroy,
	.remains = lxc_remains,
	.wish = lxcdst_wish,
	.place = lxcdst_place,
	.check = lxcdst_check,
	.commit = lxcdst_commit,
	.uncommit = lxcdst_uncommit,
	.registered = lxcdst_registered,
};
