/* SPDX-License-Identifier: MIT */
/* Values of tsa_softmax: its exponentials; the bound that is derived from the definition; large
 * scores, constants, infinities and NaN; and what it asks of the host and refuses. */
#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "softmax_run.h"

/* -- the exponentials -------------------------------------------------------------------------- */

#define POINTS 4096
#define SET_BITS(x, bits) memcpy(&(x), &(bits), sizeof(x))

/* Scalar kernels take one block in `slow`: they are what the model is. */
static bool takes(const struct tsa_isa *isa, size_t block, size_t slow)
{
    return tsa_isa_usable(isa) && (isa->lanes > 1 || block % slow == 0);
}

/* Every float of magnitude 2^-10 to 1/2 + 2^-18, either sign. Of the smaller ones every 257th:
 * there x g(x) is within 2^-33 of e^x - 1, so that the last fma is all that matters. */
START_TEST(bounded_f32)
{
    static _Alignas(64) float x[POINTS], got[POINTS], want[POINTS];
    const uint32_t small = 0x3a800000, last = 0x3f000040;
    const struct tsa_isa *isa;
    uint32_t bits = 0;
    for (size_t block = 0; bits <= last; block++) {
        const bool skip = quick() && block % 64 != 0;
        for (size_t i = 0; i < POINTS; i += 2) {
            const uint32_t at = bits <= last ? bits : last, negative = at | 0x80000000;
            SET_BITS(x[i], at);
            SET_BITS(x[i + 1], negative);
            bits += bits < small ? 257 : 1;
        }
        for (size_t i = 0; !skip && i < POINTS; i++) {
            const double y = exp((double)x[i]);
            want[i] = softmax_exp_bounded_f32(x[i]);
            CHECK(fabs((double)want[i] - y) <= (y < 1 ? 0x1p-24 : 0x1p-23),
                  "the exponential of %a is %a", (double)x[i], (double)want[i]);
        }
        for (size_t i = 0; !skip && (isa = tsa_isa_at(i)) != NULL; i++)
            if (takes(isa, block, 16)) {
                isa->f32->exp_bounded(POINTS, x, got);
                assert_bits(got, want, TSA_F32, POINTS, isa->name);
            }
    }
    ck_assert(x[POINTS - 2] == 0.5f + 0x1p-18f);
}
END_TEST

/* A million points, of which a sixteenth are small, and the ends. */
START_TEST(bounded_f64)
{
    static _Alignas(64) double x[POINTS], got[POINTS], want[POINTS];
    const double end = 0.5 + 0x1p-18;
    const struct tsa_isa *isa;
    struct rng rng = {41};
    for (size_t block = 0; block < (quick() ? 4 : 245); block++) {
        for (size_t i = 0; i < POINTS; i++) {
            x[i] = (2 * rng_uniform(&rng) - 1) * end;
            if (i % 16 == 0)
                x[i] = ldexp(x[i], -(int)(rng_next(&rng) % 80));
        }
        x[0] = end, x[1] = -end, x[2] = 0, x[3] = -0.0, x[4] = 5e-324, x[5] = -0.5;
        for (size_t i = 0; i < POINTS; i++) {
            want[i] = softmax_exp_bounded_f64(x[i]);
            if (LDBL_MANT_DIG > DBL_MANT_DIG) {
                const long double y = expl((long double)x[i]);
                CHECK(fabsl((long double)want[i] - y) <= (y < 1 ? 0x1p-53L : 0x1p-52L),
                      "the exponential of %a is %a", x[i], want[i]);
            }
        }
        for (size_t i = 0; (isa = tsa_isa_at(i)) != NULL; i++)
            if (takes(isa, block, 4)) {
                isa->f64->exp_bounded(POINTS, x, got);
                assert_bits(got, want, TSA_F64, POINTS, isa->name);
            }
    }
}
END_TEST

/* -- the definition, large scores, constants --------------------------------------------------- */

