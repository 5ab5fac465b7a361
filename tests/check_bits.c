/* SPDX-License-Identifier: MIT */
/* Outputs and states of fixed problems against hashes in this file, for every instruction set: the
 * same bits on any machine, with any compiler, in any emulator. Inputs come from integers, so
 * nothing here depends on a mathematical library.
 *
 * The hashes belong to version 1 of the arithmetic. A change that needs others is a new version;
 * the failing test prints what it got. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

/* A prefill of `first` tokens, more of `piece` tokens, the last tokens by decode; then queries, and
 * the sequences merged into the first. */
static const struct fixed {
    size_t d, dv, terms, chunk, heads, kv_heads, batch, tokens, first, piece;
    enum tsa_normalize normalize;
    double temperature;
    uint64_t f32, f64; /* hashes */
} problems[] = {
    {16, 64, 3, 32, 2, 1, 1, 100, 96, 40, L2, 2, UINT64_C(0xb1c0c181d7d26ba9),
     UINT64_C(0x5180f0917e476818)},
    {16, 20, 3, 24, 4, 2, 2, 70, 30, 17, L2, 0.5, UINT64_C(0xe1c35980b862bbae),
     UINT64_C(0x654a63b6d7fb7799)},
    {5, 7, 2, 1, 2, 2, 1, 23, 9, 3, L2, 1, UINT64_C(0x98f37f775b56050f),
     UINT64_C(0x2dbd582b090ae49a)},
    {3, 1, 1, 4, 1, 1, 2, 19, 1, 6, L2, 2, UINT64_C(0x507acc16ffec4b80),
     UINT64_C(0xf61a23837ccf9fa5)},
    {8, 17, 4, 8, 6, 2, 1, 45, 20, 10, L2, 3, UINT64_C(0xaf82462bd8e72ef4),
     UINT64_C(0xec724e1fd20cf018)},
    {4, 33, 5, 16, 1, 1, 2, 60, 50, 4, RAW, 2, UINT64_C(0xba96ace272ce7e3d),
     UINT64_C(0xdb3b1c7845f9bc98)},
    {3, 9, 8, 6, 2, 1, 1, 33, 4, 5, L2, 0.75, UINT64_C(0x1b22ae401ae96385),
     UINT64_C(0x6e1ac7bd79a41954)},
    {2, 131, 3, 7, 8, 1, 2, 30, 12, 2, RAW, 1.5, UINT64_C(0x5130fb1997c0e4cf),
     UINT64_C(0x09246bd7633a1b38)},
    {1, 2, 6, 5, 1, 1, 3, 26, 13, 8, RAW, 1, UINT64_C(0xeeb6edb670d9da9f),
     UINT64_C(0xe2cf813821df3f3f)},
    {70, 40, 2, 20, 2, 2, 1, 50, 44, 1, L2, 2, UINT64_C(0x8082288de2d9337d),
     UINT64_C(0xe247f90ee70d7eb1)},
    {33, 12, 3, 128, 2, 1, 1, 140, 100, 9, L2, 2, UINT64_C(0x8cefe0933d9b7605),
     UINT64_C(0xa8e8cc1de9001732)},
    {6, 4, 7, 9, 3, 1, 1, 31, 10, 11, L2, 2, UINT64_C(0x5b6ec9ad6954fdb0),
     UINT64_C(0x6426ad31b798e692)},
};
#define PROBLEMS ((int)(sizeof problems / sizeof problems[0]))

