/* SPDX-License-Identifier: MIT */
/* See softmax_run.h. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef FP_FAST_FMA
#define FP_FAST_FMA /* makes sleef.h declare the exponential that is guarded in the model */
#endif
#include <sleef.h>

#include "softmax_run.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

/* -- the model --------------------------------------------------------------------------------- */

/* (e^x - 1) / x through the Chebyshev nodes cos((2k+1) pi / 2n) / 2 of [-1/2, 1/2], n = 7 and 13:
 * coefficients of x^0, x^1 ..., computed with 80 digits and rounded to nearest. */
static const float e_f32[] = {
    0x1p+0f,        0x1.000002p-1f,  0x1.555556p-3f,  0x1.55527ap-5f,
    0x1.110fccp-7f, 0x1.6ef178p-10f, 0x1.a2a31ep-13f,
};
static const double e_f64[] = {
    0x1p+0,
    0x1p-1,
    0x1.5555555555555p-3,
    0x1.55555555555e5p-5,
    0x1.1111111111137p-7,
    0x1.6c16c16bf2c5dp-10,
    0x1.a01a01a006d2ap-13,
    0x1.a01a021b73430p-16,
    0x1.71de3a972f8cap-19,
    0x1.27e42df3ab7bcp-22,
    0x1.ae637b5a397c8p-26,
    0x1.2036290a2a4e6p-29,
    0x1.6282cd6876bd7p-33,
};

#define T float
#define UINT uint32_t
#define FN(name) name##_f32
#define FMA fmaf
#define QNAN 0x7fc00000u
#define EXP_FMA Sleef_finz_expf1_u10purecfma
#define EXP_PLAIN Sleef_expf1_u10purec
#include "softmax_model_tmpl.h"
#undef T
#undef UINT
#undef FN
#undef FMA
#undef QNAN
#undef EXP_FMA
#undef EXP_PLAIN
#define T double
#define UINT uint64_t
#define FN(name) name##_f64
#define FMA fma
#define QNAN 0x7ff8000000000000u
#define EXP_FMA Sleef_finz_expd1_u10purecfma
#define EXP_PLAIN Sleef_expd1_u10purec
#include "softmax_model_tmpl.h"

float softmax_exp_bounded_f32(float x)
{
    return exp_bounded_f32(x);
}

double softmax_exp_bounded_f64(double x)
{
    return exp_bounded_f64(x);
}

/* -- problems ---------------------------------------------------------------------------------- */

static const double temperatures[FORMS][6] = {
    {2, 3.7, 2.000001, 1e30, 2, 11},
    {1.5, 0.3, 1.5, 1.999, 0.05, 1},
    {2, 1.5, 2 - 1e-10, 0.3, 5, 1.9},
    {2, 0.7, 1, 5, 0.3, 1.5},
};

void softmax_problem(struct problem *p, enum softmax_form form, enum tsa_dtype dtype,
                     const struct softmax_size *size)
{
    const struct shape s = {.d = size->d,
                            .dv = size->dv,
                            .terms = 1,
                            .chunk = 1,
                            .heads = size->heads,
                            .kv_heads = size->kv_heads,
                            .batch = size->batch,
                            .tokens = size->keys,
                            .dtype = dtype,
                            .normalize = form == UNSCALED ? RAW : L2,
                            .coefficients = COEF_TAYLOR,
                            .temperatures = TEMP_PER_HEAD};
    problem_make(p, &s, 7000 + size->d + 100 * size->dv + 10000 * size->keys);
    for (size_t h = 0; h < size->heads; h++)
        p->temperature[h] = temperatures[form][h % 6];
}

void *softmax_keys(const struct problem *p, size_t b, size_t g)
{
    const struct shape *s = &p->shape;
    const size_t row = s->d * dtype_size(s->dtype);
    char *k = make_zeros(s->tokens * s->d, s->dtype);
    for (size_t t = 0; t < s->tokens; t++)
        model_normalise(&p->model,
                        (char *)p->k.data + ((b * s->kv_heads + g) * s->tokens + t) * row,
                        k + t * row);
    return k;
}