START_TEST(definition)
{
    static const size_t shapes[][3] = {{1, 3, 90}, {3, 1, 300}, {16, 5, 200}, {64, 2, 130}};
    const size_t *s = shapes[_i / FORMS / 2];
    struct problem p;
    if (quick() && _i % 5 != 0) /* the model alone: the full run has it */
        return;
    softmax_problem(
        &p, (enum softmax_form)(_i % FORMS), _i / FORMS % 2 == 0 ? TSA_F32 : TSA_F64,
        SIZE(.d = s[0], .dv = s[1], .heads = 6, .kv_heads = 2, .batch = 1, .keys = s[2]));
    for (int causal = 0; causal < 2; causal++) {
        void *o = softmax_solve(&p, causal, 1);
        softmax_check_definition(&p, o, causal, 1, quick() ? 41 : 11);
        free(o);
    }
    problem_free(&p);
}
END_TEST

/* Scores of token t, for queries (1, ...) of temperature 1. */
enum scores { RANDOM, RISING, RISING_SLOWLY, FALLING, EQUAL, ZEROS, STEPS, SPIKE, PATTERNS };

static double score_at(enum scores pattern, size_t t, struct rng *rng)
{
    switch (pattern) {
    case RANDOM:
        return 1e4 * (2 * rng_uniform(rng) - 1);
    case RISING:
        return fmin(37.25 * (double)t, 1e4);
    case RISING_SLOWLY:
        return 0.013 * (double)t;
    case FALLING:
        return fmax(-37.25 * (double)t, -1e4);
    case EQUAL:
        return 77.7;
    case STEPS: /* from one block of 64 to the next */
        return (t / 64 % 2 == 0 ? 1 : -1) * (double)(t % 640);
    case SPIKE:
        return t == 3 ? 1e4 : t % 64 == 9 ? -1e4 : rng_normal(rng);
    default:
        return 0;
    }
}

static void set_scores(struct problem *p, enum scores pattern)
{
    const struct shape *s = &p->shape;
    struct rng rng = {5};
    for (size_t i = 0; i < s->heads * s->tokens; i++)
        if (i % 50 != 49) /* some queries are zero */
            for (size_t c = 0; c < s->d; c++)
                put(p->q.data, s->dtype, i * s->d + c, c == 0 ? 1 : 0.01 * rng_normal(&rng));
        else
            for (size_t c = 0; c < s->d; c++)
                put(p->q.data, s->dtype, i * s->d + c, -0.0);
    for (size_t i = 0; i < s->kv_heads * s->tokens; i++)
        for (size_t c = 0; c < s->d; c++)
            put(p->k.data, s->dtype, i * s->d + c,
                c == 0                                 ? score_at(pattern, i % s->tokens, &rng)
                : pattern == EQUAL || pattern == ZEROS ? 0
                                                       : rng_normal(&rng));
    for (size_t h = 0; h < s->heads; h++)
        p->temperature[h] = 1;
}

static void check_large(struct problem *p, size_t queries, const char *what)
{
    const struct shape *s = &p->shape;
    const size_t every = queries == s->tokens ? 1 : s->tokens;
    void *want[2] = {softmax_solve(p, false, every), softmax_solve(p, true, every)};
    const char *isa;
    double largest = 0;
    for (size_t i = 0; i < s->kv_heads * s->tokens * s->dv; i++)
        largest = fmax(largest, fabs(get(p->v.data, s->dtype, i)));
    for (int causal = 0; causal < 2; causal++) {
        if (queries == s->tokens)
            softmax_check_definition(p, want[causal], causal, 1, 37);
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
            struct softmax_run r;
            softmax_run_begin(&r, p, isa, 1 + (int)i % 2, i % 2 == 0, 0);
            softmax_check_last(&r, want[causal], queries, causal, what);
            for (size_t j = 0; j < p->o_count; j++) /* a mean of values, or poison */
                CHECK(j / s->dv % s->tokens < s->tokens - queries ||
                          fabs(get(r.o, s->dtype, j)) <= 1.01 * largest,
                      "%s: output %zu is no mean", what, j);
            softmax_run_end(&r);
        }
        free(want[causal]);
    }
}

