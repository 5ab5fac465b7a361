/* SPDX-License-Identifier: MIT */
/* tsa_softmax equals a plain model of its arithmetic bit by bit, whatever the schedule: threads,
 * instruction set, strides, rows together or one by one. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "softmax_run.h"

/* -- shapes and schedules ---------------------------------------------------------------------- */

static const size_t widths[] = {1, 3, 5, 16, 17, 33, 64};
static const size_t value_widths[] = {1, 7, 16, 17, 64, 65, 130};
static const size_t counts[] = {1, 2, 63, 64, 65, 130, 200};

/* Every width with every value width and number of keys, of the most keys every second; forms,
 * threads and the number of queries take turns. */
START_TEST(grid)
{
    const enum tsa_dtype dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    const size_t x = (size_t)_i / 2, all = COUNT(value_widths) * COUNT(counts);
    for (size_t j = (size_t)_i % 3; j < all; j += quick() ? 9 : 1) {
        const size_t y = j % COUNT(value_widths), z = j / COUNT(value_widths);
        const size_t n = counts[z], queries[] = {n, (n + 1) / 2, 1};
        const bool turn = (x + y / 2 + z) % 2 == 0;
        const char *isa;
        struct problem p;
        if (z + 1 == COUNT(counts) && turn)
            continue;
        softmax_problem(&p, (enum softmax_form)((x + y + z) % FORMS), dtype,
                        SIZE(.d = widths[x], .dv = value_widths[y], .heads = 2, .kv_heads = 1,
                             .batch = 1, .keys = n));
        void *causal = softmax_solve(&p, true, 1),
             *full = turn ? softmax_solve(&p, false, 1) : NULL;
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
            struct softmax_run r;
            softmax_run_begin(&r, &p, isa, 1 + (int)(i + j) % 3, (i + j / 5) % 2 == 0, 0);
            softmax_check_last(&r, causal, queries[(i + j / 2) % 3], true, "causal");
            if (full != NULL)
                softmax_check_last(&r, full, queries[(i + j) % 3], false, "not causal");
            softmax_run_end(&r);
        }
        free(causal);
        free(full);
        problem_free(&p);
    }
}
END_TEST

/* Grouped heads and several sequences: whole, row by row with the keys so far, and in pieces. The
 * first instruction set with every team, the others in turn with some. */
static const struct {
    size_t d, dv, heads, kv_heads, batch, keys;
} schedules[] = {
    {16, 64, 6, 2, 2, 70}, {5, 17, 6, 2, 2, 130}, {17, 7, 4, 1, 1, 90},
    {3, 65, 6, 6, 2, 65},  {3, 16, 1, 1, 1, 330},
};

START_TEST(schedule)
{
    static const int teams[] = {1, 2, 3, 5, 8};
    const size_t form = (size_t)_i % FORMS, shape = (size_t)_i / FORMS / 2;
    const size_t n = schedules[shape].keys;
    const char *isa;
    struct problem p;
    softmax_problem(&p, (enum softmax_form)form, (size_t)_i / FORMS % 2 == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = schedules[shape].d, .dv = schedules[shape].dv,
                         .heads = schedules[shape].heads, .kv_heads = schedules[shape].kv_heads,
                         .batch = schedules[shape].batch, .keys = n));
    void *causal = softmax_solve(&p, true, 1), *full = softmax_solve(&p, false, 1);
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (size_t j = 0; j < COUNT(teams); j++) {
            struct softmax_run r;
            if ((i + j + (size_t)_i) % (quick() ? 9 : i > 0 ? 4 : 1) != 0)
                continue;
            softmax_run_begin(&r, &p, isa, teams[j], (i + j) % 2 == 0, 0);
            softmax_check_last(&r, causal, n, true, "whole");
            softmax_check_last(&r, causal, n - n / 3, true, "more keys than queries");
            softmax_check_last(&r, full, n, false, "all keys");
            softmax_poison(&r);
            if (j % 2 == 0 || shape > 3) { /* pieces of 1, 3, 5 ... */
                for (size_t t = 0, more; t < n; t += more) {
                    more = t / 8 * 2 + 1 < n - t ? t / 8 * 2 + 1 : n - t;
                    softmax_attend(&r, t, more, t + more, true);
                }
                softmax_check(&r, causal, 0, n, 1, "in pieces");
            } else {
                for (size_t t = 0; t < n; t++)
                    softmax_attend(&r, t, 1, t + 1,
                                   t % 2 == 0); /* of one query, causal or not is one */
                softmax_check(&r, causal, 0, n, 1, "row by row");
            }
            softmax_run_end(&r);
        }
    free(causal);
    free(full);
    problem_free(&p);
}
END_TEST

