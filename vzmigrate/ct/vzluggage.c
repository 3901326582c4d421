/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vzluggage: moves the dump between DUMPDIR and the tree, and the quota
 * between vzquota's file and the tree. State: CTID.conf.vzmigrate-luggage
 * beside the configuration, on the source, while it is packed.
 *
 * The dump of OpenVZ's kernel is one file, that of CRIU a directory. Which
 * dump it is, is told by its time of modification, which a move keeps, and
 * the size of a file.
 */
#include "ct/vzluggage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "ct/ctfile.h"
#include "ct/ctpath.h"
#include "ct/origin.h"
#include "ct/vzctl.h"
#include "ct/vzquota.h"

#define MARK ".vzmigrate-luggage" /* behind CTID.conf */
#define QUOTA_MAX (16u << 20)
#define FACT_LEN 64
#define NEW ".vzmigrate-new" /* a copy under way */

/* The paths of one container. */
struct where {
	char dir[PATH_MAX];   /* TREE/.vzmigrate-luggage */
	char in[PATH_MAX];    /* its dump in there */
	char quota[PATH_MAX]; /* its quota in there */
	char dump[PATH_MAX];  /* DUMPDIR/Dump.CTID */
};

static int
fill(struct where *p, const char *tree, const struct vzconf *v, const char *id,
     struct err *e)
{
	const struct {
		char *to;
		const char *dir, *name, *tail;
	} t[] = { { p->dir, tree, VZLUGGAGE_DIR, "" },
		  { p->in, p->dir, "dump", "" },
		  { p->quota, p->dir, "quota", "" },
		  { p->dump, v->dumpdir, "Dump.", id } };

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		if (snprintf(t[i].to, PATH_MAX, "%s/%s%s", t[i].dir, t[i].name,
			     t[i].tail) >= PATH_MAX) {
			return err_set(e, E_LIMIT,
				       "the path %.100s... is too "
				       "long",
				       t[i].to);
		}
	}
	return 0;
}

/* What tells a dump from another: "f:SIZE:SECONDS" or "d:0:SECONDS" (OpenVZ's
 * hosts may have file systems that keep no more of a time). False where there
 * is none. */
static bool
fact_of(const char *path, char fact[FACT_LEN])
{
	struct stat st;

	if (lstat(path, &st) < 0 ||
	    (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
		return false;
	}
	snprintf(fact, FACT_LEN, "%c:%" PRId64 ":%" PRId64,
		 S_ISREG(st.st_mode) ? 'f' : 'd',
		 S_ISREG(st.st_mode) ? (int64_t)st.st_size : 0,
		 (int64_t)st.st_mtim.tv_sec);
	return true;
}

static bool
is(const char *path, const char *fact)
{
	char now[FACT_LEN];

	return fact_of(path, now) && strcmp(now, fact) == 0;
}

/* ---- moving ---- */

/* The bytes of `in` to `out`, holes as zeros. */
static int
copy_bytes(int in, int out, const char *from, struct err *e)
{
	static const size_t piece = 1 << 20;
	cleanup(free_ptr) char *buf = malloc(piece);
	ssize_t n;

	if (!buf) {
		return err_nomem(e);
	}
	while ((n = io_read_full(in, buf, piece, from, e)) > 0) {
		int rc = io_write_full(out, buf, (size_t)n, from, e);

		if (rc < 0) {
			return rc;
		}
	}
	return (int)n;
}

/* One file from another file system, complete or not at all. */
static int
copy_file(const char *from, const char *to, struct err *e)
{
	cleanup(free_ptr) char *tmp = io_asprintf(e, "%s" NEW, to);
	cleanup(close_fd) int in =
		open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(close_fd) int out = -1;
	struct stat st;
	int rc;

	if (!tmp) {
		return E_NOMEM;
	}
	if (in < 0 || fstat(in, &st) < 0) {
		return err_sys(e, errno, "cannot read %s", from);
	}
	unlink(tmp); /* of a crash */
	out = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0) {
		return err_sys(e, errno, "cannot create %s", tmp);
	}
	rc = copy_bytes(in, out, from, e);
	if (rc == 0 &&
	    (fchown(out, st.st_uid, st.st_gid) < 0 ||
	     fchmod(out, st.st_mode & 07777) < 0 ||
	     futimens(out, (struct timespec[]){ st.st_atim, st.st_mtim }) < 0 ||
	     fsync(out) < 0)) {
		rc = err_sys(e, errno, "cannot finish %s", tmp);
	}
	rc = rc < 0 ? rc : ctpath_move(tmp, to, e);
	if (rc < 0) {
		unlink(tmp);
		return rc;
	}
	return unlink(from) < 0 ? err_sys(e, errno, "cannot remove %s", from)
				: 0;
}

