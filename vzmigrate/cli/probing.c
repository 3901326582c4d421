/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probing: the parts of a probe in their order: the server's lists on a
 * connection of their own, one connection where questions may be asked, the
 * candidates' connections, rounds, decision, what is told. State: struct
 * probing; `lock` is for probing_interrupt.
 */
#include "config.h"

#include "cli/probing.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "cipher/offertab.h"
#include "cipher/probe.h"
#include "cipher/probecand.h"
#include "cipher/probelink.h"
#include "cipher/probetell.h"
#include "ssh/kexprobe.h"

#define KEX_MS 5000
#define FIRST_MS 10000	   /* each wait of the connection that may ask */
#define FIRST_PAUSE_MS 100 /* before it is tried again; doubling */
#define FIRST_PAUSE_MAX_MS 800

struct probing {
	const struct options *o;
	struct dial *d;
	const int *stop;
	bool ran;
	bool decided; /* probe.decision and what follows are valid */
	struct probe probe;
	struct kexprobe kex;		/* empty where it failed */
	struct conn *first;		/* owned, until dial has it */
	char *sink, *no_agent, *config; /* owned; or NULL */

	pthread_mutex_t lock;
	struct probelink *link; /* while it measures */
	bool interrupted;
};

struct probing *
probing_new(const struct options *o, struct dial *d, const int *stop,
	    struct err *e)
{
	struct probing *g = calloc(1, sizeof(*g));

	if (!g) {
		err_nomem(e);
		return NULL;
	}
	g->o = o;
	g->d = d;
	g->stop = stop;
	pthread_mutex_init(&g->lock, NULL);
	return g;
}

