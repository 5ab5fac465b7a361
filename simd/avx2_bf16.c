/* SPDX-License-Identifier: MIT */
/* The kernels for pairs of bf16 on AVX2, built with TSA_AVX2_CFLAGS. */
#define TSA_TABLE tsa_kernels_avx2_bf16
#define TSA_TABLE_NAME "avx2"
#define TSA_TABLE_FAST false
#include "f32.h"
#include "v_avx2.h"
#include "widened_pairs.h"
#include "pairs_tmpl.h"
