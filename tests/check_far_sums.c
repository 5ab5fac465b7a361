/* SPDX-License-Identifier: MIT */
/* Sums after so many folds that the roundings of their low parts add up. */
#include <math.h>
#include <string.h>

#include "support.h"

#define U 0x1p-24
#define LANES 16

/* The error that doc/math.md allows after `folds` chunks of C, relative to the sum of magnitudes.
 */
static double allowed(double chunk, double folds)
{
    return (chunk + 2 + U * folds) * U;
}

/* The kernel, with a large sum and chunks whose values the low part rounds to the same side each
 * time: what it loses is more than (C + 2) u, and stays within the bound. Sums, values and their
 * number fit in double exactly. */
START_TEST(many_folds)
{
    const char *isa = usable_isa(0);
    const struct tsa_isa *found;
    struct tsa_error err;
    const double folds = quick() ? 0x1p20 : 0x1p26;
    float hi[LANES], lo[LANES], local[LANES];
    ok(tsa_isa_find(isa, &found, &err), &err);
    for (int i = 0; i < LANES; i++) {
        hi[i] = 0x1p60f;
        lo[i] = 0x1p35f; /* half of the most; its steps are 2^12 */
        local[i] = (float)((0.99 - 0.0001 * i) * 0x1p12);
    }
    double before[LANES];
    for (int i = 0; i < LANES; i++)
        before[i] = (double)hi[i] + (double)lo[i];
    for (double n = 0; n < folds; n++)
        found->f32->fold(LANES, hi, lo, 1, local, NULL);
    double largest = 0;
    for (int i = 0; i < LANES; i++) {
        const double sum = before[i] + folds * (double)local[i];
        const double error = fabs((double)hi[i] + (double)lo[i] - sum) / sum;
        CHECK(error <= allowed(1, folds), "lane %d: %g, allowed %g", i, error, allowed(1, folds));
        largest = error > largest ? error : largest;
    }
    if (!quick())
        ck_assert_double_gt(largest, 3 * U); /* the part that grows with the folds is needed */
}
END_TEST

/* Counts are exact up to 2^48. */
START_TEST(counts)
{
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
        const struct tsa_isa *found;
        struct tsa_error err;
        const uint64_t folds = 200000, most = (uint64_t)1 << 48;
        float hi[LANES], lo[LANES], local[LANES];
        uint64_t before[LANES];
        ok(tsa_isa_find(isa, &found, &err), &err);
        for (int j = 0; j < LANES; j++) {
            local[j] = (float)(1 + 3 * j);
            before[j] = most - (uint64_t)(1 + 3 * j) * folds;
            hi[j] = (float)before[j];
            lo[j] = (float)((int64_t)before[j] - (int64_t)hi[j]);
        }
        for (uint64_t n = 1; n <= folds; n++) {
            found->f32->fold(LANES, hi, lo, 1, local, NULL);
            for (int j = 0; j < LANES && (n % 1000 == 0 || n < 100); j++)
                CHECK((uint64_t)((int64_t)hi[j] + (int64_t)lo[j]) ==
                          before[j] + n * (uint64_t)(1 + 3 * j),
                      "%s: a count of lane %d is wrong after %d folds", isa, j, (int)n);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("far_sums");
    TCase *folds = add_case(suite, "folds");
    tcase_add_test(folds, many_folds);
    tcase_add_test(folds, counts);
    return run_suite(suite);
}
