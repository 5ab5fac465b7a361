/* SPDX-License-Identifier: MIT */
/* The kernels for f32 on any CPU, in plain C. */
#define TSA_TABLE tsa_kernels_scalar_f32
#include "f32.h"
#include "v_scalar.h"
#include "elements_tmpl.h"
