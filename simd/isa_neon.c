/* SPDX-License-Identifier: MIT */
/* The kernels for AArch64 Advanced SIMD, which every such CPU has: reached through tsa_isa_neon. */
#if !defined(__aarch64__) || !defined(__ARM_NEON)
#error "isa_neon.c is for AArch64"
#endif
#include <arm_neon.h>

#define TSA_ISA_NAME neon
#define TSA_ISA_EXP "Sleef_finz_exp_u10advsimd"
#define TSA_ISA_PAIR_KERNELS 1
#define TSA_VECTORS "v_neon.h"
#include "tiles_32.h"
#include "isa_tmpl.h"
