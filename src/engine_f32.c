/* SPDX-License-Identifier: MIT */
/* The engine in float. */
#include "config.h"

#include <math.h>

#include "call.h"

#define T float
#define ARGS TSA_ARGS_F32
#define OTHER double
#define TSA_DTYPE TSA_F32
#define PRODUCTS struct tsa_products_f32
#define KERNELS(plan) ((plan)->isa->f32)
#define PAIR_KERNELS(plan) ((plan)->pair_kernels)
#define FINISH(plan) (&(plan)->finish_f32)
#define ENGINE tsa_engine_f32
#include "engine_tmpl.h"