/* Large scores neither overflow nor leave 0/0; the largest may change in any block, or lie in keys
 * that a query does not see. */
START_TEST(large_scores)
{
    struct problem p;
    const enum scores pattern = (enum scores)(_i / 2);
    const enum tsa_dtype dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    softmax_problem(
        &p, UNSCALED, dtype,
        SIZE(.d = 3, .dv = 5, .heads = 2, .kv_heads = 1, .batch = 1, .keys = quick() ? 140 : 300));
    set_scores(&p, pattern);
    check_large(&p, p.shape.tokens, "large scores");
    problem_free(&p);
    softmax_problem(&p, UNSCALED, dtype,
                    SIZE(.d = 2, .dv = 3, .heads = 1, .kv_heads = 1, .batch = 1, .keys = 8300));
    set_scores(&p, pattern);
    check_large(&p, 4, "large scores, long rows");
    problem_free(&p);
}
END_TEST

/* Normalised rows at a very low temperature. */
START_TEST(cold)
{
    struct problem p;
    softmax_problem(&p, GENERAL, _i % 2 == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = 4, .dv = 5, .heads = 2, .kv_heads = 1, .batch = 1, .keys = 300));
    p.temperature[0] = 1e-4;
    p.temperature[1] = 1e-3;
    check_large(&p, 300, "a low temperature");
    problem_free(&p);
}
END_TEST

/* Values of 1 give exactly 1, and other powers of two themselves; 3 comes back within the bound. */
START_TEST(constants)
{
    struct problem p;
    const char *isa;
    const enum softmax_form form = (enum softmax_form)(_i % FORMS);
    const size_t n = _i / FORMS / 2 == 0 ? 130 : 4170, queries = n < 1000 ? n : 3;
    softmax_problem(&p, form, _i / FORMS % 2 == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = 5, .dv = 4, .heads = 6, .kv_heads = 3, .batch = 1, .keys = n));
    const struct shape *s = &p.shape;
    static const double value[3][4] = {{1, -2, 0.125, 3}, {1, 1, 3, -4}, {3, 1, 0, -1}};
    for (size_t i = 0; i < 3 * n; i++)
        for (size_t c = 0; c < 4; c++)
            put(p.v.data, s->dtype, i * 4 + c, value[i / n][c]);
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (int j = 0; j < 4; j++) {
            const size_t first = n - queries;
            struct softmax_run r;
            softmax_run_begin(&r, &p, isa, 1 + j % 2, false, j < 2 ? 0 : TSA_SKIP_INPUT_CHECK);
            softmax_poison(&r);
            softmax_attend(&r, first, queries, n, j % 2);
            for (size_t m = 0; m < p.o_count; m++) {
                const size_t h = m / 4 / n, t = m / 4 % n;
                const double want = value[h / 2][m % 4], got = get(r.o, s->dtype, m);
                struct truth truth[4];
                if (t < first)
                    continue;
                CHECK(fabs(want) == 3 || got == want, "head %zu, query %zu: %.17g, not %g", h, t,
                      got, want);
                if (fabs(want) == 3 && t % 64 == 0) {
                    softmax_define(&p, 0, h, t, j % 2 ? t + 1 : n, truth);
                    CHECK(fabs(got - 3) <= truth[m % 4].bound, "head %zu, query %zu: %.17g", h, t,
                          got);
                }
            }
            softmax_run_end(&r);
        }
    problem_free(&p);
}
END_TEST

/* -- infinities and NaN ------------------------------------------------------------------------ */

/* Let through by the flag: queries that do not see them have clean outputs; those that do follow
 * the arithmetic, with the canonical NaN. */
