/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srccheck: everything that can be known before anything is made, from both
 * sides, told at once. Input: the container, the place that the destination
 * chose; output: lines in the log, and the error that ends the run.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "fs/beneath.h"
#include "migrate/srcpriv.h"

#define CLOCK_MAX_S 5
#define AGAIN "; run the command again when that has ended"

/* Whether `path` is `dir` or below it. */
static bool
inside(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (n > 1 && dir[n - 1] == '/') {
		n--;
	}
	return strncmp(path, dir, n) == 0 &&
	       (path[n] == '/' || path[n] == '\0' || n == 1);
}

/* The two trees, where both are on this host. */
static void
check_same_host(const struct src *m, struct ct_findings *f)
{
	cleanup(free_ptr) char *real = realpath(m->ct.tree, NULL);
	const char *here = real ? real : m->ct.tree;
	const char *there = m->place.tree;

	if (!m->place.same_host || !there) {
		return;
	}
	if (strcmp(here, there) == 0 || strcmp(m->ct.tree, there) == 0) {
		ct_finding_add(f, E_USAGE, false,
			       "%s is this host, and %s would be moved onto "
			       "itself: give another host or another place",
			       m->env->dest, here);
	} else if (inside(there, here)) {
		ct_finding_add(f, E_USAGE, false,
			       "%s is this host, and the new place %s is "
			       "inside of %s: give another place",
			       m->env->dest, there, here);
	} else if (inside(here, there)) {
		ct_finding_add(f, E_USAGE, false,
			       "%s is this host, and the new place %s holds "
			       "%s: give another place",
			       m->env->dest, there, here);
	}
}

static void
check_here(const struct src *m, struct ct_findings *f)
{
	if (strcmp(m->ct.tree, "/") == 0) {
		ct_finding_add(f, E_USAGE, false,
			       "the container's tree is /, this host's own "
			       "root: name the container's directory");
	}
	check_same_host(m, f);
}

/* The smallest size that was tried there and refused, where `accepted` is the
 * largest that was taken (the sizes are those of struct fsprobe). */
static uint32_t
xattr_refused(uint32_t accepted)
{
	static const uint32_t tried[] = { 1 << 10, 3 << 10, 8 << 10, 32 << 10,
					  64 << 10 };

	for (size_t i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
		if (tried[i] > accepted) {
			return tried[i];
		}
	}
	return UINT32_MAX;
}

static void
check_xattrs(const struct src *m, const struct send_survey *s,
	     const struct fsprobe *fs, struct ct_findings *f)
{
	if (fs->xattr_max && s->xattr_max >= xattr_refused(fs->xattr_max)) {
		ct_finding_add(f, E_UNSUPPORTED,
			       m->env->plan->metadata == META_WARN,
			       "%s: %s there holds extended attributes of %u "
			       "bytes, the tree has one of %u: use another "
			       "file system, or --metadata=warn to leave out "
			       "what does not fit",
			       m->env->dest, fs->type, fs->xattr_max,
			       s->xattr_max);
	}
}

/* By its state now; the one that counts is looked at before the stop. */
static uint8_t
wanted(const struct src *m)
{
	return ct_state_is_up(m->ct.state) && !m->env->plan->nostart
		       ? (uint8_t)m->ct.state
		       : 0;
}

static bool
is_older(const char *a, const char *b)
{
	unsigned x[2] = { 0 }, y[2] = { 0 };

	if (sscanf(a, "%u.%u", &x[0], &x[1]) < 1 ||
	    sscanf(b, "%u.%u", &y[0], &y[1]) < 1) {
		return false;
	}
	return x[0] != y[0] ? x[0] < y[0] : x[1] < y[1];
}

/* What both hosts are: processor, kernel, clock. */
static void
check_hosts(const struct src *m, struct ct_findings *f)
{
	const struct msg_hello_reply *there = srcconn_hello(m->env->conn);
	const struct ct_want w = { .nodeps = m->env->plan->nodeps };
	int64_t ahead = srcconn_ahead(m->env->conn);
	struct utsname here;

	if (m->kind->by_path || uname(&here) < 0) {
		return; /* a directory runs nowhere */
	}
	if (strcmp(here.machine, there->machine) != 0) {
		ct_finding_add(f, E_UNSUPPORTED,
			       ct_nodeps(&w, "arch") || ct_nodeps(&w, "cpu") ||
				       ct_nodeps(&w, "cpu_check"),
			       "%s is %s and this host %s: programs of the "
			       "container would not run there (--nodeps=arch "
			       "goes without this check)",
			       m->env->dest, there->machine, here.machine);
	}
	if (is_older(there->kernel, here.release)) {
		ct_finding_add(f, E_CONFIG, true,
			       "the kernel of %s (%s) is older than this "
			       "host's (%s)",
			       m->env->dest, there->kernel, here.release);
	}
	if (ahead > CLOCK_MAX_S || ahead < -CLOCK_MAX_S) {
		ct_finding_add(f, E_CONFIG, true,
			       "the clock of %s is %lld s %s this host's: set "
			       "it, programs do not like jumps of time",
			       m->env->dest,
			       (long long)(ahead < 0 ? -ahead : ahead),
			       ahead < 0 ? "behind" : "ahead of");
	}
}

