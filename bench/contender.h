/* SPDX-License-Identifier: MIT */
/* What the files of the contenders share: the contender itself, and the matrix product on which
 * most of them stand. */
#ifndef TSA_BENCH_CONTENDER_H
#define TSA_BENCH_CONTENDER_H

#include <stdbool.h>
#include <stddef.h>

struct bench_problem;
struct bench_unit;

/* The first member of every contender. */
struct contender {
    char name[32];
    size_t chunk; /* tokens of a chunk; of softmax the keys of a tile */
    void (*run)(struct contender *c, size_t n, const float *q, const float *k, const float *v,
                float *o);
    void (*destroy)(struct contender *c);
};

/* The i-th of each kind, or NULL. */
struct contender *contender_taylor(size_t i, const struct bench_problem *problem,
                                   const struct bench_unit *unit);
struct contender *contender_softmax(size_t i, const struct bench_problem *problem,
                                    const struct bench_unit *unit);
struct contender *contender_softmax_decode(size_t i, const struct bench_problem *problem,
                                           const struct bench_unit *unit);

/* Row-major C[m][n] = A[m][k] B[k][n] + beta C, prepared once for its shape. */
struct contender_gemm {
    int m, n, k, lda, ldb, ldc;
    float beta;
    bool turned;          /* B is given as [n][k] */
    void (*kernel)(void); /* of the backend */
};

struct contender_backend {
    const char *name;
    bool (*start)(void); /* false if the library is not there */
    bool (*prepare)(struct contender_gemm *gemm);
    void (*run)(const struct contender_gemm *gemm, const float *a, const float *b, float *c);
    /* y = alpha A x, or alpha A^T x if turned, A being m x n in contiguous rows. May be NULL. */
    void (*run_vector)(bool turned, int m, int n, float alpha, const float *a, const float *x,
                       float *y);
    const char *(*describe)(void);
};

extern const struct contender_backend contender_openblas;
extern const struct contender_backend contender_xsmm;

#endif
