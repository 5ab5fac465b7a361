/* SPDX-License-Identifier: MIT */
/* Vector primitives on AVX-512 (F, DQ, BW, VL): 16 f32 or 8 f64. v_scalar.h says what each does. */
#if !defined(__AVX512F__) || !defined(__AVX512DQ__) || !defined(__AVX512BW__) ||                   \
    !defined(__AVX512VL__) || !defined(__FMA__)
#error "kernels for AVX-512 must be built with TSA_AVX512_CFLAGS"
#endif
#include <immintrin.h>
#include "tiles_32.h"

/* OF(add) adds elements; INTEGERS(add) adds integers of their size. */
#if TSA_F64
#define V __m512d
#define VL 8
#define MASK __mmask8
#define OF(operation) _mm512_##operation##_pd
#define COMPARE _mm512_cmp_pd_mask
#define INTEGERS(operation) _mm512_##operation##_epi64
#define MAGNITUDE INT64_MAX
static inline __m512i v_bits(V x) { return _mm512_castpd_si512(x); }
static inline V v_of_bits(__m512i x) { return _mm512_castsi512_pd(x); }
#else
#define V __m512
#define VL 16
#define MASK __mmask16
#define OF(operation) _mm512_##operation##_ps
#define COMPARE _mm512_cmp_ps_mask
#define INTEGERS(operation) _mm512_##operation##_epi32
#define MAGNITUDE INT32_MAX
static inline __m512i v_bits(V x) { return _mm512_castps_si512(x); }
static inline V v_of_bits(__m512i x) { return _mm512_castsi512_ps(x); }
#endif

static inline V v_zero(void) { return OF(setzero)(); }
static inline V v_set1(T x) { return OF(set1)(x); }
static inline V v_load(const T *p) { return OF(loadu)(p); }
static inline void v_store(T *p, V x) { OF(storeu)(p, x); }
static inline V v_load_first(const T *p, size_t n)
{
    return OF(maskz_loadu)((MASK)((1u << n) - 1), p);
}
static inline void v_store_first(T *p, size_t n, V x)
{
    OF(mask_storeu)(p, (MASK)((1u << n) - 1), x);
}
static inline V v_add(V a, V b) { return OF(add)(a, b); }
static inline V v_sub(V a, V b) { return OF(sub)(a, b); }
static inline V v_mul(V a, V b) { return OF(mul)(a, b); }
static inline V v_div(V a, V b) { return OF(div)(a, b); }
static inline V v_max(V a, V b) { return OF(max)(a, b); }
static inline V v_sqrt(V a) { return OF(sqrt)(a); }
static inline V v_fma(V a, V b, V c) { return OF(fmadd)(a, b, c); }
static inline V v_absmax(V a, V x)
{
    const __m512i magnitude = _mm512_and_si512(v_bits(x), INTEGERS(set1)(MAGNITUDE));
    return v_of_bits(INTEGERS(max)(v_bits(a), magnitude));
}
static inline T s_absmax(V a)
{
    const BITS bits = (BITS)INTEGERS(reduce_max)(v_bits(a));
    T x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline V v_inverse_scale(V absmax)
{
    __m512i e = INTEGERS(srli)(v_bits(absmax), FRACTION);
    e = INTEGERS(min)(INTEGERS(max)(e, INTEGERS(set1)(1)), INTEGERS(set1)(2 * BIAS - 1));
    return v_of_bits(INTEGERS(slli)(INTEGERS(sub)(INTEGERS(set1)(2 * BIAS), e), FRACTION));
}
static inline V v_zero_where_zero(V x, V where)
{
    return OF(maskz_mov)(COMPARE(where, v_zero(), _CMP_NEQ_UQ), x);
}
static inline V v_canonical(V x)
{
    return OF(mask_mov)(x, COMPARE(x, x, _CMP_UNORD_Q), v_set1(canonical_nan()));
}
static inline V v_from(V a, V b, ptrdiff_t k)
{
    const unsigned skip = k <= 0 ? 0 : k >= VL ? VL : (unsigned)k;
    return OF(mask_mov)(a, (MASK)(((1u << VL) - 1) << skip), b);
}

#if TSA_F64
TSA_INLINE void v_transpose(V *r)
{
    V t[8];
    TSA_UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
    TSA_UNROLL
    for (int j = 0; j < 2; j++) { /* 4 x 4 transpose of 128-bit quarters */
        const V a = _mm512_shuffle_f64x2(t[j], t[2 + j], 0x88);
        const V b = _mm512_shuffle_f64x2(t[4 + j], t[6 + j], 0x88);
        const V c = _mm512_shuffle_f64x2(t[j], t[2 + j], 0xdd);
        const V d = _mm512_shuffle_f64x2(t[4 + j], t[6 + j], 0xdd);
        r[j] = _mm512_shuffle_f64x2(a, b, 0x88);
        r[4 + j] = _mm512_shuffle_f64x2(a, b, 0xdd);
        r[2 + j] = _mm512_shuffle_f64x2(c, d, 0x88);
        r[6 + j] = _mm512_shuffle_f64x2(c, d, 0xdd);
    }
}
static inline V v_exp(V x) { return Sleef_finz_expd8_u10avx512f(x); }

#else

TSA_INLINE void v_transpose(V *r)
{
    V t[16];
    TSA_UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    TSA_UNROLL
    for (int i = 0; i < 16; i += 4) { /* quarter l of r[i+j]: column 4l+j of rows i..i+3 */
        const __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 2]);
        const __m512d c = _mm512_castps_pd(t[i + 1]), d = _mm512_castps_pd(t[i + 3]);
        r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
        r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
    }
    TSA_UNROLL
    for (int j = 0; j < 4; j++) { /* 4 x 4 transpose of 128-bit quarters */
        const V a = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88);
        const V b = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
        const V c = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
        const V d = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
        r[j] = _mm512_shuffle_f32x4(a, b, 0x88);
        r[8 + j] = _mm512_shuffle_f32x4(a, b, 0xdd);
        r[4 + j] = _mm512_shuffle_f32x4(c, d, 0x88);
        r[12 + j] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}
static inline V v_exp(V x) { return Sleef_finz_expf16_u10avx512f(x); }
static inline V v_load_bf16(const void *p)
{
    const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
    return v_of_bits(_mm512_slli_epi32(x, 16));
}
static inline void v_store_bf16(void *p, V x)
{
    /* by integers: the instruction for it takes subnormal numbers for 0 */
    const __m512i b = v_bits(v_canonical(x));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd);
    const __m512i y = _mm512_srli_epi32(_mm512_add_epi32(b, up), 16);
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(y));
}
static inline V v_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
static inline void v_store_f16(void *p, V x)
{
    const __m256i y =
        _mm512_cvtps_ph(v_canonical(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(p, y);
}
#endif
