/* SPDX-License-Identifier: MIT */
/* What a careful user would write on a matrix product: causal Taylor-state prefill with the
 * features of each chunk materialised.
 *
 *   per block of features    psi[t][f] (weights and temperature on the query side), phi[f][t]
 *                            O = Psi S,  S += Phi V,  and the same for the column of ones
 *   per block of rows        P = Q K^T, polynomial and mask, O += P V;  at last O /= den
 *
 * Every product is row-major without transposition. Blocks keep psi, phi and their part of the
 * state in L2, so a state larger than that is streamed once per chunk. Plain f32 sums: no
 * compensation. One thread. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "contend.h"

#define MAX_ROW_BLOCKS 8

struct stage { /* products for a chunk of c tokens; index 1 is the last block of features */
    size_t c, blocks;
    size_t row[MAX_ROW_BLOCKS + 1];
    struct contend_gemm query[2], query_first[2], update[2];
    struct contend_gemm scores[MAX_ROW_BLOCKS], weigh[MAX_ROW_BLOCKS];
};

struct taylor {
    struct bench_contender head;
    const struct contend_backend *backend;
    const struct contend_loops *loops;
    size_t chunk, rows, d, dv, terms, features, base, block, ldp, ldb;
    size_t run_count;
    struct contend_run_of *runs; /* of degrees 2 and up; the others are copies */
    float coef[TSA_MAX_TERMS];
    float *weight, *state, *ones, *psi, *phi, *base_k, *base_t, *xt, *p, *den;
    struct stage stage, tail;
};

static const struct {
    const struct contend_backend *backend;
    size_t chunk, rows; /* rows of queries per triangle step */
} kinds[] = {
    {&contend_xsmm, 64, 32},
    {&contend_xsmm, 32, 32},
    {&contend_openblas, 64, 64},
    {&contend_openblas, 32, 32},
};

/* A product of m x k by k x n, the rows of A, B and C being lda, ldb and ldc apart. */
static bool prepare(struct taylor *c, struct contend_gemm *g, const size_t mnk[3],
                    const size_t ld[3], float beta)
{
    *g = (struct contend_gemm){.m = (int)mnk[0],
                               .n = (int)mnk[1],
                               .k = (int)mnk[2],
                               .lda = (int)ld[0],
                               .ldb = (int)ld[1],
                               .ldc = (int)ld[2],
                               .beta = beta};
    return c->backend->prepare(g);
}

static bool prepare_stage(struct taylor *c, struct stage *s, size_t tokens)
{
    const size_t d = c->d, dv = c->dv, last = c->features - (c->features - 1) / c->block * c->block;
    const size_t sizes[2] = {c->block < c->features ? c->block : last, last};
    bool ok = true;
    s->c = tokens;
    for (int i = 0; i < 2; i++) {
        const size_t query[3] = {tokens, dv, sizes[i]}, query_ld[3] = {c->ldp, dv, dv};
        const size_t update[3] = {sizes[i], dv, tokens}, update_ld[3] = {tokens, dv, dv};
        ok = ok && prepare(c, &s->query_first[i], query, query_ld, 0);
        ok = ok && prepare(c, &s->query[i], query, query_ld, 1);
        ok = ok && prepare(c, &s->update[i], update, update_ld, 1);
    }
    s->blocks = (tokens + c->rows - 1) / c->rows;
    for (size_t b = 0; b < s->blocks; b++) {
        const size_t r0 = b * c->rows;
        const size_t r1 = r0 + c->rows < tokens ? r0 + c->rows : tokens;
        s->row[b] = r0;
        s->row[b + 1] = r1;
        const size_t scores[3] = {r1 - r0, r1, d}, scores_ld[3] = {d, tokens, r1};
        const size_t weigh[3] = {r1 - r0, dv, r1}, weigh_ld[3] = {r1, dv, dv};
        ok = ok && prepare(c, &s->scores[b], scores, scores_ld, 0);
        ok = ok && prepare(c, &s->weigh[b], weigh, weigh_ld, 1);
    }
    return ok;
}

static void taylor_destroy(struct bench_contender *contender);
static void taylor_run(struct bench_contender *contender, size_t n, const float *q, const float *k,
                       const float *v, float *o);

struct bench_contender *contend_taylor(size_t i, const struct bench_problem *problem,
                                       const struct contend_unit *unit)
{
    if (i >= sizeof kinds / sizeof *kinds || !contend_start(kinds[i].backend))
        return NULL;
    struct taylor *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->backend = kinds[i].backend;
    c->loops = &unit->loops;
    c->chunk = kinds[i].chunk;
    c->rows = kinds[i].rows;
    c->d = problem->d;
    c->dv = problem->dv;
    c->terms = problem->terms;
    c->features = tsa_features(c->d, c->terms);
    c->base = c->terms >= 2 ? tsa_features(c->d, c->terms - 1) : 1;
    c->head =
        (struct bench_contender){.chunk = c->chunk, .run = taylor_run, .destroy = taylor_destroy};
    snprintf(c->head.name, sizeof c->head.name, "%s_c%zu", c->backend->name, c->chunk);
    /* 512 features: with 64 values and a chunk of 64, 128 KiB each of state, psi and phi */
    const size_t blocks = (c->features + 511) / 512;
    c->block = ((c->features + blocks - 1) / blocks + 15) / 16 * 16;
    c->ldp = c->block + 16; /* slack for whole-vector stores */
    c->ldb = c->base + 16;
    double coef = 1;
    for (size_t m = 0; m < c->terms; m++) {
        c->coef[m] = (float)coef; /* of (q.k)^m with temperature 2 */
        coef /= 2.0 * (double)(m + 1);
    }
    const size_t f = sizeof(float), n = c->chunk;
    c->runs = contend_runs(c->d, c->terms, &c->run_count);
    c->weight = contend_weights(c->d, c->terms);
    c->state = bench_memory(c->features * c->dv * f);
    c->ones = bench_memory((c->features + 32) * f);
    c->psi = bench_memory((n * c->ldp + 16) * f);
    c->phi = bench_memory(c->block * n * f);
    c->base_k = bench_memory((n * c->ldb + 16) * f);
    c->base_t = bench_memory(c->base * n * f);
    c->xt = bench_memory(c->d * n * f);
    c->p = bench_memory(n * n * f);
    c->den = bench_memory(n * f);
    bool ok = c->runs && c->weight && c->state && c->ones && c->psi && c->phi && c->base_k &&
              c->base_t && c->xt && c->p && c->den;
    if (ok) {
        ok = prepare_stage(c, &c->stage, c->chunk);
        if (ok && problem->n % c->chunk)
            ok = prepare_stage(c, &c->tail, problem->n % c->chunk);
    }
    if (!ok) {
        taylor_destroy(&c->head);
        return NULL;
    }
    return &c->head;
}

