/* SPDX-License-Identifier: MIT */
/* Vector primitives on AVX2, FMA and F16C: 8 f32 or 4 f64. v_scalar.h says what each does. Masked
 * instructions are for remainders only: on some CPUs a masked store takes as long as twenty plain
 * ones. */
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "kernels for AVX2 must be built with TSA_AVX2_CFLAGS"
#endif
#include <immintrin.h>

/* 12 accumulators, 2 loads of b and 1 broadcast of a in 16 registers; 12 chains hide the latency of
 * the fma at two a cycle. */
#define TSA_TILES(X) TSA_ROWS_12(X, 1) TSA_ROWS_6(X, 2)
#define TSA_TILE_VECTORS 2
#define TSA_TILE_ROWS 0, 12, 6

/* OF(add) adds elements; INTEGERS(add) adds integers of their size. */
#if TSA_F64
#define V __m256d
#define VL 4
#define OF(operation) _mm256_##operation##_pd
#define INTEGERS(operation) _mm256_##operation##_epi64
#define INTEGER_SET1 _mm256_set1_epi64x
static inline __m256i v_bits(V x) { return _mm256_castpd_si256(x); }
static inline V v_of_bits(__m256i x) { return _mm256_castsi256_pd(x); }
static const int64_t first_mask[2 * VL] = {-1, -1, -1, -1};
#else
#define V __m256
#define VL 8
#define OF(operation) _mm256_##operation##_ps
#define INTEGERS(operation) _mm256_##operation##_epi32
#define INTEGER_SET1 _mm256_set1_epi32
static inline __m256i v_bits(V x) { return _mm256_castps_si256(x); }
static inline V v_of_bits(__m256i x) { return _mm256_castsi256_ps(x); }
static const int32_t first_mask[2 * VL] = {-1, -1, -1, -1, -1, -1, -1, -1};
#endif

/* All bits in lanes < n, none in the others; 0 <= n <= VL. */
static inline __m256i v_first(size_t n)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(first_mask + VL - n));
}
static inline V v_zero(void) { return OF(setzero)(); }
static inline V v_set1(T x) { return OF(set1)(x); }
static inline V v_load(const T *p) { return OF(loadu)(p); }
static inline void v_store(T *p, V x) { OF(storeu)(p, x); }
static inline V v_load_first(const T *p, size_t n)
{
    return n == VL ? v_load(p) : OF(maskload)(p, v_first(n));
}
static inline void v_store_first(T *p, size_t n, V x)
{
    if (n == VL)
        v_store(p, x);
    else
        OF(maskstore)(p, v_first(n), x);
}
static inline V v_add(V a, V b) { return OF(add)(a, b); }
static inline V v_sub(V a, V b) { return OF(sub)(a, b); }
static inline V v_mul(V a, V b) { return OF(mul)(a, b); }
static inline V v_div(V a, V b) { return OF(div)(a, b); }
static inline V v_max(V a, V b) { return OF(max)(a, b); }
static inline V v_sqrt(V a) { return OF(sqrt)(a); }
static inline V v_fma(V a, V b, V c) { return OF(fmadd)(a, b, c); }
static inline V v_inverse_scale(V absmax)
{
    /* exponents fit in the low half of a 64-bit lane, so that 32-bit minima and maxima do */
    __m256i e = INTEGERS(srli)(v_bits(absmax), FRACTION);
    e = _mm256_min_epi32(_mm256_max_epi32(e, INTEGER_SET1(1)), INTEGER_SET1(2 * BIAS - 1));
    return v_of_bits(INTEGERS(slli)(INTEGERS(sub)(INTEGER_SET1(2 * BIAS), e), FRACTION));
}
static inline V v_zero_where_zero(V x, V where)
{
    return OF(and)(x, OF(cmp)(where, v_zero(), _CMP_NEQ_UQ));
}
static inline V v_canonical(V x)
{
    return OF(blendv)(x, v_set1(canonical_nan()), OF(cmp)(x, x, _CMP_UNORD_Q));
}
static inline V v_from(V a, V b, ptrdiff_t k)
{
    const size_t skip = k <= 0 ? 0 : k >= VL ? VL : (size_t)k;
    return OF(blendv)(b, a, v_of_bits(v_first(skip)));
}

