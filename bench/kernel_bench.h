/* SPDX-License-Identifier: MIT */
/* What the benches of kernels share. */
#ifndef TSA_KERNEL_BENCH_H
#define TSA_KERNEL_BENCH_H

#include "bench.h"
#include "internal.h"

struct kernel_cost {
    double flops, bytes; /* of one call: useful operations, arrays touched once */
};

void kernel_print(const struct bench_options *options, const char *isa, const char *operands,
                  const char *name, const struct bench_stats *stats, struct kernel_cost cost,
                  double peak);

/* Every kernel of one table of products of pairs; false if one could not be timed. */
bool kernel_table_pairs(const struct bench_options *options, const struct tsa_pair_kernels_f32 *pairs,
                        const struct bench_problem *problem, size_t chunk, double peak);

#endif
