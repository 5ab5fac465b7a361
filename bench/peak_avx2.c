/* SPDX-License-Identifier: MIT */
/* The benchmark's loops on AVX2 with FMA. */
#include <immintrin.h>

#include "peak.h"

#if !defined(__AVX2__) || !defined(__FMA__)
#error "peak_avx2.c must be built with TSA_AVX2_CFLAGS"
#endif

typedef __m256 VF;
typedef __m256d VD;
#define SET_F(x) _mm256_set1_ps(x)
#define SET_D(x) _mm256_set1_pd(x)
#define FMA_F(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FMA_D(a, b, c) _mm256_fmadd_pd(a, b, c)
#define REGISTER "x"
#include "peak_tmpl.h"

PEAK_UNIT(avx2);
