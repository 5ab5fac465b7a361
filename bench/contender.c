/* SPDX-License-Identifier: MIT */
/* The contenders of every kind of problem: which there are, and their common ways. */
#include "config.h"

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

void contender_describe(FILE *file, const char *prefix)
{
    const struct contender_backend *const backends[] = {&contender_xsmm, &contender_openblas};
    for (size_t i = 0; i < 2; i++)
        fprintf(file, "%s%-12s %s\n", prefix, backends[i]->name,
                backends[i]->start() ? backends[i]->describe() : "not built or not found");
}
