/* SPDX-License-Identifier: MIT */
/* Coefficients for random unit rows: the fit is the best one, by moments; and brings outputs nearer
 * to softmax by as much as it should. */
#include <math.h>
#include <stdlib.h>

#include "support.h"

static struct tsa_plan *sphere_plan(size_t d, size_t terms, double a, enum tsa_series series)
{
    struct tsa_options options;
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.head_dim = d;
    options.value_dim = 1;
    options.terms = terms;
    options.temperature = a;
    options.series = series;
    options.dtype = TSA_F64;
    return make_plan(&options);
}

/* The mean of t^m over dot products t of random unit vectors: 0 for odd m, else the product of
 * (2i+1)/(d+2i), i < m/2. */
static long double moment(size_t d, size_t m)
{
    long double x = 1;
    for (size_t i = 0; i < m / 2; i++)
        x *= (long double)(2 * i + 1) / (long double)(d + 2 * i);
    return m % 2 ? 0 : x;
}

/* The error of the best polynomial is orthogonal to every power: the mean of
 * (exp(t/a) - p(t/a)) t^j is 0 for j < terms. */
START_TEST(normal_equations)
{
    static const size_t dims[] = {1, 2, 3, 4, 8, 16, 64, 128};
    static const double temperatures[] = {0.5, 1, 2, 8};
    const size_t d = dims[_i / 4];
    const double a = temperatures[_i % 4];
    for (size_t terms = 1; terms <= TSA_MAX_TERMS; terms++) {
        double c[TSA_MAX_TERMS];
        tsa_sphere_coefficients(d, terms, a, c);
        for (size_t j = 0; j < terms; j++) {
            long double mean = 0, term = 1, size = 0;
            for (size_t m = 0; m < 60; term /= a * (long double)++m)
                mean += term * moment(d, m + j);
            size = mean;
            term = 1;
            for (size_t m = 0; m < terms; m++, term /= a) {
                mean -= (long double)c[m] * term * moment(d, m + j);
                size += fabsl((long double)c[m] * term * moment(d, m + j));
            }
            CHECK(fabsl(mean) <= 100 * 0x1p-53L * size, "d %d, %d terms, a %g: t^%d leaves %Lg",
                  (int)d, (int)terms, a, (int)j, mean);
        }
    }
}
END_TEST

static double mean_square(const struct tsa_plan *plan, size_t d, size_t terms, double a)
{
    struct rng r = {77};
    struct tsa_error err;
    double c[TSA_MAX_TERMS], sum = 0;
    ok(tsa_plan_coefficients(plan, 0, c, &err), &err);
    for (int n = 0; n < 20000; n++) {
        double first = 0, square = 0;
        for (size_t i = 0; i < d; i++) { /* the first column of a random unit row */
            const double x = rng_normal(&r);
            first = i == 0 ? x : first;
            square += x * x;
        }
        const double x = first / sqrt(square) / a;
        double p = c[terms - 1];
        for (size_t m = terms - 1; m-- > 0;)
            p = p * x + c[m];
        sum += (exp(x) - p) * (exp(x) - p);
    }
    return sqrt(sum / 20000);
}

/* Nearer to the exponential than its series, by the factors that doc/accuracy.md has for
 * head_dim 16 and temperature 2; far outside of what 20,000 samples can miss. */
START_TEST(gains)
{
    static const double least[] = {1.4, 1.8, 3, 4.5}, most[] = {2.2, 3, 5, 7.5};
    const size_t terms = 3 + (size_t)_i;
    struct tsa_plan *sphere = sphere_plan(16, terms, 2, TSA_COEFFICIENTS_SPHERE);
    struct tsa_plan *taylor = sphere_plan(16, terms, 2, TSA_COEFFICIENTS_TAYLOR);
    const double gain = mean_square(taylor, 16, terms, 2) / mean_square(sphere, 16, terms, 2);
    CHECK(gain > least[_i] && gain < most[_i], "%d terms: %g times nearer", (int)terms, gain);
    tsa_plan_destroy(sphere);
    tsa_plan_destroy(taylor);
}
END_TEST

/* A set of coefficients for each temperature, and what is refused. */
START_TEST(plans)
{
    static const double temperatures[] = {2, 1, 2, 4};
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_plan *plan;
    double c[4][3], one[3];
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.head_dim = 16;
    options.value_dim = 1;
    options.heads = 4;
    options.temperatures = temperatures;
    options.series = TSA_COEFFICIENTS_SPHERE;
    plan = make_plan(&options);
    for (size_t h = 0; h < 4; h++) {
        ok(tsa_plan_coefficients(plan, h, c[h], &err), &err);
        struct tsa_plan *alone = sphere_plan(16, 3, temperatures[h], TSA_COEFFICIENTS_SPHERE);
        ok(tsa_plan_coefficients(alone, 0, one, &err), &err);
        assert_bits(c[h], one, TSA_F64, 3, "coefficients of a head");
        tsa_plan_destroy(alone);
    }
    assert_error(&err, tsa_plan_coefficients(plan, 4, one, &err), TSA_EINVAL, "head");
    assert_error(&err, tsa_plan_coefficients(NULL, 0, one, &err), TSA_EINVAL, "plan");
    ck_assert_int_eq(tsa_plan_coefficients(plan, 0, NULL, &err), TSA_EINVAL);
    tsa_plan_destroy(plan);
    options.normalize = TSA_NORMALIZE_NONE;
    assert_error(&err, tsa_plan_create(&options, &plan, &err), TSA_EINVAL, "series");
    options.normalize = TSA_NORMALIZE_L2;
    options.coefficients = one;
    assert_error(&err, tsa_plan_create(&options, &plan, &err), TSA_EINVAL, "series");
    options.coefficients = NULL;
    options.series = (enum tsa_series)2;
    assert_error(&err, tsa_plan_create(&options, &plan, &err), TSA_EINVAL, "series");
    options.series = TSA_COEFFICIENTS_SPHERE;
    options.temperatures = NULL;
    options.temperature = 0.009;
    assert_error(&err, tsa_plan_create(&options, &plan, &err), TSA_EINVAL, "temperature");
    options.temperature = 0.01; /* exp(100) is within f32 only as far as its coefficients are */
    options.dtype = TSA_F64;
    plan = make_plan(&options);
    tsa_plan_destroy(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sphere");
    tcase_add_loop_test(add_case(suite, "normal_equations"), normal_equations, 0, 32);
    tcase_add_loop_test(add_case(suite, "gains"), gains, 0, 4);
    tcase_add_test(add_case(suite, "plans"), plans);
    return run_suite(suite);
}
