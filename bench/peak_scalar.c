/* SPDX-License-Identifier: MIT */
/* The benchmark's loops on plain C: one lane, fma() of the C library or the compiler. */
#include <math.h>

#include "peak.h"

typedef float VF;
typedef double VD;
#define SET_F(x) (x)
#define SET_D(x) (x)
#define FMA_F(a, b, c) fmaf(a, b, c)
#define FMA_D(a, b, c) fma(a, b, c)
#if defined(__SSE2__)
#define REGISTER "x"
#elif defined(__aarch64__)
#define REGISTER "w"
#else
#define REGISTER "m"
#endif
#include "peak_tmpl.h"

PEAK_UNIT(scalar);
