/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * churn: the init of a container that is busy: each second it rewrites 50
 * files below /srv/few and 200 blocks of 4 KiB, at random, of /srv/big. Ends
 * with PWR, as lxc-stop sends it, or TERM. Linked statically: the container has
 * no libraries.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES 50
#define BLOCKS 200
#define BLOCK 4096
#define STEPS 10 /* of a second */

static volatile sig_atomic_t end;

static void
on_signal(int sig)
{
	(void)sig;
	end = 1;
}

static uint64_t
next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static int
rewrite(unsigned n, uint64_t what)
{
	char name[64], text[1024];
	int fd, bad;

	snprintf(name, sizeof(name), "/srv/few/%u", n);
	memset(text, 'a' + (int)(what % 26), sizeof(text));
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	bad = fd < 0 || write(fd, text, sizeof(text)) != sizeof(text);
	return close(fd) < 0 || bad ? -1 : 0;
}

int
main(void)
{
	uint64_t x = 88172645463325252u, block[BLOCK / 8];
	int big = open("/srv/big", O_RDWR | O_CLOEXEC);
	struct timespec wait = { 0, 1000000000 / STEPS };
	struct stat st;

	signal(SIGPWR, on_signal);
	signal(SIGTERM, on_signal);
	if (big < 0 || fstat(big, &st) < 0 || st.st_size < BLOCK) {
		return 1;
	}
	while (!end) {
		for (unsigned i = 0; i < FILES / STEPS; i++) {
			unsigned n = (unsigned)(next(&x) % FILES);

			if (rewrite(n, x) < 0) {
				return 1;
			}
		}
		for (unsigned i = 0; i < BLOCKS / STEPS; i++) {
			uint64_t at = next(&x) % (uint64_t)(st.st_size / BLOCK);

			for (size_t k = 0; k < BLOCK / 8; k++) {
				block[k] = next(&x);
			}
			if (pwrite(big, block, BLOCK, (off_t)(at * BLOCK)) !=
			    BLOCK) {
				return 1;
			}
		}
		nanosleep(&wait, NULL);
	}
	return 0;
}