void
probing_free(struct probing *g)
{
	if (!g) {
		return;
	}
	probe_fini(&g->probe);
	kexprobe_fini(&g->kex);
	conn_close(g->first);
	free(g->sink);
	free(g->no_agent);
	free(g->config);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

void
probing_interrupt(struct probing *g)
{
	pthread_mutex_lock(&g->lock);
	g->interrupted = true;
	if (g->link) {
		probelink_interrupt(g->link);
	}
	pthread_mutex_unlock(&g->lock);
}

static void
set_link(struct probing *g, struct probelink *link)
{
	pthread_mutex_lock(&g->lock);
	g->link = link;
	if (link && g->interrupted) {
		probelink_interrupt(link);
	}
	pthread_mutex_unlock(&g->lock);
}

/* What is more than a failure to measure. */
static bool
ends_run(int code)
{
	return code == E_CANCELLED || code == E_HOSTKEY || code == E_AUTH ||
	       code == E_CONFIG || code == E_USAGE || code == E_NOMEM;
}

/* ---- measuring ---- */

/* The server's lists. That it refuses this is no reason to refuse to go on. */
static int
learn(struct probing *g, const struct conn_params *p, struct err *e)
{
	struct err why = { 0 };
	int rc = kexprobe_run(p->conf, KEX_MS, g->stop, &g->kex, &why);

	if (rc == E_CANCELLED || rc == E_NOMEM) {
		*e = why;
		return rc;
	}
	if (rc < 0) {
		log_warn("cannot read what the server offers: %s; going by "
			 "what the SSH library saw of it",
			 why.text);
	}
	return 0;
}

/* Fall back to what libssh's log showed, which may be cut. */
static const char *
list_of(const struct probing *g, enum kexlog_list which, const char *seen)
{
	return g->kex.lists[which] ? g->kex.lists[which] : *seen ? seen : NULL;
}

static int
candidates(struct probing *g, struct err *e)
{
	const struct conn_info *i = conn_get_info(g->first);
	int rc = probecand_fill(
		dial_offer(g->d),
		list_of(g, KEXLOG_CIPHER_C2S, i->srv_ciphers_c2s),
		list_of(g, KEXLOG_MAC_C2S, i->srv_macs_c2s), &g->probe, e);

	if (rc == 0 && g->probe.n == 0) {
		rc = err_set(e, E_CONNECT,
			     "there is no cipher to measure that both sides "
			     "have");
	}
	return rc;
}

/* Why a probe without a decision has none, from the first that was given up. */
static int
explain_none(const struct probing *g, struct err *e)
{
	const struct probe *p = &g->probe;

	for (size_t i = 0; i < p->n; i++) {
		if (p->cands[i].state == PROBE_GIVEN_UP) {
			return err_set(e, E_CONNECT,
				       "no cipher could be measured; %s: %s",
				       p->cands[i].name, p->cands[i].why);
		}
	}
	return err_set(e, E_CONNECT,
		       "not one round could be measured in %lld ms: give more "
		       "time with --probe-ciphers=SECONDS",
		       (long long)g->o->probe_ms);
}

static char *
copy(const char *s)
{
	return s ? strdup(s) : NULL;
}

static int
measure(struct probing *g, const struct conn_params *p, struct err *e)
{
	struct probe_opts o = { .budget_ms = g->o->probe_ms,
				.setup_ms = PROBE_SETUP_MS,
				.each_ms = PROBE_EACH_MS };
	struct probelink_params lp = { .probe = &g->probe,
				       .conn = p,
				       .first = g->first,
				       .agent = dial_command(g->d),
				       .host = dial_host(g->d) };
	struct probelink *link = probelink_new(&lp, e);
	int rc;

	if (!link) {
		return e->code;
	}
	set_link(g, link);
	rc = probe_run(&g->probe, &o, &probelink_ops, link, e);
	set_link(g, NULL);
	g->sink = copy(probelink_sink(link));
	g->no_agent = copy(probelink_no_agent(link));
	probelink_free(link);
	return rc == E_NOT_FOUND ? explain_none(g, e) : rc;
}

/* Here the host key is checked and a password may be asked for; the others go
 * by it. The server may still count the connection before (MaxStartups): where
 * it answered a moment ago, a refusal is met with patience. */
static int
open_first(struct probing *g, const struct conn_params *p, struct err *e)
{
	int pause = FIRST_PAUSE_MS, rc;

	while ((rc = conn_open(p, &g->first, e)) == E_CONNECT &&
	       *g->kex.banner && pause <= FIRST_PAUSE_MAX_MS &&
	       !strstr(e->text, "no algorithm in common") &&
	       !__atomic_load_n(g->stop, __ATOMIC_RELAXED)) {
		log_debug("%s; trying again", e->text);
		poll(NULL, 0, pause);
		pause *= 2;
		err_clear(e);
	}
	if (rc < 0) {
		dial_explain_mismatch(g->d, e);
	}
	return rc;
}

static int
probe_it(struct probing *g, struct err *e)
{
	struct conn_params p;
	int rc;

	dial_params(g->d, &p);
	rc = learn(g, &p, e);
	if (rc < 0) {
		return rc;
	}
	p.timeout_ms = FIRST_MS;
	rc = open_first(g, &p, e);
	p.mismatch = NULL; /* several at once from here on */
	rc = rc < 0 ? rc : candidates(g, e);
	rc = rc < 0 ? rc : measure(g, &p, e);
	if (rc == 0) {
		g->config = probecand_config(
			&g->probe.cands[g->probe.decision.pick], e);
		rc = g->config ? 0 : E_NOMEM;
		g->decided = rc == 0;
	}
	return rc;
}

/* ---- telling ---- */

/* Alone, stdout is for it; beside a migration it goes where the progress is,
 * and the summary has the result. */
static int
tell(struct probing *g, const struct offertab *table, const struct err *why,
     struct err *e)
{
	bool alone = g->o->ncts == 0;
	const struct conn_info *i = g->first ? conn_get_info(g->first) : NULL;
	struct probetell t = { .probe = &g->probe,
			       .error = g->decided ? NULL : why->text,
			       .destination = dial_dest(g->d),
			       .sink = g->sink,
			       .no_agent = g->no_agent,
			       .table = table,
			       .budget_ms = g->o->probe_ms };
	cleanup(free_ptr) char *text = NULL;

	t.version = *g->kex.banner ? g->kex.banner : i ? i->banner : NULL;
	t.kex = list_of(g, KEXLOG_KEX, i ? i->srv_kex : "");
	t.hostkeys = list_of(g, KEXLOG_HOSTKEY, i ? i->srv_hostkeys : "");
	t.strict_kex = g->kex.strict_kex || (i && i->strict_kex);
	if (g->o->quiet && !alone) {
		return 0;
	}
	text = g->o->json ? probetell_json(&t, e)
			  : probetell_text(&t, probetell_utf8(), e);
	return !text ? E_NOMEM
		     : io_write_full(alone || g->o->json ? STDOUT_FILENO
							 : STDERR_FILENO,
				     text, strlen(text), "the measurements", e);
}

static int
tell_with_table(struct probing *g, const struct err *why, struct err *e)
{
	const struct conn_info *i = g->first ? conn_get_info(g->first) : NULL;
	struct offertab table;
	int rc;

	if (!g->o->verbose && !g->o->json) {
		return tell(g, NULL, why, e);
	}
	rc = offertab_fill(
		&table, dial_ask(g->d), dial_offer(g->d),
		list_of(g, KEXLOG_CIPHER_C2S, i ? i->srv_ciphers_c2s : ""),
		list_of(g, KEXLOG_MAC_C2S, i ? i->srv_macs_c2s : ""), e);
	if (rc == 0) {
		rc = tell(g, &table, why, e);
		offertab_fini(&table);
	}
	return rc;
}

/* For a program: the name, and nothing where there is none. */
static int
print_pick(const struct probing *g, struct err *e)
{
	const struct probe *p = &g->probe;
	char line[128];
	int n = snprintf(line, sizeof(line), "%s\n",
			 p->cands[p->decision.pick].cipher);

	return io_write_full(STDOUT_FILENO, line, (size_t)n, "standard output",
			     e);
}

int
probing_run(struct probing *g, struct err *e)
{
	struct err why = { 0 }, out = { 0 };
	int rc;

	if (g->ran) {
		return 0;
	}
	g->ran = true;
	rc = probe_it(g, &why);
	if (g->o->print) {
		rc = rc < 0 ? rc : print_pick(g, &why);
	} else if (rc == 0 || !ends_run(rc) || g->o->verbose) {
		if (tell_with_table(g, &why, &out) < 0) {
			log_warn("%s", out.text);
		}
	}
	if (rc == 0 && g->o->ncts) {
		rc = dial_use(g->d, &g->probe.cands[g->probe.decision.pick],
			      &why);
	}
	dial_keep(g->d, g->first);
	g->first = NULL;
	if (rc == 0) {
		return 0;
	}
	if (ends_run(rc) || !g->o->ncts) {
		*e = why;
		return rc;
	}
	log_warn("the ciphers could not be measured (%s); going on with what "
		 "negotiation chooses",
		 why.text);
	return 0;
}

void
probing_fill(const struct probing *g, struct summary *s)
{
	const struct decision *d = &g->probe.decision;

	if (!g->decided) {
		return;
	}
	s->cipher_gain = d->gain;
	s->cipher_default = g->probe.cands[0].name;
	s->ssh_config = g->config;
}
