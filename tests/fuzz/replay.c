/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * replay: runs a fuzz target without a fuzzer: over each file of a corpus
 * directory, over each of its prefixes, and over a fixed number of mutations
 * from a fixed seed. Under the sanitizers of the test build this finds what
 * breaks a parser; the same target links with libFuzzer for a long search
 * (CONTRIBUTING.md).
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 65536
#define MUTATIONS 20000
#define PREFIXES 4096

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint32_t
rnd(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % below;
}

/* Each run on a heap copy of the exact size, so that a read beyond it is
 * seen. */
static void
run(const uint8_t *data, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, data, len);
	LLVMFuzzerTestOneInput(copy, len);
	free(copy);
}

static void
mutate(const uint8_t *data, size_t len)
{
	static const uint8_t edge[] = { 0, 1, 0x7f, 0x80, 0xff };
	uint8_t *m = malloc(len + 8);
	size_t n = len;

	memcpy(m, data, len);
	for (uint32_t i = rnd(4) + 1; i-- && n;) {
		size_t at = rnd((uint32_t)n);

		switch (rnd(4)) {
		case 0:
			m[at] = (uint8_t)rnd(256);
			break;
		case 1:
			m[at] = edge[rnd(sizeof(edge))];
			break;
		case 2:
			m[at] ^= (uint8_t)(1u << rnd(8));
			break;
		default:
			n = at;
		}
	}
	run(m, n);
	free(m);
}

static int
run_file(const char *dir, const char *name)
{
	static uint8_t data[INPUT_MAX];
	char path[4096];
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	if (!f) {
		perror(path);
		return 1;
	}
	len = fread(data, 1, sizeof(data), f);
	fclose(f);
	for (size_t n = 0; n <= len && n <= PREFIXES; n++) {
		run(data, n);
	}
	run(data, len);
	for (int i = 0; i < MUTATIONS; i++) {
		mutate(data, len);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	struct dirent *d;
	int files = 0, bad = 0;
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;

	if (!dir) {
		fprintf(stderr, "usage: %s CORPUS_DIRECTORY\n", argv[0]);
		return 2;
	}
	while ((d = readdir(dir))) {
		if (d->d_name[0] != '.') {
			bad |= run_file(argv[1], d->d_name);
			files++;
		}
	}
	closedir(dir);
	printf("%d files\n", files);
	return bad || !files;
}
