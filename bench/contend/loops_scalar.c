/* SPDX-License-Identifier: MIT */
/* The contenders' loops on plain C: one lane, fma() of the C library or the compiler. */
#include <math.h>
#include <string.h>

#include "loops.h"

typedef float VF;
typedef float VU;
#define LANES 1
#define SET_F(x) (x)
#define FMA_F(a, b, c) fmaf(a, b, c)
#define SUM_F(w) (w)
#define MASK_F(w, m) (*(m) ? (w) : 0.0f)
#define EXP_F(x) expf(x)
#define MAX_F(a, b) ((a) > (b) ? (a) : (b))
#define TOP_F(w) (w)
#define REDUCE_F(p) ((p)[0])
#define HAND_VECTORS 4
#include "loops_tmpl.h"
#include "plain_tmpl.h"
#include "softmax_tmpl.h"

CONTEND_UNIT(scalar);
