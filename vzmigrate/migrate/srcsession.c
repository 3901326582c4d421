/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * srcsession: keeps the source's journal. Input: states and facts of the
 * machine in src.c; output: records on disk, and after a crash the same
 * facts. A struct srcsession belongs to one thread.
 */
#include "config.h"

#include "migrate/srcsession.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "migrate/srcsession_int.h"
#include "migrate/statedir.h"

#define JOURNAL "journal"
#define DIR_NAME_MAX 200 /* bytes of KIND-ID before it is shortened */

struct srcsession {
	int dirfd;		/* STATE/source/KIND-ID */
	int parentfd;		/* STATE/source */
	char *dirname;		/* KIND-ID; owned */
	char *path;		/* the journal's, for messages; owned */
	char *dir;		/* and its directory's; owned */
	struct journal *j;	/* open and locked */
	enum steps_state state; /* of the last record */
	uint8_t id[MSG_ID_LEN];
	char hex[SRCSESSION_HEX];  /* the same in hex */
	struct srcsession_facts f; /* strings owned */
	struct ct_life was;	   /* before it was stopped or blocked */
	bool was_known;
};

/* The facts by their key in the record: one table for writing, reading,
 * copying and freeing. */
#define FACT(key)                                            \
	{                                                    \
#key, offsetof(struct srcsession_facts, key) \
	}
static const struct fact {
	const char *key;
	size_t off;
} facts[] = {
	FACT(word),	   FACT(kind),	      FACT(id),		 FACT(name),
	FACT(tree),	   FACT(mount_root),  FACT(dest),	 FACT(dst_host),
	FACT(new_id),	   FACT(new_name),    FACT(new_private), FACT(new_root),
	FACT(dst_lxcpath), FACT(dst_vz_conf), FACT(dst_id),	 FACT(dst_tree),
};
#define FACTS (sizeof(facts) / sizeof(facts[0]))

static const char **
fact_at(struct srcsession_facts *f, size_t i)
{
	return (const char **)((char *)f + facts[i].off);
}

static const char *
fact_get(const struct srcsession_facts *f, size_t i)
{
	return *(const char *const *)((const char *)f + facts[i].off);
}

static void
facts_fini(struct srcsession_facts *f)
{
	for (size_t i = 0; i < FACTS; i++) {
		free((char *)*fact_at(f, i));
		*fact_at(f, i) = NULL;
	}
}

static int
facts_set(struct srcsession_facts *f, size_t i, const char *value,
	  struct err *e)
{
	char *copy = value ? strdup(value) : NULL;

	if (value && !copy) {
		return err_nomem(e);
	}
	free((char *)*fact_at(f, i));
	*fact_at(f, i) = copy;
	return 0;
}

/* ---- reading ---- */

static void
to_hex(const uint8_t id[MSG_ID_LEN], char hex[SRCSESSION_HEX])
{
	for (int i = 0; i < MSG_ID_LEN; i++) {
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	}
}

static int
from_hex(const char *hex, uint8_t id[MSG_ID_LEN])
{
	if (strlen(hex) != 2 * MSG_ID_LEN ||
	    strspn(hex, "0123456789abcdef") != 2 * MSG_ID_LEN) {
		return -1;
	}
	for (int i = 0; i < MSG_ID_LEN; i++) {
		unsigned v;

		sscanf(hex + 2 * i, "%2x", &v);
		id[i] = (uint8_t)v;
	}
	return 0;
}

static void
forget_was(struct srcsession *s)
{
	s->was = (struct ct_life){ .state = CT_STOPPED };
	s->was_known = false;
}

static void
replay_was(const struct journal_record *r, struct srcsession *s)
{
	const char *was = journal_get(r, "was");

	if (!was || s->was_known) {
		return;
	}
	s->was_known = true;
	s->was.state = ct_state_of(was);
	s->was.init = (long)journal_get_u64(r, "init", 0);
	s->was.since = journal_get_u64(r, "since", 0);
}

