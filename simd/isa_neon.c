/* SPDX-License-Identifier: MIT */
/* The kernels for AArch64 Advanced SIMD, which every such CPU has: reached through tsa_isa_neon. */
#if !defined(__aarch64__) || !defined(__ARM_NEON)
#error "isa_neon.c is for AArch64"
#endif
#include <arm_neon.h>

#define TSA_ISA_NAME neon
#define TSA_ISA_EXP "Sleef_finz_exp_u10advsimd"
#define TSA_ISA_PAIRS 1
#define TSA_VECTORS "v_neon.h"
/* 24 accumulators + 4 of B + 1 broadcast of 32 registers; narrower panels get more rows, so that
 * 16 or more independent chains hide the latency of the fma on cores with four fma units. */
#define TSA_TILES(X) TSA_ROWS_16(X, 1) TSA_ROWS_12(X, 2) TSA_ROWS_8(X, 3) TSA_ROWS_6(X, 4)
#define TSA_TILE_VECTORS 4
#define TSA_TILE_ROWS                                                                              \
    {                                                                                              \
        0, 16, 12, 8, 6                                                                            \
    }
#include "isa_tmpl.h"
