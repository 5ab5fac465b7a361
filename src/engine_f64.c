/* SPDX-License-Identifier: MIT */
/* The engine in double. */
#include "config.h"

#include <math.h>

#include "call.h"

#define T double
#define ARGS TSA_ARGS_F64
#define OTHER float
#define TSA_DTYPE TSA_F64
#define PRODUCTS struct tsa_products_f64
#define KERNELS(plan) ((plan)->isa->f64)
#define PAIR_KERNELS(plan)                                                                         \
    ((const struct tsa_pair_kernels_f64 *)(const void *)(plan)->pair_kernels) /* for no plan */
#define FINISH(plan) (&(plan)->finish_f64)
#define ENGINE tsa_engine_f64
#include "engine_tmpl.h"