static int
replay_open(const struct journal_record *r, struct srcsession *s, struct err *e)
{
	const char *hex = journal_get(r, "session");

	if (!hex || from_hex(hex, s->id) < 0) {
		return err_set(e, E_CORRUPT, "record %llu has no session",
			       (unsigned long long)r->seq);
	}
	to_hex(s->id, s->hex);
	forget_was(s);
	for (size_t i = 0; i < FACTS; i++) {
		int rc = facts_set(&s->f, i, journal_get(r, facts[i].key), e);

		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

static int
replay(const struct journal_record *r, void *arg, struct err *e)
{
	struct srcsession *s = arg;
	int state = steps_state_of(r->event);

	if (state < 0 || !steps_allowed(s->state, (enum steps_state)state)) {
		return err_set(e, E_CORRUPT,
			       "record %llu: '%s' cannot follow '%s'",
			       (unsigned long long)r->seq, r->event,
			       steps_state_name(s->state));
	}
	s->state = (enum steps_state)state;
	replay_was(r, s);
	return s->state == STEPS_OPEN ? replay_open(r, s, e) : 0;
}

/* ---- the directory ---- */

/* KIND-ID as one plain name; what is too long ends in a hash. */
static char *
dir_name(const char *kind, const char *id, struct err *e)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	char *out = malloc(strlen(kind) + 3 * strlen(id) + 32);
	size_t n;

	if (!out) {
		err_nomem(e);
		return NULL;
	}
	n = (size_t)sprintf(out, "%s-", kind);
	for (const char *p = id; *p; p++) {
		if (strchr(safe, *p)) {
			out[n++] = *p;
		} else {
			n += (size_t)sprintf(out + n, "%%%02X",
					     (unsigned char)*p);
		}
	}
	out[n] = '\0';
	if (n > DIR_NAME_MAX) {
		sprintf(out + DIR_NAME_MAX, "-%016llx",
			(unsigned long long)XXH3_64bits(id, strlen(id)));
	}
	return out;
}

void
srcsession_drop(struct srcsession *s)
{
	if (!s) {
		return;
	}
	journal_close(s->j);
	if (s->dirfd >= 0) {
		close(s->dirfd);
	}
	if (s->parentfd >= 0) {
		close(s->parentfd);
	}
	facts_fini(&s->f);
	free(s->dirname);
	free(s->path);
	free(s->dir);
	free(s);
}

static struct srcsession *
session_new(struct err *e)
{
	struct srcsession *s = calloc(1, sizeof(*s));

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	s->dirfd = s->parentfd = -1;
	return s;
}

static int
open_dir(struct srcsession *s, bool make, struct err *e)
{
	s->path = io_asprintf(e, "%s/source/%s/" JOURNAL, statedir_path(),
			      s->dirname);
	s->dir = io_asprintf(e, "%s/source/%s", statedir_path(), s->dirname);
	if (!s->path || !s->dir) {
		return E_NOMEM;
	}
	if (s->parentfd < 0) {
		s->parentfd = statedir_open("source", e);
		if (s->parentfd < 0) {
			return s->parentfd;
		}
	}
	if (make) {
		s->dirfd = statedir_open_in(s->parentfd, s->dirname, s->dir, e);
		return s->dirfd < 0 ? s->dirfd : 0;
	}
	s->dirfd = openat(s->parentfd, s->dirname,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->dirfd < 0 ? err_sys(e, errno, "cannot open %s", s->dir) : 0;
}

/* ---- the interface ---- */

static int
open_journal(struct srcsession *s, struct err *e)
{
	int rc;

	s->state = STEPS_NEW;
	forget_was(s);
	facts_fini(&s->f);
	rc = digest_random(s->id, sizeof(s->id), e);
	if (rc < 0) {
		return rc;
	}
	to_hex(s->id, s->hex);
	rc = journal_open(s->dirfd, JOURNAL, s->path, JOURNAL_CREATE, replay, s,
			  &s->j, e);
	if (rc == E_BUSY) {
		return err_wrap(e, "another migration of it is at work");
	}
	return rc;
}

int
srcsession_open(const char *kind, const char *id, struct srcsession **out,
		struct err *e)
{
	cleanup(srcsession_dropp) struct srcsession *s = session_new(e);
	int rc;

	if (!s) {
		return E_NOMEM;
	}
	s->dirname = dir_name(kind, id, e);
	if (!s->dirname) {
		return E_NOMEM;
	}
	rc = open_dir(s, true, e);
	if (rc == 0) {
		rc = open_journal(s, e);
	}
	if (rc == 0 && (s->state == STEPS_DONE || s->state == STEPS_GIVEN_UP)) {
		rc = srcsession_put_away(s, e);
	}
	if (rc == 0) {
		*out = steal_ptr(&s);
	}
	return rc;
}

int
srcsession_dirfd(const struct srcsession *s)
{
	return s->dirfd;
}

const char *
srcsession_dir(const struct srcsession *s)
{
	return s->dir;
}

enum steps_state
srcsession_state(const struct srcsession *s)
{
	return s->state;
}

const char *
srcsession_hex(const struct srcsession *s)
{
	return s->hex;
}

const uint8_t *
srcsession_id(const struct srcsession *s)
{
	return s->id;
}

const struct srcsession_facts *
srcsession_facts(const struct srcsession *s)
{
	return &s->f;
}

int
srcsession_begin(struct srcsession *s, const struct srcsession_facts *f,
		 struct err *e)
{
	struct journal_field fields[FACTS + 1];
	size_t n = 0;
	int rc = 0;

	if (!steps_allowed(s->state, STEPS_OPEN)) {
		return err_set(e, E_STATE, "a session cannot begin in '%s'",
			       steps_state_name(s->state));
	}
	fields[n++] = (struct journal_field){ "session", s->hex };
	for (size_t i = 0; i < FACTS && rc == 0; i++) {
		rc = facts_set(&s->f, i, fact_get(f, i), e);
		if (rc == 0 && fact_get(&s->f, i)) {
			fields[n++] =
				(struct journal_field){ facts[i].key,
							fact_get(&s->f, i) };
		}
	}
	if (rc == 0) {
		rc = journal_append_fields(s->j, steps_state_name(STEPS_OPEN),
					   fields, n, e);
	}
	if (rc < 0) {
		return err_wrap(e, "session journal");
	}
	log_debug("session %s: %s -> %s", s->hex, steps_state_name(s->state),
		  steps_state_name(STEPS_OPEN));
	s->state = STEPS_OPEN;
	forget_was(s);
	return 0;
}

static int
set_state(struct srcsession *s, enum steps_state to,
	  const struct journal_field *fields, size_t n, struct err *e)
{
	int rc;

	if (!steps_allowed(s->state, to)) {
		return err_set(e, E_STATE, "session %s: '%s' after '%s'",
			       s->hex, steps_state_name(to),
			       steps_state_name(s->state));
	}
	rc = journal_append_fields(s->j, steps_state_name(to), fields, n, e);
	if (rc < 0) {
		return err_wrap(e, "session journal");
	}
	log_debug("session %s: %s -> %s", s->hex, steps_state_name(s->state),
		  steps_state_name(to));
	s->state = to;
	return 0;
}

int
srcsession_set(struct srcsession *s, enum steps_state to, const char *why,
	       struct err *e)
{
	const struct journal_field f = { "why", why };

	return set_state(s, to, &f, why ? 1 : 0, e);
}

int
srcsession_set_was(struct srcsession *s, enum steps_state to,
		   const struct ct_life *was, struct err *e)
{
	char init[24], since[24];
	const struct journal_field f[] = {
		{ "was", ct_state_name(was->state) },
		{ "init", init },
		{ "since", since },
	};
	int rc;

	snprintf(init, sizeof(init), "%ld", was->init);
	snprintf(since, sizeof(since), "%llu", (unsigned long long)was->since);
	rc = set_state(s, to, f, 3, e);
	if (rc == 0 && !s->was_known) {
		s->was = *was;
		s->was_known = true;
	}
	return rc;
}

const struct ct_life *
srcsession_was(const struct srcsession *s)
{
	return &s->was;
}

int
srcsession_put_away(struct srcsession *s, struct err *e)
{
	char to[sizeof(JOURNAL) + SRCSESSION_HEX];
	int rc;

	rc = fault_point("src.put-away.before", e);
	if (rc < 0) {
		return rc;
	}
	snprintf(to, sizeof(to), JOURNAL ".%s", s->hex);
	if (renameat(s->dirfd, JOURNAL, s->dirfd, to) < 0) {
		return err_sys(e, errno, "cannot rename %s to %s", s->path, to);
	}
	rc = fault_point("src.put-away.renamed", e);
	rc = rc < 0 ? rc : atomicfile_sync_dir(s->dirfd, s->path, e);
	if (rc < 0) {
		return rc;
	}
	/* The runtime's lock, which the caller holds, bridges the moment
	 * without ours. */
	journal_close(s->j);
	s->j = NULL;
	return open_journal(s, e);
}

static bool
same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool
srcsession_same_place(const struct srcsession_facts *a,
		      const struct srcsession_facts *b)
{
	return same(a->new_id, b->new_id) && same(a->new_name, b->new_name) &&
	       same(a->new_private, b->new_private) &&
	       same(a->new_root, b->new_root) &&
	       same(a->dst_lxcpath, b->dst_lxcpath) &&
	       same(a->dst_vz_conf, b->dst_vz_conf);
}

void
srcsession_close(struct srcsession *s)
{
	struct err e = { 0 };

	if (!s) {
		return;
	}
	if (s->j && (s->state == STEPS_DONE || s->state == STEPS_GIVEN_UP) &&
	    srcsession_put_away(s, &e) < 0) {
		log_warn("%s", e.text);
	}
	unlinkat(s->dirfd, "status", 0); /* srcstatus */
	if (s->j && journal_seq(s->j) == 0) {
		unlinkat(s->dirfd, JOURNAL, 0);
		unlinkat(s->dirfd, JOURNAL ".lock", 0);
		/* Stays where there is history in it. */
		unlinkat(s->parentfd, s->dirname, AT_REMOVEDIR);
	}
	srcsession_drop(s);
}

/* ---- only looking ---- */

int
srcsession_peek(int parentfd, const char *name, struct srcsession **out,
		struct err *e)
{
	cleanup(srcsession_dropp) struct srcsession *s = session_new(e);
	int rc;

	*out = NULL;
	if (!s) {
		return E_NOMEM;
	}
	s->dirname = strdup(name);
	s->parentfd = fcntl(parentfd, F_DUPFD_CLOEXEC, 3);
	if (!s->dirname || s->parentfd < 0) {
		return err_sys(e, errno, "cannot open %s", name);
	}
	rc = open_dir(s, false, e);
	if (rc < 0) {
		return rc;
	}
	rc = journal_read(s->dirfd, JOURNAL, s->path, replay, s, e);
	if (rc == E_NOT_FOUND) {
		return 0;
	}
	if (rc < 0) {
		return rc;
	}
	*out = steal_ptr(&s);
	return 0;
}
