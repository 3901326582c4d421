/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: compressed content, as the receiver's worker unpacks it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "xfer/zframe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct zunpack *z;
	const uint8_t *out;
	size_t len, sum = 0;

	/* Kept, as a worker keeps it: what is left from one frame must not
	 * harm the next. */
	if (!z) {
		z = zunpack_new(NULL);
	}
	if (!z || zunpack_bytes(z, data, size, &out, &len, NULL) < 0) {
		return 0;
	}
	if (!len || len > ZFRAME_MAX) {
		abort();
	}
	for (size_t i = 0; i < len; i++) {
		sum += out[i];
	}
	return sum == SIZE_MAX;
}
