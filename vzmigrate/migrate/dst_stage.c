/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_stage: the reservation of a container's id, name and tree, and the
 * staging area. Both are tied to the session: a reservation holds the
 * session's id, the staging area's name is made from it, and its directory
 * comes from the session's journal. Nothing else is ever deleted.
 *
 * State: reserve/ in the state directory (under its own flock), the staging
 * area, d->stagefd and d->treefd.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "ct/ctpath.h"
#include "fs/beneath.h"
#include "fs/remove.h"
#include "migrate/dst_int.h"
#include "migrate/statedir.h"

#define STAGE_PREFIX ".vzmigrate-"
#define RESERVE_NAME_MAX 200 /* bytes of an encoded word; longer is hashed */

/* ---- allowed roots ---- */

static int
allowed_path(struct dst *d, const char *path, const char *what, struct err *e)
{
	cleanup(free_ptr) char *clean = NULL;
	cleanup(free_ptr) char *real = NULL;
	cleanup(free_ptr) char *above = NULL;
	int rc;

	if (!path || d->opts.nallow_roots == 0) {
		return 0;
	}
	clean = ctpath_clean(path, what, e);
	if (!clean) {
		return e ? e->code : E_USAGE;
	}
	rc = ctpath_place(clean, &real, &above, e);
	if (rc < 0) {
		return rc;
	}
	for (size_t i = 0; i < d->nroots; i++) {
		if (ctpath_inside(real, d->roots[i])) {
			return 0;
		}
	}
	return err_set(e, E_DENIED,
		       "%s %s is outside the roots that this agent may use "
		       "(--allow-root)",
		       what, real);
}

/* Where the configuration goes follows from lxcpath and vz.conf; where the
 * client names neither, this host's own settings decide and are trusted. */
