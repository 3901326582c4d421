/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpuidle: the first line of /proc/stat, read again and again through one
 * descriptor. State: the caller's struct.
 */
#include "xfer/cpuidle.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

void
cpuidle_init(struct cpuidle *c)
{
	c->fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	c->ticks = sysconf(_SC_CLK_TCK);
	c->idle = 0;
	c->at_us = 0;
	c->last = -1;
}

void
cpuidle_fini(struct cpuidle *c)
{
	if (c->fd >= 0) {
		close(c->fd);
	}
	c->fd = -1;
}

int
cpuidle_parse(const char *text, uint64_t *idle)
{
	uint64_t v[5];

	if (sscanf(text,
		   "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
		   " %" SCNu64,
		   &v[0], &v[1], &v[2], &v[3], &v[4]) != 5) {
		return -1;
	}
	*idle = v[3] + v[4];
	return 0;
}

double
cpuidle_read(struct cpuidle *c, int64_t now_us)
{
	char text[256];
	uint64_t idle;
	ssize_t n = c->fd < 0 ? -1 : pread(c->fd, text, sizeof(text) - 1, 0);
	int64_t us = now_us - c->at_us;

	if (n <= 0) {
		return -1;
	}
	text[n] = '\0';
	if (cpuidle_parse(text, &idle) < 0) {
		return -1;
	}
	if (c->at_us && us > 0 && c->ticks > 0) {
		/* iowait may go backwards (proc(5)). */
		c->last = idle < c->idle
				  ? 0
				  : (double)(idle - c->idle) * 1e6 /
					    (double)c->ticks / (double)us;
	}
	c->idle = idle;
	c->at_us = now_us;
	return c->last;
}
