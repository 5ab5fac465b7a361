/* SPDX-License-Identifier: MIT */
/* Tensors of any strides, alignment and type: the bits of the model, every byte between elements as
 * it was. Plans in f32, in f64 and mixed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "shapes.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

/* f32, f64, mixed. */
enum { KINDS = 3 };
static enum tsa_dtype kind_dtype(int kind)
{
    return kind == 1 ? TSA_F64 : TSA_F32;
}
static void problem_kind(struct problem *p, const struct shape *s, uint64_t seed, int kind)
{
    problem_make(p, s, seed);
    if (kind == 2)
        problem_mix(p, 1);
}

/* One run with the given views. */
static void run_views(const struct problem *p, const char *isa, int team,
                      const struct tsa_tensor *q, const struct tsa_tensor *k,
                      const struct tsa_tensor *v, const struct strided *o, size_t piece)
{
    struct run r;
    run_begin(&r, p, isa, team, WAY_AUTO);
    feed_views(&r, q, k, v, o, piece);
    run_end(&r);
}

START_TEST(layouts)
{
    struct problem p;
    contract_problem(&p, _i);
    const struct shape *s = &p.shape;
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (int l = i == 0 ? 0 : LAYOUTS - 2; l < LAYOUTS; l++) {
            struct strided q, k, v, o;
            const size_t b = s->batch, n = s->tokens;
            strided_make(&q, l, s->dtype, b, s->heads, n, s->d, p.q.data);
            strided_make(&k, (l + 1) % LAYOUTS, s->dtype, b, s->kv_heads, n, s->d, p.k.data);
            strided_make(&v, (l + 2) % LAYOUTS, s->dtype, b, s->kv_heads, n, s->dv, p.v.data);
            strided_make(&o, (l + 3) % LAYOUTS, s->dtype, b, s->heads, n, s->dv, NULL);
            run_views(&p, isa, 1 + l % 3, &q.tensor, &k.tensor, &v.tensor, &o, l % 2 == 0 ? n : 1);
            strided_free(&o);
            void *same = make_zeros(p.o_count + b * s->heads * n * s->d, s->dtype);
            strided_read(&q, same); /* inputs are as they were */
            assert_bits(same, p.q.data, s->dtype, b * s->heads * n * s->d, "q");
            strided_read(&k, same);
            assert_bits(same, p.k.data, s->dtype, b * s->kv_heads * n * s->d, "k");
            strided_read(&v, same);
            assert_bits(same, p.v.data, s->dtype, b * s->kv_heads * n * s->dv, "v");
            free(same);
            strided_free(&q);
            strided_free(&k);
            strided_free(&v);
        }
    problem_free(&p);
}
END_TEST

/* One array [batch][token][q heads, k heads, v heads] that three views share. */
START_TEST(fused)
{
    struct problem p;
    contract_problem(&p, _i);
    const struct shape *s = &p.shape;
    const size_t e = dtype_size(s->dtype);
    const size_t width[] = {s->heads * s->d, s->kv_heads * s->d, s->kv_heads * s->dv};
    const size_t pitch = width[0] + width[1] + width[2];
    const struct tsa_tensor *from[] = {&p.q, &p.k, &p.v};
    struct tsa_tensor view[3];
    char *all = make_zeros(s->batch * s->tokens * pitch, s->dtype), *at = all;
    for (int j = 0; j < 3; at += width[j] * e, j++) {
        const size_t w = (size_t)from[j]->token, heads = width[j] / w;
        view[j] = dense(at, s->dtype, heads, s->tokens, w);
        view[j].head = (ptrdiff_t)w;
        view[j].token = (ptrdiff_t)pitch;
        view[j].batch = (ptrdiff_t)(s->tokens * pitch);
        for (size_t i = 0; i < s->batch * heads * s->tokens; i++) {
            const size_t b = i / s->tokens / heads, h = i / s->tokens % heads, t = i % s->tokens;
            memcpy(at + ((b * s->tokens + t) * pitch + h * w) * e,
                   (const char *)from[j]->data + i * w * e, w * e);
        }
    }
    struct strided o;
    strided_make(&o, LAYOUT_BNHD, s->dtype, s->batch, s->heads, s->tokens, s->dv, NULL);
    run_views(&p, NULL, 2, &view[0], &view[1], &view[2], &o, s->tokens);
    strided_free(&o);
    free(all);
    problem_free(&p);
}
END_TEST

