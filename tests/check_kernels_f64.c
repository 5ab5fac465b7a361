/* SPDX-License-Identifier: MIT */
/* Every f64 kernel of every usable table against a model and a reference. */
#define TEST_F64 1
#include "kernels_suite_tmpl.h"
