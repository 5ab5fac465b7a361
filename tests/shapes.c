/* SPDX-License-Identifier: MIT */
#include "shapes.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE
#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))

/* Each in both dtypes; the dtype is filled in. */
static const struct shape shapes[] = {
    /* d  dv  n   C  H  G  B   N */
    {1, 1, 1, 1, 1, 1, 1, 9, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {3, 5, 4, 16, 4, 2, 3, 48, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {16, 64, 3, 16, 2, 2, 3, 75, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {16, 65, 3, 64, 6, 2, 1, 150, 0, L2, COEF_SHARED, TEMP_PER_HEAD},
    {17, 80, 3, 16, 3, 1, 2, 53, 0, RAW, COEF_PER_HEAD, TEMP_SHARED},
    {5, 64, 5, 1, 2, 1, 2, 21, 0, RAW, COEF_TAYLOR, TEMP_PER_HEAD},
    {3, 1, 8, 16, 2, 2, 2, 40, 0, L2, COEF_SHARED, TEMP_SHARED},
    {1, 5, 6, 16, 1, 1, 3, 35, 0, RAW, COEF_TAYLOR, TEMP_TWO},
    {5, 17, 7, 5, 2, 1, 1, 23, 0, L2, COEF_PER_HEAD, TEMP_TWO},
    {16, 80, 2, 64, 5, 5, 1, 131, 0, L2, COEF_SHARED, TEMP_PER_HEAD},
    {17, 5, 1, 7, 2, 1, 2, 30, 0, L2, COEF_SHARED, TEMP_TWO},
    {33, 24, 3, 16, 1, 1, 1, 100, 0, L2, COEF_TAYLOR, TEMP_TWO},
    /* two terms, whose features may be the rows themselves; more of them than a block holds */
    {17, 33, 2, 32, 4, 2, 2, 100, 0, L2, COEF_FIRST, TEMP_PER_HEAD},
    {130, 16, 2, 48, 1, 1, 1, 100, 0, RAW, COEF_TAYLOR, TEMP_TWO},
    /* chunks of several tiles, values in transposed tiles or not; of several passes */
    {5, 20, 3, 130, 2, 1, 1, 280, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {7, 32, 4, 150, 3, 1, 2, 310, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {2, 3, 3, 600, 2, 1, 1, 1250, 0, L2, COEF_TAYLOR, TEMP_TWO},
    /* sums that are large; degrees that are made as they are needed */
    {16, 128, 4, 16, 3, 1, 1, 40, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {16, 5, 6, 16, 1, 1, 1, 35, 0, RAW, COEF_TAYLOR, TEMP_TWO},
};

static const struct {
    struct shape shape;
    unsigned exact_degrees;
} mixed[] = {
    /* d  dv  n   C  H  G  B   N; all high features even or odd in number; E = 0 .. n */
    {{1, 1, 1, 2, 1, 1, 1, 9, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 0},
    {{2, 7, 2, 4, 2, 1, 3, 23, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 1},
    {{3, 17, 3, 16, 4, 2, 3, 61, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 2},
    {{5, 33, 4, 16, 3, 1, 2, 75, TSA_F32, L2, COEF_SHARED, TEMP_PER_HEAD}, 3},
    {{16, 64, 3, 64, 2, 2, 2, 150, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 2},
    {{16, 65, 3, 66, 6, 2, 1, 150, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 1},
    {{17, 16, 3, 128, 2, 1, 1, 270, TSA_F32, RAW, COEF_TAYLOR, TEMP_SHARED}, 2},
    {{5, 65, 5, 2, 2, 1, 2, 21, TSA_F32, L2, COEF_TAYLOR, TEMP_PER_HEAD}, 4},
    {{3, 1, 6, 200, 2, 2, 2, 430, TSA_F32, L2, COEF_SHARED, TEMP_SHARED}, 5},
    {{1, 7, 6, 4, 1, 1, 3, 35, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO}, 3},
    {{16, 16, 2, 64, 5, 5, 1, 131, TSA_F32, L2, COEF_FIRST, TEMP_PER_HEAD}, 0},
    {{16, 17, 3, 128, 2, 1, 1, 261, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 0},
    {{2, 64, 5, 200, 3, 1, 1, 410, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 1},
    {{17, 7, 2, 16, 4, 2, 2, 40, TSA_F32, L2, COEF_TAYLOR, TEMP_PER_HEAD}, 1},
    {{5, 16, 4, 66, 2, 1, 1, 140, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 4},
    {{3, 33, 1, 16, 2, 1, 2, 40, TSA_F32, L2, COEF_SHARED, TEMP_TWO}, 0},
    {{5, 7, 6, 16, 2, 1, 1, 40, TSA_F32, RAW, COEF_SHARED, TEMP_SHARED}, 2},
    /* sums that are large; degrees that are made as they are needed; more features than a block */
    {{16, 128, 4, 16, 3, 1, 1, 40, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 2},
    {{17, 33, 4, 64, 1, 1, 1, 70, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 3},
    {{16, 5, 5, 16, 1, 1, 1, 35, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 3},
    {{130, 16, 2, 48, 1, 1, 1, 100, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO}, 1},
    /* chunks of several tiles, and of several passes */
    {{7, 32, 4, 150, 3, 1, 1, 310, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 2},
    {{2, 3, 3, 600, 2, 1, 1, 650, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 1},
};

int contract_first_mixed(void)
{
    return 2 * COUNT(shapes);
}

int contract_first_gated(void)
{
    return contract_first_mixed() + COUNT(mixed);
}

/* Then those with gates: every shape, in one of the dtypes. */
int contract_problems(void)
{
    return contract_first_gated() + COUNT(shapes) + COUNT(mixed);
}

void contract_problem(struct problem *p, int index)
{
    const int gated = index - contract_first_gated();
    if (gated >= 0)
        index = gated < COUNT(shapes) ? 2 * gated + gated % 2
                                      : contract_first_mixed() + gated - COUNT(shapes);
    const int i = index - contract_first_mixed();
    if (i >= 0) {
        problem_make(p, &mixed[i].shape, 5000 + (uint64_t)i);
        problem_mix(p, mixed[i].exact_degrees);
    } else {
        struct shape s = shapes[index / 2];
        s.dtype = index % 2 == 0 ? TSA_F32 : TSA_F64;
        problem_make(p, &s, 1000 + (uint64_t)index);
    }
    if (gated >= 0)
        problem_gate(p, gated);
    problem_solve(p);
    ck_assert_uint_gt(p->head[0]->tokens - p->head[0]->window, 0);
}
