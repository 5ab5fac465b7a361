/* SPDX-License-Identifier: MIT */
/* The kernels for f32 on AVX-512, built with TSA_AVX512_CFLAGS. */
#define TSA_TABLE tsa_kernels_avx512_f32
#include "f32.h"
#include "v_avx512.h"
#include "elements_tmpl.h"
