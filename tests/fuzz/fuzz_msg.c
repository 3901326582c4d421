/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzz target: every message; the first byte chooses which. */
#include <stddef.h>
#include <stdint.h>

#include "wire/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TRY(x, fini)                                          \
	do {                                                  \
		struct msg_##x m;                             \
		if (msg_get_##x(data, size, &m, NULL) == 0) { \
			fini;                                 \
		}                                             \
	} while (0)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size) {
		return 0;
	}
	data++;
	size--;
	/* Numbers that came later are at the upper end: the corpus keeps its
	 * meaning. */
	switch (data[-1] < 240 ? data[-1] % 15 : data[-1] - 225) {
	case 0:
		TRY(hello, msg_hello_fini(&m));
		break;
	case 1:
		TRY(hello_reply, msg_hello_reply_fini(&m));
		break;
	case 2:
		TRY(open, msg_open_fini(&m));
		break;
	case 3:
		TRY(open_reply, msg_open_reply_fini(&m));
		break;
	case 4:
		TRY(put_file, msg_put_file_fini(&m));
		break;
	case 5:
		TRY(check, msg_check_fini(&m));
		break;
	case 6:
		TRY(check_reply, msg_check_reply_fini(&m));
		break;
	case 7:
		TRY(pass, );
		break;
	case 8:
		TRY(proof, );
		break;
	case 9:
		TRY(proof_list, );
		break;
	case 10:
		TRY(take_over, );
		break;
	case 11:
		TRY(take_over_reply, msg_take_over_reply_fini(&m));
		break;
	case 12:
		TRY(abort, );
		break;
	case 13:
		TRY(sink, );
		break;
	case 15:
		TRY(join, );
		break;
	case 16:
		TRY(stream_end, );
		break;
	case 17:
		TRY(stream_end_reply, );
		break;
	default:
		TRY(state, msg_state_fini(&m));
	}
	return 0;
}