void softmax_row(const struct problem *p, size_t b, size_t h, size_t t, const void *k, size_t keys,
                 void *o)
{
    const struct shape *s = &p->shape;
    const size_t e = dtype_size(s->dtype), g = b * s->kv_heads + h / (s->heads / s->kv_heads);
    const void *q = (char *)p->q.data + ((b * s->heads + h) * s->tokens + t) * s->d * e;
    const void *v = (char *)p->v.data + g * s->tokens * s->dv * e;
    if (s->dtype == TSA_F32)
        row_f32(&p->model, h, q, k, v, keys, o);
    else
        row_f64(&p->model, h, q, k, v, keys, o);
}

/* Every row for which `t % every == 0`, or that is near the end of a segment or of all; the
 * others become NaN. */
static bool wanted(size_t t, size_t tokens, size_t every)
{
    return t % every == 0 || t % 4096 < 2 || t % 4096 > 4093 || t + 5 > tokens;
}

void *softmax_solve(const struct problem *p, bool causal, size_t every)
{
    const struct shape *s = &p->shape;
    const size_t row = s->dv * dtype_size(s->dtype);
    char *o = make_zeros(p->o_count, s->dtype);
    memset(o, 0xff, p->o_count * dtype_size(s->dtype));
    for (size_t b = 0; b < s->batch; b++)
        for (size_t h = 0; h < s->heads; h++) {
            void *k = softmax_keys(p, b, h / (s->heads / s->kv_heads));
            for (size_t t = 0; t < s->tokens; t++)
                if (wanted(t, s->tokens, every))
                    softmax_row(p, b, h, t, k, causal ? t + 1 : s->tokens,
                                o + ((b * s->heads + h) * s->tokens + t) * row);
            free(k);
        }
    return o;
}

/* -- runs -------------------------------------------------------------------------------------- */

#define CANARY 4096

void softmax_run_begin(struct softmax_run *r, const struct problem *p, const char *isa, int threads,
                       bool workspace, unsigned flags)
{
    const struct shape *s = &p->shape;
    struct tsa_options options;
    struct tsa_error err;
    memset(r, 0, sizeof *r);
    problem_options(p, &options);
    options.isa = isa;
    options.threads = threads;
    options.flags = flags;
    poison_allocations(&options);
    r->p = p;
    r->plan = make_plan(&options);
    assert_team(threads);
    ck_assert_int_eq(tsa_plan_threads(r->plan), threads);
    if (workspace) {
        r->bytes = tsa_workspace_bytes(r->plan, 0);
        r->memory = aligned_alloc(64, (r->bytes + 63) / 64 * 64 + CANARY);
        ck_assert_ptr_nonnull(r->memory);
        memset(r->memory, 0xff, r->bytes + CANARY);
        ok(tsa_workspace_init(r->plan, 0, r->memory, r->bytes, &r->ws, &err), &err);
    }
    r->o = make_zeros(p->o_count, s->dtype);
    r->q = p->q, r->k = p->k, r->v = p->v;
    r->out = dense(r->o, s->dtype, s->heads, s->tokens, s->dv);
}

void softmax_run_end(struct softmax_run *r)
{
    for (size_t i = 0; r->memory != NULL && i < CANARY; i++)
        CHECK(r->memory[r->bytes + i] == 0xff, "byte %zu past the workspace", i);
    tsa_plan_destroy(r->plan);
    free(r->memory);
    free(r->o);
}

void softmax_attend(struct softmax_run *r, size_t t, size_t queries, size_t keys, bool causal)
{
    struct tsa_error err;
    const struct tsa_tensor q = from_token(r->q, t), o = from_token(r->out, t);
    ok(tsa_softmax(r->plan, r->p->shape.batch, queries, keys, causal, &q, &r->k, &r->v, &o, r->ws,
                   &err),
       &err);
}

void softmax_poison(struct softmax_run *r)
{
    memset(r->o, 0xa5, r->p->o_count * dtype_size(r->p->shape.dtype));
}

