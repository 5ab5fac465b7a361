/* SPDX-License-Identifier: MIT */
/* The library against the definition of the truncated kernel, computed without features, and the
 * properties that follow from the definition. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "truth.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

static enum tsa_dtype dtype_of(int index)
{
    return index % 2 == 0 ? TSA_F32 : TSA_F64;
}

/* States, plan and outputs of one prefill of a problem. */
struct result {
    struct tsa_plan *plan;
    struct tsa_state **states;
    void *o;
    struct tsa_tensor out;
};

static void result_begin(struct result *r, const struct problem *p)
{
    const struct shape *s = &p->shape;
    r->plan = problem_plan(p, NULL, 1);
    r->states = states_make(r->plan, s->batch);
    r->o = make_zeros(p->o_count, s->dtype);
    memset(r->o, 0xff, p->o_count * dtype_size(s->dtype));
    r->out = dense(r->o, s->dtype, s->heads, s->tokens, s->dv);
}

static void result_end(struct result *r, const struct problem *p)
{
    states_free(r->states, p->shape.batch);
    tsa_plan_destroy(r->plan);
    free(r->o);
}

/* Tokens from..to of all sequences. */
static void prefill(struct result *r, const struct problem *p, size_t from, size_t to)
{
    const struct tsa_tensor q = from_token(p->q, from), k = from_token(p->k, from);
    const struct tsa_tensor v = from_token(p->v, from), o = from_token(r->out, from);
    struct tsa_error err;
    ok(tsa_prefill(r->plan,
                   BATCH(.states = r->states, .count = p->shape.batch, .tokens = to - from, .q = q,
                         .k = k, .v = v, .o = o),
                   NULL, &err),
       &err);
}

static void decode(struct result *r, const struct problem *p, size_t token)
{
    const struct tsa_tensor q = from_token(p->q, token), k = from_token(p->k, token);
    const struct tsa_tensor v = from_token(p->v, token), o = from_token(r->out, token);
    struct tsa_error err;
    ok(tsa_decode(
           r->plan,
           BATCH(.states = r->states, .count = p->shape.batch, .q = q, .k = k, .v = v, .o = o),
           NULL, &err),
       &err);
}

/* -- against the definition -------------------------------------------------------------------- */

