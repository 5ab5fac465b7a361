/* SPDX-License-Identifier: MIT */
/* The arithmetic type of a unit: f32. */
#include "unit.h"

#define T float
#define ARGS TSA_ARGS_F32
#define TSA_F64 0
#define BITS uint32_t /* an integer of the size of T */
#define FRACTION 23   /* bits of the fraction of T */
#define BIAS 127      /* of its exponent */
#define CANONICAL_NAN UINT32_C(0x7fc00000)
#define T_FMA fmaf
#include "element_tmpl.h"