/* Strides of 0: one row of q for every token, one key head for all, one value sequence for all. */
START_TEST(broadcast)
{
    struct shape s = {5, 19, 3, 16, 4, 2, 3, 40, kind_dtype(_i), L2, COEF_TAYLOR, TEMP_PER_HEAD};
    struct problem p;
    problem_kind(&p, &s, 99, _i);
    const size_t e = dtype_size(s.dtype), row = s.d * e;
    const size_t values = s.kv_heads * s.tokens * s.dv * e;
    char *q = p.q.data, *k = p.k.data, *v = p.v.data;
    struct tsa_tensor qs = p.q, ks = p.k, vs = p.v;
    for (size_t i = 0; i < s.batch * s.heads * s.tokens; i++)
        memcpy(q + i * row, q + i / s.tokens * s.tokens * row, row);
    for (size_t b = 0; b < s.batch; b++)
        memcpy(k + (2 * b + 1) * s.tokens * row, k + 2 * b * s.tokens * row, s.tokens * row);
    for (size_t b = 1; b < s.batch; b++)
        memcpy(v + b * values, v, values);
    problem_solve(&p);
    qs.token = 0, ks.head = 0, vs.batch = 0;
    struct strided o;
    strided_make(&o, LAYOUT_GAPS, s.dtype, s.batch, s.heads, s.tokens, s.dv, NULL);
    run_views(&p, NULL, 2, &qs, &ks, &vs, &o, s.tokens);
    strided_free(&o);
    problem_free(&p);
}
END_TEST

