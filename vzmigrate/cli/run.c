/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * run: ties the parts together: log and progress, signals, the connection,
 * src_migrate for each container, and what is told at the end.
 */
#include "config.h"

#include "cli/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "cli/dial.h"
#include "cli/dialmore.h"
#include "cli/probing.h"
#include "cli/signals.h"
#include "migrate/src.h"
#include "migrate/statedir.h"
#include "report/logfile.h"
#include "report/progress.h"
#include "report/summary.h"
#include "wire/frame.h"
#include "xfer/compress.h"
#include "xfer/limit.h"
#include "xfer/link.h"

#define GREETING_MS 10000
#define KEEPALIVE_MS LINK_KEEPALIVE_MS
#define TRIES 6	      /* in doubt: about 30 s of pauses */
#define PAUSE_MS 1000 /* the first */

/* Everything of one run; lives on run_all's stack. */
struct run {
	const struct options *o;
	struct plan plan;
	struct progress *progress;
	int sink;
	struct dial *dial;
	struct probing *probing; /* NULL: nothing is to be measured */
	struct srcconn *conn;
	struct compress *compress;
	struct limit *limit;
	unsigned long warned; /* warnings that a summary has told */
};

/* A number for tests in place of a constant; not in a privileged program. */
static int64_t
from_env(const char *name, int64_t otherwise)
{
	const char *text = secure_getenv(name);
	char *end;
	long long v;

	if (!text) {
		return otherwise;
	}
	v = strtoll(text, &end, 10);
	return *end || v < 1 ? otherwise : v;
}

/* ---- signals ---- */

static void
on_signal(int signo, int count, void *arg)
{
	struct run *r = arg;
	const char *name = signo == SIGINT    ? "interrupt"
			   : signo == SIGTERM ? "SIGTERM"
					      : "SIGHUP";
	enum steps_step step = src_current_step();
	const char *undo = src_current_undo();

	if (undo) {
		log_warn("%s: already stopping (%s)", name, undo);
	} else if (count > 1) {
		log_warn("%s: already stopping (%s)", name, steps_name(step));
	} else if (step >= STEP_RETIRE) {
		log_warn("%s: too late to go back without asking the other "
			 "host; finishing (%s)",
			 name, steps_name(step));
	} else {
		log_warn("%s: stopping, the source will be as it was", name);
	}
	if (r->probing) {
		probing_interrupt(r->probing);
	}
	if (r->conn) {
		srcconn_interrupt(r->conn);
	}
}

/* ---- connecting ---- */

/* The first connection is preceded by the probe: not earlier, so that a
 * container that is not there is found without it. Where something is owed
 * there is no time for it. */
static int
open_agent(void *arg, bool must, struct bytechan **c, struct err *e)
{
	struct run *r = arg;
	int rc = r->probing && !must ? probing_run(r->probing, e) : 0;

	return rc < 0 ? rc : dial_open(r->dial, must, c, e);
}

static int
open_more(void *arg, const int *stop, struct bytechan **c, struct err *e)
{
	struct run *r = arg;
	const struct msg_hello_reply *h = srcconn_hello(r->conn);

	return dialmore_open(r->dial,
			     !h		 ? HW_UNKNOWN
			     : h->hw_aes ? HW_YES
					 : HW_NO,
			     stop, c, e);
}

static void
more_used(void *arg, struct bytechan *c)
{
	(void)arg;
	dialmore_used(c);
}

static void
explain_agent(void *arg, struct err *e)
{
	struct run *r = arg;

	dial_explain(r->dial, e);
}

static void
greeted_agent(void *arg)
{
	struct run *r = arg;

	dial_greeted(r->dial);
}

/* ---- setting up ---- */

static enum log_level
wanted_level(const struct options *o)
{
	return o->verbose >= 3	 ? LOGL_TRACE
	       : o->verbose == 2 ? LOGL_DEBUG
	       : o->verbose == 1 ? LOGL_INFO
				 : LOGL_WARN;
}

static int
start_report(struct run *r, struct err *e)
{
	const struct options *o = r->o;
	enum progress_mode mode = o->quiet  ? PROGRESS_QUIET
				  : o->json ? PROGRESS_JSON
					    : PROGRESS_AUTO;

	r->progress =
		progress_new(mode, o->json ? STDOUT_FILENO : STDERR_FILENO,
			     STDERR_FILENO,
			     o->ncts == 1 ? o->cts[0].word : "vzmigrate", e);
	if (!r->progress) {
		return E_NOMEM;
	}
	/* Until there is something to see: src_pass resumes it. */
	progress_pause(r->progress);
	r->sink = log_add_sink(wanted_level(o), progress_log_sink, r->progress);
	return 0;
}