int
dst_allowed(struct dst *d, struct err *e)
{
	static const struct {
		enum dst_param i;
		const char *what;
	} paths[] = {
		{ DP_PLACE_TREE, "the container's tree" },
		{ DP_PLACE_STAGE_DIR, "the staging directory" },
		{ DP_PLACE_MOUNT, "the mount root" },
		{ DP_LXCPATH, "the lxcpath" },
		{ DP_VZ_CONF, "the configuration" },
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int rc = allowed_path(d, d->p.v[paths[i].i], paths[i].what, e);

		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

/* ---- reservation ---- */

/* The words that are reserved; the tree whatever kind claims it. */
static const struct {
	enum dst_param i;
	const char *what;
	bool any_kind;
} reserved[] = {
	{ DP_PLACE_ID, "id", false },
	{ DP_PLACE_NAME, "name", false },
	{ DP_PLACE_TREE, "tree", true },
};
#define NRESERVED (sizeof(reserved) / sizeof(reserved[0]))

/* A file's name for a word that may hold slashes. */
static void
reserve_name(struct dst *d, size_t i, char out[NAME_MAX + 1])
{
	const char *s = d->p.v[reserved[i].i];
	int n = snprintf(out, NAME_MAX + 1, "%.20s:%s:",
			 reserved[i].any_kind ? "any" : d->p.v[DP_KIND],
			 reserved[i].what);
	int start = n;
	char hash[17];

	for (const char *p = s; *p && n - start < RESERVE_NAME_MAX; p++) {
		unsigned char c = (unsigned char)*p;
		bool plain = isascii(c) && (isalnum(c) || strchr("._-", c));

		n += snprintf(out + n, NAME_MAX + 1 - (size_t)n,
			      plain ? "%c" : "%%%02X", c);
	}
	if (n - start >= RESERVE_NAME_MAX) {
		snprintf(out + n - 20, 20, "~%s", ctpath_hash(s, hash));
	}
}

/* Temporary files of a process that died while it wrote a reservation. */
static void
drop_litter(int fd)
{
	int dup = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = dup < 0 ? NULL : fdopendir(dup);
	struct dirent *de;

	if (!d) {
		close_fd(&dup);
		return;
	}
	while ((de = readdir(d))) {
		size_t n = strlen(de->d_name);

		if (de->d_name[0] == '.' && n > 4 &&
		    strcmp(de->d_name + n - 4, ".tmp") == 0) {
			unlinkat(fd, de->d_name, 0);
		}
	}
	closedir(d);
}

static int
open_reserve(int *fd, struct err *e)
{
	*fd = statedir_open("reserve", e);
	if (*fd < 0) {
		return *fd;
	}
	/* Held for a few small files only. */
	while (flock(*fd, LOCK_EX) < 0) {
		if (errno != EINTR) {
			return err_sys(e, errno, "cannot lock %s/reserve",
				       statedir_path());
		}
	}
	drop_litter(*fd);
	return 0;
}

/* Does the session that holds a reservation still need it? What a crash left
 * between a session's end and the removal of its file is stale. */
static bool
holder_alive(const char *hex)
{
	char name[PATH_MAX];
	struct dst_rec r = { 0 };
	struct err e = { 0 };
	cleanup(close_fd) int fd = statedir_open("sessions", &e);
	bool alive;

	if (fd < 0) {
		return true;
	}
	snprintf(name, sizeof(name), "%s/journal", hex);
	if (journal_read(fd, name, name, dst_rec_apply, &r, &e) < 0) {
		alive = e.code != E_NOT_FOUND;
	} else {
		enum msg_dst_state s = dst_rec_state(&r);

		alive = s == MSG_DST_RESERVED || s == MSG_DST_PROVEN;
	}
	dst_rec_fini(&r);
	return alive;
}

/* Who holds a reservation: 0 nobody (or a session that is over), 1 this
 * session, 2 another, whose id is in `hex`. */
static int
holder(struct dst *d, int fd, const char *name, char hex[33], struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	struct err why = { 0 };

	if (io_read_file(fd, name, 64, &text, NULL, &why) < 0) {
		if (why.sys == ENOENT) {
			return 0;
		}
		if (e) {
			*e = why;
		}
		return why.code;
	}
	snprintf(hex, 33, "%.32s", text);
	hex[strspn(hex, "0123456789abcdef")] = '\0';
	if (strcmp(hex, d->hex) == 0) {
		return 1;
	}
	/* An id of another form is nobody's session. */
	return strlen(hex) == 32 && holder_alive(hex) ? 2 : 0;
}

static int
held_error(struct dst *d, size_t i, const char *hex, struct err *e)
{
	return err_set(e, E_BUSY,
		       "%s %s is reserved by another migration, session %s; "
		       "finish it or run it again from its source first",
		       reserved[i].what, d->p.v[reserved[i].i], hex);
}

static int
reserve_one(struct dst *d, int fd, size_t i, struct err *e)
{
	char name[NAME_MAX + 1], hex[33];
	int rc;

	if (!d->p.v[reserved[i].i]) {
		return 0;
	}
	reserve_name(d, i, name);
	rc = holder(d, fd, name, hex, e);
	if (rc == 2) {
		return held_error(d, i, hex, e);
	}
	if (rc != 0) {
		return rc < 0 ? rc : 0;
	}
	unlinkat(fd, name, 0); /* a stale one */
	rc = atomicfile_write(fd, name, d->hex, strlen(d->hex), 0600, 1, e);
	return rc == 0 ? fault_point("dst.reserve.made", e) : rc;
}

int
dst_release(struct dst *d, struct err *e)
{
	cleanup(close_fd) int fd = -1;
	char name[NAME_MAX + 1], hex[33];
	int rc = open_reserve(&fd, e);

	for (size_t i = 0; i < NRESERVED && rc == 0; i++) {
		if (!d->p.v[reserved[i].i]) {
			continue;
		}
		reserve_name(d, i, name);
		rc = holder(d, fd, name, hex, e);
		if (rc == 1 && unlinkat(fd, name, 0) < 0) {
			rc = err_sys(e, errno, "cannot release %s", name);
		}
		rc = rc < 0 ? rc : 0;
	}
	if (rc == 0) {
		rc = atomicfile_sync_dir(fd, "reserve", e);
	}
	return rc;
}

static int
reserve_all(struct dst *d, struct err *e)
{
	cleanup(close_fd) int fd = -1;
	int rc = open_reserve(&fd, e);

	for (size_t i = 0; i < NRESERVED && rc == 0; i++) {
		rc = reserve_one(d, fd, i, e);
	}
	return rc;
}

int
dst_reserved_by_other(struct dst *d, struct err *e)
{
	cleanup(close_fd) int fd = -1;
	char name[NAME_MAX + 1], hex[33];
	int rc = open_reserve(&fd, e);

	for (size_t i = 0; i < NRESERVED && rc == 0; i++) {
		if (!d->p.v[reserved[i].i]) {
			continue;
		}
		reserve_name(d, i, name);
		rc = holder(d, fd, name, hex, e);
		if (rc == 2) {
			return held_error(d, i, hex, e);
		}
		rc = rc < 0 ? rc : 0;
	}
	return rc;
}

/* ---- staging area ---- */

char *
dst_stage_path(struct dst *d, struct err *e)
{
	return io_asprintf(e, "%s/" STAGE_PREFIX "%s",
			   d->p.v[DP_PLACE_STAGE_DIR], d->hex);
}

char *
dst_tree_path(struct dst *d, struct err *e)
{
	return io_asprintf(e, "%s/" STAGE_PREFIX "%s/" DST_TREE,
			   d->p.v[DP_PLACE_STAGE_DIR], d->hex);
}

static void
stage_name(struct dst *d, char out[64])
{
	snprintf(out, 64, STAGE_PREFIX "%s", d->hex);
}

/* A directory of ours that nobody else can enter. */
static int
open_private(int dirfd, const char *name, const char *path, struct err *e)
{
	struct stat st;
	cleanup(close_fd) int fd = -1;

	if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST) {
		return err_sys(e, errno, "cannot make %s", path);
	}
	fd = beneath_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0, e);
	if (fd < 0) {
		return err_wrap(e, "%s", path);
	}
	if (fstat(fd, &st) < 0) {
		return err_sys(e, errno, "cannot stat %s", path);
	}
	if (st.st_uid != geteuid() || (st.st_mode & 077)) {
		return err_set(e, E_DENIED,
			       "%s is there, but is not a private directory "
			       "of this user",
			       path);
	}
	return steal_fd(&fd);
}

