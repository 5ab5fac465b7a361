/* SPDX-License-Identifier: MIT */
/* The kernels for f32 on NEON. */
#define TSA_TABLE tsa_kernels_neon_f32
#include "f32.h"
#include "v_neon.h"
#include "elements_tmpl.h"