static void taylor_destroy(struct bench_contender *contender)
{
    struct taylor *c = (struct taylor *)contender;
    void *const memory[] = {c->runs,   c->weight, c->state, c->ones, c->psi, c->phi,
                            c->base_k, c->base_t, c->xt,    c->p,    c->den};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
    free(c);
}

/* Degrees 0 and 1 as they are, 2..terms-2 by their runs. */
static void fill_base(struct taylor *c, size_t tokens, const float *q, const float *k)
{
    const size_t d = c->d;
    for (size_t t = 0; t < tokens; t++) {
        c->base_k[t * c->ldb] = 1;
        c->base_t[t] = 1;
    }
    if (c->terms >= 3)
        c->loops->copy(tokens, d, q, d, 1, c->base_k + 1, c->ldb);
    c->loops->transpose(tokens, d, k, c->xt);
    if (c->terms >= 3)
        memcpy(c->base_t + tokens, c->xt, d * tokens * sizeof *c->xt);
    for (size_t m = 2; m + 1 < c->terms; m++) {
        const struct contend_run_of *runs = c->runs + (m - 2) * d;
        const struct contend_slice s = {runs, d, 0, c->base, tokens, d};
        c->loops->features_k(&s, q, c->base_k, c->ldb, NULL, c->base_k, c->ldb);
        c->loops->features_t(&s, c->xt, c->base_t, c->base_t);
    }
}

/* Features f0..f1-1 of the chunk: psi token-major, phi feature-major. */
static void fill_features(struct taylor *c, size_t n, size_t f0, size_t f1, const float *q)
{
    const struct contend_loops *loops = c->loops;
    const size_t first = f0 > 1 ? f0 : 1, end = f1 < 1 + c->d ? f1 : 1 + c->d;

    for (size_t t = 0; f0 == 0 && t < n; t++) {
        c->psi[t * c->ldp] = c->weight[0];
        c->phi[t] = 1;
    }
    if (c->terms >= 2 && first < end) {
        loops->copy(n, end - first, q + first - 1, c->d, c->coef[1], c->psi + first - f0, c->ldp);
        memcpy(c->phi + (first - f0) * n, c->xt + (first - 1) * n,
               (end - first) * n * sizeof *c->phi);
    }
    const struct contend_slice s = {c->runs, c->run_count, f0, f1, n, c->d};
    loops->features_k(&s, q, c->base_k, c->ldb, c->weight, c->psi, c->ldp);
    loops->features_t(&s, c->xt, c->base_t, c->phi);
}

static void step(struct taylor *c, const struct stage *s, const float *q, const float *k,
                 const float *v, float *o)
{
    const struct contend_loops *loops = c->loops;
    const size_t n = s->c;

    fill_base(c, n, q, k);
    memset(c->den, 0, n * sizeof *c->den);
    for (size_t f0 = 0; f0 < c->features; f0 += c->block) {
        const size_t f1 = f0 + c->block < c->features ? f0 + c->block : c->features;
        const int last = f1 == c->features;
        fill_features(c, n, f0, f1, q);
        c->backend->run(f0 ? &s->query[last] : &s->query_first[last], c->psi, c->state + f0 * c->dv,
                        o);
        loops->query_ones(n, f1 - f0, c->psi, c->ldp, c->ones + f0, c->den);
        c->backend->run(&s->update[last], c->phi, v, c->state + f0 * c->dv);
        loops->update_ones(f1 - f0, n, c->phi, c->ones + f0);
    }
    for (size_t b = 0; b < s->blocks; b++) {
        const size_t r0 = s->row[b], r1 = s->row[b + 1];
        c->backend->run(&s->scores[b], q + r0 * c->d, c->xt, c->p);
        loops->kernel(r1 - r0, r1, r0, c->terms, c->coef, c->p, r1, c->den + r0);
        c->backend->run(&s->weigh[b], c->p, v, o + r0 * c->dv);
    }
    loops->divide(n, c->dv, c->den, o);
}

static void taylor_run(struct bench_contender *contender, size_t n, const float *q, const float *k,
                       const float *v, float *o)
{
    struct taylor *c = (struct taylor *)contender;
    memset(c->state, 0, c->features * c->dv * sizeof *c->state);
    memset(c->ones, 0, c->features * sizeof *c->ones);
    for (size_t t = 0; t < n; t += c->chunk) {
        const struct stage *s = n - t < c->chunk ? &c->tail : &c->stage;
        step(c, s, q + t * c->d, k + t * c->d, v + t * c->dv, o + t * c->dv);
    }
}
