/* SPDX-License-Identifier: MIT */
/* What the kernel tests need to know about their type T: float if TEST_F64 is 0, else double; and
 * with TEST_PAIRS, products of pairs of bf16. REAL is the wider type of the references. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#ifndef FP_FAST_FMA
#define FP_FAST_FMA /* makes sleef.h declare EXP_FMA */
#endif
#include <sleef.h>

#include "half_model.h"
#include "kcheck.h"

#if TEST_F64
#define T double
#define ARGS TSA_ARGS_F64
#define REAL long double
#define BITS uint64_t
#define SIGN_BIT (UINT64_C(1) << 63)
#define CANONICAL_NAN UINT64_C(0x7ff8000000000000)
#define KERNELS tsa_kernels_f64
#define TABLE(isa) ((isa)->f64)
#define U 0x1p-53L
#define TINY 0x1p-1074L
#define LARGEST ((REAL)DBL_MAX)
#define T_FRACTION 52
#define NEXT nextafter
#define E_CLAMP 1022
#define FMA(a, b, c) fma(a, b, c)
#define FABS fabs
#define SQRT sqrt
#define EXP_FMA Sleef_finz_expd1_u10purecfma
#define EXP_PLAIN Sleef_expd1_u10purec
#define ILOGB ilogb
#define SCALBN scalbn
#define R_FABS fabsl
#define R_SQRT sqrtl
#define R_EXP expl
/* the references themselves may have no more precision than T */
#define SLACK (LDBL_MANT_DIG > 53 ? 1.01L : 2.02L)
#else
#define T float
#define ARGS TSA_ARGS_F32
#define REAL double
#define BITS uint32_t
#define SIGN_BIT (UINT32_C(1) << 31)
#define CANONICAL_NAN UINT32_C(0x7fc00000)
#if TEST_PAIRS
#define KERNELS tsa_pair_kernels_f32
#define TABLE(isa) ((isa)->pair_kernels)
#else
#define KERNELS tsa_kernels_f32
#define TABLE(isa) ((isa)->f32)
#endif
#define U 0x1p-24
#define TINY 0x1p-149
#define LARGEST ((REAL)FLT_MAX)
#define T_FRACTION 23
#define NEXT nextafterf
#define E_CLAMP 126
#define FMA(a, b, c) fmaf(a, b, c)
#define FABS fabsf
#define SQRT sqrtf
#define EXP_FMA Sleef_finz_expf1_u10purecfma
#define EXP_PLAIN Sleef_expf1_u10purec
#define ILOGB ilogbf
#define SCALBN scalbnf
#define R_FABS fabs
#define R_SQRT sqrt
#define R_EXP exp
#define SLACK 1.01
#endif

#define LINE (TSA_ALIGN / sizeof(T)) /* elements of a cache line */
#define ROW16(n) tsa_round_up(n, TSA_ROW_PAD)
/* Elements of a vector of the table: what value columns are counted in. */
#define LANES(kc) ((kc)->isa->lanes > 1 ? (kc)->isa->lanes * sizeof(float) / sizeof(T) : 1)
/* A row of at least n elements, padded to 16, sometimes longer. */
#define SOME_LD(kc, n) (ROW16((n) + 1 - ((n) != 0)) + TSA_ROW_PAD * kc_between(kc, 0, 2))

/* Row 0 of an array: the kernel's, the model's, and as both found it. */
#define GOT(a) ((T *)(void *)(a)->data + (a)->origin)
#define WANT(a) ((T *)(void *)(a)->want + (a)->origin)
#define BEFORE(a) ((const T *)(const void *)(a)->before + (a)->origin)
/* Run a call twice: `for (SIDES) K->name(..., P(array), ...)`, the table's kernel on its arrays,
 * then the model on the copies. */
#define SIDES                                                                                      \
    int side = 0;                                                                                  \
    side < 2;                                                                                      \
    side++
#define K (side ? &model : table)
#define P(a) (side ? WANT(a) : GOT(a))

/* |got - ref| <= error, unless numbers on the way may have overflowed: errors here are at least
 * U times the largest of them. */
static void near(struct kc *kc, const struct kc_array *a, size_t row, size_t col, REAL ref,
                 REAL error)
{
    T got = GOT(a)[(ptrdiff_t)row * a->ld + (ptrdiff_t)col];

    if (!(R_FABS(ref) + error / U < LARGEST / 8))
        return;
    if (!(R_FABS((REAL)got - ref) <= error * SLACK))
        kc_fail(kc, "%s[%zu][%zu] = %.17g, the reference is %.17g: off by %.3g, allowed %.3g",
                a->name, row, col, (double)got, (double)ref, (double)R_FABS((REAL)got - ref),
                (double)(error * SLACK));
}

/* Of a chain of `length` fused operations whose terms have magnitudes that add up to sum: each
 * step rounds once, relative U of a partial sum that is at most sum (1 + length U). */
static REAL chain_error(size_t length, REAL sum)
{
    return ((REAL)length + 2) * (U * sum + TINY);
}

static inline size_t some_line_ld(struct kc *kc, size_t cols)
{
    return tsa_round_up(cols != 0 ? cols : 1, LINE) + LINE * kc_between(kc, 0, 2);
}

/* KC_ANY; sometimes with infinities and NaNs, which must stay in their chains. */
static inline enum kc_data some_terms(struct kc *kc)
{
    return kc_chance(kc, 5) ? KC_SPECIAL : KC_ANY;
}
