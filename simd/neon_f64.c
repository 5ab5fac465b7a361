/* SPDX-License-Identifier: MIT */
/* The kernels for f64 on NEON. */
#define TSA_TABLE tsa_kernels_neon_f64
#include "f64.h"
#include "v_neon.h"
#include "elements_tmpl.h"
