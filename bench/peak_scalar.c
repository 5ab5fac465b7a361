/* SPDX-License-Identifier: MIT */
/* The benchmark's loops on plain C: one lane, fma() of the C library or the compiler. */
#include <math.h>
#include <string.h>

#include "unit.h"

typedef float VF;
typedef double VD;
typedef float VU;
#define LANES 1
#define SET_F(x) (x)
#define SET_D(x) (x)
#define FMA_F(a, b, c) fmaf(a, b, c)
#define FMA_D(a, b, c) fma(a, b, c)
#define SUM_F(w) (w)
#define MASK_F(w, m) (*(m) ? (w) : 0.0f)
#define EXP_F(x) expf(x)
#define MAX_F(a, b) ((a) > (b) ? (a) : (b))
#define TOP_F(w) (w)
#define REDUCE_F(p) ((p)[0])
#define HAND_VECTORS 4
#if defined(__SSE2__)
#define REGISTER "x"
#elif defined(__aarch64__)
#define REGISTER "w"
#else
#define REGISTER "m"
#endif
#include "contender_tmpl.h"
#include "contender_softmax_tmpl.h"
#include "peak_tmpl.h"

const struct bench_unit bench_unit_scalar = {
    "scalar",        LANES,           LANES,
    PEAK_CHAINS,     peak_f32,        peak_f64,
    peak_read,       CONTENDER_LOOPS, CONTENDER_SOFTMAX_LOOPS,
    TSA_BENCH_FLAGS,
};