/* Move a dump whose fact is known. Where it is there already, what is left of
 * a copy goes. */
static int
move_dump(const char *from, const char *to, const char *fact, struct err *e)
{
	struct err why = { 0 };
	int rc;

	if (is(to, fact)) {
		return is(from, fact) && unlink(from) < 0
			       ? err_sys(e, errno, "cannot remove %s", from)
			       : 0;
	}
	if (!is(from, fact)) {
		return err_set(e, E_STATE,
			       "the dump of the suspended container is neither "
			       "%s nor %s",
			       from, to);
	}
	rc = ctpath_move(from, to, &why);
	if (rc == 0 || why.sys != EXDEV) {
		return rc < 0 ? err_set(e, why.code, "%s", why.text) : 0;
	}
	return *fact == 'f'
		       ? copy_file(from, to, e)
		       : err_set(e, E_UNSUPPORTED,
				 "the dump is a directory, as CRIU makes it, "
				 "and cannot be moved from %s to %s, on "
				 "another file system; resume the container",
				 from, to);
}

/* What a copy of a crash left beside where the dump goes. */
static void
drop_rest(const char *to)
{
	cleanup(free_ptr) char *tmp = io_asprintf(NULL, "%s" NEW, to);

	if (tmp) {
		unlink(tmp);
	}
}

/* The times of the tree's root, which a directory made in it and removed
 * again would change. */
struct times {
	const char *tree;
	struct timespec t[2];
};

static struct times
keep_times(const char *tree)
{
	struct times k = { .tree = NULL };
	struct stat st;

	if (lstat(tree, &st) == 0) {
		k = (struct times){ tree, { st.st_atim, st.st_mtim } };
	}
	return k;
}

static void
put_times(const struct times *k)
{
	if (k->tree) {
		utimensat(AT_FDCWD, k->tree, k->t, AT_SYMLINK_NOFOLLOW);
	}
}

/* ---- facts ---- */

static char *
fact(const struct ct_file *files, size_t nfiles, const char *key)
{
	const struct ct_want w = { .files = files, .nfiles = nfiles };

	return origin_get(&w, key, 0);
}

static int
quota_fact(struct ct *c, const struct vzconf *v, const char *own,
	   size_t own_len, struct buf *origin, struct err *e)
{
	cleanup(free_ptr) char *image = io_asprintf(e, "%s/root.hdd", c->tree);
	struct vzquota_limits l;
	int rc = image ? 0 : E_NOMEM;

	/* An image's file system has its own quota inside. */
	if (rc < 0 || ctpath_type(image)) {
		return rc;
	}
	rc = vzquota_limits(v, c->id, own, own_len, &l, e);
	if (rc < 0 && !vzquota_here()) {
		err_clear(e); /* nobody reads these limits here */
		rc = 1;
	}
	if (rc <= 0) {
		return rc;
	}
	return vzquota_here()
		       ? origin_put(origin, "quota", NULL, "vzquota", e)
		       : ctfile_note(c, e,
				     "QUOTAUGIDLIMIT is set, but vzquota is "
				     "not installed here: limits of its users "
				     "and groups are not carried");
}

/* The mark's fact: the dump's, or "-" where only quota is packed. NULL without
 * a mark. */
