/* SPDX-License-Identifier: MIT */
/* The contenders' loops on AVX2 with FMA. */
#include <immintrin.h>
#include <math.h>
#include <sleef.h>
#include <string.h>

#include "loops.h"

#if !defined(__AVX2__) || !defined(__FMA__)
#error "loops_avx2.c must be built with TSA_AVX2_CFLAGS"
#endif

typedef __m256 VF;
typedef float VU __attribute__((vector_size(32), aligned(4), may_alias));
typedef int VI __attribute__((vector_size(32), aligned(4), may_alias));
#define LANES 8
#define SET_F(x) _mm256_set1_ps(x)
#define FMA_F(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MASK_F(w, m) (VF)((VI)(w) & *(const VI *)(m))
static inline float sum_avx2(__m256 w)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
#define SUM_F(w) sum_avx2(w)
#define EXP_F(x) Sleef_finz_expf8_u10avx2(x)
#define MAX_F(a, b) _mm256_max_ps(a, b)
static inline float top_avx2(__m256 w)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
#define TOP_F(w) top_avx2(w)
static inline __m256 reduce_avx2(const __m256 *p)
{
    const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(p[0], p[1]), _mm256_hadd_ps(p[2], p[3]));
    const __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(p[4], p[5]), _mm256_hadd_ps(p[6], p[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
#define REDUCE_F(p) reduce_avx2(p)
#define HAND_VECTORS 2
#include "loops_tmpl.h"
#include "plain_tmpl.h"
#include "softmax_tmpl.h"

CONTEND_UNIT(avx2);
