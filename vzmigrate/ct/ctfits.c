/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctfits: compares the source's facts with this host. Input: lines of the
 * origin file, this host's configurations and addresses. Output: findings. No
 * state. What comes from the peer is only compared.
 */
#include "ct/ctfits.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/magic.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ct/kinds.h"
#include "ct/lxcconf.h"
#include "ct/origin.h"
#include "ct/shconf.h"
#include "ct/vzconf.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* ---- cgroups ---- */

static bool
is_fs(const char *path, long magic)
{
	struct statfs s;

	return statfs(path, &s) == 0 && (long)s.f_type == magic;
}

const char *
ctfits_cgroup(void)
{
	return is_fs("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC)	      ? "v2"
	       : is_fs("/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC) ? "hybrid"
								      : "v1";
}

int
ctfits_put(struct buf *origin, struct err *e)
{
	return origin_put(origin, "cgroup", NULL, ctfits_cgroup(), e);
}

/* ---- addresses ---- */

struct search {
	const struct ct_host *h;
	const char *mac, *ip; /* one of both */
	const char *own;
	char *who; /* [256] */
};

/* Compared as an address, so that ::1 is 0:0::1. */
static bool
same_ip(const char *a, const char *b)
{
	unsigned char x[16], y[16];
	char one[INET6_ADDRSTRLEN + 1], two[INET6_ADDRSTRLEN + 1];

	snprintf(one, sizeof(one), "%.*s", (int)strcspn(a, "/"), a);
	snprintf(two, sizeof(two), "%.*s", (int)strcspn(b, "/"), b);
	for (int af = AF_INET;; af = AF_INET6) {
		if (inet_pton(af, one, x) == 1 && inet_pton(af, two, y) == 1) {
			return memcmp(x, y, af == AF_INET ? 4 : 16) == 0;
		}
		if (af == AF_INET6) {
			return false;
		}
	}
}

static bool
ends(const char *s, const char *tail)
{
	size_t n = strlen(s), t = strlen(tail);

	return n >= t && strcmp(s + n - t, tail) == 0;
}

static int
lxc_item(const char *key, const char *value, void *arg, struct err *e)
{
	const struct search *s = arg;

	(void)e;
	if (strncmp(key, "lxc.net", 7) != 0 || !*value) {
		return 0;
	}
	if (s->mac && ends(key, ".hwaddr")) {
		return strcasecmp(s->mac, value) == 0;
	}
	return s->ip && (strstr(key, ".ipv4") || strstr(key, ".ipv6")) &&
	       !strstr(key, "gateway") && same_ip(s->ip, value);
}

static int
found(const struct search *s, const char *kind, const char *id)
{
	snprintf(s->who, 256, "%s container %s", kind, id);
	return 1;
}

static int
in_lxc(const char *id, const char *dir, const char *tree, void *arg)
{
	const struct search *s = arg;
	cleanup(free_ptr) char *text = NULL;
	char path[4096];
	size_t len;

	(void)tree;
	snprintf(path, sizeof(path), "%s/config", dir ? dir : "");
	/* One that is blocked or retired does not use its addresses here. */
	if ((s->own && strcmp(s->own, id) == 0) ||
	    io_read_file(AT_FDCWD, path, CT_FILE_MAX, &text, &len, NULL) < 0) {
		return 0;
	}
	return lxcconf_each(text, len, path, lxc_item, (void *)arg, NULL) == 1
		       ? found(s, "lxc", id)
		       : 0;
}

/* A word of a list that blanks, commas and '=' part. */
static bool
has_word(const struct search *s, char *list)
{
	char *save = NULL;

	for (char *p = strtok_r(list, " \t,;=", &save); p;
	     p = strtok_r(NULL, " \t,;=", &save)) {
		if (s->mac ? strcasecmp(s->mac, p) == 0 : same_ip(s->ip, p)) {
			return true;
		}
	}
	return false;
}

static int
in_openvz(const char *id, const char *dir, const char *tree, void *arg)
{
	const struct search *s = arg;
	cleanup(vzconf_fini) struct vzconf v = { 0 };
	cleanup(free_ptr) char *path = NULL;
	cleanup(free_ptr) char *text = NULL;
	cleanup(free_ptr) char *list = NULL;
	size_t len;

	(void)dir;
	(void)tree;
	if ((s->own && strcmp(s->own, id) == 0) ||
	    vzconf_load(s->h, id, NULL, 0, &v, NULL) < 0) {
		return 0;
	}
	path = vzconf_path(&v, id, "", NULL);
	if (!path ||
	    io_read_file(AT_FDCWD, path, CT_FILE_MAX, &text, &len, NULL) < 0) {
		return 0;
	}
	/* An address is in either: NETIF="...,ip=10.0.0.1/24,...". */
	if (shconf_get(text, len, path, "NETIF", id, &list, NULL) == 1 &&
	    has_word(s, list)) {
		return found(s, "openvz", id);
	}
	free(steal_ptr(&list));
	return !s->mac &&
			       shconf_get(text, len, path, "IP_ADDRESS", id,
					  &list, NULL) == 1 &&
			       has_word(s, list)
		       ? found(s, "openvz", id)
		       : 0;
}

/* What OpenVZ's kernel routes to containers that are up, whoever made them:
 * lines "ADDRESS CTID". */
static bool
in_veip(const struct search *s)
{
	cleanup(free_ptr) char *text = NULL;
	char path[4096], *save = NULL;

	snprintf(path, sizeof(path), "%s/veip",
		 s->h->proc_vz ? s->h->proc_vz : "/proc/vz");
	if (!s->ip ||
	    io_read_file(AT_FDCWD, path, 16u << 20, &text, NULL, NULL) < 0) {
		return false;
	}
	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char ip[64], id[40];

		if (sscanf(line, "%63s %39s", ip, id) == 2 &&
		    same_ip(s->ip, ip) &&
		    !(s->own && strcmp(s->own, id) == 0)) {
			return found(s, "openvz", id) != 0;
		}
	}
	return false;
}

static bool
on_host(const struct search *s)
{
	struct ifaddrs *all = NULL;
	char text[INET6_ADDRSTRLEN];
	bool hit = false;

	if (!s->ip || getifaddrs(&all) < 0) {
		return false;
	}
	for (struct ifaddrs *a = all; a && !hit; a = a->ifa_next) {
		const void *addr;

		if (!a->ifa_addr || (a->ifa_addr->sa_family != AF_INET &&
				     a->ifa_addr->sa_family != AF_INET6)) {
			continue;
		}
		addr = a->ifa_addr->sa_family == AF_INET
			       ? (const void *)&((struct sockaddr_in *)(void *)
							 a->ifa_addr)
					 ->sin_addr
			       : (const void *)&((struct sockaddr_in6 *)(void *)
							 a->ifa_addr)
					 ->sin6_addr;
		hit = inet_ntop(a->ifa_addr->sa_family, addr, text,
				sizeof(text)) &&
		      same_ip(s->ip, text);
		if (hit) {
			snprintf(s->who, 256, "this host's %s", a->ifa_name);
		}
	}
	freeifaddrs(all);
	return hit;
}

static bool
taken(struct search *s)
{
	return on_host(s) || in_veip(s) || lxc_each(s->h, in_lxc, s) == 1 ||
	       openvz_each(s->h, in_openvz, s) == 1;
}

bool
ctfits_mac_taken(const struct ct_host *h, const char *mac, const char *own,
		 char who[256])
{
	struct search s = { .h = h, .mac = mac, .own = own, .who = who };

	return taken(&s);
}

bool
ctfits_ip_taken(const struct ct_host *h, const char *ip, const char *own,
		char who[256])
{
	struct search s = { .h = h, .ip = ip, .own = own, .who = who };

	return taken(&s);
}

/* The source itself, where both are one host: it is not in its own way. */
static const char *
own_id(const struct ct_want *w)
{
	cleanup(free_ptr) char *boot = origin_get(w, "boot", 0);
	cleanup(free_ptr) char *here = NULL;

	if (!boot ||
	    io_read_file(AT_FDCWD, BOOT_ID, 256, &here, NULL, NULL) < 0) {
		return NULL;
	}
	here[strcspn(here, "\n")] = '\0';
	return strcmp(boot, here) == 0 ? w->id : NULL;
}

static void
check_address(const struct ct_host *h, const struct ct_want *w, bool mac,
	      const char *value, struct ct_findings *f)
{
	char who[256];

	if (mac ? ctfits_mac_taken(h, value, own_id(w), who)
		: ctfits_ip_taken(h, value, own_id(w), who)) {
		ct_finding_add(f, E_IN_USE, ct_nodeps(w, mac ? "mac" : "ip"),
			       "the %s %s is in use by %s; change it there, or "
			       "in the container's configuration (--nodeps=%s "
			       "goes without this check)",
			       mac ? "MAC address" : "address", value, who,
			       mac ? "mac" : "ip");
	}
}

/* ---- the rest ---- */

void
ctfits_check_device(const struct ct_want *w, const char *name,
		    struct ct_findings *f)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof(path), "/sys/class/net/%s", name);
	if (if_nametoindex(name) != 0 ||
	    (!strchr(name, '/') && stat(path, &st) == 0)) {
		return;
	}
	ct_finding_add(f, E_CONFIG, !w->start || ct_nodeps(w, "net"),
		       "the network device %s that the configuration names is "
		       "not there; make it, or name another one in the "
		       "configuration%s",
		       name,
		       w->start ? " (--nodeps=net goes without this check)"
				: ", before the container is started");
}

