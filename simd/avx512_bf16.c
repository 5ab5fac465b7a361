/* SPDX-License-Identifier: MIT */
/* The kernels for pairs of bf16 by AVX512_BF16, built with TSA_AVX512BF16_CFLAGS. */
#if !defined(__AVX512BF16__)
#error "avx512_bf16.c must be built with TSA_AVX512BF16_CFLAGS"
#endif
#define TSA_TABLE tsa_kernels_avx512_bf16
#define TSA_TABLE_NAME "avx512_bf16"
#define TSA_TABLE_FAST true
#include "f32.h"
#include "v_avx512.h"

#define O __m512bh
static inline O o_from(V bits) { return (O)v_bits(bits); }
static inline O o_load(const T *p) { return o_from(v_load(p)); }
static inline O o_set1(T pair) { return o_from(v_set1(pair)); }
static inline V o_fma(O a, O b, V c) { return _mm512_dpbf16_ps(c, a, b); }
static inline T o_fma1(T a, T b, T c)
{
    const __m128i x = _mm_castps_si128(_mm_set_ss(a)), y = _mm_castps_si128(_mm_set_ss(b));
    return _mm_cvtss_f32(_mm_dpbf16_ps(_mm_set_ss(c), (__m128bh)x, (__m128bh)y));
}
static inline V o_count(V x, V sum)
{
    return o_fma(o_from(x), (O)_mm512_set1_epi32(0x3f803f80), sum);
}
static inline V v_pair_columns(V a, V b) { return v_of_bits((__m512i)_mm512_cvtne2ps_pbh(b, a)); }
static inline V v_pair(V even, V odd)
{
    const __m512i interleave =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    return v_of_bits(_mm512_permutexvar_epi16(interleave, both));
}

#include "pairs_tmpl.h"