static int
start(struct run *r, struct err *e)
{
	int64_t silence = r->o->timeout_ms; /* 0: not given */
	struct srcconn_opts c = {
		.dial = open_agent,
		.explain = explain_agent,
		.greeted = greeted_agent,
		.more = open_more,
		.more_used = more_used,
		.streams = r->o->streams,
		.greeting_ms = from_env("VZMIGRATE_GREETING_MS",
					silence ? silence : GREETING_MS),
		.keepalive_ms = (uint32_t)from_env(
			"VZMIGRATE_KEEPALIVE_MS",
			silence ? silence / LINK_DEAD_FACTOR : KEEPALIVE_MS),
		.reply_ms = from_env("VZMIGRATE_REPLY_MS", 0),
	};
	int rc = start_report(r, e);

	rc = rc < 0 ? rc : signals_init(on_signal, r, e);
	rc = rc < 0 ? rc : progress_start(r->progress, e);
	rc = rc < 0 ? rc
		    : dial_new(r->o, r->progress, &signals_stop, &r->dial, e);
	if (rc < 0) {
		return rc;
	}
	if (r->o->probe_ms) {
		r->probing = probing_new(r->o, r->dial, &signals_stop, e);
		if (!r->probing) {
			return E_NOMEM;
		}
	}
	r->compress = compress_new(r->plan.compress, e);
	r->limit = r->compress ? limit_new(r->plan.limit_speed, e) : NULL;
	if (!r->limit) {
		return E_NOMEM;
	}
	c.caps = compress_wanted(r->compress) ? FRAME_CAP_ZSTD : 0;
	c.limit = r->limit;
	c.arg = r;
	c.host = dial_host(r->dial);
	r->conn = srcconn_new(&c, e);
	return r->conn ? 0 : E_NOMEM;
}

static void
stop(struct run *r)
{
	signals_fini();
	srcconn_free(r->conn);
	probing_free(r->probing);
	dial_free(r->dial);
	compress_free(r->compress);
	limit_free(r->limit);
	log_remove_sink(r->sink);
	progress_free(r->progress);
}

/* ---- what is told ---- */

static size_t
fill_stages(const struct src_result *res,
	    struct summary_stage st[STEP_LAST + 2])
{
	size_t n = 0;

	for (int i = STEP_LOCK; i <= STEP_LAST; i++) {
		if (res->step_ms[i] > 0 || i <= (int)res->step) {
			st[n] = (struct summary_stage){
				.name = steps_name((enum steps_step)i),
				.ms = res->step_ms[i],
			};
			if (i == STEP_PASSES) {
				st[n].files = res->sent.proof.entries;
				st[n].bytes = res->sent_bytes;
			}
			n++;
		}
	}
	if (res->downtime_ms >= 0) {
		st[n++] = (struct summary_stage){ .name = "downtime",
						  .ms = res->downtime_ms };
	}
	return n;
}

static enum summary_result
result_of(const struct options *o, const struct src_result *res, int rc)
{
	return rc < 0	      ? SUMMARY_FAILED
	       : o->take_back ? SUMMARY_TAKEN_BACK
	       : o->abort     ? SUMMARY_GIVEN_UP
	       : res->checked ? SUMMARY_CHECKED
	       : res->copied  ? SUMMARY_COPIED
			      : SUMMARY_MOVED;
}

/* What was found instead of what was copied. */
static void
fill_check(struct summary *s, struct summary_check *c,
	   const struct src_found *f)
{
	*c = (struct summary_check){
		.state = f->state ? ct_state_name(f->state) : NULL,
		.state_there = f->state ? ct_state_name(f->state_there) : NULL,
		.up = f->state && ct_state_is_up(f->state),
		.disk_bytes = f->disk_bytes,
		.free_bytes = f->free_bytes,
		.free_inodes = f->free_inodes,
		.fs = f->fs,
		.removes = f->removes,
	};
	s->files = f->entries;
	s->bytes = f->bytes;
	s->check = c;
}

static void
tell(struct run *r, const struct plan_ct *ct, const struct src_result *res,
     int rc, const struct err *e)
{
	struct summary_stage st[STEP_LAST + 2];
	struct summary s = SUMMARY_INIT;
	struct summary_check check;
	struct dial_info info;
	struct err out = { 0 };

	dial_get_info(r->dial, &info);
	s.result = result_of(r->o, res, rc);
	s.ct = res->id ? res->id : ct->word;
	s.destination = dial_dest(r->dial);
	s.session = *res->session ? res->session : NULL;
	s.kind = res->kind;
	s.new_ct = res->new_id;
	s.place = res->dst_tree;
	s.files = res->sent.proof.entries;
	s.bytes = res->sent_bytes;
	s.ms = res->ms;
	s.copy_ms = res->step_ms[STEP_PASSES] + res->step_ms[STEP_FINAL];
	s.downtime_ms = res->downtime_ms;
	s.passes = res->passes ? (int)res->passes : -1;
	if (res->passes > 1) {
		s.resent = res->resent;
		s.final_bytes = res->final_bytes;
	}
	s.streams = res->streams ? (int)res->streams : -1;
	s.wire_bytes = res->wire_bytes;
	s.compress = res->packed ? "zstd" : "none";
	s.cipher = info.cipher_c2s;
	s.mac = info.mac_c2s && strncmp(info.mac_c2s, "aead", 4) != 0
			? info.mac_c2s
			: NULL;
	s.cipher_in = info.cipher_s2c;
	s.mac_in = info.mac_s2c && strncmp(info.mac_s2c, "aead", 4) != 0
			   ? info.mac_s2c
			   : NULL;
	s.cipher_by = info.cipher_by;
	if (r->probing) {
		probing_fill(r->probing, &s);
	}
	s.source_kept = res->kept;
	s.remains = res->remains;
	s.nremains = res->nremains;
	s.verified = res->verified ? 1 : -1;
	/* Of both hosts, and of the first container those before it. */
	s.warnings = (unsigned)(log_count(LOGL_WARN) - r->warned);
	r->warned = log_count(LOGL_WARN);
	if (s.result == SUMMARY_CHECKED) {
		fill_check(&s, &check, &res->found);
	}
	if (rc < 0) {
		s.step = steps_name(res->step);
		s.owner = steps_owner_name(res->owner);
		s.error = e->text;
	}
	if (r->o->times) {
		s.stages = st;
		s.nstages = fill_stages(res, st);
	}
	if (summary_print(&s,
			  r->o->json	? SUMMARY_JSON
			  : r->o->quiet ? SUMMARY_LINE
					: SUMMARY_HUMAN,
			  STDOUT_FILENO, &out) < 0) {
		log_warn("%s", out.text);
	}
}