/* "u 0 100000 65536": whether root may hand out this range here. */
static bool
delegated(const char *map)
{
	unsigned long long inside, first, count, from, n;
	cleanup(free_ptr) char *text = NULL;
	char type, *save = NULL;

	if (sscanf(map, "%c %llu %llu %llu", &type, &inside, &first, &count) !=
		    4 ||
	    io_read_file(AT_FDCWD, type == 'g' ? "/etc/subgid" : "/etc/subuid",
			 1 << 20, &text, NULL, NULL) < 0) {
		return false;
	}
	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if ((sscanf(line, "root:%llu:%llu", &from, &n) == 2 ||
		     sscanf(line, "0:%llu:%llu", &from, &n) == 2) &&
		    first >= from && count <= n && first - from <= n - count) {
			return true;
		}
	}
	return false;
}

/* "lxc 5.0.2": an older one may not know what is in the configuration. */
static void
check_runtime(const struct ct_want *w, const char *value, struct ct_findings *f)
{
	static const char *const argv[] = { "lxc-start", "--version", NULL };
	cleanup(child_result_fini) struct child_result r = { 0 };
	unsigned theirs, ours;
	const char *text;

	if (sscanf(value, "lxc %u", &theirs) != 1 ||
	    child_run(&(struct child_cmd){ .argv = argv }, &r, NULL) < 0) {
		return;
	}
	text = buf_cstr(&r.out, NULL);
	if (!text || sscanf(text, "%u", &ours) != 1 || ours >= theirs) {
		return;
	}
	/* The keys of the configuration changed with 2.1 and 3.0. */
	ct_finding_add(f, E_CONFIG,
		       ours >= 3 || !w->start || ct_nodeps(w, "runtime"),
		       "LXC is older here (%.20s) than on the source (%s); the "
		       "configuration may not be understood%s",
		       text, value + 4,
		       ours >= 3 ? "" : " (--nodeps=runtime goes on)");
}

void
ctfits_check(const struct ct_host *h, const struct ct_want *w, const char *key,
	     const char *value, struct ct_findings *f)
{
	if (strcmp(key, "mac") == 0 || strcmp(key, "ip") == 0) {
		check_address(h, w, *key == 'm', value, f);
	} else if (strcmp(key, "cgroup") == 0) {
		if (strcmp(value, ctfits_cgroup()) != 0) {
			ct_finding_add(f, E_CONFIG, true,
				       "cgroups are %s here and %s on the "
				       "source: limits in the configuration "
				       "may not apply, and an old system in "
				       "the container may not start",
				       ctfits_cgroup(), value);
		}
	} else if (strcmp(key, "idmap") == 0) {
		if (!delegated(value)) {
			ct_finding_add(f, E_CONFIG, true,
				       "the id range \"%s\" of the container "
				       "is not root's in /etc/sub%s here: see "
				       "that nobody else uses it",
				       value, *value == 'g' ? "gid" : "uid");
		}
	} else if (strcmp(key, "runtime") == 0) {
		check_runtime(w, value, f);
	}
}
