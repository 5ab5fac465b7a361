/* SPDX-License-Identifier: MIT */
/* OpenBLAS as a contender, loaded when asked for. */
#include "config.h"

#include "contend.h"

#ifdef TSA_BENCH_OPENBLAS

#include <stdio.h>

/* cblas.h: row major 101, no transposition 111, transposed 112 */
typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);
typedef void (*sgemv_fn)(int order, int ta, int m, int n, float alpha, const float *a, int lda,
                         const float *x, int incx, float beta, float *y, int incy);
typedef void (*set_threads_fn)(int);
typedef char *(*text_fn)(void);

static sgemm_fn sgemm;
static sgemv_fn sgemv;
static char description[320];

static bool openblas_start(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib",
                                        NULL};
    void *library;
    set_threads_fn set_threads;
    text_fn config, core;

    if (sgemm)
        return true;
    library = contend_library(names);
    if (!library || !contend_library_find(library, "openblas_set_num_threads", &set_threads) ||
        !contend_library_find(library, "openblas_get_config", &config) ||
        !contend_library_find(library, "openblas_get_corename", &core) ||
        !contend_library_find(library, "cblas_sgemv", &sgemv) ||
        !contend_library_find(library, "cblas_sgemm", &sgemm))
        return false;
    set_threads(1);
    snprintf(description, sizeof description, "%s, core %s, 1 thread", config(), core());
    return true;
}

static bool openblas_prepare(struct contend_gemm *gemm)
{
    (void)gemm;
    return true;
}

static void openblas_run(const struct contend_gemm *g, const float *a, const float *b, float *c)
{
    sgemm(101, 111, g->transposed ? 112 : 111, g->m, g->n, g->k, 1.0f, a, g->lda, b, g->ldb,
          g->beta, c, g->ldc);
}

static void openblas_run_vector(bool transposed, int m, int n, float alpha, const float *a,
                                const float *x, float *y)
{
    sgemv(101, transposed ? 112 : 111, m, n, alpha, a, n, x, 1, 0.0f, y, 1);
}

static const char *openblas_describe(void)
{
    return description;
}

const struct contend_backend contend_openblas = {
    .name = "openblas",
    .start = openblas_start,
    .prepare = openblas_prepare,
    .run = openblas_run,
    .run_vector = openblas_run_vector,
    .describe = openblas_describe,
};

#else

const struct contend_backend contend_openblas = {.name = "openblas"};

#endif
