/* SPDX-License-Identifier: MIT */
/* Single elements: what the vector headers and the templates need of them. */

static inline T canonical_nan(void)
{
    const BITS bits = CANONICAL_NAN;
    T x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^-e, e = ilogb(absmax) clamped to the exponents whose negative is one too; bits alone, so that
 * zero, subnormal numbers, infinity and NaN have a value as well. */
static inline T scale_of(T absmax)
{
    BITS bits;
    memcpy(&bits, &absmax, sizeof bits);
    BITS e = bits >> FRACTION;
    e = e < 1 ? 1 : e > 2 * BIAS - 1 ? 2 * BIAS - 1 : e;
    bits = (2 * BIAS - e) << FRACTION;
    memcpy(&absmax, &bits, sizeof bits);
    return absmax;
}

/* One element of user memory, of any alignment. */
static inline T s_load(const T *p)
{
    T x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* a*b + c with one rounding. */
static inline T s_fma(T a, T b, T c) { return T_FMA(a, b, c); }
