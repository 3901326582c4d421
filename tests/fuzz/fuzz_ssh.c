/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: what ssh/ parses. The first byte chooses the parser; the rest
 * is its text. Files are given through a memfd.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "ssh/authkey.h"
#include "ssh/kexlog.h"
#include "ssh/knownhosts.h"
#include "ssh/sshconf.h"
#include "ssh/sshfile.h"
#include "ssh/sshopts.h"
#include "ssh/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_target(const char *text)
{
	struct target t;

	if (target_parse(text, &t, NULL) == 0 &&
	    (*t.host == '-' || strchr(t.host, ';') ||
	     (t.user && *t.user == '-') || t.port < 0 || t.port > 65535)) {
		abort();
	}
	target_fini(&t);
}

static void
try_options(const char *text)
{
	struct sshopts o = { 0 };

	sshopts_parse(&o, text, NULL);
	sshopts_fini(&o);
}

static void
try_known_hosts(char *text)
{
	static const uint8_t key[] = "\0\0\0\x0bssh-ed25519\0\0\0\1x";
	struct knownhosts k = { NULL, 0 };
	const struct knownhosts_line *why;

	knownhosts_scan(&k, "f", text, "h", NULL);
	knownhosts_check(&k, key, sizeof(key) - 1, &why);
	for (size_t i = 0; i < k.n; i++) {
		knownhosts_rsa_bits(k.v[i].blob, k.v[i].len);
	}
	knownhosts_fini(&k);
}

static void
try_fields(const char *text)
{
	struct sshconf c = { .alias = strdup("a") };

	/* Whatever the text says, what comes out may meet a shell. */
	if (sshconf_parse(&c, text, "ciphers x\n", NULL) == 0 &&
	    (*c.host == '-' || strchr(c.host, '`') || *c.user == '-' ||
	     c.port < 1 || c.port > 65535)) {
		abort();
	}
	sshconf_fini(&c);
}

static int
memory_file(const uint8_t *data, size_t size, char path[64])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
		abort();
	}
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static void
try_file(const char *path)
{
	struct sshfile_query q = { .config = path,
				   .alias = "a",
				   .local_user = "root",
				   .home = "/nonexistent" };
	struct buf out;

	buf_init(&out, 1 << 20);
	sshfile_resolve(&q, &out, NULL);
	buf_fini(&out);
}

static void
try_private_key(const char *path)
{
	uint8_t *blob;
	size_t len;
	bool encrypted;

	authkey_peek(path, &blob, &len, &encrypted, NULL);
	free(blob);
}

static void
try_certificate(const uint8_t *data, size_t size)
{
	uint8_t *plain = NULL;
	size_t len;

	if (authkey_plain(data, size, &plain, &len, NULL) == 0 && len > size) {
		abort();
	}
	free(plain);
}

static void
try_kex_log(char *text)
{
	static struct kexlog k;

	memset(&k, 0, sizeof(k));
	for (char *p = strtok(text, "\n"); p; p = strtok(NULL, "\n")) {
		kexlog_line(&k, "ssh_list_kex", p);
	}
	for (int i = 0; i < KEXLOG_LISTS; i++) {
		if (!memchr(k.lists[i], '\0', KEXLOG_LIST_MAX)) {
			abort();
		}
	}
}

static void
try_with_file(uint8_t which, const uint8_t *data, size_t size)
{
	char path[64];
	int fd = memory_file(data, size, path);

	if (which == 'f') {
		try_file(path);
	} else {
		try_private_key(path);
	}
	close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0) {
		return 0;
	}
	text = malloc(size);
	if (!text) {
		return 0;
	}
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0]) {
	case 't':
		try_target(text);
		break;
	case 'o':
		try_options(text);
		break;
	case 'k':
		try_known_hosts(text);
		break;
	case 'c':
		try_fields(text);
		break;
	case 'f':
	case 'p':
		try_with_file(data[0], data + 1, size - 1);
		break;
	case 'C':
		try_certificate(data + 1, size - 1);
		break;
	case 'x':
		try_kex_log(text);
		break;
	default:
		break;
	}
	free(text);
	return 0;
}
