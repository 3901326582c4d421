/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_rec: the table of events and their effect. Input: records of the
 * journal. State: struct dst_rec, owned by whoever declares it.
 */
#include "migrate/dst_rec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define S(x) (1u << MSG_DST_##x)
#define S_ANY 0xffu
#define S_OPENABLE (S(NONE) | S(RESERVED) | S(PROVEN) | S(ABORTED))
#define S_ABORTABLE (S_OPENABLE | S(NEVER))
#define STAY (-1)

/* From which states an event may come, and where it leads. */
static const struct {
	const char *name;
	unsigned from;
	int to; /* STAY or an enum msg_dst_state */
} table[EV_COUNT] = {
	[EV_OPEN] = { "open", S_ANY, STAY },
	[EV_FILE] = { "file", S_OPENABLE, STAY },
	[EV_RESERVE] = { "reserve", S_OPENABLE, MSG_DST_NONE },
	[EV_RESERVED] = { "reserved", S(NONE), MSG_DST_RESERVED },
	[EV_UNRESERVED] = { "unreserved", S(NONE), MSG_DST_NONE },
	[EV_PASS] = { "pass", S(RESERVED) | S(PROVEN), MSG_DST_RESERVED },
	[EV_PROVEN] = { "proven", S(RESERVED), MSG_DST_PROVEN },
	[EV_COMMIT] = { "commit", S(PROVEN), STAY },
	[EV_COMMIT_FAILED] = { "commit-failed", S(PROVEN), STAY },
	[EV_COMMITTED] = { "committed", S(PROVEN), MSG_DST_COMMITTED },
	[EV_START] = { "start", S(COMMITTED), STAY },
	[EV_STARTED] = { "started", S(COMMITTED), STAY },
	[EV_START_FAILED] = { "start-failed", S(COMMITTED), STAY },
	[EV_RUNNING] = { "running", S(COMMITTED), MSG_DST_RUNNING },
	[EV_UNDO] = { "undo", S(PROVEN) | S(COMMITTED), STAY },
	[EV_NEVER] = { "never", S_ABORTABLE | S(COMMITTED), MSG_DST_NEVER },
	[EV_ABORT] = { "abort", S_ABORTABLE, STAY },
	[EV_KEPT] = { "kept", S_ABORTABLE, STAY },
	[EV_ABORTED] = { "aborted", S_ABORTABLE, MSG_DST_ABORTED },
	[EV_FINISH] = { "finish", S(COMMITTED) | S(RUNNING), STAY },
	[EV_FINISHED] = { "finished", S(COMMITTED) | S(RUNNING),
			  MSG_DST_FINISHED },
	[EV_LINK_LOST] = { "link-lost", S_ANY, STAY },
};

static const char *const param_keys[DP_COUNT] = {
	[DP_KIND] = "kind",
	[DP_LXCPATH] = "lxcpath",
	[DP_VZ_CONF] = "vz-conf",
	[DP_ID] = "id",
	[DP_NAME] = "name",
	[DP_NEW_ID] = "new-id",
	[DP_NEW_NAME] = "new-name",
	[DP_NEW_PRIVATE] = "new-private",
	[DP_NEW_ROOT] = "new-root",
	[DP_PLACE_ID] = "place-id",
	[DP_PLACE_NAME] = "place-name",
	[DP_PLACE_TREE] = "place-tree",
	[DP_PLACE_STAGE_DIR] = "place-stage-dir",
	[DP_PLACE_MOUNT] = "place-mount",
};

const char *
dst_event_name(enum dst_event ev)
{
	return table[ev].name;
}

const char *
dst_param_key(enum dst_param i)
{
	return param_keys[i];
}

void
dst_params_fini(struct dst_params *p)
{
	for (size_t i = 0; i < DP_COUNT; i++) {
		free(p->v[i]);
		p->v[i] = NULL;
	}
}

int
dst_params_copy(struct dst_params *to, const struct dst_params *from,
		struct err *e)
{
	struct dst_params p = { 0 };

	for (size_t i = 0; i < DP_COUNT; i++) {
		if (from->v[i] && !(p.v[i] = strdup(from->v[i]))) {
			dst_params_fini(&p);
			return err_nomem(e);
		}
	}
	dst_params_fini(to);
	*to = p;
	return 0;
}

bool
dst_params_same(const struct dst_params *a, const struct dst_params *b,
		size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!a->v[i] != !b->v[i] ||
		    (a->v[i] && strcmp(a->v[i], b->v[i]) != 0)) {
			return false;
		}
	}
	return true;
}

