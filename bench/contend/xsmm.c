/* SPDX-License-Identifier: MIT */
/* libxsmm as a contender: a kernel is generated for every shape before the clock starts. */
#include "config.h"

#include "contend.h"

#ifdef TSA_BENCH_XSMM

#include <libxsmm.h>
#include <stdio.h>

static char description[160];

static bool xsmm_start(void)
{
    libxsmm_init();
    snprintf(description, sizeof description, "libxsmm %s, target %s", LIBXSMM_VERSION,
             libxsmm_get_target_arch());
    return true;
}

/* Its matrices are column-major: C^T = B^T A^T, and a row-major matrix read so is its transpose. */
static bool xsmm_prepare(struct contend_gemm *g)
{
    if (g->transposed)
        return false;
    const float one = 1, beta = g->beta;
    const int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    g->kernel = (void (*)(void))libxsmm_smmdispatch(g->n, g->m, g->k, &g->ldb, &g->lda, &g->ldc,
                                                    &one, &beta, &flags, &prefetch);
    return g->kernel;
}

static void xsmm_run(const struct contend_gemm *g, const float *a, const float *b, float *c)
{
    ((libxsmm_smmfunction)g->kernel)(b, a, c);
}

static const char *xsmm_describe(void)
{
    return description;
}

const struct contend_backend contend_xsmm = {
    .name = "libxsmm",
    .start = xsmm_start,
    .prepare = xsmm_prepare,
    .run = xsmm_run,
    .describe = xsmm_describe,
};

#else

const struct contend_backend contend_xsmm = {.name = "libxsmm"};

#endif
