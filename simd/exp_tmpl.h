/* SPDX-License-Identifier: MIT */
/* exp on [-1/2, 1/2], and a rounding beyond, for bounded scores: 1 + x g(x), where g interpolates
 * (e^x - 1) / x at the Chebyshev nodes of the interval, its coefficients rounded to T from 80
 * digits. At most 1 ulp off up to 1/2 + 2^-18 (tests/check_softmax.c tries all from 2^-10 on). */

#if TSA_F64
#define EXP_DEGREE 13
static const T exp_coefficient[EXP_DEGREE + 1] = {
    1.0,
    1.0,
    0x1.0000000000000p-1,
    0x1.5555555555555p-3,
    0x1.55555555555e5p-5,
    0x1.1111111111137p-7,
    0x1.6c16c16bf2c5dp-10,
    0x1.a01a01a006d2ap-13,
    0x1.a01a021b73430p-16,
    0x1.71de3a972f8cap-19,
    0x1.27e42df3ab7bcp-22,
    0x1.ae637b5a397c8p-26,
    0x1.2036290a2a4e6p-29,
    0x1.6282cd6876bd7p-33,
};
#else
#define EXP_DEGREE 7
static const T exp_coefficient[EXP_DEGREE + 1] = {
    1.0f,           1.0f,           0x1.000002p-1f,  0x1.555556p-3f,
    0x1.55527ap-5f, 0x1.110fccp-7f, 0x1.6ef178p-10f, 0x1.a2a31ep-13f,
};
#endif

TSA_INLINE V exp_near_zero(V x)
{
    V p = v_set1(exp_coefficient[EXP_DEGREE]);
    TSA_UNROLL
    for (int j = EXP_DEGREE - 1; j >= 0; j--)
        p = v_fma(p, x, v_set1(exp_coefficient[j]));
    return p;
}

static void exp_bounded(size_t n, const T *x, T *y)
{
    for (size_t i = 0; i < n; i += VL) {
        const size_t k = n - i < VL ? n - i : VL;
        v_store_first(y + i, k, exp_near_zero(v_load_first(x + i, k)));
    }
}
