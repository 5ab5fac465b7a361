/* SPDX-License-Identifier: MIT */
/* libxsmm as a contender: a kernel is generated for every shape before the clock starts. */
#include "config.h"

#include "contender.h"

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
static bool xsmm_prepare(struct contender_gemm *g)
{
    if (g->turned)
        return false;
    const float one = 1, beta = g->beta;
    const int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    g->kernel = (void (*)(void))libxsmm_smmdispatch(g->n, g->m, g->k, &g->ldb, &g->lda, &g->ldc,
                                                    &one, &beta, &flags, &prefetch);
    return g->kernel;
}

static void xsmm_run(const struct contender_gemm *g, const float *a, const float *b, float *c)
{
    ((libxsmm_smmfunction)g->kernel)(b, a, c);
}

#else

static bool xsmm_start(void)
{
    return false;
}
static bool xsmm_prepare(struct contender_gemm *g)
{
    (void)g;
    return false;
}
static void xsmm_run(const struct contender_gemm *g, const float *a, const float *b, float *c)
{
    (void)g;
    (void)a;
    (void)b;
    (void)c;
}
static const char description[] = "not built";

#endif

static const char *xsmm_describe(void)
{
    return description;
}

const struct contender_backend contender_xsmm = {
    .name = "libxsmm",
    .start = xsmm_start,
    .prepare = xsmm_prepare,
    .run = xsmm_run,
    .describe = xsmm_describe,
};