int
dst_stage_dir_make(struct dst *d, struct err *e)
{
	const char *dir = d->p.v[DP_PLACE_STAGE_DIR];
	cleanup(close_fd) int fd = beneath_open_root(dir, e);
	cleanup(free_ptr) char *path = NULL;
	char name[64];
	int stage, rc;

	if (fd < 0) {
		return err_wrap(e, "staging directory %s", dir);
	}
	path = dst_stage_path(d, e);
	if (!path) {
		return E_NOMEM;
	}
	stage_name(d, name);
	stage = open_private(fd, name, path, e);
	if (stage < 0) {
		return stage;
	}
	rc = atomicfile_sync_dir(fd, dir, e);
	if (rc < 0) {
		close(stage);
		return rc;
	}
	if (d->stagefd >= 0) {
		close(d->stagefd);
	}
	d->stagefd = stage;
	return 0;
}

/* The tree in it: its root will get the container's own mode, so that is not
 * asked for. */
static int
make_tree(struct dst *d, struct err *e)
{
	if (mkdirat(d->stagefd, DST_TREE, 0700) < 0 && errno != EEXIST) {
		return err_sys(e, errno, "cannot make the staged tree");
	}
	if (d->treefd >= 0) {
		close(d->treefd);
	}
	d->treefd = beneath_open(d->stagefd, DST_TREE, O_RDONLY | O_DIRECTORY,
				 0, e);
	if (d->treefd < 0) {
		return err_wrap(e, "staged tree");
	}
	return atomicfile_sync_dir(d->stagefd, "staging area", e);
}

static void
close_stage(struct dst *d)
{
	if (d->treefd >= 0) {
		close(d->treefd);
	}
	if (d->stagefd >= 0) {
		close(d->stagefd);
	}
	d->treefd = d->stagefd = -1;
}