static const struct shape shapes[] = {
    {3, 4, 4, 0, 4, 2, 1, 300, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {4, 3, 5, 0, 2, 1, 2, 290, 0, L2, COEF_SHARED, TEMP_SHARED},
    {16, 8, 3, 0, 2, 2, 1, 300, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {8, 5, 3, 0, 2, 1, 1, 270, 0, RAW, COEF_TAYLOR, TEMP_PER_HEAD},
    {6, 4, 5, 0, 2, 2, 1, 270, 0, RAW, COEF_SHARED, TEMP_SHARED},
    {3, 4, 8, 0, 1, 1, 1, 270, 0, L2, COEF_TAYLOR, TEMP_SHARED},
    {7, 3, 6, 0, 1, 1, 1, 270, 0, L2, COEF_SHARED, TEMP_TWO},
};
static const size_t chunks[] = {1, 16, 64, 256};
#define CASES ((int)(sizeof shapes / sizeof shapes[0]) * 4 * 2)

START_TEST(definition)
{
    struct shape s = shapes[_i / 8];
    struct problem p;
    struct result r;
    double worst = 0;
    s.dtype = dtype_of(_i);
    s.chunk = chunks[_i / 2 % 4];
    problem_make(&p, &s, 50 + (uint64_t)_i);
    result_begin(&r, &p);
    prefill(&r, &p, 0, s.tokens);
    ck_assert_uint_gt(s.tokens - tsa_state_window(r.states[0], 0), 0);
    const size_t e = dtype_size(s.dtype), group = s.heads / s.kv_heads;
    struct truth *truth = calloc(s.dv, sizeof *truth);
    for (size_t i = 0; i < s.batch * s.heads * s.tokens; i++) {
        const size_t h = i / s.tokens % s.heads, t = i % s.tokens;
        const size_t g = i / s.tokens / s.heads * s.kv_heads + h / group;
        if (t > 40 && (t + h) % (quick() ? 41 : 3) != 0)
            continue;
        explicit_row(&p.model, h, (char *)p.q.data + i * s.d * e,
                     (char *)p.k.data + g * s.tokens * s.d * e,
                     (char *)p.v.data + g * s.tokens * s.dv * e, t + 1, truth);
        for (size_t c = 0; c < s.dv; c++) {
            const double got = get(r.o, s.dtype, i * s.dv + c);
            const double ratio = fabs(got - truth[c].value) / truth[c].bound;
            CHECK(ratio <= 1, "row %zu, column %zu: %.17g, wanted %.17g: %g bounds", i, c, got,
                  truth[c].value, ratio);
            worst = ratio > worst ? ratio : worst;
        }
    }
    ck_assert_double_gt(worst, 0);
    free(truth);
    result_end(&r, &p);
    problem_free(&p);
}
END_TEST

/* -- constant values --------------------------------------------------------------------------- */

/* Values that do not depend on the token: head g has `base` + `step` g in every column. */
static void constant_values(struct problem *p, double base, double step)
{
    const struct shape *s = &p->shape;
    const size_t head = s->tokens * s->dv;
    for (size_t i = 0; i < s->batch * s->kv_heads * head; i++)
        put(p->v.data, s->dtype, i, base + step * (double)(i / head % s->kv_heads));
}

/* Every output of query head h is v of kv head h / group: exactly when v is 1 (both sums are then
 * the same chain), else within the rounding of the two sums. */
static void assert_constant(const struct problem *p, const void *o, size_t rows, double base,
                            double step, const char *what)
{
    const struct shape *s = &p->shape;
    const size_t group = s->heads / s->kv_heads;
    for (size_t i = 0; i < s->batch * s->heads * rows * s->dv; i++) {
        const size_t h = i / (rows * s->dv) % s->heads;
        const double want = base + step * (double)(h / group), got = get(o, s->dtype, i);
        /* weights of n = 2 may cancel: their sum is at least a third of their absolute sum in
         * these problems, and chains are at most 2 C + F + 30 long */
        const double chain = 2 * (double)s->chunk + (double)p->model.features + 30;
        if (want == 1)
            CHECK(got == 1, "%s: element %zu is %.17g, not 1", what, i, got);
        else
            CHECK(fabs(got - want) <= 6 * chain * roundoff(s->dtype) * want,
                  "%s: element %zu is %.17g, not %.17g", what, i, got, want);
    }
}

static const struct shape constant_shapes[] = {
    {16, 5, 3, 16, 4, 2, 2, 70, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {3, 17, 2, 16, 4, 2, 2, 70, 0, RAW, COEF_SHARED, TEMP_TWO}, /* with negative weights */
    {5, 64, 4, 1, 6, 3, 1, 40, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
};

/* For n = 2: scores around 1, many below -c_0/c_1. Checked, or the case would prove little. */
static void make_some_weights_negative(struct problem *p)
{
    const struct shape *s = &p->shape;
    const size_t group = s->heads / s->kv_heads;
    size_t negative = 0;
    for (size_t i = 0; i < s->batch * s->kv_heads * s->tokens * s->d; i++)
        put(p->k.data, s->dtype, i, 0.8 + 5 * get(p->k.data, s->dtype, i));
    for (size_t i = 0; i < s->batch * s->heads * s->tokens * s->d; i++)
        put(p->q.data, s->dtype, i, 0.6 + 0.4 * get(p->q.data, s->dtype, i));
    for (size_t i = 0; i < s->batch * s->heads * s->tokens; i++) {
        const size_t row = i / s->tokens / group * s->tokens + i % s->tokens;
        double x = 0;
        for (size_t c = 0; c < s->d; c++)
            x += get(p->q.data, s->dtype, i * s->d + c) * get(p->k.data, s->dtype, row * s->d + c);
        negative += p->coefficient[0] + p->coefficient[1] * x / p->temperature[0] < 0;
    }
    ck_assert_uint_gt(negative, s->batch * s->heads * s->tokens / 50);
}

START_TEST(constants)
{
    static const double base[] = {1, 3, 1}, step[] = {0, 0, 4};
    struct shape s = constant_shapes[_i / 2 / 3];
    const double b = base[_i / 2 % 3], st = step[_i / 2 % 3];
    struct problem p;
    struct result r, other;
    struct tsa_error err;
    s.dtype = dtype_of(_i);
    problem_make(&p, &s, 400 + (uint64_t)_i / 6);
    if (s.terms == 2)
        make_some_weights_negative(&p);
    constant_values(&p, b, st);
    result_begin(&r, &p);
    prefill(&r, &p, 0, s.tokens);
    assert_constant(&p, r.o, s.tokens, b, st, "prefill");
    result_begin(&other, &p);
    for (size_t t = 0; t < s.tokens; t++)
        decode(&other, &p, t);
    assert_constant(&p, other.o, s.tokens, b, st, "decode");
    for (size_t i = 0; i < s.batch; i++)
        ok(tsa_state_merge(r.plan, r.states[i], other.states[s.batch - 1 - i], NULL, &err), &err);
    memset(r.o, 0xff, p.o_count * dtype_size(s.dtype));
    ok(tsa_query(
           r.plan,
           BATCH(.states = r.states, .count = s.batch, .tokens = s.tokens, .q = p.q, .o = r.out),
           NULL, &err),
       &err);
    assert_constant(&p, r.o, s.tokens, b, st, "query after merge");
    prefill(&r, &p, 0, s.tokens);
    assert_constant(&p, r.o, s.tokens, b, st, "prefill after merge");
    result_end(&other, &p);
    result_end(&r, &p);
    problem_free(&p);
}
END_TEST

/* -- rows -------------------------------------------------------------------------------------- */

START_TEST(first_row)
{
    struct shape s = {5, 33, 4, 16, 4, 2, 3, 20, dtype_of(_i), L2, COEF_SHARED, TEMP_PER_HEAD};
    struct problem p;
    struct result r;
    problem_make(&p, &s, 11);
    result_begin(&r, &p);
    prefill(&r, &p, 0, s.tokens);
    for (size_t i = 0; i < s.batch * s.heads * s.dv; i++) {
        const size_t row = i / s.dv, b = row / s.heads, g = row % s.heads / 2, c = i % s.dv;
        const size_t from = ((b * s.kv_heads + g) * s.tokens) * s.dv + c;
        const double got = get(r.o, s.dtype, row * s.tokens * s.dv + c);
        ck_assert_double_le(ulps(got, get(p.v.data, s.dtype, from), s.dtype), 1);
    }
    result_end(&r, &p);
    problem_free(&p);
}
END_TEST

/* All keys equal (or zero): every weight is the same, and row t is the mean of v_0..v_t. */
START_TEST(running_mean)
{
    struct shape s = {5, 6,   1 + (size_t)_i / 4, 16, 1,           1,
                      1, 100, dtype_of(_i),       L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct result r;
    problem_make(&p, &s, 12);
    const size_t row = s.d * dtype_size(s.dtype);
    if (_i / 2 % 2 == 0)
        memset(p.k.data, 0, s.tokens * row);
    for (size_t t = 1; t < s.tokens; t++)
        memcpy((char *)p.k.data + t * row, p.k.data, row);
    result_begin(&r, &p);
    prefill(&r, &p, 0, s.tokens);
    for (size_t c = 0; c < s.dv; c++) {
        double sum = 0, magnitude = 0;
        for (size_t t = 0; t < s.tokens; t++) {
            const double v = get(p.v.data, s.dtype, t * s.dv + c);
            sum += v, magnitude += fabs(v);
            /* weights p(x), |x| <= 1/2, and chains of 2 C + F + 30 steps at most */
            const double k = 4 * (32 + (double)p.model.features + 30);
            const double got = get(r.o, s.dtype, t * s.dv + c);
            CHECK(fabs(got - sum / (double)(t + 1)) <=
                      k * roundoff(s.dtype) * 2 * magnitude / (double)(t + 1),
                  "row %zu is %.17g, not the mean %.17g", t, got, sum / (double)(t + 1));
        }
    }
    result_end(&r, &p);
    problem_free(&p);
}
END_TEST

/* Later tokens leave earlier rows as they were; inputs are not written. */
START_TEST(prefix)
{
    struct shape s = {5, 33, 3, 7, 2, 1, 1, 40, dtype_of(_i), L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct result all, some;
    problem_make(&p, &s, 13);
    const size_t e = dtype_size(s.dtype), bytes = s.tokens * s.d * e;
    void *k = malloc(bytes);
    memcpy(k, p.k.data, bytes);
    result_begin(&all, &p);
    prefill(&all, &p, 0, s.tokens);
    for (size_t n = 0; n < s.tokens; n++) {
        result_begin(&some, &p);
        prefill(&some, &p, 0, n);
        for (size_t h = 0; h < s.heads; h++) {
            const char *got = (char *)some.o + h * s.tokens * s.dv * e;
            assert_bits(got, (char *)all.o + h * s.tokens * s.dv * e, s.dtype, n * s.dv, "rows");
            for (size_t i = n * s.dv * e; i < s.tokens * s.dv * e; i++)
                CHECK((unsigned char)got[i] == 0xff, "byte %zu after %zu rows was written", i, n);
        }
        ck_assert_uint_eq(tsa_state_tokens(some.states[0], 0), n);
        result_end(&some, &p);
    }
    ck_assert_mem_eq(k, p.k.data, bytes);
    free(k);
    result_end(&all, &p);
    problem_free(&p);
}
END_TEST

START_TEST(nothing_to_do)
{
    struct shape s = {5, 9, 3, 7, 2, 1, 2, 20, dtype_of(_i), L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct result r, twin;
    struct tsa_error err;
    problem_make(&p, &s, 14);
    result_begin(&r, &p);
    result_begin(&twin, &p);
    prefill(&r, &p, 0, 10);
    prefill(&twin, &p, 0, 10);
    prefill(&r, &p, 10, 10);
    ok(tsa_absorb(r.plan, BATCH(.states = r.states, .count = 2, .tokens = 0, .k = p.k, .v = p.v),
                  NULL, &err),
       &err);
    ok(tsa_query(r.plan, BATCH(.states = r.states, .count = 2, .tokens = 0, .q = p.q, .o = r.out),
                 NULL, &err),
       &err);
    ok(tsa_prefill(r.plan,
                   BATCH(.states = r.states, .count = 0, .tokens = 5, .q = p.q, .k = p.k, .v = p.v,
                         .o = r.out),
                   NULL, &err),
       &err);
    ok(tsa_decode(r.plan,
                  BATCH(.states = r.states, .count = 0, .q = p.q, .k = p.k, .v = p.v, .o = r.out),
                  NULL, &err),
       &err);
    assert_bits(r.o, twin.o, s.dtype, p.o_count, "outputs");
    for (size_t b = 0; b < s.batch; b++)
        assert_equal(r.plan, r.states[b], twin.states[b], true);
    result_end(&twin, &p);
    result_end(&r, &p);
    problem_free(&p);
}
END_TEST

/* -- lives of a state -------------------------------------------------------------------------- */

START_TEST(reset_then_rerun)
{
    struct shape s = {5,  33,          3,       16, 2, 1, 2, 32 + (size_t)(_i / 2), dtype_of(_i),
                      L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct result r, fresh;
    struct tsa_error err;
    problem_make(&p, &s, 15);
    result_begin(&r, &p);
    result_begin(&fresh, &p);
    prefill(&r, &p, 0, s.tokens); /* ends at a fold, or one token later */
    for (size_t b = 0; b < s.batch; b++) {
        ok(tsa_state_reset(r.plan, r.states[b], &err), &err);
        ck_assert_uint_eq(tsa_state_tokens(r.states[b], 0), 0);
        ck_assert_uint_eq(tsa_state_window(r.states[b], 0), 0);
        assert_equal(r.plan, r.states[b], fresh.states[b], true);
        size_t count;
        double *all = export_all(r.plan, r.states[b], 0, &count);
        for (size_t i = 0; i < count; i++)
            CHECK(all[i] == 0, "sum %zu is left over", i);
        free(all);
    }
    prefill(&fresh, &p, 3, s.tokens);
    prefill(&r, &p, 3, s.tokens);
    for (size_t b = 0; b < s.batch; b++)
        assert_equal(r.plan, r.states[b], fresh.states[b], true);
    for (size_t i = 0; i < s.batch * s.heads; i++) {
        const size_t at = (i * s.tokens + 3) * s.dv * dtype_size(s.dtype);
        assert_bits((char *)r.o + at, (char *)fresh.o + at, s.dtype, (s.tokens - 3) * s.dv,
                    "rerun");
    }
    result_end(&fresh, &p);
    result_end(&r, &p);
    problem_free(&p);
}
END_TEST

/* A fork and its origin go different ways; both are as if alone. */
START_TEST(fork_goes_on)
{
    struct shape s = {5, 33, 3, 16, 2, 1, 1, 70, dtype_of(_i), L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p, q;
    struct result a, b, alone;
    struct tsa_error err;
    const size_t cut = 21 + 11 * (size_t)(_i / 2); /* in a window, and at a fold */
    problem_make(&p, &s, 16);
    problem_make(&q, &s, 17);
    result_begin(&a, &p);
    result_begin(&b, &q);
    prefill(&b, &q, 0, 30); /* what the copy must overwrite */
    prefill(&a, &p, 0, cut);
    ok(tsa_state_copy(a.plan, b.states[0], a.states[0], &err), &err);
    assert_equal(a.plan, b.states[0], a.states[0], true);
    for (size_t t = cut; t < s.tokens; t++) {
        decode(&a, &p, t);
        decode(&b, &q, t);
    }
    assert_equal(a.plan, b.states[0], a.states[0], false);
    for (int which = 0; which < 2; which++) {
        result_begin(&alone, &p);
        prefill(&alone, &p, 0, cut);
        prefill(&alone, which == 0 ? &p : &q, cut, s.tokens);
        assert_equal(a.plan, alone.states[0], which == 0 ? a.states[0] : b.states[0], true);
        for (size_t h = 0; h < s.heads; h++) {
            const size_t at = (h * s.tokens + cut) * s.dv * dtype_size(s.dtype);
            assert_bits((char *)alone.o + at, (char *)(which == 0 ? a.o : b.o) + at, s.dtype,
                        (s.tokens - cut) * s.dv, "fork");
        }
        result_end(&alone, &p);
    }
    result_end(&b, &q);
    result_end(&a, &p);
    problem_free(&q);
    problem_free(&p);
}
END_TEST

/* A first chunk that sums to 1/u, and then chunks that sum to 1: only hi + lo can count on. */
START_TEST(small_on_large)
{
    struct shape s = {1,  3,           1,       _i / 2 == 0 ? 1 : 4, 1, 1, 1, 1000, dtype_of(_i),
                      L2, COEF_TAYLOR, TEMP_TWO};
    const double large = 1 / roundoff(s.dtype), small = 1 / (double)s.chunk;
    struct problem p;
    struct result r;
    struct tsa_error err;
    struct tsa_view view;
    problem_make(&p, &s, 18);
    for (size_t i = 0; i < s.tokens * s.dv; i++)
        put(p.v.data, s.dtype, i, i < s.dv ? large : i < s.chunk * s.dv ? 0 : small);
    result_begin(&r, &p);
    prefill(&r, &p, 0, s.tokens);
    ok(tsa_state_view(r.plan, r.states[0], 0, 0, &view, &err), &err);
    ck_assert_uint_eq(view.tokens, s.tokens);
    for (size_t c = 0; c < s.dv; c++) {
        const double hi = get(view.hi, s.dtype, c), lo = get(view.lo, s.dtype, c);
        /* exact: hi - large is a small integer; and the sum is odd, which hi cannot hold */
        ck_assert_double_eq(hi - large + lo, (double)(s.tokens / s.chunk - 1));
        ck_assert_double_ne(lo, 0);
    }
    for (size_t t = s.chunk; t < s.tokens; t++) {
        const double n = (double)t + 1, want = large / n + (n - (double)s.chunk) * small / n;
        CHECK(fabs(get(r.o, s.dtype, t * s.dv) - want) <=
                  (double)(4 + s.chunk) * roundoff(s.dtype) * want,
              "row %zu is not %.17g", t, want);
    }
    result_end(&r, &p);
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exact");
    tcase_add_loop_test(add_case(suite, "definition"), definition, 0, CASES);
    tcase_add_loop_test(add_case(suite, "constants"), constants, 0, 18);
    TCase *rows = add_case(suite, "rows");
    tcase_add_loop_test(rows, first_row, 0, 2);
    tcase_add_loop_test(rows, running_mean, 0, 28);
    tcase_add_loop_test(rows, prefix, 0, 2);
    tcase_add_loop_test(rows, nothing_to_do, 0, 2);
    TCase *lives = add_case(suite, "lives");
    tcase_add_loop_test(lives, reset_then_rerun, 0, 4);
    tcase_add_loop_test(lives, fork_goes_on, 0, 4);
    tcase_add_loop_test(lives, small_on_large, 0, 4);
    return run_suite(suite);
}
