/* SPDX-License-Identifier: MIT */
/* tsa_softmax equals a plain model of its arithmetic bit by bit, whatever the schedule: threads,
 * instruction set, strides, rows together or one by one; and the model keeps the bound that is
 * derived from the definition. */
#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef FP_FAST_FMA
#define FP_FAST_FMA /* makes sleef.h declare the exponential that is guarded in the model */
#endif
#include <sleef.h>

#include "support.h"

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

/* -- problems ---------------------------------------------------------------------------------- */

/* Which form the heads have: bounded, general, both in turn, or general by unnormalised rows. The
 * scale of 2 - 1e-10 is 1/2 in f32, and more in f64. */
enum form { BOUNDED, GENERAL, MIXED, UNSCALED, FORMS };
static const double temperatures[FORMS][6] = {
    {2, 3.7, 2.000001, 1e30, 2, 11},
    {1.5, 0.3, 1.5, 1.999, 0.05, 1},
    {2, 1.5, 2 - 1e-10, 0.3, 5, 1.9},
    {2, 0.7, 1, 5, 0.3, 1.5},
};

/* Inputs for `keys` tokens of q, k and v: queries are taken from the end of q. */
static void make(struct problem *p, enum form form, enum tsa_dtype dtype, size_t d, size_t dv,
                 size_t heads, size_t kv_heads, size_t batch, size_t keys)
{
    const struct shape s = {d,           dv,           1,    1,     heads,
                            kv_heads,    batch,        keys, dtype, form == UNSCALED ? RAW : L2,
                            COEF_TAYLOR, TEMP_PER_HEAD};
    problem_make(p, &s, 7000 + d + 100 * dv + 10000 * keys);
    for (size_t h = 0; h < heads; h++)
        p->temperature[h] = temperatures[form][h % 6];
}

/* k of kv head g of sequence b, normalised. */
static void *normalised_keys(const struct problem *p, size_t b, size_t g)
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

static void model_row(const struct problem *p, size_t b, size_t h, size_t t, const void *k,
                      size_t keys, void *o)
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

/* Outputs of all tokens, each of which sees itself and those before it, or all keys. */
static void *solve(const struct problem *p, bool causal, size_t every)
{
    const struct shape *s = &p->shape;
    const size_t row = s->dv * dtype_size(s->dtype);
    char *o = make_zeros(p->o_count, s->dtype);
    memset(o, 0xff, p->o_count * dtype_size(s->dtype));
    for (size_t b = 0; b < s->batch; b++)
        for (size_t h = 0; h < s->heads; h++) {
            void *k = normalised_keys(p, b, h / (s->heads / s->kv_heads));
            for (size_t t = 0; t < s->tokens; t++)
                if (wanted(t, s->tokens, every))
                    model_row(p, b, h, t, k, causal ? t + 1 : s->tokens,
                              o + ((b * s->heads + h) * s->tokens + t) * row);
            free(k);
        }
    return o;
}

/* -- runs -------------------------------------------------------------------------------------- */

#define CANARY 4096

/* A plan; outputs; and a workspace that holds NaN and lies before bytes that must stay. */
struct run {
    const struct problem *p;
    struct tsa_plan *plan;
    struct tsa_workspace *ws;
    unsigned char *memory;
    size_t bytes;
    void *o;
    struct tsa_tensor q, k, v, out;
};

