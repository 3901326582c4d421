/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctprobe: the operations of ct/ for shell tests.
 *
 * usage: ctprobe [-P LXCPATH] [-V VZ_CONF] OPERATION KIND CT [ARG ...]
 *   detect - CT            prints the kind
 *   load KIND CT           prints what was loaded, a line each
 *   state|block|unblock|destroy KIND CT
 *   retire|unretire KIND CT TAG
 *   lock KIND CT CMD ...   runs CMD under the lock
 * and with the destination's -P and -V behind the CT:
 *   check KIND CT DST NEW_ID            prints the findings
 *   commit|uncommit|registered KIND CT DST NEW_ID STAGED
 * where DST is the destination's lxcpath or vz.conf. Exits with 0, or with
 * the negated error code after its text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/err.h"
#include "ct/ct.h"

static struct ct_host src, dst;
static struct err e;

static int
show(const struct ct *c)
{
	printf("id %s\nname %s\ntree %s\nstate %s\nmark %s\ntag %s\n"
	       "autostart %d\n",
	       c->id, c->name ? c->name : "-", c->tree, ct_state_name(c->state),
	       ct_mark_name(c->mark), c->tag ? c->tag : "-", c->autostart);
	for (size_t i = 0; i < c->nfiles; i++) {
		printf("file %s %o %zu\n", c->files[i].role, c->files[i].mode,
		       c->files[i].len);
	}
	for (size_t i = 0; i < c->nnotes; i++) {
		printf("note %s\n", c->notes[i]);
	}
	return 0;
}

static int
under_lock(const struct ct *c, char **argv)
{
	struct child_result r = { 0 };
	int fd, rc = c->kind->lock(&src, c, &fd, &e);

	if (rc < 0) {
		return rc;
	}
	rc = child_run(&(struct child_cmd){ .argv = (const char *const *)argv },
		       &r, &e);
	if (rc == 0) {
		fputs(buf_cstr(&r.out, NULL), stdout);
		fputs(buf_cstr(&r.err_out, NULL), stderr);
		rc = r.status;
	}
	child_result_fini(&r);
	c->kind->unlock(&src, c, fd);
	return rc;
}

static int
on_source(const char *op, const struct ct *c, char **argv)
{
	const struct ct_kind *k = c->kind;
	enum ct_state s;
	int rc;

	if (strcmp(op, "load") == 0) {
		return show(c);
	} else if (strcmp(op, "state") == 0) {
		rc = k->state(&src, c, &s, &e);
		if (rc == 0) {
			puts(ct_state_name(s));
		}
		return rc;
	} else if (strcmp(op, "block") == 0) {
		return k->block(&src, c, &e);
	} else if (strcmp(op, "unblock") == 0) {
		return k->unblock(&src, c, &e);
	} else if (strcmp(op, "destroy") == 0) {
		return k->destroy(&src, c, &e);
	} else if (strcmp(op, "retire") == 0 && argv[0]) {
		return k->retire(&src, c, argv[0], &e);
	} else if (strcmp(op, "unretire") == 0 && argv[0]) {
		return k->unretire(&src, c, argv[0], &e);
	} else if (strcmp(op, "lock") == 0 && argv[0]) {
		return under_lock(c, argv);
	}
	return 1;
}

static int
check(const struct ct_kind *k, const struct ct_want *w,
      const struct ct_place *p)
{
	struct ct_findings f = { .n = 0 };
	int rc = k->check(&dst, w, p, &f, &e);

	for (size_t i = 0; i < f.n; i++) {
		printf("%s %s: %s\n", f.v[i].warning ? "warning" : "error",
		       err_name(f.v[i].code), f.v[i].text);
	}
	ct_findings_fini(&f);
	return rc;
}

static int
on_destination(const char *op, const struct ct *c, char **argv)
{
	const struct ct_kind *k = c->kind;
	struct ct_want w = { .id = c->id,
			     .name = c->name,
			     .files = c->files,
			     .nfiles = c->nfiles };
	struct ct_place p = { 0 };
	int rc;

	dst = src;
	if (strcmp(k->name, "lxc") == 0) {
		dst.lxcpath = argv[0];
	} else {
		dst.vz_conf = argv[0];
	}
	w.new_id = argv[1];
	rc = k->place(&dst, &w, &p, &e);
	if (rc < 0) {
		return rc;
	}
	if (strcmp(op, "check") == 0) {
		rc = check(k, &w, &p);
	} else if (strcmp(op, "registered") == 0) {
		rc = k->registered(&dst, &p, &e);
		printf("%d\n", rc);
		rc = rc < 0 ? rc : 0;
	} else if (strcmp(op, "commit") == 0) {
		rc = k->commit(&dst, &w, &p, argv[2], &e);
	} else {
		rc = k->uncommit(&dst, &w, &p, argv[2], &e);
	}
	ct_place_fini(&p);
	return rc;
}

static int
run(const char *op, const char *kind, const char *word, char **argv)
{
	const struct ct_kind *k = ct_kind_find(kind);
	struct ct c;
	int rc;

	if (strcmp(op, "detect") == 0) {
		rc = ct_detect(&src, word, &k, &e);
		if (rc == 0) {
			puts(k->name);
		}
		return rc;
	}
	rc = k ? k->load(&src, word, &c, &e) : 1;
	if (rc != 0) {
		return rc;
	}
	rc = (strcmp(op, "check") == 0 || strcmp(op, "registered") == 0 ||
	      strcmp(op, "commit") == 0 || strcmp(op, "uncommit") == 0) &&
			     argv[0] && argv[1]
		     ? on_destination(op, &c, argv)
		     : on_source(op, &c, argv);
	ct_free(&c);
	return rc;
}

int
main(int argc, char **argv)
{
	int o, rc;

	while ((o = getopt(argc, argv, "+P:V:")) != -1) {
		if (o == 'P') {
			src.lxcpath = optarg;
		} else if (o == 'V') {
			src.vz_conf = optarg;
		} else {
			return 2;
		}
	}
	if (argc - optind < 3) {
		fprintf(stderr, "usage: ctprobe [-P LXCPATH] [-V VZ_CONF] "
				"OPERATION KIND CT [ARG ...]\n");
		return 2;
	}
	rc = run(argv[optind], argv[optind + 1], argv[optind + 2],
		 argv + optind + 3);
	if (rc < 0) {
		fprintf(stderr, "%s\n", e.text);
	}
	return rc < 0 ? -rc : rc;
}
