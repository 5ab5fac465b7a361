/* SPDX-License-Identifier: MIT */
/* Vector primitives on AArch64 Advanced SIMD (NEON): 4 f32 or 2 f64. Included once per arithmetic
 * type; v_avx512.h says what each does. */

#if TSA_F64
#define V float64x2_t
#define VL 2
#define v_cast_c vreinterpretq_f64_u64
#define v_bits_c vreinterpretq_u64_f64

static inline V v_zero(void) { return vdupq_n_f64(0); }
static inline V v_set1(T x) { return vdupq_n_f64(x); }
static inline V v_load(const T *p) { return vld1q_f64(p); }
static inline void v_store(T *p, V x) { vst1q_f64(p, x); }
static inline V v_load_first(const T *p, size_t n)
{
    if (n == VL)
        return v_load(p);
    return n > 0 ? vld1q_lane_f64(p, v_zero(), 0) : v_zero();
}
static inline void v_store_first(T *p, size_t n, V x)
{
    if (n == VL)
        v_store(p, x);
    else if (n > 0)
        vst1q_lane_f64(p, x, 0);
}
static inline V v_add(V a, V b) { return vaddq_f64(a, b); }
static inline V v_sub(V a, V b) { return vsubq_f64(a, b); }
static inline V v_mul(V a, V b) { return vmulq_f64(a, b); }
static inline V v_div(V a, V b) { return vdivq_f64(a, b); }
static inline V v_max(V a, V b) { return vmaxq_f64(a, b); }
static inline V v_sqrt(V a) { return vsqrtq_f64(a); }
static inline V v_fma(V a, V b, V c) { return vfmaq_f64(c, a, b); }
static inline T s_fma(T a, T b, T c) { return __builtin_fma(a, b, c); }
static inline V v_absmax(V a, V x)
{
    const uint64x2_t y = vandq_u64(v_bits_c(x), vdupq_n_u64(INT64_MAX));
    return v_cast_c(vbslq_u64(vcgtq_u64(y, v_bits_c(a)), y, v_bits_c(a)));
}
static inline T s_absmax(V a) { return vgetq_lane_f64(v_absmax(a, vextq_f64(a, a, 1)), 0); }
static inline V v_inverse_scale(V absmax)
{
    /* the exponent fits in the low half of its lane, and halves have a minimum and a maximum */
    uint32x4_t e = vreinterpretq_u32_u64(vshrq_n_u64(v_bits_c(absmax), 52));
    e = vmaxq_u32(e, vreinterpretq_u32_u64(vdupq_n_u64(1)));
    e = vminq_u32(e, vreinterpretq_u32_u64(vdupq_n_u64(2045)));
    return v_cast_c(vshlq_n_u64(vsubq_u64(vdupq_n_u64(2046), vreinterpretq_u64_u32(e)), 52));
}
static inline V v_zero_where_zero(V x, V where)
{
    return v_cast_c(vbicq_u64(v_bits_c(x), vceqq_f64(where, v_zero())));
}
static inline V v_canonical(V x) { return vbslq_f64(vceqq_f64(x, x), x, v_set1(canonical_nan())); }
static inline V v_from(V a, V b, ptrdiff_t k)
{
    const uint64x2_t lane = vcombine_u64(vcreate_u64(0), vcreate_u64(1));
    const uint64_t skip = k <= 0 ? 0 : (uint64_t)k;
    return vbslq_f64(vcgeq_u64(lane, vdupq_n_u64(skip)), b, a);
}
TSA_INLINE void v_transpose(V *r)
{
    const V a = vtrn1q_f64(r[0], r[1]);
    r[1] = vtrn2q_f64(r[0], r[1]);
    r[0] = a;
}
static inline V v_exp(V x) { return Sleef_finz_expd2_u10advsimd(x); }

#else

#define V float32x4_t
#define VL 4
#define v_cast_c vreinterpretq_f32_u32
#define v_bits_c vreinterpretq_u32_f32

