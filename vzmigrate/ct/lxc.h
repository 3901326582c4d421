/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lxc: what both halves of the kind share; for ct/ alone.
 */
#ifndef CT_LXC_H
#define CT_LXC_H

#include <stdbool.h>

#include "ct/ct.h"
#include "ct/lxcconf.h"

#define LXC_CONFIG "config"
#define LXC_BLOCKED "config.vzmigrate-blocked"
#define LXC_MIGRATED "config.migrated"
#define LXC_SESSION "config.migrated.session"
#define LXC_COMMIT ".vzmigrate-commit"

/* The lxcpath: h->lxcpath, else lxc.lxcpath of /etc/lxc/lxc.conf, else
 * /var/lib/lxc. NULL with E_NOMEM or E_USAGE (not absolute); caller frees. */
char *lxc_path(const struct ct_host *h, struct err *e);

/* LXCPATH/NAME; NULL with an error, caller frees. */
char *lxc_dir(const struct ct_host *h, const char *name, struct err *e);

/* Whether LXC would take it as a container's name. */
bool lxc_name_ok(const char *name);

/* Whether `s` begins with `head`. */
bool lxc_begins(const char *s, const char *head);

/* Whether `path`, which a configuration names, comes with the distribution or
 * is a device: below /usr without /usr/local, /bin, /sbin, /lib, /lib32,
 * /lib64; below /dev, but no block device, which may hold a file system. */
bool lxc_is_systems(const char *path);

/* LXC's own lock of the container, which it takes whenever it reads or
 * writes the configuration (an open file description lock on
 * /run/lxc/lock/LXCPATH/.NAME). Waits up to 10 s; E_BUSY. */
int lxc_disk_lock(const struct ct_host *h, const char *name, int *fd,
		  struct err *e);

/* The state by lxc-info, with the configuration under whatever name it has
 * now. E_CONFIG where LXC's tools are missing. */
int lxc_ask_state(const struct ct_host *h, const char *name, enum ct_state *s,
		  struct err *e);

/* The configuration's path where it has another name than the one that LXC
 * looks for, for --rcfile; else NULL. `*file` is heap, the caller's. */
int lxc_rcfile(const struct ct_host *h, const char *name, char **file,
	       struct err *e);

/* The rows for one that is up (lxcrun.c). */
int lxcrun_life(const struct ct_host *h, const struct ct *c, struct ct_life *l,
		struct err *e);
int lxcrun_stop(const struct ct_host *h, const struct ct *c, int64_t ms,
		struct err *e);
int lxcrun_start(const struct ct_host *h, const struct ct *c, enum ct_state to,
		 struct err *e);

/* The word lxc-info prints, to a state. E_CONFIG. */
int lxc_parse_state(const char *out, const char *name, enum ct_state *s,
		    struct err *e);

/* The kind's rows for the destination (lxcdst.c). */
int lxcdst_wish(const struct ct_want *w, struct err *e);
int lxcdst_place(const struct ct_host *h, const struct ct_want *w,
		 struct ct_place *p, struct err *e);
int lxcdst_check(const struct ct_host *h, const struct ct_want *w,
		 const struct ct_place *p, struct ct_findings *f,
		 struct err *e);
int lxcdst_commit(const struct ct_host *h, const struct ct_want *w,
		  const struct ct_place *p, const char *staged, struct err *e);
int lxcdst_uncommit(const struct ct_host *h, const struct ct_want *w,
		    const struct ct_place *p, const char *staged,
		    struct err *e);
int lxcdst_registered(const struct ct_host *h, const struct ct_place *p,
		      struct err *e);

/* Read a container (lxcload.c); as ct_kind's load and probe. */
int lxcload_probe(const struct ct_host *h, const char *word, struct err *e);
int lxcload_load(const struct ct_host *h, const char *word, struct ct *c,
		 struct err *e);

#endif
