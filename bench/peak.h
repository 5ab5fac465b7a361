/* SPDX-License-Identifier: MIT */
/* What the benchmark needs per instruction set: loops that find the limits of the machine. */
#ifndef TSA_BENCH_PEAK_H
#define TSA_BENCH_PEAK_H

#include <stddef.h>

struct bench_unit {
    const char *name;
    unsigned lanes_f32, lanes_f64;
    unsigned chains; /* independent fmas per round */
    void (*fma_f32)(size_t rounds);
    void (*fma_f64)(size_t rounds);
    /* Load `bytes` (a multiple of 1024) `rounds` times. */
    void (*read)(const void *memory, size_t bytes, size_t rounds);
    const char *flags; /* what it was compiled with */
};

extern const struct bench_unit bench_unit_scalar;
extern const struct bench_unit bench_unit_avx512;
extern const struct bench_unit bench_unit_avx2;
extern const struct bench_unit bench_unit_neon;

/* Products of pairs of bf16 that a CPU has instructions for; named as their kernels' table. */
struct bench_pairs_unit {
    const char *name;
    unsigned flops; /* of a round */
    void (*dot)(size_t rounds);
};

extern const struct bench_pairs_unit bench_pairs_avx512bf16;
extern const struct bench_pairs_unit bench_pairs_neonbf16;

#endif
