/* SPDX-License-Identifier: MIT */
/* Every f64 kernel of every usable table against a model and a reference. */
#define TEST_F64 1
#define TEST_PAIRS 0
#include "kernels_suite_tmpl.h"
