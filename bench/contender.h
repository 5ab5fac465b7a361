/* SPDX-License-Identifier: MIT */
/* The matrix product that a contender stands on. */
#ifndef TSA_BENCH_CONTENDER_H
#define TSA_BENCH_CONTENDER_H

#include <stdbool.h>

/* Row-major C[m][n] = A[m][k] B[k][n] + beta C, prepared once for its shape. */
struct contender_gemm {
    int m, n, k, lda, ldb, ldc;
    float beta;
    void (*kernel)(void); /* of the backend */
};

struct contender_backend {
    const char *name;
    bool (*start)(void); /* false if the library is not there */
    bool (*prepare)(struct contender_gemm *gemm);
    void (*run)(const struct contender_gemm *gemm, const float *a, const float *b, float *c);
    const char *(*describe)(void);
};

extern const struct contender_backend contender_openblas;
extern const struct contender_backend contender_xsmm;

#endif
