/* SPDX-License-Identifier: MIT */
/* Vector primitives on one lane of plain C; fused operations are calls of fma(), so the bits are
 * those of every other instruction set.
 *
 * What the primitives of all instruction sets do, for vectors V of VL elements T:
 *   v_load, v_store         whole vectors of any alignment
 *   v_load_first(p, n)      lanes < n, others 0; touches nothing else. 0 <= n <= VL
 *   v_store_first(p, n, x)  lanes < n; touches nothing else. 0 <= n <= VL
 *   v_fma(a, b, c)          a*b + c with one rounding
 *   v_max(a, b)             either operand, if one is NaN
 *   v_absmax(a, x)          maximum of the bits of a, which has no sign, and of |x|: NaN > inf
 *   s_absmax(a)             the largest of the lanes of a, by bits
 *   v_inverse_scale(m)      scale_of() each lane, m >= 0
 *   v_zero_where_zero(x, s) +0 in the lanes where s is 0
 *   v_canonical(x)          NaNs become the canonical quiet NaN
 *   v_from(a, b, k)         b in lanes >= k, a in the others; any k
 *   v_transpose(r)          the VL x VL square r[0..VL-1]
 *   v_exp(x)                SLEEF's exponential, at most 1 ulp off
 * f32 only, and where VL > 1:
 *   v_load_bf16, v_load_f16(p)       VL numbers of any alignment, widened exactly
 *   v_store_bf16, v_store_f16(p, x)  rounded to nearest even, NaNs canonical
 * For pairs of bf16, f32 only, where no instruction multiplies them; each lane holds a pair, the
 * even one in its lower half:
 *   v_pair_even, v_pair_odd(x)  that half of each pair, as f32
 *   v_pair(even, odd)           pairs of numbers rounded to nearest even, subnormals to zero
 *   v_evens, v_odds(a, b)       the even (odd) lanes of a, then those of b */

#define V T
#define VL 1

#define TSA_TILES(X) TSA_ROWS_4(X, 1)
#define TSA_TILE_VECTORS 1
#define TSA_TILE_ROWS 0, 4

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
static inline V v_fma(V a, V b, V c) { return s_fma(a, b, c); }

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

#if TSA_F64
static inline V v_sqrt(V a) { return sqrt(a); }
#define EXP_FMA Sleef_finz_expd1_u10purecfma
#define EXP_PLAIN Sleef_expd1_u10purec
#else
static inline V v_sqrt(V a) { return sqrtf(a); }
#define EXP_FMA Sleef_finz_expf1_u10purecfma
#define EXP_PLAIN Sleef_expf1_u10purec
#endif
static inline V v_exp(V x)
{
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    /* SLEEF's pure C exponential with FMA raises SIGILL on an x86 CPU without FMA */
    if (!__builtin_cpu_supports("fma"))
        return EXP_PLAIN(x);
#endif
    return EXP_FMA(x);
}

#if !TSA_F64
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
/* Rounded to bf16, in the upper half. */
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
#endif
