/* SPDX-License-Identifier: MIT */
/* The benchmark's loops on NEON (AArch64). */
#include <arm_neon.h>
#include <math.h>
#include <sleef.h>
#include <string.h>

#include "unit.h"

#ifndef __aarch64__
#error "peak_neon.c is for AArch64"
#endif

typedef float32x4_t VF;
typedef float64x2_t VD;
typedef float VU __attribute__((vector_size(16), aligned(4), may_alias));
typedef int VI __attribute__((vector_size(16), aligned(4), may_alias));
#define LANES 4
#define SET_F(x) vdupq_n_f32(x)
#define SET_D(x) vdupq_n_f64(x)
#define FMA_F(a, b, c) vfmaq_f32(c, a, b)
#define FMA_D(a, b, c) vfmaq_f64(c, a, b)
#define MASK_F(w, m) (VF)((VI)(w) & *(const VI *)(m))
#define SUM_F(w) vaddvq_f32(w)
#define EXP_F(x) Sleef_finz_expf4_u10advsimd(x)
#define MAX_F(a, b) vmaxq_f32(a, b)
#define TOP_F(w) vmaxvq_f32(w)
#define REDUCE_F(p) vpaddq_f32(vpaddq_f32((p)[0], (p)[1]), vpaddq_f32((p)[2], (p)[3]))
#define HAND_VECTORS 4
#define REGISTER "w"
#include "contender_tmpl.h"
#include "contender_softmax_tmpl.h"
#include "peak_tmpl.h"

const struct bench_unit bench_unit_neon = {
    "neon",          LANES,           LANES / 2,
    PEAK_CHAINS,     peak_f32,        peak_f64,
    peak_read,       CONTENDER_LOOPS, CONTENDER_SOFTMAX_LOOPS,
    TSA_BENCH_FLAGS,
};
