/* SPDX-License-Identifier: MIT */
/* States that plans of another kind, chunk or number of terms have written, read and merged by
 * mixed plans; and ragged calls of mixed plans. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE
#define STATES 3

/* A state large enough for the columns of one step to be shared out; another plan, which keeps no
 * pairs of its kind in that state, or keeps them for other degrees, takes the first steps. */
START_TEST(decode_columns)
{
    static const struct shape s = {16, 49, 5,       4,  2,           1,
                                   1,  11, TSA_F32, L2, COEF_TAYLOR, TEMP_PER_HEAD};
    const size_t cut = _i == 0 ? 0 : 9;
    struct problem p;
    struct run r;
    struct tsa_error err;
    problem_make(&p, &s, 51);
    problem_mix(&p, _i == 1 ? 5 : 2);
    struct model first = p.model;
    struct tsa_plan *plan = problem_plan(&p, NULL, 2);
    problem_mix(&p, 1);
    run_begin(&r, &p, NULL, 5, WAY_AUTO);
    struct model_head **head = heads_new(&p.model);
    float *want = make_zeros(p.o_count, TSA_F32), *row = make_zeros(s.dv, TSA_F32);
    for (size_t t = 0; t < cut; t++) {
        const struct tsa_tensor q = from_token(p.q, t), k = from_token(p.k, t);
        const struct tsa_tensor v = from_token(p.v, t), o = from_token(r.out, t);
        ok(tsa_decode(plan, BATCH(.states = r.states, .count = 1, .q = q, .k = k, .v = v, .o = o),
                      NULL, &err),
           &err);
    }
    feed(&r, DECODE, 0, 1, cut, s.tokens);
    for (size_t t = 0; t < s.tokens; t++)
        model_token(t < cut ? &first : &p.model, head, &p, 0, t, want);
    assert_bits(r.o, want, TSA_F32, p.o_count, "decode of a large state");
    assert_state(r.plan, r.states[0], 0, &p.model, head, "decode of a large state");
    const struct tsa_tensor o = dense(r.o, TSA_F32, s.heads, 1, s.dv);
    ok(tsa_query(r.plan, BATCH(.states = r.states, .count = 1, .tokens = 1, .q = p.q, .o = o), NULL,
                 &err),
       &err);
    model_query(&p.model, head[0], 0, p.q.data, row);
    assert_bits(r.o, row, TSA_F32, s.dv, "query of a large state");
    heads_free(&p.model, head);
    run_end(&r);
    tsa_plan_destroy(plan);
    free(want), free(row);
    problem_free(&p);
}
END_TEST

/* Between chunks, when no window is open, plans of other chunks may take turns too. */
START_TEST(other_chunks)
{
    static const struct shape s = {5, 19, 3, 16, 2, 1, 1, 90, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};
    static const struct {
        size_t chunk, tokens;
        bool mixed;
    } leg[] = {{5, 15, false}, {16, 16, true}, {16, 16, false},
               {8, 8, true},   {7, 14, false}, {16, 21, true}};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 61);
    problem_mix(&p, (unsigned)_i);
    float *got = make_zeros(p.o_count, TSA_F32), *want = make_zeros(p.o_count, TSA_F32);
    struct tsa_plan *first = problem_plan(&p, NULL, 1);
    struct tsa_state **st = states_make(first, 1);
    struct model_head **head = heads_new(&p.model);
    for (size_t i = 0, t = 0; i < sizeof leg / sizeof leg[0]; t += leg[i].tokens, i++) {
        const struct tsa_tensor q = from_token(p.q, t), k = from_token(p.k, t);
        const struct tsa_tensor v = from_token(p.v, t);
        const struct tsa_tensor o = from_token(dense(got, TSA_F32, s.heads, s.tokens, s.dv), t);
        struct tsa_options options;
        struct model m = p.model;
        m.chunk = leg[i].chunk;
        if (!leg[i].mixed)
            m.high = m.features;
        problem_options(&p, &options);
        options.chunk = leg[i].chunk;
        options.compute = leg[i].mixed ? TSA_COMPUTE_MIXED : TSA_COMPUTE_EXACT;
        struct tsa_plan *plan = make_plan(&options);
        ok(tsa_prefill(plan,
                       BATCH(.states = st, .count = 1, .tokens = leg[i].tokens, .q = q, .k = k,
                             .v = v, .o = o),
                       NULL, &err),
           &err);
        for (size_t j = t; j < t + leg[i].tokens; j++)
            model_token(&m, head, &p, 0, j, want);
        assert_bits(got, want, TSA_F32, p.o_count, "chunks of any length");
        assert_state(plan, st[0], 0, &m, head, "chunks of any length");
        tsa_plan_destroy(plan);
    }
    heads_free(&p.model, head);
    states_free(st, 1);
    tsa_plan_destroy(first);
    free(got), free(want);
    problem_free(&p);
}
END_TEST

