/* SPDX-License-Identifier: MIT */
/* Plans of different chunks that take turns on one state: which windows fit, and whose they are. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define LAYERS 2

static enum tsa_dtype dtype_of(int index)
{
    return index % 2 == 0 ? TSA_F32 : TSA_F64;
}

static enum tsa_status absorb(const struct tsa_plan *plan, struct tsa_state *state, size_t layer,
                              const struct problem *p, size_t from, size_t to,
                              struct tsa_error *err)
{
    const struct tsa_tensor k = from_token(p->k, from), v = from_token(p->v, from);
    return tsa_absorb(
        plan,
        BATCH(.states = &state, .count = 1, .layer = layer, .tokens = to - from, .k = k, .v = v),
        NULL, err);
}

static enum tsa_status ask(const struct tsa_plan *plan, struct tsa_state *state, size_t layer,
                           const struct problem *p, void *out, struct tsa_error *err)
{
    const struct shape *s = &p->shape;
    const struct tsa_tensor o = dense(out, s->dtype, s->heads, s->tokens, s->dv);
    return tsa_query(
        plan, BATCH(.states = &state, .count = 1, .layer = layer, .tokens = 3, .q = p->q, .o = o),
        NULL, err);
}

/* Plans of chunks 8 and 32, and three states that the second has made. */
struct pair {
    struct problem p;
    struct tsa_plan *shorter, *longer;
    struct tsa_state **st;
    void *out;
};

static void pair_begin(struct pair *x, int i)
{
    const struct shape s = {5,           19,      3, 32, 4, 2, 1, 80, dtype_of(i), TSA_NORMALIZE_L2,
                            COEF_TAYLOR, TEMP_TWO};
    struct tsa_options options;
    problem_make(&x->p, &s, 4200);
    problem_options(&x->p, &options);
    options.layers = LAYERS;
    x->longer = make_plan(&options);
    options.chunk = 8;
    x->shorter = make_plan(&options);
    x->st = states_make(x->longer, 3);
    x->out = make_zeros(x->p.o_count, s.dtype);
}

static void pair_end(struct pair *x)
{
    states_free(x->st, 3);
    tsa_plan_destroy(x->shorter);
    tsa_plan_destroy(x->longer);
    free(x->out);
    problem_free(&x->p);
}

/* A window that is open in any layer under one chunk is no window of another: not for a call that
 * reads, on whichever layer, nor for one that writes. Once it is folded both plans fit again. */
START_TEST(open_window)
{
    struct pair x;
    struct tsa_error err;
    struct tsa_view view;
    double row[20];
    int equal = 7;
    pair_begin(&x, _i);
    const size_t open = (size_t)_i / 2 % 2; /* the layer with the window */
    struct tsa_state *state = x.st[0], *other = x.st[1];
    for (size_t layer = 0; layer < LAYERS; layer++)
        ok(absorb(x.shorter, state, layer, &x.p, 0, 8, &err), &err);
    ok(ask(x.longer, state, 0, &x.p, x.out, &err), &err);
    ok(absorb(x.shorter, state, open, &x.p, 8, 11, &err), &err);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        ok(ask(x.shorter, state, layer, &x.p, x.out, &err), &err);
        ck_assert_int_eq(ask(x.longer, state, layer, &x.p, x.out, &err), TSA_EMISMATCH);
        ck_assert_int_eq(err.wanted, 32);
        ck_assert_int_eq(err.found, 8);
        ck_assert_int_eq(absorb(x.longer, state, layer, &x.p, 0, 1, &err), TSA_EMISMATCH);
        ck_assert_int_eq(tsa_state_view(x.longer, state, layer, 0, &view, &err), TSA_EMISMATCH);
        ck_assert_int_eq(
            tsa_state_export(x.longer, state, layer, 0, 0, TSA_BASIS_PLAIN, row, 20, &err),
            TSA_EMISMATCH);
    }
    ck_assert_int_eq(tsa_state_equal(x.longer, state, other, &equal, &err), TSA_EMISMATCH);
    ck_assert_int_eq(tsa_state_equal(x.longer, other, state, &equal, &err), TSA_EMISMATCH);
    ck_assert_int_eq(equal, 7);
    ck_assert_int_eq(tsa_state_copy(x.longer, other, state, &err), TSA_EMISMATCH);
    ck_assert_int_eq(tsa_state_merge(x.longer, other, state, NULL, &err), TSA_EMISMATCH);
    ck_assert_int_eq(tsa_state_merge(x.longer, state, other, NULL, &err), TSA_EMISMATCH);
    const struct tsa_state *const one[] = {state};
    ck_assert_int_eq(tsa_state_reduce(x.longer, other, one, 1, &err), TSA_EMISMATCH);
    ck_assert_uint_eq(tsa_state_tokens(other, open), 0);
    ok(absorb(x.shorter, state, open, &x.p, 11, 16, &err), &err);
    ok(ask(x.longer, state, open, &x.p, x.out, &err), &err);
    ok(absorb(x.longer, state, open, &x.p, 16, 20, &err), &err);
    ck_assert_int_eq(ask(x.shorter, state, open, &x.p, x.out, &err), TSA_EMISMATCH);
    pair_end(&x);
}
END_TEST