static char *
read_mark(const struct ct *c, const struct vzconf *v)
{
	cleanup(free_ptr) char *path = vzconf_path(v, c->id, MARK, NULL);
	char *text = NULL;

	if (!path ||
	    io_read_file(AT_FDCWD, path, FACT_LEN, &text, NULL, NULL) < 0) {
		return NULL;
	}
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* The dump of one that is not suspended is of an older life: memory that does
 * not fit its files any more. Whether one that is blocked is suspended vzctl
 * does not know. */
static int
dump_fact(struct ct *c, const struct vzconf *v, const struct where *p,
	  struct buf *origin, struct err *e)
{
	cleanup(free_ptr) char *packed =
		c->mark == CT_BLOCKED ? read_mark(c, v) : NULL;
	char text[FACT_LEN];
	int rc;

	if (packed && *packed != '-') {
		return origin_put(origin, "dump", NULL, packed, e);
	}
	if (!fact_of(p->dump, text)) {
		return 0;
	}
	if (c->state != CT_SUSPENDED && c->mark != CT_BLOCKED) {
		return ctfile_note(c, e,
				   "the dump %s is not carried, as the "
				   "container is %s and not suspended",
				   p->dump, ct_state_name(c->state));
	}
	rc = origin_put(origin, "dump", NULL, text, e);
	return rc < 0 || !vzctl_cpt_version(text, sizeof(text))
		       ? rc
		       : origin_put(origin, "cpt", NULL, text, e);
}

int
vzluggage_facts(struct ct *c, const struct vzconf *v, const char *own,
		size_t own_len, struct buf *origin, struct err *e)
{
	struct where p;
	int rc = fill(&p, c->tree, v, c->id, e);

	rc = rc < 0 ? rc : dump_fact(c, v, &p, origin, e);
	return rc < 0 ? rc : quota_fact(c, v, own, own_len, origin, e);
}

/* ---- source ---- */

static int
mark_name(const struct ct *c, char name[64])
{
	return snprintf(name, 64, "%s.conf" MARK, c->id);
}

int
vzluggage_same(const struct ct *c, const struct vzconf *v, struct err *e)
{
	cleanup(free_ptr) char *want = fact(c->files, c->nfiles, "dump");
	struct where p;
	int rc = fill(&p, c->tree, v, c->id, e);

	return rc < 0 || !want || is(p.dump, want)
		       ? rc
		       : err_set(e, E_CHANGED,
				 "the dump %s of container %s is not the one "
				 "that was there before; run the command again",
				 p.dump, c->id);
}

static int
write_quota(const struct ct *c, const struct where *p, struct err *e)
{
	cleanup(buf_finip) struct buf b = BUF_MAX(QUOTA_MAX);
	int rc = vzquota_dump(c->id, &b, e);

	return rc <= 0 ? rc
		       : ctfile_write(p->dir, "quota", b.data, b.len,
				      &(struct ct_file){ .mode = 0600 }, e);
}

/* An empty directory, whatever there was: not where the dump is inside. */
static int
make_dir(const struct where *p, const char *dump, struct err *e)
{
	int rc;

	if (*dump != '-' && !is(p->dump, dump) && is(p->in, dump)) {
		return 0;
	}
	rc = ctpath_remove_tree(p->dir, e);
	return rc < 0 || mkdir(p->dir, 0700) == 0
		       ? rc
		       : err_sys(e, errno, "cannot make %s", p->dir);
}

int
vzluggage_pack(const struct ct *c, const struct vzconf *v, struct err *e)
{
	cleanup(free_ptr) char *dump = fact(c->files, c->nfiles, "dump");
	cleanup(free_ptr) char *quota = fact(c->files, c->nfiles, "quota");
	char name[64], text[FACT_LEN + 1];
	struct times root = keep_times(c->tree);
	struct where p;
	int rc = fill(&p, c->tree, v, c->id, e);

	if (rc < 0 || (!dump && !quota)) {
		return rc;
	}
	mark_name(c, name);
	snprintf(text, sizeof(text), "%s\n", dump ? dump : "-");
	rc = ctfile_replace(v->dir, name, text, e);
	rc = rc < 0 ? rc : make_dir(&p, dump ? dump : "-", e);
	rc = rc < 0 || !quota ? rc : write_quota(c, &p, e);
	rc = rc < 0 || !dump ? rc : move_dump(p.dump, p.in, dump, e);
	put_times(&root);
	return rc;
}

static int
forget(const struct ct *c, const struct vzconf *v, struct err *e)
{
	char name[64];

	mark_name(c, name);
	return ctpath_unlink(v->dir, name, e);
}

int
vzluggage_unpack(const struct ct *c, const struct vzconf *v, struct err *e)
{
	cleanup(free_ptr) char *dump = read_mark(c, v);
	struct times root = keep_times(c->tree);
	struct where p;
	int rc = fill(&p, c->tree, v, c->id, e);

	if (rc < 0 || !dump) {
		return rc;
	}
	/* It never was inside, or is out again, where DUMPDIR has it. */
	if (*dump != '-' && ctpath_type(p.in)) {
		drop_rest(p.dump);
		rc = move_dump(p.in, p.dump, dump, e);
	}
	rc = rc < 0 ? rc : ctpath_remove_tree(p.dir, e);
	put_times(&root);
	return rc < 0 ? rc : forget(c, v, e);
}

int
vzluggage_destroy(const struct ct *c, const struct vzconf *v, struct err *e)
{
	struct where p;
	int rc = fill(&p, c->tree, v, c->id, e);

	rc = rc < 0 ? rc : ctpath_remove_tree(p.dump, e);
	return rc < 0 ? rc : forget(c, v, e);
}

/* ---- destination ---- */

static void
check_dump(const char *dump, const struct ct_want *w, const struct vzconf *v,
	   struct ct_findings *f)
{
	cleanup(free_ptr) char *to = NULL;
	cleanup(free_ptr) char *above = NULL;
	struct err why = { 0 };
	struct statvfs s;
	uint64_t size = 0;

	cleanup(free_ptr) char *cpt = fact(w->files, w->nfiles, "cpt");

	if (cpt && !vzctl_cpt_takes(cpt)) {
		ct_finding_add(f, E_UNSUPPORTED, ct_nodeps(w, "runtime"),
			       "vzcptcheck says that the kernel there cannot "
			       "resume a dump of version %s, as the suspended "
			       "container's is (--nodeps=runtime goes on)",
			       cpt);
	}
	if (ctpath_place(v->dumpdir, &to, &above, &why) < 0) {
		ct_finding_add(f, E_CONFIG, false, "DUMPDIR: %s", why.text);
		return;
	}
	if (sscanf(dump, "f:%" SCNu64, &size) == 1 && statvfs(above, &s) == 0 &&
	    size / s.f_frsize >= s.f_bavail) {
		ct_finding_add(
			f, E_NOSPACE, ct_nodeps(w, "disk_space"),
			"the dump of the suspended container has %" PRIu64
			" bytes, more than are free in %s",
			size, v->dumpdir);
	}
	if (access("/proc/rst", F_OK) != 0 && !ctpath_program("criu")) {
		ct_finding_add(f, E_CONFIG, true,
			       "the container is suspended, but neither the "
			       "kernel module vzrst nor criu is here: it "
			       "cannot be resumed here as it is");
	}
}

void
vzluggage_check(const struct ct_want *w, const struct ct_place *p,
		const struct vzconf *v, struct ct_findings *f)
{
	cleanup(free_ptr) char *dump = fact(w->files, w->nfiles, "dump");
	cleanup(free_ptr) char *quota = fact(w->files, w->nfiles, "quota");
	struct where at;

	if (fill(&at, p->tree, v, p->id, NULL) == 0) {
		/* vzctl would resume this one when it is to start ours. */
		if (ctpath_type(at.dump)) {
			ct_finding_add(f, E_EXISTS, false,
				       "there is a dump %s of another "
				       "container already; remove it",
				       at.dump);
		}
		if (dump) {
			check_dump(dump, w, v, f);
		}
	}
	if (quota && !vzquota_here()) {
		ct_finding_add(f, E_QUOTA, ct_nodeps(w, "quota"),
			       "vzquota is not installed on the destination: "
			       "limits of the container's users and groups "
			       "would be lost (--nodeps=quota goes without)");
	}
}

static int
take_quota(const struct ct_want *w, const struct ct_place *p,
	   const struct vzconf *v, const struct where *at, struct err *e)
{
	const struct ct_file *conf = ctfile_find(w->files, w->nfiles, "config");
	cleanup(free_ptr) char *text = NULL;
	struct vzquota_limits l;
	int rc;

	/* Without limits there is none; and without the programs it was said
	 * that it is to go without. */
	if (!ctpath_type(at->quota) || !vzquota_here()) {
		return 0;
	}
	if (ctpath_type(at->quota) != S_IFREG) {
		return err_set(e, E_PROTOCOL, "%s is not a file", at->quota);
	}
	rc = conf ? vzquota_limits(v, p->id, (const char *)conf->data,
				   conf->len, &l, e)
		  : 0;
	if (rc <= 0) {
		return rc;
	}
	rc = io_read_file(AT_FDCWD, at->quota, QUOTA_MAX, &text, NULL, e);
	return rc < 0 ? rc : vzquota_load(p->id, p->tree, &l, text, e);
}

int
vzluggage_take(const struct ct_want *w, const struct ct_place *p,
	       const struct vzconf *v, struct err *e)
{
	cleanup(free_ptr) char *dump = fact(w->files, w->nfiles, "dump");
	cleanup(free_ptr) char *quota = fact(w->files, w->nfiles, "quota");
	struct where at;
	int rc = fill(&at, p->tree, v, p->id, e);

	/* Whoever sent it may have sent a link to anywhere. */
	if (rc == 0 && (dump || quota) && ctpath_type(at.dir) &&
	    ctpath_type(at.dir) != S_IFDIR) {
		return err_set(e, E_PROTOCOL, "%s is not a directory", at.dir);
	}
	/* What a container of this id before it had counted and limited. */
	rc = rc < 0 ? rc : vzquota_drop(p->id, e);
	if (rc == 0 && quota) {
		rc = take_quota(w, p, v, &at, e);
	}
	if (rc == 0 && dump && !ctpath_is_dir(v->dumpdir)) {
		rc = io_mkdirs(v->dumpdir, 0700, e);
	}
	return rc < 0 || !dump ? rc : move_dump(at.in, at.dump, dump, e);
}

int
vzluggage_done(const struct ct_want *w, const struct ct_place *p, struct err *e)
{
	cleanup(free_ptr) char *dump = fact(w->files, w->nfiles, "dump");
	cleanup(free_ptr) char *quota = fact(w->files, w->nfiles, "quota");
	cleanup(free_ptr) char *dir = NULL;
	struct times root = keep_times(p->tree);
	int rc;

	if (!dump && !quota) {
		return 0;
	}
	dir = io_asprintf(e, "%s/" VZLUGGAGE_DIR, p->tree);
	rc = dir ? ctpath_remove_tree(dir, e) : E_NOMEM;
	put_times(&root);
	return rc;
}

int
vzluggage_untouched(const struct ct_want *w, const struct ct_place *p,
		    const struct vzconf *v, struct err *e)
{
	cleanup(free_ptr) char *dump = fact(w->files, w->nfiles, "dump");
	struct where at;
	int rc = fill(&at, p->tree, v, p->id, e);

	/* Before the tree is in its place the dump is neither here nor there,
	 * and nobody could have resumed it. */
	if (rc < 0 || !dump || !ctpath_is_dir(p->tree) || is(at.in, dump) ||
	    is(at.dump, dump)) {
		return rc;
	}
	return err_set(e, E_STATE,
		       "%s is not the dump that came: the container was "
		       "resumed here",
		       at.dump);
}

int
vzluggage_back(const struct ct_want *w, const struct ct_place *p,
	       const struct vzconf *v, struct err *e)
{
	cleanup(free_ptr) char *dump = fact(w->files, w->nfiles, "dump");
	struct where at;
	int rc = fill(&at, p->tree, v, p->id, e);

	if (rc == 0 && dump) {
		drop_rest(at.dump);
		if (!ctpath_type(at.dir) && mkdir(at.dir, 0700) < 0) {
			return err_sys(e, errno, "cannot make %s", at.dir);
		}
		rc = move_dump(at.dump, at.in, dump, e);
	}
	return rc < 0 ? rc : vzquota_drop(p->id, e);
}
