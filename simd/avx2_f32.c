/* SPDX-License-Identifier: MIT */
/* The kernels for f32 on AVX2, FMA and F16C, built with TSA_AVX2_CFLAGS. */
#define TSA_TABLE tsa_kernels_avx2_f32
#include "f32.h"
#include "v_avx2.h"
#include "elements_tmpl.h"
