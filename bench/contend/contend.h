/* SPDX-License-Identifier: MIT */
/* Other ways to compute what the library computes, to be timed beside it. */
#ifndef TSA_CONTEND_H
#define TSA_CONTEND_H

#include <stdbool.h>
#include <stddef.h>

#include "bench.h"
#include "loops.h"

/* -- for those who time them ------------------------------------------------------------------ */

/* What `tsa bench` is started with. */
extern const struct bench_contenders contend_all;
/* The i-th contender for this problem with the vectors of that instruction set: NULL past the end,
 * or when it cannot be made. */
struct bench_contender *contend_create(size_t i, const struct bench_problem *problem,
                                       const char *isa);
/* One line about each library behind them. */
void contend_describe(FILE *file, const char *prefix);

/* Libraries that are loaded when they are asked for. The first of these that is there, the names
 * ending with NULL; or NULL. For OpenBLAS and what may stand on it: it will use one thread, and the
 * core that it chooses itself. */
void *contend_library(const char *const *names);
/* Set the function pointer at `function`; false if the library has no such function. */
bool contend_library_find(void *library, const char *name, void *function);

/* -- among the contenders --------------------------------------------------------------------- */

/* The i-th of each kind, or NULL. */
struct bench_contender *contend_taylor(size_t i, const struct bench_problem *problem,
                                       const struct contend_unit *unit);
struct bench_contender *contend_softmax(size_t i, const struct bench_problem *problem,
                                        const struct contend_unit *unit);
struct bench_contender *contend_plain(size_t i, const struct bench_problem *problem,
                                      const struct contend_unit *unit);

/* Runs of the features of degrees 2 to terms-1, and what the product of a query's and a key's
 * feature counts: the coefficient for temperature 2 times the multiplicity. To be freed; NULL
 * without memory. */
struct contend_run_of *contend_runs(size_t d, size_t terms, size_t *count);
float *contend_weights(size_t d, size_t terms);

/* Row-major C[m][n] = A[m][k] B[k][n] + beta C, prepared once for its shape. */
struct contend_gemm {
    int m, n, k, lda, ldb, ldc;
    float beta;
    bool transposed;      /* B is given as [n][k] */
    void (*kernel)(void); /* of the backend */
};

struct contend_backend {
    const char *name;
    bool (*start)(void); /* false if the library is not there; NULL: not built */
    bool (*prepare)(struct contend_gemm *gemm);
    void (*run)(const struct contend_gemm *gemm, const float *a, const float *b, float *c);
    /* y = alpha A x, or alpha A^T x if transposed; A is m x n in contiguous rows. May be NULL. */
    void (*run_vector)(bool transposed, int m, int n, float alpha, const float *a, const float *x,
                       float *y);
    const char *(*describe)(void);
};

extern const struct contend_backend contend_openblas;
extern const struct contend_backend contend_xsmm;
/* Whether the library behind it is there. */
bool contend_start(const struct contend_backend *backend);

#endif
