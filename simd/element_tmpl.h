/* SPDX-License-Identifier: MIT */
/* Single elements: what the vector headers and the templates need of them. */

static inline T canonical_nan(void)
{
#if TSA_F64
    const uint64_t bits = UINT64_C(0x7ff8000000000000);
#else
    const uint32_t bits = UINT32_C(0x7fc00000);
#endif
    T x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^-e, e = ilogb(absmax) clamped to the exponents whose negative is one too; bits alone, so that
 * zero, denormals, infinity and NaN have a value as well. */
static inline T scale_of(T absmax)
{
#if TSA_F64
    uint64_t bits;
    memcpy(&bits, &absmax, sizeof bits);
    uint64_t e = bits >> 52;
    e = e < 1 ? 1 : e > 2045 ? 2045 : e;
    bits = (2046 - e) << 52;
#else
    uint32_t bits;
    memcpy(&bits, &absmax, sizeof bits);
    uint32_t e = bits >> 23;
    e = e < 1 ? 1 : e > 253 ? 253 : e;
    bits = (254 - e) << 23;
#endif
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
