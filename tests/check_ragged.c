/* SPDX-License-Identifier: MIT */
/* Sequences of different lengths in one call: the bits are those of one call for each sequence, and
 * nothing else is read or written. */
#include <stdlib.h>
#include <string.h>

#include "ragged.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

static const struct shape shapes[] = {
    /* d  dv  n   C  H  G */
    {5, 7, 4, 16, 4, 2, 0, 0, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {3, 5, 5, 1, 4, 2, 0, 0, 0, RAW, COEF_SHARED, TEMP_PER_HEAD},
    {16, 64, 3, 64, 2, 2, 0, 0, 0, L2, COEF_TAYLOR, TEMP_TWO}, /* work for a team unforced */
    {5, 7, 3, 64, 4, 2, 0, 0, 0, RAW, COEF_TAYLOR, TEMP_SHARED},
    {16, 65, 3, 16, 6, 2, 0, 0, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {1, 1, 8, 5, 1, 1, 0, 0, 0, L2, COEF_SHARED, TEMP_TWO},
};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static struct shape shape_at(int index)
{
    struct shape s = shapes[index / 2];
    s.dtype = index % 2 == 0 ? TSA_F32 : TSA_F64;
    return s;
}

/* None, one, few; whole chunks; several; over windows that are open or not. */
static void mixed_lengths(struct ragged_batch *x, size_t c)
{
    const size_t length[] = {0, 1, 3, c, 2 * c, 5 * c + 3, 0, 1, 1, c + 1, 2, 3 * c - 1, 0};
    const size_t before[] = {5, 0, c - 1, 0, c / 2, c + 3, 0, c - 1, 2 * c, 1, 0, c / 2 + 1, c};
    x->count = sizeof length / sizeof length[0];
    memcpy(x->length, length, sizeof length);
    memcpy(x->before, before, sizeof before);
}

START_TEST(mixed)
{
    const struct shape s = shape_at(_i);
    struct ragged_batch x;
    mixed_lengths(&x, s.chunk);
    ragged_begin(&x, &s, 2000 + (uint64_t)_i);
    size_t windows = 0, folds = 0;
    for (size_t b = 0; b < x.count; b++) {
        windows += tsa_state_window(x.given[b], RAGGED_LAYER) > 0;
        folds +=
            tsa_state_tokens(x.want[b], RAGGED_LAYER) > tsa_state_window(x.want[b], RAGGED_LAYER);
    }
    ck_assert(folds > 5 && (windows > 3 || s.chunk == 1));
    ragged_run_all(&x, _i < 4 ? 5 : 3);
    ragged_end(&x);
}
END_TEST

/* One long sequence, which the whole team works on, and short ones; many long ones. */
START_TEST(long_ones)
{
    const struct shape s = {
        16, 64, 3, 16, 2, 1, 0, 0, _i % 2 == 0 ? TSA_F32 : TSA_F64, L2, COEF_TAYLOR, TEMP_TWO};
    const size_t most = quick() ? 100 : 300;
    struct ragged_batch x;
    x.count = 12;
    for (size_t b = 0; b < x.count; b++) {
        x.length[b] = _i / 2 == 0 ? (b == 4 ? most : b) : _i / 2 == 1 ? 20 * b : most / 12;
        x.before[b] = 3 * b;
    }
    ragged_begin(&x, &s, 2100);
    ragged_run_all(&x, 3);
    ragged_end(&x);
}
END_TEST

/* Hundreds of sequences of one token: beside a long one and empty ones, beside empty ones, and
 * nothing else, which is a step of a decoder. */
START_TEST(single_tokens)
{
    const struct shape s = {
        8, 16, 3, 16, 4, 2, 0, 0, _i % 2 == 0 ? TSA_F32 : TSA_F64, L2, COEF_TAYLOR, TEMP_TWO};
    struct ragged_batch x;
    x.count = quick() ? 70 : 303;
    for (size_t b = 0; b < x.count; b++) {
        x.length[b] = _i / 2 < 2 && b % 60 == 5 ? 0 : _i / 2 == 0 && b == 37 ? 35 : 1;
        x.before[b] = b % 37;
    }
    ragged_begin(&x, &s, 2200);
    ragged_run_all(&x, 2);
    ragged_end(&x);
}
END_TEST

/* Sums of which a step shares out the columns. */
START_TEST(columns)
{
    const struct shape s = {
        16, 80, 5, 16, 3, 1, 0, 0, _i % 2 == 0 ? TSA_F32 : TSA_F64, L2, COEF_TAYLOR, TEMP_PER_HEAD};
    struct ragged_batch x;
    x.count = 2;
    x.length[0] = 1;
    x.length[1] = (size_t)(_i / 2);
    x.before[0] = 31; /* which it folds */
    x.before[1] = 20;
    ragged_begin(&x, &s, 2300);
    for (int team = quick() ? 4 : 2; team <= 4; team += 2) {
        struct tsa_plan *plan = ragged_plan(&x.p, team, 0, 0);
        struct tsa_workspace *ws;
        struct tsa_error err;
        ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
        for (int kind = 0; kind < 2; kind++)
            ragged_run(&x, plan, ws, (enum ragged_kind)kind, (uint64_t)kind, kind, s.dtype);
        tsa_workspace_destroy(ws);
        tsa_plan_destroy(plan);
    }
    ragged_end(&x);
}
END_TEST

/* Rows of no sequence are not looked at where nothing looks at inputs either; and tensors may be of
 * another type. */
START_TEST(other_ways)
{
    const struct shape s = shape_at(_i);
    struct ragged_batch x;
    mixed_lengths(&x, s.chunk);
    ragged_begin(&x, &s, 2400);
    for (int way = 0; way < WAY_WAVES_OF_3; way++) {
        struct tsa_plan *plan = ragged_plan(&x.p, 3, (enum way)way, TSA_SKIP_INPUT_CHECK);
        for (int kind = 0; kind < 2; kind++)
            ragged_run(&x, plan, NULL, (enum ragged_kind)kind, (uint64_t)way, kind, s.dtype);
        tsa_plan_destroy(plan);
        plan = ragged_plan(&x.p, 3, (enum way)way, 0);
        for (int kind = 0; kind < 2; kind++)
            ragged_run(&x, plan, NULL, (enum ragged_kind)kind, (uint64_t)way, kind, TSA_F64);
        tsa_plan_destroy(plan);
    }
    ragged_end(&x);
}
END_TEST

/* Nothing but empty sequences, or no sequence: no row is needed, and nothing changes. */
START_TEST(nothing)
{
    const struct shape s = shape_at(_i);
    const int64_t alike[] = {7, 7, 7, 7}, none[] = {0, 0, 0};
    const struct tsa_tensor empty = {.dtype = s.dtype};
    struct ragged_batch x;
    struct tsa_error err;
    x.count = 3;
    for (size_t b = 0; b < 3; b++) {
        x.length[b] = 0;
        x.before[b] = 5 * b;
    }
    ragged_begin(&x, &s, 2500);
    ragged_run_all(&x, 3);
    const size_t bytes = tsa_state_bytes(x.alone);
    struct tsa_state **st = x.given;
    char *before = malloc(3 * bytes);
    for (size_t b = 0; b < 3; b++)
        memcpy(before + b * bytes, st[b], bytes);
    for (size_t n = 0; n < 4; n += 3) { /* 0: states are not needed either */
        struct tsa_state **states = n > 0 ? st : NULL;
        const struct tsa_tensor *e = &empty;
        const struct tsa_plan *p = x.alone;
        ok(tsa_prefill(p,
                       BATCH(.states = states, .count = n, .layer = RAGGED_LAYER, .offsets = alike,
                             .q = *e, .k = *e, .v = *e, .o = *e),
                       NULL, &err),
           &err);
        ok(tsa_absorb(p,
                      BATCH(.states = states, .count = n, .layer = RAGGED_LAYER, .offsets = alike,
                            .k = *e, .v = *e),
                      NULL, &err),
           &err);
        ok(tsa_prefill(p,
                       BATCH(.states = states, .count = n, .layer = RAGGED_LAYER, .tokens = 4,
                             .lengths = none, .q = *e, .k = *e, .v = *e, .o = *e),
                       NULL, &err),
           &err);
        ok(tsa_absorb(p,
                      BATCH(.states = states, .count = n, .layer = RAGGED_LAYER, .tokens = 4,
                            .lengths = none, .k = *e, .v = *e),
                      NULL, &err),
           &err);
        ok(tsa_prefill(p,
                       BATCH(.states = states, .count = n, .layer = RAGGED_LAYER, .tokens = 0,
                             .lengths = none, .q = *e, .k = *e, .v = *e, .o = *e),
                       NULL, &err),
           &err);
        ok(tsa_decode(p,
                      BATCH(.states = states, .slots = none, .count = 0, .layer = RAGGED_LAYER,
                            .q = *e, .k = *e, .v = *e, .o = *e),
                      NULL, &err),
           &err);
    }
    for (size_t b = 0; b < 3; b++)
        ck_assert_mem_eq(before + b * bytes, st[b], bytes);
    free(before);
    ragged_end(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ragged");
    TCase *lengths = add_case(suite, "lengths");
    tcase_add_loop_test(lengths, mixed, 0, quick() ? 4 : 2 * SHAPES);
    tcase_add_loop_test(lengths, long_ones, 0, quick() ? 1 : 6);
    tcase_add_loop_test(lengths, single_tokens, 0, 6);
    tcase_add_loop_test(lengths, columns, 0, quick() ? 1 : 4);
    tcase_add_loop_test(lengths, other_ways, 0, quick() ? 2 : 6);
    tcase_add_loop_test(lengths, nothing, 0, 2);
    return run_suite(suite);
}
