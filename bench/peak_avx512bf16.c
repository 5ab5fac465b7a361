/* SPDX-License-Identifier: MIT */
/* The benchmark's loop on the dot products of AVX512_BF16. */
#ifndef __AVX512BF16__
#error "peak_avx512bf16.c must be built with TSA_AVX512BF16_CFLAGS"
#endif
#include <immintrin.h>

#include "peak.h"

typedef __m512 VF;
typedef __m512bh VB;
#define SET_F(x) _mm512_set1_ps(x)
#define SET_B(even, odd) (VB) _mm512_set1_epi32((int)((unsigned)(odd) << 16 | (even)))
#define DOT(a, b, c) _mm512_dpbf16_ps(a, b, c)
#define REGISTER "v"
#include "peak_pairs_tmpl.h"

const struct bench_pairs_unit bench_pairs_avx512bf16 = {"avx512_bf16", PEAK_PAIRS_FLOPS,
                                                        peak_pairs};
