/* SPDX-License-Identifier: MIT */
/* The AVX2, FMA and F16C kernels: built with TSA_AVX2_CFLAGS, reached through tsa_isa_avx2. */
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "isa_avx2.c must be built with TSA_AVX2_CFLAGS"
#endif
#include <immintrin.h>

#define TSA_ISA_NAME avx2
#define TSA_ISA_EXP "Sleef_finz_exp_u10avx2"
#define TSA_ISA_PAIR_KERNELS 1
#define TSA_VECTORS "v_avx2.h"
/* 12 accumulators + 2 of B + 1 broadcast of 16 registers; 12 chains hide the latency of the fma
 * at two a cycle. */
#define TSA_TILES(X) TSA_ROWS_12(X, 1) TSA_ROWS_6(X, 2)
#define TSA_TILE_VECTORS 2
#define TSA_TILE_ROWS                                                                              \
    {                                                                                              \
        0, 12, 6                                                                                   \
    }
#include "isa_tmpl.h"
