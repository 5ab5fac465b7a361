# SPDX-License-Identifier: MIT
# TSA_CHECK_FLOAT: refuse compilers and flags that change the results of IEEE operations.
#
# The flags of the build are tried in the order of the build: ours, then the user's CFLAGS, which
# may undo ours. The first check only compiles and links, so it works for other machines too; the
# second runs. An optimiser that may reorder sums folds the error of TwoSum to the constant 0,
# which turns the call of a function that does not exist into code.

AC_DEFUN([TSA_CHECK_FLOAT],
[# By name too, for these may change only the units that have fma, or not be runnable here.
for tsa_flag in $CFLAGS; do
  AS_CASE([$tsa_flag],
    [-ffp-contract=fast|-ffp-contract=fast-honor-pragmas|-ffast-math|-Ofast|-ffp-model=fast|\
-funsafe-math-optimizations|-fassociative-math|-freciprocal-math|-ffinite-math-only],
    [AC_MSG_ERROR([CFLAGS has $tsa_flag, with which the compiler changes floating-point results.
libtsa promises one result, bit by bit, for which every operation must be done as written.])])
done
tsa_save_CFLAGS=$CFLAGS
CFLAGS="$TSA_CFLAGS $tsa_save_CFLAGS"
AC_CACHE_CHECK([whether floating-point arithmetic is left as written], [tsa_cv_float_link],
  [AC_LINK_IFELSE([AC_LANG_SOURCE([[
#include <float.h>
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "fast-math"
#endif
#if FLT_EVAL_METHOD != 0
#error "excess precision"
#endif
#if FLT_RADIX != 2 || FLT_MANT_DIG != 24 || DBL_MANT_DIG != 53
#error "not IEEE 754"
#endif
void tsa_error_of_sum_was_folded(void);
volatile double x = 1, y = 1e-20;
static double error_of_sum(double a, double b)
{
    double s = a + b, t = s - a;
    return (a - (s - t)) + (b - t);
}
int main(void)
{
    double a = x, b = y, e = error_of_sum(a, b);
#ifdef __GNUC__
    if (__builtin_constant_p(e))
        tsa_error_of_sum_was_folded();
#endif
    return e != 1e-20;
}
]])], [tsa_cv_float_link=yes], [tsa_cv_float_link=no])])
AC_CACHE_CHECK([whether TwoSum, fma and subnormal numbers are exact], [tsa_cv_float_run],
  [AC_RUN_IFELSE([AC_LANG_SOURCE([[
#include <float.h>
#include <math.h>
volatile float fx = 1 + FLT_EPSILON, fy = 1 - FLT_EPSILON / 2, ft = FLT_MIN;
volatile double dx = 1 + DBL_EPSILON, dy = 1 - DBL_EPSILON / 2, dt = DBL_MIN;
int main(void)
{
    /* x*y = 1 + e/2 - e*e/2 rounds to 1 + e/2's neighbour; the rest is known exactly. */
    float a = fx, b = fy, p = a * b, r = fmaf(a, b, -p);
    double c = dx, d = dy, q = c * d, s = fma(c, d, -q);
    if ((double)a * b - p != r || r == 0 || s == 0)
        return 1;
    /* A product and a sum that were contracted to one operation differ here. */
    volatile float minus_p = -p;
    volatile double minus_q = -q;
    float z = minus_p;
    double y = minus_q;
    if (a * b + z != 0 || c * d + y != 0)
        return 2;
    for (int i = 0; i < 60; i++) {
        volatile float u = ldexpf(1 + fx, i % 40), v = -fy / 3;
        float us = u + v, ut = us - u, ue = (u - (us - ut)) + (v - ut);
        if ((double)us + ue != (double)u + v)
            return 3;
        volatile double w = ldexp(1, 53 + i % 40), z = 1;
        double ws = w + z, wt = ws - w, we = (w - (ws - wt)) + (z - wt);
        if ((ws - w) + we != 1)
            return 4;
    }
    if (ft / 4 == 0 || dt / 4 == 0 || ft / 4 * 4 != ft || dt / 4 * 4 != dt)
        return 5;
    return 0;
}
]])], [tsa_cv_float_run=yes], [tsa_cv_float_run=no], [tsa_cv_float_run="not tried"])])
CFLAGS=$tsa_save_CFLAGS
AS_IF([test "$tsa_cv_float_link" = no || test "$tsa_cv_float_run" = no],
  [AC_MSG_ERROR([with CFLAGS="$CFLAGS" the compiler changes floating-point results.
libtsa promises one result, bit by bit, for which every operation must be done as written.
Take -ffast-math, -Ofast, -funsafe-math-optimizations, -ffp-contract=fast, -mfpmath=387 and the
like out of CFLAGS; config.log has the details.])])
])
