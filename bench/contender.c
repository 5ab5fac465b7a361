/* SPDX-License-Identifier: MIT */
/* The contenders of every kind of problem: which there are, and their common ways. */
#include "config.h"

#include <math.h>

#include "bench.h"
#include "contender.h"

struct contender *contender_create(size_t i, const struct bench_problem *problem,
                                   const struct bench_unit *unit)
{
    if (problem->kv_heads && problem->kv_heads != problem->heads)
        return NULL;
    switch (problem->op) {
    case BENCH_PREFILL:
        return contender_taylor(i, problem, unit);
    case BENCH_SOFTMAX:
        return contender_softmax(i, problem, unit);
    case BENCH_SOFTMAX_DECODE:
        return contender_softmax_decode(i, problem, unit);
    case BENCH_DECODE:
    case BENCH_ABSORB:
        return NULL;
    }
    return NULL;
}

void contender_destroy(struct contender *c)
{
    if (c)
        c->destroy(c);
}

const char *contender_name(const struct contender *c)
{
    return c->name;
}

size_t contender_chunk(const struct contender *c)
{
    return c->chunk;
}

void contender_run(struct contender *c, size_t n, const float *q, const float *k, const float *v,
                   float *o)
{
    c->run(c, n, q, k, v, o);
}

void contender_run_all(struct contender *c, const struct bench_problem *p,
                       const struct bench_inputs *in)
{
    const size_t first = bench_is_decode(p->op) ? p->n - 1 : 0;
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            contender_run(c, p->n, bench_at(&in->q, b, h, first).data,
                          bench_at(&in->k, b, h, 0).data, bench_at(&in->v, b, h, 0).data,
                          bench_at(&in->o, b, h, 0).data);
}

/* So that outputs of one before do not pass for those of another. */
static void spoil(const struct bench_problem *p, const struct bench_inputs *in, size_t rows)
{
    for (size_t b = 0; b < p->batch; b++) {
        for (size_t h = 0; h < p->heads; h++) {
            float *o = bench_at(&in->o, b, h, 0).data;
            for (size_t i = 0; i < rows * p->dv; i++)
                o[i] = NAN;
        }
    }
}

double contender_error(struct contender *c, const struct bench_problem *p,
                       const struct bench_inputs *in)
{
    const size_t rows = bench_is_decode(p->op) ? 1 : p->n, step = rows / 11 + 1;
    const size_t b = p->batch - 1, h = p->heads - 1;
    double worst = 0;
    spoil(p, in, rows);
    contender_run_all(c, p, in);
    for (size_t t = 0; t < rows; t = t + step < rows || t == rows - 1 ? t + step : rows - 1) {
        const size_t row = p->n - rows + t;
        worst = bench_worse(
            worst, bench_row_error(in, p, b, h, row, row + 1, bench_at(&in->o, b, h, t).data));
    }
    return worst;
}

void contender_describe(FILE *file, const char *prefix)
{
    const struct contender_backend *const backends[] = {&contender_xsmm, &contender_openblas};
    for (size_t i = 0; i < 2; i++)
        fprintf(file, "%s%-12s %s\n", prefix, backends[i]->name,
                backends[i]->start() ? backends[i]->describe() : "not built or not found");
}
