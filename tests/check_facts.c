/* SPDX-License-Identifier: MIT */
/* What the paper says about the method, measured with this library: counts, losslessness,
 * additivity, errors against softmax, signs of the kernel; and tensors of a trained model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "truth.h"

/* -- counts ------------------------------------------------------------------------------------ */

START_TEST(counts)
{
    ck_assert_uint_eq(tsa_features(16, 3), 153);
    ck_assert_uint_eq(tsa_features(6, 3), 28);
    ck_assert_uint_eq(tsa_features(1, 8), 8);
    ck_assert_uint_eq(tsa_features(64, 1), 1);
    ck_assert_uint_eq(tsa_features(16, 0), 0);
    ck_assert_uint_eq(tsa_features(16, 9), 0);
    ck_assert_uint_eq(tsa_features(SIZE_MAX, 8), 0);
    ck_assert_uint_eq(tsa_state_elements(16, 64, 3), 9945);
    ck_assert_uint_eq(tsa_state_elements(16, SIZE_MAX, 3), 0);
    for (size_t d = 1; d < 20; d++)
        for (size_t n = 1; n <= 8; n++) { /* F = binom(d+n-1, n-1), by the hockey stick */
            size_t binomial = 1;
            for (size_t j = 1; j < n; j++)
                binomial = binomial * (d + j) / j;
            ck_assert_uint_eq(tsa_features(d, n), binomial);
        }
}
END_TEST

/* A key of ones has all monomials 1, so that the squares of the symmetric basis are the
 * multiplicities: they sum to d^m, over binom(d+m-1, m) rows. */
START_TEST(multiplicities)
{
    for (size_t d = 1; d <= 6; d++) {
        struct shape s = {d,           1,       7, 4, 1, 1, 1, 1, TSA_F64, TSA_NORMALIZE_NONE,
                          COEF_TAYLOR, TEMP_TWO};
        struct problem p;
        struct tsa_error err;
        problem_make(&p, &s, 1);
        for (size_t c = 0; c < d; c++)
            put(p.k.data, TSA_F64, c, 1);
        struct tsa_plan *plan = problem_plan(&p, NULL, 1);
        struct tsa_state **st = states_make(plan, 1);
        ok(tsa_absorb(plan, BATCH(.states = st, .count = 1, .tokens = 1, .k = p.k, .v = p.v), NULL,
                      &err),
           &err);
        for (size_t m = 0; m < s.terms; m++) {
            const size_t rows = tsa_features(d, m + 1) - tsa_features(d, m);
            double *out = malloc((2 * rows + 2) * sizeof *out), sum = 0;
            out[2 * rows] = 42;
            ok(tsa_state_export(plan, st[0], 0, 0, m, TSA_BASIS_SYMMETRIC, out, 2, &err), &err);
            for (size_t r = 0; r < rows; r++)
                sum += round(out[2 * r + 1] * out[2 * r + 1]);
            ck_assert_double_eq(sum, pow((double)d, (double)m));
            ck_assert_double_eq(out[2 * rows], 42);
            free(out);
        }
        states_free(st, 1);
        tsa_plan_destroy(plan);
        problem_free(&p);
    }
}
END_TEST

/* -- the recurrence against the kernel --------------------------------------------------------- */

/* One prefill of a problem with one head; the outputs. */
static void *run(const struct problem *p, struct tsa_state **st, struct tsa_plan *plan)
{
    const struct shape *s = &p->shape;
    struct tsa_error err;
    void *out = make_zeros(p->o_count, s->dtype);
    const struct tsa_tensor o = dense(out, s->dtype, s->heads, s->tokens, s->dv);
    ok(tsa_prefill(plan,
                   BATCH(.states = st, .count = s->batch, .tokens = s->tokens, .q = p->q, .k = p->k,
                         .v = p->v, .o = o),
                   NULL, &err),
       &err);
    return out;
}

