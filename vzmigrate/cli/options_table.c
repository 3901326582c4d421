/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options_table: what each option is called, and what becomes of it.
 */
#include "config.h"

#include <stdio.h>

#include "cli/options_int.h"

#define FLAG(member) OPTIONS_FLAG, offsetof(struct options, member), NULL
#define WORD(member) OPTIONS_WORD, offsetof(struct options, member), NULL
#define NEW(member) OPTIONS_NEW, offsetof(struct plan_ct, member), NULL
#define CALL(name) OPTIONS_CALL, 0, options_set_##name
#define ACTION(action) OPTIONS_ACTION, action, NULL
#define NOTE OPTIONS_NOTE, 0, NULL
#define REFUSE OPTIONS_REFUSE, 0, NULL

#define NOT_LIVE                                                           \
	"running processes are not carried over by this version; without " \
	"the option it is stopped late and started there"

const struct options_row options_table[] = {
	{ "remove-area", 'r', "yes|no", CALL(remove),
	  "destroy the source copy after success (default: yes; dir: no)" },
	{ "keep-dst", 0, NULL, FLAG(plan.keep_dst),
	  "after a failure leave what was copied there, to be looked at" },
	{ "new-id", 0, "ID", NEW(new_id), "id of the container there" },
	{ "new-uuid", 0, "UUID", NEW(new_id), NULL },
	{ "new-name", 0, "NAME", NEW(new_name), "its name there" },
	{ "new-private", 0, "PATH", NEW(new_private),
	  "directory of its files there" },
	{ "dst", 0, "PATH", NEW(new_private), NULL },
	{ "new-root", 0, "PATH", NEW(new_root), "its mount point there" },
	{ "kind", 0, "KIND", CALL(kind),
	  "openvz, lxc or dir (default: what the container is)" },
	{ "lxcpath", 0, "PATH", WORD(plan.host.lxcpath),
	  "lxc containers of this host" },
	{ "dst-lxcpath", 0, "PATH", WORD(plan.dst_lxcpath),
	  "and of the other one" },
	{ "vz-conf", 0, "FILE", WORD(plan.host.vz_conf),
	  "OpenVZ's configuration on this host" },
	{ "dst-vz-conf", 0, "FILE", WORD(plan.dst_vz_conf),
	  "and on the other one" },
	{ "check-only", 0, NULL, FLAG(plan.check_only),
	  "check both hosts, change nothing" },
	{ "dry-run", 0, NULL, FLAG(plan.check_only), NULL },
	{ "compact", 'c', NULL, FLAG(plan.compact),
	  "compact its ploop image before" },
	{ "snapshot", 's', NULL, FLAG(plan.snapshot),
	  "make a snapshot of its ploop image before" },
	{ "nostart", 0, NULL, FLAG(plan.nostart),
	  "leave it stopped there, though it ran here" },
	{ "rounds", 0, "N", CALL(rounds),
	  "at most so many passes while it runs (10)" },
	{ "noiter", 0, NULL, CALL(rounds), "one pass while it runs" },
	{ "max-downtime", 0, "SECONDS", CALL(downtime),
	  "passes go on until the last is expected to take less (0.3)" },
	{ "stop-timeout", 0, "SECONDS", CALL(stop),
	  "time it gets to stop, then by force (60)" },
	{ "nodeps", 'f', "[LIST]", CALL(nodeps),
	  "only warn: arch,bindmount,disk_space,ip,mac,net,quota,runtime" },
	{ "take-back", 0, "SESSION", WORD(take_back),
	  "un-retire it here: the other host is gone for good" },
	{ "abort", 0, NULL, FLAG(abort),
	  "give an unfinished move up, clean both hosts" },
	{ "status", 0, NULL, FLAG(status),
	  "tell what is unfinished here, and how far it is; [CT ...]" },
	{ "metadata", 0, "strict|warn", CALL(metadata),
	  "what the other file system cannot hold is an error, or told" },

	{ "port", 'p', "PORT", CALL(port), "port of the ssh server" },
	{ "identity", 'i', "FILE", CALL(identity), "private key" },
	{ "jump", 'J', "HOST", CALL(jump), "connect through this host" },
	{ "ssh-config", 0, "FILE|none", CALL(config),
	  "instead of the user's ssh configuration" },
	{ "ssh", 0, "OPTIONS", CALL(ssh),
	  "options as for ssh: -p -i -l -o -c -F -J -v -4 -6 -C" },
	{ "rsync", 0, "OPTIONS", CALL(rsync),
	  "options as for rsync: -z --bwlimit --timeout -e are taken" },
	{ "timeout", 0, "SECONDS", CALL(timeout),
	  "silence after which the other host is given up (30)" },
	{ "cipher", 0, "LIST", WORD(cipher), "ciphers to offer, best first" },
	{ "ssh-cipher", 0, "LIST", WORD(cipher), NULL },
	{ "mac", 0, "LIST", WORD(mac), "MACs to offer, best first" },
	{ "allow-cipher", 0, "NAME", CALL(allow),
	  "offer a weak cipher too (CBC, 3DES)" },
	{ "probe-ciphers", 0, "[SECONDS]", CALL(probe),
	  "measure the ciphers on this link (4 s) and use the best" },
	{ "print", 0, NULL, FLAG(print),
	  "with --probe-ciphers alone: print the name of the best, only" },
	{ "agent", 0, "COMMAND", WORD(agent),
	  "how to start vzmigrate-agent there" },
	{ "streams", 0, "N|auto", CALL(streams),
	  "connections that carry the copy (1 to 16)" },
	{ "compress", 0, "[LEVEL]", CALL(compress),
	  "compress at one level, 1 to 19 (3); default: as it pays" },
	{ "nocompress", 0, NULL, CALL(nocompress), "never compress" },
	{ "limit-speed", 'l', "RATE", CALL(limit),
	  "bytes per second at most, with K, M or G" },
	{ "limit-cutover", 0, NULL, FLAG(plan.limit_cutover),
	  "the limit holds during the cut-over, too" },

	{ "json", 0, NULL, FLAG(json),
	  "progress and result as JSON on stdout" },
	{ "quiet", 0, NULL, FLAG(quiet),
	  "no progress; one line of summary, warnings and errors" },
	{ "verbose", 'v', NULL, CALL(verbose),
	  "every step and remote message, and -t; -vv, -vvv: more" },
	{ "times", 't', NULL, FLAG(times), "how long each step took" },
	{ "help", 'h', NULL, ACTION(OPTIONS_HELP), "this text" },
	{ "usage", 0, NULL, ACTION(OPTIONS_HELP), NULL },
	{ "version", 0, NULL, ACTION(OPTIONS_VERSION), "the version" },

	/* Accepted: what they ask for is so, or there is no such thing. */
	{ "batch", 'b', NULL, NOTE, "nothing is asked but by ssh" },
	{ "ignore-backup-disk", 0, NULL, NOTE,
	  "such disks are not looked for" },
	{ "keep-images", 0, NULL, NOTE, "there are no images of processes" },
	{ "keeper", 0, "[ID]", NOTE,
	  "no container keeps the addresses meanwhile" },
	{ "noevent", 0, NULL, NOTE, "no events are sent" },
	{ "nonsharedfs", 0, NULL, NOTE, "the files are copied in any case" },
	{ "resume", 0, NULL, NOTE, "the same command always goes on" },
	{ "run-as", 0, "VERSION", NOTE, "there is one protocol" },
	{ "ssh-mux", 0, NULL, NOTE, "connections are always shared" },
	{ "whole-file", 'W', NULL, NOTE,
	  "the first pass sends files whole, later ones what differs" },

	/* Refused: silence would be a wrong promise. */
	{ "aprogress", 0, NULL, REFUSE, "use --json" },
	{ "certificate", 0, "FILE", REFUSE,
	  "the transport is SSH: a key is given with -i" },
	{ "ciphers", 0, "LIST", REFUSE,
	  "it is for SSL; those of SSH are given with --cipher" },
	{ "config", 0, "FILE", REFUSE,
	  "the container's own configuration is moved" },
	{ "eztempl", 'z', NULL, REFUSE, "templates are not moved" },
	{ "keep-src", 0, NULL, REFUSE,
	  "two hosts would own it; -r no keeps the copy here, retired" },
	{ "lazy", 0, NULL, REFUSE, NOT_LIVE },
	{ "live", 0, NULL, REFUSE, NOT_LIVE },
	{ "no-ssl", 0, NULL, REFUSE, "the transport is SSH, always encrypted" },
	{ "online", 0, NULL, REFUSE, NOT_LIVE },
	{ "private", 0, "PATH", REFUSE,
	  "where its files are here is in the container's configuration; "
	  "there they are put with --new-private" },
	{ "privatekey", 0, "FILE", REFUSE,
	  "the transport is SSH: a key is given with -i" },
	{ "readonly", 0, NULL, REFUSE,
	  "the source has to be locked and retired, so that no two hosts own "
	  "it; copy its directory with --kind=dir, with VZMIGRATE_STATE_DIR in "
	  "a tmpfs" },
	{ "require-realtime", 0, NULL, REFUSE, NOT_LIVE },
	{ "skiplock", 0, NULL, REFUSE, "a container in use is never moved" },
	{ "skipregister", 0, NULL, REFUSE,
	  "a container that is moved is registered there" },
	{ "socket", 0, NULL, REFUSE, "the transport is SSH alone" },
	{ 0 },
};

