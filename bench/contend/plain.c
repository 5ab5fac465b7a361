/* SPDX-License-Identifier: MIT */
/* Decoding as the first program that one writes for it: unit rows, all features, a rank-one update
 * of the state, and a read. On one thread in f32, each head by itself. */
#include "config.h"

#include <stdlib.h>

#include "contend.h"

struct plain {
    struct bench_contender head;
    struct contend_plain loops;
    void (*absorb)(const struct contend_plain *p, float *state, const float *k, const float *v);
    contend_plain_fn *step;
    size_t size; /* numbers of a state */
    float *states;
};

static void absorb(struct bench_contender *contender, size_t head, const float *k, const float *v)
{
    struct plain *c = (struct plain *)contender;
    c->absorb(&c->loops, c->states + head * c->size, k, v);
}

static void step(struct bench_contender *contender, size_t head, const float *q, const float *k,
                 const float *v, float *o)
{
    struct plain *c = (struct plain *)contender;
    c->step(&c->loops, c->states + head * c->size, &(const struct contend_token){q, k, v}, o);
}

static void destroy(struct bench_contender *contender)
{
    struct plain *c = (struct plain *)contender;
    void *const memory[] = {c->loops.runs, c->loops.weight, c->loops.psi,
                            c->loops.phi,  c->loops.sum,    c->states};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
    free(c);
}

struct bench_contender *contend_plain(size_t i, const struct bench_problem *problem,
                                      const struct contend_unit *unit)
{
    struct plain *c = i == 0 ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    struct contend_plain *p = &c->loops;
    p->d = problem->d;
    p->dv = problem->dv;
    p->terms = problem->terms;
    p->features = tsa_features(p->d, p->terms);
    p->width = (p->dv + 1 + 15) / 16 * 16; /* whole lines of cache */
    c->size = p->features * p->width;
    const size_t most = 1 + p->d + p->features; /* features of degree 1 are always written */
    p->runs = contend_runs(p->d, p->terms, &p->run_count);
    p->weight = contend_weights(p->d, p->terms);
    p->psi = bench_memory(most * sizeof *p->psi);
    p->phi = bench_memory(most * sizeof *p->phi);
    p->sum = bench_memory(p->dv * sizeof *p->sum);
    c->states = bench_memory(problem->batch * problem->heads * c->size * sizeof *c->states);
    /* a sum in f32 may lose half a unit with each token */
    const double lost = (double)problem->n * 0x1p-24, usual = bench_error_bound(TSA_F32);
    c->head = (struct bench_contender){.name = "plain_c",
                                       .chunk = 1,
                                       .absorb = absorb,
                                       .step = step,
                                       .bound = lost > usual ? lost : usual,
                                       .destroy = destroy};
    c->absorb = unit->plain.absorb;
    c->step = unit->plain.find(p->d, p->dv, p->terms);
    if (p->runs && p->weight && p->psi && p->phi && p->sum && c->states)
        return &c->head;
    destroy(&c->head);
    return NULL;
}
