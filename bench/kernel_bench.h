/* SPDX-License-Identifier: MIT */
/* What the benches of kernels share. */
#ifndef TSA_KERNEL_BENCH_H
#define TSA_KERNEL_BENCH_H

#include "bench.h"
#include "internal.h"

struct kernel_cost {
    double flops, bytes; /* of one call: useful operations, arrays touched once */
};

/* A table of kernels of one type, and where its figures go. */
struct kernel_table {
    struct bench_rows *rows;
    struct bench_timing timing;
    const struct bench_problem *problem; /* the shape */
    size_t chunk;
    const char *isa, *operands;
    double peak; /* GFLOP/s */
};

/* Time a call of a kernel, and put a row; false if it cannot be timed. */
bool kernel_time(const struct kernel_table *table, const char *name,
                 struct kernel_cost (*call)(void *operands), void *operands);

/* Every kernel of one table of products of pairs; false if one could not be timed. */
bool kernel_table_pairs(const struct kernel_table *table, const struct tsa_pair_kernels_f32 *pairs);

#endif
