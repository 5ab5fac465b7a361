/* SPDX-License-Identifier: MIT */
/* The kernels for pairs of bf16 on any CPU, in plain C. */
#define TSA_TABLE tsa_kernels_scalar_bf16
#define TSA_TABLE_NAME "scalar"
#define TSA_TABLE_FAST false
#include "f32.h"
#include "v_scalar.h"
#include "widened_pairs.h"
#include "pairs_tmpl.h"