/* Keys that a non-causal query does not get; more queries than keys. */
START_TEST(few_keys)
{
    static const size_t keys[] = {1, 2, 63, 64, 65, 129};
    struct problem p;
    softmax_problem(&p, (enum softmax_form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = 16, .dv = 20, .heads = 6, .kv_heads = 3, .batch = 1, .keys = 150));
    for (size_t j = 0; j < COUNT(keys); j++) {
        struct softmax_run r;
        void *want = make_zeros(p.o_count, p.shape.dtype);
        for (size_t h = 0; h < 6; h++) {
            void *k = softmax_keys(&p, 0, h / 2);
            for (size_t t = 0; t < 150; t++)
                softmax_row(&p, 0, h, t, k, keys[j],
                            (char *)want + (h * 150 + t) * 20 * dtype_size(p.shape.dtype));
            free(k);
        }
        softmax_run_begin(&r, &p, NULL, 1 + (int)j % 3, j % 2 == 0, 0);
        softmax_poison(&r);
        softmax_attend(&r, 0, 150, keys[j], false);
        softmax_check(&r, want, 0, 150, 1, "few keys");
        softmax_run_end(&r);
        free(want);
    }
    problem_free(&p);
}
END_TEST

/* Segments. */
START_TEST(long_rows)
{
    static const size_t keys[] = {4095, 4096, 4097, 8200, 12300};
    const size_t n = keys[_i / 2 % 5], form = (size_t)_i / 10;
    const char *isa;
    struct problem p;
    if (quick() && n > 9000)
        return;
    softmax_problem(&p, (enum softmax_form)form, _i % 2 == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = 1 + form, .dv = n == 8200 ? 17 : 3, .heads = 2, .kv_heads = 1,
                         .batch = 1, .keys = n));
    const size_t every = quick() ? 1999 : 307;
    void *causal = softmax_solve(&p, true, every);
    softmax_check_definition(&p, causal, true, every, 13);
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
        struct softmax_run r;
        softmax_run_begin(&r, &p, isa, 1 + (int)i % 3, i % 2 == 0, 0);
        softmax_check_last(&r, causal, 4, true, "long rows");
        for (size_t j = 0; j < 4; j++) {
            softmax_poison(&r);
            softmax_attend(&r, n - 4 + j, 1, n - 3 + j, true);
            softmax_check(&r, causal, n - 4 + j, 1, 1, "a long row");
        }
        if (i == 0 && n > 4096) {
            const size_t queries = n == 4097 && !quick() ? n : 300;
            softmax_poison(&r);
            softmax_attend(&r, n - queries, queries, n, true);
            softmax_check(&r, causal, n - queries, queries, every, "many rows");
        }
        softmax_run_end(&r);
    }
    free(causal);
    problem_free(&p);
}
END_TEST

/* The first tile of queries ends where a block of keys does, and goes on over more keys than are
 * packed together: its last vector must not reach into the sums of the next. */
START_TEST(partial_tiles)
{
    static const size_t starts[] = {577, 580, 584, 588, 591, 607};
    const size_t n = 1100;
    const char *isa;
    struct problem p;
    softmax_problem(&p, (enum softmax_form)(_i / 2), _i % 2 == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = 3, .dv = 5, .heads = 1, .kv_heads = 1, .batch = 1, .keys = n));
    void *causal = softmax_solve(&p, true, 1);
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
        struct softmax_run r;
        softmax_run_begin(&r, &p, isa, 1, i % 2 == 0, 0);
        for (size_t j = 0; j < COUNT(starts); j += quick() ? 2 : 1) {
            softmax_poison(&r);
            softmax_attend(&r, starts[j], n - starts[j], n, true);
            softmax_check(&r, causal, starts[j], n - starts[j], 1, "a partial tile first");
        }
        softmax_run_end(&r);
    }
    free(causal);
    problem_free(&p);
}
END_TEST

/* -- views ------------------------------------------------------------------------------------- */

static void check_views(struct softmax_run *r, struct strided *o, const void *want, bool causal)
{
    const size_t n = r->p->shape.tokens;
    r->out = o->tensor;
    softmax_attend(r, 0, n, n, causal);
    strided_read(o, r->o);
    softmax_check(r, want, 0, n, 1, "strided views");
}

