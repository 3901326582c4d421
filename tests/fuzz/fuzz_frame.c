/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: the greeting among noise, and a frame's header. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_header h;
	size_t noise, used;
	uint32_t proto, caps;

	if (frame_find_greeting(data, size, &noise, &used, &proto, &caps,
				NULL) == 1 &&
	    (noise > used || used > size)) {
		abort();
	}
	if (size >= FRAME_HEADER && frame_get_header(data, &h, NULL) == 0 &&
	    h.len > FRAME_PAYLOAD_MAX) {
		abort();
	}
	return 0;
}
