/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * replay: gives every file of a corpus to a fuzz target, as it is and with
 * each byte changed or cut off behind; for builds without libFuzzer, in
 * `make check`. The corpus is $srcdir/tests/fuzz/corpus/NAME, NAME being what
 * follows "fuzz_" in the program's name, or the directory given.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"

#define REPLAY_FILE_MAX (1u << 20)
#define REPLAY_MUTATE_MAX 4096 /* bytes changed one by one in each file */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
replay_bytes(uint8_t *data, size_t len)
{
	size_t n = len < REPLAY_MUTATE_MAX ? len : REPLAY_MUTATE_MAX;

	LLVMFuzzerTestOneInput(data, len);
	for (size_t i = 0; i < n; i++) {
		static const uint8_t flips[] = { 0x01, 0x80, 0xff };

		for (size_t k = 0; k < sizeof(flips); k++) {
			data[i] ^= flips[k];
			LLVMFuzzerTestOneInput(data, len);
			data[i] ^= flips[k];
		}
		LLVMFuzzerTestOneInput(data, i);
	}
}

static int
replay_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *de;
	int files = 0;

	if (!d) {
		fprintf(stderr, "cannot open corpus %s\n", path);
		return -1;
	}
	while ((de = readdir(d))) {
		struct err e = { 0 };
		char *data;
		size_t len;

		if (de->d_name[0] == '.') {
			continue;
		}
		if (io_read_file(dirfd(d), de->d_name, REPLAY_FILE_MAX, &data,
				 &len, &e) < 0) {
			fprintf(stderr, "%s\n", e.text);
			closedir(d);
			return -1;
		}
		replay_bytes((uint8_t *)data, len);
		free(data);
		files++;
	}
	closedir(d);
	return files;
}

int
main(int argc, char **argv)
{
	const char *src = getenv("srcdir");
	const char *name = strstr(argv[0], "fuzz_");
	char path[4096];
	int n;

	if (argc > 1) {
		snprintf(path, sizeof(path), "%s", argv[1]);
	} else {
		snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/%s",
			 src ? src : ".", name ? name + 5 : "");
	}
	n = replay_dir(path);
	if (n <= 0) {
		fprintf(stderr, "%s: no corpus\n", path);
		return 1;
	}
	printf("%d files of %s replayed\n", n, path);
	return 0;
}
