/* SPDX-License-Identifier: MIT */
/* Mixed plans, whose high degrees have bf16 operands. Outputs and states equal the model bit by bit
 * whatever the schedule, and when plans of any kind take turns on a state; how far outputs are from
 * the definition; and what is refused. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

static const struct mixed {
    struct shape shape;
    unsigned exact;
} problems[] = {
    /* d  dv  n   C  H  G  B   N; all high features even or odd in number; E = 0 .. n */
    { { 1, 1, 1, 2, 1, 1, 1, 9, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO }, 0 },
    { { 2, 7, 2, 4, 2, 1, 3, 23, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD }, 1 },
    { { 3, 17, 3, 16, 4, 2, 3, 61, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD }, 2 },
    { { 5, 33, 4, 16, 3, 1, 2, 75, TSA_F32, L2, COEF_SHARED, TEMP_PER_HEAD }, 3 },
    { { 16, 64, 3, 64, 2, 2, 2, 150, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO }, 2 },
    { { 16, 65, 3, 66, 6, 2, 1, 150, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD }, 1 },
    { { 17, 16, 3, 128, 2, 1, 1, 270, TSA_F32, RAW, COEF_TAYLOR, TEMP_SHARED }, 2 },
    { { 5, 65, 5, 2, 2, 1, 2, 21, TSA_F32, L2, COEF_TAYLOR, TEMP_PER_HEAD }, 4 },
    { { 3, 1, 6, 200, 2, 2, 2, 430, TSA_F32, L2, COEF_SHARED, TEMP_SHARED }, 5 },
    { { 1, 7, 6, 4, 1, 1, 3, 35, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO }, 3 },
    { { 16, 16, 2, 64, 5, 5, 1, 131, TSA_F32, L2, COEF_FIRST, TEMP_PER_HEAD }, 0 },
    { { 16, 17, 3, 128, 2, 1, 1, 261, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO }, 0 },
    { { 2, 64, 5, 200, 3, 1, 1, 410, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD }, 1 },
    { { 17, 7, 2, 16, 4, 2, 2, 40, TSA_F32, L2, COEF_TAYLOR, TEMP_PER_HEAD }, 1 },
    { { 5, 16, 4, 66, 2, 1, 1, 140, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO }, 4 },
    { { 3, 33, 1, 16, 2, 1, 2, 40, TSA_F32, L2, COEF_SHARED, TEMP_TWO }, 0 },
    { { 5, 7, 6, 16, 2, 1, 1, 40, TSA_F32, RAW, COEF_SHARED, TEMP_SHARED }, 2 },
    /* sums that are large; degrees that are made as they are needed; more features than a block */
    { { 16, 128, 4, 16, 3, 1, 1, 40, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD }, 2 },
    { { 17, 33, 4, 64, 1, 1, 1, 70, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO }, 3 },
    { { 16, 5, 5, 16, 1, 1, 1, 35, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO }, 3 },
    { { 130, 16, 2, 48, 1, 1, 1, 100, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO }, 1 },
    /* chunks of several tiles, and of several passes */
    { { 7, 32, 4, 150, 3, 1, 2, 310, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD }, 2 },
    { { 2, 3, 3, 600, 2, 1, 1, 1250, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO }, 1 },
};
#define PROBLEMS ((int)(sizeof problems / sizeof problems[0]))

static void problem_begin(struct problem *p, int index)
{
    const struct mixed *x = &problems[index];
    problem_make(p, &x->shape, 5000 + (uint64_t)index);
    problem_mix(p, x->exact);
    problem_solve(p);
    ck_assert_uint_gt(p->head[0]->tokens - p->head[0]->window, 0);
}

/* -- schedules --------------------------------------------------------------------------------- */

/* Absorb some tokens; the rest with outputs. The rows in between have none: take the model's. */
static void absorb_first(struct run *r, enum verb verb)
{
    const struct shape *s = &r->p->shape;
    const size_t n = s->tokens, row = s->dv * sizeof(float), cut = n - n / 3;
    feed(r, ABSORB, 0, s->batch, 0, cut);
    feed(r, verb, 0, s->batch, cut, n);
    for (size_t h = 0; h < s->batch * s->heads; h++)
        memcpy((char *)r->o + h * n * row, (char *)r->p->o + h * n * row, cut * row);
    check_run(r, "absorb, then outputs");
}

START_TEST(cutting)
{
    struct problem p;
    problem_begin(&p, _i);
    const size_t c = p.shape.chunk, n = p.shape.tokens, batch = p.shape.batch;
    const size_t piece[] = { n, 1, 3, 7, c - 1, c, c + 1, 2 * c + 3 };
    const size_t count = sizeof piece / sizeof piece[0];
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (size_t j = 0; j < count + 5; j++) {
            struct run r;
            if (quick() && j % 3 != (size_t)_i % 3)
                continue;
            run_begin(&r, &p, isa, 1, 0);
            if (j < count) {
                feed_pieces(&r, PREFILL, piece[j]);
                check_run(&r, "pieces");
            } else if (j == count) {
                feed_pieces(&r, DECODE, n);
                check_run(&r, "token by token");
            } else if (j == count + 1) {
                feed_pieces(&r, ABSORB, c + 2);
                check_states(&r, "absorbed in pieces");
            } else if (j == count + 2) {
                for (size_t b = 0; b < batch; b++)
                    feed(&r, PREFILL, b, b + 1, 0, n);
                check_run(&r, "one sequence at a time");
            } else {
                absorb_first(&r, j == count + 3 ? DECODE : PREFILL);
            }
            run_end(&r);
        }
    problem_free(&p);
}
END_TEST

START_TEST(threads)
{
    static const int team[] = { 2, 3, 5 };
    struct problem p;
    problem_begin(&p, _i);
    const size_t n = p.shape.tokens, batch = p.shape.batch;
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (size_t wave = 0; wave < 4; wave++) {
            struct run r;
            const int t = team[(wave + i + (size_t)_i) % 3];
            if ((quick() || i > 0) && wave % 3 != (size_t)_i % 3)
                continue;
            run_begin(&r, &p, isa, t, wave);
            if (wave == 2)
                feed_pieces(&r, PREFILL, 3 * p.shape.chunk + 2);
            else
                feed(&r, PREFILL, 0, batch, 0, n);
            check_run(&r, "prefill by a team");
            run_end(&r);
            run_begin(&r, &p, isa, t, wave);
            if (wave == 0) {
                feed(&r, DECODE, 0, batch, 0, n);
                check_run(&r, "decode by a team");
            } else { /* one sequence, so that one kv head may have the whole team */
                for (size_t b = 0; b < batch; b++) {
                    feed(&r, ABSORB, b, b + 1, 0, 3);
                    feed(&r, ABSORB, b, b + 1, 3, n);
                }
                check_states(&r, "absorb by a team");
            }
            run_end(&r);
        }
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mixed");
    TCase *schedules = add_case(suite, "schedules");
    tcase_add_loop_test(schedules, cutting, 0, PROBLEMS);
    tcase_add_loop_test(schedules, threads, 0, PROBLEMS);
    return run_suite(suite);
}