int
dst_unstage(struct dst *d, struct err *e)
{
	const char *dir = d->p.v[DP_PLACE_STAGE_DIR];
	struct err why = { 0 };
	cleanup(close_fd) int fd = beneath_open_root(dir, &why);
	uint64_t removed = 0;
	char name[64];
	int rc;

	close_stage(d);
	if (fd < 0) {
		/* With its parent it is gone as well. */
		if (why.code == E_NOT_FOUND) {
			return 0;
		}
		if (e) {
			*e = why;
		}
		return why.code;
	}
	stage_name(d, name);
	rc = remove_tree(fd, name, &removed, &why);
	if (rc < 0 && rc != E_NOT_FOUND) {
		if (e) {
			*e = why;
		}
		return err_wrap(e, "staging area in %s", dir);
	}
	log_debug("removed the staging area, %llu entries",
		  (unsigned long long)removed);
	return atomicfile_sync_dir(fd, dir, e);
}

void
dst_stage_dir_drop(struct dst *d)
{
	struct err e = { 0 };
	cleanup(close_fd) int fd =
		beneath_open_root(d->p.v[DP_PLACE_STAGE_DIR], &e);
	char name[64];

	close_stage(d);
	stage_name(d, name);
	if (fd >= 0 && unlinkat(fd, name, AT_REMOVEDIR) < 0 &&
	    errno != ENOENT) {
		log_warn("the empty staging area %s/%s stays: %s",
			 d->p.v[DP_PLACE_STAGE_DIR], name, strerror(errno));
	}
}

/* ---- RESERVE ---- */

static int
reserve_event(struct dst *d, struct err *e)
{
	struct journal_field f[DP_COUNT + 2];
	char gen[16], nfiles[16];
	bool stored = d->rec.next.gen == d->epoch;
	const struct dst_files *l = stored ? &d->rec.next : &d->rec.files;
	size_t n = 0;

	snprintf(gen, sizeof(gen), "%u", l->gen);
	snprintf(nfiles, sizeof(nfiles), "%zu", l->n);
	f[n++] = (struct journal_field){ "gen", gen };
	f[n++] = (struct journal_field){ "nfiles", nfiles };
	for (size_t i = 0; i < DP_COUNT; i++) {
		f[n++] = (struct journal_field){ dst_param_key(i), d->p.v[i] };
	}
	return dst_event(d, EV_RESERVE, f, n, e);
}

/* What the reserve event announced. */
static int
make_reservation(struct dst *d, struct err *e)
{
	int rc = reserve_all(d, e);

	if (rc == 0) {
		rc = fault_point("dst.reserve.before-stage", e);
	}
	if (rc == 0) {
		rc = dst_stage_dir_make(d, e);
	}
	if (rc == 0) {
		rc = fault_point("dst.reserve.stage-made", e);
	}
	if (rc == 0) {
		rc = make_tree(d, e);
	}
	return rc;
}

/* A refused first reservation leaves nothing; one that was adopted stays. */
static int
take_back(struct dst *d, struct err *e)
{
	struct err why = { 0 };

	if (dst_unstage(d, &why) < 0 || dst_release(d, &why) < 0 ||
	    dst_event(d, EV_UNRESERVED, NULL, 0, &why) < 0) {
		log_warn("a refused reservation could not be cleaned up: %s",
			 why.text);
	}
	return e ? e->code : E_SYSTEM;
}

int
dst_reserve(struct dst *d, struct err *e)
{
	bool adopt = d->rec.placed;
	int rc;

	if (d->other_words) {
		return err_set(e, E_STATE,
			       "session %s has reserved %s %s at %s; abort it "
			       "before it can go elsewhere",
			       d->hex, d->p.v[DP_KIND], d->p.v[DP_PLACE_ID],
			       d->p.v[DP_PLACE_TREE]);
	}
	rc = dst_rec_allows(&d->rec, EV_RESERVE, e);
	if (rc == 0 && d->files_new) {
		rc = dst_store_files(d, e);
	}
	if (rc == 0) {
		rc = reserve_event(d, e);
	}
	if (rc < 0) {
		return rc;
	}
	d->files_new = false;
	rc = make_reservation(d, e);
	if (rc < 0) {
		return adopt ? rc : take_back(d, e);
	}
	rc = dst_event(d, EV_RESERVED, NULL, 0, e);
	if (rc < 0) {
		return rc;
	}
	dst_drop_files(d, d->rec.files.gen);
	log_info("%s %s: reserved, staging area in %s", d->p.v[DP_KIND],
		 d->p.v[DP_PLACE_ID], d->p.v[DP_PLACE_STAGE_DIR]);
	return 0;
}
