/* SPDX-License-Identifier: MIT */
/* Vector primitives on AArch64 Advanced SIMD (NEON), which every such CPU has: 4 f32 or 2 f64.
 * v_scalar.h says what each does. */
#if !defined(__aarch64__) || !defined(__ARM_NEON)
#error "kernels for NEON are for AArch64"
#endif
#include <arm_neon.h>
#include "tiles_32.h"

/* OF(vadd) adds elements; INTEGERS(vadd) adds integers of their size. */
#if TSA_F64
#define V float64x2_t
#define VL 2
#define OF(operation) operation##q_f64
#define OF_SET1 vdupq_n_f64
#define INTEGERS(operation) operation##q_u64
static inline uint64x2_t v_bits(V x) { return vreinterpretq_u64_f64(x); }
static inline V v_of_bits(uint64x2_t x) { return vreinterpretq_f64_u64(x); }
#else
#define V float32x4_t
#define VL 4
#define OF(operation) operation##q_f32
#define OF_SET1 vdupq_n_f32
#define INTEGERS(operation) operation##q_u32
static inline uint32x4_t v_bits(V x) { return vreinterpretq_u32_f32(x); }
static inline V v_of_bits(uint32x4_t x) { return vreinterpretq_f32_u32(x); }
#endif

static inline V v_zero(void) { return OF_SET1(0); }
static inline V v_set1(T x) { return OF_SET1(x); }
static inline V v_load(const T *p) { return OF(vld1)(p); }
static inline void v_store(T *p, V x) { OF(vst1)(p, x); }
static inline V v_add(V a, V b) { return OF(vadd)(a, b); }
static inline V v_sub(V a, V b) { return OF(vsub)(a, b); }
static inline V v_mul(V a, V b) { return OF(vmul)(a, b); }
static inline V v_div(V a, V b) { return OF(vdiv)(a, b); }
static inline V v_max(V a, V b) { return OF(vmax)(a, b); }
static inline V v_sqrt(V a) { return OF(vsqrt)(a); }
static inline V v_fma(V a, V b, V c) { return OF(vfma)(c, a, b); }
static inline V v_zero_where_zero(V x, V where)
{
    return v_of_bits(INTEGERS(vbic)(v_bits(x), OF(vceq)(where, v_zero())));
}
static inline V v_canonical(V x) { return OF(vbsl)(OF(vceq)(x, x), x, v_set1(canonical_nan())); }

#if TSA_F64
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
static inline V v_absmax(V a, V x)
{
    const uint64x2_t y = vandq_u64(v_bits(x), vdupq_n_u64(INT64_MAX));
    return v_of_bits(vbslq_u64(vcgtq_u64(y, v_bits(a)), y, v_bits(a)));
}
static inline T s_absmax(V a) { return vgetq_lane_f64(v_absmax(a, vextq_f64(a, a, 1)), 0); }
static inline V v_inverse_scale(V absmax)
{
    /* exponents fit in the low half of a lane, and halves have a minimum and a maximum */
    uint32x4_t e = vreinterpretq_u32_u64(vshrq_n_u64(v_bits(absmax), FRACTION));
    e = vmaxq_u32(e, vreinterpretq_u32_u64(vdupq_n_u64(1)));
    e = vminq_u32(e, vreinterpretq_u32_u64(vdupq_n_u64(2 * BIAS - 1)));
    return v_of_bits(
        vshlq_n_u64(vsubq_u64(vdupq_n_u64(2 * BIAS), vreinterpretq_u64_u32(e)), FRACTION));
}
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
static inline V v_absmax(V a, V x)
{
    return v_of_bits(vmaxq_u32(v_bits(a), vandq_u32(v_bits(x), vdupq_n_u32(INT32_MAX))));
}
static inline T s_absmax(V a)
{
    a = v_absmax(a, vextq_f32(a, a, 2));
    return vgetq_lane_f32(v_absmax(a, vextq_f32(a, a, 1)), 0);
}
static inline V v_inverse_scale(V absmax)
{
    uint32x4_t e = vshrq_n_u32(v_bits(absmax), FRACTION);
    e = vminq_u32(vmaxq_u32(e, vdupq_n_u32(1)), vdupq_n_u32(2 * BIAS - 1));
    return v_of_bits(vshlq_n_u32(vsubq_u32(vdupq_n_u32(2 * BIAS), e), FRACTION));
}
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
    return v_of_bits(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16));
}
static inline void v_store_bf16(void *p, V x)
{
    const uint32x4_t b = v_bits(v_canonical(x));
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

static inline V v_pair_even(V x) { return v_of_bits(vshlq_n_u32(v_bits(x), 16)); }
static inline V v_pair_odd(V x) { return v_of_bits(vandq_u32(v_bits(x), vdupq_n_u32(0xffff0000))); }
/* Rounded to bf16, in the upper half. */
static inline uint32x4_t v_rounded(V x)
{
    const uint32x4_t bits = v_bits(x), last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t y = vaddq_u32(bits, vaddq_u32(last, vdupq_n_u32(0x7fff)));
    const uint32x4_t exponent = vandq_u32(bits, vdupq_n_u32(0x7f800000));
    y = vbslq_u32(vceqzq_u32(exponent), vandq_u32(bits, vdupq_n_u32(0x80000000)), y);
    y = vbslq_u32(vceqq_f32(x, x), y, vorrq_u32(bits, vdupq_n_u32(0x400000)));
    return vandq_u32(y, vdupq_n_u32(0xffff0000));
}
static inline V v_pair(V even, V odd)
{
    return v_of_bits(vorrq_u32(vshrq_n_u32(v_rounded(even), 16), v_rounded(odd)));
}
static inline V v_evens(V a, V b) { return vuzp1q_f32(a, b); }
static inline V v_odds(V a, V b) { return vuzp2q_f32(a, b); }
#endif
