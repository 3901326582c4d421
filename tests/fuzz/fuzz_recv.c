/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: content of several passes, as the receiver works on it, into a
 * directory of its own below $TMPDIR. The input is a list of: u8 kind (0 and 3
 * a BATCH, 1 a CHUNK, 2 the pass ends and another one begins; modulo 4), u16
 * length, bytes. Whatever comes, nothing beside that directory may change.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/remove.h"
#include "xfer/recv.h"

/* Each costs threads and files, so a replay tries some only; a search is
 * given FUZZ_ALL in the environment. */
#define REPLAY_EVERY 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top[256];
static int topfd = -1, rootfd = -1;

/* What is beside the root: one name, and an empty file as it was made. */
static void
check_outside(void)
{
	struct stat st;

	if (fstatat(topfd, "canary", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_size != 0 || st.st_nlink != 1 || st.st_mtime != 1000 ||
	    (st.st_mode & 07777) != 0600) {
		fprintf(stderr, "the canary was touched\n");
		abort();
	}
}

static void
clean(void)
{
	remove_content(topfd, NULL, NULL);
	rmdir(top);
}

static void
make_place(void)
{
	const char *tmp = getenv("TMPDIR");
	struct timespec t[2] = { { 1000, 0 }, { 1000, 0 } };
	int fd;

	snprintf(top, sizeof(top), "%s/fuzz-recv-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(top)) {
		abort();
	}
	topfd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(topfd, "canary", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (mkdirat(topfd, "root", 0700) < 0 || futimens(fd, t) < 0) {
		abort();
	}
	close(fd);
	rootfd = openat(topfd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	atexit(clean);
}

static int
give(struct receiver *r, uint8_t type, const uint8_t *data, size_t len)
{
	struct pool_frame *f = pool_large((uint32_t)len);

	if (!f) {
		abort();
	}
	f->type = type;
	f->flags = 0;
	f->len = (uint32_t)len;
	if (len) {
		memcpy(pool_payload(f), data, len);
	}
	return recv_frame(r, f, NULL);
}

static void
run(struct receiver *r, const uint8_t *p, size_t left)
{
	int rc = 0;

	while (rc == 0 && left >= 3) {
		size_t len = p[1] | (size_t)p[2] << 8;
		uint8_t kind = p[0] % 4;

		p += 3;
		left -= 3;
		len = len < left ? len : left;
		if (kind == 2) {
			rc = recv_finish(r, NULL);
			rc = rc < 0 ? rc : recv_update(r, NULL);
		} else {
			rc = give(r, kind == 1 ? FRAME_CHUNK : FRAME_BATCH, p,
				  len);
		}
		p += len;
		left -= len;
	}
	if (rc == 0 && recv_finish(r, NULL) == 0) {
		struct msg_proof proof;

		(void)recv_proof(r, &proof, NULL);
	}
	recv_drain(r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct digest_key key = { { 1, 2, 3 } };
	const struct recv_opts o = { .workers = 2,
				     .policy = META_WARN,
				     .track = true };
	static unsigned runs;
	struct receiver *r;

	if (rootfd < 0) {
		make_place();
	}
	if (runs++ % REPLAY_EVERY && !getenv("FUZZ_ALL")) {
		return 0;
	}
	if (recv_new(rootfd, &key, &o, &r, NULL) < 0) {
		abort();
	}
	run(r, data, size);
	recv_free(r);
	check_outside();
	if (remove_content(rootfd, NULL, NULL) < 0) {
		fprintf(stderr, "what was made cannot be removed\n");
		abort();
	}
	return 0;
}