static void
drop_files(struct dst_files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].role);
	}
	free(f->v);
	*f = (struct dst_files){ 0 };
}

void
dst_rec_fini(struct dst_rec *r)
{
	drop_files(&r->files);
	drop_files(&r->next);
	dst_params_fini(&r->p);
	*r = (struct dst_rec){ 0 };
}

enum msg_dst_state
dst_rec_state(const struct dst_rec *r)
{
	/* An abort that was not finished is no way out of "never". */
	return (r->reserving || r->aborting) && !r->never ? MSG_DST_RESERVED
							  : r->state;
}

/* What the state alone does not say. */
static const char *
obstacle(const struct dst_rec *r, enum dst_event ev)
{
	switch (ev) {
	case EV_RESERVE:
	case EV_PASS:
	case EV_PROVEN:
		if (r->never) {
			return "it was promised that it never runs here";
		}
		if (r->committing || r->undoing) {
			return "a commit was begun";
		}
		break;
	case EV_RESERVED:
	case EV_UNRESERVED:
		if (!r->reserving) {
			return "nothing is being reserved";
		}
		break;
	case EV_COMMIT:
		if (r->never || r->undoing) {
			return "it was promised that it never runs here";
		}
		if (!r->synced) {
			return "the tree was not synced";
		}
		break;
	case EV_COMMITTED:
		if (!r->committing || r->undoing) {
			return "no commit was begun";
		}
		break;
	case EV_START:
		if (r->undoing) {
			return "it was promised that it never runs here";
		}
		break;
	case EV_STARTED:
	case EV_START_FAILED:
	case EV_RUNNING:
		if (r->undoing || !(r->starting || r->ran)) {
			return "no start was begun";
		}
		break;
	case EV_ABORT:
	case EV_KEPT:
		if (r->committing || r->undoing) {
			return "a commit was begun and not undone";
		}
		break;
	default:
		break;
	}
	return NULL;
}

int
dst_rec_allows(const struct dst_rec *r, enum dst_event ev, struct err *e)
{
	const char *why;

	if (!(table[ev].from & (1u << r->state))) {
		return err_set(e, E_STATE, "\"%s\" is not possible: %s",
			       table[ev].name, msg_dst_state_name(r->state));
	}
	why = obstacle(r, ev);
	if (why) {
		return err_set(e, E_STATE, "\"%s\" is not possible: %s",
			       table[ev].name, why);
	}
	return 0;
}

static void
set_state(struct dst_rec *r, int to)
{
	if (to == STAY || (int)r->state == to) {
		return;
	}
	log_debug("session: %s -> %s", msg_dst_state_name(r->state),
		  msg_dst_state_name((enum msg_dst_state)to));
	r->state = (enum msg_dst_state)to;
}

static int
apply_file(struct dst_rec *r, const struct journal_record *jr, struct err *e)
{
	uint32_t gen = (uint32_t)journal_get_u64(jr, "gen", 0);
	const char *role = journal_get(jr, "role");
	struct dst_file f = {
		.mode = (uint16_t)journal_get_u64(jr, "mode", 0600),
		.uid = (uint32_t)journal_get_u64(jr, "uid", 0),
		.gid = (uint32_t)journal_get_u64(jr, "gid", 0),
		.size = journal_get_u64(jr, "size", 0),
	};
	struct dst_files *to = &r->next;
	struct dst_file *v;

	if (gen == 0 || !role) {
		return err_set(e, E_CORRUPT, "a file without gen or role");
	}
	if (gen != to->gen) {
		drop_files(to);
		to->gen = gen;
	}
	if (to->n >= CT_FILES_MAX ||
	    journal_get_u64(jr, "n", UINT64_MAX) != to->n) {
		return err_set(e, E_CORRUPT, "file %s out of order", role);
	}
	v = realloc(to->v, (to->n + 1) * sizeof(*v));
	if (!v) {
		return err_nomem(e);
	}
	to->v = v;
	f.role = strdup(role);
	if (!f.role) {
		return err_nomem(e);
	}
	to->v[to->n++] = f;
	return 0;
}

