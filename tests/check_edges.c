/* SPDX-License-Identifier: MIT */
/* Edges of states and calls, one test each: bits that only the low sums hold, counts at their
 * limit, bytes between rows, the last task of a scan, sums that nothing is in. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define L2 TSA_NORMALIZE_L2

static const struct shape shape = {5, 17, 3, 16, 2, 1, 2, 40, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};

static void absorb(const struct tsa_plan *plan, struct tsa_state *state, const struct problem *p,
                   struct tsa_workspace *ws)
{
    struct tsa_error err;
    ok(tsa_absorb(
           plan,
           BATCH(.states = &state, .count = 1, .tokens = p->shape.tokens, .k = p->k, .v = p->v), ws,
           &err),
       &err);
}

/* States that differ in what rounding lost are not equal. */
START_TEST(low_sums)
{
    struct problem p;
    struct tsa_error err;
    struct tsa_view view;
    problem_make(&p, &shape, 11);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    struct tsa_state **states = states_make(plan, 2);
    absorb(plan, states[0], &p, NULL);
    ok(tsa_state_copy(plan, states[1], states[0], &err), &err);
    assert_equal(plan, states[0], states[1], true);
    ok(tsa_state_view(plan, states[1], 0, 0, &view, &err), &err);
    const void *parts[] = {view.hi, view.lo, view.ones_hi, view.ones_lo};
    for (int i = 0; i < 4; i++) {
        float *x = (float *)(uintptr_t)parts[i], was = *x;
        *x = nextafterf(was, INFINITY);
        assert_equal(plan, states[0], states[1], false);
        *x = was;
    }
    assert_equal(plan, states[0], states[1], true);
    states_free(states, 2);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* A merge may come to 2^64 - 1 tokens, and not to one more. */
START_TEST(most_tokens)
{
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &shape, 12);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    struct tsa_state **states = states_make(plan, 2);
    absorb(plan, states[0], &p, NULL);
    absorb(plan, states[1], &p, NULL);
    tsa_state_layer(states[0], 0)->tokens = UINT64_MAX - p.shape.tokens + 1;
    ck_assert_int_eq(tsa_state_merge(plan, states[0], states[1], NULL, &err), TSA_EOVERFLOW);
    ck_assert_str_eq(err.argument, "src");
    tsa_state_layer(states[0], 0)->tokens--;
    ok(tsa_state_merge(plan, states[0], states[1], NULL, &err), &err);
    ck_assert(tsa_state_tokens(states[0], 0) == UINT64_MAX);
    states_free(states, 2);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* Every byte of a state is what the tokens made it: nothing of the scratch is left between rows. */
START_TEST(padding)
{
    static const unsigned char fills[] = {0x00, 0xff, 0x3c};
    struct shape s = shape;
    struct problem p;
    struct tsa_error err;
    s.dv = (size_t[]){1, 5, 16, 17, 20, 33, 65}[_i / 2];
    s.dtype = _i % 2 ? TSA_F64 : TSA_F32;
    problem_make(&p, &s, 13);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    struct tsa_state **states = states_make(plan, 3);
    const size_t bytes = tsa_workspace_bytes(plan, 1);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    ck_assert_ptr_nonnull(memory);
    for (int i = 0; i < 3; i++) {
        struct tsa_workspace *ws;
        memset(memory, fills[i], bytes);
        ok(tsa_workspace_init(plan, 1, memory, bytes, &ws, &err), &err);
        absorb(plan, states[i], &p, ws);
        CHECK(memcmp(states[i], states[0], tsa_state_bytes(plan)) == 0,
              "dv %d: scratch shows in the state", (int)s.dv);
    }
    free(memory);
    states_free(states, 3);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* A scan of values by several tasks sees the last row. */
START_TEST(last_row)
{
    struct shape s = {16, 16, 2, 64, 1, 1, 1, 9000, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 14);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1 + _i);
    struct tsa_state **states = states_make(plan, 1);
    const struct tsa_tensor *tensors[] = {&p.k, &p.v, &p.q};
    const char *const names[] = {"k", "v", "q"};
    float *o = calloc(s.tokens * s.dv, sizeof *o);
    for (int i = 0; i < 3; i++) {
        float *last = (float *)tensors[i]->data + s.tokens * 16 - 1, was = *last;
        *last = NAN;
        assert_error(
            &err,
            tsa_prefill(plan,
                        BATCH(.states = states, .count = 1, .tokens = s.tokens, .q = p.q, .k = p.k,
                              .v = p.v, .o = dense(o, TSA_F32, 1, s.tokens, s.dv)),
                        NULL, &err),
            TSA_ENONFINITE, names[i]);
        ck_assert_int_eq(err.token, (ptrdiff_t)s.tokens - 1);
        *last = was;
    }
    free(o);
    states_free(states, 1);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* Sums that nothing has been folded into are not read: monomials of these queries are infinite, and
 * infinity times zero is NaN. Their scores are small. */
START_TEST(empty_sums)
{
    float q[3][2], k[3][2], v[3][2], o[3][2];
    struct tsa_options options;
    struct tsa_error err;
    for (int i = 0; i < 6; i++) {
        q[i / 2][i % 2] = 1e25F;
        k[i / 2][i % 2] = 1e-25F;
        v[i / 2][i % 2] = 1;
    }
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.head_dim = options.value_dim = 2;
    options.chunk = 16;
    options.threads = 1;
    options.normalize = TSA_NORMALIZE_NONE;
    options.flags = TSA_SKIP_INPUT_CHECK;
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **states = states_make(plan, 1);
    struct tsa_batch *batch =
        BATCH(.states = states, .count = 1, .tokens = 3, .q = dense(q, TSA_F32, 1, 3, 2),
              .k = dense(k, TSA_F32, 1, 3, 2), .v = dense(v, TSA_F32, 1, 3, 2),
              .o = dense(o, TSA_F32, 1, 3, 2));
    for (int call = 0; call < 4; call++) {
        memset(o, 0, sizeof o);
        batch->tokens = call == 2 ? 1 : 3;
        ok(call == 2   ? tsa_decode(plan, batch, NULL, &err)
           : call == 3 ? tsa_query(plan, batch, NULL, &err)
                       : tsa_prefill(plan, batch, NULL, &err),
           &err);
        for (size_t i = 0; i < 2 * batch->tokens; i++)
            CHECK(o[i / 2][i % 2] == 1, "call %d: output %d is %g", call, (int)i, o[i / 2][i % 2]);
    }
    states_free(states, 1);
    tsa_plan_destroy(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("edges");
    tcase_add_test(add_case(suite, "low_sums"), low_sums);
    tcase_add_test(add_case(suite, "most_tokens"), most_tokens);
    tcase_add_loop_test(add_case(suite, "padding"), padding, 0, 14);
    tcase_add_loop_test(add_case(suite, "last_row"), last_row, 0, 2);
    tcase_add_test(add_case(suite, "empty_sums"), empty_sums);
    return run_suite(suite);
}