START_TEST(layouts)
{
    struct problem p;
    const char *isa;
    softmax_problem(&p, (enum softmax_form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = 5, .dv = 19, .heads = 4, .kv_heads = 2, .batch = 2, .keys = 70));
    const struct shape *s = &p.shape;
    void *want[2] = {softmax_solve(&p, false, 1), softmax_solve(&p, true, 1)};
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (int l = 0; l < LAYOUTS; l++) {
            struct strided q, k, v, o;
            struct softmax_run r;
            const size_t b = s->batch, n = s->tokens;
            strided_make(&q, l, s->dtype, b, s->heads, n, s->d, p.q.data);
            strided_make(&k, (l + 1) % LAYOUTS, s->dtype, b, s->kv_heads, n, s->d, p.k.data);
            strided_make(&v, (l + 2) % LAYOUTS, s->dtype, b, s->kv_heads, n, s->dv, p.v.data);
            strided_make(&o, (l + 3) % LAYOUTS, s->dtype, b, s->heads, n, s->dv, NULL);
            softmax_run_begin(&r, &p, isa, 1 + l % 3, l % 2 == 0, 0);
            r.q = q.tensor, r.k = k.tensor, r.v = v.tensor;
            check_views(&r, &o, want[l % 2], l % 2);
            softmax_run_end(&r);
            strided_free(&o);
            void *same = make_zeros(b * s->heads * n * (s->d + s->dv), s->dtype);
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
    free(want[0]);
    free(want[1]);
    problem_free(&p);
}
END_TEST

/* One array [batch][token][q heads, k heads, v heads], at any byte, that three views share. */
START_TEST(fused)
{
    struct problem p;
    const char *isa;
    softmax_problem(&p, (enum softmax_form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = 5, .dv = 17, .heads = 6, .kv_heads = 2, .batch = 2, .keys = 70));
    const struct shape *s = &p.shape;
    const size_t e = dtype_size(s->dtype);
    const size_t heads[] = {s->heads, s->kv_heads, s->kv_heads};
    const size_t width[] = {s->d, s->d, s->dv};
    const size_t pitch = heads[0] * width[0] + heads[1] * width[1] + heads[2] * width[2];
    const struct tsa_tensor *from[] = {&p.q, &p.k, &p.v};
    void *want = softmax_solve(&p, true, 1);
    char *all = make_zeros(s->batch * s->tokens * pitch + 1, s->dtype);
    for (size_t off = 0; off <= e; off += quick() ? e / 2 + 1 : 1) {
        struct tsa_tensor view[3];
        char *at = all + off;
        for (int j = 0; j < 3; at += heads[j] * width[j] * e, j++) {
            view[j] = dense(at, s->dtype, heads[j], s->tokens, width[j]);
            view[j].head = (ptrdiff_t)width[j];
            view[j].token = (ptrdiff_t)pitch;
            view[j].batch = (ptrdiff_t)(s->tokens * pitch);
            for (size_t i = 0; i < s->batch * heads[j] * s->tokens; i++) {
                const size_t b = i / s->tokens / heads[j], h = i / s->tokens % heads[j];
                memcpy(at + ((b * s->tokens + i % s->tokens) * pitch + h * width[j]) * e,
                       (const char *)from[j]->data + i * width[j] * e, width[j] * e);
            }
        }
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
            struct strided o;
            struct softmax_run r;
            strided_make(&o, LAYOUT_BNHD, s->dtype, s->batch, s->heads, s->tokens, s->dv, NULL);
            memmove(o.memory + off, o.memory, o.bytes - e);
            memset(o.memory, o.memory[o.bytes - 1], off); /* what lies between rows */
            o.tensor.data = (char *)o.tensor.data + off;
            softmax_run_begin(&r, &p, isa, 1 + (int)off % 3, false, 0);
            r.q = view[0], r.k = view[1], r.v = view[2];
            check_views(&r, &o, want, true);
            softmax_run_end(&r);
            strided_free(&o);
        }
    }
    free(all);
    free(want);
    problem_free(&p);
}
END_TEST