void softmax_check(const struct softmax_run *r, const void *want, size_t t, size_t queries,
                   size_t every, const char *what)
{
    const struct shape *s = &r->p->shape;
    const size_t row = s->dv * dtype_size(s->dtype);
    for (size_t i = 0; i < s->batch * s->heads * s->tokens; i++) {
        const size_t at = i % s->tokens;
        const char *got = (char *)r->o + i * row;
        const bool inside = at >= t && at < t + queries;
        for (size_t j = 0; !inside && j < row; j++)
            CHECK((unsigned char)got[j] == 0xa5, "%s: row %zu was written", what, at);
        if (!inside || !wanted(at, s->tokens, every) ||
            memcmp(got, (const char *)want + i * row, row) == 0)
            continue;
        printf("%s, %s, %d threads: d %zu, dv %zu, keys %zu, f%zu, sequence %zu, head %zu at "
               "temperature %g, query %zu\n",
               what, tsa_plan_isa(r->plan), tsa_plan_threads(r->plan), s->d, s->dv, s->tokens,
               8 * dtype_size(s->dtype), i / s->tokens / s->heads, i / s->tokens % s->heads,
               r->p->temperature[i / s->tokens % s->heads], at);
        assert_bits(got, (const char *)want + i * row, s->dtype, s->dv, what);
    }
}

void softmax_check_last(struct softmax_run *r, const void *want, size_t queries, bool causal,
                        const char *what)
{
    const size_t keys = r->p->shape.tokens;
    softmax_poison(r);
    softmax_attend(r, keys - queries, queries, keys, causal);
    softmax_check(r, want, keys - queries, queries, 1, what);
}

/* -- the definition ---------------------------------------------------------------------------- */

/* Output row (head h, token t of sequence b) by the definition, in long double, and how far T may
 * be from it. With L keys in n = ceil(L/4096) segments:
 *
 * Scores. Let S_i = sum_c |q_c k_ic| / (|q| |k_i| a). Each product in the chain carries these
 * roundings: norms d/2 + 3 for each of q and k, unless rows are taken as they are; scale 2, with
 * its own rounding; the chain d. So x_i is off by at most D_i = ((1+u)^s - 1) S_i, s = 2 d + 8 or
 * d + 2, and a weight by the factor e^(D_i).
 *
 * Weights and sums, factors (1 + u)^K of what a key adds to a numerator or to the denominator:
 *   bounded: exponential 1 ulp, 2; chain min(L, 4096); additions of segments n - 1
 *   general: exponential 2; chain min(L, 4096); then the factors exp(m - m'), of which one follows
 *     for every later block of the segment, at most 63, and for every segment, n - 1, each
 *     rounded to 2 and multiplied to 1; the fma of segments n - 1. All arguments x_i - m and
 *     m - m' are rounded differences, which are not negative and add up to M - x_i for the largest
 *     score M: together they change the weight by the factor e^(u (M - x_i)).
 * A weight and its values may fall below the least normal number at each step: L + 64 + n times
 * that number, where the denominator is at least about 1.
 *
 * With w_i the exact weights and r_i = e^(D_i + u (M - x_i)) (1 + u)^K - 1 <= R, the quotient errs
 * by at most sum_i w_i r_i (|v_i| + |o|) / (sum_i w_i (1 - R)), and is rounded once more. The
 * reference has at least 10 more bits than T: 1/1000 of the bound is its share. */
