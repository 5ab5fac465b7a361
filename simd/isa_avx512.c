/* SPDX-License-Identifier: MIT */
/* The AVX-512 kernels: built with TSA_AVX512_CFLAGS, reached through tsa_isa_avx512. */
#if !defined(__AVX512F__) || !defined(__AVX512DQ__) || !defined(__AVX512BW__) ||                   \
    !defined(__AVX512VL__) || !defined(__FMA__)
#error "isa_avx512.c must be built with TSA_AVX512_CFLAGS"
#endif
#include <immintrin.h>

#define TSA_ISA_NAME avx512
#define TSA_ISA_EXP "Sleef_finz_exp_u10avx512f"
#define TSA_ISA_PAIRS 0 /* without AVX512_BF16 those of AVX2 are as good */
#define TSA_VECTORS "v_avx512.h"
/* 24 accumulators + 4 of B + 1 broadcast of 32 registers; narrower panels get more rows, so that
 * 16 or more independent chains hide the latency of the fma. */
#define TSA_TILES(X) TSA_ROWS_16(X, 1) TSA_ROWS_12(X, 2) TSA_ROWS_8(X, 3) TSA_ROWS_6(X, 4)
#define TSA_TILE_VECTORS 4
#define TSA_TILE_ROWS                                                                              \
    {                                                                                              \
        0, 16, 12, 8, 6                                                                            \
    }
#include "isa_tmpl.h"
