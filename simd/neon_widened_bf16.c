/* SPDX-License-Identifier: MIT */
/* The kernels for pairs of bf16 on any CPU with NEON. */
#define TSA_TABLE tsa_kernels_neon_widened_bf16
#define TSA_TABLE_NAME "neon"
#define TSA_TABLE_FAST false
#include "f32.h"
#include "v_neon.h"
#include "widened_pairs.h"
#include "pairs_tmpl.h"
