/* SPDX-License-Identifier: MIT */
/* The arithmetic type of a unit: f64. */
#include "unit.h"

#define T double
#define ARGS TSA_ARGS_F64
#define TSA_F64 1
#define BITS uint64_t /* an integer of the size of T */
#define FRACTION 52   /* bits of the fraction of T */
#define BIAS 1023     /* of its exponent */
#define CANONICAL_NAN UINT64_C(0x7ff8000000000000)
#define T_FMA fma
#include "element_tmpl.h"