static double largest(const double *x, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

/* f64, d=6, dv=4, N=64, a=sqrt(d): relative to the largest output the paper finds 2.2e-16 to
 * 4.4e-16, and for rescanning as well, which is what explicit_row does. Without normalisation the
 * weights of even n may nearly cancel: the error grows by sum|w|/|sum w|, which the bound has. */
START_TEST(lossless)
{
    const size_t n = 1 + (size_t)_i / 4;
    const double temperature = sqrt(6);
    struct shape s = {6,           4,
                      n,           _i / 2 % 2 == 0 ? 1 : 16,
                      1,           1,
                      1,           64,
                      TSA_F64,     _i % 2 == 0 ? TSA_NORMALIZE_L2 : TSA_NORMALIZE_NONE,
                      COEF_TAYLOR, TEMP_PER_HEAD};
    struct problem p;
    problem_make(&p, &s, 500);
    p.temperature[0] = temperature;
    struct rng r = {77}; /* plain normal rows, without the odd ones of the other tests */
    fill_normal(&r, p.q.data, TSA_F64, 64 * 6, 1);
    fill_normal(&r, p.k.data, TSA_F64, 64 * 6, 1);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    struct tsa_state **st = states_make(plan, 1);
    double *out = run(&p, st, plan), worst = 0, most = 0;
    struct truth truth[4];
    for (size_t t = 0; t < 64; t++) {
        explicit_row(&p.model, 0, (double *)p.q.data + t * 6, p.k.data, p.v.data, t + 1, truth);
        for (size_t c = 0; c < 4; c++) {
            const double error = fabs(out[t * 4 + c] - truth[c].value);
            ck_assert_double_le(error, truth[c].bound);
            most = fmax(most, fabs(truth[c].value));
            worst = fmax(worst, error);
        }
    }
    if (s.normalize == TSA_NORMALIZE_L2 || n % 2 == 1)
        ck_assert_double_le(worst, 8 * 2.2e-16 * most);
    free(out);
    states_free(st, 1);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* States of [0,32) and [32,64) add up to that of [0,64), and give its outputs. */
START_TEST(additive)
{
    struct shape s = {6, 4,  6,       _i == 0 ? 1 : 16,   1,           1,
                      1, 64, TSA_F64, TSA_NORMALIZE_NONE, COEF_TAYLOR, TEMP_SHARED};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 501);
    p.temperature[0] = sqrt(6);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    struct tsa_state **st = states_make(plan, 3);
    const struct tsa_tensor k = from_token(p.k, 32), v = from_token(p.v, 32);
    ok(tsa_absorb(plan, BATCH(.states = st, .count = 1, .tokens = 64, .k = p.k, .v = p.v), NULL,
                  &err),
       &err);
    ok(tsa_absorb(plan, BATCH(.states = st + 1, .count = 1, .tokens = 32, .k = p.k, .v = p.v), NULL,
                  &err),
       &err);
    ok(tsa_absorb(plan, BATCH(.states = st + 2, .count = 1, .tokens = 32, .k = k, .v = v), NULL,
                  &err),
       &err);
    ok(tsa_state_merge(plan, st[1], st[2], NULL, &err), &err);
    size_t count;
    double *a = export_all(plan, st[0], 0, &count), *b = export_all(plan, st[1], 0, &count);
    const double most = largest(a, count);
    for (size_t i = 0; i < count; i++)
        CHECK(fabs(a[i] - b[i]) <= 4e-16 * most, "state element %zu", i);
    double x[64 * 4], y[64 * 4];
    const struct tsa_tensor xo = dense(x, TSA_F64, 1, 64, 4), yo = dense(y, TSA_F64, 1, 64, 4);
    ok(tsa_query(plan, BATCH(.states = &st[0], .count = 1, .tokens = 64, .q = p.q, .o = xo), NULL,
                 &err),
       &err);
    ok(tsa_query(plan, BATCH(.states = &st[1], .count = 1, .tokens = 64, .q = p.q, .o = yo), NULL,
                 &err),
       &err);
    const double output = largest(x, 64 * 4);
    for (size_t i = 0; i < 64 * 4; i++)
        CHECK(fabs(x[i] - y[i]) <= 8 * 1.7e-16 * output, "output %zu", i);
    free(a);
    free(b);
    states_free(st, 3);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- against softmax --------------------------------------------------------------------------- */

/* d=16, dv=64, a=2, N=2048, unit rows: relative error 6.5e-4 for n=3, 10 to 18 times less with each
 * further term. The softmax is computed here in double, and must be what tsa_softmax finds. */
START_TEST(softmax_error)
{
    const size_t tokens = quick() ? 256 : 2048, dv = 64, d = 16;
    double error[3] = {0}, norm = 0;
    void *exact = NULL;
    for (size_t n = 2; n <= 4; n++) {
        struct shape s = {d,           dv,      n, 64, 1, 1, 1, tokens, TSA_F64, TSA_NORMALIZE_L2,
                          COEF_TAYLOR, TEMP_TWO};
        struct problem p;
        struct tsa_error err;
        problem_make(&p, &s, 502);
        struct rng r = {78};
        fill_normal(&r, p.q.data, TSA_F64, tokens * d, 1);
        fill_normal(&r, p.k.data, TSA_F64, tokens * d, 1);
        struct tsa_plan *plan = problem_plan(&p, NULL, 1);
        struct tsa_state **st = states_make(plan, 1);
        if (exact == NULL) {
            exact = make_zeros(p.o_count, TSA_F64);
            const struct tsa_tensor o = dense(exact, TSA_F64, 1, tokens, dv);
            ok(tsa_softmax(plan, 1, tokens, tokens, 1, &p.q, &p.k, &p.v, &o, NULL, &err), &err);
            for (size_t t = 0; t < tokens; t += 97) {
                double den = 0, num = 0, qq = 0;
                for (size_t c = 0; c < d; c++)
                    qq += pow(get(p.q.data, TSA_F64, t * d + c), 2);
                for (size_t i = 0; i <= t; i++) {
                    double x = 0, kk = 0;
                    for (size_t c = 0; c < d; c++) {
                        const double kc = get(p.k.data, TSA_F64, i * d + c);
                        x += kc * get(p.q.data, TSA_F64, t * d + c);
                        kk += kc * kc;
                    }
                    const double w = exp(x / sqrt(qq) / sqrt(kk) / 2);
                    den += w;
                    num += w * get(p.v.data, TSA_F64, i * dv + 3);
                }
                ck_assert_double_le(fabs(num / den - get(exact, TSA_F64, t * dv + 3)), 1e-14);
            }
        }
        double *out = run(&p, st, plan), sum = 0;
        norm = 0;
        for (size_t i = 0; i < p.o_count; i++) {
            sum += pow(out[i] - get(exact, TSA_F64, i), 2);
            norm += pow(get(exact, TSA_F64, i), 2);
        }
        error[n - 2] = sqrt(sum / norm);
        free(out);
        states_free(st, 1);
        tsa_plan_destroy(plan);
        problem_free(&p);
    }
    ck_assert_double_ge(error[1], 3e-4);
    ck_assert_double_le(error[1], 1.3e-3);
    ck_assert(error[0] / error[1] > 8 && error[0] / error[1] < 20);
    ck_assert(error[1] / error[2] > 8 && error[1] / error[2] < 24);
    free(exact);
}
END_TEST

/* Negative entries of the kernel, d=6, N=64, a=sqrt(d), unnormalised: 13.7 %, 0, 5.2 %, 0 for
 * n = 2..5. Entries are <phi(q), phi(k)> of states that hold one row each, as exported. */
START_TEST(negative_entries)
{
    enum { ROWS = 64, F = 210, TERMS = 5 };
    static const double expected[] = {13.7, 0, 5.2, 0};
    struct shape s = {6,           1,       TERMS, 4, 1, 1, ROWS, 2, TSA_F64, TSA_NORMALIZE_NONE,
                      COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 503);
    struct rng r = {79};
    fill_normal(&r, p.k.data, TSA_F64, ROWS * 2 * 6, 1);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    struct tsa_state **st = states_make(plan, ROWS);
    double *phi = malloc(2 * ROWS * F * 2 * sizeof *phi);
    for (size_t j = 0; j < 2; j++) { /* token 0 of each sequence is a query, token 1 a key */
        const struct tsa_tensor k = from_token(p.k, j), v = from_token(p.v, j);
        ok(tsa_absorb(plan, BATCH(.states = st, .count = ROWS, .tokens = 1, .k = k, .v = v), NULL,
                      &err),
           &err);
        for (size_t i = 0; i < ROWS; i++) {
            for (size_t m = 0; m < TERMS; m++)
                ok(tsa_state_export(plan, st[i], 0, 0, m, TSA_BASIS_SYMMETRIC,
                                    phi + ((j * ROWS + i) * F + tsa_features(6, m)) * 2, 2, &err),
                   &err);
            ok(tsa_state_reset(plan, st[i], &err), &err);
        }
    }
    ck_assert_uint_eq(tsa_features(6, TERMS), F);
    for (size_t n = 2; n <= TERMS; n++) {
        size_t negative = 0, total = 0;
        for (size_t q = 0; q < ROWS; q++)
            for (size_t k = 0; k <= q; k++, total++) {
                double w = 0, c = 1;
                for (size_t m = 0; m < n; m++, c /= (double)m * sqrt(6))
                    for (size_t f = tsa_features(6, m); f < tsa_features(6, m + 1); f++)
                        w += c * phi[(q * F + f) * 2 + 1] * phi[((ROWS + k) * F + f) * 2 + 1];
                negative += w < 0;
            }
        const double percent = 100 * (double)negative / (double)total;
        ck_assert_double_le(fabs(percent - expected[n - 2]), n % 2 == 0 ? 3.0 : 0.0);
    }
    free(phi);
    states_free(st, ROWS);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- a trained model's tensors ----------------------------------------------------------------- */

/* The array of a file as T. */
static struct tsa_tensor load(const char *name, enum tsa_dtype dtype, size_t heads, size_t count)
{
    size_t found;
    double *data = npy_read(data_path(name), &found);
    ck_assert_uint_eq(found, count);
    void *rows = make_zeros(count, dtype);
    for (size_t i = 0; i < count; i++)
        put(rows, dtype, i, data[i]);
    free(data);
    return dense(rows, dtype, heads, 384, 8);
}

/* 5 layers as a batch, 8 heads on 4 kv heads, d = dv = 8, 384 tokens; n = 3, unit rows with a = 2,
 * or raw rows with a = sqrt(8). Raw scores are large and cancel: 1e-12 and 2e-6 are for unit
 * rows. */
START_TEST(story)
{
    const enum tsa_dtype dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    const bool unit = _i / 2 == 0;
    const size_t count = 5 * 8 * 384 * 8;
    if (data_path("story_q.npy") == NULL)
        return;
    struct tsa_tensor q = load("story_q.npy", dtype, 8, count);
    struct tsa_tensor k = load("story_k.npy", dtype, 4, count / 2);
    struct tsa_tensor v = load("story_v.npy", dtype, 4, count / 2);
    struct tsa_tensor want = load(
        unit ? "story_o_unit_n3_a2_f64.npy" : "story_o_raw_n3_asqrt8_f64.npy", TSA_F64, 8, count);
    struct tsa_options o;
    struct tsa_error err;
    ck_assert_int_eq(tsa_options_init(&o, sizeof o), TSA_OK);
    o.head_dim = o.value_dim = 8;
    o.heads = 8, o.kv_heads = 4;
    o.dtype = dtype;
    o.chunk = 32;
    o.temperature = unit ? 2 : sqrt(8);
    o.normalize = unit ? TSA_NORMALIZE_L2 : TSA_NORMALIZE_NONE;
    struct tsa_plan *plan = make_plan(&o);
    struct tsa_state **st = states_make(plan, 5);
    void *out = make_zeros(count, dtype);
    const struct tsa_tensor to = dense(out, dtype, 8, 384, 8);
    ok(tsa_prefill(plan,
                   BATCH(.states = st, .count = 5, .tokens = 384, .q = q, .k = k, .v = v, .o = to),
                   NULL, &err),
       &err);
    double sum = 0, norm = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double x = get(want.data, TSA_F64, i), error = fabs(get(out, dtype, i) - x);
        sum += error * error, norm += x * x;
        worst = fmax(worst, error / fmax(1, fabs(x)));
    }
    const double relative = sqrt(sum / norm), limit = dtype == TSA_F64 ? 1e-12 : 2e-6;
    ck_assert_double_le(relative, unit ? limit : 10 * limit);
    ck_assert_double_le(worst, unit ? limit : 20 * limit);
    free(q.data);
    free(k.data);
    free(v.data);
    free(want.data);
    free(out);
    states_free(st, 5);
    tsa_plan_destroy(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("facts");
    TCase *numbers = add_case(suite, "counts");
    tcase_add_test(numbers, counts);
    tcase_add_test(numbers, multiplicities);
    TCase *kernel = add_case(suite, "kernel");
    tcase_add_loop_test(kernel, lossless, 0, 24);
    tcase_add_loop_test(kernel, additive, 0, 2);
    TCase *softmax = add_case(suite, "softmax");
    tcase_add_test(softmax, softmax_error);
    tcase_add_test(softmax, negative_entries);
    tcase_add_loop_test(add_case(suite, "story"), story, 0, 4);
    return run_suite(suite);
}
