/* SPDX-License-Identifier: MIT */
/* Vector primitives on AVX-512 (F, DQ, BW, VL): 16 f32 or 8 f64. Included once per arithmetic type,
 * with TSA_F64 set and the names below mapped to typed ones by names.h.
 *
 *   v_load_first(p, n)      lanes < n, others 0; touches nothing else. 0 <= n <= VL
 *   v_fma(a, b, c)          a*b + c with one rounding
 *   v_max(a, b)             either operand, if one is NaN
 *   v_absmax(a, x)          maximum of the bits of a (absolute already) and |x|, so NaN > inf
 *   s_absmax(a)             the largest of the lanes of a, by bits
 *   v_inverse_scale(m)      2^-e with e = ilogb(m) clamped, m >= 0
 *   v_zero_where_zero(x, s) +0 in the lanes where s is 0
 *   v_canonical(x)          NaNs become the canonical quiet NaN
 *   v_from(a, b, k)         b in lanes >= k, a in the others; any k
 *   v_transpose(r)          the VL x VL square r[0..VL-1]
 *   v_load_bf16(p)          f32 only: VL bf16 of any alignment, widened exactly; so v_load_f16
 *   v_store_bf16(p, x)      f32 only: rounded to nearest even, NaNs canonical; so v_store_f16
 */

#if TSA_F64
#define V __m512d
#define VL 8
static inline V v_zero(void) { return _mm512_setzero_pd(); }
static inline V v_set1(T x) { return _mm512_set1_pd(x); }
static inline V v_load(const T *p) { return _mm512_loadu_pd(p); }
static inline void v_store(T *p, V x) { _mm512_storeu_pd(p, x); }
static inline V v_load_first(const T *p, size_t n)
{
    return _mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
}
static inline void v_store_first(T *p, size_t n, V x)
{
    _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), x);
}
static inline V v_add(V a, V b) { return _mm512_add_pd(a, b); }
static inline V v_sub(V a, V b) { return _mm512_sub_pd(a, b); }
static inline V v_mul(V a, V b) { return _mm512_mul_pd(a, b); }
static inline V v_div(V a, V b) { return _mm512_div_pd(a, b); }
static inline V v_max(V a, V b) { return _mm512_max_pd(a, b); }
static inline V v_sqrt(V a) { return _mm512_sqrt_pd(a); }
static inline V v_fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
static inline T s_fma(T a, T b, T c) { return __builtin_fma(a, b, c); }
static inline V v_absmax(V a, V x)
{
    const __m512i magnitude = _mm512_set1_epi64(INT64_MAX);
    return _mm512_castsi512_pd(_mm512_max_epi64(
        _mm512_castpd_si512(a), _mm512_and_si512(_mm512_castpd_si512(x), magnitude)));
}
static inline T s_absmax(V a)
{
    const int64_t bits = _mm512_reduce_max_epi64(_mm512_castpd_si512(a));
    T x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline V v_inverse_scale(V absmax)
{
    __m512i e = _mm512_srli_epi64(_mm512_castpd_si512(absmax), 52);
    e = _mm512_min_epi64(_mm512_max_epi64(e, _mm512_set1_epi64(1)), _mm512_set1_epi64(2045));
    return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_sub_epi64(_mm512_set1_epi64(2046), e), 52));
}
static inline V v_zero_where_zero(V x, V where)
{
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(where, _mm512_setzero_pd(), _CMP_NEQ_UQ), x);
}
static inline V v_canonical(V x)
{
    return _mm512_mask_mov_pd(x, _mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q),
                              _mm512_castsi512_pd(_mm512_set1_epi64(0x7ff8000000000000)));
}
static inline V v_from(V a, V b, ptrdiff_t k)
{
    const unsigned skip = k <= 0 ? 0 : k >= VL ? VL : (unsigned)k;
    return _mm512_mask_mov_pd(a, (__mmask8)(0xffu << skip), b);
}
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

#define V __m512
#define VL 16
static inline V v_zero(void) { return _mm512_setzero_ps(); }
static inline V v_set1(T x) { return _mm512_set1_ps(x); }
static inline V v_load(const T *p) { return _mm512_loadu_ps(p); }
static inline void v_store(T *p, V x) { _mm512_storeu_ps(p, x); }
static inline V v_load_first(const T *p, size_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
static inline void v_store_first(T *p, size_t n, V x)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), x);
}
static inline V v_add(V a, V b) { return _mm512_add_ps(a, b); }
static inline V v_sub(V a, V b) { return _mm512_sub_ps(a, b); }
static inline V v_mul(V a, V b) { return _mm512_mul_ps(a, b); }
static inline V v_div(V a, V b) { return _mm512_div_ps(a, b); }
static inline V v_max(V a, V b) { return _mm512_max_ps(a, b); }
static inline V v_sqrt(V a) { return _mm512_sqrt_ps(a); }
static inline V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
static inline T s_fma(T a, T b, T c) { return __builtin_fmaf(a, b, c); }
static inline V v_absmax(V a, V x)
{
    const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
    return _mm512_castsi512_ps(_mm512_max_epi32(
        _mm512_castps_si512(a), _mm512_and_si512(_mm512_castps_si512(x), magnitude)));
}
static inline T s_absmax(V a)
{
    const int32_t bits = _mm512_reduce_max_epi32(_mm512_castps_si512(a));
    T x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline V v_inverse_scale(V absmax)
{
    __m512i e = _mm512_srli_epi32(_mm512_castps_si512(absmax), 23);
    e = _mm512_min_epi32(_mm512_max_epi32(e, _mm512_set1_epi32(1)), _mm512_set1_epi32(253));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(254), e), 23));
}
static inline V v_zero_where_zero(V x, V where)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(where, _mm512_setzero_ps(), _CMP_NEQ_UQ), x);
}
static inline V v_canonical(V x)
{
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                              _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
}
static inline V v_from(V a, V b, ptrdiff_t k)
{
    const unsigned skip = k <= 0 ? 0 : k >= VL ? VL : (unsigned)k;
    return _mm512_mask_mov_ps(a, (__mmask16)(0xffffu << skip), b);
}
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
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
static inline void v_store_bf16(void *p, V x)
{
    /* not by the instruction for it, which takes subnormal numbers for 0 */
    const __m512i b = _mm512_castps_si512(v_canonical(x));
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

#ifdef TSA_OPERAND_PAIRS /* AVX512_BF16 */
#define O __m512bh
static inline O o_from(V bits) { return (O)_mm512_castps_si512(bits); }
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
static inline V v_pair_cols(V a, V b)
{
    return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(b, a));
}
static inline V v_pair(V even, V odd)
{
    const __m512i interleave =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(interleave, both));
}
#endif
#endif
