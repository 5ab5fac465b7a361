/* SPDX-License-Identifier: MIT */
/* The kernels for f64 on any CPU, in plain C. */
#define TSA_TABLE tsa_kernels_scalar_f64
#include "f64.h"
#include "v_scalar.h"
#include "elements_tmpl.h"