void softmax_define(const struct problem *p, size_t b, size_t h, size_t t, size_t keys,
                    struct truth *out)
{
    const struct shape *s = &p->shape;
    const bool l2 = s->normalize == L2;
    const size_t g = b * s->kv_heads + h / (s->heads / s->kv_heads);
    const size_t q = ((b * s->heads + h) * s->tokens + t) * s->d, k = g * s->tokens * s->d;
    const size_t v = g * s->tokens * s->dv, segments = (keys + 4095) / 4096;
    const size_t blocks = (keys + 63) / 64 < 64 ? (keys + 63) / 64 : 64;
    const double u = roundoff(s->dtype), least = s->dtype == TSA_F32 ? FLT_MIN : DBL_MIN;
    const bool bounded = l2 && (s->dtype == TSA_F32 ? (double)(float)(1 / p->temperature[h])
                                                    : 1 / p->temperature[h]) <= 0.5;
    const double chain = (double)(keys < 4096 ? keys : 4096), turns = (double)(segments - 1);
    const double roundings =
        2 + chain + (bounded ? turns : 3 * ((double)(blocks - 1) + turns) + turns);
    long double *x = calloc(3 * keys, sizeof *x), *w = x + keys, *off = w + keys;
    long double max = -INFINITY, den = 0, worst = 0, qq = 0;
    for (size_t c = 0; c < s->d; c++)
        qq += powl(get(p->q.data, s->dtype, q + c), 2);
    for (size_t i = 0; i < keys; i++) {
        long double kk = 0, size = 0;
        for (size_t c = 0; c < s->d; c++) {
            const long double kc = get(p->k.data, s->dtype, k + i * s->d + c);
            const long double qc = get(p->q.data, s->dtype, q + c);
            x[i] += qc * kc;
            size += fabsl(qc * kc);
            kk += kc * kc;
        }
        const long double norm =
            (l2 && qq > 0 && kk > 0 ? sqrtl(qq) * sqrtl(kk) : 1) * p->temperature[h];
        x[i] /= norm;
        off[i] = expm1l(u * (double)(l2 ? 2 * s->d + 8 : s->d + 2)) * size / norm;
        max = fmaxl(max, x[i]);
    }
    for (size_t i = 0; i < keys; i++) {
        w[i] = expl(x[i] - max);
        den += w[i];
        off[i] = expm1l(off[i] + (bounded ? 0 : u * (max - x[i])) + u * roundings);
        /* where the weight counts; elsewhere it is below the least number */
        worst = w[i] > least ? fmaxl(worst, off[i]) : worst;
    }
    ck_assert(worst < 0.1L);
    for (size_t c = 0; c < s->dv; c++) {
        long double num = 0, error = 0, largest = 0;
        for (size_t i = 0; i < keys; i++)
            num += w[i] * get(p->v.data, s->dtype, v + i * s->dv + c);
        const long double o = num / den;
        for (size_t i = 0; i < keys; i++) {
            const long double both =
                fabsl((long double)get(p->v.data, s->dtype, v + i * s->dv + c)) + fabsl(o);
            error += w[i] > least ? w[i] * off[i] * both : w[i] * both;
            largest = fmaxl(largest, both);
        }
        error = error / (den * (1 - worst)) + 2 * (double)(keys + 64 + segments) * least * largest;
        out[c].value = (double)o;
        out[c].bound = (double)(1.001L * (error + u * (fabsl(o) + error)));
    }
    free(x);
}

void softmax_check_definition(const struct problem *p, const void *o, bool causal, size_t every,
                              size_t step)
{
    const struct shape *s = &p->shape;
    if (LDBL_MANT_DIG < DBL_MANT_DIG + 10 && s->dtype == TSA_F64)
        return;
    struct truth *out = calloc(s->dv, sizeof *out);
    for (size_t i = 0; i < s->batch * s->heads; i++)
        for (size_t t = s->tokens, rows = 0; t-- > 0;) {
            if (!wanted(t, s->tokens, every) || rows++ % step != 0)
                continue;
            softmax_define(p, i / s->heads, i % s->heads, t, causal ? t + 1 : s->tokens, out);
            for (size_t c = 0; c < s->dv; c++) {
                const double got = get(o, s->dtype, (i * s->tokens + t) * s->dv + c);
                CHECK(fabs(got - out[c].value) <= out[c].bound,
                      "head %zu at temperature %g, query %zu, column %zu: %.17g is further than "
                      "%.3g from %.17g",
                      i % s->heads, p->temperature[i % s->heads], t, c, got, out[c].bound,
                      out[c].value);
            }
        }
    free(out);
}
