/* SPDX-License-Identifier: MIT */
/* Softmax with a window, and of keys that are normalised already. A row with a window has the bits
 * of a call with that query and the keys that it sees. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "softmax_run.h"

static struct tsa_plan *window_plan(const struct problem *p, size_t window, int threads,
                                    const char *isa)
{
    struct tsa_options options;
    problem_options(p, &options);
    options.softmax_window = window;
    options.threads = threads;
    options.isa = isa;
    return make_plan(&options);
}

static const struct {
    enum softmax_form form;
    enum tsa_dtype dtype;
    struct softmax_size size;
    size_t queries, windows[3];
} cases[] = {
    {BOUNDED,
     TSA_F32,
     {.d = 16, .dv = 64, .heads = 4, .kv_heads = 2, .batch = 2, .keys = 150},
     150,
     {1, 64, 100}},
    {GENERAL,
     TSA_F32,
     {.d = 5, .dv = 19, .heads = 3, .kv_heads = 1, .batch = 1, .keys = 200},
     77,
     {2, 65, 199}},
    {BOUNDED,
     TSA_F64,
     {.d = 7, .dv = 8, .heads = 2, .kv_heads = 2, .batch = 1, .keys = 140},
     3,
     {16, 127, 140}},
    {MIXED,
     TSA_F64,
     {.d = 16, .dv = 5, .heads = 10, .kv_heads = 1, .batch = 1, .keys = 90},
     20,
     {7, 63, 5000}},
    {UNSCALED,
     TSA_F32,
     {.d = 16, .dv = 16, .heads = 2, .kv_heads = 1, .batch = 1, .keys = 9000},
     2,
     {4096, 4097, 8500}},
};

START_TEST(slices)
{
    struct problem p;
    struct tsa_error err;
    softmax_problem(&p, cases[_i].form, cases[_i].dtype, &cases[_i].size);
    const struct shape *s = &p.shape;
    const size_t n = s->tokens, m = cases[_i].queries, e = dtype_size(s->dtype);
    const size_t count = s->batch * s->heads * m * s->dv;
    void *got = make_zeros(count, s->dtype), *want = make_zeros(count, s->dtype);
    const char *isa;
    for (size_t i = 0; i < 3; i++) {
        const size_t window = cases[_i].windows[i];
        struct tsa_plan *all = window_plan(&p, 0, 1, NULL);
        for (size_t t = 0; t < m; t++) {
            const size_t seen = n - m + t + 1, keys = seen < window ? seen : window;
            const struct tsa_tensor q = from_token(p.q, seen - 1), k = from_token(p.k, seen - keys);
            const struct tsa_tensor v = from_token(p.v, seen - keys);
            const struct tsa_tensor o = from_token(dense(want, s->dtype, s->heads, m, s->dv), t);
            ok(tsa_softmax(all, s->batch, 1, keys, 1, &q, &k, &v, &o, NULL, &err), &err);
        }
        tsa_plan_destroy(all);
        for (size_t j = 0; (isa = usable_isa(j)) != NULL; j++)
            for (int threads = 1; threads <= (j == 0 ? 3 : 1); threads++) {
                struct tsa_plan *plan = window_plan(&p, window, threads, isa);
                const struct tsa_tensor q = from_token(p.q, n - m);
                const struct tsa_tensor o = dense(got, s->dtype, s->heads, m, s->dv);
                memset(got, 0xff, count * e);
                ok(tsa_softmax(plan, s->batch, m, n, 1, &q, &p.k, &p.v, &o, NULL, &err), &err);
                assert_bits(got, want, s->dtype, count, "rows with a window");
                tsa_plan_destroy(plan);
            }
    }
    free(got);
    free(want);
    problem_free(&p);
}
END_TEST

/* Keys before every window are not looked at; the others are, and named by their own place. */
START_TEST(unseen)
{
    struct problem p;
    struct tsa_error err;
    softmax_problem(&p, BOUNDED, TSA_F32,
                    SIZE(.d = 16, .dv = 16, .heads = 1, .kv_heads = 1, .batch = 1, .keys = 100));
    struct tsa_plan *plan = window_plan(&p, 10, 1, NULL);
    float *k = p.k.data, o[2 * 16];
    const struct tsa_tensor q = from_token(p.q, 98), out = dense(o, TSA_F32, 1, 2, 16);
    for (int i = 0; i < 89 * 16; i++)
        k[i] = NAN;
    ok(tsa_softmax(plan, 1, 2, 100, 1, &q, &p.k, &p.v, &out, NULL, &err), &err);
    for (int i = 0; i < 2 * 16; i++)
        ck_assert(isfinite(o[i]));
    k[89 * 16 + 3] = NAN;
    assert_error(&err, tsa_softmax(plan, 1, 2, 100, 1, &q, &p.k, &p.v, &out, NULL, &err),
                 TSA_ENONFINITE, "k");
    ck_assert_int_eq(err.token, 89);
    ck_assert_int_eq(err.column, 3);
    assert_error(&err, tsa_softmax(plan, 1, 2, 100, 0, &q, &p.k, &p.v, &out, NULL, &err),
                 TSA_EINVAL, "causal");
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* Keys normalised by the caller, as the arithmetic does it, and not once more. */
START_TEST(unit_keys)
{
    struct problem p;
    struct tsa_error err;
    struct tsa_options options;
    const size_t d = _i % 2 ? 16 : 6, n = _i < 2 ? 1 : 70;
    softmax_problem(&p, BOUNDED, TSA_F32,
                    SIZE(.d = d, .dv = 16, .heads = 2, .kv_heads = 1, .batch = 1, .keys = 5000));
    struct tsa_plan *plan = window_plan(&p, 0, 1, NULL);
    problem_options(&p, &options);
    options.flags |= TSA_UNIT_KEYS;
    options.threads = 1;
    struct tsa_plan *unit = make_plan(&options);
    float *want = calloc(2 * n * 16, sizeof *want), *got = calloc(2 * n * 16, sizeof *got);
    void *keys = softmax_keys(&p, 0, 0);
    const struct tsa_tensor q = from_token(p.q, 5000 - n);
    const struct tsa_tensor a = dense(want, TSA_F32, 2, n, 16), b = dense(got, TSA_F32, 2, n, 16);
    const struct tsa_tensor k = dense(keys, TSA_F32, 1, 5000, d);
    ok(tsa_softmax(plan, 1, n, 5000, 1, &q, &p.k, &p.v, &a, NULL, &err), &err);
    ok(tsa_softmax(unit, 1, n, 5000, 1, &q, &k, &p.v, &b, NULL, &err), &err);
    assert_bits(got, want, TSA_F32, 2 * n * 16, "unit keys");
    free(keys);
    free(want);
    free(got);
    tsa_plan_destroy(plan);
    tsa_plan_destroy(unit);
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softmax window");
    tcase_add_loop_test(add_case(suite, "slices"), slices, 0, COUNT(cases));
    tcase_add_test(add_case(suite, "unseen"), unseen);
    tcase_add_loop_test(add_case(suite, "unit_keys"), unit_keys, 0, 4);
    return run_suite(suite);
}