static void run_begin(struct run *r, const struct problem *p, const char *isa, int threads,
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

static void run_end(struct run *r)
{
    for (size_t i = 0; r->memory != NULL && i < CANARY; i++)
        CHECK(r->memory[r->bytes + i] == 0xff, "byte %zu past the workspace", i);
    tsa_plan_destroy(r->plan);
    free(r->memory);
    free(r->o);
}

/* The queries t .. t+queries-1 over the first `keys` keys. */
static void attend(struct run *r, size_t t, size_t queries, size_t keys, bool causal)
{
    struct tsa_error err;
    const struct tsa_tensor q = from_token(r->q, t), o = from_token(r->out, t);
    ok(tsa_softmax(r->plan, r->p->shape.batch, queries, keys, causal, &q, &r->k, &r->v, &o, r->ws,
                   &err),
       &err);
}

static void poison(struct run *r)
{
    memset(r->o, 0xa5, r->p->o_count * dtype_size(r->p->shape.dtype));
}

/* Queries t .. t+queries-1 of every head have the bits of `want`, if they are among `every`; and
 * nothing else has been written. */
static void check(const struct run *r, const void *want, size_t t, size_t queries, size_t every,
                  const char *what)
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

/* One call for the last `queries` tokens. */
static void check_last(struct run *r, const void *want, size_t queries, bool causal,
                       const char *what)
{
    const size_t keys = r->p->shape.tokens;
    poison(r);
    attend(r, keys - queries, queries, keys, causal);
    check(r, want, keys - queries, queries, 1, what);
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
static void define(const struct problem *p, size_t b, size_t h, size_t t, size_t keys,
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

/* Each step-th of the rows of `o` that solve() made: what the model computes, and the library with
 * it. */
static void check_definition(const struct problem *p, const void *o, bool causal, size_t every,
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
            define(p, i / s->heads, i % s->heads, t, causal ? t + 1 : s->tokens, out);
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
            want[i] = exp_bounded_f32(x[i]);
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
            want[i] = exp_bounded_f64(x[i]);
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

/* -- shapes and schedules ---------------------------------------------------------------------- */

static const size_t widths[] = {1, 3, 5, 16, 17, 33, 64};
static const size_t value_widths[] = {1, 7, 16, 17, 64, 65, 130};
static const size_t counts[] = {1, 2, 63, 64, 65, 130, 200};
#define COUNT(array) (sizeof(array) / sizeof *(array))

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
        make(&p, (enum form)((x + y + z) % FORMS), dtype, widths[x], value_widths[y], 2, 1, 1, n);
        void *causal = solve(&p, true, 1), *full = turn ? solve(&p, false, 1) : NULL;
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
            struct run r;
            run_begin(&r, &p, isa, 1 + (int)(i + j) % 3, (i + j / 5) % 2 == 0, 0);
            check_last(&r, causal, queries[(i + j / 2) % 3], true, "causal");
            if (full != NULL)
                check_last(&r, full, queries[(i + j) % 3], false, "not causal");
            run_end(&r);
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
    make(&p, (enum form)form, (size_t)_i / FORMS % 2 == 0 ? TSA_F32 : TSA_F64, schedules[shape].d,
         schedules[shape].dv, schedules[shape].heads, schedules[shape].kv_heads,
         schedules[shape].batch, n);
    void *causal = solve(&p, true, 1), *full = solve(&p, false, 1);
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (size_t j = 0; j < COUNT(teams); j++) {
            struct run r;
            if ((i + j + (size_t)_i) % (quick() ? 9 : i > 0 ? 4 : 1) != 0)
                continue;
            run_begin(&r, &p, isa, teams[j], (i + j) % 2 == 0, 0);
            check_last(&r, causal, n, true, "whole");
            check_last(&r, causal, n - n / 3, true, "more keys than queries");
            check_last(&r, full, n, false, "all keys");
            poison(&r);
            if (j % 2 == 0 || shape > 3) { /* pieces of 1, 3, 5 ... */
                for (size_t t = 0, more; t < n; t += more) {
                    more = t / 8 * 2 + 1 < n - t ? t / 8 * 2 + 1 : n - t;
                    attend(&r, t, more, t + more, true);
                }
                check(&r, causal, 0, n, 1, "in pieces");
            } else {
                for (size_t t = 0; t < n; t++)
                    attend(&r, t, 1, t + 1, t % 2 == 0); /* of one query, causal or not is one */
                check(&r, causal, 0, n, 1, "row by row");
            }
            run_end(&r);
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
    make(&p, (enum form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64, 16, 20, 6, 3, 1, 150);
    for (size_t j = 0; j < COUNT(keys); j++) {
        struct run r;
        void *want = make_zeros(p.o_count, p.shape.dtype);
        for (size_t h = 0; h < 6; h++) {
            void *k = normalised_keys(&p, 0, h / 2);
            for (size_t t = 0; t < 150; t++)
                model_row(&p, 0, h, t, k, keys[j],
                          (char *)want + (h * 150 + t) * 20 * dtype_size(p.shape.dtype));
            free(k);
        }
        run_begin(&r, &p, NULL, 1 + (int)j % 3, j % 2 == 0, 0);
        poison(&r);
        attend(&r, 0, 150, keys[j], false);
        check(&r, want, 0, 150, 1, "few keys");
        run_end(&r);
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
    make(&p, (enum form)form, _i % 2 == 0 ? TSA_F32 : TSA_F64, 1 + form, n == 8200 ? 17 : 3, 2, 1,
         1, n);
    const size_t every = quick() ? 1999 : 307;
    void *causal = solve(&p, true, every);
    check_definition(&p, causal, true, every, 13);
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
        struct run r;
        run_begin(&r, &p, isa, 1 + (int)i % 3, i % 2 == 0, 0);
        check_last(&r, causal, 4, true, "long rows");
        for (size_t j = 0; j < 4; j++) {
            poison(&r);
            attend(&r, n - 4 + j, 1, n - 3 + j, true);
            check(&r, causal, n - 4 + j, 1, 1, "a long row");
        }
        if (i == 0 && n > 4096) {
            const size_t queries = n == 4097 && !quick() ? n : 300;
            poison(&r);
            attend(&r, n - queries, queries, n, true);
            check(&r, causal, n - queries, queries, every, "many rows");
        }
        run_end(&r);
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
    make(&p, (enum form)(_i / 2), _i % 2 == 0 ? TSA_F32 : TSA_F64, 3, 5, 1, 1, 1, n);
    void *causal = solve(&p, true, 1);
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
        struct run r;
        run_begin(&r, &p, isa, 1, i % 2 == 0, 0);
        for (size_t j = 0; j < COUNT(starts); j += quick() ? 2 : 1) {
            poison(&r);
            attend(&r, starts[j], n - starts[j], n, true);
            check(&r, causal, starts[j], n - starts[j], 1, "a partial tile first");
        }
        run_end(&r);
    }
    free(causal);
    problem_free(&p);
}
END_TEST

/* -- views ------------------------------------------------------------------------------------- */

static void check_views(struct run *r, struct strided *o, const void *want, bool causal)
{
    const size_t n = r->p->shape.tokens;
    r->out = o->tensor;
    attend(r, 0, n, n, causal);
    strided_read(o, r->o);
    check(r, want, 0, n, 1, "strided views");
}

START_TEST(layouts)
{
    struct problem p;
    const char *isa;
    make(&p, (enum form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64, 5, 19, 4, 2, 2, 70);
    const struct shape *s = &p.shape;
    void *want[2] = {solve(&p, false, 1), solve(&p, true, 1)};
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (int l = 0; l < LAYOUTS; l++) {
            struct strided q, k, v, o;
            struct run r;
            const size_t b = s->batch, n = s->tokens;
            strided_make(&q, l, s->dtype, b, s->heads, n, s->d, p.q.data);
            strided_make(&k, (l + 1) % LAYOUTS, s->dtype, b, s->kv_heads, n, s->d, p.k.data);
            strided_make(&v, (l + 2) % LAYOUTS, s->dtype, b, s->kv_heads, n, s->dv, p.v.data);
            strided_make(&o, (l + 3) % LAYOUTS, s->dtype, b, s->heads, n, s->dv, NULL);
            run_begin(&r, &p, isa, 1 + l % 3, l % 2 == 0, 0);
            r.q = q.tensor, r.k = k.tensor, r.v = v.tensor;
            check_views(&r, &o, want[l % 2], l % 2);
            run_end(&r);
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
    make(&p, (enum form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64, 5, 17, 6, 2, 2, 70);
    const struct shape *s = &p.shape;
    const size_t e = dtype_size(s->dtype);
    const size_t heads[] = {s->heads, s->kv_heads, s->kv_heads};
    const size_t width[] = {s->d, s->d, s->dv};
    const size_t pitch = heads[0] * width[0] + heads[1] * width[1] + heads[2] * width[2];
    const struct tsa_tensor *from[] = {&p.q, &p.k, &p.v};
    void *want = solve(&p, true, 1);
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
            struct run r;
            strided_make(&o, LAYOUT_BNHD, s->dtype, s->batch, s->heads, s->tokens, s->dv, NULL);
            memmove(o.memory + off, o.memory, o.bytes - e);
            memset(o.memory, o.memory[o.bytes - 1], off); /* what lies between rows */
            o.tensor.data = (char *)o.tensor.data + off;
            run_begin(&r, &p, isa, 1 + (int)off % 3, false, 0);
            r.q = view[0], r.k = view[1], r.v = view[2];
            check_views(&r, &o, want, true);
            run_end(&r);
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
    make(&p, (enum form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64, 5, 19, 4, 2, 3, 70);
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
    void *want = solve(&p, true, 1);
    struct strided o;
    struct run r;
    strided_make(&o, LAYOUT_GAPS, s->dtype, s->batch, s->heads, s->tokens, s->dv, NULL);
    run_begin(&r, &p, NULL, 2, false, 0);
    r.q.token = 0, r.k.head = 0, r.v.batch = 0;
    check_views(&r, &o, want, true);
    run_end(&r);
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
    make(&p, (enum form)(_i % FORMS), own, 5, 19, 4, 2, 2, 140);
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
    void *want = solve(&p, true, 1), *same = make_zeros(p.o_count, other);
    void *o = make_zeros(p.o_count, other);
    for (size_t i = 0; i < p.o_count; i++)
        put(same, other, i, get(want, own, i));
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (int j = 0; j < 2; j++) {
            struct run r;
            run_begin(&r, &p, isa, 2 - j, j == 0, 0);
            r.q = view[0], r.k = view[1], r.v = view[2];
            r.out = dense(o, other, p.shape.heads, p.shape.tokens, p.shape.dv);
            memset(o, 0xa5, p.o_count * dtype_size(other));
            for (size_t t = 0, n = j == 0 ? 140 : 35; t < 140; t += n)
                attend(&r, t, n, t + n, true);
            assert_bits(o, same, other, p.o_count, "tensors of the other type");
            run_end(&r);
        }
    for (int j = 0; j < 3; j++)
        free(view[j].data);
    free(want);
    free(same);
    free(o);
    problem_free(&p);
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
    make(&p, (enum form)(_i % FORMS), _i / FORMS % 2 == 0 ? TSA_F32 : TSA_F64, s[0], s[1], 6, 2, 1,
         s[2]);
    for (int causal = 0; causal < 2; causal++) {
        void *o = solve(&p, causal, 1);
        check_definition(&p, o, causal, 1, quick() ? 41 : 11);
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
    void *want[2] = {solve(p, false, every), solve(p, true, every)};
    const char *isa;
    double largest = 0;
    for (size_t i = 0; i < s->kv_heads * s->tokens * s->dv; i++)
        largest = fmax(largest, fabs(get(p->v.data, s->dtype, i)));
    for (int causal = 0; causal < 2; causal++) {
        if (queries == s->tokens)
            check_definition(p, want[causal], causal, 1, 37);
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
            struct run r;
            run_begin(&r, p, isa, 1 + (int)i % 2, i % 2 == 0, 0);
            check_last(&r, want[causal], queries, causal, what);
            for (size_t j = 0; j < p->o_count; j++) /* a mean of values, or poison */
                CHECK(j / s->dv % s->tokens < s->tokens - queries ||
                          fabs(get(r.o, s->dtype, j)) <= 1.01 * largest,
                      "%s: output %zu is no mean", what, j);
            run_end(&r);
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
    make(&p, UNSCALED, dtype, 3, 5, 2, 1, 1, quick() ? 140 : 300);
    set_scores(&p, pattern);
    check_large(&p, p.shape.tokens, "large scores");
    problem_free(&p);
    make(&p, UNSCALED, dtype, 2, 3, 1, 1, 1, 8300);
    set_scores(&p, pattern);
    check_large(&p, 4, "large scores, long rows");
    problem_free(&p);
}
END_TEST

/* Normalised rows at a very low temperature. */
START_TEST(cold)
{
    struct problem p;
    make(&p, GENERAL, _i % 2 == 0 ? TSA_F32 : TSA_F64, 4, 5, 2, 1, 1, 300);
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
    const enum form form = (enum form)(_i % FORMS);
    const size_t n = _i / FORMS / 2 == 0 ? 130 : 4170, queries = n < 1000 ? n : 3;
    make(&p, form, _i / FORMS % 2 == 0 ? TSA_F32 : TSA_F64, 5, 4, 6, 3, 1, n);
    const struct shape *s = &p.shape;
    static const double value[3][4] = {{1, -2, 0.125, 3}, {1, 1, 3, -4}, {3, 1, 0, -1}};
    for (size_t i = 0; i < 3 * n; i++)
        for (size_t c = 0; c < 4; c++)
            put(p.v.data, s->dtype, i * 4 + c, value[i / n][c]);
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (int j = 0; j < 4; j++) {
            const size_t first = n - queries;
            struct run r;
            run_begin(&r, &p, isa, 1 + j % 2, false, j < 2 ? 0 : TSA_SKIP_INPUT_CHECK);
            poison(&r);
            attend(&r, first, queries, n, j % 2);
            for (size_t m = 0; m < p.o_count; m++) {
                const size_t h = m / 4 / n, t = m / 4 % n;
                const double want = value[h / 2][m % 4], got = get(r.o, s->dtype, m);
                struct truth truth[4];
                if (t < first)
                    continue;
                CHECK(fabs(want) == 3 || got == want, "head %zu, query %zu: %.17g, not %g", h, t,
                      got, want);
                if (fabs(want) == 3 && t % 64 == 0) {
                    define(&p, 0, h, t, j % 2 ? t + 1 : n, truth);
                    CHECK(fabs(got - 3) <= truth[m % 4].bound, "head %zu, query %zu: %.17g", h, t,
                          got);
                }
            }
            run_end(&r);
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
        make(&p, (enum form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64, 5, 7, 4, 2, 1, N);
        const enum tsa_dtype dtype = p.shape.dtype;
        struct tsa_tensor *x = j % 3 == 0 ? &p.v : j % 3 == 1 ? &p.k : &p.q;
        put(x->data, dtype, BAD * (size_t)x->token + 1,
            j / 3 == 0   ? -NAN
            : j / 3 == 1 ? INFINITY
                         : -INFINITY);
        void *want[2] = {solve(&p, false, 1), solve(&p, true, 1)};
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
            for (int causal = 0; causal < 2; causal++) {
                struct run r;
                size_t nans = 0;
                run_begin(&r, &p, isa, 1 + (int)i % 3, causal, TSA_SKIP_INPUT_CHECK);
                check_last(&r, want[causal], N, causal, "with NaN");
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
                run_end(&r);
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
        make(&p, (enum form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64, 5, 19, 4, 2, 1, N);
        const struct shape *s = &p.shape;
        void *want = solve(&p, true, 1);
        for (size_t i = 0; i < 2 * N; i++)
            for (size_t c = 0; i % N >= keys[j] && c < s->d + s->dv; c++)
                if (c < s->d)
                    put(p.k.data, s->dtype, i * s->d + c, c % 2 == 0 ? NAN : INFINITY);
                else
                    put(p.v.data, s->dtype, i * s->dv + c - s->d, c % 2 == 0 ? -INFINITY : NAN);
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
            struct run r;
            const size_t row = s->dv * dtype_size(s->dtype);
            run_begin(&r, &p, isa, 1 + (int)i % 3, i % 2 == 0, TSA_SKIP_INPUT_CHECK);
            poison(&r);
            attend(&r, 0, N, N, true);
            for (size_t m = 0; m < 4 * N; m++)
                if (m % N < keys[j])
                    assert_bits((char *)r.o + m * row, (char *)want + m * row, s->dtype, s->dv,
                                "masked keys");
                else
                    for (size_t c = 0; c < s->dv; c++)
                        CHECK(isnan(get(r.o, s->dtype, m * s->dv + c)), "query %zu", m % N);
            run_end(&r);
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
    make(&p, (enum form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64, 3, 5, 6, 2, 1,
         quick() ? 300 : 4300);
    const struct shape *s = &p.shape;
    void *want = solve(&p, true, s->tokens);
    problem_options(&p, &o);
    o.threads = 3;
    o.allocate = meter_allocate;
    o.release = meter_release;
    o.allocator_user = &m;
    struct run r = {.p = &p, .q = p.q, .k = p.k, .v = p.v};
    r.plan = make_plan(&o);
    r.o = make_zeros(p.o_count, s->dtype);
    r.out = dense(r.o, s->dtype, s->heads, s->tokens, s->dv);
    for (int own = 0; own < 2; own++) {
        if (own)
            ok(tsa_workspace_create(r.plan, 0, &r.ws, &err), &err);
        const size_t calls = m.calls, live = m.live;
        for (size_t n = 1; n <= 4; n += 3) {
            poison(&r);
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
            check(&r, want, s->tokens - n, n, 1, "in another rounding mode");
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
static void refused(const struct run *r, enum tsa_status got, enum tsa_status want,
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
    make(&p, (enum form)(_i % FORMS), _i / FORMS == 0 ? TSA_F32 : TSA_F64, 5, 7, 4, 2, 2, N);
    const struct shape *s = &p.shape;
    struct run r = {.p = &p};
    problem_options(&p, &o);
    o.threads = 2;
    o.allocate = meter_allocate;
    o.release = meter_release;
    o.allocator_user = &m;
    r.plan = make_plan(&o);
    r.o = make_zeros(p.o_count, s->dtype);
    r.out = dense(r.o, s->dtype, s->heads, N, s->dv);
    poison(&r);
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
    Suite *suite = suite_create("softmax");
    TCase *c = add_case(suite, "exponential");
    tcase_add_test(c, bounded_f32);
    tcase_add_test(c, bounded_f64);
    tcase_add_loop_test(add_case(suite, "grid"), grid, 0, 2 * (int)COUNT(widths));
    tcase_add_loop_test(add_case(suite, "schedule"), schedule, 0,
                        2 * FORMS * (int)COUNT(schedules));
    tcase_add_loop_test(add_case(suite, "few_keys"), few_keys, 0, 2 * FORMS);
    tcase_add_loop_test(add_case(suite, "long"), long_rows, 0, 10 * FORMS);
    tcase_add_loop_test(add_case(suite, "partial"), partial_tiles, 0, 2 * FORMS);
    c = add_case(suite, "views");
    tcase_add_loop_test(c, layouts, 0, 2 * FORMS);
    tcase_add_loop_test(c, fused, 0, 2 * FORMS);
    tcase_add_loop_test(c, broadcast, 0, 2 * FORMS);
    tcase_add_loop_test(c, mixed_types, 0, 2 * FORMS);
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