/* The destination's findings: room, features, what is in the way. */
static int
check_there(struct src *m, const struct send_survey *s, struct ct_findings *f,
	    struct err *e)
{
	struct msg_check q = { .bytes = s->bytes,
			       .inodes = s->inodes,
			       .caps = s->caps,
			       .largest_file = s->largest,
			       .nodeps = (char *)m->env->plan->nodeps,
			       .start = wanted(m) };
	struct msg_check_reply r = { 0 };
	int rc = 0;

	for (size_t i = 0; i < m->ct.nfiles && rc == 0; i++) {
		rc = srcconn_put_file(m->env->conn, &m->ct.files[i], e);
	}
	rc = rc < 0 ? rc : srcconn_check(m->env->conn, &q, &r, e);
	if (rc < 0) {
		return rc;
	}
	log_debug("%s: %s on %s, %llu bytes and %llu inodes free", m->env->dest,
		  m->place.tree ? m->place.tree : "?", r.fs.type,
		  (unsigned long long)r.fs.bytes_free,
		  (unsigned long long)r.fs.inodes_free);
	src_found(m, s, &r.fs);
	check_xattrs(m, s, &r.fs, f);
	m->drop_flags = fsprobe_hints_lost(r.fs.caps);
	for (size_t i = 0; i < r.findings.n; i++) {
		const struct ct_finding *v = &r.findings.v[i];

		ct_finding_add(f, v->code, v->warning, "%s: %s%s", m->env->dest,
			       v->text ? v->text : err_name(v->code),
			       v->code == E_BUSY ? AGAIN : "");
	}
	msg_check_reply_fini(&r);
	return 0;
}

/* With what the file system there can hold, so that no file here is opened to
 * find out what makes no difference. */
static int
survey(struct src *m, struct send_survey *s, struct err *e)
{
	struct send_opts o = { .stop = m->env->stop };
	struct msg_check_reply there = { 0 };
	cleanup(close_fd) int rootfd =
		beneath_open_tame(m->ct.tree, &o.tame, e);
	int rc;

	if (rootfd < 0) {
		return rootfd;
	}
	rc = srcconn_fsprobe(m->env->conn, &there, e);
	if (rc < 0) {
		return rc;
	}
	rc = send_survey(rootfd, &o, &there.fs, s, e);
	msg_check_reply_fini(&there);
	if (rc < 0) {
		return rc;
	}
	log_info("%s: %llu entries, %llu bytes on disk, %llu bytes to send",
		 m->ct.id, (unsigned long long)s->entries,
		 (unsigned long long)s->bytes, (unsigned long long)s->data);
	m->total_files = s->entries;
	m->total_bytes = s->data;
	return 0;
}

/* What does not end the run: said as warnings where it goes on, else only in
 * the log, beside the error that is in the way. */
static void
tell_notes(struct src *m, const struct ct_findings *f, bool goes_on)
{
	enum log_level level = goes_on ? LOGL_WARN : LOGL_INFO;

	for (size_t i = 0; i < m->ct.nnotes; i++) {
		log_msg(level, "%s: %s", m->ct.id, m->ct.notes[i]);
	}
	for (size_t i = 0; i < f->n; i++) {
		if (f->v[i].warning) {
			log_msg(level, "%s", f->v[i].text);
		}
	}
}

/* Tell all; the first error becomes the run's. With a single one its text is
 * the program's last line, and not printed twice. */
static int
report(struct src *m, const struct ct_findings *f, struct err *e)
{
	const struct ct_finding *first = NULL;
	unsigned errors = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (!f->v[i].warning && errors++ == 0) {
			first = &f->v[i];
		}
	}
	tell_notes(m, f, errors == 0);
	if (errors == 0) {
		return 0;
	}
	if (errors == 1) {
		return err_set(e, first->code, "%s", first->text);
	}
	for (size_t i = 0; i < f->n; i++) {
		if (!f->v[i].warning) {
			log_error("%s", f->v[i].text);
		}
	}
	return err_set(e, first->code,
		       "%s: %u checks failed, nothing was changed", m->ct.id,
		       errors);
}

int
src_check(struct src *m, struct err *e)
{
	struct send_survey s = { 0 };
	struct ct_findings f = { 0 };
	bool wrong_place;
	int rc = src_enter(m, STEP_CHECK, e);

	if (rc < 0) {
		return rc;
	}
	log_info("%s will be %s in %s on %s", m->ct.id,
		 m->place.id ? m->place.id : "?",
		 m->place.tree ? m->place.tree : "?", m->env->dest);
	check_here(m, &f);
	wrong_place = f.n != 0;
	check_hosts(m, &f);
	/* What it is asked for decides nothing when the place is wrong. */
	rc = wrong_place ? 0 : survey(m, &s, e);
	if (rc == 0 && !wrong_place) {
		rc = check_there(m, &s, &f, e);
	}
	if (rc == 0) {
		rc = report(m, &f, e);
		m->r->remote = rc < 0 && rc != E_USAGE;
	}
	ct_findings_fini(&f);
	return rc;
}