START_TEST(nonfinite)
{
    enum { BAD = 70, N = 130, CASES = 9 };
    for (int j = quick() ? _i % 3 : 0; j < CASES; j += quick() ? 3 : 1) {
        struct problem p;
        const char *isa;
        softmax_problem(&p, (enum softmax_form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64,
                        SIZE(.d = 5, .dv = 7, .heads = 4, .kv_heads = 2, .batch = 1, .keys = N));
        const enum tsa_dtype dtype = p.shape.dtype;
        struct tsa_tensor *x = j % 3 == 0 ? &p.v : j % 3 == 1 ? &p.k : &p.q;
        put(x->data, dtype, BAD * (size_t)x->token + 1,
            j / 3 == 0   ? -NAN
            : j / 3 == 1 ? INFINITY
                         : -INFINITY);
        void *want[2] = {softmax_solve(&p, false, 1), softmax_solve(&p, true, 1)};
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
            for (int causal = 0; causal < 2; causal++) {
                struct softmax_run r;
                size_t nans = 0;
                softmax_run_begin(&r, &p, isa, 1 + (int)i % 3, causal, TSA_SKIP_INPUT_CHECK);
                softmax_check_last(&r, want[causal], N, causal, "with NaN");
                for (size_t m = 0; m < p.o_count; m++) {
                    const size_t h = m / 7 / N, t = m / 7 % N;
                    const double y = get(r.o, dtype, m);
                    nans += isnan(y);
                    CHECK((t >= BAD || (!causal && j % 3 != 2)) || isfinite(y),
                          "case %d, query %zu is not clean", j, t);
                    /* the whole row, for a NaN in the key of the first group, which it sees */
                    CHECK(j != 1 || h >= 2 || (causal && t < BAD) || isnan(y),
                          "query %zu: no NaN from its key", t);
                }
                CHECK(j / 3 > 0 || nans > 0, "case %d: no NaN", j);
                softmax_run_end(&r);
            }
        free(want[0]);
        free(want[1]);
        problem_free(&p);
    }
}
END_TEST

/* Whatever lies in all later keys and values. */
START_TEST(masked)
{
    enum { N = 200 };
    static const size_t keys[] = {1, 17, 63, 64, 65, 128};
    for (size_t j = 0; j < COUNT(keys); j++) {
        struct problem p;
        const char *isa;
        softmax_problem(&p, (enum softmax_form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64,
                        SIZE(.d = 5, .dv = 19, .heads = 4, .kv_heads = 2, .batch = 1, .keys = N));
        const struct shape *s = &p.shape;
        void *want = softmax_solve(&p, true, 1);
        for (size_t i = 0; i < 2 * N; i++)
            for (size_t c = 0; i % N >= keys[j] && c < s->d + s->dv; c++)
                if (c < s->d)
                    put(p.k.data, s->dtype, i * s->d + c, c % 2 == 0 ? NAN : INFINITY);
                else
                    put(p.v.data, s->dtype, i * s->dv + c - s->d, c % 2 == 0 ? -INFINITY : NAN);
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
            struct softmax_run r;
            const size_t row = s->dv * dtype_size(s->dtype);
            softmax_run_begin(&r, &p, isa, 1 + (int)i % 3, i % 2 == 0, TSA_SKIP_INPUT_CHECK);
            softmax_poison(&r);
            softmax_attend(&r, 0, N, N, true);
            for (size_t m = 0; m < 4 * N; m++)
                if (m % N < keys[j])
                    assert_bits((char *)r.o + m * row, (char *)want + m * row, s->dtype, s->dv,
                                "masked keys");
                else
                    for (size_t c = 0; c < s->dv; c++)
                        CHECK(isnan(get(r.o, s->dtype, m * s->dv + c)), "query %zu", m % N);
            softmax_run_end(&r);
        }
        free(want);
        problem_free(&p);
    }
}
END_TEST

/* -- the host ---------------------------------------------------------------------------------- */

/* Counts, and refuses the allocation number `refuse` (from 0). */
struct meter {
    size_t calls, live, refuse;
};

static void *meter_allocate(void *user, size_t bytes, size_t alignment)
{
    struct meter *m = user;
    if (m->calls++ == m->refuse)
        return NULL;
    m->live++;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    memset(memory, 0xff, bytes);
    return memory;
}

static void meter_release(void *user, void *memory, size_t bytes)
{
    struct meter *m = user;
    m->live--;
    memset(memory, 0xff, bytes);
    free(memory);
}

/* With a workspace nothing is allocated, for any number of keys; without one all is given back. The
 * rounding mode and errno of the caller do not matter, and stay. */
START_TEST(host)
{
    struct problem p;
    struct tsa_options o;
    struct tsa_error err;
    struct meter m = {.refuse = SIZE_MAX};
    softmax_problem(
        &p, (enum softmax_form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64,
        SIZE(.d = 3, .dv = 5, .heads = 6, .kv_heads = 2, .batch = 1, .keys = quick() ? 300 : 4300));
    const struct shape *s = &p.shape;
    void *want = softmax_solve(&p, true, s->tokens);
    problem_options(&p, &o);
    o.threads = 3;
    o.allocate = meter_allocate;
    o.release = meter_release;
    o.allocator_user = &m;
    struct softmax_run r = {.p = &p, .q = p.q, .k = p.k, .v = p.v};
    r.plan = make_plan(&o);
    r.o = make_zeros(p.o_count, s->dtype);
    r.out = dense(r.o, s->dtype, s->heads, s->tokens, s->dv);
    for (int own = 0; own < 2; own++) {
        if (own)
            ok(tsa_workspace_create(r.plan, 0, &r.ws, &err), &err);
        const size_t calls = m.calls, live = m.live;
        for (size_t n = 1; n <= 4; n += 3) {
            softmax_poison(&r);
#ifdef FE_UPWARD
            fesetround(FE_UPWARD);
#endif
            errno = 12345;
            const struct tsa_tensor q = from_token(p.q, s->tokens - n);
            const struct tsa_tensor out = from_token(r.out, s->tokens - n);
            const enum tsa_status status =
                tsa_softmax(r.plan, 1, n, s->tokens, 1, &q, &p.k, &p.v, &out, r.ws, &err);
            const int number = errno;
#ifdef FE_UPWARD
            const int mode = fegetround();
            fesetround(FE_TONEAREST);
            ck_assert_int_eq(mode, FE_UPWARD);
#endif
            ck_assert_int_eq(number, 12345);
            ok(status, &err);
            softmax_check(&r, want, s->tokens - n, n, 1, "in another rounding mode");
        }
        ck_assert_uint_eq(m.live, live);
        ck_assert(own ? m.calls == calls : m.calls > calls);
    }
    tsa_workspace_destroy(r.ws);
    tsa_plan_destroy(r.plan);
    ck_assert_uint_eq(m.live, 0);
    free(r.o);
    free(want);
    problem_free(&p);
}
END_TEST

/* A failed call names what was wrong and changes no byte of o. */
static void refused(const struct softmax_run *r, enum tsa_status got, enum tsa_status want,
                    const struct tsa_error *err, const char *argument)
{
    const size_t bytes = r->p->o_count * dtype_size(r->p->shape.dtype);
    ck_assert_int_eq(got, want);
    ck_assert_int_eq(err->status, want);
    ck_assert_str_eq(err->argument, argument);
    for (size_t i = 0; i < bytes; i++)
        CHECK(((unsigned char *)r->o)[i] == 0xa5, "a refused call wrote byte %zu of o", i);
}

START_TEST(refusals)
{
    enum { N = 100 };
    struct problem p;
    struct tsa_error err;
    struct tsa_options o;
    struct meter m = {.refuse = SIZE_MAX};
    softmax_problem(&p, (enum softmax_form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = 5, .dv = 7, .heads = 4, .kv_heads = 2, .batch = 2, .keys = N));
    const struct shape *s = &p.shape;
    struct softmax_run r = {.p = &p};
    problem_options(&p, &o);
    o.threads = 2;
    o.allocate = meter_allocate;
    o.release = meter_release;
    o.allocator_user = &m;
    r.plan = make_plan(&o);
    r.o = make_zeros(p.o_count, s->dtype);
    r.out = dense(r.o, s->dtype, s->heads, N, s->dv);
    softmax_poison(&r);
    const struct tsa_tensor *const x[] = {&p.q, &p.k, &p.v};
    static const char *const name[] = {"q", "k", "v"};
    for (int j = 0; j < 9; j++) { /* the last element, the first, one of the second sequence */
        const size_t count = s->batch * (size_t)x[j % 3]->batch;
        const size_t at = j / 3 == 0 ? count - 1 : j / 3 == 1 ? 0 : count / 2 + 3;
        const double good = get(x[j % 3]->data, s->dtype, at);
        put(x[j % 3]->data, s->dtype, at, j % 2 == 0 ? NAN : -INFINITY);
        refused(&r, tsa_softmax(r.plan, 2, N, N, j % 2, &p.q, &p.k, &p.v, &r.out, NULL, &err),
                TSA_ENONFINITE, &err, name[j % 3]);
        put(x[j % 3]->data, s->dtype, at, good);
    }
    refused(&r, tsa_softmax(r.plan, 2, N, N - 1, 1, &p.q, &p.k, &p.v, &r.out, NULL, &err),
            TSA_EINVAL, &err, "keys");
    refused(&r, tsa_softmax(r.plan, 2, N, 0, 0, &p.q, &p.k, &p.v, &r.out, NULL, &err), TSA_EINVAL,
            &err, "keys");
    m.refuse = m.calls;
    refused(&r, tsa_softmax(r.plan, 2, N, N, 1, &p.q, &p.k, &p.v, &r.out, NULL, &err), TSA_ENOMEM,
            &err, "ws");
    ck_assert_uint_eq(m.live, 1);
    ck_assert_uint_eq(m.calls, m.refuse + 1);
    struct tsa_workspace *ws; /* of another plan, too small for this one */
    struct tsa_plan *small;
    o.head_dim = o.value_dim = o.heads = o.kv_heads = 1;
    o.threads = 1;
    small = make_plan(&o);
    ok(tsa_workspace_create(small, 0, &ws, &err), &err);
    if (tsa_workspace_bytes(small, 1) < tsa_workspace_bytes(r.plan, 1))
        refused(&r, tsa_softmax(r.plan, 2, N, N, 1, &p.q, &p.k, &p.v, &r.out, ws, &err), TSA_EINVAL,
                &err, "ws");
    tsa_workspace_destroy(ws);
    tsa_plan_destroy(small);
    tsa_plan_destroy(r.plan);
    ck_assert_uint_eq(m.live, 0);
    free(r.o);
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softmax_values");
    TCase *c = add_case(suite, "exponential");
    tcase_add_test(c, bounded_f32);
    tcase_add_test(c, bounded_f64);
    c = add_case(suite, "definition");
    tcase_add_loop_test(c, definition, 0, 8 * FORMS);
    tcase_add_loop_test(c, large_scores, 0, 2 * PATTERNS);
    tcase_add_loop_test(c, cold, 0, 2);
    tcase_add_loop_test(c, constants, 0, 4 * FORMS);
    c = add_case(suite, "nonfinite");
    tcase_add_loop_test(c, nonfinite, 0, 2 * FORMS);
    tcase_add_loop_test(c, masked, 0, 2 * FORMS);
    c = add_case(suite, "host");
    tcase_add_loop_test(c, host, 0, 2 * FORMS);
    tcase_add_loop_test(c, refusals, 0, 2 * FORMS);
    return run_suite(suite);
}
