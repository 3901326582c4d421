/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * packs: what compression costs here: the bound of a copy over a slow link.
 *
 *	packs LEVEL <STREAM
 *
 * Compresses and unpacks standard input with libzstd in frames of 256 KiB, as
 * the pump does, one after another in one thread. Prints one line: bytes,
 * bytes when compressed, and seconds of processor time for packing and for
 * unpacking.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#define FRAME 262144

static double
used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Bytes read into `p`, less than FRAME only at the end; < 0: error. */
static ssize_t
fill(char *p)
{
	size_t have = 0;
	ssize_t n;

	while (have < FRAME) {
		n = read(STDIN_FILENO, p + have, FRAME - have);
		if (n < 0) {
			perror("packs: read");
			return -1;
		}
		if (n == 0) {
			break;
		}
		have += (size_t)n;
	}
	return (ssize_t)have;
}

int
main(int argc, char **argv)
{
	static char in[FRAME], back[FRAME], out[FRAME + FRAME / 8];
	ZSTD_CCtx *c = ZSTD_createCCtx();
	ZSTD_DCtx *d = ZSTD_createDCtx();
	unsigned long long raw = 0, packed = 0;
	double pack = 0, unpack = 0, from, middle;
	size_t n, m;
	ssize_t r;

	if (argc != 2 || !c || !d) {
		fprintf(stderr, "usage: packs LEVEL <STREAM\n");
		return 2;
	}
	while ((r = fill(in)) > 0) {
		from = used();
		n = ZSTD_compressCCtx(c, out, sizeof(out), in, (size_t)r,
				      atoi(argv[1]));
		middle = used();
		if (ZSTD_isError(n)) {
			fprintf(stderr, "packs: %s\n", ZSTD_getErrorName(n));
			return 1;
		}
		m = ZSTD_decompressDCtx(d, back, sizeof(back), out, n);
		if (m != (size_t)r) {
			fprintf(stderr, "packs: it does not come back\n");
			return 1;
		}
		unpack += used() - middle;
		pack += middle - from;
		raw += (size_t)r;
		packed += n;
	}
	printf("%llu %llu %.3f %.3f\n", raw, packed, pack, unpack);
	ZSTD_freeCCtx(c);
	ZSTD_freeDCtx(d);
	return r < 0;
}