/* The list that a reservation names becomes the one that counts. */
static int
choose_files(struct dst_rec *r, const struct journal_record *jr, struct err *e)
{
	uint32_t gen = (uint32_t)journal_get_u64(jr, "gen", 0);

	if (gen != r->files.gen) {
		if (gen != r->next.gen) {
			return err_set(e, E_CORRUPT,
				       "a reservation lacks its files");
		}
		drop_files(&r->files);
		r->files = r->next;
		r->next = (struct dst_files){ 0 };
	}
	if (r->files.n != journal_get_u64(jr, "nfiles", 0)) {
		return err_set(e, E_CORRUPT, "a reservation lacks files");
	}
	return 0;
}

static int
apply_reserve(struct dst_rec *r, const struct journal_record *jr, struct err *e)
{
	struct dst_params p = { 0 };

	for (size_t i = 0; i < DP_COUNT; i++) {
		/* Borrowed until copied just below. */
		p.v[i] = (char *)(uintptr_t)journal_get(jr, param_keys[i]);
	}
	if (!p.v[DP_KIND] || !p.v[DP_ID] || !p.v[DP_PLACE_ID] ||
	    !p.v[DP_PLACE_TREE] || !p.v[DP_PLACE_STAGE_DIR]) {
		return err_set(e, E_CORRUPT, "a reservation without a place");
	}
	if (choose_files(r, jr, e) < 0) {
		return E_CORRUPT;
	}
	r->reserving = true;
	r->aborting = false;
	r->placed = true;
	return dst_params_copy(&r->p, &p, e);
}

static void
apply_flags(struct dst_rec *r, enum dst_event ev,
	    const struct journal_record *jr)
{
	const char *s;

	switch (ev) {
	case EV_OPEN:
		r->epoch = (uint32_t)journal_get_u64(jr, "epoch", 0);
		break;
	case EV_UNRESERVED:
		r->placed = false;
		r->reserving = false;
		break;
	case EV_RESERVED:
		r->reserving = false;
		break;
	case EV_PROVEN:
		r->synced = journal_get_u64(jr, "synced", 0) == 1;
		r->root_flags = (uint32_t)journal_get_u64(jr, "root-flags", 0);
		break;
	case EV_COMMIT:
		r->committing = true;
		r->tree_ino = journal_get_u64(jr, "ino", 0);
		s = journal_get(jr, "btime");
		snprintf(r->tree_btime, sizeof(r->tree_btime), "%s",
			 s ? s : "");
		break;
	case EV_START:
		r->starting = true;
		break;
	case EV_STARTED:
	case EV_RUNNING:
		r->ran = true;
		r->starting = false;
		break;
	case EV_START_FAILED:
		r->ran |= journal_get_u64(jr, "ran", 1) == 1;
		r->starting = false;
		break;
	case EV_UNDO:
		r->undoing = true;
		break;
	case EV_NEVER:
		r->never = true;
		/* fallthrough */
	case EV_COMMITTED:
		r->committing = r->undoing = false;
		break;
	case EV_ABORT:
		r->aborting = true;
		/* fallthrough */
	case EV_KEPT:
		/* The source goes on without us, so the proof is void. */
		if (r->state == MSG_DST_PROVEN) {
			set_state(r, MSG_DST_RESERVED);
		}
		r->aborting = ev == EV_ABORT;
		break;
	case EV_ABORTED:
		r->aborting = r->reserving = r->placed = false;
		break;
	default:
		break;
	}
	if (ev == EV_PASS || ev == EV_RESERVE || ev == EV_ABORT) {
		r->synced = false;
	}
}

int
dst_rec_apply(const struct journal_record *jr, void *arg, struct err *e)
{
	struct dst_rec *r = arg;
	enum dst_event ev = 0;
	int rc = 0;

	while (ev < EV_COUNT && strcmp(table[ev].name, jr->event) != 0) {
		ev++;
	}
	if (ev == EV_COUNT) {
		return err_set(e, E_CORRUPT, "record %llu: unknown event %s",
			       (unsigned long long)jr->seq, jr->event);
	}
	if (dst_rec_allows(r, ev, e) < 0) {
		return err_recode(e, E_CORRUPT, "record %llu",
				  (unsigned long long)jr->seq);
	}
	if (ev == EV_FILE) {
		rc = apply_file(r, jr, e);
	} else if (ev == EV_RESERVE) {
		rc = apply_reserve(r, jr, e);
	}
	if (rc < 0) {
		return err_wrap(e, "record %llu", (unsigned long long)jr->seq);
	}
	apply_flags(r, ev, jr);
	set_state(r, table[ev].to);
	r->last_s = jr->time_s;
	return 0;
}