#if TSA_F64
static inline V v_absmax(V a, V x)
{
    const V y = _mm256_and_pd(x, v_of_bits(_mm256_set1_epi64x(INT64_MAX)));
    return _mm256_blendv_pd(a, y, v_of_bits(_mm256_cmpgt_epi64(v_bits(y), v_bits(a))));
}
static inline T s_absmax(V a)
{
    a = v_absmax(a, _mm256_permute2f128_pd(a, a, 1));
    return _mm256_cvtsd_f64(v_absmax(a, _mm256_permute_pd(a, 5)));
}
TSA_INLINE void v_transpose(V *r)
{
    const V a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    const V c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}
static inline V v_exp(V x) { return Sleef_finz_expd4_u10avx2(x); }

#else

static inline V v_absmax(V a, V x)
{
    const __m256i magnitude = _mm256_set1_epi32(INT32_MAX);
    return v_of_bits(_mm256_max_epi32(v_bits(a), _mm256_and_si256(v_bits(x), magnitude)));
}
static inline T s_absmax(V a)
{
    a = v_absmax(a, _mm256_permute2f128_ps(a, a, 1));
    a = v_absmax(a, _mm256_permute_ps(a, 0x4e));
    return _mm256_cvtss_f32(v_absmax(a, _mm256_permute_ps(a, 0xb1)));
}
TSA_INLINE void v_transpose(V *r)
{
    V t[8];
    TSA_UNROLL
    for (int i = 0; i < 8; i += 4) { /* half l of t[i+j]: column 4l+j of rows i..i+3 */
        const V a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
        const V c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
        const V d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    TSA_UNROLL
    for (int j = 0; j < 4; j++) {
        r[j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x20);
        r[4 + j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x31);
    }
}
static inline V v_exp(V x) { return Sleef_finz_expf8_u10avx2(x); }
static inline V v_load_bf16(const void *p)
{
    return v_of_bits(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
static inline void v_store_bf16(void *p, V x)
{
    const __m256i b = v_bits(v_canonical(x));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd);
    __m256i y = _mm256_srli_epi32(_mm256_add_epi32(b, up), 16);
    y = _mm256_permute4x64_epi64(_mm256_packus_epi32(y, y), 0x08);
    _mm_storeu_si128(p, _mm256_castsi256_si128(y));
}
static inline V v_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
static inline void v_store_f16(void *p, V x)
{
    _mm_storeu_si128(p, _mm256_cvtps_ph(v_canonical(x), _MM_FROUND_TO_NEAREST_INT));
}

static inline V v_pair_even(V x) { return v_of_bits(_mm256_slli_epi32(v_bits(x), 16)); }
static inline V v_pair_odd(V x)
{
    return v_of_bits(_mm256_and_si256(v_bits(x), _mm256_set1_epi32(-0x10000)));
}
/* Rounded to bf16, in the upper half. */
static inline V v_rounded(V x)
{
    const __m256i bits = v_bits(x), zero = _mm256_setzero_si256();
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i y = _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff)));
    const __m256i exponent = _mm256_and_si256(bits, _mm256_set1_epi32(0x7f800000));
    const __m256i sign = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MIN));
    y = _mm256_blendv_epi8(y, sign, _mm256_cmpeq_epi32(exponent, zero));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = v_bits(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return v_pair_odd(v_of_bits(_mm256_blendv_epi8(y, quiet, nan)));
}
static inline V v_pair(V even, V odd)
{
    const __m256i low = _mm256_srli_epi32(v_bits(v_rounded(even)), 16);
    return v_of_bits(_mm256_or_si256(low, v_bits(v_rounded(odd))));
}
static inline V v_evens(V a, V b)
{
    const __m256d x = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(x, 0xd8));
}
static inline V v_odds(V a, V b)
{
    const __m256d x = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(x, 0xd8));
}
#endif