/* Mixed plans; no step on the way is subnormal. */
static const struct fixed_mixed {
    struct fixed problem;
    unsigned exact_degrees;
    uint64_t hash;
} mixed_problems[] = {
    {{16, 64, 3, 64, 2, 1, 1, 150, 130, 40, L2, 2, 0, 0}, 2, UINT64_C(0x1bcc62e683f6d5a2)},
    {{16, 20, 3, 24, 4, 2, 2, 70, 30, 17, L2, 0.5, 0, 0}, 0, UINT64_C(0x3a73550a2eba0761)},
    {{5, 7, 2, 2, 2, 2, 1, 23, 9, 3, L2, 1, 0, 0}, 1, UINT64_C(0xdfaa96f9a50a927b)},
    {{8, 17, 4, 8, 6, 2, 1, 45, 20, 10, L2, 3, 0, 0}, 3, UINT64_C(0x619f9a92f5e297ba)},
    {{4, 33, 5, 16, 1, 1, 2, 60, 50, 4, RAW, 2, 0, 0}, 2, UINT64_C(0x97d9634da0549878)},
    {{2, 131, 3, 6, 8, 1, 2, 30, 12, 2, RAW, 1.5, 0, 0}, 1, UINT64_C(0x7fcd004cb9827738)},
    {{33, 12, 3, 128, 2, 1, 1, 140, 130, 9, L2, 2, 0, 0}, 2, UINT64_C(0xb9bd11c8c3e51ae3)},
};
#define MIXED_PROBLEMS ((int)(sizeof mixed_problems / sizeof mixed_problems[0]))
#define QUERIES 5

/* -- numbers from integers -------------------------------------------------------------------- */

/* In [-1, 1), a multiple of 2^-23 or 2^-52; one in eight is times `some`, a power of two. All steps
 * exact. */
static void *numbers(struct rng *rng, enum tsa_dtype dtype, size_t count, double some)
{
    void *data = make_zeros(count, dtype);
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = rng_next(rng);
        const double x = dtype == TSA_F64 ? (double)(int64_t)(bits >> 11) / 4503599627370496.0 - 1
                                          : (double)(int64_t)(bits >> 40) / 8388608.0 - 1;
        put(data, dtype, i, (bits & 7) == 0 ? x * some : x);
    }
    return data;
}

/* FNV-1a over the values' bytes, least significant first. */
static void hash_bits(uint64_t *hash, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        *hash ^= bits >> 8 * i & 0xff;
        *hash *= UINT64_C(0x100000001b3);
    }
}

static void hash_values(uint64_t *hash, const void *data, enum tsa_dtype dtype, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t wide;
        uint32_t narrow;
        if (dtype == TSA_F64) {
            memcpy(&wide, (const double *)data + i, sizeof wide);
            hash_bits(hash, wide, 8);
        } else {
            memcpy(&narrow, (const float *)data + i, sizeof narrow);
            hash_bits(hash, narrow, 4);
        }
    }
}

static void hash_state(uint64_t *hash, const struct tsa_plan *plan, const struct tsa_state *state)
{
    size_t count;
    double *sums = export_all(plan, state, 0, &count);
    hash_bits(hash, tsa_state_tokens(state, 0), 8);
    hash_values(hash, sums, TSA_F64, count);
    free(sums);
}

/* -- a problem -------------------------------------------------------------------------------- */

