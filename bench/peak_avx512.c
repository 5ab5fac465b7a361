/* SPDX-License-Identifier: MIT */
/* The benchmark's loops on AVX-512. */
#include <immintrin.h>

#include "peak.h"

#ifndef __AVX512F__
#error "peak_avx512.c must be built with TSA_AVX512_CFLAGS"
#endif

typedef __m512 VF;
typedef __m512d VD;
#define SET_F(x) _mm512_set1_ps(x)
#define SET_D(x) _mm512_set1_pd(x)
#define FMA_F(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FMA_D(a, b, c) _mm512_fmadd_pd(a, b, c)
#define REGISTER "v"
#include "peak_tmpl.h"

PEAK_UNIT(avx512);
