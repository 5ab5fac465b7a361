/* SPDX-License-Identifier: MIT */
/* All kernels for one arithmetic type, and their table. */

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

#include TSA_VECTORS
typedef V vector;

#include "rows_tmpl.h"
#include "half_tmpl.h"
#include "features_tmpl.h"
#include "exp_tmpl.h"
#include "fold_tmpl.h"
#include "state_tmpl.h"
#include "window_tmpl.h"
#include "decode_tmpl.h"
#include "softmax_tmpl.h"

/* in the order of the struct, which comes from the same list */
#define TSA_KERNEL(result, name, args) name,
#if TSA_F64
static const struct tsa_kernels_f64 table = {
#else
static const struct tsa_kernels_f32 table = {
#endif
#include "kernels.def"
};
#undef TSA_KERNEL
#undef V
#undef VL