/* Plans of fewer terms read a state, with any exact_degrees: where the sums that they need are odd
 * in number, the state pairs the last of them with one of the next degree. */
START_TEST(fewer_terms)
{
    static const size_t most = 4;
    struct shape s = {3, 17, most, 8, 2, 1, 1, 41, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};
    const size_t queries = 5;
    struct problem whole;
    struct run r;
    problem_make(&whole, &s, 67);
    problem_mix(&whole, (unsigned)_i);
    run_begin(&r, &whole, NULL, 1, WAY_AUTO);
    feed_pieces(&r, PREFILL, 19);
    for (s.terms = 1; s.terms < most; s.terms++)
        for (unsigned exact = 0; exact <= s.terms; exact++) {
            struct problem p;
            struct tsa_error err;
            problem_make(&p, &s, 67);      /* the same rows */
            problem_mix(&p, (unsigned)_i); /* whoever wrote the sums */
            struct model_head **head = heads_new(&p.model), **sum = heads_new(&p.model);
            for (size_t t = 0; t < s.tokens; t++)
                model_token(&p.model, head, &p, 0, t, NULL);
            problem_mix(&p, exact);
            struct tsa_plan *plan = problem_plan(&p, NULL, 1);
            float *got = make_zeros(s.heads * queries * s.dv, TSA_F32);
            float *want = make_zeros(s.dv, TSA_F32);
            const struct tsa_tensor o = dense(got, TSA_F32, s.heads, queries, s.dv);
            for (size_t n = 1; n <= queries; n += queries - 1) { /* a token, or several */
                ok(tsa_query(plan,
                             BATCH(.states = r.states, .count = 1, .tokens = n, .q = p.q, .o = o),
                             NULL, &err),
                   &err);
                for (size_t i = 0; i < s.heads * n; i++) {
                    const size_t h = i / n, t = i % n;
                    model_query(&p.model, head[0], h, (float *)p.q.data + (h * s.tokens + t) * s.d,
                                want);
                    assert_bits(got + (h * queries + t) * s.dv, want, TSA_F32, s.dv, "query");
                }
            }
            /* into a state of so many terms, which has folded once, and has one token more */
            struct tsa_state **st = states_make(plan, 2);
            ok(tsa_absorb(plan, BATCH(.states = st, .count = 1, .tokens = 9, .k = p.k, .v = p.v),
                          NULL, &err),
               &err);
            for (size_t t = 0; t < 9; t++)
                model_token(&p.model, sum, &p, 0, t, NULL);
            ok(tsa_state_merge(plan, st[0], r.states[0], NULL, &err), &err);
            heads_merge(&p.model, sum, head);
            assert_state(plan, st[0], 0, &p.model, sum, "merged");
            ok(tsa_state_copy(plan, st[1], r.states[0], &err), &err);
            assert_state(plan, st[1], 0, &p.model, head, "copied");
            for (int i = 0; i < 2; i++) {
                ok(tsa_query(plan,
                             BATCH(.states = st + i, .count = 1, .tokens = 1, .q = p.q, .o = o),
                             NULL, &err),
                   &err);
                model_query(&p.model, i == 0 ? sum[0] : head[0], 0, p.q.data, want);
                assert_bits(got, want, TSA_F32, s.dv, "query after that");
            }
            states_free(st, 2);
            heads_free(&p.model, head), heads_free(&p.model, sum);
            tsa_plan_destroy(plan);
            free(got), free(want);
            problem_free(&p);
        }
    run_end(&r);
    problem_free(&whole);
}
END_TEST

/* Such a partner may have overflowed, here in degree 3; it is no business of a plan of 3 terms. */
START_TEST(overflowed_partner)
{
    struct shape s = {1, 1, 4, 2, 1, 1, 1, 2000, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO};
    struct problem whole, p;
    struct run r;
    struct tsa_error err;
    struct tsa_view view;
    problem_make(&whole, &s, 68);
    problem_mix(&whole, 2);
    s.terms = 3;
    problem_make(&p, &s, 68);
    problem_mix(&p, 2);
    for (size_t t = 0; t < s.tokens; t++) {
        put(whole.k.data, TSA_F32, t, 6e11), put(p.k.data, TSA_F32, t, 6e11);
        put(p.q.data, TSA_F32, t, 1e-12);
    }
    run_begin(&r, &whole, NULL, 1, WAY_AUTO);
    feed(&r, ABSORB, 0, 1, 0, s.tokens);
    ok(tsa_state_view(r.plan, r.states[0], 0, 0, &view, &err), &err);
    ck_assert(isnan(get(view.ones_hi, TSA_F32, 3)) && isfinite(get(view.ones_hi, TSA_F32, 2)));
    struct model_head **head = heads_new(&p.model);
    for (size_t t = 0; t < s.tokens; t++)
        model_token(&p.model, head, &p, 0, t, NULL);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    for (size_t n = 1; n <= 5; n += 4) { /* a token, or several */
        float got[5], want;
        const struct tsa_tensor o = dense(got, TSA_F32, 1, n, 1);
        ok(tsa_query(plan, BATCH(.states = r.states, .count = 1, .tokens = n, .q = p.q, .o = o),
                     NULL, &err),
           &err);
        model_query(&p.model, head[0], 0, p.q.data, &want);
        ck_assert(isfinite(want));
        for (size_t t = 0; t < n; t++)
            assert_bits(got + t, &want, TSA_F32, 1, "query beside an overflow");
    }
    heads_free(&p.model, head);
    tsa_plan_destroy(plan);
    run_end(&r);
    problem_free(&p), problem_free(&whole);
}
END_TEST

