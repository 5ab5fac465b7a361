/* SPDX-License-Identifier: MIT */
/* The benchmark's loop on BFMLALB and BFMLALT of FEAT_BF16, two instructions for a pair. */
#ifndef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#error "peak_neonbf16.c must be built with TSA_NEONBF16_CFLAGS"
#endif
#include <arm_neon.h>

#include "peak.h"

typedef float32x4_t VF;
typedef bfloat16x8_t VB;
#define SET_F(x) vdupq_n_f32(x)
/* The asm keeps gcc 12 from seeing a constant of bf16, which it writes as one of fp16. */
static inline VB set_pairs(unsigned bits)
{
    uint32x4_t v = vdupq_n_u32(bits);
    __asm__("" : "+w"(v));
    return vreinterpretq_bf16_u32(v);
}
#define SET_B(even, odd) set_pairs((unsigned)(odd) << 16 | (even))
#define DOT(a, b, c) vbfmlalbq_f32(vbfmlaltq_f32(a, b, c), b, c)
#define REGISTER "w"
#include "peak_pairs_tmpl.h"

const struct bench_pairs_unit bench_pairs_neonbf16 = {"neon_bf16", PEAK_PAIRS_FLOPS, peak_pairs};
