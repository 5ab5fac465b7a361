/* SPDX-License-Identifier: MIT */
/* The contenders' loops on AVX-512. */
#include <immintrin.h>
#include <math.h>
#include <sleef.h>
#include <string.h>

#include "loops.h"

#ifndef __AVX512F__
#error "loops_avx512.c must be built with TSA_AVX512_CFLAGS"
#endif

typedef __m512 VF;
typedef float VU __attribute__((vector_size(64), aligned(4), may_alias));
typedef int VI __attribute__((vector_size(64), aligned(4), may_alias));
#define LANES 16
#define SET_F(x) _mm512_set1_ps(x)
#define FMA_F(a, b, c) _mm512_fmadd_ps(a, b, c)
#define MASK_F(w, m) (VF)((VI)(w) & *(const VI *)(m))
#define SUM_F(w) _mm512_reduce_add_ps(w)
#define EXP_F(x) Sleef_finz_expf16_u10avx512f(x)
#define MAX_F(a, b) _mm512_max_ps(a, b)
#define TOP_F(w) _mm512_reduce_max_ps(w)
/* Halves, quarters, ... of the sums side by side: 30 shuffles. */
static inline __m512 reduce_avx512(const __m512 *p)
{
    __m512 t[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512 *x = p + 4 * i;
        const __m512d a = _mm512_castps_pd(
            _mm512_add_ps(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1])));
        const __m512d b = _mm512_castps_pd(
            _mm512_add_ps(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3])));
        t[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    const __m512 low = _mm512_add_ps(_mm512_shuffle_f32x4(t[0], t[1], 0x88),
                                     _mm512_shuffle_f32x4(t[0], t[1], 0xdd));
    const __m512 high = _mm512_add_ps(_mm512_shuffle_f32x4(t[2], t[3], 0x88),
                                      _mm512_shuffle_f32x4(t[2], t[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88),
                         _mm512_shuffle_f32x4(low, high, 0xdd));
}
#define REDUCE_F(p) reduce_avx512(p)
#define HAND_VECTORS 4
#include "loops_tmpl.h"
#include "plain_tmpl.h"
#include "softmax_tmpl.h"

CONTEND_UNIT(avx512);
