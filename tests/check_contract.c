/* SPDX-License-Identifier: MIT */
/* Outputs and states of the library equal the model of the arithmetic bit by bit, whatever the
 * schedule: cutting, batch, strides, instruction set, threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

/* Chunks are explicit and shorter than the sequences, so that windows do fold. The dtype is filled
 * in: every shape is run in both. */
static const struct shape shapes[] = {
    /* d  dv  n   C  H  G  B   N */
    {1, 1, 1, 1, 1, 1, 1, 9, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {3, 5, 4, 16, 4, 2, 3, 48, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {16, 64, 3, 16, 2, 2, 3, 75, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {16, 65, 3, 64, 6, 2, 1, 150, 0, L2, COEF_SHARED, TEMP_PER_HEAD},
    {17, 80, 3, 16, 3, 1, 2, 53, 0, RAW, COEF_PER_HEAD, TEMP_SHARED},
    {5, 64, 5, 1, 2, 1, 2, 21, 0, RAW, COEF_TAYLOR, TEMP_PER_HEAD},
    {3, 1, 8, 16, 2, 2, 2, 40, 0, L2, COEF_SHARED, TEMP_SHARED},
    {1, 5, 6, 16, 1, 1, 3, 35, 0, RAW, COEF_TAYLOR, TEMP_TWO},
    {5, 17, 7, 5, 2, 1, 1, 23, 0, L2, COEF_PER_HEAD, TEMP_TWO},
    {16, 80, 2, 64, 5, 5, 1, 131, 0, L2, COEF_SHARED, TEMP_PER_HEAD},
    {17, 5, 1, 7, 2, 1, 2, 30, 0, L2, COEF_SHARED, TEMP_TWO},
    {33, 24, 3, 16, 1, 1, 1, 100, 0, L2, COEF_TAYLOR, TEMP_TWO},
    /* two terms, whose features may be the rows themselves; more of them than a block holds */
    {17, 33, 2, 32, 4, 2, 2, 100, 0, L2, COEF_FIRST, TEMP_PER_HEAD},
    {130, 16, 2, 48, 1, 1, 1, 100, 0, RAW, COEF_TAYLOR, TEMP_TWO},
    /* chunks of several tiles, values in turned tiles or not; of several passes */
    {5, 20, 3, 130, 2, 1, 1, 280, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {7, 32, 4, 150, 3, 1, 2, 310, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {2, 3, 3, 600, 2, 1, 1, 1250, 0, L2, COEF_TAYLOR, TEMP_TWO},
    /* sums that are large; degrees that are made as they are needed */
    {16, 128, 4, 16, 3, 1, 1, 40, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {16, 5, 6, 16, 1, 1, 1, 35, 0, RAW, COEF_TAYLOR, TEMP_TWO},
};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static void problem_begin(struct problem *p, int index)
{
    struct shape s = shapes[index / 2];
    s.dtype = index % 2 == 0 ? TSA_F32 : TSA_F64;
    problem_make(p, &s, 1000 + (uint64_t)index);
    problem_solve(p);
    ck_assert_uint_gt(p->head[0]->tokens - p->head[0]->window, 0);
}

START_TEST(cutting)
{
    struct problem p;
    problem_begin(&p, _i);
    const size_t c = p.shape.chunk, n = p.shape.tokens, batch = p.shape.batch;
    const size_t piece[] = {n, 1, 7, c > 1 ? c - 1 : 2, c, c + 1, 2 * c + 3};
    const size_t count = sizeof piece / sizeof piece[0];
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
        struct run whole, r;
        run_begin(&whole, &p, isa, 1, WAY_AUTO);
        feed(&whole, PREFILL, 0, batch, 0, n);
        check_run(&whole, "whole");
        for (size_t j = 1; j < count + 5; j++) {
            run_begin(&r, &p, isa, 1, WAY_AUTO);
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
            } else { /* the absorbed rows have no outputs: take the model's */
                const size_t row = p.shape.dv * dtype_size(p.shape.dtype), cut = n - n / 3;
                feed(&r, ABSORB, 0, batch, 0, cut);
                feed(&r, j == count + 3 ? DECODE : PREFILL, 0, batch, cut, n);
                for (size_t h = 0; h < batch * p.shape.heads; h++)
                    memcpy((char *)r.o + h * n * row, (char *)p.o + h * n * row, cut * row);
                check_run(&r, "absorb, then outputs");
            }
            for (size_t b = 0; b < batch; b++) { /* windows too, which a view does not show */
                size_t size, size2;
                double *x = export_all(whole.plan, whole.states[b], 0, &size);
                double *y = export_all(r.plan, r.states[b], 0, &size2);
                ck_assert_uint_eq(size, size2);
                assert_bits(x, y, TSA_F64, size, "export");
                assert_equal(r.plan, r.states[b], whole.states[b], true);
                free(x);
                free(y);
            }
            run_end(&r);
        }
        run_end(&whole);
    }
    problem_free(&p);
}
END_TEST

/* Small waves are forced, and there are more threads than heads. */
static void run_team(const struct problem *p, const char *isa, int team, enum way way)
{
    const size_t n = p->shape.tokens, batch = p->shape.batch;
    struct run r;
    run_begin(&r, p, isa, team, way);
    if (way == WAY_WAVES_OF_2)
        feed_pieces(&r, PREFILL, 3 * p->shape.chunk + 2);
    else
        feed(&r, PREFILL, 0, batch, 0, n);
    check_run(&r, "prefill by a team");
    run_end(&r);
    run_begin(&r, p, isa, team, way);
    if (way == WAY_AUTO) {
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

START_TEST(threads)
{
    static const int team[] = {2, 3, 5, 8};
    struct problem p;
    problem_begin(&p, _i);
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (size_t j = 0; j < 4; j++) {
            if (j != 1 && i > 0) /* all teams with the best one, one team with the others */
                continue;
            run_team(&p, isa, team[j], WAY_RELAY + (enum way)j % 3);
            if (!quick() && i == 0)
                run_team(&p, isa, team[j], WAY_AUTO);
        }
    problem_free(&p);
}
END_TEST

/* Sequences of one call that stand at different places of their windows: sequence b has absorbed
 * `step` b tokens before; views that start there have a longer batch stride. */
START_TEST(uneven)
{
    struct problem p;
    struct tsa_error err;
    struct shape s = {5,  19,          3,       16, 4, 2, 3, 90, _i % 2 == 0 ? TSA_F32 : TSA_F64,
                      L2, COEF_TAYLOR, TEMP_TWO};
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
            ok(tsa_prefill(r.plan, r.states, s.batch, 0, together, &x[0], &x[1], &x[2], &x[3],
                           run_workspace(&r), &err),
               &err);
        for (size_t t = 0; _i / 2 == 1 && t < together; t++) {
            const struct tsa_tensor q = from_token(x[0], t), k = from_token(x[1], t);
            const struct tsa_tensor v = from_token(x[2], t), o = from_token(x[3], t);
            ok(tsa_decode(r.plan, r.states, s.batch, 0, &q, &k, &v, &o, run_workspace(&r), &err),
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
    const struct shape s = {
        16, 80, 5, 16, 3, 1, 1, 37, _i == 0 ? TSA_F32 : TSA_F64, L2, COEF_TAYLOR, TEMP_PER_HEAD};
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
    problem_begin(&p, _i);
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
    problem_begin(&p, _i);
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
    struct shape s = {
        5, 19, 3, 16, 4, 2, 3, 40, _i == 0 ? TSA_F32 : TSA_F64, L2, COEF_TAYLOR, TEMP_PER_HEAD};
    struct problem p;
    problem_make(&p, &s, 99);
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
    struct shape s = {5,  19,          3,       16, 4, 2, 2, 40, _i == 0 ? TSA_F32 : TSA_F64,
                      L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    problem_make(&p, &s, 98);
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
    const enum tsa_dtype own = _i == 0 ? TSA_F32 : TSA_F64, other = _i == 0 ? TSA_F64 : TSA_F32;
    struct shape s = {5, 19, 3, 16, 4, 2, 2, 40, own, RAW, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    problem_make(&p, &s, 5);
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
    ok(tsa_prefill(r.plan, r.states, s.batch, 0, s.tokens, &view[0], &view[1], &view[2], &out,
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
    struct shape s = {5,   19,          4,       16, 2, 1, 1, 60, _i == 0 ? TSA_F32 : TSA_F64,
                      RAW, COEF_TAYLOR, TEMP_TWO};
    const size_t bad = 37; /* after folds, within a window */
    for (int j = 0; j < 6; j++) {
        struct problem p;
        struct tsa_error err;
        struct tsa_options options;
        problem_make(&p, &s, 31);
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
            ok(tsa_prefill(plan, states, 1, 0, s.tokens, &p.q, &p.k, &p.v, &o, NULL, &err), &err);
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
    Suite *suite = suite_create("contract");
    tcase_add_loop_test(add_case(suite, "cutting"), cutting, 0, 2 * SHAPES);
    tcase_add_loop_test(add_case(suite, "threads"), threads, 0, 2 * SHAPES);
    tcase_add_loop_test(add_case(suite, "decode_columns"), decode_columns, 0, 2);
    tcase_add_loop_test(add_case(suite, "uneven"), uneven, 0, 4);
    tcase_add_loop_test(add_case(suite, "layouts"), layouts, 0, 2 * SHAPES);
    tcase_add_loop_test(add_case(suite, "fused"), fused, 0, 2 * SHAPES);
    tcase_add_loop_test(add_case(suite, "broadcast"), broadcast, 0, 2);
    tcase_add_loop_test(add_case(suite, "misaligned"), misaligned, 0, 2);
    tcase_add_loop_test(add_case(suite, "mixed_types"), mixed_types, 0, 2);
    tcase_add_loop_test(add_case(suite, "nonfinite"), nonfinite, 0, 2);
    return run_suite(suite);
}