const char *
options_table_shown(const struct options_row *r, char out[64])
{
	if (r->shrt) {
		snprintf(out, 64, "-%c/--%s", r->shrt, r->name);
	} else {
		snprintf(out, 64, "--%s", r->name);
	}
	return out;
}

const struct options_row *
options_table_short(int c)
{
	for (const struct options_row *r = options_table; r->name; r++) {
		if (r->shrt && r->shrt == c) {
			return r;
		}
	}
	return NULL;
}

int
options_table_act(struct options_parse *x, const struct options_row *r,
		  const char *v, struct err *e)
{
	void *base = r->fate == OPTIONS_NEW ? (void *)&x->new : (void *)x->o;
	char name[64];

	switch (r->fate) {
	case OPTIONS_FLAG:
		*(bool *)((char *)base + r->at) = true;
		return 0;
	case OPTIONS_WORD:
	case OPTIONS_NEW:
		*(const char **)((char *)base + r->at) = v;
		return *v ? 0
			  : err_set(e, E_USAGE, "%s: '' is empty",
				    options_table_shown(r, name));
	case OPTIONS_CALL:
		return r->set(x, r, v, e);
	case OPTIONS_ACTION:
		x->o->action = (enum options_action)r->at;
		return 0;
	case OPTIONS_NOTE:
		return options_note(x->o, e, "%s: %s",
				    options_table_shown(r, name), r->text);
	case OPTIONS_REFUSE:
		break;
	}
	return err_set(e, E_USAGE, "%s: %s", options_table_shown(r, name),
		       r->text);
}