static inline V v_zero(void) { return vdupq_n_f32(0); }
static inline V v_set1(T x) { return vdupq_n_f32(x); }
static inline V v_load(const T *p) { return vld1q_f32(p); }
static inline void v_store(T *p, V x) { vst1q_f32(p, x); }
static inline V v_load_first(const T *p, size_t n)
{
    if (n == VL)
        return v_load(p);
    V x = v_zero();
    if (n > 0)
        x = vld1q_lane_f32(p, x, 0);
    if (n > 1)
        x = vld1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        x = vld1q_lane_f32(p + 2, x, 2);
    return x;
}
static inline void v_store_first(T *p, size_t n, V x)
{
    if (n == VL) {
        v_store(p, x);
        return;
    }
    if (n > 0)
        vst1q_lane_f32(p, x, 0);
    if (n > 1)
        vst1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        vst1q_lane_f32(p + 2, x, 2);
}
static inline V v_add(V a, V b) { return vaddq_f32(a, b); }
static inline V v_sub(V a, V b) { return vsubq_f32(a, b); }
static inline V v_mul(V a, V b) { return vmulq_f32(a, b); }
static inline V v_div(V a, V b) { return vdivq_f32(a, b); }
static inline V v_max(V a, V b) { return vmaxq_f32(a, b); }
static inline V v_sqrt(V a) { return vsqrtq_f32(a); }
static inline V v_fma(V a, V b, V c) { return vfmaq_f32(c, a, b); }
static inline T s_fma(T a, T b, T c) { return __builtin_fmaf(a, b, c); }
static inline V v_absmax(V a, V x)
{
    return v_cast_c(vmaxq_u32(v_bits_c(a), vandq_u32(v_bits_c(x), vdupq_n_u32(INT32_MAX))));
}
static inline T s_absmax(V a)
{
    a = v_absmax(a, vextq_f32(a, a, 2));
    return vgetq_lane_f32(v_absmax(a, vextq_f32(a, a, 1)), 0);
}
static inline V v_inverse_scale(V absmax)
{
    uint32x4_t e = vshrq_n_u32(v_bits_c(absmax), 23);
    e = vminq_u32(vmaxq_u32(e, vdupq_n_u32(1)), vdupq_n_u32(253));
    return v_cast_c(vshlq_n_u32(vsubq_u32(vdupq_n_u32(254), e), 23));
}
static inline V v_zero_where_zero(V x, V where)
{
    return v_cast_c(vbicq_u32(v_bits_c(x), vceqq_f32(where, v_zero())));
}
static inline V v_canonical(V x) { return vbslq_f32(vceqq_f32(x, x), x, v_set1(canonical_nan())); }
static inline V v_from(V a, V b, ptrdiff_t k)
{
    static const uint32_t lane[VL] = {0, 1, 2, 3};
    const uint32_t skip = k <= 0 ? 0 : k >= VL ? VL : (uint32_t)k;
    return vbslq_f32(vcgeq_u32(vld1q_u32(lane), vdupq_n_u32(skip)), b, a);
}
TSA_INLINE void v_transpose(V *r)
{
    const V a = vzip1q_f32(r[0], r[2]), b = vzip2q_f32(r[0], r[2]);
    const V c = vzip1q_f32(r[1], r[3]), d = vzip2q_f32(r[1], r[3]);
    r[0] = vzip1q_f32(a, c);
    r[1] = vzip2q_f32(a, c);
    r[2] = vzip1q_f32(b, d);
    r[3] = vzip2q_f32(b, d);
}
static inline V v_exp(V x) { return Sleef_finz_expf4_u10advsimd(x); }
static inline V v_load_bf16(const void *p)
{
    return v_cast_c(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16));
}
static inline void v_store_bf16(void *p, V x)
{
    const uint32x4_t b = v_bits_c(v_canonical(x));
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(b, 16), vdupq_n_u32(1));
    vst1_u16(p, vshrn_n_u32(vaddq_u32(b, vaddq_u32(vdupq_n_u32(0x7fff), odd)), 16));
}
static inline V v_load_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline void v_store_f16(void *p, V x)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v_canonical(x))));
}

#ifdef TSA_OPERAND_PAIRS
/* Rounded to bf16, which lies in the upper half. */
static inline uint32x4_t v_rounded(V x)
{
    const uint32x4_t bits = v_bits_c(x), last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t y = vaddq_u32(bits, vaddq_u32(last, vdupq_n_u32(0x7fff)));
    const uint32x4_t exponent = vandq_u32(bits, vdupq_n_u32(0x7f800000));
    y = vbslq_u32(vceqzq_u32(exponent), vandq_u32(bits, vdupq_n_u32(0x80000000)), y);
    y = vbslq_u32(vceqq_f32(x, x), y, vorrq_u32(bits, vdupq_n_u32(0x400000)));
    return vandq_u32(y, vdupq_n_u32(0xffff0000));
}
static inline V v_pair(V even, V odd)
{
    return v_cast_c(vorrq_u32(vshrq_n_u32(v_rounded(even), 16), v_rounded(odd)));
}
static inline V v_evens(V a, V b) { return vuzp1q_f32(a, b); }
static inline V v_odds(V a, V b) { return vuzp2q_f32(a, b); }
static inline V v_pair_even(V x) { return v_cast_c(vshlq_n_u32(v_bits_c(x), 16)); }
static inline V v_pair_odd(V x)
{
    return v_cast_c(vandq_u32(v_bits_c(x), vdupq_n_u32(0xffff0000)));
}
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#define O bfloat16x8_t
static inline O o_from(V bits) { return vreinterpretq_bf16_f32(bits); }
static inline O o_load(const T *p) { return o_from(v_load(p)); }
static inline O o_set1(T pair) { return o_from(v_set1(pair)); }
static inline V o_fma(O a, O b, V c) { return vbfmlalbq_f32(vbfmlaltq_f32(c, a, b), a, b); }
static inline T o_fma1(T a, T b, T c)
{
    return vgetq_lane_f32(o_fma(o_set1(a), o_set1(b), v_set1(c)), 0);
}
static inline V o_count(V x, V sum) { return v_add(v_add(sum, v_pair_odd(x)), v_pair_even(x)); }
static inline V v_pair_cols(V a, V b) { return v_pair(v_evens(a, b), v_odds(a, b)); }
#else
#include "widened_pairs.h"
#endif
#endif
#endif
#undef v_cast_c
#undef v_bits_c
