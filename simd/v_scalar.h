/* SPDX-License-Identifier: MIT */
/* Vector primitives on one lane of plain C; fused operations are calls of fma(), so the bits are
 * those of every other instruction set. Included once per arithmetic type; see v_avx512.h. */

#if TSA_F64
#define v_fma_c fma
#define v_sqrt_c sqrt
#define v_exp_fma Sleef_finz_expd1_u10purecfma
#define v_exp_plain Sleef_expd1_u10purec
#define BITS uint64_t
#else
#define v_fma_c fmaf
#define v_sqrt_c sqrtf
#define v_exp_fma Sleef_finz_expf1_u10purecfma
#define v_exp_plain Sleef_expf1_u10purec
#define BITS uint32_t
#endif
#define V T
#define VL 1

static inline V v_zero(void) { return 0; }
static inline V v_set1(T x) { return x; }
static inline V v_load(const T *p) { return s_load(p); }
static inline void v_store(T *p, V x) { memcpy(p, &x, sizeof x); }
static inline V v_load_first(const T *p, size_t n) { return n ? s_load(p) : 0; }
static inline void v_store_first(T *p, size_t n, V x)
{
    if (n)
        memcpy(p, &x, sizeof x);
}
static inline V v_add(V a, V b) { return a + b; }
static inline V v_sub(V a, V b) { return a - b; }
static inline V v_mul(V a, V b) { return a * b; }
static inline V v_div(V a, V b) { return a / b; }
static inline V v_max(V a, V b) { return a > b ? a : b; }
static inline V v_sqrt(V a) { return v_sqrt_c(a); }
static inline V v_fma(V a, V b, V c) { return v_fma_c(a, b, c); }
static inline T s_fma(T a, T b, T c) { return v_fma_c(a, b, c); }

static inline V v_absmax(V a, V x)
{
    BITS ab, xb;
    memcpy(&ab, &a, sizeof ab);
    memcpy(&xb, &x, sizeof xb);
    xb = xb << 1 >> 1;
    if (xb < ab)
        return a;
    memcpy(&x, &xb, sizeof x);
    return x;
}
static inline T s_absmax(V a) { return a; }
static inline V v_inverse_scale(V absmax) { return scale_of(absmax); }
static inline V v_zero_where_zero(V x, V where) { return where == 0 ? 0 : x; }
static inline V v_canonical(V x) { return x == x ? x : canonical_nan(); }
static inline V v_from(V a, V b, ptrdiff_t k) { return k <= 0 ? b : a; }
TSA_INLINE void v_transpose(V *r) { (void)r; }
static inline V v_exp(V x)
{
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    /* SLEEF's pure C exponential with FMA raises SIGILL on an x86 CPU that has none */
    if (!__builtin_cpu_supports("fma"))
        return v_exp_plain(x);
#endif
    return v_exp_fma(x);
}

#ifdef TSA_OPERAND_PAIRS
static inline V v_pair_even(V x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits <<= 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline V v_pair_odd(V x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* Rounded to bf16, which lies in the upper half. */
static inline uint32_t v_rounded(V x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000) == 0)
        return bits & 0x80000000;
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (bits | 0x400000) & 0xffff0000;
    return (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
}
static inline V v_pair(V even, V odd)
{
    const uint32_t bits = v_rounded(even) >> 16 | v_rounded(odd);
    V x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline V v_evens(V a, V b) { return (void)b, a; }
static inline V v_odds(V a, V b) { return (void)a, b; }
#include "widened_pairs.h"
#endif
#undef v_fma_c
#undef v_sqrt_c
#undef v_exp_fma
#undef v_exp_plain
#undef BITS