/* Strides of 0: one query for all, one key head for all, one value sequence for all. */
START_TEST(broadcast)
{
    struct problem p;
    softmax_problem(&p, (enum softmax_form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64,
                    SIZE(.d = 5, .dv = 19, .heads = 4, .kv_heads = 2, .batch = 3, .keys = 70));
    const struct shape *s = &p.shape;
    const size_t e = dtype_size(s->dtype), row = s->d * e;
    const size_t values = s->kv_heads * s->tokens * s->dv * e;
    char *q = p.q.data, *k = p.k.data, *v = p.v.data;
    for (size_t i = 0; i < s->batch * s->heads * s->tokens; i++)
        memcpy(q + i * row, q + i / s->tokens * s->tokens * row, row);
    for (size_t b = 0; b < s->batch; b++)
        memcpy(k + (2 * b + 1) * s->tokens * row, k + 2 * b * s->tokens * row, s->tokens * row);
    for (size_t b = 1; b < s->batch; b++)
        memcpy(v + b * values, v, values);
    void *want = softmax_solve(&p, true, 1);
    struct strided o;
    struct softmax_run r;
    strided_make(&o, LAYOUT_GAPS, s->dtype, s->batch, s->heads, s->tokens, s->dv, NULL);
    softmax_run_begin(&r, &p, NULL, 2, false, 0);
    r.q.token = 0, r.k.head = 0, r.v.batch = 0;
    check_views(&r, &o, want, true);
    softmax_run_end(&r);
    strided_free(&o);
    free(want);
    problem_free(&p);
}
END_TEST

/* Tensors of the other type: inputs are converted to T first, outputs last. */
START_TEST(mixed_types)
{
    const enum tsa_dtype own = _i / FORMS == 0 ? TSA_F32 : TSA_F64;
    const enum tsa_dtype other = own == TSA_F32 ? TSA_F64 : TSA_F32;
    struct problem p;
    const char *isa;
    softmax_problem(&p, (enum softmax_form)(_i % FORMS), own,
                    SIZE(.d = 5, .dv = 19, .heads = 4, .kv_heads = 2, .batch = 2, .keys = 140));
    struct tsa_tensor *from[] = {&p.q, &p.k, &p.v}, view[3];
    for (int j = 0; j < 3; j++) {
        const size_t count = p.shape.batch * (size_t)from[j]->batch;
        view[j] = *from[j];
        view[j].dtype = other;
        view[j].data = make_zeros(count, other);
        for (size_t i = 0; i < count; i++) {
            double x = get(from[j]->data, own, i);
            if (own == TSA_F64 && fabs(x) > FLT_MAX)
                x = 1; /* rows that f32 cannot hold */
            /* 2^-30 more than a float holds: T decides what is left of it */
            put(view[j].data, other, i, own == TSA_F32 ? x + x * 0x1p-30 : x);
            put(from[j]->data, own, i, get(view[j].data, other, i));
        }
    }
    void *want = softmax_solve(&p, true, 1), *same = make_zeros(p.o_count, other);
    void *o = make_zeros(p.o_count, other);
    for (size_t i = 0; i < p.o_count; i++)
        put(same, other, i, get(want, own, i));
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (int j = 0; j < 2; j++) {
            struct softmax_run r;
            softmax_run_begin(&r, &p, isa, 2 - j, j == 0, 0);
            r.q = view[0], r.k = view[1], r.v = view[2];
            r.out = dense(o, other, p.shape.heads, p.shape.tokens, p.shape.dv);
            memset(o, 0xa5, p.o_count * dtype_size(other));
            for (size_t t = 0, n = j == 0 ? 140 : 35; t < 140; t += n)
                softmax_attend(&r, t, n, t + n, true);
            assert_bits(o, same, other, p.o_count, "tensors of the other type");
            softmax_run_end(&r);
        }
    for (int j = 0; j < 3; j++)
        free(view[j].data);
    free(want);
    free(same);
    free(o);
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softmax");
    tcase_add_loop_test(add_case(suite, "grid"), grid, 0, 2 * (int)COUNT(widths));
    tcase_add_loop_test(add_case(suite, "schedule"), schedule, 0,
                        2 * FORMS * (int)COUNT(schedules));
    tcase_add_loop_test(add_case(suite, "few_keys"), few_keys, 0, 2 * FORMS);
    tcase_add_loop_test(add_case(suite, "long"), long_rows, 0, 10 * FORMS);
    tcase_add_loop_test(add_case(suite, "partial"), partial_tiles, 0, 2 * FORMS);
    TCase *c = add_case(suite, "views");
    tcase_add_loop_test(c, layouts, 0, 2 * FORMS);
    tcase_add_loop_test(c, fused, 0, 2 * FORMS);
    tcase_add_loop_test(c, broadcast, 0, 2 * FORMS);
    tcase_add_loop_test(c, mixed_types, 0, 2 * FORMS);
    return run_suite(suite);
}