/* Packed, padded and slots, one after the other on the same states. */
START_TEST(ragged)
{
    static const int64_t packed[2][4] = {{0, 20, 20, 55}, {3, 3, 24, 61}};
    static const int64_t padded[2][3] = {{5, 17, 0}, {19, 0, 33}}, slots[] = {2, 0};
    struct problem p;
    struct run r;
    struct tsa_error err;
    static const struct shape s = {
        3, 17, 3, 16, 4, 2, STATES, 61, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD};
    problem_make(&p, &s, 63);
    problem_mix(&p, 1 + (unsigned)_i);
    float *want = make_zeros(p.o_count, TSA_F32);
    struct model_head **head[STATES];
    for (size_t b = 0; b < STATES; b++)
        head[b] = heads_new(&p.model);
    run_begin(&r, &p, NULL, 1 + 2 * _i, WAY_AUTO);
    memset(r.o, 0, p.o_count * sizeof(float));
    const struct tsa_tensor *q = &p.q, *k = &p.k, *v = &p.v, *o = &r.out;
    for (int call = 0; call < 5; call++) {
        if (call == 0)
            ok(tsa_prefill(r.plan,
                           BATCH(.states = r.states, .count = STATES, .offsets = packed[0], .q = *q,
                                 .k = *k, .v = *v, .o = *o),
                           NULL, &err),
               &err);
        else if (call == 1)
            ok(tsa_absorb(r.plan,
                          BATCH(.states = r.states, .count = STATES, .tokens = 20,
                                .lengths = padded[0], .k = *k, .v = *v),
                          NULL, &err),
               &err);
        else if (call == 2)
            ok(tsa_decode(r.plan,
                          BATCH(.states = r.states, .slots = slots, .count = 2, .q = *q, .k = *k,
                                .v = *v, .o = *o),
                          NULL, &err),
               &err);
        else if (call == 3)
            ok(tsa_absorb(r.plan,
                          BATCH(.states = r.states, .count = STATES, .offsets = packed[1], .k = *k,
                                .v = *v),
                          NULL, &err),
               &err);
        else
            ok(tsa_prefill(r.plan,
                           BATCH(.states = r.states, .count = STATES, .tokens = 33,
                                 .lengths = padded[1], .q = *q, .k = *k, .v = *v, .o = *o),
                           NULL, &err),
               &err);
        for (size_t b = 0; b < STATES; b++) {
            const bool rows = call == 0 || call == 3; /* of sequence 0 */
            const int64_t *of = packed[call == 3], *length = padded[call == 4];
            const int64_t from = rows ? of[b] : 0;
            const int64_t to = rows ? of[b + 1] : call == 2 ? b != 1 : length[b];
            for (int64_t t = from; t < to; t++)
                model_token(&p.model, head[b], &p, rows ? 0 : b, (size_t)t,
                            call == 1 || call == 3 ? NULL : want);
            assert_state(r.plan, r.states[b], 0, &p.model, head[b], "ragged");
            assert_export(r.plan, r.states[b], 0, &p.model, head[b], "ragged");
        }
        assert_bits(r.o, want, TSA_F32, p.o_count, "ragged");
    }
    run_end(&r);
    for (size_t b = 0; b < STATES; b++)
        heads_free(&p.model, head[b]);
    free(want);
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mixed states");
    TCase *plans = add_case(suite, "other plans");
    tcase_add_loop_test(plans, decode_columns, 0, 3);
    tcase_add_loop_test(plans, other_chunks, 0, 3);
    tcase_add_loop_test(plans, fewer_terms, 0, 5);
    tcase_add_test(plans, overflowed_partner);
    tcase_add_loop_test(add_case(suite, "ragged"), ragged, 0, 2);
    return run_suite(suite);
}
