/* SPDX-License-Identifier: MIT */
/* The kernels for f64 on AVX2, FMA and F16C, built with TSA_AVX2_CFLAGS. */
#define TSA_TABLE tsa_kernels_avx2_f64
#include "f64.h"
#include "v_avx2.h"
#include "elements_tmpl.h"