static uint64_t solve(const struct fixed *f, enum tsa_dtype dtype, const unsigned *exact_degrees,
                      const char *isa, int threads)
{
    const double some = exact_degrees != NULL ? 0.25 : 1 / 1048576.0;
    struct rng seed = {f->d + 1000 * f->tokens};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const size_t rows = f->batch * f->heads * f->tokens;
    const size_t kv_rows = f->batch * f->kv_heads * f->tokens;
    const size_t queries = f->batch * f->heads * QUERIES;
    void *q = numbers(&seed, dtype, rows * f->d, some);
    void *k = numbers(&seed, dtype, kv_rows * f->d, some);
    void *v = numbers(&seed, dtype, kv_rows * f->dv, some), *o = make_zeros(rows * f->dv, dtype);
    void *q2 = numbers(&seed, dtype, queries * f->d, some);
    void *o2 = make_zeros(queries * f->dv, dtype);
    struct tsa_options options;
    struct tsa_error err;
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.head_dim = f->d;
    options.value_dim = f->dv;
    options.terms = f->terms;
    options.chunk = f->chunk;
    options.heads = f->heads;
    options.kv_heads = f->kv_heads;
    options.dtype = dtype;
    options.normalize = f->normalize;
    options.temperature = f->temperature;
    options.isa = isa;
    options.threads = threads;
    if (exact_degrees != NULL) {
        options.compute = TSA_COMPUTE_MIXED;
        options.exact_degrees = *exact_degrees;
    }
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **states = states_make(plan, f->batch);
    for (size_t t = 0; t < f->tokens;) {
        const struct tsa_tensor qt = from_token(dense(q, dtype, f->heads, f->tokens, f->d), t);
        const struct tsa_tensor kt = from_token(dense(k, dtype, f->kv_heads, f->tokens, f->d), t);
        const struct tsa_tensor vt = from_token(dense(v, dtype, f->kv_heads, f->tokens, f->dv), t);
        const struct tsa_tensor ot = from_token(dense(o, dtype, f->heads, f->tokens, f->dv), t);
        const size_t n = t == 0 ? f->first : f->piece, left = f->tokens - t;
        if (n < left) {
            ok(tsa_prefill(plan,
                           BATCH(.states = states, .count = f->batch, .tokens = n, .q = qt, .k = kt,
                                 .v = vt, .o = ot),
                           NULL, &err),
               &err);
            t += n;
        } else {
            ok(tsa_decode(
                   plan,
                   BATCH(.states = states, .count = f->batch, .q = qt, .k = kt, .v = vt, .o = ot),
                   NULL, &err),
               &err);
            t++;
        }
    }
    const struct tsa_tensor qt = dense(q2, dtype, f->heads, QUERIES, f->d);
    const struct tsa_tensor ot = dense(o2, dtype, f->heads, QUERIES, f->dv);
    ok(tsa_query(plan,
                 BATCH(.states = states, .count = f->batch, .tokens = QUERIES, .q = qt, .o = ot),
                 NULL, &err),
       &err);
    hash_values(&hash, o, dtype, rows * f->dv);
    hash_values(&hash, o2, dtype, queries * f->dv);
    for (size_t b = 0; b < f->batch; b++)
        hash_state(&hash, plan, states[b]);
    for (size_t b = 1; b < f->batch; b++)
        ok(tsa_state_merge(plan, states[0], states[b], NULL, &err), &err);
    hash_state(&hash, plan, states[0]);
    states_free(states, f->batch);
    tsa_plan_destroy(plan);
    free(q), free(k), free(v), free(o), free(q2), free(o2);
    return hash;
}

START_TEST(same_bits)
{
    const struct fixed *f = &problems[_i / 2];
    const enum tsa_dtype dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    const uint64_t want = dtype == TSA_F32 ? f->f32 : f->f64;
    ck_assert_int_eq(tsa_arithmetic(), 1);
    for (size_t i = 0; usable_isa(i); i++) {
        const int threads = 1 + (int)i % 2;
        const uint64_t got = solve(f, dtype, NULL, usable_isa(i), threads);
        ck_assert_msg(got == want,
                      "problem %d, %s, %s, %d threads: hash 0x%016llx, should be 0x%016llx", _i / 2,
                      dtype == TSA_F32 ? "f32" : "f64", usable_isa(i), threads,
                      (unsigned long long)got, (unsigned long long)want);
    }
}
END_TEST

START_TEST(same_bits_mixed)
{
    const struct fixed_mixed *m = &mixed_problems[_i];
    for (size_t i = 0; usable_isa(i); i++) {
        const int threads = 1 + (int)i % 2;
        const uint64_t got = solve(&m->problem, TSA_F32, &m->exact_degrees, usable_isa(i), threads);
        ck_assert_msg(got == m->hash,
                      "mixed problem %d, %s, %d threads: hash 0x%016llx, should be 0x%016llx", _i,
                      usable_isa(i), threads, (unsigned long long)got, (unsigned long long)m->hash);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bits");
    TCase *c = add_case(suite, "bits");
    tcase_add_loop_test(c, same_bits, 0, 2 * PROBLEMS);
    tcase_add_loop_test(c, same_bits_mixed, 0, MIXED_PROBLEMS);
    return run_suite(suite);
}
