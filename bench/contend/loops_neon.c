/* SPDX-License-Identifier: MIT */
/* The contenders' loops on NEON (AArch64). */
#include <arm_neon.h>
#include <math.h>
#include <sleef.h>
#include <string.h>

#include "loops.h"

#ifndef __aarch64__
#error "loops_neon.c is for AArch64"
#endif

typedef float32x4_t VF;
typedef float VU __attribute__((vector_size(16), aligned(4), may_alias));
typedef int VI __attribute__((vector_size(16), aligned(4), may_alias));
#define LANES 4
#define SET_F(x) vdupq_n_f32(x)
#define FMA_F(a, b, c) vfmaq_f32(c, a, b)
#define MASK_F(w, m) (VF)((VI)(w) & *(const VI *)(m))
#define SUM_F(w) vaddvq_f32(w)
#define EXP_F(x) Sleef_finz_expf4_u10advsimd(x)
#define MAX_F(a, b) vmaxq_f32(a, b)
#define TOP_F(w) vmaxvq_f32(w)
#define REDUCE_F(p) vpaddq_f32(vpaddq_f32((p)[0], (p)[1]), vpaddq_f32((p)[2], (p)[3]))
#define HAND_VECTORS 4
#include "loops_tmpl.h"
#include "plain_tmpl.h"
#include "softmax_tmpl.h"

CONTEND_UNIT(neon);
