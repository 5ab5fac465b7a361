/* SPDX-License-Identifier: MIT */
/* The kernels for f64 on AVX-512, built with TSA_AVX512_CFLAGS. */
#define TSA_TABLE tsa_kernels_avx512_f64
#include "f64.h"
#include "v_avx512.h"
#include "elements_tmpl.h"
