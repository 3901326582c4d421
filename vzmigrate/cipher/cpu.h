/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpu: does this processor help with AES-GCM? Part of libcore, as the agent
 * tells the client its own answer.
 */
#ifndef CIPHER_CPU_H
#define CIPHER_CPU_H

/* An answer about a host's processor. The values travel in frames. */
enum hw {
	HW_NO = 0,
	HW_YES = 1,
	HW_UNKNOWN = 2,
};

/* Whether this processor has instructions for AES and for the carry-less
 * multiplication that GCM needs (x86: AES and PCLMULQDQ by CPUID; aarch64: AES
 * and PMULL by AT_HWCAP; POWER: VEC_CRYPTO by AT_HWCAP2). HW_UNKNOWN on other
 * architectures. Does not block. */
enum hw cpu_aes(void);

/* "no", "yes", "unknown". */
const char *cpu_hw_name(enum hw hw);

#endif