/* ---- the containers ---- */

static enum exitcode
run_one(struct run *r, const struct src_env *env, const struct plan_ct *ct,
	struct err *e)
{
	struct src_result res;
	enum exitcode code;
	const char *back = r->o->take_back;
	int rc;

	progress_label(r->progress, ct->word);
	rc = back	   ? src_take_back(env, ct, back, &res, e)
	     : r->o->abort ? src_give_up(env, ct, &res, e)
			   : src_migrate(env, ct, &res, e);

	/* A failure's one line is the caller's, on stderr; the summary of one
	 * that changed something, or for a program, comes before. */
	if (rc == 0 && (back || r->o->abort) && !r->o->json) {
		printf("vzmigrate: %s CT %s: session=%s\n",
		       back ? "taken back" : "given up",
		       res.id ? res.id : ct->word, res.session);
		fflush(stdout);
	} else if (rc == 0 || r->o->json) {
		tell(r, ct, &res, rc, e);
	}
	if (rc < 0) {
		code = res.not_undone ? EXITCODE_NOT_UNDONE
				      : exitcode_of(rc, res.step, res.remote);
	} else if (res.clean_up_failed) {
		code = EXITCODE_CLEAN_UP;
		err_set(e, E_SYSTEM,
			"%s was moved, but not everything was cleaned up here "
			"(the warnings above say what)",
			res.id ? res.id : ct->word);
	} else {
		code = EXITCODE_OK;
	}
	src_result_fini(&res);
	return code;
}

static void
tell_untried(const struct options *o, size_t from)
{
	char list[1024] = "";
	size_t n = 0;

	for (size_t i = from; i < o->ncts && n < sizeof(list) - 64; i++) {
		n += (size_t)snprintf(list + n, sizeof(list) - n, " %.40s",
				      o->cts[i].word);
	}
	if (n) {
		log_warn("not tried:%s", list);
	}
}

enum exitcode
run_all(const struct options *o, struct err *e)
{
	struct run r = { .o = o, .plan = o->plan, .sink = -1 };
	struct src_env env = {
		.plan = &r.plan,
		.log_dir = secure_getenv("VZMIGRATE_LOG_DIR"),
		.stop = &signals_stop,
		.tries = (unsigned)from_env("VZMIGRATE_TRIES", TRIES),
		.pause_ms = (unsigned)from_env("VZMIGRATE_PAUSE_MS", PAUSE_MS),
	};
	enum exitcode code = EXITCODE_OK;
	int rc = start(&r, e);

	if (rc < 0) {
		stop(&r);
		return exitcode_of(rc, STEP_NONE, false);
	}
	if (o->ncts == 0) {
		rc = probing_run(r.probing, e);
		stop(&r);
		return exitcode_of(rc, STEP_CONNECT, false);
	}
	r.plan.host.state_dir = statedir_path();
	env.conn = r.conn;
	env.dest = dial_dest(r.dial);
	env.progress = r.progress;
	env.compress = r.compress;
	env.limit = r.limit;
	if (!env.log_dir) {
		env.log_dir = LOGFILE_DIR;
	}
	/* A typing error in the second name is told before the first goes. */
	for (size_t i = 0; i < o->ncts && o->ncts > 1 && rc == 0; i++) {
		rc = src_known(&r.plan, o->cts[i].word, e);
	}
	if (rc < 0) {
		stop(&r);
		return exitcode_of(rc, STEP_LOCK, false);
	}
	for (size_t i = 0; i < o->ncts && code == EXITCODE_OK; i++) {
		code = run_one(&r, &env, &o->cts[i], e);
		if (code != EXITCODE_OK) {
			tell_untried(o, i + 1);
		}
	}
	stop(&r);
	return code;
}