/* A state takes over the chunk with the windows that it is given, from whichever it had before. */
START_TEST(given_windows)
{
    struct pair x;
    struct tsa_error err;
    pair_begin(&x, _i);
    struct tsa_state *from = x.st[0], *to = x.st[1];
    ok(absorb(x.shorter, from, 1, &x.p, 0, 11, &err), &err); /* three are open */
    switch (_i / 2) {
    case 0:
        ok(absorb(x.longer, to, 0, &x.p, 0, 5, &err), &err); /* in a window that is replaced */
        ok(tsa_state_copy(x.shorter, to, from, &err), &err);
        break;
    case 1:
        ok(absorb(x.longer, to, 0, &x.p, 0, 32, &err), &err);
        ok(tsa_state_merge(x.shorter, to, from, NULL, &err), &err);
        break;
    default:
        ok(absorb(x.longer, to, 0, &x.p, 0, 5, &err), &err);
        ok(tsa_state_reduce(x.shorter, to, (const struct tsa_state *const *)&from, 1, &err), &err);
        break;
    }
    ck_assert_uint_eq(tsa_state_window(to, 1), 3);
    ck_assert_uint_eq(to->header.fold, 8);
    ok(ask(x.shorter, to, 1, &x.p, x.out, &err), &err);
    ck_assert_int_eq(ask(x.longer, to, 1, &x.p, x.out, &err), TSA_EMISMATCH);
    ok(absorb(x.shorter, to, 1, &x.p, 11, 40, &err), &err);
    ok(absorb(x.shorter, from, 1, &x.p, 11, 40, &err), &err);
    if (_i / 2 == 1)
        ok(absorb(x.shorter, from, 0, &x.p, 0, 32, &err), &err); /* other sums: not compared */
    else
        assert_equal(x.shorter, to, from, true);
    pair_end(&x);
}
END_TEST

/* The chunk of a state is that of the plan that wrote last, also where no window shows it. */
START_TEST(marks)
{
    struct pair x;
    struct tsa_error err;
    pair_begin(&x, _i);
    struct tsa_state *state = x.st[0];
    ck_assert_uint_eq(state->header.fold, 32);
    ok(absorb(x.shorter, state, 0, &x.p, 0, 8, &err), &err);
    ck_assert_uint_eq(state->header.fold, 8);
    ok(tsa_state_reset(x.longer, state, &err), &err);
    ck_assert_uint_eq(state->header.fold, 32);
    ok(tsa_state_reset(x.shorter, state, &err), &err);
    ck_assert_uint_eq(state->header.fold, 8);
    ok(tsa_state_copy(x.longer, state, x.st[1], &err), &err);
    ck_assert_uint_eq(state->header.fold, 32);
    ok(tsa_state_merge(x.shorter, state, x.st[1], NULL, &err), &err);
    ck_assert_uint_eq(state->header.fold, 8);
    ok(tsa_state_reduce(x.longer, state, (const struct tsa_state *const *)x.st, 3, &err), &err);
    ck_assert_uint_eq(state->header.fold, 32);
    pair_end(&x);
}
END_TEST

/* A reset also forgets windows of another chunk: the next plan may begin its own. */
START_TEST(reset)
{
    struct pair x;
    struct tsa_error err;
    pair_begin(&x, _i);
    ok(absorb(x.longer, x.st[0], 1, &x.p, 0, 9, &err), &err);
    ok(tsa_state_reset(x.shorter, x.st[0], &err), &err);
    ok(absorb(x.shorter, x.st[0], 1, &x.p, 0, 13, &err), &err);
    ok(absorb(x.shorter, x.st[1], 1, &x.p, 0, 13, &err), &err);
    assert_equal(x.shorter, x.st[0], x.st[1], true);
    pair_end(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chunks");
    TCase *turns = add_case(suite, "turns");
    tcase_add_loop_test(turns, open_window, 0, 4);
    tcase_add_loop_test(turns, given_windows, 0, 6);
    tcase_add_loop_test(turns, marks, 0, 2);
    tcase_add_loop_test(turns, reset, 0, 2);
    return run_suite(suite);
}