/* Rows that do not even lie on the boundaries of their elements. */
START_TEST(misaligned)
{
    struct shape s = {5, 19, 3, 16, 4, 2, 2, 40, kind_dtype(_i), L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    problem_kind(&p, &s, 98, _i);
    problem_solve(&p);
    const struct tsa_tensor *from[] = {&p.q, &p.k, &p.v};
    for (size_t off = 1; off < 8; off += off < 4 ? 1 : 3) {
        struct tsa_tensor view[3];
        char *memory[3];
        struct strided o;
        for (int j = 0; j < 3; j++) {
            const size_t bytes = s.batch * (size_t)from[j]->batch * dtype_size(s.dtype);
            memory[j] = malloc(bytes + 8);
            memcpy(memory[j] + off, from[j]->data, bytes);
            view[j] = *from[j];
            view[j].data = memory[j] + off;
        }
        strided_make(&o, LAYOUT_GAPS, s.dtype, s.batch, s.heads, s.tokens, s.dv, NULL);
        memmove(o.memory + off, o.memory, o.bytes - 8);
        memset(o.memory, o.memory[o.bytes - 1], off); /* what lies between rows */
        o.tensor.data = (char *)o.tensor.data + off;
        run_views(&p, NULL, 2, &view[0], &view[1], &view[2], &o, off == 4 ? 1 : s.tokens);
        strided_free(&o);
        for (int j = 0; j < 3; j++)
            free(memory[j]);
    }
    problem_free(&p);
}
END_TEST

/* Tensors of the other type: inputs are converted to T first, outputs last. */
START_TEST(mixed_types)
{
    const enum tsa_dtype own = kind_dtype(_i), other = own == TSA_F32 ? TSA_F64 : TSA_F32;
    struct shape s = {5, 19, 3, 16, 4, 2, 2, 40, own, RAW, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    problem_kind(&p, &s, 5, _i);
    struct tsa_tensor *from[] = {&p.q, &p.k, &p.v}, view[3];
    for (int j = 0; j < 3; j++) {
        const size_t count = s.batch * (size_t)from[j]->batch;
        view[j] = *from[j];
        view[j].dtype = other;
        view[j].data = make_zeros(count, other);
        for (size_t i = 0; i < count; i++) {
            double x = get(from[j]->data, own, i);
            /* 2^-30 more than a float holds: T decides what is left of it */
            put(view[j].data, other, i, own == TSA_F32 ? x + x * 0x1p-30 : x);
            put(from[j]->data, own, i, get(view[j].data, other, i));
        }
    }
    problem_solve(&p);
    struct run r;
    struct tsa_error err;
    run_begin(&r, &p, NULL, 2, WAY_AUTO);
    void *o = make_zeros(p.o_count, other), *want = make_zeros(p.o_count, other);
    const struct tsa_tensor out = dense(o, other, s.heads, s.tokens, s.dv);
    ok(tsa_prefill(r.plan,
                   BATCH(.states = r.states, .count = s.batch, .tokens = s.tokens, .q = view[0],
                         .k = view[1], .v = view[2], .o = out),
                   run_workspace(&r), &err),
       &err);
    for (size_t i = 0; i < p.o_count; i++)
        put(want, other, i, get(p.o, own, i));
    assert_bits(o, want, other, p.o_count, "outputs of the other type");
    check_states(&r, "inputs of the other type");
    run_end(&r);
    for (int j = 0; j < 3; j++)
        free(view[j].data);
    free(o);
    free(want);
    problem_free(&p);
}
END_TEST

/* NaN and infinities, let through by the flag: canonical NaN, and rows before them are clean.
 * All signs and payloads of NaN come in. */
START_TEST(nonfinite)
{
    struct shape s = {5, 19, 4, 16, 2, 1, 1, 60, kind_dtype(_i), RAW, COEF_TAYLOR, TEMP_TWO};
    const size_t bad = 37; /* after folds, within a window */
    for (int j = 0; j < 6; j++) {
        struct problem p;
        struct tsa_error err;
        struct tsa_options options;
        problem_kind(&p, &s, 31, _i);
        struct tsa_tensor *x = j % 3 == 0 ? &p.v : j % 3 == 1 ? &p.k : &p.q;
        put(x->data, s.dtype, bad * (size_t)x->token + 1, j < 3 ? -NAN : -INFINITY);
        problem_solve(&p);
        const char *isa;
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
            problem_options(&p, &options);
            options.flags = TSA_SKIP_INPUT_CHECK;
            options.isa = isa;
            struct tsa_plan *plan = make_plan(&options);
            struct tsa_state **states = states_make(plan, 1);
            void *got = make_zeros(p.o_count, s.dtype);
            const struct tsa_tensor o = dense(got, s.dtype, s.heads, s.tokens, s.dv);
            ok(tsa_prefill(plan,
                           BATCH(.states = states, .count = 1, .tokens = s.tokens, .q = p.q,
                                 .k = p.k, .v = p.v, .o = o),
                           NULL, &err),
               &err);
            assert_bits(got, p.o, s.dtype, p.o_count, "outputs with NaN");
            size_t nans = 0;
            for (size_t t = 0; t < p.o_count; t++) {
                const double y = get(got, s.dtype, t);
                nans += isnan(y);
                CHECK(t / s.dv % s.tokens >= bad || isfinite(y), "output %zu is not clean", t);
            }
            ck_assert_uint_gt(nans, 0);
            free(got);
            states_free(states, 1);
            tsa_plan_destroy(plan);
        }
        problem_free(&p);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("views");
    tcase_add_loop_test(add_case(suite, "layouts"), layouts, 0, contract_first_gated());
    tcase_add_loop_test(add_case(suite, "fused"), fused, 0, contract_first_gated());
    tcase_add_loop_test(add_case(suite, "broadcast"), broadcast, 0, KINDS);
    tcase_add_loop_test(add_case(suite, "misaligned"), misaligned, 0, KINDS);
    tcase_add_loop_test(add_case(suite, "mixed_types"), mixed_types, 0, KINDS);
    tcase_add_loop_test(add_case(suite, "nonfinite"), nonfinite, 0, KINDS);
    return run_suite(suite);
}
