/* SPDX-License-Identifier: MIT */
/* Which contenders there are for a problem. */
#include "config.h"

#include <string.h>

#include "contend.h"

static const struct contend_unit *find_unit(const char *isa)
{
    static const struct contend_unit *const units[] = {
#ifdef TSA_HAVE_AVX512
        &contend_unit_avx512,
#endif
#ifdef TSA_HAVE_AVX2
        &contend_unit_avx2,
#endif
#ifdef TSA_HAVE_NEON
        &contend_unit_neon,
#endif
        &contend_unit_scalar,
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i]->name, isa) == 0)
            return units[i];
    return NULL;
}

struct bench_contender *contend_create(size_t i, const struct bench_problem *problem,
                                       const char *isa)
{
    const struct contend_unit *unit = find_unit(isa);
    if (!unit || (problem->kv_heads && problem->kv_heads != problem->heads))
        return NULL;
    switch (problem->op) {
    case BENCH_PREFILL:
        return contend_taylor(i, problem, unit);
    case BENCH_SOFTMAX:
    case BENCH_SOFTMAX_DECODE:
        return contend_softmax(i, problem, unit);
    case BENCH_DECODE:
        return contend_plain(i, problem, unit);
    case BENCH_ABSORB:
        return NULL;
    }
    return NULL;
}

bool contend_start(const struct contend_backend *backend)
{
    return backend->start && backend->start();
}

void contend_describe(FILE *file, const char *prefix)
{
    const struct contend_backend *const backends[] = {&contend_xsmm, &contend_openblas};
    for (size_t i = 0; i < 2; i++)
        fprintf(file, "%s%-12s %s\n", prefix, backends[i]->name,
                contend_start(backends[i]) ? backends[i]->describe() : "not built or not found");
}

const struct bench_contenders contend_all = {
    .create = contend_create,
    .describe = contend_describe,
};
