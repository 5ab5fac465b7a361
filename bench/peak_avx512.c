/* SPDX-License-Identifier: MIT */
/* The benchmark's loops on AVX-512. */
#include <immintrin.h>

#include "unit.h"

#ifndef __AVX512F__
#error "peak_avx512.c must be built with TSA_AVX512_CFLAGS"
#endif

typedef __m512 VF;
typedef __m512d VD;
typedef float VU __attribute__((vector_size(64), aligned(4), may_alias));
typedef int VI __attribute__((vector_size(64), aligned(4), may_alias));
#define LANES 16
#define SET_F(x) _mm512_set1_ps(x)
#define SET_D(x) _mm512_set1_pd(x)
#define FMA_F(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FMA_D(a, b, c) _mm512_fmadd_pd(a, b, c)
#define MASK_F(w, m) (VF)((VI)(w) & *(const VI *)(m))
#define SUM_F(w) _mm512_reduce_add_ps(w)
#define REGISTER "v"
#include "contender_tmpl.h"
#include "peak_tmpl.h"

const struct bench_unit bench_unit_avx512 = {
    "avx512", LANES,     LANES / 2,       PEAK_CHAINS,     peak_f32,
    peak_f64, peak_read, CONTENDER_LOOPS, TSA_BENCH_FLAGS,
};
