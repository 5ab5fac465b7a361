/* SPDX-License-Identifier: MIT */
/* The benchmark's loops on NEON (AArch64). */
#include <arm_neon.h>

#include "peak.h"

#ifndef __aarch64__
#error "peak_neon.c is for AArch64"
#endif

typedef float32x4_t VF;
typedef float64x2_t VD;
#define SET_F(x) vdupq_n_f32(x)
#define SET_D(x) vdupq_n_f64(x)
#define FMA_F(a, b, c) vfmaq_f32(c, a, b)
#define FMA_D(a, b, c) vfmaq_f64(c, a, b)
#define REGISTER "w"
#include "peak_tmpl.h"

PEAK_UNIT(neon);
