/* SPDX-License-Identifier: MIT */
/* Outputs and states of the library equal the model of the arithmetic bit by bit, whatever the
 * schedule: cutting, batch, instruction set, threads. Plans in f32, in f64 and mixed. */
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "shapes.h"

/* Windows too, which a view does not show. */
static void assert_same_states(const struct run *r, const struct run *whole)
{
    for (size_t b = 0; b < r->p->shape.batch; b++) {
        size_t size, size2;
        double *x = export_all(whole->plan, whole->states[b], 0, &size);
        double *y = export_all(r->plan, r->states[b], 0, &size2);
        ck_assert_uint_eq(size, size2);
        assert_bits(x, y, TSA_F64, size, "export");
        assert_equal(r->plan, r->states[b], whole->states[b], true);
        free(x);
        free(y);
    }
}

START_TEST(cutting)
{
    struct problem p;
    contract_problem(&p, _i);
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
        struct run whole, r;
        run_begin(&whole, &p, isa, 1, WAY_AUTO);
        feed_by_rung(&whole, 0);
        for (size_t rung = 1; rung < RUNGS; rung++) {
            if ((i > 0 || quick()) && rung % 3 != (i + (size_t)_i) % 3)
                continue; /* all of them with the best one */
            run_begin(&r, &p, isa, 1, WAY_AUTO);
            feed_by_rung(&r, rung);
            assert_same_states(&r, &whole);
            run_end(&r);
        }
        run_end(&whole);
    }
    problem_free(&p);
}
END_TEST

START_TEST(threads)
{
    static const int team[] = {2, 3, 5, 8};
    struct problem p;
    contract_problem(&p, _i);
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (size_t way = 0; way < WAYS; way++) /* all with the best one, one with the others */
            if (i == 0 ? !quick() || way != (size_t)_i % WAYS : way == ((size_t)_i + i) % WAYS)
                check_team(&p, isa, team[(way + i + (size_t)_i) % 4], (enum way)way);
    problem_free(&p);
}
END_TEST

/* Sequences of one call that stand at different places of their windows: sequence b has absorbed
 * `step` b tokens before; views that start there have a longer batch stride. */
START_TEST(uneven)
{
    struct problem p;
    struct tsa_error err;
    struct shape s = {
        5,           19,      3, 16, 4, 2, 3, 90, _i % 2 == 0 ? TSA_F32 : TSA_F64, TSA_NORMALIZE_L2,
        COEF_TAYLOR, TEMP_TWO};
    problem_make(&p, &s, 97);
    problem_solve(&p);
    const size_t step = 11, together = s.tokens - (s.batch - 1) * step;
    for (int team = 1; team <= 5; team += 2) {
        struct run r;
        run_begin(&r, &p, NULL, team,
                  team == 1   ? WAY_AUTO
                  : team == 3 ? WAY_WAVES_OF_2
                              : WAY_WAVES_OF_3);
        for (size_t b = 1; b < s.batch; b++)
            feed(&r, PREFILL, b, b + 1, 0, step * b);
        struct tsa_tensor x[4] = {p.q, p.k, p.v, r.out};
        for (int j = 0; j < 4; j++)
            x[j].batch += (ptrdiff_t)step * x[j].token;
        if (_i / 2 == 0)
            ok(tsa_prefill(r.plan,
                           BATCH(.states = r.states, .count = s.batch, .tokens = together,
                                 .q = x[0], .k = x[1], .v = x[2], .o = x[3]),
                           run_workspace(&r), &err),
               &err);
        for (size_t t = 0; _i / 2 == 1 && t < together; t++) {
            const struct tsa_tensor q = from_token(x[0], t), k = from_token(x[1], t);
            const struct tsa_tensor v = from_token(x[2], t), o = from_token(x[3], t);
            ok(tsa_decode(
                   r.plan,
                   BATCH(.states = r.states, .count = s.batch, .q = q, .k = k, .v = v, .o = o),
                   run_workspace(&r), &err),
               &err);
        }
        for (size_t b = 0; b + 1 < s.batch; b++)
            feed(&r, PREFILL, b, b + 1, together + step * b, s.tokens);
        check_run(&r, "uneven sequences");
        run_end(&r);
    }
    problem_free(&p);
}
END_TEST

/* A state large enough for the columns of one step to be shared out. */
START_TEST(decode_columns)
{
    const struct shape s = {16,
                            80,
                            5,
                            16,
                            3,
                            1,
                            1,
                            37,
                            _i == 0 ? TSA_F32 : TSA_F64,
                            TSA_NORMALIZE_L2,
                            COEF_TAYLOR,
                            TEMP_PER_HEAD};
    struct problem p;
    problem_make(&p, &s, 7);
    problem_solve(&p);
    for (int team = 1; team <= 8; team += team < 3 ? 1 : 5) {
        struct run r;
        run_begin(&r, &p, NULL, team, WAY_AUTO);
        feed(&r, DECODE, 0, 1, 0, s.tokens);
        check_run(&r, "decode of a large state");
        run_end(&r);
    }
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("contract");
    tcase_add_loop_test(add_case(suite, "cutting"), cutting, 0, contract_problems());
    tcase_add_loop_test(add_case(suite, "threads"), threads, 0, contract_problems());
    tcase_add_loop_test(add_case(suite, "decode_columns"), decode_columns, 0, 2);
    tcase_add_loop_test(add_case(suite, "uneven"), uneven, 0, 4);
    return run_suite(suite);
}
