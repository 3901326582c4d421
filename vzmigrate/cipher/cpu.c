/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpu: asks the processor. No state.
 */
#include "cipher/cpu.h"

#include <stddef.h>

#if defined(__aarch64__) || defined(__powerpc64__)
#include <sys/auxv.h>
#endif

#if defined(__aarch64__)
/* Linux arch/arm64/include/uapi/asm/hwcap.h; here by number, since old C
 * library headers lack them. */
#define CPU_HWCAP_AES (1UL << 3)
#define CPU_HWCAP_PMULL (1UL << 4)
#elif defined(__powerpc64__)
/* Linux arch/powerpc/include/uapi/asm/cputable.h */
#define CPU_HWCAP2_VEC_CRYPTO 0x02000000UL
#endif

enum hw
cpu_aes(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_cpu_init();
	return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul")
		       ? HW_YES
		       : HW_NO;
#elif defined(__aarch64__)
	unsigned long both = CPU_HWCAP_AES | CPU_HWCAP_PMULL;

	return (getauxval(AT_HWCAP) & both) == both ? HW_YES : HW_NO;
#elif defined(__powerpc64__)
	return getauxval(AT_HWCAP2) & CPU_HWCAP2_VEC_CRYPTO ? HW_YES : HW_NO;
#else
	return HW_UNKNOWN;
#endif
}

const char *
cpu_hw_name(enum hw hw)
{
	return hw == HW_NO ? "no" : hw == HW_YES ? "yes" : "unknown";
}
